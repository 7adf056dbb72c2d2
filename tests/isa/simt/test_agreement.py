"""The native machine against the Python one, on random programs: the same events in the same order,
the same outcome, the same values.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.simt.running import MAP, OUT, STORE, launch_of, module_of, ran, results
from titan.isa.simt._build_core import PARTS, SOURCES
from titan.isa.simt.launch import LaunchParameter, LaunchTensorMap, Options
from titan.isa.simt.native import SPECIALS, core
from titan.isa.simt.operations import Op

pytestmark = pytest.mark.skipif(core() is None, reason="the native core is not built")

REGISTER = st.integers(0, 7).map(lambda n: f"%r{n}")
CONSTANT = st.sampled_from(["0", "1", "2", "31", "32", "-1", "0x80000000", "7", "255"])
OPERAND = st.one_of(REGISTER, REGISTER, CONSTANT)
_BINARY = """
add.s32 sub.u32 mul.lo.s32 mul.hi.u32 mul.hi.s32 div.s32 div.u32 rem.s32 rem.u32 min.s32
max.u32 and.b32 or.b32 xor.b32 shl.b32 shr.u32 shr.s32 bmsk.clamp.b32 szext.wrap.u32
szext.clamp.s32 min.relu.s32 max.relu.s32 add.s16x2 add.u16x2 min.s16x2 max.u16x2 min.relu.s16x2
mul24.lo.u32 mul24.lo.s32
"""
BINARY = _BINARY.split()
_TERNARY = """
mad.lo.u32 mad.hi.s32 bfe.u32 bfe.s32 shf.l.wrap.b32 shf.r.clamp.b32 prmt.b32 prmt.b32.f4e
prmt.b32.ecl sad.u32 sad.s32 fns.b32 mad24.lo.s32
"""
TERNARY = _TERNARY.split()
_UNARY = """
abs.s32 neg.s32 not.b32 cnot.b32 brev.b32 clz.b32 popc.b32 bfind.u32 bfind.s32
"""
UNARY = _UNARY.split()
_COMPARED = """
eq.s32 ne.u32 lt.s32 le.u32 gt.s32 ge.u32 lo.u32 hs.u32
"""
COMPARED = _COMPARED.split()
_WORDS = """
add.cc.u32 sub.cc.s32 addc.cc.u32 subc.cc.u32 addc.s32 subc.u32 mad.lo.cc.u32 mad.hi.cc.s32
madc.lo.cc.s32 madc.hi.cc.u32 madc.hi.u32 madc.lo.u32
"""
WORDS = _WORDS.split()


@st.composite
def instruction(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from("ubtbtpsvmixcafw"))
    r, a, b, c = draw(REGISTER), draw(OPERAND), draw(OPERAND), draw(OPERAND)
    guard = draw(st.sampled_from(["", "", "", "@%p1 ", "@!%p2 "]))
    if kind == "u":
        return f"{guard}{draw(st.sampled_from(UNARY))} {r}, {draw(REGISTER)};"
    if kind == "b":
        return f"{guard}{draw(st.sampled_from(BINARY))} {r}, {a}, {b};"
    if kind == "t":
        return f"{guard}{draw(st.sampled_from(TERNARY))} {r}, {a}, {b}, {c};"
    if kind == "p":
        p, q = draw(st.sampled_from([("%p1", "%p2"), ("%p2", "%p3"), ("%p3", "%p1")]))
        form = draw(st.sampled_from(["", ".and", ".or", ".xor"]))
        word, type_ = draw(st.sampled_from(COMPARED)).split(".")
        third = f", {draw(st.sampled_from(['%p1', '!%p2', '%p3']))}" if form else ""
        outs = draw(st.sampled_from([p, f"{p}|{q}"]))
        return f"{guard}setp.{word}{form}.{type_} {outs}, {a}, {b}{third};"
    if kind == "s":
        return f"{guard}selp.b32 {r}, {a}, {b}, %p1;"
    if kind == "w":
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
        return " ".join(
            f"{guard}{word} {r}, {a}, {b}{f', {c}' if 'mad' in word else ''};" for word in words
        )
    if kind == "v":
        mode = draw(st.sampled_from(["up", "down", "bfly", "idx"]))
        return f"shfl.sync.{mode}.b32 {r}|%p3, {draw(REGISTER)}, {a}, {b}, -1;"
    if kind == "m":
        return (
            f"and.b32 %r9, {draw(REGISTER)}, 60; add.u32 %r9, %r9, %r8; "
            f"{guard}st.shared.u32 [%r9], {draw(REGISTER)};"
        )
    if kind == "i":
        width = draw(st.sampled_from(["u32", "s8", "u16", "s16", "b8"]))
        return (
            f"and.b32 %r9, {draw(REGISTER)}, 62; add.u32 %r9, %r9, %r8; "
            f"{guard}ld.shared.{width} {r}, [%r9];"
        )
    if kind == "x":
        word = draw(st.sampled_from(["add", "min", "max", "and", "or", "xor", "exch", "inc"]))
        return (
            f"and.b32 %r9, {draw(REGISTER)}, 12; add.u32 %r9, %r9, %r8; "
            f"{guard}atom.shared.{word}.u32 {r}, [%r9], {draw(REGISTER)};"
        )
    if kind == "c":
        integers = ["s32.s8", "u32.u16", "s32.s16", "sat.u8.s32", "sat.s16.s32"]
        floats = ["rn.f32.u32", "rn.f32.s32", "rn.f32.s16", "rzi.s32.f32", "rpi.ftz.u32.f32"]
        types = draw(st.sampled_from([*integers, *floats]))
        return f"{guard}cvt.{types} {r}, {draw(REGISTER)};"
    if kind == "a":
        return draw(st.sampled_from([
            f"vote.sync.ballot.b32 {r}, %p1, -1;", f"redux.sync.add.u32 {r}, {draw(REGISTER)}, -1;",
            f"match.any.sync.b32 {r}, {draw(REGISTER)}, -1;", f"elect.sync {r}|%p3, -1;",
            f"ld.global.u32 {r}, [%d0+{4 * draw(st.integers(0, 40))}];",
            f"red.global.add.u32 [%d0+256], {draw(REGISTER)};", "bar.warp.sync -1;",
        ]))  # fmt: skip
    word = draw(st.sampled_from(["add", "mul", "sub", "min", "max"]))
    return (
        f"mov.b32 %f1, {draw(REGISTER)}; mov.b32 %f2, {draw(REGISTER)}; "
        f"{guard}{word}.f32 %f3, %f1, %f2; fma.rn.f32 %f3, %f3, %f1, %f2; mov.b32 {r}, %f3;"
    )


@st.composite
def block(draw: st.DrawFn, depth: int = 0, label: str = "_") -> list[str]:
    """Straight code, branches that meet again, loops of a few rounds, a barrier at the top."""
    lines = draw(st.lists(instruction(), min_size=1, max_size=6))
    if depth < 2 and draw(st.booleans()):
        inner = draw(block(depth + 1, label + "i"))
        # collectives of all lanes are for code where all are
        inner = [line for line in inner if ".sync" not in line]
        if draw(st.booleans()):
            other = [line for line in draw(block(depth + 1, label + "o")) if ".sync" not in line]
            lines += [f"@%p2 bra A{label};", *inner, f"bra B{label};", f"A{label}:", *other,
                      f"B{label}:"]  # fmt: skip
        else:
            counter = f"%r{20 + depth}"
            lines += [f"mov.u32 {counter}, 0;", f"L{label}:", *inner,
                      f"add.u32 {counter}, {counter}, 1;", f"and.b32 %r9, %r{depth}, 3;",
                      f"setp.lt.u32 %p4, {counter}, %r9;", f"@%p4 bra L{label};"]  # fmt: skip
    if depth == 0 and draw(st.booleans()):
        lines.append("bar.sync 0;")
        lines += draw(st.lists(instruction(), max_size=4))
    return lines


PROLOGUE = """
.shared .align 16 .b8 tile[128];
mov.u32 %r8, tile;
ld.param.u64 %d0, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; mov.u32 %r3, %ctaid.x; mov.u32 %r4, 12345;
mov.u32 %r5, -3; mov.u32 %r6, %warpid; mov.u32 %r7, 1; mov.u32 %r0, 9;
setp.lt.u32 %p1, %r2, 16; setp.eq.u32 %p2, %r6, 0; setp.ne.u32 %p3, %r2, 5;
"""


@settings(max_examples=120, deadline=None)
@given(block(), st.sampled_from([1, 20, 32, 70]), st.sampled_from([0, 0, 5, 77]))
def test_random_programs_agree(lines, threads, seed):
    module = module_of(PROLOGUE + "\n".join(lines) + STORE)
    ran(module, launch_of(grid=2, block=threads), Options(seed=seed, steps_max=20_000))


@settings(max_examples=60, deadline=None)
@given(block(), st.integers(0, 3))
def test_values_of_random_programs_agree(lines, seed):
    text = PROLOGUE + "\n".join(line for line in lines if "global" not in line) + STORE
    module = module_of(text)
    try:
        results(module, launch_of(), 32, Options(seed=seed, steps_max=20_000))
    except AssertionError as refused:
        if "Ending." not in str(refused):
            raise


@st.composite
def exchange(draw: st.DrawFn) -> str:
    """Two warps and mbarriers, copies, groups: often wrong, always told in the same way."""
    lines = []
    for _ in range(draw(st.integers(2, 10))):
        bar = draw(st.integers(0, 2)) * 8
        lines.append(draw(st.sampled_from([
            f"mbarrier.arrive.shared::cta.b64 _, [bars+{bar}];",
            f"mbarrier.arrive.shared::cta.b64 %d2, [bars+{bar}];",
            f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars+{bar}], 64;",
            f"@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars+{bar}], 32;",
            f"mbarrier.try_wait.parity.shared::cta.b64 %p2, [bars+{bar}], 0; "
            f"@%p2 bra X{len(lines)}; W{len(lines)}: mbarrier.try_wait.parity.shared::cta.b64 %p2, "
            f"[bars+{bar}], 0; @!%p2 bra W{len(lines)}; X{len(lines)}:",
            f"mbarrier.test_wait.shared::cta.b64 %p2, [bars+{bar}], %d2; selp.b32 %r3, 1, 2, %p2;",
            f"@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d0], "
            f"64, [bars+{bar}];",
            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0+512], [%r5], 32;",
            "cp.async.bulk.commit_group;",
            f"cp.async.bulk.wait_group{draw(st.sampled_from(['', '.read']))} "
            f"{draw(st.integers(0, 2))};",
            "cp.async.cg.shared.global [%r6], [%d1], 16;",
            "cp.async.commit_group;",
            f"cp.async.wait_group {draw(st.integers(0, 2))};",
            "cp.async.wait_all;",
            f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bars+{bar}];",
            f"cp.async.mbarrier.arrive.shared::cta.b64 [bars+{bar}];",
            f"@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[%r5], [%d5, {{{draw(st.integers(-3, 9)) * 16}, {draw(st.integers(-9, 40))}}}], "
            f"[bars+{bar}];",
            "fence.proxy.async.shared::cta;",
            f"bar.sync {draw(st.integers(0, 2))};",
            f"bar.arrive 1, {draw(st.sampled_from([64, 96]))};",
            f"st.shared.u32 [bars+{bar}], %r1;",
            f"@%p1 mbarrier.inval.shared::cta.b64 [bars+{bar}];",
            f"@%p1 mbarrier.init.shared::cta.b64 [bars+{bar}], 2;",
            f"bar.red.popc.u32 %r3, 0, %p{draw(st.integers(1, 2))};",
        ])))  # fmt: skip
    return "\n".join(lines)


SETUP = """
.shared .align 1024 .b8 buffer[2048];
.shared .align 8 .b64 bars[3];
ld.param.u64 %d0, [out];
mov.b64 %d4, map; cvta.param.u64 %d5, %d4;
mov.u32 %r1, %tid.x; mov.u32 %r5, buffer; mad.lo.u32 %r6, %r1, 16, %r5;
mad.wide.u32 %d1, %r1, 16, %d0; mov.u64 %d2, 0;
setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 40;
@%p1 mbarrier.init.shared::cta.b64 [bars], 64;
@%p1 mbarrier.init.shared::cta.b64 [bars+8], 1;
@%p1 mbarrier.init.shared::cta.b64 [bars+16], 65;
bar.sync 0;
"""


@settings(max_examples=150, deadline=None)
@given(exchange(), st.sampled_from([0, 3]), st.booleans())
def test_random_synchronisation_agrees(text, seed, peeks):
    module = module_of(SETUP + text + "\nret;", parameters=".param .u64 out, .param .b8 map[128]")
    map_ = LaunchTensorMap(6, 0x2000, (100, 30), (208,), (32, 8), (1, 1), swizzle=2)
    parameters = (LaunchParameter(OUT.to_bytes(8, "little")), LaunchParameter(MAP))
    launch = launch_of(block=64, parameters=parameters, maps={MAP: map_})
    ran(module, launch, Options(seed=seed, steps_max=20_000, first_poll_fails=peeks))


def test_the_numbers_of_operations_are_the_same_in_both():
    """The enumerations of the native core follow those of Python."""
    text = (SOURCES / "machine.h").read_text(encoding="utf-8")
    body = text[text.index("the numbers of operations.py") :]
    body = body[body.index("{") + 1 : body.index("};")]
    number, found = 0, {}
    for word in body.replace("\n", " ").split(","):
        name, _, value = word.strip().partition(" = ")
        number = int(value) if value else number
        found[name] = number
        number += 1
    assert found == {op.name: int(op) for op in Op}
    assert set(PARTS) == {path.name for path in SOURCES.iterdir()}
    names = (SOURCES / "clusters.c").read_text(encoding="utf-8")
    listed = names[names.index("S_TID_X,") : names.index("S_UNKNOWN")].replace("\n", " ")
    assert len(listed.rstrip(" ,").split(",")) == len(SPECIALS)
