"""PTX with its launch: what one run of it does that synchronises, and the judgement on it."""
