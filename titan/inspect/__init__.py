"""What does the machine code of a kernel do in its loops? Listings, loops, counts by class."""
