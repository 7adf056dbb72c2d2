"""Random programs of two waves: the verdict against a rule that needs no engine.

An access comes before another one of the other wave if it is retired before a barrier that the
other is issued behind; of the same wave if they are in one queue, or if it is retired before the
other is issued. Accesses at flat addresses are retired only where lgkmcnt was at 0; those to global
memory are retired where they are issued. The rule reads the program as it was generated, not its
text or its recording.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen

PROGRAMS = 96
SLOTS = 2
READINGS = chosen((("unwritten_reads", "allow"), ("unused_reads", "refuse")))
LAUNCH = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
PROLOGUE = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_readfirstlane_b32 s6, v0
s_lshl_b32 s20, s6, 2
s_xor_b32 s21, s20, 0x100
v_and_b32_e32 v1, 63, v0
v_lshlrev_b32_e32 v1, 2, v1
v_add_u32_e32 v2, s20, v1
v_add_u32_e32 v3, s21, v1
v_add_u32_e32 v14, 1, v0
v_mov_b32_e32 v4, v2
v_mov_b32_e32 v6, v3
s_mov_b64 s[24:25], src_shared_base
v_mov_b32_e32 v5, s25
v_mov_b32_e32 v7, s25
v_mov_b32_e32 v10, v2
v_mov_b32_e32 v12, v3
v_mov_b32_e32 v11, 0
v_mov_b32_e32 v13, 0
s_waitcnt lgkmcnt(0)
v_lshl_add_u64 v[8:9], s[4:5], 0, v[10:11]
v_lshl_add_u64 v[10:11], s[4:5], 0, v[12:13]
"""
LDS = ("write", "read", "copy", "flat write", "flat read")
GLOBAL = ("store", "load", "flat store", "flat load")
READS = ("read", "load", "flat read", "flat load")
WAITS = ("vmcnt", "lgkmcnt", "barrier", "barrier", "lgkmcnt", "vmcnt")


@dataclass(frozen=True)
class Drawn:
    """One step of both waves. `of_other`: in the half of a slot that is the other wave's."""

    kind: str  # of LDS, GLOBAL or WAITS
    slot: int = 0
    of_other: bool = False
    left: int = 0

    @property
    def queue(self):
        if self.kind.startswith("flat"):
            return "flat"
        return "vmcnt" if self.kind in ("copy", *GLOBAL) else "lgkmcnt"


def drawn(seed):
    chooser = random.Random(seed)
    steps = []
    for _ in range(chooser.randrange(4, 14)):
        accesses = ("write", "read", "copy")
        if seed % 2:
            accesses = chooser.choice((LDS, GLOBAL, ("write", "read", "flat write", "load")))
        kind = chooser.choice((*accesses, *WAITS) if len(accesses) < 4 else (*accesses, *WAITS[:4]))
        slot, other = chooser.randrange(SLOTS), chooser.random() < 0.4
        steps.append(Drawn(kind, slot, other, chooser.choice([0, 0, 0, 1])))
    return steps


def text_of(steps):
    lines = PROLOGUE
    for number, step in enumerate(steps):
        address = "v3" if step.of_other else "v2"
        offset = 512 * step.slot
        match step.kind:
            case "write":
                lines += f"ds_write_b32 {address}, v0 offset:{offset}\n"
            case "read":
                lines += f"ds_read_b32 v{20 + number}, {address} offset:{offset}\n"
            case "copy":
                lines += f"s_add_u32 m0, {'s21' if step.of_other else 's20'}, {offset}\ns_nop 0\n"
                lines += "global_load_lds_dword v1, s[4:5]\n"
            case "store" | "load":
                data = "v0" if step.kind == "store" else f"v{20 + number}"
                operands = f"{address}, {data}" if step.kind == "store" else f"{data}, {address}"
                name = f"global_{step.kind}_dword"
                lines += f"{name} {operands}, s[4:5] offset:{2048 + offset}\n"
            case "flat write" | "flat read" | "flat store" | "flat load":
                in_lds = step.kind in LDS
                pairs = ("v[4:5]", "v[6:7]") if in_lds else ("v[8:9]", "v[10:11]")
                place, data = pairs[step.of_other], f"v{20 + number}"
                offset += 0 if in_lds else 2048
                operands = f"{data}, {place}" if step.kind in READS else f"{place}, v14"
                name = "load" if step.kind in READS else "store"
                lines += f"flat_{name}_dword {operands} offset:{offset}\n"
            case "barrier":
                lines += "s_barrier\n"
            case counter:
                lines += f"s_waitcnt {counter}({step.left})\n"
    return kernel(lines, threads=128)


def races(steps):
    """Whether two accesses to the same bytes, one of them a write, come in no order."""
    accesses = [at for at, step in enumerate(steps) if step.kind in (*LDS, *GLOBAL)]
    retired = {at: _retired(steps, at) for at in accesses}
    barriers = [at for at, step in enumerate(steps) if step.kind == "barrier"]

    def before(a, b, one_wave):
        if one_wave:
            return a < b and (steps[a].queue == steps[b].queue or retired[a] < b)
        return any(retired[a] < barrier < b for barrier in barriers)

    pairs = [(a, b, True) for a, b in combinations(accesses, 2)]
    pairs += [(a, b, False) for a in accesses for b in accesses if a <= b]
    for a, b, one_wave in pairs:
        first, second = steps[a], steps[b]
        if first.slot != second.slot or (first.kind in LDS) is not (second.kind in LDS):
            continue
        if first.kind in READS and second.kind in READS:
            continue
        if (first.of_other == second.of_other) != one_wave:
            continue  # other halves of the slot
        if not before(a, b, one_wave) and not before(b, a, one_wave):
            return True
    return False


def _retired(steps, access):
    """The number of the first wait that ends an access; the end of the program without one."""
    queue, later = steps[access].queue, 0
    if steps[access].kind in GLOBAL:
        return access
    for at in range(access + 1, len(steps)):
        step = steps[at]
        if queue == "flat" and step.kind == "lgkmcnt" and not step.left:
            return at
        if step.kind == queue and step.left <= later:
            return at
        if step.kind in (*LDS, *GLOBAL) and step.queue == queue:
            later += 1
    return len(steps)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_verdict_is_that_of_the_rule(seed):
    steps = drawn(seed)
    expected = Verdict.REFUTED if races(steps) else Verdict.VERIFIED
    finding = judged(text_of(steps), LAUNCH, policies=READINGS)
    assert finding.verdict is expected, (steps, finding.diagnostics)


def test_both_verdicts_occur():
    found = {races(drawn(seed)) for seed in range(PROGRAMS)}
    assert found == {True, False}
