"""What one turn of a loop costs: instructions by class, tensor-core work, fences, spills, segments.

Counted are the instructions of a loop that are in no inner one, each once, whether its predicate
holds or not: the issue slots of a warp that takes every branch. `least` are those of the shortest
way around, which leaves out what a branch can leave out (a mask of the last tile), `usual` those of
the shortest way that multiplies, computes exponentials and moves data as much as any, by bytes:
where rows allow it a tile is written in accesses of several numbers, else number by number. A load
from constant memory moves none (a mask loads its limit with one). Loops that only wait (a test of a
barrier and the jump back) are left out, as inner loops of any kind are.

Cycles of tensor cores: a multiplication of M x N with 32 bytes of K takes M N / 128 cycles of the
four tensor cores of a multiprocessor (the peak rate: 2048 multiplications of 16 bits a cycle).
Where the shape is not in the name, as with tcgen05, there is no number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from titan.inspect import opcodes
from titan.inspect.listing import MachineFunction
from titan.inspect.loops import MachineLoop, loops

_SHAPE = re.compile(r"^[HQIB]GMMA\.(\d+)x(\d+)x(\d+)")
# Bytes of an access for a lane by what its name holds, else a word: names of NVIDIA and of AMD.
WIDTHS = tuple(
    (re.compile(pattern), number)
    for pattern, number in (
        (r"\.256\b", 32),
        (r"\.128\b|88\.4\b|dwordx4|_b128", 16),
        (r"dwordx3|_b96", 12),
        (r"\.64\b|88\.2\b|dwordx2|_b64", 8),
        (r"\.[US]16\b|short|_[bui]16(?:_|$)", 2),
        (r"\.[US]8\b|byte|_[bui]8(?:_|$)", 1),
    )
)
_TWO = re.compile(r"(?:read|write)2")
WORD_BYTES, WORK_BYTES = 4, 16  # what other work than an access counts for
TENSOR_CORE_RATE = 128  # elements of a product of 32 bytes of K, a cycle
SWEEPS_MAX = 100
# What separates segments, and how it is called in reports.
SEPARATORS = (
    ("BAR.ARV", "named barrier: arrive"),
    ("BAR.SYNC", "named barrier: wait"),
    ("WARPGROUP.DEPBAR", "wait for products"),
    ("SYNCS.PHASECHK", "mbarrier: wait"),
    ("SYNCS.ARRIVE", "mbarrier: arrive"),
    ("UTCBAR", "products arrive"),
    ("s_barrier", "barrier"),
    ("s_waitcnt", "wait for counters"),
    ("s_wait_", "wait for counters"),
)
TURN_BEGINS, TURN_ENDS = "named barrier: wait", "named barrier: arrive"
# Fences that wait for all of a thread's accesses to reach the GPU's L2 cache or beyond, and what
# empties the L1 cache. MEMBAR.ALL.CTA and FENCE.VIEW are the proxy fence: a few cycles.
COSTLY = (
    "MEMBAR.ALL.GPU", "MEMBAR.SC.GPU", "MEMBAR.ALL.SYS", "MEMBAR.SC.SYS", "MEMBAR.ALL.VC",
    "MEMBAR.SC.VC", "ERRBAR", "CGAERRBAR", "CCTL", "buffer_wbl2", "buffer_inv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoopSegment:
    """Instructions from one separator to the next, in the order of the text."""

    after: str
    instructions: int
    tensor: int
    arithmetic: int


@dataclass(frozen=True)
class LoopCounts:
    """One loop, its addresses in bytes from the begin of the function.

    `tensor_cycles` None where the shapes of products are not known; `fences`: the costly ones.
    """

    function: str
    begin: int
    end: int
    depth: int
    instructions: int
    least: int
    usual: int
    by_class: dict[str, int]
    tensor_names: dict[str, int]
    tensor_cycles: float | None
    fences: dict[str, int]
    segments: tuple[LoopSegment, ...]

    @property
    def tensor(self) -> int:
        """Tensor-core instructions of a turn."""
        return sum(self.tensor_names.values())

    @property
    def per_tensor(self) -> float | None:
        """Instructions for each tensor-core instruction."""
        return self.instructions / self.tensor if self.tensor else None

    @property
    def issue_share(self) -> float | None:
        """Issue slots over cycles of the tensor cores: above 1 the tensor cores wait."""
        return self.instructions / self.tensor_cycles if self.tensor_cycles else None

    @property
    def local(self) -> int:
        """Loads and stores of local memory: spills."""
        return self.by_class.get(opcodes.LOCAL, 0)

    @property
    def turn(self) -> int | None:
        """Instructions while the warpgroup has its turn: named barriers waited for to arrived at.

        None where the loop does not hold exactly one wait and one arrival. The loop is a circle.
        """
        names = [segment.after for segment in self.segments]
        if names.count(TURN_BEGINS) != 1 or names.count(TURN_ENDS) != 1:
            return None
        begin, end = names.index(TURN_BEGINS), names.index(TURN_ENDS)
        places = range(begin, end if begin < end else end + len(names))
        return sum(self.segments[place % len(names)].instructions for place in places)

    @property
    def below_wait(self) -> int | None:
        """Arithmetic below the last wait for products and above the next product.

        The tensor cores have at most the products of the other warpgroup meanwhile.
        """
        waits = [n for n, one in enumerate(self.segments) if one.after == "wait for products"]
        if not waits or not self.tensor:
            return None
        total = 0
        for step in range(len(self.segments)):
            segment = self.segments[(waits[-1] + step) % len(self.segments)]
            total += segment.arithmetic
            if segment.tensor:
                break
        return total


@dataclass(frozen=True)
class KernelCounts:
    """The loops of one kernel that do more than wait, and its local loads and stores as a whole."""

    function: str
    instructions: int
    loops: tuple[LoopCounts, ...]
    local: int

    @property
    def main(self) -> LoopCounts | None:
        """The loop with the most tensor-core work; of several such the shortest."""
        busy = [loop for loop in self.loops if loop.tensor]
        return max(busy, key=lambda loop: (loop.tensor, -loop.instructions), default=None)

    @property
    def findings(self) -> tuple[str, ...]:
        """Costly fences inside of loops, and spills: what is not seen in the source."""
        found = []
        for loop in self.loops:
            if loop.fences:
                words = ", ".join(f"{count} {name}" for name, count in loop.fences.items())
                found.append(f"{words} in the loop at {loop.begin:#06x} of {self.function}")
        if self.local:
            found.append(f"{self.local} loads and stores of local memory in {self.function}")
        return tuple(found)


def count(function: MachineFunction) -> KernelCounts:
    """The counts of a function."""
    waiting = (opcodes.BARRIER, opcodes.CONTROL, opcodes.MOVE, opcodes.UNIFORM, opcodes.INTEGER)
    found = []
    for loop in loops(function):
        kinds = {function.classes[number] for number in loop.members}
        waits = opcodes.BARRIER in kinds and kinds <= set(waiting) and len(loop.members) < 16
        ends_here = len(loop.members) == 1  # a trap at the end of the text
        if not waits and not ends_here:
            found.append(_counts(function, loop))
    local = function.classes.count(opcodes.LOCAL)
    return KernelCounts(function.name, len(function.instructions), tuple(found), local)


def _counts(function: MachineFunction, loop: MachineLoop) -> LoopCounts:
    kinds = Counter(function.classes[number] for number in loop.own)
    names = Counter(
        function.instructions[number].name
        for number in loop.own
        if function.classes[number] == opcodes.TENSOR
    )
    fences = Counter(
        function.instructions[number].name
        for number in loop.own
        if function.instructions[number].name.startswith(COSTLY)
    )
    cycles = [_cycles(name) for name in names.elements()]
    known = bool(cycles) and None not in cycles
    places = loop.members
    return LoopCounts(
        function.name,
        function.instructions[loop.head].address,
        max(function.instructions[number].address for number in places),
        loop.depth,
        len(loop.own),
        shortest(function, loop),
        shortest(function, loop, lambda number: _work(function, number)),
        dict(sorted(kinds.items())),
        dict(sorted(names.items())),
        sum(one for one in cycles if one is not None) if known else None,
        dict(sorted(fences.items())),
        _segments(function, loop),
    )


def shortest(
    function: MachineFunction,
    loop: MachineLoop,
    wanted: Callable[[int], int] = lambda number: 0,
) -> int:
    """Instructions of the shortest way from the head back to it, of those that hold the most of
    what is wanted, by its weights; what is in inner loops is free, and never wanted."""
    members = set(loop.members)
    large = len(members) + 1

    def cost(number: int) -> int:
        return 0 if number in loop.inside else 1 - large * wanted(number)

    known = {loop.head: cost(loop.head)}
    ends: dict[int, int] = {}
    for _ in range(SWEEPS_MAX):
        changed = False
        for number in loop.members:  # nearly in the order in which they run
            for following in function.successors(number) if number in known else ():
                longer = known[number] + (0 if following == loop.head else cost(following))
                if following == loop.head:
                    ends[number] = longer
                elif following in members and longer < known.get(following, large):
                    known[following], changed = longer, True
        if not changed:
            return min(ends.values(), default=0) % large
    return len(loop.own)  # a cycle with two entries: no shortest way


def _work(function: MachineFunction, number: int) -> int:
    """What an instruction adds to what an iteration is for: bytes, or as much as a wide access."""
    kind = function.classes[number]
    if kind in (opcodes.SHARED, opcodes.GLOBAL):
        return access_bytes(function.instructions[number].name)
    return WORK_BYTES if kind in opcodes.WORK else 0


def access_bytes(name: str) -> int:
    """How many bytes a lane reads or writes."""
    widths = (number for pattern, number in WIDTHS if pattern.search(name))
    number = next(widths, WORD_BYTES)
    return number * (2 if _TWO.search(name) else 1)


def _cycles(name: str) -> float | None:
    shape = _SHAPE.match(name)
    return int(shape.group(1)) * int(shape.group(2)) / TENSOR_CORE_RATE if shape else None


def _segments(function: MachineFunction, loop: MachineLoop) -> tuple[LoopSegment, ...]:
    found: list[LoopSegment] = []
    after, total, tensor, arithmetic = "begin of the loop", 0, 0, 0
    for number in loop.own:
        item, kind = function.instructions[number], function.classes[number]
        separator = next((word for name, word in SEPARATORS if item.name.startswith(name)), None)
        if separator is not None:
            found.append(LoopSegment(after, total, tensor, arithmetic))
            after, total, tensor, arithmetic = separator, 0, 0, 0
        total += 1
        tensor += kind == opcodes.TENSOR
        arithmetic += kind in opcodes.ARITHMETIC
    found.append(LoopSegment(after, total, tensor, arithmetic))
    return tuple(found)
