"""Is every synchronising operation needed, is its loss noticed? Mutants of sync programs."""
