"""A scheduled loop as text: pseudocode, and a skeleton in CUDA, for loops without a tile program.

Every warp group has its own program: prologue, steady state and epilogue in the order of issue,
with a wait where an operation needs one (its dependence blocks, or its source runs on another
group) and an arrival where another group waits. Loops too short for a steady state run one
iteration after the other. The skeleton calls the operations as members of a template parameter, so
that it compiles as written, also as C++; what an operation does is left to the user.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.loop.model import Dependence, Loop
from titan.scheduling.model import Schedule
from titan.scheduling.phases import IssueSlot, phases
from titan.scheduling.sequence import topological

PLURAL = {1: ""}


@dataclass(frozen=True, slots=True)
class GroupProgram:
    """What one warp group issues in each phase; warps from `first_warp` on."""

    team: int
    first_warp: int
    prologue: tuple[IssueSlot, ...]
    steady: tuple[IssueSlot, ...]
    epilogue: tuple[IssueSlot, ...]
    operations: tuple[int, ...]  # in the order of one iteration


def group_programs(loop: Loop, schedule: Schedule) -> tuple[GroupProgram, ...]:
    """The program of every warp group that runs an operation, in the order of the groups.

    Issues of one cycle stand in the order of their iterations and dependences, so that nobody waits
    for what its own group issues later.
    """
    place = {v: number for number, v in enumerate(topological(loop))}
    parts = phases(loop, schedule)

    def mine(issues: tuple[IssueSlot, ...], team: int) -> tuple[IssueSlot, ...]:
        found = [issue for issue in issues if schedule.teams[issue.operation] == team]
        key = [(i.cycle, i.iteration, place[i.operation], i) for i in found]
        return tuple(entry[-1] for entry in sorted(key, key=lambda entry: entry[:3]))

    programs, warp = [], 0
    for team, group in enumerate(loop.teams):
        operations = [v for v, own in enumerate(schedule.teams) if own == team]
        operations.sort(key=lambda v: (schedule.starts[v], place[v]))
        if operations:
            programs.append(
                GroupProgram(
                    team, warp, mine(parts.prologue, team), mine(parts.steady, team),
                    mine(parts.epilogue, team), tuple(operations),
                )
            )  # fmt: skip
        warp += group.warps
    return tuple(programs)


def waits_of(loop: Loop, schedule: Schedule, operation: int) -> list[Dependence]:
    """The dependences that an operation waits for: blocking ones, and those of other groups."""
    found: dict[tuple[int, int], Dependence] = {}
    for e in loop.dependences:
        other = schedule.teams[e.source] != schedule.teams[e.sink]
        if e.sink == operation and (e.blocking or other):
            found.setdefault((e.source, e.distance), e)
    return list(found.values())


def awaited(loop: Loop, schedule: Schedule) -> set[int]:
    """Operations whose completion is waited for."""
    every = range(len(loop.operations))
    return {e.source for v in every for e in waits_of(loop, schedule, v)}


def pseudocode(loop: Loop, schedule: Schedule) -> str:
    """The pipelined program of every group, with issue cycles; `n` is the number of iterations."""
    stages = schedule.stages(loop)
    lines = [
        f"{loop.name} on {loop.machine.name}: one iteration every {schedule.ii} cycles, "
        f"{stages} of them overlap",
        f"for n >= {stages - 1} iterations; fewer run one after the other; no group waits for an",
        "iteration before the first",
    ]
    for program in group_programs(loop, schedule):
        group = loop.teams[program.team]
        registers = group.registers_per_thread
        limit = f", {registers} registers a thread" if registers is not None else ""
        plural = PLURAL.get(group.warps, "s")
        lines += ["", f"group {group.name}: {group.warps} warp{plural}{limit}"]
        lines += _phase(loop, schedule, "prologue", program.prologue, "")
        head = f"steady state, for i = {stages - 1} to n - 1"
        lines += _phase(loop, schedule, head, program.steady, "i")
        lines += _phase(loop, schedule, "epilogue", program.epilogue, "n")
    return "\n".join(lines) + "\n"


def _phase(
    loop: Loop, schedule: Schedule, title: str, issues: tuple[IssueSlot, ...], base: str
) -> list[str]:
    if not issues:
        return [f"  {title}: nothing"]
    lines = [f"  {title}:"]
    arriving = awaited(loop, schedule)
    for issue in issues:
        name = loop.operations[issue.operation].name
        for e in waits_of(loop, schedule, issue.operation):
            if not base and issue.iteration < e.distance:
                continue  # before the first iteration
            source = loop.operations[e.source].name
            lines.append(
                f"           wait for {source}[{_index(base, issue.iteration - e.distance)}]"
            )
        then = ", then arrive" if issue.operation in arriving else ""
        lines.append(f"    {issue.cycle:>6} {name}[{_index(base, issue.iteration)}]{then}")
    return lines


def _index(base: str, offset: int) -> str:
    """`3`, `i`, `i - 1`: an iteration relative to the base of its phase."""
    if not base:
        return str(offset)
    return base if not offset else f"{base} {'-' if offset < 0 else '+'} {abs(offset)}"


def cuda_skeleton(loop: Loop, schedule: Schedule) -> str:
    """A kernel template: `Operations` has one member for each operation, its wait and arrival."""
    stages, kernel = schedule.stages(loop), f"{loop.name}_pipeline"
    arriving = awaited(loop, schedule)
    lines = [
        f"// {loop.name} on {loop.machine.name}: a skeleton of the schedule with one iteration",
        f"// every {schedule.ii} cycles. `Operations` provides, for every operation X below,",
        "//   X(iteration)         issues it,",
        "//   arrive_X(iteration)  signals its completion (where some group waits for it),",
        "//   wait_X(iteration)    returns when that completion is visible to the caller.",
        "// Nothing here is verified: write the pipeline as a kernel file for `titan verify`.",
        f"constexpr int {loop.name}_stages = {stages};",
        "",
        "template <class Operations>",
        f"__global__ void {kernel}(Operations operations, int n) {{",
        "  const int warp = threadIdx.x / 32;",
    ]
    for program in group_programs(loop, schedule):
        group = loop.teams[program.team]
        last = program.first_warp + group.warps
        registers = group.registers_per_thread
        limit = f"; {registers} registers a thread" if registers is not None else ""
        lines += [
            f"  if (warp >= {program.first_warp} && warp < {last}) {{  // {group.name}{limit}",
        ]
        if stages > 1:
            lines += [
                f"    if (n < {stages - 1}) {{  // too short for a steady state",
                "      for (int i = 0; i < n; ++i) {",
            ]
            for v in program.operations:
                lines += _calls(loop, schedule, v, "i", 0, "        ", v in arriving)
            lines += ["      }", "      return;", "    }"]
        lines.append("    // prologue")
        for issue in program.prologue:
            at = issue.iteration
            lines += _calls(
                loop, schedule, issue.operation, "", at, "    ", issue.operation in arriving
            )
        lines += ["    // steady state", f"    for (int i = {stages - 1}; i < n; ++i) {{"]
        for issue in program.steady:
            at = issue.iteration
            lines += _calls(
                loop, schedule, issue.operation, "i", at, "      ", issue.operation in arriving
            )
        lines += ["    }", "    // epilogue"]
        for issue in program.epilogue:
            at = issue.iteration
            lines += _calls(
                loop, schedule, issue.operation, "n", at, "    ", issue.operation in arriving
            )
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _calls(
    loop: Loop, schedule: Schedule, v: int, base: str, at: int, indent: str, arrives: bool
) -> list[str]:
    """The wait, the issue and the arrival of one operation of iteration `base` + `at`."""
    lines = []
    name = loop.operations[v].name
    for e in waits_of(loop, schedule, v):
        if not base and at < e.distance:
            continue
        source = loop.operations[e.source].name
        index = _index(base, at - e.distance)
        guard = f"if ({index} >= 0) " if base and at - e.distance < 0 else ""
        lines.append(f"{indent}{guard}operations.wait_{source}({index});")
    lines.append(f"{indent}operations.{name}({_index(base, at)});")
    if arrives:
        lines.append(f"{indent}operations.arrive_{name}({_index(base, at)});")
    return lines
