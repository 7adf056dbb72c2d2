"""Certificates of the library are written, checked, and refused when a line is changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.proof.kernels import ROOT, certificate, programs
from titan.proof.check import Proof, RefusedError, check
from titan.proof.claims import claims_of
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, System
from titan.proof.representatives import Representatives
from titan.proof.write import write
from titan.sync.fault import Step
from titan.sync.open_numbers import NotCoveredError, UndecidedError, linear, parts_of
from titan.sync.state import QueueState
from titan.sync.text import digest_of, program_of, text_of
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

CERTIFIED = (
    "ampere_gemm_multistage",
    "bulk_copy",
    "fa3_forward",
    "grouped_gemm",
    "hopper_gemm",
    "mi300_gemm",
    "mi300_pingpong",
    "split_k_cluster",
)
LARGE = (
    "blackwell_gemm",
    "fa3_backward",
    "fa4_forward",
    "hopper_gemm_multicast",
    "hopper_gemm_persistent",
    "hopper_gemm_pingpong",
)


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_library_is_certified_for_every_number(name: str) -> None:
    covered = check(certificate(name))
    assert covered.program == programs(name)[0]
    assert covered.open and covered.states > 100
    assert covered.alone > covered.states // 6


@pytest.mark.heavy
@pytest.mark.parametrize("name", LARGE)
def test_large_kernels_are_certified(name: str) -> None:
    assert check(certificate(name)).open


def test_every_kernel_of_the_library_has_a_certificate() -> None:
    assert {*CERTIFIED, *LARGE} == {p.stem for p in (ROOT / "protocols").glob("*.yaml")}


def resealed(lines: list[str]) -> str:
    """The text with a closing line that fits it: what else is wrong has to be found."""
    body = "\n".join(lines[:-1]) + "\n"
    return f"{body}end {digest_of(body)}\n"


def mutations(line: str) -> list[str | None]:
    """Changes of one line: dropped (None), each number one more, a step of several left out,
    another kind of line."""
    found: list[str | None] = [None]
    for match in re.finditer(r"\d+", line):
        more = str(int(match.group()) + 1)
        found.append(line[: match.start()] + more + line[match.end() :])
    for match in re.finditer(r"\w+(\.\d+)?;", line):
        found.append(line[: match.start()] + line[match.end() :])
    for old, new in (("one ", "all "), ("all ", "one "), ("split ", "all ")):
        if line.startswith(old):
            found.append(new + line[len(old) :])
    return found


def changed(lines: list[str], place: int, mutation: str | None) -> str:
    return resealed(lines[:place] + ([] if mutation is None else [mutation]) + lines[place + 1 :])


def survivors(name: str, places: list[int]) -> list[tuple[int, str | None]]:
    lines = certificate(name)[:-1].split("\n")
    found = []
    for place in places:
        for mutation in mutations(lines[place]):
            try:
                check(changed(lines, place, mutation))
            except RefusedError:
                continue
            found.append((place, mutation))
    return found


def lines_from_classes(name: str) -> range:
    """All lines but the program, which is bound by its hash, and the closing one."""
    return range(2, certificate(name).count("\n") - 1)


@pytest.mark.parametrize(("name", "count"), [("mi300_gemm", 12), ("hopper_gemm", 2)])
def test_sampled_mutations_of_a_line_are_refused(name: str, count: int) -> None:
    places = Random(1).sample(list(lines_from_classes(name)), count)
    assert survivors(name, places) == []


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["mi300_gemm", "bulk_copy", "ampere_gemm_multistage"])
def test_every_mutation_of_every_line_is_refused(name: str) -> None:
    assert survivors(name, list(lines_from_classes(name))) == []


@pytest.mark.parametrize(
    "name", ["mi300_gemm", pytest.param("split_k_cluster", marks=pytest.mark.heavy)]
)
def test_steps_behind_the_first_of_a_line_have_to_represent_all(name: str) -> None:
    """At each place of each line, every step that does not is refused there."""
    lines = certificate(name)[:-1].split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith("start"))
    program = programs(name)[0]
    proof, refused = Proof(System(program, {}), claims_of(program, {})), 0
    proof.line("start", (("", start) for start in proof.system.starts()))
    for number, line in enumerate(lines[first + 1 : -1]):
        kind, choice = line.split(" ")[0], line.partition(" ")[2].split(">")[0]
        before, words = proof.found[number], choice.split(";") if kind == "one" else []
        for place, word in enumerate(words):
            steps = {step.text: step for step in proof.system.steps(before)}
            for other, step in steps.items() if place else ():
                if len(steps) > 1 and other != word and not is_alone(proof.system, before, step):
                    refused += 1
                    with pytest.raises(NotCoveredError, match="does not represent all steps"):
                        proof.expanded(number, kind, ";".join([*words[:place], other]))
            before = proof.system.after(before, steps[word])
        assert proof.expanded(number, kind, choice) == line
    assert refused > 40


def is_alone(system: System, before: Configuration, step: Step) -> bool:
    try:
        return alone(system, before, step)
    except UndecidedError:
        return True  # nothing is said of it


def test_of_operations_in_flight_the_first_stands_for_all() -> None:
    """Another choice would be as true, with the same numbers; a certificate is written one way."""
    proof = Proof(System(programs("bulk_copy")[0], {}), [])
    proof.line("start", (("", start) for start in proof.system.starts()))
    tried = 0
    for number, found in enumerate(proof.found):  # grows while lines lead to more
        if number == 300:
            break
        try:
            steps = {step.text: step for step in proof.system.steps(found)}
            proof.expanded(number, "all", "")
        except UndecidedError as question:
            proof.expanded(number, "split", question.name)
            continue
        if {"f0.0", "f0.1"} <= steps.keys() and alone(proof.system, found, steps["f0.1"]):
            tried += 1
            assert proof.expanded(number, "one", "f0.0").startswith("one f0.0>")
            with pytest.raises(NotCoveredError, match="is not the first"):
                proof.expanded(number, "one", "f0.1")
    assert tried > 3


def test_lines_exchanged_doubled_or_cut_are_refused() -> None:
    lines = certificate("mi300_gemm")[:-1].split("\n")
    for place in range(5, len(lines) - 2, 23):
        if lines[place] != lines[place + 1]:
            swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
            with pytest.raises(RefusedError):
                check(resealed(swapped))
        with pytest.raises(RefusedError):
            check(resealed([*lines[:place], lines[place], *lines[place:]]))
        with pytest.raises(RefusedError):
            check(resealed([*lines[:place], lines[-1]]))


def test_a_text_that_was_changed_is_refused_unread() -> None:
    text = certificate("mi300_gemm")
    for place in range(0, len(text), len(text) // 40):
        other = "x" if text[place] != "x" else "y"
        with pytest.raises(RefusedError):
            check(text[:place] + other + text[place + 1 :])


def test_another_program_under_the_same_states_is_refused() -> None:
    """A kernel that waits for one copy less: every line but the program's stays as it was."""
    lines = certificate("mi300_gemm")[:-1].split("\n")
    text = text_of(programs("mi300_gemm")[0])
    loosened = re.sub(r'(\["QueueWait",[^\[\]]*,\["Constant",)(\d+)', _one_more, text, count=1)
    assert loosened != text
    lines[1] = f"program {digest_of(loosened)} {loosened}"
    with pytest.raises(RefusedError):
        check(resealed(lines))


