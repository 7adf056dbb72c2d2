"""The dependence graph of the main loop of a TTGIR kernel: what Twill schedules.

The main loop is the innermost `scf.for` with most products (else with most loads); where a module
is split into partitions, those of all partitions are one loop. Operations are those on tensors and
on memory. What only names or reshapes a value (views, broadcasts, waits that hand values on) is
passed through, scalars and barriers are left out.

Dependences: by values in the same iteration; through `iter_args` of the next one. Through memory:
a buffer that only copies fill is a ring, its readers need the copy of their own iteration, however
far ahead the file has moved it, and a copy waits for the readers as many iterations before as the
ring has stages. Any other buffer is read and written in the order of the file; what comes before
its writer there reads what the iteration before has written.

Not followed, and refused with a place: control flow inside of the loop that holds operations on
tensors, operations whose cost is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from titan.codegen.tile.rates import known_targets, rates
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Source, Span
from titan.frontends.graph.cost import COPIES, PRODUCTS, STORES, Costs, GraphCostError
from titan.frontends.graph.shapes import shapes
from titan.frontends.ttgir.model import Block, TtgirFunction, TtgirModule, TtgirOperation
from titan.frontends.ttgir.parse import parse_ttgir
from titan.scheduling.loop.bounds import Unschedulable, longest_paths
from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, Operation
from titan.target.load import TargetRefused
from titan.target.load import machine as known_machine
from titan.target.model import Machine, WarpGroup

STAGES = 3  # of a ring that the file does not have yet
TARGETS = {"90": "sm_90a", "100": "sm_100a"}
PASSED = (
    "tt.broadcast", "tt.expand_dims", "tt.splat", "tt.reshape", "tt.trans", "tt.unsplat",
    "ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_subview", "ttg.memdesc_trans",
    "ttg.memdesc_reshape", "ttg.memdesc_reinterpret", "ttng.tmem_subslice",
    "ttng.warp_group_dot_wait", "ttg.async_commit_group", "ttg.async_wait",
)  # fmt: skip
QUIET = ("arith.constant", "tt.make_range", "scf.yield", "ttg.local_dealloc")
WRITERS = ("ttg.local_store", "ttng.tmem_store", *COPIES)
_ITER = re.compile(r"iter_args\(([^)]*)\)")
_INIT = re.compile(r"(%[\w$.-]+(?:#\d+)?)\s*=\s*(%[\w$.-]+(?:#\d+)?)")
_GIVEN = re.compile(r"%[\w$.-]+(?:#\d+)?")


@dataclass(slots=True)
class _Access:
    """One operation on a buffer."""

    operation: int
    writes: bool
    copies: bool


@dataclass(slots=True)
class _Buffer:
    stages: int = 1
    accesses: list[_Access] = field(default_factory=list)


# What a value is: operations it comes from, each with the iterations in between, and its buffer.
Origins = dict[int, int]


@dataclass(slots=True)
class _Graph:
    costs: Costs
    errors: list[Diagnostic] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    awaited: list[bool] = field(default_factory=list)
    edges: dict[tuple[int, int, int, str], Dependence] = field(default_factory=dict)
    origins: dict[str, Origins] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, _Buffer] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def name(self, operation: TtgirOperation) -> str:
        """A name that is free, from the result or from the word of the operation."""
        first = operation.results[0] if operation.results else operation.name.split(".")[-1]
        text = re.sub(r"[^A-Za-z0-9_]", "_", first.lstrip("%").split("#")[0])
        text = text if text[:1].isalpha() else f"v{text}"
        found, number = text, 1
        while found in self.names:
            number += 1
            found = f"{text}_{number}"
        self.names.add(found)
        return found

    def add(self, operation: TtgirOperation) -> int | None:
        """A new operation of the loop; None where its cost is not known, which is reported."""
        try:
            made = self.costs.of(self.name(operation), operation)
        except GraphCostError as error:
            text = f"`{operation.name}` of the loop is not supported: {error}"
            self.errors.append(diagnostic("TTN010", text, operation.span))
            return None
        self.operations.append(made)
        self.awaited.append(operation.name in (*PRODUCTS, *COPIES))
        return len(self.operations) - 1

    def edge(self, source: int, sink: int, distance: int, kind: str = DATA) -> None:
        """One dependence; of several the one with the shortest distance is kept."""
        if source == sink and distance == 0:
            return
        first = self.operations[source]
        streams = first.streaming and kind == DATA
        busy = kind == ORDER or source == sink  # products add to what they made one after the other
        delay = 0 if streams else first.cycles if busy else first.latency_cycles
        blocking = self.awaited[source] and kind == DATA
        made = Dependence(source, sink, delay, distance, kind, blocking)
        self.edges.setdefault((source, sink, distance, kind), made)

    def from_values(self, sink: int, operands: tuple[str, ...]) -> None:
        """What the operands come from."""
        for operand in operands:
            for source, distance in self.origins.get(operand, {}).items():
                self.edge(source, sink, distance)

    def touch(self, operation: TtgirOperation, at: int) -> None:
        """Reads and writes of buffers."""
        for place, operand in enumerate(operation.operands):
            buffer = self.buffers.get(self.roots.get(operand, ""))
            if buffer is None:  # no memory, or the barriers
                continue
            copies = operation.name in COPIES
            product = operation.name.startswith("ttng.tc_gen5")
            writes = operation.name in WRITERS or (product and place == 2)
            if product and place == 2:
                buffer.accesses.append(_Access(at, False, False))
            buffer.accesses.append(_Access(at, writes, copies))

    def by_buffers(self) -> None:
        """Dependences through memory."""
        for buffer in self.buffers.values():
            writers = [one for one in buffer.accesses if one.writes]
            ring = bool(writers) and all(one.copies for one in writers)
            for writer in writers:
                for number, other in enumerate(buffer.accesses):
                    if other.writes:
                        continue
                    before = number < buffer.accesses.index(writer)
                    if ring:
                        self.edge(writer.operation, other.operation, 0)
                        self.edge(other.operation, writer.operation, buffer.stages, ORDER)
                    elif before:
                        self.edge(writer.operation, other.operation, 1)
                        self.edge(other.operation, writer.operation, 0, ORDER)
                    else:
                        self.edge(writer.operation, other.operation, 0)
                        self.edge(other.operation, writer.operation, 1, ORDER)
                if ring:
                    at = writer.operation
                    self.operations[at] = replace(self.operations[at], slots=buffer.stages)


def load_ttgir(path: str, entry: str | None = None) -> Loop:
    """The loop of a kernel in a TTGIR file. Raises TargetRefused with what is not followed."""
    from titan.foundation.source.loading import load_file

    source, errors = load_file(path, 4 << 20)
    if source is None:
        raise TargetRefused(errors)
    return loop_of(source, entry)


def loop_of(source: Source, entry: str | None = None) -> Loop:
    """The loop of a kernel in a text of TTGIR. Raises TargetRefused."""
    module, errors = parse_ttgir(source)
    if module is None or errors:
        raise TargetRefused(errors)
    function = _function(module, entry)
    found = _loops(function.body) if function is not None else []
    if function is None or not found:
        at = Span(source.path, 1, 1, 1, 1, source) if function is None else function.span
        text = "no kernel of that name is in the file" if function is None else "it has no loop"
        raise TargetRefused([diagnostic("TTN010", text, at)])
    name = re.sub(r"\W", "_", function.name)
    return _build(name, module, function, found)


def _function(module: TtgirModule, entry: str | None) -> TtgirFunction | None:
    fitting = [f for f in module.functions if entry is None or f.name == entry]
    return fitting[0] if fitting else None


def _weight(block: Block) -> tuple[int, int]:
    """Products and loads of a block, in nested regions too."""
    products = sum(one.name in PRODUCTS for one in block.operations)
    loads = sum(one.name in COPIES for one in block.operations)
    for one in block.operations:
        for region in one.regions:
            more = _weight(region)
            products, loads = products + more[0], loads + more[1]
    return products, loads


def _loops(body: Block) -> list[TtgirOperation]:
    """The main loop; one of every partition where the kernel is split into partitions."""
    for operation in body.operations:
        if operation.name == "ttg.warp_specialize":
            parts = [found for region in operation.regions for found in _loops(region)[:1]]
            return parts
    best: list[TtgirOperation] = []
    for operation in body.operations:
        inner = [found for region in operation.regions for found in _loops(region)]
        here = [operation] if operation.name == "scf.for" and not inner else inner[:1]
        if here and (not best or _weight(here[0].regions[0]) > _weight(best[0].regions[0])):
            best = here
    return best


def _build(
    name: str, module: TtgirModule, function: TtgirFunction, loops: list[TtgirOperation]
) -> Loop:
    word = module.attributes.get("ttg.target", "").strip('" ').rpartition(":")[2]
    target = TARGETS.get(word, word if word in known_targets() else "")
    if not target:
        text = f"the module is for {word or 'no target'}, whose rates are not known"
        raise TargetRefused([diagnostic("TTN010", text, function.span)])
    machine = known_machine(target)
    warps = module.integer("ttg.num-warps", 4)
    stages = max([one.integer("tt.num_stages", 0) for one in loops] + [0]) or STAGES
    graph = _Graph(Costs(machine, rates(target), warps, stages))
    _memory(function.body, graph, {})
    for loop in loops:
        _body(loop, graph)
    graph.by_buffers()
    groups = groups_for(machine, warps)
    edges = tuple(graph.edges.values())
    made = Loop(name, machine, tuple(graph.operations), edges, groups)
    if not graph.errors and not made.operations:
        text = "the loop has no operation on tensors"
        graph.errors.append(diagnostic("TTN010", text, loops[0].span))
    try:
        longest_paths(made)
    except Unschedulable as error:
        text = f"operations of one iteration need each other: {', '.join(error.witness[:5])}"
        helps = ("give the TTGIR from before Triton's partitions and pipelines",)
        graph.errors.append(diagnostic("TTN010", text, loops[0].span, helps=helps))
    if graph.errors:
        raise TargetRefused(graph.errors)
    return made


def groups_for(machine: Machine, warps: int) -> tuple[WarpGroup, ...]:
    """The groups of the machine; one larger group if operations take more warps."""
    wide = [group for group in machine.groups if group.registers_per_thread is not None]
    if not wide or any(group.warps >= warps for group in wide):
        return machine.groups
    threads = warps * machine.threads_per_warp
    registers = min(machine.registers_per_thread_max, machine.registers_total // threads) // 8 * 8
    kept = tuple(group for group in machine.groups if group.registers_per_thread is None)
    return (*kept, WarpGroup("consumer", warps, registers - 8))


def _memory(body: Block, graph: _Graph, views: dict[str, str]) -> None:
    """Buffers that the function allocates, and their names within partitions."""
    for operation in body.operations:
        if operation.name in ("ttg.local_alloc", "ttng.tmem_alloc") and operation.results:
            root = operation.results[0]
            types = shapes(operation.types)
            graph.roots[root] = root
            if types:
                graph.buffers[root] = _Buffer(types[-1].shape[0] if len(types[-1].shape) > 2 else 1)
        elif operation.name in PASSED and operation.results and operation.operands:
            _alias(graph, operation)
        elif operation.name == "ttg.warp_specialize":
            for region in operation.regions:
                pairs = zip(region.arguments, operation.operands, strict=False)
                inner = {argument: operand for (argument, _), operand in pairs}
                for argument, operand in inner.items():
                    if operand in graph.roots:
                        graph.roots[argument] = graph.roots[operand]
                    else:
                        graph.roots.pop(argument, None)
                _memory(region, graph, views)


def _alias(graph: _Graph, operation: TtgirOperation) -> None:
    """Results are what the operands are."""
    for number, result in enumerate(operation.results):
        of = operation.operands[min(number, len(operation.operands) - 1)]
        if of in graph.roots:
            graph.roots[result] = graph.roots[of]
        graph.origins[result] = dict(graph.origins.get(of, {}))


def _body(loop: TtgirOperation, graph: _Graph) -> None:
    """Operations of one loop, then what its `iter_args` carry to the next iteration."""
    block = loop.regions[0]
    found = _ITER.search(loop.header)
    carried = _INIT.findall(found[1]) if found is not None else []
    for argument, initial in carried:
        graph.origins[argument] = {}
        if initial in graph.roots:
            graph.roots[argument] = graph.roots[initial]
    uses: list[tuple[int, str]] = []
    for operation in block.operations:
        _one(operation, graph, uses, {argument for argument, _ in carried})
    last = block.operations[-1] if block.operations else None
    given = last.operands if last is not None and last.name == "scf.yield" else ()
    next_of = {argument: value for (argument, _), value in zip(carried, given, strict=False)}
    for sink, argument in uses:
        value, distance = next_of.get(argument, ""), 1
        while value in next_of and distance <= len(next_of):
            value, distance = next_of[value], distance + 1
        for source, further in graph.origins.get(value, {}).items():
            graph.edge(source, sink, distance + further)


def _one(
    operation: TtgirOperation, graph: _Graph, uses: list[tuple[int, str]], carried: set[str]
) -> None:
    name = operation.name
    if name in PASSED and operation.results:
        _alias(graph, operation)
        if operation.operands and operation.operands[0] in carried:
            graph.origins[operation.results[0]] = {}
        return
    if name.startswith("scf.") and name != "scf.yield":
        if any(_weight(region) != (0, 0) for region in operation.regions):
            text = "control flow inside of the loop holds operations on tensors"
            graph.errors.append(diagnostic("TTN010", text, operation.span))
        return
    counted = name in (*COPIES, *PRODUCTS, *STORES) or bool(shapes(operation.types))
    if not counted or name in QUIET or not operation.operands or name == "ttng.tmem_alloc":
        return
    if name == "ttg.local_alloc" and _loaded(graph, operation):
        graph.origins[operation.results[0]] = dict(graph.origins[operation.operands[0]])
        return
    if not _counts(operation):
        return
    at = graph.add(operation)
    if at is None:
        return
    graph.from_values(at, operation.operands)
    graph.touch(operation, at)
    uses.extend((at, operand) for operand in operation.operands if operand in carried)
    for result in operation.results:
        graph.origins[result] = {at: 0}


def _loaded(graph: _Graph, operation: TtgirOperation) -> bool:
    """Whether what is put into shared memory comes from a copy engine, which puts it there."""
    sources = graph.origins.get(operation.operands[0], {})
    return bool(sources) and all(graph.operations[v].streaming for v in sources)


def _counts(operation: TtgirOperation) -> bool:
    """Barriers and fences name views of memory and are no operations of the loop."""
    if operation.name.startswith(("ttng.", "ttg.")):
        kinds = ("ttng.tmem_load", "ttng.tmem_store", "ttg.local_load", "ttg.local_store",
                 "ttg.local_alloc", "ttg.convert_layout")  # fmt: skip
        return operation.name in (*kinds, *COPIES, *PRODUCTS, *STORES)
    return True


__all__ = ["groups_for", "load_ttgir", "loop_of"]
