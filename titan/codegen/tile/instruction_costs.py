"""Instructions by what they are for: `backends/<target>/instructions.yaml`, read and checked.

The numbers are fitted to counts of machine code by `benchmarks/fit_instructions.py`, which writes
the file; `titan/codegen/pipeline/instructions.py` says what each of them is multiplied with. A
target without the file has no such model.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from titan.foundation.resources import root
from titan.foundation.source.reader import Reader
from titan.foundation.source.yaml import parse_file
from titan.target.load import TargetRefused

# What an iteration consists of, for a thread: the names of the costs.
TERMS = (
    "loop", "turn", "product", "accumulation", "tile", "asked", "copied", "guarded", "operand",
    "fetched", "read", "stored", "arithmetic", "exponential", "quotient", "reduction", "row",
    "conversion", "rounded", "moved",
)  # fmt: skip
SCALE = 1000  # numbers of the file are thousandths of an instruction
MOST = 1 << 24
FILE = "instructions.yaml"


@dataclass(frozen=True, slots=True)
class InstructionCosts:
    """Instructions for one unit of each term; what is not there costs nothing. `source`: which
    compiler's code was counted, and how far off the numbers are there."""

    target: str
    costs: Table[str, float]
    source: str


@lru_cache(maxsize=64)
def instruction_costs(target: str) -> InstructionCosts | None:
    """The costs of a target; None where it has none. Raises TargetRefused for a faulty file."""
    path = root("backends") / target / FILE
    return load_costs(path) if path.is_file() else None


def load_costs(path: str | Path) -> InstructionCosts:
    """The costs of a file. Raises TargetRefused."""
    tree, errors = parse_file(path)
    reader = Reader(errors)
    costs: dict[str, float] = {}
    name = source = None
    if tree is not None:
        keys = ("titan", "instructions", "thousandths", "source")
        top = reader.mapping(tree, required=keys, what="the instructions")
        if top is not None and all(top.has(key) for key in keys):
            reader.choice(top["titan"], ("1",), "the format version")
            name = reader.identifier(top["instructions"], "the target")
            source = reader.string(top["source"], "`source`")
            inner = reader.mapping(top["thousandths"], optional=TERMS, what="`thousandths`")
            for term in inner or ():
                assert inner is not None
                number = reader.integer(inner[term], minimum=0, maximum=MOST, what=f"`{term}`")
                costs[term] = (number or 0) / SCALE
    if name is None or source is None or not reader.ok:
        raise TargetRefused(reader.errors)
    return InstructionCosts(name, costs, source)
