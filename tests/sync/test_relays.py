"""Where a completed copy may have to tell of more than itself, on one issuer's program each."""

from __future__ import annotations

import pytest

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.sync.relays import relays

STORE = access(write("x", tile=1))
OTHERS = ir.Wait(at("told"), e(0), e(0))
EXPECT = ir.Arrive(at("full", "t"), transaction=e(16))


def copy(*barriers: str, index: int | str = "t") -> ir.Asynchronous:
    done = tuple(ir.Completion(at(name, index), e(16)) for name in barriers)
    return ir.Asynchronous((write("landing", "t", proxy=ASYNC),), completes=done)


COPY = copy("full")


@pytest.mark.parametrize(
    ("body", "relayed"),
    [
        ([EXPECT, COPY], False),
        ([STORE, EXPECT, COPY], False),
        ([OTHERS, EXPECT, COPY, COPY], False),
        ([COPY, STORE], False),  # the next turn comes after the store
        ([COPY, EXPECT], False),
        ([COPY, STORE, EXPECT], False),
        ([OTHERS, COPY, EXPECT], False),  # the arrival behind falls into the same phase
        ([OTHERS, COPY, COPY, EXPECT], False),
        ([OTHERS, COPY, OTHERS, EXPECT], True),
        ([OTHERS, COPY, ir.Branch(e("t == 1"), (EXPECT,), (EXPECT,))], True),
        ([OTHERS, COPY, ir.Arrive(at("other", "t"))], True),
        ([COPY, STORE, EXPECT, OTHERS], False),
        ([COPY, OTHERS, EXPECT], True),  # in the second turn, at another barrier
        ([EXPECT, STORE, COPY], True),
        ([EXPECT, OTHERS, COPY], True),
        ([EXPECT, FENCE, COPY], True),
        ([EXPECT, ir.QueueWait("q"), COPY], True),
        ([EXPECT, ir.BarrierSync(at("meet"), e(2)), COPY], True),
        ([EXPECT, access(write("own", tile=1)), COPY], False),  # nobody else looks at it
        ([STORE, EXPECT, copy("full", "other")], True),
        ([STORE, ir.Arrive(at("full", "t + 1")), COPY], True),
        ([STORE, ir.Arrive(at("full", "t"), order=ir.Order.RELAXED), COPY], False),
        ([STORE, ir.Arrive(at("full", "t"), e(0)), COPY], True),
        ([STORE, ir.ExpectTransaction(at("full", "t"), e(16)), COPY], True),
        ([STORE, EXPECT, ir.Branch(e("t == 1"), (STORE,)), COPY], True),
        ([STORE, ir.Branch(e("t == 1"), (EXPECT,), (EXPECT,)), COPY], False),
        ([STORE, EXPECT, ir.Assign("t", e("t + 1")), COPY], True),
    ],
)
def test_what_an_issuer_has_told(body: Body, relayed: bool):
    once = [COPY, STORE] in (body,)
    turns = body if once else [loop("t", 2, body)]
    given = program(
        "issuer",
        [
            ir.Role("p", tuple(turns), variables=(("t", 0),)),
            ir.Role("c", (ir.Wait(at("full"), e(0), e(0)), access(read("x"), read("landing")))),
        ],
        barriers=[ir.Barrier(name, 1, 3) for name in ("full", "told", "other")],
        named_barriers=[ir.NamedBarrier("meet")],
        buffers=[ir.Buffer("x"), ir.Buffer("own"), ir.Buffer("landing", 3)],
        queues=[ir.Queue("q")],
    )
    assert relays(given) is relayed


def test_an_index_with_a_number_for_each_turn_is_not_the_same_for_long():
    index = e("n")
    body = (
        STORE,
        ir.Arrive(ir.Reference("full", index)),
        ir.Loop("w", e(0), e(2), (copy("full", index="n"),)),
    )
    given = program(
        "turns",
        [ir.Role("p", body, variables=(("t", 0),)), ir.Role("c", (access(read("x")),))],
        barriers=[ir.Barrier("full", 1, 3)],
        buffers=[ir.Buffer("x"), ir.Buffer("landing", 3)],
        parameters=[ir.Parameter("n", per="w")],
    )
    assert relays(given)


@pytest.mark.parametrize("late", [False, True])
def test_a_store_behind_the_arrival_is_not_published_by_the_copy(late: bool):
    """PTX "Asynchronous Operations in Program Order": completion tells of the copy alone."""
    body = [EXPECT, STORE, COPY] if late else [STORE, EXPECT, COPY]
    reader = (ir.Wait(at("full"), e(0), e(0)), access(read("x", tile=1), read("landing")))
    given = program(
        "late",
        [ir.Role("p", tuple(body), variables=(("t", 0),)), ir.Role("c", reader)],
        barriers=[ir.Barrier("full", 1)],
        buffers=[ir.Buffer("x"), ir.Buffer("landing")],
    )
    result = analyse(given)
    if late:
        assert result.verdict is Verdict.REFUTED and result.fault is not None
        assert result.fault.kind is FaultKind.WEAK_SYNCHRONISATION
    else:
        assert result.verdict is Verdict.VERIFIED
