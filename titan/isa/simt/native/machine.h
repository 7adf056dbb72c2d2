/* The native machine: the same semantics as the Python one beside it (execution.py and what
   it calls), which is the definition. Names follow it; the order of everything that is recorded is
   the same. Python fills `titan_code` and `titan_launch`, and reads a stream of words back.

   NUMBERS 1 compiles the same machine for another domain of values (titan/isa/numbers/native):
   nothing is recorded, and what is opaque here gets its numbers. */
#ifndef NUMBERS
#define NUMBERS 0
#endif
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BEGIN SHARED WITH PYTHON */
enum { RESULT_NUMBERS = 14 }; /* of titan_simt_numbers */
typedef struct {
    int32_t op, guard, negated, kind, bits;
    int32_t flags, flag_count, out, out_count, args, arg_count; /* places in the pool */
    int32_t join, region;                                       /* region -1: none */
} titan_step;
typedef struct {
    int32_t cyclic, refused, accesses, waits, alike, trapped;
    int32_t written, written_count, blocks, block_count, stores, store_count;
} titan_region;
typedef struct { int32_t reg, kind, special; uint64_t value; } titan_preset;
typedef struct {
    const titan_step *steps; int32_t step_count;
    const int64_t *pool;
    const titan_region *regions;
    const titan_preset *presets; int32_t preset_count;
    int32_t start, registers;
    int64_t local_bytes;
} titan_code;
typedef struct {
    int32_t data_type, rank, interleave, channels, pixels, swizzle, fill;
    int64_t base, dimensions[5], stride_bytes[5], box[5], element_strides[5], lower[5], upper[5];
    const uint8_t *bytes; /* the 128 bytes that represent the map */
} titan_map;
typedef struct {
    int32_t grid[3], block[3], cluster[3];
    int64_t shared_bytes, static_bytes, dynamic_start;
    const uint8_t *parameters, *parameter_state; int64_t parameter_bytes;
    const uint8_t *constants, *constant_state; int64_t constant_bytes;
    const titan_map *maps; int32_t map_count;
    const int64_t *bounds; int32_t bound_count; /* pairs; none: no bounds */
    const int64_t *holes; int32_t hole_count;   /* between variables: space, start, end */
    const int64_t *reaches;                     /* pairs by instruction, 0 for none; or null */
    const int32_t *ctas; int32_t cta_count;     /* clusters by one of their CTAs, in order */
    uint64_t seed; int64_t steps_max, events_max; int32_t first_poll_fails, highest_columns;
    int32_t strong_as_plain;
    int64_t cancelled; /* clusters that try_cancel obtains for each */
    int32_t in_turn;   /* counters are raised by each cluster in turn */
    const int64_t *draws; int64_t draw_count; /* for a counter: address, count, numbers */
    const int64_t *answers; int64_t answer_count; /* pairs: whether given, value; or null */
    const int32_t *decisions; int64_t decision_count; /* triples: CTA, warp, whether it jumps */
} titan_launch;
/* END SHARED WITH PYTHON */

__extension__ typedef __int128 wide_t;
__extension__ typedef unsigned __int128 unsigned_wide_t;
typedef int64_t word;
typedef struct Numbers Numbers; /* these three: titan/isa/numbers/native/numbers.h */
typedef struct CtaNumbers CtaNumbers;
typedef struct Transfer Transfer;
typedef struct EditedMap EditedMap; /* map_bytes.c */
typedef struct { word *data; int64_t count, room; } Words;

enum { KIND_PREDICATE, KIND_BITS, KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT, KIND_BFLOAT };
enum { GENERIC, SHARED, GLOBAL, LOCAL, CONSTANT, PARAMETER, TENSOR };
/* Windows in which an instruction may find its memory (accesses.py). */
enum { SHARED_WINDOW = 1 << SHARED, ATOMIC_WINDOWS = 1 << SHARED | 1 << GLOBAL,
       WRITTEN_WINDOWS = ATOMIC_WINDOWS | 1 << LOCAL };
