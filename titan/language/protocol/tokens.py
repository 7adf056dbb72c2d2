"""Plain tokens for given sizes: runs a protocol to its end and names every broken rule.

The second opinion of the symbolic typestate, and its witness: no solver, no symbols. Two parts. The
resource rules are checked on each agent's own list of statements (what an agent may do follows from
what it has done itself) and on the sets of indices that agents touch. Then the agents run: a wait
blocks until all arrivals of its index are there, so a run that stops early is a hang.

Assumption: the number of agents that fill, and that free, a stage is the one given, else the
ring's declared one, else the largest that occurs at one index of this run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from titan.foundation.records import dataclass
from titan.language.protocol import model
from titan.language.protocol.unroll import AgentTrace, ProtocolEvent, Sizes, unroll, walk
from titan.target.description import target_of

Key = tuple[str, int]  # ring, index


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken rule: its code, a sentence, and the events to point at (the first is primary).

    `hangs`: an agent waits forever for what is done elsewhere, not for what nobody does.
    """

    code: str
    message: str
    agent: str
    events: tuple[ProtocolEvent, ...] = field(default=(), compare=False)
    statements: tuple[model.Statement, ...] = field(default=(), compare=False)
    hangs: bool = field(default=False, compare=False)


@dataclass
class _RingAccesses:
    """What one agent does with each stage, as positions in its list of events."""

    trace: AgentTrace
    acquires: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    writes: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    arrivals: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    reads: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    issues: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    releases: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    queue: list[tuple[int, str]] = field(default_factory=list)


