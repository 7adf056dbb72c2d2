"""What TITAN has to say about an input. Import the modules, not this package."""
