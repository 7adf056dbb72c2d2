"""Kernels written in Python instead of YAML: with-blocks for roles, loops and branches.

    kernel = Kernel("gemm", target="sm_90a", tiles="any", depth=4)
    a = kernel.buffer("A", tile=[128, 64], dtype="bf16", swizzle="128B")
    operands = kernel.ring("operands", buffers=[a], depth="depth")
    with kernel.role("producer", warps=1) as producer:
        with producer.loop("t", "tiles") as t:
            producer.acquire(operands[t])
            producer.produce(operands[t])
    with kernel.role("consumer", warpgroups=1) as consumer:
        with consumer.loop("t", "tiles") as t:
            consumer.wait(operands[t])
            consumer.read(operands[t])
            consumer.release(operands[t])

A builder writes the kernel language and knows nothing besides its table of sections and verbs:
`kernel.text()` is the file, and everything that reads files reads it. A statement is the method of
its verb; options are keyword arguments, with a trailing underscore where Python reserves the word
(`as_`, `from_`, `async_`). An option that a verb or section does not have raises TypeError at once;
all other faults are found when the kernel is read, as in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from titan.foundation.diagnostics.wording import suggestion
from titan.language.kernel.table import (
    POLICIES,
    SECTION_OF,
    TOP_LEVEL,
    VERB_OF,
    VERSION,
    WHEN,
    ValueForm,
    Verb,
)

COMPARES = 4  # how tightly comparisons bind
BLOCKS = ("for", "if", "when poisoned")  # statements with bodies: `loop`, `if_`, `when_poisoned`


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression of the language; arithmetic and comparisons make larger ones."""

    text: str
    binds: int = 9  # how tightly its outermost operator binds; 9: nothing to put in brackets

    def __str__(self) -> str:
        return self.text

    def _with(self, operator: str, binds: int, other: object, swapped: bool = False) -> Term:
        left, right = (term(other), self) if swapped else (self, term(other))
        chains = binds == COMPARES  # `a < b < c` is a chain, not a comparison of `a < b`
        first = left.text if left.binds >= binds + chains else f"({left.text})"
        second = right.text if right.binds > binds else f"({right.text})"
        return Term(f"{first} {operator} {second}", binds)

    def __add__(self, other: object) -> Term:
        return self._with("+", 5, other)

    def __radd__(self, other: object) -> Term:
        return self._with("+", 5, other, True)

    def __sub__(self, other: object) -> Term:
        return self._with("-", 5, other)

    def __rsub__(self, other: object) -> Term:
        return self._with("-", 5, other, True)

    def __mul__(self, other: object) -> Term:
        return self._with("*", 6, other)

    def __rmul__(self, other: object) -> Term:
        return self._with("*", 6, other, True)

    def __floordiv__(self, other: object) -> Term:
        return self._with("//", 6, other)

    def __mod__(self, other: object) -> Term:
        return self._with("%", 6, other)

    def __lt__(self, other: object) -> Term:
        return self._with("<", COMPARES, other)

    def __le__(self, other: object) -> Term:
        return self._with("<=", COMPARES, other)

    def __gt__(self, other: object) -> Term:
        return self._with(">", COMPARES, other)

    def __ge__(self, other: object) -> Term:
        return self._with(">=", COMPARES, other)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return self._with("==", COMPARES, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._with("!=", COMPARES, other)

    def __and__(self, other: object) -> Term:
        return self._with("and", 2, other)

    def __or__(self, other: object) -> Term:
        return self._with("or", 1, other)

    def __invert__(self) -> Term:
        return Term(f"not ({self.text})", 3)

    def __bool__(self) -> bool:
        raise TypeError(f"`{self.text}` has no truth value in Python; use `&`, `|`, `~` and `when`")

    __hash__ = None  # type: ignore[assignment]


def term(value: object) -> Term:
    """Convert a number, text or term to a term; text is parenthesised where that could matter."""
    if isinstance(value, Term):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"an expression is a number, a text or a term, not {value!r}")
    text = str(value)
    return Term(text, 9 if text.isidentifier() or text.isdecimal() else 0)


