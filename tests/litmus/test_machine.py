"""The machine level: LLVM's sequences keep what the source model promises, and each is needed."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.litmus.llvm_sequences import CLANG, KINDS, ROWS, emitted
from tests.litmus.machine_suite import machine_suite
from tests.sampling import WHOLE, part
from titan.foundation.resources import root
from titan.litmus.decide import decide, final_states
from titan.litmus.language.ast import LitmusTest, Scope, Semantics, ThreadPlacement
from titan.litmus.language.condition import LitmusError, mentions_race
from titan.litmus.language.machine_steps import read_step
from titan.litmus.language.suite import SuiteEntry, find_tests, read_kinds, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.machine.answers import reaches
from titan.litmus.machine.explorer import MachineExplorer, TooManyStates
from titan.litmus.machine.lines import LineMachine
from titan.litmus.machine.lowering import Edit, as_written, programs_of
from titan.litmus.machine.program import MachineProgram, MachineWave
from titan.litmus.machine.sequences import (
    SEQUENCES,
    TARGETS,
    access_sequence,
    fence_sequence,
)
from titan.litmus.model.unsupported import UnsupportedTest
from titan.litmus.report import format_decision

SOURCE = root("litmus") / "amdgpu"
MACHINE = root("litmus") / "cdna"
ENTRIES = [e for e in find_tests([SOURCE]) if not mentions_race(read_test(e.path).condition)]
SMALL = [e for e in ENTRIES if len(read_test(e.path).threads) < 3]
# Where the sequences of LLVM 22 let the machine show what the source forbids, in our model of it.
EXCEPTIONS = {
    ("gfx90a", "transitive+workgroup+agent"): "a release at work-group scope does not wait for "
    "vmcnt, and one at agent scope waits for the stores of its own wave only",
}
needs_clang = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")


def shown(test: LitmusTest, target: str, edit: Edit = as_written) -> bool:
    """Whether the machine shows the asked outcome."""
    return any(
        reaches(test, outcome)
        for program in programs_of(test, target, edit)
        for outcome in MachineExplorer(program).outcomes()
    )


def check(entries: list[SuiteEntry], target: str) -> dict[tuple[str, bool], int]:
    """Counts by (verdict of the source, shown by the machine); nothing forbidden is shown."""
    counts: dict[tuple[str, bool], int] = {}
    for entry in entries:
        assert entry.expected is not None
        try:
            found = shown(read_test(entry.path), target)
        except UnsupportedTest:
            continue
        excepted = (target, entry.path.stem) in EXCEPTIONS
        if entry.expected.verdict == "Forbidden":
            assert found == excepted, f"{target}: {entry.path.stem}"
        key = (entry.expected.verdict, found)
        counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_the_machine_shows_nothing_that_the_source_forbids(target: str) -> None:
    counts = check(SMALL[:: 1 if WHOLE else 3], target)
    assert counts["Allowed", True] and counts["Allowed", False] and counts["Forbidden", False]


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_the_whole_suite_at_the_machine(target: str) -> None:
    counts = check(ENTRIES, target)
    assert sum(counts.values()) == len(ENTRIES)
    assert counts.get(("Forbidden", True), 0) == sum(t == target for t, _ in EXCEPTIONS)


def test_mi350_has_the_sequences_of_mi300() -> None:
    assert SEQUENCES["gfx950"] == SEQUENCES["gfx942"]
    assert set(SEQUENCES) == set(TARGETS)


def test_an_exception_ends_where_the_release_waits() -> None:
    """With `vmcnt(0)` in releases at work-group scope the outcome is gone."""
    for target, name in EXCEPTIONS:
        test = read_test(SOURCE / f"{name}.litmus")

        def waits(role: str, text: str) -> tuple[str, ...]:
            releases = role == "release" and text == "s_waitcnt lgkmcnt(0)"
            return ("s_waitcnt vmcnt(0) lgkmcnt(0)",) if releases else (text,)

        assert shown(test, target)
        assert not shown(test, target, waits)


# --------------------------------------------------------------------------- each is needed

BOTH, VECTOR, LDS = "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"
# (role, what it is, what is left of it) -> the test that shows why it is there
NEEDED_EVERYWHERE = {
    ("release", BOTH, LDS): "2+2W+sc.agent@agent",
    ("release", BOTH, VECTOR): "MP+ra.agent@group-lds-x",
    ("release", LDS, ""): "2+2W+sc.workgroup@group-lds-x",
    ("single", BOTH, LDS): "R+sc.agent@agent",
    ("single", BOTH, VECTOR): "SB+sc.agent@group-lds-x",
    ("single", LDS, ""): "R+sc.workgroup@group-lds-y",
    ("fence", BOTH, LDS): "2+2W+sc-fences.agent@xcds",
    ("fence", BOTH, VECTOR): "barrier-lds+wide",
    ("fence", LDS, ""): "barrier-lds+both",
    ("acquire", VECTOR, ""): "MP+ra.agent@agent",
    ("acquire", LDS, ""): "MP+ra.agent@group-lds-y",
}
NEEDED = {
    "gfx942": {
        ("release", "buffer_wbl2 sc1", ""): "message+ra@xcds",
        ("release", "buffer_wbl2 sc0 sc1", ""): "message+ra@agents",
        ("fence", "buffer_wbl2 sc1", ""): "message+fences@xcds",
        ("fence", "buffer_wbl2 sc0 sc1", ""): "message+fences@agents",
        ("acquire", "buffer_inv sc1", ""): "message+ra@agent",
        ("acquire", "buffer_inv sc0 sc1", ""): "message+ra@agents",
        ("fence", "buffer_inv sc1", ""): "message+fences@agent",
        ("fence", "buffer_inv sc0 sc1", ""): "message+fences@agents",
        ("load", "sc1", ""): "R+sc.agent@agent",
        ("load", "sc0 sc1", ""): "R+sc.system@agents",
        ("store", "sc1", ""): "R+sc.agent@xcds",
        ("store", "sc0 sc1", ""): "R+sc.system@agents",
        ("atomic", "sc1", ""): "add+add@agents",
    },
    "gfx90a": {
        ("release", "buffer_wbl2", ""): "message+ra@agents",
        ("fence", "buffer_wbl2", ""): "message+fences@agents",
        ("acquire", "buffer_wbinvl1_vol", ""): "message+ra@agent",
        ("acquire", "buffer_invl2", ""): "message+ra@agents",
        ("fence", "buffer_wbinvl1_vol", ""): "message+fences@agent",
        ("fence", "buffer_invl2", ""): "message+fences@agents",
        ("load", "glc", ""): "R+sc.agent@agent",
    },
}
# For waves of one CU: outside of threadgroup split mode their L1 is one.
REDUNDANT = {("load", "sc0", ""), ("store", "sc0", "")}
CASES = [
    (target, fault, name)
    for target, own in NEEDED.items()
    for fault, name in {**NEEDED_EVERYWHERE, **own}.items()
]


def without(fault: tuple[str, str, str]) -> Edit:
    """The sequences with one instruction, or the bits of one access, left out or weakened."""
    wanted, text, rest = fault

    def edit(role: str, line: str) -> tuple[str, ...]:
        if role != wanted:
            return (line,)
        if role in ("load", "store", "atomic"):
            bits = line.rpartition(", ")[2].split(" ", 1)[1:]
            return (line.removesuffix(f" {text}"),) if bits == [text] else (line,)
        return ((rest,) if rest else ()) if line == text else (line,)

    return edit


@pytest.mark.parametrize(("target", "fault", "name"), CASES, ids=str)
def test_a_sequence_with_one_instruction_less_shows_a_forbidden_outcome(
    target: str, fault: tuple[str, str, str], name: str
) -> None:
    test = read_test(SOURCE / f"{name}.litmus")
    assert not shown(test, target)
    assert shown(test, target, without(fault))


def test_every_instruction_of_the_table_is_one_of_these_faults() -> None:
    for target, own in NEEDED.items():
        known = {(role, text) for role, text, _ in {*NEEDED_EVERYWHERE, *own, *REDUNDANT}}
        for kind, order, scope, lds in ROWS:
            if kind == "fence":
                used = [("fence", text) for text in fence_sequence(target, order, scope)]
            else:
                sequence = access_sequence(target, kind, order, scope, lds)
                role = "single" if kind == "load" else "release"
                used = [(role, text) for text in sequence.before]
                used += [("acquire", text) for text in sequence.behind]
                used += [(kind, sequence.bits)] if sequence.bits else []
            assert set(used) <= known, (target, kind, order, scope)


@pytest.mark.heavy
@pytest.mark.parametrize("fault", sorted(REDUNDANT), ids=str)
def test_what_is_redundant_in_the_model_changes_nothing(fault: tuple[str, str, str]) -> None:
    for entry in SMALL:
        assert entry.expected is not None
        if entry.expected.verdict == "Forbidden":
            assert not shown(read_test(entry.path), "gfx942", without(fault)), entry.path.stem


# ------------------------------------------------------------------------------ the compiler


@needs_clang
@pytest.mark.parametrize("target", TARGETS)
def test_clang_emits_the_sequences_of_the_table(target: str, tmp_path: Path) -> None:
    found = emitted(target, tmp_path)
    assert found.keys() == set(ROWS)
    wrong = {}
    for row in ROWS:
        kind, order, scope, lds = row
        if kind == "fence":
            wanted = (fence_sequence(target, order, scope), "", ())
        else:
            sequence = access_sequence(target, kind, order, scope, lds)
            wanted = (sequence.before, sequence.bits, sequence.behind)
        if found[row] != wanted:
            wrong[(kind, order.value, scope.value, lds)] = (found[row], wanted)
    assert wrong == {}


def test_every_order_of_the_language_is_a_row() -> None:
    assert {order for orders in KINDS.values() for order in orders} == set(Semantics) - {
        Semantics.WEAK
    }
    assert {scope for _, _, scope, _ in ROWS} == set(Scope) - {Scope.CLUSTER}


# ----------------------------------------------------------------- tests of instructions


def test_the_machine_files_are_what_the_table_says() -> None:
    tests = machine_suite()
    stored = {entry.path.stem: entry.path.read_text() for entry in find_tests([MACHINE])}
    assert stored == {name: text for name, (text, _) in tests.items()}
    recorded = {name: kind.verdict for name, kind in read_kinds(MACHINE / "kinds.txt").items()}
    assert recorded == {name: verdict for name, (_, verdict) in tests.items()}


def test_both_engines_decide_every_machine_file() -> None:
    for entry in list(find_tests([MACHINE]))[:: 1 if WHOLE else 3]:
        assert entry.expected is not None
        decision = decide(read_test(entry.path))
        assert decision.rechecked, entry.path.name
        assert decision.verdict == entry.expected.verdict, entry.path.name


def test_states_of_a_machine_test() -> None:
    test = read_test(MACHINE / "vmcnt+1-younger.gfx942.litmus")
    assert [tuple(s.values()) for s in final_states(test)] == [(0,), (1,)]
    assert "instructions of gfx942" in format_decision(decide(test), final_states(test))


TEXT = """GFX942 T
{ x = 1; lds a = 0; }
 P0@wave 0,wg 0           | P1@wave 1,wg 0            ;
 global_load_dword r0, x  | ds_read_b32 r0, a         ;
 s_waitcnt vmcnt(0)       | s_waitcnt lgkmcnt(0)      ;
 beq r0, 1, out           | s_barrier                 ;
 out:                     |                           ;
