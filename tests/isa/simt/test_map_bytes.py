"""Tensor maps that a kernel edits: each field by tensormap.replace, copied out, acquired, used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.simt.running import REGISTERS, ran
from titan.emulated.modules import LoadedModule, load
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.verify_code import CodeOptions, verify_launch
from titan.isa.numbers.native import core
from titan.isa.numbers.run import Computed, compute
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap
from titan.isa.simt.map_bytes import (
    BLANK,
    FIELDS,
    MapField,
    editable,
    filled,
    packed,
    replaced,
    unpacked,
)
from titan.isa.simt.outcome import Ending

BASE, OTHER, OUT, PLACE = 0x7000_0000, 0x7010_0000, 0x7100_0000, 0x7200_0000
NAME = b"map" + bytes(125)
OLD = LaunchTensorMap(1, BASE, (8, 8), (16,), (8, 4), (1, 1))
RELEASE = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%d2], 128;"
BODY = """
.shared .align 128 .b8 map[128]; .shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 bar[8];
ld.param.u64 %d1, [out]; ld.param.u64 %d2, [place]; ld.param.u64 %d5, [other];
mov.u32 %r1, %tid.x; mov.u32 %r2, map; mov.u32 %r3, tile; mov.u32 %r6, bar;
shl.b32 %r4, %r1, 2; add.u32 %r5, %r2, %r4; mov.b64 %d3, m; cvt.u64.u32 %d4, %r4;
add.s64 %d3, %d3, %d4; ld.param.b32 %r7, [%d3]; st.shared.b32 [%r5], %r7;
setp.eq.s32 %p1, %r1, 0; bar.warp.sync -1;
@!%p1 bra EDITED;
EDITS
EDITED:
bar.warp.sync -1;
RELEASE [%d2], [%r2], 128;
"""
COPY = """
@!%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r6], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], BYTES;
ACQUIRE
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r3], [%d2, {1, 2}], [%r6];
READY:
bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0; @!%p2 bra WAIT;
NEXT:
setp.ge.u32 %p3, %r4, BYTES; @%p3 bra DONE;
add.u32 %r5, %r3, %r4; ld.shared.b32 %r7, [%r5];
cvt.u64.u32 %d4, %r4; add.s64 %d4, %d4, %d1; st.global.b32 [%d4], %r7;
add.u32 %r4, %r4, 128; bra NEXT;
DONE:
"""
PARAMETERS = ".param .align 64 .b8 m[128], .param .u64 out, .param .u64 place, .param .u64 other"
WORDS = {"global_address": "b64", "global_stride": "b64"}


def edit(word: str, value: int | str, ordinal: int | None = None) -> str:
    """One tensormap.replace of the map in shared memory."""
    place = "" if ordinal is None else f" {ordinal},"
    type_ = WORDS.get(word, "b32")
    return f"tensormap.replace.tile.{word}.shared::cta.b1024.{type_} [%r2],{place} {value};"


# Another tensor of 16-bit elements, 16 x 12 in rows of 64 bytes, by boxes of 16 x 3 or 8 x 6.
def edits(box: tuple[int, int], swizzle: int) -> list[str]:
    return [
        edit("global_address", "%d5"), edit("global_dim", 16, 0), edit("global_dim", 12, 1),
        edit("global_stride", 64, 0), edit("box_dim", box[0], 0), edit("box_dim", box[1], 1),
        edit("element_stride", 1, 1), edit("elemtype", 1), edit("swizzle_mode", swizzle),
        edit("fill_mode", 0), edit("interleave_layout", 0), edit("rank", 1),
    ]  # fmt: skip


def program(
    lines: list[str], copy: str = COPY, size: int = 96, acquire: str = ACQUIRE, version: str = "8.7"
) -> LoadedModule:
    text = (BODY + copy + "ret;").replace("EDITS", "\n".join(lines)).replace("RELEASE", RELEASE)
    text = text.replace("ACQUIRE", acquire).replace("BYTES", str(size))
    head = f".version {version}\n.target sm_100a\n.address_size 64\n"
    return load(f"{head}.visible .entry k({PARAMETERS})\n{{\n{REGISTERS}{text}\n}}\n")


def launched(source: np.ndarray, other_bytes: int = 12 * 64) -> Launch:
    memory = {
        BASE: memoryview(bytearray(128)), OTHER: memoryview(bytearray(source.tobytes())),
        OUT: memoryview(bytearray(2048)), PLACE: memoryview(bytearray(128)),
    }  # fmt: skip
    sizes = {at: len(data) for at, data in memory.items()} | {OTHER: other_bytes}
    given = (NAME, *(at.to_bytes(8, "little") for at in (OUT, PLACE, OTHER)))
    return Launch(
        "k", (1, 1, 1), (32, 1, 1), parameters=tuple(map(LaunchParameter, given)),
        tensor_maps={NAME: OLD}, memory=memory,
        allocations=tuple(Allocation(at, size) for at, size in sizes.items()),
    )  # fmt: skip


def computed(module: LoadedModule, launch: Launch, native: bool) -> Computed:
    made, faults = compute(module.module, launch, native=native)
    assert made is not None, faults
    return made


def machines() -> tuple[bool, ...]:
    return (True, False) if core() is not None else (False,)


def tensor() -> np.ndarray:
    return np.arange(12 * 32, dtype=np.uint16).reshape(12, 32)


@pytest.mark.parametrize(("box", "swizzle"), [((16, 3), 0), ((8, 6), 0), ((16, 4), 1)])
def test_an_edited_map_is_the_map_that_its_fields_say(box, swizzle):
    source, size = tensor(), 2 * box[0] * box[1]
    rows = np.zeros((box[1], box[0]), np.uint16)
    inside = source[2 : 2 + box[1], 1 : min(1 + box[0], 16)]
    rows[:, : inside.shape[1]] = inside
    wanted = rows.tobytes()
    if swizzle:  # of 32 bytes: the halves of a row are exchanged in every other group of four rows
        wanted = b"".join(
            wanted[16 * (unit ^ (unit >> 3 & 1)) :][:16] for unit in range(len(wanted) // 16)
        )
    module = program(edits(box, swizzle), size=size)
    for native in machines():
        made = computed(module, launched(source), native)
        assert made.run.outcome.ending is Ending.FINISHED, made.run.outcome
        assert made.contents(OUT, size) == (wanted, 0), native
    whole = unpacked(made.contents(PLACE, 128)[0])
    assert whole is not None
    assert (whole.base, whole.dimensions, whole.box) == (OTHER, (16, 12), box)
    assert (whole.stride_bytes, whole.swizzle, whole.data_type) == ((64,), swizzle, 1)
    ran(module.module, launched(source))


HALF = "ld.param.b32 %r7, [%d3]; st.shared.b32 [%r5], %r7;"


@pytest.mark.parametrize("behind", ["nothing", "something"])
@pytest.mark.parametrize("edited", [False, True])
def test_the_first_half_of_a_map_names_it(behind, edited):
    """As CuTe DSL copies maps: what is behind that half was there before, or is not known."""
    source = tensor()
    lines = [edit("global_dim", 7, 0)] if edited else []
    other = "setp.lt.s32 %p4, %r1, 16; @%p4 ld.param.b32 %r7, [%d3]; @%p4 st.shared.b32 [%r5], %r7;"
    if behind == "something":
        other += "@!%p4 st.shared.b32 [%r5], %r1;"
    half = program(lines, size=64)
    text = half.source.text
    assert HALF in text
    module = load(text.replace(HALF, other))
    for native in machines():
        found, whole = (computed(one, launched(source), native) for one in (module, half))
        assert found.run.outcome.ending is Ending.FINISHED, found.run.outcome
        assert found.contents(OUT, 64) == whole.contents(OUT, 64)
    ran(module.module, launched(source))


def test_half_of_an_edited_map_is_not_known():
    edited = packed(OLD)
    assert filled(None, edited[:64]) is None
    assert filled(edited, edited[:64]) == edited
    assert filled(None, NAME[:64]) == NAME


ZEROED = "mov.u32 %r7, 0; st.shared.b32 [%r5], %r7;"
EVERY = [*edits((16, 3), 0), edit("element_stride", 1, 0)]


def from_zeros(lines: list[str]) -> LoadedModule:
    """A map that begins as zeros, as Triton's descriptors do."""
    text = program(lines).source.text
    assert HALF in text
    return load(text.replace(HALF, ZEROED))


