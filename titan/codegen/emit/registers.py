"""Which registers hold which value, checked on runs: every value read is present.

Values that never cross an agent live in registers of its threads. Two values may share registers
("storage"): accumulators are carried in place, and results take the place of operands that nobody
reads again. Sharing is tried and kept only where every run of `trace.py` still finds in each
operand exactly the value of the iteration that the tile program means, no tensor-core operation in
flight has its registers touched, and shared tiles hold what the reader means to see.

Values that cross from one role to another do so through tensor memory or rows in shared memory:
what is put there and fetched is the value that is meant, of the same work item, sub-tile and
iteration. Of an accumulator that is scaled between two products the sync program keeps the order:
the scaling one reads the number of the product before and leaves it.

Also checked: the order of what threads write to staging buffers and bulk copies out of them
(`staged_stores.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.codegen.emit.cluster import RANK, Multicast, TogetherProduct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.sites import EmissionSite, SiteKind, Tiles
from titan.codegen.emit.staged_stores import WHOLE, Place, StagedStores
from titan.codegen.emit.trace import SiteEvent, value_of
from titan.codegen.tile.model import TileOperation, Value, ValuePlace
from titan.sync import program as ir

# Value, work item or its sub-tile, iteration (below 0 outside of the loop, less by the slice).
Tag = tuple[str, int, int]
Key = tuple[int, str, int, int]  # CTA, buffer, number of the tile, part (-1: whole) or sub-tile
Filled = dict[Key, Tag]  # what the shared tiles of each CTA hold
NO_ITERATION = -1
ELEMENTWISE = frozenset(
    ("add", "subtract", "multiply", "divide", "maximum", "minimum", "raise", "scale", "exp2",
     "log2", "reciprocal", "rsqrt", "activation", "convert", "mask")
)  # fmt: skip


class StorageMismatch(EmissionRefused):
    """A value is not where it is read, with the storage that was tried."""


def packed(value: Value, operation: TileOperation | None) -> bool:
    """Whether a value is kept as pairs of 16-bit numbers: what `convert` narrows."""
    narrow = value.dtype in ("bf16", "f16") and value.place is ValuePlace.FRAGMENT
    return narrow and operation is not None and operation.kind == "convert"


@dataclass(frozen=True, slots=True)
class RegisterAllocation:
    """`storage` of each value by name: the name of the value that gave the registers their name.

    `sequence`: for each site the register operations done there, implicit ones first.
    """

    storage: dict[str, str]
    sequence: dict[int, tuple[str, ...]]
    holds: dict[int, tuple[str, ...]] = field(default_factory=dict)  # wait -> registers given back
    initial: dict[int, bool] = field(default_factory=dict)  # carry: takes its initial number


class RoleRegisters:
    """Allocates the registers of one role. `traces`: all events of its agents in all runs."""

    def __init__(self, role: ir.Role, sites: tuple[EmissionSite, ...], tiles: Tiles) -> None:
        self.role = role
        self.tiles = tiles
        self.sites = tuple(walk_sites(sites))
        named = {site.name for site in self.sites if site.name}
        self.explicit = named
        self.sequence = {site.number: self._sequence(site) for site in self.sites if site.name}
        self.carries = {site.name for site in self.sites if site.kind is SiteKind.CARRY}

    def values(self) -> list[str]:
        """All values in registers that the role's sites make or read, in order of the program."""
        found: set[str] = set()
        for site in self.sites:
            for name in self.sequence.get(site.number, ()):
                in_tensor_memory = site.kind is SiteKind.MMA and bool(self.tiles.tensor)
                if site.kind in (SiteKind.LOAD, SiteKind.FILL, SiteKind.SEND) or in_tensor_memory:
                    continue
                found.add(name)
                if name in self.tiles.operations and site.kind not in (
                    SiteKind.FETCH,
                    SiteKind.PUT,
                ):
                    found.update(self.tiles.operations[name].operands)
        order = [*self.tiles.carried, *self.tiles.operations]
        return [
            name for name in order
            if name in found and self._has_value(name) and self.tiles.in_registers(name)
        ]  # fmt: skip

    def _has_value(self, name: str) -> bool:
        operation = self.tiles.operations.get(name)
        return operation is None or operation.result is not None

    def _sequence(self, site: EmissionSite) -> tuple[str, ...]:
        """The operation of the site after those that it needs and that have no site."""
        alone = (
            SiteKind.LOAD,
            SiteKind.FILL,
            SiteKind.SEND,
            SiteKind.CARRY,
            SiteKind.READ,
            SiteKind.FETCH,
            SiteKind.PUT,
        )
        if site.kind in alone or (site.kind is SiteKind.MMA and self.tiles.tensor):
            return (site.name,)
        made: list[str] = []

        def need(name: str, depth: int) -> None:
            operation = self.tiles.operations.get(name)
            if depth > 200:
                raise EmissionRefused("tile operations depend on each other in a circle")
            if operation is None or name in made:
                return
            for operand in operation.operands:
                other = self.tiles.operations.get(operand)
                if other is None or other.kind == "load" or operand in self.explicit:
                    continue
                if other.kind in ("mma", "read", "store"):
                    raise EmissionRefused(f"{operand} is needed by {name}, but never done")
                need(operand, depth + 1)
            made.append(name)

        need(site.name, 0)
        return tuple(made)

    # ------------------------------------------------------------------------------ sharing

    def allocate(self, check: Callable[[RegisterAllocation], None]) -> RegisterAllocation:
        """The sharing that passes `check` (raising Mismatch where one fails)."""
        values = self.values()
        storage = {name: name for name in values}
        for first, second in self._mandatory(values):
            storage = _joined(storage, first, second)
        plan = RegisterAllocation(storage, self.sequence)
        check(plan)
        for first, second in self._optional(values):
            if storage[first] == storage[second]:
                continue
            trial = _joined(storage, first, second)
            try:
                check(RegisterAllocation(trial, self.sequence))
            except StorageMismatch:
                continue
            storage = trial
        return RegisterAllocation(storage, self.sequence)

    def _alike(self, first: str, second: str) -> bool:
        one, other = self.tiles.value(first), self.tiles.value(second)
        shape = (one.place, one.rows, one.columns) == (other.place, other.rows, other.columns)
        operations = self.tiles.operations
        same = packed(one, operations.get(first)) == packed(other, operations.get(second))
        return shape and same

    def _mandatory(self, values: list[str]) -> list[tuple[str, str]]:
        """Sums of tensor-core operations, and carried values that nothing copies."""
        pairs = []
        for name in values:
            operation = self.tiles.operations.get(name)
            if operation is not None and operation.kind == "mma" and len(operation.operands) > 2:
                pairs.append((operation.operands[2], name))
        for carried in self.tiles.carried.values():
            again = [
                site for site in self.sites
                if site.kind is SiteKind.CARRY and site.name == carried.value.name
            ]  # fmt: skip
            name = carried.value.name
            if name in values and carried.next in values and len(again) < 2:
                pairs.append((name, carried.next))
        for first, second in pairs:
            if not self._alike(first, second):
                raise EmissionRefused(f"{first} and {second} cannot share registers")
        return pairs

    def _optional(self, values: list[str]) -> list[tuple[str, str]]:
        pairs = [
            (carried.value.name, carried.next)
            for carried in self.tiles.carried.values()
            if carried.value.name in values and carried.next in values
        ]
        for name in values:
            operation = self.tiles.operations.get(name)
            if operation is None or operation.kind not in ELEMENTWISE:
                continue
            pairs += [(operand, name) for operand in operation.operands if operand in values]
        return [pair for pair in pairs if self._alike(*pair)]


