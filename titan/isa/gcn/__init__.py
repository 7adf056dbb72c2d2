"""AMD machine code as the disassembler lists it."""
