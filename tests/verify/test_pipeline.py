"""Verdicts of the pipeline: what they say, for which scope, and what makes them disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.language.kernel.test_fuzz import mutants
from tests.verify import kernels
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import diagnostics_of, render
from titan.sync.fault import Fault, FaultKind, Trace
from titan.verify import judge as judging
from titan.verify.model import Decision, EngineReport, Finding, VerifyOptions
from titan.verify.pipeline import verify_file, verify_kernel
from titan.verify.tracefile import TraceFileError, load

QUICK = VerifyOptions(save_traces=None, seconds_max=20.0)


def finding_of(text: str, options: VerifyOptions = QUICK, **overrides: tuple[int, ...]) -> Finding:
    family, errors = decode_text(text, "k.yaml", overrides)
    assert family is not None, errors
    return verify_kernel(family.kernels[0], options)


@pytest.mark.parametrize("engine", ["auto", "explore", "order", "reference"])
@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [
        (kernels.GOOD, Verdict.VERIFIED, None),
        (kernels.PROTOCOL, Verdict.VERIFIED, None),
        (kernels.EARLY, Verdict.REFUTED, "TTN202"),
        (kernels.HANGS, Verdict.REFUTED, "TTN205"),
    ],
    ids=["good", "protocol", "early", "hangs"],
)
def test_every_engine_gives_the_verdict(engine: str, text: str, verdict: Verdict, code: str | None):
    finding = finding_of(text, replace(QUICK, engine=engine))
    assert finding.verdict is verdict
    assert [item.code for item in diagnostics_of(finding)] == ([code] if code else [])


def test_auto_covers_every_number_of_tiles():
    finding = finding_of(kernels.GOOD, replace(QUICK, require="any"))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters == (("tiles", None),)
    assert "any tiles, 0 included" in render([finding], "text")


def test_a_bounded_verdict_names_its_bound_and_is_not_any():
    options = replace(QUICK, engine="reference")
    finding = finding_of(kernels.GOOD, options)
    assert finding.coverage.parameters == (("tiles", tuple(range(9))),)
    assert "tiles = 0..8 only" in render([finding], "text")
    assert finding_of(kernels.GOOD, replace(options, require="any")).verdict is Verdict.UNDECIDED


def test_fixed_sizes_are_covered_alone():
    finding = finding_of(kernels.GOOD, tiles=(3,))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters == (("tiles", (3,)),)


def test_a_spent_budget_is_undecided_and_says_how_far_it_got():
    options = replace(QUICK, engine="reference", states_max=100)
    finding = finding_of(kernels.GOOD, options)
    assert finding.verdict is Verdict.UNDECIDED
    (report,) = finding.engines
    assert report.sizes == (("tiles", (0, 1)),) and "ran out" in report.remark


def test_a_kernel_that_does_nothing_is_warned_of():
    finding = finding_of(kernels.NEVER)
    assert finding.verdict is Verdict.VERIFIED
    codes = [item.code for item in finding.diagnostics]
    assert codes == ["TTN215", "TTN215"]
    assert "the role `producer` does nothing" in finding.diagnostics[0].headline
    allowed = kernels.NEVER + "allow: [{rule: TTN215, reason: a test}]\n"
    assert finding_of(allowed).diagnostics == ()


TURNS_WITHOUT_AN_OPERATION = """\
titan: 1
kernel: turns
target: sm_90a
sizes: {work: any, inner: {any: true, minimum: 1, per: w}}
barriers: {full: 1, empty: 1}
roles:
  p: {warps: 1, counters: {n: 0}}
  c: {warps: 1, counters: {n: 0}}
program:
  p:
    - for: w in 0..work
      do:
        - for: k in 4..inner
          do:
            - {wait: empty, phase: n - 1}
            - arrive: full
            - count: {n: n + 1}
  c:
    - for: w in 0..work
      do:
        - for: k in 4..inner
          do:
            - {wait: full, phase: n}
            - arrive: empty
            - count: {n: n + 1}
