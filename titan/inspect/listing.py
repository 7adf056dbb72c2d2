"""Machine code as data: instructions of each function, with where they may branch to.

Reads what nvdisasm writes for a cubin (labels and instructions) and what llvm-objdump writes for an
AMDGPU code object (through `titan/isa/gcn`). Nothing is executed and no instruction is interpreted
beyond its name, its predicate and its branch target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from titan.foundation.errors import UserError
from titan.inspect import opcodes
from titan.isa.gcn.listing import NotUnderstood
from titan.isa.gcn.listing import read as read_gcn

_LABEL = re.compile(r"^(\.L[\w.$]*|\.text\.[\w.$]+):\s*$")
_SECTION = re.compile(r"^\s*\.section\s+([\w.$]+)")
_INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-f]{4,})\*/\s+\{?\s*(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);"
)
_OF_LANES = ("s_cbranch_execnz", "s_cbranch_execz")
_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = ("BRA", "CALL", "JMP", "BSSY")


class BadListing(UserError):
    """The text is no listing of machine code; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """`name` with its modifiers (`HGMMA.64x128x16.F32.BF16`); `target`: an instruction's number."""

    address: int
    predicate: str
    name: str
    operands: str
    target: int | None = None

    @property
    def stem(self) -> str:
        """The name without modifiers."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class MachineFunction:
    """A function by its instructions; `amd` says whose names they have."""

    name: str
    amd: bool
    instructions: tuple[MachineInstruction, ...]

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The class of each instruction (`opcodes`)."""
        return tuple(class_of(item.name, self.amd) for item in self.instructions)

    def successors(self, number: int) -> tuple[int, ...]:
        """Which instructions may come next; of a call the one behind it."""
        item = self.instructions[number]
        always = item.predicate in ("", "@PT", "@UPT")
        ends = ("EXIT", "RET", "s_endpgm", "KILL", "BRX", "JMX")
        following = (number + 1,) if number + 1 < len(self.instructions) else ()
        if item.stem in ends:
            return () if always else following
        if item.stem in ("BRA", "JMP", "s_branch") and item.target is not None:
            # BRA.U UP0 and BRA.DIV UR4 have their condition in front of the target
            always = always and "," not in item.operands
            return (item.target,) if always else (item.target, *following)
        if item.name.startswith("s_cbranch") and item.target is not None:
            if self._lanes_stay and item.name in _OF_LANES:
                return (item.target,) if item.name == _OF_LANES[0] else following
            return (item.target, *following)
        if item.stem == "BSYNC":
            return tuple(dict.fromkeys((*self._meets(number), *following[: not always])))
        return following

    @cached_property
    def _lanes_stay(self) -> bool:
        """Whether nothing takes lanes of a wave out: what jumps while some are there always does.
        Compilers write such a jump where one without a condition would do."""
        others = (item for item in self.instructions if item.name not in _OF_LANES)
        words = (f"{item.name} {item.operands}" for item in others)
        return self.amd and not any("exec" in word or "v_cmpx" in word for word in words)

    def _meets(self, number: int) -> tuple[int, ...]:
        """Where BSYNC proceeds: what the BSSY of its register names that stands last before it."""
        register = self.instructions[number].operands.split(",")[0].strip()
        for place in range(number - 1, -1, -1):
            item = self.instructions[place]
            named = item.operands.split(",")[0].strip()
            if item.stem == "BSSY" and named == register and item.target is not None:
                return (item.target,)
        return (number + 1,) if number + 1 < len(self.instructions) else ()

    @property
    def called(self) -> tuple[int, ...]:
        """Where calls within the function go."""
        found = (item.target for item in self.instructions if item.stem == "CALL")
        return tuple(dict.fromkeys(place for place in found if place is not None))


@cache
def class_of(name: str, amd: bool) -> str:
    """The class with the longest prefix that the name has; OTHER where none fits."""
    table = opcodes.AMD if amd else opcodes.NVIDIA
    fitting = [
        (len(prefix), kind)
        for kind, prefixes in table.items()
        for prefix in prefixes
        if name.startswith(prefix)
    ]
    return max(fitting)[1] if fitting else opcodes.OTHER


def read_listing(text: str) -> tuple[MachineFunction, ...]:
    """The functions of a listing of nvdisasm or llvm-objdump. Raises BadListing."""
    if "AMDGPU" in text[:2000].upper():
        return _read_amd(text)
    found = _read_nvidia(text)
    if not found:
        raise BadListing("no machine code in it: it is not what nvdisasm or llvm-objdump writes")
    return found


def _read_nvidia(text: str) -> tuple[MachineFunction, ...]:
    """Sections `.text.NAME`; a label belongs to the next instruction."""
    functions: list[MachineFunction] = []
    name = ""
    items: list[MachineInstruction] = []
    labels: dict[str, int] = {}

    def close() -> None:
        if name and items:
            functions.append(MachineFunction(name, False, _linked(items, labels)))
        items.clear()
        labels.clear()

    for line in text.split("\n"):
        section = _SECTION.match(line)
        if section is not None:
            close()
            whole = section.group(1)
            name = whole.removeprefix(".text.") if whole.startswith(".text.") else ""
            continue
        if not name:
            continue
        label = _LABEL.match(line)
        if label is not None:
            labels[label.group(1)] = len(items)
            continue
        found = _INSTRUCTION.match(line)
        if found is not None:
            items.append(
                MachineInstruction(
                    int(found[1], 16), found[2] or "", found[3], found[4].strip(" }")
                )
            )
    close()
    return tuple(functions)


def _linked(
    items: list[MachineInstruction], labels: dict[str, int]
) -> tuple[MachineInstruction, ...]:
    """The instructions with their targets as numbers, without the padding behind the last jump."""
    linked = []
    for item in items:
        target = _TARGET.search(item.operands)
        place = labels.get(target.group(1)) if target and item.stem in _JUMPS else None
        place = place if place is not None and place < len(items) else None
        linked.append(
            MachineInstruction(item.address, item.predicate, item.name, item.operands, place)
        )
    while (
        linked
        and linked[-1].stem in ("NOP", "BRA")
        and (linked[-1].target in (None, len(linked) - 1))
    ):
        linked.pop()
    return tuple(linked)


def _read_amd(text: str) -> tuple[MachineFunction, ...]:
    try:
        functions = read_gcn(text, all_jumps=False)
    except NotUnderstood as reason:
        raise BadListing(str(reason)) from None
    made = []
    for function in functions.values():
        places = {item.address: number for number, item in enumerate(function.instructions)}
        made.append(
            MachineFunction(
                function.name, True,
                tuple(
                    MachineInstruction(
                        item.address, "", item.mnemonic, item.operands,
                        None if item.target is None else places.get(item.target),
                    )
                    for item in function.instructions
                ),
            )
        )  # fmt: skip
    return tuple(made)
