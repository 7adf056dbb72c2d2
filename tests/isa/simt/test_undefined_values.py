"""What becomes of values that nothing has written, against the emulated device, which computes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import part
from titan.emulated.faults import LaunchFault
from titan.emulated.machine import Emulated
from titan.emulated.settings import EmulationSettings
from titan.isa.numbers.device import LaunchError, LaunchShape
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.operations import Preset, PresetKind
from titan.isa.simt.outcome import Run
from titan.isa.simt.run import run, run_prepared
from titan.isa.simt.tracing import undefined_values
from titan.isa.simt.tracing.undefined_tensors import wgmma_operands
from titan.isa.simt.tracing.undefined_values import UndefinedUses, undefined_uses
from titan.isa.simt.unwritten_registers import unwritten_registers

OUT = 0x10000
WORDS = 256  # of shared memory
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<8>; .reg .b32 %r<80>; .reg .b64 %d<10>; .reg .f32 %f<80>;
    .shared .align 1024 .b8 kept[{bytes}];
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    mov.u32 %r3, kept;
    shl.b32 %r4, %r2, 2;
    add.u32 %r4, %r3, %r4;
    mov.b32 %r10, 0; mov.b32 %r11, 1; mov.b32 %r12, 2; mov.b32 %r13, 3;
"""
TAIL = "ret;\n}\n"


def text_of(body: str, shared_bytes: int = 4 * WORDS) -> str:
    return HEAD.replace("{bytes}", str(shared_bytes)) + body + TAIL


def uses(text: str, threads: int = 32) -> UndefinedUses | None:
    """What is used that nothing has written, or None for nothing."""
    found = undefined_uses(made(text, threads))
    assert found is not None
    return found if found.reads or found.registers else None


def made(text: str, threads: int = 32, native: bool | None = None) -> Run:
    module, findings = parse(text, "k.ptx")
    assert module is not None, findings
    parameters = (LaunchParameter(OUT.to_bytes(8, "little")),)
    launch = Launch("k", (1, 1, 1), (threads, 1, 1), (1, 1, 1), 0, parameters, {}, {}, ())
    found, findings = run(module, launch, native=native)
    assert found is not None, findings
    return found


def leaves_unknown(text: str, threads: int = 32, words: int = 32) -> bool:
    """Whether the emulated device finds unknown bytes in what the kernel leaves."""
    device = Emulated(EmulationSettings())
    out = device.array(np.zeros(words, dtype=np.uint32))
    try:
        device.launch(text, LaunchShape((1, 1, 1), (threads, 1, 1)), [out])
    except (LaunchFault, LaunchError) as fault:
        assert "unknown" in str(fault) or "depends on" in str(fault), fault
        return True
    return False


UPPER = re.compile(
    r"mov\.b64 %d7, \{%r\d+, (%r\d+)\}; mov\.b64 %d6, %d7; mov\.b64 \{_, (%r\d+)\}, %d6;"
)
LOWER = re.compile(r"mov\.b64 %d7, \{(%r\d+), %r\d+\}; mov\.b64 \{(%r\d+), _\}, %d7;")


def in_parts(text: str) -> str:
    """The emulated device takes packed registers as a whole: it runs a move of the part instead."""
    return UPPER.sub(r"mov.b32 \2, \1;", LOWER.sub(r"mov.b32 \2, \1;", text))


registers = st.sampled_from(["%r10", "%r11", "%r12", "%r13"])
lanes = st.integers(0, 32)
places = st.integers(0, 96)
unset = st.sets(st.integers(0, 3), max_size=2)  # of the registers that are given a number


def without(left_out: set[int], text: str) -> str:
    """The kernel, with some registers that nothing has written before its body.

    The emulated device takes those that no instruction writes for zeros.
    """
    for number in left_out:
        set_ = f"mov.b32 %r1{number}, {number};"
        text = text.replace(set_, "").replace(TAIL, set_ + TAIL)
    return text


