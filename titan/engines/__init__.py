"""What decides a sync program; each engine shares only the program with the others."""