def _one_more(match: re.Match[str]) -> str:
    return match.group(1) + str(int(match.group(2)) + 1)


@pytest.mark.parametrize("name", CERTIFIED)
def test_a_program_comes_back_from_its_text(name: str) -> None:
    for program in programs(name):
        assert program_of(text_of(program)) == program


def reachable_modules(start: str) -> set[str]:
    """The modules of titan that a module imports, directly or not."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        path = ROOT / (name.replace(".", "/") + ".py")
        if name in seen or not path.exists():
            continue
        seen.add(name)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    return {name for name in seen if name.startswith("titan")}


def test_the_checker_imports_the_semantics_and_nothing_that_searches() -> None:
    modules = reachable_modules("titan.proof.check")
    plain = tuple(
        f"titan.foundation.{name}"
        for name in ("errors", "records", "verdict", "source.span", "diagnostics.wording")
    )
    assert all(name.startswith(("titan.proof", "titan.sync", *plain)) for name in modules)
    assert "titan.proof.write" not in modules


PROPOSALS = {
    "titan.proof.open_parts",
    "titan.proof.representatives",
    "titan.proof.shifts",
}


def checker_files() -> list[Path]:
    """The checker without what proposes representatives, each of which it decides."""
    names = reachable_modules("titan.proof.check") - PROPOSALS
    return [ROOT / (n.replace(".", "/") + ".py") for n in names if n.startswith("titan.proof")]


def test_proposals_are_asked_for_in_one_place() -> None:
    """All other modules of the checker know nothing of those that are not trusted."""
    for path in checker_files():
        told = {node.module for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.ImportFrom)}  # fmt: skip
        assert not told & PROPOSALS or path.stem == "check"


def _another_number(number: int, found: Configuration) -> tuple[int, Configuration]:
    return max(number - 1, 0), found


def _without_an_arrival(number: int, found: Configuration) -> tuple[int, Configuration]:
    key, held = found.state.barriers[0]
    barriers = ((key, held._replace(pending=held.pending - 1)), *found.state.barriers[1:])
    return number, found._replace(state=found.state._replace(barriers=barriers))


def _nothing_in_flight(number: int, found: Configuration) -> tuple[int, Configuration]:
    queues = tuple((key, QueueState((), ())) for key, _ in found.state.queues)
    return number, found._replace(state=found.state._replace(queues=queues, free_flights=()))


def _sizes_one_higher(number: int, found: Configuration) -> tuple[int, Configuration]:
    sizes = tuple(size._replace(known=tuple(n + 1 for n in size.known)) for size in found.sizes)
    return number, found._replace(sizes=sizes)


def _sizes_decided(number: int, found: Configuration) -> tuple[int, Configuration]:
    sizes = tuple(s._replace(known=tuple(parts_of(n)[0] for n in s.known)) for s in found.sizes)
    return number, found._replace(sizes=sizes)


def _with_a_name_of_its_own(number: int, found: Configuration) -> tuple[int, Configuration]:
    """An unknown that the interpreter may take for that of another iteration."""
    (size, *others) = found.sizes
    fresh = size._replace(known=tuple(linear(0, {f"{size.name}.9": 1}) for _ in size.known))
    return number, found._replace(sizes=(fresh, *others))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("mi300_gemm", _another_number),
        ("bulk_copy", _without_an_arrival),
        ("mi300_gemm", _nothing_in_flight),
        ("mi300_gemm", _sizes_one_higher),
        ("mi300_gemm", _sizes_decided),
        ("mi300_gemm", _with_a_name_of_its_own),
    ],
)
def test_a_wrong_proposal_is_refused(
    name: str,
    spoil: Callable[[int, Configuration], tuple[int, Configuration]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What proposes representatives is not trusted: a fault in it makes no certificate pass."""
    text, honest = certificate(name), Representatives.of

    def spoilt(self: Representatives, found: Configuration) -> tuple[int, Configuration | None]:
        number, proposed = honest(self, found)
        return (number, None) if proposed is None else spoil(number, proposed)

    monkeypatch.setattr(Representatives, "of", spoilt)
    with pytest.raises(RefusedError):
        check(text)


