"""Differentiable scheduling by Gaussian reparameterisation (GauS), with PyTorch.

The issue cycle of every operation is a normal variable with a mean and a deviation. All losses are
closed expressions of these, derived here:

* dependence and recurrence: for an arc of weight w the expected violation E[max(0, X_u + w - X_v)],
  where X_u - X_v is normal, so that it is m Phi(m / s) + s phi(m / s) with m = mu_u + w - mu_v and
  s the joint deviation. It vanishes in the limit when mu_v >= mu_u + w: equality is not a fault.
* modulo resources: P(issue at cycle d) = Phi((d + 1/2 - mu) / sigma) - Phi((d - 1/2 - mu) / sigma),
  wrapped into the rows of the interval as often as four of the largest deviations reach (6e-5 of a
  probability lies beyond); the expected use of each row over the capacity.
* resources as a smooth maximum: tau logsumexp(use / (capacity tau)).
* memory: expected values alive in each row by distribution functions of issue and last use.
* communication: expected length of the data dependences, which keeps the schedule compact.

An augmented Lagrangian turns violations into multipliers, Adam moves means and deviations. The card
has multipliers from 0 that grow by rho (1e-4) times the violation in every iteration; here they
begin at 1 and grow by at least 0.02 of it every 20 iterations, which leaves smaller violations
(`docs/reference/schedule.md` has the numbers; `multipliers` chooses). The result is made legal by a
topological pass and a fixed point, refined by Rau where that fails, and replaced by Rau's own
schedule where that fails too; the outcome says which of them it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from types import ModuleType
from typing import TYPE_CHECKING

from titan.foundation.errors import Refusal
from titan.foundation.extras import brought_by
from titan.foundation.verdict import Reason
from titan.scheduling import rau
from titan.scheduling.assign import assign
from titan.scheduling.check import check
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.model import DATA, Loop
from titan.scheduling.model import Evidence, Schedule, SchedulerResult
from titan.scheduling.native import Placer, recurrence
from titan.scheduling.problem import Problem, compile_problem
from titan.scheduling.swing import depths
from titan.scheduling.table import ReservationTable
from titan.scheduling.work import SearchWork, Stopwatch

if TYPE_CHECKING:
    import torch as torch_types
    from rich.progress import Progress
    from torch import Tensor

REACH_MIN = 12  # cycles on either side of the mean whose probability is counted, at least
DEVIATIONS = 4  # and so many deviations
MULTIPLIERS = ("raised", "card")
STEP, ELEMENTS = 1500, 100  # units of work in a step, and elements of its matrices in a unit


class TorchMissing(Refusal):
    """PyTorch is not installed."""

    reason = Reason.MISSING_TOOL


@dataclass(frozen=True, slots=True)
class GaussOptions:
    """The defaults of learning rate, rho, tau and kappa are those of the paper's implementation.

    `target_ii`: only this interval is tried; else `intervals_max` from the bound up. `horizon` (D):
    the cycles that means are spread over; else the longest path and two intervals. `capacity`: one
    capacity for every unit in the losses, instead of the machine's; the checker keeps to the
    machine's.

    Every `look_every` iterations the means are made legal on trial, and the descent ends when that
    holds. `threads` of 1 is fastest for the small tensors of a loop. `multipliers` is one
    of MULTIPLIERS.
    """

    iterations: int = 2000
    target_ii: int | None = None
    horizon: float | None = None
    capacity: float | None = None
    learning_rate: float = 0.01
    rho: float = 1e-4
    tau: float = 1e-2
    kappa: float = 1 / 6
    seed: int = 0
    seconds: float = 60.0  # of work (`work.py`)
    intervals_max: int = 6
    device: str = "auto"
    progress: bool = False
    look_every: int = 100
    threads: int = 1
    multipliers: str = "raised"


def solve(
    loop: Loop, options: GaussOptions | None = None, whole: SearchWork | None = None
) -> SchedulerResult:
    """A schedule by gradient descent, or Rau's; what it takes counts in `whole` too.

    Raises Unschedulable; Missing without PyTorch."""
    options = options or GaussOptions()
    torch = load_torch()
    torch.set_num_threads(options.threads)
    begin, work = Stopwatch(), SearchWork(options.seconds, whole)
    lower = bounds(loop, recurrence=recurrence)
    teams = assign(loop)
    steps = 0
    if teams is not None:
        problem = compile_problem(loop, teams)
        for ii in _intervals(lower.ii, options):
            if not work.left:
                break
            model = GaussModel(torch, loop, problem, ii, options)
            if not model.feasible:
                continue
            steps += model.descend(work)
            found, how = model.legal, "gauss"
            if found is None:
                found, how = legalise(loop, problem, ii, model.means())
            if found is not None:
                schedule = Schedule(ii, tuple(found), teams)
                return _outcome(how, schedule, lower.ii, lower.best.detail, begin, steps, model)
    fallback = rau.solve(loop)
    statistics = {**fallback.statistics, "steps": steps}
    spent = begin.seconds
    notes = ("the differentiable scheduler found nothing; this is Rau's schedule",)
    return SchedulerResult(
        "rau (gauss fell back)", fallback.schedule, fallback.evidence, spent, statistics, notes
    )


def _intervals(lower: int, options: GaussOptions) -> range:
    """The candidate intervals: the one asked for, or some from the bound up."""
    if options.target_ii is not None:
        return range(options.target_ii, options.target_ii + 1)
    return range(lower, lower + options.intervals_max)


def load_torch() -> ModuleType:
    """PyTorch. Raises TorchMissing."""
    try:
        import torch
    except ImportError:
        text = f"the solver gauss needs PyTorch: {brought_by('gauss')}"
        raise TorchMissing(text) from None
    module: ModuleType = torch
    return module


def _outcome(
    how: str,
    schedule: Schedule,
    lower: int,
    detail: str,
    begin: Stopwatch,
    steps: int,
    model: GaussModel,
) -> SchedulerResult:
    kind = "bound" if schedule.ii == lower else "none"
    statistics: dict[str, object] = {
        "steps": steps,
        "device": str(model.device),
        "loss": model.last_loss,
        "violation": model.last_violation,
    }
    spent = begin.seconds
    return SchedulerResult(how, schedule, Evidence(kind, lower, detail), spent, statistics)


class GaussModel:
    """Means and deviations for one interval, and their losses."""

    def __init__(
        self, torch: ModuleType, loop: Loop, problem: Problem, ii: int, options: GaussOptions
    ) -> None:
        self.torch, self.loop, self.problem, self.ii = torch, loop, problem, ii
        self.options = options
        self.last_loss = self.last_violation = 0.0
        self.legal: list[int] | None = None
        wish = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(wish if options.device == "auto" else options.device)
        torch.manual_seed(options.seed)
        heights, depth = Placer(problem).heights(ii), depths(problem, ii)
        self.feasible = heights is not None and depth is not None
        if heights is None or depth is None:
            return
        path = max((h + d for h, d in zip(heights, depth, strict=True)), default=0)
        self.horizon = float(options.horizon or path + 2 * ii)
        self.horizon = max(self.horizon, float(path + 1))
        self._tensors(heights, depth)

    def _tensors(self, heights: list[int], depth: list[int]) -> None:
        torch, problem = self.torch, self.problem
        make = {"dtype": torch.float32, "device": self.device}
        early = torch.tensor(depth, **make)
        late = self.horizon - torch.tensor(heights, **make)
        window = (late - early).clamp(min=1.0)
        noise = (torch.rand(problem.n, generator=self._generator()) - 0.5).to(self.device)
        mean = early + window * (0.5 + 0.1 * noise)
        self.position = (mean / self.horizon).detach().requires_grad_(True)
        deviation = (self.options.kappa * window).clamp(min=0.3, max=self.ii / 2 + 0.3)
        self.log_sigma = deviation.log().detach().requires_grad_(True)
        arcs = [(u, v, d - self.ii * k) for u, v, d, k in problem.arcs if u != v]
        self.source = self._index([a[0] for a in arcs])
        self.sink = self._index([a[1] for a in arcs])
        self.weight = torch.tensor([float(a[2]) for a in arcs], **make)
        blocks = [(v, *b) for v, bs in enumerate(problem.blocks) for b in bs]
        self.user = self._index([b[0] for b in blocks])
        self.unit = self._index([b[1] for b in blocks])
        self.first = self._index([b[2] for b in blocks])
        self.turns = torch.tensor([float(b[3] // self.ii * b[4]) for b in blocks], **make)
        self.rest = self._index([b[3] % self.ii for b in blocks])
        self.amount = torch.tensor([float(b[4]) for b in blocks], **make)
        capacity = [self.options.capacity or float(c) for c in problem.capacity]
        self.capacity = torch.tensor(capacity, **make)
        self._values(make)

    def _values(self, make: dict[str, object]) -> None:
        """Values that take registers, with their data dependences, for the memory loss."""
        loop, torch = self.loop, self.torch
        edges = [
            e for e in loop.dependences if e.kind == DATA and loop.operations[e.source].registers
        ]
        self.value = self._index([e.source for e in edges])
        self.reader = self._index([e.sink for e in edges])
        self.carried = torch.tensor([float(e.distance * self.ii) for e in edges], **make)
        self.words = torch.tensor([float(op.registers) for op in loop.operations], **make)
        words = [loop.team_words(team) for team in range(len(loop.teams))]
        limited = bool(edges) and all(w is not None for w in words) and len(edges) < 2000
        self.limits = [float(w or 0) for w in words] if limited else []
        self.team = self._index([max(0, t) for t in self.problem.teams])

    def _generator(self) -> torch_types.Generator:
        generator = self.torch.Generator()
        generator.manual_seed(self.options.seed)
        return generator

    def _index(self, numbers: list[int]) -> Tensor:
        return self.torch.tensor(numbers, dtype=self.torch.long, device=self.device)

    @property
    def mean(self) -> Tensor:
        """Means of the issue cycles."""
        return self.position * self.horizon

    @property
    def sigma(self) -> Tensor:
        """Deviations of the issue cycles."""
        return self.log_sigma.exp().clamp(min=1e-3)

    def below(self, x: Tensor) -> Tensor:
        """Distribution function of the standard normal."""
        return 0.5 * (1 + self.torch.erf(x / 2**0.5))

    def dependence(self) -> Tensor:
        """Expected violation of every arc."""
        torch = self.torch
        m = self.mean[self.source] + self.weight - self.mean[self.sink]
        s = (self.sigma[self.source] ** 2 + self.sigma[self.sink] ** 2).sqrt()
        density = torch.exp(-0.5 * (m / s) ** 2) / (2 * torch.pi) ** 0.5
        return m * self.below(m / s) + s * density

    def rows(self) -> Tensor:
        """Expected use of each row of each unit."""
        torch, ii = self.torch, self.ii
        mean, sigma = self.mean[self.user], self.sigma[self.user]
        middle = mean.detach().round()
        widest = float(sigma.detach().max()) if len(sigma) else 0.0
        reach = max(REACH_MIN, math.ceil(DEVIATIONS * widest))
        offsets = torch.arange(-reach, reach + 1, device=self.device)
        cycle = middle[:, None] + offsets[None, :]
        high = self.below((cycle + 0.5 - mean[:, None]) / sigma[:, None])
        low = self.below((cycle - 0.5 - mean[:, None]) / sigma[:, None])
        mass = (high - low) / (high - low).sum(1, keepdim=True).clamp(min=1e-9)
        begin = (cycle.long() + self.first[:, None]) % ii
        width = 2 * ii + 1
        flat = torch.zeros(len(self.capacity) * width, device=self.device)
        base = self.unit[:, None] * width + begin
        load = mass * self.amount[:, None]
        flat = flat.index_add(0, base.reshape(-1), load.reshape(-1))
        flat = flat.index_add(0, (base + self.rest[:, None]).reshape(-1), -load.reshape(-1))
        sums = flat.reshape(-1, width).cumsum(1)
        constant = torch.zeros(len(self.capacity), device=self.device)
        constant = constant.index_add(0, self.unit, self.turns)
        return sums[:, :ii] + sums[:, ii : 2 * ii] + constant[:, None]

    def resource(self, rows: Tensor) -> Tensor:
        """Expected use beyond the capacity, row by row."""
        return self.torch.relu(rows - self.capacity[:, None])

    def smooth_maximum(self, rows: Tensor) -> Tensor:
        """The fullest row of each unit, as a share of its capacity, smoothly."""
        tau = self.options.tau
        share = rows / self.capacity[:, None]
        return tau * self.torch.logsumexp(share / tau, dim=1)

    def memory(self) -> Tensor:
        """Expected register words beyond the limit of each group, by row."""
        torch, ii = self.torch, self.ii
        if not self.limits:
            return torch.zeros(1, device=self.device)
        ends = self.mean.clone()
        use = self.mean[self.reader] + self.carried
        ends = ends.scatter_reduce(0, self.value, use, reduce="amax", include_self=True)
        span = int(self.horizon + float(self.carried.max()) + ii)
        time_axis = torch.arange(span, device=self.device, dtype=torch.float32)
        begun = self.below((time_axis[None, :] + 0.5 - self.mean[:, None]) / self.sigma[:, None])
        ended = self.below((time_axis[None, :] + 0.5 - ends[:, None]) / self.sigma[:, None])
        alive = (begun - ended).clamp(min=0) * self.words[:, None]
        held = torch.zeros(len(self.limits), ii, device=self.device)
        wrapped = torch.nn.functional.pad(alive, (0, -span % ii))
        wrapped = wrapped.reshape(len(self.words), -1, ii).sum(1)
        held = held.index_add(0, self.team, wrapped)
        limits = torch.tensor(self.limits, device=self.device)
        return torch.relu(held / limits[:, None].clamp(min=1) - 1)

    def communication(self) -> Tensor:
        """Expected length of the arcs, beyond what they ask for."""
        gap = self.mean[self.sink] - self.mean[self.source] - self.weight
        return gap.clamp(min=0).mean() if len(self.weight) else self.mean.sum() * 0

    def descend(self, work: SearchWork) -> int:
        """Adam on the augmented Lagrangian; returns the iterations made."""
        torch, options = self.torch, self.options
        optimiser = torch.optim.Adam([self.position, self.log_sigma], lr=options.learning_rate)
        card = options.multipliers == "card"
        first, every = (0.0, 1) if card else (1.0, 20)
        arc_price = torch.full((len(self.weight),), first, device=self.device)
        row_price = torch.full((len(self.capacity), self.ii), first, device=self.device)
        memory_price = first
        grow = [options.rho if card else max(options.rho, least) for least in (0.02, 0.05, 0.02)]
        bar = _Bar(options.progress, options.iterations)
        step, units = 0, STEP + int(self.problem.n * (self.horizon + self.ii)) // ELEMENTS
        for step in range(1, options.iterations + 1):
            optimiser.zero_grad()
            late, rows = self.dependence(), self.rows()
            over, memory = self.resource(rows), self.memory()
            loss = (arc_price * late).sum() + options.rho / 2 * (late**2).sum()
            loss = loss + (row_price * over).sum() + options.rho / 2 * (over**2).sum()
            loss = loss + memory_price * memory.sum()
            loss = loss + 0.01 * self.smooth_maximum(rows).sum() + 0.01 * self.communication()
            loss = loss + 1e-3 * self.log_sigma.sum()
            loss.backward()
            optimiser.step()
            if step % every == 0:
                with torch.no_grad():
                    arc_price += grow[0] * late.detach()
                    row_price += grow[1] * over.detach()
                    memory_price += grow[2] * float(memory.detach().sum())
            if step % 20 == 0:
                with torch.no_grad():
                    self.log_sigma.clamp_(min=-1.5)
                self.last_loss = float(loss.detach())
                self.last_violation = float(late.detach().max()) if len(late) else 0.0
                bar.advance(20)
                work.spend(20 * units)
                if not work.left:
                    break
            if step % self.options.look_every == 0 and self.look():
                break
        bar.close()
        return step

    def look(self) -> bool:
        """Do the means already give a schedule that holds, without help by Rau?"""
        wish = wishes(self.means())
        starts = fixed_point(self.problem, self.ii, wish)
        if starts is not None and holds(self.loop, self.problem, self.ii, starts):
            self.legal = starts
        return self.legal is not None

    def means(self) -> list[float]:
        """Means of the issue cycles, as numbers."""
        return [float(x) for x in self.mean.detach().cpu()]


def regular_wishes(
    loop: Loop, problem: Problem, latency: int, options: GaussOptions | None = None
) -> list[int] | None:
    """Wished issue cycles of one iteration alone within `latency` cycles (D), not modulo anything.

    The rows are the cycles themselves: an interval that nothing passes. None where the latency is
    below the longest path. Raises TorchMissing.
    """
    options = replace(options or GaussOptions(), horizon=float(latency), look_every=1 << 30)
    torch = load_torch()
    torch.set_num_threads(options.threads)
    model = GaussModel(torch, loop, problem, latency, options)
    if not model.feasible or model.horizon > latency + 1:
        return None
    model.descend(SearchWork(options.seconds))
    return wishes(model.means())


class _Bar:
    """A progress bar on standard error, or nothing."""

    def __init__(self, wanted: bool, total: int) -> None:
        self.progress: Progress | None = None
        if wanted:
            from rich.console import Console
            from rich.progress import Progress

            self.progress = Progress(console=Console(stderr=True))
            self.task = self.progress.add_task("descending", total=total)
            self.progress.start()

    def advance(self, steps: int) -> None:
        """So many more iterations are done."""
        if self.progress is not None:
            self.progress.advance(self.task, steps)

    def close(self) -> None:
        """Take the bar away."""
        if self.progress is not None:
            self.progress.stop()


def legalise(
    loop: Loop, problem: Problem, ii: int, means: list[float]
) -> tuple[list[int] | None, str]:
    """Issue cycles that hold, near the means; and who produced them."""
    wish = wishes(means)
    starts = fixed_point(problem, ii, wish)
    if starts is not None and holds(loop, problem, ii, starts):
        return starts, "gauss"
    top = max(wish, default=0)
    for priority in ([top - w for w in wish], Placer(problem).heights(ii) or []):
        refined, _, _ = Placer(problem).place(ii, max(400, 8 * problem.n), priority)
        if refined is not None and holds(loop, problem, ii, refined):
            return refined, "gauss refined by rau"
    return None, ""


def wishes(means: list[float]) -> list[int]:
    """Means as cycles from 0."""
    shift = min(means, default=0.0)
    return [max(0, round(m - shift)) for m in means]


def holds(loop: Loop, problem: Problem, ii: int, starts: list[int]) -> bool:
    """Whether the checker accepts these issue cycles."""
    teams = tuple(max(0, t) for t in problem.teams)
    return not check(loop, Schedule(ii, tuple(starts), teams))


def fixed_point(problem: Problem, ii: int, wish: list[int], passes: int = 60) -> list[int] | None:
    """Seat operations in the order of their wishes, again and again, until nothing moves.

    Each pass seats every operation at the first legal cycle not before its wish and its
    predecessors; what a carried dependence pushes later is the wish of the next pass.
    """
    into: list[list[tuple[int, int]]] = [[] for _ in range(problem.n)]
    for u, v, delay, distance in problem.arcs:
        into[v].append((u, delay - ii * distance))
    for _ in range(passes):
        table = ReservationTable(problem, ii)
        starts = [-1] * problem.n
        for v in topological(problem, wish):
            t = max([wish[v], *(starts[u] + w for u, w in into[v] if starts[u] >= 0)])
            stop = t + ii
            while t < stop and (found := table.probe(v, t)) is not None:
                t += found.skip
            if t >= stop:
                return None
            table.commit(v, t)
            starts[v] = t
        late = [
            (v, starts[u] + w)
            for v in range(problem.n)
            for u, w in into[v]
            if starts[v] < starts[u] + w
        ]
        if not late:
            return starts
        wish = list(starts)
        for v, t in late:
            wish[v] = max(wish[v], t)
    return None


def topological(problem: Problem, wish: list[int]) -> list[int]:
    """Predecessors of the same iteration first, and among the ready the earliest wish."""
    out: list[list[int]] = [[] for _ in range(problem.n)]
    left = [0] * problem.n
    for u, v, _, distance in problem.arcs:
        if distance == 0:
            out[u].append(v)
            left[v] += 1
    ready = [(wish[v], v) for v in range(problem.n) if not left[v]]
    heapify(ready)
    order = []
    while ready:
        _, u = heappop(ready)
        order.append(u)
        for v in out[u]:
            left[v] -= 1
            if not left[v]:
                heappush(ready, (wish[v], v))
    return order
