"""Nested loops in forms that close: the same runs, never a VERIFIED that single sizes refute."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from benchmarks.bench_cliffs import nested
from tests.building import e
from tests.edits import perturb
from tests.rings import persistent_ring
from titan.engines.explore.loops import renamed
from titan.engines.explore.nests import closing_forms, counted, with_own_sizes, without_empty
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.explore.smaller import smaller_sizes
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.language.kernel.decode import decode_text
from titan.sync import program as ir
from titan.sync.control import LocalLoopError
from titan.sync.expression import Expression, Name, substitute
from titan.verify.lowering import sync_program

BUDGET = Budget(states_max=30_000)
TILE = e("w * k_tiles + k")


def in_products(role: ir.Role) -> ir.Role:
    """The role with `w * k_tiles + k` where it reads its counter, which it loses."""

    def without(block: ir.Block) -> ir.Block:
        kept = [op for op in block if not isinstance(op, ir.Assign)]
        return tuple(
            replace(op, body=without(op.body)) if isinstance(op, ir.Loop) else op for op in kept
        )

    return replace(role, body=_with_tile(without(role.body), TILE), variables=())


def _with_tile(value: object, tile: Expression) -> object:  # type: ignore[misc]
    from titan.engines.explore.nests import _mapped

    return _mapped(value, lambda whole: substitute(whole, {"n": tile}))


def drawn(seed: int, edits: int) -> ir.SyncProgram:
    """A persistent ring: one number for all items or one each, empty items or none, products."""
    random = Random(seed)
    ring = persistent_ring(random)
    ring = replace(
        ring,
        parameters=tuple(
            replace(p, minimum=random.choice((0, 0, 1))) if p.name == "k_tiles" else p
            for p in ring.parameters
        ),
    )
    own = any(p.per for p in ring.parameters)
    if not own and random.random() < 0.5:
        ring = replace(ring, roles=tuple(in_products(role) for role in ring.roles))
    if not own and random.random() < 0.5:
        producer = ring.roles[0]
        other = replace(producer, body=renamed(producer.body, "w", "item"))
        ring = replace(ring, roles=(other, *ring.roles[1:]))
    return perturb(ring, random, edits)


def chosen(program: ir.SyncProgram) -> list[dict[str, int | tuple[int, ...]]]:
    """Sizes up to three items; of different numbers of tiles where each has its own."""
    least = {p.name: p.minimum for p in program.parameters}
    low = least.get("k_tiles", 0)
    if any(p.per for p in program.parameters):
        choices: list[dict[str, int | tuple[int, ...]]] = [{"work": 0, "k_tiles": low}]
        for work in (1, 2, 3):
            tuples = product(range(low, 3), repeat=work)
            choices += [{"work": work, "k_tiles": tiles} for tiles in tuples]
        return choices
    return [{"work": work, "k_tiles": n} for work in range(5) for n in range(low, 6)]


def compare(seeds: range) -> tuple[list[str], Counter[Verdict]]:
    wrong, tally = [], Counter[Verdict]()
    for seed in seeds:
        program = drawn(seed, (0, 1, 1, 2)[seed % 4])
        if any(p.value is not None for p in program.parameters):
            continue
        try:
            every = explore(program, None, BUDGET)
        except (NotApplicableError, LocalLoopError):
            continue
        tally[every.verdict] += 1
        if every.verdict is Verdict.VERIFIED:
            refuted = [
                sizes
                for sizes in chosen(program)
                if explore(program, sizes, BUDGET).verdict is Verdict.REFUTED
            ]
            wrong += [f"seed {seed}: refuted for {sizes}" for sizes in refuted[:1]]
        elif every.trace is not None:
            sizes = dict(every.trace.parameters)
            if explore(program, sizes, BUDGET).verdict is not Verdict.REFUTED:
                wrong.append(f"seed {seed}: not refuted for {sizes}")
    return wrong, tally


def test_random_nests_for_any_number() -> None:
    wrong, tally = compare(range(24))
    assert not wrong, "\n".join(wrong)
    assert tally[Verdict.VERIFIED] > 4 and tally[Verdict.REFUTED] > 4, tally


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_many_random_nests_for_any_number() -> None:
    wrong, _ = compare(range(1_000, 3_000))
    assert not wrong, "\n".join(wrong)


def test_an_exact_form_has_the_same_states() -> None:
    """Of the program for some sizes, and of its form for the sizes that belong to them."""
    seen = Counter[str]()
    for seed in range(200):
        program = drawn(seed, 0)
        form = counted(program, {})
        filled = without_empty(program, {})
        kind = "counted" if form is not program else "filled" if filled is not program else ""
        if not kind or program.roles[1].agents > 1 or seen[kind] > 3:
            continue
        seen[kind] += 1
        for sizes in chosen(program)[1:9]:
            plain = explore_reference(program, sizes, BUDGET)
            same = explore_reference(form, sizes, BUDGET)
            assert (plain.verdict, plain.states) == (same.verdict, same.states), (seed, sizes)
            tiles = sizes["k_tiles"]
            if filled is program or not isinstance(tiles, tuple):
                continue
            kept = tuple(n for n in tiles if n)
            fewer: dict[str, int | tuple[int, ...]] = {"work": len(kept), "k_tiles": kept or 1}
            less = explore_reference(filled, fewer, BUDGET)
            assert (plain.verdict, plain.states) == (less.verdict, less.states), (seed, sizes)
    assert seen["counted"] > 2 and seen["filled"] > 2, seen


def nest(sizes: str, item: str = "w", stop: str = "n") -> ir.SyncProgram:
    before, consumer = nested(sizes).split("  consumer:\n")
    consumer = consumer.replace("for: w in", f"for: {item} in").replace("0..n\n", f"0..{stop}\n")
    text = f"{before}  consumer:\n{consumer}"
    family, errors = decode_text(text, "nest.yaml")
    assert family is not None, errors
    return sync_program(family.kernels[0]).program


@pytest.mark.parametrize(
    ("sizes", "item"),
    [
        ("work: any, n: any", "w"),
        ("work: any, n: any", "tile"),
        ("work: any, n: {any: true, minimum: 1}", "w"),
        ("work: any, n: {any: true, per: w}", "w"),
        ("work: {any: true, minimum: 1}, n: {any: true, per: w}", "w"),
    ],
)
def test_nests_close_in_few_states(sizes: str, item: str) -> None:
    result = explore(nest(sizes, item), None, Budget(states_max=2_000))
    assert result.verdict is Verdict.VERIFIED
    assert "any number of work, n" in result.scope


def test_what_differs_between_items_alone_is_no_fault_of_one_number() -> None:
    """The consumer counts its items from 1: right for one number of tiles, whatever it is."""
    given = nest("work: any, n: any")
    assert with_own_sizes(given, {}) is not given
    late = replace(
        given.roles[1],
        body=tuple(
            replace(op, start=e("1"), stop=e("work + 1")) if isinstance(op, ir.Loop) else op
            for op in given.roles[1].body
        ),
    )
    program = replace(given, roles=(given.roles[0], late))
    for work, n in product(range(4), range(4)):
        assert explore(program, {"work": work, "n": n}).verdict is Verdict.VERIFIED
    result = explore(program, None, Budget(states_max=4_000))
    assert result.verdict is Verdict.UNDECIDED and result.reason is Reason.STATES
    assert "only numbers that differ show" in result.remark


def test_a_fault_of_one_number_is_told_with_that_number() -> None:
    result = explore(nest("work: any, n: any", stop="n + 1"), None, Budget(states_max=4_000))
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    sizes = dict(result.trace.parameters)
    assert isinstance(sizes["n"], int)
    assert explore_reference(nest("work: any, n: any", stop="n + 1"), sizes).verdict is (
        Verdict.REFUTED
    )


def test_items_that_somebody_counts_are_kept() -> None:
    """`w` names a tile, or a role works on empty items too: they are not left out."""
    given = nest("work: any, n: {any: true, per: w}")
    assert without_empty(given, {}) is not given
    first = given.roles[0]
    loop = first.body[0]
    assert isinstance(loop, ir.Loop)
    busy = replace(loop, body=(*loop.body, ir.Compute("nothing")))
    counts = replace(loop, body=(*loop.body, ir.Assign("i", e("i + w"))))
    for changed in (busy, counts):
        other = replace(given, roles=(replace(first, body=(changed,)), *given.roles[1:]))
        assert without_empty(other, {}) is other
    read = ir.Branch(Name("k"), (ir.Assign("i", e("i + 1")),))
    behind = replace(given, roles=(replace(first, body=(loop, read)), *given.roles[1:]))
    assert without_empty(behind, {}) is behind


def test_a_product_is_replaced_where_it_is_one_of_the_nest_alone() -> None:
    program = drawn_products()
    form = counted(program, {})
    assert form is not program and closing_forms(program, {})
    other = replace(
        program,
        roles=tuple(
            replace(
                role,
                body=tuple(
                    replace(op, body=(ir.Branch(e("w < 3"), op.body),))
                    if isinstance(op, ir.Loop)
                    else op
                    for op in role.body
                ),
            )
            for role in program.roles
        ),
    )
    assert counted(other, {}) is other


def drawn_products() -> ir.SyncProgram:
    for seed in range(100):
        ring = persistent_ring(Random(seed))
        if not any(p.per for p in ring.parameters):
            return replace(ring, roles=tuple(in_products(role) for role in ring.roles))
    raise AssertionError


def test_a_counterexample_has_small_sizes() -> None:
    """Found with many items of which most are empty; shown for as few as have the fault."""
    given = nest("work: any, n: {any: true, per: w}", stop="n + 1")
    result = explore(given, None, Budget(states_max=4_000))
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    sizes = dict(result.trace.parameters)
    assert isinstance(sizes["work"], int) and sizes["work"] <= 2, sizes
    asked = smaller_sizes(given, {"work": 13, "n": (0, 0, 0, 0, 0, 0, 0, 2)})
    assert 0 < len(asked) <= 24 and all(choice["work"] in (0, 1, 2) for choice in asked)
    assert smaller_sizes(replace(given, parameters=given.parameters[:1]), {"work": 9}) == []
