"""Errors of the CUDA driver that the emulated device answers with."""

from __future__ import annotations

from enum import IntEnum


class DriverStatus(IntEnum):
    """CUresult, by its numbers."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NO_DEVICE = 100
    INVALID_IMAGE = 200
    NO_KERNEL_IMAGE = 209
    NOT_FOUND = 500
    NOT_SUPPORTED = 801
