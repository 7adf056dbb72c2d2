"""Reads `backends/<target>/machine.yaml`: the scheduling part of a target, every fault located.

A machine file of the user is found by its path, a machine of TITAN by its name.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.resources import root
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Source
from titan.foundation.source.tree import Node, as_integer
from titan.foundation.source.yaml import parse, parse_file
from titan.target.model import Machine, Memory, ResourcePool, Unit, WarpGroup

CAPACITY_MAX = 1 << 40
UNITS_MAX = 64
WINDOW_MAX = 100_000
SECTIONS = (
    "title",
    "pools",
    "memories",
    "registers",
    "warps",
    "groups",
    "spill",
    "sources",
)


class TargetRefused(UserError):
    """The input is refused; `diagnostics` says why."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("; ".join(f"{d.span}: {d.headline}" for d in diagnostics[:5]))
        self.diagnostics = diagnostics


def known_machines() -> tuple[str, ...]:
    """The targets that have a `machine.yaml`, sorted by name."""
    return tuple(sorted(path.parent.name for path in root("backends").glob("*/machine.yaml")))


@lru_cache(maxsize=64)
def machine(name: str) -> Machine:
    """The machine `name` of TITAN. Raises KeyError when there is none, Refused for a faulty one."""
    if name not in known_machines():
        raise KeyError(name)
    return load_machine(root("backends") / name / "machine.yaml")


def load_machine(path: str | Path) -> Machine:
    """The machine of a file. Raises TargetRefused."""
    return _finish(*parse_file(path))


def parse_machine(text: str, path: str = "<machine>") -> Machine:
    """The machine of a text. Raises TargetRefused."""
    return _finish(*parse(Source(path, text)))


def _finish(tree: Node | None, errors: list[Diagnostic]) -> Machine:
    reader = Reader(errors)
    found = _machine(reader, tree) if tree is not None else None
    if found is None or not reader.ok:
        raise TargetRefused(reader.errors)
    return found


def _machine(reader: Reader, tree: Node) -> Machine | None:
    top = reader.mapping(
        tree, required=("titan", "machine", "units"), optional=SECTIONS, what="a machine"
    )
    if top is None:
        return None
    if top.has("titan"):
        reader.choice(top["titan"], ("1",), "the format version")
    name = reader.identifier(top["machine"], "the machine's name") if top.has("machine") else None
    title = reader.string(top["title"], "the title") if top.has("title") else ""
    units = read_units(reader, top["units"]) if top.has("units") else {}
    numbers = _numbers(reader, top)
    sources = top.get("sources")
    return Machine(
        name=name or "",
        title=title or "",
        units=units,
        pools=_pools(reader, top, units),
        memories=_memories(reader, top),
        groups=read_groups(reader, top["groups"]) if top.has("groups") else (),
        sources=tuple(
            reader.list_of(sources, lambda n: reader.string(n, "a source"), what="the sources")
        )
        if sources is not None
        else (),
        **numbers,
    )


def _numbers(reader: Reader, top: Fields) -> dict[str, int]:
    """Registers, warps and transfers: plain numbers with their defaults."""
    found: dict[str, int] = {}
    table = (
        ("registers", "per_thread", "registers_per_thread_max", 1),
        ("registers", "total", "registers_total", 1),
        ("warps", "threads", "threads_per_warp", 1),
        ("warps", "most", "warps_max", 1),
        ("spill", "base", "spill_base_cycles", 0),
        ("spill", "per_kib", "spill_cycles_per_kib", 0),
    )
    for section in ("registers", "warps", "spill"):
        node = top.get(section)
        if node is None:
            continue
        keys = [key for where, key, _, _ in table if where == section]
        fields = reader.mapping(node, optional=(*keys, "source"), what=f"`{section}`")
        for where, key, attribute, least in table:
            if where == section and fields is not None and fields.has(key):
                what = f"`{key}` of `{section}`"
                value = reader.integer(fields[key], minimum=least, maximum=CAPACITY_MAX, what=what)
                if value is not None:
                    found[attribute] = value
    return found


def read_units(reader: Reader, node: Node) -> dict[str, Unit]:
    """Units by name: a capacity, or a mapping with a capacity and its source."""
    fields = reader.names(node, "the units")
    units: dict[str, Unit] = {}
    for name in fields or ():
        value = fields[name] if fields is not None else node
        source: str | None = ""
        if not hasattr(value, "entries"):
            capacity = _positive(reader, value, f"the capacity of {name}")
        else:
            inner = reader.mapping(
                value, required=("capacity",), optional=("source",), what=f"unit {name}"
            )
            capacity = _capacity(reader, inner, f"the capacity of {name}")
            if inner is not None and inner.has("source"):
                source = reader.string(inner["source"], "a source")
        if capacity is not None:
            units[name] = Unit(name, capacity, source or "")
    if fields is not None and len(fields.values) > UNITS_MAX:
        reader.error("TTN003", f"a machine has at most {UNITS_MAX} units", fields.span)
    return units


