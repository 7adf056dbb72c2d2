"""Editor features for input files. `server` speaks the protocol; the rest needs no editor."""
