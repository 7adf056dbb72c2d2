"""What emitted kernels compute, on the CPU: the numbers of the tile program, in any order."""

from __future__ import annotations

import pytest

from tests.codegen.emit.cuda_kernels import emitted, overlapped, parts
from tests.codegen.pipeline.written import hopper as construct
from tests.device.compared import SCHEDULES, compare, needs_toolchain, shown
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root

POLICIES = ("shuffled", "starved", "ahead")


def agrees(tile, made, parameters):
    """Every output within the tolerance of what the tile program says."""
    for seed, policy in enumerate(POLICIES):
        found = compare(tile, made.files, made.manifest, parameters, seed=seed, policy=policy)
        assert found.same, found.describe()


def check(name, parameters, depth=2, specialised=True):
    tile, _, _ = parts(name, depth, specialised)
    agrees(tile, emitted(name, depth, specialised), parameters)


def test_gemm_with_ragged_edges():
    check("gemm_bias_gelu", {"M": 130, "N": 136, "K": 200})


def test_gemm_by_a_pair_of_ctas_with_an_odd_number_of_tiles():
    check("gemm_cluster2", {"M": 100, "N": 264, "K": 136})


def test_groups_that_load_for_themselves():
    check("gemm", {"M": 130, "N": 72, "K": 136}, specialised=False)


@pytest.mark.parametrize("keys", (40, 300))
def test_attention_with_two_iterations_in_one_turn(keys):
    late = ("p", "p_sum", "total_next", "p16", "o_next")
    tile, kernel, program = overlapped("attention_forward_64", *late)
    parameters = {"heads": 2, "queries": 70, "keys": keys}
    agrees(tile, emit(tile, kernel, program), parameters)


def test_causal_attention():
    check("attention_forward_causal_64", {p.name: 200 if p.name != "heads" else 1
          for p in parts("attention_forward_causal_64")[0].parameters})  # fmt: skip


def test_a_straight_copy():
    sizes = {p.name: 136 for p in parts("copy")[0].parameters}
    check("copy", sizes)


def test_rows_through_registers():
    sizes = {p.name: 136 for p in parts("softmax_rows")[0].parameters}
    check("softmax_rows", sizes)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    ("gemm", "gemm_f16", "gemm_fp8", "gemm_low_k", "gemm_persistent", "gemm_small_tiles",
     "gemm_ping_pong",
     "gemm_bias_relu", "gemm_bias_silu", "attention_forward", "attention_forward_256",
     "attention_forward_causal", "layer_norm", "rms_norm", "row_sum", "scale_bias_silu",
     "transform"),
)  # fmt: skip
def test_the_library_computes_what_it_says(name):
    sizes = {p.name: 1 if p.name == "heads" else 208 for p in parts(name)[0].parameters}
    check(name, sizes)


