"""Renders tests of AMD devices in bulk as HIP: source tests, and tests of CDNA instructions.

A source test becomes the scoped atomics, fences and plain accesses of clang, one statement an
instruction, each behind a mark that no access crosses: the compiler adds what LLVM's memory model
asks for and moves nothing (`compiled` reads that back). A test of instructions is one block of
assembly a thread (`cdna`). Work-groups of one XCD of the test share an XCD, waves share a
work-group, threads of one wave a wave, where they take turns as a divergent branch does. Source:
clang language extensions (`__hip_atomic_*`, `__builtin_amdgcn_fence`), LLVM AMDGPU usage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from titan.foundation.resources import template
from titan.litmus.language import ast
from titan.litmus.language.ast import FinalRegister, LitmusTest, Scope, Semantics
from titan.litmus.language.machine_steps import CdnaStep, StepForm
from titan.litmus.language.printing import format_instruction
from titan.litmus.model.dialect import Dialect
from titan.litmus.render.barriers import with_numbers
from titan.litmus.render.cdna import lanes_of, write_cdna
from titan.litmus.render.harness import harness
from titan.litmus.render.layout import lay_out
from titan.litmus.render.manifest import RenderOptions, describe
from titan.litmus.render.outcomes import ModelVerdict, Outcomes, outcomes_of
from titan.litmus.render.places import AMD, Cell, LitmusLayout, Seat
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.render.rendering import Rendering
from titan.litmus.render.statements import StatementWriter

BACKEND, TEMPLATE = "gfx942", "litmus.hip.cpp.j2"
TARGETS = ("gfx90a", "gfx942", "gfx950")
WAVES_MAX = 16  # of a work-group of 1,024 threads
SEATS_MAX = 31  # whose XCDs fit the first slot of an instance
_ORDERS = {
    Semantics.RELAXED: "__ATOMIC_RELAXED",
    Semantics.ACQUIRE: "__ATOMIC_ACQUIRE",
    Semantics.RELEASE: "__ATOMIC_RELEASE",
    Semantics.ACQ_REL: "__ATOMIC_ACQ_REL",
    Semantics.SC: "__ATOMIC_SEQ_CST",
}
_SCOPES = {
    Scope.WAVEFRONT: ("__HIP_MEMORY_SCOPE_WAVEFRONT", "wavefront"),
    Scope.CTA: ("__HIP_MEMORY_SCOPE_WORKGROUP", "workgroup"),
    Scope.GPU: ("__HIP_MEMORY_SCOPE_AGENT", "agent"),
    Scope.SYS: ("__HIP_MEMORY_SCOPE_SYSTEM", ""),
}
_FETCHES = {
    "exch": "exchange",
    **{name: f"fetch_{name}" for name in ("add", "sub", "and", "or", "xor", "min", "max")},
}


def render_hip(test: LitmusTest, verdict: ModelVerdict | None = None) -> Rendering:
    """Source and manifest; raises `NotRenderable` with the reason."""
    if not test.dialect.amd:
        raise NotRenderable("dialect", f"a test of {test.dialect}, not of an AMD device", test.span)
    outcomes = outcomes_of(test, verdict)
    if test.dialect is Dialect.AMDGPU:
        test = with_numbers(test)
    layout = lay_out(test, AMD)
    if len(layout.seats) > SEATS_MAX:
        raise NotRenderable("size", f"more than {SEATS_MAX} threads", test.span)
    barriers = _barriers(test, layout)
    seats = [_seat(test, layout, seat, outcomes) for seat in layout.seats]
    options = _options(test, layout, any(barriers))
    context = {
        **harness(layout, outcomes, options, set()),
        "seats": seats,
        "parts": layout.parts,
        "barriers": barriers,
        "xcd_pairs": [
            (one.index, two.index, str(layout.cluster(one.cta) == layout.cluster(two.cta)).lower())
            for one, two in combinations(layout.seats, 2)
            if one.cta != two.cta
        ],
    }
    source = str(template(BACKEND, TEMPLATE).render(context))
    manifest = describe(test, layout, outcomes, options, set(), verdict)
    return Rendering(source, manifest, ".hip.cpp")


def _options(test: LitmusTest, layout: LitmusLayout, barriers: bool) -> RenderOptions:
    """How densely instances may be packed; barriers join all waves of a work-group."""
    fit = max(1, AMD.shared_bytes_max // max(layout.shared_bytes, 16))
    lanes = min(AMD.warp_threads // layout.parts, fit)
    if test.dialect is not Dialect.AMDGPU:
        lanes = min(lanes, *(lanes_of(seat.thread, AMD.warp_threads) for seat in layout.seats))
    groups = 1 if barriers else min(WAVES_MAX // layout.group_warps, max(1, fit // lanes))
    per_group = [sum(s.cta == cta for s in layout.seats) for cta in range(layout.ctas)]
    machine = test.dialect.machine
    return RenderOptions(
        {
            "TITAN_LANES": lanes,
            "TITAN_GROUPS": groups,
            "TITAN_TOGETHER": 0,  # the test says which threads share a wave
            "TITAN_STRESS_WARPS": WAVES_MAX - layout.group_warps,
        },
        max(per_group),
        TARGETS if machine is None else (machine,),
        "hip",
    )


def _barriers(test: LitmusTest, layout: LitmusLayout) -> list[int]:
    """How often the threads of each work-group meet. Raises NotRenderable where they differ."""
    found = []
    for cta in range(layout.ctas):
        members = [seat for seat in layout.seats if seat.cta == cta]
        counts = {sum(map(_is_barrier, seat.thread.instructions)) for seat in members}
        if len(counts) > 1:
            raise NotRenderable(
                "barrier", "some thread of a work-group does not come to its s_barrier", test.span
            )
        found.append(counts.pop() if counts else 0)
        if found[-1] and any(seat.part for seat in members):
            raise NotRenderable("barrier", "s_barrier in one of several threads of a wave")
    return found


def _is_barrier(step: ast.LitmusInstruction) -> bool:
    machine = isinstance(step, CdnaStep) and step.form is StepForm.BARRIER
    return machine or isinstance(step, ast.Barrier)


def _seat(
    test: LitmusTest, layout: LitmusLayout, seat: Seat, outcomes: Outcomes
) -> dict[str, object]:
    writer = HipWriter(seat, layout=layout)
    machine = test.dialect.machine
    if machine is None:
        text = _statements(writer)
    else:
        text = write_cdna(writer.register, writer.pointer, seat, machine)
    stored = [
        {"slot": slot, "register": writer.register(term.register)}
        for term, slot in outcomes.slots.items()
        if isinstance(term, FinalRegister) and term.thread == seat.thread.name
    ]
    initial = dict(seat.thread.registers)
    return {
        "cta": seat.cta,
        "first_warp": seat.warp,
        "part": seat.part,
        "number": seat.index,
        "registers": [
            {"name": f"r{number}", "value": initial.get(name, 0)}
            for name, number in writer.registers.items()
        ],
        "addresses": list(writer.addresses.values()),
        "segments": [{"statements": [{"text": text}]}],
        "stored": stored,
    }


def _statements(writer: HipWriter) -> str:
    steps = writer.seat.thread.instructions
    lines = [
        f"{mark(writer.seat.index, str(n))} {writer.write(step, n)}" for n, step in enumerate(steps)
    ]
    lines.append(mark(writer.seat.index, "end"))
    lines += [f"(void)r{number};" for number in writer.registers.values()]
    if writer.bounded:
        behind = f"done_{writer.seat.index}"
        lines.append(f"goto {behind};\n{writer.give_up}: going = 0;\n{behind}:;")
    return "\n".join(lines)


def mark(thread: int, place: str) -> str:
    """A comment in the assembly that no access of memory is moved across by the compiler."""
    return f'asm volatile("; titan {thread} {place}" ::: "memory");'


@dataclass(slots=True)
class HipWriter(StatementWriter):
    """Writes one thread; `addresses` maps a C variable to its declaration."""

    layout: LitmusLayout = field(kw_only=True)
    addresses: dict[str, str] = field(default_factory=dict)

    def pointer(self, name: str) -> str:
        """The C variable with the address of a location, in its address space.

        The compiler takes it as different in each lane, whatever the options are.
        """
        return address(self.layout.cells[name], self.addresses)

    def write(self, step: ast.LitmusInstruction, index: int) -> str:
        """The instruction as a statement. Raises NotRenderable."""
        match step:
            case ast.Load(destination, location, Semantics.WEAK):
                return f"{self.register(destination)} = *{self.pointer(location)};"
            case ast.Store(location, value, Semantics.WEAK):
                return f"*{self.pointer(location)} = {self.value(value, step)};"
            case ast.Load(destination, location, order, scope) if scope is not None:
                load = f"__hip_atomic_load({self.pointer(location)}, {_order(order, scope)})"
                return f"{self.register(destination)} = {load};"
            case ast.Store(location, value, order, scope) if scope is not None:
                operands = f"{self.pointer(location)}, {self.value(value, step)}"
                return f"__hip_atomic_store({operands}, {_order(order, scope)});"
            case ast.Atomic():
                return self._atomic(step)
            case ast.Fence(order, scope):
                return f'__builtin_amdgcn_fence({_ORDERS[order]}, "{_SCOPES[scope][1]}");'
            case ast.Barrier():
                return "__builtin_amdgcn_s_barrier();"
        if (plain := self.plain(step, index)) is not None:
            return plain
        head = format_instruction(step).split()[0]
        raise NotRenderable("no counterpart", f"HIP has no `{head}`", step.span)

    def _atomic(self, step: ast.Atomic) -> str:
        place = self.pointer(step.location)
        # Opaque, or the compiler makes a load of an atomic that adds 0.
        values = [f"(int)in_lanes((unsigned){self.value(o, step)})" for o in step.operands]
        target = "(void)" if step.destination is None else f"{self.register(step.destination)} = "
        if step.operation == "cas":
            failure = Semantics.ACQUIRE if step.semantics.acquires else Semantics.RELAXED
            orders = f"{_ORDERS[step.semantics]}, {_ORDERS[failure]}, {_SCOPES[step.scope][0]}"
            call = f"__hip_atomic_compare_exchange_strong({place}, &old, {values[1]}, {orders})"
            return f"{{ int old = {values[0]}; (void){call}; {target}old; }}"
        if step.operation not in _FETCHES:
            raise NotRenderable("no such form", f"no atomic {step.operation}", step.span)
        name = f"__hip_atomic_{_FETCHES[step.operation]}"
        return f"{target}{name}({place}, {values[0]}, {_order(step.semantics, step.scope)});"


def _order(order: Semantics, scope: Scope) -> str:
    return f"{_ORDERS[order]}, {_SCOPES[scope][0]}"


def address(cell: Cell, addresses: dict[str, str]) -> str:
    """The C variable with the address of a location; its declaration is added."""
    if cell.shared:
        variable, start = f"s{cell.index}", "shared + copy * SHARED_STRIDE"
        place = f"(lds_int*)(lds_byte*)({start} + in_lanes({cell.offset}u))"
    else:
        variable = f"g{cell.index}"
        place = f"(global_int*)(mine0 + in_lanes({cell.offset}u))"
    addresses[variable] = f"auto {variable} = {place}"
    return variable
