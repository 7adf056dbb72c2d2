"""Waits that are shown to change nothing: by hand, and on random loops against two other judges.

A wait that is called redundant must leave the verdict and the order of all conflicting accesses
(`phase_order`) as they are. The random programs have two waves, three queues, loops and branches.
"""

from __future__ import annotations

import random

import pytest

from tests.frontends.gcn.test_phase_order import run_of
from tests.frontends.gcn.test_random_waves import LAUNCH, PROLOGUE
from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import RING, kernel
from titan.foundation.source.span import Source
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.gcn.phase_order import phase_order, same_order
from titan.frontends.gcn.redundant_waits import redundant_because, weaker_wait
from titan.isa.gcn.assembly import parse_assembly

PROGRAMS = 60
KINDS = (
    "read", "read", "write", "copy", "load", "scalar", "use", "use", "lanes", "wait", "wait",
    "wait", "wait", "barrier",
)  # fmt: skip


def argued(text):
    """The mutants of waits for which there is an argument, and how many there are in all."""
    source = Source("k.s", text)
    assembly, _ = parse_assembly(source)
    found, total = [], 0
    for mutant in assembly_mutants(assembly, source, assembly.kernels[0]):
        deleted = mutant.kind.endswith("deleted")
        wait = weaker_wait(assembly, mutant.instruction, mutant.kind.split()[0], deleted)
        if wait is not None:
            total += 1
            why = redundant_because(assembly, assembly.kernels[0], wait)
            found += [(mutant, why)] if why is not None else []
    return found, total


