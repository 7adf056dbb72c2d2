"""Why a shape was taken and what bounds it: against the schedulers' loop, and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.pipeline.model import TriedCandidate
from titan.codegen.pipeline.ranking import chain_cycles
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.loops import loop_of
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import FILL_CYCLES, Roofline, iteration_cycles
from titan.package.explain import as_data, explain, rows
from titan.package.produce import produce
from titan.scheduling.loop.bounds import demand
from titan.target.load import machine

LIBRARY = Path(__file__).resolve().parents[2] / "protocols" / "tiles"
FILES = sorted(LIBRARY.glob("*.yaml"))


def test_the_units_of_the_schedulers_are_as_busy():
    """Cycles of products and special functions are summed another way in `cost.py`."""
    compared = 0
    for path in FILES:
        for target in targets_of(path):
            tile, known = load_tile(path, target=target), rates(target)
            loop, cycles = loop_of(tile, machine(target), 2), iteration_cycles(tile)
            special = known.classes["exponential"].uses[0][0]
            of = {
                unit: sum(demand(item, unit) for item in loop.operations)
                for unit in (known.matrix.unit, special)
            }
            assert cycles["tensor cores"] == of[known.matrix.unit], (path.name, target)
            rounding = len(loop.operations)  # each operation is whole cycles there
            assert abs(cycles["special functions"] - of[special]) <= rounding, (path.name, target)
            compared += 1
    assert compared > 80


@pytest.fixture(scope="module")
def gemm(tmp_path_factory):
    path = LIBRARY / "gemm.yaml"
    limits = BuildLimits(schedule_seconds=5, verify_seconds=5)
    tile = load_tile(path, target="sm_90a")
    return produce(
        tile, path.read_text(), tmp_path_factory.mktemp("out"), limits, with_toolchain=False
    )


def test_a_product_by_hand(gemm):
    found = explain(gemm, 128)
    assert found.roofline.cycles["shared memory"] == (3 * 16384 + 2 * 16384) / 128
    assert found.least_cycles["shared memory"] == 640
    # 16 KiB take 96 cycles behind a latency of 500, spread over four stages.
    assert found.least_cycles["loads in flight"] == (500 + 96) / 4
    assert "dependences of one iteration" not in found.least_cycles
    total = 128 * 640 + FILL_CYCLES
    assert found.roofline.share == pytest.approx(128 * 512 / total)
    text = dict(rows(found))
    assert text["bound by"].startswith("shared memory: 640 cycles")
    assert "80 %" in text["cycles"] and text["why"].startswith("the first shape")
    data = as_data(found)
    assert data["bound_by"] == "shared memory" and data["trips"] == 128
    ranking = data["ranking"]
    assert [one["shape"] for one in ranking if one["taken"]] == [ranking[0]["shape"]]
    shown = [value for key, value in rows(found) if key == "ranked"]
    assert "640 cycles by the model, shared memory, 80 % of the tensor cores' peak" in shown[0]
    assert len(shown) > 2 and all("%)" in line for line in shown[1:])
    assert "a guess" in data["sources"]["global"]


def test_instructions_can_be_the_bound(gemm):
    found = explain(replace(gemm, instructions=4000), 64)
    assert found.roofline.limit == "issue slots"
    assert found.roofline.busiest == 4000 * gemm.built.tile.groups


def test_a_plainer_shape_is_bound_by_its_own_chain(gemm):
    built = gemm.built
    plain = replace(built.shape, overlapped=False, depth=1)
    found = explain(replace(gemm, built=replace(built, shape=plain)), 64)
    chain = chain_cycles(built.loop)
    assert found.least_cycles["dependences of one iteration"] == chain
    assert chain >= max(item.cycles for item in built.loop.operations if not item.streaming)
    assert "one iteration at a time" in found.why
    refused = TriedCandidate(plain, False, "for the test")
    tried = replace(built, steps=(refused, *built.steps))
    found = explain(replace(gemm, built=tried), 64)
    assert "behind 1 refused" in found.why
    assert found.refused == ((plain.name, max(640.0, chain, 596.0)),)


def test_waves_that_are_not_full_cost():
    full = Roofline({"tensor cores": 512.0}, 64, items=132, processors=132)
    one_more = replace(full, items=133)
    assert full.share == pytest.approx(64 * 512 / (64 * 512 + FILL_CYCLES))
    assert one_more.share == pytest.approx(full.share * 133 / 264)
    assert replace(full, items=0).share == pytest.approx(full.share)


def test_a_program_without_products_has_no_share_of_the_peak(tmp_path):
    path = LIBRARY / "copy.yaml"
    tile = load_tile(path, target="sm_90a")
    made = produce(tile, path.read_text(), tmp_path, BuildLimits(), with_toolchain=False)
    found = explain(made, 64)
    assert found.roofline.limit == "L2 to shared memory"
    assert "roofline" not in dict(rows(found))
