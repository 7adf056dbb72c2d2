"""Stores behind the loop in slices of their columns, through a ring of staging buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_alternating import without
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.staged_stores import StagedStores
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.cost import staging_bytes
from titan.codegen.tile.functional import check, interleavings, simulate
from titan.codegen.tile.model import Value, ValuePlace
from titan.codegen.tile.rates import rates
from titan.codegen.tile.staging import may_slice, slices_in, slices_of
from titan.foundation.verdict import Verdict

STARTS = {"acc_next": 0}
RING = Shape("", 2, persistent=True, sliced=True)
FORMS = {
    "groups": (examples.gemm(persistent=True), RING),
    "turns": (
        examples.gemm(persistent=True, groups=1, rows=64),
        replace(RING, alternating=True),
    ),
    "pairs": (replace(examples.gemm(persistent=True), cluster=2), RING),
}


def text_of(form):
    return construct(*FORMS[form], STARTS, 1)


@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_work_items_and_iterations(form):
    text = text_of(form)
    assert text.count("bulk_store: c[") == 4
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", range(4))
def test_a_wait_that_is_one_group_short_is_refuted(form, place):
    wait = "- drain: {output, leaving: 1, until: read}"
    before, *behind = text_of(form).split(wait)
    assert len(behind) == 4
    waits = [wait.replace("1", "2") if at == place else wait for at in range(4)]
    text = before + "".join(w + rest for w, rest in zip(waits, behind, strict=True))
    assert verdict(text).verdict is Verdict.REFUTED
    tile = FORMS[form][0]
    with pytest.raises(EmissionRefused, match="without a barrier of its threads behind the copy"):
        emit(tile, *decoded(text))


@pytest.mark.parametrize("form", ["groups", "turns"])
@pytest.mark.parametrize(
    "removed", ["- drain: {output, leaving: 1, until: read}", "- fence: async", "- commit: output"]
)
def test_what_the_ring_needs_is_needed(form, removed):
    assert verdict(without(text_of(form), removed)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(2))
def test_numbers_are_those_of_the_tile_program(form, number):
    tile, shape = FORMS[form]
    _, program = decoded(construct(tile, replace(shape, depth=2 + number), STARTS, 1))
    sizes, inputs = _problem(tile, number)
    assert not check(tile, program, inputs, sizes, list(interleavings(4, number)), 1 + number)


def _problem(tile, number):
    random = np.random.default_rng(number)
    sizes = {**dict(tile.sizes), "M": 150, "N": 72 + 128 * number, "K": 64 + 64 * number}
    inputs = {
        "A": random.standard_normal((sizes["M"], sizes["K"])),
        "B": random.standard_normal((sizes["N"], sizes["K"])),
        "bias": random.standard_normal(sizes["N"]),
    }
    return sizes, inputs


@pytest.mark.parametrize("form", ["groups", "turns"])
def test_a_wait_that_is_too_short_gives_wrong_numbers(form):
    """The oracle of the tests above: where the interpreter does not stop it, numbers are wrong."""
    tile = FORMS[form][0]
    _, program = decoded(
        text_of(form).replace("leaving: 1, until: read", "leaving: 3, until: read")
    )
    sizes, inputs = _problem(tile, 1)
    runs = [replace(run, lenient=True) for run in interleavings(8, 1)]
    assert check(tile, program, inputs, sizes, runs, 1)
    assert simulate(tile, program, inputs, sizes, runs[0], 1).fault is None


def test_a_slice_in_the_place_of_another_is_refused():
    """The engines know numbers of tiles alone: which columns they are is checked where written."""
    tile, text = FORMS["groups"][0], text_of("groups")
    sent, staged = (f"- {what}: c[1, self] = w * 4 + 3" for what in ("bulk_store", "store"))
    assert text.count(sent) == text.count(staged) == 1
    with pytest.raises(EmissionRefused, match="nobody does c whole"):
        emit(tile, *decoded(text.replace(sent, sent.replace("+ 3", "+ 1"))))
    with pytest.raises(EmissionRefused, match="does c 2 times where 1 are due"):
        emit(tile, *decoded(text.replace(staged, staged.replace("+ 3", "+ 1"))))
    with pytest.raises(EmissionRefused, match="which of 4 slices"):
        emit(tile, *decoded(text.replace("w * 4 +", "w * 3 +")))
    both = text.replace("= w * 4 + 3", "= w * 4 + 2")
    with pytest.raises(EmissionRefused, match="nobody does c whole"):
        emit(tile, *decoded(both))


def test_each_slice_has_its_columns():
    made = emit(FORMS["groups"][0], *decoded(text_of("groups")))
    source = made.files["kernel.cu"]
    for first in range(0, 128, 32):
        assert f"columns from {first} up to {first + 32}" in source
    copies = [line for line in source.splitlines() if "tensor_store(&map_c" in line]
    assert [line[line.index("w_n") : line.index("w_m")] for line in copies] == [
        "w_n * 128, ",
        "w_n * 128 + 32, ",
        "w_n * 128 + 64, ",
        "w_n * 128 + 96, ",
    ]
    (argument,) = [one for one in made.manifest["arguments"] if one["name"] == "map_c"]
    assert argument["box"] == [32, 64]


def test_which_stores_have_slices():
    def fragment(columns, dtype="bf16"):
        return Value("v", 128, columns, dtype, ValuePlace.FRAGMENT)

    wide = {256: 4, 192: 6, 128: 4, 64: 1, 96: 1, 160: 1, 512: 8, 224: 1}
    assert {columns: slices_of(fragment(columns)) for columns in wide} == wide
    assert slices_of(fragment(128, "f32")) == 4
    tile = FORMS["groups"][0]
    assert slices_in(tile, fragment(128), 128 * 32 * 2) == 4
    assert slices_in(tile, fragment(128), 128 * 128 * 2) == 1
    assert may_slice(tile)
    assert not may_slice(replace(tile, persistent=False))
    assert not may_slice(replace(tile, target="sm_100a"))
    assert not may_slice(replace(tile, tail="threads"))
    known = rates("sm_90a")
    assert staging_bytes(tile, known) == 128 * 128 * 2 // 2
    assert staging_bytes(replace(tile, persistent=False), known) == 128 * 128 * 2
    names = [shape.sliced for shape in shapes(tile, 3, 4)]
    assert names[0] and not all(names)


def test_staging_buffers_are_followed_by_groups():
    stores, here = StagedStores("role"), ("c", 0, -1)
    stores.write(here)
    stores.meet()
    with pytest.raises(EmissionRefused, match="without a fence"):
        stores.send(here)  # the fence comes before the barrier
    stores.fence()
    stores.meet()
    stores.send(here)
    stores.wait(0)  # of no group: the copy has not been committed
    stores.meet()
    with pytest.raises(EmissionRefused, match="behind the copy before"):
        stores.write(here)
    stores.commit()
    stores.commit()
    stores.wait(2)
    stores.meet()
    with pytest.raises(EmissionRefused, match="behind the copy before"):
        stores.write(here)
    stores.wait(1)
    stores.meet()
    stores.write(here)
