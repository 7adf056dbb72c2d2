"""Emitted HIP kernels run on the CPU: what they compute, however late their copies land."""
