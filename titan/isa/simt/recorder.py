"""What a run of the Python machine has and writes down: memories, events, operations in flight."""

from __future__ import annotations

from typing import NoReturn

from titan.foundation.errors import TitanError
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import NO_CTA, Footprint, MemorySpace, of_ranges
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import RANK_SHIFT, MemoryLayout
from titan.isa.simt.map_bytes import EditedTensorMap
from titan.isa.simt.memory import OPAQUE, Bytes, Sparse
from titan.isa.simt.operations import DecodedCode, PresetKind
from titan.isa.simt.outcome import Ending, Outcome, Policy, Steering
from titan.isa.simt.special import special_value
from titan.isa.simt.state import Blocked, Cluster, Cta, Fragment, InFlight, Warp
from titan.isa.simt.tensor_maps import TensorAccess
from titan.isa.simt.values import UNKNOWN, Opaque, Value, lane, lanes_of, uniform

DELAY = 2  # rounds from the issue of an asynchronous operation to its completion


class EndedRun(TitanError):
    """The run stops here."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Recorder:
    """The state of a run, without what an instruction does."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        self.code = code
        self.layout = layout
        self.launch = launch
        self.options = options
        self.steps = code.steps
        self.events: list[ev.Event] = []
        self.clusters: list[Cluster] = []
        self.ctas: dict[int, Cta] = {}
        self.waiting: list[tuple[int, ...]] = []
        self.flight: list[InFlight] = []
        self.operations = 0
        self.tick = 0
        self.barriers_made = 0  # mbarriers that have been initialised
        self.count = 0
        self.same_step: set[int] = set()  # events of the instruction that made the one before
        self._recorded: tuple[int, Warp, int] | None = None
        self.progress = 0
        self.random = options.seed
        self.uncertain = False  # the guard of this instruction is not known
        self.maybe = False
        self.passed_in_arms = 0  # attempts to wait that have passed in an arm of a branch on data
        self.apart = False  # an event for each lane of an access
        self.orders_lanes = True  # lanes of a warp are compared with each other
        self.idle_lanes = 0  # whose loads are not noted, as they use nothing of them
        self.looping = False  # in a loop on data, whose instructions are executed once
        self.parted = False  # in such a loop where lanes may be in different rounds
        self.arm_start = 0  # the next operation when the arm of a branch on data began
        self.memory = Sparse()
        self.parameters = Bytes(max(layout.parameter_bytes, 1))
        self.constants = Bytes(max(layout.constant_bytes, 1))
        self.footprints: dict[tuple[object, ...], Footprint] = {}
        self.tensor_accesses: dict[tuple[object, ...], TensorAccess] = {}
        self.edited_maps: dict[bytes, EditedTensorMap] = {}
        self.steering: list[Steering] = []
        self.counters: dict[int, int] = {}  # how often counters that clusters raise were raised
        self.asked = 0  # how many of `Launch.answers` have been given
        self.polls: list[int] = []
        self.origin = -1
        self.map_offset = -1
        self.atomics: set[int] = set()
        self.undefined: set[int] = set()  # instructions whose result was left open
        self.assumed: set[tuple[str, int]] = set()
        self.clashed: set[int] = set()  # instructions
        self.rounded: set[int] = set()  # the same, of lanes that store numbers close together
        self.bounds: tuple[tuple[int, int], ...] | None = None
        self.reaches: dict[int, tuple[int, int]] | None = None
        self._fill_memory()

    # --------------------------------------------------------------------------- set-up

    def _fill_memory(self) -> None:
        for at, data in self.layout.constants.items():
            for index, byte in enumerate(data):
                self.constants.write(at + index, 1, byte)
        for at, size, data in self.layout.module_globals:
            self.memory.store(at, data + bytes(max(0, min(size, 1 << 20) - len(data))))
        for at, given in self.launch.memory.items():
            self.memory.store(at, bytes(given))

    def load_parameters(self, places: list[tuple[int, int]]) -> None:
        """`places`: offset and size of each parameter of the entry."""
        self.parameters.fill(0, self.parameters.size, OPAQUE)
        for (offset, size), given in zip(places, self.launch.parameters, strict=False):
            for index, byte in enumerate(given.data[:size]):
                if given.known is None or given.known[index]:
                    self.parameters.write(offset + index, 1, byte)

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """Create a cluster's CTAs, by rank, with preset registers and every warp at the start."""
        cluster = Cluster()
        for rank, number in enumerate(numbers):
            cta = Cta(number, rank, cluster, Bytes(self.layout.shared_bytes))
            cluster.ctas.append(cta)
            self.ctas[number] = cta
            threads = self.launch.threads
            for index in range(self.launch.warps):
                live = (1 << min(32, threads - 32 * index)) - 1
                registers: list[Value] = [UNKNOWN] * self.code.registers
                warp = Warp(cta, index, live, live, registers)
                for preset in self.code.presets:
                    if preset.kind is PresetKind.CONSTANT:
                        registers[preset.register] = preset.value
                    elif preset.name == "shared":
                        rank_bits = (rank << RANK_SHIFT) if len(numbers) > 1 else 0
                        registers[preset.register] = preset.value + rank_bits
                    elif preset.kind is PresetKind.SPECIAL:
                        registers[preset.register] = special_value(
                            self.launch, self.layout, preset.name, number, index
                        )
                warp.fragments.append(Fragment(warp, live, self.code.start))
                cta.warps.append(warp)
        self.clusters.append(cluster)

    def chosen(self) -> list[tuple[int, ...]]:
        """The clusters to run, in order."""
        numbers = range(self.launch.ctas) if self.options.ctas is None else self.options.ctas
        seen: set[int] = set()
        found: list[tuple[int, ...]] = []
        for number in numbers:
            if number not in seen:
                members = self.launch.cluster_members(number)
                seen.update(members)
                found.append(members)
        return found

    def draw(self) -> int:
        """The next pseudo-random number of the seed."""
        self.random = (self.random * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return self.random >> 33

    # --------------------------------------------------------------------------- recording

    def record(self, kind: type[ev.Event], fragment: Fragment, mask: int, *fields: object) -> None:
        """Record an event of the lanes of `mask` at the fragment's instruction."""
        warp = fragment.warp
        if kind is not ev.AccessEvent and kind is not ev.Poll:
            self.progress = self.count
        if kind is not ev.Poll:
            fragment.polled = None
        if kind is ev.WaitEvent:
            warp.uses.wait(mask, warp.live)
        elif kind is ev.CopyArrive or kind is ev.TensorCommitEvent:  # signals for its lanes
            warp.uses.arrive(mask, ev.AccessSemantics.RELEASE, warp.live)
        step = self.count, warp, fragment.pc
        if step == self._recorded:
            self.same_step.add(len(self.events))
        self._recorded = step
        self.events.append(
            kind(
                len(self.events),
                warp.cta.number,
                warp.index,
                mask,
                fragment.pc,
                *fields,  # type: ignore[arg-type]
            )
        )

    def assume(self, fragment: Fragment, mask: int, policy: Policy) -> None:
        """Note the use of a policy, once for each instruction."""
        if (policy, fragment.pc) not in self.assumed:
            self.assumed.add((policy, fragment.pc))
            self.record(ev.Assumption, fragment, mask, str(policy))

    def footprint(
        self, space: MemorySpace, cta: int, runs: tuple[tuple[int, int], ...]
    ) -> Footprint:
        """An interned footprint of byte ranges."""
        key = (space, cta, runs)
        found = self.footprints.get(key)
        if found is None:
            found = self.footprints[key] = of_ranges(space, cta, runs)
        return found

    def refuse(self, fragment: Fragment, reason: str) -> NoReturn:
        """End the run as REFUSED, where going on would be a guess; raises EndedRun."""
        self.end(Ending.REFUSED, fragment, reason)

    def fault(self, fragment: Fragment, reason: str) -> NoReturn:
        """End the run as FAULT, where the program cannot continue; raises EndedRun."""
        self.end(Ending.FAULT, fragment, reason)

    def end(self, ending: Ending, fragment: Fragment, reason: str) -> NoReturn:
        """Raise EndedRun with an outcome that names the fragment's CTA, warp and instruction."""
        warp = fragment.warp
        raise EndedRun(
            Outcome(
                ending, reason, fragment.pc, warp.cta.number, warp.index,
                origin=self.origin, map_offset=self.map_offset,
            )
        )  # fmt: skip

    def describe(self, value: Value, mask: int) -> str:
        """Where an opaque value comes from."""
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if isinstance(item, Opaque) and (len(items) == 1 or mask >> index & 1):
                self.origin = item.site
                return f"a value that is not known (made at instruction {item.site})"
        return "a value that is not known"

    def known(self, fragment: Fragment, register: int, mask: int, what: str) -> int:
        """The known value that all lanes of `mask` share. Ends the run if there is none."""
        value = uniform(fragment.warp.registers[register], mask)
        if value is None:
            self.refuse(fragment, f"{what} differs between the lanes")
        if isinstance(value, Opaque):
            self.refuse(fragment, f"{what} is {self.describe(value, mask)}")
        return value

    def grouped(
        self, fragment: Fragment, registers: tuple[int, ...], mask: int, what: str
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Lanes with equal known values of some registers, in the order of their first lane."""
        values = [fragment.warp.registers[r] for r in registers]
        if not any(isinstance(value, list) for value in values):
            for value in values:
                if isinstance(value, Opaque):
                    self.refuse(fragment, f"{what} is {self.describe(value, mask)}")
            return [(mask, tuple(values))]  # type: ignore[arg-type]
        found: dict[tuple[int, ...], int] = {}
        for index in lanes_of(mask):
            key = tuple(lane(value, index) for value in values)
            for item in key:
                if isinstance(item, Opaque):
                    self.refuse(fragment, f"{what} is {self.describe(item, mask)}")
            found[key] = found.get(key, 0) | 1 << index  # type: ignore[index,arg-type]
        return [(lanes, key) for key, lanes in found.items()]

    # ---------------------------------------------------------------- asynchronous operations

    def issue(self, operation: InFlight) -> None:
        """Put an operation in flight."""
        delay = DELAY if not self.options.seed else 1 + self.draw() % 8
        operation.due = self.tick + delay
        self.flight.append(operation)
        operation.warp.issued.append(operation)

    def next_number(self) -> int:
        """A fresh number for an asynchronous operation, counted from 0 for the run."""
        self.operations += 1
        return self.operations - 1

    def finish(self, operation: InFlight) -> None:
        """Complete an operation, and before it those that must be complete first."""
        if operation.done:
            return
        operation.done = True
        for earlier in operation.after:
            self.finish(earlier)
        self.flight.remove(operation)
        for footprint in operation.writes:
            self.havoc(footprint)
            if operation.answer is not None:
                for low, high in footprint.ranges():
                    self.ctas[footprint.cta].shared.write(low, high - low, operation.answer)
        for stored in operation.stored:
            cta = self.ctas.get(stored.cta)
            if cta is not None:
                cta.shared.write(stored.at, stored.size, stored.value)
        phases: list[int] = []
        for completion in operation.completes:
            phases.append(self._complete(completion.barrier, -completion.bytes, 0))
        for barrier in operation.arrives:
            phases.append(self._complete(barrier, 0, operation.arrive_count))
        warp = operation.warp
        self.events.append(
            ev.Finish(
                len(self.events),
                warp.cta.number,
                warp.index,
                operation.lanes,
                operation.instruction,
                operation.number,
                tuple(phases),
            )
        )
        self.progress = self.count

    def _complete(self, place: ev.BarrierAddress, bytes_: int, count: int) -> int:
        cta = self.ctas.get(place.cta)
        barrier = None if cta is None else cta.barriers.get(place.offset)
        if barrier is None:
            return -1
        phase = barrier.phase
        barrier.expect(bytes_)
        if count:
            barrier.arrive(count)
        barrier.settle()
        return phase

    def havoc(self, footprint: Footprint) -> None:
        """The bytes hold something unknown from now on."""
        if footprint.space is MemorySpace.SHARED:
            cta = self.ctas.get(footprint.cta)
            if cta is not None:
                for box in footprint.boxes:
                    for low, high in box.runs():
                        cta.shared.fill(low, high - low, OPAQUE)
        elif footprint.space is MemorySpace.GLOBAL and footprint.cta == NO_CTA:
            if not self.memory.pages:
                return
            for low, high in footprint.ranges():
                self.memory.fill_opaque(low, high - low)

    def block(self, fragment: Fragment, blocked: Blocked) -> bool:
        """Suspend the fragment on `blocked`; True, as from a handler that sets the pc itself."""
        fragment.blocked = blocked
        return True
