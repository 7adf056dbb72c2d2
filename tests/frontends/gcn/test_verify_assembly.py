"""Verdicts on AMD assembly by hand: clean code is verified, and each planted fault is found."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.frontends.gcn.texts import RING, kernel
from titan.cli.main import run
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.gcn.verify import verify_assembly
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.assembly import parse_assembly
from titan.validate.compare.gcn_compile import CLANG

LAUNCH = "{grid: 2, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
ONE_WAVE = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"


def judged(text, launch=LAUNCH, **options):
    described, errors = read_launch_text(launch, "launch.yaml")
    assert described is not None, errors
    (finding,) = verify_assembly(Source("k.s", text), described, CodeOptions(**options), [], 0.0)
    return finding


def line_of(text, part):
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


def test_a_ring_is_verified_and_its_wait_is_a_virtual_token():
    finding = judged(RING)
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert finding.coverage.roles == (("wave", 2, 64),)
    text = "vmcnt(1) waits for all but the youngest stage (1 operation a stage)"
    assert f"line {line_of(RING, 'vmcnt(1)')}: {text}" in finding.notes


def test_a_sweep_finds_the_trip_count():
    finding = judged(RING, sweep=True)
    assert finding.verdict is Verdict.VERIFIED
    assert any("parameter 1 drives a loop, 1 a trip" in note for note in finding.notes)
    assert any("trips" in launch for launch in finding.coverage.launches)


@pytest.mark.parametrize(
    ("left_out", "number", "code"),
    [
        ("\ts_waitcnt vmcnt(1)\n", 0, "TTN203"),  # the copy may not have landed
        ("\ts_barrier\n", 0, "TTN203"),  # of the other wave, neither
        ("\ts_barrier\n", 1, "TTN202"),  # the next copy overwrites what is still read
        ("\ts_waitcnt lgkmcnt(0)\n", 1, "TTN217"),  # v8 is read too early
        ("\ts_waitcnt lgkmcnt(0)\n", 0, "TTN217"),  # s6 is compared too early
    ],
)
def test_every_wait_and_barrier_is_needed(left_out, number, code):
    at = -1
    for _ in range(number + 1):
        at = RING.index(left_out, at + 1)
    finding = judged(RING[:at] + RING[at + len(left_out) :])
    assert finding.verdict is Verdict.REFUTED
    assert code in {item.code for item in finding.diagnostics}
    assert all(item.span.start_line > 3 for item in finding.diagnostics)


def test_all_mutants_die():
    found, _ = parse_assembly(Source("k.s", RING))
    mutants = list(assembly_mutants(found, Source("k.s", RING), found.kernels[0]))
    assert len(mutants) == 10
    verdicts = {(item.name, item.kind): judged(item.text).verdict for item in mutants}
    assert set(verdicts.values()) == {Verdict.REFUTED}, verdicts


def test_a_missing_argument_is_asked_for():
    finding = judged(RING, "{grid: 1, block: 128, parameters: [pointer]}")
    assert finding.verdict is Verdict.REFUSED
    (question,) = finding.diagnostics
    assert question.code == "TTN018"
    assert "parameter 1 (trips), 4 bytes at offset 8" in question.headline


@pytest.mark.parametrize(
    ("condition", "branch", "verdict"),
    [
        # Of one lane, so that the wave goes one way; of a mask in which lanes differ.
        ("v_readfirstlane_b32 s6, v2\ns_cmp_eq_u32 s6, 0", "scc1", Verdict.VERIFIED),
        ("v_cmp_eq_u32_e32 vcc, 0, v2", "vccnz", Verdict.UNDECIDED),
    ],
)
def test_control_by_data_is_not_guessed(condition, branch, verdict):
    text = kernel(
        f"""s_load_dwordx2 s[4:5], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_waitcnt lgkmcnt(0)
        global_load_dword v2, v1, s[4:5]
        s_waitcnt vmcnt(0)
        {condition}
        s_cbranch_{branch} .Lout
        s_barrier
        .Lout:"""
    )
    finding = judged(text.replace("\t.Lout:", ".Lout:"), ONE_WAVE)
    assert finding.verdict is verdict, finding.notes
    asked = any("depends on memory that global_load_dword reads" in n for n in finding.notes)
    assert asked is (verdict is Verdict.UNDECIDED)


@pytest.mark.parametrize("reads_behind", [False, True])
def test_control_by_data_is_tried_both_ways(reads_behind):
    """A barrier that data leave out orders nothing that stands behind it."""
    wave, behind = "v_lshlrev_b32_e32 v1, 2, v0\n", "s_nop 0"
    if reads_behind:
        wave += "ds_write_b32 v1, v0\n"
        behind = "v_xor_b32_e32 v3, 256, v1\nds_read_b32 v4, v3\ns_waitcnt lgkmcnt(0)"
    text = kernel(
        f"""s_load_dwordx2 s[4:5], s[0:1], 0x0
        {wave}s_waitcnt lgkmcnt(0)
        global_load_dword v2, v1, s[4:5]
        s_waitcnt vmcnt(0)
        v_readfirstlane_b32 s6, v2
        s_cmp_eq_u32 s6, 0
        s_cbranch_scc1 .Lout
        s_barrier
        .Lout:
        {behind}""",
        threads=128,
    )
    launch = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
    finding = judged(text.replace("\t.Lout:", ".Lout:"), launch)
    assert finding.verdict is (Verdict.UNDECIDED if reads_behind else Verdict.VERIFIED)
    if not reads_behind:
        assert any("a branch on data with barriers in its arms" in note for note in finding.notes)


def test_a_step_budget_ends_a_run():
    text = kernel(
        "s_mov_b32 s6, 1\n.Lagain:\ns_add_u32 s6, s6, 1\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc0 .Lagain"
    )
    finding = judged(text.replace("\t.Lagain:", ".Lagain:"), ONE_WAVE, steps_max=1000)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("has not ended after 1000" in note for note in finding.notes)


def test_a_budget_of_events_ends_a_run(monkeypatch):
    monkeypatch.setattr("titan.isa.waves.machine.EVENTS_MAX", 1000)
    text = kernel(".Lagain:\nds_write_b32 v0, v0\ns_waitcnt lgkmcnt(0)\ns_branch .Lagain")
    finding = judged(text.replace("\t.Lagain:", ".Lagain:"), ONE_WAVE)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("recorded up to 1,00" in note for note in finding.notes)


def test_lds_has_an_end():
    finding = judged(RING.replace("0x400, v2", "0x1400, v2"))
    assert finding.verdict is Verdict.REFUTED
    assert "TTN218" in {item.code for item in finding.diagnostics}


def test_waves_that_end_early_do_not_hold_others_up():
    text = kernel(
        """v_readfirstlane_b32 s6, v0
        v_lshlrev_b32_e32 v1, 2, v0
        s_cmp_lt_u32 s6, 64
        s_cbranch_scc1 .Lfirst
        ds_write_b32 v1, v0
        s_endpgm
        .Lfirst:
        s_barrier
        ds_read_b32 v2, v1 offset:256
        s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v3, v2
        s_endpgm""",
        threads=128,
    ).replace("\t.Lfirst:", ".Lfirst:")
    assert judged(text).verdict is Verdict.VERIFIED
    race = text.replace("\ts_barrier\n", "\ts_nop 0\n")
    assert judged(race).verdict is Verdict.REFUTED


@pytest.mark.parametrize("target", ["gfx1100", "gfx1201", "gfx90c", "gfx1030", "gfx908"])
@pytest.mark.parametrize("line", ["s_barrier", "s_load_b64 s[4:5], s[0:1], 0x0"])
def test_other_targets_are_refused_by_name(target, line):
    """And by nothing else, though their instructions are not known either."""
    text = RING.replace("--gfx950", f"--{target}").replace("s_barrier", line)
    finding = judged(text)
    assert finding.verdict is Verdict.REFUSED
    (item,) = finding.diagnostics
    assert f"assembly of {target} is not read, only of `gfx90a`, `gfx942`" in item.headline


def test_the_command(tmp_path, capsys):
    (tmp_path / "ring.s").write_text(RING)
    (tmp_path / "ring.launch.yaml").write_text(LAUNCH)
    assert run(["verify", str(tmp_path / "ring.s")]) == 0
    output = capsys.readouterr().out
    assert "VERIFIED ring" in output
    assert "2 × wave (64 threads)" in output
    (tmp_path / "ring.s").write_text(RING.replace("s_barrier", "s_barier"))
    assert run(["verify", str(tmp_path / "ring.s")]) == 2
    assert "did you mean `s_barrier`?" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
def test_the_ring_assembles(tmp_path):
    place = tmp_path / "ring.s"
    place.write_text(RING)
    command = [CLANG, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx950", "-c", str(place)]
    made = subprocess.run(
        [*command, "-o", str(tmp_path / "ring.o")], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr


THROUGH_LDS = kernel(
    """v_readfirstlane_b32 s6, v0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, 7
    s_cmp_lg_u32 s6, 0
    s_cbranch_scc1 .Lother
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    .Lother:
    s_barrier
    ds_read_b32 v3, v1
    s_waitcnt lgkmcnt(0)
    v_readfirstlane_b32 s7, v3
    s_cmp_eq_u32 s7, 7
    s_cbranch_scc1 .Lend
    ds_read_b32 v3, v1 offset:4092
    .Lend:""",
    threads=128,
).replace("\t.L", ".L")


def test_words_in_lds_may_steer_where_no_race_decides_them():
    assert judged(THROUGH_LDS).verdict is Verdict.VERIFIED
    racing = judged(THROUGH_LDS.replace("\ts_barrier\n", ""))
    assert racing.verdict is Verdict.REFUTED
    assert {item.code for item in racing.diagnostics} <= {"TTN202", "TTN203"}
    unknown = judged(THROUGH_LDS.replace("v_mov_b32_e32 v2, 7", "v_exp_f32_e32 v2, v0"))
    assert unknown.verdict is Verdict.UNDECIDED


def test_a_race_at_an_unknown_address_is_undecided():
    text = kernel(
        """s_load_dwordx2 s[4:5], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_waitcnt lgkmcnt(0)
        global_load_dword v2, v1, s[4:5]
        s_waitcnt vmcnt(0)
        ds_write_b32 v1, v0
        ds_read_b32 v3, v2
        s_waitcnt lgkmcnt(0)""",
        threads=128,
    )
    finding = judged(text)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("may touch all" in note for note in finding.notes)
    assert judged(text.replace("\tds_write_b32 v1, v0\n", "")).verdict is Verdict.VERIFIED


def test_scalar_loads_of_what_a_wave_stores_race():
    text = kernel(
        """s_load_dwordx2 s[4:5], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v0, s[4:5]
        s_load_dword s6, s[4:5], 0x0
        s_waitcnt lgkmcnt(0)"""
    )
    assert judged(text, ONE_WAVE).verdict is Verdict.REFUTED
    waited = text.replace(
        "s[4:5]\n\ts_load_dword", "s[4:5]\n\ts_waitcnt vmcnt(0)\n\ts_dcache_inv\n\ts_load_dword"
    )
    assert judged(waited, ONE_WAVE).verdict is Verdict.VERIFIED
