"""Launch files: recorded, from Triton's metadata, or written by hand (YAML or JSON).

Reading collects all faults with their places. What the file leaves open is filled in by
`completed` where it cannot matter or the code says it (block, cluster), and stays unknown
otherwise: the machine asks for it when control or an address depends on it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from math import prod
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import counted, listed
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    as_integer,
    as_number_of_key,
)
from titan.foundation.source.yaml import parse_file, parse_text
from titan.frontends.ptx.launch_fields import FieldReader
from titan.frontends.ptx.tensor_maps import encoded, read_map
from titan.isa.ptx.module import Function, Variable
from titan.isa.simt.launch import Allocation, Dimensions, Launch, LaunchParameter, LaunchTensorMap

GRID_MAX = 2**31 - 1
BLOCK_MAX = 1024
SHARED_MAX = 232_448  # bytes that a CTA may have on every target that is read (sm_90, sm_100)
PARAMETERS_MAX = 4096
ENTRY_LENGTH_MAX = 32_768  # mangled names of templates are long
PARAMETERS_BYTES_MAX = 32_764  # PTX: bytes of parameters
HEX_LENGTH_MAX = 2 * PARAMETERS_BYTES_MAX
POINTERS_BASE = 0x7000_0000_0000
POINTERS_APART = 1 << 36
_KEYS = (
    "launch", "entry", "call", "grid", "block", "cluster", "dynamic_shared", "shared",
    "parameters", "tensor_maps", "allocations", "cancelled",
    "cooperative",
)  # fmt: skip
_FORMS = ("pointer", "at", "map", "tensor_map", "bytes")  # of a parameter that is a mapping
_TRITON_MARKS = ("num_warps", "shared", "name")


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value of a parameter: bytes, a number, a pointer that leads anywhere, or a tensor map.

    `kind` is "bytes", "number", "pointer", "map", "fields" or "unknown"; `maps` are the places of
    maps in bytes, by offset; `fields` what is known at an offset of a structure.
    """

    kind: str
    span: Span
    data: bytes = b""
    number: int | float = 0
    map_number: int = -1
    maps: tuple[tuple[int, int], ...] = ()
    fields: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchDescription:
    """What a launch file says; None where it says nothing. Parameters by position or name."""

    span: Span
    entry: str | None = None
    grid: Dimensions | None = None
    block: Dimensions | None = None
    cluster: Dimensions | None = None
    shared_bytes: int | None = None
    parameters: dict[int | str, GivenValue] = field(default_factory=dict)
    maps: dict[int, LaunchTensorMap] = field(default_factory=dict)
    allocations: tuple[Allocation, ...] = ()
    origin: str = "written"
    cancelled: int | None = None
    cooperative: bool = False
    memory: dict[int, bytes] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(PARAMETERS_MAX))


def beside(path: str) -> str | None:
    """The launch file of the same name beside a file of code, if there is one."""
    for suffix in (".launch.yaml", ".launch.json", ".json"):
        candidate = Path(path).with_suffix(suffix)
        if candidate.is_file():
            return str(candidate)
    return None


def read_launch(path: str) -> tuple[LaunchDescription | None, list[Diagnostic]]:
    """The launch that a file describes, or what is wrong with it."""
    return _decoded(*parse_file(path))


def read_launch_text(text: str, path: str) -> tuple[LaunchDescription | None, list[Diagnostic]]:
    """The same for a text under a name."""
    return _decoded(*parse_text(text, path))


def _decoded(
    root: Node | None, errors: list[Diagnostic]
) -> tuple[LaunchDescription | None, list[Diagnostic]]:
    if root is None:
        return None, errors
    reader = Reader(errors)
    triton = isinstance(root, Mapping) and all(name in root.names for name in _TRITON_MARKS)
    described = _triton(reader, root) if triton else _written(reader, root)
    return (described if reader.ok else None), reader.errors


