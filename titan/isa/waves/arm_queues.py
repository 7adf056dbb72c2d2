"""What is in flight behind arms that data choose, where some of it may not have been issued.

An operation within a branch over its arm is issued only where the branch is not taken: `scope` of
it are the branches that it stands in. It is done behind a wait that leaves `limit` operations if as
many are behind it that are issued whenever it is: those whose scope is a part of its own. What is
issued for some data alone never counts for what is always issued, and a wait within an arm ends
nothing for those that go round the arm.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.decode import DecodedInstruction, written_in_order
from titan.isa.waves.events import UNORDERED, WaveQueue
from titan.isa.waves.state import PendingOperation, Refused, Wave

Scope = frozenset[int]
EVERYWHERE: Scope = frozenset()
_QUEUES = {
    "vmcnt": (WaveQueue.VECTOR,),
    "lgkmcnt": (WaveQueue.LDS, WaveQueue.SCALAR),
}
_QUEUE_OF = {
    OpcodeKind.GLOBAL: WaveQueue.VECTOR,
    OpcodeKind.BUFFER: WaveQueue.VECTOR,
    OpcodeKind.LDS: WaveQueue.LDS,
    OpcodeKind.SCALAR_MEMORY: WaveQueue.SCALAR,
}
_PREFIX: dict[OpcodeKind, str | tuple[str, ...]] = {
    OpcodeKind.GLOBAL: "global_load_",
    OpcodeKind.BUFFER: "buffer_load_",
    OpcodeKind.LDS: "ds_read",
    OpcodeKind.SCALAR_MEMORY: ("s_load_", "s_buffer_load_"),
}


def is_plain_load(code: DecodedInstruction) -> bool:
    """Whether an instruction loads registers by one counter, and does nothing else."""
    prefix, item = _PREFIX.get(code.opcode.kind), code.item
    if prefix is None or not item.base.startswith(prefix) or not code.writes:
        return False
    other = "lds" in item.options or "gds" in item.options
    return not other and not any(part in item.base for part in ("_lds_", "addtid", "_tr_"))


def is_plain_store(code: DecodedInstruction) -> bool:
    """Whether an instruction stores registers to global memory, and does nothing else."""
    item = code.item
    plain = item.base.startswith(("global_store_", "buffer_store_"))
    return plain and code.opcode.kind in _QUEUE_OF and not code.writes and "lds" not in item.options


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
        self.reads_lds = False
        self._entries = {queue: list(wave.in_flight[queue]) for queue in _QUEUE_OF.values()}
        self._issued = {queue: wave.issued[queue] for queue in _QUEUE_OF.values()}
        self._pending = dict(wave.pending)
        self._ended: dict[int, list[Scope]] = {}  # by an operation: the scopes of its waits

    def _is_done(self, entry: PendingOperation, scope: Scope = EVERYWHERE) -> bool:
        """Whether it is done where these branches are not taken, if it has been issued."""
        inside = entry.scope | scope
        return any(one <= inside for one in self._ended.get(id(entry), ()))

    def may_use(self, registers: frozenset[int], scope: Scope) -> bool:
        """Whether nothing that is in flight will write these registers."""
        found = (self._pending[at] for at in registers & self._pending.keys())
        return all(self._is_done(entry, scope) for entry in found)

    def issue(self, code: DecodedInstruction, scope: Scope) -> bool:
        """A load or store is issued; whether it is followed."""
        queue, registers = _QUEUE_OF[code.opcode.kind], written_in_order(code)
        if not all(self._is_done(self._pending[at]) for at in code.writes & self._pending.keys()):
            return False  # two loads of one register: which of them is left depends on data
        if queue is WaveQueue.LDS:
            self.reads_lds = True
            copies = [one for one in self._entries[WaveQueue.VECTOR] if not one.registers]
            if any(self._is_done(one, scope) and not self._is_done(one) for one in copies):
                return False  # what was copied to LDS is there in the arm alone
        entry = PendingOperation(
            code.number, queue, registers, bool(registers), number=self._issued[queue], scope=scope
        )
        self.accesses = True
        self._issued[queue] += 1
        self._entries[queue].append(entry)
        self._pending |= dict.fromkeys(registers, entry)
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

    def _on_ways(self, entry: PendingOperation) -> bool:
        """Whether waits on several ways end it, of which it is not known that one is taken."""
        return not self._is_done(entry) and len(set(self._ended.get(id(entry), ()))) > 1

    @property
    def decided(self) -> bool:
        """Whether what is not shown to be done may be taken as not waited for."""
        entries = (entry for entries in self._entries.values() for entry in entries)
        return not any(self._on_ways(entry) and not entry.registers for entry in entries)

    def leave(self, wave: Wave) -> None:
        """The wave is behind the arms."""
        for queue, entries in self._entries.items():
            wave.in_flight[queue].clear()
            for entry in entries:
                if self._is_done(entry):
                    wave.landed(entry)
                else:
                    wave.in_flight[queue].append(entry)
                    entry.unsure |= self._on_ways(entry)
            wave.issued[queue] = self._issued[queue]
            if any(entry.scope for entry in entries):
                wave.by_data.add(queue)
        wave.pending = {at: one for at, one in self._pending.items() if not self._is_done(one)}
