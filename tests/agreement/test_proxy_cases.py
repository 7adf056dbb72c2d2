"""Cached proxies and one-way fences, case by case, on every engine.

The first access is agent 0's, the second agent 1's, with a meeting of both in between; fences stand
before the meeting (by agent 0) or after it (by agent 1).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.building import ASYNC, Body, access, at, e, loop, program, read, write
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.fences.justify import judge
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

CONSTANT, TEXTURE, SURFACE = ir.CACHED
GENERIC, MAP = ir.Proxy.GENERIC, ir.Proxy.TENSORMAP
OF = {proxy: ir.Fence(kind) for kind, proxy in ir.CACHED_FENCES.items()}
CON, TEX, SUR = OF[CONSTANT], OF[TEXTURE], OF[SURFACE]
FULL = ir.Fence(ir.FenceKind.ASYNC)
RELEASE, ACQUIRE = ir.Fence(ir.FenceKind.ASYNC_RELEASE), ir.Fence(ir.FenceKind.ASYNC_ACQUIRE)
MAP_RELEASE = ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)
MAP_ACQUIRE = ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE)
CACHED, UNFENCED, WAR, MISSED_MAP = (
    FaultKind.MISSING_CACHED_FENCE,
    FaultKind.MISSING_FENCE,
    FaultKind.MISSING_FENCE_WAR,
    FaultKind.MISSING_TENSORMAP_FENCE,
)
MEET = [ir.BarrierSync(at("all"), e(2))]


def made(buffer: str, proxy: ir.Proxy, writes: bool) -> Body:
    """One access, a copy with its wait where the proxy is an engine's."""
    effect = (write if writes else read)(buffer, 0, proxy=proxy)
    if proxy not in (ASYNC, MAP):
        return [access(effect)]
    return [ir.Asynchronous((effect,), "bulk"), ir.Commit("bulk"), ir.QueueWait("bulk")]


def two(
    first: tuple[ir.Proxy, bool],
    second: tuple[ir.Proxy, bool],
    left: Body,
    entered: Body,
    ctas: tuple[int, int] = (0, 0),
    space: ir.Space = ir.Space.GLOBAL,
) -> ir.SyncProgram:
    bodies = (
        [*made("m", *first), *left, *MEET],
        [*MEET, *entered, *made("m", *second)],
    )
    return program(
        "two",
        [ir.Role(f"p{n}", tuple(body), 1, 1, ctas[n]) for n, body in enumerate(bodies)],
        named_barriers=[ir.NamedBarrier("all", scope=ir.Scope.CLUSTER)],
        buffers=[ir.Buffer("m", space=space, initial=0)],
        queues=[ir.Queue("bulk")],
        policies=ir.Policies(exit_in_flight="allow"),
    )


def verdict(case: ir.SyncProgram) -> FaultKind | None:
    """The fault that all engines find; None: all verify."""
    found = explore_reference(case)
    fault = found.trace.fault.kind if found.trace else None
    searched, ordered, judged = explore(case), analyse(case), judge(case)
    assert searched.verdict is found.verdict and ordered.verdict.value == found.verdict.value
    assert (searched.trace.fault.kind if searched.trace else None) is fault
    assert (ordered.fault.kind if ordered.fault else None) is fault
    assert judged.reason == "" and bool(judged.unjustified) == (fault is not None)
    assert fault is None or fault in judged.kinds
    return fault


