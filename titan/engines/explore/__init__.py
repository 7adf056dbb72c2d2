"""Can it go wrong: exhaustive search of a sync program."""
