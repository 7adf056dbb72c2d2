"""Branches on data with barriers in their arms, against a checker that runs all data.

The checker knows the statements of a program, not its assembly: it runs the two waves for each
value of the data, and compares what they do to a word of LDS between two barriers.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshrrev_b32_e32 v1, 6, v0
v_lshlrev_b32_e32 v2, 2, v0
v_readfirstlane_b32 s7, v1
v_xor_b32_e32 v3, 0x100, v2
v_mov_b32_e32 v9, 0
v_mov_b32_e32 v8, 1
s_waitcnt lgkmcnt(0)
"""
WORDS, DATA, OWN = 2, 3, 64
LOADED = "global_load_dword v11, v9, s[4:5] offset:{at}\ns_waitcnt vmcnt(0)\n"
# Ways to branch on a word: what goes before, with the branch that leads over the arm, and behind.
GUARDS = {
    "scalar": (
        "s_load_dword s12, s[4:5], {at}\ns_waitcnt lgkmcnt(0)\n"
        "s_cmp_eq_u32 s12, 0\ns_cbranch_scc1 {over}\n", "",
    ),
    "first lane": (
        LOADED + "v_readfirstlane_b32 s12, v11\ns_nop 3\ns_cmp_eq_u32 s12, 0\n"
        "s_cbranch_scc1 {over}\n", "",
    ),
    "condition": (
        LOADED + "v_cmp_eq_u32_e32 vcc, 0, v11\ns_and_b64 vcc, exec, vcc\n"
        "s_cbranch_vccnz {over}\n", "",
    ),
    "mask": (
        LOADED + "v_cmp_ne_u32_e32 vcc, 0, v11\ns_and_saveexec_b64 s[{saved}:{last}], vcc\n"
        "s_cbranch_execz {over}\n", "s_or_b64 exec, exec, s[{saved}:{last}]\n",
    ),
    "other lanes": (
        LOADED + "v_cmp_eq_u32_e32 vcc, 0, v11\ns_mov_b64 s[{saved}:{last}], exec\n"
        "s_andn2_b64 exec, exec, vcc\ns_cbranch_execz {over}\n",
        "s_mov_b64 exec, s[{saved}:{last}]\n",
    ),
    "shared": (
        "s_cmp_lg_u32 s7, 0\ns_cbranch_scc1 {over}w\n" + LOADED + "v_mov_b32_e32 v12, 64\n"
        "ds_write_b32 v12, v11\ns_waitcnt lgkmcnt(0)\n{over}w:\ns_barrier\n"
        "v_mov_b32_e32 v12, 64\nds_read_b32 v11, v12\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
        "v_readfirstlane_b32 s12, v11\ns_nop 3\ns_cmp_eq_u32 s12, 0\ns_cbranch_scc1 {over}\n",
        "",
    ),
    "wave": (
        "s_lshl_b32 s13, s7, 6\ns_add_u32 s13, s13, {at}\ns_load_dword s12, s[4:5], s13\n"
        "s_waitcnt lgkmcnt(0)\ns_cmp_eq_u32 s12, 0\ns_cbranch_scc1 {over}\n", "",
    ),
}  # fmt: skip
# Loops that make so many rounds as a word says, and one at least.
ROUNDS = {
    "scalar": (
        "s_load_dword s{count}, s[4:5], {at}\ns_mov_b32 s{done}, 0\ns_waitcnt lgkmcnt(0)\n{again}:",
        "s_add_u32 s{done}, s{done}, 1\ns_cmp_lt_u32 s{done}, s{count}\ns_cbranch_scc1 {again}\n",
    ),
    "mask": (
        "global_load_dword v{count}, v9, s[4:5] offset:{at}\nv_mov_b32_e32 v{done}, 0\n"
        "s_mov_b64 s[{count}:{done}], 0\ns_waitcnt vmcnt(0)\n{again}:",
        "v_add_u32_e32 v{done}, 1, v{done}\nv_cmp_ge_u32_e32 vcc, v{done}, v{count}\n"
        "s_or_b64 s[{count}:{done}], vcc, s[{count}:{done}]\n"
        "s_andn2_b64 exec, exec, s[{count}:{done}]\ns_cbranch_execnz {again}\n"
        "s_or_b64 exec, exec, s[{count}:{done}]\n",
    ),
}
Statement = tuple[Any, ...]


def verdict_of(lines: str, groups: int = 1, target: str = "gfx950") -> Verdict:
    launch = f"{{grid: {groups}, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}}"
    text = kernel(f"{HEAD}{lines}\ns_endpgm", target, 128).replace("\t.L", ".L")
    finding = judged(text, launch, policies=CodePolicies(unwritten_reads="allow"))
    assert finding.verdict is not Verdict.REFUSED, finding.diagnostics
    return finding.verdict


# ------------------------------------------------------------------------ programs at random


