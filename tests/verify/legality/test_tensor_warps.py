"""Warps at tensor memory, against a table of lanes that is enumerated here.

A tile of 128 lanes is cut into parts; a warp may touch a part if all of its lanes are in the
quarter of the warp. The rule knows neither the cut nor the rank: it refuses what fits none.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.verify.legality.kernels import examined, text

LANES = range(128)
AGENTS = {  # a role, and the warps of its only agent
    "{warps: 1}": 1,
    "{threads: 1}": 0,  # may be a warp, or a thread that is not judged
    "{warpgroups: 1, agents: 2}": 2,
    "{warpgroups: 1}": 4,
}


def cuts(parts: int) -> list[list[frozenset[tuple[int, int]]]]:
    """The ways to cut 128 lanes and 8 columns into equal parts, by lanes and by columns."""
    found = []
    for across in (1, 2, 4, 8):
        if parts % across or parts // across > 8:
            continue
        rows, columns = 128 // across, 8 // (parts // across)
        found.append([
            frozenset(product(range(r, r + rows), range(c, c + columns)))
            for r in range(0, 128, rows)
            for c in range(0, 8, columns)
        ])  # fmt: skip
    return found


def fits(warps: int, parts: int, touched: set[int]) -> bool:
    """Whether some cut and some rank let so many warps reach the parts that are touched.

    Parts may be numbered in any order, so only how many there are counts.
    """
    for cut in cuts(parts):
        for first in range(4):
            reach = {lane for w in range(warps) for lane in LANES if lane // 32 == (first + w) % 4}
            if sum(all(lane in reach for lane, _ in part) for part in cut) >= len(touched):
                return True
    return False


@pytest.mark.parametrize("verb", ["load", "store"])
@pytest.mark.parametrize("parts", [1, 2, 4, 8])
@pytest.mark.parametrize("role", AGENTS)
def test_lanes(role: str, parts: int, verb: str):
    for number in range(1, parts + 1):
        touched = ", ".join(f"T[0, {part}]" for part in range(number))
        kernel = text(
            target="sm_100a",
            buffers=f"{{T: {{space: tensor, parts: {parts}, tile: [128, 8], dtype: f32, "
            "initial: 0}}",
            roles=f"{{w: {role}}}",
            program=f'{{w: [{{{verb}: "{touched}", when: self == 0}}]}}',
        )
        refused = any(item.code == "TTN425" for item in examined(kernel).errors)
        warps = AGENTS[role]
        assert refused == bool(warps and not fits(warps, parts, set(range(number)))), number


def test_a_loop_over_the_parts_is_an_access_to_all():
    loop = '{for: i in 0..4, do: [{load: "T[0, i]"}]}'
    for agents, refused in (("{warps: 1}", True), ("{warpgroups: 1}", False)):
        kernel = text(
            target="sm_100a",
            buffers="{T: {space: tensor, parts: 4, tile: [128, 8], dtype: f32, initial: 0}}",
            roles=f"{{w: {agents}}}",
            program="{w: [" + loop + "]}",
        )
        assert bool(examined(kernel).errors) == refused


PLAN = [  # role, `by` of the allocation, whether one warp executes it
    ("{warps: 1}", "", True),
    ("{warps: 1}", "warp", True),
    ("{warps: 1}", "all", True),
    ("{warps: 1}", "thread", False),
    ("{warpgroups: 1}", "", False),
    ("{warpgroups: 1}", "all", False),
    ("{warpgroups: 1}", "warp", True),
    ("{warpgroups: 1, agents: 4}", "", True),
    ("{threads: 1}", "", True),
    ("{threads: 1}", "thread", False),
]


@pytest.mark.parametrize(("role", "by", "legal"), PLAN)
def test_who_allocates(role: str, by: str, legal: bool):
    said = f", by: {by}" if by else ""
    kernel = text(
        target="sm_100a",
        pools="{t: {available: 512, kind: tensor}}",
        roles=f"{{w: {role}}}",
        program=f"{{w: [{{take: t, amount: 64{said}}}, {{give: t, amount: 64{said}}}]}}",
    )
    assert {item.code for item in examined(kernel).errors} == (set() if legal else {"TTN433"})


@pytest.mark.parametrize("left_out", ["", "first", "second"])
def test_the_others_meet_the_warp_that_allocates(left_out: str):
    meets = {name: "" if name == left_out else "sync: m" for name in ("first", "second")}
    body = ["take: t, amount: 64, by: warp", meets["first"], "store: T = 1", meets["second"]]
    body.append("give: t, amount: 64, by: warp")
    kernel = text(
        target="sm_100a",
        pools="{t: {available: 512, kind: tensor}}",
        named_barriers="{m: {threads: 128}}",
        buffers="{T: {space: tensor}}",
        program="{w: [" + ", ".join("{" + item + "}" for item in body if item) + "]}",
    )
    assert bool(examined(kernel).errors) == bool(left_out)


@pytest.mark.parametrize("amount", [*range(0, 40), 128 * 224, 128 * 232, 128 * 240])
@pytest.mark.parametrize("verb", ["take", "give"])
def test_registers_move_in_eights(amount: int, verb: str):
    kernel = text(pools="{p: 65536}", program=f"{{w: [{{{verb}: p, amount: {amount}}}]}}")
    # setmaxnreg goes from 24 to 256 in steps of 8: a warpgroup of 128 threads moves 232 each.
    legal = amount % 8 == 0 and amount <= 128 * (256 - 24)
    assert (examined(kernel).errors == ()) == legal


@pytest.mark.parametrize(("available", "legal"), [(65536, True), (65544, False)])
def test_a_pool_of_registers_is_no_larger_than_the_file(available: int, legal: bool):
    kernel = text(pools=f"{{p: {available}}}", program="{w: [{take: p, amount: 8}]}")
    assert (examined(kernel).errors == ()) == legal
