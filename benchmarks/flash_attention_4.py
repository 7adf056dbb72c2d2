"""The PTX of FlashAttention-4's kernels, made from the public wheel without a GPU.

    python benchmarks/flash_attention_4.py FOLDER [--hopper]

In an environment with `nvidia-cutlass-dsl apache-tvm-ffi einops` and, without their dependences,
`flash-attn-4==4.0.0b36 quack-kernels`: PyTorch is stood in for, since only types of it are named.
Writes `fa4_forward.ptx` with its launch. Data decide whether that kernel rescales its accumulator,
by loads and stores of tensor memory. Beside it stand, to compare with, `fa4_forward_always.ptx` and
`fa4_forward_never.ptx`, in which it always or never does. The causal kernel is
`fa4_forward_causal.ptx`, with the plain order of its blocks: CuTe DSL 4.8 refuses the code of the
other one. With `--hopper`: its kernels for sm_90a, forward `fa_sm90_forward_D[_causal].ptx` for
head dimensions D of 64, 128 and 256, in the tiles that its interface takes.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import re
import shutil
import sys
import types
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import MagicMock

QUERIES, KEYS, DIMENSION = 256, 512, 128
HOPPER_TILES = {64: (192, 128), 128: (128, 128), 256: (128, 80)}  # queries, keys by head dimension
LAUNCH = Path(__file__).resolve().parent / "launches" / "fa4_forward.launch.yaml"
PACKAGES = ("flash_attn", "flash_attn.cute", "quack")  # taken without what they import at once
_RESCALES = re.compile(
    r"(vote\.sync\.ballot\.b32 \t?[^\n]*\n[^\n]*setp[^\n]*\n)\t?@(%p\d+) bra \t?(\$L\w+);"
)


class _Absent(types.ModuleType):
    """A module of which every name is something."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {}) if name in ("Tensor", "dtype", "device") else MagicMock(name=name)
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds PyTorch, which is not there."""

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".", maxsplit=1)[0] not in ("torch", "torch_c_dlpack_ext"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def prepare(folder: Path, target: str) -> None:
    """Let CuTe DSL, which is not imported yet, leave its PTX in the folder, without PyTorch."""
    os.environ |= {
        "CUTE_DSL_ARCH": target,
        "CUTE_DSL_KEEP": "ptx",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    sys.meta_path.insert(0, _Finder())
    site = next(Path(path) for path in sys.path if (Path(path) / "flash_attn" / "cute").is_dir())
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(site / name.replace(".", "/"))]
        sys.modules[name] = package


def compiled(
    folder: Path, *, causal: bool, dimension: int = DIMENSION, hopper: bool = False
) -> str:
    """The PTX that CuTe DSL leaves in the folder, which is empty again behind it."""
    cutlass = importlib.import_module("cutlass")
    cute = importlib.import_module("cutlass.cute")
    runtime = importlib.import_module("cutlass.cute.runtime")
    tensor = importlib.import_module("cutlass.cute.tensor")

    def converted(self: Any, type_: Any, *, loc: object = None, ip: object = None) -> Any:
        made = cute.make_fragment_like(self, type_)
        made.store(self.load().to(type_))
        return made

    if not hasattr(tensor._Tensor, "to"):  # that quack asks for
        tensor._Tensor.to = converted
    name = f"flash_attn.cute.flash_fwd_{'sm90' if hopper else 'sm100'}"
    forward = importlib.import_module(name)
    forward.SingleTileLPTScheduler = forward.SingleTileScheduler
    queries = 2 * HOPPER_TILES[dimension][0] if hopper else QUERIES
    if hopper:
        rows, columns = HOPPER_TILES[dimension]
        kernel = forward.FlashAttentionForwardSm90(
            cutlass.BFloat16, dimension, dimension, is_causal=causal, pack_gqa=False,
            tile_m=rows, tile_n=columns, num_stages=2, num_threads=128 * (rows // 64 + 1),
        )  # fmt: skip
    else:
        kernel = forward.FlashAttentionForwardSm100(
            dimension, dimension, is_causal=causal, is_static_persistent=False
        )

    def array(count: int) -> Any:
        return runtime.make_fake_compact_tensor(
            cutlass.BFloat16, (1, count, 1, dimension), stride_order=(3, 2, 1, 0), assumed_align=16
        )

    sums = runtime.make_fake_compact_tensor(
        cutlass.Float32, (1, 1, queries), stride_order=(2, 1, 0), assumed_align=16
    )
    given = array(queries), array(KEYS), array(KEYS), array(queries), sums, cutlass.Float32(0.1)
    cute.compile(kernel, *given, stream=runtime.make_fake_stream())
    (made,) = folder.glob("*.ptx")
    text = made.read_text(encoding="utf-8")
    made.unlink()
    return text


def hopper_launch(dimension: int) -> str:
    """The launch of two tiles of queries."""
    rows, columns = HOPPER_TILES[dimension]

    def tensor_map(count: int, box: int) -> str:
        extents = f"dimensions: [{dimension}, {count}], box: [64, {box}]"
        return f"  - map: {{{extents}, data_type: bf16, swizzle: 128B}}\n"

    queries, keys = tensor_map(2 * rows, rows), tensor_map(KEYS, columns)
    parameters = f"  - pointer\n{queries}{keys}{keys}{queries}  - unknown\n"
    return f"grid: [2, 1, 1]\ndynamic_shared: 232448\nparameters:\n{parameters}"


def hopper_kernels(folder: Path) -> None:
    """Write the kernels for sm_90a."""
    dump = folder / "dump"
    dump.mkdir(parents=True, exist_ok=True)
    prepare(dump, "sm_90a")
    for dimension in HOPPER_TILES:
        for causal in (False, True):
            text = compiled(dump, causal=causal, dimension=dimension, hopper=True)
            name = f"fa_sm90_forward_{dimension}{'_causal' * causal}"
            (folder / f"{name}.ptx").write_text(text, encoding="utf-8")
            launch = folder / f"{name}.launch.yaml"
            launch.write_text(hopper_launch(dimension), encoding="utf-8")
    shutil.rmtree(dump)


def main(folder: Path) -> None:
    """Write the files, each with its launch."""
    dump = folder / "dump"
    dump.mkdir(parents=True, exist_ok=True)
    prepare(dump, "sm_100a")
    text = compiled(dump, causal=False)
    texts = {
        "fa4_forward": text,
        "fa4_forward_always": _RESCALES.sub(r"\1", text),
        "fa4_forward_never": _RESCALES.sub(r"\1\tbra \3;", text),
        "fa4_forward_causal": compiled(dump, causal=True),
    }
    for name, made in texts.items():
        (folder / f"{name}.ptx").write_text(made, encoding="utf-8")
        shutil.copy(LAUNCH, folder / f"{name}.launch.yaml")
    shutil.rmtree(dump)


if __name__ == "__main__":
    (hopper_kernels if "--hopper" in sys.argv else main)(Path(sys.argv[1]))
