"""What a run of AMD assembly did that synchronises, and the verdict on it."""
