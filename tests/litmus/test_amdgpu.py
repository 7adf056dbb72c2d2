"""The AMDGPU dialect: its suite is what the table says, its two engines agree on random tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.litmus.amdgpu_suite import suite
from tests.sampling import WHOLE, part
from titan.foundation.resources import root
from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import TooManyCandidates, admits, allowed
from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Scope, Semantics, ThreadPlacement
from titan.litmus.language.condition import LitmusError
from titan.litmus.language.printing import format_litmus
from titan.litmus.language.suite import find_tests, read_kinds, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.language.yaml import read_litmus_yaml
from titan.litmus.model.dialect import Dialect
from titan.litmus.model.options import ModelOptions
from titan.litmus.render.c11 import render_c11
from titan.litmus.render.kernel import render
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.report import format_decision, format_execution

FOLDER = root("litmus") / "amdgpu"
ORIGINALS = tuple(read_test(entry.path) for entry in find_tests([FOLDER]))
SCOPES = (Scope.WAVEFRONT, Scope.CTA, Scope.GPU, Scope.SYS)
PLACES = (
    ThreadPlacement(0, 0, 0, 0),
    ThreadPlacement(0, 0, 0, 1),
    ThreadPlacement(0, 0, 1, 0),
    ThreadPlacement(0, 1, 2, 0),
    ThreadPlacement(1, 0, 0, 0),
)
ORDERS = {
    ast.Load: (Semantics.WEAK, Semantics.RELAXED, Semantics.ACQUIRE, Semantics.SC),
    ast.Store: (Semantics.WEAK, Semantics.RELAXED, Semantics.RELEASE, Semantics.SC),
    ast.Fence: (Semantics.ACQUIRE, Semantics.RELEASE, Semantics.ACQ_REL, Semantics.SC),
    ast.Atomic: tuple(order for order in Semantics if order is not Semantics.WEAK),
}
MP = """AMDGPU MP
{ data = 0; lds flag = 0 @ wg 1; }
 P0@wave 0,wg 1,xcd 1    | P1@wave 1,wg 1,xcd 1       ;
 st.weak data, 1         | ld.acquire.agent r0, flag  ;
 st.release.agent flag, 1| fence.seq_cst.system       ;
 s_barrier               | s_barrier                  ;
                         | atom.acq_rel.workgroup.cas r1, data, 0, 1 ;
exists (P1:r0=1 /\\ P1:r1=0)
"""


def test_the_files_are_what_the_table_says() -> None:
    tests = suite()
    assert len(tests) >= 200
    stored = {entry.path.stem: entry.path.read_text() for entry in find_tests([FOLDER])}
    assert stored == {test.name: test.text() for test in tests}
    recorded = {name: kind.verdict for name, kind in read_kinds(FOLDER / "kinds.txt").items()}
    assert recorded == {test.name: test.verdict for test in tests}


def test_text_yaml_and_printing_agree() -> None:
    test = read_litmus("mp", MP)
    assert test.dialect is Dialect.AMDGPU
    assert test.location("flag").home == ThreadPlacement(0, 1, 1, 0)
    assert [thread.placement.wave for thread in test.threads] == [0, 1]
    assert test.threads[1].instructions[1] == ast.Fence(Semantics.SC, Scope.SYS)
    assert read_litmus("mp", format_litmus(test)) == test
    yaml = """litmus: MP
dialect: AMDGPU
locations: [data = 0, "lds flag = 0 @ wg 1"]
threads:
  - name: P0
    at: wave 0,wg 1,xcd 1
    code: ["st.weak data, 1", "st.release.agent flag, 1", s_barrier]
  - name: P1
    at: wave 1,wg 1,xcd 1
    code:
      - ld.acquire.agent r0, flag
      - fence.seq_cst.system
      - s_barrier
      - atom.acq_rel.workgroup.cas r1, data, 0, 1
