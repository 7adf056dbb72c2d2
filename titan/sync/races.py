"""Data races between synchronous accesses: two agents stand at them and nothing orders the two.

Every other conflict is found when a step is executed, since one of the two is in flight then.
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow
from titan.sync.fault import Fault, FaultKind
from titan.sync.memory_rules import MemoryRules
from titan.sync.reductions import Reduction, commute
from titan.sync.state import Cell, Draft, ExecutionContext, FaultFound, State, key_text

Use = tuple[bool, Reduction | None]  # of a cell: whether it is written, and how it is added to


class RaceRules:
    """Which states show a race."""

    def __init__(self, control: ControlFlow, memory: MemoryRules) -> None:
        self._control = control
        self._memory = memory

    def race(self, state: State) -> Fault | None:
        """Two agents stand at conflicting synchronous accesses: nothing orders them."""
        pending: list[tuple[Agent, ir.Operation, dict[Cell, set[Use]]]] = []
        for agent in self._control.agents:
            operation = self._control.operation_of(state, agent.number)
            if not isinstance(operation, ir.Access):
                continue
            touched = self._touched(state, agent, operation)
            for other, other_operation, others in pending:
                for cell in sorted(touched.keys() & others.keys()):
                    if _clash(touched[cell], others[cell]):
                        message = (
                            f"{other.name} and {agent.name} access {key_text(cell)} and nothing "
                            "orders them"
                        )
                        numbers = (other.number, agent.number)
                        operations = (other_operation, operation)
                        return Fault(FaultKind.DATA_RACE, message, numbers, operations, cell[0])
            pending.append((agent, operation, touched))
        return None

    def _touched(self, state: State, agent: Agent, operation: ir.Access) -> dict[Cell, set[Use]]:
        """The cells of the access, each with how it is used."""
        environment = self._control.environment(agent, state.positions[agent.number].values)
        touched: dict[Cell, set[Use]] = {}
        for effect in operation.effects:
            try:
                context = ExecutionContext(agent.number, operation)
                cells, _ = self._memory.resolve(Draft(state), context, effect, environment)
            except FaultFound:
                continue  # the step itself reports it
            for cell in cells:
                use = effect.write, self._memory.kind_of(context, effect)
                touched.setdefault(cell, set()).add(use)
        return touched


def _clash(uses: set[Use], others: set[Use]) -> bool:
    """Whether two of the uses need an order: one writes, and they do not commute."""
    return any(
        (write or wrote) and not commute(kind, other)
        for write, kind in uses
        for wrote, other in others
    )
