"""Runs of single roles with small numbers: which iteration of the tile program each site handles.

The control flow of a role depends on its parameters only, so a role runs alone. Every execution of
a site belongs to a work item and, in the body, to one iteration: counted by the executions of its
tile operation in that work item. The runs prove nothing for other numbers; they catch a program
that does not do every operation once an iteration, and they choose the spelling of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from titan.codegen.emit.cluster import RANK
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.sites import TRIPS, WORK, EmissionSite, SiteKind
from titan.codegen.tile.model import TileProgram
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, Name, binary, evaluate, names_of

EVENTS_MAX = 20_000


def value_of(expression: Expression, environment: Mapping[str, int]) -> int:
    """Raises EmissionRefused where there is none."""
    try:
        return evaluate(expression, environment)
    except (KeyError, ZeroDivisionError) as error:
        raise EmissionRefused(f"an expression has no value: {type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class SiteEvent:
    """One execution of a site. `count`: its iteration where the operation says it, otherwise the
    executions of its name (and slice) in this work item and sub-tile before it. `unit`: numbers the
    sub-tiles of all work items."""

    site: EmissionSite
    environment: dict[str, int]
    item: int
    count: int
    trips: int
    sub: int = 0
    unit: int = 0


@dataclass(frozen=True, slots=True)
class TripCounts:
    """Trip counts of the work items; a program without a work loop has exactly one."""

    trips: tuple[int, ...]


def runs_of(program: ir.SyncProgram) -> tuple[TripCounts, ...]:
    """The trip counts under which registers and iterations are checked. Raises EmissionRefused."""
    names = {parameter.name: parameter for parameter in program.parameters}
    if not set(names) <= {WORK, TRIPS} or any(p.value is not None for p in names.values()):
        raise EmissionRefused("parameters other than `work` and `tiles`")
    least = names[TRIPS].minimum if TRIPS in names else 1
    counts = [least, least + 1, least + 2, least + 4]
    if WORK not in names:
        return tuple(TripCounts((count,)) for count in counts)
    several = [(1, 3), (3, 1), (2, 2), (4, 1, 2)]
    if names[TRIPS].per is None if TRIPS in names else True:
        several = [(2, 2), (3, 3, 3)]
    return tuple(
        TripCounts(tuple(least - 1 + n for n in trips)) for trips in [(1,), (2,), (5,), *several]
    )


def work_variable(program: ir.SyncProgram, role: ir.Role) -> str | None:
    """The variable of the loop over work items, if the program has one."""
    if all(parameter.name != WORK for parameter in program.parameters):
        return None
    found = [
        operation.variable
        for operation in role.body
        if isinstance(operation, ir.Loop) and operation.stop == Name(WORK)
    ]
    if len(found) != 1:
        raise EmissionRefused(f"role {role.name} has no one loop over the work items")
    return found[0]


def execute(
    program: ir.SyncProgram,
    role: ir.Role,
    cta: int,
    member: int,
    sites: tuple[EmissionSite, ...],
    run: TripCounts,
    groups: int = 1,
) -> list[SiteEvent]:
    """All events of one agent of a CTA; each work item has `groups` sub-tiles, or is taken as one.

    Raises EmissionRefused.
    """
    return list(_Execution(program, role, cta, member, run, groups).all(sites))


class _Execution:
    def __init__(
        self,
        program: ir.SyncProgram,
        role: ir.Role,
        cta: int,
        member: int,
        run: TripCounts,
        groups: int,
    ) -> None:
        self.run = run
        self.groups = groups
        self.work = work_variable(program, role)
        self.environment = {role.agent_constant: member, **dict(role.variables)}
        self.environment[RANK] = cta
        self.environment[TRIPS] = run.trips[0]
        if self.work is not None:
            self.environment[WORK] = len(run.trips)
        self.item = 0
        self.counts: dict[tuple[SiteKind, str, int, int], int] = {}
        self.made = 0

    def value(self, expression: Expression) -> int:
        return value_of(expression, self.environment)

    def all(self, sites: tuple[EmissionSite, ...]) -> Iterator[SiteEvent]:
        for site in sites:
            self.made += 1
            if self.made > EVENTS_MAX:
                raise EmissionRefused("a role does too much for a few iterations")
            match site.operation:
                case ir.Loop():
                    yield from self._loop(site, site.operation)
                case ir.Branch(condition=condition):
                    yield from self.all(site.inside if self.value(condition) else site.otherwise)
                case ir.Assign(variable=variable, value=value):
                    self.environment[variable] = self.value(value)
                case _:
                    yield self._event(site)

    def _loop(self, site: EmissionSite, loop: ir.Loop) -> Iterator[SiteEvent]:
        outermost = not site.loops and loop.variable == self.work
        number = self.value(loop.start)
        while number < self.value(loop.stop):
            self.made += 1
            if self.made > EVENTS_MAX:
                raise EmissionRefused("a role does too much for a few iterations")
            self.environment[loop.variable] = number
            if outermost:
                self.item = number
                self.environment[TRIPS] = self.run.trips[number]
                self.counts.clear()
            yield from self.all(site.inside)
            number += 1

    def _event(self, site: EmissionSite) -> SiteEvent:
        sub = self.value(site.sub) if site.sub is not None else 0
        key = (site.kind.counted, site.name, site.slice, sub)
        count = self.counts.get(key, 0) if site.name else 0
        self.counts[key] = count + 1
        if site.index is not None:
            count = self.value(site.index)
        count += site.ahead
        trips = self.run.trips[min(self.item, len(self.run.trips) - 1)]
        unit = self.item * self.groups + sub
        return SiteEvent(site, dict(self.environment), self.item, count, trips, sub, unit)


def has_whole_tiles(role: ir.Role, tile: TileProgram) -> bool:
    """Whether each agent of a role computes whole tiles, and not its part of the rows of each."""
    return tile.groups == 1 and role.agents > 1


def by_item(
    role: ir.Role, tile: TileProgram, events: dict[tuple[int, int, int], list[SiteEvent]]
) -> dict[tuple[int, int, int], list[SiteEvent]]:
    """The events of each agent; of all agents of a CTA together where each has whole tiles.

    The last number of a key is that of the agent, or of the CTA. Who goes on with a tile whose sum
    another has begun is found out with the registers.
    """
    if not has_whole_tiles(role, tile):
        return events
    found: dict[tuple[int, int, int], list[SiteEvent]] = {}
    for (turn, number, both), made in events.items():
        found.setdefault((turn, number, both // role.agents), []).extend(made)
    return found


def iteration_of(site: EmissionSite, seen: list[SiteEvent], hints: list[Expression]) -> Expression:
    """An expression that gives the iteration in every execution seen. Raises EmissionRefused."""
    candidates = list(hints)
    for variable in reversed(site.loops):
        for offset in (0, -1, 1, -2, 2):
            operator = "+" if offset >= 0 else "-"
            candidates.append(binary(operator, Name(variable), Constant(abs(offset))))
    candidates += [Constant(number) for number in range(4)]
    candidates += [binary("-", Name(TRIPS), Constant(number)) for number in (1, 2)]
    for candidate in candidates:
        if names_of(candidate) <= {*site.loops, TRIPS} and all(
            value_of(candidate, event.environment) == event.count for event in seen
        ):
            return candidate
    raise EmissionRefused(f"the iteration that {site.name} belongs to cannot be expressed")
