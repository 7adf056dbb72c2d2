"""Registers of wgmma that no wgmma.fence has ordered on the way of a run, against a clock of
accesses and fences along the statements of random kernels, with each choice of what data decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from tests.isa.simt.test_register_fences import FENCE, KERNEL
from tests.sampling import part
from titan.isa.ptx.parse import parse
from titan.isa.simt import fences_on_way
from titan.isa.simt.fences_on_way import unfenced_on_way
from titan.isa.simt.launch import Launch
from titan.isa.simt.run import run

SUMS = ("%f1", "%f2", "%f3", "%f4")
MATRIX = ("%r1", "%r2", "%r3", "%r4")
BEGIN = """mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
  ld.shared.u32 %r5, [s+2048]; setp.eq.u32 %p1, %r5, 0;
  setp.ge.u32 %p2, %r0, 0; setp.lt.u32 %p3, %r0, 0;
"""
CLOSE = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
OPEN, TAKEN, LEFT_OUT = "%p1", "%p2", "%p3"  # predicates: data decide it, true, false


class Statement(NamedTuple):
    """`kind`: fence, sums, matrix (products), read, write, move. `guard`: a predicate or none.
    `arm`: behind a branch over it, and not predicated. `rounds`: of a loop around it."""

    kind: str
    register: str = ""
    other: str = ""
    guard: str = ""
    arm: bool = False
    rounds: int = 1


def statement(random: Random) -> Statement:
    kind = random.choice(("fence", "sums", "sums", "matrix", "read", "write", "move"))
    if kind in ("fence", "sums", "matrix"):
        return Statement(kind, rounds=random.choice((1, 1, 2)))
    kept = random.choice((SUMS, MATRIX))
    guard = random.choice(("", OPEN, TAKEN, LEFT_OUT))
    arm = bool(guard) and random.random() < 0.5
    return Statement(kind, random.choice(kept), random.choice(kept), guard, arm)


def text_of(statements: list[Statement]) -> str:
    lines = [BEGIN]
    for number, one in enumerate(statements):
        sums = f"{{{', '.join(SUMS)}}}"
        shape = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {sums}, "
        typed = "f32" if one.register.startswith("%f") else "u32"
        line = {
            "fence": FENCE,
            "sums": f"{shape} %d1, %d1, 1, 1, 1, 0, 0; {CLOSE}",
            "matrix": f"{shape} {{{', '.join(MATRIX)}}}, %d1, 1, 1, 1, 0; {CLOSE}",
            "read": f"st.shared.{typed} [s], {one.register};",
            "write": f"add.{typed} {one.register}, {one.other}, {one.other};",
            "move": f"mov.{typed} {one.register}, {one.other};",
        }[one.kind]
        if one.arm:
            lines.append(f"@!{one.guard} bra L{number};\n{line}\nL{number}:")
        elif one.guard:
            lines.append(f"@{one.guard} {line}")
        elif one.rounds > 1:
            again = f"sub.u32 %r6, %r6, 1; setp.gt.s32 %p0, %r6, 0; @%p0 bra L{number};"
            lines.append(f"mov.u32 %r6, {one.rounds};\nL{number}:\n{line}\n{again}")
        else:
            lines.append(line)
    return KERNEL.replace("BODY", "\n".join(lines))


def choices(statements: list[Statement]) -> Iterator[list[bool]]:
    """For each choice of what data decide: which statements are executed."""
    free = [at for at, one in enumerate(statements) if one.guard == OPEN]
    for chosen in product((False, True), repeat=len(free)):
        done = [one.guard != LEFT_OUT for one in statements]
        for at, value in zip(free, chosen, strict=True):
            done[at] = value
        yield done


def missing(statements: list[Statement], done: list[bool]) -> set[int]:
    """The products that lack a fence, by their place among the statements."""
    accessed = dict.fromkeys((*SUMS, *MATRIX), "before")
    found = set()
    for at, one in enumerate(statements):
        for _ in range(one.rounds if done[at] else 0):
            if one.kind == "fence":
                accessed = dict.fromkeys(accessed, "fenced")
            elif one.kind in ("sums", "matrix"):
                bad = any(accessed[name] in ("before", "used") for name in SUMS)
                if one.kind == "matrix":
                    bad = bad or any(accessed[name] != "fenced" for name in MATRIX)
                if bad:
                    found.add(at)
                accessed |= dict.fromkeys(SUMS, "product")
            elif one.kind == "move":
                accessed[one.register] = accessed[one.other]
            elif one.kind == "read":
                accessed[one.register] = "used"
            else:
                accessed[one.register] = accessed[one.other] = "used"
    return found


def followed(statements: list[Statement]) -> tuple[set[int], set[int]]:
    """What the code under test says: places of products that lack a fence, certain and possible."""
    module, findings = parse(text_of(statements), "k.ptx")
    assert module is not None, findings
    made, findings = run(module, Launch("k", (1, 1, 1), (128, 1, 1), (1, 1, 1)), None)
    assert made is not None, findings
    assert made.outcome.ending == 0, made.outcome
    found = unfenced_on_way(made)
    assert found is not None
    names = [item.opcode for item in module.instructions]
    products = [at for at, one in enumerate(statements) if one.kind in ("sums", "matrix")]
    code = [at for at, name in enumerate(names) if "mma_async" in module.instructions[at].name]
    place = dict(zip(code, products, strict=True))
    return {place[at] for at in found.certain}, {place[at] for at in found.possible}


def test_against_every_choice_of_data():
    seen: Counter[str] = Counter()
    for seed in range(part(400)):
        random = Random(seed)
        statements = [statement(random) for _ in range(random.randint(4, 10))]
        certain, possible = followed(statements)
        on_ways = [missing(statements, done) for done in choices(statements)]
        assert set().union(*on_ways) <= possible, (seed, statements)
        assert certain <= set.intersection(*on_ways), (seed, statements)
        if len(on_ways) == 1:
            assert certain == possible == on_ways[0], (seed, statements)
            seen["decided", bool(certain)] += 1
        seen["open", certain != possible] += 1
    assert all(seen[kind] >= part(25) for kind in (("decided", True), ("decided", False)))
    assert seen["open", True] >= part(25)


def test_a_long_run_is_not_followed(monkeypatch: pytest.MonkeyPatch):
    module, _ = parse(text_of([Statement("fence"), Statement("sums")]), "k.ptx")
    assert module is not None
    made, _ = run(module, Launch("k", (1, 1, 1), (128, 1, 1), (1, 1, 1)), None)
    assert made is not None and unfenced_on_way(made) is not None
    monkeypatch.setattr(fences_on_way, "INSTRUCTIONS_MAX", 9)
    assert unfenced_on_way(made) is None
