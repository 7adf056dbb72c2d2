"""What an iteration of a shape issues, as a model that was fitted to machine code predicts.

The number of instructions of a computing warp in one iteration of the main loop is a sum over what
the iteration consists of (`terms`), each with a cost of its target
(`titan/codegen/tile/instruction_costs.py`). Counted is the usual way around the loop: that of all
products, exponentials and accesses, without masks of a last tile (`titan/inspect/counts.py`). A
model: compilers fuse and share what the terms count apart; docs/reference/sass.md has the
residuals.

Terms, for a thread: `loop` 1; `turn` 1 where groups take turns; `product` instructions of the
matrix unit; `accumulation` products as the program has them; `tile` loads of the loop, each of
which is waited for and released; `asked` those that the computing warps ask for themselves;
`copied` accesses of up to 16 bytes by which threads copy, `guarded` copies to LDS that are issued
only where a tile is left; `operand` reads of operands from LDS, of 16 bytes; `fetched`, `read`,
`stored` numbers from global memory, from shared memory, and to it; `arithmetic`, `exponential`,
`quotient`, `reduction`, `conversion` results by kind of operation; `rounded` conversions on AMD
that are left operands and no more; `row` results of any of them that are one for each row or
column; `moved` numbers from and to tensor memory.
"""

from __future__ import annotations

from titan.codegen.pipeline.cdna import copied_directly, copies_are_guarded, lane_bytes
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.alternation import may_alternate
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.cost import team_shape
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.instruction_costs import TERMS, InstructionCosts, instruction_costs
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.operations import KINDS, VECTORS, cost_class
from titan.codegen.tile.rates import Rates, rates
from titan.codegen.tile.roofline import contraction, operand_bytes, product_cycles, value_of
from titan.codegen.tile.wave_split import BLOCKS, LANES, WaveSplit, wave_split
from titan.target.description import target_of
from titan.target.load import machine

ACCESS_BYTES = 16  # of a lane
WARPGROUP_ROWS = 64  # of one product that a warpgroup issues
BY_CLASS = {
    "add": "arithmetic", "compare": "arithmetic", "relu": "arithmetic",
    "exponential": "exponential", "tanh": "exponential", "reciprocal": "quotient",
    "divide": "quotient", "gelu": "quotient", "silu": "quotient", "convert": "conversion",
    "row_max": "reduction", "row_sum": "reduction",
}  # fmt: skip


def predicted(
    tile: TileProgram, shape: Shape, costs: InstructionCosts | None = None
) -> float | None:
    """Instructions of a computing warp in an iteration; None where the model has no numbers for the
    target, or no warp computes in the loop."""
    costs = costs or instruction_costs(tile.target)
    if costs is None:
        return None
    found = terms(tile, shape)
    if found is None:
        return None
    return sum(costs.costs.get(name, 0.0) * amount for name, amount in found.items())


def terms(tile: TileProgram, shape: Shape) -> dict[str, float] | None:
    """What an iteration consists of, for a thread of the computing warps, in the order of `TERMS`;
    None where none of them computes in the loop: products alone, in tensor memory."""
    known = rates(tile.target)
    tensor = known.matrix.result == "tensor"
    if tensor and all(item.kind in ("load", "mma") for item in tile.body):
        return None
    found = dict.fromkeys(TERMS, 0.0)
    found["loop"] = 1.0
    found["turn"] = float(shape.ping_pong)
    for item in tile.body:
        if item.kind == "load":
            _load(tile, shape, item, found)
        elif item.kind == "mma":
            if not tensor:
                _product(tile, shape, item, known, found)
        elif not _by_others(tile, item, tensor):
            _computed(tile, item, known, found)
    if tensor:
        found["moved"] = sum(held(tile, value, known) for value in _moved(tile))
    return found


def _load(tile: TileProgram, shape: Shape, item: TileOperation, found: dict[str, float]) -> None:
    """A tile: copied by an engine that another warp asks, by the warps, or number by number."""
    found["tile"] += 1
    value = item.value
    amount = value.rows * value.columns * bytes_of(value.dtype)
    if target_of(tile.target).amd:
        direct = not shape.staged and copied_directly(tile)
        width = lane_bytes(tile, value) if direct else ACCESS_BYTES
        copies = amount / (_threads(tile) * max(1, width))
        found["asked" if direct else "copied"] += copies
        if direct and copies_are_guarded(shape):
            found["guarded"] += copies
    elif not shape.specialised and shape.guarded:
        found["copied"] += amount / (_threads(tile) * ACCESS_BYTES)
    elif not shape.specialised:
        found["asked"] += 1


