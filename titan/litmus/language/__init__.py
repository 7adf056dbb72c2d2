"""A litmus test as data, and its text: instructions, conditions, files and expected verdicts."""