def _written(reader: Reader, root: Node) -> LaunchDescription | None:
    fields = reader.mapping(root, optional=_KEYS, what="a launch")
    if fields is None:
        return None
    entry = (
        reader.string(fields["entry"], "the entry", ENTRY_LENGTH_MAX)
        if fields.has("entry")
        else None
    )
    if fields.has("dynamic_shared") and fields.has("shared"):
        headline = "`shared` and `dynamic_shared` are the same bytes, given twice"
        reader.error("TTN013", headline, fields.key_span("shared"))
    shared = fields.get("dynamic_shared") or fields.get("shared")
    maps: dict[int, LaunchTensorMap] = {}
    for number, node in enumerate(_items(reader, fields.get("tensor_maps"), "the tensor maps")):
        found = read_map(reader, node, number, _address(len(maps), True))
        if found is not None:
            maps[found[0]] = found[1]
    described = LaunchDescription(
        fields.span,
        entry,
        _dimensions(reader, fields.get("grid"), "the grid", GRID_MAX),
        _dimensions(reader, fields.get("block"), "the block", BLOCK_MAX),
        _dimensions(reader, fields.get("cluster"), "the cluster", 16),
        None
        if shared is None
        else reader.integer(shared, minimum=0, maximum=SHARED_MAX, what="the shared bytes"),
        maps=maps,
        allocations=tuple(_allocations(reader, fields.get("allocations"))),
        origin="recorded" if fields.has("call") else "written",
        cancelled=reader.integer(
            fields["cancelled"], minimum=0, maximum=GRID_MAX, what="the clusters cancelled"
        )
        if fields.has("cancelled")
        else None,
        cooperative=fields.has("cooperative")
        and bool(reader.boolean(fields["cooperative"], "whether the launch is cooperative")),
    )
    if fields.has("parameters"):
        _parameters(reader, fields["parameters"], described)
    return described


def _items(reader: Reader, node: Node | None, what: str) -> tuple[Node, ...]:
    if node is None:
        return ()
    return reader.sequence(node, what=what, at_most=PARAMETERS_MAX) or ()


def _dimensions(reader: Reader, node: Node | None, what: str, maximum: int) -> Dimensions | None:
    if node is None:
        return None
    values = reader.list_of(
        node,
        lambda item: reader.integer(item, minimum=1, maximum=maximum, what=what),
        what=what,
        at_least=1,
        at_most=3,
        single=True,
    )
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _allocations(reader: Reader, node: Node | None) -> list[Allocation]:
    found = []
    for item in _items(reader, node, "the allocations"):
        if isinstance(item, Sequence) and len(item) == 2:
            start = reader.integer(item.items[0], minimum=0, what="the start")
            size = reader.integer(item.items[1], minimum=0, what="the size")
            if start is not None and size is not None:
                found.append(Allocation(start, size))
            continue
        fields = reader.mapping(item, required=("start", "bytes"), what="an allocation")
        if fields is not None and fields.has("start") and fields.has("bytes"):
            start = reader.integer(fields["start"], minimum=0, what="the start")
            size = reader.integer(fields["bytes"], minimum=0, what="the size")
            if start is not None and size is not None:
                found.append(Allocation(start, size))
    return found


# ------------------------------------------------------------------------------ parameters


def _parameters(reader: Reader, node: Node, described: LaunchDescription) -> None:
    """A list by position, or a mapping by name or position."""
    if isinstance(node, Mapping):
        for entry in node:
            position = as_number_of_key(entry.key)
            given = _given(reader, entry.value, described, len(described.parameters))
            if given is not None:
                key = entry.key.text if position is None else position
                described.parameters[key] = given
        return
    for number, item in enumerate(_items(reader, node, "the parameters")):
        given = _given(reader, item, described, number)
        if given is not None:
            described.parameters[number] = given


def _given(
    reader: Reader, node: Node, described: LaunchDescription, number: int
) -> GivenValue | None:
    if isinstance(node, Scalar):
        return _scalar(reader, node, number)
    fields = reader.mapping(
        node,
        optional=(*_FORMS, "size", "maps"),
        what="a parameter",
    )
    if fields is None:
        return None
    forms = [name for name in _FORMS if fields.has(name)]
    if len(forms) > 1:
        headline = f"a parameter is given {counted(len(forms), 'value')}: {listed(forms)}"
        return reader.error("TTN013", headline, fields.key_span(forms[1]))
    if fields.has("pointer"):
        address = _address(number, False)
        _fields(reader, described).fill(fields["pointer"], address)
        return GivenValue("pointer", fields.span, number=address)
    if fields.has("at"):
        return _structure(reader, fields["at"], described)
    if fields.has("map") or fields.has("tensor_map"):
        chosen = _map_number(reader, fields.get("map") or fields["tensor_map"], described)
        return None if chosen is None else GivenValue("map", fields.span, map_number=chosen)
    if not fields.has("bytes"):
        return reader.error("TTN007", "a parameter lacks the key `bytes`", fields.span)
    text = reader.string(fields["bytes"], "the bytes", HEX_LENGTH_MAX)
    try:
        data = bytes.fromhex(text or "")
    except ValueError:
        return reader.error("TTN008", "the bytes are not hexadecimal", fields["bytes"].span)
    if fields.has("size"):
        size = reader.integer(
            fields["size"], minimum=1, maximum=PARAMETERS_BYTES_MAX, what="the size"
        )
        if size is not None and text is not None and size != len(data):
            headline = f"a parameter of {size} bytes is given {len(data)}"
            return reader.error("TTN009", headline, fields["bytes"].span)
    places = []
    if fields.has("maps"):
        given = reader.mapping(fields["maps"], optional=None, what="the maps of a parameter")
        for entry in () if given is None else given.node:
            offset = as_number_of_key(entry.key)
            chosen = _map_number(reader, entry.value, described)
            if offset is None or not 0 <= offset <= len(data) - 128:
                reader.error("TTN009", "no tensor map fits at this offset", entry.key.span)
            elif chosen is not None:
                places.append((offset, chosen))
    return GivenValue("bytes", fields.span, data, maps=tuple(places))