def test_splits_that_lead_back_to_themselves_are_refused() -> None:
    proof = Proof(System(programs("mi300_gemm")[0], {}), [])
    proof.splits = {3: {4, 5}, 4: {6}, 6: {9}}
    proof.finish()
    proof.splits[6] = {3}
    with pytest.raises(NotCoveredError, match="split into itself"):
        proof.finish()


def code_lines(path: Path) -> int:
    """Lines that are neither empty, comment nor docstring."""
    text = path.read_text("utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert node.end_lineno is not None
            documented |= set(range(node.lineno, node.end_lineno + 1))
    return sum(
        1
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.strip().startswith("#") and number not in documented
    )


def test_the_docs_tell_the_number_of_trusted_lines() -> None:
    checker = sum(map(code_lines, checker_files()))
    semantics = sum(map(code_lines, (ROOT / "titan" / "sync").glob("*.py")))
    page = (ROOT / "docs" / "explanation" / "proofs.md").read_text("utf-8")
    counted = re.search(r"checker: (\d+) lines of code; semantics: (\d+)", page)
    assert counted is not None
    assert checker < 600
    runs = reachable_modules("titan.proof.run_check")
    paths = [ROOT / (n.replace(".", "/") + ".py") for n in runs if n.startswith("titan.proof")]
    lowering = list((ROOT / "titan" / "language" / "lower").glob("*.py"))
    for word, files in (("run checker", paths), ("lowering", lowering)):
        also = re.search(rf"{word}: (\d+) lines of code", page)
        assert also is not None
        lines = sum(map(code_lines, files))
        assert abs(int(also.group(1)) - lines) <= lines // 20, f"{word}: {lines} now"
    for told, lines in zip(map(int, counted.groups()), (checker, semantics), strict=True):
        assert abs(told - lines) <= lines // 20, f"{told} in the docs, {lines} now"


def test_a_loop_without_operations_asks_no_end_of_questions() -> None:
    idle = Path(__file__).with_name("idle_role.yaml")
    family, errors, _ = read_family(str(idle), VerifyOptions())
    assert family is not None, errors
    with pytest.raises(NotCoveredError, match="too many questions"):
        write(sync_program(family.kernels[0]).program)
