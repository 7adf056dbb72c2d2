"""From a tile program and its verified sync program to a kernel in CUDA C++, and its manifest.

Every operation of the sync program is spelled at its place by the device header; the arithmetic of
the tile program stands where the sync program names it (`Compute`, the issue of an mma, the store
to a staging buffer). What cannot be spelled faithfully is refused. Python decides what stands
where, the templates of backends/sm_90a only spell it. The output depends on the input alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from titan.codegen.emit.arithmetic import RoleContext
from titan.codegen.emit.asking import BEGIN, check_asking
from titan.codegen.emit.cluster import RANK, fold
from titan.codegen.emit.conforms import check
from titan.codegen.emit.expressions import SpellingScope, product
from titan.codegen.emit.guarded import loaded_by
from titan.codegen.emit.headers import (
    COLUMNS_HEADER,
    HEADER,
    MASKS_HEADER,
    SUMS_HEADER,
    TEMPLATES,
    TRANSPOSED_HEADER,
    device_header,
)
from titan.codegen.emit.host import launch_header
from titan.codegen.emit.layout import ARRIVALS_MAX, GROUP, RolePlace, lay_out
from titan.codegen.emit.lookups import lookups_of_item, spelled_lookup
from titan.codegen.emit.manifest import arguments, manifest, work_counts
from titan.codegen.emit.model import EmissionRefused, Emitted
from titan.codegen.emit.names import identifier, integer, mangled
from titan.codegen.emit.once import OnceEach, products_without_stage
from titan.codegen.emit.registers import (
    AgentCheck,
    Filled,
    RegisterAllocation,
    RoleRegisters,
    fill,
    idle_waits,
    walk_sites,
)
from titan.codegen.emit.sites import EmissionSite, SiteKind, Tiles, reads_before, sites_of
from titan.codegen.emit.spelling import Spelling
from titan.codegen.emit.statements import SpelledRole
from titan.codegen.emit.tensor_memory import ELECTED, TensorSpelling
from titan.codegen.emit.tensor_places import allocated, tensor_places
from titan.codegen.emit.trace import (
    TRIPS,
    WORK,
    SiteEvent,
    by_item,
    execute,
    iteration_of,
    runs_of,
    work_variable,
)
from titan.codegen.emit.validate import validate
from titan.codegen.emit.work_items import coordinate_lines
from titan.codegen.tile.clusters import alike
from titan.codegen.tile.manifest import LAUNCH_HEADER
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.model import ValuePlace as Where
from titan.foundation.resources import template
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression
from titan.target.completion import Vendor
from titan.target.description import generated_targets, target_of

SOURCE = "kernel.cu"


def emit(tile: TileProgram, kernel: Kernel, program: ir.SyncProgram) -> Emitted:
    """The files of a kernel and its manifest. Raises EmissionRefused.

    `program` is lowered from the kernel decoded with its computations and has been verified
    without them. `kernel` brings layouts and register counts.
    """
    if target_of(tile.target).amd:
        from titan.codegen.emit.hip import emit as emit_hip

        return emit_hip(tile, kernel, program)
    return _Emission(tile, kernel, program).emit()


@dataclass
class _Role:
    """One role with everything that is derived from it."""

    place: RolePlace
    sites: tuple[EmissionSite, ...]
    plan: RegisterAllocation = field(default_factory=lambda: RegisterAllocation({}, {}))
    iterations: dict[int, Expression] = field(default_factory=dict)


class _Emission:
    def __init__(self, tile: TileProgram, kernel: Kernel, program: ir.SyncProgram) -> None:
        validate(tile, kernel, program)
        for target in (tile.target, kernel.target, program.target):
            known = generated_targets(Vendor.NVIDIA)
            if target not in known or target != tile.target:
                raise EmissionRefused(
                    f"this backend writes {' and '.join(known)}, not {target!a:.40}"
                )
        if tile.cluster == 1:  # pairs are a shape that the pipeline may have
            tile = replace(tile, cluster=kernel.ctas)
        if kernel.ctas != tile.cluster:
            raise EmissionRefused("the tile program and the pipeline differ in CTAs of a cluster")
        check(kernel, program)
        folded = fold(kernel, program)
        self.tile = tile
        self.kernel = kernel
        self.program = program = folded.program
        self.ctas, self.alone = folded.ctas, folded.alone
        self.name = identifier(tile.name, "the tile program")
        self.queues = {queue.name: queue for queue in program.queues}
        self.tensor = tensor_places(kernel, program)
        self.together = bool(self.tensor) and self.ctas > 1  # a pair of CTAs multiplies
        self.tiles = Tiles(tile, program, frozenset(self.tensor), *loaded_by(tile, program))
        stores = [item.name for item in self.tiles.operations.values() if item.kind == "store"]
        answers = self.tiles.answers
        if tile.launch_control is not bool(answers):
            raise EmissionRefused("the tile program and the pipeline differ in asking for work")
        self.layout = lay_out(kernel, program, frozenset(stores), self.tiles.rows, answers)
        self.outer = tile_scope(tile)
        self.runs = runs_of(program)
        self.roles = [
            _Role(place, sites_of(place.role, self.tiles, self.queues)[0])
            for place in self.layout.places
        ]

    def emit(self) -> Emitted:
        self._check_queues()
        self._nothing_left_out()
        self._find_iterations_and_registers()
        counts = self._arrival_counts()
        spelled = [self._spell(role) for role in self.roles]
        context = self._context(spelled, counts)
        text = _fill(context)
        made = manifest(self.tile, self.program, self.layout, self.tiles, self.name, self.ctas)
        if self.tensor:
            made["resources"]["tensor_columns"] = allocated(self.tensor)
        files = {SOURCE: text, HEADER: self._device("titan::elements_kept" in text)}
        return Emitted({**files, LAUNCH_HEADER: launch_header(made)}, made)

    def _device(self, masks: bool) -> str:
        vectors = [one.result for one in self.tile.operations if one.kind == "vector"]
        more = {
            SUMS_HEADER: bool(self.tile.sums),
            TRANSPOSED_HEADER: any(one.writes_transposed for one in self.tile.operations),
            COLUMNS_HEADER: any(made and made.place is Where.COLUMN for made in vectors),
            MASKS_HEADER: masks,
        }
        return device_header(
            self.tile.target, self.together, bool(self.tiles.answers), bool(self.tiles.scales),
            tuple(name for name, needed in more.items() if needed),
        )  # fmt: skip

    def _check_queues(self) -> None:
        """Hardware has one queue of each kind a thread or warpgroup."""
        for role in self.roles:
            used = {
                queue
                for operation in ir.walk(role.place.role.body)
                if isinstance(operation, ir.Asynchronous | ir.Commit | ir.QueueWait)
                and (queue := operation.queue) is not None
            }
            for queue in used:
                known = self.queues.get(queue)
                if known is None or not (known.grouped or (known.pipelined and self.tensor)):
                    raise EmissionRefused(f"{mangled('queue', queue, 'a queue')} has no groups")
            kinds = [self.queues[queue].pipelined for queue in used]
            if len(set(kinds)) != len(kinds):
                raise EmissionRefused(f"{role.place.role.name} uses two queues of one kind")

    def _nothing_left_out(self) -> None:
        """Every store is done, and what an accumulator is scaled to is put back to it."""
        sites = [site for role in self.roles for site in walk_sites(role.sites)]
        stored = {
            (site.name, site.slice)
            for site in sites
            if site.kind in (SiteKind.SEND, SiteKind.COMPUTE)
        }
        put = {site.name for site in sites if site.kind is SiteKind.PUT}
        for operation in self.tiles.operations.values():
            name = operation.name
            slices = range(self.tiles.slices.get(name, 1))
            if operation.kind == "store" and any((name, one) not in stored for one in slices):
                raise EmissionRefused(f"nobody does {name}{' whole' * (len(slices) > 1)}")
            accumulator = self.tiles.accumulates(name)
            scaled = self.tiles.rescaled(accumulator) if accumulator in self.tensor else ""
            if scaled and scaled not in put:
                raise EmissionRefused(f"nobody puts {scaled} back for {name}")

    # --------------------------------------------------------------- iterations, registers

    def _find_iterations_and_registers(self) -> None:
        filled: list[Filled] = []
        events: dict[tuple[int, int, int], list[SiteEvent]] = {}
        for turn, run in enumerate(self.runs):
            filled.append({})
            for number, role in enumerate(self.roles):
                agents = role.place.role.agents
                ctas = 1 if role.place.role.name in self.alone else self.ctas
                for both in range(agents * ctas):
                    cta, member = divmod(both, agents)
                    made = execute(
                        self.program, role.place.role, cta, member, role.sites, run,
                        self.tile.groups if self.tensor else 1,
                    )  # fmt: skip
                    events[turn, number, both] = made
                    fill(filled[turn], made, self.tiles, self.ctas)
        if self.tiles.answers:
            check_asking(
                (self.roles[number].place.role.name, len(self.runs[turn].trips), made)
                for (turn, number, _), made in events.items()
            )
        once = OnceEach(self.tiles, self.runs, products_without_stage(events))
        for number, role in enumerate(self.roles):
            mine = {key: made for key, made in events.items() if key[1] == number}
            self._all_reached(role, {e.site.number for made in mine.values() for e in made})
            once.check(role.place.role, by_item(role.place.role, self.tile, mine))
            self._iterations(role, [event for made in mine.values() for event in made])
            idle = idle_waits(role.sites)
            counted = {
                key: [event for event in made if event.site.number not in idle]
                for key, made in mine.items()
            }
            self._registers(role, counted, filled)

    def _all_reached(self, role: _Role, reached: set[int]) -> None:
        """What no run reaches has not been checked: only large numbers of iterations do it."""
        idle = idle_waits(role.sites)
        for site in walk_sites(role.sites):
            if (site.name or isinstance(site.operation, ir.QueueWait)) and (
                site.number not in reached | idle
            ):
                what = site.name or "a wait"
                raise EmissionRefused(
                    f"{role.place.role.name} does {what} under a condition that none of the runs "
                    "meets by which registers are checked"
                )

    def _iterations(self, role: _Role, events: list[SiteEvent]) -> None:
        seen: dict[int, list[SiteEvent]] = {}
        for event in events:
            seen.setdefault(event.site.number, []).append(event)
        for made in seen.values():
            site = made[0].site
            if not site.name or self.tiles.section[site.name] != "body":
                continue
            if isinstance(site.operation, ir.Compute):
                role.iterations[site.number] = site.operation.index
                continue
            hints = _hints(site.operation)
            try:
                role.iterations[site.number] = iteration_of(site, made, hints)
            except EmissionRefused:
                if site.kind in (SiteKind.LOAD, SiteKind.FILL, SiteKind.SEND):
                    raise

    def _registers(
        self, role: _Role, events: dict[tuple[int, int, int], list[SiteEvent]], filled: list[Filled]
    ) -> None:
        registers = RoleRegisters(role.place.role, role.sites, self.tiles)
        last: list[AgentCheck] = []
        parts = {name: shared.parts for name, shared in self.layout.tiles.items()}

        def check(plan: RegisterAllocation) -> None:
            last.clear()
            for (turn, _, _), made in events.items():
                agent = AgentCheck(
                    role.place.role, self.tiles, self.queues, plan, filled[turn], parts
                )
                agent.run(made)
                last.append(agent)

        plan = registers.allocate(check)
        check(plan)
        holds: dict[int, set[str]] = {}
        initial: dict[int, bool] = {}
        for agent in last:
            for site, names in agent.holds.items():
                holds.setdefault(site, set()).update(names)
            for site, first in agent.initial.items():
                if initial.setdefault(site, first) is not first:
                    raise EmissionRefused("one statement gives an initial and a next value")
        ordered = {site: tuple(sorted(names)) for site, names in sorted(holds.items())}
        role.plan = replace(plan, holds=ordered, initial=initial)

    # ----------------------------------------------------------------------------- spelling

    def _arrival_counts(self) -> dict[str, int]:
        """Hardware count of each barrier: the program's, times the warps of who arrives."""
        warps: dict[str, set[int]] = {}
        for role in self.roles:
            for operation in ir.walk(role.place.role.body):
                if isinstance(operation, ir.Arrive):
                    warps.setdefault(operation.barrier.name, set()).add(role.place.warps)
                elif isinstance(operation, ir.QueueArrive):
                    warps.setdefault(operation.barrier.name, set()).add(1)
        counts = {}
        for barrier in self.program.barriers:
            each = warps.get(barrier.name, {1})
            name = mangled("b", barrier.name, "a barrier")
            if len(each) != 1:
                raise EmissionRefused(f"agents of different sizes arrive at {name}")
            count = integer(barrier.count, f"the count of {name}", 1, ARRIVALS_MAX)
            counts[barrier.name] = integer(
                count * next(iter(each)), f"the count of {name}", 1, ARRIVALS_MAX
            )
        return counts

    def _sync_scope(self, role: _Role) -> SpellingScope:
        agent = role.place.role.agent_constant
        scope = SpellingScope({agent: "x_group"}, {agent: 0})
        if self.ctas > 1:
            scope = scope.plus(RANK, "x_cta", 0)
        for parameter in self.program.parameters:
            scope = scope.plus(
                parameter.name, mangled("x", parameter.name, "a parameter"), parameter.minimum
            )
        for name, initial in role.place.role.variables:
            if name in scope.spelled:
                raise EmissionRefused(f"{mangled('x', name, 'a counter')} is declared twice")
            grows = initial >= 0 and all(
                _grows(operation)
                for operation in ir.walk(role.place.role.body)
                if isinstance(operation, ir.Assign) and operation.variable == name
            )
            scope = scope.plus(name, mangled("x", name, "a counter"), initial if grows else None)
        return scope

    def _spell(self, role: _Role) -> SpelledRole:
        work = work_variable(self.program, role.place.role)
        trips = [p for p in self.program.parameters if p.name == TRIPS]
        if trips and work is not None and trips[0].per not in (None, work):
            raise EmissionRefused("`tiles` changes with another loop than that over work items")
        same = work is not None and trips and trips[0].per is None
        if same and self._varies({dimension.name for dimension in self.tile.work}):
            raise EmissionRefused("the trip count differs between work items")
        if not alike(self.tile, self.tile.trip_count, self.ctas):
            raise EmissionRefused("the trip count differs between the CTAs of a cluster")
        spelling = (TensorSpelling if self.tensor else Spelling)(RoleContext(
            role.place, self.layout, self.tiles, self.queues, role.plan, role.iterations,
            self._sync_scope(role), self.outer, work, reads_before(role.sites), self.ctas,
            self.tensor,
        ))  # fmt: skip
        statements = spelling.role(role.sites)
        place = role.place
        agents, first = place.role.agents, place.first_warp
        last = first + agents * place.warps
        what = {1: "thread", 32: "warp", GROUP: "warpgroup"}[place.role.threads]
        title = f"{mangled('role', place.role.name, 'a role')}: {agents} {what}"
        title += "s" if agents > 1 else ""
        return SpelledRole(
            f"{title}, one elected thread acts" if place.elected else title,
            self._guard(place, first, last),
            tuple(self._constants(place, spelling.whole_rows)),
            spelling.declarations(),
            tuple((name, text) for text, name in spelling.descriptors.items()),
            statements,
        )

    def _guard(self, place: RolePlace, first: int, last: int) -> str:
        if place.role.name in self.alone:
            inner = self._warps(place, first, last)
            return f"x_cta == 0 && {inner}" if inner else "x_cta == 0"
        return self._warps(place, first, last)

    def _warps(self, place: RolePlace, first: int, last: int) -> str:
        group = next(g for g in self.layout.groups if place in g.places)
        whole = first == group.first_warp and last == group.first_warp + group.warps
        warps = f"titan_warp == {first}"
        if last - first > 1:
            warps = f"titan_warp >= {first} && titan_warp < {last}"
        if place.elected:
            return f"{warps} && titan::elect_one()"
        return "" if whole else warps

    def _constants(self, place: RolePlace, whole_rows: bool) -> list[str]:
        constant = "[[maybe_unused]] const"
        group = f"titan_warp - {place.first_warp}" if place.first_warp else "titan_warp"
        if place.warps > 1:
            group = f"({group}) / {place.warps}" if place.first_warp else f"{group} / {place.warps}"
        made = [f"{constant} int x_group = {group};"]
        if not place.elected:
            leader = "titan_warp % 4 == 0 && " if place.warps == 4 else ""
            elected = "titan::elect_one()"
            if self.tensor:
                made.append(f"{constant} bool {ELECTED} = {elected};")
                elected = ELECTED
            made.append(f"{constant} bool titan_leader = {leader}{elected};")
        if place.warps == 4 and whole_rows:
            made.append(f"{constant} int titan_row0 = titan_warp % 4 * 32 + titan_lane;")
        elif place.warps == 4:
            rows = 32 if self.tensor else 16
            made.append(f"{constant} int titan_row0 = titan_warp % 4 * {rows} + titan_lane / 4;")
            made.append(f"{constant} int titan_column0 = titan_lane % 4 * 2;")
        if self.tiles.answers:
            made += BEGIN
        elif any(parameter.name == WORK for parameter in self.program.parameters):
            items = self.outer.text(product(work_counts(self.tile, self.ctas)))
            made.append(f"const int titan_items = {items};")
            made.append(
                "const int x_work = (titan_items - titan::block_index() + titan::grid_size() - 1) "
                "/ titan::grid_size();"
            )
        return made

    def _varies(self, names: set[str]) -> bool:
        return bool(self.tile.names_in(self.tile.trip_count) & names)

    def _coordinates(self) -> list[str]:
        """Work coordinates of an item, the last one varying fastest, and its trip count."""
        constant = "[[maybe_unused]] const"
        lines = coordinate_lines(self.tile, self.outer, self.ctas)
        for lookup in lookups_of_item(self.tile):
            name = mangled("u", lookup.name, "a lookup")
            lines.append(
                f"{constant} int {name} = {spelled_lookup(self.outer, self.tile, lookup)};"
            )
        for parameter in self.program.parameters:
            if parameter.name == TRIPS:
                least = integer(parameter.minimum, "the least trip count", 0)
                trips = self.outer.text(self.tile.trip_count)
                name = mangled("x", TRIPS, "a parameter")
                lines.append(f"const int {name} = titan::larger({least}, {trips});")
        return lines

    def _answers(self) -> list[dict[str, object]]:
        return [
            {"name": mangled("s", one.name, "a buffer"), "value": one.name,
             "stages": one.stages, "offset": one.offset}
            for one in self.layout.answers.values()
        ]  # fmt: skip

    def _context(self, spelled: list[SpelledRole], counts: dict[str, int]) -> dict[str, object]:
        layout = self.layout
        groups = []
        following = iter(spelled)
        for group in layout.groups:
            count = group.registers
            kind = ""
            if count:
                kind = "decrease" if count < layout.entry_registers else "increase"
            if count == layout.entry_registers:
                kind = ""
            groups.append(
                {
                    "first": group.first_warp, "last": group.first_warp + group.warps,
                    "registers": kind, "count": count,
                    "roles": [next(following) for _ in group.places],
                }
            )  # fmt: skip
        items, maps = arguments(self.tile, self.tiles, layout, self.program)
        return {
            "kernel": {
                "name": self.name, "entry": f"titan_{self.name}", "threads": layout.threads,
                "shared_bytes": layout.shared_bytes, "ctas": self.ctas,
                "target": self.tile.target, "tensor_columns": allocated(self.tensor),
                "tensor_slot": layout.tensor_slot, "dependent": self.tile.dependent_launch,
                "together": self.together,
            },
            "tensor_places": [
                {
                    "value": place.name, "columns": place.columns, "stages": place.stages,
                    "column": place.column, "stride": place.stride,
                }
                for place in self.tensor.values()
            ],
            "tiles": [
                {
                    "name": mangled("s", tile.name, "a buffer"), "value": tile.name,
                    "rows": tile.rows, "columns": tile.columns, "dtype": tile.dtype,
                    "stages": tile.stages, "parts": tile.parts, "swizzle": tile.panel_bytes,
                    "offset": tile.offset,
                }
                for tile in layout.tiles.values()
            ],
            "barriers": [
                {
                    "name": mangled("b", barrier.name, "a barrier"), "value": barrier.name,
                    "stages": barrier.stages, "count": counts[barrier.name],
                    "model_count": barrier.count, "offset": layout.barriers[barrier.name],
                    "alone": barrier.name in self.alone,
                }
                for barrier in self.program.barriers
            ],
            "rows": [
                {
                    "name": mangled("s", rows.name, "a buffer"), "value": rows.name,
                    "rows": rows.rows, "stages": rows.stages, "offset": rows.offset,
                }
                for rows in layout.rows.values()
            ],
            "answers": self._answers(),
            "maps": maps,
            "arguments": items,
            "groups": groups,
            "context": {"coordinates": self._coordinates()},
        }  # fmt: skip


