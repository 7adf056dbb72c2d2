"""Tests of AMD devices as HIP kernels: what the source says, and what clang makes of it.

The assembly of source tests is read back and explored by the model of the machine: what was really
compiled shows nothing that the source forbids. Nothing is launched.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.sampling import WHOLE
from titan.foundation.resources import root
from titan.litmus.decide import decide
from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.machine_steps import CdnaStep
from titan.litmus.language.suite import find_tests, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.machine.answers import reaches
from titan.litmus.machine.compiled import CompiledOtherwise, sequences_of
from titan.litmus.machine.explorer import MachineExplorer
from titan.litmus.machine.lowering import programs_of
from titan.litmus.machine.sequences import access_sequence, fence_sequence
from titan.litmus.render.hip import TARGETS, render_hip
from titan.litmus.render.outcomes import verdict_of
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.render.rendering import Rendering
from titan.validate.compare.gcn_compile import compile_hip, hip_assembly, missing_tools

SOURCE, MACHINE = root("litmus") / "amdgpu", root("litmus") / "cdna"
EXCEPTED = "transitive+workgroup+agent"  # docs/explanation/memory_model.md
# Every kind of statement and of place once, on some target; all targets and tests are heavy.
SAMPLE = (
    ("MP+ra.agent@xcds", "gfx950"),
    ("MP+sc.agent@group-lds-x", "gfx90a"),
    ("message+rmw@xcds", "gfx942"),
    ("message+fences@wave", "gfx942"),
    ("transitive+workgroup+agent", "gfx90a"),
    ("MP+ra.system@xcds", "gfx90a"),
)
MACHINE_SAMPLE = ("dma+1-older.gfx942", "lgkmcnt+mixed.gfx90a", "handover+xcds.gfx950")
BITS = re.compile(r" (?:sc0|sc1|nt|glc|slc|vmcnt\(\d+\)|lgkmcnt\(\d+\))(?= |$)")
needs_clang = pytest.mark.skipif(bool(missing_tools()), reason="clang 22 is not installed")


PATHS = [entry.path for entry in find_tests([SOURCE, MACHINE])]
SOME = PATHS if WHOLE else PATHS[::6]


@cache
def rendered(path: Path) -> Rendering | NotRenderable:
    try:
        return render_hip(read_test(path))
    except NotRenderable as error:
        return error


def rendering_of(path: Path) -> Rendering:
    found = rendered(path)
    assert isinstance(found, Rendering)
    return found


def renderings() -> list[tuple[Path, Rendering]]:
    found = [(path, rendered(path)) for path in SOME]
    return [(path, item) for path, item in found if isinstance(item, Rendering)]


def assembly(path: Path, target: str, folder: Path) -> str:
    source = folder / "test.hip.cpp"
    source.write_text(rendering_of(path).source, encoding="utf-8")
    return hip_assembly(source, target)


def shown(test: LitmusTest, target: str, text: str) -> bool:
    """Whether what was compiled shows the asked outcome on the machine."""
    compiled = sequences_of(text, test)
    return any(
        reaches(test, outcome)
        for program in programs_of(test, target, compiled=compiled)
        for outcome in MachineExplorer(program).outcomes()
    )


@pytest.mark.heavy
def test_every_test_is_rendered_or_has_a_reason() -> None:
    found = [rendered(path) for path in PATHS]
    reasons = Counter(x.kind if isinstance(x, NotRenderable) else "rendered" for x in found)
    assert reasons == {"rendered": 417, "several agents": 43, "not observable": 5}


def test_every_instruction_is_in_the_source_once_and_in_order() -> None:
    for path, item in renderings():
        test = read_test(path)
        marks = re.findall(r'titan (\d+) (\d+)(?:"|\\n)', item.source)
        assert marks == [
            (str(number), str(place))
            for number, thread in enumerate(test.threads)
            for place in range(len(thread.instructions))
        ], path
        for thread in test.threads:
            for step in thread.instructions:
                if isinstance(step, CdnaStep) and step.vmcnt is not None:
                    assert f"{step.text} ; titan" in item.source


def test_threads_stand_where_the_test_says() -> None:
    for path, item in renderings():
        test, launch = read_test(path), item.manifest["launch"]
        groups = {thread.placement.group for thread in test.threads}
        assert launch["clusters_per_instance"] == len({g.cluster for g in groups})
        assert launch["ctas_per_instance"] >= len(groups)
        waves = Counter(place.group for place in {thread.placement for thread in test.threads})
        assert launch["warps_per_group"] == max(waves.values())
        seats = re.findall(
            r"if \(working && cta == (\d+)u && slot == (\d+)u(?: && lane_id / TITAN_LANES == "
            r"(\d+)u)?\) number = (\d+)u;",
            item.source,
        )
        places = {(cta, slot, part) for cta, slot, part, _ in seats}
        assert len(places) == len(seats) == len(test.threads)
        for one, first in zip(seats, test.threads, strict=True):
            for two, second in zip(seats, test.threads, strict=True):
                assert (one[0] == two[0]) == (first.placement.group == second.placement.group)
                assert (one[:2] == two[:2]) == (first.placement == second.placement)


def test_what_a_host_has_to_know() -> None:
    def manifest(name: str) -> dict:
        return rendering_of(SOURCE / f"{name}.litmus").manifest

    wide, narrow = manifest("MP+ra.system@xcds"), manifest("MP+ra.agent@xcds")
    assert wide["targets"] == list(TARGETS)
    assert wide["parameters"][-1] == {"name": "xcds", "type": "unsigned", "role": "xcds"}
    assert wide["buffers"][0]["fine_grained"] is True
    assert not any("fine_grained" in buffer for buffer in narrow["buffers"])
    assert manifest("message+fences@wave")["options"]["TITAN_LANES"]["max"] == 32
    item = rendering_of(MACHINE / "dma+none.gfx950.litmus")
    assert item.manifest["targets"] == ["gfx950"]
    assert item.manifest["options"]["TITAN_LANES"]["max"] == 1


def test_a_race_leaves_every_outcome_possible() -> None:
    racy = verdict_of(read_test(SOURCE / "MP+ra.workgroup@xcds.litmus"))
    clean = verdict_of(read_test(SOURCE / "MP+ra.agent@xcds.litmus"))
    assert racy is not None and list(racy.states.values()) == [None]
    assert clean is not None and list(clean.states.values()) == [[[0, 0], [0, 1], [1, 1]]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AMDGPU t\n{ x = 0; }\n P0@wg 0 | P1@wg 0,agent 1 ;\n st.weak x, 1 | ld.weak r0, x ;\n"
         "exists (P1:r0=1)", "several agents"),
        ("AMDGPU t\n{ x = 0; }\n P0@wave 0,wg 0 | P1@wave 1,wg 0 ;\n s_barrier | ld.weak r0, x ;\n"
         "exists (P1:r0=1)", "barrier"),
        ("AMDGPU t\n{ x = 0; }\n P0@wave 0,wg 0 | P1@wave 0,wg 0 ;\n s_barrier | s_barrier ;\n"
         "exists (x=1)", "barrier"),
        ("GFX942 t\n{ x = 0; }\n P0@wave 0,wg 0 ;\n"
         " global_atomic_cmpswap r0, x, r1, 1 ;\nexists (x=1)", "no such form"),
    ],
)  # fmt: skip
def test_what_one_launch_cannot_do_is_refused(text: str, kind: str) -> None:
    with pytest.raises(NotRenderable) as caught:
        render_hip(read_litmus("t.litmus", text))
    assert caught.value.kind == kind


def test_other_devices_have_other_languages() -> None:
    with pytest.raises(NotRenderable, match="a test of PTX, not of an AMD device"):
        render_hip(read_test(root("litmus") / "classic" / "SB.litmus"))


@needs_clang
@pytest.mark.parametrize(("name", "target"), SAMPLE)
def test_what_is_compiled_is_llvms_table_and_shows_nothing_forbidden(
    name: str, target: str, tmp_path: Path
) -> None:
    compare(SOURCE / f"{name}.litmus", (target,), tmp_path)


@needs_clang
@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(path.stem for path in SOURCE.glob("*.litmus")))
def test_the_whole_suite_compiles_to_llvms_table(name: str, tmp_path: Path) -> None:
    compare(SOURCE / f"{name}.litmus", TARGETS, tmp_path)


def compare(path: Path, targets: tuple[str, ...], folder: Path) -> None:
    if isinstance(rendered(path), NotRenderable):
        return
    test = read_test(path)
    lds = {x.name for x in test.locations if x.home is not None}
    forbidden = not decide(test, recheck=False).allowed
    for target in targets:
        text = assembly(path, target, folder)
        for (number, place), found in sequences_of(text, test).items():
            step = test.threads[number].instructions[place]
            wanted = table(target, step, lds)
            assert found.bits == wanted[1], (target, step)
            assert caches(found.before) == caches(wanted[0]), (target, step)
            assert caches(found.behind) == caches(wanted[2]), (target, step)
        if forbidden:
            assert shown(test, target, text) == (test.name == EXCEPTED), target


def table(target: str, step: ast.LitmusInstruction, lds: set[str]) -> tuple:
    """Before, bits and behind of an instruction by the table of LLVM's sequences."""
    match step:
        case ast.Fence(order, scope):
            return fence_sequence(target, order, scope), "", ()
        case ast.Load() | ast.Store() | ast.Atomic():
            kind = type(step).__name__.lower()
            found = access_sequence(target, kind, step.semantics, step.scope, step.location in lds)
            return found.before, found.bits, found.behind
    return (), "", ()


