"""Calls of functions replaced by what they do, where that says more than a call.

A call passes arguments through memory of the thread, and what a function does is followed there
without what its callers know: a result of `try_wait` on which a caller loops, a pointer of a caller
that data let call. So a module gets the body of a function in place of each of its calls, with
registers and labels of its own; its parameters become the variables that the caller passes. A
variable that is only written and read whole is a register then. What stays a call: functions
with a loop that does not wait for an mbarrier, that call themselves, that have static variables,
that may use or give what they have not written (a body would find it as it left it the last time),
or that are called in a form which has no meaning here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from titan.isa.ptx.body import symbols
from titan.isa.ptx.certain_values import values_are_certain
from titan.isa.ptx.labels import labels_of, with_labels
from titan.isa.ptx.module import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Negated,
    Operand,
    Pair,
    PtxRegister,
    PtxTarget,
    RegisterDeclaration,
    StateSpace,
    Symbol,
    Variable,
    Vector,
)

ADDED_MAX = 20_000  # instructions; behind that, calls stay
_WAITS = ("test_wait", "try_wait")
_WORDS = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def inlined(module: Module) -> Module:
    """The module with the bodies of functions in place of calls; itself where there are none."""
    if not any(item.opcode == "call" for item in module.instructions):
        return module
    bodies = _Bodies(module)
    made = [bodies.of(function) for function in module.functions]
    dropped = bodies.replaced - _named(module, made)
    instructions: list[Instruction] = []
    functions: list[Function] = []
    for body in (_in_registers(body) for body in made if body.function.name not in dropped):
        start = len(instructions)
        instructions += [_moved(item, start) for item in body.items]
        functions.append(replace(body.function, start=start, end=len(instructions)))
    return replace(module, functions=tuple(functions), instructions=tuple(instructions))


def _moved(item: Instruction, start: int) -> Instruction:
    """An instruction of a body that begins at `start`."""
    operands = (with_labels(operand, lambda at: start + at) for operand in item.operands)
    return replace(item, operands=tuple(operands))


def reached_from(module: Module, entry: Function) -> set[str]:
    """The functions that an entry may call, by their names, and itself: those that are named by
    what may be executed, or by a variable."""
    bodies = {f.name: f for f in module.functions if not f.declared and not f.entry}
    found = {entry.name}
    waiting = [entry, *(bodies[name] for name in _named(module, ()) if name in bodies)]
    found |= {function.name for function in waiting}
    while waiting:
        function = waiting.pop()
        for item in module.instructions[function.start : function.end]:
            new = {name for name in _names(item) if name in bodies} - found
            found |= new
            waiting += [bodies[name] for name in new]
    return found


@dataclass(slots=True)
class _Body:
    """A function whose labels count from its start."""

    function: Function
    items: list[Instruction]


@dataclass(slots=True)
class _Bodies:
    """The functions of a module, each with the bodies of others in place of its calls."""

    module: Module
    added: int = 0
    replaced: set[str] = field(default_factory=set)  # functions that some call got the body of
    _made: dict[str, _Body] = field(default_factory=dict)
    _fitting: dict[str, bool] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    def of(self, function: Function) -> _Body:
        """The body of a function."""
        if function.declared:
            return _Body(function, [])
        if function.name not in self._made:
            self._open.append(function.name)
            self._made[function.name] = self._body(function)
            self._open.pop()
        return self._made[function.name]

    def _body(self, function: Function) -> _Body:
        maker = _Maker(function)
        for item in self.module.instructions[function.start : function.end]:
            maker.begin()
            callee = self._called(item)
            names = None if callee is None else _arguments(item, callee, function)
            if callee is None or names is None:
                maker.own(item)
            else:
                maker.call(item, callee, names)
                self.added += len(callee.items)
                self.replaced.add(callee.function.name)
        return maker.body()

    def _called(self, item: Instruction) -> _Body | None:
        """What takes the place of a call, if anything does."""
        name = next((o.name for o in item.operands if isinstance(o, Symbol)), "")
        if item.opcode != "call" or name in self._open or self.added > ADDED_MAX:
            return None
        found = [f for f in self.module.functions if f.name == name and not f.declared]
        if len(found) != 1 or found[0].entry:
            return None
        body = self.of(found[0])
        if name not in self._fitting:
            self._fitting[name] = self._fits(body)
        return body if self._fitting[name] else None

    def _fits(self, body: _Body) -> bool:
        """Whether a function may stand in place of its calls."""
        own = (StateSpace.LOCAL, StateSpace.PARAMETER)
        if any(variable.space not in own for variable in body.function.variables):
            return False
        calls = [item for item in body.items if item.opcode == "call"]
        if calls:
            defined = {f.name for f in self.module.functions if not f.declared}
            if any(not _names(item) or _names(item) & defined for item in calls):
                return False
        decided = _waits(body) or not _loops(body)
        return decided and values_are_certain(body.function, body.items)


def _waits(body: _Body) -> bool:
    return any(i.opcode == "mbarrier" and i.has(word) for i in body.items for word in _WAITS)


def _loops(body: _Body) -> bool:
    return any(to <= at for at, item in enumerate(body.items) for to in labels_of(item))


def _arguments(item: Instruction, body: _Body, caller: Function) -> dict[str, str] | None:
    """Names of a function's parameters and results, and of the variables that are passed for them;
    None where the call does not fit the function, or a name means another thing in the caller."""
    callee = body.function
    groups: list[tuple[Operand, ...]] = [()]
    for operand in item.operands:
        if isinstance(operand, Group):
            groups[-1] = operand.items
        elif isinstance(operand, Symbol):
            groups.append(())
    wanted = (callee.results, callee.parameters)
    if len(groups) != len(wanted):
        return None
    own = {variable.name: variable for variable in caller.variables}
    outer = {name for inner in body.items for name in _names(inner)} - _declared(callee)
    if not outer.isdisjoint(_declared(caller)):
        return None
    names: dict[str, str] = {}
    for given, variables in zip(groups, wanted, strict=True):
        if len(given) != len(variables):
            return None
        for operand, variable in zip(given, variables, strict=True):
            passed = own.get(operand.name) if isinstance(operand, Symbol) else None
            if passed is None or passed.space is not StateSpace.PARAMETER:
                return None
            if passed.size_bytes != variable.size_bytes:
                return None
            names[variable.name] = passed.name
    return names if len(set(names.values())) == len(names) else None


@dataclass(slots=True)
class _Maker:
    """Makes the body of one function. `places`: where each of its own instructions begins, which
    is known for all labels at the end."""

    caller: Function
    items: list[Instruction] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    registers: list[RegisterDeclaration] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    _owned: list[bool] = field(default_factory=list)

    def begin(self) -> None:
        """The next instruction of the function's own begins here."""
        self.places.append(len(self.items))

    def own(self, item: Instruction) -> None:
        """An instruction that stays."""
        self.items.append(item)
        self._owned.append(True)

    def call(self, item: Instruction, callee: _Body, names: dict[str, str]) -> None:
        """The body of a function in place of a call."""
        start = len(self.items) + (item.guard >= 0)
        body = callee.items
        if body and body[-1].opcode == "ret" and body[-1].guard < 0:
            body = body[:-1]
        end = start + len(body)
        if item.guard >= 0:
            self._put(_jump(item, end, item.guard, not item.negated))
        first = len(self.caller.registers) + len(self.registers)
        self.registers += callee.function.registers
        for variable in callee.function.variables:
            names = {**names, variable.name: f"{callee.function.name}::{variable.name}"}
            name = names[variable.name]
            self.variables[name] = replace(variable, name=name)
        moved = _Renamed(first, start, end, names)
        for inner in body:
            guard = first + inner.guard if inner.guard >= 0 else -1
            if inner.opcode == "ret":
                self._put(_jump(inner, end, guard, inner.negated))
            else:
                operands = tuple(map(moved, inner.operands))
                self._put(replace(inner, guard=guard, operands=operands))

    def _put(self, item: Instruction) -> None:
        self.items.append(item)
        self._owned.append(False)

    def body(self) -> _Body:
        """All that was made."""
        self.begin()
        places, start = self.places, self.caller.start

        def at(index: int) -> int:
            return places[index - start] if index >= 0 else index

        items = []
        for owned, item in zip(self._owned, self.items, strict=True):
            operands = tuple(with_labels(o, at) for o in item.operands) if owned else item.operands
            items.append(replace(item, operands=operands))
        registers = (*self.caller.registers, *self.registers)
        variables = (*self.caller.variables, *self.variables.values())
        return _Body(replace(self.caller, registers=registers, variables=variables), items)


