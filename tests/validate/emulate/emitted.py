"""Kernels of the library as `titan build` emits them, built once; and mutants of their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from titan.codegen.emit.model import EmissionRefused, Emitted
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, build
from titan.codegen.pipeline.model import Built
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root


@cache
def emitted(name: str, target: str = "sm_90a") -> tuple[TileProgram, Emitted]:
    """The tile program `name` of the library and what is written for it."""
    path = root("protocols") / "tiles" / f"{name}.yaml"
    tile = load_tile(path, target)
    found: dict[str, Emitted] = {}

    def accept(built: Built) -> str | None:
        try:
            found[built.pipeline_text] = emit(built.tile, built.kernel, built.program)
        except EmissionRefused as refused:
            return str(refused)
        return None

    made = build(tile, path.read_text(encoding="utf-8"), BuildLimits(), BuildHooks(accept))
    return tile, found[made.pipeline_text]


# What a line is changed to, where it holds such a call; each match of each line is one mutant.
DROPPED = re.compile(
    r"titan::(barrier_wait|barrier_arrive|barrier_arrive_expect|fence_proxy_async|bulk_commit|"
    r"bulk_wait|bulk_wait_read|wgmma_wait|wgmma_commit|wgmma_fence|named_barrier_sync|"
    r"named_barrier_arrive|block_sync|warp_sync|barrier_init|tensor_load|tensor_store|"
    r"registers_decrease|registers_increase|wgmma_ss|wgmma_rs|store_shared32)(<[^;()]*>)?\("
)
CHANGED: list[tuple[str, re.Pattern[str], str]] = [
    ("parity", re.compile(r"(barrier_wait\(.*), ([^,]*)\);"), r"\1, (\2) ^ 1);"),
    ("count + 1", re.compile(r"(barrier_init\([^,]*), (\d+)\)"), r"\1, \2 + 1)"),
    ("count - 1", re.compile(r"(barrier_init\([^,]*), (\d+)\)"), r"\1, \2 - 1)"),
    ("bytes + 128", re.compile(r"(barrier_arrive_expect\(.*), (\d+)\)"), r"\1, \2 + 128)"),
    ("bytes - 128", re.compile(r"(barrier_arrive_expect\(.*), (\d+)\)"), r"\1, \2 - 128)"),
    ("one more in flight", re.compile(r"wgmma_wait<(\d)>"), r"wgmma_wait<\1 + 1>"),
    ("coordinates", re.compile(r"(tensor_\w+\(.*), ([^,]*), ([^,]*)\);"), r"\1, \3, \2);"),
    ("stride", re.compile(r", 1024\);"), r", 2048);"),
    ("swizzle of a descriptor", re.compile(r"shared_descriptor<128>"), r"shared_descriptor<64>"),
    ("swizzle of a store", re.compile(r"swizzled<128>"), r"swizzled<0>"),
    ("transposed", re.compile(r"(wgmma_.s<[^<>]*), false>"), r"\1, true>"),
    (
        "barrier of another group",
        re.compile(r"named_barrier_(\w+)\(x_group"),
        r"named_barrier_\1(0",
    ),
    ("stage", re.compile(r"(barrier_arrive\(\w+ \+ \(?)(?=r_)"), r"\1 1 + "),
    ("stage of an operand", re.compile(r"(descriptor_of_stage<\d+>\(d\d_\w+, )r_"), r"\1 0 * r_"),
    ("position", re.compile(r"titan::advance\(r_\w+\);"), ""),
]


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what was changed, the changed text), one change each."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        changes: list[tuple[str, str]] = []
        if not line.strip().startswith("//"):
            dropped = DROPPED.search(line)
            if dropped:
                # An expression statement keeps its condition or loop; its call is not made.
                at = dropped.start()
                changes.append((f"no {dropped.group(1)}", line[:at] + "if (false) " + line[at:]))
            for name, pattern, into in CHANGED:
                if pattern.search(line):
                    changes.append((name, pattern.sub(into, line, count=1)))
        for name, changed in changes:
            told = f"line {number + 1}, {name}: {line.strip()[:100]}"
            yield told, "\n".join([*lines[:number], changed, *lines[number + 1 :]])