def _product(
    tile: TileProgram, shape: Shape, item: TileOperation, known: Rates, found: dict[str, float]
) -> None:
    """A product that the computing warps issue."""
    found["accumulation"] += 1
    if known.matrix.operands == "registers":
        cycles = product_cycles(tile, item, known) * known.groups.together / tile.groups
        smaller = BLOCKS[0] // _waves(tile).block
        found["product"] += smaller * cycles / known.matrix.latency_cycles
        read = operand_bytes(tile, item, known)
        found["operand"] += read / (_threads(tile) * ACCESS_BYTES)
        return
    value = item.value
    left = value_of(tile, item.operands[0])
    depth = contraction(tile, item) * bytes_of(left.dtype) / known.matrix.contraction_bytes
    groups = 1 if may_alternate(tile) else tile.groups
    across = max(1.0, value.rows / groups / WARPGROUP_ROWS)
    found["product"] += across * -(-value.columns // known.matrix.columns_most) * depth


def _computed(
    tile: TileProgram, item: TileOperation, known: Rates, found: dict[str, float]
) -> None:
    """What threads do with numbers: as many as each of them holds."""
    if item.kind in ("store", "share"):
        source = value_of(tile, item.operands[0])
        if source.place is not ValuePlace.SHARED:
            found["stored"] += held(tile, source, known)
        elif not known.transfer.engine:
            size = source.rows * source.columns * bytes_of(source.dtype)
            found["copied"] += size / (_threads(tile) * ACCESS_BYTES)
        return
    kind = KINDS[item.kind]
    counted = item.value if kind.elements == "result" else value_of(tile, item.operands[0])
    amount = held(tile, counted, known)
    if item.kind in VECTORS:
        found["fetched"] += amount
    elif item.kind == "read":
        found["read"] += amount
    elif counted.place is not ValuePlace.FRAGMENT:
        found["row"] += amount
    elif target_of(tile.target).amd and _feeds(tile, item, "convert", ("mma",)):
        found["rounded"] += amount
    elif target_of(tile.target).amd and _feeds(tile, item, "scale", ("add", "subtract")):
        pass  # one instruction with the sum
    elif item.kind != "mask":  # the usual way leaves it out
        found[BY_CLASS[cost_class(kind, item.function)]] += amount


def _feeds(tile: TileProgram, item: TileOperation, kind: str, users: tuple[str, ...]) -> bool:
    """Whether an operation is of a kind, and all that take its result are of others."""
    takers = [one.kind for one in tile.operations if item.name in one.operands]
    return item.kind == kind and all(one in users for one in takers)


def held(tile: TileProgram, value: Value, known: Rates) -> float:
    """The numbers of a value that one computing thread holds."""
    of_row, of_column = known.lanes_per_row, known.lanes_per_column * tile.groups
    if target_of(tile.target).amd:  # a lane has a row of each block, and a part of its columns
        split = _waves(tile)
        of_row, of_column = LANES // split.block * split.parts[1], split.block * split.parts[0]
    if value.place is ValuePlace.ROW:
        copies = value.rows * of_row
    elif value.place is ValuePlace.COLUMN:
        copies = value.columns * of_column
    else:
        copies = value.rows * value.columns
    return copies / _threads(tile)


def _waves(tile: TileProgram) -> WaveSplit:
    """How the waves of AMD share a fragment."""
    return wave_split(tile) or WaveSplit((tile.groups, 1), BLOCKS[0])


def _threads(tile: TileProgram) -> int:
    """All threads that compute."""
    known = rates(tile.target)
    teams, warps = team_shape(tile, known)
    return teams * warps * machine(tile.target).threads_per_warp


def _by_others(tile: TileProgram, item: TileOperation, tensor: bool) -> bool:
    """Whether another role than the softmax computes it: the correction of attention."""
    if not tensor:
        return False
    try:
        parts = attention_of(tile)
    except NotAttention:
        return False
    return item.name == parts.correct.name


def _moved(tile: TileProgram) -> list[Value]:
    """What passes between tensor memory and the registers of the warps that compute."""
    products = {item.name: item for item in tile.body if item.kind == "mma"}
    taken = {name for item in tile.body if item.kind != "mma" for name in item.operands}
    carried = {item.value.name for item in tile.carried}
    made = {item.name: item for item in tile.body if item.kind not in ("mma", "load")}
    given = [
        made[name].value for item in products.values() for name in item.operands[:2] if name in made
    ]
    return [products[name].value for name in sorted(taken & set(products) - carried)] + given