def _jump(item: Instruction, to: int, guard: int, negated: bool) -> Instruction:
    """A branch in place of an instruction."""
    return replace(
        item, opcode="bra", modifiers=(), operands=(PtxTarget(to),), guard=guard, negated=negated
    )


def _declared(function: Function) -> set[str]:
    """The names that a function declares for itself."""
    return {v.name for v in (*function.variables, *function.parameters, *function.results)}


# ------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Operands of a body of `items` instructions where it stands in place of a call."""

    first: int  # its registers from here on
    start: int
    end: int
    names: dict[str, str]

    def __call__(self, operand: Operand) -> Operand:
        return with_labels(_mapped(operand, self._one), lambda at: min(self.start + at, self.end))

    def _one(self, operand: PtxRegister | Symbol) -> PtxRegister | Symbol:
        if isinstance(operand, PtxRegister):
            return PtxRegister(self.first + operand.number)
        return replace(operand, name=self.names.get(operand.name, operand.name))


_One = Callable[[PtxRegister | Symbol], PtxRegister | Symbol]


def _mapped(operand: Operand, one: _One) -> Operand:
    """An operand with other registers and symbols."""
    if isinstance(operand, PtxRegister | Symbol):
        return one(operand)
    if isinstance(operand, Address):
        base = None if operand.base is None else one(operand.base)
        inner = operand.coordinates
        inner = None if inner is None else tuple(_mapped(item, one) for item in inner)
        return Address(base, operand.offset, inner)
    if isinstance(operand, Vector | Group):
        return replace(operand, items=tuple(_mapped(item, one) for item in operand.items))
    if isinstance(operand, Pair):
        return Pair(_mapped(operand.first, one), _mapped(operand.second, one))
    if isinstance(operand, Negated):
        return Negated(_mapped(operand.operand, one))
    return operand


