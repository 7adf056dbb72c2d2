"""Certificates of single runs that represent all: re-derived step by step.

Verdicts on compiled code rest on one run of each cluster. The certificate of one is the sync
program that was recorded, and a whole run of it, one step a line. The checker executes each step
with the reference interpreter, writes the line that this gives (the phase of each barrier operation
and the line of the completion that it is behind), and compares; it derives again what is ordered in
every run (run_order.py), and refuses where a barrier operation could fall into another phase, two
conflicting accesses are not ordered, a proxy fence is not on the way, work may be in flight when a
CTA ends, or a pool could run out. It imports no solver and none of the engines.

Sizes are numbers, and programs straight lines: what compiled code did in one launch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from titan.foundation.errors import Refusal, UserError
from titan.proof.run_barriers import BarrierOrder, NamedOrder
from titan.proof.run_memory import MemoryOrder
from titan.proof.run_order import Clock, Entries, Mark, Moment, Work, joined, with_mark
from titan.proof.run_supported import unsupported
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import LETTERS, Actor, Step
from titan.sync.interpreter import Interpreter
from titan.sync.open_numbers import NotCoveredError
from titan.sync.parts import barriers_of, completions_of, effects_of, queue_of, state_parts
from titan.sync.state import Key, State, key_of
from titan.sync.text import digest_of, program_of, text_of

RUN_HEAD = "titan-run-certificate 1"
PARTS_MAX = 1_000_000
NEVER: Mark = (0, 1 << 60)  # a mark that nobody reaches
_ACTORS = {letter: actor for actor, letter in LETTERS.items()}


class RunRefusedError(UserError):
    """The certificate proves nothing; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class CoveredRun:
    """What the certificate of a run proves: of which program, by how many steps."""

    program: ir.SyncProgram
    digest: str
    steps: int
    barrier_operations: int


@dataclass(slots=True)
class AgentQueue:
    """Work of one agent in one queue, by groups; `covered` of them some wait has covered."""

    groups: list[list[Work]] = field(default_factory=list)
    open: list[Work] = field(default_factory=list)
    issued: int = 0
    covered: dict[ir.Until, int] = field(default_factory=lambda: defaultdict(int))


