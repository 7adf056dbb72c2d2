"""What every engine shares of the memory model: its readings, its mutants, executions as data."""
