"""Certificates of fence sets: of each fence an interleaving that fails without it.

A certificate holds a sync program and, for every fence in it, sizes and steps. The checker takes
the one fence out, executes the steps with the reference interpreter, and requires that the last one
is the fault that is named, and that it is one of a missing fence. So no fence of the program can be
left out. That the program needs no more of them is what the certificate of its verdict says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from titan.foundation.errors import Refusal
from titan.proof.check import RefusedError, sealed
from titan.proof.configuration import PARTS_MAX
from titan.sync import program as ir
from titan.sync.fault import FaultKind, Step
from titan.sync.interpreter import Interpreter
from titan.sync.open_numbers import NotCoveredError
from titan.sync.parts import state_parts
from titan.sync.text import digest_of, program_of, text_of

FENCE_HEAD = "titan-fence-certificate 1"
FENCE_FAULTS = (
    FaultKind.MISSING_FENCE,
    FaultKind.MISSING_FENCE_WAR,
    FaultKind.UNPUBLISHED_INIT,
    FaultKind.MISSING_TENSORMAP_FENCE,
    FaultKind.MISSING_CACHED_FENCE,
)
Given = dict[str, int | list[int]]  # sizes, or their numbers in each iteration of an outer loop
SIZE_MAX = 1000  # of a run: its cost grows with it


@dataclass(frozen=True, slots=True)
class CoveredFences:
    """What a certificate of a fence set proves: of which program, of how many fences."""

    program: ir.SyncProgram
    digest: str
    fences: int
    steps: int


def fences_of(program: ir.SyncProgram) -> list[ir.Fence]:
    """The fences of a program, in the order of the text."""
    operations = (op for role in program.roles for op in ir.walk(role.body))
    return [operation for operation in operations if isinstance(operation, ir.Fence)]


def without_fence(program: ir.SyncProgram, number: int) -> ir.SyncProgram:
    """The program without the fence of that number in `fences_of`."""
    counted = iter(range(len(fences_of(program))))

    def kept(body: ir.Block) -> Iterator[ir.Operation]:
        for item in body:
            match item:
                case ir.Fence():
                    if next(counted) != number:
                        yield item
                case ir.Loop(body=inner):
                    yield replace(item, body=tuple(kept(inner)))
                case ir.Branch(then=then, otherwise=otherwise):
                    yield replace(item, then=tuple(kept(then)), otherwise=tuple(kept(otherwise)))
                case _:
                    yield item

    roles = tuple(replace(role, body=tuple(kept(role.body))) for role in program.roles)
    return replace(program, roles=roles)


def fence_line(
    program: ir.SyncProgram, number: int, sizes: Given, words: list[str]
) -> tuple[str, int]:
    """The line of one fence, and how many steps it has. Raises NotCoveredError."""
    listed = {name: [size] if isinstance(size, int) else size for name, size in sizes.items()}
    if any(type(n) is not int or not 0 <= n <= SIZE_MAX for size in listed.values() for n in size):
        raise NotCoveredError(f"a size is no number up to {SIZE_MAX}")
    known = {n: size if isinstance(size, int) else tuple(size) for n, size in sizes.items()}
    machine = Interpreter(without_fence(program, number), known)
    state, fault = machine.initial(), None
    for word in words:
        steps: dict[str, Step] = {step.text: step for step in machine.steps(state)}
        if fault is not None or word not in steps:
            raise NotCoveredError(f"the step {word} is not possible")
        after, fault = machine.apply(state, steps[word])
        state = state if after is None else after
    if fault is None or fault.kind not in FENCE_FAULTS:
        raise NotCoveredError(f"no fence is missing without fence {number}")
    given = json.dumps(sizes, separators=(",", ":"))
    return f"fence {number} {given} {fault.kind.value} {' '.join(words)}", len(words)


def fence_head(program: ir.SyncProgram) -> str:
    """The first lines: the program as text, and its digest."""
    text = text_of(program)
    return f"{FENCE_HEAD}\nprogram {digest_of(text)} {text}\n"


def check_fences(text: str) -> CoveredFences:
    """Check a certificate of a fence set. Raises RefusedError."""
    lines, number = text.split("\n"), 1
    try:
        if len(lines) < 4 or lines[0] != FENCE_HEAD or text != sealed("\n".join(lines[:-2]) + "\n"):
            raise NotCoveredError("not the certificate of fences, or not the text that was written")
        program = program_of(lines[1].split(" ", 2)[2])
        if state_parts(program) > PARTS_MAX:
            raise NotCoveredError(f"the program has more than {PARTS_MAX:,} parts")
        fences, steps = len(fences_of(program)), 0
        if not text.startswith(fence_head(program)) or len(lines) - 4 != fences:
            raise NotCoveredError("the first lines are others, or not every fence has one line")
        for number, line in enumerate(lines[2:-2], 3):
            _, _, given, _, *words = line.split(" ")
            derived, more = fence_line(program, number - 3, dict(json.loads(given)), words)
            steps += more
            if line != derived:
                raise NotCoveredError(f"what is derived is another line: {derived[:60]}")
    except Refusal as reason:
        raise RefusedError(number, str(reason)) from None
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise RefusedError(number, f"not a line of a certificate ({error})") from None
    return CoveredFences(program, digest_of(text_of(program)), fences, steps)
