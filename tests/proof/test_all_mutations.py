"""Every change of a line is refused, or is of a hint and proves the same: all lines of all kernels.

The checker derives the lines one after the other, so what stands before a changed line is derived
as before: a change is held against the proof at its place, which is then taken back. A change that
is derived there would be another certificate; the whole of it is then checked.
"""

from __future__ import annotations

import json

import pytest

from tests.proof.kernels import ROOT, certificate
from tests.proof.test_certificates import changed, mutations, survivors
from titan.foundation.errors import TitanError
from titan.proof.check import Proof, RefusedError, check
from titan.proof.configuration import System
from titan.proof.shifts import CertifiedShiftClass
from titan.sync.text import program_of, value_of

SMALL = ("mi300_gemm",)
KERNELS = sorted(path.stem for path in (ROOT / "protocols").glob("*.yaml"))


class Trial:
    """The proof of a certificate, and what else might stand at its next line."""

    def __init__(self, lines: list[str]) -> None:
        self.first = next(n for n, line in enumerate(lines) if line.startswith("start")) + 1
        system = System(program_of(lines[1].split(" ", 2)[2]), json.loads(lines[2][6:]))
        claims = [value_of(CertifiedShiftClass, line[6:]) for line in lines[3 : self.first - 1]]
        self.proof = Proof(system, claims)
        self.proof.line("start", (("", start) for start in system.starts()))

    def derives(self, number: int, text: str) -> bool:
        """Whether the line is derived for the configuration; the proof is as it was before."""
        found, proposals = self.proof.found, self.proof.proposals
        met = len(found)
        try:
            return self.expanded(number, text) == text
        except (TitanError, ValueError, LookupError):
            return False
        finally:
            del found[met:]
            while len(proposals._numbers) > met:
                proposals._numbers.popitem()
            self.proof.splits.pop(number, None)

    def expanded(self, number: int, text: str) -> str:
        kind, choice = choice_of(text)
        return self.proof.expanded(number, kind, choice)


def choice_of(text: str) -> tuple[str, str]:
    """All that the checker reads of a line before it compares."""
    kind, choice = f"{text} ".split(" ")[:2]
    return kind, choice.partition(">")[0]


def accepted(name: str) -> tuple[int, list[tuple[int, str | None]]]:
    """How many changes of lines were tried, and those by which a certificate passes."""
    lines = certificate(name)[:-1].split("\n")
    trial, tried = Trial(lines), 0
    found: list[tuple[int, str | None]] = []
    for number, line in enumerate(lines[trial.first : -1]):
        place = trial.first + number
        for mutation in mutations(line):
            tried += 1
            text = lines[place + 1] if mutation is None else mutation
            if choice_of(text) == choice_of(line) and text != line:
                continue  # derived is the line as it was
            if text == line or trial.derives(number, text):
                found.append((place, mutation))
        assert trial.expanded(number, line) == line
    return tried, [item for item in found if passes(changed(lines, *item))]


def passes(text: str) -> bool:
    try:
        check(text)
    except RefusedError:
        return False
    return True


def compare(name: str) -> int:
    """How many changes of lines were tried; those of classes, which are hints, are not counted."""
    tried, found = accepted(name)
    assert found == []
    lines = certificate(name)[:-1].split("\n")
    start = next(place for place, line in enumerate(lines) if line.startswith("start"))
    for place, hint in survivors(name, list(range(2, start + 1))):
        assert lines[place].startswith("class ")
        assert check(changed(lines, place, hint)) == check(certificate(name))
    return tried


@pytest.mark.parametrize("name", SMALL)
def test_every_change_of_every_line_is_refused(name: str) -> None:
    assert compare(name) > 300


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in SMALL])
def test_every_change_of_every_line_of_all_kernels_is_refused(name: str) -> None:
    assert compare(name) > 300


def test_what_is_taken_back_leaves_nothing() -> None:
    lines = certificate("bulk_copy")[:-1].split("\n")
    trial = Trial(lines)
    assert trial.derives(0, lines[trial.first]) and trial.derives(0, lines[trial.first])
    assert not trial.derives(0, "split tiles.0>1 tiles.0>2 more")
    assert trial.expanded(0, lines[trial.first]) == lines[trial.first]
