"""Any number of iterations by a finite quotient: which numbers of a state may be made relative.

Sizes that are open are decided lazily: a state knows for each of them a lower bound, or the number.
What is left to make the search finite is that loop variables, counters, tiles and phases grow. They
grow together, and only their differences matter; this module finds the *shift classes*, checks that
this is so, and hands period and threshold of each class to the native core, which then keeps the
least member of a class between threshold and threshold + period.

The argument. A class is a set of variables (of all roles) and open sizes. Let s be a state in which
every live member of class c is at least K, no agent can still set a member from a constant, and let
s' be s with every member lowered by P, every tile of a cell lowered by the degree of its buffer
times P, and every phase by the degree of its barrier times P. If all members of s' are at least K,
then s and s' are bisimilar, and steps lead to states that are related in the same way:

- An expression e has a *degree*: how much its value falls when all members fall by one. The degree
  of a member is 1, of anything else 0; sums add, constant factors multiply, `e % m` has degree 0,
  `e // m` has degree(e) / m, where P is chosen so that P * degree(e) is a multiple of m (both are
  then exact). What decides control flow, indices, parities, counts and bytes has degree 0, so it
  has the same value in s and s'.
- A comparison of two sides of one degree has the same truth. One of different degrees (`t >= 1`)
  has the same truth for all members at or above K, because K is chosen beyond its turning point;
  members only ever grow: they are stepped up, or set from another member plus a constant that is
  not negative. The same holds for `min` and `max`. That a size is at least its lower bound is such
  a comparison as well, since the bound is shifted with the size.
- Tiles are compared with tiles meant, phases with phases meant, and all tiles meant of a memory
  cell, and all written to it, have one degree; so have all phases meant of a barrier. Parities
  agree because P * degree of a phase is even.
- A tile below every one that a reader can still mean is never equal to a tile meant, whatever its
  number: all these are one value. `e` at the threshold is the least tile that a reader with members
  at or above K can mean, as far as e grows with its members; where it does not, tiles are kept.

So each reachable state is bisimilar to the one stored for it, and a search that ends has seen every
fault that any sizes lead to; the sizes that a path decides are the shifted ones, and the trace is
followed again without shifts, so that it names real ones.

A size with a number of its own for every value of an outer variable w has a window of records, one
a value of w between the slowest and the fastest reader. Its class is shifted record by record:
members are the variables of the agents whose w is that of the record; an agent that has yet to
come to this w, or to start the loop in it, blocks the shift. Tiles and phases must not depend on
such a class (kernels count tiles with a counter of their own).

Where a check fails the quotient does not apply and `NotApplicableError` says which expression of
which role stands in the way. Nothing here is assumed of a program that is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from titan.explore.expressions import split_extremes
from titan.explore.flatten import KINDS, Flat, Node
from titan.sync import program as ir
from titan.sync.expression import (
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
NEVER_ANCIENT = -(2**39)

Member = tuple[int, str]  # role and variable; role -1 for a size
Degree = dict[Member, Fraction]  # by representative of the class


class NotApplicableError(ValueError):
    """Open sizes cannot be covered by a finite quotient; the text says why."""


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
    kind: str  # "plain", "parity", "phase", "tile"
    target: str = ""
    write: bool = False


@dataclass(slots=True)
class Quotient:
    classes: list[ShiftClass]
    tile_degree: dict[str, Degree] = field(default_factory=dict)
    phase_degree: dict[str, Degree] = field(default_factory=dict)


def apply_quotient(flat: Flat) -> None:
    """Find the shift classes of the program's open sizes and put them into the tables.

    Raises NotApplicableError.
    """
    open_names = [p.name for p in flat.parameters if p.name not in flat.sizes]
    if not open_names:
        fixed = ", ".join(f"{name} = {size}" for name, size in flat.sizes.items())
        flat.scope = f"all interleavings, {fixed}" if fixed else "all interleavings"
        return
    analysis = _Analysis(flat)
    analysis.run()
    _Tables(flat, analysis).fill()
    groups = [
        f"{', '.join(sorted({name for _, name in group.members}))} by {group.period} "
        f"from {group.threshold} on"
        for group in analysis.classes
    ]
    names = ", ".join(open_names)
    flat.scope = f"all interleavings, any number of {names} (repeating: {'; '.join(groups)})"


class _Analysis:
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

    def run(self) -> None:
        for name, size in self.flat.sizes.items():
            if isinstance(size, tuple):
                raise NotApplicableError(f"{name} is given as a list of numbers")
        for parameter in self.open.values():
            self._add((-1, parameter.name))
        for number, role in enumerate(self.program.roles):
            self._find_growing(number, role)
        uses = list(self._uses())
        for number, role in enumerate(self.program.roles):
            self._unite_assignments(number, role)
        for use in uses:
            self._unite(use.role, self._fold(use.expression))
        self._unite_ghosts(uses)
        for number, role in enumerate(self.program.roles):
            self._check_assignments(number, role)
        for use in uses:
            self._check(use)
        self._collect()

    # ------------------------------------------------------------------------ what grows

    def _add(self, member: Member) -> None:
        self.parent[member] = member
        self.growing.add(member)

    def find(self, member: Member) -> Member:
        while self.parent[member] != member:
            member = self.parent[member]
        return member

    def _union(self, left: Member, right: Member) -> None:
        first, second = self.find(left), self.find(right)
        if first != second:
            self.parent[max(first, second)] = min(first, second)

    def _fold(self, expression: Expression) -> Expression:
        return substitute(expression, dict(self.given))

    def _find_growing(self, number: int, role: ir.Role) -> None:
        """Loop variables without a constant stop, and counters that are only stepped up."""
        assigned: dict[str, list[Expression]] = {}
        loops: dict[str, list[ir.Loop]] = {}
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Assign):
                assigned.setdefault(operation.variable, []).append(self._fold(operation.value))
            elif isinstance(operation, ir.Loop):
                loops.setdefault(operation.variable, []).append(operation)
        for name, entries in loops.items():
            bounds = [self._constant_bounds(loop) for loop in entries]
            known = [b for b in bounds if b is not None]
            if len(known) == len(bounds) and name not in assigned:
                low, high = min(b[0] for b in known), max(b[1] for b in known)
                self.bounds[(number, name)] = (min(0, low), max(0, low, high))
            else:
                self._add((number, name))
        for name, values in assigned.items():
            stepped = any(_step_of(value, name) is not None for value in values)
            fresh = (number, name) not in self.parent
            if stepped and fresh and not self._reset_in_loop(role, name):
                self._add((number, name))

    def _constant_bounds(self, loop: ir.Loop) -> tuple[int, int] | None:
        start, stop = self._fold(loop.start), self._fold(loop.stop)
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
            and _step_of(self._fold(op.value), name) is None
        }
        inside_loop = {
            id(op)
            for loop in ir.walk(role.body)
            if isinstance(loop, ir.Loop)
            for op in ir.walk(loop.body)
        }
        return bool(resets & inside_loop)

    # ------------------------------------------------------------------- all expressions

    def _uses(self) -> Iterator[_Use]:
        for number, role in enumerate(self.program.roles):
            for operation in ir.walk(role.body):
                yield from self._uses_of(number, operation)

    def _uses_of(self, number: int, operation: ir.Operation) -> Iterator[_Use]:
        match operation:
            case ir.Loop(variable=variable, stop=stop):
                yield _Use(number, Binary("<", Name(variable), stop), "plain")
            case ir.Assign():
                return
            case ir.Wait(barrier=barrier, parity=parity, phase=phase):
                yield _Use(number, barrier.index, "plain")
                yield _Use(number, parity, "parity")
                if phase is not None:
                    yield _Use(number, phase, "phase", barrier.name)
            case ir.Access(effects=effects) | ir.Asynchronous(effects=effects):
                for effect in effects:
                    yield _Use(number, effect.stage, "plain")
                    if effect.part is not None:
                        yield _Use(number, effect.part, "plain")
                    if effect.tile is not None:
                        yield _Use(number, effect.tile, "tile", effect.buffer, effect.write)
                if isinstance(operation, ir.Asynchronous):
                    for completion in operation.completes:
                        yield _Use(number, completion.barrier.index, "plain")
                        yield _Use(number, completion.bytes, "plain")
            case _:
                from titan.explore.flatten import expressions_of

                for expression in expressions_of(operation):
                    yield _Use(number, expression, "plain")

    def _member(self, role: int, name: str) -> Member | None:
        """The growing member that a name stands for in the role."""
        if name in self.open:
            return (-1, name)
        return (role, name) if (role, name) in self.growing else None

    def _members(self, role: int, expression: Expression) -> set[Member]:
        found = (self._member(role, name) for name in names_of(expression))
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
        form = linear_form(self._fold(binary("-", left, right)))
        if form is None:
            return
        up = [self._member(role, n) for n, c in form[0].items() if c > 0]
        down = [self._member(role, n) for n, c in form[0].items() if c < 0]
        rising = [m for m in up if m is not None]
        falling = [m for m in down if m is not None]
        if len(rising) == 1 and len(falling) == 1:
            self._union(rising[0], falling[0])

    def _unite_ghosts(self, uses: list[_Use]) -> None:
        """Who counts the tiles of one memory, or the phases of one barrier, does so together."""
        counting: dict[tuple[str, str], Member] = {}
        for use in uses:
            members = self._members(use.role, self._fold(use.expression))
            if use.kind not in ("tile", "phase") or len(members) != 1:
                continue
            target = use.target if use.kind == "phase" else self._family(use.target)
            member = members.pop()
            self._union(counting.setdefault((use.kind, target), member), member)

    def _assignments(self, role: ir.Role) -> Iterator[tuple[str, Expression]]:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Assign):
                yield operation.variable, self._fold(operation.value)
            elif isinstance(operation, ir.Loop):
                yield operation.variable, self._fold(operation.start)

    def _unite_assignments(self, number: int, role: ir.Role) -> None:
        # A variable that takes over a growing one grows with it.
        changed = True
        while changed:
            changed = False
            for name, value in self._assignments(role):
                if (number, name) in self.growing or (number, name) in self.bounds:
                    continue
                form = linear_form(value)
                if form is not None and any(self._member(number, other) for other in form[0]):
                    self._add((number, name))
                    changed = True
        for name, value in self._assignments(role):
            form = linear_form(value)
            if (number, name) not in self.growing or form is None or len(form[0]) != 1:
                continue
            other = self._member(number, next(iter(form[0])))
            if other is not None:
                self._union((number, name), other)

    # -------------------------------------------------------------------------- degrees

    def _stop(self, role: int, expression: Expression, reason: str) -> NotApplicableError:
        name = self.program.roles[role].name
        return NotApplicableError(f"role {name}: {to_text(expression)} {reason}")

    def degree(self, role: int, expression: Expression) -> Degree:
        """How much the value falls when all members of a class fall by one."""
        match expression:
            case Constant():
                return {}
            case Name(name):
                member = self._member(role, name)
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
            raise self._stop(role, expression, "grows with the loops, where a bounded value is due")
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
        form = linear_form(self._fold(difference))
        members: dict[Member, int] = {}
        low = high = 0
        for name, factor in (form[0] if form else {}).items():
            member = self._member(role, name)
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
        expression = self._fold(use.expression)
        if use.kind == "parity":
            self._plain(use.role, Binary("%", expression, Constant(2)))
        elif use.kind == "plain":
            self._plain(use.role, expression)
        else:
            self._check_ghost(use, expression)

    def _check_ghost(self, use: _Use, expression: Expression) -> None:
        degree = self.degree(use.role, expression)
        for representative in degree:
            if representative[0] < 0 and self.open[representative[1]].per is not None:
                raise self._stop(use.role, expression, "depends on a loop that starts anew")
        if use.kind == "phase":
            known = self.phase_degree.setdefault(use.target, degree)
            for representative, value in degree.items():
                # Parities agree when phases shift by an even number.
                self._need_period(use.role, expression, representative, value / 2)
        else:
            known = self.tile_degree.setdefault(self._family(use.target), degree)
            for representative, value in degree.items():
                self._need_period(use.role, expression, representative, value)
        if known != degree:
            what = "phases" if use.kind == "phase" else "tiles"
            raise self._stop(
                use.role, expression, f"counts {what} of {use.target} unlike other operations"
            )

    def _family(self, buffer: str) -> str:
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
                    f"{windows[0]} has a number of its own in every iteration of a loop and is "
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


class _Tables:
    """The classes as the native core reads them."""

    def __init__(self, flat: Flat, analysis: _Analysis) -> None:
        self.flat, self.analysis = flat, analysis
        self.number = {
            member: number
            for number, entry in enumerate(analysis.classes)
            for member in entry.members
        }

    def fill(self) -> None:
        flat, classes = self.flat, self.analysis.classes
        if len(classes) > 60:
            raise NotApplicableError("more than 60 groups of numbers grow independently")
        parameters = {p.name: n for n, p in enumerate(flat.parameters)}
        flat.classes = [
            [c.period, c.threshold, -1 if c.parameter is None else parameters[c.parameter]]
            for c in classes
        ]
        flat.variable_class = [
            [self.number.get((role, name), -1) for name in names]
            + [-1] * (flat.variables_max - len(names))
            for role, names in enumerate(flat.variables)
        ]
        flat.parameter_class = [self.number.get((-1, p.name), -1) for p in flat.parameters]
        for parameter, row in zip(flat.parameters, flat.parameter_rows, strict=True):
            row[7] = self._outer_class(parameter)
            own = self.number.get((-1, parameter.name))
            if own is not None:
                row[5] = classes[own].threshold + 4 * classes[own].period + 256
        self._shifts()
        self._restarts()

    def _outer_class(self, parameter: ir.Parameter) -> int:
        """The class of the outer variable; it must be one class, or bounded everywhere."""
        if parameter.per is None or parameter.name in self.flat.sizes:
            return -1
        found = {
            self.number.get((role, parameter.per), -1)
            for role, names in enumerate(self.flat.variables)
            if parameter.per in names
        }
        if len(found) > 1:
            raise NotApplicableError(
                f"roles count {parameter.per} in ways that do not grow together"
            )
        return found.pop() if found else -1

    def _shifts(self) -> None:
        flat, analysis = self.flat, self.analysis
        storages = {b.name: b.storage or b.name for b in flat.program.buffers}
        for number, entry in enumerate(analysis.classes):
            root = analysis.find(next(iter(entry.members)))
            tiles, ancient = [], []
            for owners in flat.cell_buffers:
                family = storages[next(iter(owners))] if owners else ""
                degree = analysis.tile_degree.get(family, {}).get(root, Fraction(0))
                tiles.append(int(degree * entry.period))
                ancient.append(self._ancient(family, number, entry) if degree else NEVER_ANCIENT)
            phases = []
            for barrier in flat.program.barriers:
                degree = analysis.phase_degree.get(barrier.name, {}).get(root, Fraction(0))
                phases += [int(degree * entry.period)] * barrier.stages
            flat.cell_shift.append(tiles)
            flat.cell_ancient.append(ancient)
            flat.barrier_shift.append(phases)

    def _ancient(self, family: str, number: int, entry: ShiftClass) -> int:
        """The least tile that a reader with members at the threshold can mean."""
        analysis, least = self.analysis, None
        for use in analysis._uses():
            if use.kind != "tile" or use.write or analysis._family(use.target) != family:
                continue
            value = self._least(use.role, analysis._fold(use.expression), number, entry.threshold)
            if value is None:
                return NEVER_ANCIENT
            least = value if least is None else min(least, value)
        return NEVER_ANCIENT if least is None else least

    def _least(self, role: int, expression: Expression, number: int, threshold: int) -> int | None:
        """A lower bound, where the expression grows with all its names; None where unknown."""
        match expression:
            case Constant(value):
                return value
            case Name(name):
                member = self.analysis._member(role, name)
                if member is not None:
                    return threshold if self.number[member] == number else None
                if (role, name) in self.analysis.bounds:
                    return self.analysis.bounds[(role, name)][0]
                declared = self.flat.program.roles[role]
                return 0 if name == declared.agent_constant else None
            case Binary("-", left, Constant(value)):
                inner = self._least(role, left, number, threshold)
                return None if inner is None else inner - value
            case Binary("+" | "min" | "max" as operator, left, right):
                first = self._least(role, left, number, threshold)
                second = self._least(role, right, number, threshold)
                if first is None or second is None:
                    return None
                return {"+": first + second, "min": min(first, second), "max": max(first, second)}[
                    operator
                ]
            case Binary("*" | "//" as operator, left, Constant(value)) if value > 0:
                inner = self._least(role, left, number, threshold)
                if inner is None:
                    return None
                return inner * value if operator == "*" else inner // value
        return None

    # --------------------------------------------------------------------------- restarts

    def _restarts(self) -> None:
        """From which nodes a member may still be set from a constant."""
        flat = self.flat
        windows = [
            (number, parameter)
            for number, parameter in enumerate(flat.parameters)
            if parameter.per is not None and parameter.name not in flat.sizes
        ]
        own_restart = [self._restart_bit(node) for node in flat.nodes]
        own_rewind = [
            sum(1 << number for number, parameter in windows if self._sets(node, parameter.per))
            for node in flat.nodes
        ]
        cuts = [self._cut_classes(node, windows) for node in flat.nodes]
        changed = True
        while changed:
            changed = False
            for place, node in enumerate(flat.nodes):
                restart, rewinds = own_restart[place], own_rewind[place]
                for after in _successors(node):
                    # The next iteration of the outer loop is another instance.
                    restart |= flat.nodes[after].restart & ~cuts[place]
                    rewinds |= flat.nodes[after].rewinds
                if (restart, rewinds) != (node.restart, node.rewinds):
                    node.restart, node.rewinds = restart, rewinds
                    changed = True

    def _restart_bit(self, node: Node) -> int:
        if node.kind != KINDS["assign"]:
            return 0
        group = self.flat.variable_class[node.role][node.x]
        if group < 0:
            return 0
        assert node.value is not None
        value = self.analysis._fold(node.value)
        return 0 if self.analysis.degree(node.role, value) else 1 << group

    def _sets(self, node: Node, outer: str | None) -> bool:
        """Whether the node sets the outer variable other than by a step."""
        names = self.flat.variables[node.role]
        if node.kind != KINDS["assign"] or outer not in names or names[outer] != node.x:
            return False
        return outer not in node.uses

    def _cut_classes(self, node: Node, windows: Iterable[tuple[int, ir.Parameter]]) -> int:
        """Classes of windows whose outer variable the node steps."""
        names, bits = self.flat.variables[node.role], 0
        for number, parameter in windows:
            if node.kind != KINDS["assign"] or parameter.per not in names:
                continue
            if names[parameter.per or ""] == node.x and not self._sets(node, parameter.per):
                bits |= 1 << self.flat.parameter_class[number]
        return bits


def _successors(node: Node) -> list[int]:
    return [to for to in (node.next, node.alt) if to >= 0]
