"""Basic blocks, immediate post-dominators, live registers, and the region of a branch.

Where the arms of a branch meet again is the immediate post-dominator of its block. Each function is
analysed alone; a call falls through to the instruction after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from titan.isa.simt.operations import DecodedCode, DecodedStep, Op

NO_JOIN = -1


def successors(steps: Sequence[DecodedStep], index: int, end: int) -> tuple[int, ...]:
    """The instructions that may follow; `end` represents the end of the function."""
    step = steps[index]
    behind = min(index + 1, end)
    if step.op is Op.BRANCH:
        target = min(step.flags[0], end)
        return (target,) if step.guard < 0 else (behind, target)
    if step.op is Op.BRANCH_INDEXED:
        targets = tuple(dict.fromkeys(min(target, end) for target in step.flags))
        return targets if step.guard < 0 else (behind, *targets)
    if step.op is Op.TRAP and step.guard < 0:
        return ()  # the run ends here
    if step.op in (Op.RETURN, Op.EXIT, Op.TRAP):
        return (end,) if step.guard < 0 else (behind, end)
    return (behind,)


class FunctionGraphs:
    """The graphs of the functions of a program, each made once, where it is asked for."""

    def __init__(self, code: DecodedCode) -> None:
        self._code = code
        self._made: dict[tuple[int, int], FlowGraph] = {}

    def around(self, index: int) -> FlowGraph:
        """The graph of the function that holds an instruction."""
        bounds = next(pair for pair in self._code.functions if pair[0] <= index < pair[1])
        if bounds not in self._made:
            self._made[bounds] = FlowGraph(self._code.steps, *bounds)
        return self._made[bounds]


class FlowGraph:
    """The basic blocks of instructions `start` to `end`; block number len(blocks) is the end."""

    def __init__(self, steps: Sequence[DecodedStep], start: int, end: int) -> None:
        self.steps = steps
        self.start = start
        self.end = end
        leaders = {start}
        for index in range(start, end):
            following = successors(steps, index, end)
            if following != (index + 1,):
                leaders.update(following)
                leaders.add(index + 1)
        ordered = sorted(leader for leader in leaders if leader < end)
        self.blocks = [(low, high) for low, high in zip(ordered, [*ordered[1:], end], strict=True)]
        self.block_at = {low: number for number, (low, _) in enumerate(self.blocks)}
        self.exit = len(self.blocks)
        self.next = [
            tuple(self.block_at.get(at, self.exit) for at in successors(steps, high - 1, end))
            for _, high in self.blocks
        ]
        self._before: list[list[int]] = [[] for _ in range(self.exit + 1)]
        for number, following in enumerate(self.next):
            for other in following:
                self._before[other].append(number)
        self._meet = self._post_dominators()
        self._doomed = self._doomed_blocks()
        self._live: list[int] | None = None

    def _post_dominators(self) -> list[int]:
        """Immediate post-dominators (Cooper, Harvey, Kennedy on the reversed graph).

        A block from which the end cannot be reached has NO_JOIN.
        """
        order = _postorder(self._before, self.exit)
        rank = {number: place for place, number in enumerate(order)}
        meet = [NO_JOIN] * (self.exit + 1)
        meet[self.exit] = self.exit
        changed = True
        while changed:
            changed = False
            for number in reversed(order):
                if number == self.exit:
                    continue
                new = NO_JOIN
                for other in self.next[number]:
                    if meet[other] == NO_JOIN:
                        continue
                    new = other if new == NO_JOIN else _common(meet, rank, new, other)
                if new != NO_JOIN and meet[number] != new:
                    meet[number] = new
                    changed = True
        return meet

    def _doomed_blocks(self) -> set[int]:
        """The blocks from which every way leads to a trap."""
        doomed: set[int] = set()
        changed = True
        while changed:
            changed = False
            for number in reversed(range(self.exit)):
                if number not in doomed and all(other in doomed for other in self.next[number]):
                    doomed.add(number)
                    changed = True
        return doomed

    def trap_in(self, index: int, join: int) -> int:
        """Where ways of the branch at `index` lead to nothing but a trap: an instruction, or -1."""
        blocks, _ = self._all_blocks(index, join)
        return next((low for low, _ in blocks if self.block_at[low] in self._doomed), -1)

    def join_of(self, index: int) -> int:
        """The instruction where the arms of the branch at `index` meet, or NO_JOIN."""
        number = self._block_of(index)
        meet = self._meet[number]
        return NO_JOIN if meet in (NO_JOIN, self.exit) else self.blocks[meet][0]

    def _block_of(self, index: int) -> int:
        low = index
        while low not in self.block_at:
            low -= 1
        return self.block_at[low]

    def leading_to(self, targets: Iterable[int]) -> set[int]:
        """The blocks behind which one of these blocks may be executed."""
        found: set[int] = set()
        waiting = list(targets)
        while waiting:
            new = set(self._before[waiting.pop()]) - found
            found |= new
            waiting += new
        return found

    def head_of(self, index: int) -> int:
        """The first instruction of the block that holds `index`."""
        return self.blocks[self._block_of(index)][0]

    def only_maker(self, head: int, register: int) -> tuple[int, int] | None:
        """The one block that writes a register last on every way to the block at `head`, or None.

        The block at `head` is passed over, as where a loop leads back to it; a way on which nothing
        writes the register, as from the start of the function, gives None.
        """
        waiting, seen, makers = [self.block_at[head]], set[int](), set[int]()
        while waiting:
            number = waiting.pop()
            if number == 0:
                return None
            for other in self._before[number]:
                low, high = self.blocks[other]
                if any(register in step.out for step in self.steps[low:high]):
                    makers.add(other)
                elif other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return self.blocks[makers.pop()] if len(makers) == 1 else None

    def live_at(self, join: int) -> int:
        """The registers whose values at `join` (the head of a block) may be read, as a bit set."""
        if self._live is None:
            self._live = self._live_registers()
        return self._live[self.block_at[join]]

    def live_behind(self, index: int) -> int:
        """The registers whose values behind an instruction may be read, as a bit set."""
        number = self._block_of(index)
        live = 0
        for other in self.next[number]:
            live |= self.live_at(self.blocks[other][0]) if other != self.exit else 0
        for step in reversed(self.steps[index + 1 : self.blocks[number][1]]):
            live = _live_before(step, live)
        return live

    def _live_registers(self) -> list[int]:
        """What is live at the head of each block; a guarded write ends no life."""
        reads, writes = [], []
        for low, high in self.blocks:
            read = written = 0
            for step in self.steps[low:high]:
                used = 0
                for register in (*step.args, step.guard):
                    used |= 1 << register if register >= 0 else 0
                read |= used & ~written
                if step.guard < 0:
                    for register in step.out:
                        written |= 1 << register if register >= 0 else 0
            reads.append(read)
            writes.append(written)
        live = [0] * (self.exit + 1)
        changed = True
        while changed:
            changed = False
            for number in reversed(range(self.exit)):
                behind = 0
                for other in self.next[number]:
                    behind |= live[other]
                new = reads[number] | (behind & ~writes[number])
                if new != live[number]:
                    live[number], changed = new, True
        return live

    def region(self, index: int, join: int) -> tuple[list[tuple[int, int]], bool]:
        """The blocks between a branch and its join (both not included), and whether they have a
        cycle. With NO_JOIN: up to the end. Blocks from which every way leads to a trap are left
        out where others, or the join, can be reached.
        """
        found, cyclic = self._all_blocks(index, join)
        kept = [block for block in found if self.block_at[block[0]] not in self._doomed]
        return (kept, cyclic) if kept or join != NO_JOIN else (found, cyclic)

    def _all_blocks(self, index: int, join: int) -> tuple[list[tuple[int, int]], bool]:
        stop = self.exit if join == NO_JOIN else self.block_at[join]
        found: dict[int, int] = {}  # 1 open, 2 done
        cyclic = False
        for first in self.next[self._block_of(index)]:
            work = [(first, 0)]
            while work:
                number, place = work.pop()
                if number in (stop, self.exit):
                    continue
                if place == 0:
                    if found.get(number) == 2:
                        continue
                    if found.get(number) == 1:
                        cyclic = True
                        continue
                    found[number] = 1
                if place < len(self.next[number]):
                    work.append((number, place + 1))
                    follower = self.next[number][place]
                    if found.get(follower) == 1:
                        cyclic = True
                    elif follower not in found:
                        work.append((follower, 0))
                else:
                    found[number] = 2
        return [self.blocks[number] for number in sorted(found)], cyclic


def _live_before(step: DecodedStep, live: int) -> int:
    """The registers that may be read at an instruction or behind it, where some are behind it."""
    if step.guard < 0:
        for register in step.out:
            live &= ~(1 << register) if register >= 0 else -1
    for register in (*step.args, step.guard):
        live |= 1 << register if register >= 0 else 0
    return live


def _postorder(before: list[list[int]], root: int) -> list[int]:
    order: list[int] = []
    seen = {root}
    work = [(root, 0)]
    while work:
        number, place = work.pop()
        if place < len(before[number]):
            work.append((number, place + 1))
            other = before[number][place]
            if other not in seen:
                seen.add(other)
                work.append((other, 0))
        else:
            order.append(number)
    return order


def _common(meet: list[int], rank: dict[int, int], left: int, right: int) -> int:
    while left != right:
        while rank[left] < rank[right]:
            left = meet[left]
        while rank[right] < rank[left]:
            right = meet[right]
    return left
