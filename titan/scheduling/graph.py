"""Dependence graphs from Python: operations, dependences, a machine; scheduled like any loop.

    from titan.scheduling.graph import DependenceGraph
    from titan.scheduling.run import Request

    graph = DependenceGraph("mine", {"TC": 1, "SFU": 1})
    graph.operation("S", TC=1)
    graph.operation("P", SFU=1)
    graph.operation("O", TC=1)
    graph.edge("S", "P")
    graph.edge("P", "O")
    graph.edge("O", "O", distance=1)
    result = graph.solve(Request(solver="joint"))
    print(result.schedule.ii, result.schedule.starts)

The machine is the name of one of `backends/`, a `titan.target.model.Machine`, or unit capacities.
All faults of a graph are reported at once. Cycles are whole numbers; registers are 32-bit words of
a whole tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from titan.foundation.diagnostics.wording import nearest
from titan.foundation.errors import UserError
from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, Operation, ReservationUse
from titan.scheduling.run import Request, ScheduleRun, run
from titan.target.load import known_machines
from titan.target.load import machine as known_machine
from titan.target.model import Machine, Unit, WarpGroup


class GraphError(UserError):
    """A graph that is not a loop; `faults` has a line for each thing that is wrong with it."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Traits:
    """What an operation has beside its units; the fields are those of a loop file.

    `latency` (cycles) defaults to the end of its units; `registers` in words; `holds` in the
    measure of each memory; `spill`: cycles to hand its value to another group; `issue`: cycles that
    its own warps are busy issuing it, by default as long as it takes units.
    """

    latency: int | None = None
    registers: int = 0
    warps: int = 1
    holds: Mapping[str, int] | None = None
    variable_latency: bool = False
    slots: int | None = None
    spill: int = 0
    issue: int | None = None


class DependenceGraph:
    """A loop in the making. Operations have to be there before their edges."""

    def __init__(
        self,
        name: str,
        machine: str | Machine | Mapping[str, int],
        groups: Sequence[WarpGroup] | None = None,
    ) -> None:
        if isinstance(machine, str):
            if machine not in known_machines():
                near = nearest(machine, list(known_machines()))
                mean = f"; did you mean `{near}`" if near else ""
                raise GraphError([f"unknown machine `{machine}`{mean}"])
            machine = known_machine(machine)
        elif isinstance(machine, Mapping):
            units = {unit: Unit(unit, capacity) for unit, capacity in machine.items()}
            machine = Machine(name, "", units)
        self.name, self.machine = name, machine
        self.groups = tuple(machine.groups if groups is None else groups)
        self.operations: dict[str, Operation] = {}
        self.dependences: list[Dependence] = []
        self.faults: list[str] = []

    def operation(self, name: str, traits: Traits | None = None, **units: int) -> None:
        """An operation with the cycles that it takes of each unit: `operation("S", TC=512)`."""
        traits = traits or Traits()
        if name in self.operations:
            self.faults.append(f"operation `{name}` is listed twice")
        for unit, cycles in units.items():
            if unit not in self.machine.units:
                self._unknown("unit", unit, self.machine.units, f"of `{name}`")
            if cycles < 1:
                self.faults.append(f"`{name}` takes {cycles} cycles of {unit}")
        for memory in traits.holds or ():
            if memory not in self.machine.memories:
                self._unknown("memory", memory, self.machine.memories, f"of `{name}`")
        uses = tuple(ReservationUse(unit, cycles) for unit, cycles in units.items())
        made = Operation(
            name,
            uses,
            registers=traits.registers,
            warps=traits.warps,
            footprints=tuple(sorted((traits.holds or {}).items())),
            variable_latency=traits.variable_latency,
            streaming=traits.slots is not None,
            slots=traits.slots,
            spill_cycles=traits.spill,
            issue_cycles=traits.issue,
        )
        latency = made.cycles if traits.latency is None else traits.latency
        self.operations[name] = replace(made, latency_cycles=latency)

    def edge(
        self,
        source: str,
        sink: str,
        delay: int | None = None,
        distance: int = 0,
        order: bool = False,
        blocking: bool = False,
    ) -> None:
        """`sink` of iteration i + `distance` is issued `delay` cycles after `source` of i or later.

        The delay is by default the latency of the source. `order`: no value is handed over, none
        is kept alive. `blocking`: the warps of the sink wait for the source.
        """
        known = [name for name in (source, sink) if name not in self.operations]
        for name in known:
            self._unknown("operation", name, self.operations, f"of the edge {source} -> {sink}")
        if distance < 0 or (delay is not None and delay < 0):
            self.faults.append(f"the edge {source} -> {sink} has a negative delay or distance")
        if known:
            return
        names = list(self.operations)
        wait = self.operations[source].latency_cycles if delay is None else delay
        kind = ORDER if order else DATA
        found = Dependence(names.index(source), names.index(sink), wait, distance, kind, blocking)
        self.dependences.append(found)

    def _unknown(self, what: str, name: str, known: Mapping[str, object], where: str) -> None:
        near = nearest(name, list(known))
        mean = f"; did you mean `{near}`" if near else ""
        self.faults.append(f"unknown {what} `{name}` {where}{mean}")

    def loop(self) -> Loop:
        """The loop. Raises GraphError with every fault."""
        faults = list(self.faults)
        if not self.operations:
            faults.append("the graph has no operations")
        for operation in self.operations.values():
            if self.groups and all(group.warps < operation.warps for group in self.groups):
                faults.append(
                    f"no warp group has the {operation.warps} warps of `{operation.name}`"
                )
        if faults:
            raise GraphError(faults)
        operations = tuple(self.operations.values())
        return Loop(self.name, self.machine, operations, tuple(self.dependences), self.groups)

    def solve(self, request: Request | None = None) -> ScheduleRun:
        """Schedule the graph; the request says by whom, by default Rau and the joint solver.

        Raises GraphError, and Unschedulable where a bound shows that there is no schedule.
        """
        return run(self.loop(), request or Request())
