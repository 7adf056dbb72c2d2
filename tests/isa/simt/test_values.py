"""Integer and float arithmetic, lanes, divergence, calls: what kernels compute."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.simt.running import OUT, lanes, launch_of, module_of, ran, results
from titan.isa.simt import floats
from titan.isa.simt.arithmetic import function_of
from titan.isa.simt.decode import decode
from titan.isa.simt.launch import LaunchParameter
from titan.isa.simt.layout import lay_out
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Ending

M32 = 0xFFFFFFFF
UNKNOWN = -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.s32 %r0, 7, -9;", M32 - 1),
        ("sub.u32 %r0, 1, 2;", M32),
        ("mul.lo.s32 %r0, -3, 5;", M32 - 14),
        ("mul.hi.u32 %r0, 0xFFFFFFFF, 0xFFFFFFFF;", M32 - 1),
        ("mul.hi.s32 %r0, -2, 3;", M32),
        ("mul.wide.u32 %d2, 0xFFFFFFFF, 16; shr.u64 %d2, %d2, 32; cvt.u32.u64 %r0, %d2;", 15),
        ("mul.wide.s32 %d2, -1, 16; cvt.u32.u64 %r0, %d2;", M32 - 15),
        ("mad.lo.s32 %r0, 3, 4, -5;", 7),
        ("mad.wide.s32 %d2, -3, 4, 100; cvt.u32.u64 %r0, %d2;", 88),
        ("div.s32 %r0, -7, 2;", M32 - 2),
        ("rem.s32 %r0, -7, 2;", M32),
        ("div.u32 %r0, 7, 0;", UNKNOWN),
        ("rem.u32 %r0, 7, 0;", UNKNOWN),
        ("div.s16 %h1, 7, 0; cvt.s32.s16 %r0, %h1;", UNKNOWN),
        ("fns.b32 %r0, 0xF0, 31, -4;", 4),
        ("fns.b32 %r0, 0xF0, 32, -4;", UNKNOWN),
        ("mul24.lo.u32 %r0, 0xFFFFFF, 2;", 0x1FFFFFE),
        ("mul24.lo.u32 %r0, 0x1000000, 2;", UNKNOWN),
        ("mul24.lo.s32 %r0, -8388608, 2;", M32 - 0xFFFFFF),
        ("mul24.lo.s32 %r0, 2, -8388609;", UNKNOWN),
        ("mad24.lo.s32 %r0, 8388607, 1, 1;", 8388608),
        ("mad24.lo.s32 %r0, 8388608, 1, 1;", UNKNOWN),
        ("abs.s32 %r0, -5;", 5),
        ("neg.s32 %r0, 5;", M32 - 4),
        ("min.s32 %r0, -1, 1;", M32),
        ("min.u32 %r0, -1, 1;", 1),
        ("max.s32 %r0, -1, 1;", 1),
        ("min.relu.s32 %r0, -1, 1;", 0),
        ("min.relu.s32 %r0, 7, 5;", 5),
        ("max.relu.s32 %r0, -7, -5;", 0),
        ("add.s16x2 %r0, 0x7FFFFFFF, 0x00010002;", 0x80000001),
        ("min.s16x2 %r0, 0x80000001, 0x00017FFF;", 0x80000001),
        ("min.u16x2 %r0, 0x80000001, 0x00017FFF;", 0x00010001),
        ("max.s16x2 %r0, 0x80000001, 0x00017FFF;", 0x00017FFF),
        ("max.relu.s16x2 %r0, 0x8000FFFF, 0xFFFF8000;", 0),
        ("not.b32 %r0, 0;", M32),
        ("cnot.b32 %r0, 0;", 1),
        ("shl.b32 %r0, 1, 31;", 1 << 31),
        ("shl.b32 %r0, 1, 32;", 0),
        ("shr.u32 %r0, 0x80000000, 31;", 1),
        ("shr.s32 %r0, 0x80000000, 99;", M32),
        ("shf.l.wrap.b32 %r0, 0x80000000, 1, 1;", 3),
        ("shf.r.clamp.b32 %r0, 5, 1, 32;", 1),
        ("bfe.u32 %r0, 0xABCD, 4, 8;", 0xBC),
        ("bfe.s32 %r0, 0xABCD, 4, 8;", M32 - 0x43),
        ("bfe.s32 %r0, 0x80000000, 28, 20;", M32 - 7),
        ("bfi.b32 %r0, 0xF, 0xABCD, 4, 8;", 0xA0FD),
        ("brev.b32 %r0, 1;", 1 << 31),
        ("clz.b32 %r0, 1;", 31),
        ("popc.b32 %r0, 0xF0F;", 8),
        ("bfind.u32 %r0, 0x100;", 8),
        ("bfind.shiftamt.u32 %r0, 0x100;", 23),
        ("bfind.s32 %r0, -1;", M32),
        ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x7531;", 0x77553311),
        ("prmt.b32 %r0, 0x000000FF, 0, 0x0008;", 0xFFFFFFFF & 0xFF | 0xFFFFFF00),
        ("lop3.b32 %r0, 0xF0, 0xCC, 0xAA, 0x80;", 0x80),
        ("lop3.b32 %r0, 12, 10, 6, 0x96;", 12 ^ 10 ^ 6),
        ("sad.s32 %r0, -3, 4, 10;", 17),
        ("selp.b32 %r0, 1, 2, 0;", 2),
        ("setp.lt.s32 %p1, -1, 0; selp.b32 %r0, 1, 2, %p1;", 1),
        ("setp.lo.u32 %p1|%p2, -1, 0; selp.b32 %r0, 1, 2, %p2;", 1),
        ("setp.eq.s32 %p0, 1, 1; setp.ne.and.s32 %p1, 1, 2, !%p0; selp.b32 %r0, 1, 2, %p1;", 2),
        ("set.eq.u32.s32 %r0, 3, 3;", M32),
        ("cvt.s32.s8 %r0, 0x80;", M32 - 127),
        ("cvt.u8.u32 %r0, 0x1FF;", 0xFF),
        ("cvt.sat.s8.s32 %r0, 1000;", 127),
        ("cvt.sat.u8.s32 %r0, -5;", 0),
        ("mov.b64 %d2, {5, 6}; mov.b64 {%r1, %r0}, %d2;", 6),
        ("mov.b32 {%h1, %h2}, 0x12345678; cvt.u32.u16 %r0, %h2;", 0x1234),
        ("bmsk.clamp.b32 %r0, 4, 8;", 0xFF0),
        ("szext.clamp.s32 %r0, 0x1FF, 8;", M32),
        ("fns.b32 %r0, 0xF0, 0, 2;", 5),
        ("mov.u32 %r0, WARP_SZ;", 32),
        ("mov.f32 %f0, 1.5; mov.f32 %f1, 0f40000000; mul.f32 %f2, %f0, %f1; mov.b32 %r0, %f2;",
         0x40400000),
        ("mov.f32 %f0, 0f7F800000; sub.f32 %f2, %f0, %f0; mov.b32 %r0, %f2;", 0x7FFFFFFF),
    ],
)  # fmt: skip
def test_arithmetic(text, expected):
    assert lanes(text, 1) == [expected]


def test_forms_that_are_not_computed_are_unknown():
    for text in (
        "max.f32 %f1, 1.0, 2.0, 3.0; mov.b32 %r0, %f1;",
        "ex2.approx.f32 %f1, 1.0; mov.b32 %r0, %f1;",
        "add.rz.f32 %f1, 1.0, 2.0; mov.b32 %r0, %f1;",
        "mov.u32 %r0, %clock;",
    ):
        assert lanes(text, 1) == [-1]


def python_function(text: str):
    """The function of the one instruction of a body."""
    module = module_of(text + " ret;")
    entry = module.entries()[0]
    code, findings = decode(module, entry, lay_out(module, entry, 0))
    assert code is not None, findings
    return function_of(next(step for step in code.steps if step.op is not Op.RETURN))


WORDS = st.one_of(st.integers(0, M32), st.sampled_from([0, 1, 31, 32, 33, M32, 1 << 31]))


@given(WORDS, WORDS, WORDS, WORDS)
def test_field_instructions_by_their_definition(a, b, c, d):
    """The pseudo-code of PTX for bfe and bfi, bit by bit."""
    bfi = python_function("bfi.b32 %r0, %r1, %r2, %r3, %r4;")
    expected, place, length = b, c & 255, d & 255
    for i in range(length):
        if place + i > 31:
            break
        bit = 1 << place + i
        expected = expected | bit if a >> i & 1 else expected & ~bit
    assert bfi(a, b, c, d) == expected
    bfe = python_function("bfe.s32 %r0, %r1, %r2, %r3;")
    place, length = b & 255, c & 255
    sign = 0 if length == 0 else a >> min(place + length - 1, 31) & 1
    expected = 0
    for i in range(32):
        bit = a >> place + i & 1 if i < length and place + i <= 31 else sign
        expected |= bit << i
    assert bfe(a, b, c) == expected


FLOATS = st.floats(width=32, allow_nan=False)


@given(FLOATS, FLOATS, FLOATS)
def test_fused_sums_are_rounded_once(a, b, c):
    found = floats.bits_of(floats.fused(a, b, c, 32), 32)
    exact = None
    if all(abs(x) < 3e38 for x in (a, b, c)):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact is None or exact == 0 or abs(exact) > Fraction(3.4e38):
        return
    near = floats.number(found, 32)
    if near in (float("inf"), float("-inf")):
        return
    # No neighbour is nearer.
    for other in (found - 1, found + 1):
        if other & 0x7FFFFFFF < 0x7F800000 and other >= 0:
            distance = abs(Fraction(floats.number(other, 32)) - exact)
            assert abs(Fraction(near) - exact) <= distance


@given(FLOATS, FLOATS)
def test_float_sums_agree_with_struct(a, b):
    add = python_function("add.f32 %f0, %f1, %f2;")
    bits = [int.from_bytes(struct.pack("<f", x), "little") for x in (a, b)]
    try:
        expected = int.from_bytes(struct.pack("<f", a + b), "little")
    except OverflowError:
        expected = 0x7F800000 if a + b > 0 else 0xFF800000
    if a + b == a + b:
        assert add(*bits) == expected


def test_lanes_have_their_own_values():
    assert lanes("mov.u32 %r0, %laneid; shl.b32 %r0, %r0, 1;") == [2 * i for i in range(32)]


def test_divergent_branches_meet_again():
    text = """
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    mov.u32 %r0, 0;
    @%p1 bra EVEN;
    add.u32 %r0, %r0, 100;
    bra MEET;
    EVEN:
    add.u32 %r0, %r0, 200;
    MEET:
    activemask.b32 %r3;
    popc.b32 %r3, %r3;
    add.u32 %r0, %r0, %r3;
    """
    assert lanes(text) == [232 if i % 2 == 0 else 132 for i in range(32)]


def test_loops_of_different_length_meet_behind_the_loop():
    text = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r0, 0;
    mov.u32 %r2, 0;
    LOOP:
    add.u32 %r0, %r0, %r2;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    activemask.b32 %r3;
    setp.eq.u32 %p2, %r3, -1;
    @!%p2 mov.u32 %r0, 0;
    """
    assert lanes(text) == [i * (i + 1) // 2 for i in range(32)]


def test_a_lane_may_wait_for_one_that_is_behind_the_meeting_place():
    """Reconvergence must not stop progress: lane 0 spins until lane 1 has passed the join."""
    text = """
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x;
    mov.u32 %r0, 7;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.warp.sync -1;
    @!%p1 bra MEET;
    SPIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra SPIN;
    MEET:
    setp.eq.u32 %p3, %r1, 1;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];
    """
    assert lanes(text) == [7] * 32


def test_calls_have_parameters_in_memory():
    function = """
    .func (.param .b32 result) twice(.param .b32 given)
    { .reg .b32 %r<3>; ld.param.b32 %r1, [given]; add.u32 %r2, %r1, %r1;
      st.param.b32 [result], %r2; ret; }
    """
    body = (
        """
    mov.u32 %r1, %tid.x;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a);
      ld.param.b32 %r0, [b]; }
    """
        + "ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r1, 4, %d0; st.global.u32 [%d1], %r0; ret;"
    )
    assert results(module_of(body, function), launch_of(), 32) == [2 * i for i in range(32)]


SYSTEM = """
.extern .func __assertfail
(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
.extern .func (.param .b32 printed) vprintf (.param .b64 form, .param .b64 given);
"""


@pytest.mark.parametrize("least", [0, 1, 31, 32])
def test_a_failed_assertion_ends_the_kernel(least):
    """Of lanes whose number is below `least`, an assertion says that there is none."""
    body = f"""
    mov.u32 %r1, %tid.x; mov.b64 %d1, 0; mov.b32 %r2, 7;
    setp.ge.u32 %p1, %r1, {least};
    @%p1 bra RIGHT;
    {{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
      st.param.b64 [a], %d1; st.param.b64 [b], %d1; st.param.b32 [c], %r2;
      st.param.b64 [d], %d1; st.param.b64 [e], %d1;
      call.uni __assertfail, (a, b, c, d, e); }}
    RIGHT:
    ret;
    """
    outcome = ran(module_of(body, SYSTEM), launch_of()).outcome
    assert outcome.ending is (Ending.FAULT if least else Ending.FINISHED)


def test_what_is_printed_changes_nothing():
    body = """
    mov.u32 %r1, %tid.x; mov.b64 %d1, 0; mov.u32 %r0, %r1;
    { .param .b64 a; .param .b64 b; .param .b32 c;
      st.param.b64 [a], %d1; st.param.b64 [b], %d1;
      call.uni (c), vprintf, (a, b);
      ld.param.b32 %r2, [c]; }
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r1, 4, %d0; st.global.u32 [%d1], %r0; ret;
    """
    assert results(module_of(body, SYSTEM), launch_of(), 32) == list(range(32))
    steered = body.replace("ld.param.u64", "setp.eq.u32 %p1, %r2, 2; @%p1 ret; ld.param.u64")
    assert ran(module_of(steered, SYSTEM), launch_of()).outcome.ending is Ending.REFUSED


def test_a_branch_through_a_table():
    text = """
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 3;
    mov.u32 %r0, 9;
    brx.idx %r2, T;
    T: .branchtargets A, B, C, D;
    A: mov.u32 %r0, 1; bra E;
    B: mov.u32 %r0, 2; bra E;
    C: mov.u32 %r0, 3; bra E;
    D: mov.u32 %r0, 4;
    E:
    """
    assert lanes(text) == [1 + i % 4 for i in range(32)]


def test_collectives():
    assert lanes("mov.u32 %r1, %laneid; shfl.sync.down.b32 %r0, %r1, 3, 31, -1;") == [
        i + 3 if i < 29 else i for i in range(32)
    ]
    assert lanes("mov.u32 %r1, %laneid; shfl.sync.up.b32 %r0, %r1, 1, 0, -1;") == [
        max(i - 1, 0) for i in range(32)
    ]
    assert lanes("mov.u32 %r1, %laneid; shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;") == [
        i ^ 5 for i in range(32)
    ]
    assert lanes("mov.u32 %r1, %laneid; shfl.sync.idx.b32 %r0, %r1, 9, 6175, -1;") == [
        i & 24 | 9 & 7 for i in range(32)
    ]
    assert (
        lanes("mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 4; vote.sync.ballot.b32 %r0, %p1, -1;")
        == [15] * 32
    )
    assert lanes("mov.u32 %r1, %laneid; redux.sync.add.u32 %r0, %r1, -1;") == [496] * 32
    assert (
        lanes("mov.u32 %r1, %laneid; shr.u32 %r1, %r1, 4; match.any.sync.b32 %r0, %r1, -1;")
        == [0xFFFF] * 16 + [0xFFFF0000] * 16
    )
    assert lanes("elect.sync %r0|%p1, 0xF0; selp.b32 %r0, 1, 0, %p1;") == [
        int(i == 4) for i in range(32)
    ]


def test_atomics_give_each_lane_its_old_value():
    text = """
    .shared .align 4 .b32 counter;
    mov.u32 %r1, 0;
    st.shared.u32 [counter], %r1;
    bar.warp.sync -1;
    atom.shared.add.u32 %r0, [counter], 2;
    """
    assert lanes(text) == [2 * i for i in range(32)]


def test_vectors_and_narrow_types_in_memory():
    text = """
    .shared .align 16 .b8 tile[256];
    mov.u32 %r1, 0x80;
    mov.u32 %r2, 0x11223344;
    st.shared.v4.u32 [tile+16], {%r2, %r1, %r2, %r1};
    ld.shared.s8 %r3, [tile+20];
    ld.shared.v2.u16 {%h1, %h2}, [tile+16];
    cvt.u32.u16 %r4, %h2;
    add.u32 %r0, %r3, %r4;
    """
    assert lanes(text, 1) == [(0x1122 - 128) & M32]


def test_local_memory_is_of_the_thread():
    text = """
    .local .align 4 .b32 mine[4];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 3;
    mov.u64 %d5, mine;
    mad.wide.u32 %d6, %r2, 4, %d5;
    st.local.u32 [%d6], %r1;
    cvta.local.u64 %d7, %d6;
    ld.u32 %r0, [%d7];
    """
    assert lanes(text) == list(range(32))


def test_special_registers_of_a_cluster():
    body = """
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %clusterid.x;
    shl.b32 %r0, %r1, 8; or.b32 %r0, %r0, %r3;
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r2, 4, %d0; st.global.u32 [%d1], %r0; ret;
    """
    found = results(module_of(body), launch_of(grid=4, block=32, cluster=2), 4)
    assert found == [0, 0x100, 1, 0x101]


def test_shared_memory_of_another_cta():
    body = """
    .shared .align 4 .b32 mine;
    mov.u32 %r1, %cluster_ctarank;
    add.u32 %r2, %r1, 40;
    st.shared.u32 [mine], %r2;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %r3, %r1, 1;
    mov.u32 %r4, mine;
    mapa.shared::cluster.u32 %r5, %r4, %r3;
    ld.shared::cluster.u32 %r0, [%r5];
    mov.u32 %r2, %ctaid.x;
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r2, 4, %d0; st.global.u32 [%d1], %r0;
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
    """
    assert results(module_of(body), launch_of(grid=2, cluster=2), 2) == [41, 40]


def test_what_is_not_known_stays_unknown_and_may_not_decide():
    body = """
    ld.global.u32 %r1, [0x5000];
    add.u32 %r2, %r1, 1;
    and.b32 %r3, %r2, 0;
    setp.eq.u32 %p1, %r2, 3;
    @%p1 bra THERE;
    bar.sync 0;
    THERE: ret;
    """
    found = ran(module_of(body), launch_of())
    assert found.outcome.ending is Ending.REFUSED
    assert "not known" in found.outcome.reason


def test_a_missing_parameter_is_unknown():
    body = "ld.param.u32 %r1, [n]; bar.sync %r1; ret;"
    module = module_of(body, parameters=".param .u64 out, .param .u32 n")
    assert ran(module, launch_of()).outcome.ending is Ending.REFUSED
    given = (LaunchParameter(OUT.to_bytes(8, "little")), LaunchParameter((3).to_bytes(4, "little")))
    assert ran(module, launch_of(parameters=given)).outcome.ending is Ending.FINISHED


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 64))
def test_every_seed_computes_the_same(seed, block):
    from titan.isa.simt.launch import Options

    text = """
    .shared .align 4 .b32 tile[64];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;
    mov.u32 %r3, tile; mad.lo.u32 %r4, %r1, 4, %r3;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    add.u32 %r5, %r1, 1; rem.u32 %r5, %r5, %r2; mad.lo.u32 %r6, %r5, 4, %r3;
    ld.shared.u32 %r0, [%r6];
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r1, 4, %d0; st.global.u32 [%d1], %r0; ret;
    """
    found = results(module_of(text), launch_of(block=block), block, Options(seed=seed))
    assert found == [(i + 1) % block for i in range(block)]