W, R = True, False
TABLE = [
    # first, second, fences before and after the meeting, CTAs, what is found
    ((GENERIC, W), (TEXTURE, R), [], [], (0, 0), CACHED),
    ((GENERIC, W), (TEXTURE, R), [], [TEX], (0, 0), None),
    ((GENERIC, W), (TEXTURE, R), [TEX], [], (0, 0), None),
    ((GENERIC, W), (TEXTURE, R), [CON, SUR], [CON], (0, 0), CACHED),
    ((GENERIC, W), (TEXTURE, R), [TEX], [], (0, 1), CACHED),
    ((GENERIC, W), (TEXTURE, R), [], [TEX], (0, 1), None),
    ((GENERIC, W), (CONSTANT, R), [], [CON], (0, 0), None),
    ((GENERIC, R), (TEXTURE, R), [], [], (0, 1), None),
    ((GENERIC, R), (SURFACE, W), [], [], (0, 0), CACHED),
    ((GENERIC, R), (SURFACE, W), [], [SUR], (0, 0), None),
    ((TEXTURE, R), (GENERIC, W), [], [], (0, 0), CACHED),
    ((TEXTURE, R), (GENERIC, W), [TEX], [], (0, 0), None),
    ((TEXTURE, R), (GENERIC, W), [], [TEX], (0, 1), CACHED),
    ((SURFACE, W), (SURFACE, R), [], [], (0, 0), None),
    ((SURFACE, W), (SURFACE, W), [], [], (0, 1), CACHED),
    ((SURFACE, W), (SURFACE, W), [SUR], [], (0, 1), CACHED),
    ((SURFACE, W), (SURFACE, W), [], [SUR], (0, 1), CACHED),
    ((SURFACE, W), (SURFACE, W), [SUR], [SUR], (0, 1), None),
    ((SURFACE, W), (TEXTURE, R), [SUR], [TEX], (0, 0), None),
    ((SURFACE, W), (TEXTURE, R), [TEX], [SUR], (0, 0), CACHED),
    ((SURFACE, W), (TEXTURE, R), [SUR, TEX], [], (0, 0), None),
    ((SURFACE, W), (TEXTURE, R), [TEX, SUR], [], (0, 0), CACHED),
    ((SURFACE, W), (ASYNC, R), [SUR], [], (0, 0), CACHED),
    ((SURFACE, W), (ASYNC, R), [FULL], [SUR], (0, 0), CACHED),
    ((SURFACE, W), (ASYNC, R), [SUR, FULL], [], (0, 0), None),
    ((SURFACE, W), (ASYNC, R), [SUR, FULL], [], (0, 1), CACHED),
    ((SURFACE, W), (ASYNC, R), [SUR], [FULL], (0, 1), None),
    ((ASYNC, W), (TEXTURE, R), [], [], (0, 0), CACHED),
    ((ASYNC, W), (TEXTURE, R), [], [TEX], (0, 0), None),
    ((ASYNC, R), (SURFACE, W), [FULL], [], (0, 0), CACHED),
    ((ASYNC, R), (SURFACE, W), [], [SUR], (0, 0), None),
    ((SURFACE, W), (MAP, R), [MAP_RELEASE], [MAP_ACQUIRE], (0, 0), CACHED),
    ((SURFACE, W), (MAP, R), [MAP_RELEASE, SUR], [MAP_ACQUIRE], (0, 0), MISSED_MAP),
    ((SURFACE, W), (MAP, R), [SUR, MAP_RELEASE], [], (0, 0), MISSED_MAP),
    ((SURFACE, W), (MAP, R), [SUR, MAP_RELEASE], [MAP_ACQUIRE], (0, 0), None),
    ((ASYNC, W), (MAP, R), [], [], (0, 0), MISSED_MAP),
    ((ASYNC, W), (MAP, R), [MAP_RELEASE], [MAP_ACQUIRE], (0, 0), None),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "left", "entered", "ctas", "found"), TABLE)
def test_pairs_of_accesses_of_global_memory(first, second, left, entered, ctas, found):
    assert verdict(two(first, second, left, entered, ctas)) is found


HALVES = [
    ((GENERIC, W), (ASYNC, R), [RELEASE], [ACQUIRE], (0, 0), None),
    ((GENERIC, W), (ASYNC, R), [RELEASE], [], (0, 0), UNFENCED),
    ((GENERIC, W), (ASYNC, R), [], [ACQUIRE], (0, 0), UNFENCED),
    ((GENERIC, W), (ASYNC, R), [ACQUIRE], [RELEASE], (0, 0), UNFENCED),
    ((GENERIC, W), (ASYNC, R), [RELEASE, ACQUIRE], [], (0, 0), UNFENCED),
    ((GENERIC, W), (ASYNC, R), [], [RELEASE, ACQUIRE], (0, 0), UNFENCED),
    ((GENERIC, W), (ASYNC, R), [RELEASE, FULL], [], (0, 0), None),
    ((GENERIC, R), (ASYNC, W), [RELEASE], [ACQUIRE], (0, 0), None),
    ((GENERIC, R), (ASYNC, W), [RELEASE], [], (0, 0), WAR),
    ((GENERIC, W), (ASYNC, R), [RELEASE], [ACQUIRE], (0, 1), None),
    ((GENERIC, W), (ASYNC, R), [RELEASE], [ACQUIRE], (1, 0), UNFENCED),  # memory of the other CTA
    ((ASYNC, W), (GENERIC, R), [], [], (0, 0), None),  # the completion has its implicit fence
]


