"""The pipeline of a persistent tile program on Blackwell that asks the hardware for its work items.

The grid has a CTA for each item. One that runs does its own item, and at the beginning of each item
asks for another (`clusterlaunchcontrol.try_cancel`): a CTA that has not started is then never
launched, and its item is done here. The copy engine writes the answer, 16 bytes, into one of two
slots and takes them off a barrier. Every role reads it once an item: the multiplying one before its
products, which wait for the first tiles anyway, the others at the end (this order leaves the search
for any number of items the fewest states). The question two items later waits until all have read.
So `work` is the number of items that a CTA obtains: its own, and as many as the hardware grants.

The loading role asks; what it reads itself is behind it in its own order, with a proxy fence. All
else is the persistent form. Decides no correctness. Source: PTX, clusterlaunchcontrol.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import BULK_COPIES, Filling
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.model import TileProgram

SLOTS = 2
ANSWER_BYTES = 16
ANSWER = "answer"  # the slots, and the barriers that are named after them
READERS = ("issuer", "consumer")  # who reads beside the role that asks


class BlackwellAsking(Blackwell):
    """Work items from the hardware. Raises FormRefused."""

    def __init__(
        self,
        tile: TileProgram,
        shape: Shape,
        starts: dict[str, int],
        ii: int,
        filling: Filling = BULK_COPIES,
    ) -> None:
        super().__init__(tile, shape, starts, ii, filling)
        if not self.position:
            raise FormRefused("without several work items a CTA has nothing to ask for")
        if filling.has_loading_threads(self.rings):
            raise FormRefused("one thread asks for work items, and no threads copy")
        if any(operation.name.startswith(ANSWER) for operation in tile.operations):
            raise FormRefused(f"a tile is called {ANSWER}")

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        made = super().document()
        return replace(made, sizes=replace(made.sizes, work_min=1))

    def _buffers(self) -> list[doc.BufferDeclaration]:
        answer = doc.BufferDeclaration(ANSWER, 0, 0, "", stages=str(SLOTS), bytes_each=ANSWER_BYTES)
        return [*super()._buffers(), answer]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        names = (f"{ANSWER}_there", *(f"{ANSWER}_read_{role}" for role in READERS))
        found = [doc.BarrierDeclaration(name, 1, str(SLOTS)) for name in names]
        return [*super()._barriers(), *found]

    def _producer(self) -> doc.Block:
        there = slot(f"{ANSWER}_there", f"w % {SLOTS}")
        asked: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{ANSWER}_read_{role}", f"w % {SLOTS}"), f"w // {SLOTS} - 1")
            for role in READERS
        ]
        asked.append(doc.ArriveStatement(there, ANSWER_BYTES))
        place = slot(ANSWER, f"w % {SLOTS}", content="w")
        asked.append(doc.AskStatement(place, there, ANSWER_BYTES))
        return _each_item(super()._producer(), tuple(asked), self._answered())

    def _issuer(self) -> doc.Block:
        return _each_item(super()._issuer(), self._answered("issuer"), ())

    def _consumer(self) -> doc.Block:
        return _each_item(super()._consumer(), (), self._answered("consumer"))

    def _answered(self, role: str = "") -> doc.Block:
        """Whether there is another item, and which; the slot may then be written again."""
        made: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{ANSWER}_there", f"w % {SLOTS}"), f"w // {SLOTS}"),
            doc.LoadStatement(slot(ANSWER, f"w % {SLOTS}", content="w")),
            doc.FenceStatement(),
        ]
        if role:
            made.append(doc.ArriveStatement(slot(f"{ANSWER}_read_{role}", f"w % {SLOTS}")))
        return tuple(made)


def _each_item(block: doc.Block, before: doc.Block, after: doc.Block) -> doc.Block:
    """The role with more at the beginning and the end of each work item."""
    loop, *rest = block
    if not isinstance(loop, doc.ForStatement):
        raise FormRefused("a role does not begin with the loop over work items")
    return (replace(loop, body=(*before, *loop.body, *after)), *rest)
