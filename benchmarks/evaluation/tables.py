"""What a table of the evaluation is: named by the question of the plan, with rows as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

NOT_RUN = "not run on a device"
Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """`question`: of the plan (A1 to D). `measured`: on what, in words.

    `plot`: series of points over an axis, drawn beside the table; `axes` are its two labels.
    """

    question: str
    title: str
    measured: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    plot: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    axes: tuple[str, str] = ("", "")


def data(table: Table) -> dict[str, object]:
    """A table as JSON data."""
    return asdict(table)


def from_data(item: Mapping[str, object]) -> Table:
    """A table from JSON data. Raises KeyError, TypeError."""
    plain = dict(item)
    for name in ("columns", "axes"):
        plain[name] = tuple(plain[name])  # type: ignore[call-overload]
    plain["rows"] = tuple(tuple(row) for row in plain["rows"])  # type: ignore[attr-defined]
    return Table(**plain)  # type: ignore[arg-type]