def test_a_map_that_begins_as_zeros_is_known_once_it_has_its_fields():
    source, launch = tensor(), launched(tensor())
    wanted = source[2:5].copy()
    module = from_zeros(EVERY)
    for native in machines():
        made = computed(module, launch, native)
        assert made.run.outcome.ending is Ending.FINISHED, made.run.outcome
        rows = np.zeros((3, 16), np.uint16)
        rows[:, :15] = wanted[:, 1:16]
        assert made.contents(OUT, 96) == (rows.tobytes(), 0)
    assert verdict(module, launch)[0] is Verdict.VERIFIED
    code = module.kernel(module.entry(None))
    notes = verify_launch(code, launch, CodeOptions(), module.places).notes
    assert any("begins as zeros" in note for note in notes)
    ran(module.module, launch)


NO_ZERO = ("global_address", "box_dim", "global_dim", "global_stride", "element_stride")


@pytest.mark.parametrize("line", [line for line in EVERY if line.split(".")[3] in NO_ZERO])
def test_a_map_without_a_field_that_has_no_zero_is_not_known(line):
    module = from_zeros([other for other in EVERY if other != line])
    for native in machines():
        outcome = computed(module, launched(tensor()), native).run.outcome
        assert outcome.ending is Ending.REFUSED
        assert "tensor map" in outcome.reason
    assert verdict(module, launched(tensor()))[0] is Verdict.UNDECIDED


