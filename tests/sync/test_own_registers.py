"""Registers are of each agent: against programs that give every agent a buffer by hand."""

from __future__ import annotations

from itertools import product

import pytest

from tests.cases.judging import codes_of, judge_text
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text

HEAD = """\
titan: 1
kernel: k
target: sm_90a
sizes: {tiles: any}
buffers:
  A: {bytes: 1024, initial: 0}
"""
BODY = """\
    - for: t in 0..tiles
      do:
        - {mma: A = 0, into: "R = t", queue: group}
        - commit: group
        - DRAIN
        - {load: "R = t"}
        - {store: "P = t"}
        - {mma: ["P = t"], queue: group}
        - commit: group
        - drain: group
"""
DRAINS = {"right": "drain: group", "late": "compute: softmax"}
GROUPS = {
    "two of one role": ("  math: {warpgroups: 2}\n", ("math",)),
    "two roles": ("  one: {warpgroups: 1}\n  two: {warpgroups: 1}\n", ("one", "two")),
    "both": ("  one: {warpgroups: 2}\n  two: {warpgroups: 1}\n", ("one", "two")),
}


def together(groups: str, drain: str, declaration: str = "{space: register}") -> str:
    roles, names = GROUPS[groups]
    body = BODY.replace("DRAIN", DRAINS[drain])
    registers = "".join(f"  {name}: {declaration}\n" for name in "RP")
    programs = "".join(f"  {name}:\n{body}" for name in names)
    return f"{HEAD}{registers}queues: {{group: wgmma}}\nroles:\n{roles}program:\n{programs}"


def by_hand() -> str:
    """One warpgroup alone: what each of several does."""
    body = BODY.replace("DRAIN", DRAINS["right"])
    registers = "  R: {space: register}\n  P: {space: register}\n"
    return (
        f"{HEAD}{registers}queues: {{group: wgmma}}\nroles:\n  math: {{warpgroups: 1}}\n"
        f"program:\n  math:\n{body}"
    )


@pytest.mark.parametrize(("groups", "drain"), list(product(GROUPS, DRAINS)))
def test_several_agents_are_judged_as_one_alone(groups: str, drain: str):
    alone = judge_text(by_hand().replace(DRAINS["right"], DRAINS[drain], 1))
    several = judge_text(together(groups, drain))
    assert several.verdict is alone.verdict
    assert several.verdict is (Verdict.VERIFIED if drain == "right" else Verdict.REFUTED)
    assert codes_of(several) == codes_of(alone)


@pytest.mark.parametrize("groups", GROUPS)
def test_parts_and_initial_content_are_each_agents_own(groups: str):
    declared = "{space: register, parts: 2, initial: 0}"
    assert judge_text(together(groups, "right", declared)).verdict is Verdict.VERIFIED
    outside = together(groups, "right", declared).replace('{load: "R = t"}', '{load: "R[0, 2]"}')
    assert codes_of(judge_text(outside)) == {"TTN214"}


def test_registers_that_are_chosen_by_the_agent_stay_as_they_are():
    text = together("two of one role", "right", "{space: register, stages: 2}")
    text = text.replace('"R = t"', '"R[self] = t"').replace('"P = t"', '"P[self] = t"')
    family, _ = decode_text(text)
    assert family is not None and family.kernels[0].program is not None
    assert [buffer.parts for buffer in family.kernels[0].program.buffers] == [1, 1, 1]
    assert judge_text(text).verdict is Verdict.VERIFIED
    same = text.replace('{load: "R[self] = t"}', '{load: "R[0] = t"}')
    assert judge_text(same).verdict is Verdict.REFUTED


def test_what_another_role_has_written_is_not_there():
    text = (
        f"{HEAD}  R: {{space: register}}\nbarriers: {{b: 1}}\nroles: {{w: {{warps: 1}}, "
        "v: {warps: 1}}\nprogram:\n  w: [{store: R = 1}, {arrive: b}]\n"
        "  v: [{wait: b, phase: 0}, {load: R = 1}]\n"
    )
    assert codes_of(judge_text(text)) == {"TTN435"}
    both = text.replace("{wait: b, phase: 0}, ", "{wait: b, phase: 0}, {store: R = 2}, ")
    assert codes_of(judge_text(both)) == {"TTN204"}
