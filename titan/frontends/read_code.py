"""A file of code with its launch, read: what the verdict on any kind of compiled code begins with.

The launch is the file that is named, else the one of the same name beside the code. What is wrong
with either of them is reported, with both at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import listed, suggestion
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import LaunchDescription, beside, read_launch
from titan.verify.model import Finding

Code = TypeVar("Code")
Kernel = TypeVar("Kernel")
KernelsOf = Callable[[Source, LaunchDescription | None], tuple[list[Code], list[Diagnostic]]]
KERNELS_SHOWN_MAX = 8


@dataclass(slots=True)
class ReadCode(Generic[Code]):
    """The kernels to verify and their launch; or what is wrong with one of them."""

    kernels: list[Code] = field(default_factory=list)
    description: LaunchDescription | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_file(
    path: str, launch: str | None, bytes_max: int, kernels_of: KernelsOf[Code]
) -> ReadCode[Code]:
    """A file of code and what says how it is launched: the file `launch`, or one beside it."""
    source, errors = load_file(path, bytes_max)
    if source is None:
        return ReadCode(diagnostics=errors)
    name = launch or beside(path)
    description: LaunchDescription | None = None
    wrong: list[Diagnostic] = []
    if name is not None:
        description, wrong = read_launch(name)
    kernels, errors = kernels_of(source, description)
    notes = [] if name is None or launch else [f"the launch is that of {name}"]
    return ReadCode(kernels, description, [*errors, *wrong], notes)


def named(
    known: Mapping[str, Kernel], wanted: str | None, description: LaunchDescription | None,
    source: Source, noun: str,
) -> tuple[list[Kernel], list[Diagnostic]]:  # fmt: skip
    """The kernels to verify: the one that is named, by the user or the launch, or all.

    `noun`: what has kernels, and what they are there ("module has no entry").
    """
    wanted = wanted or (description.entry if description is not None else None)
    if wanted is None:
        return list(known.values()), []
    if wanted in known:
        return [known[wanted]], []
    headline = f"the {noun} {wanted}, only {listed(list(known)[:KERNELS_SHOWN_MAX])}"
    place = whole_file(source.path)
    return [], [diagnostic("TTN011", headline, place, helps=suggestion(wanted, known))]


def verdicts(
    path: str, read: ReadCode[Code], started: float,
    verify: Callable[[Code, float], Finding],
) -> Iterator[Finding]:  # fmt: skip
    """The finding on each kernel, `verify` called with the processor time at which it begins."""
    if read.diagnostics:
        yield refused(path, read.diagnostics, started)
        return
    for code in read.kernels:
        yield verify(code, started)
        started = time.process_time()


def refused(path: str, errors: list[Diagnostic], started: float) -> Finding:
    """The finding on code that cannot be read or launched."""
    seconds = time.process_time() - started
    return Finding(path, "", "", Verdict.REFUSED, diagnostics=tuple(errors), seconds=seconds)