@pytest.mark.parametrize(
    "body",
    ["", "add.s32 %r0, 1, 2;", "bra END; END:", "setp.eq.u32 %p1, %tid.x, 0; @%p1 ret;", "{ } L:"],
)
def test_the_end_of_a_body_returns(body):
    run_ = ran(module_of(body), launch_of())
    assert run_.outcome.ending is Ending.FINISHED


def test_an_offset_of_64_bits_wraps():
    body = "mov.u64 %d2, 8; add.u64 %d2, %d2, 18446744073709551615; cvt.u32.u64 %r0, %d2;"
    assert lanes(body, 1) == [7]
    body = "ld.param.u64 %d3, [out]; ld.global.u32 %r1, [%d3+18446744073709551612]; mov.u32 %r0, 1;"
    assert lanes(body, 1) == [1]


def _words(number: int, count: int, bits: int) -> list[int]:
    return [number >> bits * at & ((1 << bits) - 1) for at in range(count)]


def _chain(word: str, type_: str, register: str, a: list[int], b: list[int]) -> str:
    """A sum or difference of numbers of four words, each with the carry of the one before."""
    names = [f"{word}.cc", *[f"{word}c.cc"] * 2, f"{word}c"]
    return " ".join(
        f"{name}.{type_} {register}{10 + at}, {x:#x}, {y:#x};"
        for at, (name, x, y) in enumerate(zip(names, a, b, strict=True))
    )


