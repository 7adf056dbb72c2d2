"""What an emitted kernel is held against: its emulation, its machine code."""
