"""The words that an instruction may carry behind its name, and which of them the decoders follow.

A word that the table lacks makes the instruction one that the machine does not know: a word that is
passed over may change what synchronises, which bytes are touched, or by whom. The table is written
after the instructions' syntax in PTX ISA 9; forms that the machine has no meaning for are left out
of it on purpose (`.im2col::w`, `.cp_mask`, `.ignore_oob`, `tcgen05.ld.red`, a `fence` with
`.sync_restrict`). Instructions that compute registers from registers alone are not in it.

`FORMS` names a form by the instruction and the words that choose what it does; of several the one
with the most words is meant. Then come the places that words have behind it, each taken once at
most: words that mean the same are joined by `,`, others by `|`, and `*` marks what holds where the
place is empty. A place that begins with `~` has no effect on what is decoded, for the reason in
`REASONS`. `#` is a number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from titan.foundation.diagnostics.wording import quoted
from titan.isa.ptx import module as ptx
from titan.isa.simt.decode_context import Unsupported

REASONS = {
    "hint": "a hint for caches, which changes no value and no order",
    "only": "the only word that the form can have there",
    "operands": "the number of operands says the same",
    "address": "the address says whose memory it is",
    "shape": "another word says how many bytes are touched",
    "value": "it changes values that are not computed",
    "over": "what it leaves out counts as touched",
    "code": "read from the instruction where races are judged (`.nc`)",
}

_SHARED = "shared,shared::cta"
_OWN = "~only shared|shared::cta"
_ANY_SHARED = "shared,shared::cta,shared::cluster"
_TYPES = "b8|u8|s8|b16|u16|s16|f16|bf16|b32,f16x2|u32|s32|f32|b64|u64|s64|f64|b128"
_SUMMED = "b16|u16|s16|f16|bf16|b32,f16x2,bf16x2|u32|s32|f32|b64,f32x2|u64|s64|f64|b128"
_MANY = _SUMMED.replace("b16|", "b16,e4m3x2,e5m2x2|", 1)
_OPERATIONS = "add|min|max|and|or|xor|inc|dec"
_SCOPES = "cta|cluster|gpu|sys"
_HINT = "~hint L2::cache_hint"
_CACHED = (
    "~hint L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "~hint L2::evict_normal|L2::evict_first|L2::evict_last",
    _HINT,
)
_SIZES = "~hint L2::64B|L2::128B|L2::256B"
_VECTOR = "~operands v2|v4|v8"
_TOGETHER = ("~only sync", "~only aligned")
_DIMENSIONS = "1d|2d|3d|4d|5d"
_PAIR = "cta_group::1*|cta_group::2"
_ARRIVAL = ("release*|relaxed", "cta*|cluster", f"{_SHARED}|shared::cluster")
_COUNT = ("~only relaxed", "cta*|cluster", f"{_SHARED}|shared::cluster", "~only b64")
_WAIT = ("parity", "acquire*|relaxed", "cta*|cluster", _SHARED, "~only b64")
_PROXY = "global|shared::cta|shared::cluster"
_COMPLETES = "mbarrier::complete_tx::bytes"
_LAYOUT = "~value row|col"
_NUMBERS = "~value f16|bf16|tf32|f32|f64|s8|u8|s4|u4|b1|s32|e4m3|e5m2|e3m2|e2m3|e2m1|e4m3x2|e5m2x2"
_PRODUCT = (
    "~value m#n#k#", _LAYOUT, _LAYOUT, "~value satfinite", "~value rn|rz|rm|rp", "~value and|xor",
    "~value popc", _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS,
)  # fmt: skip
_MATRIX = (
    *_TOGETHER, "row|col", "m16n16k16|m32n8k16|m8n32k16|m16n16k8|m8n8k4|m8n8k32|m8n8k128",
    f"global|{_ANY_SHARED}", "f16,bf16|f32,s32,tf32|s8,u8|f64|s4,u4|b1",
)  # fmt: skip
_TIMES = "x1|x2|x4|x8|x16|x32|x64|x128"
_LANES = "32x32b|16x64b|16x128b|16x256b|16x32bx2"
_COLLECTED = "|".join(
    f"collector::{buffer}::{use}"
    for buffer in ("a", "b0", "b1", "b2", "b3")
    for use in ("fill", "use", "lastuse", "discard")
)
_FIELDS = (
    "global_address|rank|box_dim|global_dim|global_stride|element_stride|elemtype|"
    "interleave_layout|swizzle_mode|swizzle_atomicity|fill_mode"
)

FORMS: dict[str, tuple[str, ...]] = {
    # ---------------------------------------------------------------------- accesses by threads
    "ld": (
        "mmio", "weak*|relaxed|acquire|volatile", _SCOPES,
        f"global|{_ANY_SHARED}|local|const|param,param::entry,param::func", "~code nc",
        "~hint ca|cg|cs|lu|cv", *_CACHED, _SIZES, _VECTOR, _TYPES,
    ),
    "ldu": ("global", _VECTOR, _TYPES),
    "st": (
        "mmio", "weak*|relaxed|release|volatile", _SCOPES,
        f"global|{_ANY_SHARED}|local|param,param::entry,param::func", "~hint wb|cg|cs|wt",
        *_CACHED, _VECTOR, _TYPES,
    ),
    f"st async {_COMPLETES}": (
        "~only weak", "~only shared::cluster", _VECTOR, "b32|u32|s32|f32|b64|u64|s64|f64",
    ),
    "atom": (
        "relaxed*|acquire|release|acq_rel", "cta|cluster|gpu*|sys", f"global|{_ANY_SHARED}",
        f"{_OPERATIONS}|exch|cas", "~value noftz", _HINT, _VECTOR, _SUMMED,
    ),
    "red": (
        "relaxed*|release", "cta|cluster|gpu*|sys", f"global|{_ANY_SHARED}", _OPERATIONS,
        "~value noftz", _HINT, _VECTOR, _SUMMED,
    ),
    "red async": (
        "mmio", "release", "cta|cluster|gpu*|sys", "global", _OPERATIONS,
        "u32|s32|b32|u64|s64|b64",
    ),
    f"red async {_COMPLETES}": (
        "~only relaxed", "~only cluster", "~only shared::cluster", _OPERATIONS,
        "u32|s32|b32|u64|s64|b64",
    ),
    "multimem ld_reduce": (
        "weak*|relaxed|acquire", _SCOPES, "global", "~value add|min|max|and|or|xor",
        "~value acc::f32|acc::f16", _VECTOR, _MANY,
    ),
    "multimem st": (
        "weak*|relaxed|release", _SCOPES, "global", _VECTOR, _MANY,
    ),
    "multimem red": (
        "relaxed*|release", "cta|cluster|gpu|sys*", "global", _OPERATIONS, _VECTOR, _SUMMED,
    ),
    "prefetch": (
        "global|local|const|param,param::entry", "~hint L1|L2|L2::evict_last|L2::evict_normal",
        "tensormap",
    ),
    "prefetchu": ("~hint L1",),
    "applypriority": ("~hint global", "~hint L2::evict_normal"),
    "createpolicy": (
        "~hint fractional|range|cvt", "~hint global", "~hint L2",
        "~hint L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
        "~hint L2::evict_first|L2::evict_unchanged", "~hint b64",
    ),
    "cvta": ("to", f"global|{_SHARED},shared::cluster|local|const|param,param::entry", "u32|u64*"),
    "mapa": ("shared::cluster", "u32*|u64"),
    "getctarank": ("shared::cluster", "~only u32|u64"),
    "isspacep": (f"global|{_SHARED}|shared::cluster|local|const|param,param::entry,param::func",),
    # -------------------------------------------------------------------- barriers and fences
    "mbarrier init": (_SHARED, "~only b64"),
    "mbarrier inval": (_SHARED, "~only b64"),
    "mbarrier expect_tx": _COUNT,
    "mbarrier complete_tx": _COUNT,
    "mbarrier arrive": (*_ARRIVAL, "noComplete", "~only b64"),
    "mbarrier arrive expect_tx": (*_ARRIVAL, "~only b64"),
    "mbarrier arrive_drop": (*_ARRIVAL, "noComplete", "~only b64"),
    "mbarrier arrive_drop expect_tx": (*_ARRIVAL, "~only b64"),
    "mbarrier test_wait": _WAIT,
    "mbarrier try_wait": _WAIT,
    "mbarrier pending_count": ("~only b64",),
    "bar sync": ("~only cta",),
    "bar arrive": ("~only cta",),
    "bar red": ("~only cta", "popc|and|or", "~only pred|u32"),
    "bar warp sync": (),
    "barrier sync": ("~only cta", "aligned"),
    "barrier arrive": ("~only cta", "aligned"),
    "barrier red": ("~only cta", "aligned", "popc|and|or", "~only pred|u32"),
    "barrier cluster arrive": ("release*|relaxed", "aligned"),
    "barrier cluster wait": ("~only acquire", "aligned"),
    "fence": ("sc|acq_rel*|acquire|release", _SCOPES),
    "fence mbarrier_init": ("~only release", "~only cluster"),
    "fence proxy alias": (),
    "fence proxy async": (_PROXY,),
    "fence proxy async::generic acquire": ("~only sync_restrict::shared::cluster", "~only cluster"),
    "fence proxy async::generic release": ("~only sync_restrict::shared::cta", "~only cluster"),
    "fence proxy tensormap::generic acquire": (_SCOPES,),
    "fence proxy tensormap::generic release": (_SCOPES,),
    "membar": ("cta|gl|sys",),
    "membar proxy alias": (),
    "membar proxy async": (_PROXY,),
    # -------------------------------------------------------------------- asynchronous copies
    "cp async": ("~hint ca|cg", _OWN, "~only global", _HINT, _SIZES),
    "cp async commit_group": (),
    "cp async wait_group": (),
    "cp async wait_all": (),
    "cp async mbarrier arrive": ("noinc", _SHARED, "~only b64"),
    "cp async bulk commit_group": (),
    "cp async bulk wait_group": ("read",),
    f"cp async bulk {_COMPLETES}": (
        "shared::cta|shared::cluster", "global|shared::cta", "multicast::cluster", _HINT,
    ),
    "cp async bulk bulk_group": ("~only global", "~only shared::cta", _HINT),
    "cp async bulk prefetch": ("~only L2", "~only global", _HINT),
    f"cp reduce async bulk {_COMPLETES}": (
        "~only shared::cluster", "~only shared::cta", _OPERATIONS, "u32|s32|b32|u64|s64|b64",
    ),
    "cp reduce async bulk bulk_group": (
        "~only global", "~only shared::cta", _HINT, _OPERATIONS, "~value noftz",
        "f16|bf16|u32|s32|b32|f32|u64|s64|b64|f64",
    ),
    f"cp async bulk tensor {_COMPLETES}": (
        _DIMENSIONS, "cta_group::1|cta_group::2", "~address shared::cta|shared::cluster",
        "~only global", "tile*|tile::gather4|im2col", "multicast::cluster", _HINT,
    ),
    "cp async bulk tensor bulk_group": (
        _DIMENSIONS, "~only global", "~only shared::cta", "tile*|tile::scatter4|im2col_no_offs",
        _HINT,
    ),
    "cp reduce async bulk tensor bulk_group": (
        _DIMENSIONS, "~only global", "~only shared::cta", _OPERATIONS, "tile*|im2col_no_offs",
        _HINT,
    ),
    "cp async bulk prefetch tensor": (
        _DIMENSIONS, "~only L2", "~only global", "tile*|tile::gather4|im2col", _HINT,
    ),
    "tensormap replace": (
        "~only tile", _FIELDS, "global|shared::cta", "~only b1024", "~shape b32|b64",
    ),
    "tensormap cp_fenceproxy": (
        "~only global", "~only shared::cta", "~only tensormap::generic", "~only release",
        "cta|cluster|gpu*|sys", *_TOGETHER,
    ),
    "clusterlaunchcontrol try_cancel": (
        "~only async", "~only shared::cta", f"~only {_COMPLETES}", "multicast::cluster::all",
        "~only b128",
    ),
    "clusterlaunchcontrol query_cancel": (
        "is_canceled|get_first_ctaid,get_first_ctaid::x*|get_first_ctaid::y|get_first_ctaid::z",
        "~operands v4", "~only pred|b32", "~only b128",
    ),
    # ------------------------------------------------------------------------ tensor cores
    "wgmma fence": _TOGETHER,
    "wgmma commit_group": _TOGETHER,
    "wgmma wait_group": _TOGETHER,
    "wgmma mma_async": (
        "sp", *_TOGETHER, "m64n#k#", "~value f32|f16|s32",
        "~shape f16|bf16|tf32|e4m3|e5m2|s8|u8|b1", "f16,bf16|tf32|e4m3,e5m2,s8,u8|b1",
        "~value satfinite", "~value and", "~value popc",
    ),
    "tcgen05 fence::before_thread_sync": (),
    "tcgen05 fence::after_thread_sync": (),
    "tcgen05 wait::ld": _TOGETHER,
    "tcgen05 wait::st": _TOGETHER,
    "tcgen05 alloc": (_PAIR, *_TOGETHER, "shared::cta", "~only b32"),
    "tcgen05 dealloc": (_PAIR, *_TOGETHER, "~only b32"),
    "tcgen05 relinquish_alloc_permit": (_PAIR, *_TOGETHER),
    "tcgen05 commit": (
        _PAIR, "~only mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "~only b64",
    ),
    "tcgen05 ld": (*_TOGETHER, _LANES, _TIMES, "pack::16b", "~only b32"),
    "tcgen05 st": (*_TOGETHER, _LANES, _TIMES, "unpack::16b", "~only b32"),
    "tcgen05 cp": (
        _PAIR, "128x256b|4x256b|128x128b|64x128b|32x128b",
        "~shape warpx2::02_13|warpx2::01_23|warpx4", "~value b8x16", "~over b6x16_p32|b4x16_p64",
    ),
    "tcgen05 shift": (_PAIR, "~only down"),
    "tcgen05 mma": (
        "sp", "ws", _PAIR,
        "kind::f16|kind::tf32|kind::f8f6f4|kind::i8|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4",
        "block_scale", "scale_vec::1X,scale_vec::2X,block32*|scale_vec::4X,block16",
        "~over ashift", f"~over {_COLLECTED}",
    ),
    "mma": (
        "~value sp|sp::ordered_metadata", *_TOGETHER, *_PRODUCT,
        "~value kind::f8f6f4|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4", "~value block_scale",
        "~value scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32",
        "~value ue8m0|ue4m3",
    ),
    "wmma mma": (*_TOGETHER, *_PRODUCT),
    "wmma load": ("a|b|c", *_MATRIX),
    "wmma store": (
        "~only d", *(text.replace("m16n16k16", "m16n16k16,m16n16k8", 1).replace("|m16n16k8", "")
                     for text in _MATRIX),
    ),
    "movmatrix": (*_TOGETHER, "~only m8n8", "~only trans", "~only b16"),
    "ldmatrix": (
        *_TOGETHER, "m8n8*|m8n16|m16n16", "x1*|x2|x4", "trans",
        _SHARED, "~shape b16|b8", "~value b8x16",
        "~over b6x16_p32|b4x16_p64",
    ),
    "stmatrix": (
        *_TOGETHER, "m8n8*|m16n8", "x1*|x2|x4", "trans", _SHARED,
        "~shape b16|b8",
    ),
    # ------------------------------------------------------------------- warps and resources
    "shfl": ("~only sync", "up|down|bfly|idx", "~only b32"),
    "vote": ("~only sync", "all|any|uni|ballot", "~only pred|b32"),
    "match": ("~only sync", "any*|all", "b32*|b64"),
    "redux": (
        "~only sync", "add|min|max|and|or|xor", "~value abs", "~value NaN", "u32|s32|b32|f32",
    ),
    "elect sync": (),
    "activemask": ("~only b32",),
    "setmaxnreg inc": (*_TOGETHER, "~only u32"),
    "setmaxnreg dec": (*_TOGETHER, "~only u32"),
    "griddepcontrol wait": (),
    "griddepcontrol launch_dependents": (),
}  # fmt: skip


class WordPlace(NamedTuple):
    """What may be at one place of a form."""

    groups: tuple[tuple[str, ...], ...]  # the words of a group mean the same
    default: int  # the group that holds where the place is empty, or -1
    reason: str  # why the decoded form does not show it; empty if it does

    @property
    def words(self) -> tuple[str, ...]:
        """All words, `#` as written."""
        return tuple(word for group in self.groups for word in group)

    def takes(self, word: str) -> bool:
        """Whether the word may stand here."""
        return any(
            re.fullmatch(known.replace("#", r"\d+"), word) if "#" in known else known == word
            for known in self.words
        )


def place_of(text: str) -> WordPlace:
    """A place as the table writes it."""
    reason = ""
    if text.startswith("~"):
        reason, text = text[1:].split(" ", 1)
    groups = text.split("|")
    default = next((n for n, group in enumerate(groups) if group.endswith("*")), -1)
    return WordPlace(tuple(tuple(g.removesuffix("*").split(",")) for g in groups), default, reason)


PLACES: dict[str, dict[frozenset[str], tuple[WordPlace, ...]]] = {}
for _name, _texts in FORMS.items():
    _opcode, *_key = _name.split()
    PLACES.setdefault(_opcode, {})[frozenset(_key)] = tuple(map(place_of, _texts))


@lru_cache(maxsize=4096)
def unknown_word(opcode: str, words: tuple[str, ...]) -> str | None:
    """A word that the table has no place for; empty if it has no such form, None if all is well."""
    forms = PLACES.get(opcode)
    if forms is None:
        return None
    key = max((key for key in forms if key <= set(words)), key=len, default=None)
    if key is None:
        return ""
    free, named = list(forms[key]), set(key)
    for word in words:
        if word in named:
            named.remove(word)
            continue
        place = next((place for place in free if place.takes(word)), None)
        if place is None:
            return word
        free.remove(place)
    return None


def check_words(instruction: ptx.Instruction) -> None:
    """Raises Unsupported for a word that the table lacks, or a vector of another length."""
    word = unknown_word(instruction.opcode, instruction.modifiers)
    if word == "":
        raise Unsupported("the form")
    if word is not None:
        raise Unsupported(f"the word {quoted('.' + word)}")
    length = next((int(w[1:]) for w in instruction.modifiers if w in ("v2", "v4", "v8")), 0)
    if length and instruction.opcode in PLACES:
        vectors = [item for item in instruction.operands if isinstance(item, ptx.Vector)]
        if not any(len(vector.items) == length for vector in vectors):
            raise Unsupported(f"no vector of {length}")
