"""What the native explorer and its Python side share, described once: numbers, records, tables.

The C declarations are generated from this module when the core is built (`header`, `declarations`),
so a number or a field that is added here is known on both sides. The order of the fields of a
record is the order of the words of a row; the generated header asserts every offset. The module
imports nothing of the package, because the build reads it before the package is installed.
"""

from __future__ import annotations

from enum import IntEnum

LIMITS = {
    "AGENTS_MAX": 60,  # agents are bits of a word
    "EFFECTS_MAX": 256,  # of one operation
    "FLIGHTS_MAX": 256,  # operations of one agent in flight
    "FLIGHT_WORDS_MAX": 544,
}


class NativeNodeKind(IntEnum):
    """What one node of the control flow does."""

    END = 0
    ASSIGN = 1
    TEST = 2
    ACCESS = 3
    ISSUE = 4
    COMMIT = 5
    QUEUE_WAIT = 6
    QUEUE_ARRIVE = 7
    INIT = 8
    INVALIDATE = 9
    ARRIVE = 10
    EXPECT = 11
    WAIT = 12
    TOKEN_WAIT = 13
    NAMED_SYNC = 14
    NAMED_ARRIVE = 15
    NAMED_WAIT = 16
    FENCE = 17
    TAKE = 18
    GIVE = 19


class Opcode(IntEnum):
    """The bytecode of expressions (native/expression.c)."""

    END = 0
    CONSTANT = 1
    VARIABLE = 2
    SELF = 3
    PARAMETER = 4
    ADD = 5
    SUB = 6
    MUL = 7
    DIV = 8
    MOD = 9
    MIN = 10
    MAX = 11
    LT = 12
    LE = 13
    EQ = 14
    NE = 15
    GE = 16
    GT = 17
    NOT = 18
    AND = 19
    OR = 20
    BOOL = 21
    TEST_PARAMETER = 22


class ProxyNumber(IntEnum):
    """The proxies; from CONSTANT on they are cached (marks.c)."""

    GENERIC = 0
    ASYNC = 1
    TENSORMAP = 2
    CONSTANT = 3
    TEXTURE = 4
    SURFACE = 5


class FenceNumber(IntEnum):
    """The kinds of fences."""

    ASYNC = 0
    RELEASE = 1
    ACQUIRE = 2
    INIT = 3
    CONSTANT = 4
    TEXTURE = 5
    SURFACE = 6
    ASYNC_RELEASE = 7
    ASYNC_ACQUIRE = 8


class NodeFlag(IntEnum):
    """Bits of `node_t.flags`."""

    DROP = 1
    TOKEN = 2
    READ = 4
    QUIET = 8  # it publishes nothing, or learns nothing (titan/sync/weak.py)


class StepActor(IntEnum):
    """Who takes a step; DECIDE fixes a size and never leaves the core."""

    AGENT = 0
    READS = 1
    FINISH = 2
    DECIDE = 3


class NativeBarrierStatus(IntEnum):
    """The life of an mbarrier: its initialisation is published by a fence."""

    ABSENT = 0
    UNPUBLISHED = 1
    USABLE = 2


class RunStatus(IntEnum):
    """What one slice of a search ended with."""

    DONE = 0
    CONTINUES = 1
    FAULT = 2
    STATES = 3  # the budget of states is spent
    BROKEN = 4  # see SearchError


class SearchError(IntEnum):
    """Why a search broke off."""

    NONE = 0
    DIVISION = 1
    LOCAL_LOOP = 2
    FLIGHTS = 3
    NUMBER = 4
    WINDOW = 5
    LEVEL = 6
    MEMORY = 7
    TRACE = 8
    RELAY = 9


class SearchNumber(IntEnum):
    """Places in what `titan_numbers` writes."""

    STATES = 0
    TRANSITIONS = 1
    BYTES = 2
    FAULT = 3
    ERROR = 4
    REDUCED = 5
    FULL = 6
    EXPANDED = 7
    COUNT = 8


class NativeFault(IntEnum):
    """The rules that a search can find broken: numbers of their codes."""

    NONE = 0
    DATA_RACE = 201
    OVERWRITE_IN_FLIGHT = 202
    READ_BEFORE_ARRIVAL = 203
    STALE_READ = 204
    DEADLOCK = 205
    OVER_ARRIVAL = 206
    TRANSACTION_MISMATCH = 207
    BARRIER_UNINITIALISED = 208
    BARRIER_LIFECYCLE = 209
    NAMED_BARRIER_MISUSE = 210
    LEAK_AT_EXIT = 211
    LAPPED_WAIT = 212
    POOL_MISUSE = 213
    INDEX_OUT_OF_RANGE = 214
    UNOBSERVED_PHASE = 216
    MISSING_FENCE = 301
    MISSING_FENCE_WAR = 302
    UNPUBLISHED_INIT = 303
    MISSING_TENSORMAP_FENCE = 304
    MISSING_CACHED_FENCE = 307


