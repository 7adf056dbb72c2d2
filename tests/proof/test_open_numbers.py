"""Open numbers against plain ones: what is said of all values holds for each that is tried."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import cast

import pytest

from tests.proof.values import at
from titan.proof import configuration
from titan.proof.configuration import Configuration
from titan.sync.arrays import Arrays
from titan.sync.expression import (
    BINARY_OPERATORS,
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    evaluate,
)
from titan.sync.open_numbers import (
    Linear,
    NotCoveredError,
    Quotient,
    Remainder,
    Size,
    UndecidedError,
    linear,
    replaced,
)
from titan.sync.program import SyncProgram
from titan.sync.state import Position, State

UNKNOWNS = ("~0", "tiles.0")
NO_ARRAYS = Arrays(SyncProgram("nothing", "sm_90a", ()))


def is_instance(narrow: Configuration, wide: Configuration) -> bool:
    return configuration.is_instance(narrow, wide, NO_ARRAYS, {})


def random_number(random: Random) -> int:
    factors = {name: random.choice((0, 0, 1, 2, 4)) for name in UNKNOWNS}
    return linear(random.randint(-2, 6), factors)


def valuations(below: int, names: tuple[str, ...] = UNKNOWNS) -> list[dict[str, int]]:
    return [
        dict(zip(names, numbers, strict=True))
        for numbers in product(range(below), repeat=len(names))
    ]


def random_expression(random: Random, depth: int) -> Expression:
    if depth == 0 or random.random() < 0.2:
        return random.choice((Name("a"), Name("b"), Name("c"), Constant(random.randint(-1, 4))))
    if random.random() < 0.1:
        return Not(random_expression(random, depth - 1))
    if random.random() < 0.3:
        divisor = Constant(random.choice((-2, 2, 3, 4)))
        divided = random_expression(random, depth - 1)
        return Binary(random.choice(("//", "%")), divided, divisor)
    sides = random_expression(random, depth - 1), random_expression(random, depth - 1)
    return Binary(random.choice(BINARY_OPERATORS), *sides)


def test_an_expression_of_open_numbers_is_that_of_each_value() -> None:
    random, seen = Random(1), Counter[str]()
    for _ in range(9000):
        expression = random_expression(random, random.randint(1, 3))
        environment = {name: random_number(random) for name in "abc"}
        try:
            found = evaluate(expression, environment)
        except (UndecidedError, NotCoveredError, ZeroDivisionError) as reason:
            seen[type(reason).__name__] += 1
            continue
        seen[type(found).__name__] += 1
        for values in valuations(4):
            plain = {name: at(number, values) for name, number in environment.items()}
            expected = evaluate(expression, cast("dict[str, int]", plain))
            assert at(found, values) == expected, expression
    assert min(seen.values()) > 100 and {"Linear", "Remainder", "int"} < seen.keys(), seen


def random_configuration(random: Random) -> Configuration:
    """Two numbers of a state, and a size with a number of its own in each iteration."""
    numbers = tuple(
        linear(random.randint(0, 3), {"~0": random.choice((0, 1, 2)), name: random.randint(0, 1)})
        for name in ("~1", "tiles.0")
    )
    state = State((Position((), numbers),), (), (), (), (), (), (), ())
    known = tuple(
        linear(random.randint(0, 2), {f"tiles.{place}": random.randint(0, 1)})
        for place in range(random.randint(0, 2))
    )
    first = linear(0, {"~0": random.choice((0, 0, 1))})
    return Configuration(state, (Size("tiles", 0, first, known),))


def fixed(found: Configuration, values: dict[str, int]) -> Configuration:
    plain = at(found, values)
    assert isinstance(plain, Configuration)
    return plain


NAMES = ("~0", "~1", "tiles.0", "tiles.1")
ITERATIONS = 8


def concrete(
    found: Configuration, values: dict[str, int], random: Random
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the state, and the size in each iteration; any one where it is not listed."""
    state, (size,), _ = fixed(found, values)
    sizes = [random.randint(0, 3) for _ in range(ITERATIONS)]
    for place, number in enumerate(size.known):
        if size.first + place < ITERATIONS:
            sizes[size.first + place] = number
    return state.positions[0].values, tuple(sizes)


def raised(found: Configuration, name: str) -> Configuration:
    higher = replaced(found, lambda number: number.raised(name))
    assert isinstance(higher, Configuration)
    return higher


def represents(wide: Configuration, values: object, sizes: tuple[int, ...]) -> bool:
    """Whether some values of the unknowns make the one of the other: all small ones are tried."""
    for chosen in valuations(7, NAMES):
        state, (size,), _ = fixed(wide, chosen)
        if state.positions[0].values == values and all(
            size.first + place >= ITERATIONS or sizes[size.first + place] == number
            for place, number in enumerate(size.known)
        ):
            return True
    return False


@pytest.mark.timeout(60)
def test_what_is_an_instance_is_represented() -> None:
    random, seen = Random(2), Counter[bool]()
    while seen[True] < 40:
        narrow, wide = random_configuration(random), random_configuration(random)
        if random.random() < 0.5:  # the same with one number raised: more often an instance
            narrow = raised(wide, random.choice(NAMES))
        found = is_instance(narrow, wide)
        seen[found] += 1
        for _ in range(3 if found else 0):
            small = {name: random.randint(0, 1) for name in NAMES}
            values, sizes = concrete(narrow, small, random)
            assert represents(wide, values, sizes), (narrow, wide)
    assert seen[False] > 20, seen


def test_what_is_one_higher_is_an_instance() -> None:
    """And what is one lower is not: the unknowns are numbers from 0 on."""
    state = State((Position((), (linear(3, {"~0": 2}),)),), (), (), (), (), (), (), ())
    wide = Configuration(state, ())
    higher = raised(wide, "~0")
    assert is_instance(higher, wide)
    assert is_instance(replaced(wide, lambda n: n.without("~0")), wide)
    assert not is_instance(wide, higher)
    assert not is_instance(replaced(wide, lambda n: n + 1), wide)


@pytest.mark.parametrize("fault", ["equal", "less", "rest"])
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def equal(self: Remainder, other: object) -> bool:
        return isinstance(other, Remainder) and self.number is other.number

    def rest(self: Quotient) -> Linear:
        return Linear(0, self.terms)

    plant = {
        "equal": lambda: monkeypatch.setattr(Remainder, "__eq__", equal),
        "less": lambda: monkeypatch.setattr(Remainder, "__lt__", lambda self, other: other > 1),
        "rest": lambda: monkeypatch.setattr(Quotient, "number", rest),
    }
    plant[fault]()
    with pytest.raises(AssertionError):
        test_an_expression_of_open_numbers_is_that_of_each_value()
        test_what_is_split_is_either_part()


def test_what_is_split_is_either_part() -> None:
    """A number with quotients where an unknown is 0, and where it is one more."""
    random, seen = Random(5), Counter[str]()
    for _ in range(3000):
        number = random_number(random)
        for _ in range(random.randint(0, 2)):
            number = number // random.choice((2, 3, 4)) + random.choice((0, 1)) * random_number(
                random
            )
        if not isinstance(number, Linear):
            continue
        name = random.choice(UNKNOWNS)
        for values in valuations(4):
            assert at(number.raised(name), values) == at(number, {**values, name: values[name] + 1})
            assert at(number.without(name), values) == at(number, {**values, name: 0})
        seen["quotient" if "//" in str(number) else "linear"] += 1
    assert min(seen.values()) > 300, seen
