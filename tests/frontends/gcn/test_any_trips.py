"""AMD assembly for any number of trips: lifted, verified as a kernel file, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.frontends.gcn.test_random_waves import PROLOGUE, Drawn, races
from tests.frontends.gcn.test_verify_assembly import LAUNCH, judged
from tests.frontends.gcn.texts import RING, kernel
from titan.cli.lift import lift
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.loops import first_loop, loops_of
from titan.language.kernel.decode import decode_text
from titan.language.kernel.standard import standard_form
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

pytest.importorskip("titan.engines.explore._core")
QUIET = VerifyOptions(require="any", save_traces=None)
PROGRAMS, TRIPS = 20, 6
TWO_WAVES = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"


def any_trips(text, launch=LAUNCH):
    return judged(text, launch, require="any")


def lifted(text: str, tmp_path: Path, launch: str = LAUNCH):
    code = tmp_path / "ring.s"
    code.write_text(text)
    (tmp_path / "ring.launch.yaml").write_text(launch)
    return CliRunner().invoke(lift, [str(code)], standalone_mode=False)


def finding_on(text: str, options: VerifyOptions = QUIET):
    family, errors = decode_text(text)
    assert family is not None, errors
    return verify_kernel(family.kernels[0], options)


def test_any_number_of_trips_is_verified_and_says_from_which_launches():
    finding = any_trips(RING)
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    assert finding.coverage.parameters == (("number of trips (parameter 1 = 1 a trip)", None),)
    assert finding.coverage.minimums[0][1] == 0
    (note,) = [note for note in finding.notes if note.startswith("lifted along")]
    assert "folded from launches of 5..8 trips" in note
    assert "equal to those of 1..4, 9..15 trips" in note


def test_that_further_trips_do_the_same_is_shown():
    finding = judged(RING, require="any")
    assert finding.verdict is Verdict.VERIFIED, finding.narrowing
    (note,) = [note for note in finding.notes if note.startswith("lifted along")]
    assert "shown to continue so for all further ones by induction over 4 trips" in note


def test_the_file_is_readable_and_gives_the_same_verdict(tmp_path):
    result = lifted(RING, tmp_path)
    assert result.exception is None and result.return_value == 0, result.output
    text = result.stdout
    for line in (
        "  s_barrier: {scope: cta}",
        "  vmcnt: {grouped: false, ordered: true, pipelined: true}",
        "  wave_0: {warps: 1}",
        "        - sync: s_barrier",
        "          threads: 128",
        "          leaving: 1",
    ):
        assert any(found.startswith(line) for found in text.splitlines()), text
    assert standard_form(text) == (text, [])
    assert finding_on(text).verdict is Verdict.VERIFIED


def test_mutants_are_refuted_through_the_file_or_by_the_machine(tmp_path):
    """Registers are no part of a kernel file: of them the launches alone decide."""
    found, _ = parse_assembly(Source("k.s", RING))
    for mutant in assembly_mutants(found, Source("k.s", RING), found.kernels[0]):
        codes = {item.code for item in judged(mutant.text).diagnostics}
        result = lifted(mutant.text, tmp_path)
        assert result.return_value == 0, (mutant.line, result.output)
        assert "is refuted by itself" in result.output
        finding = finding_on(result.stdout)
        if codes == {"TTN217"}:
            assert finding.verdict is Verdict.VERIFIED, (mutant.line, mutant.kind)
        else:
            assert finding.verdict is Verdict.REFUTED, (mutant.line, mutant.kind, codes)
        assert any_trips(mutant.text).verdict is Verdict.REFUTED


def test_what_only_a_longer_launch_does_is_not_passed_over():
    """The barrier is left out nine trips before the end."""
    text = RING.replace(
        "\tv_add_u32_e32 v4, s8, v3\n",
        "\ts_cmp_eq_u32 s6, 2\n\ts_cbranch_scc1 .Lover\n\ts_nop 0\n.Lover:\n"
        "\tv_add_u32_e32 v4, s8, v3\n",
    )
    assert any_trips(text).verdict is Verdict.VERIFIED  # `s_nop` synchronises nothing
    skipped = RING.replace(
        "\ts_barrier\n\tv_add_f32",
        "\ts_cmp_eq_u32 s6, 9\n\ts_cbranch_scc1 .Lover\n\ts_barrier\n.Lover:\n\tv_add_f32",
    )
    assert skipped != RING
    assert judged(skipped).verdict is Verdict.VERIFIED
    assert any_trips(skipped).verdict is Verdict.REFUTED


def test_what_cannot_be_folded_is_refused_with_its_line(tmp_path):
    """A barrier more in trips 3, 5 and 11, whose squares have bit 3."""
    text = RING.replace(
        "\ts_sub_i32 s6, s6, 1\n",
        "\ts_add_i32 s20, s20, 1\n\ts_mul_i32 s21, s20, s20\n\ts_bitcmp1_b32 s21, 3\n"
        "\ts_cbranch_scc0 .Lover\n\ts_barrier\n.Lover:\n\ts_sub_i32 s6, s6, 1\n",
    ).replace("\ts_mov_b32 s8, 0\n", "\ts_mov_b32 s8, 0\n\ts_mov_b32 s20, 0\n")
    result = lifted(text, tmp_path)
    assert result.return_value == 3
    reason = "does not repeat at a fixed distance (wave 0, line"
    assert reason in result.output
    finding = any_trips(text)
    assert finding.verdict is Verdict.UNDECIDED
    assert reason in finding.narrowing.because


# A branch back from rare code behind the end closes no loop.
OUT_OF_LINE = """s_load_dword s6, s[0:1], 0x8
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s6, 3
s_cbranch_scc1 .Lrare
.Lback:
s_endpgm
.Lrare:
s_nop 0
s_branch .Lback
"""
# Three rounds, whatever the launch says.
FIXED = """s_mov_b32 s6, 3
.Lagain:
s_sub_i32 s6, s6, 1
s_cmp_lg_u32 s6, 0
s_cbranch_scc1 .Lagain
"""


def test_loops_are_cycles():
    for lines, line in ((OUT_OF_LINE, None), (FIXED, 8), ("s_nop 0", None)):
        found, errors = parse_assembly(Source("k.s", kernel(lines)))
        assert found is not None, errors
        assert first_loop(found, found.kernels[0]) == line


def test_a_loop_may_be_entered_behind_its_head():
    """What is in front of the entry is no part of it."""
    text = "s_mov_b32 s6, 3\ns_branch .Lin\n.Lagain:\ns_sub_i32 s6, s6, 1\n.Lin:\n"
    found, errors = parse_assembly(
        Source("k.s", kernel(text + "s_cmp_lg_u32 s6, 0\ns_cbranch_scc1 .Lagain\n"))
    )
    assert found is not None, errors
    assert loops_of(found, found.kernels[0]) == {2: frozenset({2, 3, 4})}


def test_without_loops_there_is_no_number_and_with_a_fixed_one_it_is_not_known():
    launch = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
    assert any_trips(kernel(OUT_OF_LINE), launch).verdict is Verdict.VERIFIED
    finding = any_trips(kernel(FIXED), launch)
    assert finding.verdict is Verdict.UNDECIDED
    assert "no parameter was found that drives the loops" in finding.narrowing.because


def test_the_depth_is_the_period_of_what_is_touched():
    finding = judged(RING, sweep=True)
    assert "parameter 1 drives a loop, 1 a trip; depth taken as 2" in finding.notes


# ------------------------------------------------------- random loops, against a rule on all rounds


def drawn(seed):
    """The body of a loop; `slot` counts from the stage of the trip."""
    chooser = random.Random(seed)
    kinds = ["write", "read", "copy", "vmcnt", "lgkmcnt", "barrier", "barrier", "lgkmcnt", "vmcnt"]
    steps = []
    for _ in range(chooser.randrange(4, 11)):
        slot, other = chooser.randrange(2), chooser.random() < 0.4
        steps.append(Drawn(chooser.choice(kinds), slot, other, chooser.choice([0, 0, 0, 1, 2])))
    return steps


def text_of(steps):
    lines = "s_load_dword s10, s[0:1], 0x8\n" + PROLOGUE + "s_mov_b32 s11, 0\n"
    lines += "s_cmp_lt_i32 s10, 1\ns_cbranch_scc1 .Lend\n.Lloop:\n"
    lines += "s_xor_b32 s12, s11, 0x200\n"
    for number, step in enumerate(steps):
        address, base = ("v3", "s21") if step.of_other else ("v2", "s20")
        stage = "s12" if step.slot else "s11"
        lines += f"v_add_u32_e32 v5, {stage}, {address}\n"
        match step.kind:
            case "write":
                lines += "ds_write_b32 v5, v0\n"
            case "read":
                lines += f"ds_read_b32 v{20 + number}, v5\n"
            case "copy":
                lines += f"s_add_u32 m0, {base}, {stage}\ns_nop 0\n"
                lines += "global_load_lds_dword v1, s[4:5]\n"
            case "barrier":
                lines += "s_barrier\n"
            case counter:
                lines += f"s_waitcnt {counter}({step.left})\n"
    lines += "s_mov_b32 s11, s12\ns_sub_i32 s10, s10, 1\ns_cmp_lg_u32 s10, 0\n"
    return kernel(lines + "s_cbranch_scc1 .Lloop\n.Lend:\ns_endpgm", threads=128)


def rounds(steps, trips):
    return [
        Drawn(step.kind, (step.slot + trip) % 2, step.of_other, step.left)
        for trip in range(trips)
        for step in steps
    ]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_verdict_on_a_random_loop_is_that_of_the_rule(seed):
    """Two accesses that race do so within a few rounds of each other."""
    steps = drawn(seed)
    wrong = any(races(rounds(steps, trips)) for trips in range(TRIPS + 1))
    finding = any_trips(text_of(steps), TWO_WAVES)
    if {item.code for item in finding.diagnostics} == {"TTN217"}:
        return  # a register is loaded again while it is in flight, which the rule does not know
    assert finding.verdict is (Verdict.REFUTED if wrong else Verdict.VERIFIED), finding.notes


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_file_of_a_random_loop_is_right_where_the_rule_says_so(seed, tmp_path):
    """The launches have no part in it: the file alone is judged."""
    steps = drawn(seed)
    wrong = any(races(rounds(steps, trips)) for trips in range(TRIPS + 1))
    result = lifted(text_of(steps), tmp_path, TWO_WAVES)
    assert result.return_value == 0, result.output
    assert finding_on(result.stdout).verdict is (Verdict.REFUTED if wrong else Verdict.VERIFIED)


def test_both_verdicts_occur():
    found = [any(races(rounds(drawn(seed), TRIPS)) for _ in "x") for seed in range(PROGRAMS)]
    assert 4 <= sum(found) <= PROGRAMS - 4
