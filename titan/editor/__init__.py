"""What editors ask about input files. `server` speaks the protocol; the rest needs no editor."""
