"""Writes a litmus test in its text format; reading the result gives the same test again."""

from __future__ import annotations

from titan.litmus.language import ast
from titan.litmus.language.amdgpu import amdgpu_order, format_amdgpu, format_place
from titan.litmus.language.ast import (
    Direction,
    LitmusTest,
    Location,
    Proxy,
    Semantics,
    Space,
    ThreadPlacement,
)
from titan.litmus.language.condition import format_condition
from titan.litmus.language.machine_steps import CdnaStep
from titan.litmus.language.mnemonics import RELATIONS
from titan.litmus.model.dialect import Dialect

_LOADS = {
    Proxy.GENERIC: "ld",
    Proxy.SURFACE: "suld",
    Proxy.TEXTURE: "tld",
    Proxy.CONSTANT: "cold",
}
_STORES = {Proxy.GENERIC: "st", Proxy.SURFACE: "sust"}
_NAMES = {relation: name for name, relation in RELATIONS.items()}


def format_litmus(test: LitmusTest) -> str:
    """The text of a `.litmus` file, columns aligned."""
    lines = [f"{test.dialect} {test.name}"]
    if test.comment:
        lines.append(f'"{test.comment}"')
    lines.append("{")
    lines += [f"{_location(location, test.dialect)};" for location in test.locations]
    for thread in test.threads:
        lines += [f"{thread.name}:{name}={value};" for name, value in thread.registers]
    lines.append("}")
    lines += _program(test)
    if test.filter is not None:
        lines.append(f"filter ({format_condition(test.filter)})")
    lines.append(f"{test.quantifier} ({format_condition(test.condition)})")
    return "\n".join(lines) + "\n"


def _program(test: LitmusTest) -> list[str]:
    columns = [
        [
            f"{t.name}@{_place(t.placement, test.dialect)}",
            *(format_instruction(i, test.dialect) for i in t.instructions),
        ]
        for t in test.threads
    ]
    height = max(len(column) for column in columns)
    padded = [column + [""] * (height - len(column)) for column in columns]
    widths = [max(len(cell) for cell in column) for column in padded]
    return [
        " " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " ;"
        for row in zip(*padded, strict=True)
    ]


def _place(place: ThreadPlacement, dialect: Dialect) -> str:
    if dialect.amd:
        return format_place(place)
    cluster = f"cluster {place.cluster}," if place.cluster != 1000 + place.cta else ""
    return f"cta {place.cta},{cluster}gpu {place.gpu}"


def _location(location: Location, dialect: Dialect) -> str:
    home = f" @ {_place(location.home, dialect)}" if location.home is not None else ""
    if location.home is not None and dialect.amd:
        return f"lds {location.name} = {location.initial}{home.replace('wave 0,', '')}"
    if location.alias_of is not None:
        return f"{location.name} @ {location.proxy} aliases {location.alias_of}"
    if location.count is not None:
        return f"mbarrier {location.name} = {location.count}{home}"
    kind = "shared " if location.space is Space.SHARED else ""
    return f"{kind}{location.name} = {location.initial}{home}"


def format_instruction(instruction: ast.LitmusInstruction, dialect: Dialect = Dialect.PTX) -> str:
    """One instruction as the text format spells it."""
    if isinstance(instruction, CdnaStep):
        return instruction.text
    if dialect is Dialect.AMDGPU:
        own = format_amdgpu(instruction)
        if own is not None:
            return own
    match instruction:
        case ast.Load(destination, location, semantics, scope, proxy):
            return f"{_LOADS[proxy]}{_order(semantics, scope)} {destination}, {location}"
        case ast.Store(location, value, semantics, scope, proxy):
            return f"{_STORES[proxy]}{_order(semantics, scope)} {location}, {value}"
        case ast.Atomic(operation, location, operands, semantics, scope, destination):
            head = "red" if destination is None else "atom"
            values = ", ".join(str(operand) for operand in operands)
            target = f"{destination}, " if destination is not None else ""
            return f"{head}{_order(semantics, scope)}.{operation} {target}{location}, {values}"
        case ast.Fence(semantics, scope, space):
            limit = "" if space is None else ".sync_restrict::shared::cta"
            if space is Space.SHARED:
                limit = ".sync_restrict::shared::cluster"
            return f"fence.{semantics}{limit}.{scope}"
        case ast.DescriptorCopy(destination, source, scope):
            head = "tensormap.cp_fenceproxy.tensormap::generic.release"
            return f"{head}.{scope} {destination}, {source}"
        case ast.AliasFence():
            return "fence.proxy.alias"
        case ast.MbarrierInitFence():
            return "fence.mbarrier_init.release.cluster"
        case ast.ProxyFence():
            return _proxy_fence(instruction)
        case ast.Barrier(identifier, waits, count, instance):
            form = "sync" if waits else "arrive"
            if instance is None:
                rest = f", {count}" if count is not None else ""
                return f"bar.{form} {identifier}{rest}"
            rest = f", {count}" if count is not None else ""
            return f"bar.cta.{form} {instance}, {identifier}{rest}"
        case ast.ClusterBarrier(waits, semantics):
            return f"barrier.cluster.{'wait' if waits else 'arrive'}.{semantics}"
        case ast.Assign(destination, operation, operands):
            return f"{operation} {destination}, {', '.join(str(o) for o in operands)}"
        case ast.Label(name):
            return f"{name}:"
        case ast.Branch(target, None):
            return f"goto {target}"
        case ast.Branch(target, relation, left, right):
            assert relation is not None
            return f"b{_NAMES[relation]} {left}, {right}, {target}"
    return _asynchronous(instruction)


