"""Triton's intermediate representation for GPUs (TTGIR), from its text to a sync program."""
