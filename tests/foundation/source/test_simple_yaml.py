"""The reader of simple YAML against the full one: the same tree with the same spans, or none."""

import random

import pytest

from titan.foundation.resources import root
from titan.foundation.source import simple_yaml
from titan.foundation.source.span import Source
from titan.foundation.source.tree import Mapping
from titan.foundation.source.yaml import DEPTH_MAX, NODES_MAX, parse_fully

FOLDERS = ("backends", "protocols", "examples")
EDITS = (
    *" \n:#-,[]{}\"'?&*!|>%@`~ab0.=(",
    "- ",
    ": ",
    " #",
    "\n  ",
    "\n- ",
    "{}",
    "[]",
    "a: b",
    "...",
    " >\n  x\n",
)
MUTANTS = 1500
WINDOW_LINES = 6


def _texts():
    found = sorted(path for folder in FOLDERS for path in root(folder).rglob("*.yaml"))
    return {path.name + str(number): path.read_text() for number, path in enumerate(found)}


TEXTS = _texts()


def _agree(text):
    """Whether the simple reader has read the text; then both have read the same."""
    source = Source("x.yaml", text)
    simple = simple_yaml.read(source, NODES_MAX, DEPTH_MAX)
    if simple is None:
        return False
    full, errors = parse_fully(source)
    assert not errors, text
    assert repr(simple) == repr(full), text  # with all spans
    if isinstance(full, Mapping):
        assert simple.nonstandard == full.nonstandard, text
    return True


def test_nearly_every_file_is_simple():
    assert sum(_agree(text) for text in TEXTS.values()) >= 0.95 * len(TEXTS)


def _mutant(rng):
    lines = rng.choice(list(TEXTS.values())).split("\n")
    place = rng.randrange(len(lines))
    lines = lines[max(0, place - WINDOW_LINES) : place + WINDOW_LINES]
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    text = "\n".join(line[least:] for line in lines)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        left_out = rng.choice((0, 0, 1, 3))
        text = text[:at] + rng.choice((*EDITS, "")) + text[at + left_out :]
    return text


def test_mutants_are_read_alike_or_not_at_all():
    rng = random.Random(7)
    assert sum(_agree(_mutant(rng)) for _ in range(MUTANTS)) > MUTANTS / 10


ENDS = ("", " ", "\n", "\n\n", "  \n", "\n  ")


def test_a_text_may_end_anywhere():
    """Behind each colon, dash, bracket, word and sign of a block of text."""
    text = "k: v\na: >\n  b c\nd: |\n  e\nf:\n  - g: {h: 1, i: [2, x]}\n  - 'j'\n  - k: \"l\"\n"
    for place in range(len(text)):
        for end in ENDS:
            _agree(text[:place] + end)
    rng = random.Random(11)
    for _ in range(MUTANTS // 5):
        lines = rng.choice(list(TEXTS.values()))[: rng.randrange(400)]
        _agree(lines + rng.choice(ENDS))


@pytest.mark.parametrize(
    "text",
    ["a: &x 1", "a: *x", "a: !t 1", "a: 'it''s'", 'a: "\\n"', "a: b\n  c", "a:", "a: 1\na: 2",
     "a: >-\n  b\n", "a: |\n  b\n\n  c\n", "? a\n: b", "--- \na: 1", "a: [1,\n  2]", "{a: 1, a: 2}",
     "a: b: c", "a\tb: 1", "", "- ", "a: {b: 1}} ", "a: [1 2", "a: @b", "a: `b`", "a: %b",
     "a: 1\n b: 2", "x", "a: - b"],
)  # fmt: skip
def test_what_is_not_simple_is_left_to_the_full_parser(text):
    assert simple_yaml.read(Source("x.yaml", text), NODES_MAX, DEPTH_MAX) is None


@pytest.mark.parametrize(
    "text", ["{a , b: 1}", "{a}", "{b: {c }, d  }", "- {x, y , z: [k, l ] }", "a: >\n  b c\n  d\n"]
)
def test_what_stands_alone_has_the_place_that_the_full_parser_gives_it(text):
    assert _agree(f"x: {text}") or _agree(text)


def test_bounds_are_those_of_the_full_parser():
    assert simple_yaml.read(Source("x", "a: [1, 2]"), 4, 8) is None
    assert simple_yaml.read(Source("x", "a: [1, 2]"), 5, 3) is not None
    assert simple_yaml.read(Source("x", "a: [1, 2]"), 5, 2) is None
