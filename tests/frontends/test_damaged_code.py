"""Truncated, damaged and hostile PTX: a located diagnostic or a verdict, no crash, no hang."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

FOLDER = Path(__file__).parent / "ptx"
LAUNCH = "{grid: 2, dynamic_shared: 0, parameters: {source: pointer, n: 3}}"
NUMBERS = ("0", "-1", "1", "4294967295", "18446744073709551616", "0x7fffffffffffffff", "1e9")
GARBAGE = (
    "}",
    "{",
    ";",
    "@",
    "@%p0",
    "[",
    "]",
    "\0",
    "é",
    "/*",
    '"',
    "%r1",
    ".reg .b32 %x;",
    "ret;",
)


def ring() -> str:
    return (FOLDER / "ring.ptx").read_text(encoding="utf-8")


def damaged(text: str, random: Random) -> str:
    """The text with one to three accidents."""
    for _ in range(random.randint(1, 3)):
        lines = text.split("\n")
        place = random.randrange(len(lines))
        match random.randrange(8):
            case 0:
                text = text[: random.randrange(len(text) + 1)]
            case 1:
                text = "\n".join([*lines[:place], *lines[place + 1 :]])
            case 2:
                text = "\n".join([*lines[:place], lines[place], *lines[place:]])
            case 3:
                at = random.randrange(len(text) + 1)
                text = text[:at] + random.choice(GARBAGE) + text[at:]
            case 4:
                found = list(re.finditer(r"\b\d+\b", text))
                if found:
                    one = random.choice(found)
                    text = text[: one.start()] + random.choice(NUMBERS) + text[one.end() :]
            case 5:
                other = random.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
                text = "\n".join(lines)
            case 6:
                found = list(re.finditer(r"%\w+", text))
                if len(found) > 1:
                    one, two = random.sample(found, 2)
                    text = text[: one.start()] + two.group() + text[one.end() :]
            case 7:
                found = list(re.finditer(r"\.\w+", text))
                if found:
                    one = random.choice(found)
                    text = text[: one.start()] + text[one.end() :]
    return text


def verdict_on(text: str) -> Verdict:
    description, errors = read_launch_text(LAUNCH, "ring.yaml")
    assert errors == []
    options = CodeOptions(ctas=(0,), steps_max=20_000, schedules=1)
    worst = Verdict.VERIFIED
    for finding in verify_code(Source("ring.ptx", text), description, options, [], 0.0):
        worst = finding.verdict
        if finding.verdict is Verdict.REFUSED:
            assert finding.diagnostics
            assert all(item.span is not None for item in finding.diagnostics)
    return worst


@pytest.mark.parametrize("start", range(4))
def test_damaged_code_is_answered(start):
    random, text = Random(start), ring()
    answers = {verdict_on(damaged(text, random)) for _ in range(part(400, of=40))}
    assert len(answers) > 1


@pytest.mark.parametrize(
    "text",
    [
        "", "\0", ".version", ".version 99.9", "{" * 10_000, "(" * 10_000, "/*" * 5_000,
        ".version 8.0\n.target sm_90a\n.address_size 64\n" + ".entry k() {" * 300,
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { L: bra L; }",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { call k; }",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .b8 x[99999999999];\n"
        ".entry k() {}",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b32 %r<999999999>; }",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { bar.sync 99; }",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { trap; }",
        ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b32 %r<2>; "
        "ld.shared.u32 %r1, [18446744073709551616]; }",
    ],
    ids=range(15),
)  # fmt: skip
def test_hostile_texts_are_answered(text):
    assert verdict_on(text) is not Verdict.VERIFIED
