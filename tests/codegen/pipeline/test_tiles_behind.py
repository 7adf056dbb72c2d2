"""Tiles that are loaded for what follows the loop: when they come, and what planted faults say."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tests.codegen.emit.cuda_kernels import parts
from tests.codegen.emit.test_cuda_emulated import agrees
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell, hopper
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import rings_of
from titan.codegen.tile.held import loads_of
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

NAMES = {"sm_90a": "gemm_bias_gelu_residual", "sm_100a": "gemm_bias_gelu_residual_sm_100a"}
FORMS = {"sm_90a": hopper, "sm_100a": blackwell}
LOAD = '  - r: {load: "R[m * rows, n * columns]", tile: [rows, columns]}\n'


def source(target="sm_90a"):
    return (root("protocols") / "tiles" / f"{NAMES[target]}.yaml").read_text(encoding="utf-8")


def tile_of(text, target="sm_90a"):
    return parse_tile(text.replace("[192, 128]", "128"), "tile.yaml", target=target)


def pipeline(target, text=None, persistent=True):
    tile = tile_of(text or source(target), target)
    shape = Shape("", 2, persistent=persistent)
    return FORMS[target](tile, shape, {"acc_next": 0}, 1)


def in_front(text):
    """The same program with the tile loaded before the loop."""
    return text.replace(LOAD, "").replace("body:\n", f"before:\n{LOAD}body:\n")


@pytest.mark.parametrize("place", [str, in_front], ids=["behind", "before"])
@pytest.mark.parametrize("target", NAMES)
def test_the_pipeline_is_verified_for_any_number(target, place):
    finding = verdict(pipeline(target, place(source(target))))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_a_tile_loaded_behind_the_loop_is_asked_for_behind_its_stages():
    behind, before = pipeline("sm_90a"), pipeline("sm_90a", in_front(source()))
    assert behind.index("produce: ring_a") < behind.index("produce: ring_r")
    assert before.index("produce: ring_r") < before.index("produce: ring_a")


@pytest.mark.parametrize("target", NAMES)
def test_the_ring_is_held_from_its_first_reader_to_its_last(target):
    text = pipeline(target)
    wait, read = text.index("wait: ring_r"), text.index("read: ring_r")
    assert wait < read < text.index("compute: residual") < text.index("release: ring_r")


FAULTS = {
    "no wait": partial(re.sub, r" *- wait: ring_r.*\n", ""),
    "no release": partial(re.sub, r" *- fence: async\n *- release: ring_r.*\n", ""),
    "no fence before the release": partial(
        re.sub, r" *- fence: async\n( *- release: ring_r)", r"\1"
    ),
    "released before it is read": partial(
        re.sub, r"(?s)( *- read: ring_r(?:(?!release).)*)( *- release: ring_r\[w\]\n)", r"\2\1"
    ),
    "the tile of the item before": partial(re.sub, r"read: ring_r\[w\]", "read: ring_r[w - 1]"),
    "filled in each iteration": partial(
        re.sub, r"( *)- produce: ring_r\[w\]\n", r"\1- produce: ring_r[w]\n\1- produce: ring_r[w]\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("target", NAMES)
def test_a_planted_fault_is_refused(target, fault):
    good = pipeline(target)
    bad = FAULTS[fault](good)
    assert bad != good
    try:
        finding = verdict(bad)
    except AssertionError:
        return  # refused as it is decoded
    assert finding.verdict is not Verdict.VERIFIED


def test_only_a_read_takes_such_a_tile():
    text = source().replace("  - residual: {read: r}\n", "").replace(
        "{add: [activated, residual]}", "{mma: [narrowed, r], add: activated}"
    ).replace("  - total", "  - narrowed: {convert: activated, to: bf16}\n  - total")  # fmt: skip
    with pytest.raises(FormRefused, match="`read` it"):
        pipeline("sm_90a", text)


def test_on_amd_such_a_tile_takes_no_lds():
    path = root("protocols") / "tiles" / "gemm_bias_gelu_residual_gfx942.yaml"
    for target in ("gfx942", "gfx950"):
        assert [load.name for load in loads_of(load_tile(path, target=target))] == ["a", "b"]


def test_rings_know_their_readers_behind_the_loop():
    ring = next(ring for ring in rings_of(tile_of(source())) if ring.name == "ring_r")
    assert (ring.once, ring.behind, ring.after, ring.only_after) == (
        True,
        True,
        ("residual",),
        True,
    )


@pytest.mark.parametrize("specialised", [True, False])
def test_the_numbers_are_those_of_the_program(specialised):
    tile = tile_of(source().replace("persistent: true\n", ""))
    shape = Shape("test", 2, specialised, overlapped=False)
    kernel, program = decoded(hopper(tile, shape, {}, 1))
    agrees(tile, emit(tile, kernel, program), {"M": 130, "N": 136, "K": 200})


def test_the_numbers_of_several_work_items():
    tile, kernel, program = parts("gemm_bias_gelu_residual")
    agrees(tile, emit(tile, kernel, program), {"M": 260, "N": 200, "K": 136})
