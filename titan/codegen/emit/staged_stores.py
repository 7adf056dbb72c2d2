"""Whether an agent of several threads writes its staging buffers, and sends them, in order.

One agent of the sync program is a warpgroup of four warps. Between what all its threads write to
shared memory and the bulk copy that one of them issues there is a fence and then a barrier of the
agent; between the end of that copy's reads and the next writes there is a barrier, behind a wait
that covers the group of the copy. Each part of each stage of a buffer is followed on its own.

What groups share is read by tensor cores for all four warps, so that the same holds for it: a fence
and a barrier in front of the product, a wait for it and a barrier behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from titan.codegen.emit.model import EmissionRefused

WHOLE = -1  # no part, but all
Place = tuple[str, int, int]  # buffer, stage, part


class _Staging(Enum):
    FREE = "free"
    WRITTEN = "written"
    FENCED = "fenced"
    MET = "met"  # all threads know of the writes
    SENT = "sent"
    MULTIPLIED = "multiplied"  # tensor cores may read it
    READ = "read"  # by the copy engine, or by tensor cores


_FENCED = {_Staging.WRITTEN: _Staging.FENCED}
_TOGETHER = {_Staging.FENCED: _Staging.MET, _Staging.READ: _Staging.FREE}


@dataclass
class StagedStores:
    """The staging buffers of one agent of `role`, as it goes through its operations."""

    role: str
    places: dict[Place, _Staging] = field(default_factory=dict)
    open: list[Place] = field(default_factory=list)  # sent since the last commit
    groups: list[list[Place]] = field(default_factory=list)  # committed, not known to be read

    def write(self, place: Place) -> None:
        """Threads write. Raises EmissionRefused."""
        if self.places.get(place, _Staging.FREE) is not _Staging.FREE:
            raise EmissionRefused(
                f"{self.role} writes {place[0]} without a barrier of its threads behind the copy "
                "before, or behind a product"
            )
        self.places[place] = _Staging.WRITTEN

    def send(self, place: Place) -> None:
        """One thread issues the copy. Raises EmissionRefused."""
        if self.places.get(place) is not _Staging.MET:
            raise EmissionRefused(
                f"{self.role} sends {place[0]} without a fence and then a barrier of its threads "
                "behind their writes"
            )
        self.places[place] = _Staging.SENT
        self.open.append(place)

    def multiply(self, places: Iterable[Place]) -> None:
        """Tensor cores begin to read. Raises EmissionRefused."""
        for place in places:
            if self.places.get(place) not in (_Staging.MET, _Staging.MULTIPLIED):
                raise EmissionRefused(
                    f"{self.role} multiplies {place[0]} without a fence and then a barrier of its "
                    "threads behind their writes"
                )
            self.places[place] = _Staging.MULTIPLIED

    def multiplied(self, places: set[Place]) -> None:
        """Products that read there are over, and no other one is in flight."""
        self.places |= dict.fromkeys(places, _Staging.READ)

    def fence(self) -> None:
        """A fence between threads and the copy engine."""
        self._follow(_FENCED)

    def meet(self) -> None:
        """A barrier of the threads."""
        self._follow(_TOGETHER)

    def commit(self) -> None:
        """Closes a group of copies."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """All groups but the last `pending` have been read."""
        keep = max(0, len(self.groups) - max(0, pending))
        for place in (place for group in self.groups[:keep] for place in group):
            self.places[place] = _Staging.READ
        self.groups = self.groups[keep:]

    def _follow(self, following: dict[_Staging, _Staging]) -> None:
        self.places = {place: following.get(state, state) for place, state in self.places.items()}
