"""From the number of a work item to its coordinates, in CUDA C++."""

from __future__ import annotations

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.manifest import work_counts
from titan.codegen.emit.names import mangled
from titan.codegen.tile.model import TileProgram


def coordinate_lines(tile: TileProgram, scope: SpellingScope, ctas: int) -> list[str]:
    """The last coordinate varies fastest; `@item@` is the number, which the first one takes whole.

    What descends is its count less what ascends.
    """
    constant = "[[maybe_unused]] const"
    lines = ["[[maybe_unused]] int titan_item = @item@;"]
    counts = work_counts(tile, ctas)
    for number, dimension in enumerate(reversed(tile.work)):
        name = mangled("w", dimension.name, "a work coordinate")
        count = scope.text(counts[-1 - number])
        first = number == len(tile.work) - 1
        place = "titan_item" if first else f"titan_item % ({count})"
        if dimension.name in tile.descending:
            place = f"({count}) - 1 - {place}"
        lines.append(f"{constant} int {name} = {place};")
        if not first:
            lines.append(f"titan_item /= {count if count.isidentifier() else f'({count})'};")
    return lines