VARIANTS = {
    "three groups": ("rows: 128", "rows: 192", "groups: 2", "groups: 3"),
    "two times 64 rows a group": ("rows: 128", "rows: 256"),
    "swizzle of 64 bytes": ("k_tile: 64", "k_tile: 32", "columns: 128", "columns: 96"),
    "both operands transposed": (
        "A: {shape: [M, K]", "A: {shape: [K, M]", "B: {shape: [N, K]", "B: {shape: [K, N]",
        "A[m * rows, k * k_tile]", "A[k * k_tile, m * rows]", "tile: [rows, k_tile]",
        "tile: [k_tile, rows]", "B[n * columns, k * k_tile]", "B[k * k_tile, n * columns]",
        "tile: [columns, k_tile]", "tile: [k_tile, columns]", "[a, b.T]", "[a.T, b]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_shapes_of_a_gemm(variant):
    path = root("protocols") / "tiles" / "gemm.yaml"
    text = path.read_text(encoding="utf-8")
    changes = VARIANTS[variant]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    tile = parse_tile(text)
    kernel, program = decoded(construct(tile, Shape("test", 2, overlapped=False), {}, 1))
    agrees(tile, emit(tile, kernel, program), {"M": 200, "N": 104, "K": 136})


BATCHED = """
titan: 1
tile: batched
target: sm_90a
sizes: {batch: any, M: any, N: any, K: any, rows: 128, columns: 64, k_tile: 64}
tensors:
  A: {shape: [M, K], dtype: f16}
  B: {shape: [batch, K, N], dtype: f16}
  bias: {shape: [batch, N], dtype: f32}
  C: {shape: [batch, M, N], dtype: f16, output: true}
  S: {shape: [batch, M], dtype: f32, output: true}
work: {m: (M + rows - 1) // rows, b: batch}
groups: 2
loop: {k: (K + k_tile - 1) // k_tile}
carried:
  acc: {shape: [rows, columns], initial: 0, next: acc_next}
body:
  - a: {load: "A[m * rows, k * k_tile]", tile: [rows, k_tile]}
  - x: {load: "B[b, k * k_tile, 0]", tile: [k_tile, columns]}
  - acc_next: {mma: [a, x], add: acc}
after:
  - bias_tile: {vector: "bias[b, 0]", tile: [columns]}
  - biased: {add: [acc, bias_tile]}
  - total: {row_sum: biased}
  - s: {store: total, to: "S[b, m * rows]"}
  - narrow: {convert: biased, to: f16}
  - c: {store: narrow, to: "C[b, m * rows, 0]"}
"""


@pytest.mark.parametrize("cluster", (1, 2))
def test_direct_accesses_stay_inside_their_tensor(cluster):
    """Ragged rows and columns; in a pair of CTAs one of them has a batch index beyond the last."""
    tile = parse_tile(f"{BATCHED.strip()}\ncluster: {cluster}\n")
    kernel, program = decoded(construct(tile, Shape("test", 2, overlapped=False), {}, 1))
    made = emit(tile, kernel, program)
    agrees(tile, made, {"batch": 3, "M": 70, "N": 40, "K": 72})


def test_a_store_that_may_begin_before_its_tensor_is_refused():
    tile = parse_tile(BATCHED.strip().replace('"C[b, m * rows, 0]"', '"C[b, m * rows - 8, 0]"'))
    kernel, program = decoded(construct(tile, Shape("test", 2, overlapped=False), {}, 1))
    with pytest.raises(EmissionRefused, match="before its tensor"):
        emit(tile, kernel, program)


SLICE_FAULTS = {
    "a wait one group short": ("bulk_wait_read<1>", "bulk_wait_read<2>"),
    "no wait": ("titan::bulk_wait_read<1>();", ""),
    "the next slice's columns": ("w_n * 128 + 32,", "w_n * 128 + 64,"),
    "the other buffer": ("s_c + 1 * 8192", "s_c + 0 * 8192"),
    "copies before the fence": ("titan::fence_proxy_async();", ""),
}


@pytest.mark.parametrize("fault", ["", *SLICE_FAULTS])
def test_stores_in_slices_on_the_emulated_device(fault):
    """Right under every schedule and decided in all interleavings; each fault is seen."""
    needs_toolchain("sm_90a")
    tile = load_tile(root("protocols") / "tiles" / "gemm_low_k.yaml", "sm_90a")
    shape = Shape("test", 2, overlapped=False, persistent=True, sliced=True)
    made = emit(tile, *decoded(construct(tile, shape, {}, 1)))
    files, sizes = dict(made.files), {"M": 140, "N": 264, "K": 72}
    if fault:
        wrong = files["kernel.cu"].replace(*SLICE_FAULTS[fault])
        assert wrong != files["kernel.cu"]
        files["kernel.cu"] = wrong
    found = ""
    for seed, policy in enumerate((*SCHEDULES, "checked")):
        found = found or shown(tile, files, made.manifest, sizes, seed=seed, policy=policy)
    assert bool(found) == bool(fault), found
