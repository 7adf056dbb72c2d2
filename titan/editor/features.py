"""Diagnostics, hover, definitions and completion of kernel files, as plain data.

The table of the language says what keys and verbs mean; names are looked up in the file. Positions
count from 0. The file is read again for each request: files are small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from titan.editor.place import CursorContext, place_at, word_at
from titan.foundation.diagnostics.codes import CODES
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.foundation.source.yaml import parse_text
from titan.language.kernel.decode import decode_text
from titan.language.kernel.table import (
    FENCES,
    POLICIES,
    RESERVED,
    SECTION_OF,
    SECTIONS,
    TOP_LEVEL,
    VERB_OF,
    VERBS,
    WHEN,
    Key,
    ValueForm,
    Verb,
)

NAMED = tuple(section.name for section in SECTIONS)
_OTHER_KEYS = {
    "sizes": "numbers, sweeps, computed sizes, and parameters (`any`)",
    "policies": "readings of the hardware contract",
    "allow": "warnings that the author accepts, and why",
    "program": "for each role a list of statements",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A completion: its text, what kind of thing it is, and what it means."""

    text: str
    kind: str
    about: str


def faults(text: str, path: str) -> list[Diagnostic]:
    """Diagnostics on the text of a kernel: its form, names and numbers; no search."""
    root, _ = parse_text(text, path)
    if (
        isinstance(root, Mapping)
        and "titan" in root
        and not {"loop", "tile"}.isdisjoint(root.names)
    ):
        return []  # a loop or a tile program
    return decode_text(text, path)[1]


def verdict(text: str, path: str, states_max: int) -> list[Diagnostic]:
    """The same with the verdict of the engines within a budget; for when a file is saved."""
    from titan.report.findings import diagnostics_of
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import KernelFile, verify_each

    found = faults(text, path)
    family, _ = decode_text(text, path)
    if found or family is None:
        return found
    options = VerifyOptions(states_max=states_max, seconds_max=20.0, save_traces=None)
    file = KernelFile(path, family, (), frozenset())
    seen: dict[tuple[str, Span | None], Diagnostic] = {}
    for finding in verify_each(file, options):
        for item in diagnostics_of(finding):
            seen.setdefault((item.code, item.span), item)
    return list(seen.values())


# -------------------------------------------------------------------------------------- names


@lru_cache(maxsize=8)
def declarations(text: str) -> dict[str, tuple[str, Span, str]]:
    """Each declared name of the file: its section, location and declaration."""
    root, _ = parse_text(text)
    found: dict[str, tuple[str, Span, str]] = {}
    if not isinstance(root, Mapping):
        return found
    for section in ("sizes", *NAMED):
        node = root.get(section)
        for entry in node if isinstance(node, Mapping) else ():
            line = entry.key.span.excerpt().strip()
            found.setdefault(entry.key.text, (section, entry.key.span, line))
    for name, span in _inner_names(root.get("program")):
        found.setdefault(name, ("program", span, span.excerpt().strip()))
    return found


def _inner_names(node: Node | None) -> Iterator[tuple[str, Span]]:
    """Loop variables, names of `let`, and groups."""
    if isinstance(node, Sequence):
        for item in node:
            yield from _inner_names(item)
    elif isinstance(node, Mapping):
        for entry in node:
            value = entry.value
            if entry.key.text == "for" and isinstance(value, Scalar):
                yield value.text.partition(" in ")[0].strip(), value.span
            elif entry.key.text == "as" and isinstance(value, Scalar):
                yield value.text, value.span
            elif entry.key.text == "let" and isinstance(value, Mapping):
                for name in value:
                    yield name.key.text, name.key.span
            yield from _inner_names(value)


def definition(text: str, line: int, column: int) -> Span | None:
    """Where the name at a position is declared."""
    word, _ = word_at(text, line, column)
    found = declarations(text).get(word)
    return found[1] if found is not None else None


def references(text: str, line: int, column: int) -> list[tuple[int, int, int]]:
    """All occurrences of the name at a position: line, first column, column after the last."""
    word, _ = word_at(text, line, column)
    if word not in declarations(text):
        return []
    found = []
    for number, row in enumerate(text.split("\n")):
        code = re.sub(r"(^|\s)#.*", "", row)
        for match in re.finditer(rf"\b{re.escape(word)}\b", code):
            found.append((number, match.start(), match.end()))
    return found


# -------------------------------------------------------------------------------------- hover


def hover(text: str, line: int, column: int, found: Iterable[Diagnostic] = ()) -> str:
    """Documentation of the rule, verb, key or declared name at a position, in Markdown."""
    parts = [_rule(item) for item in found if _covers(item.span, line, column)]
    word, start = word_at(text, line, column)
    place = place_at(text, line, start)
    behind = text.split("\n")[line][start + len(word) :] if word else ""
    is_key = behind.lstrip().startswith(":") or (place.new_item and not behind.strip())
    shown = _text_of_key(word, place) if is_key else ""
    if not shown and word in declarations(text):
        section, _, excerpt = declarations(text)[word]
        noun = SECTION_OF[section].noun if section in SECTION_OF else section.removesuffix("s")
        shown = f"**{word}** ({noun})\n\n```yaml\n{excerpt}\n```"
    if not shown and word in CODES:
        shown = f"**{word}** {CODES[word].name}"
    if not shown:
        shown = _word_of_value(word, place)
    return "\n\n---\n\n".join([*parts, *([shown] if shown else [])])


def _covers(span: Span | None, line: int, column: int) -> bool:
    if span is None:
        return False
    start, end = (span.start_line - 1, span.start_column - 1), (span.end_line - 1, span.end_column)
    return start <= (line, column) <= end