def test_a_field_that_has_a_number_is_zero_in_a_map_of_zeros():
    """Triton does not replace those by 0: bytes of one dimension need no rank and no type."""
    lines = [line for line in EVERY if "elemtype" not in line]
    made = computed(from_zeros(lines), launched(tensor()), machines()[0])
    whole = unpacked(made.contents(PLACE, 128)[0])
    assert whole is not None
    assert (whole.data_type, whole.rank, whole.swizzle) == (0, 2, 0)
    flat = unpacked(replaced(BLANK, MapField.ADDRESS, 0, BASE) or b"")
    assert flat is None
    data = BLANK
    for field, value in (
        (MapField.ADDRESS, BASE), (MapField.BOX, 16), (MapField.DIMENSION, 64), (MapField.STEP, 1)
    ):  # fmt: skip
        data = replaced(data, field, 0, value) or b""
    flat = unpacked(data)
    assert flat is not None
    assert (flat.rank, flat.dimensions, flat.stride_bytes) == (1, (64,), ())


def test_what_can_be_edited():
    assert editable(bytes(128), None) is BLANK
    assert editable(bytes(128), OLD) == packed(OLD)
    assert editable(BLANK, None) == BLANK
    assert editable(b"x" * 128, None) is None
    assert unpacked(BLANK) is None


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("make", [program, from_zeros])
def test_lanes_meet_before_the_map_is_edited_and_before_it_is_copied(which, make):
    """One lane edits what all have written, and all copy what it has edited: each needs a barrier,
    as tensormap.cp_fenceproxy.sync orders no memory."""
    parts = make(EVERY).source.text.split("bar.warp.sync -1;")
    assert len(parts) == 3
    bare = "".join(part + ("bar.warp.sync -1;" if n == 1 - which else "")
                   for n, part in enumerate(parts))  # fmt: skip
    found, diagnostics = verdict(load(bare), launched(tensor()))
    assert found is Verdict.REFUTED
    assert {item.code for item in diagnostics} == {"TTN201"}
    ran(load(bare).module, launched(tensor()))


VALUES = st.one_of(
    st.integers(0, 20), st.sampled_from([64, 256, 257, 1 << 20, (1 << 32) - 16, 1 << 40])
)
EDIT = st.tuples(st.sampled_from(sorted(FIELDS)), st.integers(0, 5), VALUES)
ALONE = ("global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode",
         "swizzle_atomicity", "fill_mode")  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(EDIT, min_size=1, max_size=6))