exists: P1:r0=1 /\\ P1:r1=0
"""
    assert read_litmus_yaml("mp.yaml", yaml) == test


@pytest.mark.parametrize(
    ("old", "new", "message", "marked"),
    [
        ("AMDGPU MP", "GFX MP", "starts with `PTX` or `AMDGPU`", "G"),
        ("acquire.agent", "acquire.gpu", "has no qualifier `gpu`", "ld.acquire.gpu r0, flag"),
        ("acquire.agent", "aquire.agent", "did you mean `acquire`", "ld.aquire.agent r0, flag"),
        ("ld.acquire.agent", "ld.acquire", "needs one of wavefront", "ld.acquire r0, flag"),
        ("st.weak data", "st.weak.agent data", "needs no scope", "st.weak.agent data, 1"),
        ("release.agent", "acquire.agent", "needs one order of weak", "st.acquire.agent flag, 1"),
        ("fence.seq_cst", "fence.weak", "needs one order of acquire", "fence.weak.system"),
        ("s_barrier  ", "s_barier  ", "did you mean `s_barrier`", "s_barier"),
        ("workgroup.cas", "workgroup.swap", "has no qualifier `swap`", None),
        ("wave 0,wg 1", "wave 0,cta 1", "`cta` is no level of a place", None),
        ("lds flag", "shared flag", "AMDGPU has no `shared`", "shared flag = 0 @ wg 1"),
        ("@ wg 1;", "@ wg 0;", "`flag` is in the LDS of another work-group", None),
        ("wave 1,wg 1,xcd 1", "wave 1,wg 1,xcd 0", "wg 1 of agent 0 is on two xcds", None),
        ("exists", "scopes: (P0 P1)\nexists", "places in the heads", None),
    ],
)
def test_faults_are_located(old: str, new: str, message: str, marked: str | None) -> None:
    with pytest.raises(LitmusError, match=message) as caught:
        read_litmus("mp", MP.replace(old, new, 1))
    assert caught.value.span is not None
    if marked is not None:
        span = caught.value.span
        assert span.excerpt()[span.start_column - 1 : span.end_column - 1] == marked


def test_ptx_tests_know_no_words_of_amdgpu() -> None:
    text = (root("litmus") / "classic" / "MP+weak.litmus").read_text()
    for old, new, message in (
        ("st.weak x", "st.relaxed.wavefront x", "no qualifier `wavefront`"),
        ("flag = 0", "lds flag = 0", "PTX has no `lds`"),
    ):
        with pytest.raises(LitmusError, match=message):
            read_litmus("mp", text.replace(old, new, 1))


def test_a_race_is_named() -> None:
    narrow = read_test(FOLDER / "MP+ra.workgroup@xcds.litmus")
    decision = decide(narrow)
    assert decision.rechecked
    assert "Undefined: a data race on" in format_decision(decision)
    assert decision.witness is not None
    assert "release.workgroup" in format_execution(decision.witness)
    relaxed = decide(read_test(FOLDER / "MP+rlx.agent@xcds.litmus"))
    assert (relaxed.verdict, relaxed.note) == ("Allowed", "")


def test_wider_scopes_never_allow_more() -> None:
    """What a test forbids, it forbids with every scope made `system`."""
    for test in ORIGINALS[:: 1 if WHOLE else 6]:
        wide = replace(
            test,
            threads=tuple(
                replace(t, instructions=tuple(_widened(i) for i in t.instructions))
                for t in test.threads
            ),
        )
        if not decide(test, recheck=False).allowed:
            assert not decide(wide, recheck=False).allowed, test.name


def _widened(code: ast.LitmusInstruction) -> ast.LitmusInstruction:
    scope = getattr(code, "scope", None)
    return code if scope is None else replace(code, scope=Scope.SYS)  # type: ignore[call-arg]


def test_other_languages_refuse_the_dialect() -> None:
    for renderer in (render, render_c11):
        with pytest.raises(NotRenderable, match="a test of AMDGPU, not of PTX"):
            renderer(ORIGINALS[0])


@st.composite
def edited(draw) -> LitmusTest:
    """A test of the suite with threads moved, orders and scopes changed, fences added."""
    small = [t for t in ORIGINALS if len(t.threads) < 4]
    test = draw(st.sampled_from(small))
    threads = []
    lds = any(location.home is not None for location in test.locations)
    for thread in test.threads:
        code = [draw(changed(i)) for i in thread.instructions]
        if draw(st.integers(0, 3)) == 0:
            fence = ast.Fence(
                draw(st.sampled_from(ORDERS[ast.Fence])), draw(st.sampled_from(SCOPES))
            )
            code.insert(draw(st.integers(0, len(code))), fence)
        place = thread.placement
        if draw(st.integers(0, 2)) == 0:
            place = draw(st.sampled_from(PLACES[:2] if lds else PLACES))
        threads.append(replace(thread, instructions=tuple(code), placement=place))
    test = replace(test, threads=tuple(threads))
    if draw(st.booleans()):
        races = (ast.Connective("not", (ast.Race(x.name),)) for x in test.locations)
        test = replace(test, condition=ast.Connective("and", (test.condition, *races)))
    return test


@st.composite
def changed(draw, code: ast.LitmusInstruction) -> ast.LitmusInstruction:
    if type(code) not in ORDERS or draw(st.integers(0, 2)):
        return code
    order = draw(st.sampled_from(ORDERS[type(code)]))
    scope = None if order is Semantics.WEAK else draw(st.sampled_from(SCOPES))
    return replace(code, semantics=order, scope=scope)  # type: ignore[call-arg]


def test_engines_agree_on_edited_tests() -> None:
    """Half of the tests ask for executions without a race, so that races do not decide all."""

    @settings(
        max_examples=part(600, 5),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(edited())
    def agree(test: LitmusTest) -> None:
        try:
            expected = allowed(test, budget=3_000)
        except TooManyCandidates:
            assume(False)
            return
        decision = decide(test, recheck=False)
        assert decision.allowed == expected, format_litmus(test)
        if decision.witness is not None:
            assert admits(test, ModelOptions(), decision.witness, budget=100_000)

    agree()
