"""Whether what the CTAs of a launch hand over by semaphores, flags and barriers is ordered.

A CTA waits until a word of global memory has a number that another one writes: serial split-K by
a semaphore, stream-K by counters of arrivals, `grid.sync()`. What each CTA does to the words is
the same in every execution, apart from how often it asks (`word_actors.py`); all states of each
word are explored (`word_states.py`), which gives the writes that each wait reads from in any
execution; and what that orders is a graph (`word_order.py`). Where accesses of two CTAs conflict
and the graph does not order them, they are a race if one execution has them unordered
(`word_schedules.py`), else the launch is undecided.

The first, the middle and the last CTA are judged by themselves, too, with waits that pass at once
and waits that fail first. The answer holds for the grid of the launch, with the words as the
launch gives them. CTAs begin in the order of their numbers; one that waits for a later one needs
all of them to be there at once, which a cooperative launch ensures and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from titan.foundation.diagnostics.model import Annotation, diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.grid.asked_words import (
    CTAS_MAX,
    AskedRuns,
    JointError,
    NotWaiting,
    NoWaitError,
    asks_only,
)
from titan.frontends.grid.hand_over import RACES_MAX, HandOver
from titan.frontends.grid.joint_votes import is_joint_vote
from titan.frontends.grid.lock_states import check_alone
from titan.frontends.grid.race_text import coordinates
from titan.frontends.grid.word_actors import (
    FAILED_ROUNDS,
    StuckError,
    WordWaits,
    actors_of,
    check_waiting,
)
from titan.frontends.grid.word_lanes import check_lanes
from titan.frontends.grid.word_loops import check_loop
from titan.frontends.grid.word_numbers import WordNumbers
from titan.frontends.grid.word_races import Comparison
from titan.frontends.grid.word_schedules import Place, in_order, schedules
from titan.frontends.grid.word_states import explore_word
from titan.frontends.grid.word_windows import windows_of
from titan.frontends.ptx.places import CodePlaces, PlacedCode
from titan.frontends.ptx.rendering import with_sources
from titan.frontends.ptx.trial import Trial
from titan.isa.simt.events import AccessSemantics
from titan.isa.simt.layout import GRID_WORKSPACE, GRID_WORKSPACE_BYTES
from titan.isa.simt.operations import DecodedCode, Op
from titan.isa.simt.outcome import Run
from titan.sync.fault import FaultKind

_STRONG = frozenset({"acquire", "relaxed", "volatile", "mmio"})
_ASKING = frozenset({"add", "or", "xor", "and", "cas"})  # atomics that may leave a number
STUCK_HELP = "the word keeps its number, and no CTA that goes on writes another one to it"
Judge = Callable[[Run, str, str], Trial]


def may_wait(module: PlacedCode) -> bool:
    """Whether code has a strong load, or an atomic that may be used as one."""
    return any(
        (item.opcode == "ld" and not _STRONG.isdisjoint(item.modifiers))
        or (item.opcode == "atom" and not _ASKING.isdisjoint(item.modifiers))
        for item in module.instructions
    )


def asks_in(code: DecodedCode) -> bool:
    """The same, of decoded code, which has the operands of atomics."""
    return any(
        (step.op is Op.LOAD and step.flags[2] != AccessSemantics.WEAK) or asks_only(code, at)
        for at, step in enumerate(code.steps)
    )


def waited_for(first: Run, label: str, places: CodePlaces, judge: Judge) -> HandOver:
    """What waits for words decide of a launch. `first`: the run of one CTA, with no answers.

    `judge`: the judgement on a run by itself, for a label and the name of a CTA.
    """
    assert first.prepared is not None
    runs = AskedRuns(first.prepared, votes=partial(is_joint_vote, first.prepared.code))
    try:
        if first.launch.ctas > CTAS_MAX or first.launch.cluster_size > 1:
            raise NotWaiting(
                f"words are followed in grids of up to {CTAS_MAX} CTAs without clusters"
            )
        while True:
            try:
                return _Launch(runs, label, places, judge).decided()
            except JointError as why:
                runs.joint.add(why.instruction)
                runs.forget()
    except NotWaiting as why:
        place = f" (line {places.span(why.instruction).start_line})" if why.instruction >= 0 else ""
        waits = not isinstance(why, NoWaitError)
        return HandOver(reason=f"{why}{place}", by="waits for words of global memory", waits=waits)


class _Launch:
    """One launch. Raises NotWaiting where it is not decided."""

    def __init__(self, runs: AskedRuns, label: str, places: CodePlaces, judge: Judge) -> None:
        self.runs, self.label, self.places, self.judge = runs, label, places, judge
        self.launch = runs.made.launch
        self.code = runs.made.code
        self.notes: list[str] = []

    def decided(self) -> HandOver:
        """The trials of the launch."""
        try:
            actors = actors_of(self.runs)
        except StuckError as why:
            return HandOver([self._stuck(why)])
        if not any(item.polls for actor in actors for item in actor.items):
            raise NoWaitError("no CTA waits for a word")
        waits = WordWaits(self.runs, actors)
        self.actors, self.waits = actors, waits
        self.items = [actor.items for actor in actors]
        self.start = {at: number for at, (_, number) in self.runs.words.items()}
        try:
            edges = self._reads_from()
            WordNumbers(waits).check()
            for actor in actors:
                check_lanes(waits, actor)
        except JointError:
            raise
        except NotWaiting as why:
            return self._missed(why)
        for instruction in sorted(waits.retried):
            check_loop(self.code, instruction)
        self._check_there_at_once()
        trials = self._alone()
        if trials and trials[-1].verdict is Verdict.REFUTED:
            return HandOver(trials[-1:])
        comparison = Comparison(waits, self.places)
        race = comparison.race(edges)
        if race is not None:
            trial = Trial(self.label, "all CTAs", Verdict.REFUTED, diagnostics=(race,))
            return HandOver([trial])
        open_ = next((trial for trial in trials if trial.verdict is not Verdict.VERIFIED), None)
        if open_ is not None:
            raise NotWaiting(open_.reason)
        if comparison.reason is not None:
            raise comparison.reason
        return HandOver(trials, list(self._texts()))

    def _reads_from(self) -> dict[Place, frozenset[Place]]:
        """The writes that each wait reads from. Raises NotWaiting."""
        found: dict[Place, frozenset[Place]] = {}
        open_: dict[int, NotWaiting] = {}
        for at, number in sorted(self.start.items()):
            try:
                use = explore_word(
                    at, number, self.items, self.waits.passes, self.waits.check_found
                )
            except NotWaiting as why:
                open_[at] = why
            else:
                found |= use.reads_from
        if open_:
            try:
                passes = self.waits.passes
                found |= windows_of(frozenset(open_), self.items, self.start, passes, found)
            except NotWaiting:
                raise next(iter(open_.values())) from None
        return found

    # ------------------------------------------------------------------------- deadlocks

    def _stuck(self, why: StuckError) -> Trial:
        """The deadlock of the first schedule."""
        for cta, question in why.questions.items():
            check_waiting(self.runs, why.turns[cta].run, question)
            check_alone(why.turns[cta].run, [one.address for one in why.questions.values()])
            if why.turns[cta].answers[-1] is None:
                raise NotWaiting("a CTA waits for a number that is not known", why.instruction)
        return self._deadlock({cta: one.instruction for cta, one in why.questions.items()})

    def _missed(self, why: NotWaiting) -> HandOver:
        """The deadlock of a schedule in which a CTA misses the number that it waits for."""
        for done in schedules(self.items, self.start, self.waits.passes):
            if not done.stuck:
                continue
            at = {cta: self.items[cta][place] for cta, place in done.stuck}
            for item in at.values():
                check_loop(self.code, item.instruction)
            for instruction in self.waits.retried:
                check_loop(self.code, instruction)
            return HandOver([self._deadlock({cta: item.instruction for cta, item in at.items()})])
        raise why

    def _deadlock(self, at: Mapping[int, int]) -> Trial:
        ctas = sorted(at)
        names = [coordinates(self.launch, cta) for cta in ctas]
        headline = (
            f"CTA {names[0]} waits for a number of a word of global memory that it may never have"
        )
        others = tuple(
            Annotation(self.places.span(at[cta]), f"CTA {name} waits here")
            for cta, name in list(zip(ctas, names, strict=True))[1:RACES_MAX]
        )
        made = diagnostic(
            FaultKind.DEADLOCK.value, headline, self.places.span(at[ctas[0]]),
            f"CTA {names[0]} waits here", others=others, helps=(STUCK_HELP,),
        )  # fmt: skip
        found = (with_sources(made, self.places),)
        return Trial(self.label, names[0], Verdict.REFUTED, diagnostics=found)

    def _check_there_at_once(self) -> None:
        place = in_order(self.items, self.start, self.waits.passes)
        if place is None:
            self.notes.append(
                "CTAs begin in the order of their numbers; none waits for a later one"
            )
            return
        cta, at = place
        low, high = GRID_WORKSPACE, GRID_WORKSPACE + GRID_WORKSPACE_BYTES
        if self.launch.cooperative or any(low <= word < high for word in self.start):
            self.notes.append("all CTAs of the launch are there at once: it is a cooperative one")
            return
        raise NotWaiting(
            f"CTA {coordinates(self.launch, cta)} waits for what later CTAs do, which need not "
            "have begun: in a cooperative launch they have (`cooperative: true`)",
            self.items[cta][at].instruction,
        )

    # --------------------------------------------------------------------- one by one

    def _alone(self) -> list[Trial]:
        """The first, the middle and the last CTA judged by themselves."""
        trials: list[Trial] = []
        last = self.launch.ctas - 1
        for cta in dict.fromkeys((0, self.launch.ctas // 2, last)):
            done: list[Run] = []
            for fails in FAILED_ROUNDS:
                run, _ = self.waits.variant(self.actors[cta], fails)
                if any(list(run.events) == list(other.events) for other in done):
                    continue
                done.append(run)
                name = f"waits fail {fails} times" if fails else "waits pass at once"
                label = ", ".join(part for part in (self.label, name) if part)
                trials.append(self.judge(run, label, coordinates(self.launch, cta)))
                if trials[-1].verdict is Verdict.REFUTED:
                    return trials
        return trials

    def _texts(self) -> Iterator[str]:
        count = len(self.start)
        yield (
            f"CTAs wait for {count} word{'s' if count > 1 else ''} of global memory: all orders of "
            "what they do to them were explored, and what they access was compared; this holds for "
            "this grid and the numbers at the start"
        )
        yield from self.notes
        low, high = GRID_WORKSPACE, GRID_WORKSPACE + GRID_WORKSPACE_BYTES
        if any(low <= word < high for word in self.start):
            yield (
                "the word of the grid's barrier (`%envreg1`, `%envreg2`) is taken to be 0 at the "
                "start, as the driver leaves it for a first launch"
            )
        done = next(schedules(self.items, self.start, self.waits.passes))
        left = [at for at, number in sorted(self.start.items()) if done.numbers[at] != number]
        if left:
            at = left[0]
            yield (
                f"{len(left)} of them are left changed (global+{at:#x}: {self.start[at]}, then "
                f"{done.numbers[at]}): the next launch needs them as they were"
            )
