"""The table of words: what it lacks is refused, and the decoders follow what it calls followed."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.decode import UNSUPPORTED, decode
from titan.isa.simt.decode_table import HANDLERS
from titan.isa.simt.launch import LaunchParameter, Options
from titan.isa.simt.layout import lay_out
from titan.isa.simt.modifier_words import FORMS, REASONS, WordPlace, place_of, unknown_word
from titan.isa.simt.operations import DecodedStep, Op, Preset, PresetKind
from titan.isa.simt.run import prepare
from titan.isa.simt.zero_registers import zero_registers

VALUES = "{{{}}}".format(", ".join(f"%r{n}" for n in range(8)))
MAP = "[%d0, {%r0, %r1}]"
# An instruction of each form with all the words it needs, and its operands.
SAMPLES = {
    "ld": ("ld.global.b32", "%r0, [%d0]"),
    "ldu": ("ldu.global.b32", "%r0, [%d0]"),
    "st": ("st.global.b32", "[%d0], %r0"),
    "st async mbarrier::complete_tx::bytes": (
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32", "[%r0], %r1, [%r2]"),
    "atom": ("atom.global.add.u32", "%r0, [%d0], %r1"),
    "red": ("red.global.add.u32", "[%d0], %r1"),
    "red async": ("red.async.release.global.add.u32", "[%d0], %r1"),
    "red async mbarrier::complete_tx::bytes": (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32",
        "[%r0], %r1, [%r2]"),
    "multimem ld_reduce": ("multimem.ld_reduce.relaxed.sys.global.add.u32", "%r0, [%d0]"),
    "multimem st": ("multimem.st.relaxed.sys.global.u32", "[%d0], %r0"),
    "multimem red": ("multimem.red.relaxed.sys.global.add.u32", "[%d0], %r0"),
    "prefetch": ("prefetch.global.L2", "[%d0]"),
    "prefetchu": ("prefetchu.L1", "[%d0]"),
    "applypriority": ("applypriority.global.L2::evict_normal", "[%d0], 128"),
    "createpolicy": ("createpolicy.fractional.L2::evict_last.b64", "%d0, 1.0"),
    "cvta": ("cvta.to.global.u64", "%d0, %d1"),
    "mapa": ("mapa.shared::cluster.u32", "%r0, %r1, %r2"),
    "getctarank": ("getctarank.shared::cluster.u32", "%r0, %r1"),
    "isspacep": ("isspacep.global", "%p0, %d0"),
    "mbarrier init": ("mbarrier.init.shared.b64", "[%r0], 1"),
    "mbarrier inval": ("mbarrier.inval.shared.b64", "[%r0]"),
    "mbarrier expect_tx": ("mbarrier.expect_tx.relaxed.cta.shared.b64", "[%r0], 16"),
    "mbarrier complete_tx": ("mbarrier.complete_tx.relaxed.cta.shared.b64", "[%r0], 16"),
    "mbarrier arrive": ("mbarrier.arrive.shared.b64", "_, [%r0], 1"),
    "mbarrier arrive expect_tx": ("mbarrier.arrive.expect_tx.shared.b64", "_, [%r0], 1"),
    "mbarrier arrive_drop": ("mbarrier.arrive_drop.shared.b64", "_, [%r0], 1"),
    "mbarrier arrive_drop expect_tx": ("mbarrier.arrive_drop.expect_tx.shared.b64", "_, [%r0], 1"),
    "mbarrier test_wait": ("mbarrier.test_wait.parity.shared.b64", "%p0, [%r0], %r1"),
    "mbarrier try_wait": ("mbarrier.try_wait.parity.shared.b64", "%p0, [%r0], %r1"),
    "mbarrier pending_count": ("mbarrier.pending_count.b64", "%r0, %d0"),
    "bar sync": ("bar.sync", "0"),
    "bar arrive": ("bar.arrive", "0, 64"),
    "bar red": ("bar.red.popc.u32", "%r0, 0, %p0"),
    "bar warp sync": ("bar.warp.sync", "-1"),
    "barrier sync": ("barrier.sync", "0"),
    "barrier arrive": ("barrier.arrive", "0, 64"),
    "barrier red": ("barrier.red.popc.u32", "%r0, 0, %p0"),
    "barrier cluster arrive": ("barrier.cluster.arrive", ""),
    "barrier cluster wait": ("barrier.cluster.wait", ""),
    "fence": ("fence.acq_rel.gpu", ""),
    "fence mbarrier_init": ("fence.mbarrier_init.release.cluster", ""),
    "fence proxy alias": ("fence.proxy.alias", ""),
    "fence proxy async": ("fence.proxy.async", ""),
    "fence proxy async::generic acquire": (
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", ""),
    "fence proxy async::generic release": (
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", ""),
    "fence proxy tensormap::generic acquire": (
        "fence.proxy.tensormap::generic.acquire.gpu", "[%d0], 128"),
    "fence proxy tensormap::generic release": ("fence.proxy.tensormap::generic.release.gpu", ""),
    "membar": ("membar.gl", ""),
    "membar proxy alias": ("membar.proxy.alias", ""),
    "membar proxy async": ("membar.proxy.async", ""),
    "cp async": ("cp.async.ca.shared.global", "[%r0], [%d0], 16"),
    "cp async commit_group": ("cp.async.commit_group", ""),
    "cp async wait_group": ("cp.async.wait_group", "1"),
    "cp async wait_all": ("cp.async.wait_all", ""),
    "cp async mbarrier arrive": ("cp.async.mbarrier.arrive.shared.b64", "[%r0]"),
    "cp async bulk commit_group": ("cp.async.bulk.commit_group", ""),
    "cp async bulk wait_group": ("cp.async.bulk.wait_group", "1"),
    "cp async bulk mbarrier::complete_tx::bytes": (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "[%r0], [%d0], %r1, [%r2], %h0, %d1"),
    "cp async bulk bulk_group": (
        "cp.async.bulk.global.shared::cta.bulk_group", "[%d0], [%r0], %r1, %d1"),
    "cp async bulk prefetch": ("cp.async.bulk.prefetch.L2.global", "[%d0], %r1, %d1"),
    "cp reduce async bulk mbarrier::complete_tx::bytes": (
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32",
        "[%r0], [%r3], %r1, [%r2]"),
    "cp reduce async bulk bulk_group": (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", "[%d0], [%r0], %r1, %d1"),
    "cp async bulk tensor mbarrier::complete_tx::bytes": (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        f"[%r0], {MAP}, [%r2], %h0, %d1"),
    "cp async bulk tensor bulk_group": (
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", f"{MAP}, [%r0], %d1"),
    "cp reduce async bulk tensor bulk_group": (
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group", f"{MAP}, [%r0], %d1"),
    "cp async bulk prefetch tensor": (
        "cp.async.bulk.prefetch.tensor.2d.L2.global", f"{MAP}, %d1"),
    "tensormap replace": (
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32", "[%r0], 0, %r1"),
    "tensormap cp_fenceproxy": (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
        "[%d0], [%r0], 128"),
    "clusterlaunchcontrol try_cancel": (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
        "[%r0], [%r1]"),
    "clusterlaunchcontrol query_cancel": (
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", "%p0, %d0"),
    "wgmma fence": ("wgmma.fence.sync.aligned", ""),
    "wgmma commit_group": ("wgmma.commit_group.sync.aligned", ""),
    "wgmma wait_group": ("wgmma.wait_group.sync.aligned", "0"),
    "wgmma mma_async": (
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
        f"{VALUES}, %d0, %d1, %r20, 1, 1, 1, 1, 0"),
    "tcgen05 fence::before_thread_sync": ("tcgen05.fence::before_thread_sync", ""),
    "tcgen05 fence::after_thread_sync": ("tcgen05.fence::after_thread_sync", ""),
    "tcgen05 wait::ld": ("tcgen05.wait::ld.sync.aligned", ""),
    "tcgen05 wait::st": ("tcgen05.wait::st.sync.aligned", ""),
    "tcgen05 alloc": ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", "[%r0], 32"),
    "tcgen05 dealloc": ("tcgen05.dealloc.cta_group::1.sync.aligned.b32", "%r0, 32"),
    "tcgen05 relinquish_alloc_permit": (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned", ""),
    "tcgen05 commit": (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", "[%r0], %h0"),
    "tcgen05 ld": ("tcgen05.ld.sync.aligned.32x32b.x8.b32", f"{VALUES}, [%r20]"),
    "tcgen05 st": ("tcgen05.st.sync.aligned.32x32b.x8.b32", f"[%r20], {VALUES}"),
    "tcgen05 cp": ("tcgen05.cp.cta_group::1.128x256b", "[%r0], %d0"),
    "tcgen05 shift": ("tcgen05.shift.cta_group::1.down", "[%r0]"),
    "tcgen05 mma": (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale",
        "[%r0], %d0, %d1, %r1, [%r2], [%r3], %p0"),
    "mma": (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}"),
    "wmma mma": ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
                 f"{VALUES}, {VALUES}, {VALUES}, {VALUES}"),
    "wmma load": ("wmma.load.a.sync.aligned.row.m32n8k16.global.f16", f"{VALUES}, [%d0]"),
    "wmma store": ("wmma.store.d.sync.aligned.row.m32n8k16.global.f32", f"[%d0], {VALUES}"),
    "movmatrix": ("movmatrix.sync.aligned.m8n8.trans.b16", "%r0, %r1"),
    "ldmatrix": ("ldmatrix.sync.aligned.m8n8.shared.b16", "{%r0}, [%r1]"),
    "stmatrix": ("stmatrix.sync.aligned.m8n8.shared.b16", "[%r1], {%r0}"),
    "shfl": ("shfl.sync.idx.b32", "%r0|%p0, %r1, 0, 31, -1"),
    "vote": ("vote.sync.all.pred", "%p0, %p1, -1"),
    "match": ("match.any.sync.b32", "%r0, %r1, -1"),
    "redux": ("redux.sync.add.u32", "%r0, %r1, -1"),
    "elect sync": ("elect.sync", "%r0|%p0, -1"),
    "activemask": ("activemask.b32", "%r0"),
    "setmaxnreg inc": ("setmaxnreg.inc.sync.aligned.u32", "240"),
    "setmaxnreg dec": ("setmaxnreg.dec.sync.aligned.u32", "24"),
    "griddepcontrol wait": ("griddepcontrol.wait", ""),
    "griddepcontrol launch_dependents": ("griddepcontrol.launch_dependents", ""),
}  # fmt: skip

# Operands of another number, for words that add one.
OPERANDS = {("tcgen05 mma", 0): "[%r0], %d0, %d1, %r4, %r1, %p0"}


def decoded(name: str, operands: str) -> str:
    """The instruction as decoded, or why it is not."""
    module = module_of(f"{name} {operands};\nret;")
    code, findings = decode(module, module.functions[0], lay_out(module, module.functions[0], 0))
    if code is None:
        (finding,) = findings
        assert finding.code == UNSUPPORTED
        assert finding.primary is not None
        return f"refused: {finding.primary.label}"
    return repr((code.steps, code.presets))


def refused(text: str) -> bool:
    return text.startswith("refused: ")


def placed(form: str) -> list[tuple[str, int]]:
    """The words of the sample, each with its place in the form; -1 for the words of the name."""
    free, named = list(enumerate(map(place_of, FORMS[form]))), form.split()
    found = []
    for word in SAMPLES[form][0].split("."):
        if word in named:
            named.remove(word)
            found.append((word, -1))
            continue
        at = next(item for item in free if item[1].takes(word))
        free.remove(at)
        found.append((word, at[0]))
    assert not named
    return found


def with_word(form: str, number: int, word: str | None) -> str:
    """The sample with the word at this place; None: with none there."""
    words = placed(form)
    kept = [item for item in words if item[1] != number]
    at = next((n for n, item in enumerate(words) if item[1] == number), None)
    if at is None:
        at = next((n for n, (_, place) in enumerate(kept) if place > number), len(kept))
    if word is not None:
        kept.insert(at, (word, number))
    name = ".".join(text for text, _ in kept)
    other = OPERANDS.get((form, number))
    if other is not None:
        return decoded(name.replace(".block_scale", ""), other)
    return decoded(name, SAMPLES[form][1])


def written(word: str) -> list[str]:
    """A word as it may stand in text, with two numbers for each `#`."""
    return [word.replace("#", "8"), word.replace("#", "16")] if "#" in word else [word]


PLACES = [
    pytest.param(form, number, place_of(text), id=f"{form.replace(' ', '.')}-{number}")
    for form, texts in FORMS.items()
    for number, text in enumerate(texts)
]


def test_every_form_has_a_sample_that_is_decoded():
    assert SAMPLES.keys() == FORMS.keys()
    for name, operands in SAMPLES.values():
        assert not refused(decoded(name, operands)), name


def test_the_table_names_instructions_that_the_machine_decodes():
    assert {form.split()[0] for form in FORMS} <= HANDLERS.keys()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("word", ["invented", "invented::word"])
def test_a_word_that_the_table_lacks_is_refused_wherever_it_stands(form, word):
    name, operands = SAMPLES[form]
    words = name.split(".")
    for at in range(1, len(words) + 1):
        text = ".".join([*words[:at], word, *words[at:]])
        assert decoded(text, operands) == f"refused: the word `.{word}`"


@pytest.mark.parametrize(("form", "number", "place"), PLACES)
def test_a_word_that_is_followed_changes_what_is_decoded(form: str, number: int, place: WordPlace):
    if place.reason:
        return
    without = with_word(form, number, None)
    groups = [
        [with_word(form, number, text) for word in group for text in written(word)]
        for group in place.groups
    ]
    if place.words[0].count("#"):
        assert len({text for group in groups for text in group}) == 2
        return
    known = [found for group in groups if (found := {t for t in group if not refused(t)})]
    assert known
    assert all(len(found) == 1 for found in known), "words that mean the same are decoded alike"
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(known, 2))
    if refused(without):
        assert len(known) > 1
    elif place.default >= 0:
        assert without in groups[place.default]
    else:
        assert all(without not in found for found in known)


@pytest.mark.parametrize(("form", "number", "place"), PLACES)
def test_a_word_without_effect_changes_nothing_and_has_a_reason(form, number, place: WordPlace):
    if not place.reason:
        return
    assert place.reason in REASONS
    sample = decoded(*SAMPLES[form])
    for word in place.words:
        for text in written(word):
            found = with_word(form, number, text)
            assert found == sample or (place.reason == "operands" and refused(found)), text


def test_each_reason_is_given():
    assert {place_of(text).reason for texts in FORMS.values() for text in texts} == {*REASONS, ""}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask", "cp_mask"),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob", "ignore_oob"),
        ("fence.acquire.sync_restrict::shared::cluster.cluster", "sync_restrict::shared::cluster"),
        ("fence.release.sync_restrict::shared::cta.cluster", "sync_restrict::shared::cta"),
        ("fence.acquire.release.gpu", "release"),
        ("membar.gpu", "gpu"),
        ("mbarrier.arrive.release.acquire.cta.shared.b64", "acquire"),
        ("barrier.cluster.wait.relaxed", "relaxed"),
        ("ld.global.multicast::cluster.b32", "multicast::cluster"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x8.min.f32", "red"),
        ("cp.async.bulk.tensor.2d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes",
         "im2col::w"),
    ],
)  # fmt: skip
def test_words_of_which_the_machine_has_no_meaning(name, word):
    opcode, *words = name.split(".")
    assert unknown_word(opcode, tuple(words)) == word


def test_a_vector_has_as_many_elements_as_the_word_says():
    assert refused(decoded("ld.global.v4.b32", "{%r0, %r1}, [%d0]"))
    assert not refused(decoded("ld.global.v4.b32", "{%r0, %r1, %r2, %r3}, [%d0]"))


@pytest.mark.parametrize(("count", "lanes"), [(1, 8), (2, 16), (4, 32)])
def test_stmatrix_of_bytes_writes_columns_of_sixteen_bytes(count, lanes):
    values = "{" + ", ".join(f"%r{n}" for n in range(count)) + "}"
    body = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r20], {values};\nret;"
    module = module_of(body)
    code, _ = decode(module, module.functions[0], lay_out(module, module.functions[0], 0))
    assert code is not None
    assert code.steps[0].flags[2:4] == (16, lanes)


def matrix_access(*, generic: bool, stores: bool) -> ev.AccessEvent:
    word = "" if generic else ".shared"
    form = "[{0}], {{%r0}}" if stores else "{{%r0}}, [{0}]"
    name = f"{'st' if stores else 'ld'}matrix.sync.aligned.m8n8.x1{word}.b16"
    body = f"""
