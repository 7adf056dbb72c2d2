"""Operations of one warp that are in flight together and touch the same bytes, by plain sets."""

from __future__ import annotations

from random import Random

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<16>;
.reg .b64 %d<8>;
.shared .align 128 .b8 memory[4096];
ld.param.b64 %d1, [out];
mov.b32 %r1, %tid.x;
shl.b32 %r2, %r1, 7;
cvt.u64.u32 %d2, %r2;
add.s64 %d1, %d1, %d2;
mov.b32 %r3, memory;
add.s32 %r3, %r3, %r2;
"""
TAIL = "\nret;\n}\n"
# Each lane has 128 bytes; an operation is a kind and the place of its 16 bytes among them.
COPY = "cp.async.ca.shared.global [%r3+{at}], [%d1+{other}], 16;"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%d1+{at}], [%r3+{other}], 16;"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1+{at}], [%r3+{other}], 16;"
# What bulk operations take from, visible to them.
WRITTEN = "".join(
    f"st.shared.v4.u32 [%r3+{at}], {{%r1, %r1, %r1, %r1}};\n" for at in (64, 80, 96, 112)
)
READY = f"{WRITTEN}fence.proxy.async;\n"
WAITS = {
    "copy": ("cp.async.commit_group;", "cp.async.wait_group 0;"),
    "bulk": ("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"),
}


def judged(text: str, threads: int) -> tuple[Verdict, list[str]]:
    launch = f"{{grid: 1, block: {threads}, parameters: [pointer]}}"
    described, errors = read_launch_text(launch, "launch.yaml")
    assert errors == []
    options = CodeOptions(schedules=0)
    (finding,) = verify_code(Source("k.ptx", HEAD + text + TAIL), described, options, [], 0.0)
    return finding.verdict, [item.code for item in finding.diagnostics]


def program(random: Random, family: str) -> tuple[str, bool]:
    """Operations with commits and waits among them, and whether two in flight conflict."""
    lines, flying, conflict = [], [], False
    for _ in range(random.randint(2, 6)):
        form = random.choice((STORE, REDUCE)) if family == "bulk" else COPY
        at = random.randrange(0, 64, 8) // 16 * 16 if form is not COPY else random.randrange(4) * 16
        lines.append(form.format(at=at, other=64 + random.randrange(4) * 16))
        for place, kind in flying:
            conflict |= place == at and not (kind is form is REDUCE)
        flying.append((at, form))
        if random.random() < 0.4:
            lines.append(WAITS[family][0])
            if random.random() < 0.5:
                lines.append(WAITS[family][1])
                flying = []
    lines += WAITS[family]
    return "\n".join(lines), conflict


@pytest.mark.parametrize(("family", "threads"), [("copy", 32), ("copy", 1), ("bulk", 1)])
def test_writes_in_flight_together_conflict_where_they_share_bytes(family, threads):
    found = set()
    for seed in range(25):
        text, conflict = program(Random(seed), family)
        if family == "bulk":
            text = READY + text
        verdict, codes = judged(text, threads)
        expected = Verdict.REFUTED if conflict else Verdict.VERIFIED
        assert verdict is expected, (seed, text, codes)
        assert not conflict or codes[0] == "TTN202"
        found.add(conflict)
    assert found == {True, False}


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("red.global.add.u32 [%d1], 1;", Verdict.UNDECIDED),  # of another proxy
        ("red.global.add.u32 [%d1+4096], 1;", Verdict.VERIFIED),
        ("st.global.u32 [%d1], 1;", Verdict.REFUTED),
        ("red.global.add.u32 [%d1], 1;\nst.global.u32 [%d1], 1;", Verdict.REFUTED),
        ("st.global.u32 [%d1], 1;\nred.global.add.u32 [%d1], 1;", Verdict.REFUTED),
    ],
)
def test_what_its_thread_does_beside_a_reduction_in_flight(between, expected):
    reduction = f"{READY}{REDUCE.format(at=0, other=64)}\n{WAITS['bulk'][0]}\n"
    assert judged(f"{reduction}{between}\n{WAITS['bulk'][1]}", 1)[0] is expected
