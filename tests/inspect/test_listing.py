"""Listings, their loops and counts: small texts by hand, and random ones whose loops are known."""

from __future__ import annotations

from random import Random

import pytest

from titan.inspect import opcodes
from titan.inspect.counts import access_bytes, count
from titan.inspect.listing import BadListing, class_of, read_listing
from titan.inspect.loops import loops
from titan.isa.gcn.listing import NotUnderstood
from titan.isa.gcn.listing import read as read_gcn

# A main loop as ptxas lays it out: the wait of a barrier spins out of line, behind the EXIT.
MAIN_LOOP = """
	.section	.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   IMAD.MOV.U32 R24, RZ, RZ, RZ ;
.L_x_1:
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5+UR7+0x28000], R2 ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
.L_x_3:
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING R2, 0x100 ;
        /*0040*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0050*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
        /*0060*/                   BAR.ARV R3, 0x100 ;
        /*0070*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0080*/                   FADD R24, R24, R24 ;
        /*0090*/                   MUFU.EX2 R24, R24 ;
        /*00a0*/                   MEMBAR.ALL.GPU ;
        /*00b0*/               @P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR9+0x28020], RZ ;
        /*00c0*/              @!P2 BRA `(.L_x_1) ;
        /*00d0*/                   STL [R1], R24 ;
        /*00e0*/                   EXIT ;
.L_x_2:
        /*00f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5+UR7+0x28000], R2 ;
        /*0100*/              @!P0 BRA `(.L_x_2) ;
        /*0110*/                   BRA `(.L_x_3) ;
.L_x_4:
        /*0120*/                   BRA `(.L_x_4);
        /*0130*/                   NOP;
"""
AMD = """
kernel.co:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001900 <kernel>:
	s_mov_b32 s0, 0                                            // 000000001900: BE800080
	v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]// 000000001904: D3CC0000 04022510
	v_exp_f32_e32 v0, v0                                       // 00000000190C: 7E004100
	s_cbranch_scc1 65532                               // 000000001910: BF85FFFC <kernel+0x4>
	s_endpgm                                                   // 000000001914: BF810000
"""


def test_a_main_loop_with_a_wait_out_of_line():
    (function,) = read_listing(MAIN_LOOP)
    kernel = count(function)
    (loop,) = kernel.loops
    assert kernel.main is loop
    assert (loop.begin, loop.end, loop.depth) == (0x10, 0x110, 1)
    assert loop.instructions == 13  # 0x10 to 0xc0, and the jump back; not the inner wait
    assert loop.least == 12  # without the jump back from the wait
    assert loop.tensor_names == {"HGMMA.64x128x16.F32.BF16": 2}
    assert loop.tensor_cycles == 2 * 64
    assert loop.per_tensor == 6.5
    assert loop.issue_share == pytest.approx(13 / 128)
    assert loop.turn == 3  # the wait and two products
    assert loop.below_wait == 2
    assert loop.fences == {"MEMBAR.ALL.GPU": 1}
    assert kernel.local == 1
    assert len(kernel.findings) == 2


def test_a_branch_with_a_uniform_predicate_among_its_operands_may_go_on():
    text = MAIN_LOOP.replace("@!P2 BRA `(.L_x_1)", "BRA.U !UP2, `(.L_x_1)")
    (function,) = read_listing(text)
    place = next(n for n, item in enumerate(function.instructions) if item.name == "BRA.U")
    assert set(function.successors(place)) == {1, place + 1}
    assert [loop.own for loop in loops(function)] == [
        loop.own for loop in loops(read_listing(MAIN_LOOP)[0])
    ]


@pytest.mark.parametrize(
    ("load", "usual"),
    [("LDC R3, c[0x0][0x588]", 6), ("ULDC UR3, c[0x0][0x588]", 6), ("LDG.E R3, [R4]", 8)],
)
def test_the_usual_way_leaves_a_mask_out_whatever_its_limit_is_loaded_from(load, usual):
    lines = ["UTMALDG.2D [UR8], [UR4]", "MUFU.EX2 R0, R0", "@!P1 BRA `(.L_x_2)", load]
    lines += ["FSEL R1, R1, -INF, P2", "FADD R0, R0, R1", "FADD R0, R0, R0", "@P0 BRA `(.L_x_1)"]
    text = ["\t.section\t.text.masked,"]
    for number, line in enumerate([*lines, "EXIT"]):
        text += [".L_x_1:"] * (number == 0) + [".L_x_2:"] * (number == 5)
        text.append(f"  /*{16 * number:04x}*/ {line} ;")
    (loop,) = count(read_listing("\n".join(text))[0]).loops
    assert (loop.instructions, loop.usual) == (8, usual)


