"""What no command may take for a fault of TITAN: files of bytes, numbers that are none, limits."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from titan.cli.exit_code import ExitCode
from titan.cli.main import COMMANDS, run, titan
from titan.foundation.limited import limited, within
from titan.foundation.resources import root

NOT_TEXT = b"titan: 1\nkernel: caf\xe9\n"
READERS = (
    (("verify",), ("yaml", "json", "ptx", "ttgir", "s", "cubin")),
    (("lift",), ("ptx", "s", "yaml")),
    (("fmt",), ("yaml",)),
    (("export",), ("yaml",)),
    (("mutants",), ("yaml",)),
    (("fences",), ("yaml",)),
    (("schedule",), ("yaml", "ttgir", "graphml")),
    (("build", "--no-compile", "--no-cache"), ("yaml",)),
    (("inspect",), ("ptx", "sass", "s")),
    (("litmus", "check"), ("litmus", "yaml")),
    (("litmus", "render", "-o", "rendered"), ("litmus",)),
    (("run",), ("py", "yaml")),
    (("stress", "--backend", "emulated"), ("yaml", "json")),
    (("bench", "--prepare", "variants"), ("yaml",)),
    (("check",), ("cert",)),
    (("replay",), ("json",)),
    (("gate",), ("yaml", "json", "cert", "ptx")),
)


@pytest.mark.parametrize(
    ("command", "suffix"), [(words, suffix) for words, suffixes in READERS for suffix in suffixes]
)
def test_a_file_that_is_no_text_is_bad_input(command, suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(f"name.{suffix}").write_bytes(NOT_TEXT)
    assert run([*command, f"name.{suffix}"]) == ExitCode.BAD_INPUT
    shown = "".join(capsys.readouterr())
    assert f"name.{suffix}" in shown
    assert "TTN901" not in shown and "Traceback" not in shown
    assert sorted(item.name for item in tmp_path.iterdir()) == [f"name.{suffix}"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize(
    ("command", "suffix"), [(words, suffix) for words, suffixes in READERS for suffix in suffixes]
)
def test_nobody_waits_for_a_pipe(command, suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pipe = f"name.{suffix}"
    os.mkfifo(pipe)

    def waited(number: int, frame: object) -> None:
        raise AssertionError("a command waits for who writes to a pipe")

    former = signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    try:
        assert run([*command, pipe]) == ExitCode.BAD_INPUT
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    shown = "".join(capsys.readouterr())
    assert pipe in shown
    assert "TTN901" not in shown and "Traceback" not in shown


@pytest.mark.parametrize("command", ["check", "replay"])
def test_a_file_without_an_end_is_not_read(command, capsys):
    assert run([command, "/dev/zero"]) == ExitCode.BAD_INPUT
    assert "it is not a regular file" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "command",
    [("inspect", "n.ptx"), ("litmus", "check", "n.litmus"), ("gate", "n.yaml"), ("gate", "n.cert"),
     ("check", "n.cert")],
)  # fmt: skip
def test_the_place_of_a_byte_is_shown(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(command[-1]).write_bytes(NOT_TEXT)
    assert run([*command]) == ExitCode.BAD_INPUT
    assert "2:12: byte 0xe9 is not valid UTF-8" in capsys.readouterr().err


def test_a_missing_file_has_a_near_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text("titan: 1\n")
    assert run(["verify", "pipelnie.yaml"]) == ExitCode.BAD_INPUT
    assert "did you mean `pipeline.yaml`?" in capsys.readouterr().out
    assert run(["verify", "else.yaml"]) == ExitCode.BAD_INPUT
    assert "did you mean" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "there"),
    [
        ("gate", "pipeline.yaml"),
        ("check", "verdict.cert"),
        ("replay", "trace.json"),
        ("inspect", "kernel.ptx"),
        ("run", "script.py"),
        ("build", "tile.yaml"),
        ("schedule", "loop.yaml"),
        ("stress", "packages"),
        ("bench", "packages"),
        ("table", "packages"),
    ],
)
def test_every_command_names_the_near_file(command, there, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(there).write_text("")
    stem, dot, suffix = there.partition(".")
    assert run([command, f"{stem[:-2]}{stem[-1]}{dot}{suffix}"]) == ExitCode.BAD_INPUT
    assert f"did you mean `{there}`?" in "".join(capsys.readouterr())
    assert run([command, f"else{dot}{suffix}"]) == ExitCode.BAD_INPUT
    assert "did you mean" not in "".join(capsys.readouterr())


def test_a_link_to_nowhere_is_not_its_own_near_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("link.yaml").symlink_to("nowhere")
    assert run(["verify", "link.yaml"]) == ExitCode.BAD_INPUT
    assert "did you mean" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    ["verify", "lift", "replay", "check", "inspect", "gate", "fences", "mutants", "build",
     "schedule", "run", "export", "fmt", "stress", "bench", "table", "litmus check", "litmus run"],
)  # fmt: skip
def test_an_empty_path_is_not_the_working_folder(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(root("protocols") / "hopper_gemm.yaml", "kernel.yaml")
    shutil.copy(root("protocols") / "tiles" / "gemm.yaml", "tile.yaml")
    assert run([*command.split(), ""]) == ExitCode.BAD_INPUT
    assert "the path is empty" in "".join(capsys.readouterr())
    assert sorted(os.listdir()) == ["kernel.yaml", "tile.yaml"]


@pytest.mark.parametrize(
    "home", [None, "/proc/nobody"], ids=["a number for a name", "nothing can be written there"]
)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("gate", str(root("examples") / "ring.yaml")), ExitCode.VERIFIED),
        (
            ("schedule", str(root("protocols") / "loops" / "gemm_hopper.yaml"), "--cache", "kept"),
            ExitCode.VERIFIED,
        ),
        (("run", "script.py"), ExitCode.VERIFIED),
        (("cuda-flags",), ExitCode.BAD_INPUT),  # where the library is kept
    ],
)
def test_no_home_is_no_bug(command, code, home, tmp_path, monkeypatch, capsys):
    import pwd

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    if home is None:
        monkeypatch.setattr(pwd, "getpwuid", unknown)
    else:
        monkeypatch.setenv("HOME", home)
    Path("script.py").write_text("print(1)\n")
    assert run([*command]) == code
    if code:
        assert "XDG_CACHE_HOME" in capsys.readouterr().err


def test_run_says_what_else_a_name_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text("")
    assert run(["run", "kernel.ptx"]) == ExitCode.BAD_INPUT
    assert "`titan verify` takes it" in capsys.readouterr().err
    assert run(["run", "."]) == ExitCode.BAD_INPUT
    assert "it is a folder" in capsys.readouterr().err
    Path("script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    assert run(["run", "--nosuch", "script.py"]) == ExitCode.BAD_INPUT
    assert "--nosuch" in capsys.readouterr().err
    assert run(["run", "script.py", "--nosuch", "-x"]) == ExitCode.VERIFIED
    assert "['--nosuch', '-x']" in capsys.readouterr().out


def _numbers() -> list[tuple[str, str]]:
    """Every option of every command that takes a number with a fraction."""
    found = []
    with click.Context(titan) as context:
        for name in COMMANDS:
            command = titan.get_command(context, name)
            inside = getattr(command, "commands", {"": command})
            for second, each in inside.items():
                for option in each.params:
                    if isinstance(option.type, click.types.FloatParamType):
                        found.append((f"{name} {second}".strip(), option.opts[0]))
    return found


def test_there_are_such_options():
    assert len(_numbers()) >= 12


@pytest.mark.parametrize(("command", "option"), _numbers())
def test_no_number_is_nan(command, option, capsys):
    assert run([*command.split(), option, "nan", "x"]) == ExitCode.BAD_INPUT
    assert "nan is not in the range" in capsys.readouterr().err


def test_an_unknown_size_has_a_near_name(capsys):
    ring = str(root("examples") / "ring.yaml")
    assert run(["verify", ring, "--set", "depht=3"]) == ExitCode.BAD_INPUT
    assert "did you mean `depth`?" in capsys.readouterr().err


@pytest.mark.parametrize("values", ["3..2", "1..99999999999", "99999999999999", "1..2000000"])
def test_a_range_without_numbers_is_not_called_malformed(values, capsys):
    ring = str(root("examples") / "ring.yaml")
    assert run(["verify", ring, "--depth", values]) == ExitCode.BAD_INPUT
    assert "no number, more than " in capsys.readouterr().err


@pytest.mark.parametrize("number", ["abc", "0", "-3", "1.5", "²"])
def test_a_number_of_processes_is_one(number, monkeypatch, capsys):
    monkeypatch.setenv("TITAN_JOBS", number)
    ring = str(root("examples") / "ring.yaml")
    assert run(["verify", ring, ring]) == ExitCode.BAD_INPUT
    assert "TITAN_JOBS is a number of processes" in capsys.readouterr().err


def test_a_lower_limit_of_the_user_stays():
    def lowered() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        limited(1000)()

    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    child = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lowered, capture_output=True, check=True
    )
    assert child.stdout.decode().strip() == "(29, 30)"

    def nested() -> object:
        resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
        return within(1000, lambda: resource.getrlimit(resource.RLIMIT_CPU))

    assert within(60, nested) == (39, 40)


SCRIPTS = {
    "def f(:\n": ("1:7: invalid syntax", ExitCode.BAD_INPUT),
    "x = 1\n\0\n": ("null bytes", ExitCode.BAD_INPUT),
    "(" * 5000: ("1:", ExitCode.BAD_INPUT),
    "import sys\nsys.path = []\nsys.exit(0)\n": ("0 launches computed", ExitCode.VERIFIED),
    "import sys\nsys.path.clear()\nsys.exit(0)\n": ("0 launches computed", ExitCode.VERIFIED),
    "raise ValueError('mine')\n": ("ValueError: mine", ExitCode.REFUTED),
}


@pytest.mark.parametrize("text", SCRIPTS)
def test_scripts_that_python_refuses_or_that_fail(text, tmp_path, capsys):
    pytest.importorskip("numpy")
    words, code = SCRIPTS[text]
    path = tmp_path / "script.py"
    path.write_text(text)
    before = list(sys.path)
    assert run(["run", str(path)]) == code
    shown = capsys.readouterr().err
    assert words in shown and "programs.py" not in shown and "runpy" not in shown
    assert sys.path == before


def test_a_package_for_the_table_is_written_whole(tmp_path, monkeypatch):
    """A table that cannot be written leaves the one that was there."""
    from titan.runtime import table

    monkeypatch.setattr(table, "tables", lambda _: {"packages_cuda.h": "new\n"})
    (tmp_path / "packages_cuda.h").write_text("old\n")
    monkeypatch.setattr(os, "replace", _refused)
    with pytest.raises(OSError, match="full"):
        table.write_tables(tmp_path)
    assert (tmp_path / "packages_cuda.h").read_text() == "old\n"


def _refused(*_: object) -> None:
    raise OSError(28, "the disk is full")


FULL = (
    ("verify", "--html", "made/page.html", "RING"),
    ("verify", "--output", "made/report", "RING"),
    ("verify", "--certificate", "made/ring.cert", "RING"),
    ("examples", "--copy", "made"),
    ("litmus", "render", "-o", "made", str(root("litmus") / "tensormap")),
)


@pytest.mark.parametrize("command", FULL)
def test_a_file_that_cannot_be_written_whole_is_named_and_not_there(command, tmp_path):
    """A limit of the size of files, as a full disk, is met in the middle of a file."""

    def lowered() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))

    (tmp_path / "made").mkdir()
    ring = str(root("examples") / "ring.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "titan", *(ring if word == "RING" else word for word in command)],
        cwd=tmp_path, capture_output=True, text=True, preexec_fn=lowered, check=False,
        env={**os.environ, "PYTHONPATH": str(root("examples").parent)},
    )  # fmt: skip
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    assert "file too large" in done.stderr.lower() and "made" in done.stderr
    assert "standard output" not in done.stderr and ".titan-" not in done.stderr
    assert not [path for path in (tmp_path / "made").rglob("*") if path.suffix != ".times"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("schedule", str(root("protocols") / "loops" / "gemm_hopper.yaml")), "not used"),
        (("verify", str(root("examples") / "ring.yaml")), "cannot be used"),
        (
            ("build", "--no-compile", "-o", "out",
             str(root("protocols") / "tiles" / "gemm_small_tiles.yaml")),
            "not used",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cache", ["/proc/cache.sqlite", "/dev/null/cache.sqlite"])
def test_a_cache_that_cannot_be_written_is_not_used(
    command, words, cache, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--cache", cache]) == ExitCode.VERIFIED
    shown = capsys.readouterr().err
    assert f"warning: {cache}" in shown and words in shown


def test_lift_names_the_command_that_takes_ttgir(tmp_path, capsys):
    path = tmp_path / "k.ttgir"
    path.write_text("module {}\n")
    assert run(["lift", str(path)]) == ExitCode.BAD_INPUT
    assert "is TTGIR" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["site_name: x\n", "- a\n- b\n", "a: [b[0]]\n", "word\n"])
def test_fmt_takes_no_other_yaml(text, tmp_path, capsys):
    path = tmp_path / "else.yaml"
    path.write_text(text)
    for option in ((), ("--check",), ("--diff",)):
        assert run(["fmt", *option, str(path)]) == ExitCode.BAD_INPUT
        assert "it lacks the key `titan`" in "".join(capsys.readouterr())
    assert path.read_text() == text
