"""Whatever the bytes, the YAML layer answers with a tree or with diagnostics, within its bounds."""

import time
import tracemalloc

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sampling import part
from titan.foundation.diagnostics.render import FORMATS, render
from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.foundation.source.yaml import DEPTH_MAX, NODES_MAX, parse_bytes, parse_text

WORDS = (
    "a b x: : - -- --- ... [ ] { } , & &a &b * *a *b ! !! !!str !<x> | > |+ >- |9 ' \" \\ # % "
    "%YAML %TAG @ ` ? ?: << ~ null true 0x 1e9 .inf \\x \\u12 \\UFFFFFFFF"
)
SPACES = [" ", "  ", "\n", "\n  ", "\n- ", "\t", "\r", "\r\n", "\x85", "\u2028", "\ufeff", "\xa0"]
PIECES = [
    "é",
    "漢",
    "A[t]",
    "{group, leaving: 1}",
    "t in 0..tiles",
    "\U0001f600",
    "\u202e",
    "1" * 60,
]
TOKENS = st.sampled_from([*WORDS.split(), *SPACES, *PIECES])
YAML_LIKE = st.lists(TOKENS, max_size=60).map("".join)
CHARACTERS = st.text(st.characters(exclude_categories=()), max_size=200)
NESTED = st.recursive(
    st.sampled_from(["x", "*a", "*b", "&a y", "12", "''"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(inner, max_size=4).map(lambda items: "&b [" + ", ".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3).map(
            lambda rows: "&a {" + ", ".join(f"{key}: {value}" for key, value in rows) + "}"
        ),
    ),
    max_leaves=30,
)


def measured(node: Node) -> tuple[int, int]:
    """Nodes with aliases expanded, and depth, counted by walking."""
    if isinstance(node, Scalar):
        return 1, 1
    children: list[Node] = []
    if isinstance(node, Sequence):
        children = list(node)
    else:
        for entry in node:
            children += [entry.key, entry.value]
    sizes = [measured(child) for child in children]
    return 1 + sum(size for size, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


def decode_as_something(node: Node, reader: Reader) -> None:
    """Every method of the reader on one node, as a decoder of a language would."""
    reader.integer(node, minimum=0, maximum=9)
    reader.boolean(node)
    reader.identifier(node)
    reader.choice(node, ("a", "b"))
    reader.names(node)
    reader.list_of(node, reader.string, at_most=3)
    fields = reader.mapping(node, required=("a",), optional=("b", "c"))
    for name in fields or ():
        assert fields is not None
        reader.string(fields[name])


def check(node: Node | None, errors: list) -> None:
    assert node is not None or errors
    for error in errors:
        assert error.code.startswith("TTN0")
        assert error.span is not None
        assert error.span.start_line >= 1 and error.span.start_column >= 1
        assert (error.span.end_line, error.span.end_column) >= (
            error.span.start_line,
            error.span.start_column,
        )
        assert error.headline.isprintable() and not error.headline.endswith(".")
    if node is not None:
        size, depth = measured(node)
        assert (size, depth) == (node.size, node.depth) or errors
        assert size <= NODES_MAX and depth <= DEPTH_MAX + 1
        reader = Reader(errors)
        decode_as_something(node, reader)
        errors = reader.errors
    for name in FORMATS:
        shown = render(name, errors)
        assert all(char.isprintable() or char == "\n" for char in shown)


@settings(max_examples=part(400, 2), deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(data):
    check(*parse_bytes(data))


@settings(max_examples=part(400, 2), deadline=None)
@given(CHARACTERS)
def test_random_characters(text):
    check(*parse_text(text))


@settings(max_examples=part(1500), deadline=None)
@given(YAML_LIKE)
@example("%TAG ! ")
@example('"\\UFFFFFFFF"')
@example("|9999999999999999999999\n x")
@example("%YAML 1." + "9" * 5000 + "\n---\n")
@example("? " * 30)
@example("a: &a\n  *a")
def test_text_made_of_yaml_tokens(text):
    check(*parse_text(text))


@settings(max_examples=part(400, 2), deadline=None)
@given(NESTED)
def test_nesting_with_anchors_and_cycles(text):
    check(*parse_text(text))


def hostile() -> dict[str, str]:
    """Inputs made to cost time or memory, each close to the size limit under `make heavy`."""
    size = part(1 << 19, 8)
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    laughs += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 30)]
    return {
        "open brackets": "[" * size,
        "open calls": "[" + "a(" * (size // 2),
        "open calls and closed ones": ("a(" + "b()" * 100) * (size // 302),
        "open braces": "{" * size,
        "open braces with keys": "{a: " * (size // 4),
        "dashes": "- " * (size // 2),
        "question marks": "? " * (size // 2),
        "stairs": "\n".join(" " * i + "a:" for i in range(1000)),
        "laughs": "\n".join(laughs),
        "one long word": "x" * size,
        "one long quoted word": '"' + "x" * size,
        "one long key": "x" * size + ": 1",
        "spaces": " " * size + "a",
        "line breaks": "\n" * size,
        "comments": "#\n" * (size // 2),
        "many keys": "\n".join(f"k{i}: 1" for i in range(size // 10)),
        "the same key": "a: 1\n" * (size // 5),
        "many anchors": "\n".join(f"- &a{i} x" for i in range(size // 14)),
        "unknown aliases": "[" + "*a, " * (size // 4),
        "digits": "a: " + "9" * size,
        "backslashes": '"' + "\\\\" * (size // 2) + '"',
        "folded lines": "a: >\n" + " x\n" * (size // 3),
        "plain lines": "a: b\n" + " x\n" * (size // 3),
    }


def test_hostile_input_is_answered_in_bounded_time_and_memory():
    for name, text in hostile().items():
        start = time.process_time()
        node, errors = parse_text(text)
        seconds = time.process_time() - start
        assert seconds < 20, name
        assert node is not None or errors, name
        render("text", errors)


def test_the_memory_for_a_bomb_is_that_of_its_text():
    laughs = hostile()["laughs"]
    tracemalloc.start()
    node, errors = parse_text(laughs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert node is None and errors[-1].code == "TTN003"
    assert peak < 8 << 20


def test_the_walk_agrees_on_a_known_tree():
    node, errors = parse_text("a: &x [1, 2]\nb: {c: *x}\n")
    assert errors == [] and isinstance(node, Mapping)
    assert measured(node) == (node.size, node.depth) == (11, 4)
