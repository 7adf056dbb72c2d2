"""Loops whose first tiles have nothing to mask, as two: what stands in them, and what they compute.

The loop without masks runs up to a number that the masks give. One iteration more in it leaves an
element unmasked, which numbers show; one fewer masks a tile for nothing, which they do not.
"""

from __future__ import annotations

import re

import pytest

from tests.codegen.emit.cuda_kernels import MASKED, WHOLE, emitted, loops, overlapped
from tests.codegen.pipeline.written import blackwell, hopper
from tests.device.compared import compare
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root

TILES = root("protocols") / "tiles"
NAMES = ("attention_forward", "attention_forward_causal", "attention_forward_64",
         "attention_forward_causal_256")  # fmt: skip
CAUSAL = (TILES / "attention_forward_causal_64.yaml").read_text("utf-8")


def without_masks(body: str) -> str:
    """Each mask is a comment and one nest of loops behind it."""
    return re.sub(
        r"( *)// masked = mask\(s\)\n\1TITAN_UNROLL\n\1for .*\n(\1 .*\n)*\1\}\n", "", body
    )


@pytest.mark.parametrize("name", NAMES)
def test_both_loops_do_the_same_but_for_the_masks(name):
    source = emitted(name).files["kernel.cu"]
    whole, masked = loops(source)
    assert "infinity" not in whole and "to mask" not in masked
    assert "infinity" in masked and without_masks(masked) == whole
    assert source.count(WHOLE) == source.count(MASKED) == 1


def test_both_loops_in_tensor_memory_do_the_same_but_for_the_masks():
    tile = load_tile(TILES / "attention_forward_causal_64_sm_100a.yaml", "sm_100a")
    made = emit(tile, *decoded(blackwell(tile, Shape("", 2), {}, 1)))
    whole, masked = loops(made.files["kernel.cu"])
    assert "titan_kept" not in whole and "columns_kept" in masked
    assert whole.count("barrier_wait") == masked.count("barrier_wait") > 0


@pytest.mark.parametrize(
    "condition",
    ["j * columns + column > i * rows + row - 64", "(j * columns + column) % 3 < keys"],
    ids=["bounded from below", "a remainder"],
)
def test_masks_that_no_number_bounds_stay_in_one_loop(condition):
    text = re.sub(r'where: "[^"]*"', f'where: "{condition}"', CAUSAL)
    tile = parse_tile(text)
    made = emit(tile, *decoded(hopper(tile, Shape("test", 2, overlapped=False), {}, 1)))
    assert WHOLE not in made.files["kernel.cu"] and "infinity" in made.files["kernel.cu"]


@pytest.mark.parametrize("more", [0, 1, -1])
@pytest.mark.parametrize("keys", [300, 512])
def test_the_number_is_the_first_that_masks(more, keys):
    late = ("p", "p_sum", "total_next", "p16", "o_next")
    tile, kernel, program = overlapped("attention_forward_causal_64", *late)
    made = emit(tile, kernel, program)
    files = dict(made.files)
    text = re.sub(r"(x_t_masked = .*);", rf"\1 + ({more});", files["kernel.cu"])
    assert text != files["kernel.cu"]
    # A loop ends with the trips, and begins with the first, whatever was planted.
    text = text.replace("x_t < x_t_masked", "x_t < x_t_masked && x_t < x_tiles")
    text = text.replace("int x_t = x_t_masked", "int x_t = titan::larger(1, x_t_masked)")
    files["kernel.cu"] = text
    sizes = {"heads": 1, "queries": keys, "keys": keys}
    found = compare(tile, files, made.manifest, sizes)
    assert found.same == (more < 1), found.describe()


# Below the row a window of keys, and a quotient that is 0, so that no corner is known.
WINDOW = (
    "j * columns + column >= i * rows + row - 150 + (i * rows + row) // queries and "
    "j * columns + column <= i * rows + row"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("titan_kept, (", "titan_kept, 1 + ("),
        ("titan_kept, (", "titan_kept, -1 + ("),
        (" - titan_column0);", " - titan_column0 - 1);"),
        (" - titan_column0);", " - titan_column0 + 1);"),
        ("titan_kept, 2 * c)", "titan_kept, 2 * c + 1)"),
    ],
)
def test_rows_of_fragments_keep_columns_between_two_bounds(old, new):
    text = re.sub(r'where: "[^"]*", fill: -inf', f'where: "{WINDOW}", fill: -1e30', CAUSAL)
    tile = parse_tile(text)
    made = emit(tile, *decoded(hopper(tile, Shape("test", 2, overlapped=False), {}, 1)))
    source = made.files["kernel.cu"]
    planted = source.replace(old, new)
    assert "titan::elements_kept(titan_kept, (" in source and (planted == source) == (not old)
    sizes = {"heads": 1, "queries": 300, "keys": 300}
    found = compare(tile, {**made.files, "kernel.cu": planted}, made.manifest, sizes)
    assert found.same == (not old), found.describe()
