"""Puts a rendered litmus test together: CUDA source for sm_90a and a manifest to launch it by.

The structure is decided here; the template only writes it down. Three kernels, launched in order
on one stream: `titan_litmus_prepare` sets memory to the initial values, `titan_litmus_run` runs the
instances, `titan_litmus_collect` copies final global memory to the outcomes. Word 0 of an
instance's outcomes counts the threads that came to their end; an instance whose waits gave up has
fewer and is no observation. Nothing is launched here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from titan.memory import ast
from titan.memory.ast import FinalMemory, FinalRegister, LitmusTest
from titan.memory.condition import format_condition, observed_terms
from titan.memory.printing import format_instruction
from titan.memory.render.barriers import check_barriers, cluster_phases, participants
from titan.memory.render.instructions import Assembly, Constraint, Writer
from titan.memory.render.layout import Layout, Seat, lay_out
from titan.memory.render.refusal import NotRenderable
from titan.resources import root

TARGET = "sm_90a"
TEMPLATE = "litmus.cu.j2"
INSTANCES = 1024  # suggested instances a launch
PATIENCE = 1 << 16  # suggested tries before a wait gives up


@dataclass(frozen=True, slots=True)
class Rendering:
    """The source of one test and what a host has to know to run it."""

    source: str
    manifest: dict[str, Any]


@dataclass(slots=True)
class Segment:
    """Statements of one kind: by the first `lane`, by its `warp`, or by `all` warps of a thread."""

    kind: str
    statements: list[dict[str, Any]] = field(default_factory=list)


def render(test: LitmusTest) -> Rendering:
    """Source and manifest; raises `NotRenderable` with the reason."""
    _known(test)
    layout = lay_out(test)
    _loop_free(test)
    check_barriers(test, layout)
    slots = _slots(test)
    seats = [_seat(test, layout, seat, slots) for seat in layout.seats]
    context = {
        "layout": layout,
        "stride_bytes": layout.global_bytes,
        "shared_bytes": max(layout.shared_bytes, 16),
        "words": 1 + len(slots),
        "seats": seats,
        "threads": len(seats),
        "cells": [_cell(cell) for cell in layout.cells.values()],
        "finals": [
            {"slot": slot, **_cell(layout.cells[term.location])}
            for term, slot in slots.items()
            if isinstance(term, FinalMemory)
        ],
        "phases": [
            {"cluster": cluster, "count": count}
            for cluster, count in cluster_phases(layout).items()
            if count
        ],
    }
    return Rendering(_fill(context), _manifest(test, layout, slots))


def _fill(context: dict[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(root("backends") / TARGET),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(TEMPLATE).render(context)


def _known(test: LitmusTest) -> None:
    """The question must be about what can be seen, and matrix operands must fit their type."""
    for condition in (test.condition, test.filter):
        if condition is not None:
            _visible(condition, test)
    steps = [step for thread in test.threads for step in thread.instructions]
    if any(isinstance(step, ast.MatrixRead) for step in steps):
        values = [location.initial for location in test.locations]
        values += [s.value for s in steps if isinstance(s, ast.Store) and isinstance(s.value, int)]
        if not all(-128 <= value < 128 for value in values):
            raise NotRenderable("size", "the matrix unit reads 8 bits of a location", test.span)


def _loop_free(test: LitmusTest) -> None:
    for thread in test.threads:
        for step in thread.instructions:
            if isinstance(step, ast.Label | ast.Branch):
                raise NotRenderable("loop", "loops and branches are not rendered", step.span)


def _visible(condition: ast.Condition, test: LitmusTest) -> None:
    if isinstance(condition, ast.Connective):
        for part in condition.parts:
            _visible(part, test)
    elif not isinstance(condition, ast.Compare):
        raise NotRenderable(
            "not observable",
            f"`{format_condition(condition)}` is no outcome that a device shows",
            test.span,
        )


def _slots(test: LitmusTest) -> dict[FinalRegister | FinalMemory, int]:
    """What the condition and the filter name -> its word among the outcomes of an instance."""
    terms = list(observed_terms(test.condition))
    terms += observed_terms(test.filter) if test.filter is not None else []
    for term in terms:
        if isinstance(term, FinalMemory) and test.location(term.location).is_mbarrier:
            raise NotRenderable("not observable", "an mbarrier's value is opaque", test.span)
    return {term: slot for slot, term in enumerate(dict.fromkeys(terms), 1)}


def _seat(
    test: LitmusTest, layout: Layout, seat: Seat, slots: dict[FinalRegister | FinalMemory, int]
) -> dict[str, Any]:
    writer = Writer(layout, seat)
    segments: list[Segment] = []
    for index, step in enumerate(seat.thread.instructions):
        count = participants(test, seat.thread, step) if isinstance(step, ast.Barrier) else 0
        kind = _who(step)
        if not segments or segments[-1].kind != kind:
            segments.append(Segment(kind))
        segments[-1].statements.append(
            _statement(writer.write(step, count), f" // titan {seat.index} {index}")
        )
    stored = [
        {"slot": slot, "register": writer.register(term.register)}
        for term, slot in slots.items()
        if isinstance(term, FinalRegister) and term.thread == seat.thread.name
    ]
    initial = dict(seat.thread.registers)
    registers = [
        {"name": f"r{number}", "value": initial.get(name, 0)}
        for name, number in writer.registers.items()
    ]
    registers += [
        {"name": f"{name}{part}", "value": 0}
        for name in sorted(writer.accumulators)
        for part in "bcd"
    ]
    return {
        "cta": seat.cta,
        "first_warp": seat.warp,
        "end_warp": seat.warp + seat.warps,
        "registers": registers,
        "addresses": [
            {"name": name, "space": space, "rank": layout.rank(cell.cta or 0), **_cell(cell)}
            for name, (cell, space) in writer.addresses.items()
        ],
        "segments": segments,
        "stored": stored,
        "drain": _drain(seat),
        "drain_all": _drain_all(writer),
    }


def _who(step: ast.Instruction) -> str:
    match step:
        case ast.Barrier():
            return "warp"
        case ast.ClusterBarrier() | ast.MatrixRead() | ast.NoEffect():
            return "all"
        case ast.CommitGroup(kind) | ast.WaitGroup(kind) if kind is ast.GroupKind.WGMMA:
            return "all"
    return "lane"


def _statement(assembly: Assembly, mark: str = "") -> dict[str, Any]:
    def operands(pairs: tuple[Constraint, ...]) -> str:
        return ", ".join(f'"{constraint}"({value})' for constraint, value in pairs)

    text = (
        f'asm volatile("{assembly.text}{mark}\\n" : {operands(assembly.outputs)} '
        f': {operands(assembly.inputs)} : "memory");'
    )
    return {"text": text, "poll": assembly.poll}


def _drain(seat: Seat) -> list[str]:
    """What the first lane does at its end, so that no copy is under way when its CTA leaves."""
    steps = seat.thread.instructions
    lines: list[str] = []
    if any(isinstance(s, ast.BulkCopy) and not s.barriers for s in steps):
        lines += [
            'asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
            'asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");',
        ]
    if any(isinstance(s, ast.AsyncCopy) for s in steps):
        lines.append('asm volatile("cp.async.wait_all;" ::: "memory");')
    if any(isinstance(s, ast.BulkCopy) and s.barriers for s in steps):
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


def _cell(cell: Any) -> dict[str, Any]:
    return {
        "cta": cell.cta,
        "offset": cell.offset,
        "initial": cell.location.initial,
        "count": cell.location.count,
        "shared": cell.shared,
    }


def _manifest(
    test: LitmusTest, layout: Layout, slots: dict[FinalRegister | FinalMemory, int]
) -> dict[str, Any]:
    """What a host needs; names stand here only, as JSON strings."""
    return {
        "test": test.name,
        "target": TARGET,
        "kernels": ["titan_litmus_prepare", "titan_litmus_run", "titan_litmus_collect"],
        "arguments": ["memory", "outcomes", "instances", "patience"],
        "launch": {
            "instances": INSTANCES,
            "patience": PATIENCE,
            "ctas_per_instance": layout.ctas,
            "cluster_ctas": layout.cluster_ctas,
            "threads_per_cta": layout.cta_threads,
        },
        "memory_bytes_per_instance": layout.global_bytes,
        "outcome_words_per_instance": 1 + len(slots),
        "threads": [
            {
                "name": seat.thread.name,
                "cta": seat.cta,
                "first_warp": seat.warp,
                "warps": seat.warps,
                "instructions": [format_instruction(step) for step in seat.thread.instructions],
            }
            for seat in layout.seats
        ],
        "locations": [
            {
                "name": name,
                "space": "shared" if cell.shared else "global",
                "cta": cell.cta,
                "offset_bytes": cell.offset,
                "size_bytes": cell.size,
                "initial": cell.location.initial,
                "mbarrier_count": cell.location.count,
            }
            for name, cell in layout.cells.items()
        ],
        "outcomes": [
            {"word": 0, "means": "threads at their end", "complete": len(layout.seats)},
            *({"word": slot, "means": str(term)} for term, slot in slots.items()),
        ],
        "quantifier": test.quantifier.value,
        "condition": _condition(test.condition, slots),
        "condition_text": format_condition(test.condition),
        "filter": _condition(test.filter, slots) if test.filter is not None else None,
    }


def _condition(
    condition: ast.Condition, slots: dict[FinalRegister | FinalMemory, int]
) -> dict[str, Any]:
    """The condition over outcome words."""

    def term(value: ast.Term) -> Any:
        return value if isinstance(value, int) else {"word": slots[value]}

    match condition:
        case ast.Compare(left, relation, right):
            return {"relation": relation, "left": term(left), "right": term(right)}
        case ast.Connective(kind, parts):
            return {"connective": kind, "parts": [_condition(part, slots) for part in parts]}
    raise TypeError(condition)
