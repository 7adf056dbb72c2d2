"""The command line on mutants of all shipped inputs: never an internal error, never a traceback.

A mutant is a shipped file with a few random edits of characters, words, numbers or lines. What a
command says of it may be anything; that it says it in order is the point. Tens of mutants run by
default, thousands under the mark heavy, which also bounds the processor time of each.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.resources import root

DEFAULT, HEAVY = 30, 3000
SECONDS_MAX = 30.0  # processor time of one mutant; searches are bounded by states
SMALL_BYTES = 2000  # what the default run takes: larger files take longer to search
KERNEL = ["verify", "--budget-states", "300", "--budget-seconds", "5"]
QUICK = {
    "kernel": [["fmt", "--check"], [*KERNEL, "--engine", "explore"]],
    "loop": [["fmt", "--diff"], ["verify"]],
    "tile": [["fmt", "--check"], ["verify"]],
    "litmus": [["litmus", "list"]],
}
COMMANDS = {
    "kernel": [*QUICK["kernel"], KERNEL, [*KERNEL, "--format", "json"],
               [*KERNEL, "--format", "html"], [*KERNEL, "--format", "sarif"],
               ["fences", "--budget-seconds", "5"], ["export"],
               ["mutants", "--budget-states", "300", "--budget-seconds", "2"]],
    "loop": [*QUICK["loop"],
             ["schedule", "--solver", "rau", "--budget", "1", "--arms-max", "1"]],
    "tile": [*QUICK["tile"],
             ["build", "--no-compile", "--no-cache", "--budget", "0.5",
              "--schedule-budget", "0.5"]],
    "litmus": [["litmus", "check", "--no-states", "--timeout", "5"], *QUICK["litmus"]],
}  # fmt: skip
WORDS = (
    "any", "depth", "tiles", "t", "min(a, b)", "[", "]", "{", "}", ":", "-", "#", "&a", "*a", "!x",
    "%", "\x00", "\ufeff", "\u00e9", "\U0001f600", "0", "-1", "99999999999999999999", "1e9",
    "null", "true", "''", '"', "\t", "wait", "mma(", "@peer", "= t", "..",
)  # fmt: skip


def inputs(kind: str) -> list[Path]:
    """All shipped files of a kind."""
    if kind == "litmus":
        return sorted(root("litmus").rglob("*.litmus"))
    folders = {"kernel": "", "loop": "loops", "tile": "tiles"}
    files = sorted((root("protocols") / folders[kind]).glob("*.yaml"))
    return files + (sorted(root("examples").glob("*.yaml")) if kind == "kernel" else [])


def of_line(lines: list[str], dice: random.Random) -> None:
    if not lines:
        return
    number = dice.randrange(len(lines))
    edit = dice.randrange(4)
    if edit == 0:
        del lines[number]
    elif edit == 1:
        lines.insert(number, lines[dice.randrange(len(lines))])
    elif edit == 2:
        lines[number] = " " * dice.randrange(12) + lines[number].lstrip()
    else:
        other = dice.randrange(len(lines))
        lines[number], lines[other] = lines[other], lines[number]


def of_word(text: str, dice: random.Random) -> str:
    found = list(re.finditer(r"[A-Za-z_]\w*|\d+|[^\w\s]", text))
    if not found:
        return text
    chosen = dice.choice(found)
    others = [match.group() for match in found]
    new = dice.choice([*WORDS, dice.choice(others), ""])
    return text[: chosen.start()] + new + text[chosen.end() :]


def mutant(text: str, dice: random.Random) -> str:
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        edit = dice.randrange(8)
        if edit < 3:
            lines = text.split("\n")
            of_line(lines, dice)
            text = "\n".join(lines)
        elif edit == 7:
            text = text[: dice.randrange(len(text) + 1)]
        else:
            text = of_word(text, dice)
    return text


def tried(number: int, folder: Path, read: Callable[[], tuple[str, str]], small: bool) -> str:
    """What is wrong with the answer of a command to a mutant; nothing where it is in order."""
    dice = random.Random(number)
    commands = QUICK if small else COMMANDS
    kind = dice.choice([*commands, "kernel"])
    files = [path for path in inputs(kind) if not small or path.stat().st_size < SMALL_BYTES]
    path = dice.choice(files)
    made = folder / f"mutant{path.suffix}"
    text = mutant(path.read_text(encoding="utf-8"), dice)
    made.write_bytes(text.encode("utf-8", "surrogatepass"))
    command = dice.choice(commands[kind])
    started = time.process_time()
    try:
        code = run([*command, str(made)])
    except SystemExit as left:
        code = int(left.code or 0)
    spent = time.process_time() - started
    out, err = read()
    wrong = []
    if code not in (0, 1, 2, 3):
        wrong.append(f"exit code {code}")
    if "Traceback" in out + err or "bug in titan" in out + err:
        wrong.append("a traceback")
    if code == 2 and not (out + err).strip():
        wrong.append("bad input, and no word why")
    if not small and spent > SECONDS_MAX:
        wrong.append(f"{spent:.0f} s")
    told = f"{number}: {' '.join(command)} on a mutant of {path.name}: {', '.join(wrong)}"
    return f"{told}: {err[-300:]}" if wrong else ""


@pytest.mark.parametrize("part", range(3))
def test_mutants_of_shipped_inputs(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    numbers = range(part, DEFAULT, 3)
    found = [
        tried(number, tmp_path, lambda: tuple(capsys.readouterr()), True) for number in numbers
    ]
    assert [text for text in found if text] == []


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_thousands_of_mutants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    numbers = range(DEFAULT, DEFAULT + HEAVY)
    found = [
        tried(number, tmp_path, lambda: tuple(capsys.readouterr()), False) for number in numbers
    ]
    assert [text for text in found if text] == []


def test_mutants_are_told_apart():
    """The fuzzer can fail: an answer out of order is seen."""
    dice = random.Random(1)
    text = (root("examples") / "ring.yaml").read_text(encoding="utf-8")
    assert len({mutant(text, dice) for _ in range(50)}) > 45
