"""`make report`: what is measured without a device, and that results of a device fill the page."""

from __future__ import annotations

import copy
import json

import pytest

from benchmarks.evaluation import banks, correctness, performance
from benchmarks.evaluation.__main__ import stored
from benchmarks.evaluation.correctness import slowed
from benchmarks.evaluation.page import QUESTIONS, documents, page
from benchmarks.evaluation.pipelines import library, one_transfer_at_a_time
from benchmarks.evaluation.tables import NOT_RUN, data, from_data
from benchmarks.evaluation.timed import TENSOR, timed, trips
from tests.device.compared import compare
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, build
from titan.codegen.pipeline.fencing import conservative

KEPT = [from_data(item) for item in stored()["tables"]]


def test_stalls_grow_smoothly_with_imbalance_and_no_run_goes_wrong():
    """A1: the slower the consumers, the longer an acquire; more stages never make it longer."""
    stalls = {}
    for depth in (2, 4):
        for factor in (1, 2, 4):
            run = slowed("gemm", depth, factor)
            assert run.fault is None
            stalls[depth, factor] = run.stall("producer")
    for depth in (2, 4):
        assert stalls[depth, 1] < stalls[depth, 2] < stalls[depth, 4]
    assert all(stalls[4, factor] <= stalls[2, factor] for factor in (1, 2, 4))
    assert slowed("gemm", 2, 4, broken=True).fault is not None


def test_a_timed_run_does_what_units_can():
    """The tensor core never works longer than the run, and all of the work is done."""
    made = library("gemm")
    shape = next(iter(made.shapes()))
    program = made.program(shape)
    run = timed(program, trips(program, 10), made.costs)
    assert run.busy[TENSOR] == 10 * made.tile.groups * made.costs.product_cycles
    assert 0.5 < run.overlap <= 1 and run.fault is None
    longer = timed(program, trips(program, 20), made.costs)
    assert longer.overlap > run.overlap, "fill and drain weigh less"


def test_conservative_fences_cost_overlap():
    """B4, on the machine description."""
    made = library("gemm")
    shape = next(iter(made.shapes()))
    runs = []
    for edit in (lambda document: document, conservative):
        program = made.program(shape, edit)
        runs.append(timed(program, trips(program, 12), made.costs))
    assert runs[1].overlap < runs[0].overlap


def test_counted_waits_leave_copies_in_flight_and_stall_least():
    """C1: the mapping, full waits, one transfer at a time: waits, stalls, copies in flight."""
    names = ("gemm_small_tiles_gfx942",)  # the page has more
    rows = [row for row in performance.counters(names).rows if row[4] is not None]
    by = {(row[0], row[2]): row for row in rows}
    for name in names:
        mapped, full, alone = (
            by[name, form] for form in ("virtual tokens", "full waits", "one transfer at a time")
        )
        assert mapped[4] < full[4] < alone[4] and mapped[3] < alone[3]
        assert mapped[5] > full[5] == alone[5] == 0
        assert {mapped[7], full[7], alone[7]} == {"none"}


@pytest.mark.parametrize("form", [
    "virtual tokens", pytest.param("full waits", marks=pytest.mark.heavy), "one transfer at a time",
])  # fmt: skip
def test_the_three_ways_of_waiting_are_kernels_with_the_right_numbers(form):
    """C1 as kernels: verified, emitted, run without a GPU."""
    made = library("gemm_small_tiles_gfx942", "gfx942", 3)
    serial = form == "one transfer at a time"
    hooks = BuildHooks(
        only=lambda shape: shape.overlapped is not (form == "full waits"),
        edit=one_transfer_at_a_time if serial else lambda document: document,
    )
    built = build(made.tile, "", BuildLimits(5.0), hooks)
    emitted = emit(built.tile, built.kernel, built.program)
    found = compare(built.tile, emitted.files, emitted.manifest, {"M": 72, "N": 40, "K": 136})
    assert found.same


def test_bank_conflicts_are_those_of_the_hardware():
    """8 rows of 128 bytes without swizzle meet in 4 banks; the swizzle or 16 bytes spread them."""
    rows = {(r.access, r.row_bytes, r.swizzle, r.pad_bytes): r.cycles for r in banks.table()}
    access = "8 rows of 16 bytes"
    assert rows[access, 128, "none", 0] == 8
    assert rows[access, 128, "128B", 0] == rows[access, 128, "none", 16] == 1
    assert rows["a column", 128, "none", 0] == 32 and rows["a column", 128, "none", 4] == 1
    assert banks.cycles([0, 0, 128]) == 2 and banks.cycles([0, 4, 8]) == 1


