"""Lookups: integers from memory in coordinates, masks and trip counts, and where not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline.written import hopper as construct
from tests.codegen.tile.test_load import faults
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.adversarial import interleavings
from titan.codegen.tile.functional import check
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.outputs import sample_inputs
from titan.codegen.tile.semantics import StoreConflict, run, trips_of_items
from titan.codegen.tile.stored import as_data, from_data
from titan.foundation.resources import root
from titan.sync.expression import Name

FOLDER = root("protocols") / "tiles"
GROUPED = (FOLDER / "gemm_grouped.yaml").read_text(encoding="utf-8")
DECODE = load_tile(FOLDER / "attention_decode_paged.yaml")
SIZES = {"batch": 4, "kv_heads": 1, "ratio": 3, "pages": 4, "pages_most": 3}


def edited(*pairs: tuple[str, str]) -> str:
    text = GROUPED
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize(
    ("edit", "code", "words"),
    [
        (("expert_of[m]", "A[m, n]"), "TTN604", "a lookup reads i32, but `A` holds bf16"),
        (("expert_of[m]", "expert_of[m, n]"), "TTN607", "the view has 2 offsets"),
        (("expert_of[m]", "missing[m]"), "TTN011", "missing"),
        (("B[expert,", "B[0,"), "TTN609", "nothing uses `expert`"),
        (("C[m * rows,", "C[expert * rows,"), "TTN612", "the same `expert` twice"),
        (("dtype: bf16}\n  B", "dtype: i32}\n  B"), "TTN604", "`A` holds i32, which lookups read"),
        (("expert: \"expert_of[m]", "expert: \"expert_of[expert]"), "TTN011", "expert"),
        (("work: {m: (M", "work: {m: (expert + M"), "TTN011", "expert"),
        (("loop: {k: (K", "loop: {k: (later + K"), "TTN011", "later"),
    ],
)  # fmt: skip
def test_faults_are_located(edit: tuple[str, str], code: str, words: str) -> None:
    more = ('{expert: "expert_of[m]"}', '{expert: "expert_of[m]", later: "expert_of[k]"}')
    text = edited(edit, more) if "later" in edit[1] else edited(edit)
    found = faults(text)
    assert [one[0] for one in found] == [code]
    assert words in found[0][1]


def test_a_lookup_may_name_another_one() -> None:
    """Tiles of rows to sequences, sequences to experts."""
    tile = parse_tile(edited(
        ('{expert: "expert_of[m]"}', '{sequence: "sequence_of[m]", expert: "expert_of[sequence]"}'),
        ("  C: {", "  sequence_of: {shape: [(M + rows - 1) // rows], dtype: i32}\n  C: {"),
    ))  # fmt: skip
    assert tile.names_in(Name("expert")) >= {"expert", "sequence", "m"}
    assert from_data(as_data(tile)).lookups == tuple(replace(x, span=None) for x in tile.lookups)
    sizes = {"experts": 2, "M": 256, "N": 8, "K": 8}
    inputs = {
        "A": np.ones((256, 8)), "B": np.stack([np.ones((8, 8)), 3 * np.ones((8, 8))]),
        "expert_of": [1, 0], "sequence_of": [1, 0],
    }  # fmt: skip
    found = run(tile, inputs, sizes)["C"]
    assert (found[:128] == 8).all() and (found[128:] == 24).all()


def test_large_integers_stay_exact() -> None:
    tile = parse_tile(GROUPED)
    sizes = {"experts": 1, "M": 8, "N": 8, "K": 8}
    inputs = {"A": np.ones((8, 8)), "B": np.ones((1, 8, 8))}
    for number, value in ((0, 8), (2**24 + 1, 0), (2**31 - 1, 0), (-(2**31), 0)):
        assert (run(tile, {**inputs, "expert_of": [number]}, sizes)["C"] == value).all()


def pipeline(tile: TileProgram) -> tuple:
    return decoded(construct(tile, Shape("test", 2, overlapped=False), {}, 1))


@pytest.mark.parametrize("lengths", ([150, 1, 64, 65], [-5, 0, 2**31 - 1, 192]))
def test_trip_counts_from_memory_are_right_in_any_order(lengths: list[int]) -> None:
    inputs = {**sample_inputs(DECODE, SIZES, 1), "lengths": np.array(lengths, float)}
    _, program = pipeline(DECODE)
    assert check(DECODE, program, inputs, SIZES, interleavings(4)) == []
    assert trips_of_items(DECODE, SIZES) == [3] * 4  # at most, where memory is not at hand


def test_a_persistent_pipeline_takes_each_item_with_its_trips() -> None:
    tile = replace(DECODE, persistent=True)
    inputs = {**sample_inputs(tile, SIZES, 1), "lengths": np.array([150, 1, 64, 65.0])}
    _, program = decoded(
        construct(tile, Shape("test", 2, overlapped=False, persistent=True), {}, 1)
    )
    assert check(tile, program, inputs, SIZES, interleavings(2)) == []


def refused(tile: TileProgram, words: str) -> None:
    kernel, program = pipeline(DECODE)
    emit(DECODE, kernel, program)
    with pytest.raises(EmissionRefused, match=words):
        emit(tile, kernel, program)


def test_emission_refuses_what_memory_must_not_steer() -> None:
    (store,) = (item for item in DECODE.after if item.kind == "store")
    steered = replace(store.tensor_view, offsets=(Name("length"), *store.tensor_view.offsets[1:]))
    after = tuple(replace(x, view=steered) if x is store else x for x in DECODE.after)
    refused(replace(DECODE, after=after), "stores where a lookup says")
    refused(replace(DECODE, trip_count=Name("place")), "changes with the iteration")
    first = replace(DECODE.work[0], count=Name("length"))
    refused(replace(DECODE, work=(first, *DECODE.work[1:])), "number of work items or an extent")
    tensors = tuple(replace(t, output=True) if t.name == "table" else t for t in DECODE.tensors)
    refused(replace(DECODE, tensors=tensors), "reads an output")
    floats = tuple(replace(t, dtype="f32") if t.name == "table" else t for t in DECODE.tensors)
    refused(replace(DECODE, tensors=floats), "is no element of a tensor of i32")


def test_tiles_that_lookups_of_the_last_coordinate_steer_are_not_shared_by_a_pair() -> None:
    by_columns = edited(
        ("expert_of[m]", "expert_of[n]"), ("groups: 2", "groups: 2\ncluster: 2"),
        ("shape: [(M + rows - 1) // rows]", "shape: [(N + columns - 1) // columns]"),
        ("B[expert, n * columns,", "B[0, n * columns,"),
        ("A: {shape: [M, K]", "A: {shape: [experts, M, K]"),
        ("A[m * rows", "A[expert, m * rows"),
    )  # fmt: skip
    from titan.codegen.pipeline.model import FormRefused

    with pytest.raises(FormRefused, match="nothing to share"):
        construct(parse_tile(by_columns), Shape("test", 2, overlapped=False), {}, 1)


def test_amd_has_no_form() -> None:
    from titan.codegen.pipeline.build import BuildLimits, build

    text = (FOLDER / "gemm_gfx942.yaml").read_text(encoding="utf-8")
    text = text.replace("work:", 'lookups: {e: "E[m]"}\nwork:')
    text = text.replace("  C: {", "  E: {shape: [M], dtype: i32}\n  C: {")
    text = text.replace('"A[m * rows', '"A[e + m * rows')
    built = build(parse_tile(text), text, BuildLimits())
    with pytest.raises(EmissionRefused, match="lookups and `below` have no form in HIP"):
        emit(built.tile, built.kernel, built.program)


PACKED = (FOLDER / "attention_forward_packed.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "edit",
    [
        ('end: "query_offsets[b + 1]"', 'end: "query_offsets[b + 2]"'),
        ('end: "query_offsets[b + 1]"', 'end: "query_offsets[b]"'),
        ('end: "query_offsets[b + 1]"', 'end: "key_offsets[b + 1]"'),
        (', below: end}', ", below: begin}"),
        (', below: end}', ", below: end + 1}"),
        (', below: end}', "}"),
        ('O[h, begin + i * rows, 0]', "O[h, begin - i * rows, 0]"),
        ('O[h, begin + i * rows, 0]', "O[h, begin + begin + i * rows, 0]"),
        ('O[h, begin + i * rows, 0]', "O[h, begin + first + i * rows, 0]"),
        ('O[h, begin + i * rows, 0]', "O[h, begin + i * 64, 0]"),
        ('O[h, begin + i * rows, 0]', "O[begin, h + i * rows, 0]"),
    ],
)  # fmt: skip
def test_rows_of_a_list_that_are_not_shown_apart_are_refused(edit: tuple[str, str]) -> None:
    parse_tile(PACKED)
    old, new = edit
    assert old in PACKED
    assert "TTN612" in {code for code, *_ in faults(PACKED.replace(old, new))}


PACKED_SIZES = {
    "batch": 3, "longest": 150, "kv_heads": 1, "ratio": 2, "queries": 210, "keys": 170,
}  # fmt: skip
OFFSETS = {"query_offsets": [3, 150, 150, 203], "key_offsets": [0, 1, 130, 170]}


def test_rows_from_a_list_on_are_right_in_any_order() -> None:
    tile = parse_tile(PACKED)
    inputs = {**sample_inputs(tile, PACKED_SIZES, 1), **OFFSETS}
    shape = Shape("test", 2, overlapped=False, guarded=True)
    _, program = decoded(construct(tile, shape, {}, 1))
    assert check(tile, program, inputs, PACKED_SIZES, interleavings(3)) == []
    written = ~np.isnan(run(tile, inputs, PACKED_SIZES)["O"]).any(axis=(0, 2))
    assert (np.flatnonzero(written) == np.arange(3, 203)).all()


def test_a_list_that_falls_is_seen_in_the_meaning() -> None:
    tile = parse_tile(PACKED)
    inputs = {**sample_inputs(tile, PACKED_SIZES, 1), **OFFSETS}
    inputs["query_offsets"] = [0, 100, 50, 150]
    with pytest.raises(StoreConflict, match="stores elements of O twice"):
        run(tile, inputs, PACKED_SIZES)


def test_a_store_that_ends_within_a_tile_is_not_sent_whole() -> None:
    """By the pipeline of the program that stores whole tiles."""
    whole = parse_tile(PACKED.replace(", below: end}", "}").replace(
        "O[h, begin + i * rows, 0]", "O[h, (b * 1024 + i) * rows, 0]").replace(
        "i: (longest + rows - 1) // rows", "i: 1024").replace("end: ", "end_: ").replace(
        'begin: "query_offsets[b]", end_: "query_offsets[b + 1]"', 'begin: "query_offsets[b]"'
    ))  # fmt: skip
    kernel, program = pipeline(whole)
    emit(whole, kernel, program)
    after = tuple(
        replace(item, below=Name("queries")) if item.kind == "store" else item
        for item in whole.after
    )
    with pytest.raises(EmissionRefused, match="ends within a tile, which is sent whole"):
        emit(replace(whole, after=after), kernel, program)
