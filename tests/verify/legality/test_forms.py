"""Forms of operations on every target, against a table of its own and against ptxas.

The table is written from the target notes of PTX and from AMD's instruction sets: which target has
which form. `titan/verify/legality/forms.py` reads it from the targets' files instead.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.verify.legality.form_trips import PAIR_ACROSS, PAIR_OF_BOTH, on_barrier, products
from tests.verify.legality.kernels import examined, text
from tests.verify.legality.test_ptxas import assembles, needs_ptxas

NVIDIA = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120a")
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
HOPPER_ON = NVIDIA[1:]
FORMS = {  # a statement, the targets that have it, and how PTX says it
    "arrive: b, bytes: 16": (HOPPER_ON, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [r], 16;"),
    "expect: b, bytes: 16": (HOPPER_ON, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [r], 16;"),
    "arrive: b, order: relaxed": (
        (*HOPPER_ON, *AMD), "mbarrier.arrive.relaxed.cta.shared::cta.b64 a, [r];"),
    "wait: b, parity: 0, order: relaxed": (
        (*HOPPER_ON, *AMD),
        "mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 q, [r], 0;"),
    "arrive: b, scope: cluster": (
        (*HOPPER_ON, *AMD), "mbarrier.arrive.release.cluster.shared::cta.b64 a, [r];"),
    "wait: b, parity: 0, scope: cluster": (
        (*HOPPER_ON, *AMD),
        "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 q, [r], 0;"),
    "arrive: b": ((*NVIDIA, *AMD), "mbarrier.arrive.shared.b64 a, [r];"),
    "arrive: b, drop: true": ((*NVIDIA, *AMD), "mbarrier.arrive_drop.shared.b64 a, [r];"),
}  # fmt: skip


def refused(source: str) -> bool:
    return examined(source).errors != ()


@pytest.mark.parametrize("target", [*NVIDIA, *AMD])
@pytest.mark.parametrize("statement", FORMS, ids=str)
def test_barriers(statement: str, target: str):
    assert refused(on_barrier(statement, target)) == (target not in FORMS[statement][0])


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100a"])
@pytest.mark.parametrize("statement", FORMS, ids=str)
def test_barriers_as_ptxas_has_them(tmp_path, statement: str, target: str):
    taken = assembles(tmp_path, target, "8.6", "  " + FORMS[statement][1])
    assert taken == (not refused(on_barrier(statement, target)))


@pytest.mark.parametrize("target", [*NVIDIA, *AMD])
def test_whose_memory_threads_reach(target: str):
    """Shared memory of the cluster from sm_90 on; tensor memory and registers never."""
    for space, verb in product(("shared", "tensor", "register"), ("load", "store")):
        if space == "tensor" and target not in ("sm_100a", "sm_103a"):
            continue
        kernel = text(
            target=target, ctas=2,
            buffers="{A: {space: " + space + ", bytes: 64, initial: 0}}",
            roles="{w: {warps: 4}}", program="{w: [{" + verb + ": A@peer}]}",
        )  # fmt: skip
        far = [item for item in examined(kernel).errors if item.code == "TTN425"]
        assert bool(far) == (space != "shared" or target not in HOPPER_ON), (space, verb)


@pytest.mark.parametrize(("target", "has"), [(t, t in HOPPER_ON) for t in (*NVIDIA, *AMD)])
def test_bulk_copies_and_halves_of_barriers(target: str, has: bool):
    copy = on_barrier("bulk_load: A, completes: b", target, buffers="{A: {bytes: 64}}")
    assert refused(copy) == (not has)
    halves = text(
        target=target, named_barriers="{m: {threads: 128}}",
        roles="{w: {threads: 128}}" if target in NVIDIA else "{w: {warps: 2}}",
        program="{w: [arrive: m, wait: m]}",
    )  # fmt: skip
    found = {item.code for item in examined(halves).errors}
    assert ("TTN435" in found) == (target not in ("gfx1201", "gfx1250"))


def test_pairs_are_those_whose_ranks_differ_in_the_last_bit():
    assert not refused(products(PAIR_OF_BOTH, ctas=4))
    assert refused(products(PAIR_ACROSS, ctas=4))
    own = "mma: A = 0, into: T = 1, queue: q"
    assert not refused(products(own, own)) and refused(products(own, PAIR_OF_BOTH))


def test_copies_between_ctas_leave_their_own():
    """Shared memory to shared memory goes to another CTA (PTX, cp.async.bulk)."""
    for target, legal in (("B@peer", True), ("B", False)):
        home = "b@peer" if "peer" in target else "b"
        kernel = text(
            ctas=2, buffers="{A: {bytes: 64, initial: 0}, B: {bytes: 64}}", barriers="{b: 1}",
            program="{w: [{bulk_load: '" + target + "', from: A, completes: '" + home + "'}]}",
        )  # fmt: skip
        assert refused(kernel) == (not legal)


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120a"])
def test_whose_barrier_a_copy_completes_on(target: str):
    """That of the destination; of its pair for copies from global memory that tcgen05 has."""
    copies = {
        "bulk_load: B@{cta}": target in ("sm_100a", "sm_103a"),
        "bulk_load: B@{cta}, from: A": False,
        "async: {{writes: B@{cta}}}, bytes: 64, proxy: generic": False,
    }
    for (copy, pairs), cta, home in product(copies.items(), range(1, 4), range(4)):
        kernel = text(
            target=target, ctas=4, barriers="{b: 1}", roles="{w: {warps: 1, cta: 0}}",
            buffers="{A: {bytes: 64, initial: 0}, B: {bytes: 64}}",
            program="{w: [{" + copy.format(cta=cta) + ", completes: b@" + str(home) + "}]}",
        )  # fmt: skip
        found = [item for item in examined(kernel).errors if "completes on" in item.headline]
        legal = home == cta or (pairs and home == cta ^ 1)
        assert bool(found) == (not legal), (copy, cta, home)


def test_waves_that_end_are_not_waited_for():
    """s_barrier waits for the waves that are there; one that waits for others may stay."""
    for program, legal in (("[compute: x]", True), ("[{wait: b, phase: 0}]", False)):
        kernel = text(
            target="gfx942", named_barriers="{m: {threads: 128}}", barriers="{b: 1}",
            roles="{w: {warps: 2}, idle: {warps: 1}}",
            program="{w: [sync: m, arrive: {b, when: self == 0}], idle: " + program + "}",
        )  # fmt: skip
        found = {item.code for item in examined(kernel).errors}
        assert ("TTN415" in found) == (not legal)


SCALAR = "async: {reads: G, writes: R, queue: q, proxy: generic}"
LDS = "async: {reads: L, writes: S, queue: q, proxy: generic}"


@pytest.mark.parametrize(
    ("statements", "legal"),
    [
        ([LDS, "drain: q, leaving: 1"], True),
        ([SCALAR, "drain: q", LDS, LDS, "drain: q, leaving: 1"], True),
        ([SCALAR, LDS, "drain: q, leaving: 1"], False),
        ([LDS, SCALAR, "drain: q, leaving: 1"], False),
        (["for: i in 0..2, do: [{drain: q, leaving: 1}, {" + SCALAR + "}]"], False),
        (["for: i in 0..2, do: [{" + SCALAR + "}, {drain: q}]", LDS, "drain: q, leaving: 1"], True),
        (["drain: q, leaving: 1", SCALAR, "drain: q"], True),
    ],
)
def test_partial_waits_while_scalar_loads_are_under_way(statements: list[str], legal: bool):
    kernel = text(
        target="gfx942",
        buffers="{G: {space: global, initial: 0}, L: {bytes: 64, initial: 0}, "
        "R: {space: register}, S: {space: register}}",
        queues="{q: lgkmcnt}", roles="{w: {warps: 1}}",
        program="{w: [" + ", ".join("{" + item + "}" for item in statements) + "]}",
    )  # fmt: skip
    assert refused(kernel) == (not legal)
