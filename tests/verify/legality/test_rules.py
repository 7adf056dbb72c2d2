"""Each rule is tripped by a kernel, and not by the neighbour that keeps just within it."""

from __future__ import annotations

import pytest

from tests.verify.legality.kernels import case_of, examined, text
from tests.verify.legality.trips import TRIPS, im2col, instruction, registers
from titan.foundation.diagnostics.codes import CODES
from titan.target.limits import known_targets, limits
from titan.verify.legality.check import all_rules
from titan.verify.legality.roles import registers_at_entry
from titan.verify.legality.rule import Rule


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_rule_is_tripped_and_its_neighbour_is_not(rule: Rule):
    bad, good = TRIPS[rule.name]
    found = list(rule.check(case_of(bad)))
    assert found and {item.code for item in found} == {rule.code}
    assert all(item.span is not None for item in found), "points at a declaration"
    assert list(rule.check(case_of(good))) == []
    told = examined(bad)
    assert rule.code in {item.code for item in (*told.errors, *told.warnings)}


@pytest.mark.parametrize("name", TRIPS, ids=str)
def test_the_neighbour_is_legal_in_every_respect(name: str):
    assert examined(TRIPS[name][1]).errors == ()


def test_every_rule_has_its_pair():
    assert set(TRIPS) == {rule.name for rule in all_rules()}


def test_every_code_of_the_family_is_told_by_a_rule_or_by_lowering():
    lowering = {"TTN401", "TTN402", "TTN430"}
    assert {rule.code for rule in all_rules()} | lowering == {
        code for code in CODES if code.startswith("TTN4")
    }


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_every_rule_names_its_sources(rule: Rule):
    sources = [limits(target).source(fact) for target in known_targets() for fact in rule.facts]
    assert rule.facts and (any(sources) or rule.facts == ("matrix",))


MATRIX = [
    ("kind: wgmma, shape: [64, 256, 16], a: f16, accumulator: f16", "sm_90a", True),
    ("kind: wgmma, shape: [64, 256, 16], a: bf16, accumulator: f16", "sm_90a", False),
    ("kind: wgmma, shape: [64, 40, 32], a: i8, accumulator: i32", "sm_90a", False),
    ("kind: wgmma, shape: [64, 48, 32], a: i8, b: u8, accumulator: i32", "sm_90a", True),
    ("kind: wgmma, shape: [64, 64, 16], a: f16, b: bf16, accumulator: f32", "sm_90a", False),
    ("kind: wgmma, shape: [128, 64, 16], a: f16, accumulator: f32", "sm_90a", False),
    ("kind: wgmma, shape: [64, 64, 8], a: tf32, accumulator: f32", "sm_90a", True),
    ("kind: wgmma, shape: [64, 64, 16], a: f16, accumulator: f32", "sm_90", False),
    ("kind: wgmma, shape: [64, 64, 16], a: f16, accumulator: f32", "sm_100a", False),
    ("kind: tcgen05, shape: [128, 256, 16], a: bf16, accumulator: f32", "sm_100a", True),
    ("kind: tcgen05, shape: [256, 256, 16], a: bf16, accumulator: f32", "sm_100a", False),
    (
        "kind: tcgen05, shape: [256, 256, 16], a: bf16, accumulator: f32, cta_group: 2",
        "sm_100a",
        True,
    ),
    (
        "kind: tcgen05, shape: [256, 24, 16], a: bf16, accumulator: f32, cta_group: 2",
        "sm_100a",
        False,
    ),
    ("kind: tcgen05, shape: [128, 64, 32], a: e4m3, b: e2m1, accumulator: f32", "sm_100a", True),
    ("kind: tcgen05, shape: [128, 64, 32], a: i8, accumulator: i32", "sm_100a", True),
    ("kind: tcgen05, shape: [128, 64, 32], a: i8, accumulator: i32", "sm_103a", False),
    ("kind: tcgen05, shape: [128, 64, 16], a: f16, accumulator: f32", "sm_90a", False),
    (
        "kind: tcgen05, shape: [128, 64, 16], a: f16, accumulator: f32, cta_group: 3",
        "sm_100a",
        False,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "target", "legal"), MATRIX)
