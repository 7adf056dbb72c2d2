"""Page numbers that `cp.async` brings to shared memory, where the launch gives the table.

Each thread copies a word of the table and stores to the page that another thread has copied. What
is stored where is worked out here from the table alone.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from tests.frontends.test_further_trips import TABLES, without_wait
from tests.frontends.test_verify_code import codes, verified
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

TABLE, PAGES = 0x100000, 0x200000
THREADS = 64
KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 table, .param .u64 pages)
.reqntid 64
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  .shared .align 16 .b8 s[512];
  ld.param.u64 %d1, [table];
  ld.param.u64 %d2, [pages];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, BYTES;
  add.s64 %d3, %d1, %d3;
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r1, BYTES, %r2;
  setp.lt.u32 %p1, %r1, 64;
  setp.ge.u32 %p2, %r1, 64;
  BEFORE
  COPY
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  xor.b32 %r4, %r1, 63;
  mad.lo.u32 %r5, %r4, BYTES, %r2;
  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %d4, %r6, 4;
  add.s64 %d4, %d2, %d4;
  st.global.u32 [%d4], %r1;
  AFTER
  ret;
}
"""
FORMS = {
    "four bytes": ("cp.async.ca.shared.global [%r3], [%d3], 4;", 4),
    "eight bytes": ("cp.async.ca.shared.global [%r3], [%d3], 8;", 8),
    "four of eight bytes": ("cp.async.ca.shared.global [%r3], [%d3], 8, 4;", 8),
    "not ignored": ("cp.async.ca.shared.global [%r3], [%d3], 4, %p2;", 4),
    "by predicate": ("@%p1 cp.async.ca.shared.global [%r3], [%d3], 4;", 4),
    "by other bytes": ("cp.async.ca.shared.global [%r3], [%d3], 4, 4;", 4),
}


def kernel(copy: str, size: int, before: str = "", after: str = "") -> str:
    text = KERNEL.replace("COPY", copy).replace("BYTES", str(size))
    return text.replace("BEFORE", before).replace("AFTER", after)


