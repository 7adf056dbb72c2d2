"""Variants for comparisons: verified before they are emitted, all in the index, no packages."""

from __future__ import annotations

import json

import pytest

from tests.device.compared import compare
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.build import (
    BuildHooks,
    BuildLimits,
    NotVerified,
    build,
    decoded,
    judged,
)
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.fencing import conservative, count_fences, without_fence
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.package import ablation
from titan.package.ablation import VARIANTS, prepare, without_redundant
from titan.package.check import check_package

TILES = root("protocols") / "tiles"
NAMED = {(variant.axis, variant.setting): variant for variant in VARIANTS}


def prepared(folder, name, keys, **more):
    path = TILES / f"{name}.yaml"
    chosen = tuple(NAMED[key] for key in keys)
    program = (load_tile(path), path.read_text())
    made = prepare([program], folder, BuildLimits(), variants=chosen, with_toolchain=False, **more)
    return {(item.variant.axis, item.variant.setting): item for item in made}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    keys = [key for key in NAMED if key[0] != "depth" or key[1] in ("2", "4")]
    return folder, prepared(folder, "gemm_small_tiles", keys)


def test_every_axis_is_there():
    axes = {axis for axis, _ in NAMED}
    assert axes == {"product", "specialisation", "registers", "fences", "tail", "loop", "depth"}
    assert {setting for axis, setting in NAMED if axis == "depth"} == set("23456")


def test_variants_are_written_with_what_the_device_needs(small):
    folder, made = small
    assert all(item.folder and not item.reason for item in made.values())
    for item in made.values():
        files = {path.name for path in (folder / item.folder).iterdir()}
        assert {"kernel.cu", "titan_device.cuh", "manifest.json", "schedule.json"} <= files
        assert "certificate.json" not in files
        assert check_package(folder / item.folder).fault
        assert item.facts["verdict"] == "verified"
    assert made["specialisation", "never"].facts["specialised"] is False
    assert made["depth", "2"].facts["depth"] == 2
    tails = {setting: made["tail", setting].folder for setting in ("threads", "poison")}
    assert len({*tails.values(), made["product", "as built"].folder}) == 3


def test_variants_with_the_same_source_share_a_folder(small):
    folder, made = small
    same = {item.folder for key, item in made.items() if key in (
        ("product", "as built"), ("specialisation", "always"), ("depth", "4"),
        ("fences", "no redundant"),
    )}  # fmt: skip
    assert same == {made["product", "as built"].folder}
    assert len({item.folder for item in made.values()}) == len(list(folder.glob("*/kernel.cu")))


def test_the_index_names_them_all_with_the_terms_of_the_model(small):
    folder, made = small
    index = json.loads((folder / "ablations.json").read_text())
    assert (index["titan"], index["kind"]) == ("1", "ablations")
    assert [(row["axis"], row["setting"]) for row in index["variants"]] == list(made)
    two, four = (made["depth", stages].facts["terms"] for stages in "24")
    assert two["TC"] == four["TC"] == 128
    assert two["ring"] == 2 * four["ring"]
    rates = index["variants"][0]["rates"]
    assert rates["TC"]["matrix.per_cycle.bf16"] == {"value": 2048, "kind": "rate"}
    assert rates["TMA"]["transfer.cycles_per_kib"]["kind"] == "cost"
    assert rates["ring"]["transfer.latency"]["kind"] == "latency"


def test_more_fences_stand_in_the_conservative_kernel(small):
    folder, made = small

    def fences(key):
        return (folder / made[key].folder / "kernel.cu").read_text().count("fence_proxy_async")

    assert fences(("fences", "conservative")) > fences(("product", "as built"))


@pytest.mark.parametrize(
    "key", [("fences", "conservative"), ("specialisation", "never"), ("depth", "2")]
)
def test_variants_compute_what_the_product_computes(small, key):
    folder, made = small
    place = folder / made[key].folder
    manifest = json.loads((place / "manifest.json").read_text())
    for sizes in ({"M": 64, "N": 64, "K": 64}, {"M": 72, "N": 64, "K": 456}):
        found = compare(made[key].tile, place, manifest, sizes, policy="starved")
        assert found.same, found.describe()


