"""The keys, verbs and words of the kernel language, as one table.

The decoder takes the known keys from here, `titan/language/kernel/schema.py` makes the JSON Schema
of it, and a test holds docs/reference/language.md against it. The table says nothing of meaning.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from titan.foundation.records import dataclass
from titan.sync.policies import POLICY_WORDS
from titan.sync.reductions import OPERATORS

VERSION = 1
STAGES_MAX = 4096
AGENTS_MAX = 256
CTAS_MAX = 16
STATEMENTS_MAX = 10_000
NESTING_MAX = 20
UNITS_MAX = 65_536
SWEEP_MAX = 256
NUMBER_MAX = 2**31 - 1

TARGETS = (
    "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120a",
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250",
)  # fmt: skip
RESERVED = frozenset(
    ("cta", "ctas", "peer", "self", "in", "and", "or", "not", "min", "max", "div", "mod",
     "true", "false", "any", "all")
)  # fmt: skip
BITS_OF_DTYPE = {
    "f64": 64, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "f8": 8,
    "e3m2": 6, "e2m3": 6, "f6": 6, "e2m1": 4, "f4": 4, "ue8m0": 8, "e2m1x2": 8, "i64": 64,
    "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32, "u16": 16, "u8": 8, "i4": 4, "b1": 1,
}  # fmt: skip

SWIZZLES = ("none", "32B", "64B", "128B")
# The packed types of tensor maps: 16 elements in 8, 16 (padded) or 16 (of 12) bytes.
PACKED_DTYPES = ("16u4_align8b", "16u4_align16b", "16u6_align16b")
# Of the bytes that a copy fills, those that it completes on its barrier: a barrier counts the bits
# of the elements (CUTLASS, transaction bytes of its collectives), not those of their places.
PACKED_COUNTED = {"16u4_align8b": (1, 1), "16u4_align16b": (1, 2), "16u6_align16b": (3, 4)}
TENSOR_DTYPES = (*BITS_OF_DTYPE, *PACKED_DTYPES)


class ValueForm(Enum):
    """The form of a value."""

    EXPRESSION = "an integer expression"
    CONSTANT = "an integer expression of sizes"
    CONDITION = "a condition"
    BOOLEAN = "`true` or `false`"
    IDENTIFIER = "a name"
    TEXT = "text"
    WORD = "one of a few words"
    NAMES = "a list of names"
    NUMBERS = "a list of integer expressions of sizes"
    REFERENCE = "a reference"
    REFERENCES = "a reference or a list of them"
    MEMORY = "a memory reference or a list of them"
    CTAS = "a list of CTAs, or `all`"
    BLOCK = "a list of statements"
    ASSIGNMENTS = "a mapping from names to expressions"
    RANGE = "`variable in first..end`"
    NOTHING = "nothing"


LISTED = (ValueForm.REFERENCE, ValueForm.REFERENCES, ValueForm.MEMORY)  # `A[t], B[t]` is a list


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: its form, its words if it has a fixed set, and its description."""

    name: str
    form: ValueForm
    about: str
    words: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A top-level section that maps names to declarations of one kind.

    `short` is the key that a scalar in place of the mapping represents.
    """

    name: str
    noun: str
    about: str
    keys: tuple[Key, ...]
    short: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """A statement: the form of its object, whether it needs one, and its options.

    `call`: the word that may stand before the objects, which are then in brackets.
    """

    name: str
    about: str
    object: ValueForm
    options: tuple[Key, ...] = ()
    needs_object: bool = True
    call: str = ""


QUEUE_KINDS: dict[str, tuple[bool, bool, bool]] = {  # grouped, ordered, pipelined
    "wgmma": (True, True, True),
    "bulk": (True, True, False),
    "cp_async": (True, True, False),
    "tcgen05": (False, True, True),
    "tcgen05_ld": (False, True, False),
    "tcgen05_st": (False, True, False),
    "vmcnt": (False, True, False),
    "vscnt": (False, True, False),
    "lgkmcnt": (False, True, False),
    "loadcnt": (False, True, False),
    "storecnt": (False, True, False),
    "dscnt": (False, True, False),
    "asynccnt": (False, True, False),
    "tensorcnt": (False, True, False),
    "expcnt": (False, True, False),
    "kmcnt": (False, False, False),
    "xcnt": (False, True, False),
    "vm_vsrc": (False, True, False),
}

# An mbarrier; a word of global memory that is counted up and polled; the end of a grid.
BARRIER_KINDS = ("mbarrier", "flag", "grid")
_STAGES = Key("stages", ValueForm.CONSTANT, "number of elements, used in rotation")
_CTA = Key("cta", ValueForm.CONSTANT, "the only CTA of the cluster that has it")

SECTIONS: tuple[Section, ...] = (
    Section(
        "buffers",
        "buffer",
        "memory in stages",
        (
            Key("space", ValueForm.WORD, "where it is", ("shared", "tensor", "global", "register")),
            _STAGES,
            Key("parts", ValueForm.CONSTANT, "regions of one stage that are accessed separately"),
            Key("tile", ValueForm.NUMBERS, "shape of one stage"),
            Key("dtype", ValueForm.WORD, "element type", tuple(BITS_OF_DTYPE)),
            Key("bytes", ValueForm.CONSTANT, "bytes of one stage"),
            Key("swizzle", ValueForm.WORD, "swizzle mode", SWIZZLES),
            Key("layout", ValueForm.TEXT, "a word for the layout"),
            Key("alignment", ValueForm.CONSTANT, "alignment of its address in bytes"),
            Key("base", ValueForm.CONSTANT, "byte offset of its first stage in shared memory"),
            Key("stride", ValueForm.CONSTANT, "bytes from one stage to the next, padding included"),
            Key(
                "lane_bytes",
                ValueForm.CONSTANT,
                "bytes that a lane copies in one direct-to-LDS load",
            ),
            Key("initial", ValueForm.CONSTANT, "tile that it holds before the program starts"),
            Key(
                "storage",
                ValueForm.IDENTIFIER,
                ("name of memory that it shares with other buffers"),
            ),
            Key("offset", ValueForm.CONSTANT, "first unit in the storage"),
            Key("units", ValueForm.CONSTANT, "units of the storage that one region covers"),
            _CTA,
        ),
    ),
    Section(
        "rings",
        "ring",
        "buffers whose stages producers pass to consumers",
        (
            Key("buffers", ValueForm.NAMES, "buffers that are filled together", required=True),
            Key("depth", ValueForm.CONSTANT, "number of stages"),
            Key("bytes", ValueForm.CONSTANT, "bytes that fill one stage"),
            Key(
                "release",
                ValueForm.WORD,
                "how readers release a stage",
                ("per_agent", "collective"),
            ),
            Key(
                "partial",
                ValueForm.WORD,
                "what to do for a tile that does not exist",
                ("zero_bytes", "poison", "fallback"),
            ),
            Key(
                "transport",
                ValueForm.WORD,
                "how a stage is filled",
                ("bulk", "async_copy", "store", "mma", "lds_dma"),
            ),
            Key("ready_count", ValueForm.CONSTANT, "arrivals that fill a stage"),
            Key("free_count", ValueForm.CONSTANT, "arrivals that free a stage"),
        ),
    ),
    Section(
        "barriers",
        "barrier",
        "mbarriers",
        (
            Key("count", ValueForm.CONSTANT, "arrivals of one phase", required=True),
            _STAGES,
            Key("initialised", ValueForm.BOOLEAN, "false: the program runs `init` and the fence"),
            Key("base", ValueForm.CONSTANT, "byte offset of the first one in shared memory"),
            Key("kind", ValueForm.WORD, "what it models", BARRIER_KINDS),
            _CTA,
        ),
        short="count",
    ),
    Section(
        "named_barriers",
        "named barrier",
        "hardware barriers with an id, and cluster barriers",
        (
            _STAGES,
            Key(
                "threads", ValueForm.CONSTANT, "threads that take part, unless a statement says so"
            ),
            Key("scope", ValueForm.WORD, "who takes part", ("warp", "cta", "cluster")),
        ),
        short="threads",
    ),
    Section(
        "queues",
        "queue",
        "asynchronous operations of an agent, waited for by count",
        (
            Key("kind", ValueForm.WORD, "ready-made kind", tuple(QUEUE_KINDS)),
            Key("grouped", ValueForm.BOOLEAN, "operations gather until `commit`"),
            Key("ordered", ValueForm.BOOLEAN, "groups finish in the order of issue"),
            Key("pipelined", ValueForm.BOOLEAN, "the data path itself preserves the order"),
        ),
        short="kind",
    ),
    Section(
        "pools",
        "pool",
        "counted resources to take and give back",
        (
            Key("available", ValueForm.CONSTANT, "amount at the start", required=True),
            Key("kind", ValueForm.WORD, "what is counted", ("registers", "tensor")),
            _CTA,
        ),
        short="available",
    ),
    Section(
        "roles",
        "role",
        "who runs",
        (
            Key("warps", ValueForm.CONSTANT, "warps (waves); one agent each"),
            Key("warpgroups", ValueForm.CONSTANT, "warpgroups; one agent each"),
            Key("threads", ValueForm.CONSTANT, "threads; one agent each"),
            Key("agents", ValueForm.CONSTANT, "agents that the threads are divided into"),
            Key("registers", ValueForm.CONSTANT, "registers a thread after setmaxnreg"),
            Key("index", ValueForm.IDENTIFIER, "name of the agent's number"),
            Key("counters", ValueForm.ASSIGNMENTS, "running counters with their first values"),
            Key(
                "outside",
                ValueForm.BOOLEAN,
                ("runs elsewhere: in another grid, on another GPU or on the host"),
            ),
            _CTA,
        ),
    ),
    Section(
        "tensor_maps",
        "tensor map",
        "descriptors of bulk tensor copies; lists go from the innermost dimension outwards",
        (
            Key("buffer", ValueForm.IDENTIFIER, "buffer that is copied", required=True),
            Key("global_shape", ValueForm.NUMBERS, "elements of the tensor", required=True),
            Key("global_strides", ValueForm.NUMBERS, "bytes between rows, planes, ..."),
            Key("box", ValueForm.NUMBERS, "elements that one copy moves; not for im2col"),
            Key("element_strides", ValueForm.NUMBERS, "distances of the elements that are moved"),
            Key("dtype", ValueForm.WORD, "element type, unless that of the buffer", TENSOR_DTYPES),
            Key("interleave", ValueForm.WORD, "interleaved layout", ("none", "16B", "32B")),
            Key("swizzle", ValueForm.WORD, "swizzle, unless that of the buffer", SWIZZLES),
            Key("oob_fill", ValueForm.WORD, "what lies outside of the tensor", ("zero", "nan")),
            Key("mode", ValueForm.WORD, "how the box is made", ("tile", "im2col")),
            Key("channels", ValueForm.CONSTANT, "im2col: channels of a pixel"),
            Key("pixels", ValueForm.CONSTANT, "im2col: pixels of a column"),
            Key("lower_corner", ValueForm.NUMBERS, "im2col: lower corner of the bounding box"),
            Key("upper_corner", ValueForm.NUMBERS, "im2col: upper corner of the bounding box"),
            Key(
                "global_alignment",
                ValueForm.CONSTANT,
                "bytes that the tensor's address is aligned to",
            ),
        ),
    ),
    Section(
        "matrix_instructions",
        "matrix instruction",
        "the matrix instructions that the kernel uses",
        (
            Key("kind", ValueForm.WORD, "family", ("wgmma", "tcgen05"), required=True),
            Key("shape", ValueForm.NUMBERS, "M, N, and K of one instruction", required=True),
            Key("a", ValueForm.WORD, "type of A", tuple(BITS_OF_DTYPE), required=True),
            Key("b", ValueForm.WORD, "type of B, unless that of A", tuple(BITS_OF_DTYPE)),
            Key("accumulator", ValueForm.WORD, "type of D", tuple(BITS_OF_DTYPE), required=True),
            Key("cta_group", ValueForm.CONSTANT, "CTAs that work together, 1 or 2"),
            Key("role", ValueForm.IDENTIFIER, "role that issues it"),
        ),
    ),
)
SECTION_OF = {section.name: section for section in SECTIONS}

TOP_LEVEL: tuple[Key, ...] = (
    Key("titan", ValueForm.CONSTANT, "version of the language", required=True),
    Key("kernel", ValueForm.IDENTIFIER, "name of the kernel", required=True),
    Key("target", ValueForm.WORD, "hardware", TARGETS, required=True),
    Key("note", ValueForm.TEXT, "what is modelled"),
    Key("source", ValueForm.TEXT, "where it comes from"),
    Key("ctas", ValueForm.CONSTANT, "CTAs of the cluster"),
)
POLICIES: tuple[Key, ...] = (
    Key("fence_rule", ValueForm.WORD, "who must fence", POLICY_WORDS["fence_rule"]),
    Key(
        "war_fence", ValueForm.BOOLEAN, "a generic read needs a fence before an asynchronous write"
    ),
    Key("barrier_init", ValueForm.WORD, "publication of mbarriers", POLICY_WORDS["barrier_init"]),
    Key(
        "exit_in_flight",
        ValueForm.WORD,
        "work in flight at the end",
        POLICY_WORDS["exit_in_flight"],
    ),
    Key(
        "unobserved_phase",
        ValueForm.WORD,
        "arrivals before a wait",
        POLICY_WORDS["unobserved_phase"],
    ),
    Key("tensor", ValueForm.WORD, "overwriting operands of tcgen05", POLICY_WORDS["tensor"]),
    Key(
        "tensor_pipe",
        ValueForm.WORD,
        "which tcgen05 operations of one thread need no wait in between",
        POLICY_WORDS["tensor_pipe"],
    ),
)

# ------------------------------------------------------------------------------- statements

_TILE = Key("tile", ValueForm.EXPRESSION, "expected content, for all references")
_QUEUE = Key("queue", ValueForm.IDENTIFIER, "queue that the operation goes to")
_COMPLETES = Key("completes", ValueForm.REFERENCES, "mbarriers that the bytes are counted on")
_BYTES = Key("bytes", ValueForm.EXPRESSION, "bytes that are counted")
_CHUNKS = Key("chunks", ValueForm.CONSTANT, "instalments in which the bytes may complete")
_ORDER = Key("order", ValueForm.WORD, "memory order", ("synchronising", "relaxed"))
_SCOPE = Key("scope", ValueForm.WORD, "scope", ("cta", "cluster"))
_REDUCES = Key("reduces", ValueForm.WORD, "the value written is added to the old one", OPERATORS)
_COUNT = Key("count", ValueForm.EXPRESSION, "number of arrivals")
_THREADS = Key("threads", ValueForm.EXPRESSION, "threads that take part")
_READS = Key("reads", ValueForm.MEMORY, "what is read")
_WRITES = Key("writes", ValueForm.MEMORY, "what is written")
_FROM = Key("from", ValueForm.MEMORY, "what is read")
_TO = Key("to", ValueForm.MEMORY, "what is written")
_INTO = Key("into", ValueForm.MEMORY, "what the computation writes")
_DESCRIPTOR = Key("descriptor", ValueForm.MEMORY, "tensor map that is read")
_BUFFERS = Key("buffers", ValueForm.NAMES, "only these buffers of the ring")
_AMOUNT = Key("amount", ValueForm.EXPRESSION, "how much", required=True)
_LEAVING = Key("leaving", ValueForm.EXPRESSION, "newest groups that may be unfinished")
_PENDING = Key("pending", ValueForm.EXPRESSION, "the same as `leaving`")
_UNTIL = Key("until", ValueForm.WORD, "what is waited for", ("done", "read"))
_THEN = Key("then", ValueForm.BLOCK, "statements where it holds")
_ELSE = Key("else", ValueForm.BLOCK, "statements where it does not hold")
BY = Key("by", ValueForm.WORD, "threads of the agent that execute it", ("thread", "warp", "all"))
_BY_VERBS = (
    "wait", "drain", "init", "arrive", "expect", "load", "store", "access", "bulk_load",
    "bulk_store", "mma", "cp_async", "async", "commit", "fence", "take", "give",
)  # fmt: skip
WHEN = Key("when", ValueForm.CONDITION, "the statement is executed where this holds")

_PROXY = Key(
    "proxy", ValueForm.WORD, "how it reaches memory", ("generic", "constant", "texture", "surface")
)
_VERBS: tuple[Verb, ...] = (
    Verb(
        "for",
        "loop",
        ValueForm.RANGE,
        (Key("do", ValueForm.BLOCK, "body of the loop", required=True),),
    ),
    Verb("if", "branch", ValueForm.CONDITION, (_THEN, _ELSE)),
    Verb("count", "counters take new values", ValueForm.ASSIGNMENTS),
    Verb("let", "names for expressions", ValueForm.ASSIGNMENTS),
    Verb(
        "compute",
        "a computation on the role's private values",
        ValueForm.IDENTIFIER,
        (Key("tile", ValueForm.EXPRESSION, "iteration that it belongs to"),),
    ),
    Verb("acquire", "wait until a stage is free", ValueForm.REFERENCES),
    Verb(
        "produce",
        "fill a stage",
        ValueForm.REFERENCES,
        (
            _BYTES,
            Key("poison", ValueForm.CONDITION, "where this holds the token is poisoned"),
            _BUFFERS,
            Key("last", ValueForm.BOOLEAN, "false: more statements fill the same stage"),
            Key("stored", ValueForm.BOOLEAN, "true: the agent fills it by stores"),
        ),
    ),
    Verb("read", "synchronous reads of a stage", ValueForm.REFERENCES, (_BUFFERS,)),
    Verb(
        "issue",
        "an asynchronous computation on stages",
        ValueForm.REFERENCES,
        (
            Key("mma", ValueForm.REFERENCES, "stages that it reads"),
            Key("as", ValueForm.IDENTIFIER, "group that it belongs to", required=True),
            Key("into", ValueForm.REFERENCES, "stages that it fills"),
            Key(
                "accumulates", ValueForm.REFERENCES, "stages that it writes, but does not complete"
            ),
            Key("reads", ValueForm.MEMORY, "buffers of no ring that it reads as well"),
        ),
        needs_object=False,
        call="mma",
    ),
    Verb(
        "release",
        "give a stage back",
        ValueForm.REFERENCES,
        (Key("after", ValueForm.IDENTIFIER, "group whose operations so far complete first"),),
    ),
    Verb(
        "when poisoned",
        ("branch on whether the stage of the last wait is poisoned"),
        ValueForm.REFERENCE,
        (_THEN, _ELSE),
    ),
    Verb(
        "finalize",
        ("end of the role: wait for all that it has started"),
        ValueForm.NOTHING,
        needs_object=False,
    ),
    Verb(
        "wait",
        "wait for a ring, an mbarrier, a named barrier or a queue",
        ValueForm.REFERENCES,
        (
            Key("parity", ValueForm.EXPRESSION, "parity of the phase that is waited for"),
            Key("phase", ValueForm.EXPRESSION, "number of the phase that is waited for, from 0"),
            Key("token", ValueForm.BOOLEAN, "wait for the phase of the agent's last token"),
            _ORDER,
            _SCOPE,
            _LEAVING,
            _PENDING,
            _UNTIL,
        ),
    ),
    Verb("drain", "wait for groups", ValueForm.REFERENCES, (_LEAVING, _PENDING, _UNTIL)),
    Verb("init", "initialise an mbarrier", ValueForm.REFERENCES, (_COUNT,)),
    Verb("invalidate", "invalidate an mbarrier", ValueForm.REFERENCES),
    Verb(
        "arrive",
        "arrive at an mbarrier or named barrier",
        ValueForm.REFERENCES,
        (
            _COUNT,
            _BYTES,
            Key("drop", ValueForm.BOOLEAN, "later phases expect fewer arrivals by the count"),
            Key("token", ValueForm.BOOLEAN, "keep the state of the phase"),
            _ORDER,
            _SCOPE,
            _THREADS,
        ),
    ),
    Verb(
        "expect",
        "expect bytes",
        ValueForm.REFERENCES,
        (Key("bytes", ValueForm.EXPRESSION, "bytes that are expected", required=True),),
    ),
    Verb("sync", "synchronise at a named barrier", ValueForm.REFERENCES, (_THREADS, _ORDER)),
    Verb("load", "reads of the agent itself", ValueForm.MEMORY, (_TILE, _PROXY)),
    Verb(
        "store",
        "writes of the agent itself",
        ValueForm.MEMORY,
        (_TILE, _PROXY, _REDUCES, _SCOPE),
    ),
    Verb(
        "access",
        "reads and writes of one instruction",
        ValueForm.MEMORY,
        (_READS, _WRITES, _TILE, _PROXY, _REDUCES, _SCOPE),
        needs_object=False,
    ),
    Verb(
        "bulk_load",
        "bulk copy into memory",
        ValueForm.MEMORY,
        (
            _TILE,
            _COMPLETES,
            _BYTES,
            _FROM,
            _QUEUE,
            _CHUNKS,
            Key(
                "multicast",
                ValueForm.CTAS,
                ("CTAs that receive the copy, each at the same place and barrier"),
            ),
            _DESCRIPTOR,
        ),
    ),
    Verb(
        "bulk_store",
        "bulk copy out of memory",
        ValueForm.MEMORY,
        (_TILE, _QUEUE, _TO, _DESCRIPTOR, _REDUCES),
    ),
    Verb("mma", "matrix multiplication", ValueForm.MEMORY, (_TILE, _QUEUE, _INTO)),
    Verb("cp_async", "asynchronous copy of the threads", ValueForm.MEMORY, (_TILE, _QUEUE, _FROM)),
    Verb("lds_dma", "direct-to-LDS load", ValueForm.MEMORY, (_TILE, _QUEUE, _FROM)),
    Verb(
        "async",
        "any asynchronous operation",
        ValueForm.MEMORY,
        (
            _READS,
            _WRITES,
            _TILE,
            _QUEUE,
            _COMPLETES,
            _BYTES,
            Key("proxy", ValueForm.WORD, "how it accesses", ("async", "generic", "tensormap")),
            _CHUNKS,
            _REDUCES,
        ),
        needs_object=False,
    ),
    Verb(
        "commit",
        "close a group",
        ValueForm.REFERENCES,
        (
            Key(
                "arrives",
                ValueForm.REFERENCE,
                ("mbarrier to arrive at when all operations are done"),
            ),
            _COUNT,
        ),
    ),
    Verb(
        "fence",
        "a proxy fence",
        ValueForm.WORD,
        (Key("spaces", ValueForm.NAMES, "only these memory spaces"),),
    ),
    Verb("take", "take from a pool", ValueForm.REFERENCES, (_AMOUNT,)),
    Verb("give", "give back to a pool", ValueForm.REFERENCES, (_AMOUNT,)),
)
VERBS = tuple(
    replace(verb, options=(*verb.options, BY)) if verb.name in _BY_VERBS else verb
    for verb in _VERBS
)
VERB_OF = {verb.name: verb for verb in VERBS}
FENCES = (
    "async",
    "async_release",
    "async_acquire",
    "tensormap_release",
    "tensormap_acquire",
    "barrier_init",
    "constant",
    "texture",
    "surface",
)
