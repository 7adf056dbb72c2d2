"""Loops on data that no round can end, and guards that nothing computes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.numbers.device import EmulatedDevice, LaunchError, LaunchShape
from titan.verify.model import Finding

LAUNCH = "{grid: 1, block: 1, parameters: [pointer]}"
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %d<8>;
ld.param.b64 %d1, [out];
ld.global.b32 %r1, [%d1];
ld.global.b32 %r2, [%d1+4];
mov.b32 %r3, 3;
setp.eq.s32 %p1, %r1, 0;
LOOP:
"""
TAIL = """
@!%p1 bra LOOP;
AFTER:
st.global.b32 [%d1+8], %r1;
ret;
}
"""
CANNOT_END = "a loop that data let be entered cannot end"
NOT_WRITTEN = "no instruction writes the register that decides"


def judged(text: str) -> Finding:
    launch, errors = read_launch_text(LAUNCH, "launch")
    assert errors == []
    (finding,) = verify_code(Source("k.ptx", text), launch, CodeOptions(schedules=0), [], 0.0)
    assert finding.verdict is not Verdict.REFUSED, finding.diagnostics
    return finding


def verdict(text: str) -> tuple[Verdict, str]:
    finding = judged(text)
    return finding.verdict, " ".join(finding.notes)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", CANNOT_END),
        ("add.s32 %r3, %r3, 1;", CANNOT_END),  # changes nothing that decides
        ("st.global.b32 [%d1+12], %r3;", CANNOT_END),
        ("setp.eq.s32 %p1, %r2, 0;", CANNOT_END),  # computed again, of the same
        ("mov.b32 %r4, %r2; setp.eq.s32 %p1, %r4, 0;", CANNOT_END),
        ("@%p2 bra AFTER;", NOT_WRITTEN),
        ("setp.eq.s32 %p2, %r2, 7;\n@%p2 bra AFTER;", CANNOT_END),
        # within a loop that ends, with other data
        (
            "IN:\nsetp.eq.s32 %p2, %r2, 0;\n@!%p2 bra IN;\nld.global.b32 %r2, [%d1];"
            "setp.eq.s32 %p1, %r2, 1;",
            CANNOT_END,
        ),
        ("add.s32 %r1, %r1, -1;\nsetp.eq.s32 %p1, %r1, 0;", ""),
        ("ld.global.b32 %r1, [%d1];\nsetp.eq.s32 %p1, %r1, 0;", ""),
        ("add.s32 %r3, %r3, 1;\nsetp.eq.s32 %p1, %r3, %r1;", ""),
        ("add.s32 %r3, %r3, 1;\nsetp.gt.s32 %p2, %r3, %r1;\n@%p2 bra AFTER;", ""),
        ("setp.eq.s32 %p1, %r2, 0;\n@!%p1 add.s32 %r2, %r2, -1;", ""),
    ],
)
def test_named_loops(body, reason):
    found, text = verdict(HEAD + body + TAIL)
    assert (found is Verdict.UNDECIDED) == bool(reason), text
    assert reason in text


def test_the_end_of_other_loops_is_assumed_and_noted():
    body = "add.s32 %r1, %r1, -1;\nsetp.eq.s32 %p1, %r1, 0;"
    result = judged(HEAD + body + TAIL)
    assert result.verdict is Verdict.VERIFIED
    assert any("comes to an end" in text for text in result.notes)


@pytest.mark.parametrize(
    ("guarded", "expected"),
    [
        ("@%p5 st.global.b32 [%d1+12], %r3;", Verdict.REFUTED),
        ("@%p5 bra AFTER;", Verdict.UNDECIDED),
    ],
)
def test_a_guard_that_nothing_writes_is_not_verified(guarded, expected):
    text = HEAD + f"add.s32 %r1, %r1, -1;\nsetp.eq.s32 %p1, %r1, 0;\n{guarded}" + TAIL
    found = judged(text)
    assert found.verdict is expected
    assert ["TTN223"] * (expected is Verdict.REFUTED) == [item.code for item in found.diagnostics]


def program(random: Random) -> str:
    body = []
    for _ in range(random.randint(1, 5)):
        registers = [random.choice(("%r1", "%r2", "%r3", "%r4", "%r5")) for _ in range(3)]
        guard = random.choice(("", "", "", "@%p1 ", "@!%p2 "))
        form = random.choice(
            ("mov.b32 {0}, {1};", "add.s32 {0}, {1}, {2};", "setp.eq.s32 %p1, {1}, {2};",
             "setp.lt.s32 %p2, {1}, {2};", "and.b32 {0}, {1}, 3;", "sub.s32 {0}, {1}, 1;")
        )  # fmt: skip
        body.append(guard + form.format(*registers))
    if random.random() < 0.4:
        body.insert(random.randrange(len(body) + 1), "@%p2 bra AFTER;")
    start = "mov.b32 %r4, %r2;\nmov.b32 %r5, 1;\nsetp.lt.s32 %p2, %r2, 3;\nLOOP:\n"
    return HEAD.replace("LOOP:\n", start) + "\n".join(body) + TAIL


def test_a_loop_that_cannot_end_is_left_in_its_first_rounds_or_never():
    """Values that are alike in each round may take as many rounds to settle as there are steps."""
    called = 0
    for seed in range(60):
        text = program(Random(seed))
        if CANNOT_END not in verdict(text)[1]:
            continue
        called += 1
        for values in ((0, 0), (1, 5), (-3, 2), (7, -1), (2, 3)):
            late = text.replace("LOOP:\n", "mov.b32 %r9, 0;\nLOOP:\nadd.s32 %r9, %r9, 1;\n")
            late = late.replace("AFTER:\n", "AFTER:\nmov.b32 %r1, %r9;\n")
            device = EmulatedDevice(steps_max=20_000)
            array = device.array(np.array([*values, 0, 0], dtype=np.int32))
            try:
                device.launch(late, LaunchShape((1, 1, 1), (1, 1, 1)), [array])
            except LaunchError as error:
                assert "cut short" in str(error)
            else:
                assert array.values[2] <= 8, (seed, values)
    assert called >= 10
