"""Registers that may be read before anything has written them, on some way through the code.

Where there is none, as in nearly all code that compilers write, no run has to be followed for it.
A guarded write counts as none, and the sums of a `wgmma` as read unless it adds to nothing by its
text.
"""

from __future__ import annotations

from typing import NamedTuple

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import DecodedCode, DecodedStep, Op, PresetKind


class UnwrittenRegisters(NamedTuple):
    """By the first instruction of a function, its registers that may be read unwritten; `local`:
    whether memory of a thread is read."""

    registers: dict[int, tuple[int, ...]]
    local: bool


def unwritten_registers(code: DecodedCode) -> UnwrittenRegisters:
    """What may be read unwritten in the functions of a program."""
    preset = 0
    constants: dict[int, int] = {}
    for item in code.presets:
        preset |= 1 << item.register
        if item.kind is PresetKind.CONSTANT:
            constants[item.register] = item.value
    found: dict[int, tuple[int, ...]] = {}
    graphs = [FlowGraph(code.steps, *bounds) for bounds in code.functions]
    for graph in graphs:
        open_ = _read_unwritten(graph, constants) & ~preset
        if open_:
            found[graph.start] = tuple(r for r in range(open_.bit_length()) if open_ >> r & 1)
    spaces = (MemorySpace.LOCAL, MemorySpace.GENERIC)
    local = code.local_bytes > 0 and any(
        step.op is Op.LOAD and step.flags[0] in spaces for step in code.steps
    )
    return UnwrittenRegisters(found, local)


def _read_unwritten(graph: FlowGraph, constants: dict[int, int]) -> int:
    """The registers of one function, as a bit set: forwards, what may still be unwritten."""
    unwritten = [0] * (graph.exit + 1)
    unwritten[0] = -1  # all registers
    waiting, read = [0], 0
    while waiting:
        number = waiting.pop()
        left = unwritten[number]
        for step in graph.steps[slice(*graph.blocks[number])]:
            for register in _reads(step, constants):
                read |= left & 1 << register
            if step.guard < 0:
                for register in step.out:
                    if register >= 0:
                        left &= ~(1 << register)
        for other in graph.next[number]:
            if other != graph.exit and left & ~unwritten[other]:
                unwritten[other] |= left
                waiting.append(other)
    return read


def _reads(step: DecodedStep, constants: dict[int, int]) -> list[int]:
    found = [register for register in (*step.args, step.guard) if register >= 0]
    if step.op is Op.WGMMA and constants.get(step.args[0]) != 0:
        found += [register for register in step.out if register >= 0]
    return found
