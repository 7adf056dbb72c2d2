"""Whether the clusters of a launch race in global memory.

Nothing orders two clusters of a grid but what passes between them through memory. So if two of
them access the same bytes, and one writes, that is a race whatever barriers each of them has,
unless both accesses are strong at a scope that holds both clusters (PTX memory model, "Data
Races"), or both write the same. Equal are: known bytes that are equal; and all that two clusters
write that do the same work, since nothing that the kernel reads distinguishes them. Where a cluster
reads strongly what another writes strongly, it may learn of the other in this way, and whether that
orders their accesses is not decided.

What a cluster reads strongly of another, and what strong writes of both leave, depends on which
comes first, so that it is not decided: unless both are reductions of one operation, or raise a
counter whose values are tried (`settled.py`).

Assumptions: only the clusters that are added are compared, each by its accesses in one run, and
without those at unknown addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.grid.race_text import (
    RacingAccess,
    common_range,
    coordinates,
    race_diagnostic,
)
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.settled import commutes, of_one_operation, own_counters
from titan.frontends.ptx.trial import Trial
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.known_bytes import leave_the_same
from titan.isa.simt.launch import Launch
from titan.isa.simt.operations import PresetKind
from titan.isa.simt.outcome import Ending, Policy, Run
from titan.isa.simt.special import special_value
from titan.isa.simt.stored import surely_different
from titan.isa.simt.values import UNKNOWN
from titan.isa.simt.written import WrittenRanges, global_accesses

RACES_MAX = 4  # that are reported
UNKNOWN_PLACES = (Policy.OPAQUE_ADDRESS, Policy.OPAQUE_INDEX, Policy.FUNCTION_OPAQUE)
NOT_COMPARED = (
    "clusters write the same bytes of global memory, and whether they write the same is not known"
)
UNSETTLED = (
    "what clusters do to the same bytes of global memory by volatile, relaxed or atomic accesses "
    "gives values that depend on which comes first"
)
HANDED_OVER = (
    "clusters access the same bytes of global memory, and one reads what the other writes "
    "atomically: whether that orders them is not decided"
)

DECIDED = "clusters may race on ways that data may choose"


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """How a cluster, named by its first CTA, accesses bytes.

    `strong`: at a scope that holds other clusters; `observes`: a strong one that reads, and whose
    value the code obtains. `value`: what is written, if it is known. `settled`: an atomic that
    leaves the same in any order with others of this word. An addition to a counter that can order
    nothing, without fences, does not count as one that observes.
    """

    cluster: int
    mode: ev.Mode
    strong: bool
    observes: bool
    value: bytes | None
    footprint: Footprint
    settled: str = ""


@dataclass(frozen=True, slots=True)
class GridRace:
    """The second access writes bytes of the first, which is another cluster's."""

    first: GlobalAccess
    second: GlobalAccess
    events: tuple[ev.Event, ev.Event]


