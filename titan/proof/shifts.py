"""Which numbers may be lowered together: the static half of "any number", checked, not found.

A class of counters, loop variables and open sizes may be lowered by its period, with the tiles and
phases that count with them, if every expression of the program falls by what its use allows. The
theorems are `drop_sound`, `settled` and `shift_bisimilar` (proofs/AnyNumber.v). What a class
claims is checked here expression by expression; nothing is inferred. Arrays that *turn* with a
class are listed from another stage on when it is lowered (`titan/sync/turns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

from titan.sync import program as ir
from titan.sync.arrays import Arrays
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    linear_form,
    substitute,
)
from titan.sync.open_numbers import NotCoveredError
from titan.sync.parts import barriers_of, completions_of, effects_of

COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
# Whether an operator answers for equal numbers as it does where the left one is more, or less.
EQUAL_AS = {"<": (1, 0), ">=": (1, 0), "<=": (0, 1), ">": (0, 1), "min": (1, 1), "max": (1, 1)}


@dataclass(frozen=True, slots=True)
class CertifiedShiftClass:
    """Lowered by `period` while all stay at or above `threshold`.

    `members`: (role, variable). `tiles` and `phases`: by how much the tiles of a storage and the
    phases of a barrier fall with them. `turns`: arrays whose stages are named by remainders that
    fall, and by how much; a stage that comes round has one phase less.
    """

    period: int
    threshold: int
    members: tuple[tuple[str, str], ...]
    sizes: tuple[str, ...]
    tiles: tuple[tuple[str, int], ...]
    phases: tuple[tuple[str, int], ...]
    turns: tuple[tuple[str, int], ...] = ()


def expressions_of(value: object) -> Iterator[Expression]:
    """Every expression that an operation holds, the bodies of loops and branches left out."""
    if isinstance(value, Constant | Name | Not | Binary):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from expressions_of(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name not in ("body", "then", "otherwise", "span"):
                yield from expressions_of(getattr(value, field.name))


class CheckedClass:
    """A class whose claims hold, with the operations that forbid the shift while they lie ahead.

    Raises NotCoveredError where an expression falls by what its use does not allow.
    """

    def __init__(
        self, program: ir.SyncProgram, claim: CertifiedShiftClass, given: dict[str, int]
    ) -> None:
        if claim.period < 1 or claim.threshold < 0:
            raise NotCoveredError("a class has no period or no threshold")
        self.claim, self.given = claim, given
        self.tiles, self.phases = dict(claim.tiles), dict(claim.phases)
        self.turns, self._stages = dict(claim.turns), Arrays(program).stages
        self.blocking: set[int] = set()  # operations by identity
        names = {b.name for b in program.barriers}
        if self.phases.keys() - names or self.turns.keys() - self._stages.keys():
            raise NotCoveredError("what falls or turns is not declared")
        self._storage = {b.name: b.storage or b.name for b in program.buffers}
        for role in program.roles:
            self._ranges = _constant_loops(role, given)
            for operation in ir.walk(role.body):
                for expression in self._bounded(role, operation):
                    if self.drop(role, expression):
                        raise NotCoveredError(f"role {role.name}: an index or a guard falls")

    def member(self, role: ir.Role, name: str) -> bool:
        """Whether a name shifts with the class: one of its sizes, or a variable of this role."""
        return name in self.claim.sizes or (role.name, name) in self.claim.members

    # ------------------------------------------------------------------------------ uses

    def _bounded(self, role: ir.Role, operation: ir.Operation) -> list[Expression]:
        """The expressions that must not fall; the others of the operation are checked here."""
        match operation:
            case ir.Assign(variable=variable, value=value):
                return self._assigned(role, operation, variable, value)
            case ir.Loop(variable=variable, start=start, stop=stop):
                below: Expression = Binary("<", Name(variable), stop)
                return [below, *self._assigned(role, operation, variable, start)]
            case ir.Wait(barrier=barrier):
                self._waits(role, operation)
                return self._placed(role, operation, barrier.name, barrier.index)
            case ir.Init(barrier=barrier) if barrier.name in (*self.phases, *self.turns):
                self.blocking.add(id(operation))
        found = []
        for reference in barriers_of(operation):
            found += self._placed(role, operation, reference.name, reference.index)
        for completion in completions_of(operation):
            found.append(completion.bytes)
        for effect in effects_of(operation):
            if effect.tile is not None:
                shift = self.tiles.get(self._storage[effect.buffer], 0)
                self._ghost(role, operation, effect.tile, shift)
            found += self._placed(role, operation, effect.buffer, effect.stage)
            found.append(effect.part or Constant(0))
        return found if effects_of(operation) else found + _unplaced(operation)

    def _placed(
        self, role: ir.Role, operation: ir.Operation, name: str, index: Expression
    ) -> list[Expression]:
        """The index, where it must not fall; where the array turns, it turns with it."""
        if name not in self.turns:
            return [index]
        match self._known(index):
            case Binary("%", left, Constant(modulus)) if modulus == self._stages[name]:
                if self.drop(role, left) == self.turns[name]:
                    return []
        self.blocking.add(id(operation))  # a stage that is named in another way stays
        return [index]

    def _waits(self, role: ir.Role, operation: ir.Wait) -> None:
        """Parity and phase fall as the phases of the barrier do, or forbid the shift."""
        name, parity = operation.barrier.name, self._known(operation.parity)
        rounds = self._stages[name] if name in self.turns else 1
        rise = self.turns.get(name, self.phases.get(name, 0))
        if name in self.turns and operation.phase is None:
            raise NotCoveredError("which phase of a barrier that turns is meant is not known")
        match parity:
            case Binary("%", inner, Constant(2)):
                parity = inner
        phase = operation.phase
        falls = [self._drop(role, parity, rounds)]
        falls += [] if phase is None else [self.drop(role, phase, rounds)]
        if (falls[0] - rise) % 2 or falls[-1] != (rise if phase is not None else falls[-1]):
            if any(falls):
                raise NotCoveredError(f"role {role.name}: phases are counted in two ways")
            self.blocking.add(id(operation))

    def _ghost(self, role: ir.Role, operation: ir.Operation, value: Expression, fall: int) -> None:
        """A tile falls with the others, or stays and forbids the shift for so long."""
        found = self.drop(role, value)
        if found not in (0, fall):
            raise NotCoveredError(f"role {role.name}: tiles are counted in two ways")
        if found != fall:
            self.blocking.add(id(operation))

    def _assigned(
        self, role: ir.Role, operation: ir.Operation, variable: str, value: Expression
    ) -> list[Expression]:
        fall = self.drop(role, value)
        if not self.member(role, variable):
            return [value]
        if fall == 0:
            self.blocking.add(id(operation))  # a new start
            return []
        form = linear_form(self._known(value))
        if fall != self.claim.period or form is None or len(form[0]) != 1 or form[1] < 0:
            raise NotCoveredError(f"role {role.name}: {variable} does not grow with its class")
        return []

    # ----------------------------------------------------------------------------- falls

    def _known(self, expression: Expression) -> Expression:
        return substitute(expression, dict(self.given))

    def drop(self, role: ir.Role, expression: Expression, rounds: int = 1) -> int:
        """By how much the value falls (`drop` of proofs/AnyNumber.v, and `settled`)."""
        return self._drop(role, self._known(expression), rounds)

    def _drop(self, role: ir.Role, expression: Expression, rounds: int = 1) -> int:
        match expression:
            case Constant():
                return 0
            case Name(name):
                return rounds * self.claim.period if self.member(role, name) else 0
            case Not(operand):
                return self._zero(self._drop(role, operand, rounds))
            case Binary("*", Constant(factor), other) | Binary("*", other, Constant(factor)):
                return factor * self._drop(role, other, rounds)
            case Binary("//" | "%" as operator, left, Constant(divisor)) if divisor:
                fall = self._drop(role, left, rounds)
                self._zero(fall % divisor)
                return fall // divisor if operator == "//" else 0
            case Binary(operator, left, right):
                first, second = (self._drop(role, side, rounds) for side in (left, right))
                if operator in ("+", "-"):
                    return first + second if operator == "+" else first - second
                if operator in COMPARISONS:
                    return 0 if first == second else self._settled(role, operator, left, right) * 0
                if operator in ("min", "max"):
                    if first == second:
                        return first
                    rising = self._settled(role, operator, left, right) > 0
                    return second if (operator == "min") == rising else first
                return self._zero(first) + self._zero(second)

    @staticmethod
    def _zero(fall: int) -> int:
        if fall:
            raise NotCoveredError("a growing number is used where a bounded one is required")
        return 0

    def _settled(self, role: ir.Role, operator: str, left: Expression, right: Expression) -> int:
        """The sign of left - right, one for all members from the threshold on."""
        form = linear_form(Binary("-", left, right))
        if form is None:
            raise NotCoveredError("a comparison of numbers that grow apart is not linear")
        total, low, high = 0, form[1], form[1]
        signs: set[bool] = set()
        for name, factor in form[0].items():
            if self.member(role, name):
                total += factor
                signs.add(factor > 0)
                continue
            bounds = self._ranges.get(name)
            if bounds is None:
                raise NotCoveredError(f"role {role.name}: {name} is compared with what grows")
            low += min(factor * bounds[0], factor * bounds[1])
            high += max(factor * bounds[0], factor * bounds[1])
        threshold = self.claim.threshold
        above, below = EQUAL_AS.get(operator, (0, 0))
        if len(signs) == 1 and total > 0 and total * threshold + low + above > 0:
            return 1
        if len(signs) == 1 and total < 0 and total * threshold + high - below < 0:
            return -1
        raise NotCoveredError("a comparison is not settled at the threshold")


def _unplaced(operation: ir.Operation) -> list[Expression]:
    """The expressions of an operation that are no index of a barrier."""
    indices = {id(reference.index) for reference in barriers_of(operation)}
    return [found for found in expressions_of(operation) if id(found) not in indices]


def _constant_loops(role: ir.Role, given: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Ranges of the agent's constant and of variables that only loops between constants set."""
    ranges = {role.agent_constant: (0, role.agents - 1)}
    first = dict(role.variables)
    found: dict[str, list[int] | None] = {}
    for operation in ir.walk(role.body):
        if isinstance(operation, ir.Assign):
            found[operation.variable] = None
        elif isinstance(operation, ir.Loop):
            ends_ = [substitute(e, dict(given)) for e in (operation.start, operation.stop)]
            known = [e.value for e in ends_ if isinstance(e, Constant)]
            values = found.setdefault(operation.variable, [first.get(operation.variable, 0)])
            if len(known) < 2 or values is None:
                found[operation.variable] = None
            else:
                values += known
    ranges.update({n: (min(v), max(v)) for n, v in found.items() if v is not None})
    return ranges
