"""The fit recovers a machine that is known, and says what the measurements do not tell."""

from __future__ import annotations

import json

import numpy
import pytest

from titan.device import fit
from titan.device.__main__ import fitted_lines
from titan.device.fit import Observation

TRUTH = {"TC": 1.25, "SFU": 0.8, "ring": 1.6}
OVERHEAD = 37.0
SHAPES = {
    "gemm": {"TC": 512.0, "SFU": 0.0, "TMA": 192.0},
    "gemm_low": {"TC": 128.0, "SFU": 0.0, "TMA": 60.0},
    "attention": {"TC": 600.0, "SFU": 1056.0, "TMA": 192.0},
    "attention_64": {"TC": 256.0, "SFU": 528.0, "TMA": 128.0},
    "wide": {"TC": 1024.0, "SFU": 64.0, "TMA": 500.0},
}
LATENCY = 1600.0


def synthetic(truth=TRUTH, overhead=OVERHEAD, noise=0.0, shapes=SHAPES, depths=(2, 3, 4, 8)):
    random = numpy.random.default_rng(1)
    found = []
    for name, terms in shapes.items():
        for depth in depths:
            whole = {**terms, "ring": LATENCY / depth}
            cycles = overhead + max(truth.get(t, 1.0) * value for t, value in whole.items())
            cycles *= 1.0 + noise * random.standard_normal()
            found.append(Observation(f"{name}-{depth}", cycles, whole))
    return found


def test_a_known_machine_is_recovered():
    found = fit.fit(synthetic())
    assert found.error_after == pytest.approx(0.0, abs=1e-9)
    assert found.error_before > 0.1
    assert found.overhead == pytest.approx(OVERHEAD)
    for name, scale in TRUTH.items():
        assert found.scale(name) == pytest.approx(scale), name
    assert {term.name: term.state for term in found.terms}["TMA"] == "bounded"
    limit = next(term.at_most for term in found.terms if term.name == "TMA")
    assert limit >= 1.0
    assert found.remarks == ()


@pytest.mark.parametrize("seed", range(8))
def test_random_machines_are_recovered(seed):
    random = numpy.random.default_rng(seed)
    truth = {name: float(random.uniform(0.5, 2.0)) for name in TRUTH}
    observations = synthetic(truth, float(random.uniform(5, 80)), depths=(1, 2, 3, 4, 8, 16))
    found = fit.fit(observations)
    assert found.error_after == pytest.approx(0.0, abs=1e-6)
    binding = {item.binding for item in found.residuals}
    for name, scale in truth.items():
        if sum(item.binding == name for item in found.residuals) >= 2:
            assert found.scale(name) == pytest.approx(scale, rel=1e-4)
    assert binding <= {*truth, "TMA"}


def test_noise_shows_in_residuals_and_errors():
    found = fit.fit(synthetic(noise=0.02, depths=(2, 3, 4, 5, 6, 8)))
    assert 0.005 < found.error_after < 0.03 < found.error_before
    for name, scale in TRUTH.items():
        term = next(term for term in found.terms if term.name == name)
        assert term.scale == pytest.approx(scale, rel=0.08)
        assert 0 < term.error < 0.1
    assert max(abs(item.after / item.measured - 1) for item in found.residuals) < 0.08


def test_a_right_description_has_scales_of_one():
    found = fit.fit(synthetic({}, 0.0))
    assert found.error_before == pytest.approx(0.0, abs=1e-12)
    assert all(t.scale == pytest.approx(1.0) for t in found.terms if t.state == "fitted")


def test_nothing_measured():
    found = fit.fit([])
    assert (found.terms, found.error_after) == ((), None)
    assert found.remarks == ("nothing was measured",)
    found = fit.fit([Observation("x", 0.0, {"TC": 1.0}), Observation("y", 5.0, {})])
    assert "2 measurements have no cycles or no terms" in found.remarks
    assert "nothing was measured" in found.remarks


def test_one_measurement_cannot_tell_the_overhead():
    found = fit.fit([Observation("x", 150.0, {"TC": 100.0, "SFU": 20.0})])
    assert found.scale("TC") == pytest.approx(1.5)
    assert found.overhead is None
    assert any("overhead" in line for line in found.remarks)
    states = {term.name: (term.state, term.at_most) for term in found.terms}
    assert states["SFU"] == ("bounded", pytest.approx(7.5))


def test_proportional_terms_are_not_told_apart():
    terms = [{"TC": value, "SMEM": value / 2} for value in (100.0, 200.0, 400.0)]
    found = fit.fit([Observation(str(i), 1.3 * t["TC"] + 10, t) for i, t in enumerate(terms)])
    assert found.scale("TC") == pytest.approx(1.3)
    assert found.overhead == pytest.approx(10.0)
    assert "TC cannot be distinguished from SMEM" in found.remarks


def test_the_same_work_everywhere_does_not_tell_the_overhead():
    found = fit.fit([Observation(str(n), 120.0 + n, {"TC": 100.0}) for n in range(4)])
    assert found.overhead is None
    assert found.scale("TC") == pytest.approx(1.215, rel=0.01)


RATES = {
    "TC": {"matrix.per_cycle.bf16": {"value": 2048, "kind": "rate"}},
    "TMA": {"transfer.cycles_per_kib": {"value": 6, "kind": "cost"}},
    "ring": {"transfer.latency": {"value": 500, "kind": "latency"}},
}


def test_the_fitted_machine_is_data_with_residuals():
    found = fit.fit(synthetic())
    data = json.loads(json.dumps(fit.document({"name": "a GPU"}, "sm_90a", found, RATES, LATENCY)))
    assert (data["kind"], data["machine"]) == ("fitted machine", "sm_90a")
    assert data["rates"]["matrix.per_cycle.bf16"] == {"was": 2048.0, "fits": 1638.4}
    assert data["rates"]["transfer.latency"]["fits"] == pytest.approx(500 + 0.6 * LATENCY)
    assert "transfer.cycles_per_kib" not in data["rates"]  # never the largest: not fitted
    assert len(data["residuals"]) == len(synthetic())
    assert max(abs(row["relative"]) for row in data["residuals"]) < 1e-9
    cost = fit.fit([Observation("x", 12.0, {"TMA": 6.0})])
    assert fit.fitted_rates(cost, RATES)["transfer.cycles_per_kib"]["fits"] == 12.0


def test_the_lines_say_what_was_fitted_and_what_not():
    told = fitted_lines(fit.document({}, "sm_90a", fit.fit(synthetic()), RATES))
    assert "sm_90a, TC: 1.250" in told
    assert "TMA: never the largest" in told
    assert "overhead: 37.0 cycles" in told
    assert "nothing was measured" in fitted_lines(fit.document({}, "x", fit.fit([]), {}))
