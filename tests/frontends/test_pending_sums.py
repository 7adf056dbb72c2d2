"""Sums of asynchronous products in TTGIR that are used in flight, against runs of small programs.

The second opinion goes through a program with given trips and conditions, a queue of products at
hand, and shares no code with `pending_sums.py`.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.ttgir_samples import sample, verified
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.parse import parse_ttgir
from titan.frontends.ttgir.pending_sums import used_sums

T = "tensor<128x64xf32, #mma>"
M = "!ttg.memdesc<128x64xf16, #shared, #smem, mutable>"
DOT = "ttng.warp_group_dot %a, %b, {} {{inputPrecision = 0 : i32, isAsync = {}}} : {} * {} -> {}"
TRIPS = 4


@dataclass
class Step:
    """One step on a sum: `dot`, `blocking`, `wait`, `use`, `select`, `loop` or `if`."""

    kind: str
    left: int = 0  # of a wait
    body: list[Step] = field(default_factory=list)


def steps(depth: int) -> st.SearchStrategy[list[Step]]:
    simple = st.one_of(
        st.sampled_from([Step(kind) for kind in ("dot", "dot", "use", "select", "blocking")]),
        st.builds(Step, st.just("wait"), st.integers(0, 3)),
    )
    if depth:
        bodies = steps(depth - 1)
        nested = st.builds(Step, st.sampled_from(["loop", "if"]), st.just(0), bodies)
        simple = st.one_of(simple, simple, nested)
    return st.lists(simple, min_size=1, max_size=5)


class Writer:
    """Writes a program: each step takes the sum that the one before has left."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.made = itertools.count()

    def write(self, body: list[Step], total: str) -> str:
        for step in body:
            name = f"%v{next(self.made)}"
            match step.kind:
                case "dot" | "blocking":
                    is_async = "true" if step.kind == "dot" else "false"
                    self.lines.append(f"{name} = {DOT.format(total, is_async, M, M, T)}")
                case "wait":
                    self.lines.append(
                        f"{name} = ttng.warp_group_dot_wait {total} "
                        f"{{pendings = {step.left} : i32}} : {T}"
                    )
                case "use":
                    self.lines.append(f"{name} = arith.mulf %other, {total} : {T}")
                    continue  # the sum goes on as it was
                case "select":
                    self.lines.append(f"{name} = arith.select %c, {total}, {total} : i1, {T}")
                case "loop":
                    inner = f"%v{next(self.made)}"
                    head = f"scf.for %i{inner[2:]} = %zero to %n step %one"
                    self.lines.append(
                        f"{name} = {head} iter_args({inner} = {total}) -> ({T}) : i32 {{"
                    )
                    last = self.write(step.body, inner)
                    self.lines += [f"scf.yield {last} : {T}", "}"]
                case _:
                    self.lines.append(f"{name} = scf.if %c -> ({T}) {{")
                    last = self.write(step.body, total)
                    self.lines += [f"scf.yield {last} : {T}", "} else {"]
                    self.lines += [f"scf.yield {total} : {T}", "}"]
            total = name
        return total


def text_of(body: list[Step]) -> str:
    writer = Writer()
    writer.write(body, "%zeros")
    inner = "\n".join(f"    {line}" for line in writer.lines)
    return (
        'module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {\n'
        f"  tt.func public @k(%a: {M}, %b: {M}, %zeros: {T}, %other: {T}, %n: i32, %c: i1) {{\n"
        "    %zero = arith.constant 0 : i32\n    %one = arith.constant 1 : i32\n"
        f"{inner}\n    tt.return\n  }}\n}}\n"
    )


def faults_of(text: str) -> list[str]:
    module, errors = parse_ttgir(Source("k.ttgir", text))
    assert module is not None, errors
    return [item.code for item in used_sums(module.functions[0])]


def hidden(body: list[Step], ways: dict[int, int]) -> bool:
    """Whether a run uses a sum in flight; `ways`: trips or the condition of each by its id."""
    queue: deque[int] = deque()
    numbers = itertools.count()

    def run(body: list[Step], total: int) -> tuple[int, bool]:
        bad = False
        for step in body:
            match step.kind:
                case "dot":
                    total = next(numbers)
                    queue.append(total)
                case "blocking":
                    total = -1
                    queue.clear()
                case "wait":
                    while len(queue) > step.left:
                        queue.popleft()
                case "use":
                    bad |= total in queue
                case "loop" | "if":
                    for _ in range(ways[id(step)]):
                        total, worse = run(step.body, total)
                        bad |= worse
        return total, bad

    return run(body, -1)[1]


