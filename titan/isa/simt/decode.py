"""Decodes a module once into the flat program of `operations.py`, for one entry.

A form that the machine does not know is a finding with its line; all of them are reported at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.last import LastMade
from titan.foundation.source.span import Source, Span
from titan.isa.ptx import module as ptx
from titan.isa.ptx.inlined import reached_from
from titan.isa.simt.called_functions import CalledFunctions, loops
from titan.isa.simt.control_flow import NO_JOIN, FlowGraph
from titan.isa.simt.decode_context import DecodeContext, Unsupported
from titan.isa.simt.decode_table import HANDLERS
from titan.isa.simt.events import AccessSemantics, RecordedFence
from titan.isa.simt.immediates import check_immediates
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.modifier_words import check_words
from titan.isa.simt.operations import (
    ARITY,
    LOOPED_TOGETHER,
    PURE,
    SKIPPABLE,
    SKIPPABLE_TOGETHER,
    WAITING,
    DecodedCode,
    DecodedStep,
    Op,
    Preset,
    PresetKind,
    SkippedRegion,
    UnfencedProduct,
    touches,
)
from titan.isa.simt.register_fences import unfenced_products
from titan.isa.simt.uniform import same_for_all_lanes
from titan.isa.simt.zero_registers import zero_registers

UNSUPPORTED = "TTN010"
TENSOR_FENCES = (RecordedFence.TENSOR_BEFORE, RecordedFence.TENSOR_AFTER)


def decode(
    module: ptx.Module,
    entry: ptx.Function,
    layout: MemoryLayout,
    source: Source | None = None,
    zero_bytes: AbstractSet[int] = frozenset(),
) -> tuple[DecodedCode | None, list[Diagnostic]]:
    """The flat program, or every instruction that the machine does not know. `zero_bytes`: of the
    parameters, by their offsets.

    Launches of one module come one after the other, so what was decoded last is kept.
    """
    make = partial(_decoded, module, entry, layout, source)
    made = _LAST.of((module, entry, source), make, layout)
    findings = list(made.findings)
    if made.masked:
        zeros = zero_registers(made.steps, made.presets, zero_bytes)
        masked = Unsupported("lanes of its output may be switched off")
        findings += [
            _finding(module, instruction, masked, source)
            for instruction, registers in made.masked
            if not zeros.issuperset(registers)
        ]
    return (None, findings) if findings else (made.code, [])


class _Decoding(NamedTuple):
    """The program of one layout; `masked` are outputs of which lanes are on only if registers of
    `steps` are zero."""

    code: DecodedCode | None
    findings: list[Diagnostic]
    masked: list[tuple[ptx.Instruction, tuple[int, ...]]]
    steps: tuple[DecodedStep, ...]
    presets: list[Preset]


_LAST: LastMade[_Decoding] = LastMade()


def _decoded(
    module: ptx.Module, entry: ptx.Function, layout: MemoryLayout, source: Source | None
) -> _Decoding:
    context = DecodeContext(module, layout)
    steps: list[DecodedStep] = []
    findings: list[Diagnostic] = []
    reached = reached_from(module, entry)
    for function in module.functions:
        if function.declared:
            continue
        context.function = function
        for index in range(function.start, function.end):
            instruction = module.instructions[index]
            if function.name not in reached:
                steps.append(DecodedStep(Op.TRAP))
                continue
            try:
                handler = HANDLERS.get(instruction.opcode)
                if handler is None:
                    raise Unsupported("the instruction")
                check_words(instruction)
                check_immediates(instruction)
                step = handler(context, instruction)
                fewest, most = ARITY.get(step.op, (0, len(step.args)))
                if not fewest <= len(step.args) <= most:
                    raise Unsupported(f"{len(step.args)} operands")
            except (Unsupported, IndexError, ValueError, StopIteration) as reason:
                step = DecodedStep(Op.TRAP)
                findings.append(_finding(module, instruction, reason, source))
            steps.append(_guarded(context, instruction, step))
    masked = context.output_masks, tuple(steps), context.presets
    if findings:
        return _Decoding(None, findings, *masked)
    _drop_unread(steps)
    joins = [NO_JOIN] * len(steps)
    regions: dict[int, SkippedRegion] = {}
    functions: list[tuple[int, int]] = []
    unfenced: list[UnfencedProduct] = []
    constants = {p.register: p.value for p in context.presets if p.kind is PresetKind.CONSTANT}
    callees = CalledFunctions(
        steps, ((f.start, f.end) for f in module.functions if not f.declared and not f.entry)
    )
    for function in module.functions:
        if function.declared or function.name not in reached:
            continue
        graph = FlowGraph(steps, function.start, function.end)
        functions.append((function.start, function.end))
        unfenced += unfenced_products(graph, constants)
        for index in range(function.start, function.end):
            step = steps[index]
            if step.op in (Op.BRANCH, Op.BRANCH_INDEXED):
                joins[index] = graph.join_of(index)
                if _branches(step):
                    regions[index] = _region(steps, graph, index, joins[index], constants, callees)
        waits = [index for index in range(function.start, function.end) if _waits(regions, index)]
        for index in waits:
            _name_in_waits(steps, graph, index, joins[index])
    code = DecodedCode(
        tuple(steps), tuple(joins), regions, entry.start, len(context.names), tuple(context.names),
        tuple(context.presets), layout.local_bytes, tuple(functions),
        tuple(unfenced),
    )  # fmt: skip
    return _Decoding(code, [], *masked)


def _drop_unread(steps: list[DecodedStep]) -> None:
    """Atomics whose old values nothing reads give none; nvcc leaves the rest to ptxas."""
    used: set[int] = set()
    for step in steps:
        used.update(step.args)
        used.add(step.guard)
        if step.op is Op.WGMMA:
            used.update(step.out)  # it adds to them
    for index, step in enumerate(steps):
        if step.op is Op.ATOMIC and not used & set(step.out):
            steps[index] = replace(step, out=(-1,) * len(step.out))


def _made_alike(steps: list[DecodedStep], graph: FlowGraph, branch: int) -> set[int]:
    """Registers that each round of a loop around a wait gives the same value, so that the number of
    rounds does not matter: the loop is one block from the branch's target to the branch, in which
    one step computes the register from what the block does not change."""
    step = steps[branch]
    if step.op is not Op.BRANCH or (step.flags[0], branch + 1) not in graph.blocks:
        return set()
    block = steps[step.flags[0] : branch]
    writes = Counter(register for item in block for register in item.out if register >= 0)
    alike: set[int] = set()
    for item in block:
        steady = all(register in alike or register not in writes for register in item.args)
        if steady and item.op in PURE and item.guard < 0:
            alike |= {register for register in item.out if writes[register] == 1}
    return alike


def _region(
    steps: list[DecodedStep],
    graph: FlowGraph,
    branch: int,
    join: int,
    constants: dict[int, int],
    callees: CalledFunctions,
) -> SkippedRegion:
    blocks, cyclic = graph.region(branch, join)
    called = callees.graphs(blocks)
    in_blocks = cyclic or bool(called)  # executed block by block, if for their accesses
    refused = callees.refused(called, lambda step: _skippable(step, False, True))
    accesses, only, holds = False, True, False
    whole = [branch]
    if cyclic:
        inside = (at for low, high in blocks for at in range(low, high))
        whole += [at for at in inside if _branches(steps[at])]
    alike = not called and all(
        same_for_all_lanes(graph, at, constants, far=not cyclic) for at in whole
    )
    written: set[int] = set()
    stores: list[DecodedStep] = []
    inner = [*blocks, *chain.from_iterable(other.blocks for other in called)]
    for low, high in inner:
        for index in range(low, high):
            step = steps[index]
            if step.op is Op.STORE and not touches(step):
                stores.append(step)
            own = graph.start <= index < graph.end and not callees.is_call(step)
            if refused < 0 and own and not _skippable(step, alike, in_blocks):
                refused = index
            attempts = step.op is Op.BARRIER_WAIT and not cyclic
            accesses = accesses or touches(step) or attempts
            only = only and step.op in WAITING
            holds = holds or step.op is Op.BARRIER_WAIT
            written.update(register for register in step.out if register >= 0)
    waits = only and holds
    if waits and join != NO_JOIN:
        live = graph.live_at(join)
        written = {register for register in written if live >> register & 1}
        written -= _made_alike(steps, graph, branch)
    looped = in_blocks and accesses and refused < 0
    trap = graph.trap_in(branch, join)
    if trap >= 0 and accesses and not looped:
        refused = trap  # the arms would be executed
    return SkippedRegion(
        cyclic or any(map(loops, called)), refused, accesses, waits, alike, tuple(sorted(written)),
        tuple(chain.from_iterable(inner)) if looped else (), trap >= 0,
        () if accesses else _places(stores, written),
    )  # fmt: skip


def _places(stores: list[DecodedStep], written: set[int]) -> tuple[int, ...]:
    """Registers of addresses (-1 for one that is written itself), offsets and bytes of stores."""
    places = dict.fromkeys(
        (
            -1 if step.args[0] in written else step.args[0],
            step.flags[1],
            step.flags[4] // 8 * (len(step.args) - 1),
        )
        for step in stores
    )
    return tuple(chain.from_iterable(places))


def _waits(regions: dict[int, SkippedRegion], index: int) -> bool:
    return index in regions and regions[index].waits


def _name_in_waits(steps: list[DecodedStep], graph: FlowGraph, branch: int, join: int) -> None:
    """Add a branch whose arms do nothing but wait to the flags of the waits in them."""
    for low, high in graph.region(branch, join)[0]:
        for index in range(low, high):
            if steps[index].op is Op.BARRIER_WAIT:
                steps[index] = replace(steps[index], flags=(*steps[index].flags, branch))


def _branches(step: DecodedStep) -> bool:
    """Whether the step may go one of several ways."""
    return step.op is Op.BRANCH_INDEXED or (step.op is Op.BRANCH and step.guard >= 0)


def _skippable(step: DecodedStep, together: bool, cyclic: bool) -> bool:
    """Whether a step may stand in an arm of a branch on opaque data, or in a loop on it."""
    if step.op is Op.FENCE and not cyclic and step.flags[0] in TENSOR_FENCES:
        return True  # it orders what the arm itself does to tensor memory
    if step.op is Op.FENCE:
        return step.flags[0] == RecordedFence.MEMORY  # left out: it orders nothing here
    if cyclic and _strong(step):
        return False  # the loop may wait for what others write
    if step.op in SKIPPABLE:
        return True
    if step.op is Op.BARRIER_WAIT:
        return together and not cyclic  # one attempt, which does not wait
    return together and step.op in (LOOPED_TOGETHER if cyclic else SKIPPABLE_TOGETHER)


def _strong(step: DecodedStep) -> bool:
    """Whether a step reads or writes memory that others may use at the same time."""
    if step.op in (Op.LOAD, Op.STORE):
        return step.flags[2] != AccessSemantics.WEAK
    return step.op is Op.ATOMIC


def _guarded(
    context: DecodeContext, instruction: ptx.Instruction, step: DecodedStep
) -> DecodedStep:
    if instruction.guard < 0:
        return step
    guard = context.bases[context.function.name] + instruction.guard
    return DecodedStep(
        step.op, guard, instruction.negated, step.kind, step.bits, step.flags, step.out, step.args
    )


def _finding(
    module: ptx.Module,
    instruction: ptx.Instruction,
    reason: Exception,
    source: Source | None,
) -> Diagnostic:
    line, column = instruction.line, instruction.column
    span = Span(module.path, line, column, line, column + len(instruction.name), source)
    what = "an operand is missing or superfluous"
    if isinstance(reason, Unsupported | StopIteration):
        what = str(reason) or "a word is missing"
    headline = f"the machine does not know this form of {quoted(instruction.name)}"
    return diagnostic(UNSUPPORTED, headline, span, what)
