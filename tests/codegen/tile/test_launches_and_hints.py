"""`dependent_launch` and `evict`: how they are read, what they change, where they are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.emit.cuda_kernels import parts
from tests.runtime.packages import numbers, package_of, random_bits
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.stored import as_data, from_data
from titan.foundation.resources import root
from titan.runtime.loaded import LoadedKernel
from titan.target.load import TargetRefused
from titan.validate.compare.compile import nvcc

TILES = root("protocols") / "tiles"
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")


def changed(name: str, *pairs: tuple[str, str]) -> str:
    text = (TILES / f"{name}.yaml").read_text()
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


HINTED = changed(
    "gemm_cluster2",
    ("tile: [rows, k_tile]}", "tile: [rows, k_tile], evict: last}"),
    ("tile: [columns, k_tile]}", "tile: [columns, k_tile], evict: first}"),
    ("tile: gemm_cluster2", "tile: gemm_hinted"),
)


def test_a_program_says_when_lines_leave_the_cache_and_that_launches_overlap():
    tile = parse_tile((TILES / "sum_parts.yaml").read_text())
    assert tile.dependent_launch and tile.operation("p").evict == "first"
    assert from_data(as_data(tile)) == replace(tile, note="")
    plain = parse_tile((TILES / "gemm.yaml").read_text())
    assert not plain.dependent_launch and plain.operation("a").evict == ""
    assert "dependent_launch" not in as_data(plain)


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("gemm", "tile: [rows, k_tile]}", "tile: [rows, k_tile], evict: never}", "never"),
        ("gemm", "{store: narrow,", "{store: narrow, evict: first,", "evict"),
        ("gemm", "groups: 2", "groups: 2\ndependent_launch: maybe", "dependent_launch"),
        ("copy_gfx942", "groups: 4", "groups: 4\ndependent_launch: true", "have ended"),
        ("gemm_gfx942", "tile: [rows, k_tile]}", "tile: [rows, k_tile], evict: last}", "L2 cache"),
    ],
)
def test_what_is_refused(name, old, new, told):
    with pytest.raises(TargetRefused) as caught:
        parse_tile(changed(name, (old, new)))
    assert told in str(caught.value)


def test_emission_refuses_what_the_reader_would():
    tile, kernel, program = parts("gemm")
    body = tuple(replace(item, evict="x" * (item.name == "a")) for item in tile.body)
    with pytest.raises(EmissionRefused, match="policy"):
        emit(replace(tile, body=body), kernel, program)


@needs_nvcc
def test_hinted_copies_of_one_cta_and_of_all():
    kernel = LoadedKernel(package_of(HINTED))
    source = kernel.files["kernel.cu"]
    assert "tensor_load_multicast_kept(" in source and "tensor_load_kept(" in source
    a, b = random_bits(200, 136, seed=1), random_bits(264, 136, seed=2)
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(kernel(a, b)) - right).max() < 0.02 * np.abs(right).max()


@needs_nvcc
@pytest.mark.parametrize("columns", [16, pytest.param(32, marks=pytest.mark.heavy)])
def test_narrow_tiles_are_stored_by_matrices(columns):
    """Rows of 32 and 64 bytes: the swizzle moves 16 bytes with every fourth or second row."""
    text = changed(
        "gemm_small_tiles",
        ("columns: 64,", f"columns: {columns},"),
        ("tile: gemm_small_tiles", f"tile: gemm_{columns}"),
    )
    kernel = LoadedKernel(package_of(text))
    assert "store_matrices(" in kernel.files["kernel.cu"]
    a, b = random_bits(70, 72, seed=1), random_bits(40, 72, seed=2)
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(kernel(a, b)) - right).max() < 0.02 * np.abs(right).max()
