"""The semantics in Coq (proofs/Sync.v), extracted, against the reference interpreter.

Both walk the same interleavings of random programs, of their mutants and of the library, and print
of each state all that it holds, the steps that are possible and its fault. The two share no code.
What the proved checker of closed sets says of all interleavings is held against the reference
search.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.free_programs import free
from tests.peer_commits import peer_commits
from tests.proof.kernels import programs
from tests.proofs.check_module import ROOT, check_module
from tests.proofs.generators import crowded, fenced, mixed_queue, sleepers, sums, with_reductions
from tests.proofs.semantics import Text, Walk, line
from tests.proxy_programs import cached, halves
from tests.rings import persistent_ring, ring, token_ring
from tests.structured_programs import (
    aliasing,
    copy_pipeline,
    descriptors,
    lifecycle,
    mma_chain,
    ping_pong,
    registers,
    store_pipeline,
    sync_phases,
    two_ctas,
    waves,
)
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import mbarrier_rules, memory_rules, queue_rules
from titan.sync import program as ir
from titan.sync.fault import Step
from titan.sync.program import Policies, SyncProgram
from titan.verify.mutate.mutants import mutants_of

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None or shutil.which("ocamlopt") is None,
    reason="there is no coqc or no ocamlopt",
)
TRIED = (
    free, ring, token_ring, persistent_ring, ping_pong, sync_phases, store_pipeline, copy_pipeline,
    mma_chain, waves, registers, lifecycle, two_ctas, aliasing, descriptors, cached, halves,
)  # fmt: skip
LIBRARY = sorted(path.stem for path in (ROOT / "protocols").glob("*.yaml"))
STEPS_MAX = 60


GENERATORS = (*TRIED, sleepers, mixed_queue, sums, peer_commits, crowded, fenced)


@pytest.fixture(scope="module")
def machine() -> Path:
    folder = ROOT / "build" / "semantics"
    folder.mkdir(parents=True, exist_ok=True)
    compiled = (
        ROOT / "build" / "proofs"
    )  # by `make proofs`: what has changed since is compiled again
    with open(folder / "lock", "w", encoding="utf-8") as lock:  # other workers build it, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        if compiled.is_dir() and not any(folder.glob("*.vo")):
            shutil.copytree(compiled, folder, dirs_exist_ok=True)
        return check_module().build_machine(folder)  # type: ignore[no-any-return]


def sizes_of(program: SyncProgram, random: Random) -> dict[str, int | tuple[int, ...]]:
    def size(minimum: int) -> int:
        return random.randint(minimum, minimum + 3)

    return {
        p.name: tuple(size(p.minimum) for _ in range(3)) if p.per else size(p.minimum)
        for p in program.parameters
        if p.value is None
    }


def random_walk(seed: int) -> Walk:
    """A random program, every other time one with one operation and the policies changed."""
    random = Random(seed)
    program = GENERATORS[seed % len(GENERATORS)](random)
    if seed // len(GENERATORS) % 2:
        mutants = list(islice(mutants_of(program), 40))
        program = random.choice(mutants).program if mutants else program
        program = replace(program, policies=random_policies(random))
    if random.random() < 0.25:
        roles = [replace(r, body=with_reductions(r.body, random)) for r in program.roles]
        program = replace(program, roles=tuple(roles))
    favourite = random.randrange(4)

    def hasty(steps: list[Step]) -> Step:
        """One agent goes on as long as it can, and others fall behind."""
        own = [step for step in steps if step.agent == favourite]
        return random.choice(own if own and random.random() < 0.9 else steps)

    return Walk(program, sizes_of(program, random), random.choice if seed % 2 else hasty, STEPS_MAX)


def random_policies(random: Random) -> Policies:
    return Policies(
        random.choice(("writer", "path")),
        random.random() < 0.5,
        random.choice(("fence", "assumed")),
        random.choice(("refuse", "allow")),
        random.choice(("refuse", "allow")),
        tensor_pipe=random.choice(("listed", "in_order")),
    )


def library_walk(name: str, seed: int) -> Walk:
    random = Random(seed)
    program = programs(name)[0]
    sizes = sizes_of(program, random)
    more = {n: v + 3 if isinstance(v, int) else tuple(i + 1 for i in v) for n, v in sizes.items()}
    return Walk(program, more, random.choice, 4 * STEPS_MAX)


def disagreements(machine: Path, walks: list[Walk]) -> list[tuple[int, list[str], list[str]]]:
    """(number of the walk, first line of the extracted semantics that differs, expected one)."""
    asked = "\n".join(walk.question for walk in walks) + "\n0\n"
    done = subprocess.run([machine], input=asked, capture_output=True, text=True, check=True)
    told = iter(done.stdout.splitlines())
    found = []
    for number, walk in enumerate(walks):
        mine = []
        for text in told:
            mine.append(text)
            if text == "E":
                break
        if mine != walk.told:
            pairs = zip(mine, walk.told, strict=False)
            place = next((n for n, (a, b) in enumerate(pairs) if a != b), len(mine))
            found.append((number, mine[place : place + 1], walk.told[place : place + 1]))
    return found


def test_random_programs_step_alike(machine: Path) -> None:
    walks = [random_walk(seed) for seed in range(4 * len(GENERATORS))]
    assert disagreements(machine, walks) == []
    assert sum(walk.steps for walk in walks) > 8 * len(walks)
    assert len(set().union(*(walk.faults for walk in walks))) > 5


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_ten_thousand_random_programs_step_alike(machine: Path) -> None:
    faults: Counter[str] = Counter()
    for first in range(0, 10_000, 500):
        walks = [random_walk(seed) for seed in range(first, first + 500)]
        assert disagreements(machine, walks) == []
        for walk in walks:
            faults.update(walk.faults)
    assert len(faults) > 18, faults


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_steps_alike(machine: Path, name: str) -> None:
    walk = library_walk(name, 1)
    assert walk.steps > 25
    assert disagreements(machine, [walk]) == []


@pytest.mark.heavy
@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_steps_alike_in_many_interleavings(machine: Path, name: str) -> None:
    assert disagreements(machine, [library_walk(name, seed) for seed in range(40)]) == []


# ------------------------------------------------------------------------- planted faults


def _nothing_released(self: object, group: tuple[object, ...]) -> int:
    return 0


def _reads_anything(*_: object) -> None:
    return None


IN_THE_INTERPRETER = {
    "open groups wait for their commit": (queue_rules.QueueRules, "_released", _nothing_released),
    "reads meet anything": (memory_rules.MemoryRules, "check_read", _reads_anything),
    "waits are never lapped": (mbarrier_rules.MbarrierRules, "check_lapped", _reads_anything),
    "transactions are small": (mbarrier_rules, "TRANSACTION_MAX", 1),
}


@pytest.mark.parametrize("name", IN_THE_INTERPRETER)
def test_a_fault_planted_in_the_interpreter_is_found(
    machine: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = 40 * len(GENERATORS)
    monkeypatch.setattr(*IN_THE_INTERPRETER[name])
    for first in range(0, walks, 2 * len(GENERATORS)):
        chosen = [random_walk(seed) for seed in range(first, first + 2 * len(GENERATORS))]
        if disagreements(machine, chosen):
            return
    raise AssertionError("not found")


IN_COQ = {
    "the phase bit is not looked at": (
        "negb (mb_phase b mod 2 =? v mod 2)", "negb (v mod 2 =? 2)"
    ),
    "a phase ends with bytes outstanding": ("over && (mb_transaction b =? 0)", "over"),
    "waits are not lapped": ("negb (mb_phase b =? m + 1)", "mb_phase b <? m"),
    "a fence forgets the engine": ("add engine [Z.of_nat a]", "[Z.of_nat a]"),
    "groups retire out of order": ("(waiting || ordered) l in (f", "waiting l in (f"),
    "a release leaves the group open": (
        "(gr_closed g ++ [gr_open g]) []", "(gr_closed g ++ [gr_open g]) (gr_open g)"
    ),
    "races of reads": ("same_key c d && (w || v)", "same_key c d"),
    "reductions of all kinds commute": (
        "same_mark x y && (fst (fst x) <? 7)", "(fst (fst x) <? 7)"
    ),
    "a reduction writes its tile": ("Some _ => co_tile h | None => tile", "_ => tile"),
    "loops run once more": ("if env x <? limit then", "if env x <=? limit then"),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", IN_COQ)
def test_a_fault_planted_in_coq_is_found(name: str, tmp_path: Path) -> None:
    """By a theorem that does not hold of it, or by the comparison."""
    shutil.copytree(ROOT / "proofs", tmp_path / "proofs")
    old, new = IN_COQ[name]
    path = tmp_path / "proofs" / "Sync.v"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")
    try:
        faulty = check_module().build_machine(tmp_path / "out", tmp_path / "proofs")
    except SystemExit as error:
        failed = re.search(r"Titan (\w+)\.v fails", str(error))
        assert failed is not None and failed.group(1) != "Sync", error
        return
    walks = 400 * len(GENERATORS)
    for first in range(0, walks, 20 * len(GENERATORS)):
        chosen = [random_walk(seed) for seed in range(first, first + 20 * len(GENERATORS))]
        if disagreements(faulty, chosen):
            return
    raise AssertionError("not found")


# ----------------------------------------------------------------- all interleavings


def closed(machine: Path, asked: list[tuple[SyncProgram, dict[str, int]]], limit: int) -> list[str]:
    """What the proved checker says of each program, all its states searched without reduction."""
    questions = [line("", [2, *Text(program, sizes).numbers, limit]) for program, sizes in asked]
    text = "\n".join(questions) + "\n0\n"
    done = subprocess.run([machine], input=text, capture_output=True, text=True, check=True)
    return [found.split()[0] for found in done.stdout.splitlines()]


def compare_closed(machine: Path, first: int, count: int, limit: int) -> Counter[str]:
    asked, verdicts = [], []
    for seed in range(first, first + count):
        random = Random(seed)
        program = GENERATORS[seed % len(GENERATORS)](random)
        if any(p.per for p in program.parameters):
            continue
        sizes = {p.name: p.minimum + 1 for p in program.parameters if p.value is None}
        asked.append((program, sizes))
        verdicts.append(explore_reference(program, sizes, Budget(states_max=limit)).verdict)
    seen: Counter[str] = Counter()
    for mine, verdict in zip(closed(machine, asked, limit), verdicts, strict=True):
        seen[f"{mine} {verdict.name}"] += 1
        assert mine != "refused"
        if verdict is Verdict.VERIFIED and mine != "open":
            assert mine == "certified"
        if verdict is Verdict.REFUTED and mine != "open":
            assert mine == "faulty"
    return seen


def test_the_proved_checker_agrees_with_the_reference_search(machine: Path) -> None:
    seen = compare_closed(machine, 0, 3 * len(GENERATORS), 300)
    assert seen["certified VERIFIED"] > 3, seen
    assert seen["faulty REFUTED"] > 3, seen


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_the_proved_checker_agrees_on_many_programs(machine: Path) -> None:
    seen = compare_closed(machine, 1000, 100 * len(GENERATORS), 3000)
    assert seen["certified VERIFIED"] > 200, seen
    assert seen["faulty REFUTED"] > 100, seen


def test_the_page_tells_what_is_compared(machine: Path) -> None:
    """Every operation of sync programs that engines know has a constructor in Coq."""
    text = (ROOT / "proofs" / "Sync.v").read_text("utf-8")
    body = text[text.index("Inductive operation") : text.index("Record agent")]
    constructors = set(re.findall(r"^\| (\w+)", body, re.MULTILINE))
    kinds = {kind.__name__ for kind in ir.Operation.__subclasses__()}
    assert constructors == kinds - {"Compute"}
    policies = set(Policies.__dataclass_fields__) - {"tensor"}
    assert len(policies) == len(re.findall(r"po_\w+ : bool", text))
