"""The kind of a file: by its suffix, and by its text where the suffix says nothing."""

import pytest

from titan.frontends.open import is_assembly, is_code, is_ttgir, open_files

TEXTS = {
    "ptx": "// of a compiler\n.version 8.3\n.target sm_90\n",
    "ttgir": "#blocked = #ttg.blocked<{}>\nmodule {\n",
    "assembly": '\t.text\n\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n',
    "kernel": "titan: 1\nkernel: ring\n",
}
SUFFIXES = {
    ".ptx": "ptx",
    ".ttgir": "ttgir",
    ".s": "assembly",
    ".amdgcn": "assembly",
    ".yaml": "kernel",
}


def kind(path: str) -> str:
    found = [name for name, test in KINDS.items() if test(path)]
    assert len(found) <= 1
    return found[0] if found else "kernel"


KINDS = {
    "ptx": lambda path: is_code(path) and not is_assembly(path),
    "assembly": lambda path: is_code(path) and is_assembly(path),
    "ttgir": is_ttgir,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("suffix", ["", ".txt", ".mlir", ".asm", ".PTX"])
def test_the_text_decides_where_the_suffix_says_nothing(name, suffix, tmp_path):
    path = tmp_path / f"name{suffix}"
    path.write_text(TEXTS[name])
    assert kind(str(path)) == name


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_suffix_that_is_known_decides(name, suffix, tmp_path):
    path = tmp_path / f"name{suffix}"
    path.write_text(TEXTS[name])
    assert kind(str(path)) == SUFFIXES[suffix]


@pytest.mark.parametrize("suffix", ["", ".txt", *SUFFIXES])
def test_folders_and_what_is_missing(suffix, tmp_path):
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    opened = open_files([str(folder)])
    assert not opened.code and not opened.ttgir
    missing = str(tmp_path / f"missing{suffix}")
    assert kind(missing) == SUFFIXES.get(suffix, "kernel")
