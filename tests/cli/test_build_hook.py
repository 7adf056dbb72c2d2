"""The build hook compiles cores outside of the tree, and goes on without when it cannot."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build

SCRIPT = """
from cffi import FFI

def builder(*flags):
    ffi = FFI()
    ffi.cdef("int titan_answer(void);")
    text = "int titan_answer(void); int titan_answer(void) {{ {body} }}"
    ffi.set_source("titan.engines.explore._core", text, extra_compile_args=["-Wall", *flags])
    return ffi
"""
needs_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("cc") is None, reason="no C compiler"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "titan" / "engines" / "explore"
    folder.mkdir(parents=True)
    for name in ("protocols", "litmus", "backends"):
        (tmp_path / name).mkdir()
    return tmp_path


def write(project: Path, body: str = "return 42;") -> None:
    text = SCRIPT.format(body=body)
    (project / "titan/engines/explore/_build_core.py").write_text(text, encoding="utf-8")


LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("titan.engines.explore._core", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.lib.titan_answer())
"""


def answer(path: Path) -> int:
    # In a process of its own: a module of this name would stand in for the real core afterwards.
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@needs_compiler
def test_a_core_is_compiled_into_the_tree(project):
    write(project)
    (place,) = hatch_build.build_in_place(project)
    assert place.startswith("titan/engines/explore/_core.")
    assert answer(project / place) == 42
    left = {path.name for path in (project / "titan/engines/explore").iterdir()}
    assert left == {"_build_core.py", Path(place).name}, "nothing else is left in the tree"


def test_no_script_no_core(project, capsys):
    assert hatch_build.build_in_place(project) == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", ["compiler", "source"])
def test_what_cannot_be_compiled_is_left_out_with_a_message(project, fault, monkeypatch, capfd):
    write(project, "return 42;" if fault == "compiler" else "nonsense")
    if fault == "compiler":
        monkeypatch.setenv("CC", "/nonexistent/compiler")
    monkeypatch.delenv("TITAN_REQUIRE_CORE", raising=False)
    assert hatch_build.build_in_place(project) == []
    assert "the native core of explore is not built" in capfd.readouterr().err
    monkeypatch.setenv("TITAN_REQUIRE_CORE", "1")
    with pytest.raises(RuntimeError, match=r"_build_core\.py failed"):
        hatch_build.build_in_place(project)


@needs_compiler
def test_a_warning_is_an_error_where_the_core_is_required(project, monkeypatch):
    write(project, "int never; return 42;")
    monkeypatch.delenv("TITAN_REQUIRE_CORE", raising=False)
    assert hatch_build.build_in_place(project) != []
    monkeypatch.setenv("TITAN_REQUIRE_CORE", "1")
    with pytest.raises(RuntimeError, match=r"_build_core\.py failed"):
        hatch_build.build_in_place(project)


@pytest.mark.parametrize(("later", "built"), [("", True), ("1", False)])
def test_an_editable_install_compiles_them_unless_its_caller_does(
    later, built, project, monkeypatch
):
    called = []
    monkeypatch.setattr(hatch_build, "build_in_place", called.append)
    monkeypatch.setenv("TITAN_CORES_LATER", later)
    hook = object.__new__(hatch_build.CustomBuildHook)
    monkeypatch.setattr(hatch_build.CustomBuildHook, "target_name", "wheel", raising=False)
    monkeypatch.setattr(hatch_build.CustomBuildHook, "root", str(project), raising=False)
    hook.initialize("editable", {})
    assert called == ([project] if built else [])
