"""The language server and what it knows."""
