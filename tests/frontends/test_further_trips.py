"""Further trips than those launched: shown to be the same, or launched where they may be others.

Each fault comes after more trips than any launch has that a file is folded from or compared with.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.test_verify_code import LAUNCH, codes, ring, verified
from tests.sampling import part, sampled
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.lift.further_trips import FurtherTrips, further_trips
from titan.frontends.lift.warp_rounds import WarpRounds
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.launch import completed, read_launch_text
from titan.frontends.ptx.sweep import Driver, ParameterWord
from titan.isa.ptx.parse import parse_source
from titan.verify.model import Finding

BEFORE_WAIT, AFTER_WAIT = "FULL:\n", "\t@!%p5 bra FULL;\n"
DECLARED = (
    "\t.reg .b16 %h<4>;\n\t.local .align 4 .b8 count[4];\n\t.shared .align 4 .b8 common[4];\n"
)


def without_wait(when: str, before: str = "", text: str | None = None) -> str:
    """The ring whose consumer leaves out its wait once `when` sets %p6; `before`: the loop."""
    text = ring() if text is None else text
    assert text.count(BEFORE_WAIT) == text.count(AFTER_WAIT) == 1
    text = text.replace(BEFORE_WAIT, f"{when}\n\t@%p6 bra SKIPPED;\n{BEFORE_WAIT}")
    text = text.replace(AFTER_WAIT, f"{AFTER_WAIT}SKIPPED:\n")
    text = text.replace("\t.shared .align 128", f"{DECLARED}\t.shared .align 128", 1)
    return text.replace("\tmov.u32 %r7, 0;\n", f"\tmov.u32 %r7, 0;\n{before}", 1)


def found(text: str, **more: object) -> Finding:
    return verified(text, LAUNCH, require="any", ctas=(0,), **more)


# What sets the predicate, and the first number of trips in which it is set.
FAR = {
    "one trip": ("setp.eq.u32 %p6, %r7, 40;", 41),
    "from one trip on": ("setp.gt.u32 %p6, %r7, 50;", 52),
    "the last of 64": ("and.b32 %r24, %r7, 63; setp.eq.u32 %p6, %r24, 63;", 64),
    "after 64": ("shr.u32 %r24, %r7, 6; setp.ne.u32 %p6, %r24, 0;", 65),
    "a field of bits": ("bfe.u32 %r24, %r7, 5, 3; setp.eq.u32 %p6, %r24, 1;", 33),
    "a quotient": ("div.u32 %r24, %r7, 45; setp.eq.u32 %p6, %r24, 1;", 46),
    "a remainder": ("rem.u32 %r24, %r7, 45; setp.eq.u32 %p6, %r24, 44;", 45),
    "a byte": ("cvt.u32.u8 %r24, %r7; setp.eq.u32 %p6, %r24, 200;", 201),
    "16 bits that wrap": (
        "cvt.u16.u32 %h1, %r7; mul.lo.u16 %h1, %h1, 1024; cvt.u32.u16 %r24, %h1;"
        "mul.lo.u32 %r25, %r7, 1024; setp.ne.u32 %p6, %r24, %r25;", 65,
    ),
    "32 bits that wrap": (
        "mul.lo.u32 %r24, %r7, 0x4000000; setp.eq.u32 %p6, %r24, 0;"
        "setp.gt.and.u32 %p6, %r7, 0, %p6;", 65,
    ),
    "a sum of the trips that are left": (
        "sub.u32 %r24, %r1, %r7; setp.eq.u32 %p6, %r24, 70;", 70,
    ),
    "the greatest so far": ("max.u32 %r24, %r7, 90; setp.ne.u32 %p6, %r24, 90;", 92),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAR, 2))
def test_what_changes_after_many_trips_is_launched(name):
    when, first = FAR[name]
    finding = found(without_wait(when))
    assert finding.verdict is Verdict.REFUTED, finding.notes
    assert set(codes(finding)) & {"TTN203", "TTN205", "TTN206", "TTN212"}, codes(finding)
    assert f"found with parameter 1 = {first} ({first} trips), CTA (0, 0, 0)" in finding.notes


# What is not followed from round to round.
UNFOLLOWED = {
    "memory of one thread": (
        "ld.local.u32 %r24, [count]; add.u32 %r24, %r24, 1; st.local.u32 [count], %r24;"
        "setp.eq.u32 %p6, %r24, 40;",
        "\tst.local.u32 [count], 0;\n",
    ),
    "shared memory": (
        "ld.shared.u32 %r24, [common]; add.u32 %r24, %r24, 1; bar.warp.sync 0xffffffff;"
        "st.shared.u32 [common], %r24; bar.warp.sync 0xffffffff; setp.eq.u32 %p6, %r24, 40;",
        "\tsetp.eq.u32 %p7, %r2, 32; @%p7 st.shared.u32 [common], 0;\n"
        "\tbar.warp.sync 0xffffffff;\n",
    ),
    "a register that is doubled": (
        "shl.b64 %rd5, %rd5, 1; shr.u64 %rd6, %rd5, 40; setp.ne.u64 %p6, %rd6, 0;",
        "\tmov.u64 %rd5, 1;\n",
    ),
    "the square of a trip": (
        "mul.lo.u32 %r24, %r7, %r7; setp.gt.u32 %p6, %r24, 2000;", "",
    ),
    "with so many trips": ("setp.ge.u32 %p6, %r1, 80;", ""),
    "many trips later": ("setp.eq.u32 %p6, %r7, 100000;", ""),
}  # fmt: skip


def counted_in_memory(change: str) -> str:
    """The ring whose consumer counts its trips in shared memory, and waits once more after 40."""
    first = "setp.eq.u32 %p7, %r2, 32; @%p7 st.shared.u32 [common], 0; bar.warp.sync 0xffffffff;"
    text = ring().replace("\t.shared .align 128", f"{DECLARED}\t.shared .align 128", 1)
    text = text.replace("\tmov.u32 %r7, 0;\n", f"\tmov.u32 %r7, 0;\n\t{first}\n", 1)
    before, _, behind = text.partition("CONSUMER:\n")
    turned = "\tadd.u32 %r7, %r7, 1;\n\tbra CONSUMER;"
    behind = behind.replace(turned, f"\t{change}\n{turned}").replace("bra DONE", "bra AFTER", 1)
    last = """\tbra DONE;
