"""Rules on input and language (TTN0xx): one module a rule."""
