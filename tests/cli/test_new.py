"""What `titan new` writes verifies as it stands, for every target and shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.verdict import Verdict
from titan.language.kernel.standard import standard_form
from titan.language.kernel.template import CHAINED, COPIED_AHEAD, TARGETS, Wishes, kernel_text
from titan.verify.fences import load
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_kernel_file, verify_each

THREE = ("loader", "softmax", "writer")
SHAPES = [
    *(Wishes("k", target) for target in TARGETS),
    Wishes("k", "sm_90a", 1, THREE, ("scores", "results")),
    *(Wishes("k", target, 2) for target in COPIED_AHEAD),
]


def verified(wishes: Wishes, folder: Path) -> None:
    path = folder / "k.yaml"
    text = kernel_text(wishes)
    path.write_text(text, encoding="utf-8")
    assert standard_form(text) == (text, [])
    file = read_kernel_file(str(path), VerifyOptions(require="any", save_traces=None))
    for finding in verify_each(file, VerifyOptions(require="any", save_traces=None)):
        assert finding.verdict is Verdict.VERIFIED, [d.headline for d in finding.diagnostics]
        assert all(values is None for _, values in finding.coverage.parameters)


@pytest.mark.parametrize("wishes", SHAPES, ids=lambda w: f"{w.target}-{w.depth}-{len(w.roles)}")
def test_what_is_written_verifies(wishes: Wishes, tmp_path: Path):
    verified(wishes, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("target", CHAINED)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_more_shapes_verify(target: str, depth: int, count: int, tmp_path: Path):
    roles = tuple(f"role{n}" for n in range(count))
    verified(
        Wishes("k", target, depth, roles, tuple(f"ring{n}" for n in range(count - 1))), tmp_path
    )


@pytest.mark.parametrize("target", CHAINED)
def test_every_shape_has_a_program(target: str):
    for count in (2, 3, 6):
        rings = tuple(f"ring{n}" for n in range(count - 1))
        wishes = Wishes("k", target, 3, tuple(f"r{n}" for n in range(count)), rings)
        loaded = load(kernel_text(wishes), "k.yaml", VerifyOptions())
        assert len(loaded.programs[0].roles) == count


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "mine.yaml"
    assert run(["new", "mine", "-o", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert "kernel: mine" in text and "# " in text
    assert run(["new", "mine", "-o", str(path)]) == 2
    assert run(["new", "mine", "-o", str(path), "--force", "--depth", "2"]) == 0
    assert "depth: 2" in path.read_text(encoding="utf-8")
    capsys.readouterr()
    assert run(["new", "mine"]) == 0
    assert capsys.readouterr().out == text
    assert run(["new", str(tmp_path / "other.yaml")]) == 0
    assert "kernel: other" in (tmp_path / "other.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--target", "sm_90b"], "did you mean `sm_90a`"),
        (["--target", "gfx1100"], "did you mean"),
        (["--target", "gfx942", "--roles", "a,b"], "have no roles"),
        (["--roles", "a"], "2 to 6 roles"),
        (["--roles", "a,b,c", "--rings", "r"], "3 roles have 2 rings"),
        (["--roles", "a,a"], "`a` cannot be used as a name"),
        (["--roles", "a,tiles"], "`tiles` cannot be used as a name"),
        (["--roles", "min,b"], "`min` cannot be used as a name"),
        (["--roles", "a,b c"], "'b c' is not a valid name"),
        (["9lives"], "'9lives' is not a valid name"),
    ],
)
def test_what_cannot_be_is_told(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["new", *arguments]) == 2
    assert told in capsys.readouterr().err