AFTER:
	bar.warp.sync 0xffffffff;
	ld.shared.u32 %r24, [common];
	setp.ne.u32 %p6, %r24, 40;
	@%p6 bra DONE;
	and.b32 %r8, %r7, 1; shr.u32 %r9, %r7, 1; and.b32 %r9, %r9, 1; mad.lo.u32 %r12, %r8, 8, %r5;
AGAIN:
	mbarrier.try_wait.parity.shared.b64 %p5, [%r12], %r9;
	@!%p5 bra AGAIN;
DONE:
"""
    return before + "CONSUMER:\n" + behind.replace("DONE:\n", last)


ONE_LANE = "setp.eq.u32 %p7, %r2, 32; @%p7"


@pytest.mark.parametrize(
    "change",
    [
        "red.shared.add.u32 [common], 1;",
        "atom.shared.add.u32 %r24, [common], 1;",
        "atom.shared.inc.u32 %r24, [common], 50;",
        "red.shared.max.u32 [common], %r7;",
    ],
)
def test_what_an_atomic_counts_in_memory_is_not_that_of_these_trips(change):
    """No round reads it: it is read behind the loop."""
    finding = found(counted_in_memory(f"{ONE_LANE} {change}"))
    assert finding.verdict is Verdict.UNDECIDED, finding.notes
    assert finding.narrowing is not None and "trips and more" in finding.narrowing.because


@pytest.mark.parametrize("change", ["", "red.shared.add.u32 [common], 1;"])
def test_what_is_counted_and_decides_nothing_is_shown(change):
    text = counted_in_memory(f"{ONE_LANE} {change}" if change else "")
    kept = text.replace("setp.ne.u32 %p6, %r24, 40;", "").replace("@%p6 bra DONE", "bra DONE")
    assert found(kept if change else text).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("name", sampled(UNFOLLOWED, 3))
def test_what_is_not_shown_is_not_verified_for_any_number(name):
    when, before = UNFOLLOWED[name]
    finding = found(without_wait(when, before))
    assert finding.verdict is not Verdict.VERIFIED, finding.notes
    if name != "with so many trips":  # which is undecided by itself
        assert finding.narrowing is not None and "trips and more" in finding.narrowing.because


# Where a word of a table is that says whether to leave out the wait, which it does far behind; and
# whether the same is shown of all trips.
TABLES = {
    "by the trip": ("mad.wide.u32 %rd5, %r7, 4, %rd1;", False),
    "by a part of the trip": ("shr.u32 %r26, %r7, 4; mad.wide.u32 %rd5, %r26, 4, %rd1;", False),
    "by what the trip's word says": (
        """mad.wide.u32 %rd5, %r7, 4, %rd1; ld.global.u32 %r26, [%rd5+4096];
        mad.wide.u32 %rd5, %r26, 4, %rd1;""", False),
    "one for all": ("mov.u64 %rd5, %rd1;", True),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_words_that_further_trips_load_are_not_those_of_these(name):
    place, shown = TABLES[name]
    source = f"{{pointer: {{u32: {[0] * 1024 + list(range(1024))}}}}}"
    launch = f"{{grid: 1, dynamic_shared: 0, parameters: {{source: {source}, n: 5}}}}"
    text = without_wait(f"{place} ld.global.u32 %r25, [%rd5]; setp.eq.u32 %p6, %r25, 1;")
    finding = verified(text, launch, require="any", ctas=(0,))
    assert (finding.verdict is Verdict.VERIFIED) is shown, finding.notes


HARMLESS = {
    "no change": "",
    "a number that nothing uses": "\tand.b32 %r24, %r7, 63; setp.eq.u32 %p6, %r24, 63;\n",
    "a guard that is never true": "\tsetp.gt.s32 %p6, 0, %r7; @%p6 bra DONE;\n",
    "a guard on what is left": (
        "\tsub.u32 %r24, %r1, %r7; setp.eq.u32 %p6, %r24, 0; @%p6 bra DONE;\n"
    ),
    "memory that stays": "\tst.local.u32 [count], 5; ld.local.u32 %r24, [count];\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(HARMLESS, 2))
def test_what_changes_nothing_is_shown(name):
    text = ring().replace(BEFORE_WAIT, HARMLESS[name] + BEFORE_WAIT)
    finding = found(text.replace("\t.shared .align 128", f"{DECLARED}\t.shared .align 128", 1))
    assert finding.verdict is Verdict.VERIFIED, finding.narrowing
    assert any("shown to continue so for all further ones" in note for note in finding.notes)


def by_thirds(text: str) -> str:
    """The ring with three stages, in the arithmetic of compilers: t / 3 by multiplication."""
    text = text.replace("stages[2048]", "stages[3072]").replace("[16];", "[24];")
    inits = (
        "\tmbarrier.init.shared.b64 [%r5+16], 1;\n\tmbarrier.init.shared.b64 [%r6+16], 32;\nREADY"
    )
    text = text.replace("READY:\n", f"{inits}:\n")
    divided = (
        "\tmul.wide.u32 %rd4, %r7, 0xaaaaaaab; shr.u64 %rd4, %rd4, 33; cvt.u32.u64 %r9, %rd4;\n"
    )
    text = text.replace("\tand.b32 %r8, %r7, 1;\n", f"{divided}\tmad.lo.s32 %r8, %r9, -3, %r7;\n")
    return text.replace("\tshr.u32 %r9, %r7, 1;\n", "")


def by_selection(text: str) -> str:
    """The ring with a stage and a phase in registers, as CUTLASS and Triton have them."""
    text = text.replace(
        "\tmov.u32 %r7, 0;\n", "\tmov.u32 %r7, 0;\n\tmov.u32 %r8, 0; mov.u32 %r9, 0;\n"
    )
    for line in ("and.b32 %r8, %r7, 1", "shr.u32 %r9, %r7, 1", "and.b32 %r9, %r9, 1"):
        text = text.replace(f"\t{line};\n", "")
    turned = (
        "\tadd.u32 %r8, %r8, 1; setp.eq.u32 %p6, %r8, 2; selp.u32 %r24, 1, 0, %p6;"
        " xor.b32 %r9, %r9, %r24; selp.u32 %r8, 0, %r8, %p6;\n"
    )
    return text.replace("\tadd.u32 %r7, %r7, 1;\n", f"\tadd.u32 %r7, %r7, 1;\n{turned}")


def counting_down(text: str) -> str:
    """Loops that end where nothing is left."""
    text = text.replace("\tmov.u32 %r7, 0;\n", "\tmov.u32 %r7, 0;\n\tmov.u32 %r24, %r1;\n")
    text = text.replace("setp.ge.u32 %p4, %r7, %r1;", "setp.le.s32 %p4, %r24, 0;")
    return text.replace(
        "\tadd.u32 %r7, %r7, 1;\n", "\tadd.u32 %r7, %r7, 1;\n\tsub.u32 %r24, %r24, 1;\n"
    )


@pytest.mark.parametrize("written", [by_thirds, by_selection, counting_down])
def test_rings_as_compilers_write_them_are_shown(written):
    finding = found(written(ring()))
    assert finding.verdict is Verdict.VERIFIED, (finding.narrowing, finding.diagnostics)
    faulty = found(
        without_wait("setp.eq.u32 %p7, %r7, 47; mov.pred %p6, %p7;", "", written(ring()))
    )
    assert faulty.verdict is Verdict.REFUTED
    assert any("(48 trips)" in note for note in faulty.notes), faulty.notes


def test_the_period_of_a_phase_that_alternates_more_slowly_is_found():
    """Each stage's phase alternates every fourth time: eight trips, where the rings say four."""
    text = ring().replace("shr.u32 %r9, %r7, 1;", "shr.u32 %r9, %r7, 2;")
    assert found(text).verdict is Verdict.REFUTED  # such a ring hangs; what matters is that it ends


