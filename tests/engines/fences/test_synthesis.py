"""The cheapest fences: verified, each needed, never dearer than what was written by hand."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from benchmarks.bench_fences import price
from tests.strategies import random_program
from titan.engines.fences.cost import FORMS, costs, table_of
from titan.engines.fences.demands import Alternative, Choice, Demand, Demands
from titan.engines.fences.justify import satisfied
from titan.engines.fences.recording import record
from titan.engines.fences.synthesis import Unsatisfiable, Weighed, cheapest
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.verify import fence_runs
from titan.verify import fences as flow
from titan.verify.fence_review import review
from titan.verify.fence_text import places, without_fences
from titan.verify.model import VerifyOptions

ROOT = Path(__file__).parents[3]
OPTIONS = VerifyOptions(save_traces=None, states_max=500_000, seconds_max=6.0)
SHARED = (ir.Space.SHARED,)
QUICK = ("fa3_backward", "hopper_gemm", "bulk_copy")
ALL = tuple(
    path.stem
    for path in sorted((ROOT / "protocols").glob("*.yaml"))
    if "target: sm_9" in path.read_text(encoding="utf-8")
    or "target: sm_10" in path.read_text(encoding="utf-8")
)


def load(text: str) -> fence_runs.Loaded:
    return flow.load(text, "kernel.yaml", OPTIONS)


def check_restored(name: str) -> None:
    text = (ROOT / "protocols" / f"{name}.yaml").read_text(encoding="utf-8")
    original = load(text)
    stripped = load(without_fences(original.root, text))
    if review(original).fences:
        assert review(stripped).missing
    fixed = flow.fix(stripped, OPTIONS)
    assert fixed.verified, [finding.trace for finding in fixed.findings]
    assert fixed.synthesis.reason == ""
    count, cost = price(fixed.loaded)
    by_hand, hand_cost = price(original)
    assert count <= by_hand and cost <= hand_cost
    assert cost == fixed.synthesis.cost
    lines = {n for program in fixed.loaded.programs for n in flow.lines_of_fences(program)}
    assert len(lines) == count
    for line in lines:
        assert flow.refuted_without(fixed, line, OPTIONS), line
    # Nothing is left to improve.
    assert review(fixed.loaded).wasted == []


@pytest.mark.parametrize("name", QUICK)
def test_stripped_kernel_is_restored(name: str) -> None:
    check_restored(name)


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(ALL) - set(QUICK)))
def test_every_stripped_kernel_is_restored(name: str) -> None:
    check_restored(name)


BUGGY = {
    "PRX-01": FaultKind.MISSING_FENCE,
    "PRX-10": FaultKind.MISSING_FENCE_WAR,
    "CLU-01": FaultKind.UNPUBLISHED_INIT,
    "TMAP-04": FaultKind.MISSING_TENSORMAP_FENCE,
}


@pytest.mark.parametrize("name", BUGGY)
def test_known_bugs_are_repaired(name: str) -> None:
    path = ROOT / "tests" / "cases" / "real_bugs" / f"{name}.buggy.yaml"
    loaded = load(path.read_text(encoding="utf-8"))
    assert {item.kind for item in review(loaded).missing} == {BUGGY[name]}
    for keep in (True, False):
        fixed = flow.fix(loaded, OPTIONS, keep=keep)
        assert fixed.verified, fixed.synthesis.text
        assert review(fixed.loaded).missing == []


def test_fence_in_a_loop_moves_out_of_it() -> None:
    """One fence after the loop does for all writes in it."""
    text = """\
titan: 1
kernel: outside
target: sm_90a
buffers: {A: {stages: 4, bytes: 1024}}
queues: {out: bulk}
roles: {warp: {warps: 1}}
program:
  warp:
    - for: t in 0..4
      do:
        - store: A[t] = t
        - fence: async   # every time round
    - for: t in 0..4
      do:
        - bulk_store: A[t] = t
          queue: out
    - commit: out
    - drain: out