enum { READ, WRITE, ATOMIC_MODE };
enum { WEAK, RELAXED, ACQUIRE, RELEASE, ACQUIRE_RELEASE, SEQUENTIAL, VOLATILE };
enum { UNWRITTEN, OPAQUE_BYTE, KNOWN, LIVE_BARRIER };
enum { BULK, COPY_QUEUE, WGMMA_QUEUE, TENSOR_LOAD_QUEUE, TENSOR_STORE_QUEUE, TENSOR_CORE, QUEUES };
enum { CLASHED = 1, ROUNDED = 2 }; /* lanes of an instruction, the second by rounding */
/* Marks of values; from the bit FIRST_BARRIER on one for each barrier that the warp has polled. */
typedef uint64_t Marks;
enum { MARK_POLL = 1, MARK_ATOMIC = 2 };
enum { FIRST_BARRIER = 8, LAST_BARRIER = 63, WAIT_FLAGS = 6 };
enum { FINISHED, HUNG, FAULT, REFUSED, BUDGET };
enum { WARPGROUP_WARPS = 4 };
enum { QUANTUM = 64, DELAY = 2, STALL = 100000, RANK_SHIFT = 24, LIMIT = (1 << 20) - 1 };
#define OFFSET_MASK 0xFFFFFFull
#define ALL_LANES 0xFFFFFFFFu
#define TOKEN (1ull << 62)
#define OBJECT_BITS 30
#define OBJECT_AT 32
#define NO_CTA (-1)

/* the numbers of operations.py */
enum {
    NOP, OPAQUE, MOV, ADD, SUB, MUL_LOW, MUL_HIGH, MUL_WIDE, MAD_LOW, MAD_HIGH, MAD_WIDE, DIV, REM,
    ABS, NEG, MIN, MAX, AND, OR, XOR, NOT, CNOT, SHL, SHR, FUNNEL, BFE, BFI, BREV, CLZ, POPC, BFIND,
    PRMT, LOP3, SETP, SET, SELP, SLCT, CVT, SAD, FMA, PACK, UNPACK, TO_GENERIC, FROM_GENERIC,
    IS_SPACE, MAPA, GET_RANK, BMSK, SZEXT, FNS, HALVES, CARRIED, TO_FLOAT, TO_INTEGER,
    BRANCH = 60, BRANCH_INDEXED, CALL, RETURN, EXIT, TRAP,
    SHUFFLE = 70, VOTE, MATCH, REDUX, ELECT, ACTIVE_MASK, WARP_SYNC, COLLECTIVE,
    LOAD = 80, STORE, ATOMIC, LOAD_MATRIX, STORE_MATRIX, PREFETCH, TENSORMAP_REPLACE,
    TENSORMAP_COPY,
    BARRIER_INIT = 90, BARRIER_INVALIDATE, BARRIER_ARRIVE, BARRIER_EXPECT, BARRIER_WAIT,
    BARRIER_PENDING,
    COPY = 100, COPY_COMMIT, COPY_WAIT, COPY_WAIT_ALL, COPY_ARRIVE, BULK_COPY, TENSOR_COPY,
    BULK_COMMIT, BULK_WAIT, STORE_ASYNC,
    WGMMA_FENCE = 120, WGMMA, WGMMA_COMMIT, WGMMA_WAIT,
    TENSOR_ALLOCATE = 130, TENSOR_DEALLOCATE, TENSOR_RELINQUISH, TENSOR_MULTIPLY,
    TENSOR_MEMORY_COPY, TENSOR_SHIFT, TENSOR_LOAD, TENSOR_STORE, TENSOR_WAIT, TENSOR_COMMIT,
    BARRIER_NAMED = 150, CLUSTER_ARRIVE, CLUSTER_WAIT, FENCE, GRID_CONTROL, REGISTER_COUNT,
    TRY_CANCEL, QUERY_CANCEL
};

