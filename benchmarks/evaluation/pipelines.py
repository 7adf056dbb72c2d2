"""Verified pipelines of tile programs, in shapes and edits that the tables compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from benchmarks.evaluation.timed import Costs, costs_of
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.build import BuildLimits, decoded, group_starts, scheduled
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.cdna import LOADS
from titan.codegen.pipeline.forms import form_of
from titan.codegen.pipeline.model import Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.scheduling.explain import rings
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.sync.program import SyncProgram

LIMITS = BuildLimits(5.0)
Edit = Callable[[doc.PipelineDocument], doc.PipelineDocument]


@dataclass(frozen=True)
class Scheduled:
    """A tile program with its loop and schedule."""

    tile: TileProgram
    loop: Loop
    schedule: Schedule
    needed: int
    stages: int

    @property
    def costs(self) -> Costs:
        """What its operations take by the machine description."""
        return costs_of(self.tile, self.loop)

    def shapes(self) -> Iterator[Shape]:
        """The shapes that a build goes down."""
        return shapes(self.tile, self.needed, self.stages)

    def program(self, shape: Shape, edit: Edit = lambda document: document) -> SyncProgram:
        """The sync program with computations. Raises FormRefused, NotVerified."""
        starts = group_starts(self.tile, self.loop, self.schedule.starts)
        document = form_of(self.tile.target)(self.tile, shape, starts, self.schedule.ii)
        _, program = decoded(pipeline_text(edit(document)))
        return program


@cache
def library(name: str, target: str = "", depth: int = 0, groups: int = 0) -> Scheduled:
    """A tile program of the library, perhaps with other stages and groups. Raises BuildRefused."""
    path = root("protocols") / "tiles" / f"{name}.yaml"
    tile = load_tile(path, target=target or targets_of(path)[0])
    tile = replace(tile, depth=depth or tile.depth, groups=groups or tile.groups)
    loop, result, stages = scheduled(tile, LIMITS)
    assert result.schedule is not None
    needed = max((ring.needed for ring in rings(loop, result.schedule)), default=2)
    return Scheduled(tile, loop, result.schedule, needed, stages)


def one_transfer_at_a_time(document: doc.PipelineDocument) -> doc.PipelineDocument:
    """Every copy of a wave is waited for before anything else: as if it had a handle of its own
    on a machine that only counts."""

    def block(statements: doc.Block) -> doc.Block:
        made: list[doc.DocumentStatement] = []
        for item in statements:
            match item:
                case doc.ForStatement():
                    made.append(replace(item, body=block(item.body)))
                case doc.IfStatement():
                    made.append(replace(item, then=block(item.then)))
                case doc.CopyToLdsStatement():
                    for slot in item.slots:
                        made.append(replace(item, slots=(slot,)))
                        made.append(doc.DrainStatement(LOADS, when=item.when))
                case _:
                    made.append(item)
        return tuple(made)

    program = tuple((name, block(body)) for name, body in document.program)
    return replace(document, program=program)
