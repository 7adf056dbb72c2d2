"""Places in a sync program, and the program with something else at a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from titan.sync import program as ir


def _inner_blocks(operation: ir.Operation) -> tuple[tuple[str, ir.Block], ...]:
    """The blocks of a loop or a branch, by the names of their fields."""
    match operation:
        case ir.Loop(body=body):
            return (("body", body),)
        case ir.Branch(then=then, otherwise=otherwise):
            return (("then", then), ("otherwise", otherwise))
    return ()


@dataclass(frozen=True, slots=True)
class MutationSite:
    """An operation of a role: (field, index) from the outermost block inwards."""

    role: int
    path: tuple[tuple[str, int], ...]
    operation: ir.Operation = field(compare=False)
    following: ir.Operation | None = field(compare=False, default=None)


def sites(program: ir.SyncProgram) -> Iterator[MutationSite]:
    """Every operation, control flow included, in program order."""
    for number, role in enumerate(program.roles):
        yield from _sites_of(number, role.body, ())


def _sites_of(
    role: int, block: ir.Block, outer: tuple[tuple[str, int], ...]
) -> Iterator[MutationSite]:
    for index, operation in enumerate(block):
        following = block[index + 1] if index + 1 < len(block) else None
        path = (*outer, ("", index))
        yield MutationSite(role, path, operation, following)
        for name, inner in _inner_blocks(operation):
            yield from _sites_of(role, inner, (*outer, (name, index)))


def replaced(
    program: ir.SyncProgram, site: MutationSite, replacement: ir.Block, width: int = 1
) -> ir.SyncProgram:
    """The program with `width` operations from the site on replaced."""
    role = program.roles[site.role]
    body = _replaced_in(role.body, site.path, replacement, width)
    roles = list(program.roles)
    roles[site.role] = replace(role, body=body)
    return replace(program, roles=tuple(roles))


def _replaced_in(
    block: ir.Block, path: tuple[tuple[str, int], ...], replacement: ir.Block, width: int
) -> ir.Block:
    (name, index), rest = path[0], path[1:]
    if not rest:
        return (*block[:index], *replacement, *block[index + width :])
    operation = block[index]
    changed: ir.Operation
    match operation, name:
        case ir.Loop(body=body), "body":
            changed = replace(operation, body=_replaced_in(body, rest, replacement, width))
        case ir.Branch(then=then), "then":
            changed = replace(operation, then=_replaced_in(then, rest, replacement, width))
        case ir.Branch(otherwise=otherwise), "otherwise":
            inner = _replaced_in(otherwise, rest, replacement, width)
            changed = replace(operation, otherwise=inner)
        case _:
            raise TypeError(f"{type(operation).__name__} has no inner block {name}")
    return (*block[:index], changed, *block[index + 1 :])
