"""The result of pipeline construction: a verified pipeline, and how it came about. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from titan.codegen.tile.clusters import PAIR
from titan.codegen.tile.model import TileProgram
from titan.foundation.errors import Refusal
from titan.language.kernel.model import Kernel
from titan.scheduling.loop.model import Loop
from titan.scheduling.run import ScheduleRun
from titan.sync.program import SyncProgram
from titan.verify.model import Finding

# What of a schedule a build may not take, as it stands before the shapes that were tried.
UNTAKEN = ("order of a schedule", "groups of the schedule")


class FormRefused(Refusal):
    """A tile program and a schedule have no pipeline of this form; the text says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One candidate of the fixed list of fallbacks.

    `depth` is the number of stages of each ring, `specialised` whether a warp of its own loads,
    `overlapped` whether the order of the schedule (operations of neighbouring iterations in one
    loop body) is kept, `behind` whether only the last multiplication runs one iteration after the
    others, `ping_pong` whether the groups take turns at the tensor cores, `guarded` whether threads
    copy the tiles of tensors that no tensor map describes, `tail` whether they copy the last
    iteration, `unified` whether all roles run one loop over fill and steady state, with guards,
    `poison` whether the last iteration is handed over as poison and computed on a safe path,
    `alternating` whether each of two warpgroups computes whole tiles, in turn, `sliced` whether
    stores behind the loop are staged in slices of their columns, through a ring, `overlaid` whether
    they are staged where tiles lie that the loop has read, `staged` whether tiles pass through
    registers on their way to shared memory, `pair` whether two CTAs multiply together for a tile
    program of single ones, `lean` whether the loading warp gets so few registers that the computing
    ones have the most that there are.
    """

    name: str
    depth: int
    specialised: bool = True
    overlapped: bool = True
    ping_pong: bool = False
    behind: bool = False
    persistent: bool = False
    guarded: bool = False
    tail: bool = False
    unified: bool = False
    poison: bool = False
    alternating: bool = False
    sliced: bool = False
    overlaid: bool = False
    staged: bool = False
    pair: bool = False
    lean: bool = False

    def of(self, tile: TileProgram) -> TileProgram:
        """The tile program as CTAs of this shape run it."""
        return replace(tile, cluster=PAIR) if self.pair else tile


@dataclass(frozen=True, slots=True)
class TriedCandidate:
    """A candidate that was tried: taken, or why not."""

    shape: Shape
    taken: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RankedShape:
    """What an iteration of a shape takes at least, by cause; `by_rule`: the model has no say."""

    shape: Shape
    least_cycles: dict[str, float]
    by_rule: bool = False

    @property
    def cycles(self) -> float:
        """Cycles of an iteration, as predicted."""
        return max(self.least_cycles.values())

    @property
    def cause(self) -> str:
        """What they are spent on."""
        return max(self.least_cycles, key=lambda cause: self.least_cycles[cause])


@dataclass(frozen=True, slots=True)
class Built:
    """A verified pipeline. `program` holds the computations; `finding` is on it without them.

    `ranking`: all shapes that it might have had, in the order in which they are tried.
    """

    tile: TileProgram
    tile_text: str
    loop: Loop
    result: ScheduleRun
    shape: Shape
    pipeline_text: str
    kernel: Kernel
    program: SyncProgram
    finding: Finding
    steps: tuple[TriedCandidate, ...]
    seconds: float
    notes: tuple[str, ...] = field(default=())
    ranking: tuple[RankedShape, ...] = ()
