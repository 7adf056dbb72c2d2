"""The matrix unit with tensor memory: which threads use it, and where its results lie.

A `tcgen05.mma` of a test multiplies 64 x 32 numbers of 8 bits, of which only the first is not zero,
with the tile of its location, 32 x 8: what it read shows in row 0, column 0 of the result. Every
register of a test that gets such a result has its own 8 columns of tensor memory, the same for
all its instructions; it is read from there when all threads of the CTA are at their end.
Source: PTX ISA, tcgen05 (data path layout F: row 0 is lane 0; instruction and matrix descriptors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titan.litmus.language import ast
from titan.litmus.language.ast import FinalRegister, LitmusTest, LitmusThread, Register
from titan.litmus.render.outcomes import Observed
from titan.litmus.render.places import LitmusLayout, Seat
from titan.litmus.render.refusal import NotRenderable

TARGET = "sm_100a"
ROWS = 64
COLUMNS = 8
SELECTOR_BYTES = ROWS * 32
COLUMNS_MAX = 512  # of tensor memory, of a multiprocessor
RESERVED_BYTES = SELECTOR_BYTES + 2048  # of shared memory: the selector, barriers of the harness
# Accumulator s32, both operands s8, 8 columns, 64 rows.
INSTRUCTION = 2 << 4 | 1 << 7 | 1 << 10 | (COLUMNS >> 3) << 17 | (ROWS >> 4) << 24
FENCES = ("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")


@dataclass(frozen=True, slots=True)
class TensorResult:
    """A result that the condition asks for: the CTA that has it, its number there, its word."""

    cta: int
    number: int
    slot: int


def is_tensor(step: ast.LitmusInstruction) -> bool:
    """Whether it is an instruction of tcgen05."""
    match step:
        case ast.MatrixRead(tensor_memory=tensor_memory):
            return tensor_memory
        case ast.NoEffect(spelling):
            return spelling.startswith("tcgen05")
    return isinstance(step, ast.TensorCommit)


def uses_tensors(thread: LitmusThread) -> bool:
    """Whether a thread has an instruction of the tensor memory."""
    return any(is_tensor(step) for step in thread.instructions)


def registers(thread: LitmusThread) -> list[str]:
    """Registers that get a result from tensor memory, in order."""
    found = [
        step.destination
        for step in thread.instructions
        if isinstance(step, ast.MatrixRead) and step.tensor_memory
    ]
    return list(dict.fromkeys(found))


def numbers(seats: Sequence[Seat]) -> dict[tuple[int, str], int]:
    """Seat and register -> number of the result among those of its CTA."""
    found: dict[tuple[int, str], int] = {}
    used: dict[int, int] = {}
    for seat in seats:
        for name in registers(seat.thread):
            found[seat.index, name] = used.get(seat.cta, 0)
            used[seat.cta] = used.get(seat.cta, 0) + 1
    return found


def check(test: LitmusTest) -> None:
    """Raises `NotRenderable` where no device has the instructions, or a result is used early."""
    steps = [step for thread in test.threads for step in thread.instructions]
    if not any(is_tensor(step) for step in steps):
        return
    for step in steps:
        wgmma = isinstance(step, ast.MatrixRead | ast.NoEffect) and not is_tensor(step)
        group = isinstance(step, ast.CommitGroup | ast.WaitGroup)
        if wgmma or (group and step.kind is ast.GroupKind.WGMMA):  # type: ignore[attr-defined]
            raise NotRenderable("target", "no device has both wgmma and tcgen05", step.span)
    for thread in test.threads:
        _check_results(thread)


def check_launch(test: LitmusTest, layout: LitmusLayout) -> None:
    """Raises `NotRenderable` where CTAs could wait for each other's tensor memory forever."""
    if layout.cluster_ctas > 1 and any(map(uses_tensors, test.threads)):
        raise NotRenderable(
            "tensor memory", "tcgen05 in a cluster of several ctas is not rendered", test.span
        )


def _check_results(thread: LitmusThread) -> None:
    results = set(registers(thread))
    jumps = any(isinstance(step, ast.Label | ast.Branch) for step in thread.instructions)
    for step in thread.instructions:
        if is_tensor(step):
            if jumps:
                raise NotRenderable("loop", "tcgen05 in a thread with jumps", step.span)
        elif results & _touched(step):
            raise NotRenderable(
                "tensor memory", "a result in tensor memory is only for the condition", step.span
            )


def _touched(step: ast.LitmusInstruction) -> set[str]:
    """Registers that an instruction reads or writes."""
    values = [getattr(step, name, None) for name in ("value", "left", "right")]
    values += getattr(step, "operands", ())
    names = {value.name for value in values if isinstance(value, Register)}
    destination = getattr(step, "destination", None)
    return names | ({destination} if isinstance(destination, str) else set())


def results(seats: Sequence[Seat], slots: Mapping[Observed, int]) -> list[TensorResult]:
    """What is to be fetched at the end."""
    known = numbers(seats)
    by_name = {seat.thread.name: seat for seat in seats}
    found = []
    for term, slot in slots.items():
        if isinstance(term, FinalRegister):
            seat = by_name[term.thread]
            number = known.get((seat.index, term.register))
            if number is not None:
                found.append(TensorResult(seat.cta, number, slot))
    return found
