"""Each rule is tripped by a kernel, and not by the neighbour that keeps just within it."""

from __future__ import annotations

import pytest

from tests.verify.legality.kernels import case_of, examined, text
from titan.foundation.diagnostics.codes import CODES
from titan.verify.legality.check import all_rules
from titan.verify.legality.limits import known_targets, limits
from titan.verify.legality.roles import registers_at_entry
from titan.verify.legality.rule import Rule

A = "{A: {stages: 2, tile: [64, 64], dtype: bf16, swizzle: 128B}}"
PLAIN = "{A: {stages: 2, tile: [64, 64], dtype: bf16}}"


def mapped(rest: str, buffers: str = PLAIN, target: str = "sm_90a") -> str:
    return text(target=target, buffers=buffers, tensor_maps="{m: {buffer: A, " + rest + "}}")


def buffer(rest: str, program: str = "{w: []}") -> str:
    return text(
        buffers="{A: {" + rest + "}}", barriers="{full: {stages: 2, count: 1}}", program=program
    )


def loaded(rest: str, extra: str = "") -> str:
    return buffer(rest, "{w: [{bulk_load: A[0], completes: full[0]" + extra + "}]}")


def instruction(rest: str, target: str = "sm_90a", ctas: int = 1) -> str:
    return text(target=target, ctas=ctas, matrix_instructions="{i: {" + rest + "}}")


def im2col(rest: str = "", rank: int = 4, corners: str = "[-128, 127]") -> str:
    channels = "channels: 64, pixels: 64"
    shape = "[" + ", ".join(["64", "8", "8", "8", "8", "8"][:rank]) + "]"
    rest = rest or channels
    large = "{A: {tile: [128, 64], dtype: bf16}}"
    return mapped(f"global_shape: {shape}, mode: im2col, {rest}, lower_corner: {corners}", large)


def dma(rest: str, target: str = "gfx942", load: str = "A[0]") -> str:
    return text(
        target=target,
        buffers="{A: {" + rest + "}}",
        queues="{q: vmcnt}",
        roles="{w: {warps: 1}}",
        program="{w: [{lds_dma: " + load + ", queue: q}]}",
    )


def registers(roles: str, target: str = "sm_90a") -> str:
    names = [part.split(":")[0].strip(" {") for part in roles.split("},")]
    program = "{" + ", ".join(f"{name}: []" for name in names) + "}"
    return text(target=target, roles=roles, program=program)


