"""Triton and Gluon on the emulated device: a back end that Triton finds by its entry point.

Kernels are compiled by Triton's own pipeline for NVIDIA down to PTX, or for AMD to assembly, which
is run here. Chosen by TRITON_DEFAULT_BACKEND=titan, or if no GPU is active. Triton 3.9.
"""