def test_matrix_instructions(rest: str, target: str, legal: bool):
    found = examined(instruction(rest, target, ctas=2)).errors
    assert {item.code for item in found} == (set() if legal else {"TTN417"})


@pytest.mark.parametrize(
    ("roles", "legal"),
    [
        ("{w: {warpgroups: 2, registers: 256}}", True),  # 65536 registers, 256 each
        ("{p: {warpgroups: 1, registers: 40}, w: {warpgroups: 2, registers: 232}}", True),
        ("{p: {warpgroups: 1, registers: 40}, w: {warpgroups: 2, registers: 240}}", False),
        ("{p: {warps: 2, registers: 24}, q: {warps: 2, registers: 24}, w: {warpgroups: 2, "
         "registers: 240}}", True),  # one warpgroup of two roles
        ("{p: {warps: 2, registers: 24}, q: {warps: 2, registers: 32}, w: {warpgroups: 2, "
         "registers: 240}}", False),  # they ask for different amounts: two warpgroups
        ("{p: {warpgroups: 1}, w: {warpgroups: 2, registers: 168}}", True),
        ("{p: {warpgroups: 1, registers: 40}, e: {threads: 1}, w: {warpgroups: 2, registers: 232}}",
         True),  # the thread may be one of a warp that is counted
        ("{p: {warpgroups: 1}, w: {warpgroups: 2, registers: 176}}", False),  # p keeps its 168
        ("{p: {warps: 1}, q: {warps: 1, registers: 24}, w: {warpgroups: 2, registers: 240}}", True),
    ],
)  # fmt: skip
def test_the_pool_law(roles: str, legal: bool):
    codes = [item.code for item in examined(registers(roles)).errors]
    assert codes == ([] if legal else ["TTN406"])


@pytest.mark.parametrize(
    ("groups", "entry"),
    [(1, 255), (2, 255), (3, 168), (4, 128), (5, 96), (6, 80), (8, 64)],
)
def test_registers_at_entry_are_those_that_ptxas_gives(groups: int, entry: int):
    assert registers_at_entry(case_of(text()), groups) == entry


EXPECTS = "{expect: b, bytes: 600000}"


@pytest.mark.parametrize(
    ("body", "legal"),
    [
        (f"{EXPECTS}, {EXPECTS}, {{arrive: b}}", False),
        (f"{EXPECTS}, {{arrive: b, bytes: 448576}}", False),
        (f"{EXPECTS}, {{arrive: b, bytes: 448575}}", True),
        (f"{EXPECTS}, {{arrive: b}}, {{wait: b, phase: 0}}, {EXPECTS}, {{arrive: b}}", True),
        (f"{EXPECTS}, {{arrive: b}}, {EXPECTS}, {{arrive: b}}", True),
        (f"{EXPECTS}, {{wait: c, phase: 0}}, {EXPECTS}, {{arrive: b}}", True),
    ],
)
def test_bytes_of_a_phase_are_summed(body: str, legal: bool):
    """Where something that waits stands between, only a run can tell which phase is meant."""
    found = examined(text(barriers="{b: 1, c: 1}", program=f"{{w: [{body}]}}")).errors
    assert [item.code for item in found] == ([] if legal else ["TTN404"])


def test_operations_that_are_never_reached_are_not_judged():
    kernel = text(
        barriers="{b: 1}",
        program="{w: [{arrive: b, bytes: 1048576, when: 1 < 0}, "
        "{for: t in 0..0, do: [{arrive: b, bytes: 1048576}]}]}",
    )
    assert examined(kernel).errors == ()


def test_cta_groups_are_not_mixed():
    rest = "accumulator: f32, a: f16"
    found = examined(
        text(
            target="sm_100a",
            ctas=2,
            matrix_instructions=f"{{i: {{kind: tcgen05, shape: [128, 64, 16], {rest}}}, "
            f"j: {{kind: tcgen05, shape: [256, 64, 16], cta_group: 2, {rest}}}}}",
        )
    )
    assert [item.code for item in found.errors] == ["TTN417"]


