"""Emitted kernels run on the CPU: what they compute, under adversarial interleavings."""