def _joined(storage: dict[str, str], first: str, second: str) -> dict[str, str]:
    """Everything that shares with `second` now shares with `first`."""
    keep, drop = storage[first], storage[second]
    return {name: keep if place == drop else place for name, place in storage.items()}


def walk_sites(sites: tuple[EmissionSite, ...]) -> list[EmissionSite]:
    """All sites, outer ones before those inside of them."""
    found = []
    for site in sites:
        found.append(site)
        found += walk_sites(site.inside)
        found += walk_sites(site.otherwise)
    return found


def idle_waits(sites: tuple[EmissionSite, ...]) -> frozenset[int]:
    """The waits in loops that do nothing else: how often they run, large numbers may change, so
    that nothing rests on them."""
    return frozenset(
        inner.number
        for site in walk_sites(sites)
        if isinstance(site.operation, ir.Loop)
        and not any(one.name for one in walk_sites(site.inside))
        for inner in walk_sites(site.inside)
        if isinstance(inner.operation, ir.QueueWait)
    )


# ---------------------------------------------------------------------------------- the check


@dataclass
class _Flight:
    result: str
    sources: tuple[str, ...]
    places: tuple[Place, ...] = ()  # buffers that groups share, which it reads


class AgentCheck:
    """One agent's run with an allocation. Raises StorageMismatch (sharing) or EmissionRefused
    (program).

    `holds` collects, for each wait of a tensor-core queue, the registers that it gives back.
    """

    def __init__(
        self, role: ir.Role, tiles: Tiles, queues: dict[str, ir.Queue], plan: RegisterAllocation,
        filled: Filled, parts: dict[str, int],
    ) -> None:  # fmt: skip
        self.role = role
        self.tiles = tiles
        self.queues = queues
        self.plan = plan
        self.filled = filled
        self.parts = parts
        self.tags: dict[str, set[Tag]] = {}
        self.open: list[_Flight] = []
        self.committed: list[list[_Flight]] = []
        self.holds: dict[int, set[str]] = {}
        self.initial: dict[int, bool] = {}
        self.staging = StagedStores(role.name)
        self.reading: SiteEvent | None = None

    def run(self, events: list[SiteEvent]) -> None:
        """All events of the agent in order. Raises StorageMismatch and EmissionRefused."""
        for event in events:
            self.event(event)
        if self.open or self.committed:
            raise EmissionRefused(f"{self.role.name} ends with tensor-core operations in flight")

    def event(self, event: SiteEvent) -> None:
        """One event. Raises StorageMismatch and EmissionRefused."""
        match event.site.kind:
            case SiteKind.PLAIN:
                self._plain(event)
            case SiteKind.MMA | SiteKind.SCALES if self.tiles.tensor:
                self._tensor_mma(event)
            case SiteKind.DIRECT:
                self._check_index(event)
                self._direct(self.tiles.operations[event.site.name], event)
            case SiteKind.FETCH:
                self._fetch(event)
            case SiteKind.PUT:
                self._hand_on(event)
            case SiteKind.MMA | SiteKind.COMPUTE | SiteKind.STAGE:
                self._check_index(event)
                for name in self.plan.sequence[event.site.number]:
                    self._do(name, event)
                if event.site.kind is SiteKind.STAGE:
                    self._staged(event)
            case SiteKind.CARRY:
                self._carry(event)
            case SiteKind.READ:
                self.reading = event
            case SiteKind.SEND:
                self._send(event)

    # ------------------------------------------------------------------- register contents

    def _iteration(self, name: str, event: SiteEvent) -> int:
        return event.count if self.tiles.section[name] == "body" else NO_ITERATION

    def _tag(self, value: str, reader: str, event: SiteEvent) -> Tag:
        """The value that `reader` means by an operand."""
        inside = self.tiles.section[reader] == "body"
        section = self.tiles.section[value]
        unit = _unit(value, event, self.tiles)
        if section == "carried":
            return value, unit, event.count if inside else event.trips
        if section == "body":
            return value, unit, event.count if inside else event.trips - 1
        return value, unit, NO_ITERATION

    def _flights(self) -> list[_Flight]:
        return [*self.open, *(flight for group in self.committed for flight in group)]

    def _need(self, value: str, reader: str, event: SiteEvent, in_flight: bool = False) -> None:
        place = self.plan.storage[value]
        if self._tag(value, reader, event) not in self.tags.get(place, set()):
            raise StorageMismatch(f"{reader} reads {value} where its registers hold another value")
        if not in_flight and any(flight.result == place for flight in self._flights()):
            raise StorageMismatch(
                f"{reader} reads {value} while a tensor-core operation computes it"
            )

    def _put(self, value: str, tag: Tag, in_flight: bool = False) -> None:
        place = self.plan.storage[value]
        for flight in self._flights():
            if place in flight.sources or (not in_flight and place == flight.result):
                raise StorageMismatch(
                    f"{value} overwrites registers of a tensor-core operation in flight"
                )
        tags = {tag}
        for carried in self.tiles.carried.values():
            name = carried.value.name
            if carried.next == value and self.plan.storage.get(name) == place:
                tags.add((name, tag[1], tag[2] + 1))
        self.tags[place] = tags

    def _do(self, name: str, event: SiteEvent) -> None:
        operation = self.tiles.operations[name]
        if operation.kind == "mma":
            self._mma(operation, event)
            return
        for operand in operation.operands:
            if self.tiles.in_registers(operand):
                self._need(operand, name, event)
            elif operation.kind == "read":
                self._read(operation, event)
            else:
                raise EmissionRefused(f"{name} takes {operand} from shared memory")
        if operation.result is not None and operation.kind != "share":
            self._put(name, (name, event.unit, self._iteration(name, event)))

    def _mma(self, operation: TileOperation, event: SiteEvent) -> None:
        place = self.plan.storage[operation.name]
        sources = tuple(name for name in operation.operands[:2] if self.tiles.in_registers(name))
        for name in sources:
            self._need(name, operation.name, event)
        for name in operation.operands[2:]:
            self._need(name, operation.name, event, in_flight=True)
        for effect in self._effects(event):
            self._check_tile(effect.buffer, effect, operation.name, event)
        adds = len(operation.operands) > 2
        self._put(
            operation.name,
            (operation.name, event.unit, self._iteration(operation.name, event)),
            in_flight=adds,
        )
        effects = [one for one in self._effects(event) if self.tiles.shared(one.buffer)]
        shared = tuple(_staging_place(effect, event) for effect in effects)
        self.staging.multiply(shared)
        self.open.append(_Flight(place, tuple(self.plan.storage[name] for name in sources), shared))

    def _direct(self, operation: TileOperation, event: SiteEvent) -> None:
        """Threads add the product of two loaded tiles to a sum that is complete so far."""
        left, right, *sums = operation.operands
        if len(sums) != 1 or not (self.tiles.loaded(left) and self.tiles.loaded(right)):
            raise EmissionRefused(f"{operation.name} does not add a product of loaded tiles")
        self._need(sums[0], operation.name, event)
        self._put(operation.name, (operation.name, event.unit, event.count))

    def _tensor_mma(self, event: SiteEvent) -> None:
        """All operands are the tiles that are meant; the sum is in tensor memory."""
        for effect in self._effects(event):
            for cta in self._ctas(event) if not effect.write else ():
                value = self.tiles.scales.get(effect.buffer, effect.buffer)
                self._check_tile(value, effect, event.site.name, event, cta)

    def _ctas(self, event: SiteEvent) -> range | tuple[None]:
        """The CTAs whose buffers an operation reads; None: that of the agent."""
        together = isinstance(event.site.operation, TogetherProduct)
        return range(self.tiles.tile.cluster) if together else (None,)

    def _fetch(self, event: SiteEvent) -> None:
        """Into registers comes what the buffer holds; who takes it from there checks which it is.

        What an mma has added to is the carried value of the next iteration.
        """
        name = event.site.name
        effects = self._effects(self.reading) if self.reading is not None else ()
        found = [effect for effect in effects if effect.buffer == name and effect.tile is not None]
        if len(found) != 1:
            raise EmissionRefused(f"{name} is fetched without a read before it")
        assert self.reading is not None
        held = self.filled.get(key_of(found[0], self.reading, self.tiles))
        carried = self.tiles.carried.get(name)
        if held is not None and carried is not None and held[0] == carried.next:
            held = (name, held[1], held[2] + 1)
        if held is None or held[0] != name:
            raise EmissionRefused(f"{name} is fetched from where it is not")
        self._put(name, held)

    def _hand_on(self, event: SiteEvent) -> None:
        name, meant = event.site.name, (event.site.name, event.unit, event.count)
        place = self.plan.storage[name]
        if meant not in self.tags.get(place, set()):
            raise StorageMismatch(f"{name} is put where its registers hold another value")
        if any(flight.result == place for flight in self._flights()):
            raise StorageMismatch(f"{name} is put while a tensor-core operation computes it")

    def _carry(self, event: SiteEvent) -> None:
        carried = self.tiles.carried[event.site.name]
        name = carried.value.name
        first = event.count == 0
        if self.initial.setdefault(event.site.number, first) is not first:
            raise EmissionRefused(f"one statement gives {name} its initial and its next value")
        if first:
            self._put(name, (name, event.unit, 0))
            return
        operation = event.site.operation
        assert isinstance(operation, ir.Compute)
        if value_of(operation.index, event.environment) != event.count:
            raise EmissionRefused(f"{name} takes its next value out of order")
        next_tag = (carried.next, event.unit, event.count - 1)
        place = self.plan.storage[carried.next]
        if next_tag not in self.tags.get(place, set()):
            raise StorageMismatch(
                f"{name} takes {carried.next} where its registers hold another value"
            )
        if any(flight.result == place for flight in self._flights()):
            raise StorageMismatch(f"{name} takes {carried.next} while it is still computed")
        if self.plan.storage[name] != place:
            self._put(name, (name, event.unit, event.count))

    def _check_index(self, event: SiteEvent) -> None:
        operation = event.site.operation
        if not isinstance(operation, ir.Compute) or self.tiles.section[event.site.name] != "body":
            return
        if value_of(operation.index, event.environment) != event.count:
            raise EmissionRefused(f"{event.site.name} is computed for an iteration out of order")

    # ------------------------------------------------------------------------ shared tiles

    def _effects(self, event: SiteEvent) -> tuple[ir.Effect, ...]:
        operation = event.site.operation
        assert isinstance(operation, ir.Access | ir.Asynchronous)
        return operation.effects

    def _check_tile(
        self, value: str, effect: ir.Effect, reader: str, event: SiteEvent, cta: int | None = None
    ) -> None:
        """The shared tile that is read holds the value that the tile program means."""
        if effect.tile is None:
            raise EmissionRefused(f"what {reader} reads of {effect.buffer} is not declared")
        meant = self._tag(value, reader, event)
        if not self._holds(effect, event, meant, cta):
            raise EmissionRefused(f"{reader} reads another tile of {value} than it means")

    def _holds(
        self, effect: ir.Effect, event: SiteEvent, meant: Tag, cta: int | None = None
    ) -> bool:
        """Whether what is read was filled with the value, in all parts where it is read whole."""
        key = key_of(effect, event, self.tiles, cta)
        if effect.part is not None or key in self.filled:
            return self.filled.get(key) == meant
        count = self.parts.get(effect.buffer, 1)
        return count > 1 and all(
            self.filled.get((*key[:3], part)) == meant for part in range(count)
        )

    def _read(self, operation: TileOperation, event: SiteEvent) -> None:
        effects = self._effects(self.reading) if self.reading is not None else ()
        for effect in effects:
            if effect.buffer == operation.operands[0]:
                assert self.reading is not None
                tag = self._tag(effect.buffer, operation.name, event)
                if not self._holds(effect, self.reading, tag):
                    raise EmissionRefused(f"{operation.name} reads another tile than it means")
                return
        raise EmissionRefused(f"{operation.name} is computed without a read before it")

    def _several(self) -> bool:
        return self.role.threads > 32

    def _staged(self, event: SiteEvent) -> None:
        for effect in self._effects(event) if self._several() else ():
            place = _staging_place(effect, event)  # of what is shared, each group reads all parts
            self.staging.write((*place[:2], WHOLE) if self.tiles.shared(effect.buffer) else place)

    def _send(self, event: SiteEvent) -> None:
        operation = self.tiles.operations[event.site.name]
        for effect in self._effects(event):
            if effect.buffer != event.site.name:
                self._check_tile(operation.operands[0], effect, event.site.name, event)
                continue
            if self.filled.get(key_of(effect, event, self.tiles)) != _stored(event, self.tiles):
                raise EmissionRefused(f"{event.site.name} sends another tile than it means")
            if self._several():
                self.staging.send(_staging_place(effect, event))

    def _plain(self, event: SiteEvent) -> None:
        match event.site.operation:
            case ir.Fence():
                self.staging.fence()
            case ir.BarrierSync():
                self.staging.meet()
            case ir.QueueWait() as wait if not self.queues[wait.queue].pipelined:
                self.staging.wait(value_of(wait.pending, event.environment))
            case ir.QueueWait() as wait:
                self._retire(wait, event)
            case ir.Commit() as commit if self.queues[commit.queue].pipelined:
                self.committed.append(self.open)
                self.open = []
            case ir.Commit():
                self.staging.commit()
        if not isinstance(event.site.operation, ir.QueueWait | ir.Commit):
            self.reading = None if isinstance(event.site.operation, ir.Arrive) else self.reading

    def _retire(self, wait: ir.QueueWait, event: SiteEvent) -> None:
        pending = value_of(wait.pending, event.environment)
        keep = max(0, len(self.committed) - max(0, pending))
        retired, self.committed = self.committed[:keep], self.committed[keep:]
        flying = {flight.result for flight in self._flights()}
        over = {flight.result for group in retired for flight in group}
        still = {place for flight in self._flights() for place in flight.places}
        read = {place for group in retired for flight in group for place in flight.places}
        self.staging.multiplied(read - still)
        self.holds.setdefault(event.site.number, set()).update(over - flying)


