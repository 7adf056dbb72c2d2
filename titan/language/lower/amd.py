"""Protocol to sync program for gfx942 and gfx950: wait counters and the barrier of the workgroup.

There are no mbarriers. A stage becomes a stream ordinal VTok(class, n) of each wave that fills it;
to wait for a stage is to wait for its own counter and then to meet all waves at `s_barrier` (the
wait before the barrier, since a counter says nothing of other waves). Reads are `ds_read` on
lgkmcnt; a stage is done with when the reads have returned, so a release is a lgkmcnt wait and
then `s_barrier`. A copy of one buffer's share by one wave is one operation here, however many
instructions it takes; thresholds saturate in instructions.

Two shapes are lowered: all waves run one role that fills and reads, or producer and consumer roles
are branches on the wave id that execute the same number of barriers. Anything else is refused, or
merged into one role where `rewrites` holds "unspecialise". Sources: HARDWARE A1 to A30, A42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.foundation.source.span import Span
from titan.language.lower.body import BodyLowering, slot_text
from titan.language.lower.counters import (
    LGKMCNT_MAX,
    VMCNT_MAX,
    covering_threshold,
    fill_samples,
    symbolic_threshold,
)
from titan.language.lower.model import Lowered, LoweringRefused, Note, refusal
from titan.language.lower.unspecialise import unspecialise
from titan.language.protocol import model
from titan.language.protocol.content import positive
from titan.language.protocol.rewrites import Rewrite
from titan.language.protocol.unroll import walk
from titan.sync import program as ir
from titan.sync.expression import (
    ZERO,
    Binary,
    Constant,
    Expression,
    binary,
    evaluate,
    names_of,
    to_text,
)
from titan.target.description import target_of

BARRIER = "s_barrier"
LANES = 64
TRANSPORTS = (model.Transport.LDS_DMA, model.Transport.STORE)


def lower_amd(protocol: model.Protocol, *, rewrites: frozenset[str] = frozenset()) -> Lowered:
    """The sync program and the choices made.

    `rewrites` allows, in this order: "transport" (bulk and asynchronous copies become direct-to-LDS
    copies), "group" (a wait may retire older stages with its own), "depth" (try smaller depths),
    "unspecialise" (all waves run all roles). Raises LoweringRefused.
    """
    notes: list[Note] = []
    if Rewrite.TRANSPORT in rewrites:
        protocol = _copies_to_lds(protocol, notes)
    try:
        return _with_notes(_Amd(protocol, Rewrite.GROUP in rewrites).lower(), notes)
    except LoweringRefused as refused:
        for changed in _attempts(protocol, rewrites):
            try:
                lowered = _Amd(changed.protocol, Rewrite.GROUP in rewrites).lower()
            except LoweringRefused:
                continue
            reason = refused.diagnostics[0].headline
            notes.append(Note(f"{changed.text}, because {reason}"))
            return _with_notes(lowered, notes)
        raise


def _with_notes(lowered: Lowered, notes: list[Note]) -> Lowered:
    return replace(lowered, notes=(*notes, *lowered.notes))


@dataclass(frozen=True, slots=True)
class _Attempt:
    text: str
    protocol: model.Protocol


def _attempts(protocol: model.Protocol, rewrites: frozenset[str]) -> list[_Attempt]:
    """Rewrites to try on a refused protocol, in a fixed order."""
    attempts: list[_Attempt] = []
    deepest = max((ring.depth for ring in protocol.rings), default=1)
    if Rewrite.DEPTH in rewrites:
        for depth in range(deepest - 1, 0, -1):
            attempts.append(_Attempt(f"depth reduced to {depth}", _shallower(protocol, depth)))
    if Rewrite.UNSPECIALISE in rewrites:
        merged = unspecialise(protocol)
        if merged is not None:
            attempts.append(_Attempt("all waves run all roles", merged))
    return attempts


def _shallower(protocol: model.Protocol, depth: int) -> model.Protocol:
    used = {name for ring in protocol.rings for name in ring.buffers}
    return replace(
        protocol,
        rings=tuple(replace(ring, depth=min(ring.depth, depth)) for ring in protocol.rings),
        buffers=tuple(
            replace(buffer, stages=min(buffer.stages, depth)) if buffer.name in used else buffer
            for buffer in protocol.buffers
        ),
    )


def _copies_to_lds(protocol: model.Protocol, notes: list[Note]) -> model.Protocol:
    rings = []
    for ring in protocol.rings:
        if ring.transport in (model.Transport.BULK, model.Transport.ASYNC_COPY):
            notes.append(
                Note(f"ring {ring.name}: {ring.transport} becomes a direct-to-LDS copy", ring.span)
            )
            rings.append(replace(ring, transport=model.Transport.LDS_DMA))
        else:
            rings.append(ring)
    return replace(protocol, rings=tuple(rings))


class _Amd(BodyLowering):
    def __init__(self, protocol: model.Protocol, group: bool) -> None:
        super().__init__(protocol)
        self.group = group
        self.issues: dict[str, str] = {}
        for ring in protocol.rings:
            if ring.transport not in TRANSPORTS:
                raise refusal(
                    "TTN401",
                    f"{protocol.target} has no {ring.transport} transport for ring {ring.name}",
                    ring.span,
                    "direct-to-LDS copies and stores fill a stage there",
                )
            dma = ring.transport is model.Transport.LDS_DMA
            self.issues[ring.name] = "vmcnt" if dma else "lgkmcnt"
        self.thresholds: dict[int, Expression] = {}
        self.split = self._split_rings()

    # ------------------------------------------------------------------------- the program

    def lower(self) -> Lowered:
        self._check_barrier_counts()
        roles = []
        for role in self.protocol.roles:
            self.role = role
            self._find_thresholds()
            body = (*self.body(role.body), *self._tail())
            roles.append(
                ir.Role(
                    role.name, body, role.agents, role.threads, role.cta, role.agent_constant,
                    role.variables, span=role.span,
                )
            )  # fmt: skip
        ctas = max((role.cta for role in self.protocol.roles), default=0) + 1
        program = ir.SyncProgram(
            name=self.protocol.name,
            target=self.protocol.target,
            roles=tuple(roles),
            parameters=self.protocol.parameters,
            named_barriers=(*self.protocol.named_barriers, ir.NamedBarrier(BARRIER, ctas)),
            buffers=self.buffers(),
            queues=tuple(self.queues.values()),
            pools=self.protocol.pools,
            policies=self.protocol.policies,
            span=self.protocol.span,
        )
        return Lowered(program, tuple(self.notes))

    def _uses(self, role: model.ProtocolRole, ring: str, *kinds: type) -> bool:
        return any(
            isinstance(item, kinds) and model.ring_of(item) in (ring, None)
            for item in walk(role.body)
        )

    def _split_rings(self) -> dict[str, str]:
        """Rings that one role fills and others read: ring -> role that fills."""
        split: dict[str, str] = {}
        for ring in self.protocol.rings:
            for role in self.protocol.roles:
                fills = self._uses(role, ring.name, model.Produce)
                reads = self._uses(role, ring.name, model.WaitReady)
                if fills and not reads:
                    if ring.name in split:
                        raise refusal(
                            "TTN401",
                            f"ring {ring.name} is filled by {split[ring.name]} and {role.name}, "
                            "which do not read it",
                            ring.span,
                            "the producer of a split ring is one role: its barriers stand in for "
                            "those of the readers",
                        )
                    split[ring.name] = role.name
        return split

    def _check_barrier_counts(self) -> None:
        """Every wave must meet every s_barrier: one ring order for all waves, in every run."""
        for run in self.facts.runs:
            sequences: dict[tuple[int, tuple[tuple[str, str, int], ...]], str] = {}
            for trace in run:
                meets: list[tuple[str, str, int]] = []
                fills = set()
                for event in trace.events:
                    statement = event.statement
                    if isinstance(statement, model.WaitReady):
                        meets.append(("wait", statement.ring, event.value(statement.index)))
                    elif isinstance(statement, model.Release):
                        meets.append(("release", statement.ring, event.value(statement.index)))
                    elif isinstance(statement, model.Produce):
                        fills.add(statement.ring)
                split = {ring for ring in fills if self.split.get(ring) == trace.role.name}
                if split and (meets or len(split) > 1):
                    raise refusal(
                        "TTN401",
                        f"{trace.role.name} fills {', '.join(sorted(split))} for other waves and "
                        "takes part in other rings",
                        trace.role.span,
                        "all waves execute s_barrier: its order over several rings cannot be "
                        "derived for a role that only fills",
                    )
                if not split:
                    sequences.setdefault((trace.role.cta, tuple(meets)), trace.role.name)
            self._compare(sequences)

    def _compare(self, sequences: dict[tuple[int, tuple[tuple[str, str, int], ...]], str]) -> None:
        ctas = [cta for cta, _ in sequences]
        if len(set(ctas)) != len(ctas):
            names = sorted(set(sequences.values()))
            counts = ", ".join(f"{name} {len(meets)}" for (_, meets), name in sequences.items())
            raise refusal(
                "TTN401",
                f"{' and '.join(names)} execute s_barrier in different orders",
                self.protocol.span,
                f"barriers executed in one run: {counts}; every wave of the workgroup must execute "
                "every s_barrier",
            )
        for _, meets in sequences:
            for ring in {name for _, name, _ in meets} & set(self.split):
                mine = [(kind, index) for kind, name, index in meets if name == ring]
                plain = [
                    (kind, index) for index in range(len(mine) // 2) for kind in ("wait", "release")
                ]
                if mine != plain or len(mine) != len(meets):
                    raise refusal(
                        "TTN401",
                        f"the barriers of {self.split[ring]} cannot be matched with those of the "
                        f"readers of {ring}",
                        self.ring(ring).ring.span,
                        "a role that only fills can follow readers that wait for and release one "
                        "tile after the other, in order and from 0",
                    )

    def _barrier(self, span: Span | None, label: str) -> ir.Operation:
        threads = sum(
            role.agents * role.threads for role in self.protocol.roles if role.cta == self.role.cta
        )
        place = ir.Reference(BARRIER, Constant(self.role.cta))
        return ir.BarrierSync(place, Constant(threads), span=span, label=label)

    def _counter(self, name: str) -> str:
        self.queues.setdefault(name, ir.Queue(name, grouped=False, ordered=True))
        return name

    # --------------------------------------------------------------------------- producers

    def acquire(self, statement: model.Acquire) -> ir.Block:
        """Nothing where the wave has met the release itself; else the readers' two barriers."""
        name = statement.ring
        if self.split.get(name) != self.role.name:
            return ()
        depth = self.ring(name).ring.depth
        older = binary("-", statement.index, Constant(depth))
        meet = self._stand_in(name, older, Constant(depth - 1), statement.span)
        round_again = Binary(">=", statement.index, Constant(depth))
        return (ir.Branch(round_again, meet, span=statement.span),)

    def _stand_in(
        self, ring: str, index: Expression, stages: Expression, span: Span | None
    ) -> ir.Block:
        """The barriers of the readers of one tile: ready once own copies are done, then free."""
        place = slot_text(ring, index)
        operations = binary("*", stages, Constant(len(self.ring(ring).ring.buffers)))
        counter = self.issues[ring]
        pending = operations if counter == "vmcnt" and self._fills_alike(ring) else ZERO
        return (
            self._wait_counter(counter, pending, ring, span, f"publish {place}"),
            self._barrier(span, f"publish {place}: s_barrier"),
            self._barrier(span, f"acquire stage of {place}: s_barrier"),
        )

    def _fills_alike(self, ring: str) -> bool:
        """Whether every iteration issues its copies, so that counting them says which is oldest."""
        fills = (s for s in walk(self.role.body) if isinstance(s, model.Produce) and s.ring == ring)
        return all(fill.poison is None and fill.bytes is None for fill in fills)

    def _tail(self) -> ir.Block:
        """A role that only fills meets the readers of its last tiles after its own loop."""
        result: list[ir.Operation] = []
        for name, role in self.split.items():
            if role != self.role.name:
                continue
            count = self._produced_count(name)
            depth = self.ring(name).ring.depth
            for behind in range(depth - 1, -1, -1):
                index = binary("-", count, Constant(behind + 1))
                meet = self._stand_in(name, index, Constant(behind), self.role.span)
                there = Binary(">=", count, Constant(behind + 1))
                result.append(ir.Branch(there, meet, span=self.role.span))
        return tuple(result)

    def _produced_count(self, ring: str) -> Expression:
        """How many tiles the role fills in all, as an expression of the sizes."""
        loops = [item for item in walk(self.role.body) if isinstance(item, model.For)]
        parameters = {item.name for item in self.protocol.parameters}
        for loop in loops:
            for shift in (0, -1, 1):
                count = binary("+", loop.stop, Constant(shift))
                if self._counts(ring, count, parameters):
                    return count
        raise refusal(
            "TTN401",
            f"how many tiles {self.role.name} fills cannot be expressed by the sizes alone",
            self.role.span,
            "its last barriers stand after the loop and need that number",
        )

    def _counts(self, ring: str, count: Expression, parameters: set[str]) -> bool:
        if not names_of(count) <= parameters:
            return False
        for trace in self.facts.role_traces(self.role):
            indices = [
                event.value(event.statement.index)
                for event in trace.events
                if isinstance(event.statement, model.Produce) and event.statement.ring == ring
                if event.statement.last
            ]
            environment = trace.events[0].environment if trace.events else {}
            if not trace.events:
                continue
            if indices != list(range(len(indices))):
                return False
            if evaluate(count, environment) != len(indices):
                return False
        return True

    def produce(self, statement: model.Produce) -> ir.Block:
        """One copy a buffer: the wave's share of the stage, counted by its own counter."""
        place = slot_text(statement.ring, statement.index)
        counter = self._counter(self.issues[statement.ring])
        how = "direct-to-LDS copy" if counter == "vmcnt" else "ds_write"
        copies = tuple(
            ir.Asynchronous(
                self.write_effects(statement.ring, buffer, statement.index, ir.Proxy.GENERIC),
                queue=counter,
                span=statement.span,
                label=f"produce {place}: {how} into {buffer.name}",
            )
            for buffer in self.chosen(statement.ring, statement.buffers)
        )
        if statement.stored and counter == "vmcnt":
            raise refusal(
                "TTN401",
                f"a ring filled by direct-to-LDS copies takes no stores ({place})",
                statement.span,
            )
        filled: ir.Block = copies
        if isinstance(statement.bytes, Constant):
            filled = copies if statement.bytes.value > 0 else ()
        elif statement.bytes is not None:
            filled = (ir.Branch(positive(statement.bytes), copies, span=statement.span),)
        if statement.poison is None:
            return filled
        return (ir.Branch(statement.poison, (), filled, span=statement.span),)

    # ------------------------------------------------------------------------------- waits

    def _find_thresholds(self) -> None:
        """The counter threshold of every wait of the role for a ring that it fills itself."""
        for counter in dict.fromkeys(self.issues.values()):
            samples = fill_samples(self.facts, self.role, self.issues, counter, self.group)
            for item in walk(self.role.body):
                if not isinstance(item, model.WaitReady) or id(item) not in samples:
                    continue
                threshold, exact = symbolic_threshold(self.role, item, samples[id(item)])
                self.thresholds[id(item)] = threshold
                if not exact:
                    self.note(
                        f"{self.role.name}: the wait for {slot_text(item.ring, item.index)} uses "
                        f"the smallest threshold {to_text(threshold)}; no single form fits all its "
                        "executions",
                        item.span,
                    )

    def _instructions(self, ring: str) -> int:
        """The fewest instructions of one copy of the ring: a wave's share in units of the width."""
        width = target_of(self.protocol.target).lds_copy_bytes[0] * LANES
        counts = []
        for buffer in self.ring(ring).buffers:
            groups = self.ring(ring).fillers[buffer.name].values()
            agents = max((len(group) for group in groups), default=1)
            counts.append(max(1, -(-buffer.bytes_per_stage // agents // width)))
        return min(counts, default=1)

    def _wait_counter(
        self, counter: str, pending: Expression, ring: str, span: Span | None, label: str
    ) -> ir.Operation:
        """A wait by count, saturated to what the instruction can say."""
        each = self._instructions(ring) if counter == "vmcnt" else 1
        ceiling = VMCNT_MAX if counter == "vmcnt" else LGKMCNT_MAX
        cap = -(
            -ceiling // each
        )  # so many copies may be unfinished when `ceiling` instructions are
        largest = _largest(pending)
        if largest is None or largest > cap:
            pending = binary("min", pending, Constant(cap))
            self.note(
                f"{label}: {counter} counts to {ceiling}; the wait saturates there and waits "
                "for more than intended (TTN403 counter-saturation)",
                span,
            )
        text = f"{label}: s_waitcnt {counter}"
        if each > 1:
            text += f", {each} instructions a copy"
        return ir.QueueWait(self._counter(counter), pending, span=span, label=text)

    def wait_ready(self, statement: model.WaitReady) -> ir.Block:
        place = slot_text(statement.ring, statement.index)
        meet = self._barrier(statement.span, f"wait {place}: s_barrier")
        fills = self._uses(self.role, statement.ring, model.Produce)
        if not fills:
            return (meet,)
        if id(statement) not in self.thresholds and self.issues[statement.ring] == "vmcnt":
            self.note(f"the wait for {place} never has a copy to wait for", statement.span)
        counter = self.issues[statement.ring]
        pending = self.thresholds.get(id(statement), ZERO)
        label = f"wait {place}"
        return (
            self._wait_counter(counter, pending, statement.ring, statement.span, label),
            meet,
        )

    # ------------------------------------------------------------------------------- reads

    def _reads(
        self, operands: tuple[model.Operand, ...], span: Span | None, label: str
    ) -> ir.Block:
        queue = self._counter("lgkmcnt")
        operations: list[ir.Operation] = []
        for operand in operands:
            condition, whole, masked = self.reading((operand,), asynchronous=False)
            then = ir.Asynchronous(whole, queue, span=span, label=label)
            if condition is None:
                operations.append(then)
                continue
            other = ir.Asynchronous(masked, queue, span=span, label=f"{label} (masked)")
            operations.append(ir.Branch(condition, (then,), (other,), span=span))
        return tuple(operations)

    def read_stage(self, statement: model.ReadStage) -> ir.Block:
        operand = model.Operand(statement.ring, statement.index, statement.buffers)
        place = slot_text(statement.ring, statement.index)
        return self._reads((operand,), statement.span, f"read {place}: ds_read")

    def issue(self, statement: model.Issue) -> ir.Block:
        """MFMA reads registers; what touches the stage are the ds_reads before it."""
        if statement.produces or statement.accumulates:
            raise refusal(
                "TTN401",
                f"{self.protocol.target} has no tensor memory for {statement.group} to write",
                statement.span,
                "MFMA accumulates in registers of its wave",
            )
        if statement.beside:
            raise refusal(
                "TTN401",
                f"{statement.group} reads {statement.beside[0].buffer}, which belongs to no ring",
                statement.span,
                "MFMA reads registers: put the buffer in a ring, or read it by `load`",
            )
        return self._reads(
            statement.operands, statement.span, f"issue {statement.group}: ds_read operands"
        )

    def drain(self, statement: model.Drain) -> ir.Block:
        if any(queue.name == statement.group for queue in self.protocol.queues):
            return (
                ir.QueueWait(
                    statement.group,
                    statement.leaving,
                    span=statement.span,
                    label=f"drain {statement.group}",
                ),
            )
        return (self._wait_reads(statement, f"drain {statement.group}"),)

    def _wait_reads(self, statement: model.Release | model.Drain, label: str) -> ir.Operation:
        threshold = covering_threshold(self.facts, self.role, statement, self.issues, LGKMCNT_MAX)
        queue = self._counter("lgkmcnt")
        if not self.queues[queue].ordered:
            threshold = 0
        return ir.QueueWait(
            queue, Constant(threshold), span=statement.span,
            label=f"{label}: s_waitcnt lgkmcnt({threshold})",
        )  # fmt: skip

    def release(self, statement: model.Release) -> ir.Block:
        place = slot_text(statement.ring, statement.index)
        return (
            self._wait_reads(statement, f"release {place}"),
            self._barrier(statement.span, f"release {place}: s_barrier"),
        )

    def finalize(self, statement: model.Finalize) -> ir.Block:
        return tuple(
            ir.QueueWait(
                self._counter(counter), ZERO, span=statement.span, label=f"finalize: {counter}(0)"
            )
            for counter in ("vmcnt", "lgkmcnt")
        )


def _largest(pending: Expression) -> int | None:
    """An upper bound of a threshold, where it can be read off."""
    match pending:
        case Constant(value):
            return value
        case Binary("min", left, right):
            bounds = [bound for bound in (_largest(left), _largest(right)) if bound is not None]
            return min(bounds, default=None)
    return None
