"""PTX from a file to a verdict: a ring by hand, clean and with each part of it broken."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import titan
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.verify import verify_assembly_file
from titan.frontends.ptx.code_mutants import mutants_of
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.verify_code import CodeOptions, short_name, verify_code, verify_code_file
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Options
from titan.verify.model import Finding

FOLDER = Path(__file__).parent / "ptx"
LAUNCH = "{grid: 4, dynamic_shared: 0, parameters: {source: pointer, n: 5}}"


def ring() -> str:
    source, _ = load_file(str(FOLDER / "ring.ptx"))
    assert source is not None
    return source.text


def verified(text: str, launch: str = LAUNCH, **more) -> Finding:
    described, errors = read_launch_text(launch, "ring.yaml")
    assert errors == []
    (finding,) = verify_code(Source("ring.ptx", text), described, CodeOptions(**more), [], 0.0)
    return finding


def codes(finding: Finding) -> list[str]:
    return [item.code for item in finding.diagnostics]


def test_a_ring_is_verified_and_says_for_what():
    finding = verified(ring())
    assert finding.verdict is Verdict.VERIFIED
    assert finding.coverage.launches == (
        "grid 4x1x1, block 64x1x1",
        "CTA (0, 0, 0), (2, 0, 0), (3, 0, 0)",
    )
    assert finding.target == "sm_90a" and finding.exit_code == 0


@pytest.mark.parametrize("trips", [5, 500])
def test_what_a_run_records_has_a_bound(trips, monkeypatch):
    """More trips than that are undecided, by one run, with what helps."""
    few = partial(Options, events_max=1000)
    monkeypatch.setattr("titan.frontends.ptx.machine.Options", few)
    finding = verified(ring(), LAUNCH.replace("n: 5", f"n: {trips}"))
    if trips == 5:
        assert finding.verdict is Verdict.VERIFIED
        return
    assert finding.verdict is Verdict.UNDECIDED and finding.exit_code == 3
    (note,) = [note for note in finding.notes if "up to 1,000 events: launch it with" in note]
    assert "`--require any`" in note and "schedules were tried" not in note


def test_a_sweep_finds_what_drives_the_loop():
    finding = verified(ring(), sweep=True, ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    runs = " ".join(finding.coverage.launches)
    assert "parameter 1 = 0, 1, 2, 3, 11 (0, 1, 2, 3, 11 trips): CTA (0, 0, 0)" in runs
    assert any("parameter 1 drives a loop, 1 a trip" in note for note in finding.notes)


BROKEN = {
    "no wait for the stage to be empty": (
        "\t@!%p5 bra EMPTY;", "", {"TTN202", "TTN206", "TTN216", "TTN201"},
    ),
    "the producer's parity is wrong": ("xor.b32 %r10, %r9, 1", "mov.b32 %r10, %r9", {"TTN205"}),
    "no wait for the data": ("\t@!%p5 bra FULL;", "", {"TTN203", "TTN206", "TTN216"}),
    "one lane arrives less": ("[%r6+8], 32", "[%r6+8], 33", {"TTN205"}),
    "one lane arrives more": ("[%r6+8], 32", "[%r6+8], 31", {"TTN206", "TTN202"}),
    "half of the bytes expected": ("[%r12], 1024;\n\tmad", "[%r12], 512;\n\tmad",
                                   {"TTN203", "TTN207"}),
    "nobody releases": ("mbarrier.arrive.shared.b64 _, [%r11];", "", {"TTN205"}),
    "released before it is read": (
        "\tld.shared.v4.u32 {%r16",
        "\tmbarrier.arrive.shared.b64 _, [%r11];\n\tld.shared.v4.u32 {%r16",
        {"TTN202", "TTN206", "TTN216"},
    ),
    "used before the initialisation": ("\tbar.sync 0;", "", {"TTN208"}),
    "reads beyond the stages": ("[%r15+16]", "[%r15+300000]", {"TTN218"}),
    "a copy to a crooked address": ("1024, %r4;\n\tmul", "1020, %r4;\n\tmul", {"TTN219", "TTN208"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ring_is_refuted(name):
    old, new, expected = BROKEN[name]
    text = ring()
    assert old in text
    finding = verified(text.replace(old, new, 1), ctas=(0,))
    assert finding.verdict is Verdict.REFUTED, finding.notes
    assert set(codes(finding)) & expected, codes(finding)


def test_a_fault_names_the_source_line():
    text = ring().replace("\t@!%p5 bra FULL;", "", 1)
    text = text.replace("mbarrier.arrive.shared.b64 _, [%r11];", "", 1)
    (item,) = verified(text, LAUNCH.replace("n: 5", "n: 1"), ctas=(0,)).diagnostics
    assert item.code == "TTN211"
    labels = " ".join(note.label for note in item.annotations)
    assert "[ring.cu:22]" in labels


def test_consumers_that_stop_early_leave_a_copy_in_flight():
    branch = "\t@%p2 bra CONSUMER;"
    text = ring().replace(branch, f"\t@%p2 sub.u32 %r1, %r1, 1;\n{branch}", 1)
    finding = verified(text, ctas=(0,))
    assert codes(finding) == ["TTN211"]


def test_every_mutant_of_the_ring_is_killed():
    source = Source("ring.ptx", ring())
    module, _ = parse_source(source)
    assert module is not None
    left = []
    for mutant in mutants_of(module, source, module.entries()[0]):
        if verified(mutant.text, ctas=(0,)).verdict is Verdict.VERIFIED:
            left.append((mutant.line, mutant.name, mutant.kind))
    assert left == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "TTN007"),
        (".version 8.3\n.target sm_90a\n", "TTN007"),
        ("not ptx at all {", None),
        (ring()[: len(ring()) // 2], None),
        (ring().replace("mad.lo.u32", "frob.lo.u32"), None),
    ],
)
def test_bad_text_is_refused_with_its_place(text, code):
    (finding,) = verify_code(Source("bad.ptx", text), None, CodeOptions(), [], 0.0)
    assert finding.verdict is Verdict.REFUSED and finding.exit_code == 2
    assert finding.diagnostics
    assert code is None or codes(finding) == [code]


def test_an_unknown_entry_is_refused_with_the_names():
    described, _ = read_launch_text(LAUNCH, "ring.yaml")
    options = CodeOptions(entry="rung")
    (finding,) = verify_code(Source("ring.ptx", ring()), described, options, [], 0.0)
    assert codes(finding) == ["TTN011"]
    assert "ring" in " ".join(finding.diagnostics[0].helps)


def test_a_loop_without_end_is_undecided_by_its_budget():
    text = ring().replace("add.u32 %r7, %r7, 1;\n\tbra PRODUCER", "bra PRODUCER", 1)
    text = text.replace(
        "mbarrier.try_wait.parity.shared.b64 %p5, [%r11], %r10", "setp.eq.u32 %p5, 0, 0", 1
    )
    finding = verified(text, ctas=(0,), steps_max=20_000, schedules=1)
    assert finding.verdict in (Verdict.UNDECIDED, Verdict.REFUTED)


def test_a_file_with_its_launch_beside_it(tmp_path):
    (tmp_path / "ring.ptx").write_text(ring())
    (tmp_path / "ring.launch.yaml").write_text(LAUNCH)
    (finding,) = verify_code_file(str(tmp_path / "ring.ptx"), CodeOptions())
    assert finding.verdict is Verdict.VERIFIED
    assert any("ring.launch.yaml" in note for note in finding.notes)


def test_from_python():
    launch = {"grid": [4], "dynamic_shared": 0, "parameters": {"source": "pointer", "n": 3}}
    (finding,) = titan.verify_ptx(ring(), launch)
    assert finding.verdict is Verdict.VERIFIED
    (refused,) = titan.verify_ptx(ring(), {"grids": [4]})
    assert refused.verdict is Verdict.REFUSED


def test_a_missing_parameter_is_asked_for_by_name():
    finding = verified(ring(), "{grid: 1, dynamic_shared: 0, parameters: {source: pointer}}")
    assert finding.verdict is Verdict.REFUSED
    (item,) = finding.diagnostics
    assert item.code == "TTN018"
    assert item.headline == "the launch lacks parameter 1 (n), offset 0, of type u32"


def kernel(body: str, threads: int = 64) -> str:
    return f"""
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid {threads}
{{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.shared .align 128 .b8 s[2048];
	.shared .align 8 .b8 b[16];
	mov.u32 %r0, %tid.x;
	shr.u32 %r1, %r0, 5;
	{body}
	ret;
}}
"""


NOTHING = "{grid: 1, dynamic_shared: 0}"


@pytest.mark.parametrize(("value", "verdict"), [("%r0", Verdict.VERIFIED), ("", Verdict.REFUTED)])
def test_warps_may_store_equal_rows_of_matrices(value, verdict):
    """As Triton exchanges what several warps hold; %r0 is the thread, of which lanes are left."""
    made = "and.b32 %r3, %r0, 31;" if value else "mov.u32 %r3, %r0;"
    body = made + "shl.b32 %r4, %r0, 4; and.b32 %r4, %r4, 496; mov.u32 %r5, s;"
    body += "add.u32 %r4, %r4, %r5; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r3};"
    assert verified(kernel(body), NOTHING).verdict is verdict


@pytest.mark.parametrize(("value", "verdict"), [("7", Verdict.VERIFIED), ("%r1", Verdict.REFUTED)])
def test_warps_may_store_equal_values_to_one_place(value, verdict):
    finding = verified(kernel(f"st.shared.u32 [s], {value};"), NOTHING)
    assert finding.verdict is verdict
    if verdict is Verdict.REFUTED:
        assert codes(finding) == ["TTN201"]


PEEK = """
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 32;
	bar.sync 0;
	setp.ne.u32 %p2, %r1, 0;
	@%p2 bra WAITS;
	st.shared.u32 [s], 1;
	mbarrier.arrive.shared.b64 _, [b];
	bra DONE;
