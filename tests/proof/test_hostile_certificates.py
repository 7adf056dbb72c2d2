"""Certificates whose meaning somebody has changed, every digest made to fit: none proves too much.

An edit of the program makes it another program. Then the certificate must be refused, or prove what
holds of that other program (by the explorer, which shares no code with the checker), and
`titan check --kernel` must notice the difference. An edit of anything else must be refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from tests.proof.kernels import certificate, programs
from tests.sampling import part
from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Verdict
from titan.proof.check import Covered, RefusedError, check
from titan.sync.expression import BINARY_OPERATORS
from titan.sync.program import SyncProgram
from titan.sync.text import digest_of, program_of, text_of

Tree = list[object]
WORDS = {  # what one word of a program may be replaced by
    "writer": "path", "refuse": "allow", "fence": "assumed", "listed": "in_order",
    "generic": "async", "async": "generic", "cluster": "cta", "gpu": "cta", "shared": "global",
    "async_fence": "barrier_init", "done": "read", "relaxed": "release", "release": "relaxed",
}  # fmt: skip


LEFT_OUT = ("Arrive", "Wait", "Fence", "QueueWait", "Commit", "BarrierSync", "Access")


def lines_of(name: str) -> list[str]:
    return certificate(name)[:-1].split("\n")


def sealed(lines: list[str]) -> str:
    body = "\n".join(lines[:-1]) + "\n"
    return f"{body}end {digest_of(body)}\n"


def with_program(name: str, text: str) -> str:
    lines = lines_of(name)
    lines[1] = f"program {digest_of(text)} {text}"
    return sealed(lines)


def edits(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """The program with one number, word, truth value or operation changed."""

    def changed(path: tuple[int, ...], value: object) -> Tree:
        copy: Tree = json.loads(json.dumps(tree))
        part = copy
        for place in path[:-1]:
            part = cast("Tree", part[place])
        if value is None:
            del part[path[-1]]
        else:
            part[path[-1]] = value
        return copy

    def walk(part: Tree, path: tuple[int, ...]) -> Iterator[tuple[str, Tree]]:
        for place, item in enumerate(part):
            here = (*path, place)
            if isinstance(item, bool):
                yield f"{part[0]}: not {item}", changed(here, not item)
            elif isinstance(item, int):
                yield f"{part[0]}: {item + 1}", changed(here, item + 1)
                yield f"{part[0]}: {item - 1}", changed(here, item - 1)
            elif isinstance(item, str) and place and item in WORDS:
                yield f"{part[0]}: {WORDS[item]}", changed(here, WORDS[item])
            elif isinstance(item, str) and place and item in BINARY_OPERATORS:
                yield f"{part[0]}: not {item}", changed(here, "-" if item == "+" else "+")
            elif isinstance(item, list):
                if part[0] == "" and item and item[0] in LEFT_OUT:
                    yield f"without {item[0]}", changed(here, None)
                yield from walk(item, here)

    yield from walk(tree, ())


def proves(text: str) -> Covered | None:
    try:
        return check(text)
    except RefusedError:
        return None


def explored(text: str) -> Verdict:
    try:
        return explore(program_of(text), budget=Budget(states_max=60_000)).verdict
    except Refusal:  # too large for it, or beyond it
        return Verdict.UNDECIDED


def attack(name: str, count: int | None) -> Counter[str]:
    """What becomes of edits of the program of a certificate, of all or of so many."""
    original = proves(certificate(name))
    assert original is not None
    seen: Counter[str] = Counter()
    tree = json.loads(lines_of(name)[1].split(" ", 2)[2])
    found = list(edits(tree))
    for what, edited in found if count is None else Random(3).sample(found, count):
        text = json.dumps(edited, separators=(",", ":"), ensure_ascii=True)
        covered = proves(with_program(name, text))
        seen["refused" if covered is None else "another program"] += 1
        if covered is not None:
            assert covered.digest != original.digest, what
            assert explored(text) is not Verdict.REFUTED, what
    return seen


@pytest.mark.parametrize("name", ["mi300_gemm", "bulk_copy"])
def test_edits_of_the_program_prove_nothing_false(name: str) -> None:
    seen = attack(name, 12)
    assert seen["refused"] > 5, seen


@pytest.mark.parametrize(
    "changed",
    [
        lambda p: replace(p, buffers=(replace(p.buffers[0], units=0), *p.buffers[1:])),
        lambda p: replace(p, buffers=(replace(p.buffers[0], offset=-1), *p.buffers[1:])),
        lambda p: replace(p, barriers=(replace(p.barriers[0], count=-1), *p.barriers[1:])),
        lambda p: replace(p, barriers=(replace(p.barriers[0], stages=-1), *p.barriers[1:])),
        lambda p: replace(p, roles=(replace(p.roles[0], threads=0), *p.roles[1:])),
        lambda p: replace(p, roles=(replace(p.roles[0], agents=-1), *p.roles[1:])),
    ],
)
def test_what_no_kernel_can_say_is_no_program(
    changed: Callable[[SyncProgram], SyncProgram],
) -> None:
    program = programs("bulk_copy")[0]
    assert program_of(text_of(program)) == program
    with pytest.raises(ValueError, match="is less than"):
        program_of(text_of(changed(program)))


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["mi300_gemm", "bulk_copy", "hopper_gemm", "mi300_pingpong"])
def test_all_edits_of_the_program_prove_nothing_false(name: str) -> None:
    seen = attack(name, None)
    assert seen["refused"] > 40, seen


VALUES: tuple[object, ...] = (True, False, None, "x", "é", "", [], [""], {}, 1.5, "0", 7)


def replaced(tree: Tree, random: Random) -> tuple[object, object, Tree]:
    """A part of the program, a value of another kind, and the program with that instead."""
    copy: Tree = json.loads(json.dumps(tree))
    inner = copy
    while True:
        place = random.randrange(1, len(inner)) if len(inner) > 1 else 0
        old = inner[place]
        if not isinstance(old, list) or not old or random.random() < 0.1:
            inner[place] = random.choice([v for v in VALUES if type(v) is not type(old)])
            return old, inner[place], copy
        inner = cast("Tree", old)


@pytest.mark.parametrize("name", ["mi300_gemm", "bulk_copy"])
def test_parts_of_another_kind_make_no_program(name: str) -> None:
    """But where a part may be left out, or was: and then what is certified is not refuted."""
    tree, random = json.loads(lines_of(name)[1].split(" ", 2)[2]), Random(5)
    for _ in range(part(400)):
        old, new, edited = replaced(tree, random)
        text = json.dumps(edited, separators=(",", ":"), ensure_ascii=True)
        if proves(with_program(name, text)) is not None:
            assert old is None or new is None, (old, new)
            assert explored(text) is not Verdict.REFUTED


# ------------------------------------------------------------------- all but the program


def without_states(lines: list[str]) -> Iterator[list[str]]:
    """Configurations left out, from the end, in the middle, or all."""
    for first, last in ((-2, -1), (-40, -1), (len(lines) // 2, len(lines) // 2 + 9), (6, -1)):
        yield [*lines[:first], *lines[len(lines) + last if last < 0 else last :]]


def with_other_sizes(lines: list[str]) -> Iterator[list[str]]:
    others: tuple[object, ...] = (
        {"tiles": 0}, {"tiles": 3}, {"tiles": -5}, {"tiles": 10**30}, {"depth": 1},
        {"tiles": None}, {"tiles": True}, {"tiles": 1.5}, [], {"other": 1},
    )  # fmt: skip
    for given in others:
        yield [*lines[:2], f"given {json.dumps(given)}", *lines[3:]]


def with_forged_classes(lines: list[str]) -> Iterator[list[str]]:
    """A shift by another period or threshold, of other members, tiles or phases; none; two."""
    place = next(n for n, line in enumerate(lines) if line.startswith("class "))
    claim = json.loads(lines[place].removeprefix("class "))
    forged = [lines[:place] + lines[place + 1 :], [*lines[:place], lines[place], *lines[place:]]]
    for number, item in enumerate(claim[1:], 1):
        values: list[object] = [[""], ["", ["", "all", "t"]], ["", ["", "tiles", 1]]]
        if isinstance(item, int):
            values = [item + 1, item - 1, 2 * item, 0, -1, 10**40]
        for value in values:
            if value != item:
                other = [*claim[:number], value, *claim[number + 1 :]]
                text = json.dumps(other, separators=(",", ":"))
                forged.append([*lines[:place], f"class {text}", *lines[place + 1 :]])
    yield from forged


OTHER_STEPS = (
    ("all ", "one "), ("one ", "all "), ("split ", "one "), (">", ">0"), (">", ">9"), ("a0", "a1"),
    ("all ", "split tiles.0>1 "), (" ", "  "), (";", ">1 "), (";a0", ""), (";a0", ";a0;a0"),
    ("one ", "one ;"), (">", ";>"),
)  # fmt: skip


def with_other_steps(lines: list[str]) -> Iterator[list[str]]:
    """States led elsewhere: to themselves, to each other, to those that are not there."""
    for place in range(6, len(lines) - 1, 3):
        for old, new in OTHER_STEPS:
            if old in lines[place]:
                changed = lines[place].replace(old, new, 1)
                yield [*lines[:place], changed, *lines[place + 1 :]]


@pytest.mark.parametrize(
    ("forge", "least"),
    [
        (without_states, 4),
        (with_other_sizes, 10),
        (with_forged_classes, 20),
        (with_other_steps, 30),
    ],
)
def test_edits_of_the_rest_are_refused(
    forge: Callable[[list[str]], Iterator[list[str]]], least: int
) -> None:
    """But for a hint that says the same: then all lines that were derived are the same, too."""
    lines = lines_of("mi300_gemm")
    forged = list(forge(lines))
    assert len(forged) >= least
    passed = [other for other in forged if proves(sealed(other)) is not None]
    assert len(passed) <= 1
    for other in passed:
        one, two = ([n for n in text if not n.startswith("class ")] for text in (other, lines))
        assert one == two  # such as the same class twice
        assert proves(sealed(other)) == proves(certificate("mi300_gemm"))


# ------------------------------------------------------------- what is made to take for ever


def hostile(change: Callable[[str], str]) -> str:
    text = change(lines_of("mi300_gemm")[1].split(" ", 2)[2])
    return with_program("mi300_gemm", text)


def _with_body(body: list[Tree]) -> Callable[[str], str]:
    """The first role executes this first; its variable is one that no other loop counts."""

    def change(text: str) -> str:
        tree = json.loads(text)
        roles = next(part for part in tree if isinstance(part, list) and part[1:]
                     and isinstance(part[1], list) and part[1][0] == "Role")  # fmt: skip
        place = next(n for n, part in enumerate(roles[1]) if isinstance(part, list) and part[1:]
                     and isinstance(part[1], list) and part[1][0] in
                     ("Access", "Asynchronous", "Loop", "Wait", "Branch", "Assign"))  # fmt: skip
        roles[1][place][1:1] = body
        return json.dumps(tree, separators=(",", ":"))

    return change


def _constant(value: int) -> Tree:
    return ["Constant", value]


def _loop(stop: int, inner: Tree) -> Tree:
    return ["Loop", "zz", _constant(0), _constant(stop), ["", inner]]


SQUARE: Tree = ["Assign", "yy", ["Binary", "*", ["Name", "yy"], ["Name", "yy"]]]
ENDLESS: list[Tree] = [_loop(10**12, ["Assign", "yy", _constant(1)])]
SQUARES: list[Tree] = [["Assign", "yy", _constant(3)], _loop(900, SQUARE)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda: hostile(_with_body(ENDLESS)), id="a loop of a trillion passes"),
        pytest.param(lambda: hostile(_with_body(SQUARES)), id="a number squared 900 times"),
        pytest.param(lambda: "[" * 200_000, id="brackets"),
        pytest.param(
            lambda: with_program("mi300_gemm", "[" * 50_000 + "]" * 50_000), id="deep program"
        ),
        pytest.param(lambda: "\n" * 1_000_000, id="a million lines"),
        pytest.param(lambda: "", id="nothing"),
    ],
)
def test_nothing_makes_the_checker_hang(text: Callable[[], str]) -> None:
    with pytest.raises(RefusedError):
        check(text())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["Buffer", "Barrier", "NamedBarrier", "Role"])
def test_large_machines_are_refused_before_they_are_built(kind: str) -> None:
    tree = json.loads(lines_of("mi300_gemm")[1].split(" ", 2)[2])
    found = 0

    def grown(part: Tree) -> None:
        nonlocal found
        for place, item in enumerate(part):
            if part[0] == kind and type(item) is int and item > 0:
                part[place], found = 10**12, found + 1
            elif isinstance(item, list):
                grown(item)

    grown(tree)
    if not found:
        pytest.skip(f"the kernel has no {kind}")
    text = json.dumps(tree, separators=(",", ":"))
    with pytest.raises(RefusedError):
        check(with_program("mi300_gemm", text))


def test_the_kernel_of_the_attacks_is_one_for_every_number() -> None:
    assert [p.name for p in programs("mi300_gemm")[0].parameters if p.value is None] == ["tiles"]