HEAD = "ds_read_b32 v8, v2\nds_read_b32 v9, v2\n"
WAITS = {  # lines, and why the first wait, or the one that is marked, can be left out; or None
    "twice": (HEAD + "s_waitcnt lgkmcnt(0)\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, v8", "ended"),
    "never used": (HEAD + "s_waitcnt lgkmcnt(0)", "not used before the end"),
    "nothing there": ("s_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, v8", "in flight on any path"),
    "used": (HEAD + "s_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, v8", None),
    "overwritten": (HEAD + "s_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v8, v10", None),
    "used in between": (
        HEAD + "s_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, v9\ns_waitcnt lgkmcnt(0)", None,
    ),
    "the older one is covered": (
        HEAD + "s_waitcnt lgkmcnt(1)\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v10, v8", "ended",
    ),
    "the later one is too weak": (
        HEAD + "s_waitcnt lgkmcnt(1)\ns_waitcnt lgkmcnt(2)\nv_mov_b32_e32 v10, v8", None,
    ),
    "the later one counts more": (
        HEAD + "s_waitcnt lgkmcnt(1)\nds_read_b32 v11, v2\ns_waitcnt lgkmcnt(2)\n"
        "v_mov_b32_e32 v10, v8", "ended",
    ),
    "handed over": (HEAD + "s_waitcnt lgkmcnt(0)\ns_barrier\ns_waitcnt lgkmcnt(0)", None),
    "lanes are not handed over": (
        "ds_bpermute_b32 v8, v2, v2\ns_waitcnt lgkmcnt(0)\ns_barrier\ns_waitcnt lgkmcnt(0)\n"
        "v_mov_b32_e32 v10, v8", "ended",
    ),
    "copied over": (
        HEAD + "s_waitcnt lgkmcnt(0)\nglobal_load_lds_dword v1, s[4:5]\ns_waitcnt lgkmcnt(0)", None,
    ),
    "a branch around the other one": (
        HEAD + "s_waitcnt lgkmcnt(0)\ns_cbranch_scc1 .Lx\ns_waitcnt lgkmcnt(0)\n.Lx:\n"
        "v_mov_b32_e32 v10, v8", None,
    ),
    "both branches": (
        HEAD + "s_waitcnt lgkmcnt(0)\ns_cbranch_scc1 .Lx\ns_waitcnt lgkmcnt(1)\n.Lx:\n"
        "s_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, v8", "ended",
    ),
    "a scalar load that is used": (
        "s_load_dword s9, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\ns_waitcnt lgkmcnt(1)\n"
        "s_add_u32 s10, s9, 1", None,
    ),
    "a scalar load may come last": (
        "s_load_dword s9, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\ns_load_dword s11, s[4:5], 0x4\n"
        "s_waitcnt lgkmcnt(1)\ns_add_u32 s10, s9, 1", None,
    ),
    "one that an earlier wait has left": (
        "ds_read_b32 v8, v2\nds_read_b32 v9, v2\ns_waitcnt lgkmcnt(1)\nds_read_b32 v10, v2\n"
        "s_waitcnt lgkmcnt(0) ; here\nv_mov_b32_e32 v11, v9", None,
    ),
    "one that an earlier wait has ended": (
        "ds_read_b32 v8, v2\nds_read_b32 v9, v2\ns_waitcnt lgkmcnt(1)\nds_read_b32 v10, v2\n"
        "s_waitcnt lgkmcnt(0) ; here\nv_mov_b32_e32 v11, v8", "not used before the end",
    ),
    "more than a counter counts": (
        "".join(f"ds_read_b32 v{8 + n}, v2\n" for n in range(20))
        + "s_waitcnt lgkmcnt(14)\nv_mov_b32_e32 v40, v8\ns_waitcnt lgkmcnt(0)", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_by_hand(name):
    lines, why = WAITS[name]
    text = kernel("s_nop 0\n" + lines, threads=128)
    wanted = "; here" if "; here" in text else "s_waitcnt"
    place = next(n for n, line in enumerate(text.split("\n"), 1) if wanted in line)
    found, _ = argued(text)
    words = [one for mutant, one in found if mutant.line == place and "del" in mutant.kind]
    assert len(words) == (why is not None), words
    assert why is None or why in words[0]


def test_no_wait_of_the_ring_is_redundant():
    assert argued(RING) == ([], 6)


def _random(seed):
    chooser = random.Random(seed)
    registers = iter(range(8, 60))
    loaded: list[int] = []

    def step():
        kind = chooser.choice(KINDS)
        address = chooser.choice(("v2", "v3"))
        match kind:
            case "read" | "load" | "lanes":
                loaded.append(next(registers))
                return {
                    "read": f"ds_read_b32 v{loaded[-1]}, {address} offset:512\n",
                    "load": f"global_load_dword v{loaded[-1]}, {address}, s[4:5]\n",
                    "lanes": f"ds_bpermute_b32 v{loaded[-1]}, v2, v2\n",
                }[kind]
            case "write":
                return f"ds_write_b32 {address}, v0 offset:{chooser.choice((0, 512))}\n"
            case "copy":
                return "s_mov_b32 m0, s20\ns_nop 0\nglobal_load_lds_dword v1, s[4:5]\n"
            case "scalar":
                return f"s_load_dword s{chooser.randrange(22, 26)}, s[4:5], 0x2000\n"
            case "use":
                register = chooser.choice(loaded) if loaded else 0
                return f"v_mov_b32_e32 v7, v{register}\n"
            case "barrier":
                return "s_barrier\n"
        counter = chooser.choice(("vmcnt", "lgkmcnt", "lgkmcnt"))
        return f"s_waitcnt {counter}({chooser.choice((0, 0, 0, 1, 2))})\n"

    lines = "".join(step() for _ in range(chooser.randrange(3, 9)))
    lines += "s_mov_b32 s7, 3\n.Lagain:\n"
    lines += "".join(step() for _ in range(chooser.randrange(4, 10)))
    lines += "s_cmp_eq_u32 s7, 2\ns_cbranch_scc1 .Laround\n"
    lines += "".join(step() for _ in range(chooser.randrange(0, 3)))
    lines += ".Laround:\ns_sub_u32 s7, s7, 1\ns_cmp_lg_u32 s7, 0\ns_cbranch_scc1 .Lagain\n"
    return kernel(PROLOGUE + lines + step() + step(), threads=128)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_redundant_wait_changes_nothing(seed):
    text = _random(seed)
    found, _ = argued(text)
    if not found:
        return
    verdict, order = judged(text, LAUNCH).verdict, phase_order(run_of(text))
    for mutant, why in found:
        assert judged(mutant.text, LAUNCH).verdict is verdict, (mutant.line, why)
        assert same_order(order, phase_order(run_of(mutant.text))) == "", (mutant.line, why)


def test_the_random_programs_have_both():
    counts = [(len(found), total) for found, total in map(argued, map(_random, range(PROGRAMS)))]
    assert sum(found for found, _ in counts) > PROGRAMS
    assert sum(total - found for found, total in counts) > PROGRAMS
