"""Writes the warp-specialised GEMM that TileLang makes for sm_90a, as CUDA and as PTX; no GPU.

    python benchmarks/tilelang_gemm.py FOLDER --nvcc NVCC

To be run in an environment with `tilelang` (0.1.15) and what it needs but for PyTorch, of which a
stand-in with the names of its types is enough to lower. The PTX is FOLDER/tilelang_ws_gemm.ptx;
its launch is benchmarks/launches/tilelang_ws_gemm.launch.yaml.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

M = N = K = 1024
BLOCK_M, BLOCK_N, BLOCK_K, STAGES = 128, 128, 64, 3
TYPES = (
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool", "half", "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "float",
    "double", "int", "long", "short", "complex64", "complex128",
)  # fmt: skip


class _Module(types.ModuleType):
    """A module in which every name is again such a module, which is false and takes any call."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        return sys.modules.setdefault(full, _Module(full))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


def stand_in() -> None:
    """Put a stand-in for PyTorch where there is none."""
    try:
        import torch  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        module = _Module("torch")
        module.version = types.SimpleNamespace(hip=None, cuda="13.0")  # type: ignore[attr-defined]
        module.__version__ = "2.9.0"
        for name in (*TYPES, "Tensor", "device", "Size", "dtype"):
            setattr(module, name, type(name, (), {}))
        sys.modules["torch"] = module
        for name in ("cuda", "nn.functional", "utils.cpp_extension", "utils.dlpack"):
            parts = f"torch.{name}".split(".")
            for end in range(2, len(parts) + 1):
                full = ".".join(parts[:end])
                sys.modules.setdefault(full, _Module(full))


def source() -> str:
    """The CUDA source of the GEMM."""
    stand_in()
    import tilelang  # type: ignore[import-not-found]
    import tilelang.language as T  # type: ignore[import-not-found]
    from tvm.target import Target  # type: ignore[import-not-found]

    @T.prim_func
    def gemm(
        a: T.Tensor((M, K), "float16"),
        b: T.Tensor((K, N), "float16"),
        c: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(N // BLOCK_N, M // BLOCK_M, threads=128) as (x, y):
            a_tile = T.alloc_shared((BLOCK_M, BLOCK_K), "float16")
            b_tile = T.alloc_shared((BLOCK_K, BLOCK_N), "float16")
            sums = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.clear(sums)
            for k in T.Pipelined(K // BLOCK_K, num_stages=STAGES):
                T.copy(a[y * BLOCK_M, k * BLOCK_K], a_tile)
                T.copy(b[k * BLOCK_K, x * BLOCK_N], b_tile)
                T.gemm(a_tile, b_tile, sums)
            T.copy(sums, c[y * BLOCK_M, x * BLOCK_N])

    with Target({"kind": "cuda", "arch": "sm_90a"}) as target:
        return tilelang.lower(gemm, target=target).kernel_source


def main() -> None:
    """Write the two files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    cuda = options.folder / "tilelang_ws_gemm.cu"
    cuda.write_text(source(), encoding="utf-8")
    import tilelang

    home = Path(tilelang.__file__).parent
    command = [
        options.nvcc, "-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a", "-ptx", "-w",
        "--expt-relaxed-constexpr", "-DNDEBUG", f"-I{home / 'src'}",
        f"-I{home / '3rdparty' / 'cutlass' / 'include'}", "-o", str(cuda.with_suffix(".ptx")),
        str(cuda),
    ]  # fmt: skip
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
