"""Pipelines of persistent kernels that ask the hardware for their work items."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.load import parse_tile
from titan.foundation.errors import UserError
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

STARTS = {"acc_next": 0}
TEXT = (root("protocols") / "tiles" / "gemm_launch_control_sm_100a.yaml").read_text("utf-8")


def asking(**more):
    tile = replace(examples.gemm(groups=1, persistent=True), target="sm_100a", launch_control=True)
    return replace(tile, **more)


def written(depth=2):
    return construct(asking(), Shape("", depth, persistent=True), STARTS, 1)


def test_any_number_of_items_verifies():
    finding = verdict(written())
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)
    assert "work: {any: true, minimum: 1}" in written()


REMOVED = {
    "the issuer's answer is not waited for": "        - wait: answer_read_issuer[w % 2]\n"
    "          phase: w // 2 - 1\n",
    "the consumer's answer is not waited for": "        - wait: answer_read_consumer[w % 2]\n"
    "          phase: w // 2 - 1\n",
    "read before it is there": "        - wait: answer_there[w % 2]\n          phase: w // 2\n",
    "nobody expects it": "        - arrive: answer_there[w % 2]\n          bytes: 16\n",
    "the slot is not given back": "        - arrive: answer_read_consumer[w % 2]\n",
    "read without a fence behind it": "        - load: answer[w % 2] = w\n        - fence: async\n",
}


@pytest.mark.parametrize("what", REMOVED)
def test_what_answers_need_is_needed(what):
    text = written()
    old = REMOVED[what]
    new = "        - load: answer[w % 2] = w\n" if what.startswith("read without") else ""
    assert old in text
    assert verdict(text.replace(old, new, 1)).verdict is Verdict.REFUTED


def test_one_slot_less_is_too_few():
    text = written().replace("answer: {stages: 2, bytes: 16}", "answer: {stages: 1, bytes: 16}")
    text = text.replace("answer[w % 2]", "answer[0]")
    assert verdict(text).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("tile", "shape", "reason"),
    [
        (asking(persistent=False), Shape("", 2), "nothing to ask for"),
        (asking(cluster=2), Shape("", 2, persistent=True), "single CTAs alone"),
        (asking(), Shape("", 2, specialised=False, overlapped=False), "single CTAs alone"),
    ],
)
def test_what_cannot_ask_is_refused(tile, shape, reason):
    with pytest.raises(FormRefused, match=reason):
        construct(tile, shape, STARTS, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("persistent: true\n", "", "needs `persistent: true`"),
        ("target: sm_100a", "target: sm_90a", "has no `launch_control`"),
    ],
)
def test_a_tile_program_that_cannot_ask_is_told(old, new, told):
    assert old in TEXT
    with pytest.raises(UserError, match=told):
        parse_tile(TEXT.replace(old, new))