def _structure(reader: Reader, node: Node, described: LaunchDescription) -> GivenValue | None:
    """What is known of a structure, by offset; all other bytes of it are unknown."""
    if not isinstance(node, Mapping):
        return reader.error("TTN008", "`at` gives values by their offsets", node.span)
    places, parts = [], []
    for entry in node:
        offset = as_number_of_key(entry.key)
        if offset is None or not 0 <= offset < PARAMETERS_BYTES_MAX:
            reader.error("TTN009", "an offset is a number of bytes", entry.key.span)
            continue
        if isinstance(entry.value, Mapping) and entry.value.names in (("map",), ("tensor_map",)):
            chosen = _map_number(reader, next(iter(entry.value)).value, described)
            if chosen is not None:
                places.append((offset, chosen))
            continue
        data = _fields(reader, described).field(entry.value)
        if data is not None:
            parts.append((offset, data))
    return GivenValue("fields", node.span, maps=tuple(places), fields=tuple(parts))


def _fields(reader: Reader, described: LaunchDescription) -> FieldReader:
    def map_number(node: Node) -> int | None:
        return _map_number(reader, node, described)

    def next_address() -> int:
        return _address(next(described.numbers), False)

    return FieldReader(reader, map_number, next_address, described.memory)


def _scalar(reader: Reader, node: Scalar, number: int) -> GivenValue | None:
    integer = as_integer(node)
    if integer is not None:
        return GivenValue("number", node.span, number=integer)
    if node.text in ("pointer", "unknown"):
        return GivenValue(node.text, node.span, number=_address(number, False))
    try:
        return GivenValue("number", node.span, number=float(node.text))
    except ValueError:
        return reader.error(
            "TTN008",
            "a parameter must be a number, `pointer`, `unknown`, bytes or a tensor map",
            node.span,
        )


def _map_number(reader: Reader, node: Node, described: LaunchDescription) -> int | None:
    """A map written in place, or the number of one of the list."""
    number = as_integer(node)
    if number is not None:
        if number in described.maps:
            return number
        return reader.error("TTN011", f"no tensor map {number} is declared", node.span)
    serial = max(described.maps, default=-1) + 1
    found = read_map(reader, node, serial, _address(len(described.maps), True))
    if found is None:
        return None
    described.maps[found[0]] = found[1]
    return found[0]


def _address(number: int, of_map: bool) -> int:
    """An address that no other parameter is given."""
    return POINTERS_BASE + (2 * number + int(of_map)) * POINTERS_APART


# ------------------------------------------------------------------------- Triton metadata


def _triton(reader: Reader, root: Node) -> LaunchDescription | None:
    """The metadata that Triton keeps of a compiled kernel.

    Maps are those of `tensordesc_meta` in order; the sizes of their tensors are not known and taken
    to be large, which no address in shared memory and no byte count depends on.
    """
    fields = reader.mapping(root, optional=None, what="Triton's metadata")
    if fields is None:
        return None
    shared = reader.integer(fields["shared"], minimum=0, maximum=SHARED_MAX, what="shared")
    entry = reader.string(fields["name"], "the name")
    cluster = None
    if fields.has("cluster_dims"):
        cluster = _dimensions(reader, fields["cluster_dims"], "the cluster", 16)
    described = LaunchDescription(
        fields.span, entry, None, None, cluster, shared, origin="Triton's metadata"
    )
    metas = fields.get("tensordesc_meta")
    if metas is not None and not (isinstance(metas, Scalar) and metas.is_null):
        for number, node in enumerate(_items(reader, metas, "tensordesc_meta")):
            _triton_map(reader, node, number, described)
    return described


