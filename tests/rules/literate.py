"""Literate examples: a Markdown file with inputs, commands and what they print.

A fenced block `yaml NAME` (or `ptx NAME`, `json NAME`) is written to a file of that name; a block
`console` holds `$ titan ...` lines, each followed by what the command prints and, last, its exit
code in brackets. Blocks run in order in one empty folder. Run times are masked as `_ s`.

    TITAN_UPDATE_RULES=1 pytest tests/rules     # writes what is printed today into the files
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from titan.cli.main import run

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")


def masked(text: str) -> str:
    """The text without run times and without blanks at the ends of lines."""
    lines = _SECONDS.sub("_ s", text).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def called(command: str) -> tuple[str, int]:
    """What `titan ...` prints, on both streams, and its exit code."""
    words = shlex.split(command)
    assert words[0] == "titan", command
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = run(words[1:])
    return masked(shown.getvalue()), int(code)


def console(body: str) -> str:
    """A console block with its commands run again."""
    shown = []
    for line in body.split("\n"):
        if line.startswith("$ "):
            text, code = called(line[2:])
            shown += [line, text, f"[exit {code}]"]
    return "\n".join(part for part in shown if part) + "\n"


def replayed(text: str) -> str:
    """The document with every console block as it is printed today, in the current folder."""

    def block(found: re.Match[str]) -> str:
        words = found["info"].split()
        body = found["body"]
        if len(words) == 2:
            Path(words[1]).write_text(body, encoding="utf-8")
        if words == ["console"]:
            body = console(body)
        return f"```{found['info']}\n{body}```"

    return _BLOCK.sub(block, text)
