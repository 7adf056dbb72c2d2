"""Is every synchronising operation needed, and would its loss be seen? Mutants of sync programs."""
