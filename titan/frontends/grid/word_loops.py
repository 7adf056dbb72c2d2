"""Whether a loop that polls a word does the same in each round, however many there are.

Rounds are run up to `FAILED_ROUNDS` times, so that what a round leaves must be a function of what
that round reads, or of nothing that rounds change. A register that a round takes over from the one
before it may be made from what is read, and from nothing that was taken over itself: a counter of
rounds is refused where it decides, is part of an address, or is used behind the loop. Rounds write
no global memory, and do nothing but compute, load, meet other threads, and fence. They may hand on
what they read through shared memory, as Triton does: each round stores it to the same bytes, and
shared memory is loaded behind that and a barrier, so that what is loaded is of the same round.

A use of a register is of the same round where the same basic block has made it before, without a
guard; every other use of a register that the loop makes may be of the round before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from titan.frontends.grid.asked_words import Item, NotWaiting, asks_only
from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import FunctionGraphs
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import ATOMICS, PURE, DecodedCode, Op
from titan.isa.simt.outcome import Run
from titan.isa.simt.rounds import loops_of

_GLOBAL = (MemorySpace.GLOBAL, MemorySpace.GENERIC)
_OUTSIDE = (MemorySpace.GLOBAL, MemorySpace.PARAMETER, MemorySpace.CONSTANT)
_WRITES = "a loop that waits writes memory"
_CHANGING = "a round of a loop that waits changes what ends it"
_UNFOLLOWED = "what ends a loop that waits is not followed"
_LEAVES = (Op.BRANCH, Op.RETURN, Op.EXIT)
_DONE = PURE | {
    Op.LOAD, Op.ATOMIC, Op.PREFETCH, *_LEAVES, Op.BARRIER_NAMED, Op.FENCE,
    Op.SHUFFLE, Op.VOTE, Op.MATCH, Op.REDUX, Op.ELECT, Op.ACTIVE_MASK, Op.WARP_SYNC,
}  # fmt: skip
COLLECTIVE = frozenset({Op.BARRIER_NAMED, Op.SHUFFLE, Op.VOTE, Op.MATCH, Op.REDUX})
_TAKEN = (Op.LOAD, Op.ATOMIC, Op.BARRIER_NAMED, Op.SHUFFLE, Op.VOTE, Op.ELECT, Op.ACTIVE_MASK)


def innermost(code: DecodedCode, instruction: int) -> frozenset[int]:
    """The instructions of the innermost loop around one. Raises NotWaiting."""
    around = [body for body in loops_of(code).values() if instruction in body]
    if not around:
        raise NotWaiting("a word is asked for again, but not in a loop", instruction)
    return _cycle(code, min(around, key=len), instruction)


def _cycle(code: DecodedCode, body: frozenset[int], instruction: int) -> frozenset[int]:
    """The instructions of a loop that lead to one of them and that it leads to: a loop that is
    entered in its middle has what is in front of it in its body."""
    graph = FunctionGraphs(code).around(instruction)
    inside = {number for number in range(graph.exit) if set(range(*graph.blocks[number])) & body}
    home = next(at for at in inside if instruction in range(*graph.blocks[at]))
    before: dict[int, list[int]] = {}
    for number in inside:
        for other in graph.next[number]:
            before.setdefault(other, []).append(number)
    behind = _reached(lambda at: [one for one in graph.next[at] if one in inside], home)
    leading = _reached(lambda at: before.get(at, []), home)
    found = behind & leading | {home}
    return frozenset(n for one in found for n in range(*graph.blocks[one])) & body


def _reached(following: Callable[[int], list[int]], home: int) -> set[int]:
    seen, work = {home}, [home]
    while work:
        for other in following(work.pop()):
            if other not in seen:
                seen.add(other)
                work.append(other)
    return seen


def votes(code: DecodedCode, instruction: int) -> bool:
    """Whether what one lane reads by an instruction may decide for others whether they ask again:
    the loop around it has a vote, a shuffle or a barrier, or there is none."""
    try:
        body = innermost(code, instruction)
    except NotWaiting:
        return True
    return any(code.steps[at].op in COLLECTIVE for at in body)


def check_alone_in_loops(code: DecodedCode, items: Sequence[Item]) -> None:
    """No warps of a CTA that poll words meet in a loop in which they ask; raises NotWaiting."""
    polls = [item for item in items if item.polls and not item.members]
    bodies = {item.instruction: _body(code, item.instruction) for item in polls}
    meets = any(code.steps[at].op is Op.BARRIER_NAMED for body in bodies.values() for at in body)
    if meets and len({item.warp for item in polls}) > 1:
        raise NotWaiting("several warps of a CTA ask for words together", polls[0].instruction)


def _body(code: DecodedCode, instruction: int) -> frozenset[int]:
    try:
        return innermost(code, instruction)
    except NotWaiting:
        return frozenset()


def check_loop(code: DecodedCode, instruction: int) -> None:
    """The loop around an instruction does the same in each round; raises NotWaiting."""
    _Loop(code, innermost(code, instruction)).check()


class _Loop:
    def __init__(self, code: DecodedCode, body: frozenset[int]) -> None:
        self.code, self.body = code, body
        self.makers: dict[int, list[int]] = {}
        for at in sorted(body):
            for register in code.steps[at].out:
                if register >= 0:
                    self.makers.setdefault(register, []).append(at)
        self.starts = {
            step.flags[0] for step in code.steps if step.op is Op.BRANCH
        }  # of basic blocks, besides those behind branches
        self._taken: dict[tuple[int, int], int] = {}
        self.stores = [at for at in sorted(body) if code.steps[at].op is Op.STORE]

    def check(self) -> None:
        """Raises NotWaiting."""
        steps = self.code.steps
        self._check_stores()
        for at in sorted(self.body):
            step = steps[at]
            if step.op not in _DONE and at not in self.stores:
                raise NotWaiting("a loop that waits does more than wait", at)
            atomic = step.op is Op.ATOMIC and ATOMICS[step.flags[6]] != "load"
            if atomic and not asks_only(self.code, at):
                raise NotWaiting("a loop that waits writes global memory", at)
            decides = step.op in _LEAVES or step.op not in PURE
            if step.guard >= 0:
                self._check_use(step.guard, at, decides=decides)
            if step.op not in PURE and step.op not in _LEAVES:
                for register in step.args:
                    self._check_use(register, at, decides=step.op is not Op.PREFETCH)
        for at, step in enumerate(steps):
            if at not in self.body:
                for register in (*step.args, step.guard):
                    if register in self.makers and self._depth(register, -1, ()) > 1:
                        raise NotWaiting("what is done behind a loop depends on its rounds", at)

    def _check_stores(self) -> None:
        """What rounds store is of the round, and so is what they load of shared memory."""
        steps = self.code.steps
        for at in self.stores:
            address, *values = steps[at].args
            fixed = not self.makers.keys() & {address, steps[at].guard}
            own = all(self._of_round(value, at, steps[at].guard) for value in values)
            if steps[at].flags[0] != MemorySpace.SHARED or not fixed or not own:
                raise NotWaiting(_WRITES, at)
        if not self.stores:
            return
        if [at for at in self.body if steps[at].op in _LEAVES] != [max(self.body)]:
            raise NotWaiting(_WRITES, self.stores[0])
        meets = [
            at
            for at in self.body
            if at > self.stores[-1] and steps[at].op is Op.BARRIER_NAMED and steps[at].guard < 0
        ]
        for at in self.body:
            loads = steps[at].op is Op.LOAD and steps[at].flags[0] not in _OUTSIDE
            if loads and at < min(meets, default=at + 1):
                raise NotWaiting(_WRITES, at)

    def _of_round(self, register: int, at: int, guard: int) -> bool:
        """Whether a register that instruction `at` uses under a guard is made in the same round, in
        the same basic block, of what is, or not in the loop at all.
        """
        if register < 0 or register not in self.makers:
            return True
        while at > 0 and at in self.body and at not in self.starts:
            at -= 1
            step = self.code.steps[at]
            if step.op in _LEAVES or at not in self.body:
                return False
            if register in step.out:
                needed = (*step.args, step.guard)
                if not all(self._of_round(one, at, step.guard) for one in needed):
                    return False
                if step.guard < 0 or step.guard == guard:
                    return True
        return False

    def _check_use(self, register: int, at: int, *, decides: bool) -> None:
        if register < 0 or register not in self.makers:
            return
        if self._depth(register, at, ()) > 1:
            raise NotWaiting(_CHANGING, self.makers[register][0])
        if decides:
            self._follow(register, set())

    def _follow(self, register: int, done: set[int]) -> None:
        """What a register that decides is made from is known."""
        for at in self.makers.get(register, []):
            if at in done:
                continue
            done.add(at)
            step = self.code.steps[at]
            computes = step.op in PURE and not (step.op is Op.OPAQUE and not step.args)
            if not computes and step.op not in _TAKEN:
                raise NotWaiting(_UNFOLLOWED, at)
            if step.op is Op.LOAD and step.flags[0] == MemorySpace.SHARED and self.stores:
                for stored in self.stores:
                    for needed in (
                        *self.code.steps[stored].args[1:],
                        self.code.steps[stored].guard,
                    ):
                        self._follow(needed, done)
                continue
            read = step.op in (Op.LOAD, Op.ATOMIC)
            if read and not (step.flags[2] and step.flags[0] in _GLOBAL):
                raise NotWaiting(_UNFOLLOWED, at)
            for needed in (*step.args, step.guard):
                self._follow(needed, done)

    def _depth(self, register: int, at: int, path: tuple[tuple[int, int], ...]) -> int:
        """How many rounds back the register may come from, where instruction `at` uses it (-1:
        behind the loop); 9 is any number."""
        maker = self._same_round(register, at)
        key = register, maker
        if key in path:
            return 9
        if key in self._taken:
            return self._taken[key]
        deepest = 0
        makers = self.makers.get(register, []) if maker < 0 else [maker]
        for one in makers:
            step = self.code.steps[one]
            for needed in (*step.args, step.guard):
                if needed in self.makers:
                    deepest = max(deepest, self._depth(needed, one, (*path, key)))
        carried = maker < 0 and register in self.makers and at >= 0
        self._taken[key] = min(9, deepest + carried)
        return self._taken[key]

    def _same_round(self, register: int, at: int) -> int:
        """What has made the register before in the same basic block, or -1."""
        while at > 0 and at in self.body and at not in self.starts:
            at -= 1
            step = self.code.steps[at]
            if step.op in _LEAVES:
                return -1
            if register in step.out:
                return at if step.guard < 0 else -1
        return -1


def check_same(code: DecodedCode, once: Run, failed: Run, asked: Iterable[int]) -> None:
    """A run whose waits fail first does what the other one does, besides rounds of the loops around
    the instructions `asked`. Raises NotWaiting."""
    bodies = frozenset().union(*(innermost(code, one) for one in asked))
    expected = _by_warp(once)
    found = _by_warp(failed)
    if not set(found) <= set(expected):
        raise NotWaiting("waits that fail first change what a CTA does")
    for warp, wanted in expected.items():
        at = 0
        for event, plain in found.get(warp, []):
            if at < len(wanted) and plain == wanted[at][1]:
                at += 1
            elif event.instruction not in bodies:
                raise NotWaiting("waits that fail first change what a CTA does", event.instruction)
        if at < len(wanted):
            raise NotWaiting(
                "waits that fail first change what a CTA does", wanted[at][0].instruction
            )


def _by_warp(run: Run) -> dict[int, list[tuple[ev.Event, object]]]:
    found: dict[int, list[tuple[ev.Event, object]]] = {}
    for event in run.events:
        found.setdefault(event.warp, []).append((event, plain_event(event)))
    return found


def plain_event(event: ev.Event) -> object:
    """An event without its number in the run."""
    if isinstance(event, ev.RendezvousEvent):
        return replace(event, sequence=0, generation=0)
    return replace(event, sequence=0)
