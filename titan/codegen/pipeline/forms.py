"""Which form makes the pipeline of a tile program: by target, by what it computes, by the shape.

Decides no correctness; a form that does not fit says so by `FormRefused`.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.codegen.pipeline import cdna
from titan.codegen.pipeline.alternating import Alternating
from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.blackwell_asking import BlackwellAsking
from titan.codegen.pipeline.blackwell_attention import BlackwellAttention
from titan.codegen.pipeline.blackwell_attention_asking import BlackwellAttentionAsking
from titan.codegen.pipeline.blackwell_attention_pair import BlackwellAttentionPair
from titan.codegen.pipeline.blackwell_pair import BlackwellPair
from titan.codegen.pipeline.blackwell_products import BlackwellProducts, BlackwellTogether
from titan.codegen.pipeline.blackwell_scaled import BlackwellScaled, BlackwellScaledPair
from titan.codegen.pipeline.cluster import Clustered
from titan.codegen.pipeline.document import PipelineDocument
from titan.codegen.pipeline.filling import (
    BULK_COPIES,
    Filling,
    guarded_filling,
    refuse_unaligned,
    tail_filling,
)
from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.poison import poisoned, refuse_poison
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.block_scales import scales_of
from titan.codegen.tile.model import TileProgram
from titan.target.description import target_of

Form = Callable[[TileProgram, Shape, dict[str, int], int], PipelineDocument]


def form_of(target: str) -> Form:
    """How pipelines of a target are constructed. Raises FormRefused.

    A form takes the cycles of the operations of one group, by their names in the tile program, and
    the initiation interval, and gives the kernel file. It raises FormRefused.
    """
    known = target_of(target)
    if not known.generated:
        raise FormRefused(f"there is no pipeline form for target {target}")
    if known.amd:
        return cdna.construct
    return blackwell if known.matrix_commits_to_barriers else hopper


def hopper(tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> PipelineDocument:
    """Roles that load and roles that compute, handed over by mbarriers. Raises FormRefused."""
    filling = _filling(tile, shape)
    if shape.alternating:
        return Alternating(tile, shape, starts, ii).document()
    if tile.cluster != 1 and shape.specialised:
        return Clustered(tile, shape, starts, ii).document()
    return Hopper(tile, shape, starts, ii, filling).document()


def blackwell(tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> PipelineDocument:
    """Products in tensor memory; without a product the Hopper form, in the same primitives.

    Raises FormRefused.
    """
    tile = shape.of(tile)
    products = sum(operation.kind == "mma" for operation in tile.operations)
    if tile.launch_control and (not products or tile.cluster != 1 or not shape.specialised):
        raise FormRefused("work items come from the hardware for products of single CTAs alone")
    if not products:
        return hopper(tile, shape, starts, ii)
    if any(scales_of(operation) for operation in tile.operations):
        form = BlackwellScaled if tile.cluster == 1 else BlackwellScaledPair
        return form(tile, shape, starts, ii).document()
    if tile.cluster != 1 and products == 1:
        return BlackwellPair(tile, shape, starts, ii).document()
    if not shape.specialised:
        return BlackwellTogether(tile, shape).document()
    if products > 1:
        return _several_products(tile, shape, starts).document()
    if tile.launch_control:
        return BlackwellAsking(tile, shape, starts, ii, _filling(tile, shape)).document()
    return Blackwell(tile, shape, starts, ii, _filling(tile, shape)).document()


def _several_products(
    tile: TileProgram, shape: Shape, starts: dict[str, int]
) -> BlackwellAttention | BlackwellProducts:
    """The form of attention, or that of any products. Raises FormRefused."""
    if shape.poison:
        refuse_poison(tile)
    try:
        attention_of(tile)
    except NotAttention:
        refuse_unaligned(tile)
        if tile.launch_control:
            raise FormRefused("these products are of one work item a CTA") from None
        return BlackwellProducts(tile, shape, starts)
    if tile.cluster != 1 and not tile.launch_control:
        return BlackwellAttentionPair(tile, shape, starts)
    form = BlackwellAttentionAsking if tile.launch_control else BlackwellAttention
    return form(tile, shape, starts)


def _filling(tile: TileProgram, shape: Shape) -> Filling:
    """Who fills the rings of a shape. Raises FormRefused."""
    if shape.guarded:
        return guarded_filling(tile)
    if shape.tail:
        return tail_filling(tile, shape)
    if shape.poison:
        refuse_poison(tile)
        return Filling(poison=poisoned)
    refuse_unaligned(tile)
    return BULK_COPIES
