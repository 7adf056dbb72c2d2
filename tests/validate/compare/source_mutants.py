"""Faults planted in the text of an emitted kernel or of the device header, one at a time.

Each is what a slip in a template would give: an operation dropped, doubled or moved past its
neighbour, a parity, count, number of bytes, stage, guard or thread that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# A statement on one line that spells an operation of the sync program, with its guard.
_STATEMENT = re.compile(
    r"^\s*(?:for \([^)]*\) |if \([^{]*\) )?titan::"
    r"(barrier_\w+|tensor_\w+|bulk_\w+|wgmma_fence|wgmma_commit|wgmma_wait\w*|fence_\w+|"
    r"named_barrier_\w+|block_sync|warp_sync|registers_\w+)\b[^;]*;"
)
_HEADER = re.compile(r"^(?:TITAN_DEVICE|template).*?^}", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Mutant:
    kind: str
    line: int
    text: str


def statements(lines: list[str]) -> list[tuple[int, str]]:
    """The numbers of the lines that synchronise, and the primitive of each."""
    found = []
    for number, line in enumerate(lines):
        if match := _STATEMENT.match(line):
            found.append((number, match.group(1)))
    return found


def _with(lines: list[str], number: int, *new: str) -> str:
    return "\n".join([*lines[:number], *new, *lines[number + 1 :]])


# Twice is as good as once: no fault.
_IDEMPOTENT = ("fence_barrier_init", "warp_sync", "wgmma_wait")
# Primitives of the header that stand for no operation: hints to the hardware and to the compiler.
_NO_OPERATION = ("prefetch_tensor_map", "hold")

_CHANGES = (
    ("parity", r"(titan::barrier_wait\w*\(.*, )(.*)\);", r"\1(\2) ^ 1);"),
    ("stage of a barrier", r"(titan::barrier_(?:wait|arrive)\w*\(b_\w+ \+ )\(", r"\1(1 + "),
    ("stage of a barrier, kept", r"(titan::barrier_(?:wait|arrive)\w*\(b_\w+ \+ )r_", r"\1 1 + r_"),
    ("bytes", r"(barrier_arrive_expect\(.*, )(\d+)\);", r"\1\2 / 2);"),
    ("count of arrivals", r"(titan::barrier_init\(.*, )(\d+)\);", r"\1\2 + 1);"),
    ("count of arrivals, one", r"(titan::barrier_init\(.*, )([2-9]\d*)\);", r"\1 1);"),
    ("pending groups", r"(wait\w*<)(\d+)>", r"\1\2 + 1>"),
    ("reads only", r"bulk_wait<", r"bulk_wait_read<"),
    ("threads of a named barrier", r"(named_barrier_\w+\(.*, )128\)", r"\g<1>256)"),
    ("one named barrier for all groups", r"named_barrier_(\w+)\(([^,]+),", r"named_barrier_\1(1,"),
    ("who acts: all", r"if \((?:titan::elect_one\(\)|titan_elected)\) (titan::barrier)", r"\1"),
    ("register count", r"registers_(\w+)<(\d+)>", r"registers_\1<\2 - 8>"),
    ("place of a tile", r"(tensor_load\w*\(s_\w+ \+ )\(", r"\1 1024 + ("),
    ("tile of another stage", r"(tensor_load\w*\(s_\w+ \+ )\(", r"\1 16384 + ("),
    ("another tensor map", r"(tensor_load\w*\([^&]*)&map_\w+", r"\1&map_c"),
    ("barrier of another ring", r"(tensor_load\w*\(.*, b_\w+)_full", r"\1_empty"),
)  # fmt: skip
# Lines that are no statements of their own.
_ANYWHERE = (
    ("guard", r">= 1\) \{", r">= 2) {"),
    ("guard, none", r"if \(x_t >= 1\) \{", r"{"),
    ("bound of a loop", r"x_t < x_tiles;", r"x_t < x_tiles - 1;"),
    ("who acts: another", r"if \(titan_leader\) \{", r"if (titan::elect_one()) {"),
    ("who acts: all", r"if \(titan_leader\) \{", r"{"),
    ("stage of an operand", r"(descriptor_of_stage<\d+>\(d\d_\w+, )r_", r"\1 0 * r_"),
    ("stages of another size", r"(descriptor_of_stage<)(\d+)>", r"\1\2 / 2>"),
    ("operand of another tile", r"(titan::shared_descriptor<\d+>\()s_b", r"\1s_a"),
    ("position that stays", r"^ *titan::advance\(r_\w+\);$", ""),
    ("position before it that stays", r"^ *r_\w+_before = r_\w+;$", ""),
    ("place before that is the place", r"titan::before\((r_\w+)\);$", r"\1;"),
    ("where a position begins", r"(RingPosition<\d+> r_\w+_\d = \{)(\d)", r"\1 1 - \2"),
    ("parity where it begins", r"(RingPosition<\d+> r_\w+_\d = \{\d, )(\d)\}", r"\1 1 - \2}"),
    ("staging of another group", r"(const tile = s_\w+ \+ )x_group", r"\1(1 - x_group)"),
    ("order of a trip count", r"titan::larger\(1, ", r"titan::larger(0, -1 + "),
)  # fmt: skip


def mutants(text: str) -> Iterator[Mutant]:
    """All of them, in the order of lines."""
    lines = text.split("\n")
    numbers = statements(lines)
    for position, (number, primitive) in enumerate(numbers):
        line = lines[number]
        yield Mutant(f"{primitive} dropped", number + 1, _with(lines, number))
        if primitive not in _IDEMPOTENT:
            yield Mutant(f"{primitive} doubled", number + 1, _with(lines, number, line, line))
        if position and numbers[position - 1][1] != primitive:
            yield from _swapped(lines, numbers, position)
        for kind, pattern, new in _CHANGES:
            if (changed := re.sub(pattern, new, line)) != line:
                yield Mutant(kind, number + 1, _with(lines, number, changed))
    for number, line in enumerate(lines):
        for kind, pattern, new in _ANYWHERE:
            if (changed := re.sub(pattern, new, line)) != line:
                yield Mutant(kind, number + 1, _with(lines, number, changed))


def _swapped(lines: list[str], numbers: list[tuple[int, str]], position: int) -> Iterator[Mutant]:
    """The statement before the one that stands before it in the same block."""
    first, second = numbers[position - 1][0], numbers[position][0]
    between = lines[first + 1 : second]
    plain = all(not line.strip() or line.lstrip().startswith("//") for line in between)
    if plain:
        changed = [*lines]
        changed[first], changed[second] = changed[second], changed[first]
        names = f"{numbers[position - 1][1]} and {numbers[position][1]} swapped"
        yield Mutant(names, second + 1, "\n".join(changed))


def header_mutants(text: str, used: set[str]) -> Iterator[Mutant]:
    """Faults in the primitives `used` of the device header: nothing is done, or too little."""
    for match in _HEADER.finditer(text):
        name = re.search(r"\b(\w+)\(", match.group().split("TITAN_DEVICE", 1)[-1])
        if name is None or name.group(1) not in used or "asm volatile" not in match.group():
            continue
        if name.group(1) in _NO_OPERATION:
            continue
        line = text.count("\n", 0, match.start()) + 1
        changes = [(f"{name.group(1)} does nothing", _without_asm(match.group()))]
        for kind, pattern, new in _IN_HEADER:
            if (changed := re.sub(pattern, new, match.group())) != match.group():
                changes.append((f"{name.group(1)}: {kind}", changed))
        for kind, changed in changes:
            yield Mutant(kind, line, text[: match.start()] + changed + text[match.end() :])
    loop = "while (!barrier_try_wait(barrier, parity))"
    assert loop in text
    yield Mutant(
        "barrier_wait tests once", 0, text.replace(loop, "if (!barrier_try_wait(barrier, parity))")
    )


_IN_HEADER = (
    ("relaxed", r"\.(?:release|acquire)\.", ".relaxed."),
    ("the other proxy", r"fence\.proxy\.async\.shared::cta", "fence.acq_rel.cta"),
    ("reads only", r"wait_group %0", "wait_group.read %0"),
    ("not only reads", r"wait_group\.read %0", "wait_group %0"),
    ("arrives only", r"bar\.sync", "bar.arrive"),
    ("no bytes", r"arrive\.expect_tx(.*), %1;", r"arrive\1;"),
)  # fmt: skip


def _without_asm(text: str) -> str:
    """The statements of inline assembly left out, whatever brackets they hold."""
    out, position = [], 0
    while (start := text.find("asm volatile(", position)) >= 0:
        out.append(text[position:start])
        depth, end, quoted = 0, start + len("asm volatile"), False
        while True:
            char = text[end]
            if char == '"' and text[end - 1] != "\\":
                quoted = not quoted
            elif not quoted and char in "()":
                depth += 1 if char == "(" else -1
                if depth == 0:
                    break
            end += 1
        position = text.index(";", end) + 1
    return "".join([*out, text[position:]])
