"""A size of which only a lower bound is known, as a number that says when that is not enough.

Decides nothing: the reference interpreter computes with `AtLeast` as with any number, and whatever
has one value for all sizes from the bound on has that value. Where the answer depends on the size,
`UndecidedError` is raised; where the size itself would be needed, `NotCoveredError`.
"""

from __future__ import annotations

from titan.foundation.errors import Refusal, TitanError


class NotCoveredError(Refusal):
    """The program is beyond what certificates cover; the text says why."""


class UndecidedError(TitanError):
    """The answer is not the same for all values of the size `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class AtLeast(int):
    """`name + offset`, where the size `name` is any number so that this is at least its value."""

    name: str

    def __new__(cls, bound: int, name: str) -> AtLeast:
        number = super().__new__(cls, bound)
        number.name = name
        return number

    def _plain(self, other: object) -> int:
        if type(other) is not int:
            raise NotCoveredError(f"the open size {self.name} is combined with another open number")
        return other

    def __add__(self, other: int) -> int:
        return AtLeast(int.__add__(self, self._plain(other)), self.name)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self + -self._plain(other)

    def __lt__(self, other: int) -> bool:
        if int.__ge__(self, self._plain(other)):
            return False
        raise UndecidedError(self.name)

    def __le__(self, other: int) -> bool:
        return self < self._plain(other) + 1

    def __gt__(self, other: int) -> bool:
        return not self <= other

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        return self <= self._plain(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return self._refuse()

    def _refuse(self, *_: object) -> int:
        raise NotCoveredError(f"the value of the open size {self.name} is needed")

    __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _refuse  # type: ignore[assignment]
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse  # type: ignore[assignment]
    __and__ = __rand__ = __or__ = __ror__ = _refuse  # type: ignore[assignment]
    __xor__ = __index__ = _refuse  # type: ignore[assignment]


class Numbers(tuple[int, ...]):
    """The numbers of a size that has one for each iteration: `known`, then any from `minimum` on.

    The interpreter asks it as it asks a tuple of numbers.
    """

    name: str
    minimum: int

    @classmethod
    def of(cls, name: str, minimum: int, known: tuple[int, ...]) -> Numbers:
        """Numbers of the size `name`."""
        numbers = cls(known)
        numbers.name, numbers.minimum = name, minimum
        return numbers

    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, place: int) -> int:  # type: ignore[override]
        try:
            return super().__getitem__(place)
        except IndexError:
            return AtLeast(self.minimum, f"{self.name}.{place}")
