"""The emulated device as programs see it."""
