"""How many exponentials of a loop a polynomial computes, so that two kinds of units end together.

Special functions are slow: where a loop takes more exponentials than arithmetic hides, a share of
them is computed by multiplications and additions (`polynomial` in `rates.yaml`: what one result
occupies). The share is the least, in sixteenths, at which the special functions of an iteration no
longer take longer than the issue slots of everything that warps compute, or than eleven twelfths of
the cycles of the matrix unit, which then has the rest to wait for nobody.

A polynomial has a relative error of 2^-13.5, special functions of 2^-22: results are taken from it
only where a type of 16 bits rounds them (2^-9 in bf16, 2^-12 in f16), or where they are summed.
Decides speed alone. Source: FlashAttention-4 (share of exponentials by a polynomial).
"""

from __future__ import annotations

from titan.codegen.tile.model import TileOperation, TileProgram, ValuePlace
from titan.codegen.tile.operations import KINDS, cost_class
from titan.codegen.tile.rates import Rates, rates

SHARES = 16
LANES_ISSUED = 128  # a cycle: four schedulers, a warp each; packed arithmetic has two results
MATRIX_SHARE = 11 / 12
# What other units do, and masks, which only the last tile needs.
LEFT_OUT = ("load", "store", "vector", "element", "read", "mma", "mask")


def polynomial_shares(tile: TileProgram) -> dict[str, int]:
    """Of each `exp2` of the loop that may be rounded so, how many of `SHARES` results are."""
    known = rates(tile.target)
    coarse = [operation.name for operation in tile.body if _may_be_coarse(tile, operation)]
    if known.polynomial is None or not coarse:
        return {}
    share = next((n for n in range(SHARES) if _balanced(tile, known, set(coarse), n)), SHARES // 2)
    return dict.fromkeys(coarse, share) if share else {}


def _may_be_coarse(tile: TileProgram, operation: TileOperation) -> bool:
    """Whether all that reads the exponentials narrows them to 16 bits, or adds up rows."""
    result = operation.result
    if operation.kind != "exp2" or result is None or result.place is not ValuePlace.FRAGMENT:
        return False
    carried = {item.next for item in tile.carried}
    readers = [one for one in tile.operations if operation.name in one.operands]
    narrowed = [one for one in readers if one.kind == "convert"]
    fine = all(one.kind in ("convert", "row_sum") for one in readers)
    wide = [one for one in narrowed if one.value.dtype not in ("bf16", "f16")]
    return bool(narrowed) and fine and not wide and operation.name not in carried


def _balanced(tile: TileProgram, known: Rates, coarse: set[str], share: int) -> bool:
    """Whether special functions take no more cycles than all issue slots together."""
    values = {one.name: one.result for one in tile.operations}
    values |= {one.value.name: one.value for one in tile.carried}
    unit = known.classes["exponential"].uses[0][0]
    special, slots = 0.0, 0.0
    for operation in tile.body:
        if operation.kind in LEFT_OUT or operation.result is None:
            continue
        kind = KINDS[operation.kind]
        counted = operation.result if kind.elements == "result" else values[operation.operands[0]]
        assert counted is not None and known.polynomial is not None
        copies = known.lanes_per_row if counted.place is ValuePlace.ROW else 1
        amount = counted.rows * counted.columns * copies
        coarsely = amount * share / SHARES if operation.name in coarse else 0.0
        for name, per_cycle in known.classes[cost_class(kind, operation.function)].uses:
            special += (amount - coarsely) / per_cycle if name == unit else 0.0
            slots += (amount - coarsely) / max(per_cycle, LANES_ISSUED)
        slots += sum(coarsely / per_cycle for _, per_cycle in known.polynomial.uses)
    return special <= max(slots, MATRIX_SHARE * _matrix_cycles(tile, known))


def _matrix_cycles(tile: TileProgram, known: Rates) -> float:
    """Cycles of the matrix unit in one iteration."""
    values = {one.name: one.result for one in tile.operations}
    total = 0.0
    for operation in tile.body:
        left = values.get(operation.operands[0]) if operation.kind == "mma" else None
        if left is not None:
            depth = left.rows if operation.transpose[0] else left.columns
            work = operation.value.rows * operation.value.columns * depth
            total += work / known.matrix.per_cycle[left.dtype]
    return total
