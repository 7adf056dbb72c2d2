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
  agree because P * degree of a phase is even. An operation outside the loops that grow may name a
  fixed tile or phase instead (a prologue fills stage s with tile s): while an agent can still come
  to it, it blocks the shift like a variable that is yet to be set from a constant.
- A tile below every one that a reader can still mean is never equal to a tile meant, whatever its
  number: all these are one value. `e` at the threshold is the least tile that a reader with members
  at or above K can mean, as far as e grows with its members; where it does not, tiles are kept.

So each reachable state is bisimilar to the one stored for it, and a search that ends has seen every
fault that any sizes lead to; the sizes that a path decides are the shifted ones, and the trace is
followed again without shifts, so that it names real ones.

A size with a separate number for every value of an outer variable w has a window of records, one
a value of w between the slowest and the fastest reader. Its class is shifted record by record:
members are the variables of the agents whose w is that of the record; an agent that has yet to
come to this w, or to start the loop in it, blocks the shift. No member may be kept from one w to
the next. Tiles and phases must not depend on such a class (kernels count tiles with a counter of
their own).

Where a check fails the quotient does not apply and `NotApplicableError` says which expression of
which role stands in the way. Nothing here is assumed of a program that is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from titan.engines.explore.layout import NativeNodeKind
from titan.engines.explore.shifts import Analysis, NotApplicableError, ShiftClass
from titan.engines.explore.tables import Flat, FlatNode
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name, linear_form

__all__ = ["NotApplicableError", "apply_quotient"]

NEVER_ANCIENT = -(2**39)


def apply_quotient(flat: Flat) -> None:
    """Find the shift classes of the program's open sizes and put them into the tables.

    Raises NotApplicableError.
    """
    open_names = [p.name for p in flat.parameters if p.name not in flat.sizes]
    if not open_names:
        fixed = ", ".join(f"{name} = {size}" for name, size in flat.sizes.items())
        flat.scope = f"all interleavings, {fixed}" if fixed else "all interleavings"
        return
    analysis = Analysis(flat)
    analysis.run()
    _Tables(flat, analysis).fill()
    groups = [
        f"{', '.join(sorted({name for _, name in group.members}))} by {group.period} "
        f"from {group.threshold} on"
        for group in analysis.classes
    ]
    names = ", ".join(open_names)
    flat.scope = f"all interleavings, any number of {names} (repeating: {'; '.join(groups)})"


class _Tables:
    """The classes as the native core reads them."""

    def __init__(self, flat: Flat, analysis: Analysis) -> None:
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
            [
                c.period,
                c.threshold,
                -1 if c.parameter is None else parameters[c.parameter],
                number if c.parameter is None else self._companion(number),
            ]
            for number, c in enumerate(classes)
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

    def _companion(self, number: int) -> int:
        """A class every iteration of this one's loops steps: a running counter, as a rule."""
        common: set[int] | None = None
        for place, role in enumerate(self.flat.program.roles):
            for operation in ir.walk(role.body):
                if not isinstance(operation, ir.Loop):
                    continue
                if self.number.get((place, operation.variable)) != number:
                    continue
                stepped = {
                    self.number.get((place, inner.variable), number)
                    for inner in operation.body
                    if isinstance(inner, ir.Assign) and self._steps(place, inner)
                }
                common = stepped if common is None else common & stepped
        others = sorted((common or set()) - {number})
        return others[0] if others else number

    def _steps(self, role: int, assign: ir.Assign) -> bool:
        form = linear_form(self.analysis.fold(assign.value))
        return form is not None and form[0] == {assign.variable: 1} and form[1] > 0

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
        for use in analysis.uses():
            if use.kind != "tile" or use.write or analysis.family(use.target) != family:
                continue
            value = self._least(use.role, analysis.fold(use.expression), number, entry.threshold)
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
                member = self.analysis.member(role, name)
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
        for node, cut, rewound in zip(flat.nodes, cuts, own_rewind, strict=True):
            self._check_carried(node, cut, rewound)
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

    def _restart_bit(self, node: FlatNode) -> int:
        if node.kind != NativeNodeKind.ASSIGN:
            fixed = self.analysis.fixed_ghosts.get(id(node.operation), set())
            roots = {self.analysis.find(member): n for member, n in self.number.items()}
            return sum(1 << roots[root] for root in fixed)
        group = self.flat.variable_class[node.role][node.x]
        if group < 0:
            return 0
        assert node.value is not None
        value = self.analysis.fold(node.value)
        return 0 if self.analysis.degree(node.role, value) else 1 << group

    def _sets(self, node: FlatNode, outer: str | None) -> bool:
        """Whether the node sets the outer variable other than by a step."""
        names = self.flat.variables[node.role]
        if node.kind != NativeNodeKind.ASSIGN or outer not in names or names[outer] != node.x:
            return False
        return outer not in node.uses

    def _check_carried(self, node: FlatNode, cut: int, rewound: int) -> None:
        """No member of a window may be carried from one value of the outer variable to another.

        It would have been made relative with the size of the one, and be compared with the other's.
        """
        for group, entry in enumerate(self.analysis.classes):
            parameter = self.flat.classes[group][2]
            if parameter < 0 or not (cut >> group & 1 or rewound >> parameter & 1):
                continue
            after = [self.flat.nodes[number] for number in _successors(node)]
            for name, place in self.flat.variables[node.role].items():
                carried = any(following.live >> place & 1 for following in after)
                if carried and (node.role, name) in entry.members:
                    role = self.flat.program.roles[node.role].name
                    raise NotApplicableError(
                        f"role {role}: {name} counts up to {entry.parameter} and is kept where "
                        f"{self.flat.parameters[parameter].per} changes"
                    )

    def _cut_classes(self, node: FlatNode, windows: Iterable[tuple[int, ir.Parameter]]) -> int:
        """Classes of windows whose outer variable the node steps."""
        names, bits = self.flat.variables[node.role], 0
        for number, parameter in windows:
            if node.kind != NativeNodeKind.ASSIGN or parameter.per not in names:
                continue
            if names[parameter.per or ""] == node.x and not self._sets(node, parameter.per):
                bits |= 1 << self.flat.parameter_class[number]
        return bits


def _successors(node: FlatNode) -> list[int]:
    return [to for to in (node.next, node.alt) if to >= 0]
