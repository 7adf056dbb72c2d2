"""What does an instruction do? Readers and machines of instruction sets."""
