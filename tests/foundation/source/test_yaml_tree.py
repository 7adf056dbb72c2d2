"""The located YAML tree: spans, bounds, and a diagnostic for every fault."""

import pytest

from titan.foundation.diagnostics.render import render
from titan.foundation.source.loading import load_bytes, load_file
from titan.foundation.source.tree import Mapping, Scalar, Sequence, as_boolean, as_integer, kind
from titan.foundation.source.yaml import DEPTH_MAX, parse_bytes, parse_file, parse_text


def good(text: str) -> Mapping:
    node, errors = parse_text(text)
    assert errors == []
    assert isinstance(node, Mapping)
    return node


def codes(text: str | bytes) -> list[str]:
    _, errors = parse_bytes(text) if isinstance(text, bytes) else parse_text(text)
    for error in errors:
        assert error.span is not None
    return [error.code for error in errors]


def text_of(node: object, text: str) -> str:
    """What the span of a one-line node covers, from the text alone."""
    span = node.span  # type: ignore[attr-defined]
    assert span.start_line == span.end_line
    return text.split("\n")[span.start_line - 1][span.start_column - 1 : span.end_column - 1]


def test_spans_of_every_kind_of_node():
    text = "a: {group, leaving: 1}\nb:\n  - x[t]\n  - 'q r'\n\n# end\nc: é [1]\nd: [1, 2]\n"
    tree = good(text)
    first = tree.get("a")
    assert isinstance(first, Mapping)
    assert text_of(first, text) == "{group, leaving: 1}"
    assert first.names == ("group", "leaving")
    assert text_of(first.entries[1].key, text) == "leaving"
    assert text_of(first.entries[1].value, text) == "1"
    group = first.get("group")
    assert isinstance(group, Scalar) and group.is_null
    items = tree.get("b")
    assert isinstance(items, Sequence)
    assert [text_of(item, text) for item in items] == ["x[t]", "'q r'"]
    assert (items.span.start_line, items.span.end_line) == (3, 4), "no trailing comment or blank"
    assert text_of(tree.get("c"), text) == "é [1]"
    assert text_of(tree.get("d"), text) == "[1, 2]"
    assert text_of(tree.entries[3].key, text) == "d"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_whatever_ends_them(newline):
    tree = good(newline.join(["# é", "a: 1", "b: 2", ""]))
    assert tree.key_span("b").start_line == 3
    assert tree.key_span("b").excerpt() == "b: 2"


def test_a_byte_order_mark_moves_no_column():
    node, errors = parse_bytes("\ufeffa: 1\n".encode())
    assert errors == [] and isinstance(node, Mapping)
    assert node.key_span("a").start_column == 1


def test_yaml_1_2_scalars():
    tree = good("on: yes\nn: 0x1F\no: 0o17\nq: '12'\nt: true\nbig: " + "9" * 5000)
    assert tree.names[0] == "on"
    assert as_boolean(tree.get("on")) is None
    assert as_integer(tree.get("n")) == 31
    assert as_integer(tree.get("o")) == 15
    assert as_integer(tree.get("q")) is None
    assert as_boolean(tree.get("t")) is True
    assert as_integer(tree.get("big")) is None
    assert kind(tree.get("q")) == "a string"


def test_parts_of_scalars_have_spans_of_their_own():
    text = "a: t + x\nb: 't + x'\nc: \"t \\x2b x\"\nd: >\n  t + x\ne: &e t + x\n"
    tree = good(text)
    places = []
    for name in "abcde":
        node = tree.get(name)
        assert isinstance(node, Scalar) and node.text.strip() == "t + x"
        part = node.part(node.text.index("x"), 1)
        places.append((part.start_line, part.start_column, part == node.span))
    assert places[:2] == [(1, 8, False), (2, 9, False)]
    assert all(whole for _, _, whole in places[2:])


def test_aliases_share_their_node():
    tree = good("a: &x [1, 2]\nb: *x\n")
    assert tree.get("a") is tree.get("b")
    assert tree.size == 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "TTN007"),
        ("# only a comment\n", "TTN007"),
        ("a: [1\n", "TTN001"),
        ("a: b: c\n", "TTN001"),
        ("a:\n\t- b\n", "TTN001"),
        ("a: 1\n---\nb: 2\n", "TTN001"),
        ("a: !!python/object:os.system x\n", "TTN001"),
        ('a: "\\UFFFFFFFF"\n', "TTN001"),
        ("%YAML 99999999999999999999.1\n---\na\n", "TTN001"),
        ("a: 1\na: 2\n", "TTN004"),
        ("a: &x [*x]\n", "TTN005"),
        ("a: &x {b: {c: *x}}\n", "TTN005"),
        ("a: *nothing\n", "TTN011"),
        ("? [a]\n: 1\n", "TTN008"),
        ("a: \x00\n", "TTN002"),
        ("a: \x1b[31m\n", "TTN002"),
        (b"a: \xff\n", "TTN002"),
        ("\ud800", "TTN002"),
        ("a: \ue000", "TTN002"),
    ],
)
def test_faults_are_diagnostics(text, expected):
    assert codes(text) == [expected]