class TokenRun:
    """One protocol with concrete sizes. `breaches()` lists what is wrong, the hang last.

    Raises UnrollError from the constructor where the protocol cannot be unrolled.
    """

    def __init__(
        self,
        protocol: model.Protocol,
        sizes: Sizes | None = None,
        ready: Mapping[str, int] | None = None,
        free: Mapping[str, int] | None = None,
    ) -> None:
        self.protocol = protocol
        self.rings = {ring.name: ring for ring in protocol.rings}
        self.traces = unroll(protocol, sizes)
        self.accesses = [self._ring_accesses(trace) for trace in self.traces]
        self.poisoned = self._poisoned()
        self.ready = {
            ring.name: ring.ready_count or self._most(ring.name, "arrivals") or 1
            for ring in protocol.rings
        } | dict(ready or {})
        self.free = {
            ring.name: ring.free_count or self._most(ring.name, "waits") or 1
            for ring in protocol.rings
        } | dict(free or {})

    def _ring_accesses(self, trace: AgentTrace) -> _RingAccesses:
        accesses = _RingAccesses(trace)
        for place, event in enumerate(trace.events):
            statement = event.statement
            match statement:
                case model.Acquire(ring=ring, index=index):
                    accesses.acquires[ring, event.value(index)].append(place)
                case model.Produce(ring=ring, index=index, last=last):
                    accesses.writes[ring, event.value(index)].append(place)
                    if last:
                        accesses.arrivals[ring, event.value(index)].append(place)
                case model.WaitReady(ring=ring, index=index):
                    accesses.waits[ring, event.value(index)].append(place)
                case model.ReadStage(ring=ring, index=index):
                    accesses.reads[ring, event.value(index)].append(place)
                case model.Release(ring=ring, index=index):
                    accesses.releases[ring, event.value(index)].append(place)
                case model.Issue():
                    accesses.queue.append((place, statement.group))
                    for operand in statement.operands:
                        accesses.issues[operand.ring, event.value(operand.index)].append(place)
                    for slot in (*statement.accumulates, *statement.produces):
                        accesses.writes[slot.ring, event.value(slot.index)].append(place)
                    for slot in statement.produces:
                        accesses.arrivals[slot.ring, event.value(slot.index)].append(place)
        return accesses

    def _most(self, ring: str, what: str) -> int:
        counts: dict[int, int] = defaultdict(int)
        for accesses in self.accesses:
            for name, index in getattr(accesses, what):
                if name == ring:
                    counts[index] += 1
        return max(counts.values(), default=0)

    def _poisoned(self) -> frozenset[Key]:
        return frozenset(
            (event.statement.ring, event.value(event.statement.index))
            for trace in self.traces
            for event in trace.events
            if isinstance(event.statement, model.Produce)
            and event.statement.poison is not None
            and event.value(event.statement.poison)
        )

    def _of_all(self, what: str) -> set[Key]:
        return {key for accesses in self.accesses for key in getattr(accesses, what)}

    # ------------------------------------------------------------------------------ breaches

    def breaches(self) -> list[Breach]:
        """Every broken rule of this run, by agent, then of the whole, the hang last."""
        found: list[Breach] = []
        for accesses in self.accesses:
            found += self._producer_rules(accesses)
            found += self._reader_rules(accesses)
            found += self._release_rules(accesses)
            found += self._end_rules(accesses)
        found += self._finalize_rules()
        found += self._matching_rules()
        found += self._hang()
        return found

    def codes(self) -> set[str]:
        """The rule codes of all breaches; empty where the run breaks no rule."""
        return {breach.code for breach in self.breaches()}

    def _breach(self, code: str, message: str, accesses: _RingAccesses, *places: int) -> Breach:
        events = tuple(accesses.trace.events[place] for place in places)
        statements = tuple(event.statement for event in events)
        return Breach(code, message, accesses.trace.name, events, statements)

    def _producer_rules(self, accesses: _RingAccesses) -> Iterator[Breach]:
        acquired_rings = {ring for ring, _ in accesses.acquires}
        for uses in (accesses.acquires, accesses.writes, accesses.waits, accesses.releases):
            for (ring, index), places in uses.items():
                if index < 0:
                    yield self._breach(
                        "TTN106",
                        f"index {index} of {ring} lies before the first",
                        accesses,
                        places[0],
                    )
        for (ring, index), places in accesses.writes.items():
            depth = self.rings[ring].depth
            mine = accesses.acquires.get((ring, index), [])
            if index >= depth and not any(place < places[0] for place in mine):
                others = ring not in acquired_rings and any(
                    name == ring for name, _ in self._of_all("acquires")
                )
                if not others:
                    code = "TTN106" if ring in acquired_rings else "TTN101"
                    yield self._breach(
                        code, f"{ring}[{index}] is filled without having been acquired", accesses,
                        places[0],
                    )  # fmt: skip
            done = accesses.arrivals.get((ring, index), [])
            if len(done) > 1:
                yield self._breach(
                    "TTN102", f"{ring}[{index}] is completed twice", accesses, done[1], done[0]
                )
            elif done and places[-1] > done[0]:
                yield self._breach(
                    "TTN102", f"{ring}[{index}] is filled again after it was completed", accesses,
                    places[-1], done[0],
                )  # fmt: skip

    def _reader_rules(self, accesses: _RingAccesses) -> Iterator[Breach]:
        waited = self._of_all("waits")
        for uses in (accesses.reads, accesses.issues):
            for key, places in uses.items():
                text = f"{key[0]}[{key[1]}]"
                mine = accesses.waits.get(key, [])
                if not any(place < places[0] for place in mine) and (mine or key not in waited):
                    yield self._breach(
                        "TTN103", f"{text} is read before it is waited for", accesses, places[0]
                    )
                gone = accesses.releases.get(key, [])
                if gone and places[-1] > gone[0]:
                    yield self._breach(
                        "TTN103", f"{text} is read after its release", accesses, places[-1], gone[0]
                    )
                if key in self.poisoned:
                    yield self._breach(
                        "TTN111", f"{text} is poisoned and is read", accesses, places[0]
                    )

    def _release_rules(self, accesses: _RingAccesses) -> Iterator[Breach]:
        waited = self._of_all("waits")
        for key, places in accesses.releases.items():
            text = f"{key[0]}[{key[1]}]"
            mine = accesses.waits.get(key, [])
            if not any(place < places[0] for place in mine) and (mine or key not in waited):
                yield self._breach(
                    "TTN112",
                    f"{text} is released without having been waited for",
                    accesses,
                    places[0],
                )
            if len(places) > 1:
                yield self._breach("TTN113", f"{text} is released twice", accesses, *places[1::-1])
            for place in accesses.issues.get(key, []):
                if place < places[0] and not self._drained(accesses, place, places[0]):
                    yield self._breach(
                        "TTN104", f"{text} is released while a group still reads it", accesses,
                        places[0], place,
                    )  # fmt: skip

    def _drained(self, accesses: _RingAccesses, issue: int, until: int) -> bool:
        """Whether the issue is done before event `until`, or `until` itself waits for it."""
        for place in range(issue + 1, min(until + 1, len(accesses.trace.events))):
            event = accesses.trace.events[place]
            statement = event.statement
            if isinstance(statement, model.Finalize):
                return True
            if isinstance(statement, model.Drain) and place < until:
                kept = event.value(statement.leaving)
                if self._covers(accesses, issue, place, statement.group, kept):
                    return True
            elif isinstance(statement, model.Release) and statement.after is not None:
                blocking = not target_of(self.protocol.target).matrix_commits_to_barriers
                if (place == until or blocking) and self._covers(
                    accesses, issue, place, statement.after, 0
                ):
                    return True
        return False

    def _covers(
        self, accesses: _RingAccesses, issue: int, place: int, group: str, kept: int
    ) -> bool:
        """Groups retire in order: all up to the newest of `group` but `kept` are done."""
        named = [number for number, name in accesses.queue if name == group and number < place]
        return len(named) > kept >= 0 and issue <= named[len(named) - 1 - kept]

    # ------------------------------------------------------------------------------ the end

    def _end_rules(self, accesses: _RingAccesses) -> Iterator[Breach]:
        """What an agent started in its tensor-core queue is over when the program ends."""
        if not accesses.queue:
            return
        seen = self._seen_markers(accesses)
        end = len(accesses.trace.events)
        for place, name in accesses.queue:
            if not self._drained(accesses, place, end) and not any(mark >= place for mark in seen):
                yield self._breach(
                    "TTN109", f"group {name} is never waited for before the end", accesses, place
                )
        if target_of(self.protocol.target).matrix_commits_to_barriers:
            for place, event in enumerate(accesses.trace.events):
                statement = event.statement
                if isinstance(statement, model.Release) and statement.after is not None:
                    later = any(mark >= place for mark in seen)
                    if not later and not self._drained_after(accesses, place):
                        yield self._breach(
                            "TTN109", "a commit may arrive after the end", accesses, place
                        )

    def _drained_after(self, accesses: _RingAccesses, place: int) -> bool:
        return any(
            isinstance(event.statement, model.Finalize)
            or (isinstance(event.statement, model.Drain) and event.statement.group)
            for event in accesses.trace.events[place + 1 :]
        )

    def _seen_markers(self, accesses: _RingAccesses) -> list[int]:
        """Commits of the agent that somebody waits for: what came before them is over then."""
        waited, acquired = self._of_all("waits"), self._of_all("acquires")
        seen = []
        for (ring, index), places in accesses.arrivals.items():
            tensor = self.rings[ring].transport is model.Transport.MMA
            if tensor and (ring, index) in waited:
                seen += places
        if target_of(self.protocol.target).matrix_commits_to_barriers:
            for (ring, index), places in accesses.releases.items():
                if (ring, index + self.rings[ring].depth) in acquired:
                    seen += [
                        place
                        for place in places
                        if getattr(accesses.trace.events[place].statement, "after", None)
                        is not None
                    ]
        return seen

    def _finalize_rules(self) -> Iterator[Breach]:
        """Where one role of a ring finalizes, all of them do, once."""
        written = any(
            isinstance(item, model.Finalize)
            for role in self.protocol.roles
            for item in walk(role.body)
        )
        if not written:
            return
        for accesses in self.accesses:
            takes_part = accesses.writes or accesses.waits or accesses.acquires or accesses.releases
            times = sum(
                isinstance(event.statement, model.Finalize) for event in accesses.trace.events
            )
            if takes_part and times != 1:
                events = accesses.trace.events
                yield self._breach(
                    "TTN109", f"{accesses.trace.name} reaches finalize {times} times", accesses,
                    len(events) - 1,
                )  # fmt: skip

    # ----------------------------------------------------------------------------- matching

    def _arrived(self, what: str, key: Key) -> int:
        return sum(len(getattr(accesses, what).get(key, ())) for accesses in self.accesses)

    def _matching_rules(self) -> Iterator[Breach]:
        waited = self._of_all("waits")
        for accesses in self.accesses:
            for key, places in accesses.waits.items():
                if self._arrived("arrivals", key) < self.ready[key[0]]:
                    yield self._breach(
                        "TTN107", f"nothing makes {key[0]}[{key[1]}] ready", accesses, places[0]
                    )
            for key, places in accesses.arrivals.items():
                if self._arrived("arrivals", key) > self.ready[key[0]]:
                    yield self._breach(
                        "TTN102", f"{key[0]}[{key[1]}] gets more arrivals than expected", accesses,
                        places[-1],
                    )  # fmt: skip
                if key not in waited and self._leaks(accesses, key, places[0]):
                    yield self._breach(
                        "TTN109", f"nobody waits for the copy into {key[0]}[{key[1]}]", accesses,
                        places[0],
                    )  # fmt: skip
            yield from self._freeing_rules(accesses)
        yield from self._collective_rules()

    def _leaks(self, accesses: _RingAccesses, key: Key, place: int) -> bool:
        """Whether the fill is asynchronous and has data."""
        event = accesses.trace.events[place]
        statement = event.statement
        if self.rings[key[0]].transport is model.Transport.STORE or key in self.poisoned:
            return False
        if isinstance(statement, model.Produce) and statement.stored:
            return False
        given = statement.bytes if isinstance(statement, model.Produce) else None
        return given is None or event.value(given) > 0

    def _freeing_rules(self, accesses: _RingAccesses) -> Iterator[Breach]:
        for (ring, index), places in accesses.acquires.items():
            older = (ring, index - self.rings[ring].depth)
            if older[1] < 0:
                continue
            count, wanted = self._arrived("releases", older), self.free[ring]
            text = f"{ring}[{older[1]}]"
            if count < wanted:
                waited = any(older in other.waits for other in self.accesses)
                code = "TTN105" if waited else "TTN107"
                yield self._breach(
                    code, f"{text} is released {count} of {wanted} times and its stage is acquired "
                    "again", accesses, places[0],
                )  # fmt: skip
        for key, places in accesses.releases.items():
            if self._arrived("releases", key) > self.free[key[0]]:
                yield self._breach(
                    "TTN113", f"{key[0]}[{key[1]}] is released more often than it has readers",
                    accesses, places[0],
                )  # fmt: skip

    def _collective_rules(self) -> Iterator[Breach]:
        for ring in self.protocol.rings:
            if ring.release is not model.ReleaseMode.COLLECTIVE:
                continue
            readers = [
                accesses
                for accesses in self.accesses
                if any(name == ring.name for name, _ in accesses.waits)
            ]
            for accesses in readers:
                for key, places in accesses.releases.items():
                    missing = [other for other in readers if key not in other.releases]
                    if key[0] == ring.name and missing:
                        yield self._breach(
                            "TTN110", f"{ring.name}[{key[1]}] is released by {accesses.trace.name} "
                            f"and not by {missing[0].trace.name}", accesses, places[0],
                        )  # fmt: skip

    # --------------------------------------------------------------------------------- run

    def _hang(self) -> Iterator[Breach]:
        """Run all agents as far as they come: blocked ones hang, and parities must be safe."""
        run = _Run(self)
        while run.step():
            pass
        for number, place, key in run.unsafe:
            yield self._breach(
                "TTN106", f"{self.traces[number].name} may acquire {key[0]}[{key[1]}] before the "
                "epoch before it is over: the parity of the barrier is then that of an older one",
                self.accesses[number], place,
            )  # fmt: skip
        for accesses, place in zip(self.accesses, run.places, strict=True):
            if place < len(accesses.trace.events):
                event = accesses.trace.events[place]
                statement = event.statement
                assert isinstance(statement, model.Acquire | model.WaitReady)
                index = event.value(statement.index)
                found = self._breach(
                    "TTN107", f"{accesses.trace.name} waits for {statement.ring}[{index}] forever",
                    accesses, place,
                )  # fmt: skip
                yield replace(found, hangs=True)