@pytest.mark.parametrize(("first", "second", "left", "entered", "ctas", "found"), HALVES)
def test_halves_act_in_one_direction(first, second, left, entered, ctas, found):
    case = two(first, second, left, entered, ctas, ir.Space.SHARED)
    assert verdict(case) is found


def test_by_the_path_rule_anybody_releases_but_who_issues_acquires():
    case = two((GENERIC, W), (ASYNC, R), [], [RELEASE, ACQUIRE], (0, 0), ir.Space.SHARED)
    path = replace(case.policies, fence_rule="path")
    assert verdict(case) is UNFENCED and verdict(replace(case, policies=path)) is None
    early = two((GENERIC, W), (ASYNC, R), [RELEASE, ACQUIRE], [], (0, 0), ir.Space.SHARED)
    assert verdict(replace(early, policies=path)) is UNFENCED


def test_halves_do_nothing_for_global_memory():
    case = two((GENERIC, W), (ASYNC, R), [RELEASE], [ACQUIRE])
    assert verdict(case) is UNFENCED


def rounds(fences: Body) -> ir.SyncProgram:
    """A table that is written again and again and read through the texture proxy in between."""
    writer: Body = [access(write("m", 0, "t")), *MEET, *MEET]
    reader: Body = [*MEET, *fences, access(read("m", 0, "t", proxy=TEXTURE)), TEX, *MEET]
    return program(
        "rounds",
        [
            ir.Role("writer", (loop("t", "tiles", writer),), 1, 1),
            ir.Role("reader", (loop("t", "tiles", reader),), 1, 1),
        ],
        parameters=[ir.Parameter("tiles")],
        named_barriers=[ir.NamedBarrier("all")],
        buffers=[ir.Buffer("m", space=ir.Space.GLOBAL)],
    )


def test_any_number_of_rounds():
    """Marks are the same in every round, so that a search covers all numbers of them."""
    found = explore(rounds([TEX]))
    assert found.verdict is Verdict.VERIFIED and "any" in found.scope, found
    refuted = explore(rounds([]))
    assert refuted.trace is not None and refuted.trace.fault.kind is CACHED


def test_what_the_explorer_does_not_follow_it_leaves_undecided():
    """A completed copy would have to tell of its issuer's fence (titan/sync/relays.py)."""
    copy = ir.Asynchronous(
        (write("tile", 0, "t", proxy=ASYNC),), None, (ir.Completion(at("full", 0), e(16)),)
    )
    issuer: Body = [
        ir.Arrive(at("full"), transaction=e(16)),
        access(write("m", 0, "t")), TEX, copy,
        ir.Wait(at("free"), e("t % 2"), e("t")),
    ]  # fmt: skip
    user: Body = [
        ir.Wait(at("full"), e("t % 2"), e("t")),
        access(read("m", 0, "t", proxy=TEXTURE)), TEX,
        ir.Arrive(at("free")),
    ]  # fmt: skip
    case = program(
        "relay",
        [
            ir.Role("issuer", (loop("t", "tiles", issuer),), 1, 1),
            ir.Role("user", (loop("t", "tiles", user),), 1, 1),
        ],
        parameters=[ir.Parameter("tiles")],
        barriers=[ir.Barrier("full", 1), ir.Barrier("free", 1)],
        buffers=[ir.Buffer("tile"), ir.Buffer("m", space=ir.Space.GLOBAL)],
    )
    assert explore(case).verdict is not Verdict.VERIFIED
