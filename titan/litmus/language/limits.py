"""How large a litmus test may be: what a reader or a solver could choke on is refused by name.

The limits lie far above what tests need; those of depth and of the file are the ones of YAML files.
"""

from __future__ import annotations

import re

from titan.foundation.source.span import Source
from titan.foundation.source.yaml import DEPTH_MAX
from titan.litmus.language.condition import LitmusError

DIGITS_MAX = 19  # of a number: 64 bits
THREADS_MAX = 64
ROWS_MAX = 1_000
_LONG_NUMBER = re.compile(rf"[0-9]{{{DIGITS_MAX + 1},}}")
_NEGATIONS = re.compile(rf"(?:(?:~|\bnot\b)\s*){{{DEPTH_MAX + 1},}}")


def check_limits(source: Source) -> None:
    """Raises LitmusError at the first number, bracket or negation that is too much."""
    number = _LONG_NUMBER.search(source.text)
    if number is not None:
        _refuse(source, number.start(), f"a number of more than {DIGITS_MAX} digits")
    negations = _NEGATIONS.search(source.text)
    if negations is not None:
        _refuse(source, negations.start(), f"more than {DEPTH_MAX} negations of one condition")
    depth = 0
    for bracket in re.finditer(r"[()]", source.text):
        depth = depth + 1 if bracket.group() == "(" else max(depth - 1, 0)
        if depth > DEPTH_MAX:
            _refuse(source, bracket.start(), f"brackets nested more than {DEPTH_MAX} deep")


def check_program(source: Source, start: int, threads: int, rows: int) -> None:
    """Raises LitmusError where a test has too many threads or rows; `start`: of the program."""
    if threads > THREADS_MAX:
        _refuse(source, start, f"{threads} threads, of at most {THREADS_MAX}")
    if rows > ROWS_MAX:
        _refuse(source, start, f"{rows} rows, of at most {ROWS_MAX}")


def _refuse(source: Source, offset: int, message: str) -> None:
    raise LitmusError(message, source.span(offset, offset + 1))
