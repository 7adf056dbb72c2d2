"""A native core that was built from other sources is refused in one sentence."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from titan.cli import main
from titan.cli.doctor import doctor
from titan.cli.exit_code import ExitCode
from titan.foundation import native_core
from titan.foundation.fingerprint import fingerprint
from titan.foundation.native_core import StaleCoreError, check_core

PACKAGES = ("titan.engines.explore", "titan.scheduling", "titan.isa.simt")
KERNEL = Path(__file__).resolve().parents[2] / "protocols" / "bulk_copy.yaml"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_core_carries_the_fingerprint_of_its_sources(package: str) -> None:
    core = pytest.importorskip(f"{package}._core")
    folder = Path(str(importlib.import_module(package).__file__)).parent
    check_core(core, folder)
    assert core.ffi.string(core.lib.titan_fingerprint()).decode() == fingerprint(folder)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_core_of_other_sources_is_refused(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(f"{package}._core")
    monkeypatch.setattr(native_core, "expected", lambda folder: "0123456789abcdef")
    module = "search" if package.endswith("explore") else "native"
    with pytest.raises(StaleCoreError, match=f"{package} was built from other tables: run `make"):
        importlib.import_module(f"{package}.{module}").core()


def test_a_core_without_a_fingerprint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "core.c").write_text("int core;\n", encoding="utf-8")
    old = SimpleNamespace(lib=SimpleNamespace(), ffi=None, __name__="titan.old._core")
    with pytest.raises(StaleCoreError, match=r"titan\.old"):
        check_core(old, tmp_path)  # type: ignore[arg-type]


def test_every_source_and_table_counts(tmp_path: Path) -> None:
    assert fingerprint(tmp_path) == "", "nothing to compare with"
    (tmp_path / "native").mkdir()
    seen = set()
    for name in ("native/core.c", "native/core.h", "layout.py", "_build_core.py"):
        (tmp_path / name).write_text("one\n", encoding="utf-8")
        seen.add(fingerprint(tmp_path))
        (tmp_path / name).write_text("two\n", encoding="utf-8")
        seen.add(fingerprint(tmp_path))
    assert len(seen) == 8 and "" not in seen


def test_commands_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("titan.engines.explore._core")
    monkeypatch.setattr(native_core, "expected", lambda folder: "0123456789abcdef")
    assert main.run(["verify", str(KERNEL)]) == ExitCode.BAD_INPUT
    told = capsys.readouterr()
    assert "was built from other tables: run `make setup`" in told.out + told.err
    assert "bug in titan" not in told.out + told.err
    shown = CliRunner().invoke(doctor)
    assert "built from other sources, run `make setup`" in shown.output
    assert shown.exit_code == ExitCode.BAD_INPUT
