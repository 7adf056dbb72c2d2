"""Loops of TTGIR: specialised inside of a loop, flattened, `scf.while`; their faults, other forms.

The samples in ttgir/ are what Triton 3.9 made of persistent GEMMs, without their locations.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir import assemble, translate
from titan.frontends.ttgir.parse import parse_ttgir
from titan.frontends.ttgir.verify import assembled, verify_ttgir
from titan.sync.expression import evaluate
from titan.verify.model import Finding, VerifyOptions

FOLDER = Path(__file__).parent / "ttgir"
INNER, FLATTENED, TICKET = (
    (FOLDER / f"{name}.ttgir").read_text(encoding="utf-8")
    for name in ("persistent_inner_sm100", "persistent_flattened_sm100", "ticket_loop_sm90")
)


def verified(text: str) -> Finding:
    (finding,) = verify_ttgir(Source("k.ttgir", text), VerifyOptions(save_traces=None))
    return finding


def changed(text: str, pattern: str, new: str, number: int = 0) -> str:
    """The text with one line that matches replaced; `\\0` in `new` is the line."""
    lines = text.split("\n")
    at = [place for place, line in enumerate(lines) if re.search(pattern, line)][number]
    lines[at] = new.replace("\\0", lines[at])
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text", [INNER, TICKET, pytest.param(FLATTENED, marks=pytest.mark.heavy)],
    ids=["inner", "ticket", "flattened"],
)  # fmt: skip
def test_loops_are_verified_for_any_number(text):
    finding = verified(text)
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert {values for _, values in finding.coverage.parameters} == {None}


FAULTS = [
    (INNER, "ttng.wait_barrier", 1), (INNER, "ttng.wait_barrier", 2),
    (INNER, "ttng.wait_barrier", 3), (INNER, "ttng.barrier_expect", 0),
    (INNER, "ttng.tc_gen5_commit", 0), (INNER, "ttng.async_tma_store_wait", 0),
    (FLATTENED, "ttng.wait_barrier", 1), (FLATTENED, "ttng.wait_barrier", 4),
    (FLATTENED, "ttng.arrive_barrier", 0), (FLATTENED, "ttng.tc_gen5_commit", 0),
    (TICKET, "ttng.wait_barrier", 0),
    (TICKET.replace("yield %acc_37#0", "yield %acc_36"), "ttng.warp_group_dot_wait", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pattern", "number"), FAULTS)
def test_an_operation_left_out_is_refuted(text, pattern, number):
    assert verified(changed(text, pattern, "", number)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("text", "number"), [(INNER, 0), (FLATTENED, 0), (TICKET, 0)])
def test_a_phase_that_is_not_flipped_is_refuted(text, number):
    line = [one for one in text.split("\n") if "arith.xori" in one][number]
    name, before = re.search(r"(%\w+) = arith.xori (%\w+),", line).groups()
    same = f"%nil = arith.constant 0 : i32\n{name} = arith.addi {before}, %nil : i32"
    assert verified(text.replace(line, same)).verdict is Verdict.REFUTED


def test_a_wait_at_another_stage_is_refuted():
    wait = next(one for one in INNER.split("\n") if "ttng.wait_barrier %acc_41" in one)
    index = next(one for one in INNER.split("\n") if "%acc_41 = ttg.memdesc_index" in one)
    other = re.sub(r"\[%\w+\]", "[%arg32]", index)
    assert wait and verified(INNER.replace(index, other)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("number", [None, 0, 1])
def test_flattened_loops_do_the_same_in_their_plain_form(number, monkeypatch):
    """With the pair of loops, and with the one loop of the text, for numbers that belong to it."""
    text = FLATTENED if number is None else changed(FLATTENED, "ttng.wait_barrier", "", number)

    def verdicts() -> list[Verdict]:
        source = Source("k.ttgir", text)
        module, _ = parse_ttgir(source)
        made, errors = assembled(module, module.functions[0], source.path)
        assert not errors
        found = []
        for tiles, inner in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 2)):
            given = {"M": 128, "N": 1024 * tiles, "K": 64 * inner, "program_id_x": 0}
            sizes = {name: max(0, evaluate(value, given)) for name, value in made.sizes}
            found.append(explore(made.kernel.program, sizes, Budget(states_max=50_000)).verdict)
        return found

    pair = verdicts()
    monkeypatch.setattr(assemble, "with_last_trips_behind", lambda body, minimums: body)
    behind = verdicts()
    monkeypatch.setattr(assemble, "without_copies", lambda body: body)
    monkeypatch.setattr(translate, "flattened", lambda *given: None)
    assert pair == behind == verdicts()
    assert (Verdict.REFUTED in pair) == (number == 1), pair


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: t.replace("scf.condition(%0) %t_4", "scf.condition(%0) %total_2"),
            "does not hand",
        ),
        (lambda t: changed(t, "scf.condition", "ttng.wait_barrier %a, %b\n\\0"), "synchronises"),
    ],
)
def test_other_while_loops_are_refused(change, said):
    finding = verified(change(TICKET))
    assert finding.verdict is Verdict.REFUSED
    assert any(said in item.headline for item in finding.diagnostics), finding.diagnostics


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("ttng.clc_is_canceled %t_20 : i128 -> i1", "ttng.clc_try_cancel"),
        ("arith.cmpi slt, %t_20, %total_2 : i32", "does not hand all that it carries on"),
    ],
)
def test_what_gives_tiles_is_named_where_it_is_not_followed(operation, said):
    """A bool that a trip makes decides whether there is one more, and is not handed on."""
    text = TICKET
    for old, new in (
        ("scf.while (%t_4 = %t) : (i32)", "scf.while (%t_4 = %t, %more = %true) : (i32, i1)"),
        ("scf.condition(%0)", "scf.condition(%more)"),
        ("scf.yield %t_20 : i32", f"%next = {operation}\nscf.yield %t_20, %next : i32, i1"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    finding = verified(text)
    assert finding.verdict is Verdict.REFUSED
    assert any(said in item.headline for item in finding.diagnostics), finding.diagnostics