# Four numbers of two bytes: one access of 8 bytes, or four of 2.
STORES = """
kernel.co:	file format elf64-amdgpu

0000000000000000 <kernel>:
	v_exp_f32_e32 v0, v0                     // 000000000000: 00000000
	s_cbranch_scc1 2                         // 000000000004: BF850002 <kernel+0x10>
	buffer_store_dwordx2 v[0:1], v2, s[0:3]  // 000000000008: 00000000
	s_branch 4                               // 00000000000C: BF820004 <kernel+0x20>
	buffer_store_short v0, v2, s[0:3]        // 000000000010: 00000000
	buffer_store_short v1, v2, s[0:3]        // 000000000014: 00000000
	buffer_store_short v0, v2, s[0:3]        // 000000000018: 00000000
	buffer_store_short v1, v2, s[0:3]        // 00000000001C: 00000000
	s_cbranch_scc0 65527                     // 000000000020: BF84FFF7 <kernel>
	s_endpgm                                 // 000000000024: 00000000
"""


@pytest.mark.parametrize(("wide", "usual"), [("dwordx2", 5), ("dword", 7)])
def test_the_usual_way_writes_in_wide_accesses_where_they_write_as_much(wide, usual):
    (function,) = read_listing(STORES.replace("dwordx2", wide))
    (loop,) = count(function).loops
    assert (loop.instructions, loop.usual) == (9, usual)


@pytest.mark.parametrize(
    ("name", "added", "following"),
    [
        ("s_cbranch_execnz", "s_nop 0", (4,)),
        ("s_cbranch_execz", "s_nop 0", (2,)),
        ("s_cbranch_execnz", "s_and_saveexec_b64 s[0:1], vcc", (4, 2)),
        ("s_cbranch_execz", "s_mov_b64 exec, s[0:1]", (4, 2)),
        ("s_cbranch_execnz", "v_cmpx_lt_i32_e32 v0, v1", (4, 2)),
        ("s_cbranch_scc1", "s_nop 0", (4, 2)),
    ],
)
def test_a_jump_while_lanes_are_there_is_one_where_nothing_takes_lanes_out(name, added, following):
    text = STORES.replace("s_cbranch_scc1", name)
    text = text.replace("v_exp_f32_e32 v0, v0", added)
    (function,) = read_listing(text)
    assert function.successors(1) == following


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("LDG.E", 4), ("LDG.E.128", 16), ("LDG.E.64.CONSTANT", 8), ("LDG.E.U16", 2), ("LDS.U8", 1),
        ("STS", 4), ("STSM.16.MT88.4", 16), ("LDSM.16.M88.2", 8), ("ST.E.256", 32),
        ("buffer_load_dword", 4), ("buffer_load_dwordx4", 16), ("buffer_store_short_d16_hi", 2),
        ("buffer_load_ubyte", 1), ("global_load_lds_dwordx4", 16), ("global_load_dwordx3", 12),
        ("ds_read_b128", 16), ("ds_read2_b32", 8), ("ds_write2st64_b64", 16), ("ds_write_b16", 2),
        ("ds_read_u16_d16_hi", 2), ("ds_read_b64_tr_b16", 8), ("ds_bpermute_b32", 4),
    ],
)  # fmt: skip
def test_bytes_of_an_access(name, number):
    assert access_bytes(name) == number


def test_segments_add_up_to_the_loop():
    (function,) = read_listing(MAIN_LOOP)
    (loop,) = count(function).loops
    assert sum(segment.instructions for segment in loop.segments) == loop.instructions
    assert sum(segment.tensor for segment in loop.segments) == loop.tensor


def test_machine_code_for_amd():
    (function,) = read_listing(AMD)
    (loop,) = count(function).loops
    assert loop.instructions == 3
    assert loop.tensor == 1
    assert loop.tensor_cycles is None
    assert loop.by_class == {"control": 1, "special": 1, "tensor": 1}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UTCHMMA", opcodes.TENSOR), ("UTMALDG.2D", opcodes.COPY), ("UIADD3", opcodes.UNIFORM),
        ("IMAD.MOV.U32", opcodes.MOVE), ("IMAD.IADD", opcodes.INTEGER), ("F2FP.BF16", "convert"),
        ("CCTL.IVALL", opcodes.FENCE), ("LDL.LU", opcodes.LOCAL), ("QWERTY", opcodes.OTHER),
        ("UFADD", opcodes.FLOAT), ("LDTM.16x256b", opcodes.TENSOR_MEMORY),
        ("LDC.64", opcodes.CONSTANT), ("ULDC", opcodes.CONSTANT), ("LDG.E", opcodes.GLOBAL),
    ],
)  # fmt: skip
def test_the_longest_prefix_decides(name, kind):
    assert class_of(name, False) == kind


