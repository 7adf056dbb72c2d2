"""Compares what the compiler made of a kernel with its sync program, thread by thread.

For a launch, a CTA or its cluster runs on the machine of warps (`threads.py`), every agent goes
through its role (`expected.py`), and what two lanes of every warp have done is put next to it: the
same operations in
the same order, on the same barriers, with the same parities, counts, bytes and pending groups, and
none besides. Operations of all threads must be in both lanes of all warps of the agent, arrivals in
one lane of each warp or of one, copies and their groups in one thread. The count that a barrier was
initialised with is that of the program times the warps that arrive for one agent.

A comparison covers the launches that are gone through, not all of them. Sizes of boxes are taken
from the manifest. What the numbers in registers are is not examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from titan.codegen.tile.manifest import Manifest, ManifestRole
from titan.sync import program as ir
from titan.sync.parts import queue_of
from titan.validate.compare.bindings import Bindings
from titan.validate.compare.expected import Numbers, Occurrence, everywhere, occurrences
from titan.validate.compare.matching import (
    ONE,
    WARP,
    Boxes,
    CutShort,
    Matcher,
    OperationMismatch,
    in_cluster,
    kind_of,
    multiplications,
)
from titan.validate.compare.tensor import fenced, tensor_side, unframed
from titan.validate.compare.threads import (
    NOTED,
    EmittedKernel,
    Ran,
    ThreadEvent,
    UnsupportedPtx,
    launch_of,
    run_cluster,
)

FAULTS_MAX = 20
MACHINE_FAULTS_MAX = 3  # of one launch; one wrong address gives many
_CLUSTER = ir.Scope.CLUSTER
LANES = (0, 1)
WARP_THREADS = 32
ROW_BYTES = 4  # of a number that one role hands to another
REGISTERS_OF_SM = 65_536  # shared by the threads of a kernel that has the SM for itself


@dataclass(frozen=True, slots=True)
class ComparedLaunch:
    """One CTA of one launch, or the cluster whose first CTA it is.

    `sizes` by name; `numbers` are those of the program's parameters. `cancelled`: how many CTAs
    that follow in the grid it obtains, where it asks.
    """

    sizes: Mapping[str, int]
    numbers: Numbers
    block: int = 0
    grid: int = 1
    cancelled: int = 0


@dataclass(slots=True)
class TranslationComparison:
    """`faults` is empty where the code does what the program says in all launches."""

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    launches: int = 0
    threads: int = 0
    events: int = 0

    def fault(self, text: str) -> None:
        """Notes one fault."""
        if text not in self.faults and len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


def compare(
    kernel: EmittedKernel,
    program: ir.SyncProgram,
    manifest: Manifest,
    launches: list[ComparedLaunch],
) -> TranslationComparison:
    """Raises UnsupportedPtx for what cannot be compared, TooLong for launches that are too
    large."""
    whole = _Whole(kernel, program, manifest)
    for launch in launches:
        whole.launch(launch)
    whole.finish()
    return whole.result


class _Whole:
    """All launches of one kernel; addresses and counts are the same in all."""

    def __init__(self, kernel: EmittedKernel, program: ir.SyncProgram, manifest: Manifest) -> None:
        self.kernel = kernel
        self.program = program
        self.manifest = manifest
        self.bindings = Bindings(program)
        self.result = TranslationComparison()
        self.seen: set[int] = set()
        self.counts: dict[int, int] = {}  # address of a barrier -> count of its initialisation
        self.ratios: dict[str, Counter[int]] = {}  # barrier -> arrivals for one of the program
        self.places = {item["name"]: item for item in manifest["roles"]}
        self.matrix = multiplications(program)
        self.ctas = max((role.cta for role in program.roles), default=0) + 1
        self.tensor = tensor_side(program, manifest)
        self.ran = Ran()
        self.takers: set[tuple[int, int]] = set()  # by rank the threads that allocate tensor memory
        self.cluster = {item.name for item in program.named_barriers if item.scope is _CLUSTER}

    def launch(self, launch: ComparedLaunch) -> None:
        self.result.launches += 1
        starts = Counter[int]()
        self.takers.clear()
        self.ran = self._ran(launch)
        self.seen |= self.ran.seen
        if not self.ran.events:
            self.result.faults.extend(self.ran.faults)
            return
        for role in self.program.roles:
            for agent in range(role.agents):
                self._agent(role, agent, launch, starts)
        for rank in range(self.ctas):
            self._idle(rank, launch, starts)
        for text in self.ran.faults[:MACHINE_FAULTS_MAX]:
            self.result.fault(text)
        self._taken()
        wrong = [address for address, count in starts.items() if count != 1]
        if wrong:
            self.result.fault(f"a barrier is initialised {starts[wrong[0]]} times")
        wanted = sum(barrier.stages for barrier in self.program.barriers)
        if len(starts) != wanted:
            self.result.fault(f"{len(starts)} barriers are initialised, not {wanted}")

    def _taken(self) -> None:
        """One warp of each CTA allocates tensor memory."""
        for rank in range(self.ctas) if self.tensor.buffers else ():
            takers = sorted(thread for at, thread in self.takers if at == rank)
            if len({thread // WARP_THREADS for thread in takers}) != 1 or len(takers) != len(LANES):
                self.result.fault(f"tensor memory is allocated by the threads {takers}")

    def _place(self, role: ir.Role) -> ManifestRole:
        """Where the threads of a role are, the same in every CTA."""
        place: ManifestRole = self.places[role.name.partition("@")[0]]
        return place

    def _idle(self, rank: int, launch: ComparedLaunch, starts: Counter[int]) -> None:
        """Warps without a role do nothing after the barrier of all threads."""
        taken = {
            warp
            for role in self.program.roles
            if role.cta == rank
            for warp in range(
                self._place(role)["first_thread"] // WARP_THREADS,
                (self._place(role)["first_thread"] + role.agents * role.threads - 1) // WARP_THREADS
                + 1,
            )
        }
        for warp in range(self.manifest["launch"]["block"] // WARP_THREADS):
            for lane in LANES if warp not in taken else ():
                thread = warp * WARP_THREADS + lane
                events = self._events(thread, rank, launch, starts, None)
                if events:
                    text = f"line {events[0].line}: {events[0].kind} in a warp without a role"
                    self.result.fault(f"thread {thread}: {text}")

    def _agent(
        self, role: ir.Role, agent: int, launch: ComparedLaunch, starts: Counter[int]
    ) -> None:
        expected = self._expected(role, agent, launch)
        place = self._place(role)
        first = place["first_thread"] + agent * role.threads
        warps = max(1, role.threads // WARP_THREADS)
        performed: list[list[tuple[int, ThreadEvent]]] = [[] for _ in expected]
        reached = len(expected)  # by all lanes
        away: set[int] = set()  # lanes that have left the role
        for warp in range(warps):
            for lane in LANES:
                thread = first + warp * WARP_THREADS + lane
                events = self._events(thread, role.cta, launch, starts, place)
                self.result.threads += 1
                self.result.events += len(events)
                if not events and expected:
                    away.add(warp * WARP_THREADS + lane)
                    continue
                where = f"{role.name}[{agent}], thread {thread}"
                own = warp * WARP_THREADS + lane
                at = thread // WARP_THREADS
                done = self._match(where, role.cta, at, own, events, expected, performed)
                reached = min(reached, done)
        lanes = {warp * WARP_THREADS + lane for warp in range(warps) for lane in LANES}
        if any((role.cta, first + lane) not in self.ran.ended for lane in lanes):
            expected, performed = expected[:reached], performed[:reached]
        elif away and away not in ({*lanes} - {0}, lanes):
            self.result.fault(f"{role.name}[{agent}]: some threads of the agent do not take part")
        self._who(f"{role.name}[{agent}]", lanes - away, expected, performed)

    def _expected(self, role: ir.Role, agent: int, launch: ComparedLaunch) -> list[Occurrence]:
        """What the agent does up to the cluster barrier, with which all threads end."""
        expected = occurrences(role, agent, launch.numbers, self.program)
        if self.tensor.buffers and self.ctas > 1:
            expected = everywhere(expected, self.ctas)
        at = [i for i, item in enumerate(expected) if item.place[0] in self.cluster]
        if not self.cluster:
            return expected
        if at != [len(expected) - 1]:
            raise UnsupportedPtx("a cluster barrier is not at the end of a role")
        return expected[:-1]

    def _events(
        self,
        thread: int,
        rank: int,
        launch: ComparedLaunch,
        starts: Counter[int],
        place: ManifestRole | None,
    ) -> list[ThreadEvent]:
        """What the thread does in its role; what comes before and after is judged here."""
        threads = self.manifest["launch"]["block"]
        cut = (rank, thread) not in self.ran.ended
        whole = self.ran.events[(rank, thread)]
        if cut and whole and whole[-1].kind in ("sync", "cluster_arrive"):
            whole = whole[:-1]  # where it waits forever
        prologue, events = _split(whole, threads, self.ctas > 1)
        if prologue is None:
            if cut:
                return []
            self.result.fault(f"thread {thread}: its role begins before the barrier of all threads")
            return events
        if self.tensor.buffers:
            prologue, events = self._tensor(rank, thread, prologue, events, cut)
        self._prologue(prologue, starts, rank)
        if self.cluster and not cut:
            kinds = [event.kind for event in events[-2:]]
            if kinds == ["cluster_arrive", "cluster_wait"]:
                events = events[:-2]
            else:
                self.result.fault(f"thread {thread}: it ends without the cluster barrier")
        entry = min(255, REGISTERS_OF_SM // threads // 8 * 8)
        had: int | None = entry
        if events and events[0].kind in ("registers_up", "registers_down"):
            had, events = events[0].values[0], events[1:]
        if place is not None and had != place["registers"]:
            self.result.fault(f"thread {thread}: {had} registers, not {place['registers']}")
        return events

    def _ran(self, launch: ComparedLaunch) -> Ran:
        made = launch_of(self.kernel, self.manifest, launch.sizes, launch.grid)
        made = replace(made, cancelled=launch.cancelled)
        warps = range(0, self.manifest["launch"]["block"], WARP_THREADS)
        return run_cluster(
            self.kernel, made, launch.block, [first + lane for first in warps for lane in LANES],
            self.manifest["launch"].get("dependent", False),
        )  # fmt: skip

    def _tensor(
        self,
        rank: int,
        thread: int,
        prologue: list[ThreadEvent],
        events: list[ThreadEvent],
        cut: bool,
    ) -> tuple[list[ThreadEvent], list[ThreadEvent]]:
        """Without the frame and the fences of tensor memory, which are judged here."""
        if any(event.kind == "tensor_alloc" for event in prologue):
            self.takers.add((rank, thread))
        threads, columns = self.manifest["launch"]["block"], self.tensor.columns
        prologue, events, wrong = unframed(prologue, events, threads, columns, self.ctas > 1)
        events, more = fenced(events)
        for text in () if cut else wrong + more:
            self.result.fault(f"thread {thread}: {text}")
        return prologue, events

    def _prologue(self, events: list[ThreadEvent], starts: Counter[int], rank: int) -> None:
        for event in events:
            address, *rest = event.values or (None,)
            if event.kind == "init" and address is not None and rest[0] is not None:
                address = in_cluster(address, rank)
                starts[address] += 1
                self.counts[address] = rest[0]
            elif event.kind not in ("fence_init", "fence_async"):
                self.result.fault(f"line {event.line}: {event.kind} before the roles begin")
        kinds = [event.kind for event in events]
        if "init" in kinds and "fence_init" not in kinds[len(kinds) - kinds[::-1].index("init") :]:
            self.result.fault("no fence follows the initialisation of the barriers")

    def _match(
        self,
        where: str,
        rank: int,
        warp: int,
        lane: int,
        events: list[ThreadEvent],
        expected: list[Occurrence],
        performed: list[list[tuple[int, ThreadEvent]]],
    ) -> int:
        """How many of the operations the thread's events spell; what is wrong is reported."""
        cut = (rank, warp * WARP_THREADS + lane % WARP_THREADS) not in self.ran.ended
        matcher = Matcher(self.bindings, self._boxes(), events, rank, self.tensor, warp, cut)
        for number, occurrence in enumerate(expected):
            try:
                taken = matcher.take(occurrence)
            except CutShort:
                return number
            except OperationMismatch as mismatch:
                self.result.fault(f"{where}: {mismatch}")
                return number
            if taken is not None:
                performed[number].append((lane, taken))
        if (left := matcher.rest()) is not None:
            text = f"line {left.line}: {left.kind} after the end of its program"
            self.result.fault(f"{where}: {text}")
        return len(expected)

    def _boxes(self) -> Boxes:
        """Number of a parameter -> the buffer of the map's copies, the bytes of its box, and
        whether the kernel adds to the tensor."""
        found = {}
        adds = {item["name"] for item in self.manifest.get("tensors", ()) if item.get("adds")}
        for number, item in enumerate(self.manifest["arguments"]):
            if item["kind"] == "tensor_map":
                size = _BYTES[item["dtype"]]
                for extent in item["box"]:
                    size *= extent
                found[number] = (item["operation"], size, item.get("tensor") in adds)
        return found

    def _who(
        self,
        where: str,
        lanes: set[int],
        expected: list[Occurrence],
        performed: list[list[tuple[int, ThreadEvent]]],
    ) -> None:
        """Whether each operation was executed by the threads that it is meant for."""
        elected = {lane for lane in lanes if lane % WARP_THREADS == 0}
        issuers: dict[str, set[int]] = {}
        for occurrence, done in zip(expected, performed, strict=True):
            by = {lane for lane, _ in done}
            kind = kind_of(occurrence.operation, self.matrix)
            good = by == lanes
            handed = {region[0] for region in occurrence.writes} & self.tensor.handed
            if kind == ONE and isinstance(occurrence.operation, ir.Arrive):
                expecting = [lane for lane, event in done if event.kind == "arrive_expect"]
                good = len(expecting) == 1 and (len(by) == 1 or by == elected)
                self._met(where, occurrence, done, lanes - elected)
            elif kind == ONE:
                good = len(by) == 1
                queue = queue_of(occurrence.operation)
                if queue is not None:
                    issuers.setdefault(queue, set()).update(by)
            elif handed:
                good = by == elected or (by == lanes and all(_whole_warp(one) for _, one in done))
            elif kind == WARP:
                good = bool(by) and (by in (elected, _same_lane(by, lanes)) or len(by) == 1)
                self._met(where, occurrence, done, lanes - elected)
            if not good:
                count = "nobody" if not by else f"lanes {sorted(by)} of {sorted(lanes)}"
                self.result.fault(f"{where}: {occurrence.text} is executed by {count}")
            if isinstance(occurrence.operation, ir.Arrive | ir.QueueArrive) and done:
                self._arrivals(occurrence, [event for _, event in done])
        for queue, by in issuers.items():
            if len(by) > 1:
                self.result.fault(
                    f"{where}: queue {queue} is filled by one thread, waited by another"
                )

    def _met(
        self,
        where: str,
        occurrence: Occurrence,
        done: list[tuple[int, ThreadEvent]],
        others: set[int],
    ) -> None:
        """A thread that arrives for others has synchronised with them."""
        if others and not all(event.warp_met for _, event in done):
            text = f"{occurrence.text}: one thread arrives before its warp has synchronised"
            self.result.fault(f"{where}: {text}")

    def _arrivals(self, occurrence: Occurrence, events: list[ThreadEvent]) -> None:
        """How many hardware arrivals correspond to one of the program."""
        total = sum(
            1 if event.kind in ("arrive_expect", "tensor_commit") else event.values[1] or 0
            for event in events
        )
        if occurrence.number and total % occurrence.number == 0:
            for (name, _), _ in occurrence.completes or ((occurrence.place, 0),):
                self.ratios.setdefault(name, Counter())[total // occurrence.number] += 1
        else:
            self.result.fault(f"{occurrence.text}: {total} arrivals for {occurrence.number}")

    def finish(self) -> None:
        """What needs all launches: counts of barriers, places in shared memory, lines not seen."""
        declared = {barrier.name: barrier for barrier in self.program.barriers}
        for (name, index), address in sorted(self.bindings.addresses.items()):
            if name not in declared:
                continue
            count = self.counts.get(address)
            ratios = sorted(self.ratios.get(name, Counter({1: 1})))
            if len(ratios) > 1:
                self.result.fault(f"{name}: agents arrive with {ratios} warps at one barrier")
            elif count != declared[name].count * ratios[0]:
                wanted = f"{declared[name].count} arrivals of {ratios[0]} warps"
                self.result.fault(f"{name}[{index}] is initialised with {count}, not {wanted}")
        for text in (*self.bindings.faults(), *self.tensor.faults()):
            self.result.fault(text)
        unseen = sorted(
            here.line
            for here in self.kernel.instructions()
            if here.opcode in NOTED and here.line not in self.seen and "warp" not in here.modifiers
        )
        if unseen:
            shown = ", ".join(map(str, unseen[:8])) + (", ..." if len(unseen) > 8 else "")
            text = f"{len(unseen)} synchronising instructions unreached, lines {shown}"
            self.result.notes.append(text)


_BYTES = {
    "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "ue8m0": 1, "e2m1x2": 1,
    "u8": 1, "i8": 1,
}  # fmt: skip


def _whole_warp(event: ThreadEvent) -> bool:
    """Whether the lanes of a warp write a number each: lane by lane the number of another row."""
    written = sum(high - low for span in event.spans for low, high in span)
    return event.kind == "write" and written == ROW_BYTES * WARP_THREADS


def _same_lane(by: set[int], lanes: set[int]) -> set[int]:
    """The lane of all warps that has the number of one of these."""
    number = min(by) % WARP_THREADS
    return {lane for lane in lanes if lane % WARP_THREADS == number}


def _split(
    events: list[ThreadEvent], threads: int, cluster: bool
) -> tuple[list[ThreadEvent] | None, list[ThreadEvent]]:
    """What comes before the barrier of all threads (of the cluster), and what after it."""
    for number, event in enumerate(events):
        if not cluster and event.kind == "sync" and event.values == (0, threads):
            return events[:number], events[number + 1 :]
        following = [item.kind for item in events[number : number + 2]]
        if cluster and following == ["cluster_arrive", "cluster_wait"]:
            return events[:number], events[number + 2 :]
    return None, events