def decided(
    text: str, pages: list[int], size: int = 4, bounds: str = "", grid: int = 1, **more: object
) -> Finding:
    words = [word for page in pages for word in (page, *[0] * (size // 4 - 1))]
    launch = (
        f"{{grid: {grid}, dynamic_shared: 0, {bounds} parameters: {{table: {{pointer: "
        f"{{u32: {words}}}}}, pages: pointer}}}}"
    )
    return verified(text, launch, **more)


PERMUTED = [(5 * n + 3) % THREADS for n in range(THREADS)]


@pytest.mark.parametrize("name", FORMS)
def test_pages_that_differ_are_apart(name):
    copy, size = FORMS[name]
    finding = decided(kernel(copy, size), PERMUTED, size)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    assert not any("unknown" in note for note in finding.notes), finding.notes


@pytest.mark.parametrize("name", FORMS)
def test_a_page_that_two_threads_have_is_a_race(name):
    copy, size = FORMS[name]
    pages = [*PERMUTED[:40], PERMUTED[3], *PERMUTED[41:]]  # threads of two warps
    assert codes(decided(kernel(copy, size), pages, size)) == ["TTN201"]


@pytest.mark.parametrize("seed", range(8))
def test_a_race_is_one_where_the_table_has_a_page_twice(seed):
    random = Random(seed)
    pages = random.sample(range(90), THREADS)
    if seed % 2:
        pages[random.randrange(32)] = pages[random.randrange(32, 64)]
    finding = decided(kernel(*FORMS["four bytes"]), pages)
    apart = len(set(pages)) == THREADS
    assert finding.verdict is (Verdict.VERIFIED if apart else Verdict.REFUTED), finding.notes


def test_what_is_filled_with_zeros_is_page_zero():
    """Sizes of no bytes and sources that are ignored: all threads store to one page."""
    for copy in ("[%r3], [%d3], 4, 0;", "[%r3], [%d3], 4, %p1;"):
        text = kernel(f"cp.async.ca.shared.global {copy}", 4)
        assert codes(decided(text, PERMUTED)) == ["TTN201"]
        own = text.replace(
            "st.global.u32 [%d4]", "setp.eq.u32 %p3, %r1, %r6; @%p3 st.global.u32 [%d4]"
        )
        assert decided(own, PERMUTED).verdict is Verdict.VERIFIED


BROKEN = {
    "not waited for": ("  cp.async.wait_group 0;\n", ""),
    "a group too few": ("wait_group 0", "wait_group 1"),
    "not committed": ("  cp.async.commit_group;\n", ""),
    "no barrier": ("  bar.sync 0;\n", ""),
    "waited for behind the barrier": (
        "  cp.async.wait_group 0;\n  bar.sync 0;\n",
        "  bar.sync 0;\n  cp.async.wait_group 0;\n",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_pages_that_are_read_too_early(name):
    text = kernel(*FORMS["four bytes"])
    assert text.count(BROKEN[name][0]) == 1
    finding = decided(text.replace(*BROKEN[name]), PERMUTED)
    assert finding.verdict is Verdict.REFUTED, finding.notes


def test_a_page_outside_of_the_memory():
    bounds = f"allocations: [[{TABLE}, 256], [{PAGES}, 256]],"
    for last, verdict in ((63, Verdict.VERIFIED), (64, Verdict.REFUTED)):
        pages = [*(n for n in range(THREADS - 1)), last]
        words = struct.pack("<64I", *pages)
        launch = (
            f"{{grid: 1, dynamic_shared: 0, {bounds} parameters: {{table: {TABLE}, "
            f"pages: {PAGES}}}}}"
        )
        finding = with_memory(kernel(*FORMS["four bytes"]), launch, {TABLE: words})
        assert finding.verdict is verdict, (codes(finding), finding.notes)
        assert codes(finding) == (["TTN218"] if verdict is Verdict.REFUTED else [])


def with_memory(text: str, launch: str, memory: dict[int, bytes]) -> Finding:
    described, errors = read_launch_text(launch, "k.yaml")
    assert errors == []
    described.memory.update(memory)
    (finding,) = verify_code(Source("k.ptx", text), described, CodeOptions(), [], 0.0)
    return finding


WRITES = {
    "plainly": "st.global.u32 [%d3], %r1;",
    "from other threads": (
        "xor.b32 %r7, %r1, 32; mad.wide.u32 %d5, %r7, 4, %d1; st.global.u32 [%d5], %r7;"
    ),
    "behind a fence": "st.global.u32 [%d3], %r1; fence.acq_rel.gpu;",
    "by an atomic": "red.global.add.u32 [%d3], 1;",
}


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("name", WRITES)
def test_a_table_that_another_block_writes_is_not_known(name, where):
    """Blocks of odd numbers write the table that all read: never verified, in either place."""
    writes = f"""mov.u32 %r8, %ctaid.x; and.b32 %r8, %r8, 1; setp.eq.u32 %p3, %r8, 0;
        @%p3 bra L; {WRITES[name]} L:"""
    once = "mov.u32 %r9, %ctaid.x; mad.wide.u32 %d2, %r9, 256, %d2;"  # pages of the block
    text = kernel(*FORMS["four bytes"], **{where: writes})
    text = text.replace("mov.u32 %r2, s;", f"mov.u32 %r2, s; {once}")
    finding = decided(text, PERMUTED, grid=2)
    assert finding.verdict is not Verdict.VERIFIED, finding.notes
    alone = text.replace(writes, "")
    assert decided(alone, PERMUTED, grid=2).verdict is Verdict.VERIFIED


def test_what_the_threads_of_the_block_have_written_before_is_copied():
    """The table is filled by the block, with a barrier before it is copied: numbers by thread."""
    before = "st.global.u32 [%d3], %r1; bar.sync 1;"
    text = kernel(*FORMS["four bytes"], before=before)
    assert decided(text, [7] * THREADS).verdict is Verdict.VERIFIED
    other = "xor.b32 %r7, %r1, 32; mad.wide.u32 %d5, %r7, 4, %d1; st.global.u32 [%d5], %r7;"
    crossed = kernel(*FORMS["four bytes"], before=f"{other} bar.sync 1;")
    assert decided(crossed, [7] * THREADS).verdict is Verdict.VERIFIED
    assert decided(crossed.replace("bar.sync 1;", ""), [7] * THREADS).verdict is Verdict.REFUTED
    late = kernel(*FORMS["four bytes"]).replace("cp.async.commit", f"{other} cp.async.commit")
    assert decided(late, PERMUTED).verdict is Verdict.REFUTED


def test_a_table_that_a_block_hands_over_is_not_known():
    """Block 0 fills the table and raises a flag, for which block 1 waits. Where it fills nothing,
    the table is as at the start."""
    body = """setp.eq.u32 %p1, %r1, 0; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p3, %r8, 1; @%p3 bra W;
        FILL bar.sync 2; @%p1 st.release.gpu.global.u32 [%d1+1024], 1; ret;
        W: @!%p1 bra GO; A: ld.acquire.gpu.global.u32 %r9, [%d1+1024];
        setp.ne.u32 %p2, %r9, 1; @%p2 bra A; GO: bar.sync 2;"""
    text = kernel(*FORMS["four bytes"], before=body)
    pages = [*PERMUTED, *[0] * 200]
    full, nothing = "st.global.u32 [%d3], 0;", ""
    plain = "ld.global.u32 %r9, [%d3]; st.shared.u32 [%r3], %r9;"
    for fill, verified_ in ((full, False), (nothing, True)):
        for copies in (FORMS["four bytes"][0], plain):
            filled = text.replace("FILL", fill).replace(FORMS["four bytes"][0], copies)
            finding = decided(filled, pages, grid=2)
            assert (finding.verdict is Verdict.VERIFIED) is verified_, finding.notes


def brought(table: str) -> str:
    """The ring whose consumer copies a word of a table in each trip; `table`: its place. It leaves
    out the wait for the data where the word is 1."""
    copy = f"""and.b32 %r14, %r2, 31; mov.u32 %r24, common; mad.lo.u32 %r24, %r14, 4, %r24;
        {table} cp.async.ca.shared.global [%r24], [%rd5], 4; cp.async.wait_all;
        ld.shared.u32 %r25, [%r24]; setp.eq.u32 %p6, %r25, 1;"""
    return without_wait(copy).replace("common[4]", "common[128]")


@pytest.mark.parametrize("name", TABLES)
def test_words_of_further_trips_are_not_those_of_this_one(name):
    place, shown = TABLES[name]
    given = [0] * 1024 + list(range(1024))
    source = f"{{pointer: {{u32: {given}}}}}"
    launch = f"{{grid: 1, dynamic_shared: 0, parameters: {{source: {source}, n: 5}}}}"
    finding = verified(brought(place), launch, require="any", ctas=(0,))
    assert (finding.verdict is Verdict.VERIFIED) is shown, finding.notes
    if shown:
        assert any("for all further ones" in note for note in finding.notes), finding.notes


# Lanes of a store that write one value to one place, which is shown by its trace.
ALIKE = "ld.shared.u32 %r6, [s]; add.u32 %r6, %r6, 1; @!%p3 st.shared.u32 [s+504], %r6;"


@pytest.mark.parametrize(("way", "traced"), [("copied", True), ("loaded", True), ("stored", False)])
def test_values_are_traced_where_only_what_is_read_is_at_an_unknown_place(way, traced):
    read = {
        "copied": "cp.async.ca.shared.global [%r3], [%d5], 4; cp.async.wait_all;",
        "loaded": "ld.global.u32 %r7, [%d5]; st.shared.u32 [%r3], %r7;",
        "stored": """st.shared.u32 [%r3], %r8; setp.eq.u32 %p1, %r1, 0;
        @%p1 st.global.u32 [%d5], %r1;""",
    }[way]
    body = f"""ld.global.u32 %r8, [%d3]; mul.wide.u32 %d5, %r8, 4; add.s64 %d5, %d2, %d5;
        {read} setp.ge.u32 %p3, %r1, 32; bar.sync 0; {ALIKE} ret;"""
    text = kernel("", 4, before=body)
    launch = "{grid: 1, dynamic_shared: 0, parameters: {table: pointer, pages: pointer}}"
    finding = verified(text, launch)
    reasons = " ".join((*finding.notes, str(finding.narrowing)))
    if traced:
        assert finding.verdict is Verdict.VERIFIED, reasons
    else:
        line = 1 + text[: text.index("@%p1 st.global.u32 [%d5]")].count("\n")
        assert finding.verdict is not Verdict.VERIFIED
        assert f"is not shown, as line {line} has an address that is not known" in reasons, reasons
