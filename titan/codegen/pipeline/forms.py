"""Which form makes the pipeline of a tile program: by target, by what it computes, by the shape.

Decides no correctness; a form that does not fit says so by `FormRefused`.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.codegen.pipeline import cdna
from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.blackwell_attention import BlackwellAttention
from titan.codegen.pipeline.blackwell_threads import GuardedBlackwell, TailBlackwell
from titan.codegen.pipeline.cluster import Clustered
from titan.codegen.pipeline.guarded import Guarded, refuse_unaligned
from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.tail import Tail
from titan.codegen.tile.model import TileProgram

Form = Callable[[TileProgram, Shape, dict[str, int], int], str]


def form_of(target: str) -> Form:
    """How pipelines of a target are constructed. Raises FormRefused.

    A form takes the cycles of the operations of one group, by their names in the tile program, and
    the initiation interval, and gives the kernel file. It raises FormRefused.
    """
    found = FORMS.get(target)
    if found is None:
        raise FormRefused(f"there is no pipeline form for target {target}")
    return found


def hopper(tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> str:
    """Roles that load and roles that compute, handed over by mbarriers."""
    if shape.guarded:
        return Guarded(tile, shape, starts, ii).text()
    if shape.tail:
        return Tail(tile, shape, starts, ii).text()
    refuse_unaligned(tile)
    if tile.cluster != 1 and shape.specialised:
        return Clustered(tile, shape, starts, ii).text()
    return Hopper(tile, shape, starts, ii).text()


def blackwell(tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> str:
    """Products in tensor memory; without a product the Hopper form, in the same primitives."""
    products = sum(operation.kind == "mma" for operation in tile.operations)
    if not products:
        return hopper(tile, shape, starts, ii)
    if products == 1 and shape.guarded:
        return GuardedBlackwell(tile, shape, starts, ii).text()
    if products == 1 and shape.tail:
        return TailBlackwell(tile, shape, starts, ii).text()
    refuse_unaligned(tile)
    if products > 1:
        return BlackwellAttention(tile, shape, starts).text()
    return Blackwell(tile, shape, starts, ii).text()


FORMS: dict[str, Form] = {
    "sm_90a": hopper,
    "sm_100a": blackwell,
    "gfx942": cdna.construct,
    "gfx950": cdna.construct,
}