def _rule(item: Diagnostic) -> str:
    from titan.foundation.diagnostics.rules import explanation

    meaning = explanation(CODES[item.code]).sections.get("What it means", "").split("\n\n")[0]
    helps = "".join(f"\n\nhelp: {text}" for text in item.helps)
    return f"**{item.code} {item.name}**: {item.headline}\n\n{' '.join(meaning.split())}{helps}"


def _text_of_key(word: str, place: CursorContext) -> str:
    verb = _verb_of(place)
    if place.keys[:1] == ("program",):
        if word in VERB_OF and (place.new_item or word not in _option_names(verb)):
            return _about_verb(VERB_OF[word])
        if verb is None:
            return ""
        key = next((key for key in (*verb.options, WHEN) if key.name == word), None)
        return _about_key(key, f"option of `{verb.name}`") if key is not None else ""
    if not place.keys:
        if word in SECTION_OF:
            keys = ", ".join(f"`{key.name}`" for key in SECTION_OF[word].keys)
            return f"**{word}**: {SECTION_OF[word].about}\n\nkeys: {keys}"
        top = next((key for key in TOP_LEVEL if key.name == word), None)
        return _about_key(top, "") if top is not None else _other(word)
    if place.keys[0] == "policies" or "policies" in place.before:
        policy = next((key for key in POLICIES if key.name == word), None)
        return _about_key(policy, "policy") if policy is not None else ""
    section = SECTION_OF.get(place.keys[0])
    if section is not None:
        inner = next((key for key in section.keys if key.name == word), None)
        return _about_key(inner, f"of a {section.noun}") if inner is not None else ""
    return ""


def _other(word: str) -> str:
    return f"**{word}**: {_OTHER_KEYS[word]}" if word in _OTHER_KEYS else ""


def _word_of_value(word: str, place: CursorContext) -> str:
    if word in FENCES and "fence" in place.before:
        return f"**fence: {word}**"
    return ""


def _about_verb(verb: Verb) -> str:
    options = "".join(f"\n- `{key.name}`: {key.about}" for key in verb.options)
    return f"**{verb.name}**: {verb.about}\n\nacts on {verb.object.value}{options}"


def _about_key(key: Key, of: str) -> str:
    words = f"\n\none of {', '.join(f'`{word}`' for word in key.words)}" if key.words else ""
    return f"**{key.name}**{f' ({of})' if of else ''}: {key.about}\n\n{key.form.value}{words}"


def _verb_of(place: CursorContext) -> Verb | None:
    return next((VERB_OF[key] for key in place.statement if key in VERB_OF), None)


def _option_names(verb: Verb | None) -> set[str]:
    return {key.name for key in verb.options} if verb is not None else set()


# --------------------------------------------------------------------------------- completion


def completion(text: str, line: int, column: int) -> list[Offer]:
    """Completions at a position."""
    place = place_at(text, line, column)
    value_of = re.search(r"(?:^|[\s{,-])([A-Za-z_][\w ]*?)\s*:\s+[^:{]*$", place.before)
    if value_of is not None:
        return _values(text, place, value_of.group(1))
    return [Offer(key.name, "key", key.about) for key in _keys(place)]


def _keys(place: CursorContext) -> list[Key]:
    """The keys that the mapping at the position may still take."""
    if place.keys[:1] == ("program",):
        if place.new_item or not place.statement:
            return [Key(verb.name, verb.object, verb.about) for verb in VERBS]
        verb = _verb_of(place)
        known = (*verb.options, WHEN) if verb is not None else ()
        return [key for key in known if key.name not in place.statement]
    if place.keys:
        section = SECTION_OF.get(place.keys[0])
        if section is not None and (len(place.keys) > 1 or "{" in place.before):
            return list(section.keys)
        return list(POLICIES) if place.keys[0] == "policies" else []
    if "{" in place.before:
        name = place.before.partition(":")[0].strip()
        if name == "policies":
            return list(POLICIES)
        return list(SECTION_OF[name].keys) if name in SECTION_OF else []
    if place.before.startswith(" "):
        return []
    others = [Key(name, ValueForm.TEXT, text) for name, text in _OTHER_KEYS.items()]
    sections = [Key(section.name, ValueForm.TEXT, section.about) for section in SECTIONS]
    return [key for key in (*TOP_LEVEL, *sections, *others) if key.name not in place.statement]


def _values(text: str, place: CursorContext, key: str) -> list[Offer]:
    """The words that a key accepts, or the names that may occur in its value."""
    verb = VERB_OF.get(key) or _verb_of(place)
    keys = [*TOP_LEVEL, *POLICIES]
    if place.keys[:1] == ("program",) and verb is not None:
        if key == "fence":
            return [Offer(word, "word", "") for word in FENCES]
        keys = [*verb.options]
    elif place.keys and place.keys[0] in SECTION_OF:
        keys = [*SECTION_OF[place.keys[0]].keys]
    chosen = next((item for item in keys if item.name == key), None)
    if chosen is not None and chosen.words:
        return [Offer(word, "word", chosen.about) for word in chosen.words]
    if chosen is not None and chosen.form is ValueForm.BOOLEAN:
        return [Offer(word, "word", chosen.about) for word in ("true", "false")]
    if place.keys or key in VERB_OF:
        names = declarations(text)
        return [Offer(name, section, excerpt) for name, (section, _, excerpt) in names.items()
                if name not in RESERVED and section not in ("roles",)]  # fmt: skip
    return []