class RunProof:
    """Follows one run of a program; `step` gives the line of each step."""

    def __init__(self, program: ir.SyncProgram) -> None:
        if (reason := unsupported(program)) is not None:
            raise NotCoveredError(reason)
        if state_parts(program) > PARTS_MAX:
            raise NotCoveredError(f"the program has more than {PARTS_MAX:,} parts")
        self.program = program
        self.machine = Interpreter(program, {})
        self.state: State = self.machine.initial()
        agents = self.machine.agents
        self.ctas = tuple(agent.role.cta for agent in agents)
        self.entries = Entries(len(agents))
        self.ordered = {queue.name for queue in program.queues if queue.ordered}
        self.grouped = {queue.name for queue in program.queues if queue.grouped}
        for agent in agents:
            used = {queue_of(operation) for operation in agent.role.body} & self.ordered
            for name in sorted(name for name in used if name is not None):
                self.entries.add(("end", agent.number, name))
                self.entries.add(("read", agent.number, name))
        arrays = [(item.name, item.stages) for item in program.barriers]
        arrays += [(item.name, item.stages) for item in program.named_barriers]
        for array, stages in arrays:
            for stage in range(stages):
                self.entries.add((array, stage))
        self.clocks: list[Clock] = [self.entries.start() for _ in agents]
        self.counts = [0] * len(agents)
        self.queues: dict[tuple[int, str], AgentQueue] = defaultdict(AgentQueue)
        self.works: dict[tuple[int, int], tuple[Work, ir.Operation, list[Key]]] = {}
        self.issued = [0] * len(agents)
        self.memory = MemoryOrder(program, self.ctas)
        ahead = program.policies.unobserved_phase == "allow"
        self.barriers = {
            (item.name, stage): BarrierOrder(
                self.entries.of((item.name, stage)), ahead, None if item.initialised else NEVER
            )
            for item in program.barriers
            for stage in range(item.stages)
        }
        self.places = {key: place for place, (key, _) in enumerate(self.state.barriers)}
        self.named = {
            (item.name, stage): NamedOrder(self.entries.of((item.name, stage)))
            for item in program.named_barriers
            for stage in range(item.stages)
        }
        self.uses: list[tuple[int, Mark]] = []  # steps that use another CTA, which must be there
        self.pools: dict[str, list[tuple[int, Moment]]] = defaultdict(list)
        self.completions: dict[tuple[Key, int], int] = {}  # line of the last one of a phase
        self.line = self.barrier_operations = 0
        self.barrier_ctas = {item.name: item.cta for item in program.barriers}
        self.buffer_ctas = {
            item.name: item.cta for item in program.buffers if item.space is not ir.Space.GLOBAL
        }

    # ---------------------------------------------------------------------------- steps

    def step(self, step: Step, line: int) -> str:
        """Execute a step; its line. Raises NotCoveredError."""
        if not self.machine.possible(self.state, step):
            raise NotCoveredError("the step is not possible here")
        before, self.line = self.state, line
        values = self._values(step.agent) if step.actor is Actor.AGENT else {}
        operation = self.machine.control.operation_of(before, step.agent)
        after, fault = self.machine.apply(before, step)
        if after is None:
            raise NotCoveredError(fault.message if fault is not None else "the step fails")
        self.state = after
        if step.actor is Actor.AGENT:
            assert operation is not None
            words = [step.text, type(operation).__name__]
            words += self._executed(step.agent, operation, values)
        else:
            words = [step.text]
            words += self._ended(step) if step.actor is Actor.FINISH else []
        return " ".join(words)

    def _values(self, agent: int) -> dict[str, int]:
        position = self.state.positions[agent]
        return self.machine.control.environment(self.machine.agents[agent], position.values)

    def _executed(self, agent: int, operation: ir.Operation, values: dict[str, int]) -> list[str]:
        self.counts[agent] += 1
        moment = Moment(self.clocks[agent], (agent, self.counts[agent]))
        match operation:
            case ir.Access(effects=effects):
                self._touch(agent, moment, effects, values, None)
            case ir.Asynchronous() | ir.QueueArrive():
                self._start(agent, moment, operation, values)
            case ir.Commit(queue=name):
                queue = self.queues[(agent, name)]
                queue.groups.append(queue.open)
                queue.open = []
            case ir.QueueWait():
                self._queue_wait(agent, moment, operation, values)
            case ir.Fence():
                self.memory.fence(agent, moment, operation)
            case ir.PoolTake(pool=name, amount=amount):
                self.pools[name].append((-evaluate(amount, values), moment))
            case ir.PoolGive(pool=name, amount=amount):
                self.pools[name].append((evaluate(amount, values), moment))
            case ir.BarrierSync() | ir.BarrierArrive() | ir.BarrierWait():
                return self._meeting(agent, moment, operation, values)
            case _:
                return self._mbarrier(agent, moment, operation, values)
        return []

    def _learn(self, agent: int, clock: Clock | None) -> None:
        if clock is not None:
            self.clocks[agent] = joined((self.clocks[agent], clock))

    def _touch(
        self, agent: int, moment: Moment, effects: tuple[ir.Effect, ...], values: dict[str, int],
        work: Work | None,
    ) -> None:  # fmt: skip
        places = [
            (evaluate(e.stage, values), None if e.part is None else evaluate(e.part, values))
            for e in effects
        ]
        self.memory.access(agent, moment, effects, places, work)
        for effect in effects:
            self._uses(agent, moment, self.buffer_ctas.get(effect.buffer, self.ctas[agent]))

    def _uses(self, agent: int, moment: Moment, cta: int) -> None:
        if cta != self.ctas[agent]:
            self.uses.append((cta, moment.mark))

    def _start(
        self,
        agent: int,
        moment: Moment,
        operation: ir.Asynchronous | ir.QueueArrive,
        values: dict[str, int],
    ) -> None:
        name = operation.queue
        work = Work(moment, queue=None if name is None else (agent, name))
        keys = [key_of(reference, values) for reference in barriers_of(operation)]
        self.works[(agent, self.issued[agent])] = work, operation, keys
        self.issued[agent] += 1
        for key in keys:
            self.barriers[key].works.append(work)
        if name is not None:
            queue = self.queues[(agent, name)]
            queue.issued += 1
            if name in self.ordered:
                work.ends.append((self.entries.of(("end", agent, name)), queue.issued))
                work.read.append((self.entries.of(("read", agent, name)), queue.issued))
            if name in self.grouped:
                queue.open.append(work)
            else:
                queue.groups.append([work])
        if isinstance(operation, ir.Asynchronous):
            self._touch(agent, moment, operation.effects, values, work)

    def _queue_wait(
        self, agent: int, moment: Moment, operation: ir.QueueWait, values: dict[str, int]
    ) -> None:
        """The agent comes to know the end of all groups but the newest."""
        queue, until = self.queues[(agent, operation.queue)], operation.until
        pending = evaluate(operation.pending, values)
        last = max(queue.covered[until], len(queue.groups) - pending)
        covered = [work for group in queue.groups[queue.covered[until] : last] for work in group]
        if operation.queue not in self.ordered:
            if pending:
                return  # any of them may be the ones that are left
            for work in covered:
                (work.read if until is ir.Until.READ else work.ends).append(moment.mark)
        elif covered:
            marks = covered[-1].read + (covered[-1].ends if until is ir.Until.DONE else [])
            for mark in marks:
                self.clocks[agent] = with_mark(self.clocks[agent], mark)
        queue.covered[until] = last

    def _meeting(
        self,
        agent: int,
        moment: Moment,
        operation: ir.BarrierSync | ir.BarrierArrive | ir.BarrierWait,
        values: dict[str, int],
    ) -> list[str]:
        key = key_of(operation.barrier, values)
        named = self.named[key]
        self.barrier_operations += 1
        words = [_text(key), str(named.generation)]
        if isinstance(operation, ir.BarrierWait):
            self._learn(agent, named.passed[agent])
            return words
        counted = self.machine.agents[agent].role.threads, evaluate(operation.threads, values)
        waits = isinstance(operation, ir.BarrierSync)
        for other, clock in named.arrive(agent, moment, counted, waits).items():
            self._learn(other, clock)
        return words

    def _mbarrier(
        self, agent: int, moment: Moment, operation: ir.Operation, values: dict[str, int]
    ) -> list[str]:
        (reference,) = barriers_of(operation)
        key = key_of(reference, values)
        barrier = self.barriers[key]
        self.barrier_operations += 1
        self._uses(agent, moment, self.barrier_ctas[key[0]])
        waits = isinstance(operation, ir.Wait)
        words = self._bounds(key, barrier.phase - waits)
        match operation:
            case ir.Arrive(transaction=transaction, count=count):
                if evaluate(count, values) < 1:
                    raise NotCoveredError("an arrival that counts for nothing")
                barrier.counts(moment, True, evaluate(transaction, values), 0)
            case ir.ExpectTransaction(bytes=amount):
                barrier.counts(moment, False, evaluate(amount, values), 0)
            case ir.Wait():
                self._learn(agent, barrier.wait(moment))
            case ir.Init():
                barrier.initialise(moment)
            case ir.Invalidate():
                barrier.invalidate(moment)
        if not isinstance(operation, ir.Invalidate):
            barrier.users[agent] = moment.mark[1]
        return words + self._settled(key)

    def _bounds(self, key: Key, phase: int) -> list[str]:
        """The barrier, the phase, and the line of the completion that the step is behind."""
        return [_text(key), str(phase), f"behind {self.completions.get((key, phase - 1), 0)}"]

    def _settled(self, key: Key) -> list[str]:
        """Whether the step has completed the phase."""
        barrier = self.barriers[key]
        if self.state.barriers[self.places[key]][1].phase != barrier.phase + 1:
            return []
        self.completions[(key, barrier.phase)] = self.line
        barrier.complete()
        return ["completes"]

    def _ended(self, step: Step) -> list[str]:
        """The end of an operation: what it completes."""
        work, operation, keys = self.works[(step.agent, step.ordinal)]
        end, words = work.end(), []
        completes = completions_of(operation)
        for number, key in enumerate(keys):
            self.barrier_operations += 1
            barrier = self.barriers[key]
            amount = evaluate(completes[number].bytes, {}) if completes else 0
            words += self._bounds(key, barrier.phase)
            barrier.counts(end, not completes, 0, amount)
            work.ends.append(barrier.completion(barrier.phase))
            words += self._settled(key)
        return words

    # ------------------------------------------------------------------------------ end

    def finish(self) -> None:
        """What needs the whole run. Raises NotCoveredError."""
        if any(position.frames for position in self.state.positions) or self.machine.steps(
            self.state
        ):
            raise NotCoveredError("the run does not go to the end of the program")
        for key, barrier in self.barriers.items():
            if self.state.barriers[self.places[key]][1].pending == 0:
                barrier.settle()
        for name, changes in self.pools.items():
            self._pool(name, changes)
        if self.program.policies.exit_in_flight != "allow":
            self._lifetimes()

    def _pool(self, name: str, changes: list[tuple[int, Moment]]) -> None:
        """Whoever waits for a pool first of all who do is served, whoever else has taken."""
        left = next(pool.available for pool in self.program.pools if pool.name == name)
        for place, (amount, moment) in enumerate(changes):
            later = sum(a for a, m in changes[place + 1 :] if a < 0 and not m.knows(moment.mark))
            if amount < 0 and left + amount + later < 0:
                raise NotCoveredError(f"{name} may not suffice")
            left += amount

    def _lifetimes(self) -> None:
        """Nothing uses a CTA that may have ended: an agent of it has not, and knows that."""
        last: dict[int, list[Moment]] = defaultdict(list)
        for agent, cta in enumerate(self.ctas):
            last[cta].append(Moment(self.clocks[agent], (agent, self.counts[agent])))
        for cta, mark in self.uses:
            if not any(moment.knows(mark) for moment in last[cta]):
                raise NotCoveredError(f"CTA {cta} may have ended when it is used")
        for work, operation, keys in self.works.values():
            needs = {(self.barrier_ctas[key[0]], True) for key in keys}
            for effect in effects_of(operation):
                if effect.buffer in self.buffer_ctas:
                    needs.add((self.buffer_ctas[effect.buffer], effect.write))
            for cta, writes in needs:
                if not any(work.over(moment, writes) for moment in last[cta]):
                    raise NotCoveredError(f"work may be in flight when CTA {cta} ends")


