"""Shift classes: which numbers of a program grow together, and in which steps they repeat.

Decides this from the expressions alone; titan/engines/explore/quotient.py says why it is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm

from titan.engines.explore.expressions import split_extremes
from titan.engines.explore.flatten import expressions_of
from titan.engines.explore.tables import Flat
from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason
from titan.sync import program as ir
from titan.sync.expression import (
    ZERO,
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    linear_form,
    names_of,
    substitute,
    to_text,
)

PERIOD_MAX = 4096
THRESHOLD_MAX = 4096

Member = tuple[int, str]  # role and variable; role -1 for a size
Degree = dict[Member, Fraction]  # by representative of the class


class NotApplicableError(Refusal):
    """Open sizes cannot be covered by a finite quotient; the text says why.

    `expression` is the one that stands in the way, where there is one.
    """

    reason = Reason.NO_QUOTIENT

    def __init__(self, text: str, expression: Expression | None = None) -> None:
        super().__init__(text)
        self.expression = expression


@dataclass(slots=True)
class ShiftClass:
    """Members shift together by `period`, once all are at least `threshold`."""

    members: set[Member]
    period: int = 1
    threshold: int = 0
    parameter: str | None = None  # the size with a number for every value of an outer variable


@dataclass(slots=True)
class _Use:
    """An expression of a role, and what is asked of its degree."""

    role: int
    expression: Expression
    kind: str  # "plain", "parity", "phase", "tile", "init"
    target: str = ""
    write: bool = False
    operation: ir.Operation | None = None


class Analysis:
    """Classes, degrees, periods and thresholds, from the expressions of the program alone."""

    def __init__(self, flat: Flat) -> None:
        self.flat, self.program = flat, flat.program
        self.given = {n: s for n, s in flat.sizes.items() if isinstance(s, int)}
        self.open = {p.name: p for p in flat.parameters if p.name not in flat.sizes}
        self.parent: dict[Member, Member] = {}
        self.bounds: dict[Member, tuple[int, int]] = {}
        self.growing: set[Member] = set()
        self.period: dict[Member, int] = {}
        self.threshold: dict[Member, int] = {}
        self.tile_degree: dict[str, Degree] = {}
        self.phase_degree: dict[str, Degree] = {}
        self.classes: list[ShiftClass] = []
        # Operations that name a fixed tile or phase where others count, by identity: while one of
        # them can still be executed, the classes given here cannot shift.
        self.fixed_ghosts: dict[int, set[Member]] = {}

    def run(self) -> None:
        """Fills in all results; raises NotApplicableError where the program is out of reach."""
        for name, size in self.flat.sizes.items():
            if isinstance(size, tuple):
                raise NotApplicableError(f"{name} is given as a list of numbers")
        for parameter in self.open.values():
            self._add((-1, parameter.name))
        for number, role in enumerate(self.program.roles):
            self._find_growing(number, role)
        uses = list(self.uses())
        for number, role in enumerate(self.program.roles):
            self._unite_assignments(number, role)
        for use in uses:
            self._unite(use.role, self.fold(use.expression))
        self._unite_ghosts(uses)
        for number, role in enumerate(self.program.roles):
            self._check_assignments(number, role)
        for use in uses:
            self._check(use)
        self._check_ghosts([use for use in uses if use.kind in ("tile", "phase")])
        self._check_initialisations([use for use in uses if use.kind == "init"])
        self._collect()

    # ------------------------------------------------------------------------ what grows

    def _add(self, member: Member) -> None:
        self.parent[member] = member
        self.growing.add(member)

    def find(self, member: Member) -> Member:
        """The representative of the member's class; two members grow together if it is equal."""
        while self.parent[member] != member:
            member = self.parent[member]
        return member

    def _union(self, left: Member, right: Member) -> None:
        first, second = self.find(left), self.find(right)
        if first != second:
            self.parent[max(first, second)] = min(first, second)

    def fold(self, expression: Expression) -> Expression:
        """The expression with every name of `given` replaced by its value."""
        return substitute(expression, dict(self.given))

    def _find_growing(self, number: int, role: ir.Role) -> None:
        """Loop variables without a constant stop, and counters that are only stepped up."""
        assigned: dict[str, list[Expression]] = {}
        loops: dict[str, list[ir.Loop]] = {}
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Assign):
                assigned.setdefault(operation.variable, []).append(self.fold(operation.value))
            elif isinstance(operation, ir.Loop):
                loops.setdefault(operation.variable, []).append(operation)
        for name, entries in loops.items():
            bounds = [self._constant_bounds(loop) for loop in entries]
            known = [b for b in bounds if b is not None]
            if len(known) == len(bounds) and name not in assigned:
                first = dict(role.variables).get(name, 0)
                ends = [first, *(bound for pair in known for bound in pair)]
                self.bounds[(number, name)] = (min(ends), max(ends))
            else:
                self._add((number, name))
        for name, values in assigned.items():
            stepped = any(_step_of(value, name) is not None for value in values)
            fresh = (number, name) not in self.parent
            if stepped and fresh and not self._reset_in_loop(role, name):
                self._add((number, name))

    def _constant_bounds(self, loop: ir.Loop) -> tuple[int, int] | None:
        start, stop = self.fold(loop.start), self.fold(loop.stop)
        if isinstance(start, Constant) and isinstance(stop, Constant):
            return start.value, stop.value
        return None

    def _reset_in_loop(self, role: ir.Role, name: str) -> bool:
        """Whether a loop sets the counter back: then it stays small by itself."""
        resets = {
            id(op)
            for op in ir.walk(role.body)
            if isinstance(op, ir.Assign)
            and op.variable == name
            and _step_of(self.fold(op.value), name) is None
        }
        inside_loop = {
            id(op)
            for loop in ir.walk(role.body)
            if isinstance(loop, ir.Loop)
            for op in ir.walk(loop.body)
        }
        return bool(resets & inside_loop)

    # ------------------------------------------------------------------- all expressions

    def uses(self) -> Iterator[_Use]:
        """Every use that an operation makes of an expression, role by role."""
        for number, role in enumerate(self.program.roles):
            for operation in ir.walk(role.body):
                yield from self._uses_of(number, operation)

    def _uses_of(self, number: int, operation: ir.Operation) -> Iterator[_Use]:
        match operation:
            case ir.Loop(variable=variable, stop=stop):
                yield _Use(number, Binary("<", Name(variable), stop), "plain")
            case ir.Assign():
                return
            case ir.Init(barrier=barrier, count=count):
                yield _Use(number, barrier.index, "plain")
                yield _Use(number, count, "plain")
                yield _Use(number, ZERO, "init", barrier.name, False, operation)
            case ir.Wait(barrier=barrier, parity=parity, phase=phase):
                yield _Use(number, barrier.index, "plain")
                yield _Use(number, parity, "parity")
                if phase is not None:
                    yield _Use(number, phase, "phase", barrier.name, False, operation)
            case ir.Access(effects=effects) | ir.Asynchronous(effects=effects):
                for effect in effects:
                    yield _Use(number, effect.stage, "plain")
                    if effect.part is not None:
                        yield _Use(number, effect.part, "plain")
                    if effect.tile is not None:
                        writes = effect.write and not effect.reduction
                        yield _Use(number, effect.tile, "tile", effect.buffer, writes, operation)
                if isinstance(operation, ir.Asynchronous):
                    for completion in operation.completes:
                        yield _Use(number, completion.barrier.index, "plain")
                        yield _Use(number, completion.bytes, "plain")
            case _:
                for expression in expressions_of(operation):
                    yield _Use(number, expression, "plain")

    def member(self, role: int, name: str) -> Member | None:
        """The growing member that a name represents in the role."""
        if name in self.open:
            return (-1, name)
        return (role, name) if (role, name) in self.growing else None

    def _members(self, role: int, expression: Expression) -> set[Member]:
        found = (self.member(role, name) for name in names_of(expression))
        return {member for member in found if member is not None}

    # -------------------------------------------------------------------------- classes

    def _unite(self, role: int, expression: Expression) -> None:
        """Members that are compared with each other shift together."""
        match expression:
            case Not(operand):
                self._unite(role, operand)
            case Binary(operator, left, right):
                if operator in ("<", "<=", "==", "!=", ">=", ">"):
                    split = split_extremes(expression, frozenset(self.open))
                    if split is not expression:
                        self._unite(role, split)
                        return
                    self._unite_sides(role, left, right)
                elif operator in ("min", "max"):
                    self._unite_sides(role, left, right)
                self._unite(role, left)
                self._unite(role, right)

    def _unite_sides(self, role: int, left: Expression, right: Expression) -> None:
        form = linear_form(self.fold(binary("-", left, right)))
        if form is None:
            return
        up = [self.member(role, n) for n, c in form[0].items() if c > 0]
        down = [self.member(role, n) for n, c in form[0].items() if c < 0]
        rising = [m for m in up if m is not None]
        falling = [m for m in down if m is not None]
        if len(rising) == 1 and len(falling) == 1:
            self._union(rising[0], falling[0])

    def _unite_ghosts(self, uses: list[_Use]) -> None:
        """Who counts the tiles of one memory, or the phases of one barrier, does so together."""
        counting: dict[tuple[str, str], Member] = {}
        for use in uses:
            members = self._members(use.role, self.fold(use.expression))
            if use.kind not in ("tile", "phase") or len(members) != 1:
                continue
            target = use.target if use.kind == "phase" else self.family(use.target)
            member = members.pop()
            self._union(counting.setdefault((use.kind, target), member), member)

    def _assignments(self, role: ir.Role) -> Iterator[tuple[str, Expression]]:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Assign):
                yield operation.variable, self.fold(operation.value)
            elif isinstance(operation, ir.Loop):
                yield operation.variable, self.fold(operation.start)

    def _unite_assignments(self, number: int, role: ir.Role) -> None:
        # A variable that takes over a growing one grows with it.
        changed = True
        while changed:
            changed = False
            for name, value in self._assignments(role):
                if (number, name) in self.growing or (number, name) in self.bounds:
                    continue
                form = linear_form(value)
                if form is not None and any(self.member(number, other) for other in form[0]):
                    self._add((number, name))
                    changed = True
        for name, value in self._assignments(role):
            form = linear_form(value)
            if (number, name) not in self.growing or form is None or len(form[0]) != 1:
                continue
            other = self.member(number, next(iter(form[0])))
            if other is not None:
                self._union((number, name), other)

    # -------------------------------------------------------------------------- degrees

    def _stop(self, role: int, expression: Expression, reason: str) -> NotApplicableError:
        name = self.program.roles[role].name
        return NotApplicableError(f"role {name}: {to_text(expression)} {reason}", expression)

    def degree(self, role: int, expression: Expression) -> Degree:
        """How much the value falls when all members of a class fall by one."""
        match expression:
            case Constant():
                return {}
            case Name(name):
                member = self.member(role, name)
                return {} if member is None else {self.find(member): Fraction(1)}
            case Not(operand):
                return self._plain(role, operand)
            case Binary("+" | "-" as operator, left, right):
                first, second = self.degree(role, left), self.degree(role, right)
                return _add(first, second, 1 if operator == "+" else -1)
            case Binary("*", left, right):
                return self._product(role, expression, left, right)
            case Binary("//" | "%" as operator, left, right):
                return self._quotient(role, expression, operator, left, right)
            case Binary("min" | "max" as operator, left, right):
                return self._extreme(role, expression, operator, left, right)
            case Binary("and" | "or", left, right):
                self._plain(role, left)
                return self._plain(role, right)
            case Binary(_, left, right):
                return self._comparison(role, expression, left, right)

    def _plain(self, role: int, expression: Expression) -> Degree:
        if self.degree(role, expression):
            raise self._stop(
                role, expression, ("grows with the loops where a bounded value is required")
            )
        return {}

    def _product(self, role: int, whole: Expression, left: Expression, right: Expression) -> Degree:
        for factor, other in ((left, right), (right, left)):
            if isinstance(factor, Constant):
                scale = Fraction(factor.value)
                return _clean({c: d * scale for c, d in self.degree(role, other).items()})
        if self.degree(role, left) or self.degree(role, right):
            raise self._stop(role, whole, "multiplies numbers that grow")
        return {}

    def _quotient(
        self, role: int, whole: Expression, operator: str, left: Expression, right: Expression
    ) -> Degree:
        inner = self.degree(role, left)
        self._plain(role, right)
        if not inner:
            return {}
        if not isinstance(right, Constant) or right.value == 0:
            raise self._stop(role, whole, "divides by a number that is not fixed")
        for representative, degree in inner.items():
            self._need_period(role, whole, representative, degree / right.value)
        if operator == "%":
            return {}
        return {c: d / right.value for c, d in inner.items()}

    def _need_period(
        self, role: int, whole: Expression, representative: Member, degree: Fraction
    ) -> None:
        """The period must make `degree` whole."""
        period = lcm(self.period.get(representative, 1), degree.denominator)
        if period > PERIOD_MAX:
            raise self._stop(role, whole, f"repeats with a period beyond {PERIOD_MAX}")
        self.period[representative] = period

    def _extreme(
        self, role: int, whole: Expression, operator: str, left: Expression, right: Expression
    ) -> Degree:
        first, second = self.degree(role, left), self.degree(role, right)
        if first == second:
            return first
        rising = self._turn(role, whole, binary("-", left, right))
        # Beyond the threshold one side is the larger one for good.
        return second if (operator == "min") == rising else first

    def _comparison(
        self, role: int, whole: Expression, left: Expression, right: Expression
    ) -> Degree:
        split = split_extremes(whole, frozenset(self.open))
        if split is not whole:
            return self.degree(role, split)
        if self.degree(role, left) != self.degree(role, right):
            self._turn(role, whole, binary("-", left, right))
        return {}

    def _turn(self, role: int, whole: Expression, difference: Expression) -> bool:
        """Raise the threshold beyond the turning point of the difference; whether it rises."""
        form = linear_form(self.fold(difference))
        members: dict[Member, int] = {}
        low = high = 0
        for name, factor in (form[0] if form else {}).items():
            member = self.member(role, name)
            if member is not None:
                members[member] = factor
                continue
            least, most = self._range(role, name, whole)
            low += min(factor * least, factor * most)
            high += max(factor * least, factor * most)
        classes = {self.find(member) for member in members}
        signs = {factor > 0 for factor in members.values()}
        if form is None or len(classes) != 1 or len(signs) != 1:
            raise self._stop(role, whole, "compares numbers that do not grow together")
        total = sum(members.values())
        rest = (low if total > 0 else high) + form[1]
        # total * K + rest has the sign of total for every larger K.
        threshold = max(0, -rest // total + 2) if total > 0 else max(0, rest // -total + 2)
        if threshold > THRESHOLD_MAX:
            raise self._stop(role, whole, f"turns beyond {THRESHOLD_MAX}")
        representative = classes.pop()
        self.threshold[representative] = max(self.threshold.get(representative, 0), threshold)
        return total > 0

    def _range(self, role: int, name: str, whole: Expression) -> tuple[int, int]:
        declared = self.program.roles[role]
        if (role, name) in self.bounds:
            return self.bounds[(role, name)]
        if name == declared.agent_constant:
            return 0, declared.agents - 1
        raise self._stop(role, whole, f"compares a number that grows with {name}")

    # --------------------------------------------------------------------------- checks

    def _check(self, use: _Use) -> None:
        expression = self.fold(use.expression)
        if use.kind == "parity":
            self._plain(use.role, Binary("%", expression, Constant(2)))
        elif use.kind == "plain":
            self._plain(use.role, expression)

    def _check_ghosts(self, uses: list[_Use]) -> None:
        """All who count the tiles of a memory, or the phases of a barrier, count alike."""
        groups: dict[tuple[str, str], list[tuple[_Use, Degree]]] = {}
        for use in uses:
            target = use.target if use.kind == "phase" else self.family(use.target)
            degree = self._ghost_degree(use)
            groups.setdefault((use.kind, target), []).append((use, degree))
        for (kind, target), members in groups.items():
            known: Degree = next((degree for _, degree in members if degree), {})
            (self.phase_degree if kind == "phase" else self.tile_degree)[target] = known
            for use, degree in members:
                if degree == known:
                    continue
                if degree or self._repeats(use, known):
                    error = self._stop(
                        use.role,
                        self.fold(use.expression),
                        f"counts {kind}s of {use.target} unlike other operations",
                    )
                    error.reason = Reason.COUNTED_APART
                    raise error
                self.fixed_ghosts.setdefault(id(use.operation), set()).update(known)

    def _check_initialisations(self, uses: list[_Use]) -> None:
        """An initialisation sets the phase to 0, a fixed one where phases are counted."""
        for use in uses:
            known = self.phase_degree.get(use.target, {})
            if self._repeats(use, known):
                role = self.program.roles[use.role].name
                raise NotApplicableError(
                    f"role {role}: initialises {use.target}, whose phases are counted, in a loop"
                )
            if known:
                self.fixed_ghosts.setdefault(id(use.operation), set()).update(known)

    def _repeats(self, use: _Use, degree: Degree) -> bool:
        """Whether the operation is executed again and again while the classes grow."""
        return any(
            isinstance(loop, ir.Loop)
            and (use.role, loop.variable) in self.growing
            and any(inner is use.operation for inner in ir.walk(loop.body))
            for loop in ir.walk(self.program.roles[use.role].body)
        ) and bool(degree)

    def _ghost_degree(self, use: _Use) -> Degree:
        expression = self.fold(use.expression)
        degree = self.degree(use.role, expression)
        for representative in degree:
            if representative[0] < 0 and self.open[representative[1]].per is not None:
                raise self._stop(use.role, expression, "depends on a loop that restarts")
        for representative, value in degree.items():
            # Parities agree when phases shift by an even number.
            need = value / 2 if use.kind == "phase" else value
            self._need_period(use.role, expression, representative, need)
        return degree

    def family(self, buffer: str) -> str:
        """Buffers of one storage may overlap: they count tiles alike."""
        declared = next(b for b in self.program.buffers if b.name == buffer)
        return declared.storage or declared.name

    def _check_assignments(self, number: int, role: ir.Role) -> None:
        for name, value in self._assignments(role):
            member = (number, name)
            degree = self.degree(number, value)
            if member not in self.growing:
                if degree:
                    raise self._stop(number, value, f"makes {name} grow without a step")
                continue
            if not degree:
                continue  # a new start: it blocks the shift for as long as it can still happen
            form = linear_form(value)
            if (
                form is None
                or degree != {self.find(member): Fraction(1)}
                or len(form[0]) != 1
                or form[1] < 0
            ):
                raise self._stop(number, value, f"does not step {name} up by a constant")

    def _collect(self) -> None:
        by_root: dict[Member, ShiftClass] = {}
        for member in sorted(self.growing):
            root = self.find(member)
            entry = by_root.setdefault(root, ShiftClass(set()))
            entry.members.add(member)
            entry.period = self.period.get(root, 1)
            entry.threshold = self.threshold.get(root, 0)
        for entry in by_root.values():
            windows = [n for r, n in entry.members if r < 0 and self.open[n].per is not None]
            if windows and sum(1 for r, _ in entry.members if r < 0) > 1:
                raise NotApplicableError(
                    f"{windows[0]} has a separate value in every iteration of a loop and is "
                    "compared with another open size"
                )
            entry.parameter = windows[0] if windows else None
        self.classes = list(by_root.values())


def _step_of(value: Expression, name: str) -> int | None:
    """c of `name + c` with c >= 0."""
    form = linear_form(value)
    return form[1] if form and form[0] == {name: 1} and form[1] >= 0 else None


def _add(left: Degree, right: Degree, sign: int) -> Degree:
    total = dict(left)
    for representative, value in right.items():
        total[representative] = total.get(representative, Fraction(0)) + sign * value
    return _clean(total)


def _clean(degree: Degree) -> Degree:
    return {representative: value for representative, value in degree.items() if value}
