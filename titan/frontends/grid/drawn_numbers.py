"""Whether clusters race for any numbers that they draw from a counter of the grid.

A persistent kernel takes its next tile from a counter in global memory, which one lane of a cluster
raises. Which cluster draws which number is a matter of speed: all that is known is that two draws
of one counter give different numbers. So whatever one cluster does with a number must not meet what
another one does with any other number, nor what it does without a number, as with a first tile of
its own.

Runs are made of executions that there are, which together hold each pair. `n` numbers are what one
cluster draws that is alone.

* One cluster draws all numbers, and the others come too late: what these do of their own meets all
  that numbers make.
* For each bit of the numbers, one of two clusters draws those in which it is set, and the other one
  those in which it is not: two different numbers differ in a bit.
* Of several counters one cluster draws all numbers of one, and the other one all those of the rest:
  equal numbers of different counters exclude nothing.

What a cluster accesses for a number is taken not to depend on the numbers drawn before but for
those of these executions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from titan.foundation.verdict import Verdict
from titan.frontends.grid.race_text import coordinates
from titan.frontends.grid.races import GridAccesses, judge_grid
from titan.frontends.ptx.machine import LaunchRunner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.settled import own_counters
from titan.frontends.ptx.trial import Trial
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Ending, Run

LABEL = "counters raised in other orders"
INSTRUCTIONS_MAX = 2_000_000  # warp instructions of all these runs, but for a few
CTAS_MAX = 256  # clusters that come too late
WINDOW = "of the numbers that clusters draw from a counter only the first are tried in pairs"
Draws = Mapping[int, tuple[int, ...]]


@dataclass(slots=True)
class DrawnNumbers:
    """The executions of one launch, and what is wrong in the first one that is not right."""

    runner: LaunchRunner
    launch: Launch
    places: CodePlaces
    policies: CodePolicies
    counts: dict[int, int] = field(default_factory=dict)  # draws of a cluster that is alone
    instructions: int = 0  # of the runs so far
    longest: int = 0
    site: int = 0

    def trials(self, chosen: Sequence[int]) -> list[Trial]:
        """What goes wrong, if something does; what is left out. `chosen`: first CTAs of clusters,
        of which the first one is compared with each other one."""
        launch = self.launch
        drawn = {cta: self._counters(cta) for cta in chosen}
        for cta, found in drawn.items():
            if found is None:
                where = coordinates(launch, cta)
                reason = f"the run of CTA {where} as the only one that raises counters does not end"
                return [Trial(LABEL, where, Verdict.UNDECIDED, reason=reason)]
        if not self.counts:
            return []
        first, *others = chosen
        ends = [(others[-1], self._all()), (first, self._none())]
        for group in (self._late(first, others), ends):
            trial = self._judged(group)
            if trial is not None:
                return [trial]
        window = self._window()
        for number, other in enumerate(others):
            if number and self.instructions > INSTRUCTIONS_MAX:
                break
            apart = not set(drawn[first] or ()) & set(drawn[other] or ())
            for one, two in self._pairs(window, apart=apart):
                trial = self._judged([(first, one), (other, two)])
                if trial is not None:
                    return [trial]
        if window < max(self.counts.values()):
            ctas = ", ".join(coordinates(launch, cta) for cta in (first, others[0]))
            place = f"line {self.places.span(self.site).start_line}"
            left_out = ((f"{WINDOW}: below {window}", 1, place),)
            return [Trial(LABEL, ctas, Verdict.VERIFIED, assumptions=left_out)]
        return []

    def _counters(self, cta: int) -> dict[int, int] | None:
        """How often a cluster that is alone draws from its counters; None where it does not come
        to its end."""
        run = self._run(replace(self.launch, in_turn=False), cta)
        if run is None or run.outcome.ending is not Ending.FINISHED:
            return None
        own, found = own_counters(run), dict[int, int]()
        for sequence in own:
            event = run.events[sequence]
            assert isinstance(event, ev.AccessEvent)
            at = event.footprint.bounds[0]
            found[at] = found.get(at, 0) + 1
            self.site = event.instruction
        for at, count in found.items():
            self.counts[at] = max(count, self.counts.get(at, 0))
        self.longest = max(self.longest, run.instructions)
        return found

    def _run(self, launch: Launch, cta: int) -> Run | None:
        run, _ = self.runner.run(launch, cta)
        self.instructions += 0 if run is None else run.instructions
        return run

    def _late(self, first: int, others: Sequence[int]) -> list[tuple[int, Draws]]:
        """One cluster draws all numbers, and all others come too late."""
        launch = self.launch
        every = dict.fromkeys(launch.cluster_members(cta)[0] for cta in range(launch.ctas))
        late = every if len(every) <= CTAS_MAX else dict.fromkeys(others)
        late.pop(first, None)
        draws = (self._none(place, len(late)) for place in range(len(late)))
        return [(first, self._all()), *zip(late, draws, strict=True)]

    def _all(self) -> Draws:
        return {at: tuple(range(count)) for at, count in self.counts.items()}

    def _none(self, place: int = 0, late: int = 1) -> Draws:
        """What the cluster at a place of so many draws that come too late."""
        return {at: _tail(count + place, late, count) for at, count in self.counts.items()}

    def _pairs(self, window: int, *, apart: bool) -> Iterator[tuple[Draws, Draws]]:
        """What two clusters draw. `apart`: each has counters of its own."""
        if apart:
            yield self._all(), self._all()
            return
        some = min(window, max(self.counts.values()))
        for bit in range(max(1, (some - 1).bit_length())):
            for value in (0, 1):
                parts = (
                    {at: _part(min(window, n), n, bit, given) for at, n in self.counts.items()}
                    for given in (value, 1 - value)
                )
                one, two = parts
                yield one, two
        every, none = self._all(), self._none()
        for at in self.counts if len(self.counts) > 1 else ():
            yield {**none, at: every[at]}, {**every, at: none[at]}

    def _window(self) -> int:
        """The numbers that are tried in pairs: as many as the runs may take."""
        count = max(self.counts.values())
        runs = 2 * max(1, (count - 1).bit_length())
        afford = INSTRUCTIONS_MAX // max(1, runs * self.longest // count)
        return count if afford >= count else max(8, afford)

    def _judged(self, group: Sequence[tuple[int, Draws]]) -> Trial | None:
        """What goes wrong between clusters in one execution, if something does."""
        policies, launch = self.policies, self.launch
        refuses = policies.unsettled == "refuse"
        accesses = GridAccesses(launch, policies.equal_writes, refuses)
        for cta, draws in group:
            run = self._run(replace(launch, in_turn=True, draws=draws), cta)
            if run is None or run.outcome.ending is not Ending.FINISHED:
                where = coordinates(launch, cta)
                reason = f"the run of CTA {where} with {self._text(draws)} does not end"
                return Trial(LABEL, where, Verdict.UNDECIDED, reason=reason)
            accesses.add(run, cta)
        trial, _ = judge_grid(accesses, LABEL, self.places)
        if trial is None:
            return None
        ctas = [coordinates(launch, cta) for cta, _ in group]
        texts = [
            f"CTA {where} draws {self._text(draws)}"
            for where, (_, draws) in zip(ctas, group, strict=True)
            if where in trial.cta
        ]
        how = "in an execution where " + " and ".join(texts[:2])
        reason = f"{trial.reason}, {how}" if trial.reason else ""
        found = [replace(item, helps=(*item.helps, how)) for item in trial.diagnostics]
        return replace(trial, reason=reason, diagnostics=tuple(found))

    def _text(self, draws: Draws) -> str:
        """What a cluster draws, in words."""
        return " and ".join(
            f"{_numbers(numbers, self.counts[at])} of the counter at global+{at:#x}"
            for at, numbers in draws.items()
        )


def _part(window: int, count: int, bit: int, value: int) -> tuple[int, ...]:
    """The numbers with a bit, then those that come too late: the next one for who has not had the
    last one."""
    mine = [number for number in range(window) if number >> bit & 1 == value]
    has_last = window == count and count - 1 in mine
    behind = has_last or (window < count and value)
    return (*mine, *_tail(count + 1 if behind else count, 2, count))


def _tail(start: int, clusters: int, count: int) -> tuple[int, ...]:
    """What one of several clusters draws that take turns."""
    return tuple(range(start, start + clusters * count, clusters))


def _numbers(numbers: tuple[int, ...], count: int) -> str:
    tiles = [str(number) for number in numbers if number < count]
    if not tiles:
        return f"number {numbers[0]}"
    if len(tiles) > 4:
        tiles = [*tiles[:3], "...", tiles[-1]]
    return f"number{'s' if len(tiles) > 1 else ''} {', '.join(tiles)}"
