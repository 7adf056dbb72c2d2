"""Whether what the CTAs of a launch do under locks is ordered, and comes to an end.

A CTA takes a lock, a word of global memory, by asking for it until it is free, and releases it:
Triton's layer norm adds the parts of a gradient so, and so do reductions with a mutex. Which CTA
comes first is open. Each CTA is run with each lock free when it takes it, and taken before
(`lock_runs.py`), and all accesses of all CTAs are compared (`lock_races.py`).

Every lock is released by the CTA that takes it, and CTAs take locks in an order without a cycle; so
some CTA always goes on, and each comes to its end if one that asks again and again gets the lock at
some time. Locks that a CTA keeps, or that two CTAs take in opposite orders, are a deadlock.

The answer holds for the grid of the launch, with the words as the launch gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.grid.asked_words import CTAS_MAX, AskedRuns, Item, NotWaiting
from titan.frontends.grid.hand_over import HandOver
from titan.frontends.grid.lock_races import LockComparison
from titan.frontends.grid.lock_runs import KeptError, LockRuns, LockVariant
from titan.frontends.grid.lock_words import locks_of
from titan.frontends.grid.race_text import coordinates
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.remarks import TICKETS
from titan.frontends.ptx.rendering import with_sources
from titan.frontends.ptx.trial import Trial
from titan.isa.simt.outcome import Run
from titan.sync.fault import FaultKind

KEPT_HELP = "each lock that a CTA takes is released by it, on every way to its end"
CYCLE_HELP = "locks are taken in one order by all CTAs"
Judge = Callable[[Run, str, str], Trial]
REPEATED = (0, 1, 2)  # how often a CTA finds its locks taken in the runs that are judged
Held = tuple[Item, Item]  # a lock that is held, and the attempt to take another one


def locked(first: Run, label: str, places: CodePlaces, judge: Judge) -> HandOver:
    """What locks decide of a launch; nothing where no CTA takes one. `first`: the run of one CTA,
    with no answers. `judge`: the judgement on a run by itself, for a label and a CTA."""
    made, launch = first.prepared, first.launch
    assert made is not None
    if launch.cluster_size > 1:
        return HandOver()
    some = dict.fromkeys((0, launch.ctas // 2, launch.ctas - 1))
    runs = AskedRuns(made)
    if not any(locks_of(runs, cta, {}) for cta in some):
        return HandOver()

    def decided(*, bare: bool) -> HandOver:
        return _LockedLaunch(LockRuns(AskedRuns(made), bare=bare), label, places, judge).decided()

    found = HandOver()
    try:
        if launch.ctas > CTAS_MAX:
            raise NotWaiting(f"locks are followed in grids of up to {CTAS_MAX} CTAs")
        with suppress(NotWaiting):
            found = decided(bare=True)
            if not _is_refuted(found):
                return found
        return decided(bare=False)
    except NotWaiting as why:
        if _is_refuted(found):
            return found
        place = f" (line {places.span(why.instruction).start_line})" if why.instruction >= 0 else ""
        return HandOver(reason=f"{why}{place}", by="locks in global memory", waits=True)


def _is_refuted(found: HandOver) -> bool:
    return any(trial.verdict is Verdict.REFUTED for trial in found.trials)


class _LockedLaunch:
    """One launch. Raises NotWaiting where it is not decided."""

    def __init__(self, runs: LockRuns, label: str, places: CodePlaces, judge: Judge) -> None:
        self.runs, self.label, self.places, self.judge = runs, label, places, judge
        self.launch = runs.runs.made.launch

    def decided(self) -> HandOver:
        """The trials of the launch."""
        try:
            self.runs.explore()
        except KeptError as why:
            return self._taken_twice(why)
        kept = self._kept() or self._crossed()
        if kept is not None:
            return HandOver([self._refuted(kept)])
        trials = self._alone()
        if trials[-1].verdict is Verdict.REFUTED:
            return HandOver(trials[-1:])
        comparison = LockComparison(self.runs, self.places)
        race = comparison.race()
        if race is not None:
            return HandOver([self._refuted(race)])
        open_ = next((trial for trial in trials if trial.verdict is not Verdict.VERIFIED), None)
        if open_ is not None:
            raise NotWaiting(open_.reason)
        if comparison.reason is not None:
            raise comparison.reason
        comparison.check_guards()
        comparison.check_data()
        return HandOver(trials, list(self._texts()))

    def _refuted(self, found: Diagnostic) -> Trial:
        return Trial(self.label, "all CTAs", Verdict.REFUTED, diagnostics=(found,))

    # ------------------------------------------------------------------------- deadlocks

    def _taken_twice(self, why: KeptError) -> HandOver:
        """The deadlock of a CTA that begins first and takes a lock that it has."""
        if why.given != self._given_at_start(why.cta):
            raise why
        name = coordinates(self.launch, why.cta)
        headline = f"CTA {name} waits for a lock in global memory that it has taken itself"
        found = self._deadlock(headline, why.instruction, f"CTA {name} waits here", {}, KEPT_HELP)
        return HandOver([self._refuted(found)])

    def _given_at_start(self, cta: int) -> object:
        runs = self.runs
        return runs.given({lock: runs.start(lock) for lock in runs.guarded(cta)})

    def _at_start(self) -> Iterator[LockVariant]:
        """What each CTA does that begins first."""
        for variant in self.runs.variants:
            if not variant.spins and variant.given == self._given_at_start(variant.cta):
                yield variant

    def _kept(self) -> Diagnostic | None:
        """The deadlock where a CTA ends with a lock that another one takes."""
        kept = [variant for variant in self.runs.variants if variant.use.kept]
        if not kept:
            return None
        place = kept[0].items[kept[0].use.kept[0]].instruction
        first = next((variant for variant in self._at_start() if variant.use.kept), None)
        if first is None:
            raise NotWaiting("a CTA ends with a lock that it has taken", place)
        item = first.items[first.use.kept[0]]
        for variant in self._at_start():
            if variant.cta == first.cta:
                continue
            for other in variant.use.attempts:
                begins = variant.use.attempts[0] is other
                if other.address == item.address and (begins or not self.runs.guards):
                    one, two = (coordinates(self.launch, at) for at in (first.cta, variant.cta))
                    headline = (
                        f"CTA {two} waits for a lock in global memory that CTA {one} has taken "
                        "and not released"
                    )
                    return self._deadlock(
                        headline, other.instruction, f"CTA {two} waits here",
                        {item.instruction: f"CTA {one} takes it here"}, KEPT_HELP,
                    )  # fmt: skip
        raise NotWaiting("a CTA ends with a lock that it has taken", item.instruction)

    def _crossed(self) -> Diagnostic | None:
        """The deadlock of two CTAs that take two locks in opposite orders. Raises NotWaiting where
        locks are taken in a cycle otherwise."""
        order: dict[int, set[int]] = {}
        place = -1
        for variant in self.runs.variants:
            for held, item in _nested(variant):
                order.setdefault(held.address, set()).add(item.address)
                place = item.instruction
        if not _cyclic(order):
            return None
        firsts = [(variant, pair) for variant in self._at_start() for pair in _nested(variant)]
        for one, (held, wanted) in firsts if not self.runs.guards else ():
            for other, (its, its_wanted) in firsts:
                if one.cta == other.cta or held.address != its_wanted.address:
                    continue
                if wanted.address != its.address or not _together(one, other, wanted, its_wanted):
                    continue
                return self._crossing((one.cta, other.cta), wanted, its_wanted)
        raise NotWaiting("CTAs take locks in no common order", place)

    def _crossing(self, ctas: tuple[int, int], wanted: Item, other: Item) -> Diagnostic:
        one, two = (coordinates(self.launch, cta) for cta in ctas)
        headline = (
            f"CTA {one} and CTA {two} wait for locks in global memory that the other one has taken"
        )
        return self._deadlock(
            headline, wanted.instruction, f"CTA {one} waits here",
            {other.instruction: f"CTA {two} waits here"}, CYCLE_HELP,
        )  # fmt: skip

    def _deadlock(
        self, headline: str, at: int, text: str, others: Mapping[int, str], help_: str
    ) -> Diagnostic:
        more = tuple(Annotation(self.places.span(place), other) for place, other in others.items())
        made = diagnostic(
            FaultKind.DEADLOCK.value, headline, self.places.span(at), text, others=more,
            helps=(help_,),
        )  # fmt: skip
        return with_sources(made, self.places)

    # --------------------------------------------------------------------- one by one

    def _alone(self) -> list[Trial]:
        """The first, the middle and the last CTA judged by themselves."""
        trials: list[Trial] = []
        last = self.launch.ctas - 1
        for cta in dict.fromkeys((0, self.launch.ctas // 2, last)):
            done: list[Run] = []
            found = dict.fromkeys(one.given for one in self.runs.variants if one.cta == cta)
            for number, given in enumerate(found):
                for times in REPEATED[: 2 if number else 3]:
                    run = self.runs.repeated(cta, given, times)
                    if any(list(run.events) == list(other.events) for other in done):
                        continue
                    done.append(run)
                    trials.append(self._judged(run, cta, times))
                    if trials[-1].verdict is Verdict.REFUTED:
                        return trials
        return trials

    def _judged(self, run: Run, cta: int, times: int) -> Trial:
        name = f"locks are taken {times} times before" if times else "locks are free"
        label = ", ".join(part for part in (self.label, name) if part)
        trial = self.judge(run, label, coordinates(self.launch, cta))
        texts = [text for text, _, _ in trial.assumptions]
        if TICKETS not in texts:
            more = (TICKETS, len(self.runs.locks), "")
            trial = replace(trial, assumptions=(*trial.assumptions, more))
        return trial

    def _texts(self) -> Iterator[str]:
        locks, guards = len(self.runs.locks), len(self.runs.guards)
        yield (
            f"CTAs take {locks} lock{'s' if locks > 1 else ''} in global memory: what each of them "
            "does was compared with all others, whichever comes first; this holds for this grid, "
            "with locks that are free at the start, and a CTA that asks for a lock again and again "
            "is taken to get it"
        )
        if guards:
            yield (
                f"{guards} word{'s' if guards > 1 else ''} under locks decide what a CTA does: it "
                "was run with all numbers that CTAs before it may leave"
            )


def _nested(variant: LockVariant) -> Iterator[Held]:
    """Locks that a CTA has while it tries to take others."""
    for section in variant.use.sections:
        held, end = variant.items[section.taken], variant.items[section.released]
        for item in variant.use.attempts:
            if held.place < item.place < end.place and item.address != held.address:
                yield held, item


def _cyclic(order: Mapping[int, set[int]]) -> bool:
    left = {lock: set(inner) for lock, inner in order.items()}
    while left:
        ready = {lock for lock, inner in left.items() if not inner & set(left)}
        if not ready:
            return True
        left = {lock: inner for lock, inner in left.items() if lock not in ready}
    return False


def _together(one: LockVariant, other: LockVariant, wanted: Item, its_wanted: Item) -> bool:
    """Whether two CTAs may come to these attempts: the second one first, then the first one, which
    takes nothing on its way that the second one has."""
    mine = _held_at(one, wanted)
    its = _held_at(other, its_wanted)
    before = {item.address for item in one.use.attempts if item.place < wanted.place}
    return not its & before and not mine & its


def _held_at(variant: LockVariant, item: Item) -> set[int]:
    """The locks that a CTA has where it comes to an item."""
    return {
        section.lock
        for section in variant.use.sections
        if variant.items[section.taken].place < item.place < variant.items[section.released].place
    }
