"""`-`: commands that read files read standard input, as what it holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.kernels import certificate
from titan.cli.exit_code import ExitCode
from titan.foundation.resources import root

RING = root("examples") / "ring.yaml"


def piped(folder: Path, *words: str, given: bytes) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that gets these bytes."""
    done = subprocess.run(
        [sys.executable, "-m", "titan", *words], cwd=folder, input=given, capture_output=True,
        check=False, env={"PYTHONPATH": str(root("examples").parent)},
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("verify", "-"), "VERIFIED ring (<stdin>)"),
        (("verify", "-", str(RING)), "2 kernels: 2 verified"),
        (("verify", "-", "--html", "page.html"), "VERIFIED ring (<stdin>)"),
        (("fences", "-"), "ring (<stdin>)"),
        (("fmt", "--check", "-"), ""),
        (("export", "--tiles", "2", "-"), "proctype"),
    ],
)
def test_a_kernel_file(words, shown, tmp_path):
    code, output, errors = piped(tmp_path, *words, given=RING.read_bytes())
    assert (code, shown in output) == (ExitCode.VERIFIED, True), output + errors


@pytest.mark.parametrize(
    ("words", "given", "shown"),
    [
        (("schedule", "-"), "protocols/loops/toy_gemm.yaml", "toy_gemm on toy_hopper"),
        (
            ("build", "-", "--no-compile", "--no-cache", "--target", "sm_90a"),
            "protocols/tiles/row_sum.yaml",
            "BUILT row_sum (<stdin>)",
        ),
    ],
)
def test_a_loop_and_a_tile_program(words, given, shown, tmp_path):
    text = (root("examples").parent / given).read_bytes()
    code, output, errors = piped(tmp_path, *words, given=text)
    assert (code, shown in output) == (ExitCode.VERIFIED, True), output + errors


def test_a_certificate_and_a_trace(tmp_path):
    text = certificate("mi300_gemm").encode()
    code, output, errors = piped(tmp_path, "check", "-", given=text)
    assert (code, output.startswith("proved: <stdin>: mi300_gemm")) == (0, True), errors
    assert piped(tmp_path, "check", "-", given=text[:-2])[0] == ExitCode.BAD_INPUT
    code, _, errors = piped(tmp_path, "check", "-", given=b"{}")
    assert code == ExitCode.BAD_INPUT and "line 1: the first line is not" in errors
    kernel = (root("examples") / "early_release.yaml").read_bytes()
    assert piped(tmp_path, "verify", "-", given=kernel)[0] == ExitCode.REFUTED
    (trace,) = (tmp_path / ".titan" / "traces").iterdir()
    code, output, errors = piped(tmp_path, "replay", "-", given=trace.read_bytes())
    assert code == ExitCode.REFUTED and "confirmed: " in output, errors


PTX = (
    b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n.reqntid 32\n{\nret;\n}\n"
)
TTGIR = b'#blocked = #ttg.blocked<{order = [0]}>\nmodule attributes {"ttg.num-warps" = 4 : i32} {\n'
ASSEMBLY = b'\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.text\nf:\n\ts_nope\n'


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (PTX, ExitCode.VERIFIED, "VERIFIED k (<stdin>)"),
        (PTX.replace(b"ret", b"rte"), ExitCode.BAD_INPUT, "<stdin>:7:1"),
        (TTGIR, ExitCode.BAD_INPUT, "<stdin>"),
        (ASSEMBLY, ExitCode.BAD_INPUT, "unknown instruction `s_nope`"),
        (b"", ExitCode.BAD_INPUT, "<stdin>:1:1"),
        (b"titan: 1\nkernel: caf\xe9\n", ExitCode.BAD_INPUT, "<stdin>:2:12"),
    ],
)
def test_what_it_holds_is_known_by_its_text(text, code, shown, tmp_path):
    found, output, errors = piped(tmp_path, "verify", "-", given=text)
    assert found == code, output + errors
    assert shown in output + errors
    assert not list(tmp_path.iterdir())


def test_fixed_fences_are_not_written_to_a_file_of_that_name(tmp_path):
    code, _, errors = piped(tmp_path, "fences", "--fix", "-", given=RING.read_bytes())
    assert code == ExitCode.BAD_INPUT and "--output" in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["verify", "fmt", "lift", "fences", "mutants"])
def test_a_closed_stream_is_bad_input(command, tmp_path):
    line = f'"{sys.executable}" -m titan {command} - <&-'
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(root("examples").parent)},
    )  # fmt: skip
    assert done.returncode == ExitCode.BAD_INPUT
    assert "standard input: it is closed" in done.stderr
