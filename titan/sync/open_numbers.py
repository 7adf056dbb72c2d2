"""Numbers of which only a part is known: `value + factor * unknown + ...`, unknowns from 0 on.

Decides nothing: the reference interpreter computes with `Linear` as with any number, exactly, so
that one run of it is a run for each value of the unknowns. What a division leaves open is an
unknown of its own, the quotient, and the remainder is a number that can be compared, and no more.
Where the answer depends on an unknown, `UndecidedError` is raised; where a number would be needed
or two unknowns are multiplied, `NotCoveredError`. Theorem: `linear_sound` (proofs/Linear.v).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import NamedTuple, TypeVar, cast

from titan.foundation.errors import Refusal, TitanError

Replaced = TypeVar("Replaced")
AHEAD_MAX = 100  # iterations between those whose sizes are asked for
Pairs = dict[object, tuple[int, int]]  # numbers that have to be equal, each pair once
Terms = tuple[tuple[str, int], ...]  # unknowns, and by what they are multiplied
PLAIN = (int, str, bool, frozenset)  # types of what cannot hold an open number


class NotCoveredError(Refusal):
    """The program is beyond what certificates cover; the text says why."""


class UndecidedError(TitanError):
    """The answer is not the same for all values of the unknown `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Quotient(str):
    """The name of an unknown that is `(rest + terms) // divisor`, with `0 <= rest < divisor`."""

    __slots__ = ("divisor", "rest", "terms")
    rest: int
    terms: Terms
    divisor: int

    def __new__(cls, rest: int, terms: Terms, divisor: int) -> Quotient:
        made = super().__new__(cls, f"({Linear(rest, terms)})//{divisor}")
        made.rest, made.terms, made.divisor = rest, terms, divisor
        return made

    def number(self) -> Linear:
        """What is divided."""
        return Linear(self.rest, self.terms)


