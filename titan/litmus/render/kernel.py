"""Puts a rendered litmus test together: CUDA source and a manifest to launch it by.

The structure is decided here; the template only writes it down. Kernels, launched in order on one
stream: `titan_litmus_prepare` sets memory to the initial values, `titan_litmus_run` runs the
instances, `titan_litmus_collect` counts their outcomes. Nothing is launched here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from titan.foundation.resources import template
from titan.litmus.language import ast
from titan.litmus.language.ast import FinalMemory, FinalRegister, LitmusTest
from titan.litmus.model.dialect import Dialect
from titan.litmus.render import tensors
from titan.litmus.render.barriers import (
    check_barriers,
    cluster_phases,
    participants,
    with_numbers,
)
from titan.litmus.render.blocks import has_jumps, write_block
from titan.litmus.render.harness import cell_context, harness
from titan.litmus.render.instructions import Assembly, Constraint, Writer
from titan.litmus.render.layout import lay_out
from titan.litmus.render.manifest import (
    CONSTANT_INSTANCES,
    TARGET,
    RenderOptions,
    describe,
)
from titan.litmus.render.outcomes import ModelVerdict, Outcomes, outcomes_of
from titan.litmus.render.places import (
    SHARED_BYTES_MAX,
    WARP_THREADS,
    WARPGROUP_WARPS,
    LitmusLayout,
    LitmusRegion,
    Seat,
)
from titan.litmus.render.refusal import NotRenderable, check_dialect
from titan.litmus.render.rendering import Rendering

TEMPLATE = "litmus.cu.j2"
LANES_MAX = 32
WARPS_MAX = 32


class StatementContext(TypedDict):
    """One statement for the template; `poll` names the flag of a wait."""

    text: str
    poll: str | None


class SeatContext(TypedDict):
    """What one thread of a test does, for the template."""

    cta: int
    first_warp: int
    end_warp: int
    registers: list[dict[str, str | int]]
    addresses: list[object]
    segments: list[KernelSegment]
    stored: list[dict[str, str | int]]
    drain: list[str]
    drain_all: list[str]
    number: int
    multiplies: bool


@dataclass(slots=True)
class KernelSegment:
    """Statements of one kind: by the lane, by its `warp`, by `all` warps of a thread, a `block`.

    A `copy` is one that all lanes of its warp execute together as long as the thread runs.
    """

    kind: str
    statements: list[StatementContext] = field(default_factory=list)


def render(test: LitmusTest, verdict: ModelVerdict | None = None) -> Rendering:
    """Source and manifest; raises `NotRenderable` with the reason."""
    check_dialect(test, Dialect.PTX)
    outcomes = outcomes_of(test, verdict)
    _known(test)
    tensors.check(test)
    test = with_numbers(test)
    layout = lay_out(test)
    tensors.check_launch(test, layout)
    check_barriers(test, layout)
    seats = [_seat(test, layout, seat, outcomes) for seat in layout.seats]
    limits = _limits(layout, seats)
    finals = (t for t in outcomes.slots if isinstance(t, FinalMemory))
    if any(layout.cells[t.location].is_map and layout.cells[t.location].shared for t in finals):
        raise NotRenderable("not observable", "a map in shared memory is opaque", test.span)
    bindings = _bindings(layout, seats)
    context = {
        **harness(layout, outcomes, limits, bindings),
        "seats": seats,
        "shared_max": _shared_max(layout),
        "tensor": _tensor(layout, outcomes),
        "constant_instances": CONSTANT_INSTANCES // max(1, layout.constant_bytes),
        "maps": [
            {"cta": cell.cta, "offset": cell.offset, "tiles": cell.tiles, "images": cell.images}
            for cell in layout.cells.values()
            if cell.is_map
        ],
        "bound_cells": [
            cell_context(cell)
            for cell in layout.cells.values()
            if cell.region in (LitmusRegion.ARRAY, LitmusRegion.CONSTANT)
            and cell.location.alias_of is None
        ],
        "phases": [
            {"cluster": cluster, "count": count}
            for cluster, count in cluster_phases(layout).items()
            if count
        ],
    }
    return Rendering(_fill(context), describe(test, layout, outcomes, limits, bindings, verdict))


def _fill(context: dict[str, object]) -> str:
    return str(template(TARGET, TEMPLATE).render(context))


def _shared_max(layout: LitmusLayout) -> int:
    tensor = any(tensors.uses_tensors(seat.thread) for seat in layout.seats)
    return SHARED_BYTES_MAX - (tensors.RESERVED_BYTES if tensor else 0)


def _tensor(layout: LitmusLayout, outcomes: Outcomes) -> dict[str, object] | None:
    """What the template knows of tensor memory; None for a test without tcgen05."""
    if not any(tensors.uses_tensors(seat.thread) for seat in layout.seats):
        return None
    return {
        "columns": tensors.COLUMNS * _results(layout),
        "columns_max": tensors.COLUMNS_MAX,
        "result_columns": tensors.COLUMNS,
        "selector_bytes": tensors.SELECTOR_BYTES,
        "results": tensors.results(layout.seats, outcomes.slots),
    }


def _results(layout: LitmusLayout) -> int:
    """Results that the tensor memory of one instance's CTA has to hold, one at least."""
    return 1 + max(tensors.numbers(layout.seats).values(), default=0)


