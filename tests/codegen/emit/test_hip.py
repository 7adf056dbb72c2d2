"""Emitted HIP compiles, synchronises as the sync program says, and stays within its manifest."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.emit.hip_kernels import FORMS, HEADER, SOURCE, form, make, needs_clang, shape
from tests.codegen.pipeline.cdna_programs import copy, gemm
from tests.codegen.pipeline.written import construct
from tests.sampling import sampled
from titan.codegen.emit.hip import emit
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.tile.model import Tensor, TileProgram, View
from titan.inspect.loops import loops as loops_of
from titan.inspect.machine import of_compiled
from titan.isa.gcn.hazards import hazards
from titan.isa.gcn.listing import events, loops, read
from titan.language.kernel.decode import decode_text
from titan.sync.expression import parse_expression
from titan.validate.compare.gcn_compile import over_budget

LOOPS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "amd_loops.json"


@needs_clang
@pytest.mark.parametrize("name", sampled(FORMS, every=3))
def test_every_form_compiles_and_synchronises_as_verified(name: str):
    made = form(name)
    compiled = made.compiled()
    manifest = made.emitted.manifest
    function = read(compiled.text)[str(manifest["entry"])]
    from titan.validate.compare.gcn_check import compare

    assert compare(function, made.language()) == []
    resources = manifest["resources"]
    assert isinstance(resources, dict)
    registers, shared = resources["registers_per_thread_max"], resources["shared_bytes"]
    assert over_budget(compiled.figures, registers, shared) == []
    assert compiled.log == ""


@needs_clang
def test_the_main_loop_keeps_copies_in_flight():
    """A19, A20: counted waits in front of the barrier, and no vmcnt(0) that the program lacks."""
    compiled = form("gemm of 4 waves").compiled()
    (function,) = read(compiled.text).values()
    main = next(loop for loop in loops(function) if loop.products)
    waits = [event for event in main.events if event.startswith("vmcnt")]
    assert waits == ["vmcnt(32)", "vmcnt(16)", "vmcnt(0)"]
    place = main.events.index("barrier")
    assert main.events[place - 3 : place] == ("vmcnt(32)", "vmcnt(16)", "vmcnt(0)")
    assert main.events.count("copy") == 16 and main.products == 16


@needs_clang
def test_gfx950_copies_and_multiplies_twice_and_four_times_as_much_at_once():
    disassembly = form("gemm on gfx950").compiled().text
    assert "buffer_load_dwordx4" in disassembly and "v_mfma_f32_32x32x16_bf16" in disassembly
    (function,) = read(disassembly).values()
    main = next(loop for loop in loops(function) if loop.products)
    assert main.products == 16 and main.events.count("copy") == 8  # a k tile of 64, not 32
    assert "v_mfma_f32_32x32x8_bf16" in form("gemm of 4 waves").compiled().text


@needs_clang
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_gemm_through_registers_issues_less_than_that_of_triton(target: str):
    """Instructions of the main loop for 8192 multiply-adds, as docs/reference/sass.md counts."""
    name = "through registers, one stage" if target == "gfx942" else "through registers on gfx950"
    (function,) = of_compiled(form(f"gemm {name}").compiled())
    bodies = [[function.instructions[at].name for at in loop.own] for loop in loops_of(function)]
    names = max(bodies, key=lambda body: sum(one.startswith("v_mfma") for one in body))
    rows = json.loads(LOOPS.read_text(encoding="utf-8"))
    (peer,) = (
        row for row in rows
        if (row["problem"], row["target"], row["kernel"]) == ("gemm", target, "Triton, f16")
    )  # fmt: skip
    work = 128 * 128 * 64 // 4  # of one wave
    assert len(names) * peer["work"] < peer["instructions"] * work
    assert names.count("buffer_load_dwordx4") == names.count("ds_write_b128") == 8
    assert names.count("ds_read_b128") == 16


SYNC_FAULTS = [
    ("a wait is dropped", "titan::wait_copies<16, 2>(titan::smaller(2, tiles - i_t - 1));", ""),
    ("a threshold too deep", "wait_copies<16, 2>", "wait_copies<8, 2>"),
    ("a threshold too shallow", "wait_copies<16, 2>", "wait_copies<17, 2>"),
    ("one tile more in flight", "wait_copies<16, 2>", "wait_copies<16, 3>"),
    ("the barrier is dropped", "        titan::workgroup_barrier();\n", ""),
    (
        "wait and barrier change places",
        "titan::wait_copies<16, 2>(titan::smaller(2, tiles - i_t - 1));\n"
        "        titan::workgroup_barrier();",
        "titan::workgroup_barrier();\n"
        "        titan::wait_copies<16, 2>(titan::smaller(2, tiles - i_t - 1));",
    ),
    ("a drain that nobody asked for", "        titan::workgroup_barrier();\n",
     "        titan::workgroup_barrier();\n        titan::wait_vector<0>();\n"),
    ("one barrier more", "titan::workgroup_barrier();",
     "titan::workgroup_barrier(); titan::workgroup_barrier();"),
]  # fmt: skip


@needs_clang
@pytest.mark.parametrize("fault, old, new", sampled(SYNC_FAULTS, every=3))
def test_a_fault_in_the_source_is_seen_in_the_machine_code(fault: str, old: str, new: str):
    assert form("gemm of 4 waves").edited(old, new).mismatches() != []


HEADER_FAULTS = [
    ("vmcnt is not written", "s_waitcnt vmcnt(%0)", ""),
    ("no barrier", '"s_barrier"', '""'),
    ("a copy less", "UNIT + COUNT < UNITS", "UNIT + COUNT + 4 < UNITS"),
    ("the stricter waits are missing", "if (pending < MOST)", "if (pending < -1)"),
    ("thresholds in operations", "EACH * MOST < 62 ? EACH * MOST", "MOST < 62 ? MOST"),
    ("the copy goes to a register", '" #n ", %1, 0 offen offset:" #offset " lds"',
     '" #n ", %" #n ", %1, 0 offen offset:" #offset'),
]  # fmt: skip


@needs_clang
@pytest.mark.parametrize("fault, old, new", sampled(HEADER_FAULTS, every=3))
def test_a_fault_in_the_device_header_is_seen_in_the_machine_code(fault: str, old: str, new: str):
    assert form("gemm of 4 waves").edited(old, new, HEADER).mismatches() != []


@needs_clang
def test_all_that_is_wrong_is_told_in_words():
    made = form("gemm of 4 waves")
    assert made.faults() == []
    (text,) = made.edited("wait_copies<16, 2>", "wait_copies<17, 2>").faults()
    assert "is not what the sync program does here (at " in text
    assert "error" in made.edited("titan::workgroup_barrier", "titan::barrier").faults()[0]
    small = dict(
        made.emitted.manifest, resources={"registers_per_thread_max": 64, "shared_bytes": 0}
    )
    told = replace(made, emitted=replace(made.emitted, manifest=small)).faults()
    assert len(told) == 1 and told[0].endswith("vector registers; 64 are foreseen")


@needs_clang
def test_a_fault_in_waves_that_take_turns_is_seen():
    made = form("gemm of 8 waves that take turns")
    assert made.edited("if (wave >= 4)", "if (false)").mismatches() != []
    assert made.edited("titan::wait_shared();", "").mismatches() != []
    assert made.edited("__builtin_amdgcn_s_waitcnt(0xc07f);", "", HEADER).mismatches() != []


HAZARD = """
0000000000001600 <k>:
\tv_readfirstlane_b32 s2, v0                                 // 000000001600: 7E040500
\ts_mov_b32 m0, s9                                           // 000000001604: BEFC0009
\ts_nop 0                                                    // 000000001608: BF800000
\tbuffer_load_dword v3, s[0:3], 0 offen lds                  // 00000000160C: E0511000 80000003
\ts_endpgm                                                   // 000000001614: BF810000
"""


def test_wait_states_before_a_copy_are_counted():
    def found(text: str) -> list[str]:
        return hazards(read(text)["k"])

    assert ["v_readfirstlane_b32 s2" in item for item in found(HAZARD)] == [True]
    assert found(HAZARD.replace("s2, v0", "s4, v0")) == []
    assert found(HAZARD.replace("s_nop 0 ", "s_nop 3 ")) == []
    assert len(found(HAZARD.replace("s_nop 0 ", "s_nop 2 "))) == 1
    close = HAZARD.replace("s_nop 0 ", "s_add_i32 m0, s9, 1").replace("s2, v0", "s4, v0")
    assert len(found(close)) == 1


@needs_clang
def test_copies_keep_their_wait_states():
    for name in ("gemm of 4 waves", "gemm on gfx950", "copy"):
        for function in read(form(name).compiled().text).values():
            assert hazards(function) == []


def test_emission_is_deterministic_and_holds_no_path():
    first, second = (make(gemm(), shape(4)).emitted for _ in range(2))
    assert first == second
    assert json.dumps(first.manifest) == json.dumps(second.manifest)
    for text in first.files.values():
        assert "/work" not in text and "/tmp" not in text and text.isascii()
        assert max(map(len, first.files[HEADER].split("\n"))) <= 100


def test_the_manifest_says_what_a_launch_needs():
    manifest = form("gemm of 4 waves").emitted.manifest
    assert manifest["launch"] == {
        "block": 256,
        "grid": "(M + 128 - 1) // 128 * ((N + 128 - 1) // 128)",
        "cluster": 1,
        "dynamic_shared_bytes": 65536,
    }
    assert manifest["trip_count"] == "max(1, (K + 32 - 1) // 32)"
    assert manifest["copies"] == {"a": 8, "b": 8}
    constraints = manifest["constraints"]
    assert isinstance(constraints, list)
    assert {"(K) % 2 == 0", "(K) * 256 <= 1073741824", "M <= 1073741824"} <= set(constraints)
    for text in constraints:
        parse_expression(text)


def refused(tile: TileProgram, match: str) -> None:
    base = gemm()
    text = construct(base, shape(3, overlapped=False))
    family, _ = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None and family.kernels[0].program is not None
    with pytest.raises(EmissionRefused, match=match):
        emit(tile, family.kernels[0], family.kernels[0].program)


HOSTILE = ["a b", "a;b", "x\ny", 'q"', "#include", "a/*", "é", "", "a" * 65, "{{ 7 }}"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_never_reach_the_source(name: str):
    base = gemm()
    tensors = (replace(base.tensors[0], name=name), *base.tensors[1:])
    view = View(name, base.body[0].view.offsets) if base.body[0].view else None
    body = (replace(base.body[0], view=view), *base.body[1:])
    refused(replace(base, tensors=tensors, body=body), "identifier")
    refused(replace(base, name=name), "identifier")
    refused(replace(base, loop_variable=name), "identifier")
    parameters = (replace(base.parameters[0], name=name), *base.parameters[1:])
    refused(replace(base, parameters=parameters), "identifier")
    work = (replace(base.work[0], name=name), base.work[1])
    refused(replace(base, work=work), "identifier")


@pytest.mark.parametrize("dtype", ["bf16; system(0)", "f64", "", "u8"])
def test_hostile_types_never_reach_the_source(dtype: str):
    base = gemm()
    tensors = (replace(base.tensors[0], dtype=dtype), *base.tensors[1:])
    refused(replace(base, tensors=tensors), "element type")


def test_keywords_are_mangled():
    base = gemm()
    renamed = replace(base, name="while", loop_variable="int", work=(
        replace(base.work[0], name="for"), base.work[1]),
        tensors=(Tensor("class", base.tensors[0].shape, "bf16"), *base.tensors[1:]),
        body=(replace(base.body[0], view=View("class", (
            parse_expression("m * 0"), parse_expression("n * 2")))), *base.body[1:]),
        after=(), )  # fmt: skip
    text = construct(replace(renamed, name="w"), shape(2))
    family, _ = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None and family.kernels[0].program is not None
    with pytest.raises(EmissionRefused, match="out of scope"):
        emit(renamed, family.kernels[0], family.kernels[0].program)


REFUSED = [
    (replace(gemm(), target="gfx950"), "no HIP is emitted"),
    (replace(gemm(), cluster=2), "no clusters"),
    (gemm(dtype="e4m3"), "another 8-bit format"),
    (gemm(rows=64), "was verified with"),
    (gemm(groups=8, rows=256), "divided among the waves"),
    (replace(gemm(), body=gemm().body[:2]), "a value that is not there"),
]


@pytest.mark.parametrize("tile, match", REFUSED)
def test_what_does_not_fit_its_pipeline_is_refused(tile: TileProgram, match: str):
    refused(tile, match)


def test_a_pipeline_that_leaves_a_computation_out_is_refused():
    text = construct(gemm(), shape(2)).replace("    - compute: biased\n      tile: tiles - 1\n", "")
    family, _ = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None and family.kernels[0].program is not None
    with pytest.raises(EmissionRefused, match="does not compute biased"):
        emit(gemm(), family.kernels[0], family.kernels[0].program)


def test_a_tile_that_may_begin_within_a_copy_is_refused():
    base = copy()
    view = View("x", (parse_expression("m * rows"), parse_expression("n * columns + 1")))
    body = (replace(base.body[0], view=view), base.body[1])
    text = construct(base, shape(2))
    family, _ = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None and family.kernels[0].program is not None
    with pytest.raises(EmissionRefused, match="may begin within the 2 elements"):
        emit(replace(base, body=body), family.kernels[0], family.kernels[0].program)


LISTING = """
0000000000001600 <k>:
\ts_waitcnt vmcnt(2) lgkmcnt(0)                              // 000000001600: BF8C0072
\tbuffer_load_dword v3, s[0:3], 0 offen lds                  // 000000001604: E0511000 80000003
\tglobal_load_lds_dword v[2:3], off                          // 00000000160C: DCA88000 007F0002
\tbuffer_load_dword v3, v4, s[0:3], 0 offen                  // 000000001614: E0501000 80000304
\tds_read_b128 v[4:7], v1                                    // 00000000161C: D9FE0000 04000001
\ts_cbranch_scc0 65526                                       // 000000001624: BF84FFF6 <k>
\ts_endpgm                                                   // 000000001628: BF810000
\ts_nop 0                                                    // 00000000162C: BF800000
"""


def test_the_reader_of_disassembly():
    function = read(LISTING)["k"]
    assert [events(item) for item in function.instructions] == [
        ("vmcnt(2)", "lgkmcnt(0)"), ("copy",), ("copy",), (), ("read",), (), (),
    ]  # fmt: skip
    assert function.successors(5) == (6, 0) and function.successors(6) == ()
    (loop,) = loops(function)
    assert (loop.first, loop.last, len(loop.events)) == (0x1600, 0x1624, 5)


@pytest.mark.parametrize("line", ["s_setpc_b64 s[0:1]", "s_wait_loadcnt 0x0", "s_waitcnt 0x70"])
def test_the_reader_refuses_what_it_does_not_know(line: str):
    from titan.isa.gcn.listing import NotUnderstood

    text = LISTING.replace("s_nop 0 ", "s_endpgm").replace("s_endpgm  ", f"{line} ", 1)
    assert re.search(line.split(maxsplit=1)[0], text)
    with pytest.raises(NotUnderstood):
        [events(item) for item in read(text)["k"].instructions]


def test_the_source_is_what_a_person_can_read():
    text = form("gemm of 4 waves").emitted.files[SOURCE]
    assert "// a, iteration t + 4 - 1: to stage (t + 4 - 1) % 4" in text
    assert "newer operations of 16 copies each may stay in flight" in text
