"""Launches given with memory: what decides control is read there, while nobody writes it."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import AssemblyCode
from titan.frontends.gcn.verify import verify_waves
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter

FIRST, SECOND = 0x10_0000, 0x20_0000  # two allocations; the second's address stands in the first
HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshrrev_b32_e32 v1, 6, v0
v_lshlrev_b32_e32 v2, 2, v0
v_readfirstlane_b32 s6, v1
v_mov_b32_e32 v9, 0
s_waitcnt lgkmcnt(0)
"""
BY_SCALAR = "s_load_dword s12, s[4:5], 0x10\ns_waitcnt lgkmcnt(0)\n"
BY_VECTOR = (
    "global_load_dword v3, v9, s[4:5] offset:16\ns_waitcnt vmcnt(0)\n"
    "v_readfirstlane_b32 s12, v3\ns_nop 3\n"
)
LOOP = """.Lloop:
s_barrier
s_sub_u32 s12, s12, 1
s_cmp_gt_i32 s12, 0
s_cbranch_scc1 .Lloop
"""
POINTER = "s_load_dwordx2 s[8:9], s[4:5], 0x20\ns_waitcnt lgkmcnt(0)\n"
STORE = "global_store_dword v2, v9, s[8:9]\n"


def memory(count: int = 3) -> dict[int, bytes]:
    words = bytearray(1024)
    words[16:20] = count.to_bytes(4, "little")
    words[32:40] = SECOND.to_bytes(8, "little")
    return {FIRST: bytes(words), SECOND: bytes(1024)}


def verdict(lines: str, held: dict[int, bytes]) -> Verdict:
    source = Source("k.s", kernel(f"{HEAD}{lines}s_endpgm", threads=128))
    assembly, errors = parse_assembly(source)
    assert assembly is not None and not errors, errors
    code = AssemblyCode(assembly, source, assembly.kernels[0])
    given = (LaunchParameter(FIRST.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    allocations = (Allocation(FIRST, 1024), Allocation(SECOND, 1024))
    launch = Launch(
        "k", (1, 1, 1), (128, 1, 1), parameters=given, memory=held, allocations=allocations
    )
    return verify_waves(code, launch, CodeOptions(), CodePlaces(assembly, source)).verdict


@pytest.mark.parametrize("load", [BY_SCALAR, BY_VECTOR])
def test_memory_decides_how_often_a_loop_turns(load):
    assert verdict(load + LOOP, memory()) is Verdict.VERIFIED
    assert verdict(load + LOOP, {}) is Verdict.UNDECIDED


def test_memory_decides_where_is_stored():
    assert verdict(POINTER + STORE, memory()) is Verdict.VERIFIED
    assert verdict(POINTER + STORE, {}) is Verdict.UNDECIDED


def test_what_is_stored_elsewhere_leaves_it_known():
    lines = POINTER + STORE + BY_SCALAR + LOOP
    assert verdict(lines, memory()) is Verdict.VERIFIED


@pytest.mark.parametrize("where", ["before", "behind"])
def test_memory_that_the_work_group_writes_decides_nothing(where):
    """The word itself, or another one of its allocation: that may be what another run writes."""
    store = "global_store_dword v9, v9, s[4:5] offset:{}\ns_waitcnt vmcnt(0)\ns_barrier\n"
    for at in (16, 512):
        parts = [store.format(at), BY_VECTOR]
        lines = "".join(parts if where == "before" else parts[::-1]) + LOOP
        found = verdict(lines, memory())
        assert (found is Verdict.VERIFIED) is (at == 512), (where, at)


SCALAR = "s_load_dword s12, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\n"
FIRST_STORE = """s_cmp_eq_u32 s6, 0
s_cbranch_scc0 .Lother
global_store_dword v9, v9, s[4:5]
.Lother:
s_barrier
"""
SECOND_STORE = """s_cmp_eq_u32 s6, 1
s_cbranch_scc0 .Lend
global_store_dword v9, v9, s[4:5]
.Lend:
"""


@pytest.mark.parametrize(("lines", "right"), [
    (FIRST_STORE + SECOND_STORE, True),  # one cache performs them in the order of issue
    (SCALAR + "s_barrier\n" + FIRST_STORE + SECOND_STORE, True),  # read before any store
    (SCALAR + FIRST_STORE + SECOND_STORE, False),  # by the other wave perhaps at the same time
    (FIRST_STORE + SCALAR + SECOND_STORE, False),  # by the other cache, too early
])  # fmt: skip
def test_scalar_loads_before_all_stores_leave_the_order_of_issue(lines, right):
    text = kernel(f"{HEAD}{lines}s_endpgm", threads=128)
    launch = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
    found = judged(text, launch).verdict
    assert (found is Verdict.VERIFIED) is right
