"""The command line itself: what is loaded when, exit codes, and faults of the tool."""

import os
import subprocess
import sys
import types

import click
import pytest

from titan import __version__
from titan.cli import main as cli
from titan.cli.exit_code import ExitCode
from titan.cli.main import COMMANDS, CommandEntry, run, titan

HEAVY = [
    "z3",
    "pysmt",
    "networkx",
    "cffi",
    "rich",
    "ruamel",
    "jinja2",
    "numpy",
    "ortools",
    "cvc5",
    "asyncio",
    "titan.foundation.diagnostics",
    "titan.foundation.source",
    "titan.language.kernel",
    "titan.sync",
    "titan.engines.explore",
]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.fixture
def command(monkeypatch):
    """Puts a function into the table of commands, as `titan probe`."""

    def install(function):
        module = types.ModuleType("titan_probe")
        module.__spec__ = types.SimpleNamespace(name="titan_probe")  # type: ignore[assignment]
        module.probe = click.command()(function)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "titan_probe", module)
        monkeypatch.setitem(COMMANDS, "probe", CommandEntry("titan_probe:probe", "A probe."))

    return install


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["explain", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    done = python(
        "import sys\nfrom titan.cli.main import run\n"
        f"code = run({arguments!r})\n"
        f"print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules)))\nsys.exit(code)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("heavy: []")


def test_a_simple_kernel_needs_no_second_parser_and_no_templates():
    heavy = ["ruamel.yaml", "jinja2", "rich", "networkx", "pysmt", "importlib.resources", "difflib"]
    done = python(
        "import sys\nfrom titan.cli.main import run\nrun(['verify', 'protocols/bulk_copy.yaml'])\n"
        f"print('heavy:', sorted(set({heavy!r}) & set(sys.modules)))"
    )
    assert done.stdout.rstrip().endswith("heavy: []"), done.stdout


def test_help_lists_commands_and_exit_codes(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, entry in COMMANDS.items():
        assert (f"\n  {name} " in shown) == entry.available()
    assert "3 undecided" in shown


def test_every_listed_command_loads_and_has_help(capsys):
    for name, entry in COMMANDS.items():
        if entry.available():
            assert run([name, "--help"]) == 0, name
            assert "Usage: titan" in capsys.readouterr().out


def test_every_option_says_what_it_is_for():
    silent = []
    with click.Context(titan) as context:
        for name in titan.list_commands(context):
            command = titan.get_command(context, name)
            for each in getattr(command, "commands", {"": command}).values():
                options = [one for one in each.params if isinstance(one, click.Option)]
                silent += [(name, one.opts) for one in options if not one.help]
    assert silent == []


def test_a_command_without_its_module_is_neither_listed_nor_run(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "ghost", CommandEntry("titan.cli.ghost:ghost", "Not there."))
    needs = CommandEntry("titan.cli.rules:rules", "Lacks something.", "titan.ghost.inner")
    monkeypatch.setitem(COMMANDS, "needs", needs)
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "ghost" not in shown and "needs" not in shown
    assert run(["ghost"]) == ExitCode.BAD_INPUT
    assert run(["needs"]) == ExitCode.BAD_INPUT


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"titan {__version__}")


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["explian"], ["explain"], ["explain", "TTN99x"], ["rules", "--family", "x"]],
)
def test_bad_usage_is_2(arguments, capsys):
    assert run(arguments) == ExitCode.BAD_INPUT
    assert "Error" in capsys.readouterr().err


def test_nearest_command_is_suggested(capsys):
    run(["explian"])
    assert "did you mean `explain`?" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_codes_of_commands_get_through(command, code):
    command(lambda: click.get_current_context().exit(code))
    assert run(["probe"]) == code
    command(lambda: code)
    assert run(["probe"]) == code


def test_interrupt_is_130(command, capsys):
    def interrupted():
        raise KeyboardInterrupt

    command(interrupted)
    assert run(["probe"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def fails():
    raise ZeroDivisionError("the reason\x1b[31m")


def test_a_fault_of_titan_is_4_and_says_so(command, capsys, monkeypatch):
    monkeypatch.delenv("TITAN_DEBUG", raising=False)
    command(fails)
    assert run(["probe"]) == ExitCode.INTERNAL
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "this is a bug in titan: ZeroDivisionError in fails: the reason" in shown.err
    assert "TTN901" in shown.err and f"titan {__version__}" in shown.err
    assert "Traceback" not in shown.err and "\x1b" not in shown.err


def exhausts():
    raise MemoryError


def test_memory_that_runs_out_is_undecided_and_no_bug(command, capsys):
    command(exhausts)
    assert run(["probe"]) == ExitCode.UNDECIDED
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "Error: there is no memory left; try it with smaller sizes\n"


@pytest.mark.parametrize("named", ["gone/out.json", "--result=gone/out.json", "gone"])
def test_a_path_that_the_system_refuses_is_bad_input(named, capsys, monkeypatch, tmp_path):
    """A folder that is not there, also where a draft is written beside what is named."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("titan_probe")
    module.__spec__ = types.SimpleNamespace(name="titan_probe")  # type: ignore[assignment]

    @click.command(context_settings={"ignore_unknown_options": True})
    @click.argument("rest", nargs=-1)
    def probe(rest):
        os.mkdir("gone/.out.json.17")

    module.probe = probe  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "titan_probe", module)
    monkeypatch.setitem(COMMANDS, "probe", CommandEntry("titan_probe:probe", "A probe."))
    assert run(["probe", named]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == "Error: gone/.out.json.17: no such file or directory\n"
    assert run(["probe", "other/file.json"]) == ExitCode.INTERNAL


def test_the_traceback_is_shown_on_request(command, capsys, monkeypatch):
    monkeypatch.setenv("TITAN_DEBUG", "1")
    command(fails)
    assert run(["probe"]) == ExitCode.INTERNAL
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet():
    done = subprocess.run(
        f"{sys.executable} -m titan rules | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


def test_a_pipe_closed_in_the_middle_is_quiet(command, capsys):
    def broken():
        raise BrokenPipeError

    command(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "_silence_stdout", lambda: None)
        assert run(["probe"]) == ExitCode.CLOSED_PIPE
    assert capsys.readouterr().err == ""


def test_module_and_script_are_the_same():
    done = python("import runpy, sys; sys.argv = ['titan', '--version']; runpy.run_module('titan')")
    assert (done.returncode, done.stdout.split(",")[0]) == (0, f"titan {__version__}")


@pytest.mark.parametrize(
    "busy",
    [
        "",
        "import multiprocessing",
        "import threading; t = threading.Timer(0.2, print, ['late']); t.start()",
    ],
)
def test_the_end_of_a_process_loses_nothing(busy):
    """What is registered for the end is done, and other threads are waited for."""
    done = python(
        f"import atexit, sys\n{busy}\natexit.register(print, 'registered')\n"
        "from titan.cli.main import main\nsys.argv = ['titan', 'explain', 'TTN205']\nmain()"
    )
    assert done.returncode == 0 and "registered" in done.stdout, done.stderr
    assert done.stdout.index("TTN205") < done.stdout.index("registered")
    assert ("late" in done.stdout) == ("Timer" in busy)


def test_the_exit_code_is_that_of_the_command():
    done = python(
        "import sys\nfrom titan.cli.main import main\n"
        "sys.argv = ['titan', 'explain', 'nothing']\nmain()"
    )
    assert done.returncode == 2 and done.stderr
