"""Emitted kernels compute what their tile programs mean: their PTX, run with numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import SOURCE, Emission, emission
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, build
from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.outputs import sample_numbers
from titan.codegen.tile.semantics import run
from titan.device.emulated import arguments_of, shape_of
from titan.device.plan import plan
from titan.foundation.resources import root
from titan.isa.numbers.device import EmulatedDevice, LaunchError
from titan.isa.numbers.formats import FORMATS, decode, encode
from titan.validate.compare.compile import nvcc, ptx_of

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")

# Relative to the largest number of the output: sums in another order, one rounding.
TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3, "e4m3": 0.1}


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as the array of their bits."""
    if dtype == "i32":
        return values.astype(np.int32)
    if dtype in ("f32", "f16"):
        return values.astype(np.float32 if dtype == "f32" else np.float16)
    if dtype == "e2m1x2":
        return values.astype(np.uint8)
    if dtype == "ue8m0":
        return (np.log2(values) + 127).astype(np.uint8)
    form = FORMATS[dtype]
    met, places = np.unique(values.astype(np.float64).view(np.int64), return_inverse=True)
    bits = [encode(float(value), form) for value in met.view(np.float64)]
    found = np.array(bits, dtype=np.uint16 if form.bits == 16 else np.uint8)
    return found[places].reshape(values.shape)


