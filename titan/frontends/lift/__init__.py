"""What loops stand behind the launches of a kernel? From recordings to a kernel file."""
