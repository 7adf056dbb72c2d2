"""Budgets count states and operations: a verdict does not depend on how busy the machine is."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify import kernels
from titan.foundation.verdict import Reason, Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import render
from titan.verify import judge
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

ROOT = Path(__file__).resolve().parents[2]
DECIDING = ("verify", "language", "engines/happens_before", "engines/fences", "engines/explore")
WALL_CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
OPTIONS = VerifyOptions(save_traces=None)

LATE = """\
titan: 1
kernel: late
target: sm_90a
sizes: {tiles: any}
buffers: {S: {bytes: 64}}
barriers: {full: 1, empty: 1}
roles: {writer: {warps: 1}, reader: {warps: 1}}
program:
  writer:
    - for: t in 0..tiles
      do:
        - {wait: empty, phase: t - 1}
        - {store: S = t, when: t < LIMIT}
        - {arrive: full, order: ORDER}
  reader:
    - for: t in 0..tiles
      do:
        - {wait: full, phase: t}
        - {load: S = t, when: t < LIMIT}
        - arrive: empty
"""
ORDERS = {"relaxed": LATE.replace("ORDER", "relaxed"), "sync": LATE.replace(", order: ORDER", "")}
PRODUCT = """\
titan: 1
kernel: product
target: sm_90a
sizes: {work: any, blocks: any, depth: 2}
buffers: {A: {stages: depth, bytes: 1024}}
barriers: {full: {stages: depth, count: 1}, empty: {stages: depth, count: 1}}
roles: {p: {warps: 1}, c: {warps: 1}}
program:
  p:
    - for: w in 0..work
      do:
        - for: k in 0..blocks
          do:
            - {wait: "empty[(w * blocks + k) % depth]", phase: (w * blocks + k) // depth - 1}
            - {arrive: "full[(w * blocks + k) % depth]", bytes: 1024}
            - bulk_load: A[(w * blocks + k) % depth]
              completes: full[(w * blocks + k) % depth]
  c:
    - for: w in 0..work
      do:
        - for: k in 0..blocks
          do:
            - {wait: "full[(w * blocks + k) % depth]", phase: (w * blocks + k) // depth}
            - load: A[(w * blocks + k) % depth]
            - fence: async
            - arrive: empty[(w * blocks + k) % depth]
"""


def finding_of(text: str, options: VerifyOptions = OPTIONS) -> Finding:
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], options)


def clocks_read(path: Path) -> list[str]:
    """The wall clocks that a module reads."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "time" and node.attr in WALL_CLOCKS:
                found.append(f"{path.name}:{node.lineno} {node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"{path.name}:{node.lineno} {item.name}" for item in node.names
                      if item.name in WALL_CLOCKS]  # fmt: skip
    return found


@pytest.mark.parametrize("room", DECIDING)
def test_no_wall_clock_is_read_where_verdicts_are_made(room: str):
    paths = list((ROOT / "titan" / room).rglob("*.py"))
    assert paths and [text for path in paths for text in clocks_read(path)] == []


@pytest.mark.parametrize("text", [kernels.GOOD, kernels.WEAK, kernels.EARLY, *ORDERS.values()])
def test_a_machine_that_stands_still_for_minutes_gives_the_same_text(
    text: str, monkeypatch: pytest.MonkeyPatch
):
    text = text.replace("LIMIT", "4")
    calm = render([finding_of(text)], "text")
    now = [0.0]

    def jumping() -> float:
        now[0] += 300.0
        return now[0]

    for clock in ("monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, jumping)
    assert render([finding_of(text)], "text") == calm


def test_happens_before_has_its_whole_budget_where_the_verdict_rests_on_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """The store of the last tile that is tried is the one that a relaxed arrival does not publish.

    With the small budget of a second opinion the run does not come as far.
    """
    text = ORDERS["relaxed"].replace("{store: S = t, when: t < LIMIT}", "{store: S = t}")
    text = text.replace("when: t < LIMIT", "when: t == 4")
    monkeypatch.setattr(judge, "SECOND_OPINION_STEPS", 20)
    finding = finding_of(text)
    assert finding.verdict is Verdict.REFUTED
    assert finding.trace is not None and finding.trace.fault.kind == "TTN305"
    published = finding_of(ORDERS["sync"].replace("LIMIT", "9"))
    ordered = published.engines[-1]
    assert published.verdict is Verdict.VERIFIED and published.coverage.parameters[0][1] is None
    assert ordered.reason is Reason.STEPS and ordered.steps <= 20 + 40


def test_a_spent_budget_of_steps_is_named():
    finding = finding_of(ORDERS["sync"].replace("LIMIT", "9"), replace(OPTIONS, engine="order",
                         steps_max=30))  # fmt: skip
    assert finding.verdict is Verdict.UNDECIDED
    assert finding.engines[0].reason is Reason.STEPS


# ---------------------------------------------------------------- asked for any, decided for some


@pytest.mark.parametrize(
    ("text", "reason", "edit"),
    [
        (PRODUCT.replace("0..blocks", "0..blocks + 1").replace("w * blocks", "w * (blocks + 1)"),
         Reason.NO_QUOTIENT, "`blocks: {any: true, per: w}`"),
        (LATE.replace("LIMIT", "5000").replace(", order: ORDER", ""), Reason.NO_QUOTIENT,
         "compare with a number up to 4096"),
        (ORDERS["relaxed"].replace("t < LIMIT", "t == 400"), Reason.PUBLICATION, "line 14"),
        (ORDERS["sync"].replace("LIMIT", "9").replace("0..tiles", "0..2*tiles"),
         Reason.NO_QUOTIENT, "in place of `2 * tiles`"),
    ],
    ids=["product", "far", "relaxed", "twice"],
)  # fmt: skip
def test_a_verdict_for_some_numbers_names_reason_and_edit_first(
    text: str, reason: Reason, edit: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(judge, "FAR_STEPS", 0)  # beyond the bound the third one is refuted
    finding = finding_of(text)
    assert finding.verdict is Verdict.VERIFIED
    assert finding.narrowing is not None and finding.narrowing.reason is reason
    assert edit in finding.narrowing.edit
    first, second, *_ = render([finding], "text").splitlines()
    assert first.startswith("VERIFIED") and " only, where any number of " in first
    assert finding.narrowing.because in first and edit in second
    strict = finding_of(text, replace(OPTIONS, require="any"))
    assert strict.verdict is Verdict.UNDECIDED and "is required" in render([strict], "text")


def test_an_end_that_is_not_decided_names_the_cluster_barrier_that_decides_it():
    """Credits of a receiver: a barrier at the end, as the edit says, and any number is verified."""
    text = (ROOT / "tests" / "cases" / "attacks" / "credits.yaml").read_text(encoding="utf-8")
    finding = finding_of(text)
    assert finding.narrowing is not None and finding.narrowing.reason is Reason.PUBLICATION
    assert "synchronise at a cluster barrier last" in finding.narrowing.edit
    edited = text.replace("roles:", "named_barriers: {all_of: {scope: cluster}}\nroles:")
    sender, receiver = edited.split("  receiver:\n")
    ends = "    - sync: all_of\n"
    edited = f"{sender}{ends}  receiver:\n{receiver.rstrip()}\n{ends}"
    assert finding_of(edited).narrowing is None


MBARRIERS = (ROOT / "examples" / "mbarriers.yaml").read_text(encoding="utf-8")


def with_bytes(expected: str, copied: str) -> str:
    """The ring whose copies have so many bytes; the larger ones are for the deepest trips."""
    completes = "completes: full[t % depth]"
    text = MBARRIERS.replace("bytes: 16384", f"bytes: {expected}")
    return text.replace(completes, f"{completes}\n          bytes: {copied}")


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        (with_bytes("32 * t + 32", "16 * t + 16"),
         with_bytes("min(32 * t + 32, 16384)", "min(16 * t + 16, 8192)")),
        (with_bytes("32 * depth * t + 64", "16 * depth * t + 32"),
         with_bytes("min(32 * depth * t + 64, 16384)", "min(16 * depth * t + 32, 8192)")),
    ],
    ids=["bytes", "of a fixed size"],
)  # fmt: skip
def test_amounts_that_grow_are_to_be_bounded(text: str, edited: str):
    """They choose no stage, so nothing is taken modulo the stages; the edit gives any number."""
    finding = finding_of(text)
    assert finding.verdict is Verdict.VERIFIED and finding.narrowing is not None
    assert "bound the bytes, by `min(" in finding.narrowing.edit
    assert "%" not in finding.narrowing.edit
    decided = finding_of(edited)
    assert decided.verdict is Verdict.VERIFIED and decided.narrowing is None


def test_tiles_that_are_counted_apart_are_named_with_the_edit_that_decides_all():
    """The output over its operands, numbered by its own: the edit gives any number."""
    path = ROOT / "tests" / "cases" / "attacks" / "output_over_stages.yaml"
    text = path.read_text(encoding="utf-8")
    assert finding_of(text).narrowing is None
    finding = finding_of(text.replace("C = 2 * w", "C = w"))
    assert finding.verdict is Verdict.VERIFIED and finding.narrowing is not None
    assert finding.narrowing.reason is Reason.COUNTED_APART
    assert "`= 2 * w` beside `= 2 * w + k`" in finding.narrowing.edit


def test_what_is_decided_for_every_number_is_not_narrowed():
    assert finding_of(PRODUCT).narrowing is None
    assert finding_of(ORDERS["sync"].replace("LIMIT", "9")).narrowing is None
    fixed = finding_of(kernels.GOOD.replace("tiles: any", "tiles: 3"))
    assert fixed.verdict is Verdict.VERIFIED and fixed.narrowing is None


def test_without_the_native_core_the_verdict_says_that_it_is_weaker(
    monkeypatch: pytest.MonkeyPatch,
):
    from titan.engines.explore import search

    def missing() -> object:
        raise search.CoreMissingError("the native explorer is not built")

    monkeypatch.setattr(search, "core", missing)
    finding = finding_of(kernels.GOOD)
    assert finding.narrowing is not None and finding.narrowing.reason is Reason.MISSING_CORE
    assert "the native explorer is not built" in render([finding], "text").splitlines()[0]
