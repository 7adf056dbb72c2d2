"""Operations of one pipe that follow one another without a wait, under partial order reduction.

Random programs in which one agent copies scales into tensor memory and multiplies with them, in a
pipelined queue, as block-scaled products do: stages are handed over by barriers, what is copied has
a number, and what the pipe keeps in order is the policy's choice. Some slip somewhere. The verdict
with reduction is held against that without any, for any number of steps and for few, against the
reference search, and against the certificate checker.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.building import ASYNC, Body, access, at, e, loop, program, read, write
from tests.edits import perturb
from tests.sampling import sampled
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.proof.check import check
from titan.proof.write import FaultyError
from titan.proof.write import write as write_certificate
from titan.sync import program as ir
from titan.sync.interpreter import LocalLoopError
from titan.sync.open_numbers import NotCoveredError

NONE = Reductions(symmetry=False, partial_order=False)
PARTIAL_ORDER = Reductions(symmetry=False, partial_order=True)
BUDGET = Budget(states_max=40_000)
SLIPS = (
    "no wait for the stage", "freed by the issuer", "freed before the product", "older scales",
    "never copied", "another thread copies", "a thread reads the scales", "no wait for the sum",
    "one stage less", "a copy of half", "a reduction",
)  # fmt: skip


@dataclass(frozen=True)
class Drawing:
    """What a random program is made of; `pieces`: stages that the scales have in tensor memory."""

    random: Random
    stages: int
    pieces: int
    ahead: bool
    split: bool
    slip: str


def loaded(given: Drawing) -> Body:
    """The loading warp: two copies to each stage."""
    stages = given.stages - (given.slip == "one stage less" and given.stages > 1)
    place = f"t % {stages}"
    copies = [
        ir.Asynchronous(
            (write(name, place, "t", proxy=ASYNC),), None, (ir.Completion(at("full", place), e(2)),)
        )
        for name in ("scales", "operand")
    ]
    before = f"t // {stages} - 1"
    return [
        ir.Wait(at("empty", place), e(f"({before}) % 2"), e(before)),
        ir.Arrive(at("full", place), transaction=e(4)),
        *copies,
    ]


def copied(given: Drawing, step: str) -> Body:
    """Scales of a step into tensor memory, whole or by halves."""
    source = read("scales", f"({step}) % {given.stages}", step, proxy=ASYNC)
    piece = f"({step}) % {given.pieces}"
    parts = (0, 1) if given.split else (None,)
    made: Body = [
        ir.Asynchronous((source, write("in_tensor_memory", piece, step, part)), "pipe")
        for part in parts
    ]
    return made[:1] if given.slip == "a copy of half" else made


def waited(given: Drawing, step: str) -> Body:
    if given.slip == "no wait for the stage" and given.random.random() < 0.7:
        return []
    turn = f"({step}) // {given.stages}"
    return [ir.Wait(at("full", f"({step}) % {given.stages}"), e(f"({turn}) % 2"), e(turn))]


def multiplied(given: Drawing) -> Body:
    """The product of step t, and the arrival that frees its stage."""
    stage, piece = f"t % {given.stages}", f"t % {given.pieces}"
    meant = "t - 1" if given.slip == "older scales" else "t"
    sources = [read("operand", stage, "t", proxy=ASYNC), read("in_tensor_memory", piece, meant)]
    total = replace(write("sum"), accumulates=True)
    if given.slip == "a reduction":  # what it adds to keeps its number
        total = replace(total, accumulates=False, reduction="add")
        sources += [read("sum", 0, given.random.choice((0, None)))]
    product = ir.Asynchronous((*sources, total), "pipe")
    freed: Body = [ir.QueueArrive("pipe", at("empty", stage))]
    if given.slip == "freed by the issuer":
        freed = [ir.Arrive(at("empty", stage))]
    return [*freed, product] if given.slip == "freed before the product" else [product, *freed]


def issued(given: Drawing) -> Body:
    """The issuing warp: copies of a step in front of its product, or of the step ahead."""
    copies = [] if given.slip in ("never copied", "another thread copies") else copied(given, "t")
    if not given.ahead:
        return [loop("t", "n", [*waited(given, "t"), *copies, *multiplied(given)])]
    ahead = ir.Branch(e("t + 1 < n"), (*waited(given, "t + 1"), *copied(given, "t + 1")))
    first = ir.Branch(e("0 < n"), (*waited(given, "0"), *copied(given, "0")))
    return [first, loop("t", "n", [ahead, *multiplied(given)])]


def drawn(seed: int) -> ir.SyncProgram:
    """One program, right or with a slip, perturbed at times."""
    random = Random(f"pipe pairs {seed}")
    slip = random.choice(("", "", "", "", random.choice(SLIPS), random.choice(SLIPS)))
    stages = random.choice((1, 2, 2))
    given = Drawing(
        random, stages, random.choice((1, 1, stages)), random.random() < 0.25,
        random.random() < 0.3, slip,
    )  # fmt: skip
    waits = [] if slip == "no wait for the sum" else [ir.Wait(at("done"), e(0), e(0))]
    roles = [
        ir.Role("loader", (loop("t", "n", loaded(given)),)),
        ir.Role("issuer", (*issued(given), ir.QueueArrive("pipe", at("done")))),
        ir.Role("reader", (*waits, access(read("sum")))),
    ]
    if slip == "another thread copies":
        other = [*waited(given, "t"), *copied(given, "t")]
        roles.append(ir.Role("copier", (loop("t", "n", other),)))
    if slip == "a thread reads the scales":
        seen = [*waited(given, "t"), access(read("in_tensor_memory", f"t % {given.pieces}"))]
        roles.append(ir.Role("watcher", (loop("t", "n", seen),)))
    tensor = ir.Space.TENSOR
    made = program(
        "pipe_pairs",
        roles,
        buffers=[
            ir.Buffer("scales", stages), ir.Buffer("operand", stages),
            ir.Buffer("in_tensor_memory", given.pieces, 2, tensor, initial=-1),
            ir.Buffer("sum", 1, 1, random.choice((tensor, ir.Space.SHARED)), initial=0),
        ],
        barriers=[
            ir.Barrier("full", 1, stages), ir.Barrier("empty", 1, stages), ir.Barrier("done", 1)
        ],
        parameters=[ir.Parameter("n")],
        queues=[ir.Queue("pipe", False, random.random() < 0.8, random.random() < 0.95)],
        policies=ir.Policies(tensor_pipe=random.choice(("in_order", "in_order", "listed"))),
        target="sm_100a",
    )  # fmt: skip
    return perturb(made, random, random.choice((0, 0, 0, 0, 1)))


def decided(given: ir.SyncProgram, sizes: dict[str, int] | None, reductions: Reductions | None):
    """Verdict and reason; None where nothing is searched, or not to the end."""
    try:
        found = explore(given, sizes, BUDGET, reductions)
    except (ExplorationError, LocalLoopError, NotApplicableError):
        return None
    if found.verdict is Verdict.UNDECIDED and found.reason is not Reason.PUBLICATION:
        return None
    return found.verdict, found.reason


@pytest.mark.parametrize("block", sampled(range(8), every=4))
def test_the_verdict_behind_operations_in_the_pipe(block: int) -> None:
    seen: Counter[Verdict] = Counter()
    for seed in range(40 * block, 40 * block + 40):
        given = drawn(seed)
        single = {n: decided(given, {"n": n}, NONE) for n in (1, 2, 3)}
        for n, exact in single.items():
            if exact is not None:
                assert decided(given, {"n": n}, PARTIAL_ORDER) == exact, (seed, n)
        reduced = decided(given, None, PARTIAL_ORDER)
        if reduced is None or given.parameters[0].value is not None:
            continue
        seen[reduced[0]] += 1
        exact = decided(given, None, NONE)
        assert exact in (None, reduced), seed
        refuted = [n for n, one in single.items() if one and one[0] is Verdict.REFUTED]
        assert not (refuted and reduced[0] is Verdict.VERIFIED), (seed, refuted)
    assert min(seen[Verdict.VERIFIED], seen[Verdict.REFUTED]) > 3, seen


@pytest.mark.parametrize("block", sampled(range(4)))
def test_the_reference_search_agrees(block: int) -> None:
    compared = 0
    for seed in range(25 * block, 25 * block + 25):
        given = drawn(seed)
        for n in (1, 2):
            try:
                exact = explore_reference(given, {"n": n}, Budget(states_max=4_000))
            except LocalLoopError:
                continue
            reduced = decided(given, {"n": n}, PARTIAL_ORDER)
            if exact.verdict is Verdict.UNDECIDED or reduced is None:
                continue
            if reduced[0] is not Verdict.UNDECIDED:
                assert reduced[0] is exact.verdict, (seed, n)
                compared += 1
    assert compared > 20


@pytest.mark.parametrize("block", sampled(range(4)))
def test_the_certificate_checker_agrees(block: int) -> None:
    """It has its own rule of what a pipe keeps, and shares no code with the search."""
    seen: Counter[tuple[Verdict, str]] = Counter()
    for seed in range(30 * block, 30 * block + 30):
        given = drawn(seed)
        reduced = decided(given, None, PARTIAL_ORDER)
        if reduced is None:
            continue
        try:
            check(write_certificate(given, states_max=3_000))
            certified = "certified"
        except FaultyError:
            certified = "faulty"
        except NotCoveredError:
            certified = "not covered"
        seen[reduced[0], certified] += 1
    assert not seen[Verdict.VERIFIED, "faulty"] and not seen[Verdict.REFUTED, "certified"], seen
    assert min(seen[Verdict.VERIFIED, "certified"], seen[Verdict.REFUTED, "faulty"]) > 3, seen


@pytest.mark.parametrize("ordered", [True, False])
def test_a_pipe_that_is_not_in_order_may_leave_the_earlier_of_two_copies(ordered: bool) -> None:
    copies = (ir.Asynchronous((write("piece", 0, tile),), "pipe") for tile in (1, 2))
    body = (*copies, ir.QueueWait("pipe"), access(read("piece", 0, 2)))
    given = program(
        "two_copies",
        [ir.Role("issuer", body)],
        buffers=[ir.Buffer("piece", space=ir.Space.TENSOR, initial=0)],
        queues=[ir.Queue("pipe", False, ordered, True)],
        policies=ir.Policies(tensor_pipe="in_order"),
        target="sm_100a",
    )
    expected = Verdict.VERIFIED if ordered else Verdict.REFUTED
    assert explore_reference(given).verdict is expected
    for reductions in (NONE, PARTIAL_ORDER, Reductions()):
        assert explore(given, reductions=reductions).verdict is expected


@pytest.mark.parametrize("pipe", ["in_order", "listed"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_scales_of_further_steps_close_in_few_states(pipe: str, pieces: int) -> None:
    """The next copy is over what the product before it reads: only a pipe in order allows that."""
    random = Random(0)
    given = Drawing(random, 2, pieces, False, False, "")
    roles = [
        ir.Role("loader", (loop("t", "n", loaded(given)),)),
        ir.Role("issuer", (*issued(given), ir.QueueArrive("pipe", at("done")))),
        ir.Role("reader", (ir.Wait(at("done"), e(0), e(0)), access(read("sum")))),
    ]
    made = program(
        "pipe_pairs",
        roles,
        buffers=[
            ir.Buffer("scales", 2), ir.Buffer("operand", 2),
            ir.Buffer("in_tensor_memory", pieces, 2, ir.Space.TENSOR, initial=-1),
            ir.Buffer("sum", 1, 1, ir.Space.TENSOR, initial=0),
        ],
        barriers=[ir.Barrier("full", 1, 2), ir.Barrier("empty", 1, 2), ir.Barrier("done", 1)],
        parameters=[ir.Parameter("n")],
        queues=[ir.Queue("pipe", False, pipelined=True)],
        policies=ir.Policies(tensor_pipe=pipe),
        target="sm_100a",
    )  # fmt: skip
    found = explore(made)
    right = pipe == "in_order" or pieces == 2  # two pieces: the stage is freed behind the product
    assert found.verdict is (Verdict.VERIFIED if right else Verdict.REFUTED)
    assert found.states < 1_000
