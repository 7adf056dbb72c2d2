"""The cost of tile operations on a target: `backends/<target>/rates.yaml`, read and checked.

All rates are per cycle of one multiprocessor (compute unit): results of arithmetic, multiply-adds
of the matrix unit, bytes of transfers. `latency_cycles` comes on top of the cycles that the unit is
busy. A target without this file runs no tile programs.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from titan.codegen.tile.block_scales import BlockScaling
from titan.codegen.tile.dtypes import FORMATS
from titan.foundation.resources import root
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.foundation.source.yaml import parse_file
from titan.target.load import TargetRefused

CLASSES = (
    "add", "compare", "exponential", "reciprocal", "divide", "convert", "row_max", "row_sum",
    "relu", "tanh", "gelu", "silu",
)  # fmt: skip
MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Transfer:
    """Global memory to shared memory. `engine`: a hardware engine copies, a warp of its own asks.

    One of `cycles_per_kib` and `bytes_per_cycle` is 0.
    """

    unit: str
    latency_cycles: int
    cycles_per_kib: int = 0
    bytes_per_cycle: int = 0
    engine: bool = False
    issue_cycles: int = 0

    def cycles(self, amount: int) -> int:
        """Cycles that `amount` bytes occupy the unit, at least 1."""
        if self.cycles_per_kib:
            return max(1, -(-amount * self.cycles_per_kib // 1024))
        return max(1, -(-amount // self.bytes_per_cycle))


@dataclass(frozen=True, slots=True)
class Matrix:
    """The matrix unit: multiply-adds a cycle by type of operand, and the shapes it takes.

    `result`: accumulators in registers or in tensor memory; `operands`: read from shared memory by
    the unit itself, or from registers. An operand that is not K-major (the left one transposed, the
    right one not) has elements of at least `transposed_bytes`. `scaled`: operands that take scales.
    """

    unit: str
    per_cycle: Table[str, int]
    latency_cycles: int
    result: str
    operands: str
    contraction_bytes: int
    columns_multiple: int
    columns_most: int
    transposed_bytes: int
    issue_cycles: int = 0
    issue_share: int = 0
    scaled: tuple[BlockScaling, ...] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """Results a cycle on each unit that a class of operations uses, one unit after the other."""

    uses: tuple[tuple[str, int], ...]
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """Accesses of the computing warps to shared or global memory."""

    unit: str
    bytes_per_cycle: int
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """What passes between tensor memory and registers, 0 bytes a cycle where there is none."""

    unit: str = ""
    fetch_bytes_per_cycle: int = 0
    fetch_latency_cycles: int = 0
    put_bytes_per_cycle: int = 0
    put_latency_cycles: int = 0

    def cycles(self, amount: int, put: bool) -> int:
        """Cycles that `amount` bytes occupy the unit, at least 1."""
        per_cycle = self.put_bytes_per_cycle if put else self.fetch_bytes_per_cycle
        return max(1, -(-amount // max(1, per_cycle)))


@dataclass(frozen=True, slots=True)
class Groups:
    """The computing warps: `warps` a group, at most `most` groups, registers of a thread.

    `reserved` registers a thread are kept by a warpgroup that loads. `together` groups are one team
    for the schedulers (four waves, one a SIMD).
    """

    warps: int
    most: int
    registers: int
    reserved: int
    together: int = 1


@dataclass(frozen=True, slots=True)
class Rates:
    """A target. `fragment_rows` and `fragment_columns`: what a FRAGMENT of a group is made of;
    `lanes_per_row`: how many lanes of a group hold a copy of a ROW's number, and so for columns."""

    name: str
    transfer: Transfer
    matrix: Matrix
    classes: Table[str, Rate]
    shared: MemoryRates
    global_memory: MemoryRates
    groups: Groups
    fragment_rows: int
    fragment_columns: int
    lanes_per_row: int
    lanes_per_column: int
    cluster: int
    tensor: TensorMemory = TensorMemory()
    polynomial: Rate | None = None  # an exponential without the special function unit
    launch_cycles: int = 0  # from the end of a launch to the beginning of the next on its stream
    dies: int = 1  # with L2 caches of their own, to which workgroups go in turn
    issue_cycles: int = 1  # from one instruction of a warp to the next on its scheduler


def known_targets() -> tuple[str, ...]:
    """Targets that run tile programs."""
    return tuple(sorted(path.parent.name for path in root("backends").glob("*/rates.yaml")))


