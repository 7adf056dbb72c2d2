"""Writes a thread of CDNA instructions as one block of inline assembly for its target.

Between two lines of a block nothing is moved, added or left out; before the first and behind the
last one (neither is marked) all counters are waited for, so that the block begins with nothing in
flight and the compiler may use every result. LDS DMA writes where M0 says, at 4 bytes a lane, and
scalar loads and jumps are those of a whole wave: such tests take one instance a wave. Source: CDNA3
ISA, 4.4 (counters), 10.3 (LDS DMA); LLVM AMDGPU operand syntax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.litmus.language.ast import LitmusThread, Operand, Register
from titan.litmus.language.machine_steps import CACHE_BITS, CdnaStep, StepForm
from titan.litmus.render.places import Seat
from titan.litmus.render.refusal import NotRenderable

ALL_BACK = "s_waitcnt vmcnt(0) lgkmcnt(0)"
_OF_A_WAVE = (StepForm.COPY, StepForm.SCALAR, StepForm.BRANCH)
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_VERBATIM = (StepForm.WAIT, StepForm.BARRIER, StepForm.WRITE_BACK, StepForm.INVALIDATE)
_INLINE = range(-16, 65)  # constants that every operand takes


def lanes_of(thread: LitmusThread, most: int) -> int:
    """How many instances may share a wave."""
    steps = [step for step in thread.instructions if isinstance(step, CdnaStep)]
    return 1 if any(step.form in _OF_A_WAVE for step in steps) else most


@dataclass(slots=True)
class _Block:
    """The operands of the block: each C expression once; registers are outputs."""

    register: Callable[[str], str]
    place: Callable[[str], str]
    thread: int
    returning: str
    outputs: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    def result(self, name: str, mark: str = "v") -> str:
        """A register of the test; scalar loads return to a scalar one."""
        variable = self.register(name)
        self.outputs[variable] = f"+&{mark}"
        return f"%[{variable}]"

    def input(self, symbol: str, expression: str, mark: str = "v") -> str:
        """An operand that is only read."""
        self.inputs.setdefault(symbol, f'[{symbol}] "{mark}"({expression})')
        return f"%[{symbol}]"

    def address(self, name: str) -> str:
        """The address of a location in vector registers."""
        variable = self.place(name)
        return self.input(variable, variable)

    def data(self, operand: Operand, step: CdnaStep) -> str:
        """A value in a vector register."""
        if isinstance(operand, Register):
            return self.result(operand.name)
        if not -(2**31) <= operand < 2**31:
            raise NotRenderable("size", f"{operand} does not fit 32 bits", step.span)
        return self.input(f"c{operand}".replace("-", "m"), f"{operand}")


def write_cdna(
    register: Callable[[str], str], place: Callable[[str], str], seat: Seat, target: str
) -> str:
    """The thread as one statement. `register` and `place` give the C variables of the test's names.

    Raises NotRenderable.
    """
    block = _Block(register, place, seat.index, "glc" if target == "gfx90a" else "sc0")
    steps = [step for step in seat.thread.instructions if isinstance(step, CdnaStep)]
    scalar = {s.destination for s in steps if s.form is StepForm.SCALAR}
    for step in steps:
        if step.destination in scalar and step.form is not StepForm.SCALAR:
            raise NotRenderable("no such form", "a vector result in a scalar register", step.span)
    labels = {step.target: n for n, step in enumerate(steps) if step.form is StepForm.LABEL}
    lines = [ALL_BACK]
    for number, step in enumerate(steps):
        *before, text = _lines(block, step, labels)
        lines += [*before, f"{text} ; titan {seat.index} {number}"]
    lines += [ALL_BACK]
    for name in scalar:
        assert name is not None
        block.outputs[register(name)] = "+&s"
    body = "\n".join(f'  "{line}\\n"' for line in lines)
    outputs = ", ".join(f'[{name}] "{mark}"({name})' for name, mark in block.outputs.items())
    inputs = ", ".join(block.inputs.values())
    clobbers = '"memory", "m0", "vcc"'
    return f"asm volatile(\n{body}\n  : {outputs}\n  : {inputs}\n  : {clobbers});"


def _lines(block: _Block, step: CdnaStep, labels: dict[str, int]) -> list[str]:
    """The instruction as the last line, and what the harness has to do just before it."""
    head, bits = step.text.split(maxsplit=1)[0], _bits(step)
    match step.form:
        case form if form in _VERBATIM:
            return [step.text]
        case StepForm.LABEL:
            return [_label(block, labels[step.target])]
        case StepForm.BRANCH:
            return _branch(block, step, labels)
        case StepForm.ASSIGN:
            assert step.destination is not None
            (value,) = step.operands
            text = block.result(value.name) if isinstance(value, Register) else f"{value}"
            return [f"v_mov_b32 {block.result(step.destination)}, {text}"]
        case StepForm.COPY:
            return _copy(block, step, bits)
        case StepForm.SCALAR:
            assert step.destination is not None and step.location is not None
            variable = block.place(step.location)
            at = block.input(f"u{variable}", f"uniform_address({variable})", "s")
            return [f"{head} {block.result(step.destination, 's')}, {at}, 0x0"]
    return [_access(block, step, head, bits)]


def _access(block: _Block, step: CdnaStep, head: str, bits: str) -> str:
    assert step.location is not None
    at = block.address(step.location)
    returns = [block.result(step.destination)] if step.destination is not None else []
    if step.form is StepForm.ATOMIC and step.operation == "cas":
        old, new = (o if isinstance(o, int) else None for o in step.operands)
        if old is None or new is None:
            raise NotRenderable(
                "no such form", "a compare and swap of registers needs a pair", step.span
            )
        pair = f"{(old & 0xFFFFFFFF) << 32 | new & 0xFFFFFFFF:#x}ull"
        values = [block.input(f"p{old}_{new}".replace("-", "m"), pair)]
    else:
        values = [block.data(operand, step) for operand in step.operands]
    lds = head.startswith("ds_")
    if step.form is StepForm.ATOMIC:  # the bit that asks for the old value
        bits = f"{block.returning} {bits}"
    operands = ", ".join([*returns, at, *values, *([] if lds else ["off"])])
    return f"{head} {operands} {bits}".rstrip()


def _bits(step: CdnaStep) -> str:
    return " ".join(word for word in step.text.split() if word in CACHE_BITS)


def _copy(block: _Block, step: CdnaStep, bits: str) -> list[str]:
    """M0 holds where in LDS lane 0 writes."""
    assert step.location is not None and step.source is not None
    variable = block.place(step.location)
    offset = f"in_all_lanes((unsigned)(__UINTPTR_TYPE__){variable})"
    target = block.input(f"u{variable}", offset, "s")
    text = f"global_load_lds_dword {block.address(step.source)}, off {bits}".rstrip()
    return [f"s_mov_b32 m0, {target}", "s_nop 0", text]


def _branch(block: _Block, step: CdnaStep, labels: dict[str, int]) -> list[str]:
    left, right = step.operands
    for operand in (left, right):
        if isinstance(operand, int) and operand not in _INLINE:
            raise NotRenderable("size", f"{operand} is no inline constant", step.span)
    assert step.relation is not None
    texts = [f"{o}" if isinstance(o, int) else block.result(o.name) for o in (left, right)]
    compare = f"v_cmp_{_COMPARISONS[step.relation]}_i32_e64 vcc, {texts[0]}, {texts[1]}"
    return [compare, f"s_cbranch_vccnz {_label(block, labels[step.target])[:-1]}"]


def _label(block: _Block, number: int) -> str:
    return f".Ltitan%={block.thread}_{number}:"
