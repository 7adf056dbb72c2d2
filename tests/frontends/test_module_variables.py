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


@pytest.mark.parametrize(
    ("access", "right"),
    [
        ("st.global.u32 [v+4], 1;", True),
        ("st.global.u32 [w], 1;", True),
        ("ld.global.v2.u32 {%r10, %r11}, [v];", True),
        ("ld.global.u32 %r10, [v+8];", False),  # where w would begin
        ("st.global.u32 [v+8], 1;", False),
        ("red.global.add.u32 [w+4], 1;", False),
        ("ld.global.u32 %r10, [v+-4];", False),
        ("ld.global.v2.u32 {%r10, %r11}, [w];", False),
        ("mov.u64 %d1, v; cvta.global.u64 %d1, %d1; ld.u32 %r10, [%d1+8];", False),
        ("mov.u64 %d1, w; mad.wide.u32 %d1, %r0, 4, %d1; ld.global.u32 %r10, [%d1];", False),
        ("mov.u64 %d1, v; ld.global.u32 %r10, [%d1+4];", True),
    ],
)
def test_accesses_stay_in_a_variable_of_the_module(access, right):
    text = kernel(".reg .b64 %d<2>; " + access, 1)
    variables = ".global .align 4 .b32 v[2];\n.global .align 8 .b32 w;\n"
    if access.startswith("mov.u64 %d1, w"):
        text = text.replace(".reqntid 1", ".reqntid 2")
    finding = verified(text.replace(".visible .entry", f"{variables}.visible .entry"), NOTHING)
    assert finding.verdict is (Verdict.VERIFIED if right else Verdict.REFUTED), finding.notes
    assert right or [item.code for item in finding.diagnostics] == ["TTN218"]
