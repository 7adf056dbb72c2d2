"""A tensor as Triton's descriptors want it, over an array of NumPy: no PyTorch is needed."""

from __future__ import annotations

import numpy as np

_NAMES = {"float16": "fp16", "float32": "fp32"}


class _Type(str):
    """Triton's name of a type, with the bytes of an element."""

    itemsize: int
    is_floating_point = True


class HostTensor:
    """`data_ptr()`, `dtype`, `shape` and `stride()` of an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.nbytes = array, array.shape, array.nbytes
        self.dtype = _Type(_NAMES[str(array.dtype)])
        self.dtype.itemsize = array.itemsize

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)