def _triton_map(reader: Reader, node: Node, number: int, described: LaunchDescription) -> None:
    if isinstance(node, Scalar) and node.is_null:
        return
    fields = reader.mapping(node, required=("block_size",), optional=None, what="a descriptor")
    if fields is None or not fields.has("block_size"):
        return
    box = reader.list_of(
        fields["block_size"],
        lambda item: reader.integer(item, minimum=1, what="the block size"),
        what="the block size",
        at_least=1,
        at_most=5,
    )
    box.reverse()
    numbers = {}
    for name, default in (("swizzle", 0), ("elem_size", 2), ("elem_type", 6)):
        node_of = fields.get(name)
        value = default if node_of is None else reader.integer(node_of, minimum=0, what=name)
        numbers[name] = default if value is None else value
    strides, size = [], numbers["elem_size"]
    sizes = tuple(64 * extent for extent in box)
    for extent in sizes[:-1]:
        size *= extent
        strides.append(size)
    described.maps[number] = LaunchTensorMap(
        numbers["elem_type"], _address(number, True), sizes, tuple(strides), tuple(box),
        (1,) * len(box), 0, numbers["swizzle"],
    )  # fmt: skip


# ------------------------------------------------------------------------------ completion


def completed(
    described: LaunchDescription | None, function: Function, place: Span
) -> tuple[Launch | None, list[Diagnostic], list[str]]:
    """The launch of a function, with what is wrong or missing, and notes on what was filled in."""
    described = described or LaunchDescription(place)
    reader, notes = Reader(), list[str]()
    directives = function.performance
    block = described.block or _directive(directives, "reqntid")
    limit = _directive(directives, "maxntid")
    if block is None:
        hint = "" if limit is None else f", at most {prod(limit)} threads"
        headline = f"the launch of {function.name} lacks its block{hint}"
        reader.error("TTN018", headline, described.span)
        block = (32, 1, 1)
    elif prod(block) > BLOCK_MAX:
        reader.error("TTN009", f"a block has at most {BLOCK_MAX} threads", described.span)
    elif limit is not None and prod(block) > prod(limit):
        headline = f"{function.name} is compiled for at most {prod(limit)} threads, not {block}"
        reader.error("TTN017", headline, described.span)
    required = _directive(directives, "reqntid")
    if required is not None and required != block:
        headline = f"{function.name} is compiled for a block of {required}, not {block}"
        reader.error("TTN017", headline, described.span)
    cluster = _cluster(reader, described, function)
    grid = described.grid
    if grid is not None and "blocksareclusters" in directives:
        x, y, z = (extent * size for extent, size in zip(grid, cluster, strict=True))
        notes.append(f"the grid counts clusters (.blocksareclusters): {_times((x, y, z))} CTAs")
        grid = (x, y, z)
    if grid is None:
        grid = cluster
        notes.append(f"no grid is given: {_times(grid)} is used")
    elif any(extent % size for extent, size in zip(grid, cluster, strict=True)):
        headline = f"a grid of {_times(grid)} is not a multiple of its cluster of {_times(cluster)}"
        reader.error("TTN017", headline, described.span)
    shared = described.shared_bytes
    static = sum(item.size_bytes for item in function.variables if item.space == "shared")
    if shared is not None and static + shared > SHARED_MAX:
        headline = f"{static} static and {shared} dynamic shared bytes are more than {SHARED_MAX}"
        reader.error("TTN017", headline, described.span)
    if shared is None:
        shared = max(0, SHARED_MAX - static)
        notes.append(f"no shared bytes are given: {shared} are used")
    parameters = _bound(reader, described, function)
    maps = {encoded(number): map_ for number, map_ in described.maps.items()}
    if not reader.ok:
        return None, reader.errors, notes
    launch = Launch(
        function.name, grid, block, cluster, shared, parameters, maps, described.memory,
        described.allocations,
        pointed=_pointed(described), cooperative=described.cooperative,
    )  # fmt: skip
    return launch, [], notes


def _pointed(described: LaunchDescription) -> tuple[Allocation, ...]:
    """The memory of pointers that lead anywhere, and the allocations that the launch gives."""
    anywhere = [
        Allocation(int(given.number), POINTERS_APART)
        for given in described.parameters.values()
        if given.kind == "pointer"
    ]
    return (*anywhere, *described.allocations)


