"""Decoding by hand: every fault is told, with its place and the nearest name."""

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.reader import ERRORS_MAX, Reader
from titan.foundation.source.tree import Mapping, Node
from titan.foundation.source.yaml import parse_text


def tree(text: str) -> Node:
    node, errors = parse_text(text, "k.yaml")
    assert node is not None and errors == []
    return node


def field(text: str) -> Node:
    node = tree(f"value: {text}\n")
    assert isinstance(node, Mapping)
    value = node.get("value")
    assert value is not None
    return value


def told(reader: Reader) -> list[tuple[str, str]]:
    return [(error.code, error.headline) for error in reader.errors]


def test_unknown_and_missing_keys_are_told_together():
    reader = Reader()
    fields = reader.mapping(
        tree("kernl: x\ndepth: 4\n"),
        required=("kernel", "roles"),
        optional=("depth",),
        what="the kernel",
    )
    assert fields is not None
    assert list(fields) == ["depth"]
    assert told(reader) == [
        ("TTN006", "the kernel has no key `kernl`"),
        ("TTN007", "the kernel lacks the keys `kernel` and `roles`"),
    ]
    unknown: Diagnostic = reader.errors[0]
    assert unknown.helps == ("did you mean `kernel`?",)
    assert str(unknown.span) == "k.yaml:1:1"


def test_integers():
    reader = Reader()
    assert reader.integer(field("12"), minimum=1, maximum=12) == 12
    assert reader.integer(field("'12'"), what="the depth") is None
    assert reader.integer(field("0"), minimum=1, what="the depth") is None
    assert reader.integer(field("99"), maximum=64, what="the depth") is None
    assert told(reader) == [
        ("TTN008", "the depth must be an integer, not a string"),
        ("TTN009", "the depth must be at least 1, not 0"),
        ("TTN009", "the depth must be at most 64, not 99"),
    ]


def test_other_scalars():
    reader = Reader()
    assert reader.boolean(field("true")) is True
    assert reader.string(field("12")) == "12"
    assert reader.identifier(field("warp_0")) == "warp_0"
    assert reader.choice(field("bf16"), ("f16", "bf16")) == "bf16"
    assert reader.ok
    assert reader.boolean(field("yes"), "it") is None
    assert reader.string(field(""), "it") is None
    assert reader.string(field("'  '"), "it") is None
    assert reader.string(field("x" * 2000), "it") is None
    assert reader.identifier(field("2x"), "it") is None
    assert reader.choice(field("bf17"), ("f16", "bf16"), "the dtype") is None
    codes = [error.code for error in reader.errors]
    assert codes == ["TTN008", "TTN008", "TTN008", "TTN009", "TTN008", "TTN010"]
    assert reader.errors[-1].helps == ("did you mean `bf16`?",)


def test_lists():
    reader = Reader()
    assert reader.list_of(field("[1, x, 3]"), reader.integer, what="it") == [1, 3]
    assert reader.list_of(field("7"), reader.integer, single=True) == [7]
    assert reader.sequence(field("[]"), what="the list", at_least=1) is None
    assert reader.sequence(field("[1, 2]"), what="the list", at_most=1) is None
    assert reader.sequence(field("{a: 1}"), what="the list") is None
    assert told(reader) == [
        ("TTN008", "this must be an integer, not a string"),
        ("TTN009", "the list has 0 items, but takes at least 1"),
        ("TTN009", "the list has 2 items, but takes at most 1"),
        ("TTN008", "the list must be a list, not a mapping"),
    ]


def test_names_chosen_by_the_user():
    reader = Reader()
    fields = reader.names(field("{good: 1, 'not good': 2}"), "the buffers")
    assert fields is not None and list(fields) == ["good"]
    assert [error.code for error in reader.errors] == ["TTN008"]


def test_hostile_names_do_not_reach_the_terminal():
    reader = Reader()
    reader.undeclared("a\x1b[31m\u202e`" + "x" * 500, field("1").span, ["a", "b"], "buffer")
    headline = reader.errors[0].headline
    assert headline.isprintable()
    assert len(headline) < 120


def test_the_number_of_errors_is_bounded():
    reader = Reader()
    for _ in range(ERRORS_MAX + 7):
        reader.integer(field("x"))
    assert len(reader.errors) == ERRORS_MAX
    assert reader.suppressed == 7


def test_a_file_of_another_level_is_one_fault():
    texts = {"tile": "tile: g\nloop: {k: 4}", "kernel": "kernel: g", "loop": "loop: g"}
    for level, text in texts.items():
        for wanted in texts:
            reader = Reader()
            assert reader.is_other(tree(text), wanted) == (level != wanted)
            assert len(reader.errors) == (level != wanted)
    reader = Reader()
    assert reader.is_other(tree("{titan: 1, kernel: g}"), "tile")
    (fault,) = reader.errors
    assert fault.headline == "this is a kernel, not a tile program"
    assert fault.helps == ("`titan verify` takes it",)
    assert not reader.is_other(tree("{titan: 1}"), "tile")
    assert not reader.is_other(tree("[1, 2]"), "tile")
