"""Rules on proxy fences and publication (TTN3xx): one module a rule."""