def caches(lines: tuple[str, ...]) -> list[str]:
    """What is not a wait: waits are judged by what the machine shows without them."""
    return [line for line in lines if not line.startswith("s_waitcnt")]


@needs_clang
@pytest.mark.parametrize(
    ("name", "target", "line"),
    [
        ("message+ra@xcds", "gfx942", r"\tbuffer_wbl2 sc1\n"),
        ("message+ra@xcds", "gfx942", r"\tbuffer_inv sc1\n"),
        ("MP+ra.agent@xcds", "gfx942", r"\ts_waitcnt vmcnt\(0\)\n(?=\tglobal_store_dword)"),
        ("message+ra@xcds", "gfx90a", r"\tbuffer_wbinvl1_vol\n"),
        ("barrier-lds+both", "gfx90a", r"\ts_waitcnt lgkmcnt\(0\)\n(?=[^w]*titan 0 2\n)"),
    ],
)
def test_an_instruction_less_in_the_assembly_is_seen(
    name: str, target: str, line: str, tmp_path: Path
) -> None:
    """The reading back is no formality: without one of LLVM's instructions the outcome shows."""
    path = SOURCE / f"{name}.litmus"
    text, test = assembly(path, target, tmp_path), read_test(path)
    begin = text.index("; titan ")
    less = text[:begin] + re.sub(line, "", text[begin:])
    assert less != text
    assert not shown(test, target, text)
    assert shown(test, target, less)