exists (P0:r0=1)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("global_load_dword r0, x", "ds_read_b32 r0, x", "`x` is not in LDS"),
        ("ds_read_b32 r0, a", "global_load_dword r0, a", "`a` is not in global memory"),
        ("r0, x  ", "r0, x glc", "no bit `glc` on gfx942"),
        ("global_load_dword", "global_load_dwrd", "unknown machine instruction"),
        ("vmcnt(0)", "vmcnt(64)", "vmcnt counts to 63"),
        ("vmcnt(0)", "vscnt(0)", "waits for vmcnt"),
        ("r0, 1, out", "r0, 1, nowhere", "unknown label `nowhere`"),
        ("s_barrier", "buffer_wbinvl1_vol", "gfx942 has no `buffer_wbinvl1_vol`"),
        ("r0, x", "r0", "takes 2 operands, but has 1"),
        ("x = 1;", "y = 1;", "unknown location `x`"),
    ],
)
def test_faults_of_machine_tests_are_located(old: str, new: str, message: str) -> None:
    with pytest.raises(LitmusError, match=message) as caught:
        read_litmus("t", TEXT.replace(old, new, 1))
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("P1@wave 1", "P1@wave 0", "two threads of one wave"),
        (" beq r0, 1, out           |", " out:                     |", ""),
        ("s_waitcnt vmcnt(0) ", "v_mov_b32 r0, 1", "under way, in no order"),
    ],
)
def test_what_the_machine_does_not_decide(old: str, new: str, message: str) -> None:
    text = TEXT.replace(old, new, 1)
    if not message:
        text = text.replace("\n out:                     |                           ;\nexists",
                            "\n beq r0, 1, out | ;\nexists")  # fmt: skip
        message = "a loop is not decided"
    with pytest.raises(UnsupportedTest, match=message):
        decide(read_litmus("t", text))


