"""Reads the disassembly of an AMDGPU code object as far as synchronisation goes.

Text of `llvm-objdump -d`: instructions with their addresses and branch targets. Events are what a
wave does that the sync program refers to; arithmetic is none. A wait for lgkmcnt above 0 is the
compiler's own and no event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from titan.foundation.errors import Refusal

_FUNCTION = re.compile(r"^([0-9a-f]+) <([A-Za-z_][\w.$]*)>:$")
_LINE = re.compile(
    r"^\s+([a-z]\w*)\s*(.*?)\s*// ([0-9A-F]+):((?: [0-9A-F]{8})+)"
    r"\s*(?:<[\w.$]+(?:\+0x[0-9a-f]+)?>)?\s*$"
)
_ENDS = ("s_endpgm", "s_branch")
_PADDING = ("s_nop", "s_code_end")
_VMCNT = re.compile(r"vmcnt\((\d+)\)")
_LGKMCNT = re.compile(r"lgkmcnt\((\d+)\)")

BARRIER, COPY, READ, WRITE, LGKM = "barrier", "copy", "read", "write", "lgkmcnt(0)"


class NotUnderstood(Refusal):
    """The text holds something that the reader does not know."""


@dataclass(frozen=True, slots=True)
class GcnInstruction:
    """`target`: the address that a branch may go to."""

    address: int
    mnemonic: str
    operands: str
    target: int | None = None

    @property
    def text(self) -> str:
        """The instruction as the disassembler writes it."""
        return f"{self.mnemonic} {self.operands}".strip()


@dataclass(frozen=True, slots=True)
class GcnFunction:
    """One function of a listing: its instructions by address."""

    name: str
    address: int
    instructions: tuple[GcnInstruction, ...]

    def successors(self, number: int) -> tuple[int, ...]:
        """Numbers of the instructions that may come next. Raises NotUnderstood."""
        item = self.instructions[number]
        if item.mnemonic == "s_endpgm":
            return ()
        following = (number + 1,) if number + 1 < len(self.instructions) else ()
        if item.target is None:
            if not following:
                raise NotUnderstood(f"execution runs past the end of {self.name}")
            return following
        target = self._places().get(item.target)
        if target is None:
            raise NotUnderstood(f"a branch to {item.target:x}, where there is no instruction")
        return (target,) if item.mnemonic == "s_branch" else (*following, target)

    def _places(self) -> dict[int, int]:
        return {item.address: number for number, item in enumerate(self.instructions)}


def read(text: str, all_jumps: bool = True) -> dict[str, GcnFunction]:
    """All functions of a disassembly. Raises NotUnderstood, for jumps to where a register says only
    where `all_jumps` have to be known."""
    parts: list[tuple[str, int, list[GcnInstruction]]] = []
    for line in text.split("\n"):
        head = _FUNCTION.match(line)
        if head is not None:
            parts.append((head.group(2), int(head.group(1), 16), []))
            continue
        match = _LINE.match(line)
        if match is not None and parts:
            parts[-1][2].append(_instruction(match, all_jumps))
        elif line.startswith("\t") and line.strip() != "..." and parts:  # zeros between functions
            raise NotUnderstood(f"no instruction: {line.strip()[:80]}")
    whole: list[tuple[str, int, list[GcnInstruction]]] = []
    for number, (name, start, items) in enumerate(parts):
        if whole and _inside(parts, number, whole[-1][2]):
            whole[-1][2].extend(items)
        else:
            whole.append((name, start, list(items)))
    return {name: GcnFunction(name, start, tuple(_trimmed(items))) for name, start, items in whole}


def _inside(
    parts: list[tuple[str, int, list[GcnInstruction]]], number: int, before: list[GcnInstruction]
) -> bool:
    """Whether a part begins at a label that its file kept as a symbol: what is in front of it runs
    on into it, or another part branches to it."""
    last = next((one for one in reversed(before) if one.mnemonic not in _PADDING), None)
    if last is not None and last.mnemonic not in _ENDS:
        return True
    start = parts[number][1]
    return any(
        item.target == start
        for at, (_, _, items) in enumerate(parts)
        if at != number
        for item in items
    )


def _instruction(match: re.Match[str], all_jumps: bool) -> GcnInstruction:
    mnemonic, operands, address = match.group(1), match.group(2), int(match.group(3), 16)
    target = None
    if mnemonic == "s_branch" or mnemonic.startswith("s_cbranch_"):
        # The listing names the target by any symbol, or not at all: its words have the distance.
        distance = int(match.group(4).split()[0], 16) & 0xFFFF
        target = address + 4 + 4 * (distance - (distance >> 15 << 16))
    elif all_jumps and mnemonic.startswith(("s_setpc", "s_swappc", "s_call", "s_cbranch", "s_rfe")):
        raise NotUnderstood(f"an unsupported jump: {mnemonic}")
    return GcnInstruction(address, mnemonic, operands, target)


def _trimmed(items: list[GcnInstruction]) -> list[GcnInstruction]:
    """Without the padding after the last end."""
    ends = [n for n, item in enumerate(items) if item.mnemonic in ("s_endpgm", "s_branch")]
    return items[: ends[-1] + 1] if ends else items


def events(item: GcnInstruction) -> tuple[str, ...]:
    """What the instruction does for synchronisation, in order. Raises NotUnderstood."""
    name = item.mnemonic
    if name == "s_barrier":
        return (BARRIER,)
    if name == "s_waitcnt":
        return _waits(item)
    if name.startswith(("buffer_load", "global_load", "scratch_load")):
        direct = "lds" in name.split("_") or item.operands.split()[-1:] == ["lds"]
        return (COPY,) if direct else ()
    if name.startswith("ds_read"):
        return (READ,)
    if name.startswith("ds_write"):
        return (WRITE,)
    if name.startswith(("s_waitcnt_", "s_wait_", "flat_", "ds_gws", "s_barrier_")):
        raise NotUnderstood(f"an unsupported instruction: {name}")
    return ()


def _waits(item: GcnInstruction) -> tuple[str, ...]:
    vector, shared = _VMCNT.search(item.operands), _LGKMCNT.search(item.operands)
    if vector is None and shared is None and "expcnt" not in item.operands:
        raise NotUnderstood(f"a wait of an unknown form: {item.text}")
    made = [f"vmcnt({int(vector.group(1))})"] if vector is not None else []
    if shared is not None and shared.group(1) == "0":
        made.append(LGKM)
    return tuple(made)


@dataclass(frozen=True, slots=True)
class LoopSummary:
    """One loop of the machine program, nested ones included: events and MFMAs by address."""

    first: int
    last: int
    events: tuple[str, ...]
    products: int


def loops(function: GcnFunction) -> list[LoopSummary]:
    """The natural loops, by their heads: a backward branch and all that reaches it from there."""
    forward = [function.successors(number) for number in range(len(function.instructions))]
    backward: list[list[int]] = [[] for _ in forward]
    for number, following in enumerate(forward):
        for target in following:
            backward[target].append(number)
    members: dict[int, set[int]] = {}
    for tail, head in _back_edges(forward):
        inside = members.setdefault(head, {head})
        waiting = [tail]
        while waiting:
            number = waiting.pop()
            if number not in inside:
                inside.add(number)
                waiting += backward[number]
    found = []
    for _, inside in sorted(members.items()):
        order = [function.instructions[number] for number in sorted(inside)]
        recorded = tuple(event for item in order for event in events(item))
        products = sum(item.mnemonic.startswith("v_mfma") for item in order)
        found.append(LoopSummary(order[0].address, order[-1].address, recorded, products))
    return found


def _back_edges(forward: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Edges to an instruction that the walk in depth has not left yet."""
    state = [0] * len(forward)
    found: list[tuple[int, int]] = []
    stack: list[tuple[int, int]] = [(0, 0)] if forward else []
    if stack:
        state[0] = 1
    while stack:
        number, place = stack.pop()
        if place == len(forward[number]):
            state[number] = 2
            continue
        stack.append((number, place + 1))
        target = forward[number][place]
        if state[target] == 1:
            found.append((number, target))
        elif state[target] == 0:
            state[target] = 1
            stack.append((target, 0))
    return found
