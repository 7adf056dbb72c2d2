"""Launches whose numbers would leave the 32 bits that kernels compute with are refused."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from tests.codegen.pipeline.written import form_of
from titan.codegen.emit import ranges
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, decoded, scheduled
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import View, WorkDimension
from titan.device.plan import Unlaunchable, plan
from titan.sync.expression import Binary, Constant, Name, binary, evaluate, parse_expression

LIBRARY = Path(__file__).resolve().parents[3] / "protocols" / "tiles"


def manifest_of(name, persistent=False):
    tile = parse_tile((LIBRARY / f"{name}.yaml").read_text())
    shape = Shape("plain", 2, overlapped=False, persistent=persistent)
    kernel, program = decoded(form_of("sm_90a")(tile, shape, {}, 1))
    return emit(tile, kernel, program).manifest


@pytest.fixture(scope="module")
def gemm():
    return manifest_of("gemm")


@pytest.mark.parametrize(
    "sizes",
    [
        {"M": 2**30, "N": 128, "K": 64},
        {"M": 128, "N": 2**30, "K": 8},
        {"M": 2**20, "N": 2**20, "K": 2**30},
    ],
)
def test_the_largest_launches_are_planned(gemm, sizes):
    assert plan(gemm, sizes, 132).grid == -(-sizes["M"] // 128) * (-(-sizes["N"] // 128))


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ({"M": 2**30 + 8, "N": 8, "K": 8}, "M <= 1073741824"),
        ({"M": 8, "N": 2**31, "K": 8}, "N <= 1073741824"),
        ({"M": 8, "N": 8, "K": 2**32}, "K <= 1073741824"),
        ({"M": 2**24, "N": 2**24, "K": 8}, "128) <= 1073741824"),
        ({"M": 2**30, "N": 2**30, "K": 8}, "128) <= 1073741824"),
    ],
)
def test_sizes_and_work_items_beyond_are_refused(gemm, sizes, what):
    with pytest.raises(Unlaunchable, match=re.escape(what)):
        plan(gemm, sizes, 132)


def emitted_with(name, old, new):
    text = (LIBRARY / f"{name}.yaml").read_text()
    assert old in text
    tile = parse_tile(text.replace(old, new))
    kernel, program = decoded(form_of("sm_90a")(tile, Shape("plain", 2, overlapped=False), {}, 1))
    return emit(tile, kernel, program).manifest


def test_an_offset_that_may_fall_below_32_bits_is_refused():
    with pytest.raises(EmissionRefused, match="an offset of a may leave 32 bits"):
        emitted_with("gemm_split_k", "(s * ((", "((parts - s) * ((")


def test_parts_of_a_number_count_though_the_number_itself_is_small():
    """The quotient of a product has few bits; the product is computed all the same."""
    manifest = emitted_with("gemm", "[m * rows, k * k_tile]", "[m * rows, K * N // 65536 * k]")
    with pytest.raises(Unlaunchable, match="<= 2147483647"):
        plan(manifest, {"M": 128, "N": 2**16, "K": 2**16}, 132)


def test_the_position_in_the_rings_of_a_persistent_kernel_stays_in_range():
    """2^22 items of 2^10 iterations each: one CTA alone could count to 2^32."""
    manifest = manifest_of("gemm_persistent", persistent=True)
    sizes = {"M": 2**18, "N": 2**19, "K": 2**16}
    with pytest.raises(Unlaunchable, match="<= 2147483647"):
        plan(manifest, sizes, 132)
    assert plan(manifest, {**sizes, "K": 2**14}, 132).grid == 132


def test_who_has_no_room_for_rings_is_told_what_takes_it():
    text = (LIBRARY / "gemm.yaml").read_text()
    text = text.replace(
        "rows: 128, columns: 128, k_tile: 64", "rows: 128, columns: 256, k_tile: 512"
    )
    with pytest.raises(BuildRefused) as refused:
        scheduled(parse_tile(text), BuildLimits(1, 1))
    told = str(refused.value)
    assert "rings take 393216 of shared, of which 165888 are left for them" in told
    assert "the tiles that stores send take 65536" in told
    assert "barriers take 1024" in told


# --------------------------------------------------- against all numbers of launches in small words

SMALL = {"EXTENT_MAX": 9, "COUNT_MAX": 40, "TILE_MAX": 3}  # in place of 2^30, 2^31 - 1 and 4096
DIVISORS = [Constant(2), Constant(3), Name("M"), Binary("+", Name("n"), Constant(1))]


def random_number(random, names, depth):
    if depth == 0 or random.random() < 0.15:
        return (
            Name(random.choice(names)) if random.random() < 0.75 else Constant(random.randrange(4))
        )
    operator = random.choice(["+", "+", "*", "*", "-", "//", "%", "min", "max"])
    left = random_number(random, names, depth - 1)
    if operator in ("//", "%"):
        return binary(operator, left, random.choice(DIVISORS if "n" in names else DIVISORS[:3]))
    return binary(operator, left, random_number(random, names, depth - 1))


def parts_of(number):
    yield number
    if isinstance(number, Binary):
        yield from parts_of(number.left)
        yield from parts_of(number.right)


def random_tile(random):
    base = parse_tile((LIBRARY / "gemm.yaml").read_text())
    work = (WorkDimension("m", random_number(random, ["M", "N"], 1)), WorkDimension("n", Name("N")))
    trips = random_number(random, ["M", "N", "m"], 2)
    offset = random_number(random, ["M", "N", "m", "n", base.loop_variable], 3)
    body = (replace(base.body[0], view=View("A", (offset,))),)
    parameters = tuple(item for item in base.parameters if item.name in "MN")
    return replace(
        base, sizes=(), parameters=parameters, tensors=(), work=work, trip_count=trips,
        before=(), body=body, after=(),
    )  # fmt: skip


def leaves(tile, allowed, ahead):
    """A launch that the conditions allow and in which a part of a number is beyond; and whether
    some launch is allowed at all."""
    offset = tile.body[0].view.offsets[0]
    some = False
    for m_size, n_size in product(range(1, 12), repeat=2):
        names = {"M": m_size, "N": n_size}
        if not all(evaluate(one, names) for one in allowed):
            continue
        counts = [evaluate(item.count, names) for item in tile.work]
        if min(counts) < 1:
            continue
        some = True
        for places in product(*(range(count) for count in counts)):
            inner = {**names, "m": places[0], "n": places[1]}
            trips = max(1, evaluate(tile.trip_count, inner))
            numbers = [(one, inner) for item in tile.work for one in parts_of(item.count)]
            numbers += [(one, inner) for one in parts_of(tile.trip_count)]
            for loop in {0, 1, trips // 2, trips - 1 + ahead} & set(range(trips + ahead)):
                within = {**inner, tile.loop_variable: loop}
                numbers += [(one, within) for one in parts_of(offset)]
            for one, environment in numbers:
                if abs(evaluate(one, environment)) > SMALL["COUNT_MAX"]:
                    return names, some
    return None, some


def test_no_part_of_a_number_leaves_small_words_in_any_launch_that_is_allowed(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(ranges, name, value)
    random, tried, conditions = Random(7), 0, 0
    for _ in range(1000):
        tile = random_tile(random)
        total = binary("*", tile.work[0].count, tile.work[1].count)
        try:
            ahead = random.choice((0, 0, 2))
            found = ranges.range_constraints(tile, SimpleNamespace(roles=()), total, 9, ahead)
        except EmissionRefused:
            continue
        allowed = [parse_expression(text) for text in found]
        beyond, some = leaves(tile, allowed, ahead)
        assert beyond is None, (tile.work, tile.trip_count, tile.body[0].view, found, beyond)
        tried += some
        conditions += some and "<= 40" in str(found)
    assert tried > 150
    assert conditions > 40