def test_every_question_has_its_tables_and_says_where_no_device_was():
    text = page(KEPT, [])
    for question in QUESTIONS:
        part = text.partition(f"<h2 id='{question}'>")[2].partition("<h2 id=")[0]
        assert NOT_RUN in part, question
    have = {table.question for table in KEPT}
    assert have >= set(QUESTIONS) - {"A2", "A3", "A4", "A5"} and stored()["stress"]["runs"] > 0
    assert not stored()["stress"]["safe_failures"]
    assert "<script" not in text and "http" not in text


def test_kept_tables_are_those_of_the_modules():
    produced = correctness.TABLES + performance.TABLES
    assert {question for question, _ in produced} == {table.question for table in KEPT}
    again = correctness.bank_conflicts()
    assert from_data(json.loads(json.dumps(data(again)))) == again
    assert again in KEPT


def suite():
    """A result of a device as `make device` writes it, with one package and one ablation."""
    timed_row = {
        "package": "gemm", "target": "sm_90a", "sizes": {"M": 8192}, "state": "timed",
        "seconds": 1e-3, "teraflops": 612.5, "gigabytes": 700.0, "peer": "cuBLAS",
        "peer_seconds": 9e-4, "ratio": 0.9, "predicted_cycles": 512, "measured_cycles": 600.0,
        "steady_cycles": 560.0, "tail_share": 0.125, "wave_share": 0.1, "occupancy": 0.25,
        "registers": 168, "spilled_bytes": 0, "shared_bytes": 1, "fences": 1, "barriers": 1,
        "message": "",
    }  # fmt: skip
    more = {"about": "", "shape": "", "compiled": None, "against_product": 0.95}
    variants = [
        {**timed_row, **more, "axis": axis, "setting": setting}
        for axis, setting in (("product", "as built"), ("fences", "conservative"))
    ]
    device = {"name": "Planted H100"}
    base = {"date": "2026-01-01", "device": device}
    stress = {
        **base, "kind": "stress", "runs": 4321, "not_run": 0, "safe_failures": [],
        "unsafe_variants": 1, "unsafe_seen_to_fail": 1, "skipped": [],
        "rows": [{
            "package": "gemm", "depth": 4, "variant": "safe", "runs": 1, "trips": [1],
            "states": {"correct": 1}, "seen_to_fail": 0, "first": "", "policies": {}, "stalls": [],
            "imbalance": [{"knob": "bank-conflicts", "points": [
                {"amount": 0, "delay_cycles": None, "producer_cycles": 77.0},
                {"amount": 8, "delay_cycles": 256.0, "producer_cycles": 333.0},
            ]}],
        }],
    }  # fmt: skip
    probe = {
        "probe": "fence_cost", "facts": ["A6"], "asks": "?", "state": "answered",
        "answer": "a fence takes a cycle or less", "means": "-", "counters": {"rounds": 8},
        "message": "",
    }  # fmt: skip
    return {
        **base, "kind": "device", "stress": stress,
        "bench": {**base, "kind": "bench", "rows": [timed_row]},
        "ablations": {**base, "kind": "ablations", "rows": variants},
        "probes": {**base, "kind": "probes", "probes": [probe]},
    }  # fmt: skip


def parts(text):
    return {
        question: text.partition(f"<h2 id='{question}'>")[2].partition("<h2 id=")[0]
        for question in QUESTIONS
    }


def test_a_planted_result_of_a_device_fills_the_page(tmp_path):
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "2026-01-01.json").write_text(json.dumps(suite()))
    (tmp_path / "other.json").write_text("[]")
    found = documents(tmp_path)
    assert len(found) == 1
    before, after = parts(page(KEPT, [])), parts(page(KEPT, found))
    assert "Planted H100" in page(KEPT, found)
    assert "612.5" in after["B1"] and "612.5" not in before["B1"] and "12.5%" in after["B1"]
    assert "91.4% of the tensor core" in after["B4"]  # 512 of 560 cycles
    assert "4321 runs" in after["A2"] and "333" in after["A1"]
    assert "a fence takes a cycle or less" in after["A6"]
    assert "conservative" in after["B4"].partition("measured on")[2]
    for question in ("A2", "A3", "A5"):
        assert NOT_RUN in before[question] and NOT_RUN not in after[question]
    assert NOT_RUN in after["C1"], "no device of AMD"


def test_rows_of_other_packages_stay_as_they_are():
    changed = copy.deepcopy(suite())
    changed["bench"]["rows"][0]["package"] = "no_such_package"
    changed["ablations"]["rows"] = []
    before, after = parts(page(KEPT, [])), parts(page(KEPT, [changed]))
    (table,) = (t for t in KEPT if t.question == "B1")
    assert before["B1"].count(NOT_RUN) == after["B1"].count(NOT_RUN) + 1 and table.rows
