"""cuBLAS, as Triton's own module gives it to programs that compare themselves with it.

There is no GPU for it, so PyTorch multiplies on the CPU: sums in float32, rounded once.
"""

from __future__ import annotations

from types import ModuleType

from titan.emulated.foreign import Foreign


class CublasLt:
    """In the place of `triton._C.libtriton.nvidia.cublas.CublasLt`."""

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

    def block_scaled_matmul_mxfp8(self, *_: Foreign) -> None:
        """Raises RuntimeError."""
        raise RuntimeError("cuBLAS with block scales is not there without a GPU")

    block_scaled_matmul_nvfp4 = block_scaled_matmul_mxfp8


class CublasStandIn:
    """Puts it there while a script runs."""

    def __init__(self) -> None:
        self._before: list[tuple[Foreign, Foreign]] = []

    def change(self, libtriton: ModuleType) -> None:
        """What is to happen when a program imports Triton's library."""
        nvidia = getattr(libtriton, "nvidia", None)
        module = getattr(nvidia, "cublas", None)
        if module is not None:
            self._before.append((module, module.CublasLt))
            module.CublasLt = CublasLt

    def undo(self) -> None:
        """The library as it was."""
        for module, before in self._before:
            module.CublasLt = before
        self._before.clear()
