"""Lanes of one store that write to the same bytes: shown to write the same, or not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx import breaches
from titan.frontends.ptx.policies import chosen
from titan.isa.simt.tracing import traced
from titan.isa.simt.tracing.real_values import RealValues
from titan.isa.simt.tracing.traced_memory import ValueNumbers

OWN = "ld.global.u32 %r10, [%d1];"  # a value of each lane
HALF = "shr.u32 %r6, %r2, 1; shl.b32 %r6, %r6, 2; add.u32 %r6, %r3, %r6;"  # a place of two lanes
PAIR = (
    "and.b32 %r7, %r2, 30; mul.wide.u32 %d4, %r7, 4; sub.s64 %d5, %d1, %d3;"
    f"add.s64 %d4, %d4, %d5;{HALF}"
)
SWAP = "shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1;"
BF16 = (
    "{{ .reg .b16 %h<8>; {} cvt.u32.u16 %r13, %h3; shfl.sync.bfly.b32 %r14, %r13, 1, 31, -1;"
    "cvt.u16.u32 %h4, %r14; fma.rn.bf16 %h5, %h1, %h1, %h4; cvt.u32.u16 %r10, %h5; }}"
)
# The sum of both halves of a register; the upper half of %r13 is a register that nothing wrote.
FOLDED = (
    "mul.bf16x2 %r12, %r10, %r10; mov.b32 {_, %h1}, %r12; mov.b32 %r13, {%h1, %h2};"
    "fma.rn.bf16x2 %r12, %r10, %r10, %r13;"
)
# Two sums of f32 at once; 64 bits are put together and taken apart.
TWO_AT_ONCE = (
    "mov.b64 %d4, {{%r10, %r10}}; mul.f32x2 %d4, %d4, %d4; mov.b64 {{%r11, %r12}}, %d4;"
    "shfl.sync.bfly.b32 %r11, %r11, 1, 31, -1; shfl.sync.bfly.b32 %r12, %r12, 1, 31, -1;"
    "mov.b64 %d5, {{%r11, %r12}}; {} mov.b64 {{%r11, %r10}}, %d4;"
)
# As Welford's means are merged: one and half of the way to the other, none where they are equal.
MERGED = (
    "setp.{test}.f32 %p2, %r10, %r11; sub.f32 %r12, %r11, %r10; selp.f32 %r12, {low}, {high}, %p2;"
    "mov.b32 %r13, 0f40000000; div.full.f32 %r12, %r12, %r13; add.f32 %r10, %r10, %r12;"
)
EXACT, ROUNDED = "shown to be the same values", "the same but for rounding"
TRIED = "the same for the numbers tried"
SHOWN = {
    "both lanes load from one place": (
        f"{PAIR} ld.global.u32 %r10, [%d4]; sqrt.rn.f32 %r10, %r10;", EXACT),
    "a value of lane 0": (f"{OWN}{HALF} shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;", EXACT),
    "a sum of two": (f"{OWN}{HALF}{SWAP} add.f32 %r10, %r10, %r11;", EXACT),
    "a sum of squares of two": (
        f"{OWN}{HALF}{SWAP} mul.f32 %r12, %r11, %r11; fma.rn.f32 %r10, %r10, %r10, %r12;", ROUNDED),
    "sums of three, in turn": (
        f"{OWN}{HALF}{SWAP} shfl.sync.idx.b32 %r12, %r10, 9, 31, -1;"
        "add.f32 %r13, %r10, %r12; add.f32 %r10, %r13, %r11;", ROUNDED),
    "the square of a difference": (
        f"{OWN}{HALF}{SWAP} sub.f32 %r10, %r10, %r11; mul.f32 %r10, %r10, %r10;", ROUNDED),
    "a mean, and a function of it": (
        f"{OWN}{HALF}{SWAP} div.rn.f32 %r12, %r10, 0f40000000;"
        "fma.rn.f32 %r12, %r11, 0f3F000000, %r12; ex2.approx.f32 %r10, %r12;", ROUNDED),
    "a sum of squares in bf16": (
        OWN + HALF + BF16.format("cvt.u16.u32 %h1, %r10; mul.bf16 %h3, %h1, %h1;"), ROUNDED),
    "of two halves": (
        OWN + HALF + BF16.format(FOLDED + "mov.b32 {%h1, _}, %r12; mul.bf16 %h3, %h1, %h1;"),
        ROUNDED),
    "a mean, with a step that is left out where both are equal": (
        f"{OWN}{HALF}{SWAP}{MERGED.format(test='eq', low='0f00000000', high='%r12')}", ROUNDED),
    "the same, tried": (
        f"{OWN}{HALF}{SWAP}{MERGED.format(test='ne', low='%r12', high='0f00000000')}", TRIED),
    "two sums at once": (
        OWN + HALF + TWO_AT_ONCE.format("add.f32x2 %d4, %d4, %d5;"), ROUNDED),
}  # fmt: skip
NOT_SHOWN = {
    "two differences at once": (
        OWN + HALF + TWO_AT_ONCE.format("neg.f32x2 %d5, %d5; add.f32x2 %d4, %d4, %d5;")),
    "each lane's own": f"{OWN}{HALF}",
    "what each lane computes": f"{HALF} cvt.rn.f32.u32 %r10, %r1; sqrt.rn.f32 %r10, %r10;",
    "a difference": f"{OWN}{HALF}{SWAP} sub.f32 %r10, %r10, %r11;",
    "a mean, with a step that is made where both are equal": (
        f"{OWN}{HALF}{SWAP}{MERGED.format(test='eq', low='%r12', high='0f00000000')}"),
    "a mean with a third of the way": (
        f"{OWN}{HALF}{SWAP}{MERGED.format(test='eq', low='0f00000000', high='%r12')}"
        .replace("0f40000000", "0f40400000")),
    "a sum with too much of one": f"{OWN}{HALF}{SWAP} fma.rn.f32 %r10, %r10, 0f40000000, %r11;",
    "the square of one": f"{OWN}{HALF}{SWAP} mul.f32 %r10, %r10, %r10;",
    "a sum that saturates, another way": (
        f"{OWN}{HALF}{SWAP} shfl.sync.idx.b32 %r12, %r10, 9, 31, -1;"
        "add.sat.f32 %r13, %r10, %r12; add.sat.f32 %r10, %r13, %r11;"),
    "a square in bf16": (
        OWN + HALF + BF16.format("cvt.u16.u32 %h1, %r10; mov.b16 %h3, %h1;")),
    "what nothing has written": (
        OWN + HALF + BF16.format(FOLDED + "mov.b32 {_, %h1}, %r12; mul.bf16 %h3, %h1, %h1;")
        + "mov.b32 %r10, %r12;"),
}  # fmt: skip
STORE = "@%p1 st.shared.u32 [%r6], %r10;"


@pytest.mark.parametrize(("body", "how"), SHOWN.values(), ids=SHOWN)
def test_lanes_that_write_the_same_are_shown_to(body, how):
    finding = verified(body + STORE)
    notes = " ".join(finding.notes)
    assert finding.verdict is Verdict.VERIFIED, notes
    assert how in notes


@pytest.mark.parametrize("body", NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_lanes_that_may_write_other_values_are_undecided(body):
    finding = verified(body + STORE)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("that they write the same values is not shown" in note for note in finding.notes)
    assumed = chosen((("equal_writes", "assumed"),))
    assert verified(body + STORE, policies=assumed).verdict is Verdict.VERIFIED


def test_runs_that_are_too_long_to_compare_say_so(monkeypatch):
    body, how = SHOWN["two sums at once"]
    assert how in " ".join(verified(body + STORE).notes)
    for module in (breaches, traced):
        monkeypatch.setattr(module, "INSTRUCTIONS_MAX", 10)
    finding = verified(body + STORE)
    assert finding.verdict is Verdict.UNDECIDED
    assert "in runs of more than 10 warp instructions" in " ".join(finding.notes)


def test_a_race_with_another_warp_is_one_whatever_lanes_write():
    finding = verified(
        f"{OWN}{HALF} st.shared.u32 [%r6], %r10; add.u32 %r11, %r10, %r1;st.shared.u32 [%r6], %r11;"
    )
    assert finding.verdict is Verdict.REFUTED


Tree = tuple  # an operation and operands, or the number of a leaf
OPERATIONS: dict[str, Callable] = {
    "add.f32": lambda a, b: a + b,
    "sub.f32": lambda a, b: a - b,
    "mul.f32": lambda a, b: a * b,
    "fma.rn.f32": lambda a, b, c: a * b + c,
    "neg.f32": lambda a: -a,
}
COUNTS = {"neg.f32": 1, "fma.rn.f32": 3}


def tree(random: Random, depth: int) -> Tree | int:
    if depth == 0 or random.random() < 0.2:
        return random.randrange(3)
    name = random.choice(list(OPERATIONS))
    return (name, *(tree(random, depth - 1) for _ in range(COUNTS.get(name, 2))))


def value(node: Tree | int, leaves: list[Fraction]) -> Fraction:
    if isinstance(node, int):
        return leaves[node]
    return OPERATIONS[node[0]](*(value(item, leaves) for item in node[1:]))


def numbered(node: Tree | int, numbers: ValueNumbers, leaves: list[int]) -> int:
    if isinstance(node, int):
        return leaves[node]
    form = numbers.of(("form", (node[0], ("register",) * len(node))))
    return numbers.of(((form, 0), tuple(numbered(item, numbers, leaves) for item in node[1:])))


def test_fingerprints_agree_with_exact_arithmetic():
    """Two small polynomials are the same if they are at enough points."""
    random = Random(3)
    points = [[Fraction(random.randint(-99, 99)) for _ in range(3)] for _ in range(6)]
    numbers = ValueNumbers()
    leaves = [numbers.fresh() for _ in range(3)]
    values = RealValues(numbers)
    found: dict[tuple[Fraction, ...], int] = {}
    prints: dict[int, tuple[Fraction, ...]] = {}
    met = 0
    for _ in range(3000):
        node = tree(random, random.randint(1, 4))
        exact = tuple(value(node, point) for point in points)
        fingerprint = values.of(numbered(node, numbers, leaves))
        met += exact in found
        assert found.setdefault(exact, fingerprint) == fingerprint
        assert prints.setdefault(fingerprint, exact) == exact
    assert met > 300


PACKED = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "fma.rn": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
}
SELECTED = {0x5410: ((0, 0), (1, 0)), 0x7632: ((0, 1), (1, 1)), 0x1032: ((0, 1), (0, 0))}


@pytest.mark.parametrize(("half_type", "moved"), [("bf16", "mov.b32"), ("f32", "mov.b64")])
def test_halves_of_registers_agree_with_exact_arithmetic(half_type, moved):
    """Registers of two numbers, that are computed with, taken apart and put together."""
    random = Random(4)
    points = [[Fraction(random.randint(-99, 99)) for _ in range(4)] for _ in range(6)]
    numbers = ValueNumbers()
    values = RealValues(numbers)

    def made(name, shapes, result, *operands):
        form = numbers.of(("form", (name, shapes)))
        return numbers.of(((form, result), operands))

    R = "register"
    wholes = [numbers.fresh() for _ in range(2)]
    known = [(w, [(at[2 * n], at[2 * n + 1]) for at in points]) for n, w in enumerate(wholes)]
    shorts = []
    for _ in range(1500):
        kinds = ["arithmetic", "take", "put", "short"]
        kind = random.choice([*kinds, "select", "wide"] if half_type == "bf16" else kinds)
        one, other, third = (random.choice(known) for _ in range(3))
        if kind == "arithmetic":
            name = random.choice(list(PACKED))
            taken = [one, other, third][: {"neg": 1, "fma.rn": 3}.get(name, 2)]
            number = made(
                f"{name}.{half_type}x2", (R,) * (len(taken) + 1), 0, *(item[0] for item in taken)
            )
            exact = [
                tuple(PACKED[name](*(item[1][at][half] for item in taken)) for half in (0, 1))
                for at in range(6)
            ]
            if max(abs(part) for pair in exact for part in pair) < 10**12:
                known.append((number, exact))
        elif kind == "take":
            half = random.randrange(2)
            number = made(moved, ((R, R), R), half, one[0])
            shorts.append((number, [pair[half] for pair in one[1]]))
        elif kind == "put" and shorts:
            lower, upper = random.choice(shorts), random.choice(shorts)
            number = made(moved, (R, (R, R)), 0, lower[0], upper[0])
            known.append((number, list(zip(lower[1], upper[1], strict=True))))
        elif kind == "select":
            selector = random.choice(list(SELECTED))
            number = made("prmt.b32", (R, R, R, "selector"), 0, one[0], other[0], ~selector)
            halves = SELECTED[selector]
            taken = (one, other)
            exact = [tuple(taken[n][1][at][half] for n, half in halves) for at in range(6)]
            known.append((number, exact))
        elif kind == "short" and shorts:
            lower, upper = random.choice(shorts), random.choice(shorts)
            number = made(f"add.{half_type}", (R, R, R), 0, lower[0], upper[0])
            shorts.append((number, [a + b for a, b in zip(lower[1], upper[1], strict=True)]))
        elif kind == "wide" and shorts:
            short = random.choice(shorts)
            wide = made("cvt.u32.u16", (R, R), 0, short[0])
            shorts.append((made("cvt.u16.u32", (R, R), 0, wide), short[1]))
    for pool in (known, shorts):
        found, prints, met = {}, {}, 0
        for number, exact in pool:
            fingerprint, key = values.of(number), tuple(exact)
            met += key in found
            assert found.setdefault(key, fingerprint) == fingerprint
            assert prints.setdefault(fingerprint, key) == key
        assert met > 30


def test_halves_of_32_bits_are_not_those_of_16():
    """A number that a conversion keeps has other bits in another format."""
    numbers = ValueNumbers()
    leaf, values = numbers.fresh(), RealValues(numbers)

    def made(name, shapes, *operands):
        return numbers.of(((numbers.of(("form", (name, shapes))), 0), operands))

    pair = made("mov.b32", ("r", ("r", "r")), numbers.fresh(), numbers.fresh())
    for narrow in (leaf, pair):
        wide = made("cvt.f64.f32", ("r", "r"), narrow)
        halves = [
            values.of(made(name, (("r", "r"), "r"), number))
            for name, number in (("mov.b32", narrow), ("mov.b64", wide))
        ]
        assert values.of(narrow) == values.of(wide) and halves[0] != halves[1]


FORMS = {"max.f32": 2, "setp.gt.f32": 2, "setp.eq.f32": 2, "selp.f32": 3, "add.f32": 2,
         "neg.f32": 1, "lg2.approx.f32": 1, "selp.b32": 3}  # fmt: skip


def test_values_that_differ_by_a_walk_have_other_fingerprints():
    random, numbers = Random(6), ValueNumbers()
    values = RealValues(numbers)
    leaves = [numbers.fresh() for _ in range(3)]
    known = [*leaves, ~0, ~0x3F800000]
    known += [numbers.of(("bytes", tuple(leaf << 5 | at for at in range(4)))) for leaf in leaves]
    known += [numbers.of(("ld", (32, 1, 32), number)) for number in known[-3:]]
    known.append(numbers.of(("ld", (8, 1, 32), known[-1])))
    for _ in range(400):
        name = random.choice(list(FORMS))
        operands = tuple(random.choice(known[-60:]) for _ in range(FORMS[name]))
        form = numbers.of(("form", (name, ("register",) * (len(operands) + 1))))
        known.append(numbers.of(((form, 0), operands)))
    found = {True: 0, False: 0}
    for _ in range(4000):
        one, other = random.choice(known), random.choice(known)
        apart = values.differ(one, other)
        found[apart] += 1
        assert not apart or values.of(one) != values.of(other), (one, other)
    assert min(found.values()) > 300


def test_known_numbers_are_those_of_the_type():
    numbers = ValueNumbers()
    leaf, values = numbers.fresh(), RealValues(numbers)
    double = numbers.of(("form", ("mul.f32", ("register", "register"))))
    add = numbers.of(("form", ("add.f32", ("register", "register"))))
    integers = numbers.of(("form", ("mul.lo.u32", ("register", "register"))))
    twice = values.of(numbers.of(((double, 0), (leaf, ~0x40000000))))
    assert twice == values.of(numbers.of(((add, 0), (leaf, leaf))))
    assert twice != values.of(numbers.of(((double, 0), (leaf, ~0x40000001))))
    assert twice != values.of(numbers.of(((integers, 0), (leaf, ~0x40000000))))
    assert twice != values.of(numbers.of(((double, 0), (leaf, ~0x7F800000))))


LARGER = """
    setp.eq.f32 %p2, %r10, %r11; setp.lt.s32 %p3, %r12, %r13; and.pred %p2, %p2, %p3;
    setp.gt.f32 %p3, %r10, %r11; or.pred %p2, %p3, %p2; selp.b32 %r12, %r12, %r13, %p2;
    selp.b32 %r10, %r10, %r11, %p2;
