"""What is in flight behind arms that data choose, where some of it may not have been issued.

An operation within a branch over its arm is issued only where the branch is not taken: `scope` of
it are the branches that it stands in. It is done behind a wait that leaves `limit` operations if as
many are behind it that are issued whenever it is: those whose scope is a part of its own. What is
issued for some data alone never counts for what is always issued, and a wait within an arm ends
nothing for those that go round the arm, unless waits in several arms cover every way: for some lane
one of them is taken whatever data choose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.decode import DecodedInstruction, written_in_order
from titan.isa.waves.events import UNORDERED, WaveQueue
from titan.isa.waves.masks import Mask, combined, joined
from titan.isa.waves.state import PendingOperation, Refused, Wave

Scope = frozenset[int]
EVERYWHERE: Scope = frozenset()
_IN_ORDER = WaveQueue.VECTOR  # a later load of it also returns later
_QUEUES = {
    "vmcnt": (WaveQueue.VECTOR,),
    "lgkmcnt": (WaveQueue.LDS, WaveQueue.SCALAR),
}
_QUEUE_OF = {
    OpcodeKind.GLOBAL: WaveQueue.VECTOR,
    OpcodeKind.BUFFER: WaveQueue.VECTOR,
    OpcodeKind.LDS: WaveQueue.LDS,
    OpcodeKind.CROSS_LANE: WaveQueue.LDS,
    OpcodeKind.SCALAR_MEMORY: WaveQueue.SCALAR,
}
_PREFIX: dict[OpcodeKind, str | tuple[str, ...]] = {
    OpcodeKind.GLOBAL: "global_load_",
    OpcodeKind.BUFFER: "buffer_load_",
    OpcodeKind.LDS: "ds_read",
    OpcodeKind.CROSS_LANE: ("ds_permute_", "ds_bpermute_", "ds_swizzle_"),
    OpcodeKind.SCALAR_MEMORY: ("s_load_", "s_buffer_load_"),
}
_LDS_ATOMIC = re.compile(
    r"ds_(pk_)?(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|wrxchg|cmpst|wrap)\d?(st64)?_"
)


def is_plain_load(code: DecodedInstruction) -> bool:
    """Whether an instruction loads registers by one counter, or gets them from other lanes by it,
    and does nothing else."""
    prefix, item = _PREFIX.get(code.opcode.kind), code.item
    if prefix is None or not item.base.startswith(prefix) or not code.writes:
        return False
    other = "lds" in item.options or "gds" in item.options
    return not other and not any(part in item.base for part in ("_lds_", "addtid", "_tr_"))


def is_plain_store(code: DecodedInstruction) -> bool:
    """Whether an instruction stores registers to global memory or LDS, and does nothing else."""
    item = code.item
    plain = item.base.startswith(("global_store_", "buffer_store_", "ds_write"))
    other = "lds" in item.options or "gds" in item.options or "addtid" in item.base
    return plain and code.opcode.kind in _QUEUE_OF and not code.writes and not other


def is_atomic(code: DecodedInstruction) -> bool:
    """Whether an instruction is one atomic operation on global memory or LDS."""
    if code.opcode.kind is OpcodeKind.LDS:
        return _LDS_ATOMIC.match(code.item.base) is not None and "gds" not in code.item.options
    atomic = code.item.base.startswith(("global_atomic_", "buffer_atomic_"))
    return atomic and code.opcode.kind in _QUEUE_OF


def end_operations(wave: Wave, queue: WaveQueue, limit: int) -> int:
    """A wait that leaves `limit` operations ends what it surely ends; how many of the newest ones
    are left then, of all that the run has. Raises Refused."""
    entries = wave.in_flight[queue]
    if queue not in wave.by_data:
        while len(entries) > limit:
            wave.landed(entries.popleft())
        return limit
    before, kept = list(entries), list[PendingOperation]()
    for at, entry in enumerate(before):
        behind = before[at + 1 :]
        if sum(other.scope <= entry.scope for other in behind) >= limit:
            wave.landed(entry)
            continue
        if len(behind) >= limit:  # done if data have sent lanes into the arms
            if not entry.registers:
                raise Refused("what a wait leaves in flight, by operations that data choose,")
            entry.unsure = True
        kept.append(entry)
    entries.clear()
    entries.extend(kept)
    return wave.issued[queue] - (kept[0].number if kept else wave.issued[queue])


@dataclass(frozen=True, slots=True)
class ArmWait:
    """A wait in arms: how many of the newest operations it leaves, whatever data choose."""

    place: int
    queue: WaveQueue
    pending: int


class ArmQueues:
    """Follows what a wave has in flight through arms, and leaves the wave as it is.

    `waits`: what those in the arms end for all data.
    """

    def __init__(self, wave: Wave) -> None:
        self.waits: list[ArmWait] = []
        self.accesses = False
        self._entries = {queue: list(wave.in_flight[queue]) for queue in _QUEUE_OF.values()}
        self._issued = {queue: wave.issued[queue] for queue in _QUEUE_OF.values()}
        self._pending = {
            register: entry.writers(register) for register, entry in wave.pending.items()
        }
        self._ended: dict[int, list[Scope]] = {}  # by an operation: the scopes of its waits
        self._lanes: dict[int, Mask] = {}  # by a branch: those for which it is not taken
        self._others: dict[int, int] = {}  # of two branches, of which one is taken: the other

    def enter(self, number: int, lanes: Mask, other: int | None = None) -> None:
        """A branch is not taken where one of these lanes is there. `other`: a branch of all lanes
        over the other one of two arms."""
        self._lanes[number] = lanes
        if other is not None:
            self._others[number], self._others[other] = other, number

    @property
    def total(self) -> int:
        """The operations issued so far."""
        return sum(self._issued.values())

    def none_loading(self, issued: int, scope: Scope) -> bool:
        """Whether the loads behind so many operations are done within these branches."""
        return all(
            self._is_done(entry, scope) or not entry.registers or entry.order < issued
            for entries in self._entries.values()
            for entry in entries
        )

    def _excludes(self, one: Scope, other: Scope) -> bool:
        return any(self._others.get(number) in other for number in one)

    def _is_done(self, entry: PendingOperation, scope: Scope = EVERYWHERE) -> bool:
        """Whether it is done where these branches are not taken, if it has been issued."""
        inside, ended = entry.scope | scope, self._ended.get(id(entry), ())
        if any(one <= inside for one in ended):
            return True
        ways: Mask = (0,)
        for one in set(ended):
            lanes: Mask = (-1,)
            for number in one - inside:
                lanes = combined(int.__and__, lanes, self._lanes[number])
            ways = combined(int.__or__, ways, lanes)
        return joined(int.__and__, ways) != 0

    def may_use(self, registers: frozenset[int], scope: Scope) -> bool:
        """Whether nothing that is in flight will write these registers."""
        return all(
            self._is_done(entry, scope) or self._excludes(entry.scope, scope)
            for register in registers & self._pending.keys()
            for entry in self._pending[register]
        )

    def _may_load(self, register: int, queue: WaveQueue, scope: Scope) -> bool:
        """Whether a load of a register comes behind all others that may be in flight to it."""
        return all(
            (entry.queue is queue is _IN_ORDER)
            or self._is_done(entry, scope)
            or self._excludes(entry.scope, scope)
            for entry in self._pending.get(register, ())
        )

    def issue(self, code: DecodedInstruction, scope: Scope) -> bool:
        """A load or store is issued; whether it is followed."""
        queue, registers = _QUEUE_OF[code.opcode.kind], written_in_order(code)
        if not all(self._may_load(register, queue, scope) for register in code.writes):
            return False
        if code.opcode.kind is OpcodeKind.LDS:
            copies = [one for one in self._entries[WaveQueue.VECTOR] if not one.registers]
            if any(self._is_done(one, scope) and not self._is_done(one) for one in copies):
                return False  # what was copied to LDS is there in the arm alone
        entry = PendingOperation(
            code.number, queue, registers, bool(registers), number=self._issued[queue], scope=scope,
            order=self.total,
        )  # fmt: skip
        self.accesses = True
        self._issued[queue] += 1
        self._entries[queue].append(entry)
        for register in registers:
            self._pending[register] = [entry, *self._pending.get(register, ())]
        return True

    def wait(self, place: int, counter: str, limit: int, scope: Scope) -> None:
        """A part of a wait, within these branches."""
        for queue in _QUEUES.get(counter, ()):
            if queue in UNORDERED and limit:
                continue
            entries = self._entries[queue]
            for at, entry in enumerate(entries):
                inside = scope | entry.scope
                if sum(other.scope <= inside for other in entries[at + 1 :]) >= limit:
                    self._ended.setdefault(id(entry), []).append(scope)
            left = [entry for entry in entries if not self._is_done(entry)]
            pending = self._issued[queue] - left[0].number if left else 0
            if not pending or queue not in UNORDERED:
                self.waits.append(ArmWait(place, queue, pending))

    def _ways(self, entry: PendingOperation) -> int:
        """How many waits on several ways end it, of which it is not known that one is taken."""
        return len(set(self._ended.get(id(entry), ())))

    @property
    def decided(self) -> bool:
        """Whether what is not shown to be done may be taken as not waited for."""
        return all(
            bool(entry.registers) or self._is_done(entry) or self._ways(entry) < 2
            for entries in self._entries.values()
            for entry in entries
        )

    def leave(self, wave: Wave) -> None:
        """The wave is behind the arms."""
        for queue, entries in self._entries.items():
            wave.in_flight[queue].clear()
            for entry in entries:
                if self._is_done(entry):
                    wave.landed(entry)
                else:
                    wave.in_flight[queue].append(entry)
                    entry.ways += self._ways(entry)
                    entry.unsure |= entry.ways > 1
            wave.issued[queue] = self._issued[queue]
            if any(entry.scope for entry in entries):
                wave.by_data.add(queue)
        wave.pending = {}
        for register, writers in self._pending.items():
            left = [one for one in writers if not self._is_done(one)]
            if left:
                wave.pending[register] = left[0]
                left[0].over = tuple(dict.fromkeys((*left[0].over, *left[1:])))
