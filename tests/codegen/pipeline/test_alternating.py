"""Persistent pipelines in which two warpgroups have tiles of their own and take turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.functional import check, interleavings
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

STARTS = {"acc_next": 0}
TURNS = Shape("", 2, persistent=True, alternating=True)


def tile_of():
    return examples.gemm(persistent=True, groups=1, rows=64, columns=64)


def text_of(shape=TURNS):
    return construct(tile_of(), shape, STARTS, 1)


def without(text, line):
    """The text without the first statement of this line, and without its options."""
    start = text.index(line)
    begins = text.rindex("\n", 0, start) + 1
    indent = " " * (start - begins + 2)
    end = text.index("\n", start) + 1
    while text[end:].startswith(indent):
        end = text.index("\n", end) + 1
    return text[:begins] + text[end:]


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("depth", [2, 3])
def test_turns_verify_for_any_number_of_tiles_and_any_work(depth, overlapped):
    finding = verdict(text_of(replace(TURNS, depth=depth, overlapped=overlapped)))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize(
    "removed",
    [
        "- arrive: turn[1 - self]",
        "- sync: turn[self]",
        "- wait: ring_a_full[n % depth]",
        "- wait: ring_a_empty[n % depth]",
        "- arrive: ring_a_empty[(n - 1) % depth]",
        "- sync: together[self]",
        "- fence: async",
        "- drain: {output, until: read}",
    ],
)
def test_what_turns_need_is_needed(removed):
    assert verdict(without(text_of(), removed)).verdict is Verdict.REFUTED


def test_who_waits_has_to_count_the_iterations_of_the_other():
    text = text_of()
    at = text.rindex("- count: {n: n + 1}")
    assert verdict(text[:at] + text[at:].replace("n + 1", "n + 0", 1)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("number", range(6))
def test_numbers_are_those_of_the_tile_program(number):
    text = (root("protocols") / "tiles" / "gemm_ping_pong.yaml").read_text(encoding="utf-8")
    small = text.replace("columns: 192, k_tile: 64", "columns: 32, k_tile: 16")
    assert small != text
    tile = parse_tile(small)
    _, program = decoded(construct(tile, replace(TURNS, depth=2 + number % 2), STARTS, 1))
    random = np.random.default_rng(number)
    sizes = {"M": 150, "N": 72, "K": 16 * int(random.integers(1, 5))}
    inputs = {
        "A": random.standard_normal((sizes["M"], sizes["K"])),
        "B": random.standard_normal((sizes["N"], sizes["K"])),
    }
    runs = list(interleavings(4, number))
    assert not check(tile, program, inputs, sizes, runs, ctas=1 + number % 3)


def test_both_warpgroups_on_one_tile_are_no_kernel():
    """The engines see no registers: a tile that both compute, and each ends, is refused there."""
    tile, text = tile_of(), text_of()
    assert "w % 2 == self" in text
    kernel, program = decoded(text.replace("w % 2 == self", "w % 1 == 0"))
    with pytest.raises(EmissionRefused, match="2 times where"):
        emit(tile, kernel, program)


def test_no_shape_of_other_programs():
    for tile in (examples.gemm(persistent=True), examples.gemm(groups=1), examples.attention()):
        assert not any(shape.alternating for shape in shapes(tile, 2, 4))
    first = next(shapes(tile_of(), 2, 4))
    assert first.alternating


@pytest.mark.parametrize(
    "tile",
    [examples.gemm(persistent=True), replace(tile_of(), cluster=2), examples.attention()],
    ids=["two groups", "pairs", "attention"],
)
def test_other_programs_have_no_turns(tile):
    with pytest.raises(FormRefused, match="warpgroups with tiles of their own"):
        construct(tile, replace(TURNS, overlapped=False), {}, 1)
