"""Rules on protocol typestate (TTN1xx): one module a rule."""
