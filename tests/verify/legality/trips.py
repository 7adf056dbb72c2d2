"""For each rule a kernel that trips it, and the neighbour that keeps just within it."""

from __future__ import annotations

from tests.verify.legality.form_trips import FORM_TRIPS
from tests.verify.legality.kernels import text

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


def grids(where: str) -> str:
    """One role ends a grid, which the other waits for."""
    return text(
        roles="{w: {warps: 1}, v: {warps: 1" + where + "}}",
        buffers="{G: {space: global, bytes: 64}}", barriers="{b: {count: 1, kind: grid}}",
        program="{v: [{store: G = 0}, {arrive: b}], w: [{wait: b, phase: 0}, {load: G = 0}]}",
    )  # fmt: skip


def remote_store(proxy: str) -> str:
    """`st.async` from registers, through a proxy."""
    return text(
        ctas=2, buffers="{A: {bytes: 64}, r: {space: register, initial: 0}}", barriers="{b: 1}",
        program="{w: [{async: {reads: r, writes: A@1, completes: b@1, bytes: 64, proxy: "
        + proxy + "}}]}",
    )  # fmt: skip


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
    "part_of_a_stage": (
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
        loaded("bytes: 8192", ", bytes: 8192"),
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
    "warp_barrier_is_among_its_threads": (
        text(named_barriers="{a: {scope: warp, threads: 32}}", program="{w: [sync: a]}"),
        text(
            named_barriers="{a: {scope: warp, threads: 32}}", roles="{w: {threads: 32}}",
            program="{w: [sync: a]}",
        ),
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
    "warps_execute_alike": (
        text(
            buffers="{A: {bytes: 64, initial: 0}}", queues="{q: wgmma}",
            roles="{w: {warpgroups: 1, agents: 4}}",
            program="{w: [{mma: A = 0, queue: q, when: self == 0}, {drain: q}]}",
        ),
        text(
            buffers="{A: {bytes: 64, initial: 0}}", queues="{q: wgmma}",
            roles="{w: {warpgroups: 2, agents: 8}}",
            program="{w: [{mma: A = 0, queue: q, when: self < 4}, {drain: q}]}",
        ),
    ),
    "used_cta_runs_a_role": (
        text(
            ctas=2, buffers="{A: {bytes: 64}}", roles="{w: {warpgroups: 1, cta: 0}}",
            program="{w: [{store: A@1}]}",
        ),
        text(
            ctas=2, buffers="{A: {bytes: 64}}",
            roles="{w: {warpgroups: 1, cta: 0}, v: {warpgroups: 1, cta: 1}}",
            program="{w: [{store: A@1}], v: []}",
        ),
    ),
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
            roles="{w: {warps: 1}}",
            program="{w: [{take: t, amount: 96}, {give: t, amount: 96}]}",
        ),
        text(
            target="sm_100a", pools="{t: {available: 512, kind: tensor}}",
            roles="{w: {warps: 1}}",
            program="{w: [{take: t, amount: 128}, {give: t, amount: 128}]}",
        ),
    ),
    "tensor_memory_is_given_back": (
        text(
            target="sm_100a", pools="{t: {available: 512, kind: tensor}}",
            roles="{w: {warps: 1}}",
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
    "copy_has_the_bytes_of_what_it_fills": (
        loaded("stages: 2, bytes: 1024", ", bytes: 512"),
        loaded("stages: 2, bytes: 1024", ", bytes: 1024"),
    ),
    "boxes_fill_what_is_copied": (
        text(
            buffers="{A: {tile: [96, 64], dtype: bf16}}", barriers="{full: 1}",
            tensor_maps="{m: {buffer: A, global_shape: [4096, 4096], box: [64, 64]}}",
            program="{w: [{bulk_load: A, completes: full}]}",
        ),
        text(
            buffers="{A: {tile: [128, 64], dtype: bf16}}", barriers="{full: 1}",
            tensor_maps="{m: {buffer: A, global_shape: [4096, 4096], box: [64, 64]}}",
            program="{w: [{bulk_load: A, completes: full}]}",
        ),
    ),
    "cluster_barrier_counts_all": (
        text(ctas=2, named_barriers="{n: {scope: cluster, threads: 128}}",
             program="{w: [{sync: n}]}"),
        text(ctas=2, named_barriers="{n: {scope: cluster}}", program="{w: [{sync: n}]}"),
    ),
    "completes_where_the_hardware_does": (
        text(buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
             program="{w: [{bulk_store: A, queue: g}]}"),
        text(buffers="{A: {bytes: 64, initial: 0}}", queues="{g: bulk}",
             program="{w: [{bulk_store: A, queue: g}]}"),
    ),
    "goes_through_the_proxy_of_its_instruction": (
        remote_store("async"),
        remote_store("generic"),
    ),
    "copy_completes_on_one_barrier": (
        text(buffers="{A: {bytes: 64}}", barriers="{b: {count: 1, stages: 2}}",
             program='{w: [{bulk_load: A = 0, completes: "b[0], b[1]", bytes: 32}]}'),
        text(buffers="{A: {bytes: 64, stages: 2}}", barriers="{b: {count: 1, stages: 2}}",
             program='{w: [{bulk_load: "A[0] = 0, A[1] = 0", completes: "b[0], b[1]", '
                     "bytes: 64}]}"),
    ),
    "grid_ends_before_who_waits": (
        grids(""),
        grids(", outside: true"),
    ),
    "counter_arrives": (
        text(queues="{g: wgmma}", barriers="{b: 1}",
             program="{w: [{commit: g, arrives: b}]}"),
        text(queues="{g: cp_async}", barriers="{b: 1}",
             program="{w: [{commit: g, arrives: b}]}"),
    ),
    "counter_waits": (
        text(queues="{g: wgmma}", program="{w: [{drain: g, until: read}]}"),
        text(queues="{g: bulk}", program="{w: [{drain: g, until: read}]}"),
    ),
    "drains_what_it_issues": (
        text(queues="{g: wgmma}", program="{w: [{drain: g}]}"),
        text(buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
             program="{w: [{mma: A, queue: g}, {commit: g}, {drain: g}]}"),
    ),
    "queue_is_no_stronger_than_its_kind": (
        text(queues="{g: {kind: bulk, pipelined: true}}"),
        text(queues="{g: {kind: wgmma, ordered: false}}"),
    ),
    "memory_within_reach": (
        text(ctas=2, buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
             program="{w: [{mma: A@peer, queue: g}]}"),
        text(ctas=2, buffers="{A: {bytes: 64, initial: 0}}", queues="{g: wgmma}",
             program="{w: [{mma: A, queue: g}]}"),
    ),
    "threads_meet_around_a_copy": (
        text(
            buffers="{A: {bytes: 64}}", queues="{g: bulk}",
            program="{w: [{store: A}, {fence: async}, {bulk_store: A, queue: g}]}",
        ),
        text(
            buffers="{A: {bytes: 64}}", queues="{g: bulk}",
            named_barriers="{n: {threads: 128}}",
            program="{w: [{store: A}, {fence: async}, {sync: n}, {bulk_store: A, queue: g}]}",
        ),
    ),
    "executed_as_the_instruction_is": (
        text(
            buffers="{A: {bytes: 64, initial: 0}}", queues="{g: bulk}",
            program="{w: [{bulk_store: A, queue: g, by: all}]}",
        ),
        text(
            buffers="{A: {bytes: 64, initial: 0}}", queues="{g: bulk}",
            program="{w: [{bulk_store: A, queue: g, by: thread}]}",
        ),
    ),
    "store_is_waited_for": (
        text(target="gfx942", buffers="{A: {bytes: 64}}", roles="{w: {warps: 2}}",
             program="{w: [{store: A}]}"),
        text(target="gfx942", buffers="{A: {bytes: 64}}", queues="{q: lgkmcnt}",
             roles="{w: {warps: 2}}",
             program="{w: [{async: {writes: A, queue: q, proxy: generic}}, {drain: q}]}"),
    ),
    "partial_wait_is_in_order": (
        text(target="gfx942", buffers="{G: {space: global}, R: {space: register}}",
             queues="{q: lgkmcnt}", roles="{w: {warps: 1}}",
             program="{w: [{async: {reads: G, writes: R, queue: q, proxy: generic}}, "
             "{drain: q, leaving: 1}]}"),
        text(target="gfx942", buffers="{G: {space: global}, R: {space: register}}",
             queues="{q: {kind: lgkmcnt, ordered: false}}", roles="{w: {warps: 1}}",
             program="{w: [{async: {reads: G, writes: R, queue: q, proxy: generic}}, "
             "{drain: q, leaving: 1}]}"),
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
} | FORM_TRIPS  # fmt: skip
