"""Answers to what a run asks of words in global memory (`Launch.answers`)."""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import QUESTION, WORD_BYTES
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.state import Cta, Fragment


def ask(
    machine: SimtMachine,
    fragment: Fragment,
    located: Sequence[tuple[int, tuple[int, Cta | None, int]]],
    count: int,
    semantics: int,
) -> bool:
    """Put the next of `Launch.answers` where a strong access of one word reads; whether it is one
    that is asked for."""
    answers = machine.launch.answers
    if answers is None or machine.maybe or not semantics or len(located) != 1:
        return False
    space, _, at = located[0][1]
    if space != MemorySpace.GLOBAL or count not in WORD_BYTES:
        return False
    if machine.asked == len(answers):
        machine.map_offset = at
        machine.refuse(fragment, QUESTION)
    value = answers[machine.asked]
    machine.asked += 1
    if value is not None:
        machine.memory.write(at, count, value)
    return value is not None
