"""A hand-written GEMM under many interleavings, and faults planted in its text.

A fault must end the run with a message or give wrong numbers in one of the interleavings tried.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import sampled
from tests.validate.emulate.kernels import GEMM, GEMM_MANIFEST
from titan.codegen.tile.dtypes import rounded
from titan.validate.emulate.run import KernelFault, LaunchRefused, emulate

SCHEDULES = [
    ("uniform", "mixed"),
    ("priority", "mixed"),
    ("round_robin", "eager"),
    ("latest", "lazy"),
    ("starve:producer", "mixed"),
    ("starve:consumer", "lazy"),
    ("uneven", "mixed"),
    ("uneven", "lazy"),
]


def problem(m, n, k, seed=0):
    random = np.random.default_rng(seed)
    a = rounded(random.standard_normal((m, k)), "bf16")
    b = rounded(random.standard_normal((n, k)), "bf16")
    return a, b, a.astype(np.float64) @ b.T.astype(np.float64)


def run(source, size, seed=0, policy="uniform", delay="mixed", manifest=GEMM_MANIFEST):
    a, b, expected = problem(*size)
    result = emulate(
        {"kernel.cu": source},
        manifest,
        {"A": a, "B": b},
        dict(zip("MNK", size, strict=True)),
        seed=seed,
        policy=policy,
        delay=delay,
        processor_seconds=60,
    )
    return result.outputs["C"], expected


def right(output, expected):
    return bool(np.all(np.abs(output - expected) <= 2.0**-8 * np.abs(expected) + 1e-4))


@pytest.mark.parametrize("policy,delay", SCHEDULES)
@pytest.mark.parametrize(
    "size", [(200, 72, 136), (1, 8, 8), pytest.param((128, 128, 384), marks=pytest.mark.heavy)]
)
def test_computes_the_product(size, policy, delay):
    for seed in (0, 1):
        assert right(*run(GEMM, size, seed, policy, delay))


def test_one_seed_gives_one_run():
    first, second = (run(GEMM, (130, 40, 200), 7)[0] for _ in range(2))
    assert np.array_equal(first, second)


FAULTS = {
    "wrong parity of the consumer": ("full + s, t / depth & 1)", "full + s, (t / depth & 1) ^ 1)"),
    "wrong parity of the producer": ("(t / depth & 1) ^ 1)", "t / depth & 1)"),
    "no wait for the stage": ("      barrier_wait(full + s, t / depth & 1);\n", ""),
    "no wait for the empty stage": (
        "        barrier_wait(empty + s, (t / depth & 1) ^ 1);\n",
        "",
    ),
    "no wait for the accumulators": ("      wgmma_wait<0>();\n", ""),
    "released too early": (
        "      wgmma_commit();\n      wgmma_wait<0>();\n      warp_sync();\n"
        "      if (elect_one()) barrier_arrive(empty + s);\n",
        "      wgmma_commit();\n      warp_sync();\n"
        "      if (elect_one()) barrier_arrive(empty + s);\n      wgmma_wait<0>();\n",
    ),
    "one group in flight too many": ("wgmma_wait<0>", "wgmma_wait<1>"),
    "no warp_sync and a lane that arrives alone": (
        "      warp_sync();\n      if (elect_one()) barrier_arrive(empty + s);\n",
        "      barrier_arrive(empty + s);\n",
    ),
    "too few bytes expected": ("full + s, 2 * tile_bytes", "full + s, tile_bytes"),
    "too many bytes expected": ("full + s, 2 * tile_bytes", "full + s, 2 * tile_bytes + 16"),
    "count too high": ("empty + i, 2 * 4", "empty + i, 2 * 4 + 1"),
    "count too low": ("empty + i, 2 * 4", "empty + i, 4"),
    "no barrier behind the initialisation": ("  block_sync();\n", ""),
    "no wgmma_fence": ("      wgmma_fence();\n", ""),
    "no commit": ("      wgmma_commit();\n", ""),
    "no proxy fence": ("    fence_proxy_async();\n", ""),
    "proxy fence by one thread": (
        "    fence_proxy_async();\n",
        "    if (lane == 0) fence_proxy_async();\n",
    ),
    "proxy fence by the issuer only": (
        "    fence_proxy_async();\n    named_barrier_sync(1 + group, 128);\n"
        "    if (warp == 0 && elect_one()) {\n",
        "    named_barrier_sync(1 + group, 128);\n"
        "    if (warp == 0 && elect_one()) {\n      fence_proxy_async();\n",
    ),
    "no barrier before the store": ("    named_barrier_sync(1 + group, 128);\n", ""),
    "one barrier for both groups": (
        "named_barrier_sync(1 + group, 128)",
        "named_barrier_sync(1, 128)",
    ),
    "wrong number of threads": (
        "named_barrier_sync(1 + group, 128)",
        "named_barrier_sync(1 + group, 96)",
    ),
    "no commit of the store": ("      bulk_commit();\n", ""),
    "no wait for the store": ("      bulk_wait_read<0>();\n", ""),
    "wrong swizzle of the descriptor": ("shared_descriptor<128>(b", "shared_descriptor<64>(b"),
    "wrong stride of the descriptor": (
        "k * 32, 16, 1024);\n        wgmma",
        "k * 32, 16, 512);\n        wgmma",
    ),
    "wrong step along K": ("b + s * tile_bytes + k * 32", "b + s * tile_bytes + k * 64"),
    "operand of the other group": ("group * 8192 + k * 32", "k * 32"),
    "coordinates exchanged": ("full + s, t * 64, n * 128", "full + s, n * 128, t * 64"),
    "wrong column of the tile": ("mine, n * 128", "mine, n * 64 + 64"),
    "wrong column of the fragment": ("lane % 4 * 2;", "lane % 4;"),
    "wrong row of the fragment": ("i % 2 * 8", "i / 2 % 2 * 8"),
    "accumulation from the start": ("da, db, t + k != 0", "da, db, 1"),
    "no accumulation": ("da, db, t + k != 0", "da, db, k != 0"),
    "too many registers": ("registers_increase<232>", "registers_increase<240>"),
    "registers of the wrong direction": ("registers_decrease<40>", "registers_decrease<176>"),
    "a tile over the barriers": ("*c = shared + 2 * depth", "*c = shared + depth"),
    "the producer ends early": (
        "t < tiles; ++t) {\n        const int s = t % depth;\n        barrier_wait(empty",
        "t < tiles - 1; ++t) {\n        const int s = t % depth;\n        barrier_wait(empty",
    ),
    "the producer loads too much": (
        "t < tiles; ++t) {\n        const int s = t % depth;\n        barrier_wait(empty",
        "t < tiles + 1; ++t) {\n        const int s = t % depth;\n        barrier_wait(empty",
    ),
    "a lane that is elected by number alone": (
        "if (thread < 32 && elect_one())",
        "if (thread < 32)",
    ),
    "divergent wgmma": (
        "      wgmma_fence();\n",
        "      if (warp == 3 && t == 1) continue;\n      wgmma_fence();\n",
    ),
}


@pytest.mark.parametrize("name", sampled(FAULTS))
def test_a_planted_fault_is_seen(name):
    old, new = FAULTS[name]
    assert GEMM.count(old) == 1 and old != new, "the fault changes one place"
    source = GEMM.replace(old, new)
    for seed, (policy, delay) in enumerate(SCHEDULES + 20 * [("priority", "mixed")]):
        try:
            if not right(*run(source, (128, 128, 384), seed, policy, delay)):
                return
        except KernelFault:
            return
    pytest.fail("no interleaving shows the fault")


def test_a_message_names_role_thread_and_primitive():
    source = GEMM.replace("      barrier_wait(full + s, t / depth & 1);\n", "")
    with pytest.raises(KernelFault, match=r"consumer, thread \d+ \(warp \d+, lane \d+\) of CTA 0"):
        run(source, (128, 128, 384), policy="starve:producer")


def test_a_hang_tells_where_each_role_waits():
    source = GEMM.replace("empty + i, 2 * 4", "empty + i, 2 * 4 + 1")
    with pytest.raises(KernelFault, match=r"(?s)hang.*consumer.*mbarrier.*producer.*mbarrier"):
        run(source, (128, 128, 384))


def test_launches_that_break_the_contract_are_refused():
    with pytest.raises(LaunchRefused, match="K % 8"):
        run(GEMM, (128, 128, 12))
    manifest = {**GEMM_MANIFEST, "constraints": []}
    with pytest.raises(LaunchRefused, match="multiples of 16"):
        run(GEMM, (128, 128, 12), manifest=manifest)
    with pytest.raises(LaunchRefused, match="at least 1"):
        run(GEMM, (0, 128, 16))
