"""What a running execution knows of accesses that cached proxies or one-way fences concern.

A proxy access is one access with what has happened to it: whether it has left the cache that it was
made through, and which others it has entered since. It is kept of cells that a cached proxy
reaches.
"""

from __future__ import annotations

from dataclasses import field

from titan.foundation.records import dataclass
from titan.sync import program as ir

Domain = tuple[ir.Proxy, int]
ENGINE = -1


@dataclass(slots=True)
class ProxyAccess:
    """An access by an agent (-1: an engine) from a CTA."""

    domain: Domain
    agent: int
    write: bool
    left: bool
    entered: set[Domain] = field(default_factory=set)


@dataclass(slots=True)
class ProxyState:
    """Of one cell.

    `pending_releases`: by author and direction, who has acquired what it released one way.
    """

    live: dict[tuple[Domain, int, bool], ProxyAccess] = field(default_factory=dict)
    pending_releases: dict[tuple[int, bool], set[int]] = field(default_factory=dict)

    def note(self, proxy: ir.Proxy, cta: int, agent: int, write: bool) -> None:
        """An access, or the completion of an engine's; a newer one represents the older."""
        domain = (proxy, cta)
        self.live[(domain, agent, write)] = ProxyAccess(
            domain, agent, write, proxy not in ir.CACHED
        )

    def unseen(self, proxy: ir.Proxy, places: set[int], write: bool) -> bool:
        """Whether an access does not see one that it conflicts with."""
        for access in self.live.values():
            if not (access.write or write) or not {access.domain[0], proxy} & set(ir.CACHED):
                continue
            if any(access.domain == (proxy, place) for place in places):
                continue
            if not access.left:
                return True
            caught = proxy in ir.CACHED or proxy is ir.Proxy.ASYNC
            if caught and not any((proxy, place) in access.entered for place in places):
                return True
        return False

    def fence(self, proxy: ir.Proxy, cta: int) -> set[int]:
        """A fence of a proxy in a CTA; the agents whose writes have left their cache by it."""
        gone: set[int] = set()
        for access in self.live.values():
            if access.left:
                access.entered.add((proxy, cta))
            elif access.domain == (proxy, cta):
                access.left = True
                gone |= {access.agent} if access.write else set()
        return gone

    def release(self, writers: set[int], readers: set[int]) -> None:
        """What these agents have written, read is released one way; nobody has acquired it yet."""
        self.pending_releases.update({(author, True): set() for author in writers})
        self.pending_releases.update({(author, False): set() for author in readers})

    def acquire(self, agent: int) -> None:
        """The agent has acquired all that is released one way so far."""
        for who in self.pending_releases.values():
            who.add(agent)

    def settle(self, gone: set[int]) -> None:
        """A fence of both directions for the accesses of these agents."""
        for author, write in list(self.pending_releases):
            if author in gone:
                del self.pending_releases[(author, write)]

    def pending(self, agent: int, write: bool) -> bool:
        """Whether the agent has yet to acquire some write (or read)."""
        return any(
            wrote is write and agent not in who for (_, wrote), who in self.pending_releases.items()
        )
