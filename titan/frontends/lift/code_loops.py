"""Whether the text of a kernel has loops that do more than wait.

A branch backwards closes a loop. One whose body tests a barrier and neither writes memory nor
starts or arrives at anything only waits; how often it runs is up to the interleaving.
"""

from __future__ import annotations

from titan.isa.ptx.labels import labels_of
from titan.isa.ptx.module import Function, Instruction, Module

_WAITING = ("test_wait", "try_wait")
_IDLE = (
    "mbarrier", "mov", "setp", "selp", "add", "sub", "and", "or", "xor", "not", "shl", "shr", "cvt",
    "bra", "nanosleep", "ld", "mad", "mul", "lop3", "nop",
)  # fmt: skip


def first_loop(module: Module, entry: Function) -> int | None:
    """The line of the first loop of a kernel, or of a function that it may call; None: no loop."""
    functions = [entry, *(item for item in module.functions if not item.entry)]
    for function in functions:
        for number in range(function.start, function.end):
            item = module.instructions[number]
            for target in _targets(item):
                if target <= number and not _waits(module.instructions[target : number + 1]):
                    return item.line
    return None


def _targets(item: Instruction) -> list[int]:
    return [*labels_of(item)] if item.opcode in ("bra", "brx") else []


def _waits(body: tuple[Instruction, ...]) -> bool:
    """Whether a loop only waits for a barrier."""
    tests = any(set(_WAITING) & set(item.modifiers) for item in body)
    arrives = any(
        item.opcode == "mbarrier" and not set(_WAITING) & set(item.modifiers) for item in body
    )
    return tests and not arrives and all(item.opcode in _IDLE for item in body)
