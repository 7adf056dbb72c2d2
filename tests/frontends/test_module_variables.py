"""Variables of a module that are read: a verdict rests on what they begin with, and says so."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, kernel, verified
from titan.foundation.verdict import Verdict

HELD = "variables of the module hold what they begin with"
CHANGED = "no earlier launch has changed such a variable"
DECIDE = "ld.global.u32 %r10, {at}; setp.eq.u32 %p1, %r10, {begin}; @%p1 bar.sync 0;"
STORE = "setp.eq.u32 %p2, %r0, 0; @%p2 st.global.u32 {at}, 9;"


@pytest.mark.parametrize(("given", "begin"), [(" = {5, 6}", "6"), ("", "0")])
@pytest.mark.parametrize(
    ("body", "held", "changed"),
    [
        (DECIDE, True, False),
        (DECIDE + "bar.sync 1;" + STORE, True, True),
        ("ld.global.u32 %r10, {at};", True, False), (STORE, False, False),
        (STORE + "bar.sync 1;" + DECIDE.replace("{begin}", "9"), False, False),
    ],
)  # fmt: skip
def test_a_verdict_names_variables_that_are_read(given, begin, body, held, changed):
    text = kernel(body.format(at="[v+4]", begin=begin))
    variable = f".global .align 4 .b32 v[2]{given};\n"
    finding = verified(text.replace(".visible .entry", f"{variable}.visible .entry"), NOTHING)
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    notes = " ".join(finding.notes)
    assert (HELD in notes, CHANGED in notes) == (held, changed), notes