"""


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (("", ""), Verdict.VERIFIED),
        (("setp.lt.s32", "setp.gt.s32"), Verdict.VERIFIED),
        (("setp.gt.f32", "setp.lt.f32"), Verdict.VERIFIED),
        # The place of either, where two are equal; the first where the other is larger.
        (("and.pred %p2, %p2, %p3;", ""), Verdict.UNDECIDED),
        (("or.pred %p2, %p3, %p2;", ""), Verdict.UNDECIDED),
    ],
)
def test_the_place_of_a_maximum_is_tried(change, verdict):
    places = "mov.u32 %r12, %r2; shfl.sync.bfly.b32 %r13, %r12, 1, 31, -1;"
    text = f"{OWN}{HALF}{SWAP}{places}{LARGER.replace(*change)}"
    finding = verified(f"{text} @%p1 st.shared.u32 [%r6], %r12;")
    assert finding.verdict is verdict
    tried = any("the same for the numbers tried" in note for note in finding.notes)
    assert tried == (verdict is Verdict.VERIFIED)


@pytest.mark.parametrize(
    ("made", "how"),
    [
        ("", ""),
        ("shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;", EXACT),
        (
            "shfl.sync.bfly.b32 %r11, %r10, 4, 31, -1; mul.f32 %r12, %r11, %r11;"
            "fma.rn.f32 %r10, %r10, %r10, %r12;",
            ROUNDED,
        ),
    ],
)
def test_rows_of_matrices_at_one_place(made, how):
    rows = "shr.u32 %r6, %r2, 1; and.b32 %r6, %r6, 3; shl.b32 %r6, %r6, 4; add.u32 %r6, %r3, %r6;"
    store = "@%p1 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r10};"
    finding = verified(f"{OWN}{made}{rows}{store}")
    assert finding.verdict is (Verdict.VERIFIED if how else Verdict.UNDECIDED), finding.notes
    assert not how or any(how in note for note in finding.notes)


QUAD_PLACE = "shr.u32 %r6, %r2, 2; shl.b32 %r6, %r6, 2; add.u32 %r6, %r3, %r6;"
A_ROWS = "mov.b32 %r14, %r10; shl.b32 %r15, %r10, 1; mov.b32 %r16, %r10; add.u32 %r17, %r10, 1;"


@pytest.mark.parametrize(
    ("right", "kept", "verdict"),
    [
        ("mov.b32 %r18, 0x3C003C00;", "%r20", Verdict.VERIFIED),
        ("mov.b32 %r18, 0x3C003C00;", "%r23", Verdict.VERIFIED),
        ("shr.u32 %r18, %r2, 2;", "%r20", Verdict.UNDECIDED),  # other columns, other sums
        ("and.b32 %r18, %r2, 3;", "%r20", Verdict.VERIFIED),  # along K the same in all columns
        ("mov.b32 %r18, 0x3C003C00; mov.b32 %r20, %r2;", "%r20", Verdict.UNDECIDED),  # added
        ("mov.b32 %r18, 0x3C003C00; mov.b32 %r20, %r2;", "%r21", Verdict.VERIFIED),
    ],
)
def test_sums_of_rows_by_a_product_with_ones(right, kept, verdict):
    """Four lanes hold a row of the sums of mma.sync, as FlashAttention-2 kernels store it."""
    product = (
        f"{A_ROWS} mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0; {right}"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r20, %r21, %r22, %r23},"
        "{%r14, %r15, %r16, %r17}, {%r18, %r18}, {%r20, %r21, %r22, %r23};"
    )
    finding = verified(f"{OWN}{product}{QUAD_PLACE} @%p1 st.shared.u32 [%r6], {kept};")
    assert finding.verdict is verdict, finding.notes
    assert verdict is Verdict.UNDECIDED or any(EXACT in note for note in finding.notes)
