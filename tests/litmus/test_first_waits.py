"""A loop of waits begins before the phase is complete: the barrier has to be there by then."""

from __future__ import annotations

import pytest

from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import allowed
from titan.litmus.language.text import read_litmus
from titan.litmus.model.options import ModelOptions

HEAD = """\
PTX first-waits
"one thread initialises and arrives, the other waits"
{{
mbarrier b = 0 @ cta 0,gpu 0; mbarrier c = 1 @ cta 0,gpu 0; f = 0;
}}
 P0@cta 0,cluster 0,gpu 0 | P1@cta 0,cluster 0,gpu 0 ;
{lines}
exists (undefined(b))
"""
INIT, ARRIVE = "mbarrier.init b, 1", "mbarrier.arrive b"
LOOP, TEST = "mbarrier.try_wait.parity b, 0", "mbarrier.test_wait.parity r0, b, 0"


@pytest.mark.parametrize(
    ("first", "second", "undefined"),
    [
        ([INIT, ARRIVE], [LOOP], True),
        ([INIT, ARRIVE], [TEST], True),
        ([INIT, "bar.sync 0, 2", ARRIVE], ["bar.sync 0, 2", LOOP], False),
        ([INIT, "bar.sync 0, 2", ARRIVE], ["bar.sync 0, 2", TEST], False),
        ([INIT, ARRIVE, "bar.sync 0, 2"], [LOOP, "bar.sync 0, 2"], True),
        ([INIT, "mbarrier.arrive c", ARRIVE], ["mbarrier.try_wait.parity c, 0", LOOP], False),
        ([INIT, ARRIVE, "mbarrier.arrive c"], [LOOP, "mbarrier.try_wait.parity c, 0"], True),
        ([INIT, ARRIVE, LOOP], ["mov r0, 1"], False),
        ([INIT, "bar.arrive 1, 2", ARRIVE], ["bar.sync 1, 2", LOOP, LOOP], False),
    ],
)
def test_what_has_to_be_initialised_by_then(first: list[str], second: list[str], undefined: bool):
    length = max(len(first), len(second))
    rows = zip(*(part + [""] * (length - len(part)) for part in (first, second)), strict=True)
    text = HEAD.format(lines="\n".join(f" {one} | {other} ;" for one, other in rows))
    test = read_litmus("first.litmus", text)
    found = decide(test, ModelOptions(), recheck=True)
    assert bool(found.allowed) == undefined == allowed(test, ModelOptions(), budget=100_000)