enum { SAME_STEP = 1 << 16 }; /* of the instruction that made the record before, at once */
/* kinds of records; the order is that of `RECORDS` in native_events.py */
enum {
    EV_ACCESS, EV_ASYNCHRONOUS, EV_FINISH, EV_PREFETCH, EV_BARRIER_INIT, EV_BARRIER_INVALIDATE,
    EV_ARRIVE, EV_EXPECT_BYTES, EV_COPY_ARRIVE, EV_WAIT, EV_POLL_STEERED, EV_BARRIER_MISUSE,
    EV_COMMIT, EV_QUEUE_WAIT, EV_TENSOR_COMMIT, EV_RENDEZVOUS, EV_FENCE, EV_TENSOR_ALLOCATE,
    EV_TENSOR_DEALLOCATE, EV_TENSOR_RELINQUISH, EV_REGISTER_COUNT, EV_GRID_CONTROL, EV_ELECT,
    EV_REGISTER_BREACH, EV_MEMORY_FAULT, EV_EXIT, EV_ASSUMPTION, EV_SKIPPED, EV_POLL,
    EV_LANE_CLASH, EV_PARTIAL_COLLECTIVE
};
enum { USE_BRANCH, USE_ADDRESS, USE_GUARD, USE_STORE };
enum {
    POLICY_ELECTED_LANE, POLICY_WHOLE_WARP_BULK, POLICY_PARITY_REDUCED, POLICY_OPAQUE_GUARD,
    POLICY_OPAQUE_ADDRESS, POLICY_NO_CANCEL, POLICY_OPAQUE_INDEX, POLICY_PAIR_LANES,
    POLICY_QUARTER_LANES, POLICY_ZEROED_MAP,
    POLICIES
};
enum {
    MISUSE_NOT_INITIALISED, MISUSE_COUNT_UNDERFLOW, MISUSE_BYTES_RANGE, MISUSE_COUNT_RANGE,
    MISUSE_NO_COMPLETE_COMPLETED, MISUSE_OVERWRITTEN, MISUSE_MISALIGNED, MISUSE_OUTSIDE,
    MISUSE_FOREIGN_STATE = 9
};
enum { FAULT_OUTSIDE, FAULT_MISALIGNED, FAULT_NOT_ALLOCATED, FAULT_SPACE, FAULT_DESCRIPTOR,
       FAULT_NO_SUCH_CTA, FAULT_NEGATIVE_START };
enum {
    OP_BULK_COPY, OP_TENSOR_COPY, OP_BULK_REDUCE, OP_TENSOR_REDUCE, OP_COPY, OP_STORE, OP_REDUCE,
    OP_WGMMA, OP_TENSOR_MULTIPLY, OP_TENSOR_MEMORY_COPY, OP_TENSOR_SHIFT, OP_TENSOR_LOAD,
    OP_TENSOR_STORE, OP_TRY_CANCEL
};
enum { WAIT_NONE, WAIT_MEET, WAIT_MBARRIER, WAIT_NAMED, WAIT_CLUSTER, WAIT_TENSOR,
       WAIT_WGMMA, WAIT_PEER };

typedef struct { int64_t low, high; } Run;
typedef struct { Run *data; int64_t count, room; } Runs;
typedef struct { int64_t start, length; int32_t steps; int64_t count[5], distance[5]; } Box;

typedef struct { int32_t space, cta; int64_t first, boxes; uint64_t hash; } Footprint;

typedef struct { int32_t cta; int64_t offset; } Place;

typedef struct {
    int64_t offset, expected, pending, bytes, phase, id;
    int32_t fault_count, faults[8];
} MBarrier;

typedef struct { int64_t size; uint8_t *data, *state; } Bytes;
typedef struct { int64_t number; Bytes bytes; } Page;

/* One register of a warp: `uniform`: lane 0 represents all. An opaque lane holds its site. */
typedef struct { uint64_t v[32]; uint32_t opaque; int32_t uniform; } Value;

typedef struct Join Join;
typedef struct Warp Warp;
typedef struct LaneUses LaneUses;
typedef struct Located Located;
typedef struct Cta Cta;
typedef struct Cluster Cluster;

struct Join { int32_t pc, depth; uint32_t expected, arrived; Join *parent; int active; };

enum { PEEKS = 8 };
typedef struct { int32_t pc; Place place; int64_t phase; } Peek;
typedef struct {
    Warp *warp;
    uint32_t mask;
    int32_t pc, depth, stack[64]; /* the stack holds the instructions of the calls */
    Join *join;
    int32_t dead, blocked, polls;
    uint32_t blocked_mask;
    int32_t number, threads, aligned, required_by; /* of what it waits for */
    int64_t generation, object;
    Place place;
    int polled; int32_t polled_pc; Place polled_place; int64_t polled_phase;
    Peek peeked[PEEKS]; int peeks; /* the last ones that were false on purpose, in a ring */
    uint32_t required;
    Marks spared; int32_t spared_at; /* polls behind a branch that might have spared a wait, or 0 */
} Fragment;

typedef struct { int32_t cta; int64_t at, size; uint64_t value; } Stored; /* in shared memory */