class BarrierWord(IntEnum):
    """Words of one mbarrier among the fixed words."""

    STATUS = 0
    OWNER = 1
    EXPECTED = 2
    PENDING = 3
    BYTES = 4
    PHASE = 5
    TOKENS = 6
    OBSERVED = 7
    CARRYING = 8
    CARRIED = 9
    ARMED = 10
    WORDS = 11


class NamedWord(IntEnum):
    """Words of one named barrier among the fixed words; the last two where events are followed."""

    ARRIVED = 0
    EXPECTED = 1
    AGENTS = 2
    SYNCS = 3
    ARMED = 4
    CARRYING = 5
    CARRIED = 6
    WORDS = 7


class CellWord(IntEnum):
    """Words of one cell among the fixed words."""

    TILE = 0
    WRITERS = 1
    READERS = 2
    MAP = 3
    WORDS = 4


class MarkWord(IntEnum):
    """Words of the marks of one cell, where the program has such (marks.c).

    By cached proxy the agents whose reads, writes are inside; domains that reads, writes outside
    have yet to enter; and from RELEASED on, where there are one-way fences, by agent (the engines
    last) who has yet to acquire what it has read, written.
    """

    READS = 0
    WRITES = 3
    READS_OUTSIDE = 6
    WRITES_OUTSIDE = 7
    RELEASED = 8


PREFIXES: dict[type[IntEnum], str] = {
    NativeNodeKind: "N_", Opcode: "OP_", ProxyNumber: "PROXY_", FenceNumber: "FENCE_",
    NodeFlag: "FLAG_", StepActor: "STEP_", NativeBarrierStatus: "BARRIER_", RunStatus: "RUN_",
    SearchError: "ERROR_", SearchNumber: "NUMBER_", NativeFault: "FAULT_", BarrierWord: "B_",
    NamedWord: "D_", CellWord: "C_", MarkWord: "M_",
}  # fmt: skip

# Rows of words. In `node_t`, `x` is a variable, a queue, a pool, a fence kind or the first barrier
# of an array of `y`; a, b, c are expressions (-1: absent); `live`: variables whose value still
# matters when an agent stands here; `restart`: shift classes in which a variable may still be set
# from a constant; `reads`: windows of sizes that may still be read from here on; `rewinds`: of
# these, windows whose outer variable may still be set from a constant.
#
# `parameter_t.per`: 0 a single number, 1 a number for every value of an outer variable. `base` is
# its place among the fixed words: single [level, decided]; per [first instance, window x (level,
# decided)]. `length` numbers are given from `table` on; `fixed`: one given number for all.
#
# `class_t`: numbers that shift together by `period` once all are at or above `threshold`;
# `companion`: a class whose members are stepped whenever those of this one are (or the class
# itself); the tiles that it counts distinguish operations in flight.
RECORDS: dict[str, tuple[str, ...]] = {
    "node_t": (
        "kind", "next", "alt", "a", "b", "c", "x", "y", "effect", "effects", "completion",
        "completions", "chunks", "flags", "live", "restart", "reads", "rewinds",
    ),
    "effect_t": (
        "buffer", "stage", "part", "write", "tile", "proxy", "accumulates", "reduction",
    ),
    "completion_t": ("first", "stages", "index", "bytes"),
    "buffer_t": ("stages", "parts", "cta", "region"),
    "region_t": ("first", "end"),
    "cell_t": ("home", "writers", "readers", "map", "tile"),  # home -1: the memory of no CTA
    # phase 0: only its lowest bit is kept; watched: engines of another CTA arrive
    "barrier_t": ("cta", "phase", "watched"),
    # pairs: of a pipelined queue what its data path keeps in order (`pair_bits` in rows.py)
    "queue_t": ("ordered", "grouped", "pipelined", "split", "pairs"),
    "agent_t": ("role", "member", "threads", "cta", "entry"),
    "role_t": ("first", "agents", "variables", "queues", "symmetric"),
    "cover_t": ("cell", "near"),
    "domains_t": ("cached", "async"),  # of a cell: domains by number
    "parameter_t": (
        "per", "base", "minimum", "table", "length", "limit", "fixed", "outer_class",
    ),
    "class_t": ("period", "threshold", "parameter", "companion"),
}  # fmt: skip