LONG = st.integers(0, (1 << 256) - 1) | st.sampled_from([0, 1, (1 << 256) - 1, 1 << 255])


@settings(max_examples=12, deadline=None)
@given(LONG, LONG, st.sampled_from(["u32", "s32", "u64", "s64"]), st.sampled_from(["add", "sub"]))
def test_carries_join_words_to_long_numbers(a, b, type_, word):
    bits = int(type_[1:])
    whole = (1 << 4 * bits) - 1
    a, b = a & whole, b & whole
    register = "%d" if bits == 64 else "%r"
    body = _chain(word, type_, register, _words(a, 4, bits), _words(b, 4, bits))
    wanted = (a + b if word == "add" else a - b) & whole
    for at in range(4):
        taken = f"mov.b32 %r0, %r{10 + at};"
        if bits == 64:
            taken = f"mov.b64 {{%r0, %r1}}, %d{10 + at}; xor.b32 %r0, %r0, %r1;"
        half = wanted >> bits * at & ((1 << bits) - 1)
        assert lanes(body + taken, 1) == [(half ^ half >> 32 if bits == 64 else half) & M32]


@settings(max_examples=12, deadline=None)
@given(LONG, LONG)
def test_products_of_two_words_by_carries(a, b):
    (a0, a1), (b0, b1) = _words(a, 2, 32), _words(b, 2, 32)
    body = f"""
    mul.lo.u32 %r10, {a0}, {b0}; mul.hi.u32 %r11, {a0}, {b0};
    mad.lo.cc.u32 %r11, {a1}, {b0}, %r11; madc.hi.u32 %r12, {a1}, {b0}, 0;
    mad.lo.cc.u32 %r11, {a0}, {b1}, %r11; madc.hi.cc.u32 %r12, {a0}, {b1}, %r12;
    addc.u32 %r13, 0, 0;
    mad.lo.cc.u32 %r12, {a1}, {b1}, %r12; madc.hi.u32 %r13, {a1}, {b1}, %r13;
    """
    wanted = _words((a1 << 32 | a0) * (b1 << 32 | b0), 4, 32)
    found = [lanes(body + f"mov.b32 %r0, %r{10 + at};", 1) for at in range(4)]
    assert found == [[word] for word in wanted]


def test_a_carry_is_of_each_lane_and_left_by_a_guard():
    body = "mov.u32 %r1, %laneid; add.cc.u32 %r2, %r1, -16; setp.lt.u32 %p1, %r1, 8; "
    body += "@%p1 add.cc.u32 %r2, -1, -1; addc.u32 %r0, 0, 0;"
    assert lanes(body) == [int(lane < 8 or lane >= 16) for lane in range(32)]
