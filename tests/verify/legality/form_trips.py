"""Pairs for the rules on forms, reach, pools and pairs of CTAs, in the form of `trips.py`."""

from __future__ import annotations

from tests.verify.legality.kernels import text


def on_barrier(statement: str, target: str = "sm_90a", **more: str) -> str:
    return text(target=target, barriers="{b: 1}", program="{w: [{" + statement + "}]}", **more)


def columns(*statements: str, **more: str) -> str:
    return text(
        target="sm_100a",
        pools="{columns: {available: 512, kind: tensor}}",
        roles="{w: {warps: 1}}",
        program="{w: [" + ", ".join("{" + item + "}" for item in statements) + "]}",
        **more,
    )


def accumulator(warps: str, *statements: str, more: str = "") -> str:
    """Agents of one warp at an accumulator of 128 lanes in four parts."""
    return text(
        target="sm_100a",
        buffers="{T: {space: tensor, parts: 4, tile: [128, 128], dtype: f32, initial: 0}}",
        roles="{w: {warps: " + warps + more + "}}",
        program="{w: [" + ", ".join("{" + item + "}" for item in statements) + "]}",
    )


def products(*statements: str, ctas: int = 2) -> str:
    """Products of CTA 0; the other CTAs run a role as well."""
    others = "{w: {warps: 1, cta: 0}, v: {warps: 1}}"
    return text(
        target="sm_100a",
        ctas=ctas,
        buffers="{A: {bytes: 64, initial: 0}, T: {space: tensor}}",
        queues="{q: tcgen05}",
        roles=others,
        program="{w: [" + ", ".join("{" + item + "}" for item in statements) + "], v: []}",
    )


def registers_of(reader: str) -> str:
    return text(
        buffers="{R: {space: register}}",
        roles="{w: {warps: 1}, v: {warps: 1}}",
        program="{w: [{store: R = 1}], v: [{" + reader + "}]}",
    )


HALF_A_TILE = "{T: {space: tensor, tile: [128, 128], dtype: f32}}"
PAIR_OF_BOTH = 'mma: "A = 0, A@1 = 0", into: "T = 1, T@1 = 1", queue: q'
PAIR_ACROSS = 'mma: "A = 0, A@2 = 0", into: "T = 1, T@2 = 1", queue: q'
FORM_TRIPS = {
    "arrivals_count": (on_barrier("arrive: b, count: 0"), on_barrier("arrive: b, count: 1")),
    "barrier_operation_has_its_form": (
        on_barrier("arrive: b, order: relaxed", "sm_80"),
        on_barrier("arrive: b, order: relaxed", "sm_90"),
    ),
    "barrier_within_reach": (
        on_barrier("arrive: b@1, when: cta == 0", "gfx1250", ctas=2),
        on_barrier("arrive: b", "gfx1250", ctas=2),
    ),
    "meeting_has_its_form": (
        text(named_barriers="{m: {threads: 128}}", program="{w: [{sync: m, order: relaxed}]}"),
        text(named_barriers="{m: {scope: cluster}}", program="{w: [{sync: m, order: relaxed}]}"),
    ),
    "cluster_barrier_needs_clusters": (
        text(target="sm_80", named_barriers="{m: {scope: cluster}}", program="{w: [sync: m]}"),
        text(target="sm_90", named_barriers="{m: {scope: cluster}}", program="{w: [sync: m]}"),
    ),
    "instruction_exists": (
        text(named_barriers="{m: {threads: 128}}", program="{w: [arrive: m, wait: m]}"),
        text(
            target="gfx1250", named_barriers="{m: {threads: 128}}", roles="{w: {warps: 4}}",
            program="{w: [arrive: m, wait: m]}",
        ),
    ),
    "access_within_reach": (
        text(target="sm_100a", ctas=2, buffers="{T: {space: tensor, initial: 0}}",
             program="{w: [{load: T@peer}]}"),
        text(ctas=2, buffers="{T: {bytes: 64, initial: 0}}", program="{w: [{load: T@peer}]}"),
    ),
    "registers_hold_their_own": (registers_of("load: R = 1"), registers_of("store: R = 2")),
    "commit_arrives_so_often": (
        on_barrier("commit: q, arrives: b, count: 2", "sm_100a", queues="{q: tcgen05}"),
        on_barrier("commit: q, arrives: b", "sm_100a", queues="{q: tcgen05}"),
    ),
    "fence_names_memory": (
        text(target="sm_100a", program="{w: [{fence: async, spaces: [tensor]}]}"),
        text(target="sm_100a", program="{w: [{fence: async, spaces: [shared, global]}]}"),
    ),
    "pools_are_of_the_target": (
        text(target="sm_90", pools="{p: 64}", program="{w: [{take: p, amount: 8}]}"),
        text(pools="{p: 64}", program="{w: [{take: p, amount: 8}]}"),
    ),
    "pool_of_columns_fits": (
        text(target="sm_100a", pools="{columns: {available: 1024, kind: tensor}}"),
        text(target="sm_100a", pools="{columns: {available: 512, kind: tensor}}"),
    ),
    "columns_are_given_back_as_taken": (
        columns("take: columns, amount: 64", "give: columns, amount: 32"),
        columns("take: columns, amount: 64", "give: columns, amount: 64"),
    ),
    "allocations_do_not_grow": (
        columns(
            "take: columns, amount: 32", "take: columns, amount: 64",
            "give: columns, amount: 64", "give: columns, amount: 32",
        ),
        columns(
            "take: columns, amount: 64", "take: columns, amount: 32",
            "give: columns, amount: 32", "give: columns, amount: 64",
        ),
    ),
    "lanes_within_reach": (accumulator("1", "load: T = 0"), accumulator("4", 'load: "T[0, self]"')),
    "columns_are_allocated_by_a_warp": (
        columns("take: columns, amount: 64, by: thread", "give: columns, amount: 64"),
        columns("take: columns, amount: 64, by: warp", "give: columns, amount: 64"),
    ),
    "columns_hold_what_is_used": (
        columns("take: columns, amount: 64", "give: columns, amount: 64", buffers=HALF_A_TILE),
        columns("take: columns, amount: 128", "give: columns, amount: 128", buffers=HALF_A_TILE),
    ),
    "register_amounts_move": (
        text(pools="{p: 64}", program="{w: [{take: p, amount: 12}]}"),
        text(pools="{p: 64}", program="{w: [{take: p, amount: 16}]}"),
    ),
    "products_of_pairs": (
        products(PAIR_OF_BOTH, "mma: A = 0, into: T = 1, queue: q"),
        products(PAIR_OF_BOTH, PAIR_OF_BOTH),
    ),
}  # fmt: skip
