"""Locks between CTAs: spin locks of the usual forms, faults in them, and against an explorer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.frontends.grid_kernels import finding_on, head
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.validate.compare.compile import nvcc

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
LANES = "setp.eq.u32 %p4, %r1, 1;\nsetp.eq.u32 %p5, %r1, 32;\n"
HEAD = head(shared=".shared .align 4 .b32 got;\n.shared .align 4 .b8 s[256];\n") + LANES


def found(body: str, grid: int = 3, known: bool = True) -> tuple[Verdict, str]:
    """The verdict on a kernel of two warps with these instructions."""
    words = "{pointer: {u32: [0, 0, 0, 0]}}" if known else "pointer"
    text = f"{{grid: {grid}, block: 64, shared: 0, parameters: [pointer, {words}]}}"
    finding = finding_on(HEAD + body, text)
    headlines = [f"{item.code} {item.headline}" for item in finding.diagnostics]
    return finding.verdict, "; ".join([*headlines, *finding.notes])


# ------------------------------------------------------------------------------- usual forms

TAKE = """@!%p0 bra GO;
W: atom.relaxed.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra W;
membar.gl; GO:"""
BAR = "bar.sync 0;"
USE = "ld.global.u32 %r9, [%d3]; add.u32 %r9, %r9, 1; st.global.u32 [%d3], %r9;"
GIVE = "@%p0 membar.gl; @%p0 atom.relaxed.gpu.global.exch.b32 %r6, [%d1], 0;"
COPIED = USE.replace(
    "ld.global.u32 %r9, [%d3];",
    """mov.u32 %r14, s; mad.lo.u32 %r14, %r1, 4, %r14;
    cp.async.ca.shared.global [%r14], [%d3], 4; cp.async.wait_all; ld.shared.u32 %r9, [%r14];""",
)
PARTS = (TAKE, BAR, USE, BAR, GIVE)


def section(**edits: str) -> str:
    """A section of a lock, with some of its parts replaced, by number."""
    return "\n".join(edits.get(f"at{n}", text) for n, text in enumerate(PARTS))


ACQUIRE = TAKE.replace("relaxed", "acquire").replace("membar.gl;", "")
RELAXED = TAKE.replace("membar.gl;", "")
STORE = "@%p0 st.release.gpu.global.u32 [%d1], 0;"
FORMS = {
    "compare-and-swap and fences": section(),
    "acquire and release": section(at0=ACQUIRE, at4=STORE),
    "read by cp.async": section(at2=COPIED),
    "an exchange": section(
        at0=ACQUIRE.replace("cas.b32 %r5, [%d1], 0, 1", "exch.b32 %r5, [%d1], 1"), at4=STORE),
    "the number of the CTA": section(
        at0=ACQUIRE.replace("0, 1;", "0, %r4;")),
    "it is looked at first": section(at0="""@!%p0 bra GO;
        W: ld.relaxed.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, 0; @%p2 bra W;
        atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra W;
        GO:"""),
    "it sleeps, longer each time": section(at0="""mov.u32 %r8, 32; @!%p0 bra GO;
        W: atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra GO;
        nanosleep.u32 %r8; shl.b32 %r8, %r8, 1; min.u32 %r8, %r8, 256; bra W; GO:"""),
    "volatile": section(at4="@%p0 membar.gl; @%p0 st.volatile.global.u32 [%d1], 0;"),
    "fences by all": section(
        at0=RELAXED, at1=BAR + "membar.gl;", at3="membar.gl;" + BAR,
        at4=GIVE.replace("@%p0 membar.gl;", "")),
    "released by compare-and-swap": section(
        at4="@%p0 atom.release.gpu.global.cas.b32 %r6, [%d1], 1, 0;"),
    "released by a subtraction": section(
        at4="@%p0 red.release.gpu.global.add.u32 [%d1], -1;"),
    "released by another lane": section(at4=STORE.replace("@%p0", "@%p4")),
    "released by another warp": section(at4=STORE.replace("@%p0", "@%p5")),
    "twice": section() + BAR + section().replace("W:", "V:").replace("bra W", "bra V").replace(
        "GO", "ON"),
    "tried once before": section(at0="""@!%p0 bra GO;
        atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra GO;
        W: atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra W;
        GO:"""),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_usual_forms(name: str) -> None:
    got, text = found(FORMS[name])
    assert got is VERIFIED, text
    assert "CTAs take 1 lock" in text


FAULTS = {
    "no fence behind the attempt": (section(at0=RELAXED), REFUTED),
    "no fence before the release": (section(at4=GIVE.replace("@%p0 membar.gl;", "")), REFUTED),
    "read by cp.async, no fence behind the attempt": (section(at0=RELAXED, at2=COPIED), REFUTED),
    "read by cp.async, no barrier behind the attempt": (section(at1="", at2=COPIED), REFUTED),
    "a fence for the block": (section(at4=GIVE.replace("membar.gl", "membar.cta")), REFUTED),
    "no barrier behind the attempt": (section(at1=""), REFUTED),
    "no barrier before the release": (section(at3=""), REFUTED),
    "read before the lock": (
        "ld.global.u32 %r9, [%d3];" + section(at2="st.global.u32 [%d3], %r9;"), REFUTED),
    "written behind the lock": (section() + "st.global.u32 [%d3], %r9;", REFUTED),
    "read while it spins": (
        section(at0=TAKE.replace("W:", "W: ld.global.u32 %r10, [%d3];")), REFUTED),
    "no release": (section(at4=""), REFUTED),
    "a release of another word": (section(at4=GIVE.replace("[%d1]", "[%d1+4]")), REFUTED),
    "a release by one CTA only": (
        section(at4="setp.eq.and.u32 %p0, %r2, 0, %p0;" + GIVE), REFUTED),
    "taken twice": (
        section(at1=RELAXED.replace("W:", "V:").replace("bra W", "bra V").replace("GO", "ON")),
        REFUTED),
    "a plain store releases": (
        section(at4="@%p0 membar.gl; @%p0 st.global.u32 [%d1], 0;"), REFUTED),
    "a lock for the block": (
        section(at0=TAKE.replace("relaxed.gpu", "relaxed.cta")), REFUTED),
    "a release for the block": (
        section(at4=GIVE.replace("relaxed.gpu", "relaxed.cta")), REFUTED),
    "it gives up": (
        section(at0="""mov.u32 %r8, 0; @!%p0 bra GO;
        W: atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra GO;
        add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 1000; @%p2 bra W; GO:"""), UNDECIDED),
    "it gives up at once": (
        section(at0="""@!%p0 bra GO; atom.acquire.gpu.global.cas.b32 %r5, [%d1], 0, 1;
        GO:"""), REFUTED),
    "the wrong number is free": (section(at4=GIVE.replace("[%d1], 0", "[%d1], 2")), UNDECIDED),
    "another CTA's lock": (
        section(at0="mad.wide.u32 %d1, %r2, 4, %d1;" + TAKE), REFUTED),
    "one CTA takes none": (
        "setp.eq.u32 %p3, %r2, 1; @%p3 bra NO;" + section(at2="NO:" + USE +
        "@%p3 bra END;") + "END:", REFUTED),
    "data decide the release": (
        section(at4="setp.eq.u32 %p4, %r9, 1; and.pred %p0, %p0, %p4;" + GIVE), UNDECIDED),
    "released by another warp, without a barrier": (
        section(at3="", at4=STORE.replace("@%p0", "@%p5")), REFUTED),
    "released by another warp, relaxed": (
        section(at4=STORE.replace("@%p0", "@%p5").replace("release", "relaxed")), REFUTED),
    "released by another warp that has met nobody": (
        section(at1="", at3="", at4=STORE.replace("@%p0", "@%p5")), UNDECIDED),
    "taken again by another warp, without a barrier": (
        section() + section().replace("W:", "V:").replace("bra W", "bra V").replace(
            "GO", "ON").replace("%p0", "%p5"), UNDECIDED),
    "taken again by another warp, behind a barrier": (
        section() + BAR + section().replace("W:", "V:").replace("bra W", "bra V").replace(
            "GO", "ON").replace("%p0", "%p5"), UNDECIDED),
    "taken again, and released by another warp meanwhile": (
        section(at4=STORE.replace("@%p0", "@%p5")) + RELAXED.replace("W:", "V:").replace(
            "bra W", "bra V").replace("GO", "ON") + GIVE, UNDECIDED),
    "released before it is taken": (GIVE + section(), UNDECIDED),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    body, verdict = FAULTS[name]
    got, text = found(body)
    assert got is verdict, text


# --------------------------------------------------------------------- words that decide inside

SPIN = """W: bar.sync 0; mov.u32 %r5, 0;
@%p0 atom.acq_rel.gpu.global.cas.b32 %r5, [%d1], 0, 1;
@%p0 st.shared.u32 [got], %r5; bar.sync 0; ld.shared.u32 %r6, [got];
setp.eq.u32 %p2, %r6, 1; @%p2 bra W;"""
FLAG = "ld.global.u32 %r10, [%d1+8]; setp.ne.u32 %p3, %r10, 0; @!%p3 bra NEW;"
SUM = "ld.global.u32 %r11, [%d3]; add.u32 %r9, %r9, %r11; bra.uni OLD; NEW:"
MARK = """bar.sync 0; mov.u32 %r7, 0; @%p0 atom.acq_rel.gpu.global.exch.b32 %r7, [%d1+8], 1;
bar.sync 0; OLD:"""
WRITE = "st.global.u32 [%d3], %r9; bar.sync 0;"
FREE = "@%p0 atom.acq_rel.gpu.global.exch.b32 %r7, [%d1], 0; bar.sync 0;"
NORM = (SPIN, FLAG, SUM, MARK, WRITE, FREE)


def norm(**edits: str) -> str:
    """How Triton's layer norm adds parts of a gradient, with some of its parts replaced."""
    return "\n".join(edits.get(f"at{n}", text) for n, text in enumerate(NORM))


