"""Tile programs for CDNA, made by hand: what the tests of that form walk through."""

from __future__ import annotations

from dataclasses import replace

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
from titan.sync.expression import Expression, parse_expression, substitute
from titan.sync.program import Parameter

S, F, R, C = ValuePlace.SHARED, ValuePlace.FRAGMENT, ValuePlace.ROW, ValuePlace.COLUMN


def view(tensor: str, *offsets: str) -> View:
    return View(tensor, tuple(parse_expression(text) for text in offsets))


def tensor(name: str, dtype: str, *shape: str, output: bool = False) -> Tensor:
    return Tensor(name, tuple(parse_expression(text) for text in shape), dtype, output)


def parameters(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, None, 1) for name in names)


def load(name: str, at: View, rows: int, columns: int, dtype: str) -> TileOperation:
    return TileOperation(name, "load", (), Value(name, rows, columns, dtype, S), at)


def with_numbers(tile: TileProgram) -> TileProgram:
    """The sizes put in, as the decoder of tile files does."""
    sizes: dict[str, Expression | int] = dict(tile.sizes)

    def put(expression: Expression) -> Expression:
        return substitute(expression, sizes)

    def operation(item: TileOperation) -> TileOperation:
        at = item.view and View(item.view.tensor, tuple(map(put, item.view.offsets)))
        return replace(item, view=at, condition=item.condition and put(item.condition))

    return replace(
        tile,
        tensors=tuple(replace(item, shape=tuple(map(put, item.shape))) for item in tile.tensors),
        work=tuple(replace(item, count=put(item.count)) for item in tile.work),
        trip_count=put(tile.trip_count),
        before=tuple(map(operation, tile.before)),
        body=tuple(map(operation, tile.body)),
        after=tuple(map(operation, tile.after)),
    )


def gemm(
    rows: int = 128,
    columns: int = 128,
    k_tile: int = 32,
    groups: int = 4,
    dtype: str = "bf16",
    target: str = "gfx942",
    depth: int = 0,
    function: str = "gelu",
) -> TileProgram:
    """C = activation(A B^T + bias), as BLAS "TN"."""
    acc = Value("acc", rows, columns, "f32", F)

    def fragment(name: str, kind: str, *operands: str, **more: object) -> TileOperation:
        made = Value(name, rows, columns, "f32", F)
        return TileOperation(name, kind, operands, made, **more)  # type: ignore[arg-type]

    narrow = TileOperation(
        "narrow", "convert", ("activated",), Value("narrow", rows, columns, dtype, F)
    )
    return with_numbers(TileProgram(
        name="gemm_bias_act",
        target=target,
        sizes=(("rows", rows), ("columns", columns), ("k_tile", k_tile)),
        parameters=parameters("M", "N", "K"),
        tensors=(
            tensor("A", dtype, "M", "K"),
            tensor("B", dtype, "N", "K"),
            tensor("bias", "f32", "N"),
            tensor("C", dtype, "M", "N", output=True),
        ),
        work=(
            WorkDimension("m", parse_expression("(M + rows - 1) // rows")),
            WorkDimension("n", parse_expression("(N + columns - 1) // columns")),
        ),
        loop_variable="k",
        trip_count=parse_expression("(K + k_tile - 1) // k_tile"),
        before=(),
        body=(
            load("a", view("A", "m * rows", "k * k_tile"), rows, k_tile, dtype),
            load("b", view("B", "n * columns", "k * k_tile"), columns, k_tile, dtype),
            fragment("acc_next", "mma", "a", "b", "acc", transpose=(False, True, False)),
        ),
        after=(
            TileOperation(
                "bias_tile", "vector", (), Value("bias_tile", 1, columns, "f32", C),
                view("bias", "n * columns"),
            ),
            fragment("biased", "add", "acc", "bias_tile"),
            fragment("activated", "activation", "biased", function=function),
            narrow,
            TileOperation("c", "store", ("narrow",), None, view("C", "m * rows", "n * columns")),
        ),
        carried=(Carried(acc, 0.0, "acc_next"),),
        groups=groups,
        depth=depth,
    ))  # fmt: skip