class _Run:
    """One run with vector clocks: what an agent knows to be over when it comes to a wait.

    Arrivals that each wait needs are fixed, so every run orders the same events.
    """

    def __init__(self, tokens: TokenRun) -> None:
        self.tokens = tokens
        count = len(tokens.traces)
        self.places = [0] * count
        self.clocks = [[-1] * count for _ in range(count)]
        self.ready: dict[Key, list[list[int]]] = defaultdict(list)
        self.freed: dict[Key, list[list[int]]] = defaultdict(list)
        self.passed: dict[tuple[str, Key], list[tuple[int, int]]] = defaultdict(list)
        self.unsafe: list[tuple[int, int, Key]] = []
        self.parity = target_of(tokens.protocol.target).parity_barriers

    def step(self) -> bool:
        """Take every agent as far as it comes; whether one has moved."""
        moved = False
        for number, trace in enumerate(self.tokens.traces):
            while self.places[number] < len(trace.events):
                event = trace.events[self.places[number]]
                if not self._passes(number, event):
                    break
                self.clocks[number][number] = self.places[number]
                self._arrive(number, event)
                self.places[number] += 1
                moved = True
        return moved

    def _passes(self, number: int, event: ProtocolEvent) -> bool:
        """Whether the event is not blocked; a wait learns what its arrivals knew."""
        statement = event.statement
        if isinstance(statement, model.WaitReady):
            key = (statement.ring, event.value(statement.index))
            arrivals, wanted, kind = self.ready, self.tokens.ready[statement.ring], "ready"
        elif isinstance(statement, model.Acquire):
            depth = self.tokens.rings[statement.ring].depth
            key = (statement.ring, event.value(statement.index) - depth)
            arrivals, wanted, kind = self.freed, self.tokens.free[statement.ring], "free"
        else:
            return True
        if key[1] < 0:
            return True
        if len(arrivals[key]) < wanted:
            return False
        self._check_parity(number, key, kind, arrivals)
        for clock in arrivals[key]:
            mine = self.clocks[number]
            self.clocks[number] = [max(pair) for pair in zip(mine, clock, strict=True)]
        self.passed[kind, key].append((number, self.places[number]))
        return True

    def _check_parity(
        self, number: int, key: Key, kind: str, arrivals: dict[Key, list[list[int]]]
    ) -> None:
        """A parity wait needs the phase before to be over, or it passes on the one before that."""
        ring = self.tokens.rings[key[0]]
        older = (key[0], key[1] - ring.depth)
        if older[1] < 0 or not self.parity:
            return
        clock = self.clocks[number]
        seen = any(clock[agent] >= place for agent, place in self.passed[kind, older])
        asynchronous = (
            ring.transport is not model.Transport.STORE
            if kind == "ready"
            else target_of(self.tokens.protocol.target).matrix_commits_to_barriers
        )
        known = not asynchronous and all(
            all(mine >= theirs for mine, theirs in zip(clock, arrival, strict=True))
            for arrival in arrivals[older]
        )
        if not seen and not known:
            self.unsafe.append((number, self.places[number], key))

    def _arrive(self, number: int, event: ProtocolEvent) -> None:
        statement = event.statement
        clock = list(self.clocks[number])
        if isinstance(statement, model.Produce) and statement.last:
            self.ready[statement.ring, event.value(statement.index)].append(clock)
        elif isinstance(statement, model.Release):
            self.freed[statement.ring, event.value(statement.index)].append(clock)
        elif isinstance(statement, model.Issue):
            for slot in statement.produces:
                self.ready[slot.ring, event.value(slot.index)].append(clock)
