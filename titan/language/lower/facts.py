"""Who takes part in a ring: agents for each index, counted in unrolled runs of small sizes.

The counts become barrier counts of the sync program, which is what is verified afterwards; a count
that a run of other sizes contradicts shows there as a deadlock or an over-arrival, never as a wrong
VERIFIED. Where a count differs between indices the largest is taken: a reader that takes part
sometimes is meant to take part always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

from titan.foundation.records import dataclass
from titan.language.lower.model import refusal
from titan.language.protocol import model
from titan.language.protocol.participants import probe_sizes
from titan.language.protocol.unroll import AgentTrace, ProtocolEvent, UnrollError, unroll, walk
from titan.sync.program import Buffer, Space


@dataclass
class RingFacts:
    """What lowering needs to know of one ring; agents are numbers over the whole protocol."""

    ring: model.Ring
    buffers: tuple[Buffer, ...]
    producers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    fillers: dict[str, dict[int, set[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    readers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    releasers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    read_asynchronously: bool = False

    @property
    def ready_count(self) -> int:
        """Arrivals that make a stage ready: as declared, else as many as produce it, at least 1."""
        return self.ring.ready_count or _most(self.producers) or 1

    @property
    def free_count(self) -> int:
        """Arrivals that free a stage: as declared, 1 if collective, else one for each reader."""
        if self.ring.free_count:
            return self.ring.free_count
        if self.ring.release is model.ReleaseMode.COLLECTIVE:
            return 1
        return _most(self.readers) or _most(self.releasers) or 1

    @property
    def memory_spaces(self) -> tuple[Space, ...]:
        """The spaces of the ring that have proxies (tensor memory and registers have none)."""
        spaces = (buffer.space for buffer in self.buffers)
        kept = [space for space in spaces if space in (Space.SHARED, Space.GLOBAL)]
        return tuple(dict.fromkeys(kept))


def _most(agents: dict[int, set[int]]) -> int:
    return max((len(group) for group in agents.values()), default=0)


@dataclass
class Facts:
    """A protocol with its ring facts, and the unrolled runs from which they were counted."""

    protocol: model.Protocol
    rings: dict[str, RingFacts]
    runs: tuple[tuple[AgentTrace, ...], ...]
    agent_roles: tuple[tuple[model.ProtocolRole, int], ...]

    def role_traces(self, role: model.ProtocolRole) -> Iterator[AgentTrace]:
        """The traces of every agent of a role in every probed run."""
        for run in self.runs:
            for trace in run:
                if trace.role.name == role.name:
                    yield trace


def gather(protocol: model.Protocol) -> Facts:
    """Check the declarations and count participants. Raises LoweringRefused."""
    buffers = {buffer.name: buffer for buffer in protocol.buffers}
    rings: dict[str, RingFacts] = {}
    for ring in protocol.rings:
        if ring.depth < 1:
            raise refusal("TTN009", f"ring {ring.name} has depth {ring.depth}", ring.span)
        for name in ring.buffers:
            if name not in buffers:
                raise refusal(
                    "TTN011", f"ring {ring.name} names the undeclared buffer {name}", ring.span
                )
            if buffers[name].stages != ring.depth:
                raise refusal(
                    "TTN017",
                    f"buffer {name} has {buffers[name].stages} stages and its ring {ring.name} "
                    f"depth {ring.depth}",
                    buffers[name].span or ring.span,
                )
        rings[ring.name] = RingFacts(ring, tuple(buffers[name] for name in ring.buffers))
    _check_names(protocol, rings)
    runs = tuple(_runs(protocol))
    for run in runs:
        for trace in run:
            for event in trace.events:
                _count(rings, event)
    agents = tuple((role, member) for role in protocol.roles for member in range(role.agents))
    for role in protocol.roles:
        for statement in walk(role.body):
            if isinstance(statement, model.Issue):
                for operand in statement.operands:
                    rings[operand.ring].read_asynchronously = True
    return Facts(protocol, rings, runs, agents)


def _check_names(protocol: model.Protocol, rings: dict[str, RingFacts]) -> None:
    for role in protocol.roles:
        for statement in walk(role.body):
            for name, chosen in _uses(statement):
                if name not in rings:
                    raise refusal("TTN011", f"there is no ring {name}", statement.span)
                for buffer in chosen:
                    if buffer not in rings[name].ring.buffers:
                        raise refusal(
                            "TTN011", f"ring {name} has no buffer {buffer}", statement.span
                        )


def _uses(statement: model.Statement) -> Iterator[tuple[str, tuple[str, ...]]]:
    match statement:
        case model.Produce() | model.ReadStage():
            yield statement.ring, statement.buffers
        case model.Acquire() | model.WaitReady() | model.Release() | model.WhenPoisoned():
            yield statement.ring, ()
        case model.Issue():
            for operand in (*statement.operands, *statement.produces, *statement.accumulates):
                yield operand.ring, operand.buffers


def _runs(protocol: model.Protocol) -> Iterator[tuple[AgentTrace, ...]]:
    reasons = []
    found = False
    for sizes in probe_sizes(protocol):
        try:
            yield unroll(protocol, sizes)
            found = True
        except UnrollError as error:
            reasons.append(str(error))
    if not found:
        raise refusal(
            "TTN015", "the protocol cannot be unrolled for any small size", protocol.span, *reasons
        )


def _count(rings: dict[str, RingFacts], event: ProtocolEvent) -> None:
    match event.statement:
        case model.Produce(ring=name, index=index, buffers=buffers, last=last):
            facts, tile = rings[name], event.value(index)
            if last:
                facts.producers[tile].add(event.agent)
            for buffer in buffers or facts.ring.buffers:
                facts.fillers[buffer][tile].add(event.agent)
        case model.WaitReady(ring=name, index=index):
            rings[name].readers[event.value(index)].add(event.agent)
        case model.Release(ring=name, index=index):
            rings[name].releasers[event.value(index)].add(event.agent)
        case model.Issue(produces=produces):
            for operand in produces:
                rings[operand.ring].producers[event.value(operand.index)].add(event.agent)
