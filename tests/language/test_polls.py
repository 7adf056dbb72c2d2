"""Polls as docs/reference/language.md says them: an unknown number, and a wait where it is true.

A false answer orders nothing, so what follows it must be right at any moment; a true one is a wait
that passes. Every engine is asked for all answers.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.cases.judging import assert_refuted, assert_verified, judge_text
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.verify.lowering import sync_program

KERNEL = """
titan: 1
kernel: poll
target: sm_90a
sizes: {{tiles: any, ready: {{any: true, per: t}}}}
buffers: {{S: {{stages: 2, bytes: 4096}}, W: {{bytes: 128}}}}
barriers: {{full: {{stages: 2, count: 1}}, empty: {{stages: 2, count: 1}}}}
roles: {{load: {{warps: 1}}, use: {{warps: 1}}}}
program:
  load:
    - for: t in 0..tiles
      do:
        - {{wait: "empty[t % 2]", phase: t // 2 - 1}}
        - {{arrive: "full[t % 2]", bytes: 4096}}
        - {{bulk_load: "S[t % 2] = t", completes: "full[t % 2]"}}
  use:
    - for: t in 0..tiles
      do:
        - if: ready >= 1
          then:
            {then}
          else:
            {other}
        - fence: async
        - {{arrive: "empty[t % 2]"}}
"""
WAIT = '- {wait: "full[t % 2]", phase: t // 2}'
LOAD = "- load: S[t % 2] = t"
WORK = "- store: W"
SEPARATED = "\n            "


def kernel(then: tuple[str, ...], other: tuple[str, ...]) -> str:
    return KERNEL.format(then=SEPARATED.join(then), other=SEPARATED.join(other))


FINE = kernel((WAIT, LOAD), (WORK, WAIT, LOAD))
READS_ANYWAY = kernel((WAIT, LOAD), (WORK, LOAD))
NEVER_WAITS = kernel((WAIT, LOAD), (WORK,))
TAKES_ANY_ANSWER = kernel((LOAD,), (WORK, WAIT, LOAD))


def test_a_poll_that_waits_later_verifies_for_any_answers():
    finding = judge_text(FINE)
    assert_verified(finding)
    assert all(values is None for _, values in finding.coverage.parameters)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (READS_ANYWAY, {"TTN203", "TTN204"}),
        (NEVER_WAITS, {"TTN212", "TTN216", "TTN202", "TTN302", "TTN211"}),
        (TAKES_ANY_ANSWER, {"TTN203", "TTN204"}),
    ],
)
def test_what_a_false_answer_allows_is_seen(text: str, rules: set[str]):
    assert_refuted(judge_text(text), rules)


@pytest.mark.parametrize("answers", list(product((0, 1), repeat=2)))
@pytest.mark.parametrize("text", [FINE, READS_ANYWAY, NEVER_WAITS, TAKES_ANY_ANSWER])
def test_engines_agree_on_given_answers(text: str, answers: tuple[int, ...]):
    family, _ = decode_text(text, "poll.yaml")
    assert family is not None
    program = sync_program(family.kernels[0]).program
    sizes = {"tiles": 2, "ready": answers}
    expected = explore_reference(program, sizes, Budget(50_000)).verdict
    assert explore(program, sizes, Budget(50_000)).verdict is expected
    assert analyse(program, sizes).verdict is expected
    if text is FINE:
        assert expected is Verdict.VERIFIED
