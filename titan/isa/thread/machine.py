"""Runs the integer part of a kernel's PTX for one thread, and notes what synchronises.

Nothing blocks: every test of a barrier fails once and then succeeds, so that the thread takes the
path that it takes when all others do their part, and shows that it tests again. What depends on
data (floats, loads) is not known; a branch on it is refused, since the order of the synchronising
instructions would depend on data. The thread is the elected one exactly if it is lane 0 of its
warp. `shfl.idx` gives the thread's own value, which holds for what is the same in the warp; the
emitter uses it for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from titan.foundation.errors import Refusal
from titan.isa.thread.integers import WIDTHS, Bits, compare, compute, integer_type
from titan.isa.thread.ptx import PtxInstruction, PtxKernel, split_operands

STEPS_MAX = 3_000_000
SHARED_BASE = 1024
PARAMETER_BASE = 1 << 44  # where parameters stand: below nothing that a thread could reach
POINTER_BASE = 1 << 45
STRIDE = 1 << 12
TENSOR_BASE = 1024  # what an allocation of tensor memory returns: beyond all of its columns
CTA_SHIFT = 24  # shared memory of another CTA of the cluster
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+U?|\d+U?)")
_ADDRESS = re.compile(r"\[\s*([%\w$@.]+)\s*(?:\+\s*(-?\d+)\s*)?\]")


class UnsupportedPtx(Refusal):
    """The text holds something whose effect on the control flow is not known."""


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """What a thread did: its kind, numbers (None: not known), modifiers, and the line.

    `warp_met`: since its last event the thread has met the others of its warp (`bar.warp.sync`).
    """

    kind: str
    values: tuple[Bits, ...]
    modifiers: tuple[str, ...]
    line: int
    warp_met: bool = False


@dataclass(frozen=True, slots=True)
class ThreadLaunch:
    """Which thread runs, and what the launch says; `arguments` are the sizes by position."""

    thread: int
    threads: int
    block: int
    grid: int
    arguments: Mapping[int, int]
    rank: int = 0
    tensor_slot: int = -1  # where the address of the allocated tensor memory is


@dataclass(slots=True)
class Ran:
    """What one thread did until its end."""

    events: list[ThreadEvent] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # lines of synchronising instructions


# What neither synchronises nor gives a number that control could depend on.
_SILENT = {
    "ld", "ldu", "prefetch", "prefetchu", "pragma", "nanosleep", "membar", "griddepcontrol",
    "applypriority", "discard", "red", "atom", "st", "stmatrix", "ldmatrix", "trap", "brkpt",
}  # fmt: skip


def run(kernel: PtxKernel, thread: ThreadLaunch) -> Ran:
    """The events of the thread until it ends. Raises UnsupportedPtx."""
    return _Machine(kernel, thread).run()


class _Machine:
    def __init__(self, kernel: PtxKernel, thread: ThreadLaunch) -> None:
        self.kernel = kernel
        self.thread = thread
        self.registers: dict[str, Bits] = {}
        self.ran = Ran()
        self.warp_met = False
        self.failed: tuple[int, Bits, Bits] | None = None  # a test of a barrier that failed
        self.symbols = {
            parameter.name: PARAMETER_BASE + i * STRIDE
            for i, parameter in enumerate(kernel.parameters)
        }
        self.specials: dict[str, int] = {
            "%tid.x": thread.thread, "%tid.y": 0, "%tid.z": 0,
            "%ntid.x": thread.threads, "%ntid.y": 1, "%ntid.z": 1,
            "%ctaid.x": thread.block, "%ctaid.y": 0, "%ctaid.z": 0,
            "%nctaid.x": thread.grid, "%nctaid.y": 1, "%nctaid.z": 1,
            "%laneid": thread.thread % 32, "%cluster_ctarank": thread.rank,
        }  # fmt: skip

    def run(self) -> Ran:
        instructions = self.kernel.instructions
        position = steps = 0
        while position < len(instructions):
            steps += 1
            if steps > STEPS_MAX:
                raise UnsupportedPtx(f"the thread executes more than {STEPS_MAX} steps")
            here = instructions[position]
            position += 1
            if here.guard:
                holds = self.registers.get(here.guard)
                if holds is None:
                    if here.opcode in ("bra", "ret", "exit") or here.opcode in NOTED:
                        raise UnsupportedPtx(f"line {here.line}: control depends on data")
                    self._forget(here)
                    continue
                if bool(holds) == here.negated:
                    continue
            if here.opcode == "bra":
                position = self.kernel.labels[here.operands[0]]
            elif here.opcode in ("ret", "exit"):
                break
            else:
                self._step(here)
        self._passed_by()
        return self.ran

    def _step(self, here: PtxInstruction) -> None:
        opcode = here.opcode
        if opcode in NOTED:
            NOTED[opcode](self, here)
        elif opcode in ("ld", "st", "ldmatrix", "stmatrix"):
            self._access(here)
        elif opcode == "setp":
            self._compare(here)
        elif opcode == "call":
            raise UnsupportedPtx(f"line {here.line}: the kernel calls a function")
        elif opcode in _SILENT:
            self._forget(here)
        elif opcode == "elect":
            self._set(here.operands[0].split("|")[-1], int(self.thread.thread % 32 == 0))
        elif opcode == "shfl":
            kept = "idx" in here.modifiers
            value = self._value(here.operands[1]) if kept else None
            self._set_pair(here.operands[0], value, 1 if kept else None)
        elif opcode == "mapa":
            address, cta = self._value(here.operands[1]), self._value(here.operands[2])
            known = address is not None and cta is not None
            other = known and cta != self.thread.rank
            shifted = (address or 0) | ((cta or 0) + 1 << CTA_SHIFT if other else 0)
            self._set(here.operands[0], shifted if known else None)
        elif opcode == "mov" and here.operands[0].startswith("{"):
            self._unpack(here)
        elif opcode == "mov" and here.operands[1].startswith("{"):
            self._set(here.operands[0], self._pack(here))
        else:
            values = tuple(self._value(text) for text in here.operands[1:])
            self._set_pair(here.operands[0], compute(opcode, here.modifiers, values), None)

    # Values

    def _value(self, text: str) -> Bits:
        if text in self.registers:
            return self.registers[text]
        if found := _NUMBER.fullmatch(text):
            return int(found.group().rstrip("U"), 0) & ((1 << 64) - 1)
        if text in self.specials:
            return self.specials[text]
        if text in self.symbols:
            return self.symbols[text]
        if text.startswith(("%", "0f", "0d")) or "@" in text:
            return None
        return SHARED_BASE if re.fullmatch(r"[A-Za-z_$][\w$]*", text) else None

    def _pack(self, here: PtxInstruction) -> Bits:
        """`mov.b64 d, {a, b}`: the lower part first."""
        pieces = split_operands(here.operands[1][1:-1])
        kind = integer_type(here.modifiers)
        width = (WIDTHS[kind] if kind is not None else 0) // len(pieces)
        result = 0
        for number, piece in enumerate(pieces):
            value = self._value(piece)
            if value is None or not width:
                return None
            result |= (value & ((1 << width) - 1)) << (number * width)
        return result

    def _unpack(self, here: PtxInstruction) -> None:
        pieces = split_operands(here.operands[0][1:-1])
        value = self._value(here.operands[1])
        kind = integer_type(here.modifiers)
        width = (WIDTHS[kind] if kind is not None else 0) // len(pieces)
        for number, piece in enumerate(pieces):
            known = value is not None and width
            part = (value or 0) >> (number * width) & ((1 << width) - 1) if known else None
            self._set(piece, part)

    def _set(self, name: str, value: Bits) -> None:
        if name != "_":
            self.registers[name] = value

    def _set_pair(self, text: str, value: Bits, second: Bits) -> None:
        first, _, other = text.partition("|")
        self._set(first, value)
        if other:
            self._set(other, second)

    def _forget(self, here: PtxInstruction) -> None:
        """What the instruction writes is not known."""
        if here.opcode in ("st", "stmatrix", "red", "bra") or not here.operands:
            return
        for name in re.findall(r"[%\w$@]+", here.operands[0]):
            self.registers[name] = None

    def _compare(self, here: PtxInstruction) -> None:
        relation, kind = here.modifiers[0], here.modifiers[-1]
        first, second = self._value(here.operands[1]), self._value(here.operands[2])
        result = compare(relation, kind, first, second)
        opposite: bool | None = None if result is None else not result
        if len(here.operands) > 3:
            text = here.operands[3]
            other = self._value(text.lstrip("!"))
            if other is not None and text.startswith("!"):
                other = int(not other)
            result = _combined(here.modifiers[1], result, other)
            opposite = _combined(here.modifiers[1], opposite, other)
        self._set_pair(
            here.operands[0],
            None if result is None else int(result),
            None if opposite is None else int(opposite),
        )

    def _address(self, text: str) -> Bits:
        found = _ADDRESS.fullmatch(text)
        if found is None:
            return None
        base = self._value(found.group(1))
        return None if base is None else base + int(found.group(2) or 0)

    # What is noted

    def note(self, kind: str, here: PtxInstruction, *values: Bits) -> None:
        self._passed_by()
        self.ran.seen.add(here.line)
        self.ran.events.append(ThreadEvent(kind, values, here.modifiers, here.line, self.warp_met))
        self.warp_met = False

    def _passed_by(self) -> None:
        """A thread that continues after a failed test does not wait."""
        if self.failed is not None:
            line, self.failed = self.failed[0], None
            self.ran.events.append(ThreadEvent("test without waiting", (), (), line))

    def _access(self, here: PtxInstruction) -> None:
        """Loads of parameters give the launch's numbers; accesses of shared memory are noted."""
        reads = here.opcode.startswith("ld")
        place = here.operands[1 if reads else 0]
        address = self._address(place)
        if reads and "param" in here.modifiers:
            self._set(here.operands[0], self._parameter(address))
            return
        if reads and address == self.thread.tensor_slot:
            self._set(here.operands[0], TENSOR_BASE)
            return
        shared = any(item.startswith("shared") for item in here.modifiers)
        generic = address is not None and SHARED_BASE <= address < PARAMETER_BASE
        if shared or (generic and "global" not in here.modifiers):
            self.note("read" if reads else "write", here, address)
        if reads:
            self._forget(here)

    def _parameter(self, address: Bits) -> Bits:
        if address is None:
            return None
        number, rest = divmod(address - PARAMETER_BASE, STRIDE)
        if rest or not 0 <= number < len(self.kernel.parameters):
            return None
        return self.thread.arguments.get(number, POINTER_BASE + number * STRIDE * STRIDE)

    def _barrier(self, here: PtxInstruction) -> None:
        """`mbarrier.*`."""
        what = here.modifiers[0]
        if what == "init":
            address = self._address(here.operands[0])
            self.note("init", here, address, self._value(here.operands[1]))
        elif what in ("try_wait", "test_wait"):
            address, parity = self._address(here.operands[1]), self._value(here.operands[2])
            test = here.line, address, parity
            self._set(here.operands[0], int(self.failed == test))
            if self.failed != test:
                self._passed_by()
                self.failed = test
                return
            self.failed = None
            self.note("wait" if "parity" in here.modifiers else "other", here, address, parity)
        elif what in ("arrive", "arrive_drop"):
            self._arrival(here)
        elif what == "expect_tx":
            address = self._address(here.operands[0])
            self.note("expect", here, address, self._value(here.operands[1]))
        else:
            self.note("other", here)

    def _arrival(self, here: PtxInstruction) -> None:
        place = next(i for i, text in enumerate(here.operands) if text.startswith("["))
        address = self._address(here.operands[place])
        rest = [self._value(text) for text in here.operands[place + 1 :]]
        if place:
            self._set(here.operands[0], None)
        if "expect_tx" in here.modifiers:
            self.note("arrive_expect", here, address, rest[0])
        elif here.modifiers[0] == "arrive_drop" or "noComplete" in here.modifiers:
            self.note("other", here)
        else:
            self.note("arrive", here, address, rest[0] if rest else 1)

    def _copy(self, here: PtxInstruction) -> None:
        """`cp.*`: bulk copies, their groups; anything else is noted by its text."""
        words = here.modifiers
        if "tensor" in words and "complete_tx::bytes" in "::".join(words):
            source, barrier = here.operands[1], here.operands[2]
            table, coordinates = self._tensor(source)
            mask = self._value(here.operands[3]) if len(here.operands) > 3 else 0
            place = self._address(here.operands[0])
            self.note("load", here, place, table, self._address(barrier), mask, *coordinates)
        elif "tensor" in words and "bulk_group" in words:
            table, coordinates = self._tensor(here.operands[0])
            self.note("store", here, self._address(here.operands[1]), table, *coordinates)
        elif words[-1] == "commit_group" and "bulk" in words:
            self.note("bulk_commit", here)
        elif "wait_group" in words and "bulk" in words:
            kind = "bulk_wait_read" if "read" in words else "bulk_wait"
            self.note(kind, here, self._value(here.operands[0]))
        else:
            self.note("other", here)

    def _tensor(self, text: str) -> tuple[Bits, tuple[Bits, ...]]:
        """`[map, {c0, c1}]`: the map's address and the coordinates."""
        table, *rest = split_operands(text.strip()[1:-1])
        pieces = split_operands(rest[0].strip()[1:-1]) if rest else []
        return self._value(table), tuple(self._value(piece) for piece in pieces)

    def _matrix(self, here: PtxInstruction) -> None:
        """`wgmma.*`: of a multiplication the descriptors are noted, or None for registers."""
        what = here.modifiers[0]
        if what == "mma_async":
            first, second = here.operands[1], here.operands[2]
            left = None if first.startswith("{") else self._value(first)
            in_registers = int(first.startswith("{"))
            accumulate = self._value(here.operands[3]) if len(here.operands) > 3 else None
            self._forget(here)
            self.note("mma", here, left, self._value(second), in_registers, accumulate)
        elif what == "wait_group":
            self.note("mma_wait", here, self._value(here.operands[0]))
        else:
            self.note({"fence": "mma_fence", "commit_group": "mma_commit"}.get(what, "other"), here)

    def _fence(self, here: PtxInstruction) -> None:
        if here.modifiers[:2] == ("proxy", "async"):
            self.note("fence_async", here)
        elif "mbarrier_init" in here.modifiers:
            self.note("fence_init", here)
        else:
            self.note("other", here)

    def _named(self, here: PtxInstruction) -> None:
        """`bar.*` and `barrier.*`."""
        words = here.modifiers
        if "warp" in words:
            self.warp_met = True
            return
        if "cluster" in words:
            self.note("cluster_arrive" if "arrive" in words else "cluster_wait", here)
            return
        numbers = [self._value(text) for text in here.operands]
        threads = numbers[1] if len(numbers) > 1 else self.thread.threads
        kind = {"sync": "sync", "arrive": "sync_arrive"}.get(
            next((word for word in words if word in ("sync", "arrive", "red")), ""), "other"
        )
        self.note(kind, here, numbers[0], threads)

    def _limit(self, here: PtxInstruction) -> None:
        kind = "registers_up" if "inc" in here.modifiers else "registers_down"
        self.note(kind, here, self._value(here.operands[0]))

    def _tensor_core(self, here: PtxInstruction) -> None:
        """`tcgen05.*` with one CTA in a group; any other form is noted by its text."""
        words, operands = here.modifiers, here.operands
        numbers = [self._value(text) for text in operands]
        places = [self._address(text) for text in operands]
        what = words[0]
        alone = "cta_group::1" in words
        plain = set(words) <= {"mma", "cta_group::1", "kind::f16", "kind::f8f6f4"}
        if what == "alloc" and alone:
            self.note("tensor_alloc", here, places[0], numbers[1])
        elif what == "relinquish_alloc_permit" and alone:
            self.note("tensor_relinquish", here)
        elif what == "dealloc" and alone:
            self.note("tensor_free", here, *numbers)
        elif what == "mma" and alone and plain and len(operands) == 5:
            in_tensor = operands[1].startswith("[")
            left = places[1] if in_tensor else numbers[1]
            self.note("tensor_mma", here, places[0], left, *numbers[2:], int(in_tensor))
        elif what == "commit" and alone and len(operands) == 1:
            self.note("tensor_commit", here, places[0])
        elif what == "ld" and "pack::16b" not in words:
            self._forget(here)
            self.note("tensor_load", here, places[1])
        elif what == "st" and "unpack::16b" not in words:
            self.note("tensor_put", here, places[0])
        else:
            kinds = {"fence::before_thread_sync": "tensor_before",
                     "fence::after_thread_sync": "tensor_after",
                     "wait::ld": "tensor_wait", "wait::st": "tensor_put_wait"}  # fmt: skip
            self.note(kinds.get(what, "other"), here)

    def _other(self, here: PtxInstruction) -> None:
        self.note("other", here)


def _combined(operator: str, first: bool | None, second: Bits) -> bool | None:
    """`setp.lt.and`: the combination with another predicate, as far as it is known."""
    other = None if second is None else bool(second)
    if operator == "and":
        return False if False in (first, other) else None if None in (first, other) else True
    if operator == "or":
        return True if True in (first, other) else None if None in (first, other) else False
    if first is None or other is None:
        return None
    return first != other if operator == "xor" else None


NOTED: dict[str, Callable[[_Machine, PtxInstruction], None]] = {
    "mbarrier": _Machine._barrier,
    "cp": _Machine._copy,
    "wgmma": _Machine._matrix,
    "fence": _Machine._fence,
    "bar": _Machine._named,
    "barrier": _Machine._named,
    "setmaxnreg": _Machine._limit,
    "tcgen05": _Machine._tensor_core,
    "multimem": _Machine._other,
}