def numbers(values: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that an array of bits stands for."""
    if dtype in ("f32", "f16"):
        return values.astype(np.float64)
    met, places = np.unique(values, return_inverse=True)
    found = np.array([decode(int(bits), FORMATS[dtype]) for bits in met])
    return found[places].reshape(values.shape)


def furthest(
    made: Emission, text: str, sizes: dict[str, int], seed: int, schedule: str = "turn",
    engines: str = "soon", cancelled: int = 0,
) -> dict[str, float]:  # fmt: skip
    """How far every output is from what is meant, relative to its largest number, by type."""
    planned = plan(made.manifest, sizes, 4)
    random = np.random.default_rng(3)
    inputs, arrays = {}, {}
    device = EmulatedDevice(seed, schedule=schedule, engines=engines, cancelled=cancelled)
    for tensor in planned.tensors:
        values = np.full(tensor.shape, 0.0 if tensor.adds else np.nan)
        if not tensor.output:
            numbers_of = sample_numbers(random, tensor.dtype, tensor.shape)
            values = inputs[tensor.name] = rounded(numbers_of, tensor.dtype)
        arrays[tensor.name] = device.array(stored(values, tensor.dtype))
    device.launch(text, shape_of(planned), arguments_of(planned, arrays), planned.entry)
    meant = run(made.tile, inputs, sizes)
    found = {}
    for tensor in planned.tensors:
        if tensor.output:
            right = meant[tensor.name]
            written = ~np.isnan(right)  # the rest is as it was before
            got = numbers(arrays[tensor.name].values, tensor.dtype)
            assert np.array_equal(~np.isnan(got), written)
            scale = max(float(np.abs(right[written]).max()), 1e-3)
            found[tensor.dtype] = float(np.abs(got - right)[written].max()) / scale
    return found


CASES = [
    ("gemm", {"M": 130, "N": 72, "K": 136}),
    ("gemm_cluster2", {"M": 256, "N": 128, "K": 64}),
    ("gemm_split_k", {"M": 130, "N": 72, "K": 328, "parts": 4}),
    ("gemm_split_k_nn", {"M": 130, "N": 72, "K": 136, "parts": 2}),
    ("gemm_split_k_tn", {"M": 136, "N": 72, "K": 200, "parts": 3}),
    ("gemm_split_k_tt", {"M": 72, "N": 132, "K": 136, "parts": 2}),
    ("sum_parts", {"M": 70, "N": 40, "parts": 6}),
    ("gemm_fp8", {"M": 100, "N": 128, "K": 256}),
    ("gemm_grouped", {"experts": 3, "M": 700, "N": 136, "K": 200}),
    (
        "attention_decode_paged",
        {"batch": 5, "kv_heads": 2, "ratio": 4, "pages": 4, "pages_most": 3},
    ),
    (
        "attention_decode_paged_parts",
        {"batch": 3, "kv_heads": 2, "ratio": 4, "pages": 4, "pages_most": 3, "parts": 2},
    ),
    (
        "attention_combine_parts",
        {"parts": 5, "batch": 2, "kv_heads": 2, "ratio": 4},
    ),
    (
        "attention_forward_packed",
        {"batch": 3, "longest": 130, "kv_heads": 1, "ratio": 2, "queries": 150, "keys": 170},
    ),
    (
        "attention_forward_causal_packed",
        {"batch": 5, "longest": 90, "kv_heads": 1, "ratio": 2, "tokens": 200},
    ),
    ("rms_norm_rotary", {"batch": 2, "halves": 4, "tokens": 150, "positions": 200}),
    ("gemm_fp8_scaled_grouped", {"experts": 3, "M": 500, "N": 136, "K": 272}),
    ("gemm_tn", {"M": 136, "N": 72, "K": 150}),
    ("gemm_tt", {"M": 136, "N": 72, "K": 152}),
    ("gemm_batched_nn", {"batch": 2, "M": 130, "N": 72, "K": 80}),
    ("gemm_batched_tn", {"batch": 2, "M": 136, "N": 72, "K": 70}),
    ("gemm_batched_tt", {"batch": 3, "M": 72, "N": 56, "K": 80}),
    ("gemm_fp8_scaled", {"M": 100, "N": 136, "K": 400}),
    ("attention_forward_64", {"heads": 1, "queries": 100, "keys": 136}),
    ("softmax_rows", {"M": 20}),
    ("row_sum", {"M": 40, "N": 72}),
    ("gemm_f16", {"M": 64, "N": 96, "K": 520}),
    ("gemm_bias_gelu", {"M": 100, "N": 128, "K": 64}),
    ("gemm_bias_gelu_residual", {"M": 300, "N": 200, "K": 136}),
    ("gemm_persistent", {"M": 300, "N": 136, "K": 72}),
    ("gemm_large", {"M": 300, "N": 264, "K": 136}),
    ("gemm_ping_pong", {"M": 300, "N": 200, "K": 136}),
    ("layer_norm", {"M": 20}),
    ("gemm_grouped_sm_100a", {"experts": 3, "M": 400, "N": 136, "K": 72}),
    ("gemm_sm_100a", {"M": 130, "N": 72, "K": 136}),
    ("gemm_fp8_sm_100a", {"M": 100, "N": 128, "K": 256}),
    ("gemm_mxf8_sm_100a", {"M": 136, "N": 72, "K": 656}),
    ("gemm_nvf4_sm_100a", {"M": 136, "N": 72, "pairs": 656}),
    ("gemm_mxf4_sm_100a", {"M": 72, "N": 136, "pairs": 272}),
    ("gemm_mxf8_wide_sm_100a", {"M": 136, "N": 400, "K": 272}),
    ("gemm_nvf4_wide_sm_100a", {"M": 136, "N": 264, "pairs": 656}),
    ("gemm_mxf4_wide_sm_100a", {"M": 72, "N": 520, "pairs": 272}),
    ("gemm_mxf8_pair_sm_100a", {"M": 300, "N": 400, "K": 784}),
    ("gemm_nvf4_pair_sm_100a", {"M": 200, "N": 264, "pairs": 656}),
    ("gemm_mxf4_pair_sm_100a", {"M": 300, "N": 264, "pairs": 272}),
    ("gemm_persistent_sm_100a", {"M": 300, "N": 136, "K": 72}),
    ("gemm_large_sm_100a", {"M": 300, "N": 264, "K": 328}),
    ("gemm_large_nn_sm_100a", {"M": 300, "N": 264, "K": 200}),
    ("gemm_bias_gelu_sm_100a", {"M": 100, "N": 128, "K": 64}),
    ("gemm_bias_gelu_residual_sm_100a", {"M": 300, "N": 200, "K": 136}),
    ("attention_forward_64_sm_100a", {"heads": 1, "queries": 200, "keys": 136}),
    ("attention_forward_sm_100a", {"heads": 1, "queries": 130, "keys": 72}),
    ("attention_forward_pair_sm_100a", {"heads": 1, "queries": 600, "keys": 200}),
    ("attention_forward_pair_64_sm_100a", {"heads": 1, "queries": 300, "keys": 200}),
    ("attention_forward_causal_pair_sm_100a", {"heads": 2, "queries": 600, "keys": 560}),
    ("attention_forward_causal_pair_64_sm_100a", {"heads": 2, "queries": 600, "keys": 700}),
    ("attention_forward_persistent_sm_100a", {"heads": 6, "queries": 140, "keys": 200}),
    (
        "attention_forward_group_rows_sm_100a",
        {"batch": 1, "kv_heads": 2, "ratio": 5, "queries": 3, "keys": 150},
    ),
    (
        "attention_forward_packed_sm_100a",
        {"batch": 8, "longest": 90, "kv_heads": 1, "ratio": 1, "queries": 200, "keys": 170},
    ),
    (
        "attention_forward_causal_packed_sm_100a",
        {"batch": 5, "longest": 150, "kv_heads": 1, "ratio": 2, "tokens": 200},
    ),
    ("attention_backward_dq_sm_100a", {"heads": 1, "queries": 130, "keys": 72}),
    ("attention_backward_dkv_sm_100a", {"heads": 1, "queries": 72, "keys": 130}),
    ("attention_backward", {"heads": 2, "queries": 100, "keys": 200}),
    ("attention_backward_causal", {"heads": 1, "queries": 300, "keys": 270}),
    ("attention_backward_query_sums", {"heads": 2, "queries": 100}),
]
ADVERSARIAL = (("turn", "soon"), ("starve", "late"), ("ahead", "early"), ("starve", "random"))
QUICK = {
    "gemm_ping_pong",
    "gemm_cluster2",
    "row_sum",
    "gemm_fp8_scaled",
    "gemm_grouped",
    "attention_backward_dq_sm_100a",
    "attention_backward",
    "attention_backward_query_sums",
    "gemm_mxf8_sm_100a",
    "gemm_nvf4_sm_100a",
    "gemm_mxf4_wide_sm_100a",
    "gemm_mxf4_pair_sm_100a",
}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [pytest.param(*case, marks=() if case[0] in QUICK else (pytest.mark.heavy,)) for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_emitted_kernels_compute_what_is_meant(name, sizes):
    target = "sm_100a" if name.endswith("sm_100a") else "sm_90a"
    made = emission(name, target)
    text = ptx_of(made.files, target)
    # Sums in a tensor are those of factors that were rounded to 16 bits, on both sides of a tie.
    tolerance = TOLERANCE | ({"f32": 1e-3} if made.tile.sums else {})
    for seed, (schedule, engines) in enumerate(ADVERSARIAL):
        for dtype, far in furthest(made, text, sizes, seed, schedule, engines).items():
            assert far <= tolerance[dtype], (schedule, engines)


@pytest.mark.parametrize(
    "cancelled",
    [pytest.param(0, marks=pytest.mark.heavy), 2, pytest.param(5, marks=pytest.mark.heavy)],
)
def test_work_items_that_the_hardware_grants_are_done(cancelled):
    """A CTA does its own tile and those of the CTAs that it cancels, which never run."""
    made = emission("gemm_launch_control_sm_100a", "sm_100a")
    text = ptx_of(made.files, "sm_100a")
    sizes = {"M": 300, "N": 136, "K": 72}  # six tiles
    for seed, (schedule, engines) in enumerate(ADVERSARIAL):
        found = furthest(made, text, sizes, seed, schedule, engines, cancelled)
        assert all(far <= TOLERANCE[dtype] for dtype, far in found.items()), (schedule, engines)


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("cancelled", (0, 1, 3))
def test_attention_of_items_that_the_hardware_grants(cancelled):
    """Four items of two lengths, the longest first."""
    made = emission("attention_forward_causal_persistent_sm_100a", "sm_100a")
    text = ptx_of(made.files, "sm_100a")
    sizes = {"heads": 2, "queries": 300, "keys": 300}
    for seed, (schedule, engines) in enumerate(ADVERSARIAL):
        found = furthest(made, text, sizes, seed, schedule, engines, cancelled)
        assert all(far <= TOLERANCE[dtype] for dtype, far in found.items()), (schedule, engines)


def test_a_work_item_that_is_not_taken_up_is_seen():
    made = emission("gemm_launch_control_sm_100a", "sm_100a")
    grants = "titan_next)) ++x_work;"
    assert made.files[SOURCE].count(grants) == 3
    source = made.files[SOURCE].replace(grants, "titan_next)) {}")
    wrong = ptx_of({**made.files, SOURCE: source}, "sm_100a")
    with pytest.raises((AssertionError, LaunchError)):
        furthest(made, wrong, {"M": 300, "N": 136, "K": 72}, 0, cancelled=2)


def test_a_wrong_operand_gives_wrong_numbers():
    made = emission("gemm")
    source = made.files[SOURCE]
    step = "descriptor_ahead(right, k * 32 / 128 * 16384 + k * 32 % 128)"
    assert step in source
    wrong = ptx_of(
        {**made.files, SOURCE: source.replace(step, "descriptor_ahead(right, 0)")}, "sm_90a"
    )
    (far,) = furthest(made, wrong, {"M": 64, "N": 64, "K": 64}, 0).values()
    assert far > 0.1


@pytest.mark.parametrize(
    ("right", "wrong"),
    sampled(
        [
            ("x_cta * 128", "(1 - x_cta) * 128"),
            ("x_cta * 128", "0"),
            ("k * 2048", "k * 1024"),
            ("65536, 8176)", "65536, 4080)"),
        ],
        every=2,
    ),
)
def test_the_other_half_of_columns_in_a_pair_gives_wrong_numbers(right, wrong):
    """Each CTA loads half of the columns of a right operand that is not K-major, in two panels."""
    made = emission("gemm_large_nn_sm_100a", "sm_100a")
    source = made.files[SOURCE]
    assert right in source
    text = ptx_of({**made.files, SOURCE: source.replace(right, wrong)}, "sm_100a")
    (far,) = furthest(made, text, {"M": 130, "N": 264, "K": 64}, 0).values()
    assert far > 0.1


@pytest.mark.parametrize(
    ("right", "wrong"),
    sampled([("x_cta * 64, x_t", "(1 - x_cta) * 64, x_t"), ("128 + x_cta * 64", "128")], every=2),
)
def test_the_other_half_of_keys_or_values_in_a_pair_gives_wrong_numbers(right, wrong):
    """Values are halved by columns, keys by rows."""
    made = emission("attention_forward_pair_sm_100a", "sm_100a")
    source = made.files[SOURCE]
    assert source.count(right) == 1
    text = ptx_of({**made.files, SOURCE: source.replace(right, wrong)}, "sm_100a")
    (far,) = furthest(made, text, {"heads": 1, "queries": 300, "keys": 128}, 0).values()
    assert far > 0.1


@pytest.mark.parametrize(
    ("right", "wrong", "keys"),
    sampled(
        [
            ("0 + x_cta * 32", "0", 128),
            ("8192, 512))", "8192, 256))", 128),
            ("256 * w_i + titan_row + 1)", "256 * w_i + titan_row + 129)", 300),
            ("(w_i / 2 + 1) * 2 * 256", "(w_i / 2) * 2 * 256", 600),
        ],
        every=2,
    ),
)
def test_other_columns_masks_or_trips_of_a_causal_pair_give_wrong_numbers(right, wrong, keys):
    """Half of 64 columns is swizzled by 64 bytes; keys up to those that the later queries see."""
    made = emission("attention_forward_causal_pair_64_sm_100a", "sm_100a")
    source = made.files[SOURCE]
    assert right in source
    text = ptx_of({**made.files, SOURCE: source.replace(right, wrong)}, "sm_100a")
    (far,) = furthest(made, text, {"heads": 1, "queries": 300, "keys": keys}, 0).values()
    assert far > 0.1


@pytest.mark.parametrize(
    ("right", "wrong"),
    sampled(
        [
            ("x_cta * 128", "(1 - x_cta) * 128"),
            ("x_t * 128, w_band * 8 + w_m", "x_t * 128, w_band * 8 + w_m / 2 * 2"),
            ("2 * w_n + 1", "2 * w_n + 1 - x_cta"),
            ("of_right + atom * 2", "of_right"),
        ],
        every=2,
    ),
)
def test_other_scales_in_a_pair_give_wrong_numbers(right, wrong):
    """The scales of own rows, and of all columns, of which a CTA has half."""
    made = emission("gemm_nvf4_pair_sm_100a", "sm_100a")
    source = made.files[SOURCE]
    assert right in source
    text = ptx_of({**made.files, SOURCE: source.replace(right, wrong)}, "sm_100a")
    (far,) = furthest(made, text, {"M": 256, "N": 256, "pairs": 128}, 0).values()
    assert far > 0.1


def test_a_program_of_single_ctas_is_right_in_pairs():
    """Pairs are one of the shapes that attention may have."""
    text = (root("protocols") / "tiles" / "attention_forward_64_sm_100a.yaml").read_text("utf-8")
    tile, limits = parse_tile(text), BuildLimits(schedule_seconds=0.5)
    built = build(tile, text, limits, BuildHooks(only=lambda shape: shape.pair))
    emitted = emit(tile, built.kernel, built.program)
    assert emitted.manifest["launch"]["cluster"] == 2
    made = Emission(emitted.files, dict(emitted.manifest), built.program, tile, [], "sm_100a")
    sizes = {"heads": 2, "queries": 300, "keys": 200}
    (far,) = furthest(made, ptx_of(made.files, "sm_100a"), sizes, 3, "starve", "random").values()
    assert far <= TOLERANCE["bf16"]


def test_a_scaled_product_of_single_ctas_is_right_in_pairs():
    """Without `cluster: 2` pairs are a shape too, and come first: the model has them ahead."""
    text = (root("protocols") / "tiles" / "gemm_mxf8_pair_sm_100a.yaml").read_text("utf-8")
    text = text.replace("cluster: 2\n", "")
    tile, limits = parse_tile(text), BuildLimits(schedule_seconds=0.5)
    built = build(tile, text, limits)
    assert tile.cluster == 1 and built.shape.pair
    assert not all(one.shape.pair for one in built.ranking)
    emitted = emit(tile, built.kernel, built.program)
    assert emitted.manifest["launch"]["cluster"] == 2
    made = Emission(emitted.files, dict(emitted.manifest), built.program, tile, [], "sm_100a")
    sizes = {"M": 300, "N": 264, "K": 400}
    (far,) = furthest(made, ptx_of(made.files, "sm_100a"), sizes, 3, "starve", "random").values()
    assert far <= TOLERANCE["bf16"]


def test_trips_that_differ_within_a_pair_are_seen():
    """The CTA that issues ends before its peer, which waits for good."""
    made = emission("attention_forward_causal_pair_64_sm_100a", "sm_100a")
    source = made.files[SOURCE]
    right, wrong = "(w_i / 2 + 1) * 2 * 256", "(w_i + 1) * 256"
    text = ptx_of({**made.files, SOURCE: source.replace(right, wrong)}, "sm_100a")
    with pytest.raises(LaunchError):
        furthest(made, text, {"heads": 1, "queries": 512, "keys": 512}, 0)


def test_operands_that_are_not_waited_for_are_seen():
    made = emission("gemm")
    source = made.files[SOURCE]
    wait = next(line for line in source.splitlines() if "barrier_wait(b_ring_a_full" in line)
    wrong = ptx_of({**made.files, SOURCE: source.replace(wait, "")}, "sm_90a")
    with pytest.raises(LaunchError):  # what is read has not been written: it is unknown
        furthest(made, wrong, {"M": 64, "N": 64, "K": 64}, 0)
