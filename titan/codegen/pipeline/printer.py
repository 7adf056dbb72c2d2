"""Prints a pipeline as a kernel file: the one place where its YAML is spelled.

The same document gives the same bytes, which packages and the gate rely on. Knows the spelling of
the kernel language and nothing of what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch

from titan.codegen.pipeline import document as doc
from titan.foundation.errors import InternalError

INDENT = 4


def pipeline_text(document: doc.PipelineDocument) -> str:
    """The kernel file of a pipeline."""
    order = document.order
    lines = [
        "titan: 1",
        f"kernel: {document.kernel}",
        f"target: {document.target}",
        *([f"ctas: {document.ctas}"] if document.ctas > 1 else []),
        f"note: The pipeline of tile program {document.kernel}, written by titan build.",
        f"sizes: {_sizes(document.sizes)}",
        *_section("buffers", ((b.name, _buffer(b, order)) for b in document.buffers)),
        *_section("rings", ((ring.name, _ring(ring)) for ring in document.rings)),
        *_section("barriers", ((item.name, _barrier(item)) for item in document.barriers)),
        *_section("named_barriers", ((b.name, _named(b)) for b in document.named_barriers)),
        *_section("queues", ((queue.name, queue.kind) for queue in document.queues)),
        *_section("policies", document.policies),
        *_section("roles", ((role.name, _role(role, order)) for role in document.roles)),
        "program:",
    ]
    for role, body in document.program:
        lines += [f"  {role}:", *block_lines(body, INDENT)]
    return "\n".join(lines) + "\n"


def block_lines(block: doc.Block, indent: int) -> list[str]:
    """The lines of a block; a nested one stands under `do:` (of an `if`, under `then:`)."""
    made: list[str] = []
    space = " " * indent
    for statement in block:
        head, options = spelled(statement)
        if statement.when:
            options = {**options, "when": statement.when}
        made.append(f"{space}- {head}")
        made += [f"{space}  {key}: {value}" for key, value in options.items()]
        if isinstance(statement, doc.ForStatement):
            made += [f"{space}  do:", *block_lines(statement.body, indent + INDENT)]
        elif isinstance(statement, doc.IfStatement | doc.WhenPoisonedStatement):
            arms = {"then": statement.then, "else": statement.otherwise}
            for key, arm in arms.items():
                made += [f"{space}  {key}:", *block_lines(arm, indent + INDENT)] if arm else []
    return made


# ----------------------------------------------------------------------------------- declarations


def _section(name: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    """A top-level section; nothing where it has no entries."""
    rows = [f"  {key}: {value}" for key, value in entries]
    return [f"{name}:", *rows] if rows else []


def _mapping(items: Mapping[str, object], order: Iterable[str] = ()) -> str:
    """A mapping on one line, of those items that have a value."""
    keys = order or items
    return f"{{{_joined(f'{key}: {items[key]}' for key in keys if items[key])}}}"


def _list(items: Iterable[str]) -> str:
    return f"[{_joined(items)}]"


def _joined(items: Iterable[str]) -> str:
    return ", ".join(items)


def _sizes(sizes: doc.DocumentSizes) -> str:
    tiles = {"any": "true", "minimum": sizes.tiles_min, "per": "w" if sizes.over_work else ""}
    least = _mapping({"any": "true", "minimum": sizes.work_min}) if sizes.work_min else "any"
    return _mapping({
        "work": least if sizes.over_work else "", "tiles": _mapping(tiles), "depth": sizes.depth,
    })  # fmt: skip


def _buffer(buffer: doc.BufferDeclaration, order: doc.KeyOrder) -> str:
    items = {
        "space": buffer.space,
        "stages": buffer.stages,
        "parts": buffer.parts,
        "tile": "" if buffer.bytes_each else f"[{buffer.rows}, {buffer.columns}]",
        "dtype": buffer.dtype,
        "swizzle": buffer.swizzle,
        "storage": buffer.storage,
        "units": buffer.units,
        "lane_bytes": buffer.lane_bytes,
        "stride": buffer.stride,
        "bytes": buffer.bytes_each,
    }
    return _mapping(items, order.buffer)


def _ring(ring: doc.RingDeclaration) -> str:
    return _mapping(
        {"buffers": _list(ring.buffers), "depth": ring.depth, "transport": ring.transport}
    )


def _barrier(barrier: doc.BarrierDeclaration) -> str:
    return _mapping({"stages": barrier.stages, "count": barrier.count, "cta": barrier.cta})


def _named(barrier: doc.NamedBarrierDeclaration) -> str:
    return _mapping({"scope": barrier.scope, "stages": barrier.stages, "threads": barrier.threads})


def _role(role: doc.RoleDeclaration, order: doc.KeyOrder) -> str:
    items = {
        "warps": role.warps,
        "warpgroups": role.warpgroups,
        "cta": role.cta,
        "registers": role.registers,
        "counters": _mapping({name: "0" for name in role.counters}) if role.counters else "",
    }
    return _mapping(items, order.role)


# ------------------------------------------------------------------------------------- statements

Spelling = tuple[str, dict[str, object]]  # the statement without its options; the options by key


def slot_text(slot: doc.Slot) -> str:
    """A slot as written in a statement."""
    indices = f"[{', '.join(slot.indices)}]" if slot.indices else ""
    cta = f"@{slot.cta}" if slot.cta else ""
    return f"{slot.name}{indices}{cta}{f' = {slot.content}' if slot.content else ''}"


def _slots(slots: Iterable[doc.Slot]) -> str:
    return _joined(slot_text(slot) for slot in slots)


def _given(**options: object) -> dict[str, object]:
    """The options that have a value."""
    return {key: value for key, value in options.items() if value}


@singledispatch
def spelled(statement: doc.DocumentStatement) -> Spelling:
    """The spelling of a statement, its condition and inner blocks left out."""
    raise InternalError(f"the printer knows no {type(statement).__name__}")


@spelled.register
def _(statement: doc.ForStatement) -> Spelling:
    return f"for: {statement.variable} in {statement.first}..{statement.last}", {}


@spelled.register
def _(statement: doc.IfStatement) -> Spelling:
    return f"if: {statement.condition}", {}


@spelled.register
def _(statement: doc.WhenPoisonedStatement) -> Spelling:
    return f"when poisoned: {slot_text(statement.slot)}", {}


@spelled.register
def _(statement: doc.FinalizeStatement) -> Spelling:
    return "finalize", {}


@spelled.register
def _(statement: doc.ComputeStatement) -> Spelling:
    return f"compute: {statement.operation}", _given(tile=statement.tile)


@spelled.register
def _(statement: doc.CountStatement) -> Spelling:
    return f"count: {{{statement.counter}: {statement.counter} + 1}}", {}


@spelled.register
def _(statement: doc.AcquireStatement) -> Spelling:
    return f"acquire: {slot_text(statement.slot)}", {}


@spelled.register
def _(statement: doc.ProduceStatement) -> Spelling:
    options = _given(
        stored="true" if statement.stored else "",
        poison=statement.poison,
        buffers=_list(statement.buffers) if statement.buffers else "",
        last="" if statement.last else "false",
    )
    return f"produce: {slot_text(statement.slot)}", options


@spelled.register
def _(statement: doc.WaitStatement) -> Spelling:
    options = _given(phase=statement.phase, scope=statement.scope, order=statement.order)
    return f"wait: {slot_text(statement.slot)}", options


@spelled.register
def _(statement: doc.ReleaseStatement) -> Spelling:
    return f"release: {slot_text(statement.slot)}", _given(after=statement.after)


@spelled.register
def _(statement: doc.ReadStatement) -> Spelling:
    buffers = _list(statement.buffers) if statement.buffers else ""
    return f"read: {slot_text(statement.slot)}", _given(buffers=buffers)


@spelled.register
def _(statement: doc.IssueStatement) -> Spelling:
    adds = slot_text(statement.accumulates) if statement.accumulates is not None else ""
    beside = _list(slot_text(one) for one in statement.reads) if statement.reads else ""
    options = {"as": statement.name, **_given(accumulates=adds, reads=beside)}
    return f"issue: mma({_slots(statement.operands)})", options


@spelled.register
def _(statement: doc.DrainStatement) -> Spelling:
    items = [statement.queue]
    if statement.leaving:
        quoted = f'"{statement.leaving}"' if "," in statement.leaving else statement.leaving
        items.append(f"leaving: {quoted}")
    if statement.until_read:
        items.append("until: read")
    return f"drain: {items[0] if len(items) == 1 else f'{{{_joined(items)}}}'}", {}


@spelled.register
def _(statement: doc.FenceStatement) -> Spelling:
    return "fence: async", {}


@spelled.register
def _(statement: doc.ArriveStatement) -> Spelling:
    options = _given(bytes=statement.bytes_expected, scope=statement.scope, order=statement.order)
    return f"arrive: {slot_text(statement.slot)}", options


@spelled.register
def _(statement: doc.SyncStatement) -> Spelling:
    return f"sync: {slot_text(statement.slot)}", {}


@spelled.register
def _(statement: doc.LoadStatement) -> Spelling:
    return f"load: {slot_text(statement.slot)}", {}


@spelled.register
def _(statement: doc.StoreStatement) -> Spelling:
    return f"store: {slot_text(statement.slot)}", {}


@spelled.register
def _(statement: doc.BulkLoadStatement) -> Spelling:
    options = _given(
        completes=slot_text(statement.completes),
        bytes=statement.bytes_copied,
        multicast="all" if statement.multicast else "",
    )
    return f"bulk_load: {slot_text(statement.slot)}", options


@spelled.register
def _(statement: doc.AskStatement) -> Spelling:
    options = {
        "writes": slot_text(statement.slot),
        "completes": slot_text(statement.completes),
        "bytes": statement.bytes_copied,
    }
    return "async:", options


@spelled.register
def _(statement: doc.BulkStoreStatement) -> Spelling:
    return f"bulk_store: {slot_text(statement.slot)}", {"queue": statement.queue}


@spelled.register
def _(statement: doc.MultiplyStatement) -> Spelling:
    into = _slots((statement.into, *statement.peers)) if statement.into is not None else ""
    return f"mma: {_slots(statement.operands)}", _given(into=into, queue=statement.queue)


@spelled.register
def _(statement: doc.CommitStatement) -> Spelling:
    arrives = slot_text(statement.arrives) if statement.arrives is not None else ""
    return f"commit: {statement.queue}", _given(arrives=arrives)


@spelled.register
def _(statement: doc.CopyToLdsStatement) -> Spelling:
    return f"lds_dma: {_slots(statement.slots)}", {"queue": statement.queue}


@spelled.register
def _(statement: doc.AsynchronousStatement) -> Spelling:
    reads, writes = _slots(statement.reads), _slots(statement.writes)
    proxy = "" if statement.engine else "generic"
    return "async:", _given(reads=reads, writes=writes, queue=statement.queue, proxy=proxy)
