"""Rules on schedules (TTN5xx): one module a rule."""