class Linear:
    """`value` plus the sum of `terms`, (unknown, factor); not an int, so that no use is missed."""

    __slots__ = ("terms", "value")

    def __init__(self, value: int, terms: tuple[tuple[str, int], ...]) -> None:
        self.value, self.terms = value, terms

    def __add__(self, other: int) -> int:
        if type(other) is int:
            return cast("int", Linear(self.value + other, self.terms))
        value, terms = parts_of(other)
        factors = dict(self.terms)
        for name, factor in terms:
            factors[name] = factors.get(name, 0) + factor
        return linear(self.value + value, factors)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        if type(other) is int:
            return cast("int", Linear(self.value - other, self.terms))
        return self + -1 * other

    def __rsub__(self, other: int) -> int:
        return self * -1 + other

    def __mul__(self, factor: int) -> int:
        if type(factor) is not int:
            raise NotCoveredError("two open numbers are multiplied")
        if not factor:
            return 0
        terms = tuple([(name, f * factor) for name, f in self.terms])
        return cast("int", Linear(self.value * factor, terms))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> int:
        whole, left = self._divided(divisor)
        if left:
            factors = dict(whole)
            quotient = Quotient(self.value % divisor, left, divisor)
            factors[quotient] = factors.get(quotient, 0) + 1
            return linear(self.value // divisor, factors)
        return cast("int", Linear(self.value // divisor, whole))

    def __mod__(self, divisor: int) -> int:
        _, left = self._divided(divisor)
        number = self.value % divisor
        return cast("int", Remainder(linear(number, dict(left)), divisor)) if left else number

    def _divided(self, divisor: int) -> tuple[Terms, Terms]:
        """The terms of the quotient, and those that do not come out even."""
        if type(divisor) is not int:
            raise NotCoveredError("a number is divided by an open one")
        left = [(name, factor % divisor) for name, factor in self.terms if factor % divisor]
        if left and divisor < 0:
            raise NotCoveredError("an open number is divided by a negative one")
        whole = [(n, factor // divisor) for n, factor in self.terms if factor // divisor]
        return tuple(whole), tuple(left)

    def __and__(self, mask: int) -> int:
        return self % 2 if mask == 1 else self.__hash__()

    def __lt__(self, other: int) -> bool:
        if type(other) is int:
            value, terms = self.value - other, self.terms
        else:
            value, terms = parts_of(self - other)
        if value < 0 and all(factor < 0 for _, factor in terms):
            return True
        if value >= 0 and all(factor > 0 for _, factor in terms):
            return False
        raise _undecided(terms)

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __le__(self, other: int) -> bool:
        return self < other + 1

    def __gt__(self, other: int) -> bool:
        return not self < other + 1

    def __eq__(self, other: object) -> bool:
        value, terms = parts_of(self - cast("int", other))
        if not terms:
            return value == 0
        if value > 0 and all(factor > 0 for _, factor in terms):
            return False
        if value < 0 and all(factor < 0 for _, factor in terms):
            return False
        raise _undecided(terms)

    def __bool__(self) -> bool:
        return self != 0

    def without(self, name: str) -> int:
        """The number if the unknown is 0."""
        return self.where(lambda unknown: 0 if unknown == name else linear(0, {unknown: 1}))

    def raised(self, name: str) -> int:
        """The number if the unknown is one more, and again any from 0 on."""
        return self.where(lambda unknown: linear(int(unknown == name), {unknown: 1}))

    def where(self, value_of: Callable[[str], int]) -> int:
        """The number with a value for every unknown, which may be open itself."""
        found = self.value
        for name, factor in self.terms:
            if isinstance(name, Quotient):
                found += factor * (name.number().where(value_of) // name.divisor)
            else:
                found += factor * value_of(name)
        return found

    def __hash__(self, *_: object) -> int:
        raise NotCoveredError("the value of an open number is needed")

    __rfloordiv__ = __rmod__ = __hash__

    def __str__(self) -> str:
        return "+".join([str(self.value), *(f"{factor}*{name}" for name, factor in self.terms)])


class Remainder:
    """`number % modulus`, to be compared with a number, or with a remainder of the same modulus."""

    __slots__ = ("modulus", "number")

    def __init__(self, number: int, modulus: int) -> None:
        self.number, self.modulus = number, modulus

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Remainder) and other.modulus == self.modulus:
            found = (self.number - other.number) % self.modulus
            if type(found) is int:
                return found == 0
        if type(other) is int and not 0 <= other < self.modulus:
            return False
        raise NotCoveredError("a remainder decides that is not known")

    def __lt__(self, other: int) -> bool:
        if type(other) is not int or 0 < other < self.modulus:
            raise NotCoveredError("a remainder decides that is not known")
        return other > 0

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __le__(self, other: int) -> bool:
        return self < other + 1

    def __gt__(self, other: int) -> bool:
        return not self < other + 1

    def __and__(self, mask: int) -> int:
        return self % 2 if mask == 1 else self.__hash__()

    def __mod__(self, divisor: int) -> int:
        if type(divisor) is not int or divisor <= 0 or self.modulus % divisor:
            raise NotCoveredError("a remainder is divided by what does not divide its modulus")
        return self.number % divisor

    def __hash__(self, *_: object) -> int:
        raise NotCoveredError("the value of a remainder is needed")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __hash__
    __floordiv__ = __rfloordiv__ = __rmod__ = __bool__ = __hash__


def _undecided(terms: Terms) -> TitanError:
    """What to ask about terms that decide."""
    names = [name for name, _ in terms if not isinstance(name, Quotient)]
    return UndecidedError(min(names)) if names else NotCoveredError("a quotient decides")


def linear(value: int, factors: Mapping[str, int]) -> int:
    """The number, typed as the interpreter has it; a plain one where no unknown is left."""
    terms = sorted([item for item in factors.items() if item[1]])
    return cast("int", Linear(value, tuple(terms))) if terms else value


def parts_of(number: int) -> tuple[int, tuple[tuple[str, int], ...]]:
    """The value and the terms of a number. Raises NotCoveredError."""
    if isinstance(number, Linear):
        return number.value, number.terms
    if not isinstance(number, int):
        raise NotCoveredError("an open number is combined with what is none")
    return number, ()


def is_known(value: object) -> bool:
    """Whether no number in it is open: those have no hash."""
    if type(value) is Linear:
        return False
    try:
        hash(value)
    except NotCoveredError:
        return False
    return True


def replaced(value: Replaced, change: Callable[[Linear], int]) -> Replaced:
    """The value with every open number in it changed."""
    if isinstance(value, Linear):
        return cast("Replaced", change(value))
    if isinstance(value, Remainder):
        raise NotCoveredError("a remainder is kept")
    if not isinstance(value, tuple):
        return value
    parts = [part if type(part) in PLAIN else replaced(part, change) for part in value]
    if all(map(is_, parts, value)):
        return value
    made = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return cast("Replaced", made)


class Size(NamedTuple):
    """An open size: `known` in the iterations from `first` on, in all others any from `minimum`.

    A size without an outer loop has the iteration 0 alone.
    """

    name: str
    minimum: int
    first: int
    known: tuple[int, ...]

    def __call__(self, iteration: int) -> int:
        place = max(iteration, 0) - self.first
        if type(place) is int and 0 <= place < len(self.known):
            return self.known[place]
        return linear(self.minimum, {f"{self.name}.{place}": 1})

    def extended(self, place: int) -> Size:
        """The size with its iterations up to one listed, if they are not."""
        if place > len(self.known) + AHEAD_MAX:
            raise NotCoveredError(f"{self.name}.{place} is not a size")
        more = range(len(self.known), place + 1)
        known = (*self.known, *(self(self.first + number) for number in more))
        return self._replace(known=known)


def split(
    value: Replaced, sizes: tuple[Size, ...], name: str
) -> list[tuple[Replaced, tuple[Size, ...]]]:
    """The unknown is 0, or more; a size of an iteration not asked about is one, too."""
    head, _, place = name.rpartition(".")
    wider = tuple(
        size.extended(int(place)) if size.name == head and place.isdigit() else size
        for size in sizes
    )
    return [
        replaced((value, wider), lambda number: number.without(name)),
        replaced((value, wider), lambda number: number.raised(name)),
    ]


def assigned(number: int, values: dict[str, int]) -> tuple[int, dict[str, int]]:
    """The number with what is known of its unknowns, without the terms of all others; and those."""
    value, terms = parts_of(number)
    unknown: dict[str, int] = {}
    for name, factor in terms:
        if isinstance(name, Quotient):
            whole, others = assigned(cast("int", name.number()), values)
            if others:
                unknown[name] = factor
            else:
                value = value + factor * (whole // name.divisor)
        elif name in values:
            value = value + factor * values[name]
        else:
            unknown[name] = factor
    return value, unknown


def solved(pairs: Pairs, values: dict[str, int]) -> bool:
    """Whether the unknowns of the first numbers have values by which they are the second ones."""
    waiting = list(pairs.values())
    while waiting:
        later = []
        for wide, narrow in waiting:
            value, unknown = assigned(wide, values)
            rest, terms = parts_of(narrow - value)
            if not unknown:
                if rest or terms:
                    return False
                continue
            (name, factor), *others = unknown.items()
            if others or isinstance(name, Quotient):
                later.append((wide, narrow))
                continue
            if min(rest, factor - 1, *(f for _, f in terms)) < 0:
                return False
            if any(number % factor for number in (rest, *(f for _, f in terms))):
                return False
            values[name] = linear(rest, dict(terms)) // factor
        if len(later) == len(waiting):
            return False
        waiting = later
    return True
