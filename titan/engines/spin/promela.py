"""A sync program as a Promela model for Spin: `to_promela`.

The model has one process an agent and one for all engines; every step is atomic. It says what
docs/explanation/semantics.md says: faults are assertions on the global `fault` (the number is that
of the rule: 204 for TTN204), a deadlock is an invalid end state. It knows no reduction and shares
no code with the interpreter or the explorer, so that agreement with it means something.

Assumptions: all sizes are numbers, values fit 32 bits, at most 30 agents, and at most `capacity`
operations and commits of one queue of one agent are in flight at once (`fault` 1 says that the
capacity was too small; nothing is verified then).

Names of the program occur only in comments, and there only letters, digits and underscores.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.engines.spin.names import ExportError, comment_text
from titan.engines.spin.promela_layout import (
    ALL_FAULTS,
    AgentLayout,
    PromelaLayout,
    indent,
    number_of,
)
from titan.engines.spin.promela_marks import Marks
from titan.engines.spin.promela_operations import OperationText
from titan.engines.spin.promela_text import PromelaState
from titan.sync import program as ir
from titan.sync.control import Sizes
from titan.sync.fault import FaultKind

CAPACITY = 6
_HEADER = """\
/* {title} */
#define FLOOR_MOD(a, b) ((((a) % (b)) + (b)) % (b))
#define FLOOR_DIV(a, b) (((a) - FLOOR_MOD(a, b)) / (b))
#define UNDEFINED (0 - 2147483647)
#define ANY_TILE (0 - 2147483646)
#define NONE 255
#define RELEASED (0 - 1) /* a tensor map that waits for an acquire; else who has yet to release */
short fault = 0; /* number of the rule broken; 1: out of capacity */
byte which = 0;
/* Working variables; 0 between steps. */
int i; int j; int k; int m; int c; int low; int held; int slot; int barrier; int count; int size;
inline clear() {{
  i = 0; j = 0; k = 0; m = 0; c = 0; low = 0; held = 0; slot = 0; barrier = 0; count = 0; size = 0
}}
"""


def to_promela(
    program: ir.SyncProgram, sizes: Sizes | None = None, capacity: int = CAPACITY
) -> str:
    """The model of one program. Raises ExportError for what it cannot say."""
    model = _Model(program, sizes, "s_", capacity, reporting=None)
    return "\n".join([_HEADER.format(title=comment_text(program.name)), *model.parts()])


def to_promela_batch(
    programs: Sequence[tuple[ir.SyncProgram, Sizes | None]], capacity: int = CAPACITY
) -> str:
    """One model that runs any one of many programs and prints every fault that each can reach.

    It compiles in the time of one. Run `pan` with `-E -c0`: nothing is asserted.
    """
    models = [
        _Model(program, sizes, f"p{number}_", capacity, reporting=number)
        for number, (program, sizes) in enumerate(programs)
    ]
    lines = [_HEADER.format(title=f"{len(models)} programs"), _REPORT % len(models)]
    for model in models:
        lines += model.declarations()
    choices = [f":: atomic {{ which = {number}; {model.start()} }}" for number, model in
               enumerate(models)]  # fmt: skip
    lines += ["init {", "  if", *(f"  {choice}" for choice in choices), "  fi", "}"]
    return "\n".join(lines)


_REPORT = """\
c_code {
  static char titan_seen[%d][512];
  static void titan_report(int program, int code) {
    if (!titan_seen[program][code]) printf("TITAN %%d %%d\\n", program, code);
    titan_seen[program][code] = 1;
  }
};
"""


class _Model:
    """Prints one program; all its identifiers begin with `prefix`."""

    def __init__(
        self,
        program: ir.SyncProgram,
        sizes: Sizes | None,
        prefix: str,
        capacity: int,
        reporting: int | None,
    ) -> None:
        known: dict[str, int | tuple[int, ...]] = {}
        for parameter in program.parameters:
            size = (sizes or {}).get(parameter.name, parameter.value)
            if size is None:
                raise ExportError(f"parameter {parameter.name!r} has no size")
            known[parameter.name] = size
        self.program, self.prefix, self.reporting = program, prefix, reporting
        self.layout = PromelaLayout(program, known, prefix, capacity)
        self.state = PromelaState(self.layout, Marks(self.layout))
        self.operations = OperationText(self.layout, self.state)

    def parts(self) -> list[str]:
        return [*self.declarations(), f"init {{ atomic {{ {self.start()} }} }}"]

    def declarations(self) -> list[str]:
        lines = [*self.state.declarations(), *self._settling(), *self._checks(), *self._race()]
        if self.reporting is None:
            for agent in self.layout.agents:
                lines += self._agent(agent)
        else:
            lines += self._all_agents()
        if self.layout.lanes:
            lines += self._engine()
        if self.reporting is not None:
            lines += self._watch()
        return lines

    def start(self) -> str:
        """The statements that bring the model into its first state and start its processes."""
        p = self.prefix
        lines = [f"{p}settle()", f"{p}race()", "clear()", f"{p}report()"]
        if self.reporting is None:
            lines += [f"run {p}agent_{number}()" for number in range(len(self.layout.agents))]
        else:
            lines.append(f"run {p}agents()")
        lines += [f"run {p}engine()"] if self.layout.lanes else []
        lines += [f"run {p}watch()"] if self.reporting is not None else []
        return f"{self.state.first()} {'; '.join(lines)}"

    def _settling(self) -> list[str]:
        """Local control flow of every agent up to its next operation."""
        lines = [f"inline {self.prefix}settle() {{"]
        for agent in self.layout.agents:
            options = self.layout.control(agent)
            if options:
                lines += ["  do", *(f"  :: {option}" for option in options), "  :: else -> break"]
                lines += ["  od;"]
        return [*lines, "  skip", "}"]

    def _checks(self) -> list[str]:
        """What holds after every step: nothing in flight at an exit, nobody lapped."""
        lines = [f"inline {self.prefix}after() {{"]
        lines += indent(self.state.exit_check())
        for agent in self.layout.agents:
            lines += indent(self.operations.lapped_checks(agent))
        lines += ["  skip", "}", f"inline {self.prefix}report() {{"]
        if self.reporting is None:
            lines += [f"  assert(fault != {code});" for code in ALL_FAULTS]
        else:
            call = f"c_code {{ titan_report({self.reporting}, now.fault); }}"
            lines += [f"  if :: fault != 0 -> {call} :: else fi;"]
        return [*lines, "  skip", "}"]

    def _race(self) -> list[str]:
        """Two agents stand at conflicting synchronous accesses."""
        lines = [f"inline {self.prefix}race() {{"]
        lines += indent(self.operations.races())
        return [*lines, "  skip", "}"]

    def _agent(self, agent: AgentLayout) -> list[str]:
        """The process of one agent; it ends with the agent."""
        name = f"{self.prefix}agent_{agent.number}"
        lines = [f"proctype {name}() {{ /* {comment_text(agent.role.name)} */", "  do"]
        lines += [f"  :: {agent.pc} == {agent.end} && fault == 0 -> break"]
        return [*lines, *self._steps(self.operations.steps(agent)), "  od", "}"]

    def _all_agents(self) -> list[str]:
        """One process for all agents, which compiles faster."""
        steps = [step for agent in self.layout.agents for step in self.operations.steps(agent)]
        if not steps:
            return [f"proctype {self.prefix}agents() {{ skip }}"]
        return [f"proctype {self.prefix}agents() {{", "  do", *self._steps(steps), "  od", "}"]

    def _steps(self, steps: list[tuple[str, list[str], str]]) -> list[str]:
        """One of the steps, and what has to hold after any."""
        if not steps:
            return []
        lines = ["  :: atomic {", "    if"]
        for guard, body, comment in steps:
            lines.append(f"    :: d_step {{ {guard} -> /* {comment} */")
            lines += [f"        {line}" for line in body]
            lines.append("        skip }")
        p = self.prefix
        lines += ["    fi;", "    d_step {"]
        lines += [f"      if :: fault == 0 -> {p}settle(); {p}after(); {p}race() :: else fi;"]
        return [*lines, f"      clear(); {p}report() }}", "  }"]

    def _engine(self) -> list[str]:
        """All engines: any flight that may proceed does so."""
        p = self.prefix
        lines = [f"proctype {p}engine() {{", "end_idle:", "  do", "  :: atomic {", "    if"]
        for guard, slot, reads in self.state.engine_choices():
            chosen = f"{p}chosen = {slot}; {p}reads = {int(reads)}"
            lines.append(f"    :: d_step {{ fault == 0 && {guard} -> {chosen} }}")
        lines += ["    fi;", "    d_step {"]
        lines += [f"      {line}" for line in self.state.finish()]
        lines += [f"      {p}chosen = 0; {p}reads = 0;"]
        lines += [f"      if :: fault == 0 -> {p}after() :: else fi;"]
        return [*lines, f"      clear(); {p}report() }}", "  }", "  od", "}"]

    def _watch(self) -> list[str]:
        """In a batch a deadlock is reported like any fault, once nothing else is possible."""
        ended = " && ".join(f"{agent.pc} == {agent.end}" for agent in self.layout.agents) or "true"
        hang = number_of(FaultKind.DEADLOCK)
        call = f"c_code {{ titan_report({self.reporting}, {hang}); }}"
        watch = f"timeout -> if :: fault == 0 && !({ended}) -> {call} :: else fi"
        return [f"proctype {self.prefix}watch() {{ {watch} }}"]
