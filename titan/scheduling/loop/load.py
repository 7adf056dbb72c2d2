"""Reads a loop-level file: operations, dependences, warp groups, limits; every fault located.

    titan: 1
    loop: name
    target: sm_90a                 # a machine of backends/, or `machine: path` of a file
    warps: {consumer: {warps: 4, registers: 240}}
    memories: {shared: 199680}     # what the loop may use, if less than all
    operations:
      S: {uses: {TC: 512}, latency: 532, registers: 8192, warps: 4}
    dependences:
      - {from: S, to: P}           # delay: the latency of S; distance 0; kind data

Faults of meaning are found here too: unknown units and operations, negative numbers, cycles of
distance 0, impossible reservation tables, more than the machine has.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from titan.foundation.diagnostics.model import diagnostic
from titan.foundation.diagnostics.wording import listed, suggestion
from titan.foundation.source.loading import load_file
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Source, Span, whole_file
from titan.foundation.source.tree import Mapping, Node
from titan.foundation.source.yaml import parse
from titan.scheduling.loop.bounds import (
    Unschedulable,
    density_bound,
    longest_paths,
    resource_bound,
    storage_bound,
)
from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, Operation, ReservationUse
from titan.target.load import (
    TargetRefused,
    below,
    known_machines,
    load_machine,
    machine,
    read_groups,
    read_units,
)
from titan.target.model import Machine, WarpGroup

CYCLES_MAX = 1_000_000
TOTAL_CYCLES_MAX = 4_000_000
AMOUNT_MAX = 1 << 40
DISTANCE_MAX = 10_000
OPERATIONS_MAX = 10_000
BYTES_MAX = 4 << 20
NODES_MAX = 300_000
TOP = ("target", "machine", "note", "warps", "memories", "units", "dependences")
OPERATION_KEYS = (
    "uses",
    "latency",
    "registers",
    "warps",
    "holds",
    "variable_latency",
    "streaming",
    "slots",
    "spill",
    "issue",
    "inside",
)


def load_loop(path: str | Path) -> Loop:
    """The loop of a file. Raises TargetRefused with every fault."""
    source, errors = load_file(path, BYTES_MAX)
    if source is None:
        raise TargetRefused(errors)
    return read_loop(source, Path(path).parent)


def parse_loop(text: str, path: str = "<loop>") -> Loop:
    """The loop of a text. Raises TargetRefused."""
    return read_loop(Source(path, text), Path())


def read_loop(source: Source, folder: Path) -> Loop:
    """The loop of a source; machine files are looked for below `folder`. Raises TargetRefused."""
    if len(source.text) > BYTES_MAX:
        text = f"the file is larger than {BYTES_MAX} bytes"
        raise TargetRefused([diagnostic("TTN003", text, whole_file(source.path))])
    root, errors = parse(source, nodes_max=NODES_MAX)
    reader = Reader(errors)
    found = _Decoder(reader, folder).loop(root) if root is not None else None
    if found is None or not reader.ok:
        raise TargetRefused(reader.errors)
    return found


class _Decoder:
    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.folder = folder
        self.names: dict[str, int] = {}
        self.spans: dict[str, Span] = {}
        self.operations: list[Operation] = []
        self.nested: list[tuple[str, Node]] = []

    def loop(self, root: Node) -> Loop | None:
        reader = self.reader
        if reader.is_other(root, "loop"):
            return None
        top = reader.mapping(
            root, required=("titan", "loop", "operations"), optional=TOP, what="a loop"
        )
        if top is None:
            return None
        if top.has("titan"):
            version = reader.string(top["titan"], "the format version")
            if version is not None and version != "1":
                text = f"format version {version} is not known"
                reader.error("TTN016", text, top["titan"].span)
        name = reader.identifier(top["loop"], "the loop's name") if top.has("loop") else ""
        target = self.machine(top)
        if target is None:
            target = Machine("unknown", "", {})
            known = False
        else:
            known = True
        extra = read_units(reader, top["units"]) if top.has("units") else {}
        groups = read_groups(reader, top["warps"]) if top.has("warps") else target.groups
        note = reader.string(top["note"], "the note") if top.has("note") else ""
        memories = self.memories(top, target)
        units = {*target.units, *extra} if known else None
        if top.has("operations"):
            self.read_operations(top["operations"], units, target if known else None)
        dependences = self.read_dependences(top["dependences"]) if top.has("dependences") else ()
        dependences += self.nesting()
        found = Loop(
            name or "",
            target,
            tuple(self.operations),
            dependences,
            groups,
            memories,
            note or "",
            tuple(extra.values()),
        )
        if reader.ok:
            self.meaning(found, top)
        return found

    def machine(self, top: Fields) -> Machine | None:
        reader = self.reader
        if top.has("target") == top.has("machine"):
            text = "a loop has either a `target` or a `machine`"
            return reader.error("TTN007", text, top.key_span("loop"))
        if top.has("machine"):
            file_name = reader.string(top["machine"], "the machine file")
            if file_name is None:
                return None
            try:
                return load_machine(self.folder / file_name)
            except TargetRefused as refused:
                reader.errors.extend(refused.diagnostics)
                return None
        target = reader.string(top["target"], "the target")
        if target is None:
            return None
        try:
            return machine(target)
        except KeyError:
            helps = suggestion(target, known_machines())
            text = f"no machine {target!r} is known".replace("'", "`")
            return reader.error("TTN010", text, top["target"].span, helps=helps)

    def memories(self, top: Fields, target: Machine) -> tuple[tuple[str, int], ...]:
        fields = self.reader.names(top["memories"], "the memories") if top.has("memories") else None
        found = []
        for name in fields or ():
            node = fields[name]  # type: ignore[index]
            limit = target.memories[name].capacity if name in target.memories else AMOUNT_MAX
            if target.units and name not in target.memories:
                span = fields.key_span(name)  # type: ignore[union-attr]
                self.reader.undeclared(name, span, target.memories, "memory")
            value = self.reader.integer(node, minimum=0, maximum=limit, what=f"memory {name}")
            if value is not None:
                found.append((name, value))
        return tuple(found)

    def read_operations(self, node: Node, units: set[str] | None, target: Machine | None) -> None:
        fields = self.reader.names(node, "the operations")
        if fields is None:
            return
        if len(fields.values) > OPERATIONS_MAX:
            text = f"a loop has at most {OPERATIONS_MAX} operations, not {len(fields.values)}"
            self.reader.error("TTN516", text, fields.span)
            return
        if not fields.values:
            self.reader.error("TTN009", "a loop has at least one operation", fields.span)
        for name in fields:
            self.names[name] = len(self.operations)
            self.spans[name] = fields.key_span(name)
            self.operations.append(self.operation(name, fields[name], units, target))

    def nesting(self) -> tuple[Dependence, ...]:
        """Sets `inside`, and orders what is in an inner loop after the operation that it is."""
        found = []
        for name, node in self.nested:
            above = self.reader.identifier(node, f"`inside` of {name}")
            if above is not None and above not in self.names:
                self.reader.undeclared(above, node.span, self.names, "operation")
            elif above is not None:
                v, parent = self.names[name], self.names[above]
                self.operations[v] = replace(self.operations[v], inside=parent)
                found.append(Dependence(parent, v, 0, 0, ORDER))
        return tuple(found)

    def operation(
        self, name: str, node: Node, units: set[str] | None, target: Machine | None
    ) -> Operation:
        reader = self.reader
        made = Operation(name)
        fields = reader.mapping(node, optional=OPERATION_KEYS, what=f"operation {name}")
        if fields is None:
            return made
        if fields.has("inside"):
            self.nested.append((name, fields["inside"]))
        uses = self.uses(name, fields, units)
        footprints = []
        holds = reader.names(fields["holds"], f"`holds` of {name}") if fields.has("holds") else None
        for memory in holds or ():
            amount = self.number(holds, memory, 0, AMOUNT_MAX, f"what {name} holds of {memory}")
            if target is not None and memory not in target.memories:
                span = holds.key_span(memory)  # type: ignore[union-attr]
                reader.undeclared(memory, span, target.memories, "memory")
            elif amount is not None:
                footprints.append((memory, amount))
        number = self.number
        cycles = max((use.end_cycle for use in uses), default=0)
        return replace(
            made,
            uses=uses,
            latency_cycles=number(fields, "latency", 0, CYCLES_MAX, default=cycles) or 0,
            registers=number(fields, "registers", 0, AMOUNT_MAX, default=0) or 0,
            warps=number(fields, "warps", 1, 1024, default=1) or 1,
            footprints=tuple(footprints),
            variable_latency=self.flag(fields, "variable_latency"),
            streaming=self.flag(fields, "streaming"),
            slots=number(fields, "slots", 1, 10_000),
            spill_cycles=number(fields, "spill", 0, CYCLES_MAX, default=0) or 0,
            issue_cycles=number(fields, "issue", 1, CYCLES_MAX),
        )

    def number(
        self,
        fields: Fields | None,
        key: str,
        least: int,
        most: int,
        what: str = "",
        default: int | None = None,
    ) -> int | None:
        if fields is None or not fields.has(key):
            return default
        return self.reader.integer(
            fields[key], minimum=least, maximum=most, what=what or f"`{key}`"
        )

    def any_below(
        self, fields: Fields, leasts: tuple[tuple[str, int, str], ...], code: str
    ) -> bool:
        """Report every number of these keys that is below its least."""
        found = [
            below(self.reader, fields[key], least, code, what)
            for key, least, what in leasts
            if fields.has(key)
        ]
        return any(found)

    def flag(self, fields: Fields, key: str) -> bool:
        return fields.has(key) and bool(self.reader.boolean(fields[key], f"`{key}`"))

    def uses(self, name: str, fields: Fields, units: set[str] | None) -> tuple[ReservationUse, ...]:
        inner = (
            self.reader.names(fields["uses"], f"`uses` of {name}") if fields.has("uses") else None
        )
        found: list[ReservationUse] = []
        for unit in inner or ():
            block_node = inner[unit]  # type: ignore[index]
            if units is not None and unit not in units:
                span = inner.key_span(unit)  # type: ignore[union-attr]
                text = f"no unit `{unit}` is declared"
                self.reader.error("TTN513", text, span, helps=suggestion(unit, units))
            for block in getattr(block_node, "items", None) or (block_node,):
                use = self.use(name, unit, block)
                if use is not None:
                    found.append(use)
        return tuple(found)

    def use(self, name: str, unit: str, node: Node) -> ReservationUse | None:
        """A number of cycles, or `{cycles, amount, from}`."""
        what = f"the cycles of {unit} in {name}"
        if not isinstance(node, Mapping):
            if below(self.reader, node, 1, "TTN514", what):
                return None
            cycles = self.reader.integer(node, minimum=1, maximum=CYCLES_MAX, what=what)
            return None if cycles is None else ReservationUse(unit, cycles)
        fields = self.reader.mapping(
            node, required=("cycles",), optional=("amount", "from"), what=f"a use of {unit}"
        )
        leasts = (("cycles", 1, what), ("amount", 1, "`amount`"), ("from", 0, "`from`"))
        if fields is None or self.any_below(fields, leasts, "TTN514"):
            return None
        cycles = self.number(fields, "cycles", 1, CYCLES_MAX, what)
        amount = self.number(fields, "amount", 1, AMOUNT_MAX, default=1)
        first = self.number(fields, "from", 0, CYCLES_MAX, default=0)
        if cycles is None or amount is None or first is None:
            return None
        return ReservationUse(unit, cycles, amount, first)

    def read_dependences(self, node: Node) -> tuple[Dependence, ...]:
        items = self.reader.sequence(node, what="the dependences", at_most=20 * OPERATIONS_MAX)
        found = (self.dependence(item) for item in items or ())
        return tuple(e for e in found if e is not None)

    def dependence(self, node: Node) -> Dependence | None:
        reader = self.reader
        fields = reader.mapping(
            node,
            required=("from", "to"),
            optional=("delay", "distance", "kind", "blocking", "hold"),
            what="a dependence",
        )
        if fields is None:
            return None
        ends = []
        for key in ("from", "to"):
            text = reader.identifier(fields[key], f"`{key}`") if fields.has(key) else None
            if text is None:
                return None
            if text not in self.names:
                reader.undeclared(text, fields[key].span, self.names, "operation")
                return None
            ends.append(self.names[text])
        leasts = (("delay", 0, "the delay"), ("distance", 0, "the distance"), ("hold", 0, "`hold`"))
        if self.any_below(fields, leasts, "TTN511"):
            return None
        delay = self.number(
            fields,
            "delay",
            0,
            CYCLES_MAX,
            "the delay",
            default=self.operations[ends[0]].latency_cycles,
        )
        distance = self.number(fields, "distance", 0, DISTANCE_MAX, "the distance", default=0)
        kind: str | None = DATA
        if fields.has("kind"):
            kind = reader.choice(fields["kind"], (DATA, ORDER), "the kind of a dependence")
        hold = self.number(fields, "hold", 0, CYCLES_MAX, default=0)
        if delay is None or distance is None or kind is None or hold is None:
            return None
        blocking = self.flag(fields, "blocking")
        if ends[0] == ends[1] and distance == 0:
            name = self.operations[ends[0]].name
            return reader.error(
                "TTN512", f"`{name}` depends on itself in the same iteration", fields.span
            )
        return Dependence(ends[0], ends[1], delay, distance, kind, blocking, hold)

    def meaning(self, loop: Loop, top: Fields) -> None:
        """Faults of a well-formed file: what no initiation interval can satisfy."""
        reader = self.reader
        total = sum(op.cycles + op.spill_cycles for op in loop.operations)
        total += sum(e.delay_cycles + e.hold_cycles for e in loop.dependences)
        if total > TOTAL_CYCLES_MAX:
            text = f"the cycles of the loop sum to {total}, at most {TOTAL_CYCLES_MAX} are accepted"
            helps = ("give all numbers in a coarser unit of time",)
            reader.error("TTN003", text, top["operations"].span, helps=helps)
            return
        try:
            longest_paths(loop)
        except Unschedulable as error:
            first = self.spans[error.witness[0]]
            text = f"dependences of distance 0 form a cycle through {listed(error.witness[:5])}"
            reader.error("TTN512", text, first)
        for bound in (resource_bound, density_bound, storage_bound):
            try:
                bound(loop)
            except Unschedulable as error:
                reader.error("TTN514", str(error), self.spans.get(error.witness[0], top.span))
        for pool in loop.pools:
            weights = dict(pool.members)
            for operation in loop.operations:
                most = max((weights.get(u.unit, 0) * u.amount for u in operation.uses), default=0)
                if most > pool.amount:
                    text = f"`{operation.name}` takes {most} of pool {pool.name}, which has "
                    reader.error("TTN514", f"{text}{pool.amount}", self.spans[operation.name])
        self.warps(loop, top)

    def warps(self, loop: Loop, top: Fields) -> None:
        reader = self.reader
        at = top["warps"].span if top.has("warps") else top.span
        if not loop.has_teams:
            return
        target, groups = loop.machine, loop.groups
        if sum(group.warps for group in groups) > target.warps_max:
            reader.error("TTN009", f"the groups have more than {target.warps_max} warps", at)
        total = sum(loop.team_words(i) or 0 for i in range(len(groups)))
        if total > target.registers_total:
            text = f"the groups take {total} registers, {target.name} has {target.registers_total}"
            reader.error("TTN406", text, at)
        for operation in loop.operations:
            if not any(_may_run(operation, group, groups) for group in groups):
                text = f"no warp group can run `{operation.name}`"
                reader.error("TTN517", text, self.spans[operation.name])


def _may_run(operation: Operation, group: WarpGroup, groups: tuple[WarpGroup, ...]) -> bool:
    special = any(g.variable_latency for g in groups)
    wrong = special and operation.variable_latency != group.variable_latency
    return group.warps >= operation.warps and not wrong
