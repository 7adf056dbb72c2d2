"""Loops whose trips depend on the row of a CTA, for any number of rows: right ones, and faults in
rows that no launch has from which a file is folded or with which it is compared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.test_further_trips import AFTER_WAIT, BEFORE_WAIT
from tests.frontends.test_verify_code import codes, ring, verified
from tests.sampling import part, sampled
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.lift.further_trips import FurtherTrips, further_trips
from titan.frontends.lift.warp_rounds import WarpRounds
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.launch import completed, read_launch_text
from titan.frontends.ptx.rows import of_cta
from titan.frontends.ptx.sweep import Driver, GridRow, ParameterWord
from titan.isa.ptx.parse import parse_source

SIZES = "\t.param .u32 queries,\n\t.param .u32 keys\n)"
READ = (
    "ld.param.u32 %r24, [queries]; ld.param.u32 %r25, [keys];"
    "add.u32 %r26, %r24, 15; shr.u32 %r26, %r26, 4;"  # rows of 16
    "add.u32 %r27, %r25, 15; shr.u32 %r27, %r27, 4;"
)
UP_TO = "add.u32 %r1, %r28, 1; min.u32 %r1, %r1, %r27;"  # of row %r28
SQUARE = (
    "{{grid: {grid}, dynamic_shared: 0, parameters: {{source: pointer, queries: 128, keys: 128}}}}"
)
ONE_HEAD = SQUARE.format(grid=8)

# How a CTA comes to its row, %r28 of %r26, and its trips; and the launch.
ROWS = {
    "its place": ("mov.u32 %r28, %ctaid.x;" + UP_TO, ONE_HEAD),
    "from the last": ("mov.u32 %r28, %ctaid.x; sub.u32 %r28, %r26, %r28;"
                      "sub.u32 %r28, %r28, 1;" + UP_TO, ONE_HEAD),
    "from the end of the grid": ("mov.u32 %r28, %ctaid.x; mov.u32 %r29, %nctaid.x;"
                                 "sub.u32 %r28, %r29, %r28; sub.u32 %r28, %r28, 1;" + UP_TO,
                                 ONE_HEAD),
    "a remainder, in three heads": ("mov.u32 %r28, %ctaid.x; rem.u32 %r28, %r28, %r26;" + UP_TO,
                                    SQUARE.format(grid=24)),
    "the other axis": ("mov.u32 %r28, %ctaid.y;" + UP_TO, SQUARE.format(grid="[2, 8, 1]")),
    "the longer of two rows": ("mov.u32 %r28, %ctaid.x; sub.u32 %r29, %r26, %r28;"
                               "add.u32 %r1, %r28, 1; max.u32 %r1, %r1, %r29;", ONE_HEAD),
    "keys before the row": ("mov.u32 %r28, %ctaid.x; mov.u32 %r1, %r28;", ONE_HEAD),
    "half as many keys a row": ("mov.u32 %r28, %ctaid.x; mad.lo.u32 %r1, %r28, 2, 2;", ONE_HEAD),
}  # fmt: skip


def by_rows(name: str, when: str = "") -> str:
    """The ring whose trips depend on the row; `when` sets %p6 where the consumer does not wait."""
    text = ring().replace("\t.param .u32 n\n)", SIZES)
    trips = f"\t{READ}\n\t{ROWS[name][0]}\n"
    text = text.replace("\tld.param.u32 %r1, [n];\n", trips)
    text = text.replace(".reg .b32 %r<32>", ".reg .b32 %r<40>")
    if when:
        text = text.replace(BEFORE_WAIT, f"\t{when}\n\t@%p6 bra SKIPPED;\n{BEFORE_WAIT}")
        text = text.replace(AFTER_WAIT, f"{AFTER_WAIT}SKIPPED:\n")
    return text


@pytest.mark.parametrize("name", sampled(ROWS, 3))
def test_trips_of_rows_are_verified_for_any_number(name):
    finding = verified(by_rows(name), ROWS[name][1], require="any")
    assert finding.verdict is Verdict.VERIFIED, (finding.narrowing, finding.diagnostics)
    assert any("shown to continue so for all further ones" in note for note in finding.notes)


# In which trips the wait is left out: none of those that launches of few rows have.
FAR = {
    "a trip": "setp.eq.u32 %p6, %r7, 40;",
    "a row": "mad.lo.u32 %r30, %r28, 100, %r7; setp.eq.u32 %p6, %r30, 3705;",
    "many rows": "setp.gt.u32 %p6, %r26, 50;",
    "a size": "setp.eq.u32 %p6, %r25, 720;",
    "a large grid": "mov.u32 %r30, %nctaid.x; setp.gt.u32 %p6, %r30, 100;",
    "a place in the grid": "mov.u32 %r30, %ctaid.x; mad.lo.u32 %r30, %r30, 100, %r7;"
                           "setp.eq.u32 %p6, %r30, 4705;",
    "a multiple of a size": "mul.lo.u32 %r30, %r24, %r25; setp.gt.u32 %p6, %r30, 400000;",
    "a byte of the row": "cvt.u32.u8 %r30, %r28; setp.eq.u32 %p6, %r30, 40;"
                         "setp.eq.and.u32 %p6, %r7, 9, %p6;",
    "what is left of the keys": "shl.b32 %r30, %r7, 4; sub.u32 %r30, %r25, %r30;"
                                "setp.eq.u32 %p6, %r30, 640;",
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAR, 3))
def test_a_fault_in_a_far_row_is_found(name):
    finding = verified(by_rows("its place", FAR[name]), ONE_HEAD, require="any")
    assert finding.verdict is not Verdict.VERIFIED
    if finding.verdict is Verdict.REFUTED:
        assert set(codes(finding)) & {"TTN203", "TTN205", "TTN206", "TTN212"}, codes(finding)
    else:
        assert finding.narrowing is not None and "trips and more" in finding.narrowing.because


def test_a_refutation_names_the_launch_and_the_row():
    finding = verified(by_rows("its place", FAR["a row"]), ONE_HEAD, require="any")
    assert finding.verdict is Verdict.REFUTED
    where = "grid x with parameter 1 and parameter 2 = 1184 (37 trips), CTA (37, 0, 0)"
    assert any(where in note for note in finding.notes), finding.notes


def test_the_middle_row_goes_along_by_half():
    """Its own row and those behind it are more and more, and neither the first nor the last is."""
    when = (
        "sub.u32 %r30, %r26, %r28; min.u32 %r30, %r30, %r28; mad.lo.u32 %r30, %r30, 100, %r7;"
        "setp.eq.u32 %p6, %r30, 3020;"
    )
    finding = verified(by_rows("its place", when), ONE_HEAD, require="any")
    assert finding.verdict is Verdict.REFUTED
    assert any("CTA (30, 0, 0)" in note for note in finding.notes), finding.notes


DRIVER = Driver((ParameterWord(1, 0, 4, 128), ParameterWord(2, 0, 4, 128)), 16, 2, GridRow(0, 1, 8))


def shown_for(text: str, cta: int, odd: bool = False) -> tuple[FurtherTrips, Driver]:
    source = Source("ring.ptx", text)
    module, errors = parse_source(source)
    assert module is not None and not errors
    described, wrong = read_launch_text(ONE_HEAD, "ring.yaml")
    assert wrong == []
    (function,) = module.entries()
    launch, _, _ = completed(described, function, whole_file(source.path))
    assert launch is not None
    driver = of_cta(DRIVER, launch, cta)[-1 if odd else 0]
    runs = WarpRounds(CodeKernel(module, source, function), launch, driver, cta, 100_000)
    return further_trips(runs, driver, 4), driver


NUMBERS = {  # as the code makes them, and of the row, of rows and of the trip
    "mov.u32 %r30, %ctaid.x;": lambda row, rows, trip: row,
    "mov.u32 %r30, %nctaid.x;": lambda row, rows, trip: rows,
    "sub.u32 %r30, %r26, %r28;": lambda row, rows, trip: rows - row,
    "mad.lo.u32 %r30, %r28, 3, %r7;": lambda row, rows, trip: 3 * row + trip,
    "div.u32 %r30, %r25, 48;": lambda row, rows, trip: rows // 3,
    "add.u32 %r30, %r28, 7; div.u32 %r30, %r30, %r26; mul.lo.u32 %r30, %r30, 90;":
        lambda row, rows, trip: 90 * ((row + 7) // rows),
    "rem.u32 %r30, %r7, %r26;": lambda row, rows, trip: trip % rows,
    "mul.lo.u32 %r30, %r26, 5; sub.u32 %r30, %r30, 3; rem.u32 %r30, %r30, %r26;":
        lambda row, rows, trip: (5 * rows - 3) % rows,
    "mul.lo.u32 %r30, %r26, 5; sub.u32 %r30, %r30, %r28; div.u32 %r30, %r30, %r26;"
    "mul.lo.u32 %r30, %r30, %r30; add.u32 %r30, %r30, %r28;":
        lambda row, rows, trip: ((5 * rows - row) // rows) ** 2 + row,
    "min.u32 %r30, %r28, 45; add.u32 %r30, %r30, %r30;": lambda row, rows, trip: 2 * min(row, 45),
}  # fmt: skip


HALF = {
    "even": "shl.b32 %r30, %r28, 1; setp.eq.u32 %p6, %r30, %r26;",
    "odd": "mad.lo.u32 %r30, %r28, 2, 1; setp.eq.u32 %p6, %r30, %r26;",
}


@pytest.mark.parametrize("more", [10, 60])
@pytest.mark.parametrize("name", HALF)
def test_a_middle_row_that_is_wrong_in_even_or_in_odd_numbers_of_rows_is_found(name, more):
    """From more rows on than the launch has, where some measured launches hang, or none does."""
    when = f"{HALF[name]} setp.gt.and.u32 %p6, %r26, {more}, %p6;"
    finding = verified(by_rows("its place", when), ONE_HEAD, require="any")
    assert finding.verdict is not Verdict.VERIFIED


def test_no_unit_goes_around_launches_that_hang():
    """With 16 and 32 keys a trip even numbers of rows hang, and 40 fit no row that is wrong."""
    when = f"{HALF['even']} setp.gt.and.u32 %p6, %r26, 10, %p6;"
    finding = verified(by_rows("its place", when), ONE_HEAD, require="any")
    assert any("does not run to its end" in note for note in finding.notes), finding.notes


@settings(max_examples=part(80, 8), deadline=None)
@given(
    st.sampled_from(["eq", "ge"]),
    st.sampled_from(sorted(NUMBERS)),
    st.integers(20, 200),
    st.sampled_from([0, 4, 7]),
    st.booleans(),
)
def test_no_row_is_called_shown_in_which_the_code_goes_another_way(word, made, constant, cta, odd):
    """Against what the numbers are, row by row and trip by trip, up to 150 rows."""
    further, driver = shown_for(
        by_rows("its place", f"{made} setp.{word}.u32 %p6, %r30, {constant};"), cta, odd
    )
    row = driver.row
    assert row is not None

    def goes(trips: int) -> bool:
        mine, rows = row.place(trips), row.count(trips)
        numbers = (NUMBERS[made](mine, rows, trip) for trip in range(mine + 1))
        return any(number == constant if word == "eq" else number >= constant for number in numbers)

    ways = [goes(trips) for trips in range(driver.fewest, 151)]
    if any(ways[: max(0, further.launched - driver.fewest)]):
        return  # the launches say so
    other = next((at + driver.fewest for at, way in enumerate(ways) if way), None)
    if other is not None:
        assert further.first is not None and further.first <= other
