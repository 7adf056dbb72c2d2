"""The body of a consumer's loop: the order of the schedule, with its waits, drains and releases.

The body holds every operation once, each for iteration `t - lag`: operations that the schedule
starts one initiation interval later than the first run one iteration late. What is needed between
them follows from the readers of each value:

- a ring is waited for before its first reader, and released after the last one;
- a matrix multiplication runs on its own until it is drained: before whoever reads its result, and
  before whoever writes the registers that it reads, or puts the next fragment beside one that it
  reads from shared memory;
- a multiplication that only feeds itself is drained one iteration later: one is always in flight;
- a carried value takes its next one after its last reader. Accumulators are carried in place.

Decides no correctness: what comes out is verified. Source: seed formulation, sections 1.5 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from titan.codegen.pipeline.model import FormRefused
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.tile.model import TileOperation, TileProgram, ValuePlace

LAG_MAX = 1  # iterations that an operation runs late


class ItemKind(Enum):
    """What an item of the body does."""

    WAIT = "wait"
    ISSUE = "issue"
    DRAIN = "drain"
    RELEASE = "release"
    COMPUTE = "compute"
    READ = "read"  # from shared memory to registers
    CARRY = "carry"
    STORE = "store"
    SHARE = "share"  # from registers to shared memory, for the products of all groups
    SENT = "sent"  # the reads of bulk stores from a ring are over


@dataclass(frozen=True, slots=True)
class BodyItem:
    """`name` is a ring or an operation; the item represents iteration `t - lag`.

    `leaves_newest`: a drain that leaves what the same body has issued unfinished.
    """

    kind: ItemKind
    name: str
    lag: int
    leaves_newest: bool = False

    @property
    def light(self) -> bool:
        """Whether it may be guarded instead of peeled."""
        return self.kind in (ItemKind.DRAIN, ItemKind.RELEASE, ItemKind.SENT)


Key = tuple[int, int]  # iterations late, position in the body


@dataclass(frozen=True, slots=True)
class OrderedBody:
    """Operations of the body without loads, in the order of the loop body, each with its lag."""

    operations: tuple[TileOperation, ...]
    lags: tuple[int, ...]

    def key(self, name: str) -> Key:
        """When an operation runs. Raises KeyError for one that is not in the body."""
        for position, operation in enumerate(self.operations):
            if operation.name == name:
                return self.lags[position], position
        raise KeyError(name)

    def names(self) -> set[str]:
        """The names of the operations."""
        return {operation.name for operation in self.operations}


def in_order(tile: TileProgram) -> OrderedBody:
    """All operations of one iteration in one body, as they are written."""
    operations = tuple(operation for operation in tile.body if operation.kind != "load")
    return OrderedBody(operations, (0,) * len(operations))


def by_schedule(tile: TileProgram, starts: dict[str, int], ii: int) -> OrderedBody:
    """The body that begins with the operation that the schedule starts first.

    How many iterations an operation lags comes from the schedule, at most one; within the body the
    order is the nearest to the schedule in which one copy of every value is enough: a schedule may
    keep two iterations of a value alive, registers of a loop that is not unrolled cannot. What one
    instruction computes stays together (`one_instruction`). Raises FormRefused.
    """
    operations = [operation for operation in tile.body if operation.kind != "load"]
    if not operations:
        return OrderedBody((), ())
    first = min(starts[operation.name] for operation in operations)
    rank = {operation.name: i for i, operation in enumerate(operations)}
    lags, when = {}, {}
    for operation in operations:
        lag, row = divmod(starts[operation.name] - first, ii)
        lags[operation.name] = min(lag, LAG_MAX)
        when[operation.name] = (row, rank[operation.name])
    before: dict[str, set[str]] = {operation.name: set() for operation in operations}
    for rule in order_rules(tile, operations):
        iterations = lags[rule.later] + rule.iterations - lags[rule.earlier]
        if iterations < 0 or (iterations == 0 and rule.earlier == rule.later):
            raise FormRefused(rule.why)
        if iterations == 0:
            before[rule.later].add(rule.earlier)
    order: list[TileOperation] = []
    together, name = one_instruction(tile), ""
    while before:
        free = [name for name, others in before.items() if not others & set(before)]
        if not free:
            raise FormRefused("no order of the loop body keeps one copy of every value")
        sum_of = together.get(name, "")
        if sum_of not in free or lags[sum_of] != lags[name]:
            sum_of = ""
        name = sum_of or min(free, key=when.__getitem__)
        del before[name]
        order.append(operations[rank[name]])
    return OrderedBody(tuple(order), tuple(lags[operation.name] for operation in order))


def one_instruction(tile: TileProgram) -> dict[str, str]:
    """The sum of each product of fragments that nothing else reads: compilers make one instruction
    of both where nothing stands between them, and a wait or a product of the tensor cores does."""
    products = {item.name for item in tile.body if item.kind == "multiply" and _in_fragment(item)}
    kept = {item.next for item in tile.carried}
    found = {}
    for name in products - kept:
        readers = [item for item in (*tile.body, *tile.after) if name in item.operands]
        if len(readers) == 1 and readers[0].kind in ("add", "subtract") and readers[0] in tile.body:
            found[name] = readers[0].name
    return found


def _in_fragment(item: TileOperation) -> bool:
    return item.result is not None and item.result.place is ValuePlace.FRAGMENT


@dataclass(frozen=True, slots=True)
class OrderRule:
    """`earlier` of iteration i comes before `later` of iteration i + `iterations`."""

    earlier: str
    later: str
    iterations: int
    why: str


def order_rules(tile: TileProgram, operations: list[TileOperation]) -> list[OrderRule]:
    """What reads what, with one copy of every value."""
    inside = {operation.name for operation in operations}
    found: list[OrderRule] = []
    for reader in operations:
        for name in dict.fromkeys(reader.operands):
            if name in inside:
                found.append(
                    OrderRule(
                        name, reader.name, 0, f"{reader.name} runs before {name}, its operand"
                    )
                )
                again = f"{name} is computed again before {reader.name} has read it"
                found.append(OrderRule(reader.name, name, 1, again))
    for carried in tile.carried:
        value = carried.value.name
        readers = [operation.name for operation in operations if value in operation.operands]
        for one in readers:
            if carried.next in inside:
                early = f"{one} runs before {carried.next} of the iteration before"
                found.append(OrderRule(carried.next, one, 1, early))
            late = f"{value} is reordered before {one} has read it"
            found += [OrderRule(one, other, 1, late) for other in readers]
    return found


def last_product_late(tile: TileProgram, in_turns: bool = False) -> tuple[dict[str, int], int]:
    """Starts, and their interval, in which only the last multiplication runs one iteration late.

    With it goes what is computed for its accumulator alone, beside the first product of the next
    iteration; `in_turns` it ends its own iteration, for else the turn would last longer. Everything
    else keeps its order, so that fewer values are alive at a time than in the order of a schedule
    that fills every unit. Raises FormRefused where there are no two multiplications. Source:
    FlashAttention-3, overlap within a warpgroup.
    """
    operations = [operation for operation in tile.body if operation.kind != "load"]
    products = [operation for operation in operations if operation.kind == "mma"]
    if len(products) < 2:
        raise FormRefused("there is no second multiplication that could run one iteration late")
    late, own = {products[-1].name}, set()
    for name in products[-1].operands[2:]:
        readers = {operation.name for operation in operations if name in operation.operands}
        if readers == late and any(operation.name == name for operation in operations):
            own.add(name)
    if in_turns:
        operations.sort(key=lambda operation: operation.name in own)
    else:
        late |= own
    interval = 4 * len(operations) + 4
    starts, early = {}, 0
    for place, operation in enumerate(operations):
        if operation.name in late:
            starts[operation.name] = interval + 1 + place
        else:
            starts[operation.name] = 0 if not early else 2 * len(operations) + early
            early += 1
    return starts, interval


def accumulates(tile: TileProgram, operation: TileOperation, value: str) -> bool:
    """Whether the operation reads the value only as the accumulator that it continues with."""
    if operation.kind != "mma" or len(operation.operands) < 3:
        return False
    return operation.operands[2] == value and value not in operation.operands[:2]


def check_values(tile: TileProgram, ordered: OrderedBody) -> None:
    """Every value is read before its next one replaces it. Raises FormRefused."""
    for rule in order_rules(tile, list(ordered.operations)):
        lag, position = ordered.key(rule.later)
        if ordered.key(rule.earlier) >= (lag + rule.iterations, position):
            raise FormRefused(rule.why)


def users_of_product(
    tile: TileProgram, ordered: OrderedBody, mma: TileOperation
) -> list[tuple[Key, str]]:
    """Who needs the multiplication of iteration i to be over, keyed by iterations after i."""
    found: list[tuple[Key, str]] = []
    carried = {item.value.name for item in tile.carried if item.next == mma.name}
    registers = {
        name
        for name in mma.operands[:2]
        for operation in tile.body
        if operation.name == name
        and operation.result is not None
        and (operation.result.place is ValuePlace.FRAGMENT or operation.kind == "share")
    }
    for operation in ordered.operations:
        lag, position = ordered.key(operation.name)
        for value in operation.operands:
            if accumulates(tile, operation, value):
                continue
            if value == mma.name:
                found.append(((lag, position), operation.name))
            elif value in carried:
                found.append(((lag + 1, position), operation.name))
        if operation.name in registers:
            found.append(((lag + 1, position), operation.name))
    return sorted(found)


def loop_body(
    tile: TileProgram, rings: tuple[PipelineRing, ...], ordered: OrderedBody, at_once: bool = False
) -> tuple[BodyItem, ...]:
    """The items of the body. Raises FormRefused.

    `at_once`: nothing is left to the next iteration: what would be drained there is drained here.
    """
    check_values(tile, ordered)
    waits, (drains, unneeded) = _waits(rings, ordered), _drains(tile, ordered)
    carries = _carries(tile, ordered)
    late = set(unneeded)
    for drained in drains.values():
        late |= {name for name, lag in drained if lag > ordered.key(name)[0]}
    late = late if at_once else set()
    drains = {
        needer: [item for item in drained if item[0] not in late]
        for needer, drained in drains.items()
    }
    items: list[BodyItem] = []
    ends: dict[str, tuple[int, int]] = {}  # reader -> iterations late, place in `items` after it
    for operation, lag in zip(ordered.operations, ordered.lags, strict=True):
        for name, iterations in drains.get(operation.name, ()):
            items.append(BodyItem(ItemKind.DRAIN, name, iterations))
            ends[name] = (iterations, len(items))
        items += [BodyItem(ItemKind.WAIT, ring, lag) for ring in waits.get(operation.name, ())]
        items.append(BodyItem(_kind(operation), operation.name, lag))
        if operation.name in late:
            items.append(BodyItem(ItemKind.DRAIN, operation.name, lag))
            ends[operation.name] = (lag, len(items))
        elif operation.name in unneeded:
            items.append(BodyItem(ItemKind.DRAIN, operation.name, lag + 1, leaves_newest=True))
            ends[operation.name] = (lag + 1, len(items))
        elif operation.kind == "store" and _from_ring(operation, rings):
            items.append(
                BodyItem(
                    ItemKind.SENT, operation.name, lag + (not at_once), leaves_newest=not at_once
                )
            )
            ends[operation.name] = (lag + (not at_once), len(items))
        elif operation.kind != "mma":
            ends[operation.name] = (lag, len(items))
        items += [
            BodyItem(ItemKind.CARRY, name, iterations)
            for name, iterations in carries.get(operation.name, ())
        ]
    return _with_releases(items, ends, rings)


def _drains(
    tile: TileProgram, ordered: OrderedBody
) -> tuple[dict[str, list[tuple[str, int]]], set[str]]:
    """Before which operation each product is drained (name, lag); those that nobody needs."""
    drains: dict[str, list[tuple[str, int]]] = {}
    unneeded: set[str] = set()
    for operation in ordered.operations:
        if operation.kind != "mma":
            continue
        first = next(iter(users_of_product(tile, ordered, operation)), None)
        if first is None:
            unneeded.add(operation.name)
        else:
            drains.setdefault(first[1], []).append((operation.name, first[0][0]))
    return drains, unneeded


def _carries(tile: TileProgram, ordered: OrderedBody) -> dict[str, list[tuple[str, int]]]:
    """After which operation each carried value takes its next one (name, lag)."""
    found: dict[str, list[tuple[str, int]]] = {}
    for carried in tile.carried:
        if carried.next not in ordered.names():
            raise FormRefused(f"{carried.value.name} is carried, but not computed in the loop")
        if tile.operation(carried.next).kind == "mma":
            continue  # the accumulator stays where it is
        readers = [
            ordered.key(operation.name)
            for operation in ordered.operations
            if carried.value.name in operation.operands
        ]
        lag, position = max([ordered.key(carried.next), *readers])
        if any((late + 1, place) <= (lag, position) for late, place in readers):
            raise FormRefused(f"{carried.value.name} is read again before its last reader is done")
        found.setdefault(ordered.operations[position].name, []).append((carried.value.name, lag))
    return found


def _with_releases(
    items: list[BodyItem], ends: dict[str, tuple[int, int]], rings: tuple[PipelineRing, ...]
) -> tuple[BodyItem, ...]:
    """Each ring released where the last of its readers of one iteration is done."""
    released: dict[int, list[BodyItem]] = {}
    for ring in rings:
        if ring.once:
            continue
        lag, place = max(ends[name] for name in ring.readers)
        released.setdefault(place, []).append(BodyItem(ItemKind.RELEASE, ring.name, lag))
    made: list[BodyItem] = []
    for place in range(len(items) + 1):
        made += released.get(place, [])
        made += items[place : place + 1]
    return tuple(made)


def fenced_since(items: tuple[BodyItem, ...], read: str, ring: str) -> bool:
    """Whether threads share a fragment, which takes a fence, between the read of a stage and its
    release: in the iteration of the read, so that they do in every one."""
    begin = _place(items, ItemKind.READ, read)
    end = _place(items, ItemKind.RELEASE, ring)
    if begin is None or end is None:
        return False
    return any(
        item.kind is ItemKind.SHARE and item.lag == begin[0] and begin < (item.lag, place) < end
        for place, item in enumerate(items)
    )


def _place(items: tuple[BodyItem, ...], kind: ItemKind, name: str) -> Key | None:
    found = ((one.lag, at) for at, one in enumerate(items) if (one.kind, one.name) == (kind, name))
    return next(found, None)


def _kind(operation: TileOperation) -> ItemKind:
    special = {
        "mma": ItemKind.ISSUE,
        "store": ItemKind.STORE,
        "read": ItemKind.READ,
        "share": ItemKind.SHARE,
    }
    return special.get(operation.kind, ItemKind.COMPUTE)


def _from_ring(operation: TileOperation, rings: tuple[PipelineRing, ...]) -> bool:
    return any(load.name in operation.operands for ring in rings for load in ring.loads)


def _waits(rings: tuple[PipelineRing, ...], ordered: OrderedBody) -> dict[str, list[str]]:
    """For each operation the rings whose stages it is the first to read."""
    found: dict[str, list[str]] = {}
    for ring in rings:
        readers = [ordered.key(name) for name in ring.readers if name in ordered.names()]
        if ring.once or not readers:
            continue
        first = ordered.operations[min(readers)[1]].name
        found.setdefault(first, []).append(ring.name)
    return found
