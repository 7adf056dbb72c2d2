"""Warps that arrive at a named barrier and wait there in the same generation.

FlashAttention's kernels for Hopper do: a warpgroup gives itself the first turn. What is verified so
is compared with a search of all interleavings, in which a barrier is a number of threads.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code

WARPS = 3
THREADS = (64, 96, 64)  # of barriers 1, 2 and 3
KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k() {
  .reg .pred %p<4>; .reg .b32 %r<9>;
  .shared .align 4 .b8 s[64];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; setp.eq.u32 %p1, %r3, 0;
  mov.u32 %r4, s;
BODY
  ret;
}
"""
LAUNCH = f"entry: k\ngrid: 1\nblock: {32 * WARPS}\nparameters: []\n"
TURNS = (
    ("arrive 1", "sync 1", "access", "arrive 3", "sync 1", "access"),
    ("sync 3", "access", "arrive 1"),
    (),
)


def verified(programs, policy="counted"):
    """The finding on a kernel with a program for each warp."""
    lines = []
    for warp, steps in enumerate(programs):
        lines.append(f"setp.ne.u32 %p2, %r2, {warp}; @%p2 bra N{warp};")
        for step in steps:
            word, _, number = step.partition(" ")
            if word == "access":
                lines.append("@%p1 st.shared.u32 [%r4], %r2;")
            else:
                lines.append(f"bar.{word} {number}, {THREADS[int(number) - 1]};")
        lines.append(f"N{warp}:")
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    options = CodeOptions(schedules=2, policies=chosen((("named_arrivals", policy),)))
    source = Source("k.ptx", KERNEL.replace("BODY", "\n".join(lines)))
    (finding,) = verify_code(source, described, options, [], 0.0)
    return finding


def every_interleaving(programs):
    """Whether no interleaving of the programs stops, and no two accesses can be next together."""

    @cache
    def fine(places, counts, waiting):
        ready = [w for w in range(WARPS) if places[w] < len(programs[w]) and not waiting[w]]
        if not ready:
            return all(place == len(steps) for place, steps in zip(places, programs, strict=True))
        if sum(programs[w][places[w]] == "access" for w in ready) > 1:
            return False
        return all(fine(*step(places, counts, waiting, warp)) for warp in ready)

    def step(places, counts, waiting, warp):
        word, _, number = programs[warp][places[warp]].partition(" ")
        places, counts, waiting = list(places), list(counts), list(waiting)
        places[warp] += 1
        if word != "access":
            barrier = int(number) - 1
            counts[barrier] += 32
            waiting[warp] = number if word == "sync" else ""
            if counts[barrier] == THREADS[barrier]:
                counts[barrier] = 0
                waiting = ["" if at == number else at for at in waiting]
        return tuple(places), tuple(counts), tuple(waiting)

    return fine((0,) * WARPS, (0,) * len(THREADS), ("",) * WARPS)


def test_a_warp_gives_itself_the_first_turn():
    assert every_interleaving(TURNS)
    finding = verified(TURNS)
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    assert any("counts twice" in note for note in finding.notes)
    strict = verified(TURNS, "once")
    assert strict.verdict is Verdict.REFUTED and strict.diagnostics[0].code == "TTN210"


@pytest.mark.parametrize("warp", [0, 1])
@pytest.mark.parametrize("left_out", range(6))
def test_turns_without_one_of_their_steps(warp, left_out):
    steps = TURNS[warp]
    if left_out >= len(steps) or steps[left_out] == "access":
        return
    programs = [list(one) for one in TURNS]
    del programs[warp][left_out]
    found = verified(programs).verdict
    assert found is not Verdict.VERIFIED or every_interleaving(tuple(map(tuple, programs)))


STEPS = st.sampled_from(
    [*(f"{word} {number}" for word in ("arrive", "sync") for number in (1, 2, 3)), "access"]
)


@given(programs=st.tuples(*[st.lists(STEPS, max_size=5).map(tuple)] * WARPS))
def test_what_is_verified_is_right_in_every_interleaving(programs):
    if verified(programs).verdict is Verdict.VERIFIED:
        assert every_interleaving(programs)


@given(made=st.data())
def test_turns_with_a_step_changed(made):
    programs = [list(one) for one in TURNS]
    for _ in range(made.draw(st.integers(1, 2))):
        warp = made.draw(st.sampled_from([0, 1]))
        place = made.draw(st.integers(0, len(programs[warp])))
        if made.draw(st.booleans()):
            programs[warp].insert(place, made.draw(STEPS))
        else:
            programs[warp][place : place + 1] = [made.draw(STEPS)]
    frozen = tuple(map(tuple, programs))
    if verified(frozen).verdict is Verdict.VERIFIED:
        assert every_interleaving(frozen)
