"""Which tile operation each operation of the sync program is the place of.

A site is one place in the text of a role. What happens there is read off what the operation does to
memory: a bulk copy that fills buffer B is the `load` B, a tensor-core operation is the mma that its
label names and whose operands it reads, an access to the buffer of a store is that store. Where two
operations of the tile program would fit, emission is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import mangled
from titan.codegen.tile.block_scales import FIRST_SCALE, in_tensor_memory, scales_of
from titan.codegen.tile.model import Carried, TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.operations import KINDS
from titan.codegen.tile.staging import slices_in
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, Name, binary, linear_form

_ISSUED = re.compile(r"issue ([A-Za-z_][A-Za-z0-9_]{0,63})")
SITES_MAX = 4000
ANSWER_BYTES = 16
TRIPS = "tiles"  # the parameter of the sync program: iterations of a work item
WORK = "work"  # work items of a CTA


class SiteKind(Enum):
    """What happens at a site."""

    PLAIN = "plain"  # synchronisation and control
    LOAD = "load"  # bulk copy into shared memory
    FILL = "fill"  # the same by threads
    SCALES = "scales"  # from shared memory to tensor memory
    MMA = "mma"
    DIRECT = "direct"  # an mma of operands in global memory: where their stage is poisoned
    COMPUTE = "compute"  # on registers; also direct stores to global memory
    CARRY = "carry"  # a carried value takes its initial number, or its next value
    READ = "read"  # shared memory to registers; happens at the Compute that follows
    STAGE = "stage"  # registers to the shared buffer of a store, or to that which groups share
    FETCH = "fetch"  # to registers from tensor memory, or rows of shared memory that a role has put
    PUT = "put"  # the converse
    SEND = "send"  # bulk copy to global memory
    ASK = "ask"  # for another work item
    ANSWER = "answer"  # read: whether there is another one, and which

    @property
    def counted(self) -> SiteKind:
        """What it counts as: each iteration is loaded once, by an engine or by threads, and
        multiplied once."""
        return {SiteKind.FILL: SiteKind.LOAD, SiteKind.DIRECT: SiteKind.MMA}.get(self, self)


@dataclass(frozen=True, slots=True)
class EmissionSite:
    """One place in the text of a role, with the places inside of it."""

    number: int
    operation: ir.Operation
    kind: SiteKind
    name: str = ""  # of the tile operation or carried value
    inside: tuple[EmissionSite, ...] = ()
    otherwise: tuple[EmissionSite, ...] = ()
    loops: tuple[str, ...] = ()  # variables of the loops around, outermost first
    sub: Expression | None = None  # which of the sub-tiles; None: all, or there is one
    index: Expression | None = None  # the iteration, where the operation itself says it
    slice: int = 0  # which slice of the columns of a store
    ahead: int = 0  # how many iterations later it belongs than counted


class Tiles:
    """Look-ups in a tile program, with every name checked.

    `tensor`: buffers in tensor memory; `filled`, `copied`: loads that threads do, or an engine, at
    least in part. `direct`: products that threads compute from global memory where their stages are
    poisoned. `rows`: shared buffers that are named like a number a row, where there is tensor
    memory: roles hand it on there. `slices`: in how many slices stores are staged, by their names.
    """

    def __init__(
        self,
        tile: TileProgram,
        program: ir.SyncProgram,
        tensor: frozenset[str],
        filled: frozenset[str],
        copied: frozenset[str],
    ) -> None:
        self.tile = tile
        self.tensor, self.filled, self.copied = tensor, filled, copied
        self.operations: dict[str, TileOperation] = {}
        self.carried: dict[str, Carried] = {}
        self.section: dict[str, str] = {}
        for section in ("before", "body", "after"):
            for operation in getattr(tile, section):
                mangled("v", operation.name, "a tile operation")
                self._check_form(operation)
                self._new(operation.name)
                self.operations[operation.name] = operation
                self.section[operation.name] = section
        for carried in tile.carried:
            mangled("v", carried.value.name, "a carried value")
            self._new(carried.value.name)
            self.carried[carried.value.name] = carried
            self.section[carried.value.name] = "carried"
            if self.section.get(carried.next) != "body":
                raise EmissionRefused(f"{carried.value.name} takes a value that no body computes")
        self.scales = {
            in_tensor_memory(name): name
            for operation in self.operations.values()
            for name in scales_of(operation)
        }
        self.direct = (
            frozenset(
                operation.what
                for role in program.roles
                for operation in ir.walk(role.body)
                if isinstance(operation, ir.Compute) and self._is_product(operation.what)
            )
            - self.tensor
        )
        self.answers = frozenset(
            buffer.name for buffer in program.buffers if tile.launch_control and is_answer(buffer)
        )
        self.several = any(parameter.name == WORK for parameter in program.parameters)
        self.rows = frozenset(
            buffer.name for buffer in program.buffers if self.tensor and self._is_row(buffer.name)
        )

        self.slices = {
            buffer.name: slices
            for buffer in program.buffers
            if (slices := self._slices(buffer)) > 1
        }

    def _slices(self, buffer: ir.Buffer) -> int:
        operation = self.operations.get(buffer.name)
        if operation is None or operation.kind != "store":
            return 1
        value = self.value(operation.operands[0])
        slices = slices_in(self.tile, value, buffer.bytes_per_stage)
        if slices > 1 and self.section[buffer.name] != "after":
            raise EmissionRefused(f"{buffer.name} is staged in slices, but not behind the loop")
        return slices

    def _is_product(self, name: str) -> bool:
        return name in self.operations and self.operations[name].kind == "mma"

    def _is_row(self, name: str) -> bool:
        operation = self.operations.get(name)
        if operation is None and name not in self.carried:
            return False
        if operation is not None and operation.result is None:
            return False
        return self.value(name).place is ValuePlace.ROW

    def _check_form(self, operation: TileOperation) -> None:
        """Operands, view and result are there as the kind has them."""
        kind = KINDS.get(operation.kind)
        if kind is None:
            raise EmissionRefused(f"{operation.name} is of no known kind")
        counts = (2, 3) if operation.kind == "mma" else (len(kind.places),)
        if len(operation.operands[:FIRST_SCALE]) not in counts:
            raise EmissionRefused(f"{operation.name} has {len(operation.operands)} operands")
        stores = operation.kind == "store"
        if (operation.result is None) is not stores:
            raise EmissionRefused(f"{operation.name} has a result too few or too many")
        if not (kind.reads_view or stores):
            return
        ranks = [len(t.shape) for t in self.tile.tensors if operation.view is not None
                 and t.name == operation.view.tensor]  # fmt: skip
        if operation.view is None or ranks != [len(operation.view.offsets)]:
            raise EmissionRefused(f"{operation.name} has no view of one tensor")

    def _new(self, name: str) -> None:
        if name in self.section:
            raise EmissionRefused(f"two values are called {name}")

    def accumulates(self, name: str) -> str:
        """The carried value that an mma continues with, itself or scaled; empty for none."""
        operation = self.operations[name]
        if operation.kind != "mma" or len(operation.operands) < 3:
            return ""
        return next((c.value.name for c in self.carried.values() if c.next == name), "")

    def rescaled(self, name: str) -> str:
        """What a carried value is before its mma continues with it; empty where it is itself."""
        carried = self.carried.get(name)
        following = self.operations[carried.next] if carried is not None else None
        if following is None or following.kind != "mma" or len(following.operands) < 3:
            return ""
        return following.operands[2] if following.operands[2] != name else ""

    def value(self, name: str) -> Value:
        """The value of that name. Raises EmissionRefused."""
        if name in self.carried:
            return self.carried[name].value
        operation = self.operations.get(name)
        if operation is None or operation.result is None:
            raise EmissionRefused(f"no operation computes {mangled('v', name, 'an operand')}")
        return operation.result

    def loaded(self, name: str) -> bool:
        """Whether a load of the tile program brings the value."""
        operation = self.operations.get(name)
        return operation is not None and operation.kind == "load"

    def shared(self, name: str) -> bool:
        """Whether groups share the value: each writes its rows, and each reads all."""
        operation = self.operations.get(name)
        return operation is not None and operation.kind == "share"

    def in_registers(self, name: str) -> bool:
        """Whether the value is kept in registers."""
        return self.value(name).place is not ValuePlace.SHARED


def is_answer(buffer: ir.Buffer) -> bool:
    """Whether a buffer holds answers of the hardware: 16 bytes in shared memory."""
    return buffer.space is ir.Space.SHARED and buffer.bytes_per_stage == ANSWER_BYTES


def sites_of(
    role: ir.Role, tiles: Tiles, queues: dict[str, ir.Queue]
) -> tuple[tuple[EmissionSite, ...], int]:
    """The sites of a role as a tree, and their number. Raises EmissionRefused."""
    numbering = _Numbering(role, tiles, queues)
    return numbering.block(role.body, ()), numbering.following


def reads_before(sites: tuple[EmissionSite, ...]) -> dict[int, ir.Access]:
    """For each Compute the last access in front of it in the same block, as the check has it."""
    found: dict[int, ir.Access] = {}
    latest: ir.Access | None = None
    for site in sites:
        if site.kind is SiteKind.READ and isinstance(site.operation, ir.Access):
            latest = site.operation
        elif isinstance(site.operation, ir.Arrive) or site.inside or site.otherwise:
            latest = None
        elif site.kind in (SiteKind.COMPUTE, SiteKind.FETCH) and latest is not None:
            found[site.number] = latest
        found.update(reads_before(site.inside))
        found.update(reads_before(site.otherwise))
    return found


class _Numbering:
    def __init__(self, role: ir.Role, tiles: Tiles, queues: dict[str, ir.Queue]) -> None:
        self.tiles = tiles
        self.queues = queues
        self.following = 0
        self.groups = tiles.tile.groups
        self.alone = role.agents == 1
        several = bool(tiles.tensor) and role.agents == self.groups
        self.sub: Expression | None = Name(role.agent_constant) if several else None
        self.before: ir.Operation | None = None

    def block(self, block: ir.Block, loops: tuple[str, ...]) -> tuple[EmissionSite, ...]:
        made = []
        self.before = None
        for operation in block:
            site = self.site(operation, loops)
            self.before = operation
            made.append(site)
        return tuple(made)

    def _over_subtiles(self, loop: ir.Loop) -> bool:
        """Whether one agent goes through all sub-tiles here."""
        bounds = loop.start == ZERO and loop.stop == Constant(self.groups)
        return bool(self.tiles.tensor) and self.alone and bounds

    def site(self, operation: ir.Operation, loops: tuple[str, ...]) -> EmissionSite:
        number, sub, before = self.following, self.sub, self.before
        self.following += 1
        if self.following > SITES_MAX:
            raise EmissionRefused(f"a role of more than {SITES_MAX} operations")
        if len(loops) > 8:
            raise EmissionRefused("loops nested more than 8 deep")
        match operation:
            case ir.Loop(variable=variable):
                self.sub = Name(variable) if self._over_subtiles(operation) else sub
                inside = self.block(operation.body, (*loops, variable))
                self.sub = sub
                return EmissionSite(number, operation, SiteKind.PLAIN, "", inside, (), loops)
            case ir.Branch():
                then = self.block(operation.then, loops)
                otherwise = self.block(operation.otherwise, loops)
                return EmissionSite(number, operation, SiteKind.PLAIN, "", then, otherwise, loops)
            case ir.Compute(what=what):
                kind = SiteKind.CARRY if what in self.tiles.carried else SiteKind.COMPUTE
                kind = SiteKind.DIRECT if what in self.tiles.direct else kind
                kind = SiteKind.FETCH if self._fetched(what, before) else kind
                if what not in self.tiles.section or self.tiles.loaded(what):
                    raise EmissionRefused(
                        f"{mangled('v', what, 'a computation')} is nothing that can be computed"
                    )
                stated = self.tiles.tensor and kind is not SiteKind.CARRY
                body = self.tiles.section[what] == "body"
                index = operation.index if stated and body else None
                return EmissionSite(number, operation, kind, what, (), (), loops, sub, index)
            case ir.Asynchronous():
                kind, name = self._asynchronous(operation)
                slice_ = self._slice(operation, name)
                return EmissionSite(number, operation, kind, name, (), (), loops, sub, slice=slice_)
            case ir.Access():
                kind, name = self._access(operation)
                index = self._put_index(operation) if kind is SiteKind.PUT else None
                slice_ = self._slice(operation, name)
                ahead = int(kind is SiteKind.PUT and index is None and self._continues(operation))
                return EmissionSite(
                    number, operation, kind, name, (), (), loops, sub, index, slice_, ahead
                )
        return EmissionSite(number, operation, SiteKind.PLAIN, loops=loops)

    def _fetched(self, name: str, before: ir.Operation | None) -> bool:
        """Whether the value comes out of a buffer: just read, or computed by no thread."""
        operation = self.tiles.operations.get(name)
        product = operation is None or operation.kind == "mma"
        if name in self.tiles.tensor and product:
            return True
        return name in self.tiles.tensor | self.tiles.rows and _reads(before, name)

    def _asynchronous(self, operation: ir.Asynchronous) -> tuple[SiteKind, str]:
        queue = self.queues.get(operation.queue) if operation.queue else None
        if queue is not None and queue.pipelined and (moved := self._moved(operation)):
            return SiteKind.SCALES, moved
        written = {effect.buffer for effect in operation.effects if effect.write}
        read = {effect.buffer for effect in operation.effects if not effect.write}
        if operation.completes and operation.queue is None and not read and len(written) == 1:
            name = written.pop()
            if name in self.tiles.answers:
                return SiteKind.ASK, ""
            if not self.tiles.loaded(name):
                raise EmissionRefused(f"no load fills {mangled('s', name, 'a buffer')}")
            return SiteKind.LOAD, name
        accumulates = written <= self.tiles.tensor
        if queue is not None and queue.pipelined and accumulates and not operation.completes:
            return SiteKind.MMA, self._mma(operation, read, written)
        if queue is not None and not queue.pipelined and not written and len(read) == 1:
            return SiteKind.SEND, self._store(read.pop())
        raise EmissionRefused("an asynchronous operation is neither a load, an mma nor a store")

    def _moved(self, operation: ir.Asynchronous) -> str:
        """The load whose scales go on to tensor memory; empty where none do."""
        written = {effect.buffer for effect in operation.effects if effect.write}
        read = {effect.buffer for effect in operation.effects if not effect.write}
        names = {self.tiles.scales.get(buffer, "") for buffer in written}
        scales = len(operation.effects) == 2 and names == read and not operation.completes
        return read.pop() if scales else ""

    def _mma(self, operation: ir.Asynchronous, read: set[str], written: set[str]) -> str:
        def fits(item: TileOperation) -> bool:
            needed = {name for name in item.operands[:2] if not self.tiles.in_registers(name)}
            needed |= set(item.operands[:1]) & self.tiles.tensor
            needed |= {in_tensor_memory(name) for name in scales_of(item)}
            into = {self.tiles.accumulates(item.name) or item.name} if written else set()
            return needed == read and into == written

        named = _ISSUED.fullmatch(operation.label) if isinstance(operation.label, str) else None
        candidates = [
            item.name
            for item in self.tiles.operations.values()
            if item.kind == "mma" and fits(item)
        ]
        if named and named.group(1) in candidates:
            return named.group(1)
        if named and named.group(1) in self.tiles.operations:
            raise EmissionRefused(f"{named.group(1)} reads other tiles than are issued here")
        if len(candidates) != 1:
            raise EmissionRefused("the tiles that it reads do not determine which mma is issued")
        return candidates[0]

    def _store(self, buffer: str) -> str:
        """The store that a bulk copy out of the buffer carries out."""
        operation = self.tiles.operations.get(buffer)
        if operation is not None and operation.kind == "store":
            return buffer
        candidates = [
            item.name
            for item in self.tiles.operations.values()
            if item.kind == "store" and item.operands == (buffer,)
        ]
        if len(candidates) != 1:
            raise EmissionRefused(f"no one store takes {mangled('s', buffer, 'a buffer')}")
        return candidates[0]

    def _access(self, operation: ir.Access) -> tuple[SiteKind, str]:
        written = {effect.buffer for effect in operation.effects if effect.write}
        read = {effect.buffer for effect in operation.effects if not effect.write}
        if len(written) == 1 and not read:
            name = written.pop()
            if name in self.tiles.tensor | self.tiles.rows:
                return SiteKind.PUT, self.tiles.rescaled(name) or name
            item = self.tiles.operations.get(name)
            if name in self.tiles.filled:
                return SiteKind.FILL, name
            if item is None or item.kind not in ("store", "share"):
                raise EmissionRefused(f"no store writes {mangled('s', name, 'a buffer')}")
            return SiteKind.STAGE, name
        if read and read <= self.tiles.answers and not written:
            return SiteKind.ANSWER, ""
        if read and not written:
            return SiteKind.READ, ""
        raise EmissionRefused("an access is neither the staging of a store nor a read")

    def _slice(self, operation: ir.Asynchronous | ir.Access, name: str) -> int:
        """The slice of a store that is written or sent: its number in the ring, of which each work
        item has as many as there are slices. Raises EmissionRefused."""
        slices = self.tiles.slices.get(name, 1)
        if slices == 1:
            return 0
        numbers = {effect.tile for effect in operation.effects if effect.buffer == name}
        number = numbers.pop() if len(numbers) == 1 else None
        form = linear_form(number) if number is not None else None
        if form is None or any(factor % slices for factor in form[0].values()):
            raise EmissionRefused(f"which of {slices} slices of {name} is meant is not stated")
        return form[1] % slices

    def _put_index(self, operation: ir.Access) -> Expression | None:
        """The iteration of what is put: the number of the tile; what continues from the product of
        one iteration belongs to the next, and a carried value is that behind the last one. None
        where tiles are numbered over several work items: those put in one of them are counted."""
        (effect,) = operation.effects
        if effect.buffer in self.tiles.rows and effect.buffer in self.tiles.carried:
            return Name(TRIPS)
        if effect.tile is None:
            raise EmissionRefused(f"what is put into {effect.buffer} is not declared")
        if self.tiles.several:
            return None
        return binary("+", effect.tile, ONE) if self._continues(operation) else effect.tile

    def _continues(self, operation: ir.Access) -> bool:
        """Whether what is put continues from the product of the iteration before."""
        return bool(self.tiles.rescaled(operation.effects[0].buffer))


def _reads(operation: ir.Operation | None, name: str) -> bool:
    effects = operation.effects if isinstance(operation, ir.Access) else ()
    return any(effect.buffer == name and not effect.write for effect in effects)