@dataclass(slots=True)
class GridAccesses:
    """What clusters of one launch access in global memory. `runs`: by the first CTA of each.

    `equal_writes`: the policy of that name. Without `exact`, a value is a number of AMD assembly
    (`titan/isa/waves/numbering.py`), `ways` has the runs of a cluster of which
    data choose one, `work` has all that a work-group stores, and a plain store may
    be one that is read strongly: machine code does not distinguish them. `unsettled_refused`: by
    the policy `unsettled`.
    """

    launch: Launch
    equal_writes: str = "shown"
    unsettled_refused: bool = True
    exact: bool = True
    runs: dict[int, Run] = field(default_factory=dict)
    work: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    ways: dict[int, tuple[Run, ...]] = field(default_factory=dict)
    _first: dict[GlobalAccess, ev.Event] = field(default_factory=dict)
    _alike: dict[tuple[int, int], bool] = field(default_factory=dict)

    def begin(self, run: Run, cta: int) -> int | None:
        """The cluster of a CTA, if its run ended and is the first one of the cluster."""
        cluster = self.launch.cluster_members(cta)[0]
        if run.outcome.ending is not Ending.FINISHED or cluster in self.runs:
            return None
        self.runs[cluster] = run
        return cluster

    def note(self, access: GlobalAccess, event: ev.Event) -> None:
        """An access of a cluster that has begun."""
        self._first.setdefault(access, event)

    def add(self, run: Run, cta: int) -> None:
        """Note what the cluster of a CTA accesses in a run; one that did not end is left out."""
        cluster = self.begin(run, cta)
        if cluster is not None:
            self._note_all(run, cluster)

    def add_ways(self, runs: Sequence[Run], cta: int) -> None:
        """The same of a cluster that may take one of several ways, each a run that ended."""
        cluster = self.launch.cluster_members(cta)[0]
        if len(runs) > 1 and cluster not in self.runs:
            self.ways[cluster] = tuple(runs)
            for run in runs[1:]:
                self._note_all(run, cluster)
        for run in runs[:1]:
            self.add(run, cta)

    def _note_all(self, run: Run, cluster: int) -> None:
        own = own_counters(run)
        ordering = bool(own) and _may_order(run, own)
        for event, footprint, mode in global_accesses(run, run.unknown_addresses()):
            strong, observes, value = mode is ev.Mode.ATOMIC, False, None
            settled = commutes(run, event)
            if isinstance(event, ev.AccessEvent):
                settled = "counter" if event.sequence in own else settled
                strong = event.scope >= ev.AccessScope.GPU
                observes = strong and (mode is ev.Mode.READ or event.returns)
                observes = observes and (event.sequence not in own or ordering)
                value = event.value
            access = GlobalAccess(cluster, mode, strong, observes, value, footprint, settled)
            self.note(access, event)

    def races(self) -> tuple[list[GridRace], bool]:
        """The races between clusters, one for each pair of instructions, and whether one cluster
        may learn of another through memory.
        """
        written = WrittenRanges(
            (access.footprint, access) for access in self._first if access.mode is not ev.Mode.READ
        )
        found: dict[tuple[int, int], GridRace] = {}
        runs = [*self.runs.values(), *(run for ways in self.ways.values() for run in ways)]
        observed = any(map(_observes_somewhere, runs))
        for access, event in self._first.items():
            for write in written.meeting(access.footprint):
                if write.cluster == access.cluster:
                    continue
                if access.strong and (write.strong or (not self.exact and access.observes)):
                    observed = observed or access.observes
                elif not self._equal(access, write):
                    writing = self._first[write]
                    low, high = sorted((event.instruction, writing.instruction))
                    found.setdefault((low, high), GridRace(access, write, (event, writing)))
        return list(found.values()), observed

    def unsettled(self) -> ev.Event | None:
        """A strong access whose value, or what it leaves, depends on what another cluster does."""
        writes = WrittenRanges(
            (access.footprint, access)
            for access in self._first
            if (access.strong or not self.exact) and access.mode is not ev.Mode.READ
        )
        for access, event in self._first.items():
            for write in writes.meeting(access.footprint) if access.strong else ():
                if not (write.strong or access.observes):
                    continue  # a race
                alike = of_one_operation(access.settled, write.settled)
                if write.cluster != access.cluster and not alike and not self._equal(access, write):
                    return event
        return None

    def _equal(self, one: GlobalAccess, other: GlobalAccess) -> bool:
        """Whether both are plain writes that leave the same in the bytes that they share."""
        if not (one.mode is other.mode is ev.Mode.WRITE):
            return False
        if leave_the_same(one.value, one.footprint, other.value, other.footprint):
            return True
        if self.equal_writes == "assumed" and one.footprint == other.footprint:
            return True
        return self.equal_writes == "shown" and self.same_work(one.cluster, other.cluster)

    def repeated(self) -> tuple[int, int] | None:
        """Two clusters that do the same work and were met to write the same bytes."""
        return next((pair for pair, alike in self._alike.items() if alike), None)

    def same_work(self, one: int, other: int) -> bool:
        """Whether two clusters compute the same from what is in memory.

        They do if no special register that the code reads differs between them, and nothing else
        of the moment, as the old value of an atomic, comes in.
        """
        pair = min(one, other), max(one, other)
        if pair not in self._alike:
            if self.exact:
                runs = self.ways.get(pair[0], (self.runs[pair[0]],))
                self._alike[pair] = all(_same_work(self.launch, run, pair) for run in runs)
            else:
                work = self.work.get(pair[0])
                self._alike[pair] = work is not None and work == self.work.get(pair[1])
        return self._alike[pair]


def _same_work(launch: Launch, run: Run, clusters: tuple[int, int]) -> bool:
    made = run.prepared
    if made is None or any(map(_of_the_moment, run.events)):
        return False
    specials = [item for item in made.code.presets if item.kind is not PresetKind.CONSTANT]
    if any(item.kind is PresetKind.OPAQUE for item in specials):
        return False
    members = zip(*map(launch.cluster_members, clusters), strict=True)
    for ctas in members:
        for item in specials:
            if item.name == "shared":  # the window of its own CTA
                continue
            for warp in range(launch.warps):
                one, other = (
                    special_value(launch, made.layout, item.name, cta, warp) for cta in ctas
                )
                if one is UNKNOWN or one != other:
                    return False
    return True


