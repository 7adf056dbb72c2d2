"""Operations and their effects in the words of the kernel: `wait full[2] for phase 1`.

Values stand in place of expressions: the indices, phases and tiles of this moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from titan.sync import program as ir
from titan.sync.contents import contents_of
from titan.sync.expression import Expression, ExpressionError, evaluate, parse_expression
from titan.sync.state import ANY_TILE, Cell, Key, State, content_text

_INDEX = re.compile(r"\[([^\[\]]*)\]")
Environment = Mapping[str, int]


def reference_text(name: str, index: int, stages: int = 2) -> str:
    """`full[2]`, `full[2]@1` in a cluster; without index where there is only one."""
    base, _, cta = name.partition("@")
    text = base if stages == 1 and index == 0 else f"{base}[{index}]"
    return f"{text}@{cta}" if cta else text


class Words:
    """Descriptions of the operations of one program."""

    def __init__(self, program: ir.SyncProgram) -> None:
        self.program = program
        self.stages = {item.name: item.stages for item in program.barriers}
        self.stages |= {item.name: item.stages for item in program.named_barriers}
        self.stages |= {item.name: item.stages for item in program.buffers}
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.contents = contents_of(program)
        self.cells: dict[Cell, str] = {}
        for buffer in program.buffers:
            for stage in range(buffer.stages):
                for part in range(buffer.parts):
                    name = reference_text(buffer.name, stage, buffer.stages)
                    if buffer.parts > 1:
                        name = f"{name} part {part}"
                    base = buffer.offset + (stage * buffer.parts + part) * buffer.units
                    for unit in range(buffer.units):
                        self.cells.setdefault((buffer.storage or buffer.name, base + unit), name)

    def tile(self, tile: int, storage: str) -> str:
        """The content of memory of a storage."""
        return "data" if tile == ANY_TILE else content_text(tile, self.contents.get(storage, ()))

    def named(self, text: str, storage: str) -> str:
        """A message with cells and barriers by number replaced by their names in the file."""

        def name(found: re.Match[str]) -> str:
            key = (storage, int(found.group(1)))
            written = self.key(key) if storage in self.stages else found.group(0)
            return self.cells.get(key, written)

        return re.sub(rf"(?<!\w){re.escape(storage)}\[(\d+)\]", name, text) if storage else text

    def reference(self, reference: ir.Reference, environment: Environment) -> str:
        """`name[stage]` with its value; the bare name where the index has no value."""
        index = self.value(reference.index, environment)
        if index is None:
            return reference.name
        return reference_text(reference.name, index, self.stages.get(reference.name, 2))

    def key(self, key: Key) -> str:
        """The text of a (name, index) pair, by the rule for references."""
        return reference_text(key[0], key[1], self.stages.get(key[0], 2))

    @staticmethod
    def value(expression: Expression, environment: Environment) -> int | None:
        """The value of an expression, or None where it has none."""
        try:
            return evaluate(expression, environment)
        except (KeyError, ZeroDivisionError):
            return None

    def number(self, expression: Expression, environment: Environment) -> str:
        """The value in decimal, or "?" where the expression has none."""
        value = self.value(expression, environment)
        return "?" if value is None else str(value)

    def effect(self, effect: ir.Effect, environment: Environment) -> str:
        """`A[2] = tile 5`."""
        place = self.reference(ir.Reference(effect.buffer, effect.stage), environment)
        if effect.part is not None:
            place += f" part {self.number(effect.part, environment)}"
        if effect.tile is None:
            return place
        value = self.value(effect.tile, environment)
        if value is None:
            return f"{place} (tile ?)"
        return f"{place} (tile {value // max(len(self.buffers[effect.buffer].contents), 1)})"

    def label(self, label: str, environment: Environment) -> str:
        """A label of lowering with the indices in its brackets as numbers."""

        def value(found: re.Match[str]) -> str:
            try:
                number = self.value(parse_expression(found.group(1)), environment)
            except ExpressionError:
                number = None
            return found.group(0) if number is None else f"[{number}]"

        return _INDEX.sub(value, label)

    def operation(self, operation: ir.Operation, environment: Environment) -> str:
        """What an agent does when it executes the operation."""
        plain = self._plain(operation, environment)
        label = operation.label
        if not label or (isinstance(operation, ir.Access | ir.Asynchronous) and " " not in label):
            return plain
        # What follows the first colon of a label is what `plain` says with values.
        statement = self.label(label, environment).partition(":")[0]
        return f"{statement}: {plain}"

    def _plain(self, operation: ir.Operation, environment: Environment) -> str:
        def number(expression: Expression) -> str:
            return self.number(expression, environment)

        match operation:
            case ir.Access(effects=effects):
                return self._access(effects, environment)
            case ir.Asynchronous():
                return f"starts {self.flight(operation, environment)}"
            case ir.Commit(queue=queue):
                return f"commit {queue}"
            case ir.QueueWait(queue=queue, pending=pending, until=until):
                reads = ", reads only" if until is ir.Until.READ else ""
                return f"drain {queue}, leaving {number(pending)}{reads}"
            case ir.QueueArrive(queue=queue, barrier=barrier):
                return f"commit {queue}, to arrive at {self.reference(barrier, environment)}"
            case ir.Fence(kind=kind):
                return f"fence {kind.value}"
            case ir.PoolTake(pool=pool, amount=amount):
                return f"take {number(amount)} of {pool}"
            case ir.PoolGive(pool=pool, amount=amount):
                return f"give {number(amount)} to {pool}"
        return self._barrier(operation, environment)

    def _barrier(self, operation: ir.Operation, environment: Environment) -> str:
        def number(expression: Expression) -> str:
            return self.number(expression, environment)

        match operation:
            case ir.Init(barrier=barrier, count=count):
                return f"init {self.reference(barrier, environment)}, count {number(count)}"
            case ir.Invalidate(barrier=barrier):
                return f"invalidate {self.reference(barrier, environment)}"
            case ir.Arrive(barrier=barrier):
                return self._arrive(operation, self.reference(barrier, environment), environment)
            case ir.ExpectTransaction(barrier=barrier, bytes=size):
                return f"expect {number(size)} bytes on {self.reference(barrier, environment)}"
            case ir.Wait(barrier=barrier, parity=parity, phase=phase):
                meant = f"phase {number(phase)}, " if phase is not None else ""
                value = self.value(parity, environment)
                shown = "?" if value is None else str(value & 1)
                return f"wait {self.reference(barrier, environment)} ({meant}parity {shown})"
            case ir.TokenWait(barrier=barrier):
                return f"wait {self.reference(barrier, environment)} (its token)"
            case ir.BarrierSync(barrier=barrier, threads=threads):
                return f"sync {self.reference(barrier, environment)}, {number(threads)} threads"
            case ir.BarrierArrive(barrier=barrier, threads=threads):
                return f"arrive {self.reference(barrier, environment)}, {number(threads)} threads"
            case ir.BarrierWait(barrier=barrier):
                return f"wait {self.reference(barrier, environment)}"
        return type(operation).__name__

    def _arrive(self, operation: ir.Arrive, place: str, environment: Environment) -> str:
        text = f"arrive {place}"
        count = self.number(operation.count, environment)
        size = self.number(operation.transaction, environment)
        if count != "1":
            text += f", count {count}"
        if size != "0":
            text += f", expecting {size} bytes"
        return text + (", drop" if operation.drop else "")

    def _access(self, effects: tuple[ir.Effect, ...], environment: Environment) -> str:
        texts = []
        for write, verb in ((False, "load"), (True, "store")):
            places = [self.effect(item, environment) for item in effects if item.write is write]
            if places:
                texts.append(f"{verb} {', '.join(places)}")
        cached = sorted({item.proxy.value for item in effects if item.proxy in ir.CACHED})
        through = f" through the {' and the '.join(cached)} proxy" if cached else ""
        return " and ".join(texts) + through

    def flight(self, operation: ir.Operation, environment: Environment) -> str:
        """An asynchronous operation as a thing: `bulk_load of A[2] (tile 5)`."""
        if not isinstance(operation, ir.Asynchronous):
            return self._plain(operation, environment)
        writes = [self.effect(item, environment) for item in operation.effects if item.write]
        reads = [self.effect(item, environment) for item in operation.effects if not item.write]
        word = operation.label if operation.label and " " not in operation.label else "operation"
        text = f"{word}"
        if reads:
            text += f" reading {', '.join(reads)}"
        if writes:
            text += f"{' and' if reads else ''} writing {', '.join(writes)}"
        return text

    def changes(self, before: State, after: State) -> str:
        """What a step has changed: phases that completed, contents that are new."""
        texts = []
        old = dict(before.barriers)
        for key, barrier in after.barriers:
            was = old[key]
            if barrier.phase != was.phase:
                texts.append(f"{self.key(key)} completes phase {barrier.phase - 1}")
            elif barrier.transaction != was.transaction or barrier.pending != was.pending:
                texts.append(f"{self.key(key)} {lacking(barrier.pending, barrier.transaction)}")
        cells = dict(before.cells)
        held: dict[str, str] = {}
        for cell, state in after.cells:
            if state.tile != cells[cell].tile:
                held.setdefault(self.cells.get(cell, str(cell)), self.tile(state.tile, cell[0]))
        texts += [f"{place} holds {content}" for place, content in held.items()]
        return "; ".join(texts)


def lacking(pending: int, transaction: int) -> str:
    """What a phase still lacks."""
    parts = []
    if pending:
        parts.append(f"{pending} arrival{'' if pending == 1 else 's'}")
    if transaction:
        parts.append(f"{transaction} bytes")
    return "lacks " + " and ".join(parts) if parts else "lacks nothing"