def test_a_text_without_code_is_refused():
    with pytest.raises(BadListing, match="no machine code"):
        read_listing("nothing\n")


def written(draw: Random, depth: int, lines: list[str], found: list[tuple[int, int]]) -> None:
    """Straight code, branches that meet again, and loops, as lines; loops by first and last."""
    for _ in range(draw.randrange(1, 4)):
        kind = draw.choice(("plain", "branch", "loop")) if depth else "plain"
        name = f".L_{len(lines)}_{draw.randrange(10**6)}"
        jump = draw.choice(("@P0 BRA", "BRA.U UP0,", "@!P1 BRA.U !UP0,"))
        begin = sum(line.startswith(" ") for line in lines)
        if kind == "plain":
            lines.append("FADD R0, R0, R0 ;")
            lines[-1] = f"   {lines[-1]}"
        elif kind == "branch":
            lines.append(f"   {jump} `({name}) ;")
            written(draw, depth - 1, lines, found)
            lines.append(f"{name}:")
            lines.append("   NOP ;")
        else:
            lines.append(f"{name}:")
            written(draw, depth - 1, lines, found)
            lines.append(f"   {jump} `({name}) ;")
            found.append((begin, sum(line.startswith(" ") for line in lines) - 1))


@pytest.mark.parametrize("seed", range(30))
def test_loops_of_random_structured_code(seed):
    lines: list[str] = []
    known: list[tuple[int, int]] = []
    written(Random(seed), 3, lines, known)
    text, number = ["\t.section\t.text.random,"], 0
    for line in [*lines, "   EXIT ;"]:
        coded = line.startswith(" ")
        text.append(f"  /*{16 * number:04x}*/ {line.strip()}" if coded else line)
        number += coded
    (function,) = read_listing("\n".join(text))
    # Two loops that begin at one instruction are one loop by their back edges.
    widest: dict[int, int] = {}
    for begin, end in known:
        widest[begin] = max(end, widest.get(begin, 0))
    found = {(loop.members[0], loop.members[-1]) for loop in loops(function)}
    assert found == set(widest.items())
    for loop in loops(function):
        assert list(loop.members) == list(range(loop.members[0], loop.members[-1] + 1))
        around = [b for b, e in widest.items() if b < loop.head and e >= loop.members[-1]]
        assert loop.depth == 1 + len(around)
        assert all(counts.least <= counts.instructions for counts in count(function).loops)


LABELS = """
k.co:\tfile format elf64-amdgpu

0000000000001000 <k>:
\ts_cbranch_scc0 label_2                                     // 000000001000: BF840004
\ts_nop 0                                                    // 000000001004: BF800000

0000000000001008 <label_1>:
\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]     // 000000001008: D3CD0000 04020D04
\ts_cbranch_scc1 label_1                                     // 000000001010: BF85FFFD

0000000000001014 <label_2>:
\ts_setpc_b64 s[2:3]                                         // 000000001014: BE801D02
\ts_endpgm                                                   // 000000001018: BF810000
\t\t...

0000000000001100 <other>:
\ts_nop 0                                                    // 000000001100: BF800000
\ts_cbranch_scc1 65534                                       // 000000001104: BF85FFFE <other>
\ts_endpgm                                                   // 000000001108: BF810000
"""


def test_labels_that_a_code_object_keeps_begin_no_functions():
    first, other = read_listing(LABELS)
    assert [one.name for one in (first, other)] == ["k", "other"]
    assert [len(one.instructions) for one in (first, other)] == [6, 3]
    # By the words of the instructions: the listing names these targets by labels alone.
    assert [item.target for item in first.instructions] == [4, None, None, 2, None, None]
    assert [len(loop.own) for loop in loops(first)] == [2]
    assert [len(loop.own) for loop in loops(other)] == [2]


def test_what_compares_with_a_sync_program_has_to_know_all_jumps():
    with pytest.raises(NotUnderstood, match="an unsupported jump: s_setpc_b64"):
        read_gcn(LABELS)
