"""Random tile programs as texts: products, chains of products, arithmetic, sums over rows, stores.

Everything is drawn from one `random.Random`, so that a number names a program and hypothesis can
shrink one. Inputs are small whole numbers and most operations are exact on them: what a kernel
computes then differs from its meaning not at all or by much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

LEADING = ("h", "i")


@dataclass(frozen=True)
class Operation:
    name: str
    text: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """`place`: S(hared), F(ragment), R(ow) or C(olumn)."""

    name: str
    place: str
    rows: int
    columns: int
    dtype: str = "f32"


@dataclass
class Form:
    """What a target takes: rows of a fragment, columns of one, and so on."""

    target: str
    rows: int = 64
    columns: int = 8
    contraction: int = 32
    groups: tuple[int, ...] = (1, 1, 2, 2, 3)
    matrix: tuple[str, ...] = ("bf16", "f16", "bf16", "e4m3", "e5m2")
    transposed: int = 2
    products: int = 3
    fragment_left: bool = True
    clusters: tuple[int, ...] = (1, 1, 1, 2)


FORMS = {
    "sm_90a": Form("sm_90a"),
    "sm_100a": Form(
        "sm_100a", 128, 16, 32, (1,), ("bf16", "f16", "e4m3"), 1, 1, False, (1,)
    ),
    "gfx942": Form("gfx942", 16, 16, 32, (1, 2, 4, 8), ("bf16", "f16"), 2, 3, False, (1,)),
}  # fmt: skip


@dataclass
class Draft:
    """One program under construction."""

    random: Random
    form: Form
    exact: bool = True
    tensors: dict[str, str] = field(default_factory=dict)
    sections: dict[str, list[Operation]] = field(
        default_factory=lambda: {"before": [], "body": [], "after": []}
    )
    carried: dict[str, tuple[Value, str, str]] = field(default_factory=dict)
    outputs: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        choose = self.random.choice
        self.groups = choose(self.form.groups)
        self.rows = self.form.rows * self.groups * choose((1, 1, 2))
        unit = max(self.form.columns, 16)
        self.widths = tuple(unit * n for n in self.random.sample((1, 2, 4), 2))
        self.depth_of_product = choose((16, 32, 64))
        dimensions = choose(("m", "mn", "hm", "hmn", "him"))
        self.work = list(dimensions)
        self.cluster = choose(self.form.clusters) if len(self.work) > 1 else 1
        self.matrix = choose(self.form.matrix)

    # ---------------------------------------------------------------------------- small pieces

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def add(self, section: str, stem: str, text: str, *operands: str) -> str:
        name = self.name(stem)
        self.sections[section].append(Operation(name, text, operands))
        return name

    def tensor(self, dtype: str, shape: list[str], output: bool = False) -> str:
        name = f"{'Y' if output else 'X'}{len(self.tensors)}"
        more = ", output: true" if output else ""
        self.tensors[name] = f"{{shape: [{', '.join(shape)}], dtype: {dtype}{more}}}"
        return name

    def offset(self, section: str, step: int) -> str:
        """Where a tile begins in one dimension."""
        found = ["0", f"m * {step}", "8"]
        if "n" in self.work:
            found += [f"n * {step}"] * 2
        if section == "body":
            found += [f"t * {step}", f"t * {step}", f"(t + 1) * {step} - 8"]
        return self.random.choice(found)

    def leading(self, section: str) -> list[tuple[str, str]]:
        """(extent, index) of leading dimensions of an input."""
        found = [(name.upper(), name) for name in LEADING if name in self.work]
        if section == "body":
            found.append(("5", "t % 5"))
        return [item for item in found if self.random.random() < 0.4][:2]

    # ------------------------------------------------------------------------------ operations

    def load(self, section: str, rows: int, columns: int, dtype: str) -> Value:
        leading = self.leading(section)
        shape = [extent for extent, _ in leading] + self.random.choice(
            (["M", "K"], ["N", "K"], ["K", "N"], ["M", "N"])
        )
        at = [index for _, index in leading]
        at += [self.offset(section, rows), self.offset(section, columns)]
        tensor = self.tensor(dtype, shape)
        text = f'{{load: "{tensor}[{", ".join(at)}]", tile: [{rows}, {columns}]}}'
        return Value(self.add(section, "x", text), "S", rows, columns, dtype)

    def vector(self, section: str, place: str, extent: int) -> Value:
        leading = self.leading(section)
        shape = [size for size, _ in leading] + [self.random.choice("MNK")]
        at = [index for _, index in leading] + [self.offset(section, extent)]
        dtype = self.random.choice(("f32", "f32", "bf16", "f16"))
        tile = f"[{extent}, 1]" if place == "R" else f"[{extent}]"
        tensor = self.tensor(dtype, shape)
        text = f'{{vector: "{tensor}[{", ".join(at)}]", tile: {tile}}}'
        name = self.add(section, "v", text)
        return Value(name, place, *((extent, 1) if place == "R" else (1, extent)))

    def product(self, section: str, known: list[Value]) -> Value:
        """A product with factors that are known or loaded for it."""
        width, choose = self.random.choice(self.widths), self.random.choice
        lefts = [
            value for value in known
            if value.dtype == self.matrix and value.place in "SF" and value.rows == self.rows
            and value.columns * self.size() % self.form.contraction == 0
            and (value.place == "S" or self.form.fragment_left)
        ]  # fmt: skip
        free = self.size() >= self.form.transposed
        left_flip = False
        if lefts and self.random.random() < 0.6:
            left = choose(lefts)
            depth = left.columns
        else:
            depth = max(self.depth_of_product, self.form.contraction // self.size())
            left_flip = free and self.random.random() < 0.2
            shape = (depth, self.rows) if left_flip else (self.rows, depth)
            left = self.load(section, *shape, self.matrix)
        rights = [
            (value, flip) for value in known for flip in (True, False)
            if value.place == "S" and value.dtype == self.matrix and (flip or free)
            and (value.columns if flip else value.rows) == depth
            and (value.rows if flip else value.columns) in self.widths
        ]  # fmt: skip
        if rights and self.random.random() < 0.5:
            right, flip = choose(rights)
            width = right.rows if flip else right.columns
        else:
            flip = not free or self.random.random() < 0.6
            shape = (width, depth) if flip else (depth, width)
            right = self.load(section, *shape, self.matrix)
        known += [value for value in (left, right) if value not in known]
        sums = [v for v in known if self.fits(v, width)]
        operands, more = [left.name, right.name], ""
        if sums and self.random.random() < 0.6:
            operands.append(choose(sums).name)
            more = f", add: {operands[2]}"
        first = left.name + ".T" * left_flip
        text = f"{{mma: [{first}, {right.name}{'.T' * flip}]{more}}}"
        return Value(self.add(section, "p", text, *operands), "F", self.rows, width)

    def size(self) -> int:
        return {"bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1}[self.matrix]

    def fits(self, value: Value, width: int) -> bool:
        shape = (value.place, value.rows, value.columns, value.dtype)
        return shape == ("F", self.rows, width, "f32")

    def unary(self, section: str, source: Value) -> Value:
        choose = self.random.choice
        kinds = ["scale", "offset", "relu", "reduce", "convert"]
        if source.place == "F":
            kinds += ["mask", "sum", "max", "convert"]
        if not self.exact:
            kinds += ["exp2", "tanh", "silu", "gelu"]
        kind = choose(kinds)
        same = (source.place, source.rows, source.columns)
        if kind in ("sum", "max"):
            name = self.add(section, "r", f"{{row_{kind}: {source.name}}}", source.name)
            return Value(name, "R", source.rows, 1)
        if kind == "convert":
            dtype = choose((self.matrix, "bf16", "f16"))
            text = f"{{convert: {source.name}, to: {dtype}}}"
            return Value(self.add(section, "c", text, source.name), *same, dtype)
        if kind == "mask":
            names = ["row", "column", "M", "N", *self.work] + ["t"] * (section == "body")
            left, right = self.random.sample(names, 2)
            where = f"{left} * {choose((1, 8, 16))} {choose(('<', '<=', '>=', '!='))} {right}"
            text = f'{{mask: {source.name}, where: "{where}", fill: {choose((0, -3, 1.5))}}}'
        elif kind in ("relu", "tanh", "silu", "gelu"):
            text = f"{{activation: {source.name}, function: {kind}}}"
        elif kind == "exp2":
            limit = self.add(section, "l", f"{{activation: {source.name}, function: tanh}}",
                             source.name)  # fmt: skip
            return Value(self.add(section, "e", f"{{exp2: {limit}}}", limit), *same)
        elif kind == "offset":
            text = f"{{offset: {source.name}, by: {choose((1, -2, 0.5))}}}"
        else:
            text = f"{{scale: {source.name}, by: {choose((0.5, -1, 2, 0.25))}}}"
        return Value(self.add(section, "u", text, source.name), *same)

    def binary(self, section: str, known: list[Value]) -> Value | None:
        numbers = [value for value in known if value.dtype == "f32" and value.place != "S"]
        if not numbers:
            return None
        first = self.random.choice(numbers)
        others = [value for value in numbers if self.meets(first, value)]
        if not others:
            return None
        second = self.random.choice(others)
        kind = self.random.choice(("add", "subtract", "maximum", "minimum", "add"))
        pair = [first.name, second.name]
        self.random.shuffle(pair)
        wide = first if first.place == "F" or second.place != "F" else second
        name = self.add(section, "b", f"{{{kind}: [{', '.join(pair)}]}}", *pair)
        return Value(name, wide.place, wide.rows, wide.columns)

    def meets(self, one: Value, other: Value) -> bool:
        places = {one.place, other.place}
        if places == {"R", "C"}:
            return False
        if "R" in places:
            return one.rows == other.rows
        if "C" in places:
            return one.columns == other.columns
        return (one.rows, one.columns) == (other.rows, other.columns)

    def read(self, section: str, known: list[Value]) -> Value:
        shared = [
            v for v in known
            if v.place == "S" and v.rows == self.rows and v.columns in self.widths
        ]  # fmt: skip
        if shared and self.random.random() < 0.5:
            source = self.random.choice(shared)
        else:
            dtype = self.random.choice((self.matrix, "bf16", "f32", "f16"))
            source = self.load(section, self.rows, self.random.choice(self.widths), dtype)
            known.append(source)
        name = self.add(section, "d", f"{{read: {source.name}}}", source.name)
        return Value(name, "F", source.rows, source.columns)

    def store(self, section: str, value: Value) -> None:
        """Every work coordinate steps over the tile in one dimension of an output of its own."""
        at: list[str] = []
        shape: list[str] = []
        inner = {"m": f"m * {value.rows}"}
        if value.place != "R" and "n" in self.work:
            inner["n"] = f"n * {value.columns}"
        elif value.place != "R" and section == "body":
            inner["t"] = f"t * {value.columns}"
        for name in [*self.work, *(["t"] if section == "body" else [])]:
            if name not in inner:
                at.append(name)
                shape.append({"h": "H", "i": "I", "n": "N", "t": "K"}[name])
        at.append(inner["m"])
        shape.append("M")
        if value.place != "R":
            at.append(inner.get("n") or inner.get("t") or "0")
            shape.append(self.random.choice("NK"))
        tensor = self.tensor(value.dtype, shape, output=True)
        text = f'{{store: {value.name}, to: "{tensor}[{", ".join(at)}]"}}'
        self.add(section, "s", text, value.name)
        self.outputs += 1

    # -------------------------------------------------------------------------------- sections

    def carry(self) -> list[Value]:
        found = []
        for _ in range(self.random.randint(0, 3)):
            place = self.random.choice("FFFRRC")
            width = self.random.choice(self.widths)
            rows, columns = {"F": (self.rows, width), "R": (self.rows, 1), "C": (1, width)}[place]
            value = Value(self.name("k"), place, rows, columns)
            initial = self.random.choice(("0", "0", "1", "-2"))
            self.carried[value.name] = (value, initial, "")
            found.append(value)
        return found

    def section(self, section: str, seen: list[Value], steps: int) -> list[Value]:
        known = list(seen)
        products = 0
        for _ in range(steps):
            what = self.random.choice(("product", "product", "read", "unary", "unary", "binary",
                                       "binary", "vector"))  # fmt: skip
            numbers = [v for v in known if v.place != "S" and v.dtype == "f32"]
            made: Value | None = None
            if what == "product" and section == "body" and products < self.form.products:
                made, products = self.product(section, known), products + 1
            elif what == "read":
                made = self.read(section, known)
            elif what == "vector":
                place = self.random.choice("RC")
                extent = self.rows if place == "R" else self.random.choice(self.widths)
                made = self.vector(section, place, extent)
            elif what == "unary" and numbers:
                made = self.unary(section, self.random.choice(numbers))
            elif what == "binary":
                made = self.binary(section, known)
            if made is not None:
                known.append(made)
        return known

    def close(self, known: list[Value]) -> None:
        """Every carried value gets its next one, made where there is none."""
        body = {operation.name for operation in self.sections["body"]}
        for name, (value, initial, _) in list(self.carried.items()):
            alike = [
                v.name for v in known
                if v.name in body and v.dtype == "f32"
                and (v.place, v.rows, v.columns) == (value.place, value.rows, value.columns)
            ]  # fmt: skip
            if alike and self.random.random() < 0.8:
                following = self.random.choice(alike)
            else:
                following = self.add("body", "o", f"{{offset: {name}, by: 1}}", name)
            self.carried[name] = (value, initial, following)

    def storable(self, values: list[Value]) -> list[Value]:
        return [v for v in values if v.place in "FR" or (v.place == "S" and v.rows == self.rows)]

    def text(self) -> str:
        choose = self.random.choice
        early = self.section("before", [], self.random.choice((0, 0, 1, 2)))
        carried = self.carry()
        inside = self.section("body", early + carried, self.random.randint(2, 9))
        self.close(inside)
        fresh = [v for v in inside if v not in early and v not in carried]
        for value in self.storable(fresh):
            if self.outputs < 2 and self.random.random() < (0.15 if value.place != "S" else 0.05):
                self.store("body", value)
        late = self.section("after", early + carried, self.random.choice((0, 1, 2, 4)))
        for value in reversed(self.storable(late)):
            if value.place != "S" and self.outputs < 3 and self.random.random() < 0.6:
                self.store("after", value)
        if not self.outputs and self.storable(fresh):
            self.store("body", choose(self.storable(fresh)))
        self._prune()
        return self._written()

    def _prune(self) -> None:
        """Drop what nothing uses."""
        while True:
            used = {name for ops in self.sections.values() for op in ops for name in op.operands}
            used |= {following for _, _, following in self.carried.values()}
            dropped = [name for name in self.carried if name not in used]
            for name in dropped:
                del self.carried[name]
            count = 0
            for section, operations in self.sections.items():
                kept = [op for op in operations if op.name in used or "{store" in op.text]
                count += len(operations) - len(kept)
                self.sections[section] = kept
            if not count and not dropped:
                break
        texts = " ".join(op.text for ops in self.sections.values() for op in ops)
        self.tensors = {name: text for name, text in self.tensors.items() if f"{name}[" in texts}

    def _written(self) -> str:
        choose = self.random.choice
        counts = {"m": f"(M + {self.rows - 1}) // {self.rows}", "h": "H", "i": "I"}
        step = choose(self.widths)
        counts["n"] = f"(N + {step - 1}) // {step}"
        trips = choose((f"(K + {step - 1}) // {step}", "K", "3", "min(m + 1, 3)", "K - 2"))
        everything = " ".join(
            [*self.tensors.values(), trips, *(counts[name] for name in self.work)]
            + [op.text for ops in self.sections.values() for op in ops]
        )
        sizes = [name for name in "MNKHI" if name in _words(everything)]
        lines = [
            "titan: 1", "tile: random", f"target: {self.form.target}",
            f"sizes: {{{', '.join(f'{name}: any' for name in sizes)}}}",
            "tensors:", *(f"  {name}: {text}" for name, text in self.tensors.items()),
            f"work: {{{', '.join(f'{name}: {counts[name]}' for name in self.work)}}}",
            f"groups: {self.groups}", f"loop: {{t: {trips}}}",
        ]  # fmt: skip
        if self.carried:
            lines.append("carried:")
        for name, (value, initial, following) in self.carried.items():
            shape = f"[{value.rows}]" if value.place == "R" else f"[{value.rows}, {value.columns}]"
            lines.append(f"  {name}: {{shape: {shape}, initial: {initial}, next: {following}}}")
        for section, operations in self.sections.items():
            if operations:
                lines += [f"{section}:", *(f"  - {op.name}: {op.text}" for op in operations)]
        if self.random.random() < 0.3:
            lines.append("persistent: true")
        if self.cluster != 1:
            lines.append(f"cluster: {self.cluster}")
        if self.random.random() < 0.5:
            lines.append(f"depth: {self.random.randint(1, 5)}")
        return "\n".join(lines) + "\n"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text).split())


def program(random: Random, target: str = "sm_90a", exact: bool = True) -> str:
    """A tile file for `target`; it may be one that is refused."""
    return Draft(random, FORMS[target], exact).text()


def sizes(random: Random) -> dict[str, int]:
    """Numbers for a launch: small, because every element is computed on the CPU."""
    return {
        "M": random.choice((1, 64, 100, 130)), "N": random.choice((8, 40, 72)),
        "K": random.choice((1, 2, 3, 5, 8)), "H": random.choice((1, 2)), "I": random.choice((1, 2)),
    }  # fmt: skip
