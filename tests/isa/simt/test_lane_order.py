"""Lanes of one warp that access common bytes: both machines, and a list of all accesses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.simt import events as ev

SHARED = ".shared .align 16 .b8 s[4096];"
PLACES = """
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 4, %r2;        // the lane's own word
xor.b32 %r4, %r1, 1;
mad.lo.u32 %r5, %r4, 4, %r2;        // its neighbour's
setp.eq.u32 %p1, %r1, 0;
"""
COPY = "ld.param.u64 %d0, [out]; cp.async.ca.shared.global [%r3], [%d0], 4;"
BULK_STORE = "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 16;"
CLASHES = {  # the body, and how many instructions clash
    "a neighbour's word": ("st.shared.u32 [%r3], %r1; ld.shared.u32 %r0, [%r5];", 1),
    "its own word": ("st.shared.u32 [%r3], %r1; ld.shared.u32 %r0, [%r3];", 0),
    "synchronised": ("st.shared.u32 [%r3], %r1; bar.warp.sync -1; ld.shared.u32 %r0, [%r5];", 0),
    "a barrier of the CTA": (
        "st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r0, [%r5];", 0),
    "a shuffle is no barrier": (
        "st.shared.u32 [%r3], %r1; shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;"
        "ld.shared.u32 %r0, [%r5];", 1),
    "one lane for all": ("@%p1 st.shared.u32 [%r2], 7; ld.shared.u32 %r0, [%r2];", 1),
    "one lane for all, synchronised": (
        "@%p1 st.shared.u32 [%r2], 7; bar.warp.sync -1; ld.shared.u32 %r0, [%r2];", 0),
    "all lanes write what all read": ("st.shared.u32 [%r2], 7; ld.shared.u32 %r0, [%r2];", 0),
    "read, then overwritten": ("ld.shared.u32 %r0, [%r5]; st.shared.u32 [%r3], %r1;", 1),
    "written by one, then by another": (
        "st.shared.u32 [%r3], %r1; st.shared.u32 [%r5], %r1;", 1),
    "only the lower half has met": (
        "setp.lt.u32 %p2, %r1, 16; st.shared.u32 [%r3], %r1; @%p2 bar.warp.sync 0xffff;"
        "xor.b32 %r6, %r1, 16; mad.lo.u32 %r6, %r6, 4, %r2; ld.shared.u32 %r0, [%r6];", 1),
    "halves have met, each for itself": (
        "and.b32 %r6, %r1, 16; shl.b32 %r7, 0xffff, %r6; st.shared.u32 [%r3], %r1;"
        "bar.warp.sync %r7; ld.shared.u32 %r0, [%r5];", 0),
    "halves have met, read across them": (
        "and.b32 %r6, %r1, 16; shl.b32 %r7, 0xffff, %r6; st.shared.u32 [%r3], %r1;"
        "bar.warp.sync %r7; xor.b32 %r6, %r1, 16; mad.lo.u32 %r6, %r6, 4, %r2;"
        "ld.shared.u32 %r0, [%r6];", 1),
    "halves of one word": (
        "mad.lo.u32 %r7, %r1, 2, %r2; st.shared.u16 [%r7], 1; ld.shared.u16 %h0, [%r7];", 0),
    "a half in a neighbour's word": (
        "mad.lo.u32 %r7, %r1, 2, %r2; st.shared.u16 [%r7], 1; ld.shared.u32 %r0, [%r3];", 1),
    "volatile": (
        "st.volatile.shared.u32 [%r3], %r1; ld.volatile.shared.u32 %r0, [%r5];", 0),
    "a fence is no barrier": (
        "st.shared.u32 [%r3], %r1; fence.acq_rel.cta; ld.shared.u32 %r0, [%r5];", 1),
    "a fence of the asynchronous proxy is none": (
        "st.shared.u32 [%r3], %r1; fence.proxy.async; ld.shared.u32 %r0, [%r5];", 1),
    "a wait for what others do is no barrier": (
        "mbarrier.init.shared.b64 [%r2+2048], 1; bar.sync 0; st.shared.u32 [%r3], %r1;"
        "@%p1 mbarrier.arrive.relaxed.cta.shared.b64 %d0, [%r2+2048];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2+2048], 0; @!%p2 bra W;"
        "ld.shared.u32 %r0, [%r5];", 1),
    "all arrive and wait": (
        "mbarrier.init.shared.b64 [%r2+2048], 32; bar.sync 0; st.shared.u32 [%r3], %r1;"
        "mbarrier.arrive.shared.b64 %d0, [%r2+2048];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2+2048], 0; @!%p2 bra W;"
        "ld.shared.u32 %r0, [%r5];", 0),
    "one arrives for its own store": (
        "mbarrier.init.shared.b64 [%r2+2048], 1; bar.sync 0; @%p1 st.shared.u32 [%r2], %r1;"
        "@%p1 mbarrier.arrive.shared.b64 %d0, [%r2+2048];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2+2048], 0; @!%p2 bra W;"
        "ld.shared.u32 %r0, [%r2];", 0),
    "a release and an acquire": (
        "@%p1 st.shared.u32 [%r2], 7; @%p1 st.release.cta.shared.u32 [%r2+2048], 1;"
        "ld.acquire.cta.shared.u32 %r6, [%r2+2048]; ld.shared.u32 %r0, [%r2];", 0),
    "a release of one lane for another's store": (
        "setp.eq.u32 %p2, %r1, 1; @%p2 st.shared.u32 [%r2], 7;"
        "@%p1 st.release.cta.shared.u32 [%r2+2048], 1;"
        "ld.acquire.cta.shared.u32 %r6, [%r2+2048]; ld.shared.u32 %r0, [%r2];", 1),
    "fences around a flag": (
        "@%p1 st.shared.u32 [%r2], 7; fence.acq_rel.cta; @%p1 st.volatile.shared.u32 [%r2+2048], 1;"
        "ld.volatile.shared.u32 %r6, [%r2+2048]; fence.acq_rel.cta; ld.shared.u32 %r0, [%r2];", 0),
    "a flag without a fence behind it": (
        "@%p1 st.shared.u32 [%r2], 7; fence.acq_rel.cta; @%p1 st.volatile.shared.u32 [%r2+2048], 1;"
        "ld.volatile.shared.u32 %r6, [%r2+2048]; ld.shared.u32 %r0, [%r2];", 1),
    "a flag without a fence before it": (
        "@%p1 st.shared.u32 [%r2], 7; @%p1 st.volatile.shared.u32 [%r2+2048], 1;"
        "ld.volatile.shared.u32 %r6, [%r2+2048]; fence.acq_rel.cta; ld.shared.u32 %r0, [%r2];", 1),
    "a volatile store, read without": (
        "st.volatile.shared.u32 [%r3], %r1; ld.shared.u32 %r0, [%r5];", 1),
    "counted by all, read by all": (
        "red.shared.add.u32 [%r2], 1; ld.shared.u32 %r0, [%r2];", 1),
    "counted by all, read after a barrier": (
        "red.shared.add.u32 [%r2], 1; bar.warp.sync -1; ld.shared.u32 %r0, [%r2];", 0),
    "cleared by one, counted by all": (
        "@%p1 st.shared.u32 [%r2], 0; red.shared.add.u32 [%r2], 1;", 1),
    "counted and looked at by atomics": (
        "red.shared.add.u32 [%r2], 1; ld.relaxed.cta.shared.u32 %r0, [%r2];", 0),
    "a copy of another lane": (
        f"{COPY} cp.async.wait_all; ld.shared.u32 %r0, [%r5];", 1),
    "its own copy": (f"{COPY} cp.async.wait_all; ld.shared.u32 %r0, [%r3];", 0),
    "a copy of another lane, synchronised": (
        f"{COPY} cp.async.wait_all; bar.warp.sync -1; ld.shared.u32 %r0, [%r5];", 0),
    "a copy, synchronised before its wait": (
        f"{COPY} cp.async.commit_group; bar.warp.sync -1; cp.async.wait_group 0;"
        "ld.shared.u32 %r0, [%r5];", 1),
    "a copy onto what another lane reads": (
        f"ld.shared.u32 %r0, [%r5]; {COPY} cp.async.wait_all;", 2),
    "a bulk store of what another lane wrote": (
        f"ld.param.u64 %d0, [out]; st.shared.u32 [%r3], %r1; fence.proxy.async;"
        f"@%p1 {BULK_STORE}", 1),
    "a bulk store, synchronised": (
        f"ld.param.u64 %d0, [out]; st.shared.u32 [%r3], %r1; fence.proxy.async; bar.warp.sync -1;"
        f"@%p1 {BULK_STORE}", 0),
    "a bulk store of its own word": (
        f"ld.param.u64 %d0, [out]; @%p1 st.shared.u32 [%r3], %r1; fence.proxy.async;"
        f"@%p1 {BULK_STORE}", 0),
    "a bulk store of what another lane reads": (
        f"ld.param.u64 %d0, [out]; ld.shared.u32 %r0, [%r5];"
        f"@%p1 {BULK_STORE}", 0),
    "a bulk load onto what another lane reads": (
        "mbarrier.init.shared.b64 [%r2+2048], 1; bar.sync 0; ld.shared.u32 %r0, [%r5];"
        "ld.param.u64 %d0, [out]; @%p1 cp.async.bulk.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%r2], [%d0], 16, [%r2+2048];", 1),
    "copies that all arrive for": (
        "mbarrier.init.shared.b64 [%r2+2048], 32; bar.sync 0;"
        f"{COPY} cp.async.mbarrier.arrive.noinc.shared.b64 [%r2+2048];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2+2048], 0; @!%p2 bra W;"
        "ld.shared.u32 %r0, [%r5];", 0),
    "only read": ("ld.shared.u32 %r0, [%r3]; ld.shared.u32 %r6, [%r5];", 0),
}  # fmt: skip


def clashes(body: str) -> list[ev.LaneClash]:
    module = module_of(PLACES + body + "ret;", before=SHARED)
    found = of(ran(module, launch_of()), ev.LaneClash)
    return [event for event in found if isinstance(event, ev.LaneClash)]


@pytest.mark.parametrize("name", CLASHES)
def test_a_clash_of_lanes_is_recorded_once_an_instruction(name: str) -> None:
    body, count = CLASHES[name]
    assert len(clashes(body)) == count


def test_the_event_names_both_accesses() -> None:
    (found,) = clashes("st.shared.u32 [%r3], %r1; ld.shared.u32 %r0, [%r5];")
    assert found.mode is ev.Mode.READ and found.other == found.instruction - 1
    assert found.footprint.bounds[1] - found.footprint.bounds[0] == 4 and found.lanes == 1


HALVES = "and.b32 %r6, %r1, 16; shl.b32 %r7, 0xffff, %r6; bar.warp.sync %r7;"
PARITIES = "and.b32 %r6, %r1, 1; shl.b32 %r7, 0x55555555, %r6; bar.warp.sync %r7;"
MEETINGS = [  # the lanes that meet, and the text
    ([range(32)], "bar.warp.sync -1;"),
    ([range(16), range(16, 32)], HALVES),
    ([range(0, 32, 2), range(1, 32, 2)], PARITIES),
    ([range(16)], "setp.lt.u32 %p2, %r1, 16; @%p2 bar.warp.sync 0xffff;"),
    ([range(8, 20)], "sub.u32 %r6, %r1, 8; setp.lt.u32 %p2, %r6, 12; @%p2 bar.warp.sync 0xfff00;"),
]


FLAG = "[%r2+2048]"
ORDERINGS = {  # what orders lanes through a word that is not compared
    "release": f"st.release.cta.shared.u32 {FLAG}, 1;",
    "acquire": f"ld.acquire.cta.shared.u32 %r6, {FLAG};",
    "strong st": f"st.relaxed.cta.shared.u32 {FLAG}, 1;",
    "strong ld": f"ld.volatile.shared.u32 %r6, {FLAG};",
    "fence": "fence.acq_rel.cta;",
    "atomic": f"atom.acq_rel.cta.shared.add.u32 %r6, {FLAG}, 1;",
}
STRONG = {"vld": "ld.volatile.shared", "vst": "st.relaxed.cta.shared", "red": "red.shared.add"}
SUBSETS = (range(32), range(16), range(8, 20), range(1))


class Clocks:
    """Of a lane: the times of each lane that it comes after, as vector clocks have them."""

    def __init__(self) -> None:
        self.of = [[0] * 32 for _ in range(32)]
        self.released, self.fenced = [0] * 32, [0] * 32
        self.strong: set[int] = set()

    def step(self, kind: str, lanes: range) -> None:
        """One of ORDERINGS by `lanes`."""
        if kind == "fence":
            self._take(sorted(self.strong & set(lanes)))
            self._hand(lanes, self.fenced)
        if kind in ("strong ld", "acquire", "atomic"):
            self.strong |= set(lanes)
        if kind in ("acquire", "atomic"):
            self._take(lanes)
        if kind in ("strong st", "release", "atomic"):
            self.released[:] = map(max, self.released, self.fenced)
        if kind in ("release", "atomic"):
            self._hand(lanes, self.released)

    def meet(self, group: range) -> None:
        """The lanes meet."""
        joined = [0] * 32
        self._hand(group, joined)
        for lane in group:
            self.of[lane] = list(joined)

    def _take(self, lanes: Sequence[int]) -> None:
        for lane in lanes:
            self.of[lane] = list(map(max, self.of[lane], self.released))

    def _hand(self, lanes: Sequence[int], into: list[int]) -> None:
        for lane in lanes:
            self.of[lane][lane] += 1
        for lane in lanes:
            into[:] = map(max, into, self.of[lane])


def expected(steps: list[tuple[str, int, int, int]]) -> set[int]:
    """Which steps clash, from the list of all accesses and vector clocks: the second opinion."""
    done: list[tuple[int, str, int, tuple[int, ...]]] = []  # lane, "ld" or "st", byte, clocks
    times = Clocks()
    clocks = times.of
    found: set[int] = set()
    for place, (kind, factor, offset, size) in enumerate(steps):
        if kind == "sync":
            for group in MEETINGS[factor][0]:
                times.meet(group)
            if MEETINGS[factor][0] == [range(32)]:
                times.strong.clear()
            continue
        if kind in ORDERINGS:
            times.step(kind, SUBSETS[factor])
            continue
        if kind == "bulk":  # lanes of a subset, the same 64 bytes for each
            pairs = [(lane, offset + byte) for lane in SUBSETS[factor] for byte in range(64)]
        else:
            mine = [(lane, (lane * factor + offset) % 64 * size) for lane in range(32)]
            pairs = [(lane, byte) for lane, at in mine for byte in range(at, at + size)]
        together: dict[int, set[int]] = {}
        for lane, byte in pairs:  # lanes of one address are one access
            together.setdefault(byte, set()).add(lane)
        for byte, lanes in together.items():
            earlier = [item for item in done if item[2] == byte]
            for then in {item[3] for item in earlier}:
                after = [{n for n in range(32) if n == m or clocks[n][m] > then[m]}
                         for m in range(32)]  # fmt: skip
                for strong in ("vld", "vst", "red"):
                    lanes_of = {
                        item[0] for item in earlier if item[1] == strong and item[3] == then
                    }
                    writes = kind == "st" or (kind == "ld" and strong != "vld")
                    if writes and any(lanes - after[lane] for lane in lanes_of):
                        found.add(place)
                if kind == "bulk":
                    by = {
                        item[0]
                        for item in earlier
                        if item[1] in ("st", "vst", "red") and item[3] == then
                    }
                    if any(lanes - after[lane] for lane in by):
                        found.add(place)
                    continue
                if kind in ("vld", "vst", "red"):
                    plain = {
                        item[0]
                        for item in earlier
                        if item[3] == then
                        and item[1] in (("st",) if kind == "vld" else ("ld", "st"))
                    }
                    if any(lanes - after[lane] for lane in plain):
                        found.add(place)
                writers = {item[0] for item in earlier if item[1] == "st" and item[3] == then}
                readers = {item[0] for item in earlier if item[1] == "ld" and item[3] == then}
                if kind == "ld" and any(lanes - writers - after[lane] for lane in writers):
                    found.add(place)
                others = (writers if writers != lanes else set()) | readers
                if kind == "st" and any(lanes - after[lane] for lane in others):
                    found.add(place)
        if kind == "bulk":
            continue
        own = tuple(clocks[lane][lane] for lane in range(32))
        done += [(lane, kind, byte, own) for lane, byte in pairs]
        if kind in ("vld", "red"):
            times.step("strong ld", range(32))
        if kind in ("vst", "red"):
            times.step("strong st", range(32))
    return found


@pytest.mark.parametrize("seed", range(part(120)))
def test_random_accesses_clash_as_the_list_of_all_says(seed: int) -> None:
    random = Random(seed)
    steps = []
    body = "ld.param.u64 %d0, [out];\n"
    marks = []
    for _ in range(12):
        kinds = ["ld", "st", "ld", "st", "sync"] if seed % 4 < 2 else ["ld", "st", *ORDERINGS]
        kinds += ["vld", "vst", "red"] if seed % 3 == 0 else []
        kinds += ["bulk"] if seed % 5 == 0 else []
        kind = random.choice(kinds)
        factor, offset = random.choice((0, 1, 1, 2, 3)), random.randrange(64)
        if kind == "sync":
            factor = random.randrange(len(MEETINGS)) if seed % 2 else 0
        if kind in ORDERINGS or kind == "bulk":
            factor, offset = random.randrange(len(SUBSETS)), offset & -16
        size = 4 if kind == "red" else random.choice((1, 2, 4))
        steps.append((kind, factor, offset, size))
        if kind == "sync":
            body += MEETINGS[factor][1] + "\n"
            marks.append(MEETINGS[factor][1].count(";"))
            continue
        if kind in ORDERINGS or kind == "bulk":
            subset = SUBSETS[factor]
            bulk = f"cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2+{offset}], 64;"
            body += f"sub.u32 %r7, %r1, {subset.start}; setp.lt.u32 %p2, %r7, {len(subset)};"
            body += f"@%p2 {ORDERINGS.get(kind, bulk)}\n"
            marks.append(3)
            continue
        body += (
            f"mad.lo.u32 %r8, %r1, {factor}, {offset}; and.b32 %r8, %r8, 63;"
            f"mad.lo.u32 %r8, %r8, {size}, %r2;\n"
        )
        access = f"{STRONG.get(kind, kind + '.shared')}.u{8 * size}"
        body += f"{access} %r9, [%r8];\n" if kind in ("ld", "vld") else f"{access} [%r8], 7;\n"
        marks.append(4)
    body = body.replace("u8 %r9", "u8 %h1").replace("u16 %r9", "u16 %h1")
    found = {event.instruction for event in clashes(body)}
    first = 7  # instructions of PLACES, and the address in global memory
    at, places = first, []
    for count in marks:
        at += count
        places.append(at - 1)
    assert found == {places[step] for step in expected(steps)}


KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.entry k() {
.reg .b32 %r<16>;
.reg .b16 %h<8>;
.reg .pred %p<4>;
.shared .align 16 .b8 s[4096];
"""


