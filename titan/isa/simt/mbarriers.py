"""The mbarrier object: phase, pending arrivals, transaction bytes (PTX, "mbarrier")."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.isa.simt.events import Misuse

LIMIT = (1 << 20) - 1
BYTES = 8


@dataclass(slots=True)
class MBarrier:
    """`expected` is the count of the next phase. Phases are counted from 0. `number` is that of the
    initialisation in the run, from 1 on: another one makes another object at the same place.

    A phase completes when pending arrivals and transaction bytes are both zero.
    """

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0
    number: int = 0
    faults: list[Misuse] = field(default_factory=list)

    def expect(self, count: int) -> None:
        """Add bytes to the transaction count of this phase (negative: complete them)."""
        self.bytes += count
        if not -LIMIT <= self.bytes <= LIMIT:
            self.faults.append(Misuse.BYTES_RANGE)

    def arrive(self, count: int, drop: bool = False) -> None:
        """Take arrivals off the pending count; too many is a COUNT_UNDERFLOW, clamped to 0."""
        if drop:
            self.expected -= count
        if count > self.pending:
            self.faults.append(Misuse.COUNT_UNDERFLOW)
            count = self.pending
        self.pending -= count

    def settle(self) -> bool:
        """Complete the phase if nothing is missing; True if it did."""
        if self.pending != 0 or self.bytes != 0:
            return False
        self.phase += 1
        self.pending = max(self.expected, 0)
        return True

    def observed(self, parity: int) -> bool:
        """Whether a wait for a parity passes: the current phase has the other one."""
        return self.phase & 1 != parity
