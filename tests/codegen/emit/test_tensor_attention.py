"""Attention for sm_100a: what stands in its text, and pipelines that are refused.

The pipelines below are changed in ways that the engines need not see: what is computed, put or
fetched is another value than the tile program means.
"""

from __future__ import annotations

import re

import pytest

from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.tensor_places import allocated, tensor_places
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.validate.compare.compile import compile_package, nvcc

TEXT = (root("protocols") / "tiles" / "attention_forward_64_sm_100a.yaml").read_text("utf-8")
TILE = parse_tile(TEXT)
ONE = parse_tile(TEXT.replace("groups: 2", "groups: 1").replace("rows: 256", "rows: 128"))


def pipeline(tile=TILE, depth=2):
    return construct(tile, Shape("", depth), {}, 1)


def emitted(text, tile=TILE):
    kernel, program = decoded(text)
    return emit(tile, kernel, program), kernel, program


def block(source, role):
    start = source.index(f"---- role_{role}")
    following = source.find("---- role_", start + 5)
    return source[start : following if following > 0 else len(source)]


def test_who_does_what():
    made, _, _ = emitted(pipeline())
    source = made.files["kernel.cu"]
    issuer, softmax, correction = (block(source, r) for r in ("issuer", "softmax", "correction"))
    assert "tensor_multiply<titan::bf16, 128, false>" in issuer
    assert "tensor_multiply_pairs<titan::bf16, 64, true>" in issuer
    assert "tensor_memory_put_rows_pairs<128, 96, 32>" in softmax and "put_rows<" not in softmax
    assert "tensor_memory_put_rows<64, 32, 32>" in correction and "put_pairs" not in correction
    assert "store_row" in softmax and "load_row" in correction
    assert "v_fall" not in correction and "tensor_store(" in correction
    assert made.manifest["resources"]["tensor_columns"] == 512


@pytest.mark.parametrize("role", ["softmax", "correction"])
def test_every_put_is_waited_for_and_fenced_before_the_arrival(role):
    text = block(emitted(pipeline())[0].files["kernel.cu"], role)
    pieces = [piece for piece in text.split("barrier_arrive(") if "tensor_memory_put" in piece]
    assert pieces
    for piece in pieces:
        behind = piece[piece.rindex("tensor_memory_put") :]
        called = [name for name in re.findall(r"titan::(tensor_\w+)\(", behind)]
        assert called == ["tensor_put_wait", "tensor_fence_before"]


def test_sums_are_scaled_some_columns_after_the_other():
    correction = block(emitted(pipeline())[0].files["kernel.cu"], "correction")
    scaled = correction[correction.index("o_shrunk = multiply") :]
    first = scaled[: scaled.index("o: from tensor memory")]
    assert "tensor_memory_put_rows<64, 0, 32>(" in first and "<64, 32, 32>" not in first


def test_probabilities_share_the_columns_of_the_scores():
    _, kernel, program = emitted(pipeline())
    places = tensor_places(kernel, program)
    found = {name: (p.column, p.columns, p.stages, p.stride) for name, p in places.items()}
    assert found == {"s": (0, 128, 2, 128), "p16": (0, 64, 2, 128), "o": (256, 64, 2, 64)}
    assert allocated(places) == 512


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_one_sub_tile(depth):
    source = emitted(pipeline(ONE, depth), ONE)[0].files["kernel.cu"]
    assert "tensor_multiply_pairs" in source and "s_q + x_g" not in source


REFUSED = {
    "the scaled sum is not put back": (r" *- store: o\[g\].*\n", "", "nobody puts o_shrunk back"),
    "the factor of the other sub-tile": (
        r"load: shrink\[g\]", "load: shrink[1 - g]", "o_shrunk reads shrink"),
    "the factor of another iteration": (
        r"load: shrink\[g\] = t", "load: shrink[g] = t - 1", "o_shrunk reads shrink"),
    "the sum of the other sub-tile": (r"load: o\[g\] = t - 1", "load: o[1 - g] = t - 1", "reads o"),
    "the sum before the last product": (
        r"load: o\[g\] = tiles - 1", "load: o[g] = tiles - 2", "where it is not|reads o"),
    "probabilities of the other sub-tile": (
        r"mma: p16\[g\]", "mma: p16[1 - g]", "reads another tile of p16"),
    "keys of another iteration": (
        r"(mma: .*k\[t % depth\] = t)\n", r"\1 - 1\n", "reads another tile of k"),
    "the put of another value": (
        r"( *)- compute: p16\n *tile: t\n", "", "p16"),
    "one sub-tile is left out": (
        r"for: g in 0\.\.2(\n *do:\n *- wait: total_full)", r"for: g in 0..1\1",
        "is done for no sub-tile|times where|under a condition"),
    "the output is staged and not stored": (
        r" *- bulk_store: out.*\n *queue: output\n", "", "nobody does out"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_values_than_the_tile_program_means_are_refused(name):
    pattern, replacement, told = REFUSED[name]
    text, count = re.subn(pattern, replacement, pipeline())
    assert count >= 1, "the change is one"
    with pytest.raises(EmissionRefused, match=told):
        emitted(text)


OTHERS = {
    "scaled by something else": ("{multiply: [o, shrink]}", "{add: [o, shrink]}"),
    "a sum that begins with 1": (
        "o: {shape: [rows, head], initial: 0", "o: {shape: [rows, head], initial: 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_first_product_would_not_replace_is_refused(name):
    before, after = OTHERS[name]
    assert before in TEXT
    with pytest.raises(EmissionRefused, match=r"adds to something else|times a number a row"):
        emitted(pipeline(), parse_tile(TEXT.replace(before, after)))


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_it_compiles_without_spills_or_remarks():
    assert compile_package(emitted(pipeline())[0].files, "sm_100a").figures.faults() == []
