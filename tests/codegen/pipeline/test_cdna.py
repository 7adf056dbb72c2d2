"""Pipelines on CDNA: every form verifies for any number of tiles, and is what it claims to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.codegen.pipeline.cdna_programs import PROGRAMS, copy, gemm
from tests.codegen.pipeline.written import construct
from titan.codegen.pipeline.cdna import lane_bytes, shapes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.model import TileProgram
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.sync.program import BarrierSync, Loop, QueueWait, SyncProgram, walk
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

COUNTED = {depth: Shape(f"depth {depth}", depth, specialised=False) for depth in (2, 3, 4)}
PLAIN = Shape("vmcnt(0)", 2, specialised=False, overlapped=False)
TURNS = Shape("turns", 3, specialised=False, ping_pong=True)


def judged(text: str) -> Finding:
    family, errors = decode_text(text, "pipeline.yaml")
    assert family is not None, [item.headline for item in errors]
    return verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, require="any"))


def of_text(text: str) -> SyncProgram:
    family, _ = decode_text(text, "pipeline.yaml")
    assert family is not None and family.kernels[0].program is not None
    return family.kernels[0].program


def verified_for_any_number(text: str) -> None:
    finding = judged(text)
    assert finding.verdict is Verdict.VERIFIED, [item.headline for item in finding.diagnostics]
    assert finding.coverage.parameters == (("tiles", None),)
    assert finding.coverage.minimums == (("tiles", 1),)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("groups", [4, 8])
@pytest.mark.parametrize("shape", [*COUNTED.values(), PLAIN], ids=lambda shape: shape.name)
def test_every_form_is_verified_for_any_number_of_tiles(name: str, groups: int, shape: Shape):
    make: Callable[..., TileProgram] = PROGRAMS[name]
    try:
        text = construct(make(groups=groups), shape)
    except FormRefused as refused:
        assert "bytes of LDS" in str(refused)
        return
    verified_for_any_number(text)


@pytest.mark.parametrize("depth", [3, 4])
def test_waves_that_take_turns_are_verified(depth: int):
    tile = gemm(rows=256, columns=64, k_tile=32, groups=8)
    if depth == 4:
        tile = replace(tile, target="gfx950")
    verified_for_any_number(construct(tile, replace(TURNS, depth=depth)))


def staged(depth: int) -> Shape:
    return Shape(f"depth {depth}", depth, specialised=False, staged=True)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("groups", [4, 8])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_tiles_through_registers_are_verified(name: str, groups: int, depth: int):
    make: Callable[..., TileProgram] = PROGRAMS[name]
    try:
        text = construct(make(groups=groups), staged(depth))
    except FormRefused as refused:
        assert "bytes of LDS" in str(refused) or "stored from LDS" in str(refused)
        return
    assert "lds_dma" not in text and "space: register" in text
    verified_for_any_number(text)


STAGED_FAULTS = [
    (1, "        - sync: workgroup\n        - drain: loads\n", "        - drain: loads\n"),
    (1, "        - drain: reads\n        - sync: workgroup\n", "        - sync: workgroup\n"),
    (1, "        - sync: workgroup\n        - async:", "        - async:"),
    (2, "        - sync: workgroup\n", ""),
    (2, "        - drain: loads\n", ""),
    (2, "          tile: t\n        - drain: reads\n", "          tile: t\n"),
    (2, "a[(t + 1) % depth, self] = t + 1", "a[t % depth, self] = t + 1"),
    (2, "writes: a_registers[(t + 2) % 2, self]", "writes: a_registers[(t + 1) % 2, self]"),
    (2, "    - drain: loads\n    - compute: bias_tile", "    - compute: bias_tile"),
]


@pytest.mark.parametrize("depth, good, bad", STAGED_FAULTS)
def test_a_fault_in_the_form_through_registers_is_refuted(depth: int, good: str, bad: str):
    text = construct(gemm(columns=64), staged(depth))
    assert text.count(good) >= 1
    head, _, rest = text.rpartition(good)
    assert judged(head + bad + rest).verdict is Verdict.REFUTED


def test_loads_to_registers_are_issued_ahead_of_the_products_and_written_beside_them():
    """A load is two tiles ahead, in one set of registers while the other is written to LDS."""
    for depth in (1, 2):
        turn = construct(gemm(), staged(depth)).split("- for: t in 0..tiles")[1]
        places = [turn.index(text) for text in ("a[t % depth] = t", "drain: loads",
                  "a[(t + 1) % depth, self]", "writes: a_registers[(t + 2) % 2, self]",
                  "compute: acc_next")]  # fmt: skip
        assert places == sorted(places)
        assert turn.count("sync: workgroup") == 3 - depth


def test_a_tile_that_waves_cannot_share_evenly_goes_through_registers():
    odd = copy(groups=4, columns=12)
    assert odd.body[0].result is not None and lane_bytes(odd, odd.body[0].result) == 0
    assert "space: register" in construct(odd, COUNTED[2])
    assert "lds_dma" not in construct(odd, COUNTED[2])
    assert "space: register" not in construct(copy(groups=4), COUNTED[2])


def test_every_barrier_in_the_loop_stands_behind_waits_for_copies_and_reads():
    """A19 and A24: the counters come down before the barrier, in every form."""
    for tile, shape in ((gemm(), COUNTED[4]), (gemm(), PLAIN), (gemm(columns=64), COUNTED[3])):
        program = of_text(construct(tile, shape))
        main = [item for item in program.roles[0].body if isinstance(item, Loop)][-1]
        turn = list(walk(main.body))
        waits = [item.queue for item in turn if isinstance(item, QueueWait)]
        assert waits == ["loads", "reads"]
        where = [number for number, item in enumerate(turn) if isinstance(item, BarrierSync)]
        assert where == [1] and isinstance(turn[0], QueueWait) and turn[0].queue == "loads"
        assert isinstance(turn[-1], QueueWait) and turn[-1].queue == "reads"


FAULTS = [
    ('drain: {loads, leaving: "min(1, tiles - t - 1)"}', "drain: {loads, leaving: 2}"),
    ("        - drain: reads\n", ""),
    ("        - sync: workgroup\n", ""),
    ("(t + depth - 1) % depth", "(t + depth) % depth"),
    ("\n          when: t + depth - 1 < tiles", ""),
]


@pytest.mark.parametrize("good, bad", FAULTS)
def test_a_fault_in_the_form_is_refuted(good: str, bad: str):
    text = construct(gemm(columns=64), COUNTED[3])
    assert good in text
    assert judged(text.replace(good, bad)).verdict is Verdict.REFUTED


def test_counted_waits_leave_copies_in_flight_and_the_plain_form_none():
    assert 'leaving: "min(2, tiles - t - 1)"' in construct(gemm(), COUNTED[4])
    assert "leaving" not in construct(gemm(), PLAIN)
    assert "leaving" not in construct(gemm(), replace(COUNTED[4], overlapped=False))


@pytest.mark.parametrize(
    "tile, shape, reason",
    [
        (gemm(k_tile=64), COUNTED[4], "131072 bytes of LDS; gfx942 has 65536"),
        (gemm(groups=4), TURNS, "eight waves"),
        (gemm(rows=256, columns=64, groups=8), replace(TURNS, depth=2), "three stages"),
        (gemm(), replace(PLAIN, depth=1), "depth 2 is the least"),
        (replace(gemm(), cluster=2), PLAIN, "no clusters"),
        (replace(gemm(), groups=32), PLAIN, "1 to 16"),
        (replace(gemm(), target="sm_90a"), PLAIN, "not a target of this form"),
    ],
)
def test_what_has_no_form_is_refused_with_the_reason(tile: TileProgram, shape: Shape, reason: str):
    with pytest.raises(FormRefused, match=reason):
        construct(tile, shape)


def test_names_of_the_file_do_not_meet_those_of_the_pipeline():
    tile = gemm()
    body = (replace(tile.body[0], name="depth"), *tile.body[1:])
    with pytest.raises(FormRefused, match="name depth is one of the pipeline's own"):
        construct(replace(tile, body=body), PLAIN)


def test_candidates_end_at_depth_2_with_vmcnt_0():
    listed = list(shapes(gemm(depth=4)))
    assert [shape.depth for shape in listed] == [4, 3, 2, 2, 1, 2]
    assert [shape.staged for shape in listed] == [False, False, False, True, True, False]
    assert [shape.overlapped for shape in listed] == [True] * 5 + [False]
    turns = list(shapes(gemm(rows=256, groups=8, depth=3)))
    assert [shape.ping_pong for shape in turns] == [True] + [False] * 5
    assert not any(shape.staged for shape in shapes(copy()))


def test_gfx950_has_more_lds_and_wider_copies():
    tile = gemm(k_tile=64, target="gfx950")
    assert "lane_bytes: 16" in construct(tile, COUNTED[4])
    assert "lane_bytes: 4" in construct(gemm(k_tile=16, target="gfx950", groups=8), COUNTED[4])
    assert judged(construct(tile, COUNTED[4])).verdict is Verdict.VERIFIED


def test_construction_is_deterministic():
    assert construct(gemm(), COUNTED[4]) == construct(gemm(), COUNTED[4])
