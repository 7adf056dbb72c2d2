"""Attention on Blackwell: roles apart, verified for any number, broken ones refuted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline import forms
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build, decoded
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile import functional, semantics
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.model import TileProgram, Value, ValuePlace
from titan.codegen.tile.outputs import sample_inputs
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.verify.mutate.judge import Fate, judge_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = root("protocols") / "tiles"
TEXT = (FOLDER / "attention_forward_64_sm_100a.yaml").read_text(encoding="utf-8")
ONE = TEXT.replace("groups: 2", "groups: 1").replace("rows: 256", "rows: 128")
LIBRARY = sorted(
    path
    for path in FOLDER.glob("attention_forward_*sm_100a.yaml")
    if "persistent" not in path.stem and "pair" not in path.stem
)  # of one work item a CTA, by single CTAs


def made(tile: TileProgram, depth: int = 2, starts: dict[str, int] | None = None) -> str:
    shape = Shape("", depth, overlapped=starts is not None)
    return construct(tile, shape, starts or {}, 1)


@pytest.mark.parametrize("text", [TEXT, ONE], ids=["two", "one"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_attention_verifies_for_any_number(text: str, depth: int) -> None:
    finding = verdict(made(parse_tile(text), depth))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)
    assert {report.engine for report in finding.engines} >= {"explorer", "happens-before"}


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_the_library_is_lawful_and_verified(path) -> None:
    tile = load_tile(path)
    text = made(tile)
    _, program = decoded(text)
    assert [role.name for role in program.roles] == ["producer", "issuer", "softmax", "correction"]
    assert sum(role.agents for role in program.roles) == 3 + tile.groups
    assert any_number(verdict(text))


def test_every_computation_stands_with_its_role() -> None:
    tile = parse_tile(TEXT)
    _, program = decoded(made(tile))
    found = {
        role.name: [op.what for op in ir.walk(role.body) if isinstance(op, ir.Compute)]
        for role in program.roles
    }
    assert found["producer"] == found["issuer"] == []
    between = {op.name for op in tile.body if op.kind not in ("load", "mma")} - {"o_shrunk"}
    assert set(found["softmax"]) == between | {"s", "top", "total"}
    behind = ["total", "o", "inverse", "normal", "narrow"]
    assert found["correction"] == ["shrink", "o", "o_shrunk", *behind]
    # What the correction waits for comes first, the probabilities next, sums at the end.
    order = found["softmax"]
    assert order.index("shrink") < order.index("p") < order.index("p16") < order.index("p_sum")


def test_the_order_of_the_schedule_is_taken() -> None:
    tile = parse_tile(TEXT)
    names = [operation.name for operation in tile.body]
    starts = {name: 10 * place for place, name in enumerate(names)}
    starts["p_sum"] = 10_000
    text = made(tile, starts=starts)
    assert text.index("compute: total_shrunk") < text.index("compute: p_sum")
    assert any_number(verdict(text))


MUTANTS = {
    # A wait is dropped.
    "scores": ("        - wait: s_full[self]\n          phase: t\n", "", "softmax"),
    "probabilities": (
        "            - wait: p16_full[g]\n              phase: t - 1\n", "", "issuer",
    ),
    "factor": ("            - wait: shrink_full[g]\n              phase: t\n", "", "correction"),
    "total": ("        - wait: total_full[g]\n          phase: 0\n", "", "correction"),
    "accumulator": ("        - wait: o_full[g]\n          phase: 0\n", "", "correction"),
    "row is free": ("        - wait: shrink_empty[self]\n          phase: t - 1\n", "", "softmax"),
    "keys are there": (
        "        - wait: k_full[t % depth]\n          phase: t // depth\n", "", "issuer",
    ),
    "values are free": (
        "        - wait: v_empty[t % depth]\n          phase: t // depth - 1\n", "", "producer",
    ),
    # An arrival is dropped, or comes early.
    "put": ("        - arrive: p16_full[self]\n", "", "softmax"),
    "corrected": ("            - arrive: p16_full[g]\n", "", "correction"),
    "factor handed over": ("        - arrive: shrink_full[self]\n", "", "softmax"),
    "put too early": (
        "        - store: p16[self] = t\n        - arrive: p16_full[self]\n",
        "        - arrive: p16_full[self]\n        - store: p16[self] = t\n", "softmax",
    ),
    "corrected too early": (
        "            - store: o[g] = t - 1\n            - arrive: p16_full[g]\n",
        "            - arrive: p16_full[g]\n            - store: o[g] = t - 1\n", "correction",
    ),
    # A commit is dropped, or comes before what it tells of.
    "keys given back": (
        "        - commit: tensor_core\n          arrives: k_empty[t % depth]\n", "", "issuer",
    ),
    "scores told": (
        "            - commit: tensor_core\n              arrives: s_full[g]\n", "", "issuer",
    ),
    "scores told too early": (
        "            - mma: q[0] = 0, k[t % depth] = t\n              into: s[g] = t\n"
        "              queue: tensor_core\n"
        "            - commit: tensor_core\n              arrives: s_full[g]\n",
        "            - commit: tensor_core\n              arrives: s_full[g]\n"
        "            - mma: q[0] = 0, k[t % depth] = t\n              into: s[g] = t\n"
        "              queue: tensor_core\n", "issuer",
    ),
    "accumulator told too early": (
        "        - mma: p16[g] = tiles - 1, v[(tiles - 1) % depth] = tiles - 1\n"
        "          into: o[g] = tiles - 1\n          queue: tensor_core\n"
        "        - commit: tensor_core\n          arrives: o_full[g]\n",
        "        - commit: tensor_core\n          arrives: o_full[g]\n"
        "        - mma: p16[g] = tiles - 1, v[(tiles - 1) % depth] = tiles - 1\n"
        "          into: o[g] = tiles - 1\n          queue: tensor_core\n", "issuer",
    ),
    # The scores overwrite the probabilities before the second product has read them.
    "products swapped": (
        "            - mma: p16[g] = t - 1, v[(t - 1) % depth] = t - 1\n"
        "              into: o[g] = t - 1\n              queue: tensor_core\n"
        "            - mma: q[0] = 0, k[t % depth] = t\n              into: s[g] = t\n"
        "              queue: tensor_core\n",
        "            - mma: q[0] = 0, k[t % depth] = t\n              into: s[g] = t\n"
        "              queue: tensor_core\n"
        "            - mma: p16[g] = t - 1, v[(t - 1) % depth] = t - 1\n"
        "              into: o[g] = t - 1\n              queue: tensor_core\n", "issuer",
    ),
    # Correction without its turn: nobody tells the issuer, and the product comes before it.
    "corrected behind the product": (
        "            - load: o[g] = t - 1\n",
        "            - arrive: p16_full[g]\n            - load: o[g] = t - 1\n", "correction",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_pipeline_is_refuted(name: str) -> None:
    old, new, role = MUTANTS[name]
    text = made(parse_tile(TEXT))
    assert text.count(old) == 1, old
    broken = text.replace(old, new)
    if name == "corrected behind the product":
        again = "            - store: o[g] = t - 1\n            - arrive: p16_full[g]\n"
        assert broken.count(again) == 1
        broken = broken.replace(again, "            - store: o[g] = t - 1\n")
    assert verdict(broken).verdict is Verdict.REFUTED, role


def test_no_mutant_survives() -> None:
    """What verifies without an operation is the meeting of the warps of one agent."""
    _, program = decoded(made(parse_tile(ONE)))
    plain = tuple(replace(role, body=ir.without_computations(role.body)) for role in program.roles)
    score = judge_all(replace(program, roles=plain))
    counts = score.counts()
    assert counts[Fate.KILLED] > 150
    assert counts[Fate.SURVIVING] == counts[Fate.UNDECIDED] == 0
    needless = {
        judgement.mutant.where
        for judgement in score.judgements
        if judgement.mutant.what == "deleted" and judgement.fate is not Fate.KILLED
    }
    assert needless == {"sync together[0] of 128"}


def edited(**more) -> TileProgram:
    return replace(parse_tile(TEXT), **more)


def test_what_has_no_form_is_refused() -> None:
    tile = parse_tile(TEXT)
    cases = (
        (edited(cluster=4), "clusters have no form"),
        (edited(tail="threads"), "threads copy"),
        (parse_tile(TEXT.replace("dtype: bf16}", "dtype: bf16, aligned: false}")),
         "may begin at any element"),
        (edited(groups=1), "128 rows"),
        (edited(groups=3), "3 softmax warpgroups"),
        (parse_tile(TEXT.replace("columns: 128", "columns: 256").replace("head: 64", "head: 16")),
         "take 544 columns; tensor memory has 512"),
    )  # fmt: skip
    for wrong, reason in cases:
        with pytest.raises(FormRefused, match=reason):
            made(wrong)
    for more in ({"specialised": False, "ping_pong": True}, {"ping_pong": True}, {"behind": True}):
        with pytest.raises(FormRefused):
            construct(tile, Shape("", 2, overlapped=False, **more), {}, 1)


def test_tiles_that_both_products_read_are_refused() -> None:
    text = TEXT.replace("mma: [p16, v]", "mma: [p16, k]")
    text = text.replace('  - v: {load: "V[h, j * columns, 0]", tile: [columns, head]}\n', "")
    text = text.replace("  V: {shape: [heads, keys, head], dtype: bf16}\n", "")
    with pytest.raises(FormRefused, match="k is not read by one product alone"):
        made(parse_tile(text))


def test_other_work_before_the_loop_is_refused() -> None:
    tile = parse_tile(TEXT)
    more = replace(
        tile.operation("scaled"), name="more", kind="vector", operands=(),
        result=Value("more", 1, 64, "f32", ValuePlace.COLUMN),
    )  # fmt: skip
    with pytest.raises(FormRefused, match="more than loads"):
        made(replace(tile, before=(*tile.before, more)))


def test_names_of_the_program_are_not_taken() -> None:
    text = TEXT
    for old, new in (("shifted", "g"), ("masked", "s_full"), ("p_sum", "issuer"),
                     ("fall", "tensor_core"), ("scaled", "columns_s")):  # fmt: skip
        head, body = text.split("body:")
        text = f"{head}body:{body.replace(old, new)}"
    finding = verdict(made(parse_tile(text)))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_the_candidates_differ_in_depth_alone() -> None:
    tile = parse_tile(TEXT)
    listed = list(shapes(tile, 4, 4))
    found = [shape for shape in listed if not shape.pair]
    assert {shape.depth for shape in listed if shape.pair} >= {4, 3, 2}
    apart = [shape.depth for shape in found if shape.specialised]
    assert apart == [4, 4, 3, 3, 2, 2]
    assert [shape.depth for shape in found[len(apart) :]] == [4, 3, 2, 1], "the baseline comes last"
    assert not any(shape.ping_pong or shape.behind for shape in found)


def test_a_build_takes_what_the_schedule_needs_and_covers_any_number() -> None:
    limits = BuildLimits(schedule_seconds=1.0, require_any=True)
    built = build(parse_tile(TEXT), TEXT, limits)
    assert 2 <= built.shape.depth <= 4
    assert built.finding.verdict is Verdict.VERIFIED
    assert any_number(built.finding)
    # A short budget may leave an assignment that no form has; nothing else is passed over.
    passed_over = [step for step in built.steps if not step.taken]
    assert all("the warp assignment has no form" in step.reason for step in passed_over)


def left_out(block: doc.Block, statements: tuple[doc.DocumentStatement, ...]) -> doc.Block:
    """A block without some of its statements, at any depth of loops."""
    kept = [one for one in block if one not in statements]
    return tuple(
        replace(one, body=left_out(one.body, statements))
        if isinstance(one, doc.ForStatement)
        else one
        for one in kept
    )


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_a_correction_that_is_left_out_is_verified_like_one_that_is_made(path) -> None:
    """Data decide, for each warp and iteration; the sync program always corrects. Here it never
    does: a run of the kernel has the accesses of the one or of the other, at each place."""
    tile = load_tile(path)
    document = forms.blackwell(tile, Shape("", 2), {}, 1)
    sums = doc.slot("o", "g", content="t - 1")
    moves = (doc.LoadStatement(sums), doc.StoreStatement(sums))
    program = tuple((role, left_out(body, moves)) for role, body in document.program)
    assert sum(len(str(body)) for _, body in program) < sum(
        len(str(body)) for _, body in document.program
    )
    for version in (document, replace(document, program=program)):
        assert any_number(verdict(pipeline_text(version)))


def rising(tile: TileProgram, sizes: dict[str, int]) -> dict[str, NDArray[np.floating]]:
    """Inputs whose scores grow from tile to tile in the first rows, and not in the others."""
    inputs = sample_inputs(tile, sizes, 1)
    inputs["K"][:, 128:] *= 8
    inputs["Q"][:, sizes["queries"] // 2 :] /= 64
    return inputs


def test_scores_that_rise_by_much_or_little_give_the_right_numbers() -> None:
    tile = parse_tile(TEXT)
    _, program = decoded(made(tile))
    sizes = {"heads": 1, "queries": 130, "keys": 300}
    inputs = rising(tile, sizes)
    assert functional.check(tile, program, inputs, sizes, functional.interleavings(3)) == []
    plain = parse_tile(
        TEXT.replace("{raise: [top, top_tile], by: 8}", "{maximum: [top, top_tile]}")
    )
    same = [semantics.reference64(one, inputs, sizes)["O"] for one in (tile, plain)]
    assert np.allclose(*same, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_a_build_of_other_loops_says_why_not() -> None:
    text = TEXT.replace("{multiply: [o, shrink]}", "{add: [o, shrink]}")
    with pytest.raises(
        BuildRefused, match="products are in tensor memory: o_next does not continue"
    ):
        build(parse_tile(text), text, BuildLimits(schedule_seconds=1.0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dtype: bf16", "dtype: f16"),
        ("  - masked:", "  - capped: {activation: s, function: tanh}\n  - masked:"),
        ("columns: 128, head: 64", "columns: 32, head: 192"),
        ('where: "j * columns + column < keys"', 'where: "j * columns + column < keys - row"'),
    ],
)
def test_what_is_computed_in_between_is_free(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("to: bf16", "to: f16" if "f16" in new else "to: bf16")
    text = text.replace("mask: s,", "mask: capped," if "capped" in new else "mask: s,")
    assert any_number(verdict(made(parse_tile(text))))


def test_registers_are_those_of_all_warps_together() -> None:
    """Four warps load and issue, two of which do nothing; 64 Ki registers are there."""
    wide = TEXT.replace("columns: 128, head: 64", "columns: 32, head: 192")
    for text, groups in ((TEXT, 2), (ONE, 1), (wide, 2)):
        kernel, _ = decoded(made(parse_tile(text)))
        held = {role.name: role.registers for role in kernel.roles}
        each = held["issuer"] + groups * held["softmax"] + held["correction"]
        assert held["producer"] == held["issuer"]
        assert 128 * each <= 65536
        assert all(registers % 8 == 0 for registers in held.values())
    assert held["correction"] > 128
