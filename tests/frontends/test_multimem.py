"""multimem accesses without words of ordering: weak loads and stores, relaxed reductions."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict

LAUNCH = "{grid: 2, dynamic_shared: 0, parameters: [pointer]}"
RED = "multimem.red{words}.global.add.u32 [%rd1], 1;"
STORE = "multimem.st{words}.global.b32 [%rd1], %r0;"
LOAD = "multimem.ld_reduce{words}.global.add.u32 %r5, [%rd1];"


def found(*steps: str) -> tuple[Verdict, list[str]]:
    body = ".reg .b64 %rd<2>; ld.param.u64 %rd1, [g];" + "".join(steps)
    finding = verified(kernel(body).replace(".entry k()", ".entry k(.param .u64 g)"), LAUNCH)
    return finding.verdict, codes(finding)


@pytest.mark.parametrize("words", ["", ".sys", ".relaxed.sys", ".release.gpu"])
def test_reductions_are_strong_whatever_words_they_have(words):
    """All threads of both CTAs add to one word."""
    assert found(RED.format(words=words)) == (Verdict.VERIFIED, [])


@pytest.mark.parametrize("words", ["", ".weak"])
@pytest.mark.parametrize("access", [STORE, LOAD])
def test_loads_and_stores_without_words_are_weak(access, words):
    verdict, rules = found(access.format(words=words), RED.format(words=""))
    assert verdict is Verdict.REFUTED and rules[0] == "TTN201"


def test_strong_stores_to_one_word_do_not_race_and_what_stays_is_open():
    verdict, rules = found(STORE.format(words=".relaxed.sys"))
    assert verdict is not Verdict.REFUTED and rules == []
