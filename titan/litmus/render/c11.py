"""Renders a litmus test as C11 with atomics and threads, for a run on a CPU.

All memory of a CPU is coherent and one scope, so every scope becomes the whole machine, and weak
accesses become relaxed atomics (a plain access that races has no meaning in C). Both order more
than the test, never less: what the model forbids must not be seen. Proxies, aliases, asynchronous
copies and mbarriers have no counterpart and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.resources import template
from titan.litmus.language import ast
from titan.litmus.language.ast import (
    FinalMemory,
    FinalRegister,
    LitmusTest,
    Proxy,
    Semantics,
)
from titan.litmus.language.condition import format_condition
from titan.litmus.language.printing import format_instruction
from titan.litmus.model.dialect import Dialect
from titan.litmus.render.barriers import check_barriers, participants, with_numbers
from titan.litmus.render.layout import lay_out_anywhere
from titan.litmus.render.manifest import FORMAT
from titan.litmus.render.outcomes import ModelVerdict, Outcomes, outcomes_of
from titan.litmus.render.places import LitmusLayout
from titan.litmus.render.refusal import NotRenderable, check_dialect
from titan.litmus.render.rendering import Rendering
from titan.litmus.render.statements import StatementWriter

TARGET = "c11"
TEMPLATE = "litmus.c.j2"
DEFAULTS = {"instances": 4096, "rounds": 16, "patience": 8192, "seed": 1, "spread": 1000}
COMPILE = ["cc", "-std=c11", "-O2", "-pthread"]

_ORDERS = {
    Semantics.WEAK: "relaxed",
    Semantics.RELAXED: "relaxed",
    Semantics.ACQUIRE: "acquire",
    Semantics.RELEASE: "release",
    Semantics.ACQ_REL: "acq_rel",
    Semantics.SC: "seq_cst",
}
_FETCHES = {
    "add": "atomic_fetch_add_explicit",
    "sub": "atomic_fetch_sub_explicit",
    "and": "atomic_fetch_and_explicit",
    "or": "atomic_fetch_or_explicit",
    "xor": "atomic_fetch_xor_explicit",
    "exch": "atomic_exchange_explicit",
    "min": "fetch_min",
    "max": "fetch_max",
}


def render_c11(test: LitmusTest, verdict: ModelVerdict | None = None) -> Rendering:
    """Source and manifest; raises `NotRenderable` with the reason."""
    check_dialect(test, Dialect.PTX)
    outcomes = outcomes_of(test, verdict)
    _plain(test)
    test = with_numbers(test)
    layout = lay_out_anywhere(test)
    check_barriers(test, layout)
    writers = [_Writer(seat, test=test, layout=layout) for seat in layout.seats]
    threads = [_thread(writer, outcomes) for writer in writers]
    numbers = {thread.name: number for number, thread in enumerate(test.threads)}
    context = {
        "outcomes": outcomes,
        "threads": threads,
        "locations": [location.initial for location in test.locations],
        "barriers": _barriers(layout),
        "defaults": list(DEFAULTS.values()),
        "registers_seen": [
            {"slot": slot, "thread": numbers[term.thread]}
            for term, slot in outcomes.slots.items()
            if isinstance(term, FinalRegister)
        ],
        "finals": [
            {"slot": slot, "location": writers[0].locations[term.location]}
            for term, slot in outcomes.slots.items()
            if isinstance(term, FinalMemory)
        ],
        "digits": [
            {"slot": slot, "values": outcomes.domains[term]}
            for term, slot in outcomes.slots.items()
        ],
    }
    return Rendering(_fill(context), _manifest(test, outcomes, verdict), ".c")


def _fill(context: dict[str, object]) -> str:
    return str(template(TARGET, TEMPLATE).render(context))


def _plain(test: LitmusTest) -> None:
    for location in test.locations:
        if location.alias_of is not None or location.is_mbarrier:
            raise NotRenderable(
                "no counterpart", "a cpu has no proxies, aliases or mbarriers", location.span
            )
        if not -(2**31) < location.initial < 2**31:
            raise NotRenderable("size", "an initial value does not fit 32 bits", location.span)


def _barriers(layout: LitmusLayout) -> dict[tuple[str, int, int], int]:
    """Each barrier of a CTA or cluster -> its number."""
    found: dict[tuple[str, int, int], int] = {}
    for seat in layout.seats:
        for step in seat.thread.instructions:
            if isinstance(step, ast.Barrier):
                assert isinstance(step.identifier, int)
                found.setdefault(("cta", seat.cta, step.identifier), len(found))
            elif isinstance(step, ast.ClusterBarrier):
                found.setdefault(("cluster", layout.cluster(seat.cta), 0), len(found))
    return found


@dataclass(slots=True)
class _Writer(StatementWriter):
    """Writes one thread; locations are numbers."""

    test: LitmusTest = field(kw_only=True)
    layout: LitmusLayout = field(kw_only=True)
    locations: dict[str, int] = field(init=False)
    waits: int = 0

    def __post_init__(self) -> None:
        self.locations = {place.name: n for n, place in enumerate(self.test.locations)}

    def at(self, name: str) -> str:
        return f"&mine->location[{self.locations[name]}].value"

    def write(self, step: ast.LitmusInstruction, index: int) -> str:
        match step:
            case ast.Load(destination, location, proxy=Proxy.GENERIC):
                order = _order(step.semantics)
                load = f"atomic_load_explicit({self.at(location)}, {order})"
                return f"{self.register(destination)} = {load};"
            case ast.Store(location, value, proxy=Proxy.GENERIC):
                order = _order(step.semantics)
                operand = self.value(value, step)
                return f"atomic_store_explicit({self.at(location)}, {operand}, {order});"
            case ast.Atomic():
                return self._atomic(step)
            case ast.Fence(semantics):
                return f"atomic_thread_fence({_order(semantics)});"
            case ast.Barrier() | ast.ClusterBarrier():
                return self._barrier(step)
        if (plain := self.plain(step, index)) is not None:
            return plain
        raise NotRenderable(
            "no counterpart",
            f"a cpu has no `{format_instruction(step).split()[0]}`",
            step.span,
        )

    def _atomic(self, step: ast.Atomic) -> str:
        order = _order(step.semantics)
        values = [self.value(operand, step) for operand in step.operands]
        if step.operation == "cas":
            failure = "acquire" if step.semantics.acquires else "relaxed"
            call = (
                f"compare_exchange({self.at(step.location)}, {', '.join(values)}, {order}, "
                f"memory_order_{failure})"
            )
        elif step.operation in _FETCHES:
            call = f"{_FETCHES[step.operation]}({self.at(step.location)}, {values[0]}, {order})"
        else:
            raise NotRenderable("no such form", f"no atomic {step.operation}", step.span)
        if step.destination is None:
            return f"(void){call};"
        return f"{self.register(step.destination)} = {call};"

    def _barrier(self, step: ast.Barrier | ast.ClusterBarrier) -> str:
        numbers = _barriers(self.layout)
        if isinstance(step, ast.Barrier):
            assert isinstance(step.identifier, int)
            barrier = f"&mine->barrier[{numbers['cta', self.seat.cta, step.identifier]}].value"
            count = participants(self.test, self.seat.thread, step)
            if step.waits:
                return f"sync({barrier}, {count});"
            return f"arrive({barrier}, memory_order_release);"
        cluster = self.layout.cluster(self.seat.cta)
        barrier = f"&mine->barrier[{numbers['cluster', cluster, 0]}].value"
        if not step.waits:
            return f"arrive({barrier}, {_order(step.semantics)});"
        self.waits += 1
        peers = sum(self.layout.cluster(seat.cta) == cluster for seat in self.layout.seats)
        return f"await({barrier}, {self.waits * peers});"


def _order(semantics: Semantics) -> str:
    return f"memory_order_{_ORDERS[semantics]}"


def _thread(writer: _Writer, outcomes: Outcomes) -> dict[str, object]:
    thread = writer.seat.thread
    lines = [
        f"{writer.write(step, index)} /* titan {writer.seat.index} {index} */"
        for index, step in enumerate(thread.instructions)
    ]
    stored = [
        {"slot": slot, "register": writer.register(term.register)}
        for term, slot in outcomes.slots.items()
        if isinstance(term, FinalRegister) and term.thread == thread.name
    ]
    initial = dict(thread.registers)
    return {
        "lines": lines,
        "stored": stored,
        "give_up": writer.give_up if writer.bounded else None,
        "registers": [
            {"name": f"r{number}", "value": initial.get(name, 0)}
            for name, number in writer.registers.items()
        ],
    }


def _manifest(
    test: LitmusTest, outcomes: Outcomes, verdict: ModelVerdict | None
) -> dict[str, object]:
    return {
        "format": FORMAT,
        "test": test.name,
        "comment": test.comment,
        "target": TARGET,
        "language": "c11",
        "compile": COMPILE,
        "entry": "titan_litmus_run",
        "parameters": [
            *({"name": name, "type": "unsigned", "role": name} for name in DEFAULTS),
            {"name": "histogram", "type": "unsigned long long*", "role": "histogram"},
        ],
        "buffers": [
            {
                "parameter": "histogram",
                "bytes_per_instance": 0,
                "bytes": 8 * (outcomes.buckets + 1),
            }
        ],
        "launch": DEFAULTS,
        "scopes": {"all_threads_share": "machine"},
        "threads": [
            {
                "name": thread.name,
                "instructions": [format_instruction(step) for step in thread.instructions],
            }
            for thread in test.threads
        ],
        "outcomes": outcomes.as_json(),
        "quantifier": test.quantifier.value,
        "condition": outcomes.condition(test.condition),
        "condition_text": format_condition(test.condition),
        "filter": outcomes.condition(test.filter) if test.filter is not None else None,
        "verdict": verdict.as_json() if verdict is not None else None,
    }
