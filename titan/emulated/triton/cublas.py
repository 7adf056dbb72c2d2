"""cuBLAS and hipBLAS, as Triton's own module gives them to programs that compare with them.

There is no GPU for it, so PyTorch multiplies on the CPU: sums in float32, rounded once.
"""

from __future__ import annotations

from types import ModuleType

from titan.emulated.foreign import Foreign
from titan.emulated.replacements import Replacements

EXPONENT_BIAS = 127  # of e8m0
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
ROWS = 128  # of a block of scales


class CublasLt:
    """In the place of `triton._C.libtriton.nvidia.cublas.CublasLt`, and of HipblasLt."""

    def __init__(self, workspace: Foreign) -> None:
        """The workspace is not needed."""

    def matmul(self, a: Foreign, b: Foreign, c: Foreign) -> None:
        """C [M, N] becomes A [M, K] times the transpose of B [N, K]."""
        c.copy_(a.float() @ b.float().T)

    def gemm(
        self, a: Foreign, b: Foreign, c: Foreign, d: Foreign, alpha: float, beta: float
    ) -> None:
        """D becomes alpha A B^T + beta C."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())

    def block_scaled_matmul_mxfp8(
        self, a: Foreign, b: Foreign, c: Foreign, scale_a: Foreign, scale_b: Foreign
    ) -> None:
        """A [M, K] and B [N, K] of e4m3, a scale of e8m0 for 32 elements of a row."""
        scales = (of.view(_torch().uint8) for of in (scale_a, scale_b))
        powers = [_torch().exp2(of.float() - EXPONENT_BIAS) for of in scales]
        c.copy_(_scaled(a.float(), powers[0], 32) @ _scaled(b.float(), powers[1], 32).T)

    def block_scaled_matmul_nvfp4(
        self, a: Foreign, b: Foreign, c: Foreign, scale_a: Foreign, scale_b: Foreign
    ) -> None:
        """A [M, K / 2] and B [N, K / 2] of pairs of e2m1, a scale of e4m3 for 16 elements."""
        scales = [of.float() for of in (scale_a, scale_b)]
        c.copy_(_scaled(_pairs(a), scales[0], 16) @ _scaled(_pairs(b), scales[1], 16).T)


def _torch() -> Foreign:
    import torch

    return torch


def _pairs(packed: Foreign) -> Foreign:
    """The numbers of e2m1, two a byte, the first in the lower half."""
    halves = _torch().stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    magnitudes = _torch().tensor(E2M1)[(halves & 7).long()]
    return _torch().where(halves > 7, -magnitudes, magnitudes)


def _scaled(numbers: Foreign, tiles: Foreign, count: int) -> Foreign:
    """Each number times the scale of its `count` numbers of a row.

    Scales lie in blocks of 128 rows by 4: 16 in a row for the rows r, r + 32, r + 64 and r + 96
    (cuBLAS, "1D Block Scaling Factors Layout").
    """
    rows, columns = numbers.shape
    wide = tiles.reshape(-(-rows // ROWS), -1, 32, 4, 4).permute(0, 3, 2, 1, 4)
    by_row = wide.reshape(wide.shape[0] * ROWS, -1)[:rows]
    return numbers * by_row.repeat_interleave(count, dim=1)[:, :columns]


# Of Triton's library: the maker, its module, the class there.
REPLACED = (("nvidia", "cublas", "CublasLt"), ("amd", "hipblas", "HipblasLt"))


class CublasStandIn:
    """Puts it there while a script runs."""

    def __init__(self) -> None:
        self._replaced = Replacements()

    def change(self, libtriton: ModuleType) -> None:
        """What is to happen when a program imports Triton's library."""
        for maker, module, name in REPLACED:
            there = getattr(getattr(libtriton, maker, None), module, None)
            if there is not None:
                self._replaced.put(there, name, CublasLt)

    def undo(self) -> None:
        """The library as it was."""
        self._replaced.undo()
