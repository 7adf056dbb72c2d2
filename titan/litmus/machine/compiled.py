"""Reads back what a compiler made of a rendered source test: a code sequence for each instruction.

The assembly has a mark before each instruction of the test and one at the end of each thread
(`render/hip.py`). What stands between two marks and touches memory, caches or counters is the
sequence of that instruction; an access has to be the one that the test asks for. With the
sequences in place of the table's, `lowering` makes the program that was really compiled. Refused:
marks that are missing, doubled or out of order, accesses that the test does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from titan.foundation.errors import Refusal
from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.machine_steps import CACHE_BITS, GLOBAL_ATOMIC_NAMES, LDS_ATOMIC_NAMES
from titan.litmus.machine.sequences import CodeSequence

END = "end"
_MARK = re.compile(r";\s*titan (\d+) (\d+|end)\s*$")
_ACCESSES = ("global_", "ds_", "flat_", "scratch_", "buffer_load", "buffer_store", "buffer_atomic")
_CONTROL = ("s_waitcnt", "buffer_wbl2", "buffer_inv", "buffer_wbinv", "s_barrier")


class CompiledOtherwise(Refusal):
    """The assembly is not that of the test, one instruction after the other; the text says why."""


def sequences_of(assembly: str, test: LitmusTest) -> dict[tuple[int, int], CodeSequence]:
    """Thread and place of an instruction -> what was compiled for it. Raises CompiledOtherwise."""
    sections = dict(_sections(assembly))
    lds = {x.name for x in test.locations if x.home is not None}
    found: dict[tuple[int, int], CodeSequence] = {}
    for number, thread in enumerate(test.threads):
        for place, step in enumerate(thread.instructions):
            try:
                lines = sections[number, str(place)]
            except KeyError:
                raise CompiledOtherwise(f"{test.name}: no mark titan {number} {place}") from None
            try:
                found[number, place] = _sequence(lines, step, lds)
            except CompiledOtherwise as error:
                raise CompiledOtherwise(f"{test.name}: titan {number} {place}: {error}") from None
    return found


def _sections(assembly: str) -> Iterator[tuple[tuple[int, str], list[str]]]:
    """Thread and place of each mark -> the instructions up to the next one, watched ones only."""
    seen: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in assembly.splitlines():
        if match := _MARK.search(line):
            if seen and seen[-1][1] != END:
                yield seen[-1], lines
            here = (int(match.group(1)), match.group(2))
            last = seen[-1] if seen else (here[0], END)
            follows = here[1] == END or int(here[1]) == (0 if last[1] == END else int(last[1]) + 1)
            if here in seen or not follows or (last[1] != END and last[0] != here[0]):
                raise CompiledOtherwise(f"the mark titan {here[0]} {here[1]} is out of order")
            seen.append(here)
            lines = []
            continue
        code = " ".join(line.partition(";")[0].split())
        if code.startswith((*_ACCESSES, *_CONTROL)):
            lines.append(code)


def _sequence(lines: list[str], step: ast.LitmusInstruction, lds: set[str]) -> CodeSequence:
    wanted = _head(step, lds)
    places = [n for n, line in enumerate(lines) if line.startswith((*_ACCESSES, "s_barrier"))]
    if wanted is None:
        if places:
            raise CompiledOtherwise(f"`{lines[places[0]]}` is not in the test")
        return CodeSequence(tuple(lines))
    if len(places) != 1 or not re.fullmatch(wanted, lines[places[0]].split()[0]):
        shown = ", ".join(lines[n] for n in places) or "nothing"
        raise CompiledOtherwise(f"{shown} instead of {wanted}")
    (place,) = places
    bits = [word for word in lines[place].split() if word in CACHE_BITS]
    if isinstance(step, ast.Atomic):  # the bit that asks for the old value says nothing of scopes
        bits = [bit for bit in bits if bit not in ("sc0", "glc")]
    return CodeSequence(tuple(lines[:place]), " ".join(bits), tuple(lines[place + 1 :]))


def _head(step: ast.LitmusInstruction, lds: set[str]) -> str | None:
    """The mnemonic that the instruction has to become, as a pattern; None: no access."""
    match step:
        case ast.Load(location=location):
            return "ds_read_b32" if location in lds else "global_load_dword"
        case ast.Store(location=location):
            return "ds_write_b32" if location in lds else "global_store_dword"
        case ast.Atomic(operation, location):
            if location in lds:  # without `rtn` where nobody uses the old value
                return LDS_ATOMIC_NAMES[operation].replace("_rtn", "(_rtn)?")
            return GLOBAL_ATOMIC_NAMES[operation]
        case ast.Barrier():
            return "s_barrier"
    return None