@needs_clang
def test_assembly_that_is_not_the_test_is_refused(tmp_path: Path) -> None:
    path = SOURCE / "MP+ra.agent@xcds.litmus"
    text, test = assembly(path, "gfx942", tmp_path), read_test(path)
    for edit, message in (
        (("; titan 0 0\n", "; other\n"), "out of order"),
        (("; titan 1 1\n", "; titan 1 0\n"), "out of order"),
        (("global_store_dword", "flat_store_dword"), "flat_store_dword .* instead of"),
    ):
        with pytest.raises(CompiledOtherwise, match=message):
            sequences_of(text.replace(*edit), test)


@needs_clang
@pytest.mark.parametrize("name", MACHINE_SAMPLE)
def test_instructions_are_assembled_as_they_stand(name: str, tmp_path: Path) -> None:
    assembled(MACHINE / f"{name}.litmus", tmp_path)


@needs_clang
@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(path.stem for path in MACHINE.glob("*.litmus")))
def test_every_test_of_instructions_is_assembled(name: str, tmp_path: Path) -> None:
    assembled(MACHINE / f"{name}.litmus", tmp_path)


def assembled(path: Path, folder: Path) -> None:
    """The instructions of each thread stand in the machine code one behind the other."""
    rendering, test = rendering_of(path), read_test(path)
    source = folder / "test.hip.cpp"
    source.write_text(rendering.source, encoding="utf-8")
    target = str(rendering.manifest["target"])
    code = compile_hip(source, target).text
    text = " ".join(
        re.sub(r"_e(32|64)$", "", line.split()[0]) + "".join(BITS.findall(line))
        for line in code.splitlines()
        if line.startswith("\t")
    )
    for thread in test.threads:
        heads = []
        for step in thread.instructions:
            assert isinstance(step, CdnaStep)
            if step.text.startswith("global_load_lds"):
                heads += ["s_mov_b32", "s_nop"]
            heads.append(step.text.split()[0] + "".join(BITS.findall(step.text)))
        assert " ".join(heads) in text, path
