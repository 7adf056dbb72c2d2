"""Tensors as Triton wants them, over arrays of NumPy: no PyTorch is needed."""

from __future__ import annotations

import numpy as np

_NAMES = {
    "float16": "fp16", "float32": "fp32", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8",
}  # fmt: skip


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


class _Storage:
    """The memory of an array, which the interpreter takes as it is."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def cpu(self) -> _Storage:
        return self

    def copy_(self, other: _Storage) -> None:
        assert other is self


class InterpretedTensor(HostTensor):
    """What the interpreter of Triton (TRITON_INTERPRET=1) asks of a tensor besides."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.storage = _Storage(array)

    def untyped_storage(self) -> _Storage:
        return self.storage

    def new_empty(self, count: int, device: str) -> InterpretedTensor:
        assert (count, device) == (0, "cpu")
        made = InterpretedTensor(self.array)
        made.storage = self.storage
        return made

    def set_(self, storage: _Storage, offset: int, size: tuple[int, ...], step: object) -> None:
        assert storage.data_ptr() == self.data_ptr() and offset == 0 and size == self.shape

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape
