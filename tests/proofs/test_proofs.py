"""The Coq files compile, rest on no axiom, leave nothing open, and are all stated in the docs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.proofs.check_module import ROOT, check_module

CHECK = ROOT / "proofs" / "check.py"
needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="there is no coqc")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return check_module()


@needs_coq
@pytest.mark.heavy  # `make proofs`, which CI runs
@pytest.mark.timeout(600)
def test_all_theorems_are_proved() -> None:
    command = [sys.executable, str(CHECK), str(ROOT / "build" / "proofs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no axioms" in done.stdout


@needs_coq
@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_the_kernel_alone_accepts_all_that_is_used() -> None:
    command = [sys.executable, str(CHECK), "--kernel", str(ROOT / "build" / "proofs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_text_is_checked_without_coq(check: ModuleType) -> None:
    page = (ROOT / "docs" / "explanation" / "proofs.md").read_text("utf-8")
    assert check.faults_of_text(check.sources(), page) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Theorem t : True. Proof. Admitted.", "Admitted"),
        ("Axiom a : False. Theorem t : True. Proof. easy. Qed.", "Axiom"),
        ("Parameter a : False. Theorem t : True. Proof. easy. Qed.", "Parameter"),
        ("Theorem u : True. Proof. easy. Qed.", "theorem u is not stated"),
        ("Lemma l : True. Proof. easy. Qed. Theorem t : True. Proof. easy. Qed.", "lemma l"),
    ],
)
def test_a_planted_fault_is_found(check: ModuleType, tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "Planted.v"
    path.write_text(text, "utf-8")
    found = check.faults_of_text([path], "`t` says nothing")
    assert len(found) == 1
    assert fault in found[0]


def test_what_stands_in_comments_does_not_count(check: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "Clean.v"
    path.write_text("(* no Axiom, nothing Admitted *) Theorem t : True. Proof. easy. Qed.", "utf-8")
    assert check.faults_of_text([path], "`t`") == []


@needs_coq
def test_an_axiom_that_the_text_hides_is_found(check: ModuleType, tmp_path: Path) -> None:
    hidden = "From Coq Require Import Classical.\nTheorem t (P : Prop) : P \\/ ~ P.\n"
    path = tmp_path / "Hidden.v"
    path.write_text(hidden + "Proof. apply classic. Qed.\n", "utf-8")
    check.compile_all([path], tmp_path / "out")
    assert check.assumptions([path], tmp_path / "out")


@needs_coq
def test_a_proof_that_fails_is_a_failure(check: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "Wrong.v"
    path.write_text("Theorem t : 1 = 2.\nProof. reflexivity. Qed.\n", "utf-8")
    with pytest.raises(SystemExit, match="fails"):
        check.compile_all([path], tmp_path / "out")


@needs_coq
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_files_compile_side_by_side_but_after_what_they_rest_on(
    check: ModuleType, tmp_path: Path, workers: int
) -> None:
    """A diamond: nothing starts early, and a change compiles what rests on it, and no more."""
    texts = {
        "Base": "Definition one := 1.",
        "Left": "From Titan Require Import Base.\nDefinition two := one + one.",
        "Right": "From Titan Require Import Base.\nDefinition three := 2 + one.",
        "Top": "From Titan Require Import Left Right.\nDefinition five := two + three.",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.v").write_text(text + "\n", "utf-8")
    out, paths = tmp_path / "out", check.sources(tmp_path)
    check.compile_all(paths, out, workers)
    made = {name: (out / f"{name}.vo").stat().st_mtime_ns for name in texts}
    (tmp_path / "Left.v").write_text(texts["Left"] + " (* changed *)\n", "utf-8")
    check.compile_all(paths, out, workers)
    again = {name for name in texts if (out / f"{name}.vo").stat().st_mtime_ns != made[name]}
    assert again == {"Left", "Top"}
    (tmp_path / "Left.v").write_text("From Titan Require Import Base.\nFail.\n", "utf-8")
    with pytest.raises(SystemExit, match="fails"):
        check.compile_all(paths, out, workers)
    assert not (out / "Left.vo").exists()
    assert not (out / "Top.vo").exists()
    assert (out / "Right.vo").exists()
