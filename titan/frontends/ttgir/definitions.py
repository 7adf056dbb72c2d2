"""Whether every value of a function is defined before it is used.

Triton prints no other text. One that was cut or edited may name a value that nothing defines; what
reads it would count as data, and an operand in memory be left out of an access.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from titan.frontends.ttgir.model import Block, TtgirFunction, TtgirOperation

_CARRIED = re.compile(r"(%[\w$.-]+)\s*=\s*%")  # `iter_args(%a = %b)`, `scf.while (%a = %b)`


def undefined_values(function: TtgirFunction) -> Iterator[tuple[TtgirOperation, str, set[str]]]:
    """Operations with the name of a value that is not defined there, and the names that are."""
    yield from _in_block(function.body, {name for name, _ in function.arguments})


def _in_block(block: Block, around: set[str]) -> Iterator[tuple[TtgirOperation, str, set[str]]]:
    defined = around | {name for name, _ in block.arguments}
    for operation in block.operations:
        own = set(_CARRIED.findall(operation.header))
        if operation.name == "scf.for":
            own.update(operation.operands[:1])
        for name in dict.fromkeys(operation.operands):
            if name not in defined and name not in own:
                yield operation, name, defined
        for region in operation.regions:
            yield from _in_block(region, defined | own)
        for name in operation.results:
            defined |= {name, name.partition("#")[0]}
