"""Which row sums lanes keep apart: against programs whose lanes are computed one by one."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.partial_sums import partial_sums
from titan.foundation.resources import root
from titan.target.load import TargetRefused

ATTENTION = (root("protocols") / "tiles" / "attention_forward.yaml").read_text(encoding="utf-8")
TRIPS, ROWS, LANES, COLUMNS = 3, 2, 4, 8
HEAD = """titan: 1
tile: sums
target: sm_90a
sizes: {count: any, length: any, rows: 128, columns: 64}
tensors:
  X: {shape: [count, length], dtype: bf16}
  O: {shape: [count], dtype: f32, output: true}
work: {i: (count + rows - 1) // rows}
groups: 2
loop: {j: (length + columns - 1) // columns}
carried:
"""
BODY = """body:
  - tile: {load: "X[i * rows, j * columns]", tile: [rows, columns]}
  - x: {read: tile}
  - top: {row_max: x}
  - sum: {row_sum: x}
"""


def test_attention_adds_up_its_rows_once():
    found = partial_sums(parse_tile(ATTENTION))
    assert found.sums == {"p_sum"}
    assert found.completed("inverse") == ("total",) and not found.completed("normal")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total: {shape: [rows], initial: 0", "total: {shape: [rows], initial: 1"),
        ("{add: [total_shrunk, p_sum]}", "{maximum: [total_shrunk, p_sum]}"),
        ("{multiply: [total, shrink]}", "{add: [total, shrink]}"),
        ("{multiply: [total, shrink]}", "{multiply: [total, total]}"),
        ("{subtract: [top, top_next]}", "{subtract: [total, top_next]}"),
        ("{subtract: [top, top_next]}", "{subtract: [p_sum, top_next]}"),
        ("  - inverse: {reciprocal: total}\n  - normal: {multiply: [o, inverse]}",
         "  - normal: {divide: [o, total]}"),
    ],
)  # fmt: skip
def test_sums_that_are_needed_whole(old, new):
    assert old in ATTENTION
    assert not partial_sums(parse_tile(ATTENTION.replace(old, new))).sums


@st.composite
def programs(draw):
    """Carried row values, each made from others of the iteration, all of which are used."""
    known, unused, steps = ["a", "b", "top", "sum"], ["top", "sum"], []
    if draw(st.booleans()):  # as a sum that may be kept apart, if nothing else comes in
        steps = [("v0", "multiply", "a", "top"), ("v1", "add", "v0", "sum")]
        steps.append(("v2", "offset", "top", ""))
        known, unused = [*known, "v0", "v1", "v2"], ["v1", "v2"]
    size = len(steps) + draw(st.integers(0, 2)) or 1
    while len(steps) < size or len(unused) > 2:
        kind = draw(st.sampled_from(["add", "add", "multiply", "maximum", "scale", "offset"]))
        if len(unused) > 2:
            kind = draw(st.sampled_from(["add", "multiply"]))
        first = draw(st.sampled_from(unused or known))
        second = draw(st.sampled_from(unused if len(unused) > 2 else known))
        name = f"v{len(steps)}"
        steps.append((name, kind, first, "" if kind in ("scale", "offset") else second))
        known.append(name)
        unused = [one for one in unused if one not in steps[-1][2:]] + [name]
    made = [step[0] for step in steps]
    nexts = [one if one in made else made[0] for one in (*unused, made[-1])][:2]
    starts = [draw(st.sampled_from([0, 0, 0, 1])) for _ in nexts]
    carried = dict(zip(("a", "b"), zip(starts, nexts, strict=True), strict=True))
    return steps, carried


def text_of(steps, carried):
    """The tile program; empty where something of it is unused."""
    lines = [
        f"  - {name}: {{{kind}: [{first}, {second}]}}\n"
        if second
        else f"  - {name}: {{{kind}: {first}, by: 0.5}}\n"
        for name, kind, first, second in steps
    ]
    first = [
        f"  {name}: {{shape: [rows], initial: {start}, next: {following}}}\n"
        for name, (start, following) in carried.items()
    ]
    after = 'after:\n  - made: {add: [a, b]}\n  - out: {store: made, to: "O[i * rows]"}\n'
    return HEAD + "".join(first) + BODY + "".join(lines) + after


def result(steps, carried, apart, completed):
    """What each lane has at the end, [rows, lanes]; `apart`: sums of the lane's own columns."""
    numbers = numpy.random.default_rng(7).integers(1, 9, (TRIPS, ROWS, LANES, COLUMNS)) / 8
    held = {name: numpy.full((ROWS, LANES), float(start)) for name, (start, _) in carried.items()}
    for trip in range(TRIPS):
        x = numbers[trip]
        own = x.sum(axis=2)
        values = dict(held)
        values["top"] = numpy.broadcast_to(x.max(axis=(1, 2))[:, None], own.shape)
        values["sum"] = own if "sum" in apart else own.sum(axis=1, keepdims=True) + 0 * own
        for name, kind, first, second in steps:
            one, other = values[first], values.get(second, 0.5)
            values[name] = {
                "add": one + other, "offset": one + other, "multiply": one * other,
                "scale": one * other, "maximum": numpy.maximum(one, other),
            }[kind]  # fmt: skip
        held = {name: values[following] for name, (_, following) in carried.items()}
    for name in completed:
        held[name] = held[name].sum(axis=1, keepdims=True) + 0 * held[name]
    return held["a"] + held["b"]


@given(made=programs())
def test_lanes_have_the_same_numbers_in_the_end(made):
    steps, carried = made
    try:
        tile = parse_tile(text_of(steps, carried))
    except TargetRefused:  # an operation is left that nothing uses
        return
    found = partial_sums(tile)
    completed = found.completed("made")
    kept = result(steps, carried, found.sums, completed)
    numpy.testing.assert_allclose(kept, result(steps, carried, (), ()))
    if found.sums:
        assert not numpy.allclose(kept, result(steps, carried, (), completed))  # added up twice
