"""Stores behind the loop in the place of tiles that were loaded before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_alternating import without
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import hopper as construct
from tests.device.compared import compare
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, build, decoded, over_time
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.cost import staging_bytes
from titan.codegen.tile.functional import check, interleavings, simulate
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.rates import rates
from titan.codegen.tile.staging import overlaid
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

TILES = root("protocols") / "tiles"
MET = "- sync: all_read[0]"
TURNS = Shape("", 2, overlapped=False, behind=True, ping_pong=True, overlaid=True)
FORMS = {
    "turns": (examples.attention(d=64, columns=32), TURNS),
    "one after the other": (
        examples.attention(d=64, columns=32),
        replace(TURNS, behind=False, ping_pong=False),
    ),
    "one group": (
        examples.attention(d=64, rows=64, columns=32, groups=1),
        replace(TURNS, ping_pong=False),
    ),
    "three groups": (
        examples.attention(d=64, rows=192, columns=32, groups=3),
        replace(TURNS, ping_pong=False),
    ),
    "no loading warp": (
        examples.attention(d=64, columns=32),
        Shape("", 2, specialised=False, overlapped=False, overlaid=True),
    ),
}


def text_of(form):
    return construct(*FORMS[form], {}, 1)


def problem(tile, number):
    random = np.random.default_rng(number)
    sizes = {**dict(tile.sizes), "H": 1, "S": 150, "T": 40 + 60 * number}
    inputs = {
        name: random.standard_normal((1, sizes["S" if name == "Q" else "T"], sizes["d"]))
        for name in "QKV"
    }
    return sizes, inputs


@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_iterations(form):
    text = text_of(form)
    parts = FORMS[form][0].groups
    assert f"storage: q, units: {parts}}}" in text and "storage: q}" in text
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize("form", [name for name in FORMS if name != "one group"])
def test_groups_meet_before_the_first_of_them_writes(form):
    assert verdict(without(text_of(form), MET)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("form", FORMS)
def test_the_fence_is_needed(form):
    assert verdict(without(text_of(form), "- fence: async")).verdict is Verdict.REFUTED


@pytest.mark.parametrize("form", [name for name in FORMS if name != "one group"])
def test_they_meet_too_late(form):
    text, store = text_of(form), "- store: out[0, self] = 0"
    late = text.replace(MET, "- MEET").replace(store, MET).replace("- MEET", store)
    assert verdict(late).verdict is Verdict.REFUTED


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(2))
def test_numbers_are_those_of_the_tile_program(form, number):
    tile, shape = FORMS[form]
    _, program = decoded(construct(tile, replace(shape, depth=2 + number), {}, 1))
    sizes, inputs = problem(tile, number)
    assert not check(tile, program, inputs, sizes, list(interleavings(4, number)), 1)


def test_without_a_meeting_numbers_are_wrong():
    """The oracle of the tests above: where the interpreter does not stop it, numbers are wrong."""
    form = "one after the other"
    tile = FORMS[form][0]
    _, program = decoded(without(text_of(form), MET))
    sizes, inputs = problem(tile, 1)
    runs = [replace(run, lenient=True) for run in interleavings(8, 1)]
    assert check(tile, program, inputs, sizes, runs, 1)
    assert simulate(tile, program, inputs, sizes, runs[0], 1).fault is None


def test_what_is_emitted_lies_where_it_was_verified():
    tile, text = FORMS["turns"][0], text_of("turns")
    emit(tile, *decoded(text))
    for was, now, why in (
        ("storage: q, units: 2", "storage: q, units: 4", "does not lie within the storage"),
        ("storage: q, units: 2", "storage: q", "does not lie within the storage"),
        ("storage: q}", "storage: q, offset: 1}", "does not lie within the storage"),
        ("storage: q, units: 2", "storage: q, units: 3", "no whole units"),
    ):
        assert text.count(was) == 1
        with pytest.raises(EmissionRefused, match=why):
            emit(tile, *decoded(text.replace(was, now)))


def test_which_stores_have_a_place():
    tile = FORMS["turns"][0]
    assert overlaid(tile) == {"out": "q"}
    known = rates("sm_90a")
    assert staging_bytes(tile, known) == 0
    for other in (
        replace(tile, persistent=True), replace(tile, target="sm_100a"),
        replace(tile, tail="threads"), replace(tile, cluster=2),
    ):  # fmt: skip
        assert overlaid(other) == {}
    narrow = replace(tile, before=(examples.load("q", (128, 32), tile.before[0].view),))
    assert overlaid(narrow) == {}, "a tile that is too small"
    two = load_tile(TILES / "attention_backward_dkv.yaml")
    assert overlaid(two) == {"dk_out": "k", "dv_out": "v"}


def test_it_is_for_where_nothing_else_fits():
    tile = examples.attention()  # 32 KiB of queries, 64 KiB a stage
    found = {(shape.depth, shape.overlaid) for shape in shapes(tile, 2, 3)}
    assert found == {(3, True), (2, False), (1, False)}
    assert {(one.depth, one.overlaid) for one in over_time(list(shapes(tile, 2, 3)))} == found
    persistent = replace(tile, persistent=True)
    assert not any(shape.overlaid for shape in shapes(persistent, 2, 3))


@pytest.mark.parametrize("choice", [{}, {"specialise": "never"}])
def test_head_dimension_256_has_tiles_of_80_keys(choice):
    tile = load_tile(TILES / "attention_forward_256.yaml")
    built = build(tile, "", BuildLimits(2.0, solver="rau", **choice))
    assert built.shape.overlaid and built.shape.depth == 2
    made = emit(tile, built.kernel, built.program)
    sizes = {"heads": 1, "queries": 130, "keys": 170}
    found = compare(tile, made.files, made.manifest, sizes, seed=1)
    assert found.same, found
