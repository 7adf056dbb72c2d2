"""Tile programs made by hand."""

from __future__ import annotations

from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import (
    Carried,
    Tensor,
    TileOperation,
    TileProgram,
    Value,
    ValuePlace,
    View,
    WorkDimension,
)
from titan.sync.expression import Name, parse_expression
from titan.sync.program import Parameter


def view(tensor: str, *offsets: str) -> View:
    return View(tensor, tuple(parse_expression(text) for text in offsets))


def operation(name, kind, *operands, shape=None, dtype="f32", place=ValuePlace.FRAGMENT, **more):
    result = None if shape is None else Value(name, *shape, dtype, place)
    return TileOperation(name, kind, operands, result, **more)


def load(name, shape, at, dtype="bf16"):
    return operation(name, "load", shape=shape, dtype=dtype, place=ValuePlace.SHARED, view=at)


def gemm(persistent=False, groups=2, rows=128, columns=128, k_tile=64):
    """C = gelu(A B^T + bias)."""
    tile = (rows, columns)
    return TileProgram(
        name="gemm",
        target="sm_90a",
        sizes=(("rows", rows), ("columns", columns), ("k_tile", k_tile)),
        parameters=tuple(Parameter(name, minimum=1) for name in ("M", "N", "K")),
        tensors=(
            Tensor("A", (Name("M"), Name("K")), "bf16"),
            Tensor("B", (Name("N"), Name("K")), "bf16"),
            Tensor("bias", (Name("N"),), "f32"),
            Tensor("C", (Name("M"), Name("N")), "bf16", output=True),
        ),
        work=(
            WorkDimension("m", parse_expression("(M + rows - 1) // rows")),
            WorkDimension("n", parse_expression("(N + columns - 1) // columns")),
        ),
        loop_variable="k",
        trip_count=parse_expression("(K + k_tile - 1) // k_tile"),
        before=(),
        body=(
            load("a", (rows, k_tile), view("A", "m * rows", "k * k_tile")),
            load("b", (columns, k_tile), view("B", "n * columns", "k * k_tile")),
            operation("acc_next", "mma", "a", "b", "acc", shape=tile, transpose=(False, True)),
        ),
        after=(
            operation(
                "bias_tile",
                "vector",
                shape=(1, columns),
                place=ValuePlace.COLUMN,
                view=view("bias", "n * columns"),
            ),
            operation("biased", "add", "acc", "bias_tile", shape=tile),
            operation("activated", "activation", "biased", shape=tile, function="gelu"),
            operation("narrow", "convert", "activated", shape=tile, dtype="bf16"),
            operation("c", "store", "narrow", view=view("C", "m * rows", "n * columns")),
        ),
        carried=(
            Carried(Value("acc", rows, columns, "f32", ValuePlace.FRAGMENT), 0.0, "acc_next"),
        ),
        persistent=persistent,
        groups=groups,
    )


def attention(d=128, rows=128, columns=128, groups=2):
    """O = softmax(Q K^T / sqrt(d)) V, one batch-head and block of queries a work item."""
    s, r = (rows, columns), (rows, 1)
    at = ("h", "j * columns", "0")

    def row(name, kind, *operands):
        return operation(name, kind, *operands, shape=r, place=ValuePlace.ROW)

    return TileProgram(
        name="attention",
        target="sm_90a",
        sizes=(("d", d), ("rows", rows), ("columns", columns)),
        parameters=tuple(Parameter(name, minimum=1) for name in ("H", "S", "T")),
        tensors=(
            Tensor("Q", (Name("H"), Name("S"), Name("d")), "bf16"),
            Tensor("K", (Name("H"), Name("T"), Name("d")), "bf16"),
            Tensor("V", (Name("H"), Name("T"), Name("d")), "bf16"),
            Tensor("O", (Name("H"), Name("S"), Name("d")), "bf16", output=True),
        ),
        work=(
            WorkDimension("h", Name("H")),
            WorkDimension("i", parse_expression("(S + rows - 1) // rows")),
        ),
        loop_variable="j",
        trip_count=parse_expression("(T + columns - 1) // columns"),
        before=(load("q", (rows, d), view("Q", "h", "i * rows", "0")),),
        body=(
            load("k", (columns, d), view("K", *at)),
            load("v", (columns, d), view("V", *at)),
            operation("s", "mma", "q", "k", shape=s, transpose=(False, True)),
            operation(
                "masked", "mask", "s", shape=s, number=float("-inf"),
                condition=parse_expression("j * columns + column < T"),
            ),
            operation("scaled", "scale", "masked", shape=s, number=1.4426950408889634 / d**0.5),
            row("m_tile", "row_max", "scaled"),
            row("m_new", "maximum", "m", "m_tile"),
            operation("shifted", "subtract", "scaled", "m_new", shape=s),
            operation("p", "exp2", "shifted", shape=s),
            row("p_sum", "row_sum", "p"),
            row("delta", "subtract", "m", "m_new"),
            row("corr", "exp2", "delta"),
            row("l_old", "multiply", "l", "corr"),
            row("l_new", "add", "l_old", "p_sum"),
            operation("p16", "convert", "p", shape=s, dtype="bf16"),
            operation("o_scaled", "multiply", "o", "corr", shape=(rows, d)),
            operation("o_new", "mma", "p16", "v", "o_scaled", shape=(rows, d),
                      transpose=(False, False)),
        ),
        after=(
            operation("o_mean", "divide", "o", "l", shape=(rows, d)),
            operation("narrow", "convert", "o_mean", shape=(rows, d), dtype="bf16"),
            operation("out", "store", "narrow", view=view("O", "h", "i * rows", "0")),
        ),
        carried=(
            Carried(Value("m", rows, 1, "f32", ValuePlace.ROW), float("-inf"), "m_new"),
            Carried(Value("l", rows, 1, "f32", ValuePlace.ROW), 0.0, "l_new"),
            Carried(Value("o", rows, d, "f32", ValuePlace.FRAGMENT), 0.0, "o_new"),
        ),
        groups=groups,
    )  # fmt: skip


