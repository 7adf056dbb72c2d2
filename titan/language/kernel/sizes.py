"""Sizes of a kernel: numbers, sweeps, computed sizes and parameters; overrides from outside.

A sweep multiplies: the file represents one kernel for every combination of its numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.records import dataclass
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping as MappingNode
from titan.foundation.source.tree import Node, Scalar, Sequence, as_integer
from titan.language.kernel.scope import KernelTerms, NameScope
from titan.language.kernel.table import NUMBER_MAX, RESERVED, SWEEP_MAX
from titan.sync.expression import Constant, Name
from titan.sync.program import Parameter

_RANGE = re.compile(r"\s*(-?[0-9]{1,9})\s*\.\.\s*(-?[0-9]{1,9})\s*")
Overrides = Mapping[str, tuple[int, ...]]


@dataclass(slots=True)
class Sizes:
    """The declared sizes: `choices` in the order of the file, one tuple of values each."""

    choices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    computed: dict[str, Node] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    fixed: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def combinations(self) -> Iterator[dict[str, int]]:
        """Every choice of numbers, parameters that were given values included."""
        swept = {**self.choices, **self.fixed}
        for values in itertools.product(*swept.values()):
            yield dict(zip(swept, values, strict=True))


def read_sizes(reader: Reader, node: Node | None, overrides: Overrides) -> Sizes:
    """The sizes of a file; overrides replace numbers and give parameters values."""
    sizes = Sizes()
    fields = reader.names(node, "`sizes`") if node is not None else None
    for name in fields or ():
        assert fields is not None
        sizes.spans[name] = fields.key_span(name)
        if name in RESERVED:
            reader.error("TTN013", f"{quoted(name)} is a reserved word", sizes.spans[name])
        else:
            _read_size(reader, sizes, name, fields[name])
    for name, values in overrides.items():
        if name in sizes.parameters:
            least = sizes.parameters[name].minimum
            if min(values) < least:
                headline = f"{quoted(name)} is at least {least}, not {min(values)}"
                reader.error("TTN009", headline, sizes.spans[name])
            sizes.fixed[name] = values
        elif name in sizes.choices or name in sizes.computed:
            sizes.computed.pop(name, None)
            sizes.choices[name] = values
    count = 1
    for values in (*sizes.choices.values(), *sizes.fixed.values()):
        count *= max(1, len(values))
    if count > SWEEP_MAX:
        span = node.span if node is not None else next(iter(sizes.spans.values()))
        reader.error("TTN009", f"the sizes have {count} combinations, at most {SWEEP_MAX}", span)
        sizes.choices = {name: values[:1] for name, values in sizes.choices.items()}
        sizes.fixed = {name: values[:1] for name, values in sizes.fixed.items()}
    return sizes


def _read_size(reader: Reader, sizes: Sizes, name: str, node: Node) -> None:
    what = f"size {quoted(name)}"
    number = as_integer(node)
    if number is not None:
        value = reader.integer(node, minimum=-NUMBER_MAX, maximum=NUMBER_MAX, what=what)
        sizes.choices[name] = (value if value is not None else 1,)
    elif isinstance(node, Scalar) and node.plain and node.text == "any":
        sizes.parameters[name] = Parameter(name)
    elif isinstance(node, Scalar) and (found := _RANGE.fullmatch(node.text)):
        values = parse_values(node.text)
        if not values:
            reader.error("TTN009", f"the range of {what} is empty or too long", node.span)
        sizes.choices[name] = values or (int(found.group(1)),)
    elif isinstance(node, Sequence):
        sizes.choices[name] = _read_list(reader, what, node)
    elif isinstance(node, MappingNode):
        sizes.parameters[name] = _read_parameter(reader, name, what, node)
    else:
        sizes.computed[name] = node


def _read_list(reader: Reader, what: str, node: Node) -> tuple[int, ...]:
    def one(item: Node) -> int | None:
        return reader.integer(item, minimum=-NUMBER_MAX, maximum=NUMBER_MAX, what=what)

    values = reader.list_of(node, one, what=what, at_least=1, at_most=SWEEP_MAX)
    return tuple(values) or (1,)


def _read_parameter(reader: Reader, name: str, what: str, node: Node) -> Parameter:
    fields = reader.mapping(node, required=("any",), optional=("minimum", "per"), what=what)
    assert fields is not None
    minimum, per = 0, None
    if fields.has("any") and reader.boolean(fields["any"], f"`any` of {what}") is False:
        reader.error("TTN010", f"`any` of {what} can only be `true`", fields["any"].span)
    if fields.has("minimum"):
        bound = f"`minimum` of {what}"
        found = reader.integer(fields["minimum"], minimum=0, maximum=1000, what=bound)
        minimum = found or 0
    if fields.has("per"):
        per = reader.identifier(fields["per"], f"`per` of {what}")
    return Parameter(name, None, minimum, per)


def parse_values(text: str) -> tuple[int, ...]:
    """`4`, `2,3,4`, `2..5` and mixtures; empty if the text is none of these or too long."""
    values: list[int] = []
    for piece in text.split(","):
        found = _RANGE.fullmatch(piece)
        if found is not None:
            first, last = int(found.group(1)), int(found.group(2))
            if last < first or last - first >= SWEEP_MAX:
                return ()
            values += range(first, last + 1)
        elif re.fullmatch(r"\s*-?[0-9]{1,9}\s*", piece):
            values.append(int(piece))
        else:
            return ()
    return tuple(dict.fromkeys(values)) if len(values) <= SWEEP_MAX else ()


def scope_of(
    reader: Reader, sizes: Sizes, chosen: dict[str, int]
) -> tuple[NameScope, tuple[Parameter, ...], dict[str, int]]:
    """The outermost scope for one choice, the parameters, and all numbers with computed ones."""
    terms, scope, numbers = KernelTerms(reader), NameScope(), dict(chosen)
    parameters = []
    for name, parameter in sizes.parameters.items():
        value = chosen.get(name)
        parameters.append(Parameter(name, value, parameter.minimum, parameter.per))
        scope.names[name] = Name(name)
    for name in sizes.choices:
        scope.names[name] = Constant(chosen[name])
    waiting = dict(sizes.computed)
    while waiting:
        ready = [name for name, node in waiting.items() if not _needs(node, set(waiting))]
        if not ready:
            first = next(iter(waiting))
            headline = f"the size {quoted(first)} is defined by itself"
            reader.error("TTN014", headline, waiting[first].span)
            break
        for name in ready:
            value = terms.constant(
                waiting.pop(name), scope, f"size {quoted(name)}", minimum=-NUMBER_MAX
            )
            numbers[name] = value if value is not None else 1
            scope.names[name] = Constant(numbers[name])
    for name in waiting:
        scope.names[name] = Constant(1)
    return scope, tuple(parameters), numbers


def _needs(node: Node, names: set[str]) -> bool:
    """Whether the text of a computed size mentions one of `names`."""
    if not isinstance(node, Scalar):
        return False
    return any(word in names for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", node.text))
