"""What no other agent meets: operations on memory and named barriers of one agent alone.

Such an operation commutes with whatever the others do, wherever they stand and whatever their
numbers: nothing that it touches is named by an operation of another agent, and it waits for none of
them. Decided from the text of the program: the part of a buffer and the place of a named barrier
are known where the agent's own number decides them. Stages are not asked for, so that what is
private is so from whatever stage on an array is listed. A proxy fence is private where all that its
agent accesses is, and no engine leaves marks: then it takes away marks that nobody else meets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow
from titan.sync.footprints import Lasting, Touched, named_key, touched_by
from titan.sync.state import ENGINE, Key

NAMED = ir.BarrierSync | ir.BarrierArrive | ir.BarrierWait
LIFE = ir.Init | ir.Invalidate | ir.ExpectTransaction | ir.TokenWait
MARKED = (ir.Proxy.GENERIC, ir.Proxy.ASYNC)  # other proxies leave marks for others to meet


class PrivateOperations:
    """The operations that are private to their agent, by its number and their identity."""

    def __init__(self, control: ControlFlow) -> None:
        program = control.program
        self._known = [
            Lasting(control.constants_of(agent), {b.name for b in program.buffers})
            for agent in control.agents
        ]
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._places = {barrier.name: barrier.stages for barrier in program.named_barriers}
        self._abroad = {
            (b.storage or b.name, agent.number)
            for b in program.buffers
            for agent in control.agents
            if b.space is not ir.Space.GLOBAL and b.cta != agent.role.cta
        }
        self._users: defaultdict[Key, set[int]] = defaultdict(set)
        self._accessed: defaultdict[int, set[Key]] = defaultdict(set)
        placed = [(a, op) for a in control.agents for op in ir.walk(a.role.body)]
        for agent, operation in placed:
            self._use(agent, operation)
        if any(isinstance(operation, LIFE) for _, operation in placed):
            placed = []  # nothing is claimed beside barriers that come and go
        self._found = {(a.number, id(op)) for a, op in placed if self._is_private(a, op)}

    def __call__(self, agent: int, operation: ir.Operation) -> bool:
        """Whether the operation is private to the agent with that number."""
        return (agent, id(operation)) in self._found

    def _touched(self, agent: Agent, operation: ir.Operation) -> Touched | None:
        return touched_by(operation, self._known[agent.number], self._buffers)

    def _named(self, agent: Agent, barrier: ir.Reference) -> list[Key]:
        """The named barriers that a reference may mean."""
        index = self._known[agent.number].value(barrier.index)
        places = range(self._places.get(barrier.name, 0))
        return [named_key((barrier.name, n)) for n in places if index in (None, n)]

    def _use(self, agent: Agent, operation: ir.Operation) -> None:
        for cell, _, proxy, _ in self._touched(agent, operation) or ():
            own = isinstance(operation, ir.Access)
            by_engine = proxy not in MARKED or (proxy is ir.Proxy.GENERIC and not own)
            self._users[cell] |= {agent.number, ENGINE} if by_engine else {agent.number}
            if own:
                self._accessed[agent.number].add(cell)
        if isinstance(operation, NAMED):
            for key in self._named(agent, operation.barrier):
                self._users[key].add(agent.number)

    def _is_private(self, agent: Agent, operation: ir.Operation) -> bool:
        number = agent.number
        match operation:
            case ir.Commit() | ir.QueueWait():
                return True
            case ir.Fence(kind=ir.FenceKind.ASYNC):
                marked = any(ENGINE in users for users in self._users.values())
                return not marked and self._alone(number, self._accessed[number])
            case ir.BarrierSync(barrier=barrier, threads=threads):
                used = self._named(agent, barrier)
                fills = self._known[number].value(threads) == agent.role.threads
                return fills and len(used) == 1 and self._alone(number, used)
            case ir.Access() | ir.Asynchronous(queue=str(), completes=()):
                touched = self._touched(agent, operation) or ()
                home = all((cell[0], number) not in self._abroad for cell, *_ in touched)
                return home and self._alone(number, (cell for cell, *_ in touched))
        return False

    def _alone(self, number: int, used: Iterable[Key]) -> bool:
        return all(self._users[key] == {number} for key in used)