def _known(test: LitmusTest) -> None:
    """Matrix operands must fit their type."""
    steps = [step for thread in test.threads for step in thread.instructions]
    if any(isinstance(step, ast.MatrixRead) for step in steps):
        values = [location.initial for location in test.locations]
        values += [s.value for s in steps if isinstance(s, ast.Store) and isinstance(s.value, int)]
        if not all(-128 <= value < 128 for value in values):
            raise NotRenderable("size", "the matrix unit reads 8 bits of a location", test.span)


def _limits(layout: LitmusLayout, seats: list[SeatContext]) -> RenderOptions:
    """How densely instances may be packed so that each still does what the test says."""
    kinds = {segment.kind for seat in seats for segment in seat["segments"]}
    warps = layout.cta_threads // WARP_THREADS
    groups = max(1, WARPS_MAX // warps)
    fit = max(1, _shared_max(layout) // max(layout.shared_bytes, 16))
    if "warp" in kinds:
        groups = 1  # one set of named barriers a CTA
    lanes = min(LANES_MAX, fit)
    if any(seat.warps > 1 for seat in layout.seats):
        lanes = 1
        groups = groups if warps % WARPGROUP_WARPS == 0 else 1  # a warpgroup starts at its multiple
    if "copy" in kinds:
        lanes = 1
    tensor = any(tensors.uses_tensors(seat.thread) for seat in layout.seats)
    if tensor:  # one thread issues
        lanes = 1
        groups = min(groups, tensors.COLUMNS_MAX // (tensors.COLUMNS * _results(layout)))
    per_cta = [sum(s.cta == cta for s in layout.seats) for cta in range(layout.ctas)]
    alone = not tensor and kinds <= {"lane", "block"} and layout.cta_threads == 32 * max(per_cta)
    return RenderOptions(
        {
            "TITAN_LANES": lanes,
            "TITAN_GROUPS": min(groups, fit),
            "TITAN_TOGETHER": int(alone and max(per_cta) > 1),
            "TITAN_STRESS_WARPS": WARPS_MAX - warps,
        },
        max(per_cta),
        (tensors.TARGET if tensor else TARGET,),
    )


def _seat(test: LitmusTest, layout: LitmusLayout, seat: Seat, outcomes: Outcomes) -> SeatContext:
    writer = Writer(layout, seat)
    results = tensors.registers(seat.thread)
    segments = _block(writer) if has_jumps(seat.thread) else _segments(test, writer)
    stored: list[dict[str, str | int]] = [
        {"slot": slot, "register": writer.register(term.register)}
        for term, slot in outcomes.slots.items()
        if isinstance(term, FinalRegister)
        and term.thread == seat.thread.name
        and term.register not in results
    ]
    initial = dict(seat.thread.registers)
    registers: list[dict[str, str | int]] = [
        {"name": f"r{number}", "value": initial.get(name, 0)}
        for name, number in writer.registers.items()
    ]
    registers += [
        {"name": f"{name}{part}", "value": 0}
        for name in sorted(writer.accumulators)
        for part in "bcd"
    ]
    drain_all = _drain_all(writer)
    return {
        "cta": seat.cta,
        "first_warp": seat.warp,
        "end_warp": seat.warp + seat.warps,
        "registers": registers,
        "addresses": list(writer.addresses.values()),
        "segments": segments,
        "stored": stored,
        "drain": _drain(seat),
        "drain_all": drain_all,
        "number": seat.index,
        "multiplies": bool(results),
    }


def _segments(test: LitmusTest, writer: Writer) -> list[KernelSegment]:
    segments: list[KernelSegment] = []
    seat = writer.seat
    for index, step in enumerate(seat.thread.instructions):
        count = participants(test, seat.thread, step) if isinstance(step, ast.Barrier) else 0
        kind = _who(step)
        if not segments or segments[-1].kind != kind:
            segments.append(KernelSegment(kind))
        segments[-1].statements.append(
            _statement(writer.write(step, count), f" // titan {seat.index} {index}")
        )
    return segments


def _block(writer: Writer) -> list[KernelSegment]:
    for step in writer.seat.thread.instructions:
        if _who(step) != "lane":
            raise NotRenderable(
                "loop", "an operation of a whole warp in a thread with jumps", step.span
            )
    lines, outputs, inputs = write_block(writer)
    text = "\n".join(f'  "{line}\\n"' for line in lines)
    operands = f": {_operands(tuple(outputs))} : {_operands(tuple(inputs))}"
    statement = f'asm volatile(\n{text}\n  {operands} : "memory");'
    return [KernelSegment("block", [{"text": statement, "poll": None}])]


def _who(step: ast.LitmusInstruction) -> str:
    match step:
        case _ if tensors.is_tensor(step):
            return "lane"
        case ast.Barrier():
            return "warp"
        case ast.ClusterBarrier() | ast.MatrixRead() | ast.NoEffect():
            return "all"
        case ast.CommitGroup(kind) | ast.WaitGroup(kind) if kind is ast.GroupKind.WGMMA:
            return "all"
        case ast.DescriptorCopy():
            return "copy"
    return "lane"


def _operands(pairs: tuple[Constraint, ...]) -> str:
    return ", ".join(f'"{constraint}"({value})' for constraint, value in pairs)


def _statement(assembly: Assembly, mark: str = "") -> StatementContext:
    text = (
        f'asm volatile("{assembly.text}{mark}\\n" : {_operands(assembly.outputs)} '
        f': {_operands(assembly.inputs)} : "memory");'
    )
    return {"text": text, "poll": assembly.poll}


def _drain(seat: Seat) -> list[str]:
    """What the lane does at its end, so that no copy is under way when its CTA leaves."""
    steps = seat.thread.instructions
    lines: list[str] = []
    if any(isinstance(s, ast.BulkCopy) and not s.barriers for s in steps):
        lines += [
            'asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
            'asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");',
        ]
    if any(isinstance(s, ast.AsyncCopy) for s in steps):
        lines.append('asm volatile("cp.async.wait_all;" ::: "memory");')
    if any(
        isinstance(s, ast.AsyncStore) or (isinstance(s, ast.BulkCopy) and s.barriers) for s in steps
    ):
        lines.append("__nanosleep(20000);")
    return lines


def _drain_all(writer: Writer) -> list[str]:
    if not writer.accumulators:
        return []
    groups = (
        ast.CommitGroup(ast.GroupKind.WGMMA),
        ast.WaitGroup(ast.GroupKind.WGMMA, 0),
    )
    return [_statement(writer.write(step))["text"] for step in groups]


def _bindings(layout: LitmusLayout, seats: list[SeatContext]) -> set[str]:
    """Texture and surface objects that some thread uses."""
    text = " ".join(
        statement["text"]
        for seat in seats
        for segment in seat["segments"]
        for statement in segment.statements
    )
    names = [
        "texture",
        "surface",
        *(f"texture{n}" for n in range(layout.views[LitmusRegion.MEMORY])),
    ]
    return {name for name in names if f"({name})" in text}
