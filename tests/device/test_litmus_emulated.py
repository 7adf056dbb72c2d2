"""Litmus tests on the emulated device: outcomes, schedules, what is not emulated."""

from __future__ import annotations

import json

import pytest

from titan.cli.main import run as titan
from titan.device.litmus_emulated import batches
from titan.device.litmus_plan import LitmusPlan, NotRun
from titan.foundation.resources import root
from titan.isa.numbers.native import core
from titan.litmus.render.files import render_all, write_all
from titan.validate.compare.compile import nvcc

pytestmark = [
    pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed"),
    pytest.mark.skipif(core() is None, reason="the native core is not built"),
]


def rendered(folder, name: str):
    """Source and manifest of a test of the suite."""
    (path,) = root("litmus").rglob(f"{name}.litmus")
    tests, refused = render_all([path], "cuda")
    assert not refused
    write_all(folder, tests)
    (manifest,) = folder.glob("*.json")
    return manifest.with_suffix(".cu"), json.loads(manifest.read_text(encoding="utf-8"))


def shown(folder, name: str, **more: object) -> list[dict]:
    source, manifest = rendered(folder, name)
    job = {"kind": "litmus", "seconds": 0.0, "seed": 1, "scale": 0.25, "most": 1, **more}
    return list(batches(source, manifest, job))


def test_schedules_of_clusters_show_both_orders(tmp_path):
    """Store buffering between CTAs, with fences: each thread first, and both before the reads."""
    made = shown(tmp_path, "SB+fence.sc")
    manifest = json.loads(next(tmp_path.glob("*.json")).read_text(encoding="utf-8"))
    size, total = int(manifest["outcomes"]["incomplete_bucket"]) + 1, [0] * 64
    for batch in made:
        assert len(batch["histogram"]) == size and sum(batch["histogram"]) == 32
        total = [a + b for a, b in zip(total, batch["histogram"] + [0] * 64, strict=False)]
    assert total[size - 1] == 0, "every thread came to its end"
    assert sum(count > 0 for count in total) >= 3


@pytest.mark.heavy
def test_memory_that_is_mapped_twice_is_not_emulated(tmp_path):
    with pytest.raises(NotRun, match="is not emulated"):
        shown(tmp_path, "gen-gen+alias")


@pytest.mark.heavy
def test_a_wait_that_gives_up_is_no_hang(tmp_path):
    """The phase that is waited for never completes: every instance counts as incomplete."""
    (first, *_) = shown(tmp_path, "mbarrier-missed-phase", only=4)
    assert first["histogram"][-1] == sum(first["histogram"]) == 32


@pytest.mark.heavy
def test_the_command_counts_outcomes_and_finds_nothing(tmp_path, capsys):
    (path,) = root("litmus").rglob("MP+rmw-chain.litmus")
    options = ["--backend", "emulated", "--seconds", "0.01", "--scale", "0.25"]
    assert titan(["litmus", "run", str(path), *options, "--findings", str(tmp_path)]) == 0
    assert "1 tests, 192 instances: 1 not seen" in capsys.readouterr().out


def test_the_plan_of_a_batch():
    manifest = {
        "launch": {"instances": 100, "instances_max": 64, "patience": 9, "stress_rounds": 3,
                   "spread_cycles": 16, "ctas_per_instance": 2, "warps_per_group": 3},
        "buffers": [{"parameter": "scratch", "bytes": 40, "bytes_per_instance": 1}],
    }  # fmt: skip
    options = {"TITAN_LANES": 4, "TITAN_GROUPS": 2, "TITAN_TOGETHER": 0, "TITAN_STRESS_WARPS": 1}
    plan = LitmusPlan.of(manifest, options, 2.0)
    assert plan.instances == 64
    assert plan.launches()[1] == ("titan_litmus_run", 16, 32 * 7)
    assert plan.values(5, 3) == {
        "instances": 64, "patience": 9, "seed": 5, "spread": 32, "stress rounds": 3,
        "xcds": 1, "scratch words": 26,
    }  # fmt: skip
    assert plan.spread_cycles(4) == 0
