"""Predicted against counted instructions: of the fit, of programs outside of it, and by hand."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks import fit_instructions as fit
from tests.sampling import sampled
from titan.codegen.pipeline.instructions import predicted, terms
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.instruction_costs import FILE, instruction_costs, load_costs
from titan.codegen.tile.load import load_tile
from titan.inspect.tools import nvdisasm
from titan.target.load import TargetRefused
from titan.validate.compare.compile import nvcc

ROWS = fit.stored()
TARGETS = ("gfx942", "gfx950", "sm_100a", "sm_90a")
PLAIN = Shape("plain", 4, overlapped=False)
# Of programs that the costs were not fitted to: half of all loops, and nine of ten.
HALF, NINE_OF_TEN = 0.12, 0.35
OUTSIDE = (
    ("attention_forward_grouped", "sm_90a", 0.15),
    ("gemm_bias_silu", "sm_90a", 0.15),
    ("attention_forward_packed_sm_100a", "sm_100a", 0.35),
    ("attention_forward_causal_training_gfx942", "gfx950", 0.15),
)  # fmt: skip


def rows_of(target: str) -> list[fit.CountedShape]:
    return [row for row in ROWS if row.target == target]


@pytest.mark.parametrize("target", TARGETS)
def test_the_costs_are_those_of_what_was_counted(target: str) -> None:
    path = fit.ROOT / "backends" / target / FILE
    assert path.read_text(encoding="utf-8") == fit.text_of(target, rows_of(target))
    costs = instruction_costs(target)
    assert costs is not None and costs.target == target and len(costs.costs) > 4


@pytest.mark.parametrize("target", TARGETS)
def test_programs_outside_of_the_fit(target: str) -> None:
    found = sorted(abs(error) for _, error in fit.errors_outside(rows_of(target)))
    assert statistics.median(found) <= HALF
    assert found[len(found) * 9 // 10] <= NINE_OF_TEN


@pytest.mark.skipif(nvcc() is None or nvdisasm() is None, reason="the CUDA toolkit is missing")
@pytest.mark.parametrize(("name", "target", "within"), sampled(OUTSIDE, every=2))
def test_what_is_compiled_now_and_was_never_counted(name: str, target: str, within: float) -> None:
    assert name not in {row.program for row in ROWS}
    row = next(fit.counted_shapes(name, target), None)
    if row is None:
        pytest.skip(f"no toolchain for {target}")
    number = predicted(load_tile(fit.LIBRARY / f"{name}.yaml", target=target), row.shape)
    assert number is not None
    assert abs(number / row.instructions - 1) <= within, (number, row.instructions)


def test_a_wrong_model_is_seen() -> None:
    """Costs that leave something out are farther off than the tolerance."""
    rows = rows_of("sm_90a")
    costs = fit.fitted(rows)
    for name in ("product", "arithmetic"):
        without = {key: cost for key, cost in costs.items() if key != name}
        found = sorted(abs(error) for error in fit.errors(rows, without))
        assert statistics.median(found) > HALF, name


def test_terms_by_hand() -> None:
    """128 x 128 x 64 of two warpgroups: 4 products of K = 16 each; attention adds 64 scores."""
    gemm = terms(load_tile(fit.LIBRARY / "gemm.yaml", target="sm_90a"), PLAIN)
    assert gemm is not None
    assert {name: amount for name, amount in gemm.items() if amount} == {
        "loop": 1, "product": 4, "accumulation": 1, "tile": 2,
    }  # fmt: skip
    alone = Shape("alone", 4, specialised=False, overlapped=False)
    asked = terms(load_tile(fit.LIBRARY / "gemm.yaml", target="sm_90a"), alone)
    assert asked is not None and asked["asked"] == 2
    tile = load_tile(fit.LIBRARY / "attention_forward.yaml", target="sm_90a")
    found = terms(tile, Shape("turns", 2, ping_pong=True, behind=True, overlapped=False))
    assert found is not None and found["turn"] == 1
    # 64 rows of 128 scores on 128 threads; 64 x 128 accumulators are scaled; two rows a thread.
    assert (found["product"], found["exponential"], found["reduction"]) == (16, 64, 128)
    assert found["arithmetic"] == 3 * 64 and found["conversion"] == 64
    waves = terms(load_tile(fit.LIBRARY / "gemm_gfx942.yaml", target="gfx942"), PLAIN)
    assert waves is not None and waves["product"] == 32 and waves["operand"] == 16
    assert waves["asked"] == 32 and not waves["copied"]
    staged = Shape("staged", 1, specialised=False, staged=True)
    waves = terms(load_tile(fit.LIBRARY / "gemm_gfx942.yaml", target="gfx942"), staged)
    assert waves is not None and waves["copied"] == 8 and not waves["asked"]


def test_products_of_one_thread_are_no_loop_of_the_warps() -> None:
    tile = load_tile(fit.LIBRARY / "gemm_sm_100a.yaml", target="sm_100a")
    assert terms(tile, PLAIN) is None and predicted(tile, PLAIN) is None


@pytest.mark.parametrize(
    "line", ["  loop: -1", "  unknown: 3", "  loop: 1.5", "  loop: 99999999999"]
)
def test_faulty_costs_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / FILE
    path.write_text(f'titan: 1\ninstructions: sm_90a\nthousandths:\n{line}\nsource: "none"\n')
    with pytest.raises(TargetRefused):
        load_costs(path)
