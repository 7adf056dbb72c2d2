"""One statement as written: its verb, what it acts on, and its options.

A verb with its options next to it, or in braces with what it acts on, and a bare `finalize` all
become a `Clause`; what the words mean is decided by the modules that read clauses.
"""

from __future__ import annotations

from titan.foundation.diagnostics.wording import listed, quoted, suggestion
from titan.foundation.records import dataclass
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, MappingEntry, Node, Scalar, Sequence, kind
from titan.language.kernel import listing
from titan.language.kernel.foreign import named_otherwise
from titan.language.kernel.table import LISTED, VERB_OF, WHEN, ValueForm, Verb


@dataclass(frozen=True, slots=True)
class Clause:
    """A statement by its verb, with its object nodes, and options by key with their places."""

    verb: Verb
    span: Span
    objects: tuple[Node, ...]
    options: dict[str, Node]
    option_spans: dict[str, Span]
    value: Node | None = None

    def get(self, name: str) -> Node | None:
        """The node of an option; None where the statement does not have it."""
        return self.options.get(name)

    @property
    def what(self) -> str:
        """The verb in backquotes, as reports name the statement."""
        return f"`{self.verb.name}`"


def read_clause(reader: Reader, node: Node) -> Clause | None:
    """The clause that a list item is."""
    if isinstance(node, Scalar) and not node.is_null:
        verb = VERB_OF.get(node.text)
        if verb is None:
            helps = named_otherwise(node.text) or suggestion(node.text, VERB_OF)
            reader.error(
                "TTN010", f"{quoted(node.text)} is not a statement", node.span, helps=helps
            )
            return None
        return _checked(reader, Clause(verb, node.span, (), {}, {}))
    if not isinstance(node, Mapping):
        reader.error("TTN008", f"a statement must be a mapping, not {kind(node)}", node.span)
        return None
    entry = _verb_of(reader, node)
    if entry is None:
        return None
    verb = VERB_OF[entry.key.text]
    options: dict[str, Node] = {}
    spans: dict[str, Span] = {}
    for other in node:
        if other is not entry:
            _option(reader, verb, other, options, spans)
    objects = _objects(reader, verb, entry.value, options, spans)
    clause = Clause(verb, _place(entry), objects, options, spans, entry.value)
    return _checked(reader, clause)


def _verb_of(reader: Reader, node: Mapping) -> MappingEntry | None:
    """The one entry whose key is the verb: not an option of another verb that is present."""
    candidates = [entry for entry in node if entry.key.text in VERB_OF]
    if len(candidates) > 1:
        names = {entry.key.text for entry in candidates}
        candidates = [
            entry
            for entry in candidates
            if not any(
                entry.key.text in _option_names(VERB_OF[other])
                for other in names - {entry.key.text}
            )
        ] or candidates[:1]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        first = node.entries[0].key if node.entries else None
        span = first.span if first is not None else node.span
        text = first.text if first is not None else ""
        helps = named_otherwise(text) or suggestion(text, VERB_OF)
        reader.error("TTN010", f"no verb in this statement, which starts with {quoted(text)}", span,
                     helps=helps)  # fmt: skip
        return None
    names_found = [entry.key.text for entry in candidates]
    headline = f"one statement has one verb, not {listed(names_found)}"
    reader.error("TTN017", headline, candidates[1].key.span, "a second verb",
                 helps=("begin a new list item with `-`",))  # fmt: skip
    return None


def _option_names(verb: Verb) -> set[str]:
    return {key.name for key in verb.options} | {WHEN.name}


def _option(
    reader: Reader,
    verb: Verb,
    entry: MappingEntry,
    options: dict[str, Node],
    spans: dict[str, Span],
) -> None:
    name = entry.key.text
    known = _option_names(verb)
    if name not in known:
        helps = suggestion(name, known)
        headline = f"`{verb.name}` has no option {quoted(name)}"
        reader.error("TTN006", headline, entry.key.span, helps=helps)
    elif name in options:
        reader.error("TTN004", f"the option {quoted(name)} is given twice", entry.key.span)
    else:
        form = next((key.form for key in verb.options if key.name == name), WHEN.form)
        options[name], spans[name] = _listed(entry.value, form), entry.key.span


def _listed(node: Node, form: ValueForm) -> Node:
    """References that stand in one scalar as the list that they are."""
    if form not in LISTED or not isinstance(node, Scalar):
        return node
    found = listing.items(node)
    return node if found == (node,) else Sequence(found, node.span)


def _objects(
    reader: Reader, verb: Verb, value: Node, options: dict[str, Node], spans: dict[str, Span]
) -> tuple[Node, ...]:
    """What the verb acts on; options in braces with it are added to `options`."""
    if verb.object is ValueForm.ASSIGNMENTS:
        return (value,)
    if isinstance(value, Scalar):
        if verb.object in LISTED:
            return () if value.is_null else listing.items(value, verb.call)
        return () if value.is_null else (value,)
    if isinstance(value, Sequence):
        return tuple(value)
    objects: list[Node] = []
    known = _option_names(verb)
    for entry in value:
        bare = isinstance(entry.value, Scalar) and entry.value.is_null
        if bare and entry.key.text not in known:
            objects.append(entry.key)
        else:
            _option(reader, verb, entry, options, spans)
    return tuple(objects)


def _place(entry: MappingEntry) -> Span:
    """The verb and the rest of its line."""
    key, value = entry.key.span, entry.value.span
    same_line = value.start_line == key.start_line == value.end_line
    return key.to(value) if same_line else key


def _checked(reader: Reader, clause: Clause) -> Clause | None:
    """The clause, if it has what its verb needs."""
    verb = clause.verb
    good = True
    for key in verb.options:
        if key.required and key.name not in clause.options:
            reader.error("TTN007", f"`{verb.name}` lacks {quoted(key.name)}", clause.span)
            good = False
    if verb.needs_object and not clause.objects:
        reader.error("TTN007", f"`{verb.name}` lacks {_needed(verb)}", clause.span)
        good = False
    single = verb.object in (
        ValueForm.REFERENCE,
        ValueForm.CONDITION,
        ValueForm.RANGE,
        ValueForm.WORD,
    )
    if single and len(clause.objects) > 1:
        headline = f"`{verb.name}` takes one object, not {len(clause.objects)}"
        reader.error("TTN009", headline, clause.span)
        good = False
    if verb.object is ValueForm.NOTHING and clause.objects:
        reader.error("TTN008", f"`{verb.name}` takes no object", clause.objects[0].span)
        good = False
    return clause if good else None


def _needed(verb: Verb) -> str:
    return "a reference" if verb.object is ValueForm.REFERENCES else verb.object.value