BOX = "global_shape: [4096, 4096], box: [64, 64]"
THREE = "global_shape: [64, 64, 64], box: [16, 8, 8]"
WIDE = "interleave: 32B, swizzle: 32B"
TRIPS: dict[str, tuple[str, str]] = {  # rule: (a kernel that trips it, its neighbour)
    "target_has_tensor_maps": (mapped(BOX, target="sm_80"), mapped(BOX, target="sm_90")),
    "tensor_map_rank": (
        mapped("global_shape: [8, 8, 8, 8, 8, 8], box: [8, 1, 1, 1, 1, 1]"),
        mapped("global_shape: [8, 8, 8, 8, 8], box: [8, 8, 1, 1, 1]"),
    ),
    "tensor_map_lists_agree": (
        mapped(BOX + ", global_strides: [8192, 8192]"),
        mapped(BOX + ", global_strides: [8192]"),
    ),
    "global_extents": (
        mapped("global_shape: [64, 4294967297], box: [64, 64]"),
        mapped("global_shape: [64, 4294967296], box: [64, 64]"),
    ),
    "global_address": (
        mapped(BOX + ", global_alignment: 8"),
        mapped(BOX + ", global_alignment: 16"),
    ),
    "global_strides": (
        mapped(BOX + ", global_strides: [8200]"),
        mapped(BOX + ", global_strides: [8208]"),
    ),
    "global_strides_nest": (
        mapped(BOX + ", global_strides: [8176]"),
        mapped(BOX + ", global_strides: [8192]"),
    ),
    "box_extents": (
        mapped("global_shape: [512, 512], box: [8, 257]"),
        mapped("global_shape: [512, 512], box: [8, 256]"),
    ),
    "box_row": (
        mapped("global_shape: [512, 512], box: [4, 64]"),
        mapped("global_shape: [512, 512], box: [8, 64]"),
    ),
    "box_row_under_swizzle": (
        mapped("global_shape: [512, 512], box: [72, 8]", A),
        mapped("global_shape: [512, 512], box: [64, 8]", A),
    ),
    "element_strides": (
        mapped(BOX + ", element_strides: [9, 9]"),
        mapped(BOX + ", element_strides: [9, 8]"),
    ),
    "box_fits_its_stage": (
        mapped("global_shape: [512, 512], box: [64, 65]"),
        mapped("global_shape: [512, 512], box: [64, 64]"),
    ),
    "interleave_asks_for_swizzle": (
        mapped(THREE + ", interleave: 32B, swizzle: 64B"),
        mapped(THREE + ", " + WIDE),
    ),
    "swizzle_is_that_of_the_buffer": (
        mapped("global_shape: [512, 512], box: [32, 64], swizzle: 64B", A),
        mapped("global_shape: [512, 512], box: [32, 64], swizzle: 128B", A),
    ),
    "fill_is_for_floats": (
        mapped("global_shape: [512, 512], box: [16, 64], dtype: i8, oob_fill: nan"),
        mapped("global_shape: [512, 512], box: [16, 64], dtype: f16, oob_fill: nan"),
    ),
    "packed_types": (
        mapped("global_shape: [256, 512], box: [64, 8], dtype: 16u4_align16b"),
        mapped("global_shape: [256, 512], box: [128, 8], dtype: 16u4_align16b"),
    ),
    "im2col_extents": (
        im2col("channels: 8, pixels: 1025"),
        im2col("channels: 8, pixels: 1024"),
    ),
    "im2col_corners": (im2col(corners="[-129, 127]"), im2col(corners="[-128, 127]")),
    "im2col_keys": (mapped(BOX + ", pixels: 64"), mapped(BOX)),
    "global_address_under_swizzle": (
        mapped(BOX + ", global_alignment: 64", A),
        mapped(BOX + ", global_alignment: 128", A),
    ),
    "stage_stride": (
        buffer("stages: 2, bytes: 8192, swizzle: 128B, stride: 8320"),
        buffer("stages: 2, bytes: 8192, swizzle: 64B, stride: 8704"),
    ),
    "stage_base": (
        buffer("stages: 2, bytes: 8192, swizzle: 128B, base: 512"),
        buffer("stages: 2, bytes: 8192, swizzle: 64B, base: 512"),
    ),
    "base_keeps_its_alignment": (
        buffer("bytes: 64, base: 64, alignment: 128"),
        buffer("bytes: 64, base: 128, alignment: 128"),
    ),
    "piece_of_a_stage": (
        buffer(
            "parts: 2, bytes: 2176, swizzle: 128B",
            "{w: [{bulk_load: 'A[0, 1]', completes: full[0], bytes: 1088}]}",
        ),
        buffer(
            "parts: 2, bytes: 2304, swizzle: 128B",
            "{w: [{bulk_load: 'A[0, 1]', completes: full[0], bytes: 1152}]}",
        ),
    ),
    "bulk_size": (loaded("bytes: 8200"), loaded("bytes: 8208")),
    "bulk_bytes_of_an_operation": (
        loaded("bytes: 8192", ", bytes: 24"),
        loaded("bytes: 8192", ", bytes: 32"),
    ),
    "several_boxes_a_stage": (
        mapped("global_shape: [512, 512], box: [8, 4]"),
        mapped("global_shape: [512, 512], box: [8, 16]"),
    ),
    "stages_overlap": (
        buffer("stages: 2, bytes: 8192, stride: 8128"),
        buffer("stages: 2, bytes: 8192, stride: 8192"),
    ),
    "places_overlap": (
        text(buffers="{A: {bytes: 64, base: 0}, B: {bytes: 64, base: 63}}"),
        text(buffers="{A: {bytes: 64, base: 0}, B: {bytes: 64, base: 64}}"),
    ),
    "shared_memory": (
        text(buffers="{A: {bytes: 64, base: 232385}}"),
        text(buffers="{A: {bytes: 64, base: 232384}}"),
    ),
    "barrier_address": (
        text(barriers="{b: {count: 1, base: 4}}"),
        text(barriers="{b: {count: 1, base: 8}}"),
    ),
    "barrier_counts": (
        text(
            barriers="{b: {count: 1, initialised: false}}",
            program="{w: [{init: b, count: 1048576}]}",
        ),
        text(
            barriers="{b: {count: 1, initialised: false}}",
            program="{w: [{init: b, count: 1048575}]}",
        ),
    ),
    "transaction_bytes": (
        text(barriers="{b: 1}", program="{w: [{arrive: b, bytes: 1048576}]}"),
        text(barriers="{b: 1}", program="{w: [{arrive: b, bytes: 1048575}]}"),
    ),
    "bytes_of_a_phase": (
        text(barriers="{b: 3}", program="{w: [{arrive: b, count: 2, bytes: 699051}]}"),
        text(barriers="{b: 3}", program="{w: [{arrive: b, count: 2, bytes: 699050}]}"),
    ),
    "named_barrier_ids": (
        text(named_barriers="{a: {stages: 16, threads: 32}, b: {threads: 32}}"),
        text(named_barriers="{a: {stages: 15, threads: 32}, b: {threads: 32}}"),
    ),
    "named_barrier_threads": (
        text(named_barriers="{a: {threads: 100}}", program="{w: [sync: a]}"),
        text(named_barriers="{a: {threads: 128}}", program="{w: [sync: a]}"),
    ),
    "threads_of_a_cta": (
        text(roles="{w: {warpgroups: 8}, v: {warps: 1}}", program="{w: [], v: []}"),
        text(roles="{w: {warpgroups: 8}}"),
    ),
    "warpgroups_issue_wgmma": (
        text(
            buffers=A, queues="{g: wgmma}", roles="{w: {warps: 3}}",
            program="{w: [{mma: A[0], queue: g}]}",
        ),
        text(
            buffers=A, queues="{g: wgmma}", roles="{w: {warps: 4}}",
            program="{w: [{mma: A[0], queue: g}]}",
        ),
    ),
    "register_amounts": (
        registers("{w: {warpgroups: 1, registers: 20}}"),
        registers("{w: {warpgroups: 1, registers: 24}}"),
    ),
    "register_pool": (
        registers("{p: {warps: 1, registers: 24}, w: {warpgroups: 2, registers: 248}}"),
        registers("{p: {warps: 1, registers: 24}, w: {warpgroups: 2, registers: 240}}"),
    ),
    "cluster_size": (text(target="sm_80", ctas=2), text(target="sm_90", ctas=2)),
    "portable_cluster": (text(ctas=9), text(ctas=8)),
    "matrix_instruction": (
        instruction("kind: wgmma, shape: [64, 100, 16], a: bf16, accumulator: f32"),
        instruction("kind: wgmma, shape: [64, 104, 16], a: bf16, accumulator: f32"),
    ),
    "tensor_memory": (
        text(
            target="sm_100a",
            buffers="{T: {space: tensor, stages: 3, tile: [128, 256], dtype: f32}}",
        ),
        text(
            target="sm_100a",
            buffers="{T: {space: tensor, stages: 2, tile: [128, 256], dtype: f32}}",
        ),
    ),
    "tensor_allocation": (
        text(
            target="sm_100a", pools="{t: {available: 512, kind: tensor}}",
            program="{w: [{take: t, amount: 96}, {give: t, amount: 96}]}",
        ),
        text(
            target="sm_100a", pools="{t: {available: 512, kind: tensor}}",
            program="{w: [{take: t, amount: 128}, {give: t, amount: 128}]}",
        ),
    ),
    "tensor_memory_is_given_back": (
        text(
            target="sm_100a", pools="{t: {available: 512, kind: tensor}}",
            program="{w: [{take: t, amount: 128}]}",
        ),
        text(
            target="sm_100a", pools="{t: {available: 512}}",
            program="{w: [{take: t, amount: 128}]}",
        ),
    ),
    "workgroup_barrier_counts_all": (
        text(
            target="gfx942", named_barriers="{a: {threads: 64}}", roles="{w: {warps: 2}}",
            program="{w: [sync: a]}",
        ),
        text(
            target="gfx942", named_barriers="{a: {threads: 128}}", roles="{w: {warps: 2}}",
            program="{w: [sync: a]}",
        ),
    ),
    "fence_is_an_instruction": (
        text(program="{w: [{fence: texture}]}"),
        text(program="{w: [{fence: async_release}]}"),
    ),
    "proxy_is_of_the_target": (
        text(
            target="gfx942", buffers="{g: {space: global, initial: 0}}",
            program="{w: [{load: g, proxy: constant}]}",
        ),
        text(
            buffers="{g: {space: global, initial: 0}}",
            program="{w: [{load: g, proxy: constant}]}",
        ),
    ),
    "operation_is_of_the_target": (
        text(
            target="sm_100a", buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
            program="{w: [{mma: A, queue: g}, {commit: g}, {drain: g}]}",
        ),
        text(
            buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
            program="{w: [{mma: A, queue: g}, {commit: g}, {drain: g}]}",
        ),
    ),
    "remote_barrier": (
        text(
            ctas=2, barriers="{b: 1}",
            program="{w: [{wait: 'b[0]@0', parity: 0, scope: cluster}]}",
        ),
        text(
            ctas=2, barriers="{b: 1}",
            program="{w: [{wait: 'b[0]@0', parity: 0, scope: cluster, when: cta == 0}, "
            "{arrive: 'b[0]@peer', scope: cluster}]}",
        ),
    ),
    "barrier_is_with_its_data": (
        text(
            ctas=2, buffers="{A: {bytes: 1024}}", barriers="{b: 1}",
            program="{w: [{bulk_load: A, completes: 'b[0]@1'}]}",
        ),
        text(
            ctas=2, buffers="{A: {bytes: 1024}}", barriers="{b: 1}",
            program="{w: [{bulk_load: A, completes: b, multicast: all}]}",
        ),
    ),
    "one_cta_group": (
        text(
            target="sm_100a",
            matrix_instructions="{i: {kind: tcgen05, shape: [256, 64, 16], a: f16, "
            "accumulator: f32, cta_group: 2}}",
        ),
        text(
            target="sm_100a", ctas=2,
            matrix_instructions="{i: {kind: tcgen05, shape: [256, 64, 16], a: f16, "
            "accumulator: f32, cta_group: 2}}",
        ),
    ),
    "accumulators_fit": (
        text(
            roles="{w: {warpgroups: 1, registers: 128}}",
            matrix_instructions="{i: {kind: wgmma, shape: [64, 256, 16], a: f16, "
            "accumulator: f32, role: w}}",
        ),
        text(
            roles="{w: {warpgroups: 1, registers: 136}}",
            matrix_instructions="{i: {kind: wgmma, shape: [64, 256, 16], a: f16, "
            "accumulator: f32, role: w}}",
        ),
    ),
    "counter_saturates": (
        text(target="gfx942", queues="{q: vmcnt}", program="{w: [{drain: q, leaving: 63}]}"),
        text(target="gfx942", queues="{q: vmcnt}", program="{w: [{drain: q, leaving: 62}]}"),
    ),
    "dma_width": (dma("bytes: 4096, lane_bytes: 16"), dma("bytes: 4096, lane_bytes: 16", "gfx950")),
    "dma_address": (dma("stages: 2, bytes: 4098"), dma("stages: 2, bytes: 4100")),
    "dma_reach": (dma("bytes: 4096, base: 61444"), dma("bytes: 4096, base: 61440")),
    "dma_fills_whole_units": (
        dma("bytes: 4104, lane_bytes: 16", "gfx950"),
        dma("bytes: 4112, lane_bytes: 16", "gfx950"),
    ),
    "register_file": (
        registers("{w: {warps: 8, registers: 257}}", "gfx942"),
        registers("{w: {warps: 8, registers: 256}}", "gfx942"),
    ),
}  # fmt: skip


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
    lowering = {"TTN401", "TTN402"}
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
