"""What the hardware executes: the sync program, its meaning, and the reference interpreter."""
