"""Litmus files and their expected verdicts.

Beside the tests of a folder lies `kinds.txt`: a line for each test with its name, its verdict
(`Allowed` or `Forbidden`) under the default reading, and exceptions such as `rule=path:Forbidden`
or `war=sync,rule=path:Allowed` for other readings; the last exception that applies counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source, whole_file
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.condition import LitmusError
from titan.litmus.language.text import read_litmus
from titan.litmus.language.yaml import read_litmus_yaml
from titan.litmus.model.options import ModelOptions

SUFFIXES = (".litmus", ".yaml", ".yml")
KINDS_FILE = "kinds.txt"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected verdict of one test and its exceptions by reading."""

    verdict: str
    exceptions: tuple[tuple[dict[str, str], str], ...] = ()

    def under(self, options: ModelOptions) -> str:
        """The expected verdict under one reading of the model."""
        reading = {
            "rule": options.fence_rule.value,
            "war": options.war.value,
            "init": options.init.value,
            "tensor": options.tensor.value,
        }
        verdict = self.verdict
        for wanted, other in self.exceptions:
            if all(reading[key] == value for key, value in wanted.items()):
                verdict = other
        return verdict


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One file of a suite; `expected` is None when no verdict is recorded for it."""

    path: Path
    expected: Expectation | None


def find_tests(paths: Iterable[Path]) -> Iterator[SuiteEntry]:
    """All litmus files below the paths, in the order of the paths and then by name."""
    for path in paths:
        found = [path]
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        kinds: dict[Path, dict[str, Expectation]] = {}
        for file in found:
            folder = file.parent
            if folder not in kinds:
                kinds[folder] = read_kinds(folder / KINDS_FILE)
            yield SuiteEntry(file, kinds[folder].get(file.stem))


def read_test(path: Path) -> LitmusTest:
    """Read one file in either format; raises `LitmusError` with the place of a fault."""
    source, faults = load_file(path)
    if source is None:
        raise LitmusError(faults[0].headline, faults[0].span or whole_file(str(path)))
    reader = read_litmus if path.suffix == ".litmus" else read_litmus_yaml
    return reader(str(path), source.text)


def read_kinds(path: Path) -> dict[str, Expectation]:
    """The recorded verdicts of one folder; empty when it has none."""
    if not path.is_file():
        return {}
    source, faults = load_file(path)
    if source is None:
        raise LitmusError(faults[0].headline, faults[0].span or whole_file(str(path)))
    found: dict[str, Expectation] = {}
    for number, line in enumerate(source.text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 2 or words[0] in found:
            raise _fault(source, number, "expected a new name and a verdict")
        exceptions = tuple(_exception(source, number, word) for word in words[2:])
        found[words[0]] = Expectation(_verdict(source, number, words[1]), exceptions)
    return found


def _exception(source: Source, number: int, word: str) -> tuple[dict[str, str], str]:
    conditions, _, verdict = word.partition(":")
    pairs = [part.partition("=") for part in conditions.split(",")]
    known = {
        "rule": ("writer", "writer-alone", "path"),
        "war": ("fence", "sync"),
        "init": ("sync", "fence"),
        "tensor": ("order", "fence"),
    }
    for key, _, value in pairs:
        if value not in known.get(key, ()):
            raise _fault(source, number, f"`{key}={value}` is not a reading")
    return {key: value for key, _, value in pairs}, _verdict(source, number, verdict)


def _verdict(source: Source, number: int, word: str) -> str:
    if word not in ("Allowed", "Forbidden"):
        raise _fault(source, number, f"`{word}` is neither Allowed nor Forbidden")
    return word


def _fault(source: Source, number: int, message: str) -> LitmusError:
    start = source.line_starts[number - 1]
    return LitmusError(message, source.span(start, start + len(source.line(number))))
