"""Rates are what the tile program says, times come from the child, nothing wrong is timed."""

from __future__ import annotations

import json
import shutil
import sys
import time

import pytest

from titan.cli.main import run as titan
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import ablations, cycles, work
from titan.device.bench import BenchSettings, bench, counts, document, line
from titan.foundation.resources import root
from titan.package import ablation
from titan.package.produce import produce

TILES = root("protocols") / "tiles"
SMALL = BenchSettings([{"M": 128, "N": 128, "K": 64}])
FACTS = {"name": "a GPU", "multiprocessors": 132, "clock_khz": 1_700_000}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = TILES / "gemm.yaml"
    folder = tmp_path_factory.mktemp("package")
    return produce(
        load_tile(path), path.read_text(), folder, BuildLimits(), with_toolchain=False
    ).folder


def fake(code):
    """A child that answers every job; `code` makes the records of one size."""
    text = (
        "import json, sys\njob = json.loads(sys.stdin.readline())\n"
        "for sizes in job['sizes']:\n"
        "  kind = job['kind']\n"
        f"  record = {code}\n"
        "  print(json.dumps({'sizes': sizes, **record}))\n"
    )
    return {"command": (sys.executable, "-c", text)}


GOOD = (
    "{'kind': 'run', 'state': 'correct', 'message': ''} if kind == 'check' else "
    "{'kind': 'time', 'median_seconds': 0.002 if kind == 'peer' else 0.001, 'peer': 'a library'}"
)


def test_operations_of_a_gemm_are_those_of_its_whole_tiles():
    tile = load_tile(TILES / "gemm.yaml")
    assert work.family(tile) == "gemm"
    assert work.operations(tile, {"M": 256, "N": 256, "K": 128}) == 2 * 256 * 256 * 128
    assert work.operations(tile, {"M": 200, "N": 129, "K": 65}) == 2 * 256 * 256 * 128


def test_operations_of_attention_count_both_products_and_the_causal_half():
    tile = load_tile(TILES / "attention_forward.yaml")
    causal = load_tile(TILES / "attention_forward_causal.yaml")
    sizes = {"heads": 2, "queries": 512, "keys": 512}
    whole = work.operations(tile, sizes)
    assert work.family(tile) == "attention"
    assert whole == 2 * 2 * 512 * 512 * 128 * 2
    half = {name: sizes.get(name, 512) for name in (p.name for p in causal.parameters)}
    assert whole / 2 < work.operations(causal, half) < whole


def test_bytes_are_those_of_all_tensors():
    tile = load_tile(TILES / "gemm.yaml")
    assert work.bytes_moved(tile, {"M": 10, "N": 20, "K": 30}) == 2 * (10 * 30 + 20 * 30 + 10 * 20)


def test_iterations_of_the_busiest_multiprocessor():
    tile = load_tile(TILES / "gemm.yaml")
    sizes = {"M": 128 * 5, "N": 128, "K": 64 * 3}
    assert work.iterations_of_one(tile, sizes, 2) == 9
    assert work.iterations_of_one(tile, sizes, 132) == 3


def test_fences_and_barriers_are_counted_in_the_text():
    text = """titan::fence_barrier_init(); titan::wgmma_fence(); titan::fence_proxy_async();
    titan::barrier_init(x, 1); titan::barrier_wait(x, 0); titan::barrier_arrive_expect(x, 8);
    titan::named_barrier_sync(1, 128); titan::block_sync(); titan::cluster_sync();
    titan::warp_sync();"""
    assert counts(text) == {"fences": 1, "barriers": 5}


def test_what_is_idle_in_the_last_round_of_items():
    tile = load_tile(TILES / "gemm.yaml")
    sizes = {"M": 128 * 5, "N": 128, "K": 64}
    assert work.idle_share(tile, sizes, 5) == 0
    assert work.idle_share(tile, sizes, 4) == pytest.approx(3 / 8)


