"""Assembly with one `s_waitcnt`, `s_barrier` or `s_nop` deleted or weakened, as text.

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
_MOST = {"vmcnt": 62, "lgkmcnt": 14}


def assembly_mutants(
    assembly: AssemblyFile, source: Source, kernel: AssemblyKernel
) -> Iterator[CodeMutant]:
    """All mutants of one kernel, in the order of its instructions."""
    for number in range(kernel.start, kernel.end):
        item = assembly.instructions[number]
        if item.base not in ("s_waitcnt", "s_barrier", "s_nop"):
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
