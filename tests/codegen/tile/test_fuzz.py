"""Random edits of tile files end in a program or in diagnostics; accepted stores never meet."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titan.codegen.tile.cost import CostError
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.loops import loop_of
from titan.codegen.tile.semantics import StoreConflict, over_arrays, run
from titan.foundation.resources import root
from titan.sync.expression import evaluate, parse_expression
from titan.target.load import TargetRefused, machine

FILES = sorted((root("protocols") / "tiles").glob("*.yaml"))
TEXTS = [path.read_text(encoding="utf-8") for path in FILES]
PIECES = [
    "0", "-1", "99999", "any", "inf", "[", "]", "{", "}", ",", ":", "rows", "acc", "a", "b.T",
    "true", "f32", "e4m3", "mma", "load", "store", "null", "''", "\n", "  ", "- ", "K // 0", "x",
    "sm_100a", "gfx942", "before:", "after: []", "carried: {}", "target: [sm_90a, gfx942]",
]  # fmt: skip


def edited(text: str, source: random.Random) -> str:
    for _ in range(source.randint(1, 3)):
        start = source.randrange(len(text))
        end = min(len(text), start + source.choice((0, 1, 3, 10, 60)))
        text = text[:start] + source.choice((*PIECES, "")) + text[end:]
    return text


@pytest.mark.parametrize("seed", range(8))
def test_an_edited_file_is_a_program_or_refused(seed: int) -> None:
    source = random.Random(seed)
    accepted = 0
    for _ in range(100):
        text = edited(source.choice(TEXTS), source)
        try:
            tile = parse_tile(text, "k.yaml")
        except TargetRefused as refused:
            assert refused.diagnostics
            assert all(item.span is not None for item in refused.diagnostics)
            continue
        accepted += 1
        try:
            assert loop_of(tile, machine(tile.target), 2).operations
        except CostError as error:
            assert "tensor memory" in str(error)
    assert accepted


STORE = """\
titan: 1
tile: stores
target: sm_90a
sizes: {{M: any, N: any}}
tensors:
  X: {{shape: [M, 64], dtype: bf16}}
  Y: {{shape: [M, N], dtype: bf16, output: true}}
work: {{i: M, j: {count}}}
loop: {{t: {trips}}}
body:
  - x: {{load: "X[0, 0]", tile: [{rows}, 16]}}
  - y: {{store: x, to: "Y[{first}, {second}]"}}
"""


def offset() -> st.SearchStrategy[str]:
    step = st.sampled_from([0, 1, 2, 4, 8, 16, 32, 48, -16])
    return st.builds(
        lambda i, j, t, c: f"i * {i} + j * ({j}) + t * {t} + {c}",
        step, step, step, st.integers(0, 3),
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["M", "1", "2", "3"]),
    st.sampled_from(["N", "1", "2"]),
    st.sampled_from([1, 4]),
    offset(),
    offset(),
)
def test_accepted_stores_never_meet(
    count: str, trips: str, rows: int, first: str, second: str
) -> None:
    text = STORE.format(count=count, trips=trips, rows=rows, first=first, second=second)
    try:
        tile = parse_tile(text)
    except TargetRefused as refused:
        assert {item.code for item in refused.diagnostics} == {"TTN612"}
        return
    parameters = {"M": 4, "N": 3}
    outputs = [tensor for tensor in tile.tensors if tensor.output]
    wide = tile.__class__(
        **{
            **{name: getattr(tile, name) for name in tile.__slots__},
            "tensors": tuple(
                t if t not in outputs
                else t.__class__(t.name, (parse_expression("400"),) * 2, t.dtype, True)
                for t in tile.tensors
            ),
        }
    )  # fmt: skip
    try:
        run(wide, {"X": np.ones((4, 64))}, parameters)
    except StoreConflict as conflict:
        pytest.fail(f"{conflict}: {text}")


ATOMS = st.sampled_from(["row", "column", "a", "3", "7", "128"])
OPERATORS = ["+", "-", "*", "<", "<=", "==", "!=", ">=", ">", "and", "or"]


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda x, o, y: f"({x} {o} {y})", inner, st.sampled_from(OPERATORS), inner),
        st.builds(lambda x, o, d: f"({x} {o} {d})", inner, st.sampled_from(["//", "%"]),
                  st.sampled_from([1, 2, 5])),
        st.builds(lambda x, o, y: f"{o}({x}, {y})", inner, st.sampled_from(["min", "max"]), inner),
        st.builds(lambda x: f"(not {x})", inner),
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.recursive(ATOMS, compound, max_leaves=8), st.integers(-5, 5))
def test_conditions_over_arrays_are_those_of_single_numbers(text: str, a: int) -> None:
    expression = parse_expression(text)
    rows, columns = np.arange(4)[:, None], np.arange(6)[None, :]
    whole = over_arrays(expression, {"row": rows, "column": columns, "a": a})
    found = np.broadcast_to(whole, (4, 6))
    for row in range(4):
        for column in range(6):
            names = {"row": row, "column": column, "a": a}
            assert int(found[row, column]) == evaluate(expression, names)
