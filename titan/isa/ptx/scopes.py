"""Names in a function: registers, labels and variables in nested `{}` scopes.

A block of inline assembly opens a scope; its registers and labels are its own. Labels may be used
before they stand, so they are resolved when the scope closes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from titan.isa.ptx.module import RegisterDeclaration, StateSpace, Variable

_ELEMENTS = ("xyzw", "rgba")  # names of the first four elements of a vector
_NUMBERED = re.compile(r"(.*?[^\d])(0|[1-9]\d*)$", re.S)


@dataclass(slots=True)
class PtxScope:
    """`families` are declarations such as `%r<208>`: prefix -> (type, count, elements); `vectors`
    have a register for each of their elements."""

    registers: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, tuple[int, ...]] = field(default_factory=dict)
    families: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # their names in the function
    # operands that name a label: (name, offset in the text, index of a hole to fill)
    uses: list[tuple[str, int, int]] = field(default_factory=list)


class Scopes:
    """The scopes that are open in a function, the outermost first."""

    def __init__(self) -> None:
        self.stack: list[PtxScope] = [PtxScope()]
        self.registers: list[RegisterDeclaration] = []

    @property
    def top(self) -> PtxScope:
        """The innermost open scope, which receives the declarations."""
        return self.stack[-1]

    def declare(self, name: str, type_: str, width: int = 1) -> bool:
        """Declare one register, or one vector of `width`; False if the scope has it already."""
        if name in self.top.registers or name in self.top.vectors:
            return False
        if width > 1:
            self._vector(self.top, name, type_, width)
        else:
            self.top.registers[name] = self._new(name, type_)
        return True

    def declare_family(self, prefix: str, type_: str, count: int, width: int = 1) -> bool:
        """Declare `prefix<count>` without making registers; False if the scope has the prefix."""
        if prefix in self.top.families:
            return False
        self.top.families[prefix] = (type_, count, width)
        return True

    def _new(self, name: str, type_: str) -> int:
        self.registers.append(RegisterDeclaration(name, type_))
        return len(self.registers) - 1

    def _vector(self, scope: PtxScope, name: str, type_: str, width: int) -> tuple[int, ...]:
        """A new vector: a register for each of its elements."""
        names = [*_ELEMENTS[0], *map(str, range(len(_ELEMENTS[0]), width))][:width]
        made = tuple(self._new(f"{name}.{element}", type_) for element in names)
        scope.vectors[name] = made
        return made

    def register(self, name: str) -> int | None:
        """The number of a register, or of an element of a vector (`name.x`, `name.r`), by its name,
        from the innermost scope outwards."""
        match = _NUMBERED.fullmatch(name)
        for scope in reversed(self.stack):
            number = scope.registers.get(name)
            if number is not None:
                return number
            if match is not None:
                family = scope.families.get(match.group(1))
                if family is not None and family[2] == 1 and int(match.group(2)) < family[1]:
                    scope.registers[name] = number = self._new(name, family[0])
                    return number
        stem, _, letter = name.rpartition(".")
        places = [letters.index(letter) for letters in _ELEMENTS if letter and letter in letters]
        found = self.vector(stem) if places and stem else None
        return found[places[0]] if found is not None and places[0] < len(found) else None

    def vector(self, name: str) -> tuple[int, ...] | None:
        """The registers of a vector by its name, from the innermost scope outwards."""
        match = _NUMBERED.fullmatch(name)
        for scope in reversed(self.stack):
            if name in scope.vectors:
                return scope.vectors[name]
            family = scope.families.get(match.group(1)) if match is not None else None
            if match is None or family is None or family[2] == 1:
                continue
            if int(match.group(2)) < family[1]:
                return self._vector(scope, name, family[0], family[2])
        return None

    def variable(self, name: str) -> str | None:
        """The name in the function of the variable that this name means here, if it is one."""
        found = (scope.variables[name] for scope in reversed(self.stack) if name in scope.variables)
        return next(found, None)

    def declare_variable(self, variable: Variable, others: Sequence[Variable]) -> Variable:
        """Declare a variable; `others` are those of the function. Another one of its name has
        another name in the function, unless both are arguments of calls of the same shape, which
        may share their memory."""
        names = {other.name: other for other in others}
        taken, number, name = {*names, *self.top.variables.values()}, 1, variable.name
        outer = self.variable(variable.name)
        while name in taken:
            other = names.get(name)
            if name != outer and other is not None and _alike(other, variable):
                break
            number += 1
            name = f"{variable.name}#{number}"
        self.top.variables[variable.name] = name
        return replace(variable, name=name)

    def known_registers(self) -> set[str]:
        """Names for a suggestion."""
        names: set[str] = set()
        for scope in self.stack:
            names.update(list(scope.registers)[:200])
        return names


def _alike(one: Variable, other: Variable) -> bool:
    """Whether two variables are arguments of calls that take the same memory."""
    shapes = [(v.space, v.type, v.size_bytes, v.alignment) for v in (one, other)]
    return shapes[0] == shapes[1] and one.space is StateSpace.PARAMETER
