"""What a running execution knows of accesses that cached proxies or one-way fences concern.

A trail is one access with what has happened to it: whether it has left the cache that it was made
through, and which others it has entered since. It is kept of cells that a cached proxy reaches.
"""

from __future__ import annotations

from dataclasses import field

from titan.foundation.records import dataclass
from titan.sync import program as ir

Domain = tuple[ir.Proxy, int]
ENGINE = -1


@dataclass(slots=True)
class Trail:
    """An access by an agent (-1: an engine) from a CTA."""

    domain: Domain
    agent: int
    write: bool
    left: bool
    entered: set[Domain] = field(default_factory=set)


@dataclass(slots=True)
class Trails:
    """Of one cell. `handed`: by author and direction, who has acquired what it released one way."""

    live: dict[tuple[Domain, int, bool], Trail] = field(default_factory=dict)
    handed: dict[tuple[int, bool], set[int]] = field(default_factory=dict)

    def note(self, proxy: ir.Proxy, cta: int, agent: int, write: bool) -> None:
        """An access, or the completion of an engine's; a newer one stands for the older."""
        domain = (proxy, cta)
        self.live[(domain, agent, write)] = Trail(domain, agent, write, proxy not in ir.CACHED)

    def unseen(self, proxy: ir.Proxy, places: set[int], write: bool) -> bool:
        """Whether an access does not see one that it conflicts with."""
        for trail in self.live.values():
            if not (trail.write or write) or not {trail.domain[0], proxy} & set(ir.CACHED):
                continue
            if any(trail.domain == (proxy, place) for place in places):
                continue
            if not trail.left:
                return True
            caught = proxy in ir.CACHED or proxy is ir.Proxy.ASYNC
            if caught and not any((proxy, place) in trail.entered for place in places):
                return True
        return False

    def fence(self, proxy: ir.Proxy, cta: int) -> set[int]:
        """A fence of a proxy in a CTA; the agents whose writes have left their cache by it."""
        gone: set[int] = set()
        for trail in self.live.values():
            if trail.left:
                trail.entered.add((proxy, cta))
            elif trail.domain == (proxy, cta):
                trail.left = True
                gone |= {trail.agent} if trail.write else set()
        return gone

    def release(self, writers: set[int], readers: set[int]) -> None:
        """What these agents have written, read is released one way; nobody has acquired it yet."""
        self.handed.update({(author, True): set() for author in writers})
        self.handed.update({(author, False): set() for author in readers})

    def acquire(self, agent: int) -> None:
        """The agent has acquired all that is released one way so far."""
        for who in self.handed.values():
            who.add(agent)

    def settle(self, gone: set[int]) -> None:
        """A fence of both directions for the accesses of these agents."""
        for author, write in list(self.handed):
            if author in gone:
                del self.handed[(author, write)]

    def pending(self, agent: int, write: bool) -> bool:
        """Whether the agent has yet to acquire some write (or read)."""
        return any(wrote is write and agent not in who for (_, wrote), who in self.handed.items())