def test_places_of_faults():
    _, errors = parse_text("a: 1\nb: 2\na: 3\n")
    duplicate = errors[0]
    assert [str(note.span) for note in duplicate.annotations] == ["<text>:3:1", "<text>:1:1"]
    _, errors = parse_bytes("x: é\ny: ".encode() + b"\xff")
    assert str(errors[0].span) == "<bytes>:2:4"
    _, errors = parse_text("a:\n  b: 1\n\tc: 2\n")
    assert (errors[0].headline, str(errors[0].span)) == (
        "a tab character cannot indent YAML",
        "<text>:3:1",
    )


def test_indexed_names_and_calls_stand_in_brackets():
    text = "m: {mma: [A[t], B[t - min(1, t)]], as: g}\nn: [x[, y]\n"
    node, errors = parse_text(text.split("\n", maxsplit=1)[0])
    assert errors == [] and isinstance(node, Mapping)
    inner = node.get("m")
    assert isinstance(inner, Mapping) and inner.names == ("mma", "as")
    operands = inner.get("mma")
    assert isinstance(operands, Sequence)
    assert [item.text for item in operands if isinstance(item, Scalar)] == [
        "A[t]",
        "B[t - min(1, t)]",
    ]
    assert [text_of(item, text) for item in operands] == ["A[t]", "B[t - min(1, t)]"]
    assert codes(text) == ["TTN001"]


def test_brackets_in_quotes_and_comments_are_left_alone():
    tree = good("a: ['x[1', 'y]']  # f(a, b\nb: \"g(1, 2)\"\nc: {d: e, f: g}\n")
    first = tree.get("a")
    assert isinstance(first, Sequence)
    assert [item.text for item in first if isinstance(item, Scalar)] == ["x[1", "y]"]
    second = tree.get("b")
    assert isinstance(second, Scalar) and second.text == "g(1, 2)"


@pytest.mark.parametrize("text", ["a: *x[1]", "a: !t[1] x", "a: |x[1]", "a: %x[1]", "@x[1]: y"])
def test_faults_show_the_text_that_was_written(text):
    _, errors = parse_text(text)
    assert errors
    assert not any("\ue000" <= char <= "\uf8ff" for char in render("text", errors))


def test_a_tree_comes_with_the_faults_that_leave_it_whole():
    node, errors = parse_text("a: 1\na: 2\nb: *gone\n")
    assert isinstance(node, Mapping) and node.names == ("a", "b")
    assert [error.code for error in errors] == ["TTN004", "TTN011"]


def test_bounds():
    assert codes("[" * 10_000) == ["TTN003"]
    assert codes("- " * 10_000 + "a") == ["TTN003"]
    assert codes("\n".join(" " * i + "a:" for i in range(300))) == ["TTN003"]
    assert codes(b"a" * (1 << 20) + b"b") == ["TTN003"]
    laughs = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    assert codes("\n".join(laughs)) == ["TTN003"]
    deep = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 100)]
    assert codes("\n".join(deep)) == ["TTN003"]
    just = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert codes(just) == []


def test_the_number_of_faults_is_bounded():
    assert len(codes("a: 1\n" * 10_000)) == 50


def test_files(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_bytes(b"a: 1\n")
    node, errors = parse_file(path)
    assert isinstance(node, Mapping) and errors == []
    for bad in (tmp_path / "none.yaml", tmp_path, tmp_path / ("x" * 5000), "nul\0byte"):
        source, errors = load_file(bad)
        assert source is None
        assert [error.code for error in errors] == ["TTN002"]


def test_one_byte_over_the_limit_is_refused_and_the_limit_is_not():
    assert load_bytes(b"a" * 100, "p", 100)[1] == []
    assert [error.code for error in load_bytes(b"a" * 101, "p", 100)[1]] == ["TTN003"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.3", "2.0"])
def test_a_file_of_another_version_of_yaml_is_refused(version):
    """`010` is 8 in YAML 1.1, and `1_0` is 10: what is read would not be what the file says."""
    _, errors = parse_text(f"%YAML {version}\n---\na: 010\n")
    assert [error.code for error in errors] == ["TTN001"]
    assert version != "1.1" or "read as YAML 1.2, and says 1.1" in errors[0].headline
    tree = good("%YAML 1.2\n---\na: 10\n")
    assert as_integer(tree.get("a")) == 10
