"""Sync programs, states and steps as the numbers that proofs/sync_machine.ml reads and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from titan.sync import program as ir
from titan.sync.control import Agent, agents_of
from titan.sync.expression import BINARY_OPERATORS, Binary, Constant, Expression, Name, Not
from titan.sync.fault import Actor, Fault, Step
from titan.sync.interpreter import Interpreter
from titan.sync.reductions import OPERATORS, Reduction
from titan.sync.state import Flight, QueueState, State

PROXIES = (ir.Proxy.GENERIC, ir.Proxy.ASYNC, ir.Proxy.TENSORMAP, *ir.CACHED)
SPACES = (ir.Space.SHARED, ir.Space.TENSOR, ir.Space.GLOBAL, ir.Space.REGISTER)
FENCES = (
    ir.FenceKind.ASYNC,
    ir.FenceKind.ASYNC_RELEASE,
    ir.FenceKind.ASYNC_ACQUIRE,
    ir.FenceKind.TENSORMAP_RELEASE,
    ir.FenceKind.TENSORMAP_ACQUIRE,
    ir.FenceKind.BARRIER_INIT,
    *ir.CACHED_FENCES,
)
ACTORS = (Actor.AGENT, Actor.FINISH, Actor.READS)
Sizes = Mapping[str, int | tuple[int, ...]]


class NotInSubsetError(Exception):
    """The program has what proofs/Sync.v leaves out."""


def listed(items: Iterable[Any], text: Callable[[Any], list[int]]) -> list[int]:
    """A list, with its length before it."""
    parts = [text(item) for item in items]
    return [len(parts), *(number for part in parts for number in part)]


def optional(item: Any, text: Callable[[Any], list[int]]) -> list[int]:
    return [0] if item is None else [1, *text(item)]


def _operator(reduction: str) -> int:
    return OPERATORS.index(reduction) + 1 if reduction else 0


def _kind(kind: Reduction) -> list[int]:
    return [
        _operator(kind.operator),
        PROXIES.index(kind.proxy),
        -1 if kind.cta is None else kind.cta,
    ]


def one(number: int) -> list[int]:
    return [int(number)]


class Text:
    """A program with its sizes: the numbers of its names, and all of it as numbers."""

    def __init__(self, program: ir.SyncProgram, sizes: Sizes) -> None:
        self.program = program
        self.machine = Interpreter(program, sizes)
        control = self.machine.control
        self.barriers = {item.name: n for n, item in enumerate(program.barriers)}
        self.named = {item.name: n for n, item in enumerate(program.named_barriers)}
        self.queues = {item.name: n for n, item in enumerate(program.queues)}
        self.pools = {item.name: n for n, item in enumerate(program.pools)}
        self.buffers = {item.name: n for n, item in enumerate(program.buffers)}
        storages = dict.fromkeys(item.storage or item.name for item in program.buffers)
        self.storages = {name: n for n, name in enumerate(storages)}
        self.blocks: list[list[int]] = []
        self.names: dict[str, int] = {}
        entries = {}
        for role in program.roles:
            own = control.variables_of(role.name)
            scope = [*own, role.agent_constant, *control.sizes]
            if len(set(scope)) < len(scope):
                raise NotInSubsetError("a name means two things")
            self.names = {name: n for n, name in enumerate(scope)}
            first = self._block(role.body)
            entries[role.name] = (first, len(self.blocks) - first)
        self.numbers = [
            *listed(agents_of(program), lambda agent: self._agent(agent, entries)),
            *listed(self.blocks, list),
            *listed(
                program.barriers, lambda b: [b.count, b.stages, int(b.initialised), b.cta]
            ),
            *listed(program.named_barriers, lambda b: [b.stages]),
            *listed(program.buffers, self._buffer),
            *listed(program.queues, lambda q: [int(q.grouped), int(q.ordered), int(q.pipelined)]),
            *listed(program.pools, lambda p: [p.available]),
            *self._policies(program.policies),
        ]  # fmt: skip

    # ---------------------------------------------------------------------------- program

    def _agent(self, agent: Agent, entries: dict[str, tuple[int, int]]) -> list[int]:
        role, control = agent.role, self.machine.control
        first = dict(role.variables)
        own = control.variables_of(role.name)
        scope = {name: n for n, name in enumerate((*own, role.agent_constant))}
        outer = {parameter.name: parameter.per for parameter in self.program.parameters}

        def size(name: str) -> list[int]:
            value = control.sizes[name]
            if isinstance(value, int):
                return [0, 1, value]
            return [*optional(scope.get(outer[name] or ""), one), *listed(value, one)]

        return [
            role.threads,
            role.cta,
            agent.member,
            *listed([first.get(name, 0) for name in own], one),
            *entries[role.name],
            *listed(control.sizes, size),
        ]

    def _buffer(self, buffer: ir.Buffer) -> list[int]:
        return [
            self.storages[buffer.storage or buffer.name], buffer.stages, buffer.parts, buffer.units,
            buffer.offset, SPACES.index(buffer.space), buffer.cta, *optional(buffer.initial, one),
        ]  # fmt: skip

    @staticmethod
    def _policies(policies: ir.Policies) -> list[int]:
        return [
            int(policies.fence_rule == "path"),
            int(policies.war_fence),
            int(policies.barrier_init == "assumed"),
            int(policies.exit_in_flight == "allow"),
            int(policies.unobserved_phase == "allow"),
            int(policies.tensor_pipe == "in_order"),
        ]

    def _block(self, block: ir.Block) -> int:
        """The block's number, in the order in which the interpreter counts them."""
        number = len(self.blocks)
        self.blocks.append([])
        self.blocks[number] = listed(block, self._operation)
        return number

    def _operation(self, op: ir.Operation) -> list[int]:
        e, r = self._expression, self._reference
        match op:
            case ir.Access(effects=effects):
                return [0, *listed(effects, self._effect)]
            case ir.Asynchronous(effects=effects, queue=queue, completes=done, chunks=chunks):
                completes = listed(done, lambda c: [*r(c.barrier), *e(c.bytes)])
                into = optional(None if queue is None else self.queues[queue], one)
                return [1, self.machine.control.site_of(op), *listed(effects, self._effect), *into,
                        *completes, chunks]  # fmt: skip
            case ir.Commit(queue=queue):
                return [2, self.queues[queue]]
            case ir.QueueWait(queue=queue, pending=pending, until=until):
                return [3, self.queues[queue], *e(pending), int(until is ir.Until.READ)]
            case ir.QueueArrive(queue=queue, barrier=barrier, count=count):
                site = self.machine.control.site_of(op)
                return [4, site, self.queues[queue], *r(barrier), *e(count)]
            case ir.Init(barrier=barrier, count=count):
                return [5, *r(barrier), *e(count)]
            case ir.Invalidate(barrier=barrier):
                return [6, *r(barrier)]
            case ir.Arrive(barrier=barrier, count=count, transaction=bytes_):
                return [7, *r(barrier), *e(count), *e(bytes_), int(op.drop), int(op.token)]
            case ir.ExpectTransaction(barrier=barrier, bytes=bytes_):
                return [8, *r(barrier), *e(bytes_)]
            case ir.Wait(barrier=barrier, parity=parity, phase=phase):
                return [9, *r(barrier), *e(parity), *optional(phase, e)]
            case ir.TokenWait(barrier=barrier):
                return [10, *r(barrier)]
        return self._other(op)

    def _other(self, op: ir.Operation) -> list[int]:
        e, r = self._expression, self._reference
        match op:
            case ir.BarrierSync(barrier=barrier, threads=threads):
                return [11, *r(barrier), *e(threads)]
            case ir.BarrierArrive(barrier=barrier, threads=threads):
                return [12, *r(barrier), *e(threads)]
            case ir.BarrierWait(barrier=barrier):
                return [13, *r(barrier)]
            case ir.Fence(kind=kind, spaces=spaces):
                return [14, FENCES.index(kind), *listed(spaces, lambda s: [SPACES.index(s)])]
            case ir.PoolTake(pool=pool, amount=amount):
                return [15, self.pools[pool], *e(amount)]
            case ir.PoolGive(pool=pool, amount=amount):
                return [16, self.pools[pool], *e(amount)]
            case ir.Assign(variable=variable, value=value):
                return [17, self.names[variable], *e(value)]
            case ir.Loop(variable=variable, start=start, stop=stop, body=body):
                return [18, self.names[variable], *e(start), *e(stop), self._block(body)]
            case ir.Branch(condition=condition, then=then, otherwise=otherwise):
                return [19, *e(condition), self._block(then), self._block(otherwise)]
        raise NotInSubsetError(type(op).__name__)

    def _reference(self, reference: ir.Reference) -> list[int]:
        table = self.barriers if reference.name in self.barriers else self.named
        return [table[reference.name], *self._expression(reference.index)]

    def _effect(self, effect: ir.Effect) -> list[int]:
        e = self._expression
        return [
            self.buffers[effect.buffer], *e(effect.stage), int(effect.write),
            *optional(effect.tile, e), *optional(effect.part, e), PROXIES.index(effect.proxy),
            int(effect.accumulates), _operator(effect.reduction),
            int(effect.reach is ir.Scope.CTA),
        ]  # fmt: skip

    def _expression(self, expression: Expression) -> list[int]:
        e = self._expression
        match expression:
            case Constant(value):
                return [0, value]
            case Name(name):
                return [1, self.names[name]]
            case Not(operand):
                return [2, *e(operand)]
            case Binary(operator, left, right):
                return [3, BINARY_OPERATORS.index(operator), *e(left), *e(right)]

    # ----------------------------------------------------------------------------- states

    def state(self, state: State) -> list[int]:
        """All of a state but the marks that the subset does not have."""

        def key(table: dict[str, int], found: tuple[str, int]) -> list[int]:
            return [table[found[0]], found[1]]

        def several(numbers: Iterable[int]) -> list[int]:
            return listed(sorted(numbers), one)

        def several_marks(marks: Iterable[tuple[ir.Proxy, int, bool]]) -> list[int]:
            return listed(sorted([PROXIES.index(m[0]), m[1], int(m[2])] for m in marks), list)

        def flight(item: Flight) -> list[int]:
            def access(a: Any) -> list[int]:
                extent = optional(a[4], lambda x: [*key(self.storages, x[0]), x[1]])
                own = [*key(self.storages, a[0]), int(a[1]), a[2], PROXIES.index(a[3])]
                return [*own, *extent, *optional(a[5], _kind)]

            done = listed(item.completes, lambda c: [*key(self.barriers, c[0]), c[1]])
            return [item.agent, item.ordinal, item.site, *listed(item.accesses, access), *done,
                    int(item.reading), item.chunks]  # fmt: skip

        def groups(queue: QueueState) -> list[int]:
            closed = listed(queue.closed, lambda group: listed(group, flight))
            return [*closed, *listed(queue.open, flight)]

        return [
            *listed(
                state.positions,
                lambda q: [*listed(q.frames, list), *listed(q.values, one)],
            ),
            *listed(state.issued, one),
            *listed(
                state.barriers,
                lambda x: [
                    *key(self.barriers, x[0]), int(x[1].status), x[1].owner, x[1].expected,
                    x[1].pending, x[1].transaction, x[1].phase, *several(x[1].tokens),
                    int(x[1].observed), *several(x[1].armed),
                ],
            ),
            *listed(
                state.named,
                lambda x: [
                    *key(self.named, x[0]), x[1].arrived_threads, x[1].expected_threads,
                    *several(x[1].arrived), *several(x[1].waiting), *several(x[1].armed),
                ],
            ),
            *listed(
                state.cells,
                lambda x: [
                    *key(self.storages, x[0]), x[1].tile, *several(x[1].writers),
                    *several(x[1].readers), *several(x[1].authors), int(x[1].released),
                    *several_marks(x[1].marks.inside), *several_marks(x[1].marks.outside),
                    *listed(sorted(x[1].marks.released), list),
                ],
            ),
            *listed(
                state.queues,
                lambda x: [x[0][0], self.queues[x[0][1]], *groups(x[1])],
            ),
            *listed(state.free_flights, flight),
            *listed([free for _, free in state.pools], one),
        ]  # fmt: skip


