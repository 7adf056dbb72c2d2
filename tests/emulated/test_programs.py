"""`titan run` on Python scripts: what they compute, what is reported, exit codes."""

from __future__ import annotations

import sys

import pytest

from tests.emulated.test_machine import EXCHANGE, SCALE
from titan.cli.main import run

SCRIPT = """
import sys
import numpy as np
import titan.device
from titan.isa.numbers.device import LaunchShape

PTX = '''{ptx}'''
device = titan.device.Emulated()
x = device.array(np.arange(64, dtype=np.float32))
device.launch(PTX, LaunchShape((1, 1, 1), (64, 1, 1)), [x{more}])
print("sum", x.values.sum(), sys.argv[1:])
sys.exit({code})
"""


def script(folder, ptx: str, more: str = "", code: int = 0) -> str:
    path = folder / "script.py"
    path.write_text(SCRIPT.format(ptx=ptx, more=more, code=code))
    return str(path)


def test_a_script_runs_with_its_arguments_and_every_launch_is_verified(tmp_path, capsys):
    path = script(tmp_path, SCALE, ", 2.0")
    assert run(["run", "--schedules", "2", path, "--flag", "7"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "sum 4032.0 ['--flag', '7']\n"
    assert shown.err == "titan: 1 launch computed: 1 verified\n"


def test_a_race_ends_the_script_with_its_diagnostic(tmp_path, capsys):
    path = script(tmp_path, EXCHANGE.replace("{between}", ""))
    assert run(["run", path]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error[TTN2" in shown.err and "kernel.ptx:" in shown.err
    assert shown.err.endswith("titan: 0 launches computed: 1 refuted\n")


def test_a_read_of_what_nothing_wrote_ends_the_script(tmp_path, capsys):
    """Both warps read: in every interleaving the same, so only the run shows it."""
    path = script(tmp_path, EXCHANGE.replace("{between}", "").replace("%r1, 32;", "%r1, 0;"))
    assert run(["run", "--check", "all", path]) == 1
    shown = capsys.readouterr()
    assert "error[TTN204]" in shown.err and "ld.shared.u32" in shown.err
    assert "titan: 0 launches computed: 1 refuted" in shown.err, shown.err


def test_checks_can_be_left_out(tmp_path, capsys):
    path = script(tmp_path, SCALE, ", 2.0")
    assert run(["run", "--check", "off", path]) == 0
    assert capsys.readouterr().err == "titan: 1 launch computed: 1 not checked\n"


def test_the_exit_code_of_the_program_is_reported(tmp_path, capsys):
    path = script(tmp_path, SCALE, ", 2.0", code=7)
    assert run(["run", path]) == 1
    assert "the program ended with exit code 7" in capsys.readouterr().err


def test_an_exception_of_the_program_is_shown(tmp_path, capsys):
    path = tmp_path / "script.py"
    path.write_text("raise ValueError('of the program')\n")
    assert run(["run", str(path)]) == 1
    assert "ValueError: of the program" in capsys.readouterr().err


@pytest.mark.parametrize(("module", "hint"), [("cutlass", True), ("no_such_module", False)])
def test_the_extra_that_brings_a_module_is_named(module, hint, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / "script.py"
    path.write_text(f"import {module}\n")
    assert run(["run", str(path)]) == 1
    shown = capsys.readouterr().err
    assert f"No module named '{module}'" in shown or f"import of {module} halted" in shown
    assert ("pip install 'titan-verify[cute]'" in shown) is hint


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["missing.py"], "no such file"),
        (["--policy", "fence_rule=wroter", "missing.py"], "did you mean"),
        (["--device", "h200", "missing.py"], "h100"),
    ],
)
def test_what_cannot_be_run_is_bad_input(arguments, part, capsys):
    assert run(["run", *arguments]) == 2
    assert part in capsys.readouterr().err