@pytest.mark.parametrize("trips", sampled([12, 19], 2))
def test_no_number_of_trips_below_those_of_the_runs_is_passed_over(trips):
    """Three stages come round after many trips, so that the runs begin far out."""
    when = f"setp.eq.u32 %p6, %r1, {trips};"
    finding = found(without_wait(when, "", by_thirds(ring())))
    assert finding.verdict is Verdict.REFUTED
    assert any(f"({trips} trips)" in note for note in finding.notes), finding.notes


GUARDS = st.sampled_from(["eq", "ge", "gt"])
FORMS = st.sampled_from(
    ["%r7", "%r24", "%r25"]  # the trip, three times it and five more, twice the trips less it
)


@settings(max_examples=part(60, 6), deadline=None)
@given(GUARDS, FORMS, st.integers(20, 300))
def test_no_trip_is_called_shown_in_which_the_code_goes_another_way(word, form, constant):
    """Against what the numbers are, trip by trip, for all numbers of trips up to 320."""
    holds = {"eq": int.__eq__, "ge": int.__ge__, "gt": int.__gt__}[word]

    def goes(trips: int) -> bool:
        for trip in range(trips):
            value = {"%r7": trip, "%r24": 3 * trip + 5, "%r25": 2 * trips - trip}[form]
            if holds(value, constant):
                return True
        return False

    when = (
        "mad.lo.u32 %r24, %r7, 3, 5; shl.b32 %r25, %r1, 1; sub.u32 %r25, %r25, %r7;"
        f"setp.{word}.u32 %p6, {form}, {constant};"
    )
    further = shown_for(without_wait(when))
    if any(goes(trips) for trips in range(further.launched)):
        return  # the launches say so
    shown = further.first
    other = next((trips for trips in range(further.launched, 321) if goes(trips)), None)
    assert shown is not None
    if other is not None:
        assert shown <= other
    if word != "eq":  # which is also false again behind the constant
        assert shown == other


