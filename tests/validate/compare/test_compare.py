"""The comparison of compiled kernels with their sync programs: clean ones pass, faults are seen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission
from titan.foundation.resources import root
from titan.language.kernel.decode import decode_text
from titan.validate.compare.compare import ComparedLaunch, TranslationComparison, compare
from titan.validate.compare.compile import compile_cuda, compile_package, nvcc
from titan.validate.compare.threads import UnsupportedPtx, parse_kernel
from titan.validate.compare.toolchain import CannotCompile, ToolchainMissing
from titan.validate.compare.translation import translation
from titan.verify.lowering import sync_program

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
MANIFEST = {
    "arguments": [
        {"kind": "tensor_map", "name": "a", "operation": "a", "box": [64, 128], "dtype": "bf16"},
        {"kind": "tensor_map", "name": "b", "operation": "b", "box": [64, 128], "dtype": "bf16"},
        {"kind": "tensor_map", "name": "c", "operation": "c", "box": [64, 64], "dtype": "bf16"},
        {"kind": "size", "name": "M"},
        {"kind": "size", "name": "N"},
        {"kind": "size", "name": "K"},
    ],
    "launch": {"block": 384, "dynamic_shared_bytes": 200_000},
    "roles": [
        {"name": "producer", "first_thread": 0, "registers": 40},
        {"name": "consumer", "first_thread": 128, "registers": 232},
    ],
}
PEERS = "titan::barrier_arrive_remote_relaxed(b_ring_a_empty + r_t_4_before.stage, "
SPREAD = f"if (titan_lane < 2) {PEERS}"
LAUNCHES = [
    ComparedLaunch({"M": 128 * items, "N": 128, "K": 64 * tiles}, {"work": items, "tiles": tiles})
    for items in (0, 1, 2)
    for tiles in (1, 4, 9)
]


def comparison(text: str, tmp_path: Path) -> TranslationComparison:
    """Of the kernel written by hand, for the pipeline beside it."""
    (tmp_path / "kernel.cu").write_text(text)
    compiled = compile_cuda(tmp_path / "kernel.cu", "sm_90a", (Path(root("backends") / "sm_90a"),))
    family, errors = decode_text((HERE / "gemm.yaml").read_text())
    assert family is not None, errors
    program = sync_program(family.kernels[0]).program
    return compare(parse_kernel(compiled.text), program, MANIFEST, LAUNCHES)


def test_a_kernel_written_by_hand_does_what_its_pipeline_says(tmp_path):
    found = comparison((HERE / "gemm.cu").read_text(), tmp_path)
    assert found.faults == [] and found.notes == []
    assert (found.launches, found.threads) == (9, 162) and found.events > 5000


@pytest.mark.parametrize(
    ("old", "new", "told"),
    sampled(
        [
            ("fence_proxy_async();", "", "Fence is expected"),
            ("(n / 4 + 1) % 2", "(n / 4) % 2", "Wait of ring_a_empty"),
            ("barrier_init(empty + i, 8)", "barrier_init(empty + i, 2)", "is initialised with 2"),
            ("wgmma_wait<1>", "wgmma_wait<2>", "QueueWait"),
            ("if (t >= 1)", "if (t >= 0)", "drain acc_next"),
            ("full + stage, 32768", "full + stage, 16384", "arrive_expect after the end"),
            ("&b, full", "&a, full", "bulk copy into b"),
            ("left + k", "right + k", "is not in a["),
            ("memory + 131072 + self * 16384", "memory + 131072 + self * 8192", "overlap"),
            ("if (speaks) barrier", "barrier", "is executed by lanes"),
            ("fence_barrier_init();", "", "no fence follows"),
            ("registers_increase<232>();", "", "168 registers, not 232"),
            ("          warp_sync();\n", "", "before its warp has synchronised"),
            ("if (warp == 0 &&", "if (warp <= 1 &&", "in a warp without a role"),
        ],
        every=4,
    ),
)
def test_a_slip_in_a_kernel_written_by_hand_is_told(tmp_path, old, new, told):
    text = (HERE / "gemm.cu").read_text()
    assert old in text
    found = comparison(text.replace(old, new, 1), tmp_path)
    assert any(told in fault for fault in found.faults), found.faults


@pytest.mark.parametrize("name", sampled(["gemm_cluster2", "gemm", "attention_forward"], every=3))
def test_what_is_emitted_does_what_its_program_says(name):
    made = emission(name)
    assert len(made.launches) > 3
    compiled = compile_package(made.files, "sm_90a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert [fault for fault in found.faults if "spilled" not in fault] == []
    assert found.notes == []
    assert found.events > 5000 and found.launches == len(made.launches)
    with pytest.raises(UnsupportedPtx, match="sm_103a"):
        translation(made.tile, made.program, made.manifest, replace(compiled, target="sm_103a"))


SAMPLE = 6  # the whole score: python -m benchmarks.bench_translation


@pytest.mark.parametrize("number", range(SAMPLE))
def test_planted_faults_are_seen(number):
    made = emission("gemm")
    planted = made.mutants()
    assert len(planted) > 80
    file, mutant = planted[number * (len(planted) - 1) // (SAMPLE - 1)]
    assert made.faults({**made.files, file: mutant.text}) != [], (mutant.kind, mutant.line)


def test_the_planted_faults_are_of_every_kind():
    kinds = {mutant.kind.split(" of ")[0] for _, mutant in emission("gemm").mutants()}
    wanted = {"parity", "bytes", "count", "pending groups", "guard", "fence_proxy_async dropped",
              "barrier_arrive dropped", "barrier_wait tests once"}  # fmt: skip
    assert wanted <= kinds


@pytest.mark.parametrize(
    ("old", "new"),
    sampled(
        [
            ("barrier_wait_relaxed(b_ring_a_empty", "barrier_wait(b_ring_a_empty"),
            (SPREAD, f"if (titan_lane < 1) {PEERS}"),
            ("r_t_4_before.stage, titan_lane);", "r_t_4_before.stage, 0);"),
            (f"2) {PEERS}titan_lane);", f"3) {PEERS}titan_lane % 2);"),
            (f"titan::warp_sync();\n          {SPREAD}", SPREAD),
            ("(titan::u16)3", "(titan::u16)1"),
            ("b_ring_a_empty + stage, 16", "b_ring_a_empty + stage, 8"),
            ("  titan::cluster_sync();\n}", "}"),
        ],
        every=2,
    ),
)
def test_faults_between_the_ctas_of_a_cluster_are_seen(old, new):
    made = emission("gemm_cluster2")
    assert old in made.files[SOURCE]
    assert made.faults({**made.files, SOURCE: made.files[SOURCE].replace(old, new, 1)}) != []


def test_a_branch_on_data_is_not_compared():
    made = emission("gemm")
    loop = "titan::wgmma_wait<1>();"
    assert loop in made.files[SOURCE]
    text = made.files[SOURCE].replace(loop, f"if (v_acc[0][0] > 1.0f) {loop}", 1)
    (told,) = made.faults({**made.files, SOURCE: text})[:1]
    assert re.match("UnsupportedPtx: line .*control depends on data", told)


def test_a_source_that_does_not_compile_is_told(tmp_path):
    made = emission("gemm")
    (told,) = made.faults({**made.files, HEADER: "#error no header"})
    assert "CannotCompile" in told
    (tmp_path / "kernel.cu").write_text("int broken(")
    with pytest.raises(CannotCompile, match="error"):
        compile_cuda(tmp_path / "kernel.cu", "sm_90a")


def test_a_toolchain_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(ToolchainMissing, match="nvcc"):
        compile_cuda(HERE / "gemm.cu", "sm_90a")


def test_launches_of_a_persistent_kernel_are_of_whole_clusters():
    made = emission("gemm_large")
    assert {launch.grid % 2 for launch in made.launches} == {0}
    assert {launch.numbers["work"] for launch in made.launches} >= {1, 2}
    assert {launch.block for launch in made.launches} > {0}