def step_numbers(step: Step) -> list[int]:
    return [ACTORS.index(step.actor), step.agent, step.ordinal]


def fault_numbers(fault: Fault) -> list[int]:
    return [int(fault.kind.value.removeprefix("TTN")), *listed(fault.agents, one)]


def line(letter: str, numbers: Sequence[int]) -> str:
    return " ".join([letter, *(str(int(number)) for number in numbers)])


class Walk:
    """One interleaving of the reference interpreter, `choose` taking each step: what it shows.

    `question` is what the extracted semantics is asked, `told` the lines that it should print.
    """

    def __init__(
        self,
        program: ir.SyncProgram,
        sizes: Sizes,
        choose: Callable[[list[Step]], Step],
        steps_max: int,
    ) -> None:
        text = Text(program, sizes)
        taken: list[Step] = []
        self.told: list[str] = []
        self.faults: set[str] = set()
        self._run(text, choose, steps_max, taken)
        self.told.append("E")
        numbers = [1, *text.numbers, *listed(taken, step_numbers)]
        self.question = line("", numbers)
        self.steps = len(taken)

    def _run(
        self, text: Text, choose: Callable[[list[Step]], Step], steps_max: int, taken: list[Step]
    ) -> None:
        machine = text.machine
        try:
            state = machine.initial()
            while True:
                self.told.append(line("S", text.state(state)))
                steps = machine.steps(state)
                self.told.append(line("N", listed(steps, step_numbers)))
                wrong = machine.state_fault(state)
                self.told.append(line("F", [0] if wrong is None else fault_numbers(wrong)))
                if wrong is not None:
                    self.faults.add(wrong.kind.value)
                if not steps or len(taken) == steps_max:
                    return
                taken.append(choose(steps))
                after, fault = machine.apply(state, taken[-1])
                if after is None:
                    assert fault is not None
                    self.told.append(line("A", fault_numbers(fault)))
                    self.faults.add(fault.kind.value)
                    return
                state = after
        except ZeroDivisionError:
            self.told.append("U")