def _part(effect: ir.Effect, event: SiteEvent) -> int:
    return value_of(effect.part, event.environment) if effect.part is not None else WHOLE


def _staging_place(effect: ir.Effect, event: SiteEvent) -> Place:
    return effect.buffer, value_of(effect.stage, event.environment), _part(effect, event)


def key_of(effect: ir.Effect, event: SiteEvent, tiles: Tiles, cta: int | None = None) -> Key:
    """The tile that an effect reads or writes, by its number in the sync program.

    What is handed from role to role has a stage for each sub-tile.
    """
    assert effect.tile is not None
    own = event.environment[RANK] if cta is None else cta
    number = value_of(effect.tile, event.environment)
    if effect.buffer in tiles.tensor | tiles.rows:
        return own, effect.buffer, number, value_of(effect.stage, event.environment)
    return own, effect.buffer, number, _part(effect, event)


def _unit(value: str, event: SiteEvent, tiles: Tiles) -> int:
    """What is loaded belongs to the work item, anything else to one sub-tile of it."""
    return event.item if tiles.loaded(value) else event.unit


def _stored(event: SiteEvent, tiles: Tiles) -> Tag:
    name = event.site.name
    inside = tiles.section[name] in ("body", "carried")
    outside = NO_ITERATION - event.site.slice
    return name, _unit(name, event, tiles), event.count if inside else outside


