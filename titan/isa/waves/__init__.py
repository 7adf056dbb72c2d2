"""A machine of waves: what a launch of AMD assembly does, as far as control and memory go."""