WAITS:
	mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;
	{early}
	@%p3 bra READY;
AGAIN:
	mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;
	@!%p3 bra AGAIN;
READY:
	ld.shared.u32 %r4, [s];
DONE:
"""


def test_a_peek_does_not_order_what_comes_before_the_wait():
    good = verified(kernel(PEEK.replace("{early}", "")), NOTHING)
    assert good.verdict is Verdict.VERIFIED, good.notes
    bad = verified(kernel(PEEK.replace("{early}", "ld.shared.u32 %r5, [s];")), NOTHING)
    assert bad.verdict is Verdict.REFUTED and codes(bad) == ["TTN201"]


@pytest.mark.parametrize("policy", ["lowest", "refuse"])
def test_electing_a_lane_is_an_assumption(policy):
    text = kernel("elect.sync %r2|%p1, -1; @%p1 st.shared.u32 [s], 1;", 32)
    finding = verified(text, NOTHING, policies=CodePolicies(elected_lane=policy))
    wanted = Verdict.VERIFIED if policy == "lowest" else Verdict.UNDECIDED
    assert finding.verdict is wanted
    assert any("elect.sync takes the lowest lane" in note for note in finding.notes)


def test_long_names_of_templates_are_shown_by_their_head():
    mangled = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tuple" + "I" * 40
    assert short_name(mangled) == "cutlass::device_kernel<...>"
    assert short_name("gemm") == "gemm"


@pytest.mark.parametrize(
    ("count", "notes"),
    [
        ("shr.u32 %r1, %r1, 6;", "parameter 1 drives a loop, 64 a trip"),
        ("add.u32 %r1, %r1, 63; shr.u32 %r1, %r1, 6;", "parameter 1 drives a loop, 64 a trip"),
    ],
)
def test_a_sweep_finds_what_one_trip_takes(count, notes):
    load = "\tld.param.u32 %r1, [n];"
    text = ring().replace(load, f"{load} {count}", 1)
    finding = verified(text, LAUNCH.replace("n: 5", "n: 320"), sweep=True, ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    assert any(note.startswith(notes) for note in finding.notes), finding.notes


def test_a_sweep_finds_the_count_inside_of_a_structure():
    text = ring().replace("\t.param .u32 n\n", "\t.param .align 4 .b8 n[16]\n", 1)
    text = text.replace("[n];", "[n+8];", 1)
    launch = LAUNCH.replace("n: 5", "n: {at: {8: {s32: 5}}}")
    finding = verified(text, launch, sweep=True, ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED
    runs = " ".join(finding.coverage.launches)
    assert "parameter 1 at offset 8 = 1, 2, 3, 11 (1, 2, 3, 11 trips)" in runs


def test_rows_that_grow_in_a_sweep_do_not_run_into_each_other():
    """A tensor map whose extent follows the parameter keeps its rows apart."""
    from titan.frontends.ptx.sweep import ParameterWord, changed
    from titan.isa.simt.launch import Launch, LaunchParameter, LaunchTensorMap

    item = LaunchTensorMap(6, 0, (256, 256, 2), (512, 512 * 256), (64, 64, 1), (1, 1, 1))
    launch = Launch(
        None, (1, 1, 1), (32, 1, 1), parameters=(LaunchParameter(bytes([0, 1, 0, 0])),),
        tensor_maps={b"map": item},
    )  # fmt: skip
    (grown,) = changed(launch, {ParameterWord(0, 0, 4, 256): 1000}).tensor_maps.values()
    assert grown.dimensions == (1000, 1000, 2)
    assert grown.stride_bytes == (2000, 2000 * 1000)
    (same,) = changed(launch, {ParameterWord(0, 0, 4, 256): 64}).tensor_maps.values()
    assert same.dimensions == (64, 64, 2) and same.stride_bytes == item.stride_bytes


def test_a_sweep_launches_what_hangs_when_it_is_longer():
    text = ring().replace("[%r6+8], 32", "[%r6+8], 33", 1)
    launch = LAUNCH.replace("n: 5", "n: 2")
    assert verified(text, launch, ctas=(0,)).verdict is Verdict.VERIFIED
    finding = verified(text, launch, sweep=True, ctas=(0,))
    assert codes(finding) == ["TTN205"]
    assert "found with parameter 1 = 4, CTA (0, 0, 0)" in finding.notes


@pytest.mark.parametrize(("suffix", "code"), [("ptx", "TTN001"), ("s", "TTN007")])
def test_faults_of_the_code_and_of_its_launch_are_told_at_once(suffix, code, tmp_path):
    path = tmp_path / f"kernel.{suffix}"
    path.write_text(".version 8.3\n.target sm_90a\nnonsense" if suffix == "ptx" else "s_nop 0\n")
    (tmp_path / "kernel.launch.yaml").write_text("grids: 1\n")
    verify = verify_code_file if suffix == "ptx" else verify_assembly_file
    (finding,) = verify(str(path), CodeOptions())
    assert finding.verdict is Verdict.REFUSED
    assert [item.code for item in finding.diagnostics] == [code, "TTN006"]
