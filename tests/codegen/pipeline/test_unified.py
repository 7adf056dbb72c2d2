"""One loop over time (`titan build --loop unified`): verified, and right in numbers."""

from __future__ import annotations

import pytest

from tests.device.compared import compare
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync import program as ir

TILES = root("protocols") / "tiles"
UNIFIED = BuildLimits(2.0, solver="rau", loop="unified")
SIZES = {"M": 72, "N": 40}
GEMMS = [
    ("gemm_small_tiles", "sm_90a"),
    ("gemm_sm_100a", "sm_100a"),
    ("gemm_small_tiles_gfx942", "gfx942"),
]


def unified(name, target, limits=UNIFIED):
    return build(load_tile(TILES / f"{name}.yaml", target=target), "", limits)


def loops(role):
    return [item for item in role.body if isinstance(item, ir.Loop)]


@pytest.mark.parametrize(("name", "target"), GEMMS)
def test_all_roles_have_one_loop_with_the_same_bounds_and_guards(name, target):
    built = unified(name, target)
    assert built.finding.verdict is Verdict.VERIFIED and built.shape.unified
    assert dict(built.finding.coverage.parameters)["tiles"] is None, "for any number of tiles"
    over_time = []
    for role in built.program.roles:
        found = [one for one in loops(role) if str(one.stop) != "1"]
        over_time += found
    bounds = {(str(one.start), str(one.stop)) for one in over_time}
    assert len(bounds) == 1 and "tiles" in next(iter(bounds))[1]
    for one in over_time:
        assert any(isinstance(item, ir.Branch) for item in one.body), "a guard in every role"


@pytest.mark.parametrize(("name", "target"), GEMMS)
def test_the_numbers_are_right_below_at_and_beyond_the_depth(name, target):
    built = unified(name, target)
    emitted = emit(built.tile, built.kernel, built.program)
    step = 32 if target.startswith("gfx") else 64
    for seed, tiles in enumerate((1, built.shape.depth, 2 * built.shape.depth + 1)):
        sizes = {**SIZES, "K": step * tiles - 8}
        found = compare(built.tile, emitted.files, emitted.manifest, sizes, seed=seed)
        assert found.same, (tiles, found)


@pytest.mark.heavy
@pytest.mark.long
def test_two_products_of_one_iteration_have_it_too():
    built = unified("attention_forward_64", "sm_90a")
    assert built.shape.unified and built.shape.specialised
    emitted = emit(built.tile, built.kernel, built.program)
    sizes = {name: 72 for name in (item["name"] for item in emitted.manifest["parameters"])}
    sizes |= {name: 1 for name in sizes if name in ("B", "H", "heads", "batch")}
    assert compare(built.tile, emitted.files, emitted.manifest, sizes).same


def test_where_there_is_none_the_reason_is_told():
    """A persistent kernel becomes one without a loading role, which is one loop over time too."""
    built = unified("gemm_persistent", "sm_90a")
    assert not built.shape.specialised
    reasons = {step.reason for step in built.steps if not step.taken}
    assert "one loop over time does one work item" in reasons
    with pytest.raises(BuildRefused) as refused:
        unified("attention_forward_256_sm_100a", "sm_100a")
    assert any("products of two iterations meet" in step.reason for step in refused.value.steps)
