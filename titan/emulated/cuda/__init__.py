"""CUDA programs on the emulated device: a library that replaces NVIDIA's, and its server."""
