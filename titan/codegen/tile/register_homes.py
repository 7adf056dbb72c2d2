"""Which values of a tile program have registers in common, as they are computed in order."""

from __future__ import annotations

from titan.codegen.tile.model import TileProgram


def registers_of(tile: TileProgram) -> dict[str, str]:
    """For every value whose registers it has: a sum and what continues with it share theirs, but
    where the sum is read later, too."""
    home = {operation.name: operation.name for operation in tile.operations}
    home |= {item.value.name: item.value.name for item in tile.carried}

    def find(name: str) -> str:
        while home[name] != name:
            name = home[name]
        return name

    operations = tile.operations
    products = {operation.name for operation in operations if operation.kind == "mma"}
    carried = {item.value.name for item in tile.carried}
    for number, operation in enumerate(operations, 1):
        if operation.kind == "mma" and len(operation.operands) > 2:
            name = operation.operands[2]
            if name in carried or not any(name in one.operands for one in operations[number:]):
                home[find(name)] = find(operation.name)
    for item in tile.carried:
        if item.next in products:
            home[find(item.value.name)] = find(item.next)
    return {name: find(name) for name in home}
