"""The Pareto table of regular schedules: latency, units, registers, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from titan.scheduling.regular import RegularPoint

HEADINGS = ("latency, cycles", "units in use", "registers, words", "capacity", "wishes", "")


def render(points: Sequence[RegularPoint]) -> str:
    """A table; points of the front are marked with a star."""
    rows = [
        (
            str(point.latency_cycles),
            str(point.units),
            str(point.registers),
            f"{point.copies}x",
            point.produced_by,
            "*" if point.front else "",
        )
        for point in points
    ]
    widths = [max(len(row[i]) for row in (HEADINGS, *rows)) for i in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (HEADINGS, *rows)
    ]
    return (
        "\n".join([*lines, "* on the Pareto front: no other point is as good in all three"]) + "\n"
    )


def as_json(points: Sequence[RegularPoint]) -> str:
    """The same points; units of measure are in the names."""
    data = [
        {
            "latency_cycles": point.latency_cycles,
            "units": point.units,
            "registers_words": point.registers,
            "capacity_copies": point.copies,
            "produced_by": point.produced_by,
            "front": point.front,
            "starts_cycles": list(point.schedule.starts),
        }
        for point in points
    ]
    return json.dumps({"regular_schedules": data}, indent=2) + "\n"