RESOURCES = (
    "'registers': 168, 'spilled_bytes': 0, 'shared_bytes': 1000, 'grid': 264, "
    "'ctas_per_multiprocessor': 2, 'warps_per_cta': 8"
)
CYCLES = (
    "{'kind': 'cycles', 'span_cycles': 500 + 4 * sizes['K']} if kind == 'cycles' else "
)  # fmt: skip


def test_a_row_tells_resources_occupancy_and_tail(package):
    code = CYCLES + GOOD.replace("'peer': 'a library'", f"'peer': 'a library', {RESOURCES}")
    facts = {**FACTS, "warps_per_multiprocessor": 64}
    size = {"M": 128, "N": 128, "K": 640}
    row = next(iter(bench([package], facts, BenchSettings([size]), **fake(code))))
    assert (row.registers, row.spilled_bytes, row.shared_bytes) == (168, 0, 1000)
    assert row.occupancy == 2 * 8 / 64
    assert row.steady_cycles == 4 * 64
    assert row.tail_share == pytest.approx(500 / (500 + 10 * 256))
    assert row.wave_share == pytest.approx(131 / 132)
    assert (row.fences, row.barriers) > (0, 4)
    assert "256 in the steady state" in line(row)
    small = {**facts, "multiprocessors": 264}
    row = next(iter(bench([package], small, BenchSettings([size]), **fake(code))))
    assert row.occupancy == 8 / 64  # the grid fills each with one CTA only


def manifest_of(names, trip_count, grid, tensors):
    return {
        "entry": "k", "parameters": [{"name": name, "minimum": 1} for name in names],
        "constraints": [], "arguments": [], "trip_count": trip_count, "program": {},
        "tensors": [{"name": "X", "dtype": "bf16", "shape": tensors, "output": False}],
        "launch": {"block": 128, "grid": grid, "dynamic_shared_bytes": 0},
    }  # fmt: skip


def test_two_lengths_of_the_loop_with_the_same_items():
    gemm = manifest_of("MNK", "(K + 63) // 64", "((M + 63) // 64) * ((N + 63) // 64)", ["M", "K"])
    short, long = cycles.lengths_for(gemm)
    assert short == {"M": 64, "N": 64, "K": 512}
    assert long == {**short, "K": 2048}
    names = ("heads", "queries", "keys")
    attention = manifest_of(names, "(keys + 127) // 128", "heads * ((queries + 127) // 128)", names)
    short, long = cycles.lengths_for(attention)
    assert (short["heads"], short["keys"], long["keys"]) == (1, 1024, 4096)
    assert cycles.lengths_for(manifest_of("M", "4", "(M + 63) // 64", ["M"])) == []


def test_a_clock_that_goes_backwards_is_no_measurement(package):
    code = "{'kind': 'cycles', 'span_cycles': 9000 - sizes['K']}"
    (row,) = cycles.measure([package], **fake(code))
    assert (row.state, row.cycles, row.observation) == ("failed", None, None)
    assert "cycles for" in cycles.line(row)


def test_time_that_is_over_is_no_failure(package):
    rows = list(bench([package], FACTS, BenchSettings(until=time.monotonic() - 1), **fake(GOOD)))
    assert [(row.state, row.message) for row in rows] == [("not run", "the time limit was reached")]


def test_rows_of_a_package(package):
    rows = list(bench([package], FACTS, **fake(GOOD)))
    assert [row.state for row in rows] == ["timed"] * len(work.FAMILIES["gemm"])
    first = rows[0]
    assert first.teraflops == pytest.approx(2 * 8192**3 / 0.001 / 1e12)
    assert first.ratio == pytest.approx(2.0)
    assert first.predicted_cycles == 512
    assert first.measured_cycles == pytest.approx(0.001 * 1.7e9 / (32 * 128), rel=0.1)
    assert "2.00 of the speed of a library" in line(first)
    assert json.loads(json.dumps(document(FACTS, rows)))["rows"][0]["package"] == "gemm"


