"""What every operation of an agent does, as Promela statements on the variables of
`PromelaState`."""

from __future__ import annotations

from itertools import combinations

from titan.engines.spin.names import comment_text
from titan.engines.spin.promela_layout import (
    AgentLayout,
    PromelaLayout,
    fail,
    number_of,
    when_sound,
)
from titan.engines.spin.promela_text import PromelaState
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.sync.pipe_order import PipePair, PipeUse, pipe_pairs

Lines = list[str]
Pipe = tuple[int, tuple[PipePair, ...]]  # the lane of a pipelined queue, and what it keeps in order


class OperationText:
    """Guards and effects of the operations of all agents."""

    def __init__(self, layout: PromelaLayout, state: PromelaState) -> None:
        self.layout, self.state, self.p = layout, state, layout.prefix

    def steps(self, agent: AgentLayout) -> list[tuple[str, Lines, str]]:
        """(guard, body, comment) of every operation."""
        made = []
        for place, operation in agent.operations():
            guard = f"fault == 0 && {agent.pc} == {place} && {self._guard(agent, operation)}"
            body = self._body(agent, operation)
            if not isinstance(operation, ir.BarrierSync):
                body = [*body, when_sound(f"{agent.pc} = {place + 1}")]
            label = comment_text(f"{type(operation).__name__} {operation.label}")
            made.append((guard, body, label))
        return made

    # ---------------------------------------------------------------------------- guards

    def _guard(self, agent: AgentLayout, operation: ir.Operation) -> str:
        p = self.p
        match operation:
            case ir.Wait(barrier=reference, parity=parity):
                wrong, at = self._barrier_at(agent, reference)
                passed = f"({p}phase[{at}] & 1) != ({agent.scope.text(parity)} & 1)"
                return f"({wrong} || {p}status[{at}] == 0 || {passed})"
            case ir.TokenWait(barrier=reference):
                wrong, at = self._barrier_at(agent, reference)
                return f"({wrong} || {p}status[{at}] == 0 || {self._bit(agent, 'tokens', at)} == 0)"
            case ir.QueueWait(queue=queue, pending=pending, until=until):
                lane = self.layout.lanes.get((agent.number, queue))
                name = "undone" if until is ir.Until.DONE else "unread"
                outstanding = "0" if lane is None else f"{p}{name}[{lane}]"
                return f"({outstanding} <= {agent.scope.text(pending)})"
            case ir.BarrierWait(barrier=reference):
                wrong, at = self._named_at(agent, reference)
                return f"({wrong} || {self._bit(agent, 'passed', at)} == 0)"
            case ir.BarrierSync():
                stages = range(self.layout.named_base[""])
                free = [f"{self._bit(agent, 'blocked', str(at))} == 0" for at in stages]
                return f"({' && '.join(free) or 'true'})"
            case ir.PoolTake(pool=pool, amount=amount):
                return f"({p}pool[{self.layout.pools[pool]}] >= {agent.scope.text(amount)})"
        return "true"

    def _bit(self, agent: AgentLayout, array: str, at: str) -> str:
        return f"({self.p}{array}[{at}] & {1 << agent.number})"

    def _barrier_at(self, agent: AgentLayout, reference: ir.Reference) -> tuple[str, str]:
        """(condition that there is no such mbarrier, its place in the arrays)."""
        if reference.name not in self.layout.barriers:
            return "true", "0"
        stages = self.layout.barriers[reference.name].stages
        index = agent.scope.text(reference.index)
        base = self.layout.barrier_base[reference.name]
        return f"({index} < 0 || {index} >= {stages})", f"{base} + {index}"

    def _named_at(self, agent: AgentLayout, reference: ir.Reference) -> tuple[str, str]:
        if reference.name not in self.layout.named:
            return "true", "0"
        stages = self.layout.named[reference.name].stages
        index = agent.scope.text(reference.index)
        base = self.layout.named_base[reference.name]
        return f"({index} < 0 || {index} >= {stages})", f"{base} + {index}"

    # ---------------------------------------------------------------------------- bodies

    def _body(self, agent: AgentLayout, operation: ir.Operation) -> Lines:
        match operation:
            case ir.Access():
                return self._access(agent, operation)
            case ir.Asynchronous():
                return self._issue(agent, operation)
            case ir.Commit(queue=queue):
                lane = self.layout.lanes[(agent.number, queue)]
                append = " ".join(self.state.append(lane, 3, []))
                return [f"if :: {self.p}used[{lane}] > 0 -> {append} skip :: else fi;"]
            case ir.QueueArrive():
                return self._queue_arrive(agent, operation)
            case ir.Init():
                return self._init(agent, operation)
            case ir.Invalidate():
                return self._invalidate(agent, operation)
            case ir.Arrive():
                return self._arrive(agent, operation)
            case ir.ExpectTransaction(barrier=reference, bytes=size):
                lines = self._usable(agent, reference)
                lines.append(fail(f"{self.p}pending[barrier] == 0", FaultKind.TRANSACTION_MISMATCH))
                lines.append(f"count = 0; size = {agent.scope.text(size)};")
                return [*lines, *self.state.set_barrier()]
            case ir.Wait(barrier=reference, phase=phase):
                lines = self._usable(agent, reference)
                if phase is not None:
                    meant = agent.scope.text(phase)
                    lines.append(
                        fail(f"{self.p}phase[barrier] != {meant} + 1", FaultKind.LAPPED_WAIT)
                    )
                return [*lines, when_sound(f"{self.p}observed[barrier] = 1")]
            case ir.TokenWait(barrier=reference):
                lines = self._usable(agent, reference)
                lines.append(
                    fail(
                        f"{self._bit(agent, 'keys', 'barrier')} == 0",
                        FaultKind.NAMED_BARRIER_MISUSE,
                    )
                )
                return [*lines, when_sound(f"{self.p}observed[barrier] = 1")]
            case ir.BarrierSync() | ir.BarrierArrive():
                return self._named_arrive(agent, operation)
            case ir.BarrierWait(barrier=reference):
                return self._named_wait(agent, reference)
            case ir.Fence():
                return self._fence(agent, operation)
        return self._pool(agent, operation)

    def _pool(self, agent: AgentLayout, operation: ir.Operation) -> Lines:
        if isinstance(operation, ir.PoolTake | ir.PoolGive):
            pool = f"{self.p}pool[{self.layout.pools[operation.pool]}]"
            amount = agent.scope.text(operation.amount)
            sign = "-" if isinstance(operation, ir.PoolTake) else "+"
            return [
                fail(f"{amount} < 0", FaultKind.POOL_MISUSE),
                when_sound(f"{pool} = {pool} {sign} {amount}"),
            ]
        if isinstance(operation, ir.QueueWait):
            return []
        raise TypeError(f"no Promela for {type(operation).__name__}")

    # ---------------------------------------------------------------------------- memory

    def _interval(self, agent: AgentLayout, effect: ir.Effect) -> tuple[str, str, int]:
        """(condition that the region does not exist, its first cell, its number of cells)."""
        buffer = self.layout.buffers[effect.buffer]
        stage = agent.scope.text(effect.stage)
        wrong = f"{stage} < 0 || {stage} >= {buffer.stages}"
        base = self.layout.storage_base[buffer.storage or buffer.name] + buffer.offset
        if effect.part is None:
            length = buffer.parts * buffer.units
            return f"({wrong})", f"({base} + {stage} * {length})", length
        part = agent.scope.text(effect.part)
        wrong += f" || {part} < 0 || {part} >= {buffer.parts}"
        first = f"({base} + ({stage} * {buffer.parts} + {part}) * {buffer.units})"
        return f"({wrong})", first, buffer.units

    def _resolve(self, agent: AgentLayout, effects: tuple[ir.Effect, ...]) -> Lines:
        lines = []
        for effect in effects:
            lines.append(fail(self._interval(agent, effect)[0], FaultKind.INDEX_OUT_OF_RANGE))
            buffer = self.layout.buffers[effect.buffer]
            if buffer.space is not ir.Space.GLOBAL and buffer.cta != agent.role.cta:
                lines.append(fail(self.layout.ended(buffer.cta), FaultKind.LEAK_AT_EXIT))
        return lines

    def _tile(self, agent: AgentLayout, effect: ir.Effect) -> str:
        return "ANY_TILE" if effect.tile is None else agent.scope.text(effect.tile)

    def _each_cell(self, agent: AgentLayout, effect: ir.Effect, inner: Lines) -> Lines:
        """`inner` for every cell `c` of the effect, while nothing has failed."""
        _, first, length = self._interval(agent, effect)
        span = f"low = {first}; for (c : low .. low + {length - 1}) {{"
        return ["if :: fault == 0 ->", f"  {span}", *(f"    {line}" for line in inner),
                "    skip }; low = 0; c = 0", ":: else fi;"]  # fmt: skip

    def _scan_flights(self, hit: str, piped: tuple[int, str, str] | None = None) -> Lines:
        """Look at every effect in flight that touches cell `c`; `hit` is the option for one.

        Effects of the lane `piped[0]` that the pipe orders before the new one, by the condition
        `piped[1]`, are passed over with the option `piped[2]`.
        """
        if not self.layout.lanes:
            return []
        p, size = self.p, self.layout.effects_max
        at = f"i * {size} + j"
        touches = f"{p}low[{at}] <= c && c < {p}low[{at}] + {p}length[{at}]"
        options = []
        if piped is not None:
            base = piped[0] * self.layout.capacity
            inside = f"i >= {base} && i < {base + self.layout.capacity} && {piped[1]}"
            options.append(f":: {touches} && {inside} -> {piped[2]}")
            touches += f" && !({inside})"
        options.append(f":: {touches} && {hit}")
        inner = f"if {' '.join(options)} :: else fi"
        loops = (
            f"for (i : 0 .. {self.layout.slots - 1}) {{ for (j : 0 .. {size - 1}) {{ {inner} }} }}"
        )
        return [f"if :: fault == 0 -> {loops}; i = 0; j = 0 :: else fi;"]

    def _kept(self, pairs: tuple[PipePair, ...], later: PipeUse, same: str) -> str:
        """Condition: one of the pairs is of the effect in flight `i`, `j` and a later use.

        `same`: the condition that they are of one region.
        """
        flags = f"{self.p}flags[i * {self.layout.effects_max} + j]"
        uses = {
            PipeUse.READ: f"({flags} & 1) == 0",
            PipeUse.COPY: f"({flags} & 65) == 1",
            PipeUse.ACCUMULATE: f"({flags} & 65) == 65",
        }
        found = [
            f"({uses[pair.earlier]} && {same})" if pair.same else f"({uses[pair.earlier]})"
            for pair in pairs
            if pair.later is later
        ]
        return f"({' || '.join(found) or 'false'})"

    def _check_read(self, agent: AgentLayout, effect: ir.Effect, pipe: Pipe | None) -> Lines:
        p, at = self.p, f"i * {self.layout.effects_max} + j"
        writes = f"({p}flags[{at}] & 1) == 1"
        piped = None
        if pipe is not None:
            kept = self._kept(pipe[1], PipeUse.READ, "false")
            piped = (pipe[0], kept, f"held = {p}held[{at}]")
        lines = [f"held = {p}tile[c];"]
        early = number_of(FaultKind.READ_BEFORE_ARRIVAL)
        lines += self._scan_flights(f"{writes} && fault == 0 -> fault = {early}", piped)
        if effect.tile is not None:
            tile = self._tile(agent, effect)
            lines.append(fail(f"held != {tile}", FaultKind.STALE_READ))
        return [*lines, "held = 0;"]

    def _check_write(
        self, agent: AgentLayout, effect: ir.Effect, pipe: Pipe | None, length: int = 0
    ) -> Lines:
        """`length`: cells of an accumulator, whose first one is `low`; 0 for other writes."""
        p, at = self.p, f"i * {self.layout.effects_max} + j"
        uses = f"(({p}flags[{at}] & 1) == 1 || {p}reading[i] == 1)"
        kind = self.layout.reduction(agent, effect)
        if kind > 0:
            uses += f" && {p}reduces[{at}] != {kind}"
        piped = None
        if pipe is not None:
            same = f"{p}low[{at}] == low && {p}length[{at}] == {length}"
            later = PipeUse.ACCUMULATE if length else PipeUse.COPY
            piped = (pipe[0], self._kept(pipe[1], later, same), "skip")
        overwrites = number_of(FaultKind.OVERWRITE_IN_FLIGHT)
        lines = self._scan_flights(f"{uses} && fault == 0 -> fault = {overwrites}", piped)
        if effect.reduction and effect.tile is not None:
            lines.append(fail(f"{p}tile[c] != {self._tile(agent, effect)}", FaultKind.STALE_READ))
        return lines

    def _access(self, agent: AgentLayout, operation: ir.Access) -> Lines:
        lines = self._resolve(agent, operation.effects)
        for effect in operation.effects:
            write = effect.write
            check = self.state.marks.check(agent, effect, False)
            check += (
                self._check_write(agent, effect, None)
                if write
                else self._check_read(agent, effect, None)
            )
            lines += self._each_cell(agent, effect, check)
        p, bit = self.p, 1 << agent.number
        for effect in operation.effects:
            sets = effect.write and not effect.reduction
            tile = f"{p}tile[c] = {self._tile(agent, effect)};" if sets else ""
            if effect.proxy in ir.CACHED:
                marks = self.state.marks.inside(agent, effect)
            else:
                marks = f"{p}readers[c] = {p}readers[c] | {bit};"
                if effect.write:
                    marks = f"{p}writers[c] = {p}writers[c] | {bit};"
                    marks += f" {self.state.written_map(bit)};"
                marks += self.state.marks.outside(effect.write)
            lines += self._each_cell(agent, effect, [f"{marks} {tile}"])
        return lines

    def _issue(self, agent: AgentLayout, operation: ir.Asynchronous) -> Lines:
        layout, p = self.layout, self.p
        lane = layout.lanes[(agent.number, operation.queue)]
        queue = layout.queues[operation.queue] if operation.queue is not None else None
        pairs = () if queue is None else pipe_pairs(queue, layout.program.policies)
        piped = (lane, pairs) if pairs else None
        lines = self._resolve(agent, operation.effects)
        for effect in operation.effects:
            check = self.state.marks.check(agent, effect, True)
            check += self._check_proxy(agent, effect)
            if effect.write:
                length = self._interval(agent, effect)[2] if effect.accumulates else 0
                check += self._check_write(agent, effect, piped, length)
            else:
                check += self._check_read(agent, effect, piped)
            lines += self._each_cell(agent, effect, check)
        filling = [f"{p}reading[slot] = 1; {p}chunks[slot] = {operation.chunks};"]
        filling.append(f"{p}chunked[slot] = {operation.chunks};")
        for j, effect in enumerate(operation.effects):
            filling += self._fill_effect(agent, effect, f"slot * {layout.effects_max} + {j}")
        for j, completion in enumerate(operation.completes):
            wrong, at = self._barrier_at(agent, completion.barrier)
            lines.append(fail(wrong, FaultKind.INDEX_OUT_OF_RANGE))
            field = f"slot * {layout.completions_max} + {j}"
            filling.append(f"{p}target[{field}] = {at} + 1;")
            filling.append(f"{p}share[{field}] = {agent.scope.text(completion.bytes)};")
        return [*lines, *self.state.append(lane, 1, filling)]

    def _fill_effect(self, agent: AgentLayout, effect: ir.Effect, field: str) -> Lines:
        p = self.p
        buffer = self.layout.buffers[effect.buffer]
        home = self.layout.homes.get(buffer.storage or buffer.name, -1) + 1
        flags = int(effect.write) + 2 * int(effect.proxy is ir.Proxy.GENERIC)
        flags += 64 * int(effect.accumulates) + 128 * home
        _, first, length = self._interval(agent, effect)
        return [
            f"{p}low[{field}] = {first}; {p}length[{field}] = {length};",
            f"{p}flags[{field}] = {flags}; {p}held[{field}] = {self._tile(agent, effect)};",
            f"{p}reduces[{field}] = {self.layout.reduction(agent, effect)};",
        ]

    def _check_proxy(self, agent: AgentLayout, effect: ir.Effect) -> Lines:
        p, marks = self.p, self.state.marks
        if effect.proxy is ir.Proxy.TENSORMAP:
            return [fail(f"{p}map[c] != 0", FaultKind.MISSING_TENSORMAP_FENCE)]
        if effect.proxy is not ir.Proxy.ASYNC:
            return []
        lines = [
            fail(f"{p}writers[c] != 0 || {marks.pending(agent, True)}", FaultKind.MISSING_FENCE)
        ]
        if effect.write and self.layout.program.policies.war_fence:
            lines.append(
                fail(
                    f"{p}readers[c] != 0 || {marks.pending(agent, False)}",
                    FaultKind.MISSING_FENCE_WAR,
                )
            )
        return lines

    def _fence(self, agent: AgentLayout, fence: ir.Fence) -> Lines:
        p, layout = self.p, self.layout
        if fence.kind is ir.FenceKind.BARRIER_INIT:
            number = layout.barrier_base[""]
            if not number:
                return []
            mine = f"{p}status[c] == 1 && {p}owner[c] == {agent.number}"
            publish = f"if :: {mine} -> {p}status[c] = 2 :: else fi"
            return [f"for (c : 0 .. {number - 1}) {{ {publish} }}; c = 0;"]
        lines = []
        for first, last, near in self._covered(agent, fence):
            cells = f"for (c : {first} .. {last}) {{"
            lines += [f"{cells} {self._fence_cell(agent, fence.kind, near)} }}; c = 0;"]
        return lines

    def _covered(self, agent: AgentLayout, fence: ir.Fence) -> list[tuple[int, int, bool]]:
        """Runs of cells that the fence covers, and whether the fence is near to their proxy."""
        near: dict[int, bool] = {}
        for buffer in self.layout.program.buffers:
            if not self.state.marks.covers(agent, fence, buffer):
                continue
            base = self.layout.storage_base[buffer.storage or buffer.name] + buffer.offset
            close = buffer.space is ir.Space.GLOBAL or buffer.cta == agent.role.cta
            for unit in range(buffer.stages * buffer.parts * buffer.units):
                near[base + unit] = close or near.get(base + unit, False)
        runs: list[tuple[int, int, bool]] = []
        for cell in sorted(near):
            if runs and runs[-1][1] == cell - 1 and runs[-1][2] == near[cell]:
                runs[-1] = (runs[-1][0], cell, near[cell])
            else:
                runs.append((cell, cell, near[cell]))
        return runs

    def _fence_cell(self, agent: AgentLayout, kind: ir.FenceKind, near: bool) -> str:
        p = self.p
        path = near and self.layout.program.policies.fence_rule == "path"
        if kind is ir.FenceKind.TENSORMAP_ACQUIRE:
            return f"if :: {p}map[c] == RELEASED -> {p}map[c] = 0 :: else fi"
        if kind in (*ir.CACHED_FENCES, ir.FenceKind.ASYNC_ACQUIRE):
            return self.state.marks.fence(agent, kind, 0)
        kept = 0
        if not path:
            everybody = (self.layout.engine_bit << 1) - 1
            kept = everybody & ~self.layout.engine_bit & ~(1 << agent.number)
        if kind is ir.FenceKind.TENSORMAP_RELEASE:
            left = f"{p}map[c] & {kept}"
            released = f"{p}map[c] = (({left}) == 0 -> RELEASED : {left})"
            return f"if :: {p}map[c] != 0 && {p}map[c] != RELEASED -> {released} :: else fi"
        marks = self.state.marks.fence(agent, kind, kept)
        rest = [f"{p}{name}[c] = {p}{name}[c] & {kept}" for name in ("writers", "readers")]
        return "; ".join([marks, *rest])

    # -------------------------------------------------------------------------- barriers

    def _usable(self, agent: AgentLayout, reference: ir.Reference) -> Lines:
        """`barrier` becomes the mbarrier; it must exist, be live, published and not gone."""
        wrong, at = self._barrier_at(agent, reference)
        p = self.p
        lines = [fail(wrong, FaultKind.INDEX_OUT_OF_RANGE), when_sound(f"barrier = {at}")]
        lines.append(fail(f"{p}status[barrier] == 0", FaultKind.BARRIER_UNINITIALISED))
        barrier = self.layout.barriers.get(reference.name)
        if barrier is not None and barrier.cta != agent.role.cta:
            lines.append(fail(f"{p}status[barrier] == 1", FaultKind.UNPUBLISHED_INIT))
            lines.append(fail(self.layout.ended(barrier.cta), FaultKind.LEAK_AT_EXIT))
        return lines

    def _arrive(self, agent: AgentLayout, operation: ir.Arrive) -> Lines:
        p = self.p
        lines = self._usable(agent, operation.barrier)
        lines.append(f"count = {agent.scope.text(operation.count)};")
        lines.append(f"size = {agent.scope.text(operation.transaction)};")
        if operation.token:
            bit = 1 << agent.number
            token = f"{p}tokens[barrier] = {p}tokens[barrier] | {bit};"
            lines.append(when_sound(token, f"{p}keys[barrier] = {p}keys[barrier] | {bit}"))
        if operation.drop:
            lines.append(when_sound(f"{p}expected[barrier] = {p}expected[barrier] - count"))
        lines.append(fail(self.state.over_arrival(), FaultKind.OVER_ARRIVAL))
        lines.append(fail(self.state.unobserved(), FaultKind.UNOBSERVED_PHASE))
        return [*lines, *self.state.set_barrier(), "count = 0; size = 0; barrier = 0;"]

    def _queue_arrive(self, agent: AgentLayout, operation: ir.QueueArrive) -> Lines:
        wrong, at = self._barrier_at(agent, operation.barrier)
        lane = self.layout.lanes[(agent.number, operation.queue)]
        p, field = self.p, f"slot * {self.layout.completions_max}"
        filling = [f"{p}chunks[slot] = 1; {p}chunked[slot] = 1; {p}target[{field}] = {at} + 1;"]
        filling.append(f"{p}share[{field}] = {agent.scope.text(operation.count)};")
        return [fail(wrong, FaultKind.INDEX_OUT_OF_RANGE), *self.state.append(lane, 2, filling)]

    def _init(self, agent: AgentLayout, operation: ir.Init) -> Lines:
        wrong, at = self._barrier_at(agent, operation.barrier)
        p = self.p
        status = 2 if self.layout.program.policies.barrier_init == "assumed" else 1
        count = agent.scope.text(operation.count)
        lines = [fail(wrong, FaultKind.INDEX_OUT_OF_RANGE), when_sound(f"barrier = {at}")]
        lines.append(fail(f"{p}status[barrier] != 0", FaultKind.BARRIER_LIFECYCLE))
        live = f"{p}status[barrier] = {status}; {p}owner[barrier] = {agent.number};"
        counts = f"{p}expected[barrier] = {count}; {p}pending[barrier] = {count};"
        clear = f"{p}bytes[barrier] = 0; {p}phase[barrier] = 0; {p}tokens[barrier] = 0; "
        clear += f"{p}keys[barrier] = 0; "
        clear += f"{p}observed[barrier] = 1"
        return [*lines, when_sound(live, counts, clear), "barrier = 0;"]

    def _invalidate(self, agent: AgentLayout, operation: ir.Invalidate) -> Lines:
        wrong, at = self._barrier_at(agent, operation.barrier)
        p, layout = self.p, self.layout
        lines = [fail(wrong, FaultKind.INDEX_OUT_OF_RANGE), when_sound(f"barrier = {at}")]
        lines.append(fail(f"{p}status[barrier] == 0", FaultKind.BARRIER_UNINITIALISED))
        if layout.lanes:
            entry = f"{p}target[i] == barrier + 1 && fault == 0"
            scan = f"for (i : 0 .. {layout.slots * layout.completions_max - 1})"
            lifecycle = number_of(FaultKind.BARRIER_LIFECYCLE)
            found = f"{{ if :: {entry} -> fault = {lifecycle} :: else fi }}"
            lines.append(f"if :: fault == 0 -> {scan} {found}; i = 0 :: else fi;")
        lines.append(fail(f"{p}tokens[barrier] != 0", FaultKind.BARRIER_LIFECYCLE))
        for other in layout.agents:
            for place, found_operation in other.operations():
                if isinstance(found_operation, ir.Wait | ir.TokenWait):
                    missing, waited = self._barrier_at(other, found_operation.barrier)
                    here = f"{other.pc} == {place} && !{missing} && barrier == {waited}"
                    lines.append(fail(here, FaultKind.BARRIER_LIFECYCLE))
        return [*lines, when_sound(f"{p}status[barrier] = 0"), "barrier = 0;"]

    def _named_wait(self, agent: AgentLayout, reference: ir.Reference) -> Lines:
        """A wait needs an arrival of the agent's own that it has not yet waited for."""
        wrong, at = self._named_at(agent, reference)
        if wrong == "true":
            return [fail("true", FaultKind.INDEX_OUT_OF_RANGE)]
        armed = f"{self.p}armed[barrier]"
        lines = [fail(wrong, FaultKind.INDEX_OUT_OF_RANGE), when_sound(f"barrier = {at}")]
        lines.append(
            fail(f"{self._bit(agent, 'armed', 'barrier')} == 0", FaultKind.NAMED_BARRIER_MISUSE)
        )
        return [*lines, when_sound(f"{armed} = {armed} - {1 << agent.number}"), "barrier = 0;"]

    def _named_arrive(
        self, agent: AgentLayout, operation: ir.BarrierSync | ir.BarrierArrive
    ) -> Lines:
        wrong, at = self._named_at(agent, operation.barrier)
        p, own = self.p, agent.role.threads
        if wrong == "true":
            return [fail("true", FaultKind.INDEX_OUT_OF_RANGE)]
        threads, bit = agent.scope.text(operation.threads), 1 << agent.number
        there = f"(({p}passed[barrier] | {p}blocked[barrier]) & {bit}) != 0"
        lines = [
            fail(wrong, FaultKind.INDEX_OUT_OF_RANGE),
            when_sound(f"barrier = {at}"),
            fail(there, FaultKind.NAMED_BARRIER_MISUSE),
        ]
        expected = f"({p}threads[barrier] != 0 && {p}threads[barrier] != {threads})"
        lines.append(
            fail(
                f"{expected} || {p}arrived[barrier] + {own} > {threads}",
                FaultKind.NAMED_BARRIER_MISUSE,
            )
        )
        waits = isinstance(operation, ir.BarrierSync)
        left = f"({p}armed[barrier] - ({p}armed[barrier] & {bit}))"
        lines.append(when_sound(f"{p}armed[barrier] = {left}{'' if waits else f' + {bit}'}"))
        mask = f"{p}blocked[barrier]" if waits else f"{p}passed[barrier]"
        join = (
            f"{p}arrived[barrier] = {p}arrived[barrier] + {own}; {p}threads[barrier] = {threads};"
        )
        join += f" {mask} = {mask} | {bit}"
        go_on = [f"{agent.pc} = {agent.pc} + 1;"] if waits else []
        for other in self.layout.agents:
            waiting = f"({p}blocked[barrier] & {1 << other.number}) != 0"
            go_on.append(f"if :: {waiting} -> {other.pc} = {other.pc} + 1 :: else fi;")
        go_on.append(f"{p}arrived[barrier] = 0; {p}threads[barrier] = 0; {p}passed[barrier] = 0;")
        go_on.append(f"{p}blocked[barrier] = 0")
        few = f"{p}arrived[barrier] + {own} < {threads}"
        lines.append(f"if :: fault != 0 -> skip :: fault == 0 && {few} -> {join} :: else ->")
        return [*lines, *(f"  {line}" for line in go_on), "fi; barrier = 0;"]

    # --------------------------------------------------------------------- after a step

    def lapped_checks(self, agent: AgentLayout) -> Lines:
        """The agent stands at a wait whose phase has been overtaken."""
        lines = []
        for place, operation in agent.operations():
            if isinstance(operation, ir.Wait) and operation.phase is not None:
                wrong, at = self._barrier_at(agent, operation.barrier)
                meant = agent.scope.text(operation.phase)
                live = f"{self.p}status[{at}] != 0 && {self.p}phase[{at}] > {meant} + 1"
                lines.append(
                    fail(f"{agent.pc} == {place} && !{wrong} && {live}", FaultKind.LAPPED_WAIT)
                )
        return lines

    def races(self) -> Lines:
        """Every pair of conflicting synchronous accesses that two agents may stand at."""
        lines = []
        for one, other in combinations(self.layout.agents, 2):
            for place, operation in one.operations():
                if not isinstance(operation, ir.Access):
                    continue
                for other_place, other_operation in other.operations():
                    if not isinstance(other_operation, ir.Access):
                        continue
                    overlaps = [
                        overlap
                        for effect in operation.effects
                        for other_effect in other_operation.effects
                        if (overlap := self._overlap(one, effect, other, other_effect))
                    ]
                    if overlaps:
                        here = f"{one.pc} == {place} && {other.pc} == {other_place}"
                        lines.append(
                            fail(f"{here} && ({' || '.join(overlaps)})", FaultKind.DATA_RACE)
                        )
        return lines

    def _overlap(
        self, one: AgentLayout, effect: ir.Effect, other: AgentLayout, other_effect: ir.Effect
    ) -> str | None:
        buffers = self.layout.buffers
        storages = [b.storage or b.name for b in
                    (buffers[effect.buffer], buffers[other_effect.buffer])]  # fmt: skip
        if storages[0] != storages[1] or not (effect.write or other_effect.write):
            return None
        kinds = (self.layout.reduction(one, effect), self.layout.reduction(other, other_effect))
        if kinds[0] > 0 and kinds[0] == kinds[1]:
            return None
        wrong, first, length = self._interval(one, effect)
        other_wrong, other_first, other_length = self._interval(other, other_effect)
        alive = [
            f"!({self.layout.ended(buffers[found.buffer].cta)})"
            for agent, found in ((one, effect), (other, other_effect))
            if buffers[found.buffer].space is not ir.Space.GLOBAL
            and buffers[found.buffer].cta != agent.role.cta
        ]
        meets = f"{first} < {other_first} + {other_length} && {other_first} < {first} + {length}"
        return "(" + " && ".join([f"!{wrong}", f"!{other_wrong}", *alive, meets]) + ")"
