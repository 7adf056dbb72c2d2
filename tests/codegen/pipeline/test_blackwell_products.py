"""Several products on Blackwell: verified for any number, broken ones refuted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.products import NotInTensorMemory, tensor_products
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.verify.mutate.judge import Fate, judge_all

FOLDER = root("protocols") / "tiles"
DQ, DKV = (
    (FOLDER / f"attention_backward_{name}_sm_100a.yaml").read_text(encoding="utf-8")
    for name in ("dq", "dkv")
)
NARROW = ("rows: 128, columns: 64", "rows: 256, columns: 32")
TWO = DQ.replace("groups: 1", "groups: 2").replace(*NARROW)
ORDER = "order of the schedule"
SHAPES = {
    ORDER: Shape("", 2),
    "one iteration at a time": Shape("", 2, overlapped=False),
    "no loading warp": Shape("", 2, specialised=False, overlapped=False),
}


def made(text: str, shape: Shape) -> str:
    return construct(parse_tile(text), shape, {}, 1)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("what", SHAPES)
@pytest.mark.parametrize("text", [DQ, DKV, TWO], ids=["dq", "dkv", "dq of two warpgroups"])
def test_backward_verifies_for_any_number(text: str, what: str, depth: int) -> None:
    if (text is TWO and depth == 3) or (text is DKV and what != ORDER and depth == 2):
        pytest.skip("as the other depth")
    finding = verdict(made(text, replace(SHAPES[what], depth=depth)))
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert any_number(finding)


def test_products_of_loaded_tiles_run_ahead_only_in_the_order_of_the_schedule() -> None:
    ahead, in_turn = made(DQ, SHAPES[ORDER]), made(DQ, SHAPES["one iteration at a time"])
    assert "mma: ds16[g_] = t - 1" in ahead and "mma: q[0] = 0, k[t % depth] = t" in ahead
    assert "t - 1, k" not in in_turn
    # Ahead, fragments have columns of their own; in turn they lie where a result was fetched from.
    assert "storage:" not in ahead and "tensor_pipe" not in ahead
    assert "storage: columns_s" in in_turn and "tensor_pipe: in_order" in in_turn


@pytest.mark.parametrize("what", [ORDER, "no loading warp"])
def test_no_mutant_survives(what: str) -> None:
    """What verifies without an operation is the meeting of the warps of one agent (TTN432)."""
    _, program = decoded(made(DQ, SHAPES[what]))
    plain = tuple(replace(role, body=ir.without_computations(role.body)) for role in program.roles)
    score = judge_all(replace(program, roles=plain))
    counts = score.counts()
    assert counts[Fate.KILLED] > 60
    assert counts[Fate.SURVIVING] == counts[Fate.UNDECIDED] == 0
    needless = {
        judgement.mutant.where
        for judgement in score.judgements
        if judgement.mutant.what == "deleted" and judgement.fate is not Fate.KILLED
    }
    assert "sync together[self] of 128" in needless
    # Behind the last iteration nobody waits for what has been given back.
    last = {place for place in needless if "tiles - 1" in place or "after tensor_core" in place}
    assert needless - last == {"sync together[self] of 128"}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "  - centred: {subtract: [dp, delta]}",
            "  - far: {row_sum: dq}\n  - both: {add: [delta, far]}\n"
            "  - centred: {subtract: [dp, both]}",
            "far reads dq, which is in tensor memory",
        ),
        ("initial: 0, next: dq_next", "initial: 1, next: dq_next", "dq does not begin with 0"),
    ],
)
def test_what_has_no_place_in_tensor_memory_is_refused(old: str, new: str, reason: str) -> None:
    assert old in DQ
    tile = parse_tile(DQ.replace(old, new))
    with pytest.raises(NotInTensorMemory, match=reason):
        tensor_products(tile)


def test_columns_and_rows_have_to_fit() -> None:
    wide = DKV.replace("columns: 64", "columns: 128")
    with pytest.raises(FormRefused, match="take 640 columns; tensor memory has 512"):
        made(wide, SHAPES[ORDER])
    assert "tensor_pipe" in made(wide, SHAPES["one iteration at a time"]), "512 columns in turn"
    with pytest.raises(FormRefused, match="128 rows, one a lane"):
        made(DQ.replace("rows: 128", "rows: 256"), SHAPES[ORDER])