.shared .align 16 .b8 tile[512];
mov.u32 %r0, %laneid;
shl.b32 %r0, %r0, 4;
mov.u32 %r1, tile;
add.u32 %r1, %r1, %r0;
cvt.u64.u32 %d0, %r1;
cvta.shared.u64 %d1, %d0;
{name} {form.format("%d1" if generic else "%r1")};
ret;"""
    made = ran(module_of(body), launch_of())
    assert not of(made, ev.MemoryFault)
    (access,) = of(made, ev.AccessEvent)
    return access


@pytest.mark.parametrize("stores", [False, True])
def test_matrices_without_a_space_have_generic_addresses(stores):
    own = matrix_access(generic=False, stores=stores)
    generic = matrix_access(generic=True, stores=stores)
    assert own.footprint == generic.footprint
    assert own.mode is generic.mode


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("st.async.mbarrier::complete_tx::bytes.b32", "[%d0], %r1, [%d1]"),
        ("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128", "[%d0], [%d1]"),
    ],
)
def test_asynchronous_forms_with_generic_addresses_are_refused(name, operands):
    assert decoded(name, operands) == "refused: the space"


MASKED = """
mov.b32 %r1, {one};
mov.b64 %d3, 0;
mov.b64 {{%r2, %r3}}, %d3;
{more}
tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r5, {{{masks}}}, %p0"""


@pytest.mark.parametrize(
    ("one", "more", "masks", "known"),
    [
        ("0", "", "%r1, %r2, %r3, 0", True),
        ("1", "", "%r1, %r2, %r3, 0", False),
        ("0", "", "%r1, %r2, %r3, 1", False),
        ("0", "@%p1 mov.b32 %r2, %r1;", "%r1, %r2, %r3, 0", True),
        ("0", "@%p1 mov.b32 %r2, 4;", "%r1, %r2, %r3, 0", False),
        ("0", "add.u32 %r4, %r1, 1;", "%r1, %r2, %r3, %r4", False),
        ("0", "ld.param.u32 %r4, [out];", "%r1, %r2, %r3, %r4", False),
        ("0", "", "%r1, %r2, %r3, %r7", False),  # %r7 is never written
    ],
)
def test_lanes_of_a_product_that_may_be_switched_off_are_refused(one, more, masks, known):
    text = MASKED.format(one=one, more=more, masks=masks)
    assert decoded(text, "").startswith("refused: lanes of its output") is not known


def test_registers_that_are_zero_on_random_programs_are_zero_when_executed():
    random = Random(7)
    count = 0
    for _ in range(300):
        steps = []
        for _ in range(random.randint(1, 12)):
            out, source = random.randrange(6), random.randrange(8)
            steps.append((random.choice((Op.MOV, Op.ADD)), out, source))
        presets = [
            Preset(6, PresetKind.CONSTANT, 0, ""),
            Preset(7, PresetKind.CONSTANT, 1, ""),
        ]
        zeros = zero_registers(
            (DecodedStep(op, out=(o,), args=(s,)) for op, o, s in steps), presets
        )
        for start in (0, random.randrange(len(steps))):  # from anywhere, and round again
            value = {6: 0, 7: 1} | dict.fromkeys(range(6), -1)  # -1: not written yet
            for op, out, source in (steps[start:] + steps) * 2:
                if random.random() < 0.8:
                    held = value[source]
                    value[out] = held if op is Op.MOV or held < 0 else held + 1
                assert all(value[register] <= 0 for register in zeros)
        count += len(zeros - {6})
    assert count > 50


@pytest.mark.parametrize(
    ("data", "known", "fits"),
    [
        (bytes(8), None, True),
        (bytes(8), bytes([1] * 4 + [0] * 4), True),
        (bytes(8), bytes(8), False),
        (bytes([0, 1] + [0] * 6), None, False),
        (bytes([0] * 4 + [1] * 4), None, True),
    ],
)
def test_lanes_that_a_parameter_switches_off_are_read_from_the_launch(data, known, fits):
    body = MASKED.format(one="0", more="ld.param.u32 %r4, [out];", masks="%r1, %r2, %r3, %r4")
    launch = launch_of(parameters=(LaunchParameter(data, known),))
    ready, findings = prepare(module_of(body + ";\nret;"), launch, Options())
    assert (ready is not None) is fits
    assert [finding.code for finding in findings] == [UNSUPPORTED] * (not fits)
