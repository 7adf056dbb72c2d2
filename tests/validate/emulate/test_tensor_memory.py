"""Kernels for sm_100a on the emulated device: their numbers, and faults planted in their text.

A fault must end the run with a message, or give wrong numbers, under one of the schedules tried.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.sampling import sampled
from tests.validate.emulate.emitted import emitted
from tests.validate.emulate.test_device_header import emulated_functions, functions
from tests.validate.emulate.test_gemm import SCHEDULES
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, build
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.validate.emulate.compare import compare
from titan.validate.emulate.compile import NATIVE
from titan.validate.emulate.run import KernelFault

POLICIES = [*SCHEDULES, ("starve:issuer", "mixed"), ("starve:issuer", "eager")]
NAMES = ["gemm_persistent_sm_100a", "gemm_sm_100a", "gemm_fp8_sm_100a", "gemm_bias_gelu_sm_100a"]
SIZES = [(1, 8, 16), (130, 200, 80)]
LARGE = (300, 264, 400)


def judged(tile, made, source, size, schedules=POLICIES, processors=1):
    """What showed that the text is wrong, or None."""
    for seed, (policy, delay) in enumerate(schedules):
        try:
            found = compare(
                tile, {"kernel.cu": source}, made.manifest, dict(zip("MNK", size, strict=True)),
                seed=seed, policy=policy, delay=delay, processors=processors, processor_seconds=60,
            )  # fmt: skip
        except KernelFault as fault:
            return str(fault)
        if not found.same:
            return f"wrong numbers: {found.describe()}"
    return None


@pytest.mark.parametrize("name", sampled(NAMES, every=2))
def test_computes_what_the_tile_program_means(name):
    tile, made = emitted(name, "sm_100a")
    for size in SIZES:
        assert judged(tile, made, made.files["kernel.cu"], size) is None


@pytest.mark.heavy
def test_accumulators_change_places_in_a_persistent_kernel():
    tile, made = emitted("gemm_persistent_sm_100a", "sm_100a")
    for processors in (1, 2, 3):
        source = made.files["kernel.cu"]
        assert judged(tile, made, source, LARGE, POLICIES[::2], processors) is None


@pytest.mark.parametrize("name", sampled(["row_sum", "copy", "scale_bias_silu", "transform"]))
def test_kernels_without_multiplications(name):
    tile, made = emitted(name, "sm_100a")
    for seed, (policy, delay) in enumerate(SCHEDULES):
        for m, n in ((1, 16), (130, 1000)):
            found = compare(
                tile, made.files, made.manifest, {"M": m, "N": n},
                seed=seed, policy=policy, delay=delay,
            )  # fmt: skip
            assert found.same, (name, m, n, policy, delay, found.describe())


OTHER = """\
titan: 1
tile: other
target: sm_100a
sizes: {{M: any, N: any, K: any, rows: 128, columns: {columns}, k_tile: {k_tile}}}
tensors:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: {shape}, dtype: {dtype}}}
  C: {{shape: [M, N], dtype: f16, output: true}}
