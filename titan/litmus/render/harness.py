"""What the template of every rendering in bulk has to know: sizes, cells, outcomes, digits.

`backends/common/litmus_harness.j2` is the one text of the harness; the templates of the languages
extend it. What only one language has (tensor maps, XCDs) its own module adds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from titan.litmus.language.ast import FinalMemory
from titan.litmus.render.instructions import pointer
from titan.litmus.render.layout import LitmusLayout
from titan.litmus.render.manifest import RenderOptions, parameters
from titan.litmus.render.outcomes import Outcomes
from titan.litmus.render.places import Cell, LitmusRegion


def harness(
    layout: LitmusLayout, outcomes: Outcomes, options: RenderOptions, bindings: set[str]
) -> dict[str, object]:
    """The names that the harness uses, less `seats`."""
    return {
        "layout": layout,
        "outcomes": outcomes,
        "shared_stride": max(layout.shared_bytes, 16),
        "shared_max": layout.device.shared_bytes_max,
        "target": ", ".join(options.targets),
        "warp_threads": layout.device.warp_threads,
        "memory_views": layout.views[LitmusRegion.MEMORY],
        "limits": options.limits,
        "slots_per_cta": options.slots_per_cta,
        "parameters": parameters(layout, bindings),
        "cells": [cell_context(cell) for cell in layout.cells.values()],
        "finals": [
            {
                "slot": slot,
                "images": layout.cells[term.location].images,
                "other": _other(outcomes.domains[term]),
                **cell_context(layout.cells[term.location]),
            }
            for term, slot in outcomes.slots.items()
            if isinstance(term, FinalMemory)
        ],
        "digits": [
            {"slot": slot, "values": outcomes.domains[term]}
            for term, slot in outcomes.slots.items()
        ],
    }


def _other(domain: tuple[int, ...]) -> int:
    """A value without a digit."""
    return next(value for value in count() if value not in domain)


def cell_context(cell: Cell) -> dict[str, object]:
    """A location as templates see it."""
    return {
        "cta": cell.cta,
        "offset": cell.offset,
        "initial": cell.location.initial,
        "count": cell.location.count,
        "region": cell.region.value,
        "map": cell.is_map,
        "alias": cell.location.alias_of is not None,
        "pointer": pointer(replace(cell, view=0)) if not cell.shared else "",
    }