@st.composite
def instruction(draw):
    one, other, to = draw(registers), draw(registers), draw(registers)
    where, below = draw(places), draw(lanes)
    quad = "{%r10, %r11, %r12, %r13}"
    row = 16 * draw(st.integers(0, 8))
    return draw(
        st.sampled_from(
            [
                f"setp.lt.u32 %p1, %r2, {below}; @%p1 st.shared.u32 [%r4+{4 * where}], %r2;",
                f"st.shared.u32 [%r4+{4 * where}], {one};",
                f"ld.shared.u32 {to}, [%r4+{4 * where}];",
                f"add.u32 {to}, {one}, {other};",
                f"setp.lt.u32 %p1, %r2, {below}; selp.b32 {to}, {one}, {other}, %p1;",
                f"setp.lt.u32 %p1, %r2, {below}; @%p1 mov.b32 {to}, {one};",
                f"shfl.sync.bfly.b32 {to}, {one}, {1 + where % 31}, 31, 0xffffffff;",
                f"shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r3; and.b32 %r5, %r5, 0x7ffffff0;"
                f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {quad}, [%r5+{row}];",
                f"shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r3;"
                f"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{{to}, %r14}}, [%r5+{row}];",
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, "
                f"{quad}, {{{one}, {other}}}, {{0f00000000, 0f00000000, 0f00000000, 0f3F800000}};"
                f"mov.b32 {to}, %f{where % 4};",
                "bar.warp.sync 0xffffffff;"
                f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {{{one}}};",
                "bar.warp.sync 0xffffffff;",
                f"mov.b64 %d7, {{{one}, {other}}}; mov.b64 %d6, %d7; mov.b64 {{_, {to}}}, %d6;",
                f"mov.b64 %d7, {{{one}, {other}}}; mov.b64 {{{to}, _}}, %d7;",
                f"sub.u32 %r16, %r2, {below}; rem.u32 {to}, {one}, %r16;",
                f"sub.u32 %r16, %r2, {below}; div.s32 {to}, 99, %r16;",
                f"add.u32 %r16, %r2, {below}; fns.b32 {to}, {one}, %r16, 1;",
            ]
        )
    )


@settings(max_examples=part(300), deadline=None)
@given(st.lists(instruction(), min_size=2, max_size=10), registers, lanes, unset)
def test_what_is_used_is_what_the_emulated_device_does_not_know(body, kept, below, left_out):
    start = "shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r3;"
    end = f"setp.lt.u32 %p2, %r2, {below}; @%p2 st.global.u32 [%d3], {kept};"
    text = without(left_out, text_of("\n".join([start, *body, end])))
    plain = in_parts(text)
    assert bool(uses(text)) == leaves_unknown(plain) == bool(uses(plain)), text


@st.composite
def branch(draw):
    """A branch on data around a few instructions, or a predicated one.

    None stores: what an arm may store counts as written.
    """
    body = draw(st.lists(arm, min_size=1, max_size=3))
    test = f"setp.{draw(st.sampled_from(['eq', 'ne']))}.u32 %p6, {draw(tested)}, 0;"
    form = draw(st.integers(0, 5))
    if form == 0:
        return f"{test} @%p6 {body[0]}"
    if form < 4:  # several guards, made of each other
        made = f"setp.lt.u32 %p5, %r2, {draw(lanes)};" + draw(
            st.sampled_from(
                [
                    "and.pred %p7, %p6, %p5;", "or.pred %p7, %p6, %p5;", "not.pred %p7, %p6;",
                    "setp.lt.and.u32 %p7, %r2, 20, %p6;", "setp.lt.or.u32 %p7, %r2, 9, !%p6;",
                    "and.pred %p7, %p6, %p5; mov.pred %p6, %p5;", "mov.pred %p7, %p6;",
                ]
            )
        )  # fmt: skip
        guards = ["%p6", "!%p6", "%p7", "!%p7"]
        guarded = [f"@{draw(st.sampled_from(guards))} {text}" for text in body]
        to, one, other = draw(registers), draw(registers), draw(registers)
        chosen = f"selp.b32 {to}, {one}, {other}, {draw(st.sampled_from(['%p6', '%p7']))};"
        return "\n".join([test, made, *guarded, chosen if form == 1 else ""])
    other = draw(st.lists(arm, max_size=2))
    return "\n".join(
        [f"{{ {test} @%p6 bra ELSE;", *body, "bra.uni JOIN;", "ELSE:", *other, "JOIN: }"]
    )


tested = st.sampled_from(["%r40", "%r41", "%r10", "%r11"])
arm = st.builds(
    lambda text, to, one, place: text.format(to=to, one=one, place=4 * place),
    st.sampled_from(
        [
            "add.u32 {to}, {one}, 1;", "mov.b32 {to}, {one};", "mov.b32 {to}, 7;",
            "ld.shared.u32 {to}, [%r4+{place}];",
        ]
    ),
    registers, registers, places,
)  # fmt: skip


