"""The rules of the protocol as questions: is there a size and an iteration that breaks one?

Each function yields formulas that are satisfiable only if its rule can be broken. They may be
satisfiable for a protocol that is right (the lists of executions before another are not complete),
so a model is a suspicion, confirmed or dropped by running the tokens at its sizes. The other way
round nothing is lost: where every formula is unsatisfiable, no size breaks the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from titan.foundation.records import dataclass
from titan.language.protocol import model
from titan.language.protocol.content import poison_condition
from titan.language.protocol.families import AgentClass, StatementFamily, UnsupportedProtocol
from titan.language.protocol.orders import (
    FamilyExecution,
    earlier,
    matching,
    nearest,
    nearest_after,
    touches,
)
from titan.language.protocol.solver import Residue, SolverArithmetic, apart, residue
from titan.language.protocol.uses import StageUse, Uses
from titan.sync.expression import Binary, Constant, Expression, binary
from titan.target.description import target_of


@dataclass(frozen=True, slots=True)
class Obligation:
    """`formula` satisfiable: `code` may be broken. `soft`: a model cannot refute, only leave open.

    `reason` says what a model means where it does not refute.
    """

    code: str
    formula: Any
    statement: model.Statement
    soft: bool = False
    reason: str = ""


class Obligations:
    """All questions of one protocol. Iterating over a group may raise Unsupported."""

    def __init__(
        self,
        protocol: model.Protocol,
        uses: Uses,
        arithmetic: SolverArithmetic,
        depths: dict[str, Expression],
        ready: dict[str, int],
        free: dict[str, int],
    ) -> None:
        self.protocol = protocol
        self.uses = uses
        self.ask = arithmetic
        self.depths = depths
        self.ready = ready
        self.free = free
        self.rings = {ring.name: ring for ring in protocol.rings}
        self._residues: dict[int, Residue] = {}
        self.commits = target_of(protocol.target).matrix_commits_to_barriers

    def groups(self) -> Iterator[Iterator[Obligation]]:
        """All questions, in groups of which each may be Unsupported for itself."""
        yield self.indices()
        for use in self.uses.writes:
            yield self.write(use)
        for use in self.uses.acquires:
            yield self.acquire(use)
        for use in self.uses.waits:
            yield self.wait(use)
        for use in self.uses.reads:
            yield self.read(use)
        for use in self.uses.releases:
            yield self.release(use)
        yield self.ends()
        yield self.finalizes()
        yield self.collective()

    # ----------------------------------------------------------------------------- helpers

    def holds(self, conditions: list[Expression]) -> Any:
        """The conjunction of the conditions as formula of the solver."""
        return self.ask.all_of(conditions)

    def _apart(self, use: StageUse, wanted: Expression) -> bool:
        """Whether no execution of a use touches `wanted`, by what divides their difference."""
        self.ask.terms.count(1)
        mine = self._residues.get(id(use))
        if mine is None:
            mine = self._residues[id(use)] = residue(use.family.expression(use.index))
        return apart(mine, residue(wanted))

    def some(self, use: StageUse, wanted: Expression, *extra: Expression) -> Any:
        """Some execution of a use touches `wanted`."""
        if self._apart(use, wanted):
            return self.ask.terms.truth(False)
        execution = matching(use.family, use.index, wanted)
        return self.holds([*touches(execution, use.index, wanted), *extra])

    def some_before(self, use: StageUse, wanted: Expression, reference: FamilyExecution) -> Any:
        """Some execution of a use touches `wanted` and is earlier than `reference`."""
        if self._apart(use, wanted):
            return self.ask.terms.truth(False)
        execution = matching(use.family, use.index, wanted)
        order = earlier(execution, reference)
        return self.holds([*touches(execution, use.index, wanted), order])

    def some_after(self, use: StageUse, wanted: Expression, reference: FamilyExecution) -> Any:
        """Some execution of a use touches `wanted` and is later than `reference`."""
        if self._apart(use, wanted):
            return self.ask.terms.truth(False)
        execution = matching(use.family, use.index, wanted)
        order = earlier(reference, execution)
        return self.holds([*touches(execution, use.index, wanted), order])

    def arrived(self, uses: list[StageUse], ring: str, wanted: Expression) -> Any:
        """How many arrivals the uses give index `wanted`, over all agents."""
        terms = self.ask.terms
        return terms.total(
            [
                terms.choice(
                    self.some(use, wanted),
                    terms.number(use.family.agent.multiplicity),
                    terms.number(0),
                )
                for use in uses
                if use.ring == ring
            ]
        )

    def any_of(self, uses: list[StageUse], ring: str, wanted: Expression) -> Any:
        """Some execution of any use of this ring touches `wanted`."""
        return self.ask.terms.any(*[self.some(use, wanted) for use in uses if use.ring == ring])

    def same_agent(self, uses: list[StageUse], use: StageUse) -> list[StageUse]:
        """Those of `uses` that concern the same ring and the same class of agents as `use`."""
        return [
            other
            for other in uses
            if other.ring == use.ring and other.family.agent is use.family.agent
        ]

    def others(self, uses: list[StageUse], use: StageUse) -> bool:
        """Whether another class of agents has such a use of the ring."""
        return any(
            other.ring == use.ring and other.family.agent is not use.family.agent for other in uses
        )

    def own(self, use: StageUse) -> tuple[FamilyExecution, Expression, Any]:
        """Any execution of a use: itself, its index and its conditions."""
        execution = FamilyExecution(use.family.renamed("~"))
        return execution, execution.value(use.index), self.holds(execution.conditions)

    def twice(self, uses: list[StageUse], use: StageUse) -> Any:
        """The same agent touches the index of `use` again, later."""
        terms = self.ask.terms
        execution, index, _ = self.own(use)
        return terms.any(
            *[self.some_after(other, index, execution) for other in self.same_agent(uses, use)]
        )

    # ------------------------------------------------------------------------------- rules

    def indices(self) -> Iterator[Obligation]:
        """For every acquire, write, wait and release: can its index be negative (TTN106)?"""
        terms = self.ask.terms
        for use in (
            *self.uses.acquires, *self.uses.writes, *self.uses.waits, *self.uses.releases,
        ):  # fmt: skip
            _, index, there = self.own(use)
            below = self.ask.truth(Binary("<", index, Constant(0)))
            yield Obligation("TTN106", terms.all(there, below), use.statement)

    def write(self, use: StageUse) -> Iterator[Obligation]:
        """Acquired before, filled once, with as many arrivals as expected, and waited for."""
        terms = self.ask.terms
        execution, index, there = self.own(use)
        mine = self.same_agent(self.uses.acquires, use)
        again = self.ask.truth(Binary(">=", index, self.depths[use.ring]))
        before = terms.any(*[self.some_before(other, index, execution) for other in mine])
        unheld = terms.all(there, again, terms.negation(before))
        if not mine and self.others(self.uses.acquires, use):
            reason = f"{use.ring} is filled by agents for which others acquire it"
            yield Obligation("TTN101", unheld, use.statement, True, reason)
        else:
            yield Obligation("TTN106" if mine else "TTN101", unheld, use.statement)
        if not use.arrives:
            completed = terms.any(
                *[
                    self.some_before(other, index, execution)
                    for other in self.same_agent(self.uses.arrivals, use)
                ]
            )
            yield Obligation("TTN102", terms.all(there, completed), use.statement)
            return
        yield Obligation(
            "TTN102", terms.all(there, self.twice(self.uses.arrivals, use)), use.statement
        )
        count = self.arrived(self.uses.arrivals, use.ring, index)
        over = terms.compared(">", count, terms.number(self.ready[use.ring]))
        yield Obligation("TTN102", terms.all(there, over), use.statement)
        stored = isinstance(use.statement, model.Produce) and use.statement.stored
        if self.rings[use.ring].transport is not model.Transport.STORE and not stored:
            unseen = terms.negation(self.any_of(self.uses.waits, use.ring, index))
            data = self._has_data(use, execution, index)
            yield Obligation("TTN109", terms.all(there, data, unseen), use.statement)

    def _has_data(self, use: StageUse, execution: FamilyExecution, index: Expression) -> Any:
        terms = self.ask.terms
        parts = []
        if use.bytes is not None:
            parts.append(self.ask.truth(Binary(">", execution.value(use.bytes), Constant(0))))
        statement = use.statement
        if isinstance(statement, model.Produce) and statement.poison is not None:
            parts.append(terms.negation(self.ask.truth(execution.value(statement.poison))))
        return terms.all(*parts)

    def acquire(self, use: StageUse) -> Iterator[Obligation]:
        """The stage's last readers all give it back; an agent that acquires also fills."""
        terms = self.ask.terms
        execution, index, there = self.own(use)
        older = binary("-", index, self.depths[use.ring])
        again = self.ask.truth(Binary(">=", older, Constant(0)))
        count = self.arrived(self.uses.releases, use.ring, older)
        wanted = terms.number(self.free[use.ring])
        yield Obligation(
            "TTN105", terms.all(there, again, terms.compared("<", count, wanted)), use.statement
        )
        yield Obligation(
            "TTN113", terms.all(there, again, terms.compared(">", count, wanted)), use.statement
        )
        late = [
            self.some_before(other, index, execution)
            for other in self.same_agent(self.uses.arrivals, use)
        ]
        yield Obligation(
            "TTN106", terms.all(there, terms.any(*late)), use.statement, True,
            f"an agent acquires an index of {use.ring} that it has filled already",
        )  # fmt: skip
        yield self._parity(use, self.uses.acquires, older)
        filled = terms.any(
            *[
                self.some_after(other, index, execution)
                for other in self.same_agent(self.uses.arrivals, use)
            ]
        )
        yield Obligation(
            "TTN106", terms.all(there, terms.negation(filled)), use.statement, True,
            f"an agent acquires a stage of {use.ring} that it does not fill",
        )  # fmt: skip

    def _parity(self, use: StageUse, uses: list[StageUse], phase: Expression) -> Obligation:
        """The agent has seen the phase before the one it asks for.

        Without that, a parity wait passes on the phase before that one.
        """
        terms = self.ask.terms
        execution, index, there = self.own(use)
        depth = self.depths[use.ring]
        asks = self.ask.truth(Binary(">=", phase, depth))
        previous = binary("-", index, depth)
        seen = terms.any(
            *[self.some_before(other, previous, execution) for other in self.same_agent(uses, use)]
        )
        wanted = terms.truth(target_of(self.protocol.target).parity_barriers)
        return Obligation(
            "TTN106", terms.all(wanted, there, asks, terms.negation(seen)), use.statement
        )

    def wait(self, use: StageUse) -> Iterator[Obligation]:
        """Somebody makes the index ready, and the agent has not given it back already."""
        terms = self.ask.terms
        execution, index, there = self.own(use)
        count = self.arrived(self.uses.arrivals, use.ring, index)
        few = terms.compared("<", count, terms.number(self.ready[use.ring]))
        yield Obligation("TTN107", terms.all(there, few), use.statement)
        yield self._parity(use, self.uses.waits, index)
        gone = terms.any(
            *[
                self.some_before(other, index, execution)
                for other in self.same_agent(self.uses.releases, use)
            ]
        )
        yield Obligation(
            "TTN112", terms.all(there, gone), use.statement, True,
            f"an agent waits for a tile of {use.ring} that it has released",
        )  # fmt: skip
        if self.rings[use.ring].free_count:
            returned = terms.any(
                *[
                    self.some_after(other, index, execution)
                    for other in self.same_agent(self.uses.releases, use)
                ]
            )
            yield Obligation(
                "TTN105", terms.all(there, terms.negation(returned)), use.statement, True,
                f"an agent waits for tiles of {use.ring} that others release",
            )  # fmt: skip

    def read(self, use: StageUse) -> Iterator[Obligation]:
        """Waited for before, not released before, not poisoned."""
        terms = self.ask.terms
        execution, index, there = self.own(use)
        mine = self.same_agent(self.uses.waits, use)
        before = terms.any(*[self.some_before(other, index, execution) for other in mine])
        early = terms.all(there, terms.negation(before))
        if not mine and self.others(self.uses.waits, use):
            reason = f"{use.ring} is read by agents for which others wait"
            yield Obligation("TTN103", early, use.statement, True, reason)
        else:
            yield Obligation("TTN103", early, use.statement)
        gone = terms.any(
            *[
                self.some_before(other, index, execution)
                for other in self.same_agent(self.uses.releases, use)
            ]
        )
        yield Obligation("TTN103", terms.all(there, gone), use.statement)
        condition = poison_condition(self.protocol, use.ring)
        if condition is not None:
            if not condition.exact:
                raise UnsupportedProtocol(
                    f"whether a tile of {use.ring} is poisoned does not follow from its index",
                    use.statement.span,
                )
            poisoned = self.ask.truth(condition.at(index))
            yield Obligation("TTN111", terms.all(there, poisoned), use.statement)

    def release(self, use: StageUse) -> Iterator[Obligation]:
        """Waited for before, once, and after every group that reads the stage."""
        terms = self.ask.terms
        execution, index, there = self.own(use)
        mine = self.same_agent(self.uses.waits, use)
        before = terms.any(*[self.some_before(other, index, execution) for other in mine])
        early = terms.all(there, terms.negation(before))
        if not mine and self.others(self.uses.waits, use):
            reason = f"{use.ring} is released by agents for which others wait"
            yield Obligation("TTN112", early, use.statement, True, reason)
        else:
            yield Obligation("TTN112", early, use.statement)
        yield Obligation(
            "TTN113", terms.all(there, self.twice(self.uses.releases, use)), use.statement
        )
        for read in self.same_agent(self.uses.reads, use):
            if not read.asynchronous:
                continue
            issue = FamilyExecution(read.family)
            same = Binary("==", issue.value(read.index), index)
            open_ = self.holds([*issue.conditions, same, earlier(issue, execution)])
            drained = self.drained(issue, execution)
            yield Obligation(
                "TTN104", terms.all(there, open_, terms.negation(drained)), use.statement
            )

    # ------------------------------------------------------------------------------ drains

    def drained(self, issue: FamilyExecution, until: FamilyExecution | None) -> Any:
        """Some drain before `until` covers the issue (`until` itself where it waits)."""
        terms = self.ask.terms
        agent = issue.family.agent
        cases: list[Any] = []
        for drain in self.uses.drains:
            if drain.agent is agent:
                assert isinstance(drain.statement, model.Drain)
                leaving = drain.statement.leaving
                assert isinstance(leaving, Constant)
                for place in nearest(drain, until, 2):
                    if leaving.value >= 0:
                        group = drain.statement.group
                        cases.append(self._by(place, until, issue, group, leaving.value))
        for final in self.uses.finalizes:
            if final.agent is agent:
                for place in nearest(final, until, 1):
                    cases.append(self._ordered(place, until, issue))
        for use in self.uses.releases:
            after = getattr(use.statement, "after", None)
            if use.family.agent is not agent or after is None:
                continue
            if not self.commits:
                for place in nearest(use.family, until, 2):
                    cases.append(self._by(place, until, issue, after, 0))
            if until is not None and use.family.statement is until.family.statement:
                cases.append(self._by(until, None, issue, after, 0))
        return terms.any(*cases)

    def _ordered(
        self, place: FamilyExecution, until: FamilyExecution | None, issue: FamilyExecution
    ) -> Any:
        """`place` is executed, after the issue and before `until`."""
        conditions = [*place.conditions, earlier(issue, place)]
        if until is not None:
            conditions.append(earlier(place, until))
        return self.holds(conditions)

    def _by(
        self,
        place: FamilyExecution,
        until: FamilyExecution | None,
        issue: FamilyExecution,
        group: str,
        leaving: int,
    ) -> Any:
        """A wait at `place` for all of `group` but the newest `leaving` covers the issue."""
        terms = self.ask.terms
        statement = issue.family.statement
        assert isinstance(statement, model.Issue)
        own = statement.group == group
        needed = leaving if own else leaving + 1
        executed = self._ordered(place, until, issue)
        if needed == 0:
            return executed
        newer = []
        for other in self.uses.issues:
            named = other.statement
            assert isinstance(named, model.Issue)
            if other.agent is not issue.family.agent or named.group != group:
                continue
            for later in nearest(other, place, needed + 1):
                conditions = [*later.conditions, earlier(issue, later), earlier(later, place)]
                newer.append(terms.choice(self.holds(conditions), terms.number(1), terms.number(0)))
        if not newer:
            return terms.truth(False)
        return terms.all(executed, terms.compared(">=", terms.total(newer), terms.number(needed)))

    # ------------------------------------------------------------------------------ the end

    def ends(self) -> Iterator[Obligation]:
        """Whatever went into a tensor-core queue is over when the program ends."""
        terms = self.ask.terms
        for family in self.uses.issues:
            issue = FamilyExecution(family.renamed("~"))
            there = self.holds(issue.conditions)
            over = terms.any(self.drained(issue, None), self._seen(issue))
            yield Obligation("TTN109", terms.all(there, terms.negation(over)), family.statement)
        if self.commits:
            for use in self.uses.releases:
                if getattr(use.statement, "after", None) is None:
                    continue
                mark = FamilyExecution(use.family.renamed("~"))
                there = self.holds(mark.conditions)
                over = terms.any(self._drained_after(mark), self._seen(mark))
                yield Obligation("TTN109", terms.all(there, terms.negation(over)), use.statement)

    def _drained_after(self, mark: FamilyExecution) -> Any:
        cases = [
            self.holds([*place.conditions, earlier(mark, place)])
            for family in (*self.uses.drains, *self.uses.finalizes)
            if family.agent is mark.family.agent
            for place in (*nearest(family, None, 1), *nearest_after(family, mark))
        ]
        return self.ask.terms.any(*cases)

    def _seen(self, reference: FamilyExecution) -> Any:
        """A commit at or after `reference` for which another agent waits."""
        terms = self.ask.terms
        cases = []
        zero: Expression = Constant(0)
        for use in (*self.uses.arrivals, *self.uses.releases):
            if use.family.agent is not reference.family.agent:
                continue
            if use.arrives:
                if self.rings[use.ring].transport is not model.Transport.MMA:
                    continue
                watchers, shift = self.uses.waits, zero
            else:
                if not self.commits or getattr(use.statement, "after", None) is None:
                    continue
                watchers, shift = self.uses.acquires, self.depths[use.ring]
            itself = use.family.statement is reference.family.statement
            places = [*nearest(use.family, None, 2), *nearest_after(use.family, reference)]
            for place in [reference, *places] if itself else places:
                index = binary("+", place.value(use.index), shift)
                watched = self.any_of(watchers, use.ring, index)
                order = [] if place is reference else [earlier(reference, place)]
                cases.append(terms.all(self.holds([*place.conditions, *order]), watched))
        return terms.any(*cases)

    def finalizes(self) -> Iterator[Obligation]:
        """Where one role finalizes, every role that takes part in a ring does, exactly once."""
        if not self.uses.finalizes:
            return
        terms = self.ask.terms
        agents: dict[int, tuple[AgentClass, StatementFamily]] = {}
        for use in (*self.uses.acquires, *self.uses.writes, *self.uses.waits, *self.uses.releases):
            agents.setdefault(id(use.family.agent), (use.family.agent, use.family))
        for agent, family in agents.values():
            mine = [item for item in self.uses.finalizes if item.agent is agent]
            if any(item.loops for item in mine):
                raise UnsupportedProtocol("finalize in a loop", mine[0].statement.span)
            times = terms.total(
                [
                    terms.choice(
                        self.holds(list(item.conditions)), terms.number(1), terms.number(0)
                    )
                    for item in mine
                ]
            )
            statement = mine[0].statement if mine else family.statement
            yield Obligation(
                "TTN109", terms.negation(terms.compared("==", times, terms.number(1))), statement
            )

    def collective(self) -> Iterator[Obligation]:
        """A collective release is reached by all readers of the ring or by none."""
        terms = self.ask.terms
        for ring in self.protocol.rings:
            if ring.release is not model.ReleaseMode.COLLECTIVE:
                continue
            readers = {
                id(use.family.agent): use.family.agent
                for use in self.uses.waits
                if use.ring == ring.name
            }
            if len({agent.role.name for agent in readers.values()}) > 1:
                raise UnsupportedProtocol(
                    f"{ring.name} is released collectively by several roles", ring.span
                )
            releases = [use for use in self.uses.releases if use.ring == ring.name]
            for use in releases:
                _, index, there = self.own(use)
                for agent in readers.values():
                    mine = [other for other in releases if other.family.agent is agent]
                    joined = terms.any(*[self.some(other, index) for other in mine])
                    yield Obligation(
                        "TTN110", terms.all(there, terms.negation(joined)), use.statement
                    )
