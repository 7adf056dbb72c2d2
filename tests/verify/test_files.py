"""Which files of a folder are kernels: all that are kernels to who names them.

Every way of writing one kernel that the parser takes, or refuses with a diagnostic of the kernel,
has to be found in a folder; and what other tools write must not be.
"""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from titan.cli.main import run
from titan.verify import files
from titan.verify.files import TooManyFiles, find_kernels, kind_of
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_kernel_file

RACES = """\
titan: 1
kernel: two_warps
target: sm_90a
buffers: {X: {bytes: 64}}
roles: {w: {warps: 2}}
program: {w: [{store: X}]}
"""
BRACES = "{" + ", ".join(RACES.splitlines()) + "}\n"
WRITTEN = {
    "as usual": RACES,
    "with the mark of UTF-8": "\ufeff" + RACES,
    "behind a long comment": ("# " + "x" * 90 + "\n") * 1000 + RACES,
    "with a directive": "%YAML 1.2\n---\n" + RACES,
    "indented": "".join(f"  {line}\n" for line in RACES.splitlines()),
    "in braces": BRACES,
    "in braces behind a mark": "--- " + BRACES,
    "with quotes": RACES.replace("titan:", '"titan":').replace("kernel:", "'kernel':"),
    "with spaces": RACES.replace("titan:", "titan :"),
    "with an anchor": RACES.replace("titan:", "&version titan:"),
    "with explicit keys": RACES.replace("titan: 1", "? titan\n: 1"),
    "with escapes": RACES.replace("titan:", '"t\\x69tan":'),
    "with returns for line ends": RACES.replace("\n", "\r"),
    "with both": RACES.replace("\n", "\r\n"),
    "last": "\n".join([*RACES.splitlines()[1:], "titan: 1", ""]),
}
FAULTY = {
    "of another level": RACES + "loop: x\n",
    "of a third level": RACES + "tile: x\n",
    "without a version": RACES.replace("titan: 1\n", ""),
    "with a key of few letters": RACES.replace("titan:", "titn:"),
    "with a tag": RACES.replace("titan:", "!!str titan:"),
    "no YAML": RACES + "x: [\n",
    "with tabs": RACES.replace("{w: [", "\n\tw: ["),
}
FOREIGN = {
    "of a cluster": "apiVersion: v1\nkind: Pod\nmetadata:\n  titan: 1\n  kernel: x\n  program: y\n",
    "of a job": "kernel: 6.1\nimages:\n  - titan: latest\n",
    "a template": "{{ if titan }}\nx: 1\n{{ end }}\n",
    "a list": "- titan: 1\n- kernel: k\n",
    "empty": "",
    "words": "a titan: of text\n  titan: 1\n",
    "bytes": "\x00\x01\x02",
}


def written(folder: Path, text: str, name: str = "k.yaml") -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_kernel_is_found_however_it_is_written(name: str, tmp_path: Path):
    path = written(tmp_path, WRITTEN[name])
    assert read_kernel_file(path, VerifyOptions()).family is not None, "it is a kernel"
    assert kind_of(path) == "kernel"
    assert find_kernels([str(tmp_path)]).kernels == [path]


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_one_is_found(name: str, tmp_path: Path):
    path = written(tmp_path, FAULTY[name])
    file = read_kernel_file(path, VerifyOptions())
    assert file.family is None and file.errors
    assert find_kernels([str(tmp_path)]).kernels == [path]


def test_one_in_another_encoding_is_found(tmp_path: Path):
    path = tmp_path / "k.yaml"
    path.write_bytes(codecs.BOM_UTF16_LE + RACES.encode("utf-16-le"))
    assert find_kernels([str(tmp_path)]).kernels == [str(path)]


@pytest.mark.parametrize("name", FOREIGN)
def test_what_other_tools_write_is_left_alone(name: str, tmp_path: Path):
    written(tmp_path, FOREIGN[name])
    assert find_kernels([str(tmp_path)]).kernels == []


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YAML", ".Yml"])
@pytest.mark.parametrize("command", ["verify", "gate"])
def test_a_folder_hides_no_refuted_kernel(command: str, suffix: str, tmp_path: Path, capsys):
    right = RACES.replace("{warps: 2}", "{warps: 1}")
    written(tmp_path, right, "right.yaml")
    assert run([command, str(tmp_path)]) == 0
    written(tmp_path, WRITTEN["with the mark of UTF-8"], f"wrong{suffix}")
    assert run([command, str(tmp_path)]) == 1
    assert f"wrong{suffix}" in "".join(capsys.readouterr())


def test_loops_and_tile_programs_are_not_kernels(tmp_path: Path):
    loop = written(tmp_path, "titan: 1\nloop: a\n", "a.yaml")
    tile = written(tmp_path, "titan: 1\ntile: b\nloop: {k: 1}\n", "b.yaml")
    found = find_kernels([str(tmp_path)])
    assert (found.kernels, found.loops, found.tiles) == ([], [loop], [tile])


def test_files_beyond_a_limit_are_not_left_out_silently(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(files, "FILES_MAX", 2)
    for number in range(3):
        written(tmp_path, RACES, f"{number}.yaml")
    with pytest.raises(TooManyFiles):
        find_kernels([str(tmp_path)])
    assert run(["verify", str(tmp_path)]) == 2
    assert "more than 2 files" in capsys.readouterr().err