def _text(key: Key) -> str:
    return f"{key[0]}[{key[1]}]"


def step_of(word: str) -> Step:
    """The step that the first word of a line names. Raises ValueError."""
    agent, _, ordinal = word[1:].partition(".")
    step = Step(_ACTORS[word[:1]], int(agent), int(ordinal) if ordinal else -1)
    if (step.actor is Actor.AGENT) == bool(ordinal):
        raise ValueError(f"no step is called {word}")
    return step


def run_head(program: ir.SyncProgram) -> str:
    """The first lines: the program as text, and its digest."""
    text = text_of(program)
    return f"{RUN_HEAD}\nprogram {digest_of(text)} {text}\n"


def check_run(text: str) -> CoveredRun:
    """Check the certificate of a run. Raises RunRefusedError."""
    lines, number = text.split("\n"), 1
    try:
        if len(lines) < 4 or lines[0] != RUN_HEAD or text != sealed("\n".join(lines[:-2]) + "\n"):
            raise NotCoveredError("not the certificate of a run, or not the text that was written")
        number = 2
        program = program_of(lines[1].split(" ", 2)[2])
        if not text.startswith(run_head(program)):
            raise NotCoveredError("the first lines are others")
        proof = RunProof(program)
        for number, line in enumerate(lines[2:-2], 3):
            derived = proof.step(step_of(line.partition(" ")[0]), number)
            if line != derived:
                raise NotCoveredError(f"what is derived is another line: {derived}")
        proof.finish()
    except Refusal as reason:
        raise RunRefusedError(number, str(reason)) from None
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise RunRefusedError(number, f"not a line of a certificate ({error})") from None
    digest = digest_of(text_of(program))
    return CoveredRun(program, digest, len(lines) - 4, proof.barrier_operations)


def sealed(body: str) -> str:
    """The text with its closing line."""
    return f"{body}end {digest_of(body)}\n"
