"""Counters that a loop carries on behalf of the loop around it become one counter.

An inner loop starts its counter `y` from the outer loop's `x`, and hands it back behind its last
trip: `y = x; ...; x = y`. Between the two nothing names `x`, and nothing else names `y`, so `y` is
`x` under another name. Two counters that grow where one would do keep a search for any number from
closing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from titan.engines.explore.loops import names_in, renamed
from titan.sync import program as ir
from titan.sync.expression import Name


def without_copies(body: ir.Block) -> ir.Block:
    """The body with one counter in place of two, wherever that is so."""
    while True:
        shorter = _once(body, Counter(mentions(body)))
        if shorter is None:
            return body
        body = shorter


def mentions(block: ir.Block) -> Iterator[str]:
    """The names of each operation, once for every operation that has them itself."""
    for operation in block:
        match operation:
            case ir.Loop(variable=variable, start=start, stop=stop, body=body):
                yield from names_in(start) | names_in(stop) | {variable}
                yield from mentions(body)
            case ir.Branch(condition=condition, then=then, otherwise=otherwise):
                yield from names_in(condition)
                yield from mentions((*then, *otherwise))
            case _:
                yield from names_in(operation)


def _once(block: ir.Block, everywhere: Counter[str]) -> ir.Block | None:
    """The block with one pair of copies less, or None where there is none."""
    for first, operation in enumerate(block):
        if isinstance(operation, ir.Loop):
            inner = _once(operation.body, everywhere)
            if inner is not None:
                return (*block[:first], replace(operation, body=inner), *block[first + 1 :])
        elif isinstance(operation, ir.Branch):
            then = _once(operation.then, everywhere)
            otherwise = None if then is not None else _once(operation.otherwise, everywhere)
            if then is not None or otherwise is not None:
                changed = replace(
                    operation,
                    then=operation.then if then is None else then,
                    otherwise=operation.otherwise if otherwise is None else otherwise,
                )
                return (*block[:first], changed, *block[first + 1 :])
        elif isinstance(operation, ir.Assign) and isinstance(operation.value, Name):
            last = _handed_back(block, first, everywhere)
            if last is not None:
                old, kept = operation.variable, operation.value.name
                within = tuple(_under(item, old, kept) for item in block[first + 1 : last])
                return (*block[:first], *within, *block[last + 1 :])
    return None


def _handed_back(block: ir.Block, first: int, everywhere: Counter[str]) -> int | None:
    """The place of `x = y` for the `y = x` at `first`."""
    copy = block[first]
    assert isinstance(copy, ir.Assign) and isinstance(copy.value, Name)
    counter, outer = copy.variable, copy.value.name
    for last in range(first + 1, len(block)):
        item = block[last]
        if isinstance(item, ir.Assign) and item.variable == outer:
            if item.value != Name(counter):
                return None
            inside = Counter(mentions(block[first : last + 1]))
            alone = inside[outer] == 2 and inside[counter] == everywhere[counter]
            return last if alone else None
    return None


def _under(operation: ir.Operation, old: str, new: str) -> ir.Operation:
    """The operation with the counter under its other name, also where it is set."""
    changed = renamed(operation, old, new)
    match changed:
        case ir.Assign(variable=variable) if variable == old:
            return replace(changed, variable=new)
        case ir.Loop(body=body):
            return replace(changed, body=tuple(_under(item, old, new) for item in body))
        case ir.Branch(then=then, otherwise=otherwise):
            arms = [tuple(_under(item, old, new) for item in arm) for arm in (then, otherwise)]
            return replace(changed, then=arms[0], otherwise=arms[1])
    return changed
