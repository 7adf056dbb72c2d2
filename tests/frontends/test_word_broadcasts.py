"""Loops that wait, in which one thread reads the word and hands it on through shared memory."""

from __future__ import annotations

import pytest

from tests.frontends.word_kernels import SIGNAL, chain, found
from titan.foundation.verdict import Verdict
from titan.frontends.grid import asked_words
from titan.isa.simt.native import core
from titan.isa.simt.run import run_prepared

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
# As Triton compiles `while tl.atomic_add(flag, 0, sem="acquire") != n`.
WAIT = """W: bar.sync 0; mov.u32 %r5, 0; @%p0 ld.acquire.gpu.global.u32 %r5, [%d1];
@%p0 st.shared.u32 [s], %r5; bar.sync 0; ld.shared.u32 %r8, [s];
setp.ne.u32 %p2, %r8, %r2; @%p2 bra W;"""
COUNTED = """mov.u32 %r7, 0; W: bar.sync 0; @%p0 ld.acquire.gpu.global.u32 %r5, [%d1];
@%p0 st.shared.u32 [s], %r5; add.u32 %r7, %r7, 1; @%p0 st.shared.u32 [s+4], %r7; bar.sync 0;
ld.shared.u32 %r8, [s]; setp.ne.u32 %p2, %r8, %r2; @%p2 bra W;"""
LEFT = WAIT.replace("setp", "ld.shared.u32 %r9, [s]; setp")
KERNELS = {
    "handed on": (chain(at0=WAIT), VERIFIED),
    "in the lane alone that reads": (chain(at0=WAIT.replace("mov.u32 %r5, 0;", "")), VERIFIED),
    "asked by a sum with 0": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.acquire.gpu.global.add.u32 %r5, [%d1], 0")), VERIFIED),
    "the barrier of the loop is the one behind it": (chain(at0=WAIT, at1=""), VERIFIED),
    "loaded twice": (chain(at0=LEFT), VERIFIED),
    "no acquire": (chain(at0=WAIT.replace("acquire", "relaxed")), REFUTED),
    "an acquire for the block": (chain(at0=WAIT.replace("acquire.gpu", "acquire.cta")), REFUTED),
    "no barrier before the next round": (chain(at0=WAIT.replace("W: bar.sync 0;", "W:")), REFUTED),
    "no barrier behind the store": (
        chain(at0=WAIT.replace("%r5; bar.sync 0;", "%r5;")), REFUTED),
    "no barrier before the release": (chain(at0=WAIT, at3=""), REFUTED),
    "no release": (chain(at0=WAIT, at4=SIGNAL.replace("release", "relaxed")), REFUTED),
    "a signal is left out": (
        chain(at0=WAIT, at4="setp.ne.and.u32 %p0, %r2, 1, %p0;" + SIGNAL), REFUTED),
    "several numbers let it pass": (chain(at0=WAIT.replace("setp.ne", "setp.lt")), VERIFIED),
    "several numbers let it pass, and which one is stored": (
        chain(at0=WAIT.replace("setp.ne", "setp.eq").replace("%r8, %r2;", "%r8, 0;"),
              at2="st.global.u32 [%d3], %r8;", at4="@%p0 red.release.gpu.global.add.u32 [%d1], 1;")
        .replace("W: bar", "mov.u32 %r8, 0; @!%p1 bra GO; W: bar")
        .replace("bra W;", "bra W; GO:"), UNDECIDED),
    "rounds count in shared memory": (chain(at0=COUNTED), UNDECIDED),
    "what the round before has stored": (
        chain(at0="mov.u32 %r7, 0;" + WAIT.replace(
            "@%p0 st.shared.u32 [s], %r5;",
            "@%p0 st.shared.u32 [s], %r5; @%p0 st.shared.u32 [s+4], %r7; mov.u32 %r7, %r5;")),
        UNDECIDED),
    "rounds store to other bytes": (
        chain(at0="mov.u32 %r7, s;" + WAIT.replace("[s], %r5;", "[%r7], %r5;").replace(
            "ld.shared.u32 %r8, [s]",
            "ld.shared.u32 %r8, [%r7]; and.b32 %r7, %r8, 0; add.u32 %r7, %r7, s")), UNDECIDED),
    "rounds write global memory": (
        chain(at0=WAIT.replace("%r5; bar", "%r5; @%p0 st.global.u32 [%d3], 7; bar")), UNDECIDED),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_words_handed_on_through_shared_memory(name: str):
    body, verdict = KERNELS[name]
    assert found(body, grid=3)[0] is verdict, found(body, grid=3)


def test_runs_that_begin_alike_are_as_if_read_anew(monkeypatch: pytest.MonkeyPatch):
    """The events that a run has in common with the one before it are taken over, not others."""
    shared = []

    def both(made, reads=(), before=None):
        last = {id(event) for event in before.events}
        found = run_prepared(made, reads, before)
        alone, _ = run_prepared(made, reads)
        assert list(found[0].events) == list(alone.events)
        assert found[0].same_step == alone.same_step
        assert found[0].confluence == alone.confluence
        shared.append(sum(id(event) in last for event in found[0].events))
        return found

    monkeypatch.setattr(asked_words, "run_prepared", both)
    assert found(chain(at0=WAIT), grid=3)[0] is VERIFIED
    assert core() is None or sum(count > 0 for count in shared) >= 3