def statements(random: Random, depth: int, most: int, kinds: list[str]) -> list[Statement]:
    """A program: words are written by one wave each time, and words of the data decide arms and
    rounds."""
    found: list[Statement] = []
    for _ in range(random.randint(1, most)):
        kind = random.choice(kinds)
        if kind in ("write", "read"):
            found.append((kind, random.randrange(2), random.randrange(WORDS)))
        elif kind == "barrier":
            found.append((kind,))
        elif depth:
            guard = random.choice([*GUARDS][: None if random.random() < 0.3 else -1])
            guard = guard if kind == "if" else random.choice([*ROUNDS])
            body = statements(random, depth - 1, 3, kinds)
            found.append((kind, guard, random.randrange(DATA), body))
    return found


class Text:
    """The assembly of a program."""

    def __init__(self) -> None:
        self.lines: list[str] = [f"v_mov_b32_e32 v{20 + at}, {4 * at}" for at in range(WORDS)]
        self.names = 0

    def of(self, program: list[Statement], depth: int = 0) -> str:
        for kind, *what in program:
            self.names += 1
            over = f".L{self.names}"
            if kind == "barrier":
                self.lines.append("s_barrier")
            elif kind == "if":
                guard, at, arm = what
                before, behind = GUARDS[guard]
                facts = {
                    "at": 4 * at,
                    "over": over,
                    "saved": 20 + 2 * depth,
                    "last": 21 + 2 * depth,
                }
                self.lines += before.format(**facts).splitlines()
                self.of(arm, depth + 1)
                self.lines += [f"{over}:", *behind.format(**facts).splitlines()]
            elif kind == "loop":
                form, at, body = what
                before, behind = ROUNDS[form]
                facts = {"at": 4 * at, "again": over, "count": 40 + 2 * depth}
                facts["done"] = 41 + 2 * depth
                self.lines += before.format(**facts).splitlines()
                self.of(body, depth + 1)
                self.lines += behind.format(**facts).splitlines()
            else:
                wave, word = what
                access = f"ds_write_b32 v{20 + word}, v{9 - wave}"
                access = access if kind == "write" else f"ds_read_b32 v10, v{20 + word}"
                self.lines += [
                    f"s_cmp_lg_u32 s7, {wave}", f"s_cbranch_scc1 {over}", access,
                    "s_waitcnt lgkmcnt(0)", f"{over}:",
                ]  # fmt: skip
        return "\n".join(self.lines)


def accesses(program: list[Statement], wave: int, data: dict[int, int]) -> list[Statement]:
    """What a wave does for some data, in order."""
    found: list[Statement] = []
    for kind, *what in program:
        if kind == "if":
            guard, at, arm = what
            place = at + (OWN // 4 * wave if guard == "wave" else 0)
            found += [("barrier",), ("barrier",)] if guard == "shared" else []
            found += accesses(arm, wave, data) if data[place] else []
        elif kind == "loop":
            _, at, body = what
            found += accesses(body, wave, data) * max(1, data[at])
        elif kind == "barrier" or what[0] == wave:
            found.append((kind, *what))
    return found


def races(program: list[Statement], data: dict[int, int]) -> bool:
    """Whether the waves access a word between the same barriers, and one writes. A wave that has
    ended is not waited for."""
    between: dict[tuple[int, int], set[tuple[int, str]]] = {}
    for wave in range(2):
        passed = 0
        for kind, *what in accesses(program, wave, data):
            if kind == "barrier":
                passed += 1
            else:
                between.setdefault((passed, what[1]), set()).add((wave, kind))
    return any(
        len({wave for wave, _ in found}) == 2 and any(kind == "write" for _, kind in found)
        for found in between.values()
    )


PLACES = [*range(DATA), *range(OWN // 4, OWN // 4 + DATA)]
ARMS = ["write", "read", "barrier", "barrier", "barrier", "if"]
LOOPS = ["write", "read", "read", "barrier", "if", "loop", "loop"]


@pytest.mark.parametrize("first", range(0, 80, 20))
@pytest.mark.parametrize("kinds", [ARMS, LOOPS], ids=["arms", "loops"])
def test_what_is_verified_is_right_for_all_data(kinds: list[str], first: int) -> None:
    right = verified = 0
    for seed in range(first, first + 20):
        program = statements(Random(seed), 2, 6, kinds)
        found = verdict_of(Text().of(program))
        wrong = any(
            races(program, dict(zip(PLACES, data, strict=True)))
            for data in product((0, 1, 2)[: 2 + (kinds is LOOPS)], repeat=len(PLACES))
        )
        assert not (wrong and found is Verdict.VERIFIED), (seed, program)
        assert wrong or found is not Verdict.REFUTED, (seed, program)
        right += not wrong
        verified += found is Verdict.VERIFIED
    assert verified > right // 2
