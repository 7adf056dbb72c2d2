"""CUDA programs on the emulated device: a library in the place of NVIDIA's, and its answers."""