def _names(item: Instruction) -> set[str]:
    """The symbols that an instruction names."""
    return {symbol.name for operand in item.operands for symbol in symbols(operand)}


def _named(module: Module, bodies: Iterable[_Body]) -> set[str]:
    """The symbols that instructions and variables of a module name."""
    found = {name for body in bodies for item in body.items for name in _names(item)}
    return found | {s.name for v in module.variables for _, _, s in v.references}


# -------------------------------------------------------------------- variables in registers


@dataclass(frozen=True, slots=True)
class _Place:
    """Bytes of a variable that an instruction reads or writes whole, and the other operand."""

    name: str
    offset: int
    bits: int
    value: Operand


def _place(item: Instruction, function: Function) -> _Place | None:
    """What an access to `.param` memory reads or writes; None unless a register can do that."""
    word = item.modifiers[-1] if item.modifiers else ""
    if item.opcode not in ("ld", "st") or len(item.operands) != 2 or word not in _WORDS:
        return None
    if item.modifiers[:-1] not in (("param",), ("param::func",)):
        return None
    value, address = item.operands if item.opcode == "ld" else item.operands[::-1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return None
    bits = int(word[1:])
    if isinstance(value, PtxRegister):
        if function.registers[value.number].type[1:] != str(bits):
            return None
    elif not isinstance(value, Immediate) or item.opcode == "ld":
        return None
    return _Place(address.base.name, address.base.offset + address.offset, bits, value)


def _in_registers(body: _Body) -> _Body:
    """The body with registers for those variables of calls that are accessed in whole pieces."""
    function = body.function
    places = [_place(item, function) for item in body.items]
    pieces: dict[str, set[tuple[int, int]]] = {}
    open_: set[str] = set()
    for item, place in zip(body.items, places, strict=True):
        if place is None:
            open_ |= _names(item)
        else:
            pieces.setdefault(place.name, set()).add((place.offset, place.offset + place.bits // 8))
    numbers: dict[tuple[str, int], int] = {}
    registers = list(function.registers)
    for variable in function.variables:
        parts = sorted(pieces.get(variable.name, ()))
        apart = all(low[1] <= high[0] for low, high in itertools.pairwise(parts))
        within = all(low >= 0 and high <= variable.size_bytes for low, high in parts)
        if variable.space is StateSpace.PARAMETER and variable.name not in open_ and apart:
            for low, high in parts if within else ():
                numbers[variable.name, low] = len(registers)
                registers.append(RegisterDeclaration(variable.name, f"b{8 * (high - low)}"))
    items: list[Instruction] = []
    for item, place in zip(body.items, places, strict=True):
        number = -1 if place is None else numbers.get((place.name, place.offset), -1)
        if place is not None and number >= 0:
            register = PtxRegister(number)
            operands = (place.value, register) if item.opcode == "ld" else (register, place.value)
            words = item.modifiers[-1:]
            items.append(replace(item, opcode="mov", modifiers=words, operands=operands))
        else:
            items.append(item)
    held = {name for name, _ in numbers}
    left = tuple(v for v in function.variables if v.name not in held)
    return _Body(replace(function, registers=tuple(registers), variables=left), items)
