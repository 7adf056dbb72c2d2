"""Rules on faults of TITAN itself (TTN9xx): one module a rule."""
