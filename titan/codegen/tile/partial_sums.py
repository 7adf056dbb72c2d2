"""Which row sums of a loop each lane may keep for its own columns, until the loop is over.

A carried row value `c` that begins with 0 and takes `c' + row_sum(x)`, where c' is c or c times a
row value or a number, is linear in what is summed. So lanes that share a row need not add up their
parts in each iteration: each keeps the sum of its own columns, and they are added where the first
operation behind the loop reads `c`, which computes a row value, too. Nothing else may read `c`, or
what is between, in the loop.

The result is that of other parentheses around the same sum. Decides speed alone. Source:
FlashAttention-3 (row sums are reduced once, at the end).
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.tile.model import Carried, TileOperation, TileProgram, ValuePlace

FACTORS = ("multiply", "scale")  # that keep a partial sum one: row values and numbers


@dataclass(frozen=True, slots=True)
class PartialSums:
    """`sums`: names of `row_sum` operations that lanes keep apart. `whole_before`: of operations
    behind the loop, the carried values that are added up in front of them."""

    sums: frozenset[str] = frozenset()
    whole_before: tuple[tuple[str, str], ...] = ()

    def completed(self, operation: str) -> tuple[str, ...]:
        """The carried values that lanes add up in front of an operation."""
        return tuple(value for reader, value in self.whole_before if reader == operation)


def partial_sums(tile: TileProgram) -> PartialSums:
    """The sums of a tile program that are kept so."""
    sums: set[str] = set()
    before: list[tuple[str, str]] = []
    for carried in tile.carried:
        name = carried.value.name
        own = _own_sum(tile, carried)
        reader = next((one for one in tile.after if name in one.operands), None)
        if own is not None and reader is not None and _of_rows(reader):
            sums.add(own)
            before.append((reader.name, name))
    return PartialSums(frozenset(sums), tuple(before))


def _own_sum(tile: TileProgram, carried: Carried) -> str | None:
    """The `row_sum` that a carried value adds up, if lanes may keep it apart."""
    name = carried.value.name
    body = {one.name: one for one in tile.body}
    following = body.get(carried.next)
    if carried.value.place is not ValuePlace.ROW or carried.initial != 0 or following is None:
        return None
    if following.kind != "add" or len(set(following.operands)) != 2:
        return None
    for kept, added in (following.operands, following.operands[::-1]):
        way = _way(body, name, kept)
        summed = body.get(added)
        if way is None or summed is None or summed.kind != "row_sum":
            continue
        # What each value of the loop is read by: the next one on the way, and nothing else.
        read_by = dict(zip(way, [*way[1:], carried.next], strict=True)) | {added: carried.next}
        alone = all(_readers(tile, one) == [reader] for one, reader in read_by.items())
        taken = {one.next for one in tile.carried if one is not carried}
        if alone and not _readers(tile, carried.next) and not {*read_by, carried.next} & taken:
            return added
    return None


def _way(body: dict[str, TileOperation], first: str, last: str) -> list[str] | None:
    """The names from the carried value to the last one; None unless only factors are between."""
    way = [last]
    while way[0] != first:
        operation = body.get(way[0])
        if operation is None or operation.kind not in FACTORS:
            return None
        sources = [one for one in operation.operands if _leads_to(body, one, first)]
        # A product of the carried value with itself is no sum of what lanes have.
        if len(sources) != 1 or not _of_rows(operation):
            return None
        way.insert(0, sources[0])
    return way


def _of_rows(operation: TileOperation) -> bool:
    """Whether the result is a number for each row: it is computed once, and whole."""
    return operation.result is not None and operation.result.place is ValuePlace.ROW


def _leads_to(body: dict[str, TileOperation], name: str, first: str) -> bool:
    """Whether a value is made from the carried one within the iteration."""
    operation = body.get(name)
    return name == first or (
        operation is not None and any(_leads_to(body, one, first) for one in operation.operands)
    )


def _readers(tile: TileProgram, name: str) -> list[str]:
    """The operations that read a value; the carried one behind the loop is another matter."""
    carried = {one.value.name for one in tile.carried}
    where = tile.body if name in carried else tile.operations
    return [one.name for one in where if name in one.operands]
