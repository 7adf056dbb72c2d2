"""Which registers decide something: a carry that only a pointer takes does not."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.texts import HEAD, TAIL
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly

pytest.importorskip("numpy")
# s[12:13] counts bytes: bit 13 chooses the stage in LDS, all are added to the pointer s[20:21].
LOOP = """.Lloop:
\ts_add_u32 s8, s12, 0x2000
\ts_addc_u32 s9, s13, 0
\ts_and_b32 s10, s8, 0x2000
\ts_add_u32 s14, s20, s12
\ts_addc_u32 s15, s21, s13
\ts_and_b32 s15, s15, 0xffff
\ts_mov_b64 s[24:25], s[14:15]
\ts_mov_b32 s26, 0x40000000
\ts_mov_b32 s27, 0x20000
\ts_mov_b32 m0, s10
\ts_nop 4
\tbuffer_load_dword v1, s[24:27], 0 offen lds
\ts_mov_b64 s[12:13], s[8:9]
\ts_sub_i32 s6, s6, 1
\ts_cmp_gt_i32 s6, 0
\ts_cbranch_scc1 .Lloop
\ts_endpgm
"""


def irrelevant(loop):
    from titan.isa.waves.decode import SCALAR_BASE
    from titan.isa.waves.rounds import FollowedKernel

    names = {"name": "k", "target": "gfx942", "threads": 64, "lds": 32768}
    text = HEAD.format(**names) + loop + TAIL.format(**names)
    assembly, errors = parse_assembly(Source("k.s", text))
    assert assembly is not None and not errors
    (found,) = FollowedKernel(assembly, assembly.kernels[0]).irrelevant.values()
    return {register - SCALAR_BASE for register in found if register >= SCALAR_BASE}


def test_a_carry_that_only_a_pointer_takes_decides_nothing():
    assert {12, 6}.isdisjoint(irrelevant(LOOP))
    assert {13, 14, 15} <= irrelevant(LOOP)


@pytest.mark.parametrize(("old", "new"), [
    ("s15, s15, 0xffff", "s15, s15, 0x3ffff"),  # the carry may turn into a stride
    ("s_cmp_gt_i32 s6, 0", "s_cmp_lg_u64 s[8:9], s[6:7]"),
    ("s_and_b32 s10, s8, 0x2000", "s_and_b32 s10, s9, 0x2000"),
    ("s_and_b32 s10, s8, 0x2000", "s_and_b64 s[10:11], s[8:9], s[18:19]\n\ts_mov_b32 s10, s11"),
    ("s_mov_b64 s[24:25], s[14:15]", "s_lshl_b64 s[24:25], s[14:15], 1"),
])  # fmt: skip
def test_where_it_may_decide_something_it_is_followed(old, new):
    assert old in LOOP
    assert 13 not in irrelevant(LOOP.replace(old, new))


# The pointer s[12:13] itself moves on; the stage comes from another counter.
MOVED = (
    LOOP.replace("s_and_b32 s10, s8, 0x2000", "s_and_b32 s10, s6, 0x2000")
    .replace("s_add_u32 s14, s20, s12", "s_mov_b32 s14, s12")
    .replace("s_addc_u32 s15, s21, s13", "s_mov_b32 s15, s13")
)


def test_the_first_word_of_a_resource_is_an_address_and_decides_nothing():
    assert {12, 13, 14} <= irrelevant(MOVED)


@pytest.mark.parametrize(("old", "new"), [
    ("s_mov_b32 s27, 0x20000", "s_and_b32 s27, s12, 0x20000"),  # the word of the format
    ("s_mov_b32 s15, s13", "s_lshl_b32 s15, s12, 16"),  # the stride
    ("s_mov_b32 m0, s10", "s_mov_b32 m0, s12"),
])  # fmt: skip
def test_the_other_words_are_followed(old, new):
    assert old in MOVED
    changed = MOVED.replace(old, new)
    if "s15" in new:
        changed = changed.replace("\ts_and_b32 s15, s15, 0xffff\n", "")
    assert 12 not in irrelevant(changed)
