"""`titan verify --certificate` and `titan check`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.verify.legality.kernels import kernel_of, text
from titan.cli.main import run
from titan.proof.write import write
from titan.sync.policies import POLICY_WORDS
from titan.verify.lowering import sync_program

MULTIPLIES = text(
    target="sm_100a", roles="{w: {threads: 1}}", queues="{q: tcgen05}", barriers="{done: 1}",
    buffers="{A: {bytes: 64, initial: 0}, T: {space: tensor, bytes: 64}}",
    program="{w: [{mma: A = 0, into: T = 0, queue: q}, {commit: q, arrives: done}, "
    "{wait: done, phase: 0}, {store: A = 1}]}",
)  # fmt: skip
PROTOCOLS = Path(__file__).resolve().parents[2] / "protocols"
KERNEL = str(PROTOCOLS / "mi300_gemm.yaml")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("certificates")
    path = str(folder / "kernel.cert")
    assert run(["verify", KERNEL, "--certificate", path, "--save-trace", str(folder)]) == 0
    return path


def test_a_certificate_is_proved_and_says_what_it_covers(
    certificate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", certificate, "--kernel", KERNEL]) == 0
    shown = capsys.readouterr().out
    assert "tiles any number from 0" in shown
    assert "mi300_gemm for gfx942" in shown


def test_a_certificate_of_another_kernel_is_refused(
    certificate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", certificate, "--kernel", str(PROTOCOLS / "mi300_pingpong.yaml")]) == 2
    assert "certifies another program" in capsys.readouterr().err


def test_a_changed_certificate_is_refused(
    certificate: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed.cert"
    changed.write_text(Path(certificate).read_text("utf-8").replace("one a0", "one a1", 1), "utf-8")
    assert run(["check", str(changed), str(tmp_path / "missing.cert")]) == 2
    shown = capsys.readouterr()
    assert "refused" in shown.err and "cannot be read" in shown.err
    assert "proved" not in shown.out


def test_every_reading_that_is_not_the_default_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = sync_program(kernel_of(MULTIPLIES)).program
    for name, words in POLICY_WORDS.items():
        word = False if name == "war_fence" else words[-1]
        chosen = replace(program, policies=replace(program.policies, **{name: word}))
        path = tmp_path / f"{name}.cert"
        path.write_text(write(chosen), "utf-8")
        assert run(["check", str(path)]) == 0
        shown = capsys.readouterr().out
        assert f"{name} {words[-1]}" in shown
        assert ("operands of tcgen05" in shown) == (name == "tensor")


def test_a_kernel_without_a_certificate_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(write, states_max=20)
    monkeypatch.setattr("titan.proof.write.write", few)
    path = tmp_path / "gemm.cert"
    arguments = ["verify", str(PROTOCOLS / "mi300_gemm.yaml"), "--certificate", str(path)]
    assert run([*arguments, "--save-trace", str(tmp_path)]) == 3
    told = "no certificate for mi300_gemm: more than 20 configurations"
    assert told in capsys.readouterr().err
    assert not path.exists()


def test_the_questions_of_typestate_are_archived_and_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cvc5")
    arguments = ["verify", str(PROTOCOLS / "hopper_gemm.yaml"), "--save-trace", str(tmp_path)]
    assert run([*arguments, "--certificate", str(tmp_path / "kernel.cert")]) == 0
    assert "confirmed by cvc5" in capsys.readouterr().err
    asked = (tmp_path / "hopper_gemm.smt2").read_text("utf-8")
    assert "(set-info :status unsat)" in asked
    proofs = (tmp_path / "hopper_gemm.alethe").read_text("utf-8")
    assert proofs.count("(step") >= asked.count("(check-sat)") > 10
    assert "time 0 " in (tmp_path / "hopper_gemm.times").read_text("utf-8")


def test_certificates_of_code_are_all_that_is_said(tmp_path, capsys):
    """The kernels of code are no kernel files, and are not counted as such."""
    launch = tmp_path / "launch.yaml"
    launch.write_text("{grid: 1, dynamic_shared: 0, parameters: {source: pointer, n: 2}}")
    code = PROTOCOLS.parent / "tests/frontends/ptx/ring.ptx"
    path = str(tmp_path / "ring.certs")
    assert run(["verify", str(code), "--launch", str(launch), "--certificate", path]) == 0
    assert capsys.readouterr().err == f"certificate: {path}\n"
