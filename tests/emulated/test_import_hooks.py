"""Changes to modules that a program imports, and to those that it has imported before."""

from __future__ import annotations

import importlib
import sys

import pytest

from titan.emulated.import_hooks import ImportHooks


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "titan_sample").mkdir()
    (tmp_path / "titan_sample" / "__init__.py").write_text("")
    (tmp_path / "titan_sample" / "part.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "titan_sample.part"
    for name in ("titan_sample", "titan_sample.part"):
        sys.modules.pop(name, None)


def doubled(module):
    module.value *= 2


def test_a_module_is_changed_when_it_is_imported(package):
    with ImportHooks({package: doubled}):
        assert package not in sys.modules, "nothing is imported for the sake of it"
        assert importlib.import_module(package).value == 2
        assert importlib.import_module(package).value == 2, "once"
    del sys.modules[package]
    assert importlib.import_module(package).value == 1, "and not behind the program"


def test_what_was_imported_before_is_changed_at_once(package):
    found = importlib.import_module(package)
    with ImportHooks({package: doubled}):
        assert found.value == 2


def test_a_module_that_is_not_there_is_not_found(package):
    with ImportHooks({"titan_sample.none": doubled}), pytest.raises(ModuleNotFoundError):
        importlib.import_module("titan_sample.none")
