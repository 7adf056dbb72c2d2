"""Where everything of a sync program lies in the arrays of its Promela model, and shared spellings.

Memory is one array of cells, mbarriers of all stages are one array, and so on; `PromelaLayout` says
at which index each thing begins. Promela of a state stands in `promela_text`, that of
what accesses leave behind in `promela_marks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from titan.engines.spin.names import (
    AgentScope,
    Do,
    ExportError,
    Jump,
    Let,
    Node,
    Test,
    flatten,
)
from titan.sync import program as ir
from titan.sync.control import Sizes
from titan.sync.fault import FaultKind
from titan.sync.reductions import Reduction, commute, reduction_of

OUT_OF_CAPACITY = 1
OF_NO_MODEL = (FaultKind.WEAK_SYNCHRONISATION,)  # relaxed synchronisation orders all the same here
AGENTS_MAX = 30
CELLS_MAX = 4096
TRANSACTION_MAX = 2**20 - 1


def number_of(kind: FaultKind | int) -> int:
    """What the variable `fault` holds for a kind: the number of its rule. OUT_OF_CAPACITY stays."""
    return kind if isinstance(kind, int) else int(kind.value.removeprefix("TTN"))


ALL_FAULTS = (OUT_OF_CAPACITY, *(number_of(kind) for kind in FaultKind if kind not in OF_NO_MODEL))


def fail(condition: str, kind: FaultKind | int) -> str:
    """`fault` becomes the kind's where the condition holds and nothing has failed before."""
    return f"if :: fault == 0 && ({condition}) -> fault = {number_of(kind)} :: else fi;"


def when_sound(*statements: str) -> str:
    """The statements, unless something has failed."""
    inner = " ".join(statements).rstrip("; ")
    return f"if :: fault == 0 -> {inner} :: else fi;"


def indent(lines: Iterable[str]) -> list[str]:
    """The lines, each two spaces further to the right."""
    return [f"  {line}" for line in lines]


@dataclass(frozen=True)
class AgentLayout:
    """One agent in the model: its nodes, its variables, and the name of its counter `pc`."""

    number: int
    role: ir.Role
    nodes: list[Node]
    scope: AgentScope
    pc: str

    @property
    def end(self) -> int:
        """The value of `pc` when the agent has executed all its nodes."""
        return len(self.nodes)

    def operations(self) -> list[tuple[int, ir.Operation]]:
        """Each operation with its place, the value of `pc` at which it is next."""
        return [
            (place, node.operation) for place, node in enumerate(self.nodes) if isinstance(node, Do)
        ]


class PromelaLayout:
    """Where everything of the program lies in the arrays of the model."""

    def __init__(self, program: ir.SyncProgram, sizes: Sizes, prefix: str, capacity: int) -> None:
        self.program, self.prefix, self.capacity = program, prefix, capacity
        self.agents: list[AgentLayout] = []
        for role in program.roles:
            for member in range(role.agents):
                number = len(self.agents)
                own = f"{prefix}a{number}_"
                scope = AgentScope(program, role, member, sizes, own)
                nodes = flatten(role.body)
                self.agents.append(AgentLayout(number, role, nodes, scope, f"{own}pc"))
        if len(self.agents) > AGENTS_MAX:
            raise ExportError(f"more than {AGENTS_MAX} agents")
        self.engine_bit = 1 << len(self.agents)
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.queues = {queue.name: queue for queue in program.queues}
        self.barriers = {barrier.name: barrier for barrier in program.barriers}
        self.named = {barrier.name: barrier for barrier in program.named_barriers}
        self.pools = {pool.name: n for n, pool in enumerate(program.pools)}
        self.barrier_base = _bases((b.name, b.stages) for b in program.barriers)
        self.named_base = _bases((b.name, b.stages) for b in program.named_barriers)
        self.storage_base = self._place_storage()
        self.homes = {
            buffer.storage or buffer.name: buffer.cta
            for buffer in program.buffers
            if buffer.space is not ir.Space.GLOBAL
        }
        self._reductions: dict[Reduction, int] = {}
        self._collect_flights()

    def _place_storage(self) -> dict[str, int]:
        """The array index of unit 0 of every storage (units below the lowest used do not exist)."""
        lowest: dict[str, int] = {}
        highest: dict[str, int] = {}
        for buffer in self.program.buffers:
            storage = buffer.storage or buffer.name
            last = buffer.offset + buffer.stages * buffer.parts * buffer.units
            lowest[storage] = min(lowest.get(storage, buffer.offset), buffer.offset)
            highest[storage] = max(highest.get(storage, last), last)
        bases, self.cells = {}, 0
        for storage, start in lowest.items():
            bases[storage] = self.cells - start
            self.cells += highest[storage] - start
        if self.cells > CELLS_MAX:
            raise ExportError(f"more than {CELLS_MAX} cells of memory")
        return bases

    def _collect_flights(self) -> None:
        self.lanes: dict[tuple[int, str | None], int] = {}
        self.effects_max = self.completions_max = 1
        self.split_reads: set[str] = set()
        for agent in self.agents:
            for _, operation in agent.operations():
                if isinstance(operation, ir.Asynchronous | ir.Commit | ir.QueueArrive):
                    self.lanes.setdefault((agent.number, operation.queue), len(self.lanes))
                if isinstance(operation, ir.Asynchronous):
                    self.effects_max = max(self.effects_max, len(operation.effects))
                    self.completions_max = max(self.completions_max, len(operation.completes))
                if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ:
                    self.split_reads.add(operation.queue)

    def reduction(self, agent: AgentLayout, effect: ir.Effect) -> int:
        """The number of the kind of reduction; 0: it is none, negative: it does not commute."""
        kind = reduction_of(effect, agent.role.cta)
        if kind is None:
            return 0
        number = self._reductions.setdefault(kind, len(self._reductions) + 1)
        return number if commute(kind, kind) else -number

    @property
    def slots(self) -> int:
        """Places for flights in the model: `capacity` for every lane."""
        return len(self.lanes) * self.capacity

    def control(self, agent: AgentLayout) -> list[str]:
        """One option for every control node of the agent."""
        options = []
        for place, node in enumerate(agent.nodes):
            here = f"{agent.pc} == {place} ->"
            if isinstance(node, Jump):
                options.append(f"{here} {agent.pc} = {node.target}")
            elif isinstance(node, Test):
                condition = agent.scope.text(node.condition)
                following = f"({condition} -> {place + 1} : {node.target})"
                options.append(f"{here} {agent.pc} = {following}")
            elif isinstance(node, Let):
                variable = agent.scope.variables[node.variable]
                text = f"{variable} + 1" if node.value is None else agent.scope.text(node.value)
                options.append(f"{here} {variable} = {text}; {agent.pc} = {place + 1}")
        return options

    def ended(self, cta: int) -> str:
        """Condition: the memory of the CTA is gone: all its agents are at their end."""
        if self.program.policies.exit_in_flight == "allow":
            return "false"
        conditions = [f"{a.pc} == {a.end}" for a in self.agents if a.role.cta == cta]
        return " && ".join(conditions) if conditions else "false"


def _bases(arrays: Iterable[tuple[str, int]]) -> dict[str, int]:
    bases, total = {}, 0
    for name, stages in arrays:
        bases[name] = total
        total += stages
    bases[""] = total
    return bases