@pytest.mark.parametrize(("across", "expected"), [(1, []), (16, ["TTN201"])])
def test_tiles_of_a_warp_meet_each_for_itself(across: int, expected: list[str]) -> None:
    """What `tiled_partition<16>(block).sync()` is compiled to: lanes name different masks."""
    body = f"""{PLACES} st.shared.u32 [%r3], %r1; {HALVES}
        xor.b32 %r6, %r1, {across}; mad.lo.u32 %r6, %r6, 4, %r2; ld.shared.u32 %r0, [%r6];"""
    launch, errors = read_launch_text("{grid: 1, block: 32, parameters: []}", "k.yaml")
    assert errors == []
    source = Source("k.ptx", KERNEL + body + "\nret;\n}\n")
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    assert [item.code for item in finding.diagnostics] == expected
    assert finding.verdict is (Verdict.REFUTED if expected else Verdict.VERIFIED)


def test_a_mask_that_some_lanes_do_not_know_is_refused() -> None:
    body = """mov.u32 %r6, -1; ld.param.u64 %d0, [out]; ld.global.u32 %r7, [%d0];
        setp.gt.u32 %p2, %r1, 3; @%p2 mov.u32 %r6, %r7; bar.warp.sync %r6; ret;"""
    module = module_of(PLACES + body, before=SHARED)
    found = ran(module, launch_of())
    assert "the mask of members is not known" in found.outcome.reason


@pytest.mark.parametrize("policy", ["refuse", "ordered"])
def test_a_missing_warp_barrier_is_refuted(policy: str) -> None:
    text = KERNEL + PLACES + CLASHES["a neighbour's word"][0] + "\nret;\n}\n"
    launch, errors = read_launch_text("{grid: 1, block: 32, parameters: []}", "k.yaml")
    assert errors == []
    options = CodeOptions(policies=CodePolicies(lanes=policy))
    (finding,) = verify_code(Source("k.ptx", text), launch, options, [], 0.0)
    if policy == "ordered":
        assert finding.verdict is Verdict.VERIFIED
        return
    assert finding.verdict is Verdict.REFUTED
    assert [item.code for item in finding.diagnostics] == ["TTN201"]
    assert "no bar.warp.sync orders them" in finding.diagnostics[0].headline
