"""Attention on sm_100a beyond the library: other arithmetic, more results, wide accumulators."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.device.compared import SCHEDULES, compare
from tests.sampling import WHOLE
from titan.codegen.pipeline.build import BuildLimits, BuildRefused
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.package.produce import produce

pytest.importorskip("numpy")
FOLDER = root("protocols") / "tiles"
LIMITS = BuildLimits(schedule_seconds=1, require_any=True)
PLAIN = "attention_forward_64_sm_100a"
CAUSAL = "attention_forward_causal_64_sm_100a"
SUMS = (
    ("work:", "  L: {shape: [heads, queries], dtype: f32, output: true}\nwork:"),
    ("  - out:", "  - logarithm: {log2: total}\n  - level: {add: [logarithm, top]}\n"
     '  - sums: {store: level, to: "L[h, i * rows]"}\n  - out:'),
)  # fmt: skip
ONE = (("groups: 2", "groups: 1"), ("rows: 256", "rows: 128"))
VARIANTS = {
    "logarithms of the sums": (CAUSAL, SUMS),
    "one sub-tile": (CAUSAL, (*SUMS, *ONE)),
    "a weight of each column": (PLAIN, (
        ("work:", "  W: {shape: [head], dtype: f32}\nwork:"),
        ("  - narrow: {convert: normal",
         '  - weight: {vector: "W[0]", tile: [head]}\n'
         "  - weighted: {multiply: [normal, weight]}\n  - narrow: {convert: weighted"),
    )),
    "a weight of each row": (PLAIN, (
        ("work:", "  R: {shape: [heads, queries], dtype: f32}\nwork:"),
        ("  - narrow: {convert: normal",
         '  - weight: {vector: "R[h, i * rows]", tile: [rows, 1]}\n'
         "  - weighted: {multiply: [normal, weight]}\n  - narrow: {convert: weighted"),
    )),
    "results in f32": (PLAIN, (
        ("O: {shape: [heads, queries, head], dtype: bf16",
         "O: {shape: [heads, queries, head], dtype: f32"),
        ("  - narrow: {convert: normal, to: bf16}\n", ""),
        ("store: narrow", "store: normal"),
    )),
    "f16": (PLAIN, (("bf16", "f16"),)),
    "capped scores": (PLAIN, (
        ("  - masked: {mask: s,",
         "  - capped: {activation: s, function: tanh}\n  - masked: {mask: capped,"),
    )),
    "wide accumulators": (PLAIN, (("columns: 128, head: 64", "columns: 32, head: 192"),)),
    "one stage": (PLAIN, (("groups: 2", "groups: 2\ndepth: 1"),)),
}  # fmt: skip
QUICK = ("logarithms of the sums",)
SIZES = (
    {"heads": 2, "queries": 3, "keys": 5},
    {"heads": 1, "queries": 257, "keys": 200},
    {"heads": 1, "queries": 130, "keys": 520},
)


def text_of(name: str, edits: tuple[tuple[str, str], ...]) -> str:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else (pytest.mark.heavy,)) for n in VARIANTS],
)
def test_a_variant_computes_what_its_tile_program_means(name: str, tmp_path: Path) -> None:
    text = text_of(*VARIANTS[name])
    tile = parse_tile(text)
    produced = produce(tile, text, tmp_path, LIMITS, with_toolchain=False)
    manifest = produced.emitted.manifest
    for seed, (sizes, policy) in enumerate(tuple(product(SIZES, SCHEDULES))[:: 1 if WHOLE else 5]):
        found = compare(tile, produced.folder, manifest, sizes, seed=seed, policy=policy)
        assert found.same, (sizes, policy, found.describe())


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ((("  o: {shape: [rows, head], initial: 0", "  o: {shape: [rows, head], initial: 1"),),
         "o does not begin with 0"),
    ],
    ids=["another first number"],
)  # fmt: skip
def test_what_has_no_form_is_refused_with_the_reason(edits, reason: str, tmp_path: Path) -> None:
    text = text_of(PLAIN, edits)
    with pytest.raises(BuildRefused) as caught:
        produce(parse_tile(text), text, tmp_path, LIMITS, with_toolchain=False)
    told = [str(caught.value), *(step.reason for step in caught.value.steps)]
    assert any(reason in one for one in told), told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.long
def test_a_persistent_program_of_one_group_is_specialised(tmp_path: Path) -> None:
    text = text_of(PLAIN, (("groups: 2", "groups: 2\npersistent: true"), *ONE[1:]))
    text = text.replace("groups: 2\n", "groups: 1\n")
    tile = parse_tile(text)
    limits = BuildLimits(schedule_seconds=0.5, solver="rau", require_any=True)
    produced = produce(tile, text, tmp_path, limits, with_toolchain=False)
    assert produced.built.shape.specialised and produced.built.shape.persistent
    sizes = {"heads": 2, "queries": 130, "keys": 200}
    found = compare(tile, produced.folder, produced.emitted.manifest, sizes, seed=1)
    assert found.same, found.describe()
