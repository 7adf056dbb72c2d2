"""Runs with numbered values: which stores are shown to be equal, which loads are unused."""
