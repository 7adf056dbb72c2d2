"""What the roles of attention in tensor memory cost: a table of docs/reference/sass.md.

Products are issued by one thread there, so that no loop of a warpgroup holds any. Its softmax is
the loop with the most exponentials, its correction the one that loads and stores tensor memory and
takes none. `bench_sass.py` measures and writes it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from titan.foundation.errors import TitanError
from titan.inspect import machine
from titan.inspect.counts import LoopCounts, count, shortest
from titan.inspect.listing import MachineFunction
from titan.inspect.loops import MachineLoop, loops

BEGIN, END = "<!-- roles -->", "<!-- end of roles -->"
PEERS = (
    ("fa4_forward", "attention 128", "FlashAttention-4"),
    ("fa4_forward_causal", "causal attention 128", "FlashAttention-4"),
    ("triton_attention_sm100_ws0", "attention 64", "Triton"),
    ("triton_attention_sm100_ws1", "attention 64", "Triton, warp-specialised"),
)
OURS = {
    "attention_forward_sm_100a": "attention 128",
    "attention_forward_pair_sm_100a": "attention 128",
    "attention_forward_causal_sm_100a": "causal attention 128",
    "attention_forward_causal_pair_sm_100a": "causal attention 128",
    "attention_forward_64_sm_100a": "attention 64",
    "attention_forward_pair_64_sm_100a": "attention 64",
}
EXPONENTIAL, LOADS, STORES = "MUFU.EX2", "LDTM", "STTM"
TWO_AT_ONCE = ("FADD2", "FMUL2", "FFMA2")
ALONE = ("FADD", "FMUL", "FFMA")
Row = dict[str, object]


def row_of(path: Path, problem: str, who: str, assembler: Path | None) -> Row | None:
    """The counts of both loops; None where no loop takes exponentials."""
    compiler, figures, functions = machine.read(path, assembler)
    found: list[tuple[LoopCounts, list[str]]] = []
    ways: dict[int, tuple[MachineFunction, MachineLoop]] = {}
    for function in functions:
        counted = {loop.begin: loop for loop in count(function).loops}
        for loop in loops(function):
            one = counted.get(function.instructions[loop.head].address)
            if one is not None:
                found.append((one, _names(function, loop)))
                ways[one.begin] = function, loop
    softmax = max(found, key=lambda item: _ranked(item[1], item[0]), default=None)
    if softmax is None or not _number(softmax[1], EXPONENTIAL) or figures is None:
        return None
    moving = [one for one, names in found if _corrects(names)]
    correction = max(moving, key=lambda one: one.instructions, default=None)
    names = softmax[1]
    return {
        "problem": problem, "kernel": who, "compiler": compiler,
        "softmax": softmax[0].instructions, "softmax_least": _least(*ways[softmax[0].begin]),
        "exponentials": _number(names, EXPONENTIAL),
        "two_at_once": sum(name.partition(".")[0] in TWO_AT_ONCE for name in names),
        "alone": sum(name.partition(".")[0] in ALONE for name in names),
        "exchanges": _number(names, "SHFL"),
        "correction": correction.instructions if correction else None,
        "correction_least": correction.least if correction else None,
        "registers": figures.registers, "spill_bytes": figures.spill_bytes,
    }  # fmt: skip


def _least(function: MachineFunction, loop: MachineLoop) -> int:
    """Instructions of the shortest of the ways around that take all exponentials of any."""
    names = function.instructions
    return shortest(function, loop, lambda number: names[number].name.startswith(EXPONENTIAL))


def _names(function: MachineFunction, loop: MachineLoop) -> list[str]:
    return [function.instructions[number].name for number in loop.own]


def _number(names: list[str], prefix: str) -> int:
    return sum(name.startswith(prefix) for name in names)


def _ranked(names: list[str], loop: LoopCounts) -> tuple[int, int]:
    return _number(names, EXPONENTIAL), -loop.instructions


def _corrects(names: list[str]) -> bool:
    moves = _number(names, LOADS) and _number(names, STORES)
    return bool(moves) and not _number(names, EXPONENTIAL)


def rows(arguments: argparse.Namespace) -> list[Row]:
    """All rows, those of one problem together."""
    wanted: list[tuple[Path, str, str]] = []
    for text in arguments.packages:
        label, _, folder = text.partition("=")
        for name, problem in OURS.items():
            wanted.append((Path(folder) / f"{name}-sm_100a", problem, f"`{name}`, {label}"))
    if arguments.peers is not None:
        wanted += [(arguments.peers / f"{file}.ptx", problem, who) for file, problem, who in PEERS]
    found = []
    for path, problem, who in wanted:
        if not path.exists():
            continue
        try:
            row = row_of(path, problem, who, arguments.ptxas)
        except TitanError as reason:
            print(f"{who}: {reason}", file=sys.stderr)
            continue
        found += [row] if row is not None else []
    order = list(OURS.values())
    return sorted(found, key=lambda row: order.index(str(row["problem"])))


def table(found: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| problem | kernel | softmax: instructions (shortest way) | exponentials"
        " | arithmetic on two numbers | on one | exchanges"
        " | correction: instructions (shortest way) | registers at entry, spilled bytes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        correction = ""
        if row["correction"] is not None:
            correction = f"{row['correction']} ({row['correction_least']})"
        lines.append(
            f"| {row['problem']} | {row['kernel']} | {row['softmax']} ({row['softmax_least']})"
            f" | {row['exponentials']} | {row['two_at_once']} | {row['alone']}"
            f" | {row['exchanges']} | {correction}"
            f" | {row['registers']}, {row['spill_bytes']} |"
        )
    compilers = ", ".join(dict.fromkeys(str(row["compiler"]) for row in found))
    return "\n".join([*lines, "", f"Assembled by {compilers}."]) + "\n"
