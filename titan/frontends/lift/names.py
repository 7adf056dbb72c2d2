"""Names that a person can read, for what recordings know by its address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from titan.frontends.lift.fold import Folded
from titan.frontends.lift.unfolded import NameTable
from titan.sync import program as ir
from titan.sync.parts import renamed

_SPACES = {
    ir.Space.SHARED: "data",
    ir.Space.TENSOR: "accumulator",
    ir.Space.GLOBAL: "output",
    ir.Space.REGISTER: "registers",
}


UNTRACKED = "global+untracked"  # memory that nobody writes, of operations that only a queue counts
_QUEUES = {
    "wgmma": "wgmma_groups",
    "bulk group": "bulk_groups",
    "cp.async": "copy_groups",
    "tcgen05.ld": "tensor_loads",
    "tcgen05.st": "tensor_stores",
    "tcgen05.mma": "tensor_core_work",
}


@dataclass(frozen=True, slots=True)
class Named:
    """The program under readable names; `table` leads back, `addresses` says where arrays begin."""

    program: ir.SyncProgram
    table: NameTable
    addresses: Mapping[str, str]


def named(folded: Folded) -> Named:
    """A folded program with readable names."""
    program = folded.program
    names: dict[str, str] = {}
    taken: Counter[str] = Counter()
    ctas = max((role.cta for role in program.roles), default=0) + 1
    for barrier in program.barriers:
        _name(names, taken, barrier.name, _barrier_word(barrier.name, program))
    for buffer in program.buffers:
        _name(names, taken, buffer.name, _buffer_word(buffer, program))
    others: dict[str, str] = {}
    items: list[ir.NamedBarrier | ir.Queue | ir.Pool] = [
        *program.named_barriers, *program.queues, *program.pools,
    ]  # fmt: skip
    for item in items:
        word = _queue_word(item.name) if isinstance(item, ir.Queue) else identifier(item.name)
        names[item.name] = word
        others |= dict.fromkeys((word, *(f"{word}@{cta}" for cta in range(ctas))), item.name)
    names = _numbered(names, taken)
    final = _Renamed(names).program(program, ctas > 1)
    addresses = {new: old for old, new in names.items() if new not in others}
    owned: list[ir.Barrier | ir.Buffer] = [
        *program.barriers,
        *(item for item in program.buffers if item.space is not ir.Space.GLOBAL),
    ]
    read = dict(names)
    if ctas > 1:  # as the reader names what each CTA has
        read |= {item.name: f"{names[item.name]}@{item.cta}" for item in owned}
    return Named(final, _table(folded, [names, read], others), addresses)


def identifier(name: str) -> str:
    """A name as an identifier of the kernel language."""
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
    return made if not made[0].isdigit() else f"x{made}"


def _queue_word(name: str) -> str:
    """Not the name of a kind: that would bring rules for agents that are whole warpgroups."""
    base, _, rest = name.partition(" of ")
    return identifier(f"{_QUEUES.get(base, base)} {rest}")


def _name(names: dict[str, str], taken: Counter[str], old: str, word: str) -> None:
    names[old] = f"{word}_{taken[word]}"
    taken[word] += 1


def _numbered(names: Mapping[str, str], taken: Counter[str]) -> dict[str, str]:
    """Names without their number where there is only one of a kind."""
    made = {}
    for old, new in names.items():
        word, _, number = new.rpartition("_")
        made[old] = word if number == "0" and taken[word] == 1 else new
    return made


def _barrier_word(name: str, program: ir.SyncProgram) -> str:
    """`full` if copies complete it, `empty` if who copies waits for it, `done` of an engine."""
    for role in program.roles:
        operations = list(ir.walk(role.body))
        completed = {
            item.barrier.name
            for operation in operations
            if isinstance(operation, ir.Asynchronous)
            for item in operation.completes
        }
        if name in completed:
            return "full"
        waits = {item.barrier.name for item in operations if isinstance(item, ir.Wait)}
        if completed and name in waits:
            return "empty"
        if any(isinstance(o, ir.QueueArrive) and o.barrier.name == name for o in operations):
            return "done"
    return "barrier"


def _buffer_word(buffer: ir.Buffer, program: ir.SyncProgram) -> str:
    """`tile` for what copies fill, `staging` for what they take away, else by the memory."""
    if " as barrier" in buffer.name:
        return "barrier_bytes"
    if buffer.name == UNTRACKED:
        return "untracked"
    if buffer.space is not ir.Space.SHARED:
        return _SPACES[buffer.space]
    copied_out = False
    for role in program.roles:
        for operation in ir.walk(role.body):
            if not isinstance(operation, ir.Asynchronous):
                continue
            uses = [item for item in operation.effects if item.buffer == buffer.name]
            if operation.completes and any(item.write for item in uses):
                return "tile"
            bulk = operation.queue is not None and operation.queue.startswith("bulk")
            copied_out = copied_out or (bulk and any(not item.write for item in uses))
    return "staging" if copied_out else _SPACES[buffer.space]


class _Renamed:
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def program(self, program: ir.SyncProgram, many: bool) -> ir.SyncProgram:
        """All declarations and operations under their new names."""
        roles = tuple(
            replace(role, name=_role_name(role, many), body=self.block(role.body))
            for role in program.roles
        )
        return replace(
            program,
            roles=roles,
            barriers=tuple(replace(i, name=self.names[i.name]) for i in program.barriers),
            named_barriers=tuple(
                replace(i, name=self.names[i.name]) for i in program.named_barriers
            ),
            buffers=tuple(replace(i, name=self.names[i.name]) for i in program.buffers),
            queues=tuple(replace(i, name=self.names[i.name]) for i in program.queues),
            pools=tuple(replace(i, name=self.names[i.name]) for i in program.pools),
        )

    def block(self, block: ir.Block) -> ir.Block:
        """The operations of a block."""
        return tuple(self._operation(item) for item in block)

    def _operation(self, item: ir.Operation) -> ir.Operation:
        if isinstance(item, ir.Loop):
            return replace(item, body=self.block(item.body))
        return renamed(item, self.names)


def _role_name(role: ir.Role, many: bool) -> str:
    """`warp_4`, `waves_5_to_7`; in a cluster with the CTA: `warp_4_cta_1`."""
    texts = [text.partition("@")[0] for text in role.name.split(" to ")]
    word = texts[0].partition(" ")[0]
    numbers = [text.removeprefix(f"{word} ") for text in texts]
    name = f"{word}_{numbers[0]}" if len(numbers) == 1 else f"{word}s_{numbers[0]}_to_{numbers[1]}"
    return f"{name}_cta_{role.cta}" if many else name


def _table(
    folded: Folded, namings: Sequence[Mapping[str, str]], others: Mapping[str, str]
) -> NameTable:
    """What each element represents, under the names that were given and those that are read."""
    return NameTable(
        {
            (names[array.name], stage, part): item
            for names in namings
            for array in folded.memory.arrays.values()
            if array.name in names
            for stage, items in enumerate(array.regions)
            for part, item in enumerate(items)
        },
        {
            (names[array.name], stage, 0): item
            for names in namings
            for array in folded.barriers.arrays.values()
            if array.name in names
            for stage, (item, *_) in enumerate(array.regions)
        },
        others,
    )
