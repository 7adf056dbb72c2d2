"""Code with one synchronising instruction deleted or weakened, as text.

Every instruction that orders anything has mutants; what becomes of them says whether the verdict on
the original means something. A mutant keeps the number of lines, so that places stay true. A wait
is deleted by letting its predicate be true. PTX has no form that a mutant would have to respect
beyond that of its instruction: a mutant is code that somebody could have written by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from titan.foundation.source.span import Source
from titan.isa.ptx.module import Function, Immediate, Instruction, Module

_NUMBER = re.compile(r"(?<![\w%$.])(-?\d+)\s*;")  # not the number of a register
_LAST_OPERAND = re.compile(r",\s*([^,;]+?)\s*;$", re.DOTALL)
_TRUE = "setp.eq.b32 {}, 0, 0;"


@dataclass(frozen=True, slots=True)
class CodeMutant:
    """A text with one instruction changed; `kind` says how, `line` where."""

    instruction: int
    line: int
    name: str
    kind: str
    text: str


def mutants_of(module: Module, source: Source, function: Function) -> Iterator[CodeMutant]:
    """All mutants of one kernel, in the order of its instructions."""
    for number in range(function.start, function.end):
        item = module.instructions[number]
        start = source.line_starts[item.line - 1] + item.column - 1
        end = source.text.find(";", start) + 1
        if end == 0:
            continue
        old = source.text[start:end]
        for kind, new in _changes(item, old):
            padded = new + "\n" * (old.count("\n") - new.count("\n"))
            text = source.text[:start] + padded + source.text[end:]
            yield CodeMutant(number, item.line, item.name, kind, text)


def _changes(item: Instruction, old: str) -> Iterator[tuple[str, str]]:
    """What may be wrong with one instruction: a kind, and the text in its place."""
    family = _family(item)
    if family == "wait":
        yield from _waits(item, old)
    elif family == "arrive":
        yield "deleted", _nothing(old)
        yield from _arrivals(item, old)
    elif family == "init":
        yield "deleted", _nothing(old)
        yield from _counts(old, "count")
    elif family == "count":
        yield "deleted", _nothing(old)
        found = _NUMBER.search(old)
        if found is not None:
            yield "one group more left", old.replace(found.group(), f"{int(found[1]) + 1};")
        if "bulk" in item.modifiers and "read" not in item.modifiers:
            yield "waits for reads only", old.replace(".wait_group", ".wait_group.read")
    elif family == "plain":
        yield "deleted", _nothing(old)


def _family(item: Instruction) -> str:
    """How an instruction synchronises; empty if it does not."""
    words = (item.opcode, *item.modifiers)
    match words:
        case ("mbarrier", "try_wait" | "test_wait", *_):
            return "wait"
        case ("mbarrier", "arrive" | "arrive_drop" | "expect_tx" | "complete_tx", *_):
            return "arrive"
        case ("mbarrier", "init", *_):
            return "init"
        case ("mbarrier", "inval", *_):
            return "plain"
        case ("wgmma", "wait_group", *_) | ("cp", "async", "wait_group", *_):
            return "count"
        case ("cp", "async", "bulk", "wait_group", *_):
            return "count"
        case ("wgmma", "commit_group" | "fence", *_):
            return "plain"
        case ("cp", "async", "commit_group" | "wait_all" | "mbarrier", *_):
            return "plain"
        case ("cp", "async", "bulk", "commit_group", *_):
            return "plain"
        case ("tcgen05", second, *_) if second.startswith(("commit", "wait", "fence")):
            return "plain"
        case ("bar" | "barrier" | "setmaxnreg", *_):
            return "plain"
        case ("fence", *rest) if "proxy" in rest or "mbarrier_init" in rest:
            return "plain"
    return ""


def _nothing(old: str) -> str:
    """As many lines, and no instruction."""
    return ";" + "\n" * old.count("\n")


def _waits(item: Instruction, old: str) -> Iterator[tuple[str, str]]:
    guard = old[: old.index(item.opcode)]
    operands = old[:-1].split(None, 1 + bool(guard.strip()))[-1]
    predicate = operands.split(",")[0].strip().split("|")[-1]
    yield "deleted", guard + _TRUE.format(predicate)
    if "parity" in item.modifiers and not guard.strip():
        rest = operands.rsplit("]", 1)[1].split(",")
        parity = next(part.strip() for part in rest if part.strip())
        flipped = old.rsplit("]", 1)[0] + f"], titan_parity{old.rsplit(parity, 1)[1]}"
        yield (
            "other parity",
            f"{{ .reg .b32 titan_parity; xor.b32 titan_parity, {parity}, 1; {flipped} }}",
        )


def _arrivals(item: Instruction, old: str) -> Iterator[tuple[str, str]]:
    if "expect_tx" not in item.modifiers:
        return
    found = _LAST_OPERAND.search(old)
    if found is None:
        return
    amount = found[1]
    last = item.operands[-1]
    if isinstance(last, Immediate):
        for kind, value in (("half the bytes", last.value // 2), ("twice", 2 * last.value)):
            yield kind, f"{old[: found.start(1)]}{value};"
    else:
        scoped = f"{old[: found.start(1)]}titan_bytes;"
        if old.lstrip().startswith("@"):
            return
        yield (
            "half the bytes",
            f"{{ .reg .b32 titan_bytes; shr.u32 titan_bytes, {amount}, 1; {scoped} }}",
        )


def _counts(old: str, what: str) -> Iterator[tuple[str, str]]:
    found = _NUMBER.search(old)
    if found is None:
        return
    number = int(found[1])
    yield f"{what} one more", old.replace(found.group(), f"{number + 1};")
    if number > 1:
        yield f"{what} one less", old.replace(found.group(), f"{number - 1};")