def branches(body: list[Step]) -> list[Step]:
    found = []
    for step in body:
        if step.kind in ("loop", "if"):
            found += [step, *branches(step.body)]
    return found


def separate(body: list[Step]) -> list[Step]:
    """The same program, no step of which is the same object as another."""
    return [Step(step.kind, step.left, separate(step.body)) for step in body]


@settings(max_examples=150, deadline=None)
@given(steps(2))
def test_uses_in_flight_are_those_of_some_run(body):
    """One way of each loop and condition for the whole run: not more than what is found."""
    body = separate(body)
    inner = branches(body)
    if len(inner) > 4:
        return
    choices = [range(TRIPS + 1) if step.kind == "loop" else range(2) for step in inner]
    ids = [id(step) for step in inner]
    seen = any(
        hidden(body, dict(zip(ids, ways, strict=True))) for ways in itertools.product(*choices)
    )
    found = faults_of(text_of(body))
    assert bool(found) >= seen
    if not any(step.kind in ("loop", "if") and branches(step.body) for step in inner):
        assert bool(found) is seen  # no way differs from one round to the next


MUST_NOT = [
    [Step("dot"), Step("use")],
    [Step("dot"), Step("wait", 1), Step("use")],
    [Step("loop", 0, [Step("dot"), Step("wait", 1)]), Step("use")],
    [Step("loop", 0, [Step("use"), Step("dot")])],
    [Step("if", 0, [Step("dot")]), Step("use")],
    [Step("dot"), Step("select"), Step("use")],
    [Step("dot"), Step("if", 0, [Step("wait")]), Step("use")],
]
MAY = [
    [Step("dot"), Step("wait"), Step("use")],
    [Step("dot"), Step("dot"), Step("wait"), Step("use")],
    [Step("loop", 0, [Step("dot"), Step("wait", 1)]), Step("wait"), Step("use")],
    [Step("loop", 0, [Step("dot"), Step("select"), Step("wait")]), Step("use")],
    [Step("blocking"), Step("use")],
    [Step("if", 0, [Step("dot"), Step("wait")]), Step("use")],
]


@pytest.mark.parametrize("body", MUST_NOT)
def test_a_sum_in_flight_is_not_used(body):
    assert set(faults_of(text_of(body))) == {"TTN217"}


@pytest.mark.parametrize("body", MAY)
def test_a_sum_that_was_waited_for_is(body):
    assert faults_of(text_of(body)) == []


def test_a_wait_completes_the_products_that_it_does_not_leave():
    """Behind another product, a wait that leaves one completes the first and not the second."""
    first = f"%x = {DOT.format('%zeros', 'true', M, M, T)}"
    second = f"%y = {DOT.format('%zeros', 'true', M, M, T)}"
    wait = f"%w:2 = ttng.warp_group_dot_wait %x, %y {{pendings = 1 : i32}} : {T}, {T}"
    for used, codes in (("%w#0", []), ("%w#1", ["TTN217"]), ("%x", []), ("%y", ["TTN217"])):
        use = f"%u = arith.mulf %other, {used} : {T}"
        plain = text_of([Step("use")])
        line = next(row for row in plain.splitlines() if "arith.mulf" in row)
        assert faults_of(plain.replace(line, "\n".join([first, second, wait, use]))) == codes


def test_a_wait_of_a_real_kernel_that_leaves_its_last_product_is_refuted():
    text = sample("ticket_loop_sm90")
    wait = r"(%acc_\d+ = ttng.warp_group_dot_wait %\S+ {pendings = )0"
    changed, count = re.subn(wait, r"\g<1>1", text)
    assert count == 1
    assert verified(text).verdict is Verdict.VERIFIED
    found = verified(changed)
    assert found.verdict is Verdict.REFUTED
    assert "TTN217" in {item.code for item in found.diagnostics}
