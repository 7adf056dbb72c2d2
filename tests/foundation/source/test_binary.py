"""Files that are no text are named as what they are, by every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.exit_code import ExitCode
from titan.cli.main import run
from titan.foundation.resources import root
from titan.foundation.source.binary import binary_kind


def elf(machine: int) -> bytes:
    """How an ELF file for a machine begins."""
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(200)


BINARY = (
    (elf(190), "a cubin", "cuobjdump -ptx"),
    (elf(224), "a code object", "llvm-objdump -d"),
    (elf(62), "(ELF)", "cuobjdump -ptx"),
    (b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(30), "fat binary", "cuobjdump -ptx"),
    (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(30), "bundle of code objects", "-S"),
    (b"BC\xc0\xde5\x14", "bitcode", "llc"),
    (b"\x1f\x8b\x08\x00", "gzip", "unpack"),
    ("\ufefftitan: 1\n".encode("utf-16-le"), "UTF-16", "iconv"),
)
READERS = (
    ("verify", "k.yaml"), ("verify", "k.ptx"), ("verify", "k.s"), ("verify", "k.ttgir"),
    ("verify", "k.cubin"), ("lift", "k.ptx"), ("schedule", "k.yaml"), ("fmt", "k.yaml"),
    ("litmus", "check", "k.litmus"), ("litmus", "list", "k.litmus"), ("inspect", "k.ptx"),
)  # fmt: skip


@pytest.mark.parametrize("words", READERS)
@pytest.mark.parametrize(("data", "named", "tool"), BINARY)
def test_a_reader_names_the_kind(words, data, named, tool, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(words[-1]).write_bytes(data)
    assert run([*words]) == ExitCode.BAD_INPUT
    shown = "".join(capsys.readouterr())
    assert named in shown and "not valid UTF-8" not in shown
    if words[0] in ("verify", "lift", "schedule", "fmt"):
        assert tool in shown


def test_no_text_of_the_library_begins_like_one():
    folders = [root(name) for name in ("protocols", "litmus", "examples", "backends")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 300
    assert not [path for path in files if binary_kind(path.read_bytes()[:64])]


@pytest.mark.parametrize("name", ["k.litmus", "k.yaml", "k.txt"])
def test_a_list_of_tests_holds_tests(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("hello world\n")
    assert run(["litmus", "list", name]) == ExitCode.BAD_INPUT
    shown = capsys.readouterr()
    assert not shown.out and f"{name}:1:1" in shown.err
