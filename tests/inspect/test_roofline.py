"""The bounds of emitted kernels: as the page shows them, and against counts made another way."""

from __future__ import annotations

import json

import pytest

from benchmarks import bench_roofline
from benchmarks.bench_roofline import KERNELS, bounds, least_of

PAGE = bench_roofline.ROOT / "docs" / "reference" / "sass.md"


def test_the_page_shows_what_is_computed():
    shown = PAGE.read_text(encoding="utf-8")
    text = f"{bench_roofline.BEGIN}{bench_roofline.table()}{bench_roofline.END}"
    assert text in shown


@pytest.mark.parametrize(("kernel", "sizes"), KERNELS)
def test_the_machine_code_has_the_products_of_the_tile_program(kernel, sizes):
    """Cycles by the shapes of HGMMA in the listing, for the warpgroups that share a tile."""
    rows = json.loads(bench_roofline.STORED.read_text(encoding="utf-8"))
    (counted,) = (row for row in rows if row["kernel"] == f"`{kernel}`, after")
    sharing = 1 if kernel == "gemm_ping_pong" else 2
    cycles = bounds(kernel, sizes, 0).cycles["tensor cores"]
    assert cycles == sharing * counted["tensor_cycles"]


def test_bounds_of_a_product_by_hand():
    """128 x 128 x 64 in bf16: two instructions' worth of rows read B, all of A is read once."""
    found = bounds("gemm", {"M": 8192, "N": 8192, "K": 8192}, 43)
    reads = 2 * 128 * 64 * 2 + 128 * 64 * 2
    arrives = 2 * 128 * 64 * 2
    assert found.cycles["shared memory"] == (reads + arrives) / 128
    assert found.cycles["L2 to shared memory"] == arrives / 64
    assert (found.items, found.trips, found.limit) == (64 * 64, 128, "shared memory")
    cycles = 32 * (128 * 640 + 1500)  # 31 waves of 132 CTAs, and 4 CTAs more
    assert found.share == pytest.approx(8192**3 / 2048 / 132 / cycles)


def test_a_pair_of_ctas_fetches_its_tile_once():
    one, two = (
        bounds(name, {"M": 8192, "N": 8192, "K": 8192}, 43) for name in ("gemm", "gemm_cluster2")
    )
    half = "L2 to shared memory"
    assert two.cycles[half] == 0.75 * one.cycles[half]
    assert two.cycles["shared memory"] == one.cycles["shared memory"]


def test_no_bound_is_above_the_peak():
    for kernel, sizes in KERNELS:
        assert 0 < bounds(kernel, sizes, least_of(kernel)).share <= 1
        slow = bounds(kernel, sizes, 10**6)
        assert slow.limit == "issue slots" and slow.share < 0.01