def _order(semantics: Semantics, scope: ast.Scope | None) -> str:
    return f".{semantics}" + (f".{scope}" if scope is not None else "")


def order_text(semantics: Semantics, scope: ast.Scope | None, dialect: Dialect) -> str:
    """`release.gpu`, as qualifiers of the dialect spell it."""
    order = amdgpu_order if dialect is Dialect.AMDGPU else _order
    return order(semantics, scope)[1:]


def _proxy_fence(fence: ast.ProxyFence) -> str:
    if fence.direction is Direction.BOTH:
        spaces = {
            None: "",
            Space.GLOBAL: ".global",
            Space.SHARED: ".shared::cluster",
            Space.OWN_SHARED: ".shared::cta",
        }
        return f"fence.proxy.{fence.proxy}{spaces[fence.space]}"
    if fence.proxy is Proxy.ASYNC:
        reach = "cta" if fence.direction is Direction.RELEASE else "cluster"
        if fence.reads_only:
            reach = "cluster::read"
        return (
            f"fence.proxy.async::generic.{fence.direction}.sync_restrict::shared::{reach}.cluster"
        )
    named = f" {fence.location}, 128" if fence.location is not None else ""
    return f"fence.proxy.tensormap::generic.{fence.direction}.{fence.scope}{named}"


def _asynchronous(instruction: ast.LitmusInstruction) -> str:
    match instruction:
        case ast.MbarrierInit(location, count):
            return f"mbarrier.init {location}, {count}"
        case ast.MbarrierArrive(location, semantics, scope, count, expect):
            head = "mbarrier.arrive.expect_tx" if expect else "mbarrier.arrive"
            if expect and count != 1:
                raise ValueError("an arrive with expect_tx counts one arrival")
            number = f", {expect}" if expect else (f", {count}" if count != 1 else "")
            return f"{head}.{semantics}.{scope} {location}{number}"
        case ast.MbarrierExpect(location, expect):
            return f"mbarrier.expect_tx {location}, {expect}"
        case ast.MbarrierWait(location, parity, semantics, scope, destination):
            head = "try_wait" if destination is None else "test_wait"
            target = f"{destination}, " if destination is not None else ""
            return f"mbarrier.{head}.parity.{semantics}.{scope} {target}{location}, {parity}"
        case ast.BulkCopy():
            return _bulk(instruction)
        case ast.AsyncStore(location, value, barrier, size, reduction):
            kind = ".b64" if size == 8 else ""
            head = "st.async.mbarrier"
            if reduction is not None:
                head = f"red.async.relaxed.cluster.mbarrier.{reduction}"
            return f"{head}{kind} {location}, {value}, {barrier}"
        case ast.AsyncCopy(destination, source):
            return f"cp.async {destination}, {source}"
        case ast.AsyncCopyArrive(location, noinc):
            return f"cp.async.mbarrier.arrive{'.noinc' if noinc else ''} {location}"
        case ast.MatrixRead(destination, location, tensor_memory):
            head = "tcgen05.mma" if tensor_memory else "wgmma.mma_async"
            return f"{head} {destination}, {location}"
        case ast.TensorCommit(location):
            return f"tcgen05.commit {location}"
        case ast.CommitGroup(kind):
            return f"{kind}.commit_group"
        case ast.WaitGroup(kind, commits=True):
            return f"{kind}.wait_all"
        case ast.WaitGroup(kind, pending, read):
            return f"{kind}.wait_group{'.read' if read else ''} {pending}"
        case ast.NoEffect(spelling):
            return spelling
    raise TypeError(instruction)


def _bulk(bulk: ast.BulkCopy) -> str:
    reduce = bulk.reduction is not None
    head = ("cp.reduce.async.bulk" if reduce else "cp.async.bulk") + (
        ".tensor" if bulk.tensormap is not None else ""
    )
    form = ".mbarrier" if bulk.barriers else ".bulk_group"
    if len(bulk.destinations) > 1:
        form += ".multicast::cluster"
    if bulk.reduction is not None:
        form += f".{bulk.reduction}"
    operands = [_set(bulk.destinations)]
    operands += [name for name in (bulk.tensormap, bulk.source) if name is not None]
    operands += [str(bulk.size)] if bulk.size != 16 else []
    operands += [_set(bulk.barriers)] if bulk.barriers else []
    return f"{head}{form} {', '.join(operands)}"


def _set(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
