"""Persistent attention on Blackwell that asks the hardware for its work items.

The form of `blackwell_attention.py` for several work items, with the questions and answers of
`blackwell_asking.py` in one slot: the next item is asked for when all have read the answer before,
and the answer is read towards the end of an item (two slots, or readers that may run further apart,
leave the search for any number of items several times as many states). The grid has a CTA for each
item, and the hardware grants items in the order of the grid to whoever asks first: where the tile
program lists the longest ones first (causal), a CTA that has become free takes the longest that is
left. Decides no correctness.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell_asking import Asking, each_item
from titan.codegen.pipeline.blackwell_attention import REGISTERS as _REGISTERS
from titan.codegen.pipeline.blackwell_attention import BlackwellAttention
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.model import TileProgram

SLOTS = 1
# The issuer follows the answers beside its rings.
REGISTERS = {**_REGISTERS, 2: (64, 176, 96)}


class BlackwellAttentionAsking(BlackwellAttention):
    """Work items from the hardware. Raises FormRefused."""

    registers = REGISTERS

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        super().__init__(tile, shape, starts)
        if not self.position:
            raise FormRefused("without several work items a CTA has nothing to ask for")
        _, issuing, computing, correcting = self.roles
        self.asking = Asking(tile, {issuing: 1, computing: self.groups, correcting: 1}, SLOTS)

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        made = super().document()
        return replace(made, sizes=replace(made.sizes, work_min=1))

    def _buffers(self) -> list[doc.BufferDeclaration]:
        return [*super()._buffers(), self.asking.buffer()]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        return [*super()._barriers(), *self.asking.barriers()]

    def _producer(self) -> doc.Block:
        """Asks once the item is loaded: the stages that are in flight hide the answer."""
        return each_item(super()._producer(), (), (*self.asking.asked(), *self.asking.answered()))

    def _issuer(self) -> doc.Block:
        """Reads before the last products of the item, for which it waits anyway."""
        answered = self.asking.answered(self.roles[1])
        (items,) = super()._issuer()
        assert isinstance(items, doc.ForStatement)
        loop = next(n for n, one in enumerate(items.body) if isinstance(one, doc.ForStatement)
                    and one.variable == "t")  # fmt: skip
        body = (*items.body[: loop + 1], *answered, *items.body[loop + 1 :])
        return (replace(items, body=body),)

    def _softmax(self) -> doc.Block:
        return each_item(super()._softmax(), (), self.asking.answered(self.roles[2]))

    def _correction(self) -> doc.Block:
        return each_item(super()._correction(), (), self.asking.answered(self.roles[3]))
