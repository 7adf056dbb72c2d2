"""Commands that documents show are there, with the options that they show."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from titan.cli.main import titan

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SHOWN = re.compile(r"(?:`|^[ ]*(?:- )?)titan ([a-z][^`\n#|;&>]*)", re.M)


def shown() -> list[tuple[str, list[str]]]:
    """The pages, and the words of each command in them."""
    return [
        (page.name, words)
        for page in PAGES
        for text in _SHOWN.findall(page.read_text(encoding="utf-8"))
        if (words := text.split()) and words[0].isalpha()
    ]


def options(command: click.Command) -> set[str]:
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return known | {"--help", "-h"}


def fault(words: list[str]) -> str:
    """What of a command line is not there."""
    context = click.Context(titan)
    command: click.Command | None = titan.get_command(context, words[0])
    rest = words[1:]
    if command is None:
        return f"no command {words[0]}"
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        command, rest = command.get_command(context, rest[0]), rest[1:]
        if command is None:
            return f"no command {words[0]} {words[1]}"
    if not command.context_settings.get("allow_interspersed_args", True):
        rest = rest[: next((n for n, word in enumerate(rest) if word.endswith(".py")), len(rest))]
    named = [word.split("=")[0].rstrip(",.)") for word in rest if re.match(r"--?[a-z]", word)]
    lacking = [word for word in named if word not in options(command)]
    return f"no option {lacking[0]}" if lacking else ""


def test_commands_and_options_are_there() -> None:
    found = shown()
    assert len(found) > 100
    faults = [f"{page}: titan {' '.join(words)}: {fault(words)}" for page, words in found]
    assert [text for text in faults if not text.endswith(": ")] == []


@pytest.mark.parametrize("text", ["verfy x", "verify --no-such x", "litmus chek"])
def test_a_false_one_is_seen(text: str) -> None:
    assert fault(text.split())
