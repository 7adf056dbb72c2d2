"""Work items from the hardware (sm_100a): how a role asks, and what it takes an answer for.

A kernel that asks has a CTA for each item, and no count of items: each role begins with one, and
has one more for every answer that is an item. So every role has to read the answer of each of its
items, once, and one role asks once an item; `check_asking` refuses anything else. That the slot
then holds the answer of that item is verified: it is the content that the sync program names.
Source: PTX, clusterlaunchcontrol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from titan.codegen.emit.arithmetic import beside
from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.layout import EmissionLayout
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import mangled
from titan.codegen.emit.sites import ANSWER_BYTES, EmissionSite, SiteKind
from titan.codegen.emit.statements import SpelledStatement
from titan.codegen.emit.trace import SiteEvent, value_of
from titan.sync import program as ir
from titan.sync.expression import Constant

BEGIN = ("int x_work = 1;", "int titan_next = titan::block_index();")  # the item of the CTA itself
ITEM = "titan_next"


@dataclass(frozen=True, slots=True)
class SpelledAsk(SpelledStatement):
    """Asks for another work item; the answer completes a barrier."""

    answer: str
    barrier: str
    kind: ClassVar[str] = "ask"


@dataclass(frozen=True, slots=True)
class SpelledAnswer(SpelledStatement):
    """One more work item where the answer is one."""

    answer: str
    kind: ClassVar[str] = "answer"


def answer_slot(site: EmissionSite, layout: EmissionLayout, scope: SpellingScope) -> str:
    """The address of the slot that a question or a read means. Raises EmissionRefused."""
    operation = site.operation
    assert isinstance(operation, ir.Access | ir.Asynchronous)
    if len(operation.effects) != 1 or operation.effects[0].part is not None:
        raise EmissionRefused("an answer is one slot")
    (effect,) = operation.effects
    if isinstance(operation, ir.Asynchronous):
        sizes = [one.bytes for one in operation.completes]
        if sizes != [Constant(ANSWER_BYTES)]:
            raise EmissionRefused(f"an answer completes {ANSWER_BYTES} bytes of one barrier")
    name = mangled("s", effect.buffer, "a buffer")
    if layout.answers[effect.buffer].stages == 1:
        return name
    return f"{name} + {beside(scope, effect.stage)} * {ANSWER_BYTES}"


def check_asking(runs: Iterable[tuple[str, int, list[SiteEvent]]]) -> None:
    """`runs`: name of a role, its work items, its events, for each run. Raises EmissionRefused."""
    asking = set()
    for role, items, events in runs:
        for kind in (SiteKind.ASK, SiteKind.ANSWER):
            made = [event for event in events if event.site.kind is kind]
            if kind is SiteKind.ASK and not made:
                continue
            if [event.item for event in made] != list(range(items)):
                raise EmissionRefused(f"{role} does not {kind.value} once a work item")
            if any(_number(event) != event.item for event in made):
                raise EmissionRefused(f"{role} takes the answer of another work item")
            if kind is SiteKind.ASK:
                asking.add(role)
    if len(asking) != 1:
        raise EmissionRefused("not one role asks for work items")


def _number(event: SiteEvent) -> int:
    operation = event.site.operation
    assert isinstance(operation, ir.Access | ir.Asynchronous)
    tile = operation.effects[0].tile
    if tile is None:
        raise EmissionRefused("an answer has no number")
    return value_of(tile, event.environment)
