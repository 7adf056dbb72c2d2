"""The integer part of PTX: parsing with scopes, arithmetic against Python, threads and branches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.isa.thread.integers import WIDTHS, compare, compute, signed
from titan.isa.thread.machine import SHARED_BASE, ThreadLaunch, UnsupportedPtx, run
from titan.isa.thread.ptx import PtxError, parse

WORDS = st.integers(0, 2**32 - 1)


def kernel(body: str, parameters: str = ".param .u32 n"):
    return parse(f".visible .entry k({parameters})\n.maxntid 64, 1, 1\n{{\n{body}\n}}\n")


def events(body: str, thread: int = 0, **arguments: int):
    numbers = {0: arguments.get("n", 0)}
    return run(kernel(body), ThreadLaunch(thread, 64, 2, 4, numbers)).events


def wrapped(value: int) -> int:
    return signed(value & (2**32 - 1), 32)


@given(WORDS, WORDS)
def test_arithmetic_is_that_of_32_bits(one, other):
    first, second = wrapped(one), wrapped(other)
    table = {
        "add": first + second, "sub": first - second, "and": first & second,
        "or": first | second, "xor": first ^ second, "min": min(first, second),
        "max": max(first, second),
    }  # fmt: skip
    for opcode, expected in table.items():
        found = compute(opcode, ("s32",), (one, other))
        assert found is not None and wrapped(found) == wrapped(expected), opcode
    assert compute("mul", ("lo", "s32"), (one, other)) == (first * second) % 2**32
    assert compute("mul", ("hi", "s32"), (one, other)) == (first * second >> 32) % 2**32
    assert compute("mul", ("wide", "s32"), (one, other)) == (first * second) % 2**64
    assert compute("mul", ("wide", "u32"), (one, other)) == one * other
    assert compute("shr", ("s32",), (one, other % 40)) == (first >> min(other % 40, 32)) % 2**32
    assert compute("shr", ("u32",), (one, other % 40)) == one >> min(other % 40, 32)
    assert compute("shl", ("b32",), (one, other % 40)) == (one << (other % 40)) % 2**32
    if second:
        found = compute("div", ("s32",), (one, other))
        assert found is not None and wrapped(found) == wrapped(int(abs(first) // abs(second))
            * (1 if (first < 0) == (second < 0) else -1))  # fmt: skip
        rest = compute("rem", ("s32",), (one, other))
        assert rest is not None and wrapped(wrapped(found) * second + wrapped(rest)) == first
    assert compare("lt", "s32", one, other) == (first < second)
    assert compare("lt", "u32", one, other) == (one < other)


@given(WORDS, WORDS, WORDS, st.integers(0, 255))
def test_lop3_is_its_table(one, two, three, table):
    found = compute("lop3", ("b32",), (one, two, three, table))
    assert found is not None
    for bit in (0, 1, 7, 31):
        row = (one >> bit & 1) * 4 + (two >> bit & 1) * 2 + (three >> bit & 1)
        assert found >> bit & 1 == table >> row & 1


def test_conversions_keep_the_sign():
    assert compute("cvt", ("s64", "s32"), (2**32 - 1,)) == 2**64 - 1
    assert compute("cvt", ("u64", "u32"), (2**32 - 1,)) == 2**32 - 1
    assert compute("cvt", ("u16", "u32"), (0x12345,)) == 0x2345
    assert compute("cvt", ("rn", "f32", "s32"), (1,)) is None
    assert set(WIDTHS.values()) == {1, 8, 16, 32, 64}


def test_what_is_not_known_stays_unknown():
    assert compute("add", ("s32",), (None, 1)) is None
    assert compute("mul", ("lo", "s32"), (None, 0)) == 0
    assert compute("selp", ("b32",), (1, 2, None)) is None
    assert compute("selp", ("b32",), (None, 2, 0)) == 2
    assert compute("add", ("f32",), (1, 1)) is None


def test_a_loop_runs_as_often_as_its_bound_says():
    body = """
    .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, 0;
    $L__TOP:
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra $L__END;
    bar.sync 1, 64;
    add.s32 %r2, %r2, 1;
    bra.uni $L__TOP;
    $L__END:
    ret;
    """
    for n in (0, 1, 5):
        assert [event.kind for event in events(body, n=n)] == ["sync"] * n


def test_names_of_inline_assembly_are_its_own():
    body = """
    .reg .b32 %r<9>; .reg .pred p; .reg .pred %p<2>;
    mov.u32 %r1, memory;
    setp.eq.s32 p, 0, 1;
    $L__AGAIN:
    {
     .reg .pred p;
     mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%r1+8], 3;
     selp.b32 %r2, 1, 0, p;
    }
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra $L__AGAIN;
    @p bra $L__END;
    // a comment; with a semicolon
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];
    $L__END:
    ret;
    """
    found = events(body)
    assert [(event.kind, event.values) for event in found] == [
        ("wait", (SHARED_BASE + 8, 3)),
        ("arrive", (SHARED_BASE, 1)),
    ]


def test_a_test_that_is_not_repeated_is_no_wait():
    body = """
    .reg .b32 %r<9>; .reg .pred %p<2>;
    mov.u32 %r1, memory;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    bar.sync 1, 64;
    """
    assert [event.kind for event in events(body)] == ["test without waiting", "sync"]


def test_lanes_and_blocks_are_told_apart():
    body = """
    .reg .b32 %r<4>; .reg .pred %p<3>;
    mov.u32 %r1, %ctaid.x;
    setp.ne.s32 %p1, %r1, 2;
    @%p1 bra $L__END;
    elect.sync _|%p2, 0xffffffff;
    @!%p2 bra $L__END;
    cp.async.bulk.commit_group;
    $L__END:
    ret;
    """
    assert [event.kind for event in events(body, thread=32)] == ["bulk_commit"]
    assert events(body, thread=33) == []


def test_a_branch_on_data_is_refused():
    body = """
    .reg .f32 %f<2>; .reg .pred %p<2>; .reg .b64 %rd<2>;
    ld.global.f32 %f1, [%rd1];
    setp.lt.f32 %p1, %f1, 0f00000000;
    @%p1 bra $L__END;
    bar.sync 1, 64;
    $L__END:
    ret;
    """
    with pytest.raises(UnsupportedPtx, match="control depends on data"):
        events(body)


def test_calls_and_endless_loops_are_refused(monkeypatch):
    monkeypatch.setattr("titan.isa.thread.machine.STEPS_MAX", 1000)
    with pytest.raises(UnsupportedPtx, match="steps"):
        events("$L__TOP:\nbra $L__TOP;")
    with pytest.raises(UnsupportedPtx, match="calls"):
        events("call.uni (retval0), helper, (param0);")


@pytest.mark.parametrize(
    "text", ["", ".entry a() { ret; } .entry b() { ret; }", ".entry a() { ret"]
)
def test_texts_without_one_whole_kernel_are_refused(text):
    with pytest.raises(PtxError):
        parse(text)


def test_accesses_of_shared_memory_are_noted():
    body = """
    .reg .b32 %r<4>;
    mov.u32 %r1, memory;
    st.shared.u32 [%r1+16], %r2;
    ld.shared.v2.b32 {%r2, %r3}, [%r1];
    """
    found = [(event.kind, event.values) for event in events(body)]
    assert found == [("write", (SHARED_BASE + 16,)), ("read", (SHARED_BASE,))]