def test_a_wrong_package_is_not_timed(package):
    wrong = "{'kind': 'run', 'state': 'wrong', 'message': 'C[0, 1] is 2'}"
    rows = list(bench([package], FACTS, **fake(wrong)))
    assert [(row.state, row.message) for row in rows] == [("wrong", "C[0, 1] is 2")]


def test_without_a_peer_there_is_no_ratio(package):
    code = GOOD.replace("{'kind': 'time'", "{'kind': 'none' if kind == 'peer' else 'time'")
    row = next(iter(bench([package], FACTS, SMALL, **fake(code))))
    assert (row.state, row.ratio, row.peer) == ("timed", None, "")


def test_a_device_that_fails(package):
    code = GOOD + " if kind != 'measure' else sys.exit('out of memory')"
    rows = list(bench([package], FACTS, SMALL, **fake(code)))
    assert [(row.state, "out of memory" in row.message) for row in rows] == [("failed", True)]


def test_variants_are_prepared_without_a_gpu(tmp_path, monkeypatch, capsys):
    wanted = (("product", "as built"), ("depth", "2"))
    chosen = tuple(v for v in ablation.VARIANTS if (v.axis, v.setting) in wanted)
    real = ablation.prepare
    monkeypatch.setattr(ablation, "prepare", lambda *a, **k: real(*a, **k, variants=chosen))
    tile = str(TILES / "gemm_small_tiles.yaml")
    folder = tmp_path / "variants"
    assert titan(["bench", tile, "--prepare", str(folder), "--no-compile"]) == 0
    assert "2 of 2 variants of 1 kernels" in capsys.readouterr().out
    assert len(ablations.read(folder)) == 2
    assert titan(["bench", str(folder)]) in (0, 2)  # no GPU, or one


def test_an_index_that_is_none_is_refused(tmp_path):
    good = {"titan": "1", "kind": "ablations", "variants": []}
    row = {"kernel": "k", "target": "t", "axis": "a", "setting": "s", "folder": "f"}
    for bad in (
        [], {**good, "titan": "2"}, {**good, "variants": [{**row, "folder": "../x"}]},
        {**good, "variants": [{**row, "folder": ".."}]}, {**good, "variants": [{"folder": None}]},
    ):  # fmt: skip
        (tmp_path / "ablations.json").write_text(json.dumps(bad))
        with pytest.raises(ablations.BadIndex):
            ablations.read(tmp_path)
    (tmp_path / "ablations.json").write_text(json.dumps({**good, "variants": [row]}))
    assert ablations.read(tmp_path) == [row]


def test_a_shared_folder_is_timed_once_and_told_for_both(package, tmp_path):
    row = {
        "kernel": "gemm",
        "target": "sm_90a",
        "axis": "product",
        "setting": "as built",
        "folder": package.name,
    }
    other = {**row, "axis": "specialisation", "setting": "always"}
    gone = {**row, "axis": "fences", "setting": "x", "folder": None, "reason": "no shape"}
    index = {"titan": "1", "kind": "ablations", "variants": [row, other, gone]}
    shutil.copytree(package, tmp_path / package.name)
    (tmp_path / "ablations.json").write_text(json.dumps(index))
    count = tmp_path / "count"
    code = f"(open({str(count)!r}, 'a').write(kind + ' '), {GOOD})[1]"
    rows = list(ablations.run(tmp_path, FACTS, SMALL, **fake(code)))
    assert count.read_text().split().count("measure") == 1
    assert "peer" not in count.read_text()
    assert [row["against_product"] for row in rows] == [1.0, 1.0, None]
    assert rows[2]["state"] == "not built"
    assert "no shape" in ablations.line(rows[2])
    assert "1.00 of the speed of the product" in ablations.line(rows[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "x.json"], "prepared variants"),
        (["--size", "M"], "not sizes"),
        (["--size", "M=x"], "not sizes"),
        ([], "no device"),
    ],
)
def test_bad_usage_and_no_device(package, arguments, message, capsys):
    code = titan(["bench", str(package), *arguments])
    if not arguments and code != 2:
        pytest.skip("there is a GPU")
    assert code == 2
    assert message in capsys.readouterr().err
