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


def loops_of(assembly: AssemblyFile, kernel: AssemblyKernel) -> dict[int, frozenset[int]]:
    """The instructions of each loop by its head: all that are reached from it, and from which a
    branch back to it is reached without passing it. A loop may be entered behind its head."""
    before: dict[int, list[int]] = {}
    for number in range(kernel.start, kernel.end):
        for following in successors(assembly, kernel, number):
            before.setdefault(following, []).append(number)
    found: dict[int, frozenset[int]] = {}
    for number, head in _branches(assembly, kernel):
        reached = _reached(assembly, kernel, head)
        if number not in reached:
            continue
        body, waiting = {head}, [number]
        while waiting:
            one = waiting.pop()
            if one not in body and one in reached:
                body.add(one)
                waiting += before.get(one, ())
        found[head] = found.get(head, frozenset()) | body
    return found


def successors(assembly: AssemblyFile, kernel: AssemblyKernel, number: int) -> list[int]:
    """The instructions of the kernel that may be executed next."""
    item = assembly.instructions[number]
    found = [item.target] if item.target >= 0 else []
    if item.base not in ENDS:
        found.append(number + 1)
    return [one for one in found if kernel.start <= one < kernel.end]


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
        if number not in found:
            found.add(number)
            waiting += successors(assembly, kernel, number)
    return found