def test_im2col_takes_three_to_five_dimensions():
    codes = {
        rank: "TTN409"
        in [item.code for item in examined(im2col(rank=rank, corners=corners)).errors]
        for rank, corners in ((2, "[0]"), (3, "[0]"), (5, "[0, 0, 0]"), (6, "[0, 0, 0, 0]"))
    }
    assert codes == {2: True, 3: False, 5: False, 6: True}


@pytest.mark.parametrize(
    ("roles", "threads", "legal"),
    [("{w: {warps: 4}}", 128, True), ("{w: {warps: 4}}", 160, False)],
)
def test_no_more_threads_meet_than_there_are(roles: str, threads: int, legal: bool):
    found = examined(
        text(
            roles=roles,
            named_barriers=f"{{a: {{threads: {threads}}}}}",
            program="{w: [sync: a]}",
        )
    )
    assert [item.code for item in found.errors] == ([] if legal else ["TTN415"])


def test_shared_storage_is_counted_once_and_may_overlap():
    one = "A: {bytes: 131072, storage: s, base: 0}, B: {bytes: 131072, storage: s, base: 0}"
    assert examined(text(buffers="{" + one + "}")).errors == ()
    two = one.replace(", storage: s, base: 0", "")
    assert [item.code for item in examined(text(buffers="{" + two + "}")).errors] == ["TTN407"]


RING = """\
titan: 1
kernel: k
target: sm_90a
buffers: {A: {bytes: 1280, swizzle: 128B}}
rings: {r: {buffers: A, depth: 2, transport: TRANSPORT}}
roles: {a: {warps: 1}, b: {warpgroups: 1}}
program:
  a: [acquire: r[0], produce: r[0]]
  b: [wait: r[0], READ, release: r[0]]
"""
GENERIC = "read: r[0]"
MATRIX_READ = "{issue: {mma: 'A[0]', as: g}}, drain: g"


@pytest.mark.parametrize(
    ("transport", "read", "legal"),
    [
        ("bulk", GENERIC, False),
        ("bulk", MATRIX_READ, False),
        ("async_copy", GENERIC, True),
        ("async_copy", MATRIX_READ, False),
    ],
)
def test_a_swizzle_of_threads_alone_is_their_own(transport: str, read: str, legal: bool):
    source = RING.replace("TRANSPORT", transport).replace("READ", read)
    codes = [item.code for item in examined(source).errors]
    assert codes == ([] if legal else ["TTN408"])
    if not legal:
        plain = source.replace(", swizzle: 128B", "").replace("bulk", "async_copy")
        assert examined(plain).errors == (), "the way out that the help names"


@pytest.mark.parametrize(
    ("target", "sections", "statement", "what"),
    [
        ("sm_80", {"barriers": "{f: 1}"}, "{bulk_load: A, completes: f}", "bulk copies"),
        ("gfx942", {"queues": "{q: vmcnt}"}, "{bulk_store: A, queue: q}", "bulk copies"),
        ("gfx1250", {"queues": "{q: asynccnt}"}, "{lds_dma: A, queue: q}", "direct-to-LDS loads"),
        ("gfx1250", {"queues": "{q: vmcnt}"}, "{drain: q}", "vmcnt"),
        ("gfx942", {"barriers": "{f: 1}"}, "{arrive: f}", "mbarriers"),
        ("gfx942", {"named_barriers": "{b: {threads: 64}}"}, "{arrive: b}", "arrivals"),
        ("sm_90a", {"named_barriers": "{b: {threads: 128}}"}, "{wait: b}", "waits"),
        ("gfx1250", {"named_barriers": "{b: {threads: 64}}"}, "{wait: b}", ""),
        ("sm_90a", {"named_barriers": "{b: {threads: 128, scope: cluster}}"}, "{wait: b}", ""),
    ],
)
def test_what_a_target_lacks_is_a_warning(target, sections, statement, what):
    roles = "{w: {warps: 1}}" if target.startswith("gfx") else "{w: {warpgroups: 1}}"
    if target == "gfx1250":
        roles = "{w: {warps: 2}}"
    kernel = text(
        target=target, roles=roles, buffers="{A: {bytes: 64}}",
        program="{w: [" + statement + "]}", **sections,
    )  # fmt: skip
    found = [item.headline for item in examined(kernel).warnings if item.code == "TTN427"]
    assert (f"{target} has no {what}" in "".join(found)) if what else not found
