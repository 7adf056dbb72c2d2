"""Launches whose numbers would leave the 32 bits that kernels compute with are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.codegen.pipeline.written import form_of
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, decoded, scheduled
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import parse_tile
from titan.device.plan import Unlaunchable, plan

LIBRARY = Path(__file__).resolve().parents[3] / "protocols" / "tiles"


def manifest_of(name, persistent=False):
    tile = parse_tile((LIBRARY / f"{name}.yaml").read_text())
    shape = Shape("plain", 2, overlapped=False, persistent=persistent)
    kernel, program = decoded(form_of("sm_90a")(tile, shape, {}, 1))
    return emit(tile, kernel, program).manifest


@pytest.fixture(scope="module")
def gemm():
    return manifest_of("gemm")


@pytest.mark.parametrize(
    "sizes",
    [
        {"M": 2**30, "N": 128, "K": 64},
        {"M": 128, "N": 2**30, "K": 8},
        {"M": 2**20, "N": 2**20, "K": 2**30},
    ],
)
def test_the_largest_launches_are_planned(gemm, sizes):
    assert plan(gemm, sizes, 132).grid == -(-sizes["M"] // 128) * (-(-sizes["N"] // 128))


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ({"M": 2**30 + 8, "N": 8, "K": 8}, "M <= 1073741824"),
        ({"M": 8, "N": 2**31, "K": 8}, "N <= 1073741824"),
        ({"M": 8, "N": 8, "K": 2**32}, "K <= 1073741824"),
        ({"M": 2**24, "N": 2**24, "K": 8}, "128) <= 1073741824"),
        ({"M": 2**30, "N": 2**30, "K": 8}, "128) <= 1073741824"),
    ],
)
def test_sizes_and_work_items_beyond_are_refused(gemm, sizes, what):
    with pytest.raises(Unlaunchable, match=re.escape(what)):
        plan(gemm, sizes, 132)


def test_an_offset_that_need_not_grow_is_refused():
    text = (LIBRARY / "gemm_split_k.yaml").read_text()
    tile = parse_tile(text.replace("(s * ((", "((parts - s) * (("))
    shape = Shape("plain", 2, overlapped=False)
    kernel, program = decoded(form_of("sm_90a")(tile, shape, {}, 1))
    with pytest.raises(EmissionRefused, match="an offset of a may leave 32 bits"):
        emit(tile, kernel, program)


def test_the_position_in_the_rings_of_a_persistent_kernel_stays_in_range():
    """2^22 items of 2^10 iterations each: one CTA alone could count to 2^32."""
    manifest = manifest_of("gemm_persistent", persistent=True)
    sizes = {"M": 2**18, "N": 2**19, "K": 2**16}
    with pytest.raises(Unlaunchable, match="<= 2147483647"):
        plan(manifest, sizes, 132)
    assert plan(manifest, {**sizes, "K": 2**14}, 132).grid == 132


def test_who_has_no_room_for_rings_is_told_what_takes_it():
    text = (LIBRARY / "gemm.yaml").read_text()
    text = text.replace(
        "rows: 128, columns: 128, k_tile: 64", "rows: 128, columns: 256, k_tile: 512"
    )
    with pytest.raises(BuildRefused) as refused:
        scheduled(parse_tile(text), BuildLimits(1, 1))
    told = str(refused.value)
    assert "rings take 393216 of shared, of which 165888 are left for them" in told
    assert "the tiles that stores send take 65536" in told
    assert "barriers take 1024" in told
