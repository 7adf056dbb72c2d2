"""Which operation of attention does what, and which loops are none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root

TEXT = (root("protocols") / "tiles" / "attention_forward_sm_100a.yaml").read_text(encoding="utf-8")


def test_the_parts_of_attention() -> None:
    parts = attention_of(parse_tile(TEXT))
    assert (parts.first.name, parts.second.name, parts.correct.name) == ("s", "o_next", "o_shrunk")
    assert (parts.left.name, parts.factor.name, parts.accumulator.name) == ("p16", "shrink", "o")
    assert [item.value.name for item in parts.rows] == ["top", "total"]
    assert [value.name for value in parts.handed] == ["total"]
    names = [operation.name for operation in parts.softmax]
    assert names[: parts.until_factor] == [
        "masked", "top_score", "top_tile", "top_next", "fall", "shrink",
    ]  # fmt: skip
    assert names[parts.until_factor : parts.until_left] == ["scaled", "shifted", "p", "p16"]
    assert set(names[parts.until_left :]) == {"p_sum", "total_shrunk", "total_next"}


def test_an_order_of_the_schedule_is_kept_where_data_allow_it() -> None:
    tile = parse_tile(TEXT)
    rank = {operation.name: -place for place, operation in enumerate(tile.body)}
    names = [operation.name for operation in attention_of(tile, rank).softmax]
    assert names[-3:] == ["total_shrunk", "p_sum", "total_next"]


def test_names_mean_nothing() -> None:
    words = {"s": "w1", "p16": "w2", "shrink": "w3", "o": "w4", "o_shrunk": "w5", "total": "w6"}
    head, body = TEXT.split("carried:")
    for old, new in words.items():
        body = re.sub(rf"\b{old}\b", new, body)
    parts = attention_of(parse_tile(f"{head}carried:{body}"))
    found = (parts.first, parts.left, parts.factor, parts.accumulator, parts.correct)
    assert [item.name for item in found] == ["w1", "w2", "w3", "w4", "w5"]
    assert [value.name for value in parts.handed] == ["w6"]


CORRECT = "  - o_shrunk: {multiply: [o, shrink]}\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (CORRECT, "  - o_shrunk: {add: [o, shrink]}\n", "a carried value times a row value"),
        (CORRECT, "  - o_shrunk: {multiply: [o, o]}\n",
         "not the accumulator of o_next times a row value"),
        (CORRECT, "  - o_shrunk: {multiply: [o, total]}\n",
         "not a row value that the loop computes"),
        (CORRECT, "  - o_shrunk: {multiply: [p, shrink]}\n", "not the accumulator of o_next"),
        ("o: {shape: [rows, head], initial: 0,", "o: {shape: [rows, head], initial: 1,",
         "does not begin with 0"),
        ("{row_sum: p}", "{row_sum: o}", "p_sum reads o, which is in tensor memory"),
    ],
)  # fmt: skip
def test_what_is_no_attention(old: str, new: str, reason: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new)
    with pytest.raises(NotAttention, match=reason):
        attention_of(parse_tile(text))


def test_the_corrected_accumulator_is_read_by_the_product_alone() -> None:
    tile = parse_tile(TEXT)
    total = replace(tile.operation("p_sum"), name="o_sum", operands=("o_shrunk",))
    with pytest.raises(NotAttention, match="o_sum reads o_shrunk, which is in tensor memory"):
        attention_of(replace(tile, body=(*tile.body, total)))
    total = replace(total, operands=("o_next",))
    with pytest.raises(NotAttention, match="the loop reads o_next in the iteration that computes"):
        attention_of(replace(tile, body=(*tile.body, total)))
    total = replace(total, operands=("k",))
    with pytest.raises(NotAttention, match="o_sum reads k between the two products"):
        attention_of(replace(tile, body=(*tile.body, total)))


def test_what_stands_between_the_products_touches_no_memory() -> None:
    text = TEXT.replace(
        "  - p_sum: {row_sum: p}",
        '  - weight: {vector: "W[j * columns]", tile: [columns]}\n'
        "  - weighted: {multiply: [p, weight]}\n  - p_sum: {row_sum: weighted}",
    ).replace("tensors:\n", "tensors:\n  W: {shape: [keys], dtype: f32}\n")
    with pytest.raises(NotAttention, match="weight touches memory between the two products"):
        attention_of(parse_tile(text))


def test_behind_the_loop_only_what_is_handed_over_is_read() -> None:
    tile = parse_tile(TEXT)
    extra = replace(tile.after[0], name="again", operands=("o", "shrink"))
    with pytest.raises(NotAttention, match="again reads shrink after the loop"):
        attention_of(replace(tile, after=(extra, *tile.after)))
    product = replace(tile.operation("s"), name="again")
    with pytest.raises(NotAttention, match="`mma` after the loop"):
        attention_of(replace(tile, after=(product, *tile.after)))


def test_left_operands_are_not_transposed() -> None:
    tile = parse_tile(TEXT)
    body = tuple(replace(op, transpose=(True, True)) if op.name == "s" else op for op in tile.body)
    with pytest.raises(NotAttention, match="enters transposed"):
        attention_of(replace(tile, body=body))


def test_one_product_or_three_are_no_attention() -> None:
    tile = parse_tile(TEXT)
    body = tuple(operation for operation in tile.body if operation.name != "o_next")
    with pytest.raises(NotAttention, match="1 products, not two"):
        attention_of(replace(tile, body=body))
    third = replace(tile.operation("s"), name="third")
    with pytest.raises(NotAttention, match="3 products, not two"):
        attention_of(replace(tile, body=(*tile.body, third)))