typedef struct {
    int32_t number, kind, instruction, queue, done, answers, breached, arrive_count;
    Warp *warp;
    uint64_t answer; /* what it writes, if it answers */
    Stored *stored; int32_t stored_count; /* what is known of what it writes */
    uint32_t lanes, seen, reads_seen, arrived;
    int64_t due;
    int32_t writes[20], write_count; /* footprints; at most one for each CTA of a cluster */
    Place completes[16]; int64_t complete_bytes[16]; int32_t complete_count;
    Place arrives[16]; int32_t arrival_count;
    int32_t *after; int32_t after_count;
    Located *places; int32_t place_count; int64_t place_bytes; /* what lanes copy, by cp.async */
    uint32_t landed; /* lanes that waited for what they copy, or arrived for it */
    Transfer *transfer; int32_t copied; /* its results are in other registers, too */
} Operation;

typedef struct { Words open, closed, ends; int64_t head, last; } Groups;

struct Warp {
    Cta *cta;
    int32_t index;
    uint32_t live, launched;
    int64_t decided; /* where its next decision is looked for */
    Value *registers;
    Marks *marks, *sticky;
    Place polled[LAST_BARRIER - FIRST_BARRIER + 1]; int32_t polled_count; /* by marks */
    uint8_t *owned_kind;
    int32_t *owned, owned_count; /* operation + 1 */
    int16_t *owned_element; /* which result of it; of the domain of numbers */
    Bytes *local;
    Fragment **fragments; int32_t fragment_count, fragment_room;
    Join **joins; int32_t join_count, join_room;
    Groups *groups[QUEUES][33];
    Words meetings, issued;
    LaneUses *uses;
    int64_t arrivals[32];
};

typedef struct {
    int64_t arrived, expected, generation, used;
    Words values, last; /* truth of each lane: 0, 1, or 2 for opaque; of the meeting before */
} Named;

struct Cta {
    int32_t number, rank;
    Cluster *cluster;
    Bytes shared;
    Warp *warps; int32_t warp_count;
    MBarrier *barriers; int32_t barrier_count, barrier_room;
    Named named[16]; int32_t named_order[16], named_count;
    int32_t columns[512]; /* allocated at this column: how many */
    int in_pair; /* the last allocation was by both CTAs of a pair */
    int32_t pair_allocations; /* of both CTAs of a pair, that this one has come to */
    CtaNumbers *numbers;
};

struct Cluster { Cta *ctas; int32_t cta_count; int64_t arrived, generation, cancelled; int gone; };

typedef struct {
    const titan_code *code;
    const titan_launch *launch;
    int32_t warps_each;
    Words events, steering, polls, atomics, counters;
    Words undefined; /* instructions whose result was left open */
    int64_t event_count, recorded_count; /* the step of the last record, with its warp and place */
    const Warp *recorded_warp;
    int32_t recorded_pc;
    Footprint *footprints; int64_t footprint_count, footprint_room;
    Box *boxes; int64_t box_count, box_room;
    int64_t *slots, slot_count;
    Cluster **clusters; int32_t cluster_count, cluster_room; /* running */
    Cluster **all; int32_t all_count, all_room;
    Cta **by_number;
    int32_t next_cluster;
    Operation **operations; int64_t operation_count, operation_room;
    Words flight;
    int64_t tick, count, progress, barrier_ids;
    uint64_t random;
    int maybe, looping, parted, uncertain;
    int64_t passed_in_arms; /* attempts to wait that have passed in an arm of a branch on data */
    int64_t arm_start; /* the next operation when the arm of a branch on data began */
    Page *pages; int64_t page_count, page_slots;
    uint16_t *assumed; /* the policies by bit, at each instruction */
    uint8_t *atomic_sites, *undefined_sites;
    uint8_t *clashed; /* what has been recorded of lanes at each instruction: these bits */
    Fragment **graves; int64_t grave_count, grave_room;
    Join **all_joins; int64_t all_join_count, all_join_room;
    Runs scratch;
    int32_t ending, site, end_cta, end_warp;
    int64_t origin, map_offset;
    int64_t asked; /* how many answers have been given */
    uint8_t written[512]; int64_t written_count; /* what the access being recorded writes */
    char reason[256];
    Words waiters;
    EditedMap *edited;
    Numbers *numbers;
    jmp_buf stop;
} Machine;

#define FLAG(step, n) ((machine)->code->pool[(step)->flags + (n)])
#define ARG(step, n) ((int32_t)(machine)->code->pool[(step)->args + (n)])
#define OUT(step, n) ((int32_t)(machine)->code->pool[(step)->out + (n)])
