"""Assembly with one wait, barrier or `s_nop` deleted or weakened, as text.

A wait for two counters has mutants of each; a weakened wait leaves one operation more in flight,
and a weakened `s_nop` is one wait state less.
What becomes of the mutants says whether the verdict on the original means something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from titan.foundation.source.span import Source
from titan.frontends.ptx.code_mutants import CodeMutant
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel

_PART = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
_STATES = re.compile(r"s_nop\s+(0[xX][0-9a-fA-F]+|\d+)")
_CHANGED = frozenset(
    (
        "s_waitcnt", "s_barrier", "s_nop", "v_nop", "s_barrier_signal", "s_barrier_wait",
        "s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt", "s_wait_xcnt",
        "s_wait_asynccnt", "s_wait_tensorcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt",
        "s_wait_alu",
    )
)  # fmt: skip
# Of gfx1250: a wait for one counter or two, and for units of the wave.
_COUNTER = re.compile(r"s_wait_([a-z]+)(?:_([a-z]+))?\s+(0[xX][0-9a-fA-F]+|\d+)")
_UNIT = re.compile(r"depctr_(\w+)\((\d+)\)")
_MOST_OF_UNITS = {"va_vdst": 15, "vm_vsrc": 7}
_MOST = {"vmcnt": 62, "lgkmcnt": 14}


def assembly_mutants(
    assembly: AssemblyFile, source: Source, kernel: AssemblyKernel
) -> Iterator[CodeMutant]:
    """All mutants of one kernel, in the order of its instructions."""
    for number in range(kernel.start, kernel.end):
        item = assembly.instructions[number]
        if item.base not in _CHANGED:
            continue
        start = source.line_starts[item.line - 1] + item.column - 1
        old = source.line(item.line)[item.column - 1 :].split(";")[0].split("//")[0].rstrip()
        for kind, new in _changes(old):
            text = source.text[:start] + new.ljust(len(old)) + source.text[start + len(old) :]
            yield CodeMutant(number, item.line, old, kind, text)


def _changes(old: str) -> Iterator[tuple[str, str]]:
    states = _STATES.fullmatch(old)
    if states is not None and int(states[1], 0):
        yield "one wait state less", f"s_nop {int(states[1], 0) - 1}"
        return
    counter = _COUNTER.fullmatch(old)
    if counter is not None:
        yield from _weaker(counter[1], counter[2], int(counter[3], 0))
        return
    units = _UNIT.findall(old) if old.startswith("s_wait_alu") else []
    for name, value in units:
        rest = [f"depctr_{other}({number})" for other, number in units if other != name]
        yield f"{name} deleted", f"s_wait_alu {' '.join(rest)}" if rest else ""
        if int(value) + 1 < _MOST_OF_UNITS.get(name, 0):
            more = " ".join([f"depctr_{name}({int(value) + 1})", *rest])
            yield f"{name} one more left", f"s_wait_alu {more}"
    if units:
        return
    parts = _PART.findall(old)
    if not parts:
        yield "deleted", ""
        return
    for counter, value in parts:
        rest = [f"{name}({number})" for name, number in parts if name != counter]
        kept = f"s_waitcnt {' '.join(rest)}" if rest else ""
        yield f"{counter} deleted", kept
        if int(value) < _MOST[counter]:
            yield (
                f"{counter} one more left",
                " ".join(["s_waitcnt", f"{counter}({int(value) + 1})", *rest]),
            )


def _weaker(first: str, second: str | None, value: int) -> Iterator[tuple[str, str]]:
    """The changes of a wait of gfx1250; one for two counters has the second in bits 0 to 5."""
    if second is None:
        yield f"{first} deleted", ""
        yield f"{first} one more left", f"s_wait_{first} {value + 1}"
        return
    upper, lower = value >> 8 & 63, value & 63
    yield f"{first} deleted", f"s_wait_{second} {lower}"
    yield f"{second} deleted", f"s_wait_{first} {upper}"
    yield f"{first} one more left", f"s_wait_{first}_{second} {(upper + 1) << 8 | lower}"
    yield f"{second} one more left", f"s_wait_{first}_{second} {upper << 8 | (lower + 1)}"
