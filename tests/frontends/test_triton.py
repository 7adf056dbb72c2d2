"""What Triton compiles here and now: PTX and TTGIR of one kernel get the same verdict.

Two ways that share no reading of code: the PTX is run by the machine of warps on one launch, the
TTGIR becomes a program with loops for any number of tiles.
"""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.verify import verify_ttgir
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding, VerifyOptions

pytest.importorskip("triton", reason="Triton is not installed (extra `dev`)")

from tests.frontends import triton_compiling as compiling


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))


def of_ptx(made: compiling.Compiled) -> Finding:
    options = CodeOptions(ctas=(0,))
    (finding,) = verify_code(made.ptx, made.launch, options, [], 0.0)
    return finding


def of_ttgir(made: compiling.Compiled) -> Finding:
    (finding,) = verify_ttgir(made.ttgir, VerifyOptions(save_traces=None))
    return finding


def both(made: compiling.Compiled) -> tuple[Verdict, Verdict]:
    return of_ptx(made).verdict, of_ttgir(made).verdict


@pytest.mark.parametrize("fault", [0, 1, 4])
def test_a_ring_of_gluon_and_its_faults(fault):
    made = compiling.ring_gemm(fault)
    expected = Verdict.REFUTED if fault else Verdict.VERIFIED
    assert both(made) == (expected, expected)


@pytest.mark.heavy
@pytest.mark.parametrize("fault", [2, 3, 5, 6])
def test_more_faults_of_the_ring(fault):
    assert both(compiling.ring_gemm(fault)) == (Verdict.REFUTED, Verdict.REFUTED)


def test_the_verdict_on_ttgir_is_for_any_number_of_tiles():
    finding = of_ttgir(compiling.ring_gemm())
    assert finding.coverage.parameters == (("k_per_64", None),)


@pytest.mark.parametrize(("sm", "specialised"), [(90, True)])
def test_a_gemm_that_triton_pipelines(sm, specialised):
    made = compiling.pipelined_gemm(sm, specialised)
    assert both(made) == (Verdict.VERIFIED, Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.parametrize(("sm", "specialised"), [(90, False), (100, False), (100, True)])
def test_more_gemms_that_triton_pipelines(sm, specialised):
    made = compiling.pipelined_gemm(sm, specialised)
    assert both(made) == (Verdict.VERIFIED, Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.parametrize("sm", [90, 100])
@pytest.mark.parametrize("specialised", [False, True])
def test_attention(sm, specialised):
    made = compiling.attention(sm, specialised)
    assert both(made) == (Verdict.VERIFIED, Verdict.VERIFIED)