def shown_for(text: str) -> FurtherTrips:
    """What is shown of a kernel of two stages."""
    source = Source("ring.ptx", text)
    module, errors = parse_source(source)
    assert module is not None and not errors
    described, wrong = read_launch_text(LAUNCH, "ring.yaml")
    assert wrong == []
    (function,) = module.entries()
    launch, _, _ = completed(described, function, whole_file(source.path))
    assert launch is not None
    driver = Driver((ParameterWord(1, 0, 4, 5),), 1, 2)
    runs = WarpRounds(CodeKernel(module, source, function), launch, driver, 0, 100_000)
    return further_trips(runs, driver, 4)


# Where a trip stores to a variable of 100 words, and the first number of trips beyond it.
PLACES = {
    "each trip the next word": ("mul.wide.u32 %rd7, %r7, 4;", 101),
    "two words on": ("mul.wide.u32 %rd7, %r7, 8;", 51),
    "backwards": ("mov.u32 %r24, 60; sub.s32 %r24, %r24, %r7; mul.wide.s32 %rd7, %r24, 4;", 62),
    "the first word": ("mov.u64 %rd7, 0;", None),
    "a word that comes round": ("and.b32 %r24, %r7, 63; mul.wide.u32 %rd7, %r24, 4;", None),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("form", ["st.global.u32 [%rd6], %r7;", "red.global.add.u32 [%rd6], 1;"])
def test_further_trips_stay_in_a_variable_of_the_module(name, form):
    place, first = PLACES[name]
    body = f"{place} mov.u64 %rd6, table; add.u64 %rd6, %rd6, %rd7; @%p7 {form}"
    text = ring().replace(AFTER_WAIT, f"{AFTER_WAIT}{body}\n")
    text = text.replace(
        "\tmov.u32 %r7, 0;\n", "\tmov.u32 %r7, 0;\n\tsetp.eq.u32 %p7, %r2, 32;\n", 1
    )
    finding = found(text.replace(".visible", ".global .align 4 .b8 table[400];\n.visible", 1))
    assert finding.verdict is (Verdict.VERIFIED if first is None else Verdict.REFUTED)
    assert ("TTN218" in codes(finding)) == (first is not None)
    assert first is None or any(f"({first} trips)" in note for note in finding.notes)


# What a trip does with the bytes of %rd6, how many these are, and how many the variable has.
COPIED = {
    "a bulk copy from it": ("", 1024, 102400),
    "a bulk copy to it": (
        "@%p7 cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r15], 16;"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", 16, 1600),
    "a bulk reduction in it": (
        "@%p7 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd6], [%r15], 16;"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", 16, 1600),
    "a copy by threads": (
        "@%p7 cp.async.ca.shared.global [common], [%rd6], 4; cp.async.wait_all;", 4, 400),
    "a vector that begins in it": ("@%p7 st.global.v2.u32 [%rd6], {%r7, %r7};", 8, 804),
}  # fmt: skip


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("name", COPIED)
def test_further_copies_stay_in_a_variable_of_the_module(name, stays):
    form, step, size = COPIED[name]
    number = f"and.b32 %r24, %r7, {31 if stays else 0x7FFFFFFF};"
    body = f"mov.u64 %rd6, table; {number} mul.wide.u32 %rd7, %r24, {step};"
    body += "add.u64 %rd6, %rd6, %rd7;"
    text = ring().replace("\t.shared .align 128", f"{DECLARED}\t.shared .align 128", 1)
    if form:
        text = text.replace("\t.loc 1 33 5\n", f"{body}{form}\n")
    else:
        text = text.replace("\tadd.s64 %rd3, %rd1, %rd2;\n", f"{body} mov.u64 %rd3, %rd6;\n")
    text = text.replace(
        "\tmov.u32 %r7, 0;\n", "\tmov.u32 %r7, 0;\n\tsetp.eq.u32 %p7, %r2, 32;\n", 1
    )
    table = f".global .align 128 .b8 table[{size}];\n.visible"
    finding = found(text.replace(".visible", table, 1))
    assert finding.verdict is (Verdict.VERIFIED if stays else Verdict.REFUTED), finding.notes
    assert ("TTN218" in codes(finding)) != stays
    assert stays or any("(101 trips)" in note for note in finding.notes)