def _cluster(reader: Reader, described: LaunchDescription, function: Function) -> Dimensions:
    """Of the launch, or as the code requires it; a launch that names one CTA has named none."""
    required = _directive(function.performance, "reqnctapercluster")
    given = described.cluster
    most = _directive(function.performance, "maxclusterrank")
    if most is not None and given is not None and prod(given) > most[0]:
        text = f"is compiled for clusters of at most {most[0]} CTAs, not {prod(given)}"
        reader.error("TTN017", f"{function.name} {text}", described.span)
    if required is None or given is None or given == (1, 1, 1):
        return required or given or (1, 1, 1)
    if given != required:
        shown = f"clusters of {_times(required)}, not {_times(given)}"
        reader.error("TTN017", f"{function.name} is compiled for {shown}", described.span)
    return given


def _directive(directives: dict[str, tuple[int, ...]], name: str) -> Dimensions | None:
    values = directives.get(name)
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _times(extents: Dimensions) -> str:
    return "x".join(map(str, extents))


def _bound(
    reader: Reader, described: LaunchDescription, function: Function
) -> tuple[LaunchParameter, ...]:
    """The bytes of every parameter; those that were not given are unknown."""
    names = {variable.name: n for n, variable in enumerate(function.parameters)}
    given: dict[int, GivenValue] = {}
    for key, value in described.parameters.items():
        number = names.get(key) if isinstance(key, str) else key
        if number is None or not 0 <= number < len(function.parameters):
            reader.undeclared(str(key), value.span, names, "parameter")
            continue
        given[number] = value
    free_maps = sorted(described.maps)
    bound = []
    for number, variable in enumerate(function.parameters):
        chosen = given.get(number)
        if chosen is None:
            # Metadata lists maps in their order, and not to which parameter they belong.
            by_order = described.origin == "Triton's metadata" and variable.size_bytes == 128
            if by_order and free_maps:
                bound.append(LaunchParameter(encoded(free_maps.pop(0))))
            else:
                bound.append(_unknown(variable, number))
            continue
        bound.append(_bytes_of(reader, chosen, variable, number))
    return tuple(bound)


def _unknown(variable: Variable, number: int) -> LaunchParameter:
    size = variable.size_bytes
    return LaunchParameter(bytes(size), bytes(size))


def _bytes_of(
    reader: Reader, given: GivenValue, variable: Variable, number: int
) -> LaunchParameter:
    size = variable.size_bytes
    what = f"parameter {number} ({variable.name}) has {size} bytes"
    if given.kind == "unknown":
        return _unknown(variable, number)
    if given.kind == "map":
        if size < 128:
            reader.error("TTN009", f"{what}, and a tensor map has 128", given.span)
        return LaunchParameter(encoded(given.map_number).ljust(size, b"\0"))
    if given.kind == "bytes":
        data = bytearray(given.data)
        if len(data) != size:
            reader.error("TTN009", f"{what}, not {len(data)}", given.span)
        for offset, number_of_map in given.maps:
            data[offset : offset + 128] = encoded(number_of_map)
        return LaunchParameter(bytes(data))
    if given.kind == "fields":
        return _placed(reader, given, variable, what)
    if given.kind == "pointer" and size != 8:
        reader.error("TTN009", f"{what}, and a pointer has 8", given.span)
        return _unknown(variable, number)
    try:
        return LaunchParameter(_number_bytes(given.number, variable.type, size))
    except (OverflowError, struct.error, ValueError):
        reader.error(
            "TTN009", f"{what} of type {variable.type}: the value does not fit", given.span
        )
        return _unknown(variable, number)


def _placed(reader: Reader, given: GivenValue, variable: Variable, what: str) -> LaunchParameter:
    """A structure of which some fields are known."""
    data, known = bytearray(variable.size_bytes), bytearray(variable.size_bytes)
    parts = [*given.fields, *((offset, encoded(serial)) for offset, serial in given.maps)]
    for offset, part in parts:
        end = offset + len(part)
        if end > len(data):
            headline = f"{what}: a field of {len(part)} bytes at offset {offset} is outside"
            reader.error("TTN009", headline, given.span)
        elif any(known[offset:end]):
            reader.error("TTN009", f"{what}: fields overlap at offset {offset}", given.span)
        else:
            data[offset:end] = part
            known[offset:end] = b"\1" * len(part)
    return LaunchParameter(bytes(data), bytes(known))


def _number_bytes(value: int | float, type_name: str, size: int) -> bytes:
    if size not in (1, 2, 4, 8):
        raise ValueError
    if type_name in ("f32", "f64"):
        return struct.pack("<f" if size == 4 else "<d", value)
    if isinstance(value, float):
        if size not in (4, 8) or not type_name.startswith("b"):
            raise ValueError
        return struct.pack("<f" if size == 4 else "<d", value)
    return (value % (1 << 8 * size) if value < 0 else value).to_bytes(size, "little")
