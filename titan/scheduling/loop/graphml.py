"""Reads public modulo-scheduling instances: a GraphML graph and the XML of its resource model.

Nodes name the resource they use; a resource has a limit (-1: none), a latency, and perhaps a
blocking time. An edge carries a delay beyond its source's latency and a distance. The resource
model is the file given, or beside `name.graphml` the file `name_RM.xml`.

Both files are read with expat through the standard library; entity declarations are refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source
from titan.scheduling.loop.bounds import Unschedulable, longest_paths
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.target.load import TargetRefused
from titan.target.model import Machine, Unit

BYTES_MAX = 64 << 20
NUMBER_MAX = 10_000_000
EDGE_NUMBERS = ("a delay", "a distance")
Resources = dict[str, tuple[int, int, int]]


def load_instance(path: str | Path, resources: str | Path | None = None) -> Loop:
    """The loop of an instance. Raises TargetRefused."""
    path = Path(path)
    model = Path(resources) if resources is not None else beside(path)
    table = _resources(_source(model))
    return _graph(_source(path), table, path.stem)


def beside(path: Path) -> Path:
    """The resource model of an instance: the same name with `_RM.xml`; frequency variants share."""
    name = path.name.removesuffix(".graphml")
    exact = path.with_name(f"{name}_RM.xml")
    if exact.exists():
        return exact
    return path.with_name(f"{name.split('.')[0]}_RM.xml")


def _source(path: Path) -> Source:
    source, errors = load_file(path, BYTES_MAX)
    if source is None:
        raise TargetRefused(errors)
    return source


def _refuse(source: Source, headline: str, needle: str = "", code: str = "TTN001") -> TargetRefused:
    place = source.text.find(needle) if needle else 0
    span = source.span(max(0, place), max(0, place) + len(needle))
    return TargetRefused([diagnostic(code, headline, span)])


def _parse(source: Source) -> ElementTree.Element:
    if "<!ENTITY" in source.text or "<!DOCTYPE" in source.text:
        raise _refuse(source, "declarations of entities are not accepted", "<!")
    try:
        return ElementTree.fromstring(source.text.encode())
    except ElementTree.ParseError as error:
        line, column = error.position
        offset = source.line_starts[min(line, source.line_count) - 1] + column
        span = source.span(offset, offset)
        fault: Diagnostic = diagnostic("TTN001", f"not well-formed XML: {error.msg}", span)
        raise TargetRefused([fault]) from None


def _local(element: ElementTree.Element) -> str:
    return re.sub(r"^\{.*\}", "", element.tag)


def _integer(source: Source, text: str | None, what: str, least: int = 0) -> int:
    value = (text or "").strip()
    if not re.fullmatch(r"-?[0-9]{1,9}", value) or not least <= int(value) <= NUMBER_MAX:
        negative = what in EDGE_NUMBERS and re.fullmatch(r"-[0-9]{1,9}", value)
        text = f"{what} is not a number of at least {least}: {value[:40]!r}"
        raise _refuse(source, text, value, "TTN511" if negative else "TTN001")
    return int(value)


def _resources(source: Source) -> Resources:
    """limit, latency and blocking time by the name of the resource."""
    found: Resources = {}
    for element in _parse(source).iter():
        if _local(element) != "Resource":
            continue
        name = element.get("name") or ""
        limit = _integer(source, element.get("limit", "-1"), f"the limit of {name}", -1)
        latency = _integer(source, element.get("latency", "0"), f"the latency of {name}")
        blocking = _integer(source, element.get("blockingTime", "1"), f"blocking of {name}")
        found[name] = (limit, latency, max(1, blocking))
    if not found:
        raise _refuse(source, "the resource model names no resource")
    return found


def _data(element: ElementTree.Element) -> dict[str, str]:
    return {
        str(child.get("key")): (child.text or "").strip()
        for child in element
        if _local(child) == "data"
    }


def _graph(source: Source, table: Resources, name: str) -> Loop:
    operations: list[Operation] = []
    index: dict[str, int] = {}
    latency: list[int] = []
    root = _parse(source)
    for element in root.iter():
        if _local(element) != "node":
            continue
        key = str(element.get("id"))
        resource = _data(element).get("uses_resource", "")
        if resource not in table:
            text = f"no resource {resource!r} in the resource model"
            raise _refuse(source, text, resource, "TTN513")
        if key in index:
            raise _refuse(source, f"node {key!r} is defined twice", key)
        limit, cycles, blocking = table[resource]
        if limit == 0:
            raise _refuse(source, f"resource {resource!r} has a limit of 0", resource, "TTN515")
        index[key] = len(operations)
        uses = (ReservationUse(resource, blocking),) if limit > 0 else ()
        operations.append(Operation(f"n{key}", uses, latency_cycles=cycles))
        latency.append(cycles)
    dependences = []
    for element in root.iter():
        if _local(element) != "edge":
            continue
        ends = [str(element.get("source")), str(element.get("target"))]
        for end in ends:
            if end not in index:
                raise _refuse(source, f"no node {end!r}", f'"{end}"')
        content = _data(element)
        delay = _integer(source, content.get("delay", "0"), "a delay")
        distance = _integer(source, content.get("distance", "0"), "a distance")
        u, v = index[ends[0]], index[ends[1]]
        dependences.append(Dependence(u, v, latency[u] + delay, distance))
    if not operations:
        raise _refuse(source, "the graph has no node")
    units = {r: Unit(r, limit) for r, (limit, _, _) in table.items() if limit > 0}
    loop = Loop(name, Machine("instance", "", units), tuple(operations), tuple(dependences))
    try:
        longest_paths(loop)
    except Unschedulable as error:
        text = f"{error}: {', '.join(error.witness[:5])}"
        first = error.witness[0].removeprefix("n")
        raise _refuse(source, text, f'"{first}"', "TTN512") from None
    return loop