def test_what_an_arm_keeps_is_as_undefined_as_before():
    body = (
        "ld.global.u32 %r40, [%d3]; ld.shared.u32 %r11, [%r4]; st.shared.u32 [%r4+512], %r2;"
        "setp.eq.u32 %p6, %r40, 0; @%p6 bra JOIN; mov.u32 %r11, 1; ld.shared.u32 %r10, [%r4+512];"
        "JOIN: st.global.u32 [%d3], %r11;"
    )
    assert leaves_unknown(text_of(body)) and uses(text_of(body))


@settings(max_examples=part(300), deadline=None)
@given(st.lists(instruction() | branch(), min_size=2, max_size=8), registers, lanes, unset)
def test_what_data_decide_is_covered_both_ways(body, kept, below, left_out):
    """%r40 and %r41 are data: zeros on the emulated device, and unknown to who follows values."""
    start = "ld.global.u32 %r40, [%d3]; ld.global.u32 %r41, [%d3+128];"
    start += "shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r3;"
    end = f"setp.lt.u32 %p2, %r2, {below}; @%p2 st.global.u32 [%d3], {kept};"
    text = without(left_out, text_of("\n".join([start, *body, end])))
    if not uses(text):
        assert not leaves_unknown(in_parts(text), words=64), text


def test_an_undefined_value_moved_over_an_undefined_one_stays():
    """Where the guard holds the new one is there, else the old one."""
    body = """
    ld.global.u32 %r40, [%d3];
    setp.eq.u32 %p6, %r40, 0;
    ld.shared.u32 %r10, [%r4];
    ld.shared.u32 %r12, [%r4+128];
    @!%p6 mov.b32 %r10, {source};
    @%p6 mov.b32 %r10, %r11;
    st.global.u32 [%d3], {stored};
    """
    assert uses(text_of(body.format(source="%r10", stored="%r10")))
    assert uses(text_of(body.format(source="%r12", stored="%r10")))
    assert uses(text_of(body.format(source="%r11", stored="%r10"))) is None
    assert uses(text_of(body.format(source="%r12", stored="%r11"))) is None


# -------------------------------------------------------------------- bits of registers

words = st.sampled_from([f"%r{number}" for number in (1, 10, 11, 12, 13)])
numbers = st.sampled_from([0, 1, 5, 8, 16, 24, 31, 32])
masks = st.sampled_from([0, 1, 0xFF, 0xFF00, 0xFFFF, 0xFFFF0000, 0x80000000, 0xFFFFFFFF])
selectors = st.sampled_from([0x3210, 0x7610, 0x5410, 0x7771, 0x0123, 0x8888, 0x9999, 0xBA98])


@st.composite
def computed(draw):
    """One instruction on integers. Of %r10 to %r13, two are unwritten at the beginning."""
    to, one, other, third = draw(registers), draw(words), draw(words), draw(words)
    amount, count, mask = draw(numbers), draw(numbers), draw(masks)
    return draw(
        st.sampled_from(
            [
                f"add.u32 {to}, {one}, {other};", f"sub.u32 {to}, {one}, {mask};",
                f"and.b32 {to}, {one}, {mask};", f"or.b32 {to}, {one}, {mask};",
                f"xor.b32 {to}, {one}, {other};", f"not.b32 {to}, {one};",
                f"neg.s32 {to}, {one};", f"lop3.b32 {to}, {one}, {other}, {third}, {mask & 255};",
                f"shl.b32 {to}, {one}, {amount};", f"shr.u32 {to}, {one}, {amount};",
                f"shr.s32 {to}, {one}, {amount};", f"shl.b32 {to}, {mask}, {one};",
                f"shf.r.wrap.b32 {to}, {one}, {other}, {amount};",
                f"shf.l.clamp.b32 {to}, {one}, {other}, {amount};",
                f"bfe.u32 {to}, {one}, {amount}, {count};",
                f"bfe.s32 {to}, {one}, {amount}, {count};",
                f"bfi.b32 {to}, {one}, {other}, {amount}, {count};",
                f"prmt.b32 {to}, {one}, {other}, {draw(selectors)};",
                f"prmt.b32 {to}, {one}, {other}, {third};",
                f"mul.lo.u32 {to}, {one}, {mask};", f"mad.lo.s32 {to}, {one}, {other}, {third};",
                f"mul.hi.u32 {to}, {one}, {other};", f"min.s32 {to}, {one}, {other};",
                f"cvt.s32.s8 {to}, {one};", f"cvt.u32.u16 {to}, {one};",
                f"cvt.sat.s8.s32 {to}, {one};", f"brev.b32 {to}, {one};", f"popc.b32 {to}, {one};",
                f"add.s16x2 {to}, {one}, {other};", f"max.s16x2 {to}, {one}, {other};",
                f"mov.b32 {{%h1, %h2}}, {one}; mov.b32 {to}, {{%h2, %h1}};",
                f"mov.b32 {{_, %h1}}, {one}; mov.b32 {{%h2, _}}, {other};"
                f"mov.b32 {to}, {{%h1, %h2}};",
                f"mul.wide.u16 {to}, %h1, %h2;" if draw(st.booleans()) else "",
                f"setp.lt.u32 %p1, {one}, {mask}; selp.b32 {to}, {other}, {third}, %p1;",
                f"setp.lt.u32 %p1, %r1, {amount}; selp.b32 {to}, {other}, {third}, %p1;",
                f"setp.lt.u32 %p1, %r1, {amount}; @%p1 mov.b32 {to}, {one};",
                f"mov.b64 %d7, {{{one}, {other}}}; shr.u64 %d7, %d7, {amount};"
                f"cvt.u32.u64 {to}, %d7;",
                f"st.local.u32 [mine], {one}; ld.local.s8 {to}, [mine+{amount % 4}];",
                f"st.local.u16 [mine+2], {one}; ld.local.u32 {to}, [mine];",
            ]
        )
    )  # fmt: skip


