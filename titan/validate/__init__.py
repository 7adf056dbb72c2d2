"""What an emitted kernel is compared with: its emulation on a CPU, its machine code."""