def statements(*body):
    """A pipeline of one role."""
    sizes = doc.DocumentSizes(depth=2)
    return doc.PipelineDocument("x", "sm_90a", sizes, (), (), (("consumer", body),))


def test_conservative_fences_have_the_conditions_of_what_they_guard():
    now, before = slot("ring", "t"), slot("ring", "t - 1")
    stored = slot("c", "0", "self", content="0")
    wait, late = doc.WaitStatement(now), doc.WaitStatement(before, when="t >= 1")
    issue = doc.IssueStatement((slot("a", "t"), slot("b", "t")), "x")
    release = doc.ReleaseStatement(before, when="t >= 1")
    store, send = doc.StoreStatement(stored), doc.BulkStoreStatement(stored, "output")
    fence, guarded = doc.FenceStatement(), doc.FenceStatement(when="t >= 1")
    loop = doc.ForStatement("t", "0", "tiles", (wait, late, issue, release))
    fenced = doc.ForStatement(
        "t", "0", "tiles", (wait, fence, late, guarded, fence, issue, guarded, release)
    )
    made = conservative(statements(loop, store, fence, send))
    assert made == statements(fenced, store, fence, send)


def constructed(name):
    """The first pipeline that a build of a tile program makes, and the text of its package."""
    path, seen = TILES / f"{name}.yaml", []

    def edit(document):
        seen.append(document)
        return document

    built = build(load_tile(path), path.read_text(), BuildLimits(), BuildHooks(edit=edit))
    assert pipeline_text(seen[-1]) == built.pipeline_text
    return seen[-1]


def without_fences(document):
    for _ in range(count_fences(document)):
        document = without_fence(document, 0)
    return document


def test_only_needed_fences_are_left():
    document = constructed("gemm_small_tiles")
    assert count_fences(document) == 1
    assert without_redundant(document, BuildLimits()) == document
    bare = without_fences(document)
    assert "fence" not in pipeline_text(bare)
    with pytest.raises(NotVerified):
        judged(decoded(pipeline_text(bare))[0], BuildLimits())
    assert without_redundant(bare, BuildLimits()) == document


def test_what_is_not_verified_is_not_emitted(tmp_path, monkeypatch):
    """An edit that takes a needed fence away gives no variant, but a reason."""
    broken = ablation.AblationVariant(
        "fences", "none", "no fences", edit=lambda document, limits: without_fences(document)
    )
    monkeypatch.setitem(NAMED, ("fences", "none"), broken)
    made = prepared(tmp_path, "gemm_small_tiles", [("fences", "none")])["fences", "none"]
    assert made.folder == ""
    assert "no shape" in made.reason
    index = json.loads((tmp_path / "ablations.json").read_text())
    assert index["variants"][0]["folder"] is None
    assert not list(tmp_path.glob("*/kernel.cu"))


def test_a_depth_that_does_not_fit_is_told(tmp_path):
    made = prepared(tmp_path, "attention_forward", [("depth", "6")])["depth", "6"]
    assert made.folder == ""
    assert "instead" in made.reason or made.reason


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    from titan.foundation.atomic import CannotWrite

    place = tmp_path / "gemm_small_tiles-sm_90a-product-as-built"
    place.mkdir()
    (place / "mine.txt").write_text("x")
    with pytest.raises(CannotWrite):
        prepared(tmp_path, "gemm_small_tiles", [("product", "as built")])
    assert (place / "mine.txt").read_text() == "x"


def test_a_naive_schedule_may_pass_the_limits_and_is_told_as_unproved(tmp_path):
    made = prepared(tmp_path, "gemm_small_tiles", [("registers", "naive")])["registers", "naive"]
    assert made.facts["evidence"] == "none"
    assert made.facts["verdict"] == "verified"
