"""Every pair of operations in one pipelined queue, before every engine.

What needs no wait is written out here once more, from the PTX text (wgmma.fence; "Pipelined tcgen05
instructions": mma before mma of the same accumulator and shape, cp before mma), and shares nothing
with the table that the engines ask.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.agreement.engines import engines, reference
from tests.sampling import sampled
from titan.engines.spin import run_spin, spin_available, to_promela
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.pipe_order import LISTED_PAIRS, PipePair, PipeUse

USES = ("read", "copy", "accumulate")
REGIONS = ("same", "part", "apart")  # where the later one is: there, half of it, elsewhere
QUEUES = ("wgmma", "tcgen05 listed", "tcgen05 in_order")
CASES = list(product(QUEUES, USES, USES, REGIONS))


def fine(queue: str, earlier: str, later: str, region: str) -> bool:
    """Whether the two need no wait in between, by the text."""
    if region == "apart" or earlier == later == "read":
        return True
    if queue == "tcgen05 in_order":
        return True
    if earlier == later == "accumulate":
        return region == "same"
    return queue == "tcgen05 listed" and (earlier, later) in (
        ("copy", "read"), ("copy", "accumulate"),
    )  # fmt: skip


def use(word: str, place: ir.Effect) -> ir.Asynchronous:
    write = word != "read"
    effect = ir.Effect(
        place.buffer, place.stage, write, None, place.part, accumulates=word == "accumulate"
    )
    return ir.Asynchronous((effect,), "q")


def two_uses(queue: str, earlier: str, later: str, region: str) -> ir.SyncProgram:
    """The two operations, one after the other, and nothing in between."""
    whole = ir.Effect("T", Constant(0))
    places = {
        "same": whole,
        "part": ir.Effect("T", Constant(0), part=Constant(1)),
        "apart": ir.Effect("T", Constant(1)),
    }
    grouped = queue == "wgmma"
    body = [use(earlier, whole), use(later, places[region])]
    body += [ir.Commit("q")] if grouped else []
    return ir.SyncProgram(
        "two_uses",
        "sm_90a" if grouped else "sm_100a",
        (ir.Role("w", (*body, ir.QueueWait("q"))),),
        buffers=(ir.Buffer("T", 2, 2, ir.Space.TENSOR, initial=0),),
        queues=(ir.Queue("q", grouped=grouped, pipelined=True),),
        policies=ir.Policies(tensor_pipe="in_order" if "in_order" in queue else "listed"),
    )


@pytest.mark.parametrize(("queue", "earlier", "later", "region"), CASES)
def test_every_pair(queue: str, earlier: str, later: str, region: str):
    program = two_uses(queue, earlier, later, region)
    expected = Verdict.VERIFIED if fine(queue, earlier, later, region) else Verdict.REFUTED
    assert reference(program).verdict is expected
    for name, engine in engines().items():
        assert engine(program).verdict is expected, name


@pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")
@pytest.mark.parametrize(("queue", "earlier", "later", "region"), sampled(CASES, every=27))
def test_every_pair_before_spin(queue: str, earlier: str, later: str, region: str):
    found = run_spin(to_promela(two_uses(queue, earlier, later, region)), optimise="-O0").rule
    assert (found is None) is fine(queue, earlier, later, region)


@pytest.mark.parametrize(("in_order", "tile"), [(True, 7), (False, None)])
def test_a_read_in_the_pipe_meets_what_the_last_write_leaves(in_order: bool, tile: int | None):
    """In order, a product that reads an accumulator sees the product before it."""
    body = (
        ir.Asynchronous((ir.Effect("T", write=True, tile=Constant(7), accumulates=True),), "q"),
        ir.Asynchronous((ir.Effect("T", tile=Constant(7)),), "q"),
        ir.QueueWait("q"),
    )
    program = ir.SyncProgram(
        "chain",
        "sm_100a",
        (ir.Role("w", body),),
        buffers=(ir.Buffer("T", space=ir.Space.TENSOR, initial=0),),
        queues=(ir.Queue("q", grouped=False, pipelined=True),),
        policies=ir.Policies(tensor_pipe="in_order" if in_order else "listed"),
    )
    expected = Verdict.VERIFIED if tile == 7 else Verdict.REFUTED
    assert reference(program).verdict is expected
    for name, engine in engines().items():
        assert engine(program).verdict is expected, name


def test_the_table_holds_what_the_text_lists():
    pairs = {(pair.earlier.name.lower(), pair.later.name.lower()) for pair in LISTED_PAIRS}
    listed = {
        (earlier, later)
        for earlier, later in product(USES, USES)
        if fine("tcgen05 listed", earlier, later, "same") and not earlier == later == "read"
    }
    assert pairs == listed
    assert PipePair(PipeUse.ACCUMULATE, PipeUse.ACCUMULATE) not in LISTED_PAIRS
