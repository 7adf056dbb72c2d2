"""What Triton compiles here and now: PTX and TTGIR of one kernel get the same verdict.

Two ways that share no reading of code: the PTX is run by the machine of warps on one launch, the
TTGIR becomes a program with loops for any number of tiles.
"""

from __future__ import annotations

import pytest

from tests.frontends.ttgir_samples import FOLDER
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.verify import verify_assembly
from titan.frontends.ptx.launch import read_launch_text
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


def of_assembly(text: Source, launch_text: str) -> Verdict:
    launch, errors = read_launch_text(launch_text, "launch.yaml")
    assert launch is not None, errors
    (finding,) = verify_assembly(text, launch, CodeOptions(ctas=(0,)), [], 0.0)
    return finding.verdict


GEMM_LAUNCH = """{grid: 1, dynamic_shared: 163840,
    parameters: [pointer, pointer, pointer, 256, 256, 320, pointer, pointer]}"""
SUM_LAUNCH = (
    "{grid: 1, dynamic_shared: 49152, parameters: [pointer, pointer, 512, pointer, pointer]}"
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("architecture", "warps", "stages"),
    [("gfx942", 8, 2), ("gfx942", 4, 3), ("gfx950", 4, 3), ("gfx950", 8, 2)],
)
def test_a_gemm_for_amd(architecture, warps, stages):
    ttgir, assembly = compiling.amd_gemm(architecture, warps, stages)
    (finding,) = verify_ttgir(ttgir, VerifyOptions(save_traces=None, require="any"))
    assert finding.verdict is of_assembly(assembly, GEMM_LAUNCH) is Verdict.VERIFIED


@pytest.mark.heavy
@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("stages", "expected"), [(3, Verdict.VERIFIED), (2, Verdict.REFUTED)])
def test_stages_of_a_warp_pipeline(architecture, stages, expected):
    ttgir, assembly = compiling.staged_sum(architecture, stages)
    (finding,) = verify_ttgir(ttgir, VerifyOptions(save_traces=None))
    assert finding.verdict is of_assembly(assembly, SUM_LAUNCH) is expected


@pytest.mark.heavy
def test_the_reader_finds_what_the_one_of_triton_finds():
    from benchmarks.ttgir_reader import differences, triton_context

    context = triton_context()
    cut_by_hand = ("persistent_flattened_sm100", "scores_before_pipelines")
    for path in sorted(FOLDER.glob("*.ttgir")):
        if path.stem not in cut_by_hand:
            target, operations, told = differences(path, context)
            assert target and operations and not told


def _tile(rows: int, columns: int, box: tuple[int, int]) -> str:
    """A map of a tensor of fp16, its extents and its strides, as parameters of a launch."""
    dimensions, sizes = f"[{columns}, {rows}]", f"[{box[1]}, {box[0]}]"
    found = f"{{map: {{dimensions: {dimensions}, box: {sizes}, data_type: f16, swizzle: 128B}}}}"
    return f"{found}, {rows}, {columns}, {columns}, 1"


PAIR = f"""{{grid: 2, cluster: 2, block: 256, dynamic_shared: 200000, parameters: [
    {_tile(256, 384, (128, 64))}, {_tile(384, 128, (64, 64))}, {_tile(256, 128, (128, 64))},
    384, unknown, unknown]}}"""
ROWS = f"""{{grid: 2, cluster: 2, block: 128, dynamic_shared: 60000, parameters: [
    {_tile(64, 384, (64, 64))}, {_tile(64, 64, (64, 64))}, 384, unknown, unknown]}}"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("compiled", "launch_text"),
    [(compiling.two_cta_gemm, PAIR), (compiling.multicast_rows, ROWS)],
)
def test_clusters(compiled, launch_text):
    ttgir, ptx = compiled()
    (finding,) = verify_ttgir(ttgir, VerifyOptions(save_traces=None, require="any"))
    launch, errors = read_launch_text(launch_text, "launch.yaml")
    assert launch is not None, errors
    (of_code,) = verify_code(ptx, launch, CodeOptions(ctas=(0,)), [], 0.0)
    assert finding.verdict is of_code.verdict is Verdict.VERIFIED


@pytest.mark.heavy
@pytest.mark.parametrize("sm", [90, 100])
@pytest.mark.parametrize("specialised", [False, True])
def test_attention(sm, specialised):
    made = compiling.attention(sm, specialised)
    assert both(made) == (Verdict.VERIFIED, Verdict.VERIFIED)