@lru_cache(maxsize=64)
def rates(target: str) -> Rates:
    """The rates of a target. Raises KeyError when it has none, Refused when they are faulty."""
    if target not in known_targets():
        raise KeyError(target)
    return load_rates(root("backends") / target / "rates.yaml")


@lru_cache(maxsize=64)
def rate_sources(target: str) -> tuple[tuple[str, str], ...]:
    """Where the numbers of a target's rates come from, by section of the file."""
    tree, _ = parse_file(root("backends") / target / "rates.yaml")
    found = []
    for name in ("transfer", "matrix", "shared", "global"):
        section = tree.get(name) if isinstance(tree, Mapping) else None
        source = section.get("source") if isinstance(section, Mapping) else None
        if isinstance(source, Scalar):
            found.append((name, source.text))
    return tuple(found)


def load_rates(path: str | Path) -> Rates:
    """The rates of a file. Raises TargetRefused."""
    tree, errors = parse_file(path)
    reader = Reader(errors)
    found = _Decoder(reader).read(tree) if tree is not None else None
    if found is None or not reader.ok:
        raise TargetRefused(reader.errors)
    return found


class _Decoder:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def read(self, tree: Node) -> Rates | None:
        reader = self.reader
        sections = (
            "titan", "rates", "transfer", "matrix", "fragment", "groups", "cluster", "operations",
            "shared", "global", "launch",
        )  # fmt: skip
        top = reader.mapping(
            tree,
            required=sections,
            optional=("sources", "tensor", "polynomial", "dies", "issue"),
            what="the rates",
        )
        if top is None or not all(top.has(name) for name in sections):
            return None
        reader.choice(top["titan"], ("1",), "the format version")
        shape = ("rows", "columns", "lanes_per_row", "lanes_per_column")
        fragment = self.numbers(top["fragment"], shape, what="the fragment")
        keys = ("warps", "most", "registers", "reserved", "together")
        groups = self.numbers(top["groups"], keys, what="the groups")
        return Rates(
            reader.identifier(top["rates"], "the target") or "",
            self.transfer(top["transfer"]),
            self.matrix(top["matrix"]),
            self.classes(top["operations"]),
            self.memory(top["shared"], "shared memory"),
            self.memory(top["global"], "global memory"),
            Groups(
                groups["warps"],
                groups["most"],
                groups["registers"],
                groups["reserved"],
                max(1, groups["together"]),
            ),
            fragment["rows"],
            fragment["columns"],
            fragment["lanes_per_row"],
            fragment["lanes_per_column"],
            reader.integer(top["cluster"], minimum=1, maximum=16, what="the cluster") or 1,
            self.tensor(top["tensor"]) if top.has("tensor") else TensorMemory(),
            self.rate(top["polynomial"], "polynomial") if top.has("polynomial") else None,
            self.numbers(top["launch"], ("cycles",), what="the launch")["cycles"],
            (reader.integer(top["dies"], minimum=1, maximum=64, what="the dies") or 1)
            if top.has("dies")
            else 1,
            self.numbers(top["issue"], ("cycles",), what="the issue")["cycles"]
            if top.has("issue")
            else 1,
        )

    def numbers(
        self, node: Node, keys: tuple[str, ...], words: tuple[str, ...] = (), what: str = ""
    ) -> dict[str, int]:
        """The numbers of a mapping, 0 where one is missing; `words` are other keys."""
        fields = self.reader.mapping(node, optional=(*keys, *words, "source"), what=what)
        return {key: self.integer(fields, key, what) for key in keys}

    def integer(self, fields: Fields | None, key: str, what: str) -> int:
        if fields is None or not fields.has(key):
            return 0
        text = f"`{key}` of {what}"
        return self.reader.integer(fields[key], minimum=0, maximum=MOST, what=text) or 0

    def word(self, node: Node, key: str, options: tuple[str, ...] = ()) -> str:
        inner = node.get(key) if isinstance(node, Mapping) else None
        if inner is None:
            self.reader.error("TTN007", f"the rates lack `{key}` here", node.span)
            return ""
        if options:
            return self.reader.choice(inner, options, f"`{key}`") or ""
        return self.reader.identifier(inner, f"`{key}`") or ""

    def transfer(self, node: Node) -> Transfer:
        keys = ("latency", "cycles_per_kib", "bytes_per_cycle", "issue")
        found = self.numbers(node, keys, ("unit", "engine"), "the transfer")
        if bool(found["cycles_per_kib"]) == bool(found["bytes_per_cycle"]):
            text = "a transfer has either `cycles_per_kib` or `bytes_per_cycle`"
            self.reader.error("TTN017", text, node.span)
        latency, per_kib, per_cycle, issue = found.values()
        engine = node.get("engine") if isinstance(node, Mapping) else None
        ahead = engine is not None and bool(self.reader.boolean(engine, "`engine`"))
        return Transfer(self.word(node, "unit"), latency, per_kib, per_cycle, ahead, issue)

    def matrix(self, node: Node) -> Matrix:
        keys = ("latency", "contraction_bytes", "transposed_bytes", "issue", "issue_share")
        words = ("unit", "per_cycle", "result", "operands", "columns", "scaled")
        found = self.numbers(node, keys, words, "the matrix unit")
        per_cycle: dict[str, int] = {}
        columns = {"multiple": 1, "most": MOST}
        if isinstance(node, Mapping) and (inner := node.get("per_cycle")) is not None:
            fields = self.reader.mapping(inner, optional=tuple(FORMATS), what="`per_cycle`")
            per_cycle = {
                name: self.integer(fields, name, "the rates") for name in fields or () if fields
            }
        if isinstance(node, Mapping) and (inner := node.get("columns")) is not None:
            columns = self.numbers(inner, ("multiple", "most"), what="the columns")
        return Matrix(
            self.word(node, "unit"),
            per_cycle,
            found["latency"],
            self.word(node, "result", ("registers", "tensor")),
            self.word(node, "operands", ("shared", "registers")),
            found["contraction_bytes"],
            columns["multiple"],
            columns["most"],
            found["transposed_bytes"],
            found["issue"],
            found["issue_share"],
            self.scaled(node.get("scaled")) if isinstance(node, Mapping) else (),
        )

    def scaled(self, node: Node | None) -> tuple[BlockScaling, ...]:
        """The rows of `scaled`: element types, type of scale, elements of a block, kind."""
        made: list[BlockScaling] = []
        what, keys = "an operand that takes scales", ("elements", "scale", "block", "kind")
        for item in node.items if isinstance(node, Sequence) else ():
            fields = self.reader.mapping(item, required=keys, what=what)
            if fields is None or not all(fields.has(key) for key in keys):
                continue
            listed = self.reader.sequence(fields["elements"], what="`elements`", at_least=1)
            types = tuple(FORMATS)
            elements = [self.reader.choice(one, types, "`elements`") for one in listed or ()]
            made.append(
                BlockScaling(
                    tuple(one for one in elements if one),
                    self.reader.choice(fields["scale"], tuple(FORMATS), "`scale`") or "",
                    max(1, self.integer(fields, "block", what)),
                    self.word(item, "kind"),
                )
            )
        return tuple(made)

    def classes(self, node: Node) -> dict[str, Rate]:
        fields = self.reader.mapping(node, required=CLASSES, what="the operations")
        made: dict[str, Rate] = {}
        for name in fields or ():
            assert fields is not None
            rate = self.rate(fields[name], name)
            if rate is not None:
                made[name] = rate
        return made

    def rate(self, node: Node, name: str) -> Rate | None:
        inner = self.reader.mapping(
            node, required=("uses", "latency"), optional=("source",), what=f"operation {name}"
        )
        if inner is None or not inner.has("uses"):
            return None
        uses = self.reader.names(inner["uses"], f"`uses` of {name}")
        rows = [(unit, self.integer(uses, unit, name)) for unit in uses or ()]
        if any(rate < 1 for _, rate in rows):
            self.reader.error("TTN009", f"a rate of {name} is at least 1", node.span)
        return Rate(tuple(rows), self.integer(inner, "latency", name))

    def tensor(self, node: Node) -> TensorMemory:
        keys = ("fetch_bytes_per_cycle", "fetch_latency", "put_bytes_per_cycle", "put_latency")
        found = self.numbers(node, keys, ("unit",), "tensor memory")
        return TensorMemory(self.word(node, "unit"), *(found[key] for key in keys))

    def memory(self, node: Node, what: str) -> MemoryRates:
        found = self.numbers(node, ("bytes_per_cycle", "latency"), ("unit",), what)
        return MemoryRates(
            self.word(node, "unit"), max(1, found["bytes_per_cycle"]), found["latency"]
        )
