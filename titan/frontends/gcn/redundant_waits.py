"""Waits that change nothing, shown on all paths of a kernel without running it.

`redundant_because` says why a wait with one counter weakened or left out does the same as before.
The operations that the weaker wait may leave in flight are those that some path issues last but
for as many as it allows. Either there are none; or each path ends them by a later wait, and in
between nothing uses their registers, no barrier hands over what they do to memory, and no
operation of another queue may touch what they touch. Counts are of instructions on paths, so the
argument covers every launch; where there is none, nothing is concluded.

Assumed as in `record.py`: operations of one queue end in order, scalar loads in no order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from titan.foundation.diagnostics.wording import listed
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.counter_waits import waits_of
from titan.isa.waves.decode import DecodedInstruction, decoded
from titan.isa.waves.events import WaveQueue

_QUEUES = {"vmcnt": (WaveQueue.VECTOR,), "lgkmcnt": (WaveQueue.LDS, WaveQueue.SCALAR)}
EVERYTHING = 128  # operations of one queue that paths are searched for
_QUEUE_OF = {
    OpcodeKind.SCALAR_MEMORY: WaveQueue.SCALAR,
    OpcodeKind.LDS: WaveQueue.LDS,
    OpcodeKind.CROSS_LANE: WaveQueue.LDS,
    OpcodeKind.GLOBAL: WaveQueue.VECTOR,
    OpcodeKind.BUFFER: WaveQueue.VECTOR,
    OpcodeKind.SCRATCH: WaveQueue.VECTOR,
}
_UNFOLLOWED = ("s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_rfe_b64", "s_cbranch_join")


@dataclass(frozen=True, slots=True)
class WeakerWait:
    """The wait `number` with `counter` raised from `limit` to `allowed`; None: left out."""

    number: int
    counter: str
    limit: int
    allowed: int | None


def weaker_wait(
    assembly: AssemblyFile, number: int, counter: str, deleted: bool
) -> WeakerWait | None:
    """One counter of a wait weakened by one operation, or left out; None if it has no such part."""
    item = assembly.instructions[number]
    if item.base != "s_waitcnt":
        return None
    limits = dict(waits_of(item.operands[0] if item.operands else None))
    if counter not in _QUEUES or counter not in limits:
        return None
    return WeakerWait(number, counter, limits[counter], None if deleted else limits[counter] + 1)


def redundant_because(
    assembly: AssemblyFile, kernel: AssemblyKernel, wait: WeakerWait
) -> str | None:
    """Why the weaker wait does the same, in words; None if that is not shown."""
    paths = _Paths(assembly, kernel)
    ended: set[int] = set()
    in_flight = False
    for queue in _QUEUES[wait.counter]:
        if queue is WaveQueue.SCALAR and wait.limit:
            continue  # neither wait ends one
        left = paths.left_in_flight(wait, queue)
        if left is None:
            return None
        if not left:
            continue
        in_flight = True
        found = paths.ended_unused(wait, queue, left)
        if found is None:
            return None
        ended |= found
    if not in_flight:
        return "nothing that it ends is in flight on any path"
    lines = sorted(assembly.instructions[number].line for number in ended)
    if not lines:
        return "what it ends is not used before the end"
    word = "line" if len(lines) == 1 else "lines"
    return f"what it ends is ended by {word} {listed(list(map(str, lines)))} before it is used"


class _Paths:
    """The instructions of a kernel, and those that may be executed next and before."""

    def __init__(self, assembly: AssemblyFile, kernel: AssemblyKernel) -> None:
        self.start = kernel.start
        self.code: list[DecodedInstruction] = [
            decoded(number, assembly.instructions[number])
            for number in range(kernel.start, kernel.end)
        ]
        self.waits = [dict(_waits(code)) for code in self.code]
        self.next: list[list[int]] = [[] for _ in self.code]
        self.before: list[list[int]] = [[] for _ in self.code]
        for at, code in enumerate(self.code):
            item = code.item
            if item.target >= 0:
                self.next[at].append(item.target - self.start)
            if item.base not in ("s_branch", "s_endpgm"):
                self.next[at].append(at + 1)
            self.next[at] = [place for place in self.next[at] if 0 <= place < len(self.code)]
            for place in self.next[at]:
                self.before[place].append(at)
        self.followed = not any(code.item.base in _UNFOLLOWED for code in self.code)

    def left_in_flight(self, wait: WeakerWait, queue: WaveQueue) -> set[int] | None:
        """The operations that the wait ends and the weaker one may not; None if that is unclear."""
        if not self.followed or any(code.opcode.kind is OpcodeKind.FLAT for code in self.code):
            return None
        found: set[int] = set()
        unordered = queue is WaveQueue.SCALAR
        most = EVERYTHING if unordered or wait.allowed is None else wait.allowed
        at = wait.number - self.start
        seen: set[tuple[int, int, int]] = set()
        waiting = [(place, 0, most) for place in self.before[at]]
        while waiting:
            state = waiting.pop()
            place, newer, most = state
            if state in seen:
                continue
            seen.add(state)
            code = self.code[place]
            limit = wait.allowed if place == at else self.waits[place].get(wait.counter)
            if limit is not None and (not unordered or limit == 0):
                most = min(most, newer + limit)
            if _QUEUE_OF.get(code.opcode.kind) is queue:
                if unordered or wait.limit <= newer < most:
                    found.add(place)
                newer += not unordered
            if newer == EVERYTHING:
                return None
            if newer < most:
                waiting += [(earlier, newer, most) for earlier in self.before[place]]
        return found

    def ended_unused(self, wait: WeakerWait, queue: WaveQueue, left: set[int]) -> set[int] | None:
        """The waits that end all that is left before anything depends on it; None if not all do."""
        registers = frozenset().union(*(self.code[place].writes for place in left))
        moved = {_touched(self.code[place]) for place in left}
        ended: set[int] = set()
        at = wait.number - self.start
        seen: set[tuple[int, int]] = set()
        waiting = [(place, 0) for place in self.next[at]]
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            place, since = state
            code = self.code[place]
            limit = wait.allowed if place == at else self.waits[place].get(wait.counter)
            ordered = queue is not WaveQueue.SCALAR
            if limit is not None and limit <= (wait.limit + since if ordered else 0):
                ended.add(self.start + place)
                continue
            if _depends(code, queue, registers, moved):
                return None
            since += _QUEUE_OF.get(code.opcode.kind) is queue
            waiting += [(following, min(since, 64)) for following in self.next[place]]
        return ended


def _waits(code: DecodedInstruction) -> Iterable[tuple[str, int]]:
    if code.item.base != "s_waitcnt":
        return ()
    return waits_of(code.item.operands[0] if code.item.operands else None)


def _touched(code: DecodedInstruction) -> str:
    """The memory that an operation touches, and whether it writes LDS: as one word."""
    kind, base = code.opcode.kind, code.item.base
    if kind in (OpcodeKind.CROSS_LANE, OpcodeKind.SCRATCH):
        return "nothing"
    if kind is OpcodeKind.LDS:
        return "reads LDS" if base.startswith("ds_read") else "writes LDS"
    if "lds" in code.item.options or "_load_lds_" in base:
        return "copies to LDS"
    return "reads global" if "_load_" in base else "writes global"


# What may meet the bytes of the other one; operations of one queue do not (they keep their order).
_MEETING = {
    "nothing": (),
    "reads LDS": ("copies to LDS",),
    "writes LDS": ("copies to LDS",),
    "copies to LDS": ("reads LDS", "writes LDS", "writes global"),
    "reads global": ("writes global",),
    "writes global": ("reads global", "copies to LDS", "writes global"),
}


def _depends(
    code: DecodedInstruction, queue: WaveQueue, registers: frozenset[int], moved: set[str]
) -> bool:
    """Whether an instruction needs that the operations are over."""
    base = code.item.base
    if not registers.isdisjoint(code.touches):
        return True
    if base == "s_barrier":
        return moved != {"nothing"}
    own = _QUEUE_OF.get(code.opcode.kind)
    if own is None or (own is queue and queue is not WaveQueue.SCALAR):
        return False
    touched = _touched(code)
    return any(touched in _MEETING[one] for one in moved)