# The numbers of a program. `mark_fields` 0: no marks; `follows`: whether it is followed who knows
# of which accesses (visible.c); `terminates`: whether every run with given sizes ends (endings.py).
COUNTS = (
    "agents", "roles", "barriers", "named", "cells", "pools", "parameters", "queues", "classes",
    "variables", "flight_words", "window", "fixed_words", "live_words", "mask_words",
    "off_barriers", "off_named", "off_cells", "off_pools", "off_known", "off_marks",
    "mark_fields", "domain_ctas", "terminates", "nodes_total", "closure_operations", "follows",
    "refuse_exit", "path_rule", "war_fence", "assume_init", "allow_unobserved",
)  # fmt: skip

# The tables of a program: their rows are records, or rows of as many words as the text says.
TABLES: dict[str, str] = {
    "code": "bytecode",
    "nodes": "node_t",
    "effects": "effect_t",
    "completions": "completion_t",
    "buffers": "buffer_t",
    "regions": "region_t",
    "cell": "cell_t",
    "barrier": "barrier_t",
    "queue": "queue_t",
    "agent": "agent_t",
    "role": "role_t",
    "covers": "cover_t",
    "parameter": "parameter_t",
    "classes_table": "class_t",
    "initial": "the fixed words of the first state",
    "per_sizes": "sizes given by value of an outer variable",
    "live": "fixed words to store",
    "masks": "fixed words that are masks of agents",
    "variable_class": "roles x variables: class or -1",
    "outer": "roles x parameters: the outer variable or -1",
    "role_queue": "roles x queues: whether the role uses the queue",
    "parameter_class": "parameters: class or -1",
    "cell_shift": "classes x cells: tile shift in one period",
    "cell_ancient": "classes x cells: tiles below are never expected again",
    "barrier_shift": "classes x barriers: phase shift in one period",
    "first_values": "roles x variables",
    "tagged": "cells: whether some class shifts the tiles of the cell",
    "write_events": "cells: event or -1",
    "overwrite_events": "cells: event of the last write for who overwrites it, or -1",
    "read_events": "cells x agents: event or -1",
    "cell_domains": "domains_t",
    "domain": "proxies x CTAs: number of the domain or -1",
    "issuers": "one: agents that issue asynchronous accesses",
    "concerned": "agents: events that an access of theirs may rest on",
}

FUNCTIONS = """
typedef struct { int32_t actor, agent, ordinal; } step_t;
typedef ... search_t;
search_t *titan_new(const titan_program *p, int symmetry, int partial_order, int64_t states_max,
                    int64_t bytes_max);
int titan_run(search_t *s, int64_t slice);
void titan_numbers(const search_t *s, int64_t *out);
int64_t titan_path_length(const search_t *s);
int64_t titan_trace(search_t *s, step_t *steps, word *sizes);
int64_t titan_logged(const search_t *s);
void titan_log(const search_t *s, int64_t number, word *out);
void titan_free(search_t *s);
"""


def program_declaration() -> str:
    """The C structure of a program: its numbers, then its tables."""
    counts = "\n".join(f"    int32_t {name};" for name in COUNTS)
    tables = "\n".join(f"    const word *{name};" for name in TABLES)
    return f"typedef struct {{\n{counts}\n{tables}\n}} titan_program;\n"


def declarations() -> str:
    """What cffi is given: the program and the functions."""
    return "typedef int64_t word;\n" + program_declaration() + FUNCTIONS


def header() -> str:
    """The generated part of the C source, before native/core.h."""
    lines = ["/* Generated from titan/engines/explore/layout.py. */"]
    lines += ["#include <stddef.h>", "#include <stdint.h>", "typedef int64_t word;"]
    lines += [f"#define {name} {value}" for name, value in LIMITS.items()]
    for enum, prefix in PREFIXES.items():
        members = ", ".join(f"{prefix}{item.name} = {item.value}" for item in enum)
        lines.append(f"enum {{ {members} }};")
    for record, fields in RECORDS.items():
        lines.append(f"typedef struct {{ word {', '.join(fields)}; }} {record};")
        lines += [
            f"_Static_assert(offsetof({record}, {name}) == {place} * sizeof(word), "
            f'"{record}.{name}");'
            for place, name in enumerate(fields)
        ]
        lines.append(
            f'_Static_assert(sizeof({record}) == {len(fields)} * sizeof(word), "{record}");'
        )
    lines.append(program_declaration())
    return "\n".join(lines)
