"""Blocks of a function that jump to each other, as regions of `scf.if`.

A kernel that returns early is printed as blocks with `cf.cond_br`. No block comes back to an
earlier one, so each way through them ends at a return: a jump is followed by the block that it
reaches, and a block that two ways reach stands in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from titan.foundation.errors import TitanError
from titan.frontends.ttgir.model import Block, TtgirOperation

COPIES_MAX = 256  # of blocks, where ways meet again
_TARGET = re.compile(r"\^(\w+)\s*(?:\(([^)]*)\))?")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")


class UnstructuredError(TitanError):
    """Control flow that is no tree of branches, at one operation."""

    def __init__(self, operation: TtgirOperation, message: str) -> None:
        super().__init__(message)
        self.operation = operation


@dataclass(slots=True)
class _Ways:
    blocks: Mapping[str, Block]
    copies: int = 0

    def from_block(self, block: Block, names: Mapping[str, str], passed: tuple[str, ...]) -> Block:
        """The block, and in it all that follows; `names` of block arguments as they are here."""
        operations = [_renamed(one, names) for one in block.operations]
        last = operations[-1] if operations else None
        if last is None or not last.name.startswith("cf."):
            return replace(block, operations=operations)
        targets = [(found[1], found[2] or "") for found in _TARGET.finditer(last.header)]
        if last.name == "cf.br" and len(targets) == 1:
            behind = self._reached(last, targets[0], passed)
            return replace(block, operations=[*operations[:-1], *behind.operations])
        if last.name == "cf.cond_br" and len(targets) == 2 and last.operands:
            arms = [self._reached(last, target, passed) for target in targets]
            branch = replace(last, name="scf.if", operands=last.operands[:1], regions=arms)
            return replace(block, operations=[*operations[:-1], branch])
        raise UnstructuredError(last, "a jump of this kind is not read")

    def _reached(self, jump: TtgirOperation, to: tuple[str, str], passed: tuple[str, ...]) -> Block:
        label, given = to
        target = self.blocks.get(label)
        if target is None:
            raise UnstructuredError(jump, f"no block is called ^{label}")
        self.copies += 1
        if label in passed or self.copies > COPIES_MAX:
            raise UnstructuredError(jump, "loops that are no `scf.for` or `scf.while` are not read")
        values = _VALUE.findall(given.partition(":")[0])
        if len(values) != len(target.arguments):
            raise UnstructuredError(jump, f"^{label} takes another number of values")
        names = {name: value for (name, _), value in zip(target.arguments, values, strict=True)}
        return self.from_block(target, names, (*passed, label))


def structured(blocks: list[Block]) -> Block:
    """The blocks of a function, the first of which it begins with, as one.

    Raises UnstructuredError.
    """
    if len(blocks) == 1:
        return blocks[0]
    ways = _Ways({block.label: block for block in blocks[1:]})
    return ways.from_block(blocks[0], {}, ())


def _renamed(operation: TtgirOperation, names: Mapping[str, str]) -> TtgirOperation:
    """The operation with other names for values that it uses."""
    if not names:
        return operation

    def in_text(text: str) -> str:
        return _VALUE.sub(lambda found: names.get(found[0], found[0]), text)

    regions = [
        replace(region, operations=[_renamed(one, names) for one in region.operations])
        for region in operation.regions
    ]
    operands = tuple(names.get(name, name) for name in operation.operands)
    return replace(operation, operands=operands, header=in_text(operation.header), regions=regions)