"""
    loaded = load(text)
    fixed = flow.fix(loaded, OPTIONS)
    assert fixed.verified
    (chosen,) = fixed.synthesis.chosen
    assert chosen.place.indent == 4 and chosen.spaces == SHARED
    assert fixed.synthesis.cost == costs("sm_90a").form(ir.FenceKind.ASYNC, SHARED).weight


def test_text_edits_keep_everything_else() -> None:
    text = (ROOT / "protocols" / "fa3_backward.yaml").read_text(encoding="utf-8")
    loaded = load(text)
    fixed = flow.fix(loaded, OPTIONS)
    before, after = text.splitlines(), fixed.synthesis.text.splitlines()
    assert [line for line in before if "fence" not in line] == [
        line for line in after if "fence" not in line
    ]
    again = flow.fix(fixed.loaded, OPTIONS)
    assert again.synthesis.text == fixed.synthesis.text


@pytest.mark.parametrize("path", sorted((ROOT / "protocols").glob("*.yaml")), ids=lambda p: p.stem)
def test_markers_can_stand_at_every_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    loaded = load(text)
    assert len(places(loaded.root, text)) >= 3
    if fence_runs.has_fences(loaded.kernels[0].target):
        marked = flow.mark(loaded, OPTIONS)
        made = {
            fence_runs.line_of(item)
            for program in marked.loaded.programs
            for role in program.roles
            for item in ir.walk(role.body)
            if isinstance(item, ir.Fence)
        }
        assert made <= set(marked.edited.insertions)
        if flow.kinds_of(loaded.programs):
            assert len(made) >= len(marked.edited.insertions) // 2


def brute(demands: list[Demand], weights: dict[Choice, Weighed]) -> int | None:
    """The least cost, by trying all sets."""
    best: int | None = None
    for size in range(len(weights) + 1):
        for chosen in combinations(weights, size):
            cost = sum(weights[choice].cost for choice in chosen)
            if best is not None and cost >= best:
                continue
            if all(satisfied(demand, frozenset(chosen)) for demand in demands):
                best = cost
    return best


def test_the_solver_against_all_sets() -> None:
    random = Random(7)
    unsatisfiable = 0
    for _ in range(60):
        choices = [Choice(n, ir.FenceKind.ASYNC, ()) for n in range(random.randint(2, 7))]
        weights = {choice: Weighed(random.randint(1, 9)) for choice in choices}
        demands = []
        for number in range(random.randint(1, 5)):
            alternatives = []
            for _ in range(random.randint(0 if number == 4 else 1, 3)):
                needed = frozenset(random.sample(choices, random.randint(1, 2)))
                alternatives.append(Alternative(needed))
            kind = FaultKind.MISSING_FENCE
            demands.append(Demand(kind, 0, number, ("a", 0), 0, frozenset(alternatives)))
        expected = brute(demands, weights)
        try:
            found = cheapest(demands, weights)
        except Unsatisfiable:
            assert expected is None
            unsatisfiable += 1
            continue
        assert found.cost == expected
        assert all(satisfied(demand, found.chosen) for demand in demands)
    assert 0 < unsatisfiable < 30


def test_demands_name_an_order_of_the_graph() -> None:
    """What is offered for a pair lies between the two, and the path shown is one."""
    random = Random(3)
    for _ in range(40):
        program = random_program(random, random.choice(("store_pipeline", "descriptors")))
        recording = record(program)
        if recording.reason:
            continue
        by_id = {}
        for number in recording.fences:
            instance = recording.graph.nodes[number].instance
            assert instance is not None
            by_id.setdefault(id(instance.operation), []).append(number)
        graph = recording.graph
        whole = graph.networkx()
        assert len(whole) == len(graph.nodes)
        for demand in Demands(recording, lambda f: (Choice(id(f), f.kind, f.spaces),)).all():
            for alternative in demand.alternatives:
                for choice in alternative.needed:
                    assert any(
                        graph.before(demand.first, number) and graph.before(number, demand.second)
                        for number in by_id[choice.point]
                    )
            edges = graph.path(demand.first, demand.second)
            assert bool(edges) == graph.before(demand.first, demand.second)


def test_costs_keep_the_known_order() -> None:
    for target in ("sm_90a", "sm_100a"):
        table = costs(target)
        assert [form.name for form in table.forms] == list(FORMS)
        cta = table.form(ir.FenceKind.ASYNC, SHARED).weight
        assert cta < table.form(ir.FenceKind.ASYNC, SHARED, far=True).weight
        assert cta < table.form(ir.FenceKind.ASYNC, ()).weight
    assert table_of("sm_80") is None and table_of("gfx942") is None
    with pytest.raises(KeyError):
        costs("gfx942")
