"""Certificates of recorded runs: they agree with the engine, and no line of one can be changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.frontends.story import epilogue, ring
from tests.sampling import WHOLE, part
from tests.straight_programs import straight
from tests.strategies import random_program
from titan.cli.main import run
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.alike import merged_alike
from titan.proof.run_check import RunRefusedError, check_run
from titan.proof.run_write import write_run
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.fault import FaultKind
from titan.sync.open_numbers import NotCoveredError
from titan.sync.text import digest_of
from titan.sync.weak import may_be_weak

PTX = Path(__file__).parents[1] / "frontends" / "ptx" / "ring.ptx"


def merged(program: ir.SyncProgram) -> ir.SyncProgram:
    return merged_alike([program])[0][0]


STORIES = {
    "ring": lambda: ring(7, 3),
    "shallow ring": lambda: ring(4, 1),
    "epilogue": epilogue,
}


def program_of(name: str) -> ir.SyncProgram:
    return merged(STORIES[name]().recording().program)


def edited(program: ir.SyncProgram) -> list[tuple[str, ir.SyncProgram]]:
    """The program with one operation left out, moved behind the next, or with another number."""
    found = []
    for number, role in enumerate(program.roles):
        for place, operation in enumerate(role.body):
            bodies = {"left out": (*role.body[:place], *role.body[place + 1 :])}
            if place + 1 < len(role.body):
                after = role.body[place + 1]
                bodies["later"] = (*role.body[:place], after, operation, *role.body[place + 2 :])
            for kind, other in changed(operation):
                bodies[kind] = (*role.body[:place], other, *role.body[place + 1 :])
            for kind, body in bodies.items():
                roles = [*program.roles]
                roles[number] = replace(role, body=body)
                text = f"{role.name}, {type(operation).__name__} {place} {kind}"
                found.append((text, replace(program, roles=tuple(roles))))
    return found


def changed(operation: ir.Operation) -> list[tuple[str, ir.Operation]]:
    match operation:
        case ir.Wait(parity=Constant(value=parity), phase=Constant(value=phase)):
            return [
                ("one phase on", replace(operation, parity=Constant(parity ^ 1),
                                         phase=Constant(phase + 1))),
                ("of no phase", replace(operation, phase=None)),
            ]  # fmt: skip
        case ir.QueueWait(pending=Constant(value=pending)):
            return [("leaves one more", replace(operation, pending=Constant(pending + 1)))]
        case ir.Arrive(count=Constant(value=count)):
            return [("counts twice", replace(operation, count=Constant(2 * count)))]
        case ir.Asynchronous(effects=effects) if effects:
            return [("does less", replace(operation, effects=effects[1:]))]
    return []


def certified(program: ir.SyncProgram) -> str | None:
    try:
        return write_run(program)
    except NotCoveredError:
        return None


@pytest.mark.parametrize("name", STORIES)
def test_a_verified_run_has_a_certificate_that_is_checked(name):
    program = program_of(name)
    assert analyse(program).verdict is Verdict.VERIFIED
    covered = check_run(write_run(program))
    assert covered.program == program and covered.steps >= 10
    assert covered.barrier_operations > 0


@pytest.mark.parametrize("name", STORIES)
def test_what_the_engine_refutes_has_none(name):
    """And what it verifies has one, but for synchronisation that is weak, which is not followed."""
    planted = edited(program_of(name))
    Random(0).shuffle(planted)
    missed, refuted = [], 0
    for text, program in planted[: part(len(planted), of=6)]:
        verdict = analyse(program).verdict
        found = certified(program)
        if verdict is Verdict.REFUTED and not may_be_weak(program):
            refuted += 1
            assert found is None, text
        if verdict is Verdict.VERIFIED and found is None:
            missed.append(text)
    assert refuted >= 1
    assert missed == []


def test_the_faults_of_stories_have_none():
    for faulty in (
        ring(wait_empty=False), ring(drain=False), ring(tiles=5, depth=2, consumed=4),
        epilogue(fence=1),
    ):  # fmt: skip
        assert certified(merged(faulty.recording().program)) is None


def resealed(lines: list[str]) -> str:
    body = "\n".join(lines[:-2]) + "\n"
    return f"{body}end {digest_of(body)}\n"


def mutations(line: str) -> list[list[str]]:
    """Other lines in the place of one."""
    words = line.split(" ")
    found = [[], [line, line]]
    for place, word in enumerate(words[:6]):
        for other in (f"{word}1", "0", "a0", word[:-1]):
            if other != word:
                found.append([" ".join([*words[:place], other, *words[place + 1 :]])])
    return found


def test_every_change_of_a_line_is_refused():
    text = write_run(program_of("ring"))
    lines = text.split("\n")
    tried = 0
    for number in (0, 1, *range(2, len(lines) - 2, 1 if WHOLE else 41)):
        for other in mutations(lines[number]):
            changed_lines = [*lines[:number], *other, *lines[number + 1 :]]
            with pytest.raises(RunRefusedError):
                check_run(resealed(changed_lines))
            tried += 1
    assert tried > 60
    with pytest.raises(RunRefusedError, match="line 1"):
        check_run(text[:-2] + ("1\n" if text[-2] == "0" else "0\n"))
    swapped = [*lines[:2], *lines[3:-2], lines[2], *lines[-2:]]
    with pytest.raises(RunRefusedError):
        check_run(resealed(swapped))


def test_the_program_of_a_certificate_cannot_be_exchanged():
    good, bad = program_of("ring"), merged(ring(drain=False).recording().program)
    lines = write_run(good).split("\n")
    head = certified_head(bad)
    with pytest.raises(RunRefusedError):
        check_run(resealed([*head, *lines[2:]]))


def certified_head(program: ir.SyncProgram) -> list[str]:
    from titan.proof.run_check import run_head

    return run_head(program).rstrip("\n").split("\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fence_rule": "path"}, "path rule"),
        ({"barrier_init": "fence"}, "publication"),
    ],
)
def test_policies_that_are_not_followed_are_refused(change, reason):
    program = program_of("ring")
    other = replace(program, policies=replace(program.policies, **change))
    if change.get("barrier_init") == "fence" and all(b.initialised for b in other.barriers):
        barriers = tuple(replace(b, initialised=False) for b in other.barriers)
        other = replace(other, barriers=barriers)
    with pytest.raises(NotCoveredError, match=reason):
        write_run(other)


def test_random_programs_have_one_only_where_the_engine_verifies():
    counts: Counter[tuple[Verdict, bool]] = Counter()
    for seed in range(part(6000, of=40)):
        program = straight(random_program(Random(seed)))
        result, found = analyse(program), certified(program)
        counts[(result.verdict, found is not None)] += 1
        if found is not None and result.fault is not None:
            assert result.fault.kind is FaultKind.WEAK_SYNCHRONISATION, seed
    assert counts[(Verdict.VERIFIED, True)] > 3 * counts[(Verdict.VERIFIED, False)]
    assert counts[(Verdict.REFUTED, False)] > 40


def test_certificates_of_ptx_are_written_and_checked(tmp_path, capsys):
    launch = tmp_path / "ring.launch.yaml"
    launch.write_text("{grid: 4, dynamic_shared: 0, parameters: {source: pointer, n: 5}}\n")
    place = tmp_path / "ring.cert"
    given = [str(PTX), "--launch", str(launch), "--save-trace", str(tmp_path)]
    assert run(["verify", *given, "--certificate", str(place)]) == 0
    files = [place] if place.is_file() else sorted(place.iterdir())
    capsys.readouterr()
    assert run(["check", *map(str, files)]) == 0
    assert capsys.readouterr().out.count("proved:") == len(files)
    text = files[0].read_text(encoding="utf-8")
    files[0].write_text(text.replace("a0 ", "a1 ", 1), encoding="utf-8")
    assert run(["check", str(files[0])]) == 2
    assert "refused" in capsys.readouterr().err


def test_a_folder_of_ptx_has_no_single_certificate(tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.ptx").write_text(".version 8.0\n", encoding="utf-8")
    assert run(["verify", str(tmp_path), "--certificate", "x"]) == 2
    assert "one file of PTX" in capsys.readouterr().err


# ------------------------------------------------------------- what is made to take for ever


def of_program(text: str) -> str:
    """A certificate of the program of this text, without a step, every digest made to fit."""
    body = f"titan-run-certificate 1\nprogram {digest_of(text)} {text}\n"
    return f"{body}end {digest_of(body)}\n"


def grown(kind: str) -> str:
    """The program of a ring with an enormous number in all that it declares of this kind."""
    tree = json.loads(write_run(program_of("ring")).split("\n")[1].split(" ", 2)[2])

    def grow(part: list[object]) -> int:
        found = 0
        for place, item in enumerate(part):
            if part[0] == kind and type(item) is int and item > 0:
                part[place], found = 10**12, found + 1
            elif isinstance(item, list):
                found += grow(item)
        return found

    assert grow(tree)
    return json.dumps(tree, separators=(",", ":"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda: of_program(grown("Buffer")), id="enormous buffers"),
        pytest.param(lambda: of_program(grown("Barrier")), id="enormous barriers"),
        pytest.param(lambda: of_program(grown("Role")), id="enormous roles"),
        pytest.param(lambda: of_program("[" * 50_000 + "]" * 50_000), id="a deep program"),
        pytest.param(lambda: "[" * 200_000, id="brackets"),
        pytest.param(lambda: "\n" * 1_000_000, id="a million lines"),
        pytest.param(lambda: "", id="nothing"),
    ],
)
def test_nothing_makes_the_checker_of_runs_hang(text: Callable[[], str]) -> None:
    with pytest.raises(RunRefusedError):
        check_run(text())