def copy(rows=64, columns=64):
    """Y = X, straight through shared memory."""
    at = ("m * rows", "k * columns")
    return TileProgram(
        name="copy",
        target="sm_90a",
        sizes=(("rows", rows), ("columns", columns)),
        parameters=tuple(Parameter(name, minimum=1) for name in ("M", "N")),
        tensors=(
            Tensor("X", (Name("M"), Name("N")), "f32"),
            Tensor("Y", (Name("M"), Name("N")), "f32", output=True),
        ),
        work=(WorkDimension("m", parse_expression("(M + rows - 1) // rows")),),
        loop_variable="k",
        trip_count=parse_expression("(N + columns - 1) // columns"),
        before=(),
        body=(
            load("x", (rows, columns), view("X", *at), dtype="f32"),
            operation("y", "store", "x", view=view("Y", *at)),
        ),
        after=(),
        groups=1,
    )


def scaled_rows(rows=64, columns=64, groups=1):
    """Y = relu(2 X), and the sum of every row."""
    at = ("m * rows", "k * columns")
    s = (rows, columns)
    return TileProgram(
        name="scaled_rows",
        target="sm_90a",
        sizes=(("rows", rows), ("columns", columns)),
        parameters=tuple(Parameter(name, minimum=1) for name in ("M", "N")),
        tensors=(
            Tensor("X", (Name("M"), Name("N")), "f32"),
            Tensor("Y", (Name("M"), Name("N")), "f32", output=True),
            Tensor("sums", (Name("M"),), "f32", output=True),
        ),
        work=(WorkDimension("m", parse_expression("(M + rows - 1) // rows")),),
        loop_variable="k",
        trip_count=parse_expression("(N + columns - 1) // columns"),
        before=(),
        body=(
            load("x", s, view("X", *at), dtype="f32"),
            operation("r", "read", "x", shape=s),
            operation("twice", "scale", "r", shape=s, number=2.0),
            operation("positive", "activation", "twice", shape=s, function="relu"),
            operation("part", "row_sum", "positive", shape=(rows, 1), place=ValuePlace.ROW),
            operation("total_new", "add", "total", "part", shape=(rows, 1), place=ValuePlace.ROW),
            operation("y", "store", "positive", view=view("Y", *at)),
        ),
        after=(operation("row_sums", "store", "total", view=view("sums", "m * rows")),),
        carried=(Carried(Value("total", rows, 1, "f32", ValuePlace.ROW), 0.0, "total_new"),),
        groups=groups,
    )


SHARED = """
titan: 1
tile: shared
target: sm_90a
sizes: {M: any, N: any, rows: 128, columns: 32, depth_k: 128}
tensors:
  A: {shape: [M, depth_k], dtype: bf16}
  B: {shape: [N, depth_k], dtype: bf16}
  C: {shape: [depth_k, N], dtype: f32, output: true}
work: {m: (M + rows - 1) // rows}
groups: 2
loop: {n: (N + columns - 1) // columns}
before:
  - a: {load: "A[m * rows, 0]", tile: [rows, depth_k]}
body:
  - b: {load: "B[n * columns, 0]", tile: [columns, depth_k]}
  - s: {mma: [a, b.T]}
  - s16: {convert: s, to: bf16}
  - whole: {share: s16}
  - part: {mma: [a.T, whole]}
  - out: {store: part, to: "C[0, n * columns]", reduce: add}
"""


def shared():
    """C = A^T (A B^T), added up over blocks of rows of A in global memory."""
    return parse_tile(SHARED)
