"""Packages of emitted kernels: written whole, certified, and checked without searching."""
