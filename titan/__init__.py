"""TITAN: verify, schedule and emit software-pipelined, warp-specialised GPU kernels."""

__version__ = "0.1.0"