def _capacity(reader: Reader, fields: Fields | None, what: str) -> int | None:
    if fields is None or not fields.has("capacity"):
        return None
    return _positive(reader, fields["capacity"], what)


def _positive(reader: Reader, node: Node, what: str) -> int | None:
    """A capacity: what is 0 or less has a rule of its own."""
    if below(reader, node, 1, "TTN515", what):
        return None
    return reader.integer(node, minimum=1, maximum=CAPACITY_MAX, what=what)


def below(reader: Reader, node: Node, least: int, code: str, what: str) -> bool:
    """Is the node an integer below `least`? Reports it under the rule `code`."""
    value = as_integer(node)
    if value is None or value >= least:
        return False
    reader.error(code, f"{what} must be at least {least}, not {value}", node.span)
    return True


def _memories(reader: Reader, top: Fields) -> dict[str, Memory]:
    fields = reader.names(top["memories"], "the memories") if top.has("memories") else None
    found: dict[str, Memory] = {}
    for name in fields or ():
        inner = reader.mapping(
            fields[name],  # type: ignore[index]
            required=("capacity",),
            optional=("measure", "source"),
            what=f"memory {name}",
        )
        capacity = _capacity(reader, inner, f"the capacity of {name}")
        measure: str | None = "bytes"
        if inner is not None and inner.has("measure"):
            measure = reader.choice(inner["measure"], ("bytes", "columns"), "the measure")
        if capacity is not None:
            found[name] = Memory(name, capacity, measure or "bytes")
    return found


def _pools(reader: Reader, top: Fields, units: dict[str, Unit]) -> tuple[ResourcePool, ...]:
    fields = reader.names(top["pools"], "the pools") if top.has("pools") else None
    found = []
    for name in fields or ():
        inner = reader.mapping(
            fields[name],  # type: ignore[index]
            required=("members", "amount"),
            optional=("window", "source"),
            what=f"pool {name}",
        )
        if inner is None or not inner.has("members") or not inner.has("amount"):
            continue
        members = reader.names(inner["members"], f"the members of {name}")
        weights = _weights(reader, members, units) if members is not None else []
        amount = _positive(reader, inner["amount"], f"the amount of {name}")
        window: int | None = 1
        if inner.has("window"):
            window = reader.integer(
                inner["window"], minimum=1, maximum=WINDOW_MAX, what="a window in cycles"
            )
        if amount is not None and window is not None:
            found.append(ResourcePool(name, tuple(weights), amount, window))
    return tuple(found)


def _weights(reader: Reader, members: Fields, units: dict[str, Unit]) -> list[tuple[str, int]]:
    """Units of a pool and how much of it each use takes."""
    found = []
    for unit in members:
        value = reader.integer(
            members[unit], minimum=1, maximum=CAPACITY_MAX, what=f"the weight of {unit}"
        )
        if unit not in units:
            reader.undeclared(unit, members.key_span(unit), units, "unit")
        elif value is not None:
            found.append((unit, value))
    return found


def read_groups(reader: Reader, node: Node) -> tuple[WarpGroup, ...]:
    """Warp groups by name, in the order of the file."""
    fields = reader.names(node, "the warp groups")
    found: list[WarpGroup] = []
    for name in fields or ():
        inner = reader.mapping(
            fields[name],  # type: ignore[index]
            required=("warps",),
            optional=("registers", "variable_latency"),
            what=f"warp group {name}",
        )
        if inner is None or not inner.has("warps"):
            continue
        warps = reader.integer(inner["warps"], minimum=1, maximum=1024, what="the warps")
        registers, variable = None, False
        if inner.has("registers"):
            registers = reader.integer(
                inner["registers"], minimum=1, maximum=65536, what="registers a thread"
            )
        if inner.has("variable_latency"):
            variable = bool(reader.boolean(inner["variable_latency"], "`variable_latency`"))
            if variable and any(group.variable_latency for group in found):
                text = "a second warp group is for variable latency"
                reader.error("TTN017", text, inner.key_span("variable_latency"))
        if warps is not None:
            found.append(WarpGroup(name, warps, registers, variable))
    return tuple(found)
