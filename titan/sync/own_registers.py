"""Registers: a buffer in registers exists once in every agent that uses it.

A file declares `R: {space: register}` once, and each warp or warpgroup has an R of its own, since
no instruction reads registers of other threads. Where several agents use such a buffer, each role
gets a buffer and each agent of a role the parts of it that its constant selects. A buffer that
one agent uses, or whose stages or parts are chosen by that constant throughout, stays as it is;
buffers of a declared storage do, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.sync import program as ir
from titan.sync.expression import Constant, Name, binary, names_of
from titan.sync.parts import effects_of


def own_registers(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with registers of its own for every agent."""
    users = {
        buffer.name: [role for role in program.roles if any(_effects(role, buffer.name))]
        for buffer in program.buffers
        if buffer.space is ir.Space.REGISTER and not buffer.storage
    }
    users = {name: roles for name, roles in users.items() if _to_divide(name, roles)}
    if not users:
        return program
    buffers: list[ir.Buffer] = []
    for buffer in program.buffers:
        for role in users.get(buffer.name, ()):
            name = _name(buffer.name, role, users)
            buffers.append(replace(buffer, name=name, parts=buffer.parts * role.agents))
        if buffer.name not in users:
            buffers.append(buffer)
    parts = {buffer.name: buffer.parts for buffer in program.buffers if buffer.name in users}
    roles = tuple(
        replace(role, body=_Registers(role, parts, users).block(role.body))
        for role in program.roles
    )
    return replace(program, buffers=tuple(buffers), roles=roles)


def _effects(role: ir.Role, name: str) -> Iterator[ir.Effect]:
    for operation in ir.walk(role.body):
        yield from (effect for effect in effects_of(operation) if effect.buffer == name)


def _to_divide(name: str, roles: list[ir.Role]) -> bool:
    """Whether several agents would use one register."""
    if len(roles) != 1:
        return len(roles) > 1
    (role,) = roles
    if role.agents == 1:
        return False
    return not all(
        role.agent_constant in names_of(effect.stage)
        or (effect.part is not None and role.agent_constant in names_of(effect.part))
        for effect in _effects(role, name)
    )


def _name(name: str, role: ir.Role, users: dict[str, list[ir.Role]]) -> str:
    return name if len(users[name]) == 1 else f"{name}@{role.name}"


class _Registers:
    """One role's operations, moved to the registers that its agents have."""

    def __init__(
        self, role: ir.Role, parts: dict[str, int], users: dict[str, list[ir.Role]]
    ) -> None:
        self._role, self._parts, self._users = role, parts, users

    def block(self, block: ir.Block) -> ir.Block:
        return tuple(self._operation(operation) for operation in block)

    def _operation(self, operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Loop):
            return replace(operation, body=self.block(operation.body))
        if isinstance(operation, ir.Branch):
            then, otherwise = self.block(operation.then), self.block(operation.otherwise)
            return replace(operation, then=then, otherwise=otherwise)
        if isinstance(operation, ir.Access | ir.Asynchronous):
            effects = tuple(own for effect in operation.effects for own in self._own(effect))
            return replace(operation, effects=effects)
        return operation

    def _own(self, effect: ir.Effect) -> Iterator[ir.Effect]:
        """The effect on the agent's own registers: one for each part that it touches."""
        if effect.buffer not in self._parts:
            yield effect
            return
        role, name = self._role, _name(effect.buffer, self._role, self._users)
        if role.agents == 1:
            yield replace(effect, buffer=name)
            return
        parts = [Constant(part) for part in range(self._parts[effect.buffer])]
        for part in parts if effect.part is None else [effect.part]:
            # The agents' parts of one number are neighbours: what is outside stays outside.
            first = binary("*", part, Constant(role.agents))
            own = binary("+", first, Name(role.agent_constant))
            yield replace(effect, buffer=name, part=own)
