"""Library tile programs as they reach emission: constructed, decoded and lowered, not verified."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.model import Emitted
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.language.kernel.model import Kernel
from titan.sync import program as ir

# Their buffers fit only where the output is staged in the place of what the loop has read.
OVERLAID = ("attention_forward_256", "attention_forward_causal_256")
NVCC = shutil.which("nvcc")
# Above the loop of the tiles in which nothing is masked, and that of the others.
WHOLE, MASKED = "// tiles without elements to mask\n", "// tiles with elements to mask\n"
Parts = tuple[TileProgram, Kernel, ir.SyncProgram]


@cache
def parts(name: str, depth: int = 2, specialised: bool = True) -> Parts:
    """A tile program of the library with a pipeline in the order of its text."""
    tile = load_tile(root("protocols") / "tiles" / f"{name}.yaml", "sm_90a")
    overlaid = name in OVERLAID
    shape = Shape(
        "test", depth, specialised, overlapped=False, persistent=tile.persistent, overlaid=overlaid
    )
    return (tile, *decoded(construct(tile, shape, {}, 1)))


@cache
def overlapped(name: str, *late: str, turns: bool = True) -> Parts:
    """The same with the operations `late` one iteration behind, and groups that take turns."""
    tile = load_tile(root("protocols") / "tiles" / f"{name}.yaml", "sm_90a")
    names = [operation.name for operation in tile.body if operation.kind != "load"]
    starts = {n: i + (1000 if n in late else 0) for i, n in enumerate(names)}
    shape = Shape("test", 2, overlapped=True, ping_pong=turns, persistent=tile.persistent)
    return (tile, *decoded(construct(tile, shape, starts, 1000)))


@cache
def emitted(name: str, depth: int = 2, specialised: bool = True) -> Emitted:
    return emit(*parts(name, depth, specialised))


def loops(source: str) -> tuple[str, str]:
    """The bodies of the loop without masks and of that with them."""

    def inside(note: str) -> str:
        found = re.search(rf"( *){note}( *)for (.*)\{{\n", source)
        assert found is not None and found.group(1) == found.group(2)
        return source[found.end() : source.index(f"\n{found.group(1)}}}\n", found.end())]

    return inside(WHOLE), inside(MASKED)


Change = Callable[[ir.Operation], ir.Block]


def changed(block: ir.Block, change: Change) -> ir.Block:
    """The block with every operation replaced by what `change` makes of it, inner ones first."""
    made: list[ir.Operation] = []
    for operation in block:
        inner = operation
        if isinstance(operation, ir.Loop):
            inner = replace(operation, body=changed(operation.body, change))
        elif isinstance(operation, ir.Branch):
            then, otherwise = changed(operation.then, change), changed(operation.otherwise, change)
            inner = replace(operation, then=then, otherwise=otherwise)
        made += change(inner)
    return tuple(made)


def with_role(program: ir.SyncProgram, name: str, change: Change) -> ir.SyncProgram:
    """The program with the operations of one role changed."""
    roles = tuple(
        replace(role, body=changed(role.body, change)) if role.name == name else role
        for role in program.roles
    )
    return replace(program, roles=roles)


def compile_for_device(made: Emitted, folder: Path) -> str:
    """What nvcc and ptxas say about a kernel. The kernel compiles, or this fails."""
    for name, text in made.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert NVCC is not None
    command = [NVCC, "-arch=sm_90a", "-std=c++17", "-cubin", "-Xptxas", "-v,-warn-spills",
               "-o", "kernel.cubin", "kernel.cu"]  # fmt: skip
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    said = run.stdout + run.stderr
    assert run.returncode == 0, said
    return said
