"""Compile a sync program into the flat tables that the native explorer executes.

Control flow becomes a graph of nodes per role, expressions become bytecode, memory becomes cells:
units of a storage that every effect of the program treats alike are one cell. Ghost state that no
rule of this program can ever look at is not stored: marks of generic accesses only for cells that
an asynchronous operation reaches, tensor map states only for cells used by that proxy, contents
only where a read names a tile, phase counts only where a wait names a phase.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from titan.engines.explore.expressions import RoleScope, compile_expression
from titan.engines.explore.known import number_events
from titan.engines.explore.layout import BarrierWord, NamedWord, NativeNodeKind, NodeFlag
from titan.engines.explore.loops import separate_loops
from titan.engines.explore.marks import lay_out_marks, number_domains, reaches
from titan.engines.explore.tables import (
    AGENTS_MAX,
    CTAS_MAX,
    EFFECTS_MAX,
    FENCES,
    FLIGHT_WORDS_MAX,
    LEVEL_LIMIT,
    PROXIES,
    REGIONS_MAX,
    VARIABLES_MAX,
    WINDOW,
    Flat,
    FlatNode,
    TooLargeError,
)
from titan.sync import program as ir
from titan.sync.expression import ONE, Binary, Expression, Name, names_of
from titan.sync.interpreter import UNDEFINED, Sizes, agents_of
from titan.sync.parts import peer_commits, queue_of
from titan.sync.reductions import Reduction, commute, reduction_of
from titan.sync.weak import quiet_operations


def flatten(program: ir.SyncProgram, sizes: Sizes | None = None) -> Flat:
    """Compile. Parameters without a size stay open: the search decides them as it goes.

    Raises TooLargeError and UnknownNameError.
    """
    given = dict(sizes or {})
    fixed = {item.name: given.get(item.name, item.value) for item in program.parameters}
    known = {name: size for name, size in fixed.items() if size is not None}
    numbers = {name: size for name, size in known.items() if isinstance(size, int)}
    seen = program if len(known) == len(fixed) else separate_loops(program, numbers)
    flat = Flat(seen, agents_of(seen), program.parameters, source=program, sizes=known)
    _check_room(flat)
    _Compiler(flat).run()
    return flat


def _check_room(flat: Flat) -> None:
    program = flat.program
    if len(flat.agents) > AGENTS_MAX:
        raise TooLargeError(f"more than {AGENTS_MAX} agents")
    ctas = [role.cta for role in program.roles] + [buffer.cta for buffer in program.buffers]
    ctas += [barrier.cta for barrier in program.barriers]
    if not all(0 <= cta < CTAS_MAX for cta in ctas):
        raise TooLargeError(f"a CTA numbered beyond {CTAS_MAX - 1}")
    regions = sum(buffer.stages * buffer.parts for buffer in program.buffers)
    barriers = sum(barrier.stages for barrier in program.barriers)
    barriers += sum(barrier.stages for barrier in program.named_barriers)
    if max(regions, barriers) > REGIONS_MAX:
        raise TooLargeError(f"more than {REGIONS_MAX} regions of memory or barriers")


def role_variables(role: ir.Role) -> dict[str, int]:
    """Variables of the role by place, in the order of the interpreter."""
    names = [name for name, _ in role.variables]
    for operation in ir.walk(role.body):
        if isinstance(operation, ir.Loop | ir.Assign):
            names.append(operation.variable)
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


class _Compiler:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.program = flat.program
        self.buffer_number = {buffer.name: n for n, buffer in enumerate(self.program.buffers)}
        self.queue_number = {queue.name: n for n, queue in enumerate(self.program.queues)}
        self.pool_number = {pool.name: n for n, pool in enumerate(self.program.pools)}
        self.operations = [op for role in self.program.roles for op in ir.walk(role.body)]
        waits = [op for op in self.operations if isinstance(op, ir.BarrierWait)]
        self.awaited = {op.barrier.name for op in waits}
        self.quiet = quiet_operations(self.program)
        self.code_of: dict[tuple[int, Expression], int] = {}
        self.reductions: dict[Reduction, int] = {}
        self.scope: RoleScope
        self.role = 0

    def run(self) -> None:
        self._arrays()
        self._memory()
        number_events(self.flat)
        number_domains(self.flat)
        self._fixed_words()
        for number, role in enumerate(self.program.roles):
            self.role = number
            names = role_variables(role)
            if len(names) > VARIABLES_MAX:
                raise TooLargeError(f"role {role.name} has more than {VARIABLES_MAX} variables")
            self.flat.variables.append(names)
            self.scope = self._scope(role, names)
            end = self._node(FlatNode(NativeNodeKind.END))
            self.flat.entries.append(self._block(role.body, end))
            self._liveness(end)
            self.flat.outer.append([names.get(p.per or "", -1) for p in self.flat.parameters])
            used = {queue_of(op) for op in ir.walk(role.body)}
            self.flat.role_queue += [int(queue.name in used) for queue in self.program.queues]
            alike = role.agents > 1 and not self._distinguishes(role)
            self.flat.symmetric.append(alike and not self.flat.one_way)
        if self.flat.flight_words > FLIGHT_WORDS_MAX:
            raise TooLargeError("an operation with too many effects")

    def _scope(self, role: ir.Role, names: dict[str, int]) -> RoleScope:
        flat = self.flat
        numbers = {name: size for name, size in flat.sizes.items() if isinstance(size, int)}
        open_names = {
            parameter.name: number
            for number, parameter in enumerate(flat.parameters)
            if parameter.name not in numbers
        }
        outer = {
            parameter.name: names.get(parameter.per or "", -1) for parameter in flat.parameters
        }
        return RoleScope(names, role.agent_constant, numbers, open_names, outer)

    @staticmethod
    def _distinguishes(role: ir.Role) -> bool:
        """Whether the role's code mentions which of its agents runs it."""
        return any(
            role.agent_constant in names_of(expression)
            for operation in ir.walk(role.body)
            for expression in expressions_of(operation)
        )

    # ------------------------------------------------------------------ arrays and memory

    def _arrays(self) -> None:
        flat = self.flat
        phased = {
            op.barrier.name
            for op in self.operations
            if isinstance(op, ir.Wait) and op.phase is not None
        }
        watched = peer_commits(self.program)
        for barrier in self.program.barriers:
            flat.barrier_first[barrier.name] = len(flat.barriers)
            flags = [barrier.cta, int(barrier.name in phased), int(barrier.name in watched)]
            flat.barriers += [flags for _ in range(barrier.stages)]
        for named in self.program.named_barriers:
            flat.named_first[named.name] = flat.named_count
            flat.named_count += named.stages
        for parameter in flat.parameters:
            size = flat.sizes.get(parameter.name)
            table = len(flat.per_sizes)
            if isinstance(size, tuple):
                flat.per_sizes += list(size)
            length = len(size) if isinstance(size, tuple) else 0
            fixed = int(isinstance(size, int))
            per = int(parameter.per is not None and not fixed)  # one number for all has no window
            row = [per, 0, parameter.minimum, table, length, LEVEL_LIMIT, fixed, -1]
            flat.parameter_rows.append(row)

    def _memory(self) -> None:
        """Cut every storage at all boundaries of regions; what lies between two is one cell."""
        flat = self.flat
        parted = {
            effect.buffer
            for op in self.operations
            if isinstance(op, ir.Access | ir.Asynchronous)
            for effect in op.effects
            if effect.part is not None
        }
        cuts: dict[str, set[int]] = {}
        for buffer in self.program.buffers:
            parts = buffer.parts if buffer.name in parted else 1
            step = buffer.units * (buffer.parts // parts)
            steps = range(buffer.offset, buffer.offset + step * parts * buffer.stages + 1, step)
            cuts.setdefault(buffer.storage or buffer.name, set()).update(steps)
        starts: dict[str, tuple[int, list[int]]] = {}
        for storage, edges in cuts.items():
            starts[storage] = (len(flat.cells), sorted(edges))
            flat.cells += [[-1, 0, 0, 0, 0] for _ in range(max(0, len(edges) - 1))]
            flat.cell_buffers += [set() for _ in range(max(0, len(edges) - 1))]
        for buffer in self.program.buffers:
            parts = buffer.parts if buffer.name in parted else 1
            step = buffer.units * (buffer.parts // parts)
            first, places = starts[buffer.storage or buffer.name]
            # Global memory outlives every CTA; a CTA without agents never ends.
            home = -1 if buffer.space is ir.Space.GLOBAL else buffer.cta
            flat.buffers.append([buffer.stages, parts, home, len(flat.regions)])
            for region in range(buffer.stages * parts):
                low = buffer.offset + region * step
                begin, end = (first + bisect_left(places, u) for u in (low, low + step))
                flat.regions.append([begin, end])
                for cell in range(begin, end):
                    flat.cell_buffers[cell].add(buffer.name)
        self._cell_flags(starts)

    def _cell_flags(self, starts: dict[str, tuple[int, list[int]]]) -> None:
        flat = self.flat
        effects = [
            effect
            for op in self.operations
            if isinstance(op, ir.Access | ir.Asynchronous)
            for effect in op.effects
        ]
        war = self.program.policies.war_fence
        engines = {effect.buffer for effect in effects if effect.proxy is ir.Proxy.ASYNC}
        stores = {
            effect.buffer for effect in effects if effect.proxy is ir.Proxy.ASYNC and effect.write
        }
        maps = {effect.buffer for effect in effects if effect.proxy is ir.Proxy.TENSORMAP}
        named = {
            effect.buffer
            for effect in effects
            if effect.tile is not None and (not effect.write or effect.reduction)
        }
        for row, owners in zip(flat.cells, flat.cell_buffers, strict=True):
            row[1] = int(bool(owners & engines))
            row[2] = int(war and bool(owners & stores))
            row[3] = int(bool(owners & maps))
            row[4] = int(bool(owners & named))
        homes: dict[str, int] = {}
        for buffer in self.program.buffers:
            if buffer.space is not ir.Space.GLOBAL:
                homes[buffer.storage or buffer.name] = buffer.cta
        for storage, (first, places) in starts.items():
            for cell in range(first, first + len(places) - 1):
                flat.cells[cell][0] = homes.get(storage, -1)

    def _fixed_words(self) -> None:
        flat, words, live = self.flat, self.flat.initial, self.flat.live
        for parameter, row in zip(flat.parameters, flat.parameter_rows, strict=True):
            row[1] = len(words)
            if parameter.name in flat.sizes:
                continue
            count = 2 if parameter.per is None else 1 + 2 * WINDOW
            live += range(len(words), len(words) + count)
            pairs = [parameter.minimum, 0] * (count // 2)
            words += pairs if parameter.per is None else [0, *pairs]
        flat.offsets["barriers"] = len(words)
        self._barrier_words()
        flat.offsets["named"] = len(words)
        for barrier in self.program.named_barriers:
            for _ in range(barrier.stages):
                stored = NamedWord.WORDS if flat.follows else NamedWord.ARMED
                live += range(len(words), len(words) + stored)
                flat.masks += [len(words) + NamedWord.AGENTS, len(words) + NamedWord.SYNCS]
                if barrier.name in self.awaited:
                    flat.masks.append(len(words) + NamedWord.ARMED)
                    if not flat.follows:
                        live.append(len(words) + NamedWord.ARMED)
                words += [0] * NamedWord.WORDS
        flat.offsets["cells"] = len(words)
        for row, tile in zip(flat.cells, self._initial_tiles(), strict=True):
            base = len(words)
            live += [base + i for i, kept in enumerate((row[4], row[1], row[2], row[3])) if kept]
            flat.masks += [base + i for i in (1, 2, 3) if row[i]]
            words += [tile, 0, 0, 0]
        lay_out_marks(flat)
        flat.offsets["pools"] = len(words)
        live += range(len(words), len(words) + len(self.program.pools))
        words += [pool.available for pool in self.program.pools]
        flat.offsets["known"] = len(words)
        if flat.follows:
            count = 1 + len(flat.agents) * (1 + len(self.program.queues))
            live += range(len(words), len(words) + count)
            words += [0] * count

    def _barrier_words(self) -> None:
        flat = self.flat
        changed = {
            op.barrier.name for op in self.operations if isinstance(op, ir.Init | ir.Invalidate)
        }
        dropped = {
            op.barrier.name for op in self.operations if isinstance(op, ir.Arrive) and op.drop
        }
        tokens = {
            op.barrier.name for op in self.operations if isinstance(op, ir.Arrive) and op.token
        }
        for barrier in self.program.barriers:
            for _ in range(barrier.stages):
                base = len(flat.initial)
                lifecycle = barrier.name in changed or not barrier.initialised
                if lifecycle:
                    flat.live += [base, base + 1]
                if lifecycle or barrier.name in dropped:
                    flat.live.append(base + 2)
                flat.live += [base + 3, base + 4, base + 5, base + 7]
                if barrier.name in tokens:
                    flat.live += [base + 6, base + BarrierWord.ARMED]
                    flat.masks += [base + 6, base + BarrierWord.ARMED]
                if flat.follows:
                    flat.live += [base + 8, base + 9]
                status = 2 if barrier.initialised else 0
                flat.initial += [status, -1, barrier.count, barrier.count, 0, 0, 0, 1, 0, 0, 0]

    def _initial_tiles(self) -> list[int]:
        tiles: list[int | None] = [None] * len(self.flat.cells)
        for number, buffer in enumerate(self.program.buffers):
            stages, parts, _, first = self.flat.buffers[number]
            for low, high in self.flat.regions[first : first + stages * parts]:
                for cell in range(low, high):
                    if tiles[cell] is None or buffer.initial is not None:
                        tiles[cell] = UNDEFINED if buffer.initial is None else buffer.initial
        return [UNDEFINED if tile is None else tile for tile in tiles]

    # ---------------------------------------------------------------------- control flow

    def _node(self, node: FlatNode) -> int:
        node.role = self.role
        self.flat.nodes.append(node)
        return len(self.flat.nodes) - 1

    def _code(self, expression: Expression) -> int:
        key = (self.role, expression)
        if key not in self.code_of:
            code = compile_expression(expression, self.scope)
            self.code_of[key] = len(self.flat.code)
            self.flat.code += code
        return self.code_of[key]

    def _block(self, block: ir.Block, following: int) -> int:
        for operation in reversed(block):
            following = self._operation(operation, following)
        return following

    def _operation(self, operation: ir.Operation, following: int) -> int:
        variables = self.flat.variables[self.role]
        match operation:
            case ir.Loop(variable=variable, start=start, stop=stop, body=body):
                name = Name(variable)
                test = self._node(FlatNode(NativeNodeKind.TEST, alt=following))
                node = self.flat.nodes[test]
                condition = Binary("<", name, stop)
                node.a, node.uses = self._code(condition), names_of(condition)
                step = self._assign(variables[variable], Binary("+", name, ONE), test)
                node.next = self._block(body, step)
                return self._assign(variables[variable], start, test)
            case ir.Branch(condition=condition, then=then, otherwise=otherwise):
                node = FlatNode(
                    NativeNodeKind.TEST, a=self._code(condition), uses=names_of(condition)
                )
                node.next, node.alt = (self._block(arm, following) for arm in (then, otherwise))
                return self._node(node)
            case ir.Assign(variable=variable, value=value):
                return self._assign(variables[variable], value, following)
        node = self._plain(operation)
        node.flags |= NodeFlag.QUIET * (id(operation) in self.quiet)
        node.operation = operation
        node.next = following
        node.uses = frozenset().union(*(names_of(e) for e in expressions_of(operation)))
        return self._node(node)

    def _assign(self, variable: int, value: Expression, following: int) -> int:
        node = FlatNode(NativeNodeKind.ASSIGN, following, a=self._code(value), x=variable)
        node.uses, node.value = names_of(value), value
        return self._node(node)

    def _array(self, node: FlatNode, reference: ir.Reference, named: bool = False) -> FlatNode:
        table = self.program.named_barriers if named else self.program.barriers
        first = self.flat.named_first if named else self.flat.barrier_first
        declared = next((entry for entry in table if entry.name == reference.name), None)
        node.x = first.get(reference.name, 0)
        node.y = declared.stages if declared is not None else 0
        node.a = self._code(reference.index)
        return node

    def _plain(self, operation: ir.Operation) -> FlatNode:
        code = self._code
        match operation:
            case ir.Access(effects=effects):
                return self._effects(
                    FlatNode(NativeNodeKind.ACCESS, x=len(self.program.queues)), effects
                )
            case ir.Asynchronous():
                return self._issue(operation)
            case ir.Commit(queue=queue):
                return FlatNode(NativeNodeKind.COMMIT, x=self.queue_number[queue])
            case ir.QueueWait(queue=queue, pending=pending, until=until):
                flags = NodeFlag.READ if until is ir.Until.READ else 0
                number = self.queue_number[queue]
                return FlatNode(NativeNodeKind.QUEUE_WAIT, a=code(pending), x=number, flags=flags)
            case ir.QueueArrive(queue=queue, barrier=reference, count=count):
                node = self._array(FlatNode(NativeNodeKind.QUEUE_ARRIVE, b=code(count)), reference)
                # The queue stands where issues have it; the first barrier in `chunks`.
                node.chunks, node.x = node.x, self.queue_number[queue]
                node.completions = 1
                return node
            case ir.Init(barrier=reference, count=count):
                return self._array(FlatNode(NativeNodeKind.INIT, b=code(count)), reference)
            case ir.Invalidate(barrier=reference):
                return self._array(FlatNode(NativeNodeKind.INVALIDATE), reference)
            case ir.Arrive(barrier=reference, count=count, transaction=size):
                flags = NodeFlag.DROP * operation.drop | NodeFlag.TOKEN * operation.token
                node = FlatNode(NativeNodeKind.ARRIVE, b=code(count), c=code(size), flags=flags)
                return self._array(node, reference)
            case ir.ExpectTransaction(barrier=reference, bytes=size):
                return self._array(FlatNode(NativeNodeKind.EXPECT, b=code(size)), reference)
            case ir.Wait(barrier=reference, parity=parity, phase=phase):
                meant = -1 if phase is None else code(phase)
                return self._array(
                    FlatNode(NativeNodeKind.WAIT, b=code(parity), c=meant), reference
                )
            case ir.TokenWait(barrier=reference):
                return self._array(FlatNode(NativeNodeKind.TOKEN_WAIT), reference)
            case ir.BarrierSync(barrier=reference, threads=threads):
                return self._array(
                    FlatNode(NativeNodeKind.NAMED_SYNC, b=code(threads)), reference, True
                )
            case ir.BarrierArrive(barrier=reference, threads=threads):
                flags = NodeFlag.TOKEN * (reference.name in self.awaited)
                node = FlatNode(NativeNodeKind.NAMED_ARRIVE, b=code(threads), flags=flags)
                return self._array(node, reference, True)
            case ir.BarrierWait(barrier=reference):
                return self._array(FlatNode(NativeNodeKind.NAMED_WAIT), reference, True)
            case ir.Fence():
                return self._fence(operation)
            case ir.PoolTake(pool=pool, amount=amount):
                return FlatNode(NativeNodeKind.TAKE, a=code(amount), x=self.pool_number[pool])
            case ir.PoolGive(pool=pool, amount=amount):
                return FlatNode(NativeNodeKind.GIVE, a=code(amount), x=self.pool_number[pool])
        raise TypeError(f"no semantics for {type(operation).__name__}")

    def _effects(self, node: FlatNode, effects: Iterable[ir.Effect]) -> FlatNode:
        node.effect = len(self.flat.effects)
        for effect in effects:
            # Parts that no effect names are not distinguished.
            part = -1 if effect.part is None else self._code(effect.part)
            tile = -1 if effect.tile is None else self._code(effect.tile)
            number, stage = self.buffer_number[effect.buffer], self._code(effect.stage)
            proxy = PROXIES[effect.proxy]
            kind = reduction_of(effect, self.program.roles[self.role].cta)
            # Negative: an operator that does not commute with itself.
            sign = 1 if commute(kind, kind) else -1
            reduction = (
                0
                if kind is None
                else sign * self.reductions.setdefault(kind, len(self.reductions) + 1)
            )
            kept = int(effect.write), tile, proxy, int(effect.accumulates), reduction
            self.flat.effects.append([number, stage, part, *kept])
        node.effects = len(self.flat.effects) - node.effect
        if node.effects > EFFECTS_MAX:
            raise TooLargeError(f"more than {EFFECTS_MAX} effects in one operation")
        return node

    def _issue(self, operation: ir.Asynchronous) -> FlatNode:
        free = len(self.program.queues)
        queue = free if operation.queue is None else self.queue_number[operation.queue]
        node = FlatNode(NativeNodeKind.ISSUE, x=queue, chunks=operation.chunks)
        self._effects(node, operation.effects)
        node.completion = len(self.flat.completions)
        for completion in operation.completes:
            reference = self._array(FlatNode(0), completion.barrier)
            size = self._code(completion.bytes)
            self.flat.completions.append([reference.x, reference.y, reference.a, size])
        node.completions = len(operation.completes)
        return node

    def _fence(self, operation: ir.Fence) -> FlatNode:
        node = FlatNode(
            NativeNodeKind.FENCE, x=FENCES[operation.kind], effect=len(self.flat.covers)
        )
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            return node
        role = self.program.roles[self.role]
        covered: dict[int, bool] = {}
        for number, buffer in enumerate(self.program.buffers):
            if not reaches(operation, buffer, role.cta):
                continue
            near = buffer.space is ir.Space.GLOBAL or buffer.cta == role.cta
            stages, parts, _, first = self.flat.buffers[number]
            for low, high in self.flat.regions[first : first + stages * parts]:
                for cell in range(low, high):
                    covered[cell] = near
        kept = [
            (cell, near)
            for cell, near in covered.items()
            if any(self.flat.cells[cell][1:4]) or self.flat.mark_fields
        ]
        self.flat.covers += [[cell, int(near)] for cell, near in kept]
        node.effects = len(kept)
        return node

    # -------------------------------------------------------------------------- liveness

    def _liveness(self, end: int) -> None:
        """Variables and windows of sizes that may still be read from a node on."""
        variables = self.flat.variables[self.role]
        windows = {
            parameter.name: number
            for number, parameter in enumerate(self.flat.parameters)
            if parameter.per is not None and parameter.name not in self.flat.sizes
        }
        outer = {parameter.name: parameter.per for parameter in self.flat.parameters}
        nodes = self.flat.nodes[end:]
        changed = True
        while changed:
            changed = False
            for node in nodes:
                after = [self.flat.nodes[to] for to in (node.next, node.alt) if to >= 0]
                live = reads = 0
                for other in after:
                    live |= other.live
                    reads |= other.reads
                if node.kind == NativeNodeKind.ASSIGN:
                    live &= ~(1 << node.x)
                for name in node.uses:
                    if name in windows:
                        reads |= 1 << windows[name]
                    inner = outer.get(name) if name in outer else name
                    if inner in variables:
                        live |= 1 << variables[inner]
                if (live, reads) != (node.live, node.reads):
                    node.live, node.reads = live, reads
                    changed = True


def expressions_of(operation: ir.Operation) -> list[Expression]:
    """Every expression of the operation itself, not of what is inside its blocks."""
    found: list[Expression | None] = []
    match operation:
        case ir.Access(effects=effects):
            found += _effect_expressions(effects)
        case ir.Asynchronous(effects=effects, completes=completes):
            found += _effect_expressions(effects)
            for completion in completes:
                found += [completion.barrier.index, completion.bytes]
        case ir.QueueWait(pending=pending):
            found.append(pending)
        case ir.QueueArrive(barrier=barrier, count=count) | ir.Init(barrier=barrier, count=count):
            found += [barrier.index, count]
        case ir.Arrive(barrier=barrier, count=count, transaction=size):
            found += [barrier.index, count, size]
        case ir.ExpectTransaction(barrier=barrier, bytes=size):
            found += [barrier.index, size]
        case ir.Wait(barrier=barrier, parity=parity, phase=phase):
            found += [barrier.index, parity, phase]
        case (
            ir.BarrierSync(barrier=barrier, threads=threads)
            | ir.BarrierArrive(barrier=barrier, threads=threads)
        ):
            found += [barrier.index, threads]
        case (
            ir.Invalidate(barrier=barrier)
            | ir.TokenWait(barrier=barrier)
            | ir.BarrierWait(barrier=barrier)
        ):
            found.append(barrier.index)
        case ir.PoolTake(amount=amount) | ir.PoolGive(amount=amount):
            found.append(amount)
        case ir.Assign(value=value):
            found.append(value)
        case ir.Loop(start=start, stop=stop):
            found += [start, stop]
        case ir.Branch(condition=condition):
            found.append(condition)
    return [expression for expression in found if expression is not None]


def _effect_expressions(effects: Iterable[ir.Effect]) -> list[Expression | None]:
    return [e for effect in effects for e in (effect.stage, effect.part, effect.tile)]