work: {{m: (M + rows - 1) // rows, n: (N + columns - 1) // columns}}
groups: 1
loop: {{k: (K + k_tile - 1) // k_tile}}
carried:
  acc: {{shape: [rows, columns], initial: 0, next: acc_next}}
body:
  - a: {{load: "A[m * rows, k * k_tile]", tile: [rows, k_tile]}}
  - b: {{load: "B[{start}]", tile: {tile}}}
  - acc_next: {{mma: [a, {operand}], add: acc}}
after:
  - narrow: {{convert: acc, to: f16}}
  - c: {{store: narrow, to: "C[m * rows, n * columns]"}}
persistent: true
"""


@cache
def other(dtype, columns, k_tile, transposed):
    """A GEMM whose B is stored by columns (K-major) or, `transposed`, by rows."""
    k_major = {"shape": "[N, K]", "start": "n * columns, k * k_tile", "tile": "[columns, k_tile]",
               "operand": "b.T"}  # fmt: skip
    by_rows = {"shape": "[K, N]", "start": "k * k_tile, n * columns", "tile": "[k_tile, columns]",
               "operand": "b"}  # fmt: skip
    form = by_rows if transposed else k_major
    text = OTHER.format(dtype=dtype, columns=columns, k_tile=k_tile, **form)
    built = build(parse_tile(text), text, BuildLimits())
    return built.tile, emit(built.tile, built.kernel, built.program)


def test_8_bit_operands_that_are_not_k_major_are_refused():
    with pytest.raises(EmissionRefused, match="K-major"):
        other("e4m3", 64, 64, True)


@pytest.mark.parametrize(
    ("dtype", "columns", "k_tile", "transposed"),
    sampled(
        [
            ("f16", 128, 32, True),
            ("bf16", 64, 64, True),
            ("f16", 256, 16, False),
            ("bf16", 32, 128, False),
            ("e5m2", 64, 64, False),
        ],
        every=5,
    ),
)
def test_other_tiles_and_operands(dtype, columns, k_tile, transposed):
    tile, made = other(dtype, columns, k_tile, transposed)
    for size in ((1, 16, 16), (140, 288, 144)):
        source = made.files["kernel.cu"]
        assert judged(tile, made, source, size, POLICIES[::2], processors=2) is None


# what is wrong: (pattern, replacement, what is told)
FAULTS = {
    "no commit to empty": (
        r"titan::tensor_commit\(b_ring_a_empty[^;]*;", "", r"hang"),
    "no commit to full": (
        r"titan::tensor_commit\(b_ring_acc_full[^;]*;", "", r"hang"),
    "an arrival instead of the commit to empty": (
        r"titan::tensor_commit\(b_ring_a_empty", "titan::barrier_arrive(b_ring_a_empty",
        r"in flight"),
    "an arrival instead of the commit to full": (
        r"titan::tensor_commit\(b_ring_acc_full", "titan::barrier_arrive(b_ring_acc_full",
        r"reads column \d+, which a tensor_multiply in flight writes"),
    "no tensor_fence_after of the consumer": (
        r"(barrier_wait\(b_ring_acc_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        r"missing tensor_fence_after.*(\n.*)?consumer"),
    "no tensor_fence_after of the issuer": (
        r"(barrier_wait\(b_ring_a_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        r"missing tensor_fence_after.*(\n.*)?issuer"),
    "no tensor_fence_before": (
        r"(tensor_load_wait\(\);)\s*titan::tensor_fence_before\(\);", r"\1",
        r"missing tensor_fence_before"),
    "fetch without waiting for the multiplications": (
        r"titan::barrier_wait\(b_ring_acc_full[^;]*;", "",
        r"which a tensor_multiply in flight writes|which nobody wrote"),
    "numbers used before the fetch is waited for": (
        r"titan::tensor_load_wait\(\);", "", r"nobody waited for|a fetch in flight|wrong numbers"),
    "released before the fetch is waited for": (
        r"titan::tensor_load_wait\(\);((?s:.)*?barrier_arrive\(b_ring_acc_empty[^;]*;)",
        r"\1 titan::tensor_load_wait();", r"a fetch in flight|without one since"),
    "the accumulator is added to from the start": (
        r"x_t > 0 \|\| k > 0\)", "1)", r"which nobody wrote"),
    "added to from the start, once both stages were used": (
        r"x_t > 0 \|\| k > 0\)", "x_w > 1 || x_t > 0 || k > 0)", r"wrong numbers"),
    "never added to": (r"x_t > 0 \|\| k > 0\)", "k > 0)", r"wrong numbers"),
    "wrong stage of the accumulator": (
        r"tensor_multiply(.*)\(x_w % 2\) \* 128", r"tensor_multiply\1((x_w + 1) % 2) * 128",
        r"which nobody wrote|in flight|wrong numbers"),
    "fetched from the wrong stage": (
        r"tensor_memory_fetch(.*)\(x_w % 2\) \* 128", r"tensor_memory_fetch\1((x_w + 1) % 2) * 128",
        r"which nobody wrote|in flight|wrong numbers"),
    "one stage of the accumulator for both": (
        r"\(x_w % 2\) \* 128", "0", r"in flight|without one since|wrong numbers"),
    "no wait for the accumulator to be free": (
        r"titan::barrier_wait\(b_ring_acc_empty[^;]*;", "",
        r"in flight|without one since|wrong numbers|no wait has seen"),
    "lanes of another warp": (
        r"titan_warp % 4 \* 32 \+ 16", "(titan_warp + 1) % 4 * 32 + 16", r"the warp reaches"),
    "rows exchanged": (r"32 \+ 16 \* m\)", "32 + 16 * (1 - m))", r"wrong numbers"),
    "too few columns": (
        r"(tensor_memory_\w+)<256>", r"\1<128>", r"column \d+ of tensor memory is not allocated"),
    "not given back": (
        r"if \(titan_warp == 0\) titan::tensor_memory_free<256>\(titan_tensor\);", "",
        r"not freed"),
    "given back by another warp": (
        r"titan_warp == 0\) titan::tensor_memory_free",
        "titan_warp == 1) titan::tensor_memory_free",
        r"warp 0 has allocated"),
    "given back by one thread": (
        r"if \(titan_warp == 0\) titan::tensor_memory_free",
        "if (titan_thread == 0) titan::tensor_memory_free", r"hang|divergence"),
    "given back too early": (
        r"titan::block_sync\(\);(\s*titan::tensor_fence_after\(\);\s*if \(titan_warp == 0\) "
        r"titan::tensor_memory_free)", r"\1",
        r"in flight|is not allocated|missing tensor_fence"),
    "not freed by the amount allocated": (
        r"tensor_memory_free<256>", "tensor_memory_free<128>", r"not what is allocated"),
    "the address assumed": (
        r"= \*titan_tensor_slot;", "= 0;", r"is not allocated|not what is allocated"),
    "no barrier behind the allocation": (
        r"(titan::tensor_fence_before\(\);)\s*titan::block_sync\(\);(\s*titan::tensor_fence_after)",
        r"\1\2",
        r"no barrier of the CTA in between|is not allocated|no initialised mbarrier"),
    "all lanes multiply": (
        r"if \(titan_warp == 1 && titan::elect_one\(\)\)", "if (titan_warp == 1)",
        r"of another thread, shape or type|more arrivals"),
    "swizzle of a descriptor": (
        r"left = titan::tensor_descriptor<128>", "left = titan::tensor_descriptor<64>",
        r"wrong numbers|nobody wrote"),
    "stride of a descriptor": (
        r"(right = titan::tensor_descriptor<128>.*), 1024\)", r"\1, 512)", r"wrong numbers"),
    "operands exchanged": (r", a, b, x_t", ", b, a, x_t", r"wrong numbers"),
    "the issuer ends before its multiplications": (
        r"titan::tensor_commit\(b_issuer_drained(?s:.)*?titan::tensor_fence_after\(\);", "",
        None),
    "the other type": (r"titan::bf16, 128, false", "titan::f16, 128, false", r"wrong numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS, every=8))
def test_a_planted_fault_is_seen(name):
    pattern, replacement, told = FAULTS[name]
    tile, made = emitted("gemm_persistent_sm_100a", "sm_100a")
    source, count = re.subn(pattern, replacement, made.files["kernel.cu"])
    assert count >= 1, "the fault changes the text"
    found = judged(
        tile,
        made,
        source,
        LARGE,
        POLICIES + 6 * [("latest", "lazy"), ("uneven", "mixed")],
    )
    if told is None:  # harmless: the consumer has waited for all that was multiplied
        assert found is None
    else:
        assert found is not None
        assert re.search(told, found), found


def test_every_function_of_the_device_header_is_offered():
    real = functions((root("backends") / "sm_100a" / "titan_tcgen05.cuh").read_text())
    assert {"tensor_multiply", "tensor_memory_fetch", "tensor_commit"} <= real
    assert real - {"tensor_instruction"} == emulated_functions(
        (NATIVE / "titan_tcgen05.h").read_text()
    )
