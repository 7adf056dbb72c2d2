"""Rules on tile programs (TTN6xx): one module a rule."""
