"""Decisions beyond the recorded verdicts: states, witnesses, pictures, bounds, second solver."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.sampling import WHOLE
from titan.foundation.resources import root
from titan.litmus.decide import decide, final_states
from titan.litmus.enumerate.candidates import admits
from titan.litmus.graph import to_dot, to_svg
from titan.litmus.language import ast
from titan.litmus.language.suite import find_tests, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.model.options import ModelOptions
from titan.litmus.model.unsupported import UnsupportedTest
from titan.litmus.report import format_decision, format_execution


def one(name: str) -> ast.LitmusTest:
    return read_test(root("litmus") / f"{name}.litmus")


def test_all_states_of_store_buffering() -> None:
    states = {tuple(state.values()) for state in final_states(one("classic/SB+relaxed"))}
    assert states == {(0, 0), (0, 1), (1, 0), (1, 1)}
    states = {tuple(state.values()) for state in final_states(one("classic/SB+fence.sc"))}
    assert states == {(0, 1), (1, 0), (1, 1)}


def test_report_uses_the_words_of_the_field() -> None:
    test = one("classic/SB+relaxed")
    lines = format_decision(decide(test), final_states(test), "Allowed").splitlines()
    assert lines[:2] == ["Test SB+relaxed Allowed", "States 4"]
    assert "Ok" in lines
    assert "Positive: 1 Negative: 3" in lines
    assert "Observation SB+relaxed Sometimes 1 3" in lines
    assert "Condition exists (P0:r0=0 /\\ P1:r0=0)" in lines
    assert "Expected Allowed, as expected" in lines


def test_witness_shows_the_relations() -> None:
    decision = decide(one("classic/MP+relaxed"))
    assert decision.witness is not None
    assert decision.rechecked
    labels = {node.name: node.label for node in decision.witness.nodes}
    flag = next(name for name, label in labels.items() if label.startswith("W flag=1"))
    stale = next(name for name, label in labels.items() if label.startswith("R x=0"))
    write = next(name for name, label in labels.items() if label.startswith("W x=1"))
    read = next(name for name, label in labels.items() if label.startswith("R flag=1"))
    text = format_execution(decision.witness)
    assert f"{flag} -> {read}" in next(line for line in text.splitlines() if "rf:" in line)
    assert f"{stale} -> {write}" in next(line for line in text.splitlines() if "fr:" in line)


def test_pictures() -> None:
    decision = decide(one("async/gw-bulkstore+under-fenced"))
    assert decision.witness is not None
    dot = to_dot(decision.witness, "t")
    assert dot.startswith('digraph "t" {')
    assert 'label="fr"' in dot
    svg = ElementTree.fromstring(to_svg(decision.witness, "a < b"))
    texts = [element.text or "" for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    for node in decision.witness.nodes:
        assert any(node.label in text for text in texts)


def test_a_wrong_witness_is_not_admitted() -> None:
    test = one("classic/MP+relaxed")
    decision = decide(test)
    assert decision.witness is not None
    stricter = replace(test, threads=one("classic/MP+rel+acq.gpu+gpu").threads)
    assert admits(test, ModelOptions(), decision.witness)
    assert not admits(stricter, ModelOptions(), decision.witness)


@pytest.mark.parametrize("folder", ["classic", "proxy", "tensormap", "cluster"])
def test_a_second_solver_confirms(folder: str) -> None:
    pytest.importorskip("cvc5")
    for entry in list(find_tests([root("litmus") / folder]))[:: 4 if WHOLE else 12]:
        test = read_test(entry.path)
        first, second = decide(test, recheck=False), decide(test, solver="cvc5", recheck=False)
        assert first.verdict == second.verdict, entry.path.name


SPIN = """PTX spin
{{ x = 0; flag = 0; n = 0; }}
 P0@cta 0,gpu 0         | P1@cta 1,gpu 0          ;
 st.weak x, 1           | L0:                     ;
 st.release.gpu flag, 1 | ld.acquire.gpu r0, flag ;
                        | {extra} ;
                        | bne r0, 1, L0           ;
                        | ld.weak r1, x           ;
exists (P1:r1=0)
"""


def test_polling_loops_are_exact_and_others_bounded() -> None:
    polling = decide(read_litmus("spin", SPIN.format(extra="")))
    assert (polling.verdict, polling.complete) == ("Forbidden", True)
    working = decide(read_litmus("spin", SPIN.format(extra="atom.relaxed.gpu.add r2, n, 1")))
    assert (working.verdict, working.complete) == ("Forbidden (bounded)", False)
    assert working.holds is None
    assert "Bounded: loops were cut off" in format_decision(working)


def test_what_is_not_decided_is_refused() -> None:
    text = (
        "PTX t\n{ shared a = 0 @ cta 0; g = 0; }\n P0@cta 0,gpu 0 ;\n L0: ;\n"
        " cp.async.bulk.bulk_group g, a ;\n ld r0, g ;\n bne r0, 1, L0 ;\nexists (P0:r0=1)\n"
    )
    with pytest.raises(UnsupportedTest, match="jump that may skip"):
        decide(read_litmus("t", text))


def test_blocked_threads_leave_their_registers_open() -> None:
    text = (
        "PTX t\n{{ mbarrier b = 1 @ cta 0; }}\n P0@cta 0,gpu 0 ;\n"
        " mbarrier.try_wait.parity b, 0 ;\n mov r0, 1 ;\nexists (P0:r0={value})\n"
    )
    for value in (0, 1):
        assert decide(read_litmus("t", text.format(value=value))).verdict == "Forbidden"


def test_sc_per_location_follows_from_the_axioms() -> None:
    """The model has no separate axiom for it; the five shapes that it forbids are forbidden."""
    for name in ("CoWW", "CoWR", "CoRW", "CoRW2", "CoRR+relaxed"):
        assert decide(one(f"classic/{name}")).verdict == "Forbidden"


def test_a_witness_is_evaluated_in_its_own_coherence_order() -> None:
    decision = decide(one("classic/2+2W+relaxed"))
    witness = decision.witness
    assert witness is not None and decision.rechecked
    assert admits(decision.test, decision.options, witness)
    turned = replace(witness, co=tuple((b, a) for a, b in witness.co))
    assert not admits(decision.test, decision.options, turned)