@dataclass(frozen=True, slots=True)
class Handle:
    """A declared thing, or one element of it: `ring[t]`, `A[s, 1]`, `full[s].at("peer")`."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __getitem__(self, index: object) -> Handle:
        pieces = index if isinstance(index, tuple) else (index,)
        return Handle(f"{self.text}[{', '.join(str(term(piece)) for piece in pieces)}]")

    def at(self, cta: object) -> Handle:
        """The same element in another CTA of the cluster."""
        where = term(cta)
        return Handle(f"{self.text}@{where if where.binds == 9 else f'({where})'}")

    def holding(self, tile: object) -> Handle:
        """The element with the tile that it is to hold: `A[s] = t`."""
        return Handle(f"{self.text} = {term(tile)}")


Item = dict[str, object]


@dataclass(slots=True)
class RoleBuilder:
    """The program of one role; each verb of the language is a method."""

    name: str
    _blocks: list[list[Item]] = field(default_factory=lambda: [[]])

    def __getattr__(self, name: str) -> Callable[..., None]:
        word = name.removesuffix("_")
        verb = VERB_OF.get(word)
        if name.startswith("_") or verb is None or word in BLOCKS:
            hints = "".join(f"; {text}" for text in suggestion(word, VERB_OF))
            raise AttributeError(f"the language has no verb `{word}`{hints}")
        return lambda *objects, **options: self._add(_statement(verb, objects, options))

    def _add(self, item: Item) -> None:
        self._blocks[-1].append(item)

    def let(self, name: str, value: object) -> Term:
        """A name for an expression, for the rest of the block."""
        self._add({"let": {name: term(value)}})
        return Term(name)

    def count(self, name: str, value: object) -> None:
        """Assign a new value to a counter."""
        self._add({"count": {name: term(value)}})

    @contextmanager
    def _body(self, item: Item, key: str) -> Iterator[None]:
        self._blocks.append([])
        try:
            yield
        finally:
            item[key] = self._blocks.pop()

    @contextmanager
    def loop(self, variable: str, first: object, end: object = None) -> Iterator[Term]:
        """`for`: from `first` to below `end`; with one bound, from 0."""
        low, high = (0, first) if end is None else (first, end)
        item: Item = {"for": f"{variable} in {term(low)}..{term(high)}"}
        self._add(item)
        with self._body(item, "do"):
            yield Term(variable)

    @contextmanager
    def if_(self, condition: object) -> Iterator[None]:
        """Statements where a condition holds; `else_` may follow."""
        item: Item = {"if": term(condition)}
        self._add(item)
        with self._body(item, "then"):
            yield

    @contextmanager
    def when_poisoned(self, reference: Handle | str) -> Iterator[None]:
        """Statements where the last wait gave a poisoned token; `else_` may follow."""
        item: Item = {"when poisoned": reference}
        self._add(item)
        with self._body(item, "then"):
            yield

    @contextmanager
    def else_(self) -> Iterator[None]:
        """The other branch of the `if_` or `when_poisoned` before it."""
        item = self._blocks[-1][-1] if self._blocks[-1] else {}
        if "then" not in item or "else" in item:
            raise TypeError("no `if_` or `when_poisoned` stands before this `else_`")
        with self._body(item, "else"):
            yield


def _statement(verb: Verb, objects: tuple[object, ...], options: Mapping[str, object]) -> Item:
    """A statement with options beside its verb. Raises TypeError for options the verb lacks."""
    known = {key.name: key.form for key in (*verb.options, WHEN)}
    item: Item = {}
    listed = [str(piece) for piece in objects]
    item[verb.name] = ", ".join(listed) if listed else None
    if verb.call and listed:
        item[verb.name] = f"{verb.call}({item[verb.name]})"
    for name, value in options.items():
        word = name.removesuffix("_")
        if word not in known:
            hints = "".join(f"; {text}" for text in suggestion(word, known))
            raise TypeError(f"`{verb.name}` has no option `{word}`{hints}")
        listed_here = known[word] in (ValueForm.REFERENCES, ValueForm.MEMORY)
        if listed_here and isinstance(value, Sequence) and not isinstance(value, str):
            item[word] = ", ".join(str(piece) for piece in value)
        else:
            item[word] = value
    return item


class Kernel:
    """A kernel under construction; `text()` is its file. Sizes are keyword arguments."""

    def __init__(self, name: str, target: str, *, ctas: int = 1, **sizes: object) -> None:
        self.head: dict[str, object] = {"titan": VERSION, "kernel": name, "target": target}
        if ctas != 1:
            self.head["ctas"] = ctas
        self.sizes = dict(sizes)
        self.policies: dict[str, object] = {}
        self.sections: dict[str, dict[str, object]] = {}
        self.roles: list[RoleBuilder] = []

    def __repr__(self) -> str:
        return f"Kernel({self.head['kernel']!r}, target={self.head['target']!r})"

    def note(self, text: str) -> None:
        """Describe what the kernel models."""
        assert any(key.name == "note" for key in TOP_LEVEL)
        self.head["note"] = text

    def policy(self, **values: object) -> None:
        """Choose readings of the hardware contract. Raises TypeError for an unknown one."""
        known = [key.name for key in POLICIES]
        for name in values:
            if name not in known:
                raise TypeError(f"no policy `{name}`; known are {', '.join(known)}")
        self.policies |= values

    def _declare(self, section: str, name: str, keys: Mapping[str, object]) -> Handle:
        known = [key.name for key in SECTION_OF[section].keys]
        for key in keys:
            if key not in known:
                hints = "".join(f"; {text}" for text in suggestion(key, known))
                raise TypeError(f"a {SECTION_OF[section].noun} has no `{key}`{hints}")
        entries = self.sections.setdefault(section, {})
        if name in entries:
            raise TypeError(f"`{name}` is declared twice in `{section}`")
        entries[name] = dict(keys)
        return Handle(name)

    def buffer(self, name: str, **keys: object) -> Handle:
        """A piece of memory: `tile`, `dtype`, `stages`, `space`, `swizzle`, ..."""
        return self._declare("buffers", name, keys)

    def ring(self, name: str, **keys: object) -> Handle:
        """Buffers whose stages are handed over: `buffers`, `depth`, `transport`, ..."""
        return self._declare("rings", name, keys)

    def barrier(self, name: str, **keys: object) -> Handle:
        """An array of mbarriers: `count`, `stages`, ..."""
        return self._declare("barriers", name, keys)

    def named_barrier(self, name: str, **keys: object) -> Handle:
        """Hardware barriers with an id: `threads`, `stages`, `scope`."""
        return self._declare("named_barriers", name, keys)

    def queue(self, name: str, kind: str, **keys: object) -> Handle:
        """Asynchronous operations of an agent that are waited for by count."""
        return self._declare("queues", name, {"kind": kind, **keys})

    def pool(self, name: str, available: object, **keys: object) -> Handle:
        """A counted resource."""
        return self._declare("pools", name, {"available": available, **keys})

    @contextmanager
    def role(self, name: str, **keys: object) -> Iterator[RoleBuilder]:
        """A role: `warps`, `warpgroups` or `threads`, `registers`, `index`, `counters`, `cta`."""
        self._declare("roles", name, keys)
        made = RoleBuilder(name)
        self.roles.append(made)
        yield made

    def text(self) -> str:
        """The kernel file. The same calls give the same text."""
        lines = [f"{key}: {_scalar(value)}" for key, value in self.head.items()]
        lines += [f"sizes: {_flow(self.sizes)}"] if self.sizes else []
        for section in SECTION_OF:
            entries = self.sections.get(section, {})
            lines += [f"{section}:"] if entries else []
            lines += [f"  {name}: {_flow(keys)}" for name, keys in entries.items()]
        lines += [f"policies: {_flow(self.policies)}"] if self.policies else []
        lines.append("program:")
        for role in self.roles:
            lines += [f"  {role.name}:", *_block(role._blocks[0], 4)]
        return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------- text


def _block(items: Sequence[Item], indent: int) -> list[str]:
    lines = []
    for item in items:
        mark = "- "
        for key, value in item.items():
            space = " " * indent + mark
            mark = "  "
            if isinstance(value, list):
                body = _block(value, indent + 4)
                lines += [f"{space}{key}:", *body] if body else [f"{space}{key}: []"]
            elif value is None:
                lines.append(f"{space}{key}" if len(item) == 1 else f"{space}{key}:")
            elif isinstance(value, Mapping):
                lines.append(f"{space}{key}: {_flow(value)}")
            else:
                lines.append(f"{space}{key}: {_scalar(value)}")
    return lines


def _flow(value: object) -> str:
    """A value inside of brackets or braces, text quoted where YAML requires it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = _scalar(value)
    return f'"{text}"' if any(char in text for char in "[]{},") and text[:1] != '"' else text


def _scalar(value: object) -> str:
    """A value in a block."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _flow(value)
    text = str(value)
    plain = text == text.strip() and ": " not in text and " #" not in text and "\n" not in text
    if plain and text and text[0] not in "\"'&*!|>%@`{[#-?:,]}":
        return text
    if plain and text[:1] == "-" and text[1:2] not in (" ", ""):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'