"""


def test_choices_of_sizes_before_the_first_operation_do_not_outlast_the_budget():
    """Both roles may pass any number of turns before they do anything: 4 choices a turn."""
    finding = finding_of(TURNS_WITHOUT_AN_OPERATION, replace(QUICK, seconds_max=1.0))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.parameters and finding.coverage.parameters[0][1] is not None


def test_weak_synchronisation_is_found_by_the_order_alone(tmp_path: Path):
    finding = finding_of(kernels.WEAK, replace(QUICK, save_traces=str(tmp_path)))
    assert finding.verdict is Verdict.REFUTED
    assert [item.code for item in diagnostics_of(finding)] == ["TTN305"]
    # The explorer leaves what weak synchronisation publishes open; happens-before decides it.
    assert [item.verdict for item in finding.engines] == [Verdict.UNDECIDED, Verdict.REFUTED]


def test_division_by_zero_is_bad_input():
    text = kernels.GOOD.replace("t % depth]", "t % (tiles - 2)]", 1)
    finding = finding_of(text, replace(QUICK, engine="reference"))
    assert finding.verdict is Verdict.REFUSED
    assert [item.code for item in finding.diagnostics] == ["TTN015"]


def test_policies_change_the_verdict_and_are_named():
    text = kernels.GOOD.replace("drain: {group, leaving: 0}", "load: A[t % depth] = t")
    text = text.replace(
        "        - {mma: A[t % depth] = t, queue: group}\n        - commit: group\n", ""
    )
    assert "mma:" not in text
    strict = finding_of(text)
    assert [item.code for item in diagnostics_of(strict)] == ["TTN302"]
    loose = finding_of(text, replace(QUICK, policies=(("war_fence", "false"),)))
    assert loose.verdict is Verdict.VERIFIED
    assert ("war_fence", "false") in loose.coverage.policies


def test_illegal_for_the_target_is_refuted_by_rule():
    text = kernels.PROTOCOL.replace("buffers: A,", "buffers: A, transport: lds_dma,")
    finding = finding_of(text)
    assert finding.verdict is Verdict.REFUTED
    assert [item.code for item in finding.diagnostics] == ["TTN401"]


def test_sweeps_give_a_finding_each(tmp_path: Path):
    path = tmp_path / "k.yaml"
    path.write_text(kernels.GOOD, encoding="utf-8")
    options = replace(QUICK, overrides=(("depth", (1, 2)), ("tiles", (0, 1))))
    findings = verify_file(str(path), options)
    assert [dict(item.coverage.sizes)["depth"] for item in findings] == [1, 1, 2, 2]
    assert {item.verdict for item in findings} == {Verdict.VERIFIED}


# ------------------------------------------------------------------------- disagreement


def concluded(*reports: EngineReport) -> Decision:
    family, _ = decode_text(kernels.EARLY, "k.yaml")
    assert family is not None
    kernel = family.kernels[0]
    assert kernel.program is not None
    return judging.conclude(kernel, kernel.program, list(reports), QUICK)


def real_trace() -> Trace:
    trace = finding_of(kernels.EARLY, replace(QUICK, engine="reference")).trace
    assert trace is not None
    return trace


def test_engines_that_contradict_each_other_give_no_verdict():
    refuted = EngineReport("one", Verdict.REFUTED, 0.0, trace=real_trace())
    verified = EngineReport("two", Verdict.VERIFIED, 0.0, sizes=(("tiles", None),))
    finding = concluded(refuted, verified)
    assert finding.verdict is Verdict.DISAGREEMENT and finding.verdict.exit_code == 4
    assert finding.diagnostics[-1].headline == "engines disagree: one refutes what two verifies"


def test_a_smaller_scope_is_no_contradiction():
    refuted = EngineReport("one", Verdict.REFUTED, 0.0, trace=real_trace())
    verified = EngineReport("two", Verdict.VERIFIED, 0.0, sizes=(("tiles", (0, 1)),))
    assert concluded(refuted, verified).verdict is Verdict.REFUTED


@pytest.mark.parametrize("damage", ["short", "long", "other fault", "none"])
def test_a_refutation_without_a_trace_that_replays_is_no_refutation(damage: str):
    trace: Trace | None = real_trace()
    assert trace is not None
    if damage == "short":
        trace = replace(trace, steps=trace.steps[:-1])
    elif damage == "long":
        trace = replace(trace, steps=(*trace.steps, trace.steps[0]))
    elif damage == "other fault":
        trace = replace(trace, fault=Fault(FaultKind.DEADLOCK, ""))
    else:
        trace = None
    report = EngineReport("one", Verdict.REFUTED, 0.0, trace=trace)
    assert concluded(report).verdict is Verdict.DISAGREEMENT


# ------------------------------------------------------------------------------- traces


def test_saved_traces_are_complete_and_guarded(tmp_path: Path):
    finding = finding_of(kernels.EARLY, replace(QUICK, save_traces=str(tmp_path)))
    saved = load(finding.trace_path)
    assert saved.text == kernels.EARLY and saved.trace.steps
    assert [item.name for item in tmp_path.iterdir()] == [Path(finding.trace_path).name]
    text = Path(finding.trace_path).read_text(encoding="utf-8")
    for broken in (text.replace('"tiles"', '"tile"', 1), text[:-20], "[]", "{}", "", "\x00"):
        damaged = tmp_path / "damaged.json"
        damaged.write_text(broken, encoding="utf-8")
        with pytest.raises(TraceFileError):
            load(str(damaged))


# ------------------------------------------------------------------------------- robust


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutants())
def test_mutants_of_good_kernels_get_a_verdict_without_disagreement(text: str):
    family, _ = decode_text(text, "k.yaml")
    if family is None:
        return
    options = replace(QUICK, seconds_max=0.5, states_max=100_000)
    finding = verify_kernel(family.kernels[0], options)
    assert finding.verdict is not Verdict.DISAGREEMENT
    assert render([finding], "text") and render([finding], "json")


@pytest.mark.parametrize("engine", ["auto", "order", "reference"])
def test_a_bounded_engine_names_the_sizes_that_it_refutes(engine: str):
    finding = finding_of(kernels.EARLY, replace(QUICK, engine=engine))
    assert finding.trace is not None
    shown = tuple((name, (value,)) for name, value in finding.trace.parameters)
    assert shown and finding.engines[-1].sizes == shown
