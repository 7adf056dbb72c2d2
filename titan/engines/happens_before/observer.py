"""What an execution reports to its observers: one call an event, in the order of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.engines.happens_before.tables import (
        IssuedOperation,
        Mbarrier,
        NamedTrack,
        QueueTable,
    )
    from titan.engines.happens_before.unfolding import Instance


class Observer:
    """Hears every event of a run; all calls do nothing here.

    Calls about an agent's operation come before its effect, `*_completed` right after it.
    """

    def access(self, agent: int, instance: Instance) -> None:
        """Synchronous accesses."""

    def issued(self, flight: IssuedOperation) -> None:
        """An asynchronous operation starts."""

    def committed(self, agent: int, queue: QueueTable, flights: list[IssuedOperation]) -> None:
        """The open group is closed with these flights, or a marker lets them finish before."""

    def queue_waited(
        self, agent: int, queue: QueueTable, reads: bool, covered: int, exact: bool
    ) -> None:
        """A queue wait passes: the first `covered` flights of the queue are over (or read).

        `exact` False: an unordered queue let it pass, and nothing says which flights are over.
        """

    def arriving(
        self, barrier: Mbarrier, agent: int, instance: Instance, flight: IssuedOperation | None
    ) -> None:
        """An arrival that counts, by an agent or (with `flight`) by an engine."""

    def transacting(self, barrier: Mbarrier, flight: IssuedOperation, amount: int) -> None:
        """An engine takes bytes off the transaction count."""

    def expecting(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """Bytes are expected without an arrival."""

    def mbarrier_completed(self, barrier: Mbarrier) -> None:
        """A phase is complete; `barrier.phase` counts it already."""

    def waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A parity wait passes."""

    def token_waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A state wait passes."""

    def initialised(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A barrier becomes live."""

    def invalidated(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A barrier is given up."""

    def named_arriving(self, named: NamedTrack, agent: int, instance: Instance, sync: bool) -> None:
        """An arrival at a named barrier."""

    def named_completed(self, named: NamedTrack, released: list[int]) -> None:
        """A generation is complete; `released` are the agents that waited in a sync."""

    def named_waited(self, named: NamedTrack, agent: int) -> None:
        """A wait for an earlier arrival passes."""

    def fenced(self, agent: int, instance: Instance) -> None:
        """A fence is executed."""

    def pool_taken(self, agent: int, instance: Instance) -> None:
        """A pool amount is taken."""

    def pool_given(self, agent: int, instance: Instance) -> None:
        """A pool amount is given back."""
