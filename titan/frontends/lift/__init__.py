"""The loops behind the launches of a kernel: from recordings to a kernel file."""
