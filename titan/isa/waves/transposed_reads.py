"""Reads of LDS that transpose: `ds_read_b64_tr_b16` and `ds_read_b64_tr_b8` of gfx950.

The lanes go together by 16. Of these, lane l reads 8 bytes at its own address, which are a quarter
of a row of 16 numbers: four lanes have a row, lanes 0 to 3 the first one. Lane l gets number l of
each of the four rows, in their order. Numbers of 8 bits have eight rows, of two lanes each: read
so, products that Triton compiles are those of NumPy. What inactive lanes do is not documented, so
all have to be active. Sources: CDNA4 instruction set, 11.4 (two instructions load one operand of
16 x 32, the first of them the numbers 0 to 3 and 8 to 11 along the contraction); public kernels for
gfx950 that compute the addresses of the lanes (FlyDSL's GEMM of transposed operands, Modular's
`ds_read_tr16`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from titan.isa.waves.state import LANES

COMPUTED = {"ds_read_b64_tr_b16": np.uint16, "ds_read_b64_tr_b8": np.uint8}
_TOGETHER = 16


def transposed(rows: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """What each lane gets by the instruction, of the 8 bytes that each has read."""
    numbers = np.ascontiguousarray(rows).view(COMPUTED[name])
    each = numbers.shape[1]  # numbers of a lane, and rows
    # group of lanes, row, part of it, number in that: a lane for each of the last two
    parts = numbers.reshape(LANES // _TOGETHER, each, _TOGETHER // each, each)
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 1)).view(np.uint8).reshape(LANES, 8)
