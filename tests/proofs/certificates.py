"""Certificates as the numbers that the extracted checker reads (proofs/SyncCertificate.v).

Nothing here is trusted for what the checker accepts: it compares the lines with the steps that it
executes itself. Trusted is that the program and the sizes are those meant.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.proofs.semantics import Sizes, Text, line, listed
from titan.sync.text import program_of

ACTORS = "afr"
KINDS = ("all", "one", "split", "then")  # the last: one behind another in a line


class Answer(NamedTuple):
    """What the extracted checker says: states at lines, lines met, and of these with one step."""

    accepted: bool
    states: int
    lines: int
    single: int


def _label(text: str) -> list[int]:
    agent, _, place = text[1:].partition(".")
    return [ACTORS.index(text[0]), int(agent), int(place or -1)]


def _line(text: str) -> list[int]:
    """`all a0>2 f1.0>3` and its like. Raises ValueError."""
    kind, *words = text.split(" ")
    next_ = [(label, int(number)) for label, _, number in (word.rpartition(">") for word in words)]
    if kind == "split":
        return [2, *listed(next_, lambda item: [item[1]])]
    steps = [[*_label(label), number] for label, number in next_]
    if kind == "all":
        return [0, *listed(steps, list)]
    (step,) = steps
    return [KINDS.index(kind), *step]


def unchained(lines: Sequence[str]) -> list[str]:
    """The lines with one step each: what is passed on the way gets a number and a line of its own,
    behind all others."""
    found, passed = list(lines), []
    for place, chain in enumerate(lines):
        labels, _, end = chain.partition(" ")[2].rpartition(">")
        if ";" not in labels or not chain.startswith("one "):
            continue
        first, *others = labels.split(";")
        found[place] = f"one {first}>{len(lines) + len(passed)}"
        behind = [len(lines) + len(passed) + number for number in range(1, len(others))]
        ends = [*map(str, behind), end]
        passed += [f"then {label}>{to}" for label, to in zip(others, ends, strict=True)]
    return found + passed


def question(text: str, sizes: Sizes) -> str:
    """What the machine is asked about a certificate, with numbers for its open sizes."""
    lines = text[:-1].split("\n")
    first = next(n for n, found in enumerate(lines) if found.startswith("start "))
    starts = [int(word.partition(">")[2]) for word in lines[first].split(" ")[1:]]
    given = json.loads(lines[2].partition(" ")[2])
    program = Text(program_of(lines[1].split(" ", 2)[2]), {**sizes, **given})
    body = listed(unchained(lines[first + 1 : -1]), _line)
    return line("", [3, *program.numbers, *listed(starts, lambda n: [n]), *body])


def answers(machine: Path, questions: Sequence[str]) -> list[Answer]:
    """What the extracted checker says to each question, in one run."""
    asked = "\n".join(questions) + "\n0\n"
    done = subprocess.run([machine], input=asked, capture_output=True, text=True, check=True)
    found = [words.split() for words in done.stdout.splitlines()]
    return [Answer(word == "accepted", *map(int, numbers)) for word, *numbers in found]
