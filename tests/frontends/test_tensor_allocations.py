"""Tensor memory that a CTA keeps, or allocates after it has given up the permit."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified

ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s{at}], {columns};"
GIVE_BACK = """
	ld.shared.u32 %r{register}, [s{at}];
	tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{register}, {columns};
"""
GIVE_UP = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"


def allocated(at: int, columns: int = 64) -> str:
    return ALLOCATE.format(at=f"+{at}", columns=columns)


def given_back(at: int, columns: int = 64) -> str:
    return GIVE_BACK.format(at=f"+{at}", columns=columns, register=3 + at // 4)


def one_warp(*lines: str) -> str:
    """What the first of two warps does; then both meet."""
    body = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n" + "\n".join(lines) + "\nDONE: bar.sync 0;"
    return kernel(body).replace("sm_90a", "sm_100a").replace("version 8.3", "version 8.8")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((allocated(0), given_back(0)), []),
        ((allocated(0), GIVE_UP, given_back(0)), []),
        ((allocated(0), allocated(4, 128), GIVE_UP, given_back(4, 128), given_back(0)), []),
        ((allocated(0), given_back(0), allocated(0), given_back(0)), []),
        ((allocated(0),), ["TTN211"]),
        ((allocated(0), allocated(4), given_back(4)), ["TTN211"]),
        ((allocated(0), given_back(0), allocated(0, 32)), ["TTN211"]),
        ((allocated(0), given_back(0, 32)), ["TTN218", "TTN211"]),
        ((allocated(0), GIVE_UP, allocated(4), given_back(4), given_back(0)), ["TTN219"]),
        ((GIVE_UP, allocated(0)), ["TTN219"]),
    ],
)
def test_what_a_cta_allocates_it_gives_back_and_while_it_may(lines, expected):
    finding = verified(one_warp(*lines), NOTHING)
    assert codes(finding) == expected, finding.diagnostics


def test_each_cta_gives_back_its_own():
    """The second CTA of a cluster keeps what it has."""
    keeps = (
        "mov.u32 %r8, %ctaid.x;",
        allocated(0),
        "setp.eq.u32 %p2, %r8, 1;",
        "@%p2 bra DONE;",
        given_back(0),
    )
    text = one_warp(*keeps)
    launch = "{grid: 2, cluster: 2, dynamic_shared: 0}"
    assert codes(verified(text, launch)) == ["TTN211"]
    assert codes(verified(text, "{grid: 1, dynamic_shared: 0}")) == []


PAIRED = GIVE_UP.replace("cta_group::1", "cta_group::2")


@pytest.mark.parametrize(
    ("lines", "cluster", "expected"),
    [
        ((allocated(0), GIVE_UP, given_back(0)), 1, []),
        ((allocated(0), PAIRED, given_back(0)), 2, ["TTN219"]),
        ((PAIRED,), 2, []),
        ((PAIRED,), 1, ["TTN219"]),
        ((PAIRED,), 3, ["TTN219"]),
    ],
)
def test_one_group_of_ctas_in_a_kernel_and_pairs_that_the_cluster_has(lines, cluster, expected):
    launch = f"{{grid: {cluster}, cluster: {cluster}, dynamic_shared: 0}}"
    finding = verified(one_warp(*lines), launch)
    assert codes(finding)[:1] == expected, finding.diagnostics


BEHIND = """
	setp.eq.u32 %p3, %r0, 0;
	@%p3 mbarrier.init.shared.b64 [b], 1;
	tcgen05.fence::before_thread_sync;
	bar.sync 0;
	ld.shared.u32 %r6, [s];
	@%p3 mbarrier.arrive.shared.b64 _, [b];
WAIT:
	mbarrier.try_wait.parity.shared.b64 %p4, [b], 0;
	@!%p4 bra WAIT;
	bar.sync 0;
"""


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (BEHIND, []),
        (BEHIND.replace("bar.sync 0;", "", 1), ["TTN203", "TTN208"]),
    ],
)
def test_what_one_lane_does_behind_an_allocation(behind, expected):
    """The address is written once, by the whole warp, however the lanes go on."""
    warp = "setp.ne.u32 %p1, %r1, 0;\n@!%p1 " + allocated(0) + behind
    text = kernel(warp + "@!%p1 ld.shared.u32 %r3, [s];\n" + "@%p1 bra DONE;" + given_back(0))
    text = text.replace("\tret;", "DONE: ret;")
    text = text.replace("sm_90a", "sm_100a").replace("version 8.3", "version 8.8")
    found = codes(verified(text, NOTHING))
    assert found == [] if not expected else set(found) & set(expected), found
