"""Loops in the text of a kernel, found by its branches.

A branch backwards need not close a loop: compilers put rare code behind the end of a kernel and
branch back from there. A loop is a cycle of instructions that may follow each other.
"""

from __future__ import annotations

from titan.isa.gcn.module import AssemblyFile, AssemblyKernel

ENDS = ("s_endpgm", "s_branch", "s_setpc_b64")  # nothing follows them in the text


def first_loop(assembly: AssemblyFile, kernel: AssemblyKernel) -> int | None:
    """The line of the branch that closes the first loop; None: there is no loop."""
    closing = [
        assembly.instructions[number].line
        for number, target in _branches(assembly, kernel)
        if number in _reached(assembly, kernel, target)
    ]
    return min(closing, default=None)


def _branches(assembly: AssemblyFile, kernel: AssemblyKernel) -> list[tuple[int, int]]:
    """The branches backwards, with their targets; each cycle has one."""
    return [
        (number, assembly.instructions[number].target)
        for number in range(kernel.start, kernel.end)
        if kernel.start <= assembly.instructions[number].target <= number
    ]


def _reached(assembly: AssemblyFile, kernel: AssemblyKernel, start: int) -> set[int]:
    """The instructions that may be executed after the one at `start`, itself included."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        number = waiting.pop()
        if number in found or not kernel.start <= number < kernel.end:
            continue
        found.add(number)
        item = assembly.instructions[number]
        if item.target >= 0:
            waiting.append(item.target)
        if item.base not in ENDS:
            waiting.append(number + 1)
    return found
