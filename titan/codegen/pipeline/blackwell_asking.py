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

SLOTS = 2  # of a pipeline with one product
ANSWER_BYTES = 16
ANSWER = "answer"  # the slots, and the barriers that are named after them
ITEMS = "w"  # the variable of the loop over work items


class Asking:
    """What roles say to each other about work items. `readers`: the roles that read beside the one
    that asks, each with its agents. Raises FormRefused."""

    def __init__(self, tile: TileProgram, readers: dict[str, int], slots: int) -> None:
        self.readers, self.slots = readers, slots
        self.stage, self.round = ("0", "w") if slots == 1 else (f"w % {slots}", f"w // {slots}")
        if any(operation.name.startswith(ANSWER) for operation in tile.operations):
            raise FormRefused(f"a tile is called {ANSWER}")

    def buffer(self) -> doc.BufferDeclaration:
        """The slots."""
        return doc.BufferDeclaration(
            ANSWER, 0, 0, "", stages=str(self.slots), bytes_each=ANSWER_BYTES
        )

    def barriers(self) -> list[doc.BarrierDeclaration]:
        """An answer is there; each role has read it."""
        counts = {f"{ANSWER}_there": 1}
        counts |= {f"{ANSWER}_read_{role}": agents for role, agents in self.readers.items()}
        slots = str(self.slots)
        return [doc.BarrierDeclaration(name, count, slots) for name, count in counts.items()]

    def asked(self) -> doc.Block:
        """The question, once all have read what lay in its slot."""
        there = slot(f"{ANSWER}_there", self.stage)
        place = slot(ANSWER, self.stage, content="w")
        before = f"{self.round} - 1"
        return (
            *(doc.WaitStatement(self._read_by(role), before) for role in self.readers),
            doc.ArriveStatement(there, ANSWER_BYTES),
            doc.AskStatement(place, there, ANSWER_BYTES),
        )

    def answered(self, role: str = "") -> doc.Block:
        """Whether there is another item, and which; the slot may then be written again."""
        made: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{ANSWER}_there", self.stage), self.round),
            doc.LoadStatement(slot(ANSWER, self.stage, content="w")),
            doc.FenceStatement(),
        ]
        if role:
            made.append(doc.ArriveStatement(self._read_by(role)))
        return tuple(made)

    def _read_by(self, role: str) -> doc.Slot:
        return slot(f"{ANSWER}_read_{role}", self.stage)


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
        self.asking = Asking(tile, {"issuer": 1, "consumer": 1}, SLOTS)

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        made = super().document()
        return replace(made, sizes=replace(made.sizes, work_min=1))

    def _buffers(self) -> list[doc.BufferDeclaration]:
        return [*super()._buffers(), self.asking.buffer()]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        return [*super()._barriers(), *self.asking.barriers()]

    def _producer(self) -> doc.Block:
        return each_item(super()._producer(), self.asking.asked(), self.asking.answered())

    def _issuer(self) -> doc.Block:
        return each_item(super()._issuer(), self.asking.answered("issuer"), ())

    def _consumer(self) -> doc.Block:
        return each_item(super()._consumer(), (), self.asking.answered("consumer"))


def each_item(block: doc.Block, before: doc.Block, after: doc.Block) -> doc.Block:
    """The role with more at the beginning and the end of each work item. Raises FormRefused."""
    loops = [one for one in block if isinstance(one, doc.ForStatement) and one.variable == ITEMS]
    if len(loops) != 1:
        raise FormRefused("a role has not one loop over work items")
    whole = replace(loops[0], body=(*before, *loops[0].body, *after))
    return tuple(whole if one is loops[0] else one for one in block)
