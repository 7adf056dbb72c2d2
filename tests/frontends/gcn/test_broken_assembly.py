"""Kernels in assembly by hand, one class of fault each (`broken.s`): none of them is verified.

Counters one too many, waits behind barriers or of another counter, barriers that a wave leaves out,
copies to LDS, registers in flight, wait states, scalar loads, ends of waves, buffers, work-groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.gcn.assembly import parse_assembly

TEXT = (Path(__file__).parent / "broken.s").read_text(encoding="utf-8")
# An assembler of gfx90a names these otherwise.
_OF_GFX90A = {"16x16x16_f16": "16x16x16f16", " sc0": " glc", " sc1": " glc"}


@dataclass(frozen=True)
class Case:
    name: str
    broken: bool
    target: str
    waves: int
    groups: int
    lines: str
    unwritten: str = "allow"

    def finding(self, **options):
        text = kernel(f"{self.lines}\ns_endpgm", self.target, 64 * self.waves)
        text = re.sub(r"^\t(\.L\w+:)", r"\1", text, flags=re.M)
        for new, old in _OF_GFX90A.items() if self.target == "gfx90a" else ():
            text = text.replace(new, old)
        launch = (
            f"{{grid: {self.groups}, block: {64 * self.waves}, dynamic_shared: 0, "
            "parameters: [pointer, 5]}"
        )
        # Many of these store registers that nothing has written: no fault is to be found for that.
        options.setdefault("policies", CodePolicies(unwritten_reads=self.unwritten))
        return judged(text, launch, **options)


def cases():
    head, *rest = re.split(r"^; (?=broken|right|begin)", TEXT, flags=re.M)
    begin, *rest = rest
    start = begin.removeprefix("begin\n")
    assert head.startswith("; Kernels")
    for part in rest:
        title, _, lines = part.partition("\n")
        kind, name, *facts = (word.strip() for word in title.split("|"))
        targets = next((fact for fact in facts if fact.startswith("gfx")), "gfx950").split()
        for target in targets:
            yield Case(
                name, kind == "broken", target, 1 + ("2 waves" in facts), 1 + ("2 groups" in facts),
                start + lines.strip(), "refuse" if "unwritten" in facts else "allow",
            )  # fmt: skip


ALL = list(cases())


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.name}-{case.broken}-{case.target}")
def test_only_right_ones_are_verified(case):
    finding = case.finding()
    assert (finding.verdict is Verdict.VERIFIED) is not case.broken, finding.diagnostics


def test_there_are_enough_of_both():
    assert sum(case.broken for case in ALL) >= 85
    assert sum(not case.broken for case in ALL) >= 40


@pytest.mark.parametrize(
    ("lines", "target", "words"),
    [
        ("global_load_lds_dwordx4 v1, s[4:5]", "gfx942", "gfx942 has no global_load_lds_dwordx4"),
        ("buffer_load_dwordx4 off, s[4:7], 0 lds", "gfx942", "has no buffer_load_dwordx4 to LDS"),
        (
            "buffer_load_dwordx2 off, s[4:7], 0 lds",
            "gfx950",
            "takes no such operands",
        ),
        ("global_load_dword v1, s[4:5] lds", "gfx950", "gfx950 has no global_load_dword to LDS"),
        ("global_store_dword v1, v0, s[4:5] sc1", "gfx90a", "no sc1 behind global_store_dword"),
        ("global_store_dword v1, v0, s[4:5] glc", "gfx942", "no glc behind global_store_dword"),
        ("ds_read_b64_tr_b16 v[2:3], v1", "gfx90a", "gfx90a has no ds_read_b64_tr_b16"),
    ],
)
def test_what_a_target_lacks_is_refused(lines, target, words):
    assembly, errors = parse_assembly(Source("k.s", kernel(lines, target)))
    assert assembly is None
    assert [item.code for item in errors] == ["TTN010"]
    assert words in errors[0].headline
    (place,) = {item.span.start_line for item in errors}
    assert kernel(lines, target).split("\n")[place - 1].strip() == lines


def test_a_kernel_that_does_not_end_is_undecided():
    text = kernel("s_branch .Lover\n.Lover:\ns_endpgm").replace("\t.Lover", ".Lover")
    finding = judged(text.replace("\ts_endpgm\n", "\ts_nop 0\n"), ONE_WAVE)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("execution leaves the kernel" in note for note in finding.notes)


def test_global_memory_of_a_work_group_is_in_the_order_of_issue_or_waited_for():
    """The policy decides about handing over without a wait, and about nothing else."""
    allowed = CodePolicies(unused_reads="refuse", unwritten_reads="allow")  # nothing goes anywhere
    issued, waited = allowed, replace(allowed, group_memory="waited")
    changed = set()
    for case in ALL:
        if case.target == "gfx950":
            before, after = (case.finding(policies=one).verdict for one in (issued, waited))
            if (before is Verdict.VERIFIED) is not (after is Verdict.VERIFIED):
                changed.add(case.name)
    assert changed == {
        "global store then load other wave, in the order of issue",
        "lds dma read of another's stored global",
    }


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("m0 right before dma", Verdict.VERIFIED),  # as kernels do that ship
        ("sgpr by valu right before global", Verdict.REFUTED),
        ("readlane select by valu", Verdict.REFUTED),
        ("div_fmas vcc", Verdict.REFUTED),
        ("dpp exec by valu", Verdict.REFUTED),
        ("mfma read early", Verdict.REFUTED),
    ],
)
def test_a_policy_leaves_out_two_rules_of_wait_states(name, verdict):
    case = next(one for one in ALL if one.name == name and one.broken)
    assert case.finding(policies=CodePolicies(scalar_states="allow")).verdict is verdict
    plain = case.finding()
    assert plain.verdict is Verdict.REFUTED
    helps = [help for one in plain.diagnostics for help in one.helps]
    assert any("scalar_states=allow" in help for help in helps) is (verdict is Verdict.VERIFIED)


ARM = (
    "s_and_saveexec_b64 s[10:11], vcc", "s_cbranch_execz .Lover", "s_cbranch_scc1 .Lover",
    ".Lover:", "s_or_b64 exec, exec, s[10:11]",
)  # fmt: skip
IN_ARMS = [case for case in ALL if ".Lround:" in case.lines and ".Lover:" in case.lines]


@pytest.mark.parametrize("case", IN_ARMS, ids=lambda case: f"{case.name}-{case.target}")
def test_loops_by_data_outside_of_arms_are_judged_as_those_in_arms(case):
    """The first round is executed by all lanes there, and whether there are more data say."""
    lines = "\n".join(line for line in case.lines.split("\n") if line not in ARM)
    finding = replace(case, lines=lines).finding()
    assert (finding.verdict is Verdict.VERIFIED) is not case.broken, finding.diagnostics
    assert len(IN_ARMS) > 12
