"""What becomes of a number that grows with the trips, beside the arithmetic on the number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import part
from titan.isa.simt.arithmetic import function_of
from titan.isa.simt.growth import ENDLESS, FIXED, Growth, centred, reach, through, unknown
from titan.isa.simt.operations import COMPARISONS, DecodedStep, Kind, Op
from titan.isa.simt.undefined_results import open_test

NUMBERS = st.one_of(
    st.integers(-70, 70), st.integers(0, 1 << 34), st.sampled_from([0xAAAAAAAB, 1 << 31, 1 << 32])
)
SLOPES = st.one_of(st.integers(-9, 9), st.sampled_from([64, 256, 12, -64, 1 << 16, 1 << 30]))
WIDE = (Op.MUL_WIDE, Op.MAD_WIDE)
TWO = (
    Op.ADD, Op.SUB, Op.MUL_LOW, Op.MUL_WIDE, Op.MUL_HIGH, Op.SHL, Op.SHR, Op.DIV, Op.REM, Op.AND,
    Op.OR, Op.XOR, Op.MIN, Op.MAX,
)  # fmt: skip
POINTS = [(0, 0), (0, 1), (1, 1), (2, 5), (5, 5), (0, 9), (40, 77), (99, 99), (1 << 13, 1 << 14)]


def steps() -> st.SearchStrategy[DecodedStep]:
    kinds = st.sampled_from([Kind.UNSIGNED, Kind.SIGNED])
    bits = st.sampled_from([16, 32, 64])
    narrow = st.sampled_from([16, 32])
    return st.one_of(
        st.builds(DecodedStep, st.sampled_from(TWO), kind=kinds, bits=narrow),
        st.builds(DecodedStep, st.sampled_from([Op.MIN, Op.MAX]), kind=st.just(Kind.SIGNED),
                  bits=st.just(32), flags=st.just((1,))),
        st.builds(DecodedStep, st.sampled_from([Op.NEG, Op.NOT, Op.MOV]), kind=kinds, bits=bits),
        st.builds(DecodedStep, st.sampled_from([Op.MAD_LOW, Op.MAD_WIDE]), kind=kinds, bits=narrow),
        st.builds(DecodedStep, st.just(Op.SELP), kind=st.just(Kind.BITS), bits=bits),
        st.builds(DecodedStep, st.just(Op.BFE), kind=kinds, bits=st.sampled_from([32, 64])),
        st.builds(
            DecodedStep, st.just(Op.SETP), kind=kinds, bits=bits,
            flags=st.tuples(
                st.integers(0, COMPARISONS.index("hs")), *(st.just(0) for _ in range(4))
            ),
        ),
        st.builds(
            DecodedStep, st.just(Op.CVT), kind=kinds, bits=st.sampled_from([8, 16, 32, 64]),
            flags=st.tuples(kinds, st.sampled_from([8, 16, 32, 64]), st.integers(0, 1),
                            st.sampled_from([32, 64])),
        ),
        st.builds(DecodedStep, st.just(Op.PACK), bits=st.just(64), flags=st.just((32,))),
    )  # fmt: skip


def count_of(step: DecodedStep) -> int:
    if step.op in (Op.NEG, Op.NOT, Op.MOV, Op.CVT):
        return 1
    return 3 if step.op in (Op.MAD_LOW, Op.MAD_WIDE, Op.SELP, Op.BFE) else 2


def widths(step: DecodedStep) -> list[int]:
    """The bits of each operand."""
    if step.op is Op.CVT:
        return [step.flags[1]]
    if step.op is Op.PACK:
        return [32, 32]
    if step.op is Op.SELP:
        return [step.bits, step.bits, 1]
    if step.op in (Op.SHL, Op.SHR):
        return [step.bits, 32]
    if step.op is Op.BFE:
        return [step.bits, 32, 32]
    return [step.bits, step.bits, 2 * step.bits if step.op is Op.MAD_WIDE else step.bits]


def result_bits(step: DecodedStep) -> int:
    if step.op in WIDE:
        return 2 * step.bits
    if step.op is Op.CVT:
        return max(step.bits, step.flags[3])
    return 64 if step.op is Op.PACK else step.bits


@settings(max_examples=part(6000))
@given(steps(), st.lists(st.tuples(NUMBERS, SLOPES, SLOPES, st.booleans()), min_size=3, max_size=3))
def test_a_result_is_of_its_form_up_to_its_limit(step, drawn):
    count, bits = count_of(step), widths(step)
    drawn = drawn[:count]
    growths = [FIXED if still else Growth(a, b) for _, a, b, still in drawn]
    if all(item == FIXED for item in growths):
        return
    masks = [(1 << size) - 1 for size in bits]
    values = [c & mask for (c, _, _, _), mask in zip(drawn, masks, strict=False)]
    test = open_test(step)
    if test is not None and test(values):
        return
    function = function_of(step)
    found = through(step, 7, values, growths)
    start = function(*values)
    size = 2 if step.op is Op.SETP else result_bits(step)
    for j, k in [*POINTS, (found.limit, found.limit), (0, found.limit)]:
        if k > found.limit or k >= 1 << 60:
            continue
        moved = [
            (value + item.a * j + item.b * k) & mask
            for value, item, mask in zip(values, growths, masks, strict=False)
        ]
        assert function(*moved) == (start + found.a * j + found.b * k) & (1 << size) - 1, (j, k)


@pytest.mark.parametrize("divisor", [3, 6, 7, 12])
def test_a_division_by_multiplication_is_followed(divisor):
    """What compilers make of t / 3: the high half of t * (2^33 / 3), shifted."""
    shift = 32 + divisor.bit_length() - 1
    factor = -(-(1 << shift) // divisor)
    if factor >= 1 << 32:
        shift, factor = shift - 1, -(-(1 << (shift - 1)) // divisor)
    high = DecodedStep(Op.MUL_WIDE, kind=Kind.UNSIGNED, bits=32)
    right = DecodedStep(Op.SHR, kind=Kind.UNSIGNED, bits=64)
    period = 4 * divisor
    product = through(high, 1, [5, factor], [Growth(period, 0), FIXED])
    found = through(right, 2, [5 * factor, shift], [product, FIXED])
    assert (found.a, found.b) == (4, 0) and found.limit > 1 << 20


@pytest.mark.parametrize(
    ("word", "constant", "limit"),
    [("eq", 40, 39), ("lt", 40, 39), ("gt", 40, 40), ("ne", 40, 39), ("ge", 41, 40)],
)
def test_a_comparison_holds_until_it_turns(word, constant, limit):
    """A trip, now 0, beside a constant."""
    step = DecodedStep(
        Op.SETP, kind=Kind.SIGNED, bits=32, flags=(COMPARISONS.index(word), 0, 0, 0, 0)
    )
    found = through(step, 3, [0, constant], [Growth(1, 0), FIXED])
    assert found == Growth(0, 0, limit, 3)


def test_what_remains_and_what_is_past_stay_apart():
    """t < n with t and n a period further on; the last round is where j is k."""
    step = DecodedStep(
        Op.SETP, kind=Kind.SIGNED, bits=32, flags=(COMPARISONS.index("lt"), 0, 0, 0, 0)
    )
    found = through(step, 3, [5, 9], [Growth(4, 0), Growth(0, 4)])
    assert found.fixed and found.limit > 1 << 28  # as far as 32 bits go
    assert through(step, 3, [9, 9], [Growth(4, 0), Growth(0, 4)]).limit == 0


@pytest.mark.parametrize(("place", "rows", "limit"), [(7, 8, 0), (8, 8, 7), (23, 8, 0)])
def test_a_quotient_by_rows_that_grow_stays(place, rows, limit):
    """The head and the row of a CTA, which goes along with the rows of its head and those before;
    and of one that goes on faster and comes to the next head."""
    head = place // rows
    divide = DecodedStep(Op.DIV, kind=Kind.UNSIGNED, bits=32)
    rest = DecodedStep(Op.REM, kind=Kind.UNSIGNED, bits=32)
    growths = [Growth(0, head + 1), Growth(0, 1)]
    found = through(divide, 3, [place, rows], growths)
    assert found.fixed and found.limit > 1 << 28  # as far as 32 bits go
    assert through(rest, 3, [place, rows], growths).b == 1
    faster = [Growth(0, head + 2), Growth(0, 1)]
    assert through(divide, 3, [place, rows], faster) == Growth(0, 0, limit, 3)


@pytest.mark.parametrize("low", [0, 2, 3])
@pytest.mark.parametrize("slope", [4, 8, 12, 3])
def test_bits_in_a_row_that_hold_the_number_round_it(low, slope):
    """n & 0x1ffffffc, as compilers write n / 4 * 4 of a number that is later shifted by 3."""
    mask = (1 << 29) - (1 << low)
    anded = DecodedStep(Op.AND, kind=Kind.BITS, bits=32)
    found = through(anded, 2, [13, mask], [Growth(slope, 0), FIXED])
    last = (1 << 29) // slope  # rounds until higher bits are reached
    if slope % (1 << low):
        assert found.limit < 8
        last = found.limit + 1
    else:
        assert found.limit in range(last - 8, last)
    for trip in (0, 1, 7, found.limit):
        if trip < last:
            assert (13 + slope * trip) & mask == (13 & mask) + found.a * trip
    assert (13 + slope * last) & mask != (13 & mask) + found.a * last


def test_unknown_operands_give_unknown_results():
    step = DecodedStep(Op.ADD, kind=Kind.SIGNED, bits=32)
    assert through(step, 5, [1, 2], [unknown(3), Growth(1, 0)]).limit == 0
    anded = DecodedStep(Op.AND, kind=Kind.BITS, bits=32)
    assert through(anded, 5, [1, 0], [unknown(3), FIXED]) == FIXED  # 0 decides alone


def test_reach_is_the_last_that_fits():
    assert reach(0, 1, 0, 0, 10) == 10
    assert reach(0, 0, -1, 0, 10) == 0
    assert reach(11, 0, 0, 0, 10) == -1
    assert reach(3, -2, 2, 0, 1 << 90) >= ENDLESS
    assert centred(0xFFFFFFFC, 32) == -4