def tile_scope(tile: TileProgram) -> SpellingScope:
    """Sizes, parameters and work coordinates as the kernel has them."""
    scope = SpellingScope({}, {})

    def new(name: str, spelled: str, least: int | None) -> None:
        nonlocal scope
        if name in scope.spelled:
            raise EmissionRefused(f"{spelled} is declared twice")
        scope = scope.plus(name, spelled, least)

    for name, value in tile.sizes:
        identifier(name, "a size")
        new(name, str(integer(value, f"size {name}", 0)), value)
    for parameter in tile.parameters:
        spelled = mangled("n", parameter.name, "a parameter")
        if parameter.value is not None:
            raise EmissionRefused(f"{spelled} is fixed; a fixed number is a size")
        new(parameter.name, spelled, integer(parameter.minimum, spelled, 1))
    for dimension in tile.work:
        new(dimension.name, mangled("w", dimension.name, "a work coordinate"), 0)
    for lookup in lookups_of_item(tile):
        new(lookup.name, mangled("u", lookup.name, "a lookup"), None)
    identifier(tile.loop_variable, "the loop variable")
    if tile.loop_variable in scope.spelled:
        raise EmissionRefused("the loop variable has the name of something else")
    return scope


def _hints(operation: ir.Operation) -> list[Expression]:
    if isinstance(operation, ir.Asynchronous | ir.Access):
        return [effect.tile for effect in operation.effects if effect.tile is not None]
    return []


def _grows(assign: ir.Operation) -> bool:
    """Whether an assignment adds a constant that is not negative."""
    assert isinstance(assign, ir.Assign)
    from titan.sync.expression import Binary, Name

    match assign.value:
        case Binary("+", Name(name), Constant(value)):
            return name == assign.variable and value >= 0
    return False


def _fill(context: dict[str, object]) -> str:
    text = template(TEMPLATES, "kernel.cu.j2").render(context)
    return "\n".join(line.rstrip() for line in text.split("\n"))
