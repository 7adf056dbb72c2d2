"""Data folders are found in a checkout and in a wheel, and a stale copy is never preferred."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from titan.foundation import resources

PARTS = ("__init__", "resources", "version")  # what resources.py needs to be loaded


def test_the_checkout_comes_first():
    here = Path(__file__).resolve().parents[2]
    assert resources.checkout() == here
    for kind in resources.KINDS:
        assert resources.root(kind) == here / kind
        assert resources.root(kind).is_dir()


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="known are protocols"):
        resources.root("secrets")


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        (None, "titan/_data/protocols"),
        ('[project]\nname = "other"\n', "titan/_data/protocols"),
        ("not toml [", "titan/_data/protocols"),
        ('[project]\nname = "titan-verify"\n', "protocols"),
    ],
)
def test_where_a_copy_of_the_package_looks(tmp_path, project, expected):
    package = tmp_path / "titan"
    source = Path(resources.__file__).parents[1]
    (package / "foundation").mkdir(parents=True)
    for name in ("__init__.py", *(f"foundation/{part}.py" for part in PARTS)):
        shutil.copy(source / name, package / name)
    (package / "_data").mkdir()
    if project is not None:
        (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    code = "from titan.foundation.resources import root; print(root('protocols'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert Path(done.stdout.strip()) == tmp_path.resolve() / expected
