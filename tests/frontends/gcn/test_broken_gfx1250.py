"""Kernels for gfx1250 by hand, one class of fault each (`broken_gfx1250.s`): none is verified.

Counters, both halves of the barrier, copies past the registers, tensor copies, registers that an
access may read again, matrix products, expert scheduling, dual instructions, more than 256
registers. All of them assemble.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.gcn.assembly import parse_assembly

TEXT = (Path(__file__).parent / "broken_gfx1250.s").read_text(encoding="utf-8")
ASSEMBLER = "llvm-mc-22"


@dataclass(frozen=True)
class Case:
    name: str
    broken: bool
    waves: int
    groups: int
    lines: str

    @property
    def text(self):
        text = kernel(f"{self.lines}\ns_endpgm", "gfx1250", 32 * self.waves)
        return re.sub(r"^\t(\.L\w+:)", r"\1", text, flags=re.M)

    def finding(self, **options):
        launch = (
            f"{{grid: {self.groups}, block: {32 * self.waves}, dynamic_shared: 0, "
            "parameters: [pointer, 5]}"
        )
        # What is loaded goes nowhere in most of them.
        policies = replace(options.pop("policies", CodePolicies()), unused_reads="refuse")
        return judged(self.text, launch, policies=policies, **options)


def cases():
    _, begin, *rest = re.split(r"^; (?=broken|right|begin)", TEXT, flags=re.M)
    start = begin.removeprefix("begin\n")
    for part in rest:
        title, _, lines = part.partition("\n")
        kind, name, *facts = (word.strip() for word in title.split("|"))
        yield Case(
            name, kind == "broken", 1 + ("2 waves" in facts), 1 + ("2 groups" in facts),
            start + lines.strip(),
        )  # fmt: skip


ALL = list(cases())


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.name}-{case.broken}")
def test_only_right_ones_are_verified(case):
    finding = case.finding()
    assert (finding.verdict is Verdict.VERIFIED) is not case.broken, finding.diagnostics


def test_there_are_enough_of_both():
    assert sum(case.broken for case in ALL) >= 65
    assert sum(not case.broken for case in ALL) >= 30


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
def test_all_assemble():
    lines = "\n".join(f".p2align 2\nk{at}:\n{case.lines}" for at, case in enumerate(ALL))
    lines = re.sub(r"\.L(\w+)", lambda found: f"L{found[1]}", lines)
    for case in ALL:
        made = subprocess.run(
            [ASSEMBLER, "-triple=amdgcn", "-mcpu=gfx1250", "-o", "/dev/null"],
            input=case.lines, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, (case.name, made.stderr)


UNDECIDED = {
    "the barrier of a cluster": "the barrier of a cluster is not followed",
    "a named barrier": "s_barrier_init: only the barrier -1",
    "the first to arrive": "s_barrier_signal_isfirst: only the barrier -1",
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_is_not_followed_is_undecided_and_named(name):
    (case,) = (case for case in ALL if case.name == name)
    finding = case.finding()
    assert finding.verdict is Verdict.UNDECIDED
    assert any(UNDECIDED[name] in note for note in finding.notes), finding.notes


def test_what_may_begin_again_is_a_policy():
    (case,) = (case for case in ALL if case.name == "address overwritten" and case.broken)
    assert case.finding().verdict is Verdict.REFUTED
    allowed = case.finding(policies=CodePolicies(replay="allow"))
    assert allowed.verdict is Verdict.VERIFIED


def test_whether_loads_wait_for_vector_instructions_is_a_policy():
    name = "expert: a load over what a vector instruction reads"
    (case,) = (case for case in ALL if case.name == name and case.broken)
    (fault,) = case.finding().diagnostics
    assert fault.headline == "v5 is written while a vector instruction may still read it"
    assert case.finding(policies=CodePolicies(vector_reads="allow")).verdict is Verdict.VERIFIED


def test_the_order_of_issue_is_no_order_of_global_memory():
    (case,) = (
        case for case in ALL
        if case.name == "stored and loaded by another wave, no wait" and case.broken
    )  # fmt: skip
    finding = case.finding(policies=CodePolicies(group_memory="issued"))
    assert finding.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("s_wait_lodcnt 0x0", "unknown instruction `s_wait_lodcnt`"),
        ("s_waitcnt vmcnt(0)", "unknown instruction `s_waitcnt`"),
        ("s_barrier", "unknown instruction `s_barrier`"),
        ("v_mov_b32_e32 a1, v0", "gfx1250 has no accumulation registers"),
        ("v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v1, v3", "both halves write one register"),
        ("v_dual_mov_b32 v1, v2 :: ", "a dual instruction has no second half"),
        ("v_dual_mov_b32 v1, v2 :: v_dual_mow_b32 v4, v3", "unknown instruction `v_dual_mow_b32`"),
        ("ds_load_b32 v1.x, v2", "v1.x"),
        ("cluster_load_b32 v1, v[2:3], off", "unknown instruction `cluster_load_b32`"),
    ],
)
def test_what_is_not_known_is_refused_with_its_place(line, words):
    text = kernel(line, "gfx1250")
    assembly, errors = parse_assembly(Source("k.s", text))
    if assembly is None:
        assert any(words in item.headline for item in errors), [item.headline for item in errors]
        place = errors[0].span.start_line
        assert text.split("\n")[place - 1].strip() == line.strip()
    else:  # a word that is no register is refused where it is executed
        finding = judged(text, "{grid: 1, block: 32, parameters: [pointer, 5]}")
        assert finding.verdict is not Verdict.VERIFIED
