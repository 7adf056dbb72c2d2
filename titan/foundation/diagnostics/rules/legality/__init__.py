"""Rules on hardware legality and lowering (TTN4xx): one module a rule."""
