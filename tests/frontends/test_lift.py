"""PTX to a kernel file and back: the text, the verdict for any number, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.frontends.test_verify_code import BROKEN, LAUNCH, ring, verified
from titan.cli.lift import lift
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.code_mutants import mutants_of
from titan.frontends.verify_code import CodeOptions
from titan.isa.ptx.parse import parse_source
from titan.language.kernel.decode import decode_text
from titan.language.kernel.standard import standard_form
from titan.verify.engines import VerifyBudget, run_order
from titan.verify.model import VerifyOptions
from titan.verify.mutate.decide import decide
from titan.verify.mutate.mutants import mutants_of as mutants_of_program
from titan.verify.pipeline import verify_kernel

pytest.importorskip("titan.engines.explore._core")
QUIET = VerifyOptions(require="any", save_traces=None)


def lifted(text: str, tmp_path: Path, *more: str):
    code = tmp_path / "ring.ptx"
    code.write_text(text)
    (tmp_path / "ring.launch.yaml").write_text(LAUNCH)
    return CliRunner().invoke(lift, [str(code), *more], standalone_mode=False)


def verdict_on(text: str) -> Verdict:
    family, errors = decode_text(text)
    assert family is not None, errors
    return verify_kernel(family.kernels[0], QUIET).verdict


def test_any_number_of_trips_is_verified_and_says_from_which_launches():
    finding = verified(ring(), require="any", ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters == (("number of trips (parameter 1 = 1 a trip)", None),)
    assert finding.coverage.minimums[0][1] == 0
    (note,) = [note for note in finding.notes if note.startswith("lifted along")]
    assert "from launches of 5..8 trips" in note
    assert "equal to those of 0..4, 9..13 trips" in note


def test_the_file_is_readable_and_gives_the_same_verdict(tmp_path):
    result = lifted(ring(), tmp_path)
    assert result.exception is None and result.return_value == 0, result.output
    text = result.stdout
    for line in (
        "sizes: {trips: {any: true, minimum: 0}}",
        "    - for: r in 0..trips",
        "        - wait: empty[r % 2]  # line 51, ring.cu:20",
        "          phase: r // 2 - 1",
        "          completes: full[r % 2]",
    ):
        assert line in text.splitlines(), text
    assert standard_form(text) == (text, [])
    assert verdict_on(text) is Verdict.VERIFIED


def test_the_file_is_written_where_it_is_wanted(tmp_path):
    output = tmp_path / "kernel.yaml"
    result = lifted(ring(), tmp_path, "-o", str(output))
    assert result.return_value == 0
    assert verdict_on(output.read_text()) is Verdict.VERIFIED


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refuted_through_the_file(name, tmp_path):
    """Faults of the machine itself (bounds, alignment) are no part of a kernel file."""
    old, new, codes = BROKEN[name]
    result = lifted(ring().replace(old, new, 1), tmp_path)
    if codes & {"TTN218", "TTN219"} or result.return_value != 0:
        assert "refuted by itself" in result.output or result.return_value == 3
        return
    assert verdict_on(result.stdout) is Verdict.REFUTED


def test_what_verified_launches_do_not_show_is_confirmed_by_one_that_does():
    """Trip 10 lacks its release: launches around the depth of two do not come to it."""
    text = ring().replace(
        "\tmbarrier.arrive.shared.b64 _, [%r11];",
        "\tsetp.ne.u32 %p6, %r7, 9;\n\t@%p6 mbarrier.arrive.shared.b64 _, [%r11];",
        1,
    )
    finding = verified(text, LAUNCH.replace("n: 5", "n: 4"), require="any", ctas=(0,))
    assert finding.verdict is not Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("\tadd.u32 %r7, %r7, 1;\n\tbra PRODUCER;",
         "\tmul.lo.u32 %r13, %r7, %r7;\n\tadd.u32 %r7, %r7, 1;\n\tsetp.eq.u32 %p6, %r13, 36;\n"
         "\t@%p6 fence.proxy.async;\n\tbra PRODUCER;", "another path"),
    ],
)  # fmt: skip
def test_what_cannot_be_folded_is_refused_with_its_line(old, new, reason, tmp_path):
    text = ring()
    assert old in text
    result = lifted(text.replace(old, new, 1), tmp_path)
    assert result.return_value == 3
    assert reason in result.output and "line" in result.output
    finding = verified(text.replace(old, new, 1), require="any", ctas=(0,))
    assert finding.verdict is Verdict.UNDECIDED
    assert finding.narrowing is not None and reason in finding.narrowing.because


TILE = "\tmul.wide.u32 %rd4, %r7, 1024;\n\tadd.s64 %rd5, %rd1, %rd4;\n"  # another each trip
STORE = """
\tand.b32 %r24, %r2, 31;
\tsetp.eq.u32 %p7, %r24, 0;
\tmad.lo.u32 %r26, %r8, 1024, %r4;
\t@%p7 cp.async.bulk.global.shared::cta.bulk_group [%rd5+1048576], [%r26], 1024;
\t@%p7 cp.async.bulk.commit_group;
\t@%p7 cp.async.bulk.wait_group.read 0;
"""


def with_output(clash: str = "") -> str:
    """The consumer copies each tile to the output. `clash`: instructions that set %p6, under which
    the producer stores to the same bytes; nothing orders the two."""
    old = "\tmbarrier.arrive.shared.b64 _, [%r11];"
    text = ring().replace(old, f"{TILE}{STORE}{old}", 1)
    if clash:
        old = "\tadd.u32 %r7, %r7, 1;\n\tbra PRODUCER;"
        both = f"{TILE}{clash}\t@%p6 st.global.u32 [%rd5+1048576], %r7;\n{old}"
        text = text.replace(old, both, 1)
    return text


def test_another_tile_of_output_in_each_trip_is_any_number():
    finding = verified(with_output(), require="any", ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters == (("number of trips (parameter 1 = 1 a trip)", None),)
    (note,) = [note for note in finding.notes if note.startswith("lifted along")]
    assert note.endswith("that further trips store to other bytes is assumed")


@pytest.mark.parametrize(
    "clash",
    [
        "\tsetp.eq.u32 %p6, %r7, 0;\n",
        "\tadd.u32 %r25, %r7, 1;\n\tsetp.eq.u32 %p6, %r25, %r1;\n",
        "\tand.b32 %r25, %r7, 1;\n\tsetp.eq.u32 %p6, %r25, 1;\n",
    ],
    ids=["first trip", "last trip", "odd trips"],
)
def test_a_race_on_a_tile_of_output_is_refuted(clash):
    finding = verified(with_output(clash), require="any", ctas=(0,))
    assert finding.verdict is Verdict.REFUTED
    assert finding.diagnostics[0].headline.startswith("global+")


def test_code_without_loops_has_no_open_number(tmp_path):
    text = ring().replace("\tbra PRODUCER;", "").replace("\tbra CONSUMER;", "")
    text = text.replace("setp.ge.u32 %p4, %r7, %r1", "setp.ge.u32 %p4, %r7, 1")
    finding = verified(text, require="any", ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters == ()


def test_a_loop_that_nothing_drives_is_not_any_number():
    text = ring().replace("setp.ge.u32 %p4, %r7, %r1", "setp.ge.u32 %p4, %r7, 3")
    finding = verified(text, require="any", ctas=(0,))
    assert finding.verdict is Verdict.UNDECIDED
    assert "no parameter was found that drives the loops" in finding.narrowing.because


def test_what_kills_a_mutant_for_some_numbers_kills_it_for_any(tmp_path):
    """Every mutant of the lifted file: happens-before for some sizes against every number."""
    family, _ = decode_text(lifted(ring(), tmp_path).stdout)
    program = family.kernels[0].program
    killed = 0
    for mutant in mutants_of_program(program):
        bounded = run_order(mutant.program, VerifyBudget(steps=20_000))
        if bounded.verdict is Verdict.REFUTED:
            killed += 1
            assert decide(mutant.program).verdict is Verdict.REFUTED, (mutant.what, mutant.where)
    assert killed > 40


@pytest.mark.heavy
def test_every_mutant_of_the_code_is_killed_through_the_lift(tmp_path):
    source = Source("ring.ptx", ring())
    module, _ = parse_source(source)
    survived = []
    for mutant in mutants_of(module, source, module.entries()[0]):
        result = lifted(mutant.text, tmp_path)
        by_itself = result.return_value != 0 or "refuted by itself" in result.output
        if not by_itself and verdict_on(result.stdout) is not Verdict.REFUTED:
            survived.append((mutant.line, mutant.name, mutant.kind))
    assert survived == []


def test_bad_input_is_refused(tmp_path):
    result = lifted("not ptx", tmp_path)
    assert result.return_value == 2
    result = lifted(ring(), tmp_path, "--cta", "4")
    assert result.return_value == 2 and "the launch has 4 CTAs" in result.output
    assert CodeOptions().require == "bounded"


def test_several_files_are_verified_at_the_same_time(tmp_path):
    from titan.cli.verify import verify

    broken = ring().replace("\tbar.sync 0;", "", 1)
    for name, text in (("a", ring()), ("b", broken), ("c", ring())):
        (tmp_path / f"{name}.ptx").write_text(text)
        (tmp_path / f"{name}.launch.yaml").write_text(LAUNCH)
    paths = [str(tmp_path / f"{name}.ptx") for name in "abc"]
    arguments = [*paths, "--format", "concise"]
    one = CliRunner().invoke(verify, arguments, standalone_mode=False)
    two = CliRunner().invoke(verify, [*arguments, "-j", "2"], standalone_mode=False)
    assert one.return_value == two.return_value == 1
    assert one.output == two.output