def _may_order(run: Run, counters: set[int]) -> bool:
    """Whether what a run does with its counters may order it with another one: by fences, or by
    what the additions themselves say."""
    ordered: list[bool] = []
    for event in run.events:
        if isinstance(event, ev.FenceEvent):
            if event.kind is not ev.RecordedFence.WGMMA and event.scope >= ev.AccessScope.GPU:
                return True
        elif event.sequence in counters and isinstance(event, ev.AccessEvent):
            ordered.append(event.semantics is not ev.AccessSemantics.RELAXED)
    return any(ordered)


def _of_the_moment(event: ev.Event) -> bool:
    """Whether an event brings in something that differs from one run of a cluster to another."""
    if isinstance(event, ev.AccessEvent):
        return event.returns and event.footprint.space is MemorySpace.GLOBAL
    if isinstance(event, ev.Assumption):
        return event.policy in UNKNOWN_PLACES
    return isinstance(event, ev.AsynchronousEvent) and event.kind is ev.RecordedOperation.TRY_CANCEL


def _observes_somewhere(run: Run) -> bool:
    """Whether a run reads strongly at an address that is not known."""
    unknown = run.unknown_addresses()
    return any(
        isinstance(event, ev.AccessEvent)
        and event.instruction in unknown
        and event.scope >= ev.AccessScope.GPU
        and (event.mode is ev.Mode.READ or event.returns)
        for event in run.events
    )


def judge_grid(
    accesses: GridAccesses, label: str, places: CodePlaces
) -> tuple[Trial | None, list[str]]:
    """What goes wrong between clusters that each are right, if something does; and notes."""
    launch = accesses.launch
    if len(accesses.runs) < 2:
        return None, []
    races, observed = accesses.races()
    ctas = [coordinates(launch, cta) for cta in accesses.runs]
    if races and observed:
        return Trial(label, ", ".join(ctas), Verdict.UNDECIDED, reason=HANDED_OVER), []
    if races and not accesses.exact and all(map(_may_be_equal, races)):
        return Trial(label, ", ".join(ctas), Verdict.UNDECIDED, reason=NOT_COMPARED), []
    if races and accesses.ways:
        reason = f"{DECIDED}: {_diagnosed(races[0], launch, places).headline}"
        return Trial(label, ", ".join(ctas), Verdict.UNDECIDED, reason=reason), []
    if races:
        found = tuple(_diagnosed(race, launch, places) for race in races[:RACES_MAX])
        first = [coordinates(launch, item.cta) for item in races[0].events]
        return Trial(label, " and ".join(first), Verdict.REFUTED, diagnostics=found), []
    unsettled = accesses.unsettled() if accesses.unsettled_refused else None
    if unsettled is not None:
        reason = f"{UNSETTLED} (line {places.span(unsettled.instruction).start_line})"
        return Trial(label, ", ".join(ctas), Verdict.UNDECIDED, reason=reason), []
    notes = [f"between CTA {', '.join(ctas)}: no race in global memory"]
    alike = accesses.repeated()
    if alike is not None:
        one, other = (coordinates(launch, cta) for cta in alike)
        notes.append(
            f"CTA {one} and CTA {other} do the same work: "
            "nothing that the kernel reads distinguishes them"
        )
    return None, notes


def _may_be_equal(race: GridRace) -> bool:
    both_write = race.first.mode is race.second.mode is ev.Mode.WRITE
    differ = surely_different(race.first.value, race.second.value)
    return both_write and race.first.footprint == race.second.footprint and not differ


def _diagnosed(race: GridRace, launch: Launch, places: CodePlaces) -> Diagnostic:
    """The diagnostic of a race between clusters."""
    one, other = (
        RacingAccess(event.cta, event, access.mode)
        for access, event in zip((race.first, race.second), race.events, strict=True)
    )
    common = common_range(race.first.footprint, race.second.footprint)
    return race_diagnostic((one, other), common, launch, places)


def neighbours(launch: Launch) -> tuple[int, ...]:
    """The first CTAs of the clusters next to the first one, in each direction of the grid."""
    steps = [
        tuple(size if axis == at else 0 for at, size in enumerate(launch.cluster))
        for axis in range(3)
    ]
    return tuple(
        launch.linear((x, y, z))
        for x, y, z in steps
        if all(at < extent for at, extent in zip((x, y, z), launch.grid, strict=True))
    )
