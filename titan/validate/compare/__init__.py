"""What the toolchains made of an emitted kernel: compiled, disassembled, compared."""
