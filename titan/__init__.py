"""TITAN: verification, scheduling and emission of software-pipelined, warp-specialised GPU kernels."""

__version__ = "0.1.0"