# --------------------------------------------------------------------- two engines, at random

PLACES = (
    ThreadPlacement(0, 0, 0, 0), ThreadPlacement(0, 0, 0, 1), ThreadPlacement(0, 0, 1, 0),
    ThreadPlacement(0, 1, 2, 0), ThreadPlacement(1, 0, 0, 0),
)  # fmt: skip
LINES = (
    "global_load_dword R, X", "global_load_dword R, X sc1", "global_load_dword R, X sc0 sc1",
    "global_store_dword X, V", "global_store_dword X, V sc1", "global_store_dword X, V sc0 sc1",
    "global_atomic_add R, X, V", "global_atomic_add R, X, V sc1", "ds_read_b32 R, l",
    "ds_write_b32 l, V", "global_load_lds_dword l, X", "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)",
    "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0) lgkmcnt(0)", "buffer_wbl2 sc1",
    "buffer_wbl2 sc0 sc1", "buffer_inv sc1", "buffer_inv sc0 sc1", "s_barrier",
    "global_store_dword X, r0",
)  # fmt: skip


@st.composite
def programs(draw) -> MachineProgram:
    """Two waves, anywhere, of a few instructions on two locations and one word of LDS."""
    waves = []
    for number in range(2):
        place = draw(st.sampled_from(PLACES))
        if number and place == waves[0].place:
            place = PLACES[1] if waves[0].place != PLACES[1] else PLACES[0]
        steps = []
        for at in range(draw(st.integers(1, 4))):
            line = draw(st.sampled_from(LINES))
            line = line.replace("X", draw(st.sampled_from("xy"))).replace("R", f"r{at}")
            steps.append(read_step(line.replace("V", str(draw(st.integers(1, 2)))), "gfx942"))
        waves.append(MachineWave(f"P{number}", place, tuple(steps)))
    return MachineProgram("gfx942", tuple(waves), (("x", 0), ("y", 0)), (("l", 0),))


def test_the_engines_of_the_machine_agree_on_random_programs() -> None:
    @settings(
        max_examples=part(600, 20), deadline=None, derandomize=True, database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def agree(program: MachineProgram) -> None:
        try:
            again = LineMachine(program, 2_000).outcomes()
        except TooManyStates:
            assume(False)
            return
        found = MachineExplorer(program).outcomes()
        assert found == again, [[s.text for s in w.steps] for w in program.waves]

    agree()


@cache
def lowered(target: str) -> list[MachineProgram]:
    found: list[MachineProgram] = []
    for entry in SMALL:
        try:
            found += programs_of(read_test(entry.path), target)
        except UnsupportedTest:
            continue
    return found


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_the_engines_of_the_machine_agree_on_the_suite(target: str) -> None:
    for program in lowered(target)[:: 1 if WHOLE else 10]:
        assert MachineExplorer(program).outcomes() == LineMachine(program).outcomes()