def elementwise(groups: int = 4, target: str = "gfx942", columns: int = 128) -> TileProgram:
    """y = silu(x) * 0.5, tile after tile along the rows' elements."""
    rows = 32 * groups

    def fragment(name: str, kind: str, operand: str, **more: object) -> TileOperation:
        made = Value(name, rows, columns, "f32", F)
        return TileOperation(name, kind, (operand,), made, **more)  # type: ignore[arg-type]

    return with_numbers(TileProgram(
        name="silu_half",
        target=target,
        sizes=(("rows", rows), ("columns", columns)),
        parameters=parameters("M", "N"),
        tensors=(tensor("x", "bf16", "M", "N"), tensor("y", "bf16", "M", "N", output=True)),
        work=(WorkDimension("m", parse_expression("(M + rows - 1) // rows")),),
        loop_variable="n",
        trip_count=parse_expression("(N + columns - 1) // columns"),
        before=(),
        body=(
            load("x_tile", view("x", "m * rows", "n * columns"), rows, columns, "bf16"),
            fragment("wide", "read", "x_tile"),
            fragment("smooth", "activation", "wide", function="silu"),
            fragment("halved", "scale", "smooth", number=0.5),
            TileOperation(
                "narrow", "convert", ("halved",), Value("narrow", rows, columns, "bf16", F)
            ),
            TileOperation("out", "store", ("narrow",), None, view("y", "m * rows", "n * columns")),
        ),
        after=(),
        groups=groups,
    ))  # fmt: skip


def row_sum(groups: int = 4, target: str = "gfx942", columns: int = 64) -> TileProgram:
    """The sum and the largest of every row of x."""
    rows = 32 * groups
    total, top = Value("total", rows, 1, "f32", R), Value("top", rows, 1, "f32", R)
    bound = parse_expression("n * columns + column < N")

    def row(name: str, kind: str, *operands: str) -> TileOperation:
        return TileOperation(name, kind, operands, Value(name, rows, 1, "f32", R))

    def fragment(name: str, kind: str, *operands: str, **more: object) -> TileOperation:
        made = Value(name, rows, columns, "f32", F)
        return TileOperation(name, kind, operands, made, **more)  # type: ignore[arg-type]

    return with_numbers(
        TileProgram(
            name="row_statistics",
            target=target,
            sizes=(("rows", rows), ("columns", columns)),
            parameters=parameters("M", "N"),
            tensors=(
                tensor("x", "f32", "M", "N"),
                tensor("sums", "f32", "M", output=True),
                tensor("tops", "f32", "M", output=True),
            ),
            work=(WorkDimension("m", parse_expression("(M + rows - 1) // rows")),),
            loop_variable="n",
            trip_count=parse_expression("(N + columns - 1) // columns"),
            before=(),
            body=(
                load("x_tile", view("x", "m * rows", "n * columns"), rows, columns, "f32"),
                fragment("wide", "read", "x_tile"),
                row("tile_sum", "row_sum", "wide"),
                row("total_next", "add", "total", "tile_sum"),
                fragment("inside", "mask", "wide", condition=bound, number=float("-inf")),
                row("tile_top", "row_max", "inside"),
                row("top_next", "maximum", "top", "tile_top"),
            ),
            after=(
                TileOperation("s_out", "store", ("total",), None, view("sums", "m * rows")),
                TileOperation("t_out", "store", ("top",), None, view("tops", "m * rows")),
            ),
            carried=(
                Carried(total, 0.0, "total_next"),
                Carried(top, float("-inf"), "top_next"),
            ),
            groups=groups,
        )
    )


def copy(groups: int = 4, target: str = "gfx942", columns: int = 64) -> TileProgram:
    """y = x, through LDS."""
    rows = 16 * groups
    return with_numbers(
        TileProgram(
            name="copy_tiles",
            target=target,
            sizes=(("rows", rows), ("columns", columns)),
            parameters=parameters("M", "N"),
            tensors=(tensor("x", "bf16", "M", "N"), tensor("y", "bf16", "M", "N", output=True)),
            work=(WorkDimension("m", parse_expression("(M + rows - 1) // rows")),),
            loop_variable="n",
            trip_count=parse_expression("(N + columns - 1) // columns"),
            before=(),
            body=(
                load("x_tile", view("x", "m * rows", "n * columns"), rows, columns, "bf16"),
                TileOperation(
                    "out", "store", ("x_tile",), None, view("y", "m * rows", "n * columns")
                ),
            ),
            after=(),
            groups=groups,
        )
    )


PROGRAMS = {"gemm": gemm, "elementwise": elementwise, "row_sum": row_sum, "copy": copy}
