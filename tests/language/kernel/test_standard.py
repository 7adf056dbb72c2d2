"""Files that only TITAN reads as YAML are rewritten, and then say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.kernel.examples import library
from titan.cli.main import run
from titan.foundation.source.tree import Mapping, Scalar
from titan.foundation.source.yaml import parse_text
from titan.language.kernel import listing
from titan.language.kernel.decode import decode_text
from titan.language.kernel.standard import standard_form
from titan.language.kernel.table import LISTED, VERBS, ValueForm

HEAD = """\
titan: 1
kernel: k
target: sm_90a
sizes: {tiles: any, depth: 2}
buffers:
  A: {stages: depth, bytes: 1024}
  B: {stages: depth, bytes: 1024}
rings:
  ring: {buffers: [A, B], depth: depth}
roles:
  p: {warps: 1}
  c: {warps: 1}
program:
  p:
    - for: t in 0..tiles
      do:
        - acquire: ring[t]
        - produce: ring[t]
  c:
    - for: t in 0..tiles
      do:
        - wait: ring[t]
        - {issue: "ring[t]", as: g, when: t < 0}
"""
PAIRS = [
    ("- issue: {mma: [A[t], B[t]], as: g}", "- issue: mma(A[t], B[t])\n  as: g"),
    ("- issue: {mma: A[t], as: g}", "- issue: mma(A[t])\n  as: g"),
    ("- issue: {A[t], B[t], as: g}", "- issue: A[t], B[t]\n  as: g"),
    ("- issue: {mma: [A[t]], as: g, into: [ring[t]]}",
     "- issue: mma(A[t])\n  as: g\n  into: ring[t]"),
    ("- {release: ring[t - 1], when: t >= 1}", "- release: ring[t - 1]\n  when: t >= 1"),
    ("- release: {ring[t], after: g}", "- release: ring[t]\n  after: g"),
    ("- read: {ring[t], buffers: [A, B]}", "- read: ring[t]\n  buffers: [A, B]"),
    ("- load: [A[0] = 1, B[min(t, 1)]]", "- load: A[0] = 1, B[min(t, 1)]"),
    ("- async: {reads: [A[0] = 0, B[0]], queue: q}",
     "- async:\n  reads: A[0] = 0, B[0]\n  queue: q"),
    ("- let: {s: min(t, 1)}", '- let: {s: "min(t, 1)"}'),
    ("- if: t == 0\n  then: [{release: ring[t]}, finalize]",
     '- if: t == 0\n  then: [{release: "ring[t]"}, finalize]'),
    ("- {wait: full[t], parity: 0}   # why", "- wait: full[t]                # why\n  parity: 0"),
    ("- {wait: full[t],\n   parity: 0}", '- {wait: "full[t]",\n   parity: 0}'),
    ("- wait: {full[t], parity: 0}\n  when: t == 0",
     "- wait: full[t]\n  parity: 0\n  when: t == 0"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_statements_are_rewritten(old: str, new: str):
    assert standard_form(old) == (new, [])
    assert standard_form(new) == (new, [])


@pytest.mark.parametrize(("old", "new"), PAIRS[:7])
def test_what_is_rewritten_says_the_same(old: str, new: str):
    texts = [HEAD + statement.replace("\n", "\n        ").join(["        ", "\n"])
             for statement in (old, new)]  # fmt: skip
    first, second = (decode_text(text, "k.yaml") for text in texts)
    assert first[0] is not None, first[1]
    assert first == second


@pytest.mark.parametrize(("name", "text"), library(), ids=[name for name, _ in library()])
def test_the_library_is_standard(name: str, text: str):
    assert standard_form(text, name) == (text, [])


def test_every_verb_that_takes_a_list_takes_one_scalar():
    """The same objects and options from a YAML list and from a scalar, whatever the verb."""
    from titan.foundation.source.reader import Reader
    from titan.language.kernel.clause import read_clause

    def told(text: str) -> tuple[list[str], dict[str, list[str]]]:
        root, errors = parse_text(text)
        assert root is not None and not errors
        clause = read_clause(Reader(), root)
        assert clause is not None
        options = {name: [item.text for item in node] for name, node in clause.options.items()
                   if not isinstance(node, Scalar)}  # fmt: skip
        return [item.text for item in clause.objects if isinstance(item, Scalar)], options

    several = [verb for verb in VERBS if verb.object in LISTED[1:]]
    assert len(several) > 15
    for verb in several:
        needed = "".join(f"\n{key.name}: 1" for key in verb.options if key.required)
        listed = "".join(
            f"\n{key.name}: X[0, 1], Y[max(0, 1)] = 2"
            for key in verb.options
            if key.form in (ValueForm.REFERENCES, ValueForm.MEMORY)
        )
        scalar = f"{verb.name}: A[s], B[min(s, 1), 0]@1 = t{needed}{listed}"
        as_list = scalar.replace("A[s], B[min(s, 1), 0]@1 = t", '["A[s]", "B[min(s, 1), 0]@1 = t"]')
        as_list = as_list.replace("X[0, 1], Y[max(0, 1)] = 2", '["X[0, 1]", "Y[max(0, 1)] = 2"]')
        assert told(scalar) == told(as_list)
        assert len(told(scalar)[0]) == 2


def test_items_of_a_scalar_have_their_places():
    root, _ = parse_text("issue: mma(A[t], B[t, 1])\n")
    assert isinstance(root, Mapping)
    value = root.entries[0].value
    assert isinstance(value, Scalar)
    found = listing.items(value, "mma")
    assert [(item.text, item.span.start_column, item.span.end_column) for item in found] == [
        ("A[t]", 12, 16), ("B[t, 1]", 18, 25),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["- load: A[0],", "- load: A[0],, B[0]", "- issue: mma()\n  as: g"]
)
def test_an_empty_item_is_a_fault(text: str):
    body = "\n        ".join(text.split("\n"))
    family, errors = decode_text(HEAD + f"        {body}\n", "k.yaml")
    assert family is None
    assert any("must be a reference, not nothing" in error.headline for error in errors)


def test_line_breaks_and_all_else_stay():
    text = "a: 1  # x\r\nb:\r\n- {wait: f[0], parity: 0}  # y\r\n\r\n# end"
    found = "a: 1  # x\r\nb:\r\n- wait: f[0]               # y\r\n  parity: 0\r\n\r\n# end"
    assert standard_form(text) == (found, [])


def test_what_cannot_be_read_stays_as_it_is():
    text = "a: [b\n"
    found, errors = standard_form(text)
    assert found == text and errors


UNREADABLE = {
    "TTN004": "titan: 1\n",
    "TTN011": "policies: *nowhere\n",
    "TTN001": "policies: !!str warn\n",
    "TTN008": "? [policies]\n: warn\n",
}


@pytest.mark.parametrize(("code", "more"), UNREADABLE.items(), ids=list(UNREADABLE))
def test_what_verify_cannot_read_is_not_rewritten(
    code: str, more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Also where there is a tree: what it would say with the fault mended is not known."""
    path = tmp_path / "k.yaml"
    for text in (HEAD + more, OLD + more):
        path.write_text(text, encoding="utf-8")
        for command in (["verify"], ["fmt", "--check"], ["fmt"]):
            assert run([*command, str(path)]) == 2, command
            assert code in capsys.readouterr().out
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("kind", ["kernel: k", "loop: l", "tile: t"])
def test_another_version_is_not_rewritten(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "k.yaml"
    for version, exit_code in ((1, 0), (2, 2), (99, 2)):
        path.write_text(f"titan: {version}\n{kind}\n", encoding="utf-8")
        assert run(["fmt", "--check", str(path)]) == exit_code
        assert ("TTN016" in capsys.readouterr().out) == (exit_code == 2)


OLD = HEAD + "        - {release: ring[t], when: t >= 0}   # all\n"
NEW = HEAD + "        - release: ring[t]                   # all\n          when: t >= 0\n"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "k.yaml"
    path.write_text(OLD, encoding="utf-8")
    path.chmod(0o640)
    assert run(["fmt", "--check", str(path)]) == 1
    assert path.read_text(encoding="utf-8") == OLD
    assert run(["fmt", "--diff", str(path)]) == 1
    assert "+        - release: ring[t]  " in capsys.readouterr().out
    assert run(["fmt", str(tmp_path)]) == 0
    assert path.read_text(encoding="utf-8") == NEW
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(["fmt", "--check", str(path)]) == 0


def test_a_fault_in_one_file_does_not_keep_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "a.yaml").write_text("titan: 1\nkernel: [", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(OLD, encoding="utf-8")
    assert run(["fmt", str(tmp_path)]) == 2
    assert (tmp_path / "b.yaml").read_text(encoding="utf-8") == NEW
    assert "TTN001" in capsys.readouterr().out


def test_verify_notes_what_others_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "k.yaml"
    path.write_text(OLD, encoding="utf-8")
    run(["verify", "--format", "json", str(path)])
    shown = capsys.readouterr()
    assert f"note: {path}:24:21: `ring[t]` is read by TITAN only; `titan fmt`" in shown.err
    assert "read by TITAN only" not in shown.out