NORMS = {
    "as it should be": (norm(), VERIFIED),
    "several locks": (
        "and.b32 %r12, %r2, 1; mad.wide.u32 %d1, %r12, 4, %d1; mad.wide.u32 %d3, %r12, 256, %d3;"
        + norm(), VERIFIED),
    "a counter": (norm(at3="""bar.sync 0; OLD: bar.sync 0; add.u32 %r10, %r10, 1;
        @%p0 st.global.u32 [%d1+8], %r10;"""), VERIFIED),
    "no barrier before the release": (norm(at4=WRITE.replace("bar.sync 0;", "")), REFUTED),
    "relaxed attempts": (norm(at0=SPIN.replace("acq_rel", "relaxed")), REFUTED),
    "a relaxed release": (norm(at5=FREE.replace("acq_rel", "relaxed")), REFUTED),
    "the flag is read before": (norm(at0=FLAG.replace("@!%p3 bra NEW;", "") + SPIN,
                                     at1="@!%p3 bra NEW;"), UNDECIDED),
    "the flag is written behind": (
        norm(at2=SUM.replace("NEW:", ""), at3="NEW: OLD:",
             at5=FREE + "@%p0 st.global.u32 [%d1+8], 1;"), REFUTED),
    "one lock and another flag": (
        "and.b32 %r12, %r2, 1; mad.wide.u32 %d4, %r12, 4, %d1;" + norm(
            at0=SPIN.replace("%d1", "%d4"), at5=FREE.replace("%d1", "%d4")), UNDECIDED),
    "the sum is not under the lock where it is new": (norm(at1="""
        ld.global.u32 %r10, [%d1+8]; setp.ne.u32 %p3, %r10, 0; bar.sync 0;
        @!%p3 bra FIRST; bra.uni ON; FIRST: bar.sync 0;
        @%p0 atom.acq_rel.gpu.global.exch.b32 %r7, [%d1+8], 1;
        @%p0 atom.acq_rel.gpu.global.exch.b32 %r7, [%d1], 0; bar.sync 0;
        st.global.u32 [%d3], %r9; bra.uni END; ON:""", at3="OLD:", at5=FREE + "END:"),
        REFUTED),
    "kept where the flag is set": (
        norm(at5="@%p3 bra END;" + FREE + "END:"), UNDECIDED),
    "kept where it is not": (
        norm(at5="@!%p3 bra END;" + FREE + "END:"), REFUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_words_that_decide_under_a_lock(name: str) -> None:
    body, verdict = NORMS[name]
    got, text = found(body)
    assert got is verdict, text
    if verdict is VERIFIED:
        assert "under locks decide" in text


def test_words_that_the_launch_does_not_give_are_not_guessed() -> None:
    assert found(section(), known=False)[0] is UNDECIDED


# ------------------------------------------------------------------------------ several locks


def both(first: str, second: str, inner: str = "") -> str:
    """A section of one lock within that of another one."""
    inner = inner or USE
    names = {"W": "V", "GO": "ON"}
    take = ACQUIRE.replace("[%d1]", second)
    for one, other in names.items():
        take = take.replace(one + ":", other + ":").replace("bra " + one, "bra " + other)
    give = STORE.replace("[%d1]", second)
    outer = ACQUIRE.replace("[%d1]", first), STORE.replace("[%d1]", first)
    return "\n".join((outer[0], take, BAR, inner, BAR, give, outer[1]))


SWAP = "setp.eq.u32 %p4, %r2, 1; @%p4 add.u64 %d1, %d1, 4; mov.u64 %d4, 4; @%p4 mov.u64 %d4, -4;"
NESTED = {
    "in one order": (both("[%d1]", "[%d1+4]"), VERIFIED),
    "by two lanes": (both("[%d1]", "[%d1+4]").replace("@!%p0 bra ON", "@!%p4 bra ON"), UNDECIDED),
    "by two warps": (both("[%d1]", "[%d1+4]").replace("@!%p0 bra ON", "@!%p5 bra ON"), UNDECIDED),
    "in opposite orders": (SWAP + "add.u64 %d4, %d1, %d4;" + both("[%d1]", "[%d4]"), REFUTED),
    "in opposite orders, under a third": (
        "add.u64 %d5, %d1, 8;" + SWAP + "add.u64 %d4, %d1, %d4;"
        + section(at0=ACQUIRE.replace("[%d1]", "[%d5]").replace("W", "U").replace("GO", "OK"),
                  at2=both("[%d1]", "[%d4]"), at4=STORE.replace("[%d1]", "[%d5]")), UNDECIDED),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_locks_within_locks(name: str) -> None:
    body, verdict = NESTED[name]
    got, text = found(body)
    assert got is verdict, text
    if verdict is REFUTED:
        assert "TTN205" in text


def test_one_cta_alone_and_more_than_are_followed() -> None:
    assert found(norm(), 1)[0] is VERIFIED
    assert found(section(), 70)[0] is VERIFIED
    assert found(section(at3=""), 70)[0] is REFUTED
    got, text = found(section(), 257)
    assert got is UNDECIDED and "up to 256 CTAs" in text


def test_the_grid_of_the_launch_is_not_any_grid() -> None:
    launch, _ = read_launch_text(
        "{grid: 3, block: 64, shared: 0, parameters: [pointer, {pointer: {u32: [0]}}]}", "k.yaml"
    )
    source = Source("k.ptx", HEAD + section() + "\nret;\n}\n")
    for require, verdict in (("bounded", VERIFIED), ("any", UNDECIDED)):
        options = CodeOptions(require=require)
        (finding,) = verify_code(source, launch, options, [], 0.0)
        assert finding.verdict is verdict


def test_an_own_lock_for_each_cta_orders_nothing_and_needs_nothing() -> None:
    own = "mad.wide.u32 %d1, %r2, 4, %d1;"
    assert found(own + section(at2=USE.replace("%d3", "%d2")))[0] is VERIFIED
    assert found(own + section())[0] is REFUTED


# ------------------------------------------------------------------------------- what nvcc makes

LOCKS = Path(__file__).parent / "cuda" / "locks.cu"


@pytest.mark.heavy
@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("fault", range(5))
@pytest.mark.parametrize("flag", range(2))
@pytest.mark.parametrize("form", range(4))
def test_what_nvcc_makes_of_locks(tmp_path: Path, form: int, flag: int, fault: int) -> None:
    out = tmp_path / "locks.ptx"
    given = [f"-DFORM={form}", f"-DFLAG={flag}", f"-DFAULT={fault}"]
    command = [str(nvcc()), "-arch=sm_90a", "-ptx", *given, "-o", str(out), str(LOCKS)]
    subprocess.run(command, check=True, capture_output=True)
    launch, errors = read_launch_text("{grid: 3, block: 64, parameters: [pointer, pointer]}", "l")
    assert errors == []
    source = Source(out.name, out.read_text(encoding="utf-8"))
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    assert finding.verdict is (REFUTED if fault else VERIFIED), finding.notes