def test_both_machines_hold_the_same_map_after_any_edits(chosen):
    """Values that mean nothing make the map unknown on both, and it stays so."""
    lines, wanted = [], packed(OLD)
    for word, ordinal, value in chosen:
        at = None if word in ALONE else ordinal
        lines.append(edit(word, value, at))
        if wanted is not None:
            wanted = replaced(wanted, FIELDS[word], at or 0, value)
    module, launch = program(lines, copy=""), launched(tensor())
    for native in machines():
        made = computed(module, launch, native)
        assert made.run.outcome.ending is Ending.FINISHED
        data, missing = made.contents(PLACE, 128)
        assert (missing, None if missing else data) == (0 if wanted else 128, wanted), native
    ran(module.module, launch)


@pytest.mark.parametrize("line", [
    edit("elemtype", 16), edit("swizzle_mode", 4), edit("swizzle_atomicity", 1),
    edit("global_stride", 24, 0), edit("global_address", 8), edit("rank", 5), edit("box_dim", 0, 0),
])  # fmt: skip
def test_a_map_that_no_value_makes_is_refused_at_its_first_use(line):
    module = program([line])
    for native in machines():
        outcome = computed(module, launched(tensor()), native).run.outcome
        assert outcome.ending is Ending.REFUSED
        assert "tensor map" in outcome.reason


def test_strides_of_old_ptx_are_not_read_as_bytes():
    """Before PTX 8.5 CUTLASS gives units of 16 bytes; what is meant is not known."""
    module = program([edit("global_stride", 64, 0)], version="8.3")
    for native in machines():
        assert computed(module, launched(tensor()), native).run.outcome.ending is Ending.REFUSED


def test_the_swizzle_of_128_bytes_keeps_its_atoms():
    data = packed(LaunchTensorMap(1, BASE, (64, 8), (128,), (64, 8), (1, 1), swizzle=5))
    assert data is not None
    again = replaced(data, MapField.SWIZZLE, 0, 3)
    assert again == data
    finer = replaced(data, MapField.ATOMICITY, 0, 3)
    assert finer is not None
    found = unpacked(finer)
    assert found is not None
    assert found.swizzle == 6


def verdict(module: LoadedModule, launch: Launch) -> tuple[Verdict, tuple[Diagnostic, ...]]:
    code = module.kernel(module.entry(None))
    found = verify_launch(code, launch, CodeOptions(), module.places)
    return found.verdict, tuple(found.diagnostics)


def test_the_checker_follows_an_edited_map():
    """Right; without the acquire; and with rows that lie behind the allocation."""
    right, launch = program(edits((16, 3), 0)), launched(tensor())
    assert verdict(right, launch)[0] is Verdict.VERIFIED
    bare, found = verdict(program(edits((16, 3), 0), acquire=""), launch)
    assert bare is Verdict.REFUTED
    assert {item.code for item in found} == {"TTN304"}
    short, found = verdict(right, launched(tensor(), other_bytes=4 * 64))
    assert short is Verdict.REFUTED
    assert {item.code for item in found} == {"TTN218"}


AGAIN = f"bar.warp.sync -1;\n{RELEASE} [%d2], [%r2], 128;\n"
WAITED = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;\n"


@pytest.mark.parametrize(("copy", "codes"), [
    (COPY.replace("READY:", f"READY:\n{AGAIN}"), {"TTN202"}),
    (COPY.replace("READY:", f"READY:\n{WAITED}{AGAIN}"), set()),
    (COPY.replace("READY:", f"READY:\n{WAITED.replace(' 0', ' 1')}{AGAIN}"), {"TTN202"}),
    (COPY.replace("NEXT:", f"{AGAIN}NEXT:"), set()),
])  # fmt: skip
def test_a_map_is_written_again_when_the_copy_through_it_has_read_it(copy, codes):
    """At once; behind a wait for bulk groups; for all but one; when the copy is complete."""
    found, diagnostics = verdict(program(edits((16, 3), 0), copy=copy), launched(tensor()))
    assert found is (Verdict.REFUTED if codes else Verdict.VERIFIED)
    assert {item.code for item in diagnostics} == codes