_FILLING = (SiteKind.LOAD, SiteKind.FILL, SiteKind.STAGE, SiteKind.PUT, SiteKind.SCALES)


def fill(filled: Filled, events: list[SiteEvent], tiles: Tiles, ctas: int) -> None:
    """Note what an agent puts into shared memory, of all CTAs even, and into tensor memory."""
    for event in events:
        site, operation = event.site, event.site.operation
        product = site.kind is SiteKind.MMA and bool(tiles.tensor)
        if site.kind not in _FILLING and not product:
            continue
        assert isinstance(operation, ir.Access | ir.Asynchronous)
        tag = _stored(event, tiles)
        for effect in operation.effects:
            if (product or site.kind is SiteKind.SCALES) and not effect.write:
                continue
            if effect.tile is None:
                raise EmissionRefused(f"what {site.name} writes is not stated")
            if site.kind is SiteKind.PUT and tiles.rescaled(effect.buffer):
                continue  # for the product that follows, which nobody fetches before
            everywhere = isinstance(operation, Multicast | TogetherProduct)
            for cta in range(ctas) if everywhere else (None,):
                key = key_of(effect, event, tiles, cta)
                before = filled.setdefault(key, tag)
                if product and before[:2] == tag[:2]:
                    filled[key] = tag  # the sum so far
                elif before != tag:
                    raise EmissionRefused(f"two tiles of {effect.buffer} have one number")
