"""Whether numbers that a CTA finds in words decide together, which none of them does alone.

Each number that a wait passes with, and each that an atomic finds, has been tried with all others
as they were in the first schedule (`word_actors.py`). Numbers of several words may still decide
together: two waits that pass with 1 or 2 each, and code behind them that goes another way with 2
and 2. So all of them are tried with all others, question by question. Where a CTA comes to its next
question in a state in which it has been with other numbers, what it does from there on is tried
once for both: most waits leave nothing of the number that they have read. What a CTA keeps is tried
for each number that it may have kept.

A wait that does not pass has to come back to the state in which it has asked, or to do what it does
behind the numbers of the first schedule.
"""

from __future__ import annotations

from collections.abc import Hashable

from titan.frontends.grid.asked_words import Answers, Item, NotWaiting, question_of
from titan.frontends.grid.lock_states import ParkedStates
from titan.frontends.grid.word_actors import WordActor, WordWaits, alike
from titan.frontends.grid.word_loops import check_alone_in_loops
from titan.isa.simt.outcome import Run

KEPT_MAX = 64  # states of a CTA at one question
TRIED_MAX = 4_000  # numbers of all CTAs, each behind each state


class WordNumbers:
    """The numbers that the CTAs of a launch may find."""

    def __init__(self, waits: WordWaits) -> None:
        self.waits = waits
        self.states = ParkedStates(waits.runs.made.code)
        self.words = tuple((at, at + size) for at, (size, _) in waits.runs.words.items())
        self.tried = 0

    def check(self) -> None:
        """They decide nothing but how long a CTA waits; raises NotWaiting."""
        for actor in self.waits.actors:
            check_alone_in_loops(self.waits.runs.made.code, actor.items)
            self._check_actor(actor)

    def _check_actor(self, actor: WordActor) -> None:
        asked = [at for at, item in enumerate(actor.items) if item.asks >= 0]
        numbers = {at: self._numbers(actor, at) for at in asked}
        several = [at for at in asked if len(numbers[at]) > 1]
        if len(several) < 2:
            return  # tried by themselves
        kept: list[Answers] = [()]  # the first one is that of the first schedule
        for at in asked:
            if len(kept) == 1 and at > several[-1]:
                return
            item = actor.items[at]
            kept = [(*one, *actor.answers[len(one) : item.asks]) for one in kept]
            found: dict[Hashable, Answers] = {}
            for one in kept:
                for number in numbers[at]:
                    run = self._tried(actor, item, (*one, number))
                    found.setdefault(self._state(run), (*one, number))
                if one is not kept[0] and item.polls:
                    self._check_failing(actor, at, one)
            kept = list(found.values())
            if len(kept) > KEPT_MAX:
                raise NotWaiting("a CTA keeps too many numbers of words", item.instruction)

    def _numbers(self, actor: WordActor, at: int) -> list[int | None]:
        """What a CTA may find and go on with, that of the first schedule first."""
        first = actor.answers[actor.items[at].asks]
        waits, polls = self.waits, actor.items[at].polls
        found = [one for one in waits.found_by(actor.cta, at) if one != first]
        return [first, *(one for one in found if not polls or waits.passes(actor.cta, at, one))]

    def _tried(self, actor: WordActor, item: Item, answers: Answers) -> Run:
        """The run behind these answers, which is as that of the first schedule."""
        self.tried += 1
        if self.tried > TRIED_MAX:
            raise NotWaiting(f"numbers of words are tried up to {TRIED_MAX:,} times")
        run = self.waits.to_question(actor.cta, answers)
        if not alike(self.waits.to_question(actor.cta, actor.answers[: len(answers)]), run):
            raise NotWaiting("the numbers of several words decide together", item.instruction)
        return run

    def _check_failing(self, actor: WordActor, at: int, before: Answers) -> None:
        """A wait behind these answers does not pass where it does not in the first schedule."""
        waits, item = self.waits, actor.items[at]
        asking = self._state(waits.to_question(actor.cta, before))
        for number in waits.found_by(actor.cta, at):
            if waits.passes(actor.cta, at, number):
                continue
            run = waits.to_question(actor.cta, (*before, number))
            again = question_of(run)
            same = again is not None and (again.address, again.warp) == (item.address, item.warp)
            if same and self._state(run) == asking:
                continue
            rest = actor.answers[item.asks :]
            if not same or waits.passes_behind(actor, (*before, *rest), at, number):
                raise NotWaiting("the numbers of several words decide together", item.instruction)

    def _state(self, run: Run) -> Hashable:
        assert run.prepared is not None
        return self.states.at_question(run.prepared, self.waits.runs.written, self.words)
