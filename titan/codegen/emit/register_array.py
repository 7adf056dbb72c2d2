"""How the threads of a warpgroup keep a value in registers, as the templates spell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class RegisterArray:
    """How an agent keeps a value: `form` is float, pair, row or column.

    `m` blocks of rows, of which a statement deals with `first` up to `last`; `row0` is the first
    row of a thread, and its next block is `step` rows further. A fragment is spread over four
    lanes a row, with two rows of a block in each (64 rows a block), or `whole`: a lane has all of
    one row (128 rows a block). Columns are dealt with from `begin` up to `end`, all of them where
    that is 0. `holds`: the values that one storage has one after the other.
    """

    name: str
    form: str
    type: str
    m: int
    rows: int
    first: int
    last: int
    columns: int
    value: str
    row0: str
    step: int
    holds: tuple[str, ...] = ()
    begin: int = 0
    end: int = 0
    whole: bool = False
    registers: ClassVar[bool] = True

    @property
    def across(self) -> int:
        """How many rows of a block a thread has something of."""
        return 1 if self.whole else 2

    @property
    def spread(self) -> int:
        """Columns of the value for one pair of neighbouring columns in each thread."""
        return 2 if self.whole else 4
