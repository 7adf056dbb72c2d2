"""NVRTC from a shared library, without a GPU and without CuPy: what a source becomes there.

Wheels bring it (`nvidia-cuda-nvrtc-cu12`, `nvidia-cuda-nvrtc`), of any version beside others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path


class Nvrtc:
    """One version of the compiler. Raises OSError where the library does not load."""

    def __init__(self, library: str | Path) -> None:
        self.library = ctypes.CDLL(str(library))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def knows(self, target: str) -> bool:
        """Whether it compiles for `sm_90a` and the like."""
        count = ctypes.c_int()
        self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.library.nvrtcGetSupportedArchs(numbers)
        return int("".join(filter(str.isdigit, target))) in tuple(numbers)

    def compiled(self, source: str, options: Sequence[str]) -> tuple[bytes, str]:
        """Machine code and the compiler's words. Raises ValueError with them if it refuses."""
        program = ctypes.c_void_p()
        made = self.library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
        )
        if made:
            raise ValueError(f"nvrtcCreateProgram: {made}")
        try:
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            refused = self.library.nvrtcCompileProgram(program, len(options), given)
            words = self._text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if refused:
                raise ValueError(words)
            return self._text(program, "CUBIN"), words
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self.library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.library[f"nvrtcGet{what}"](program, text)
        return text.raw