def left(run_: Run, filling: int, size: int) -> list[bytes | None]:
    """What each lane leaves where the registers that may be read unwritten hold some number."""
    prepared = run_.prepared
    assert prepared is not None
    found = unwritten_registers(prepared.code).registers.get(prepared.code.start, ())
    fill = [
        Preset(register, PresetKind.CONSTANT, filling >> (7 * register % 64) & 0xFFFFFFFF)
        for register in found
    ]
    code = replace(prepared.code, presets=(*prepared.code.presets, *fill))
    ranges = tuple((at, at + size) for at in range(OUT, OUT + 128, 4))
    return run_prepared(replace(prepared, code=code), ranges)[1]


FILLINGS = (0, (1 << 96) - 1, 0x9D3A_51C6_E7F0_2B84_6A1D_C35F, 0x0F1E_2D3C_4B5A_6978_8796_A5B4)


@settings(max_examples=part(600), deadline=None)
@given(st.lists(computed(), min_size=1, max_size=6), registers, st.sampled_from([8, 16, 32]))
def test_bits_against_runs_with_several_fillings(body, kept, bits):
    """What is left in memory changes with what unwritten registers hold: then that is used."""
    ready = ".local .align 4 .b8 mine[4]; .reg .b16 %h<4>; st.local.u32 [mine], %r1;"
    ready += "mov.b16 %h1, 3; mov.b16 %h2, 5;"
    end = f"st.global.b{bits} [%d3], {kept};"
    text = without({0, 1}, text_of("\n".join([ready, *body, end])))
    found = undefined_uses(made(text))
    assert found is not None
    memories = {tuple(left(made(text), filling, bits // 8)) for filling in FILLINGS}
    assert all(None not in memory for memory in memories)
    if not found.registers and not found.reads:
        assert len(memories) == 1, text
    if any(use.certain for use in found.registers):
        assert len(memories) > 1, text


# -------------------------------------------------------------------- wgmma, tcgen05

UNITS = """
    and.b32 %r20, %r1, 127;
    shl.b32 %r21, %r20, 4; add.u32 %r21, %r21, %r3;
    {fill}
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""


def filled(units: int, left_out: list[int], threads: int = 128) -> str:
    """Threads write 16-byte units of kept, but for some."""
    text = []
    for block in range(0, units, threads):
        size = min(threads, units - block)
        text.append(f"setp.lt.u32 %p3, %r20, {size};")
        for unit in left_out:
            if block <= unit < block + size:
                text.append(f"setp.ne.and.u32 %p3, %r20, {unit - block}, %p3;")
        text.append(f"@%p3 st.shared.v4.b32 [%r21+{16 * block}], {{%r1, %r1, %r1, %r1}};")
    return "\n".join(text)


def described(at: int, leading: int, stride: int) -> str:
    """A descriptor without swizzle, in %d4: `at` from kept on, the distances in bytes."""
    high = (leading >> 4) << 16 | (stride >> 4) << 32
    return (
        f"add.u32 %r22, %r3, {at}; shr.u32 %r22, %r22, 4; and.b32 %r22, %r22, 16383;"
        f"cvt.u64.u32 %d4, %r22; or.b64 %d4, %d4, {high};"
    )


def kept_words(registers: range, guard: str) -> str:
    """Threads store some of the registers %f0 on, each thread in its own words."""
    stores = "".join(
        f"{guard} st.global.f32 [%d5+{4 * n}], %f{register};"
        for n, register in enumerate(registers)
    )
    return f"mul.wide.u32 %d5, %r1, {4 * len(registers)}; add.s64 %d5, %d1, %d5; {stores}"


@settings(max_examples=part(100), deadline=None)
@given(
    st.lists(st.integers(0, 47), max_size=2), lanes, st.integers(0, 3), st.booleans(), st.booleans()
)
def test_products_of_a_warp(left_out, below, register, packed, transposed):
    """A of 16 x 16 and B of 8 x 16 (or 16 x 8) in rows of 16 bytes; one register is kept."""
    ready = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"
    sums = "{%f0, %f1, %f2, %f3}"
    a, b = "{%r30, %r31, %r32, %r33}", "{%r34, %r35}"
    product = f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {sums}, {a}, {b}, {sums};"
    if packed:
        register %= 2
        ready = "mov.b32 %r36, 0; mov.b32 %r37, 0;"
        sums = "{%r36, %r37}"
        product = (
            f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {sums}, {a}, {b}, {sums};"
            "mov.b32 %f0, %r36; mov.b32 %f1, %r37;"
        )
    text = text_of(
        "mov.u32 %r20, %r1; shl.b32 %r21, %r20, 4; add.u32 %r21, %r21, %r3;"
        + filled(48, left_out, 32)
        + "bar.warp.sync 0xffffffff;"
        + f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a}, [%r21];"
        + f"ldmatrix.sync.aligned.m8n8.x2{'.trans' if transposed else ''}.shared.b16 {b}, "
        + f"[%r21+512]; {ready} {product} setp.lt.u32 %p5, %r1, {below};"
        + kept_words(range(register, register + 1), "@%p5")
    )
    assert bool(uses(text)) == leaves_unknown(text), text


blocks = st.integers(0, 128)


@settings(max_examples=part(80), deadline=None)
@given(
    st.lists(st.integers(0, 143), max_size=3), st.booleans(), st.booleans(), blocks,
    st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.integers(0, 3), st.integers(1, 4),
)  # fmt: skip
def test_products_of_a_warpgroup(left_out, adds, twice, below, across_a, across_b, first, words):
    """A of 64 x 16 and B of 8 x 16 in 144 units, of which some are left out."""
    one = (
        f"setp.ne.u32 %p4, {int(adds)}, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d6, %d4, "
        f"%p4, 1, 1, {across_a}, {across_b};"
    )
    text = text_of(
        UNITS.replace("{fill}", filled(144, left_out))
        + (described(0, 1024, 128) if across_a else described(0, 128, 256))
        + "mov.b64 %d6, %d4;"
        + described(2048, 128, 256)
        + "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"
        + "wgmma.fence.sync.aligned;"
        + one * (1 + twice)
        + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        + f"setp.lt.u32 %p5, %r1, {below};"
        + kept_words(range(first, min(first + words, 4)), "@%p5"),
        4096,
    )
    assert bool(uses(text, 128)) == leaves_unknown(text, 128, 512), text


@pytest.mark.parametrize("left_out", [[], [3]])
def test_operands_of_a_product_are_asked_for_once(left_out, monkeypatch):
    """Not for each lane of each register, whether or not something in them is undefined."""
    asked = []

    def counted(memories, warp, *rest):
        asked.append(warp.index)
        return wgmma_operands(memories, warp, *rest)

    monkeypatch.setattr(undefined_values, "wgmma_operands", counted)
    one = (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d6, %d4, "
        "1, 1, 1, 0, 0;"
    )
    text = text_of(
        UNITS.replace("{fill}", filled(144, left_out))
        + described(0, 128, 256) + "mov.b64 %d6, %d4;" + described(2048, 128, 256)
        + "wgmma.fence.sync.aligned;" + one + one
        + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        + kept_words(range(4), ""),
        4096,
    )  # fmt: skip
    assert uses(text, 128) is not None  # the first sums are added to registers unwritten
    assert sorted(asked) == sorted(2 * [0, 1, 2, 3])


@settings(max_examples=part(80), deadline=None)
@given(
    st.lists(st.integers(0, 287), max_size=3), st.booleans(), st.booleans(), blocks,
    st.integers(1, 16), st.sampled_from([128, 64]),
)  # fmt: skip
def test_products_in_tensor_memory(left_out, adds, stored, below, columns, rows):
    """A of 128 (or 64) x 16 and B of 16 x 16 in 288 units; of D some columns are kept."""
    instruction = 1 << 4 | 1 << 7 | 1 << 10 | 16 >> 3 << 17 | rows >> 4 << 24
    sums = ", ".join(f"%f{n}" for n in range(16))
    zeros = ", ".join(["%r10"] * 16)
    lanes_ = "shl.b32 %r23, %r1, 16; and.b32 %r23, %r23, 0x600000; add.u32 %r23, %r23, %r24;"
    begins = f"{lanes_} tcgen05.st.sync.aligned.32x32b.x16.b32 [%r23], {{{zeros}}};"
    text = text_of(
        UNITS.replace("{fill}", filled(288, left_out))
        + "setp.lt.u32 %p6, %r1, 32; @!%p6 bra ALLOCATED;"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [kept+6144], 32;"
        + "ALLOCATED: setp.eq.u32 %p7, %r1, 0; @%p7 mbarrier.init.shared::cta.b64 [kept+6152], 1;"
        + "bar.sync 0; ld.shared.u32 %r24, [kept+6144];"
        + (f"{begins} tcgen05.wait::st.sync.aligned;" if stored else "")
        + "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
        + described(0, 128, 256)
        + "mov.b64 %d6, %d4;"
        + described(4096, 128, 256)
        + f"setp.ne.u32 %p4, {int(adds)}, 0; @!%p7 bra ISSUED;"
        + f"tcgen05.mma.cta_group::1.kind::f16 [%r24], %d6, %d4, {instruction}, %p4;"
        + "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [kept+6152];"
        + "ISSUED: mbarrier.try_wait.parity.shared::cta.b64 %p5, [kept+6152], 0; @!%p5 bra ISSUED;"
        + "tcgen05.fence::after_thread_sync;"
        + lanes_
        + f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{sums}}}, [%r23];"
        + "tcgen05.wait::ld.sync.aligned;"
        + f"setp.lt.u32 %p5, %r1, {below}; and.b32 %r25, %r1, 16;"
        + ("setp.eq.and.u32 %p5, %r25, 0, %p5;" if rows == 64 else "")
        + kept_words(range(columns), "@%p5")
        + "tcgen05.fence::before_thread_sync; bar.sync 0; @!%p6 bra DONE;"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r24, 32; DONE:",
        8192,
    ).replace("sm_90a", "sm_100a").replace(".version 8.7", ".version 8.8")  # fmt: skip
    assert bool(uses(text, 128)) == leaves_unknown(text, 128, 128 * columns), text


ALL_LANES = "mov.b32 %r20, 9; mov.b32 %r21, 31; mov.b32 %r22, -1;"
EXCHANGE = "shfl.sync.idx.b32 %r23|%p1, %r2, %r20, %r21, %r22;"
LEAVE = "setp.lt.u32 %p2, %r1, {n}; @%p2 bra GO; ret; GO:"
LEAVE_TO_END = "setp.lt.u32 %p2, %r1, {n}; @!%p2 bra GO;"  # one instruction that ends all lanes


@pytest.mark.parametrize(
    ("body", "open_"),
    [
        (f"{ALL_LANES} {EXCHANGE}", False),
        (f"{ALL_LANES} {EXCHANGE} {LEAVE.format(n=9)}", False),  # first, and then the roles
        (f"{ALL_LANES} {LEAVE.format(n=9)} {EXCHANGE}", True),
        (f"{ALL_LANES} {LEAVE.format(n=10)} {EXCHANGE}", False),
        (f"{ALL_LANES} {LEAVE_TO_END.format(n=9)} {EXCHANGE} GO:", True),
        (f"{ALL_LANES} {LEAVE_TO_END.format(n=10)} {EXCHANGE} GO:", False),
        (f"{ALL_LANES.replace('-1', '255')} setp.lt.u32 %p2, %r1, 8; @%p2 {EXCHANGE}", True),
        (f"{ALL_LANES.replace('-1', '1023')} setp.lt.u32 %p2, %r1, 10; @%p2 {EXCHANGE}", False),
    ],
)
@pytest.mark.parametrize("native", [False, None])
def test_which_exchanges_are_open(body: str, open_: bool, native: bool | None):
    """A run is made again, slowly, where a lane is read that takes no part."""
    assert bool(made(text_of(body), native=native).undefined) is open_
