/* Shared declarations of the native explorer: program tables, working state, results.
 *
 * Every number is a 64 bit word. A working state is one flat array: fixed words (sizes, barriers,
 * named barriers, cells, pools) followed by one region per agent (position, variables, queues and
 * operations in flight). Stored states are packed byte strings of exactly the words that matter.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t word;

#define TILE_UNDEFINED (-((word)1 << 40))
#define TILE_ANY (TILE_UNDEFINED + 1)
#define TILE_ANCIENT (TILE_UNDEFINED + 2)
#define ENGINE_BIT ((word)1 << 62)
#define TRANSACTION_MAX (((word)1 << 20) - 1)
#define LOCAL_STEPS_MAX 1000000
#define FLIGHTS_MAX 48
#define STACK_MAX 96
#define EFFECTS_MAX 32
#define AGENTS_MAX 60
#define FLIGHT_WORDS_MAX 128

/* Results of executing or evaluating something. */
enum { DONE = 0, FAULT = 1, NEED = 2, BROKEN = 3, STAYS = 4, BLOCKED = 5 };

/* Why a search broke off (`titan_search.error`). */
enum {
    ERROR_DIVISION = 1, ERROR_LOCAL_LOOP, ERROR_FLIGHTS, ERROR_NUMBER, ERROR_WINDOW, ERROR_LEVEL,
    ERROR_MEMORY, ERROR_TRACE, ERROR_RELAY
};

enum {
    OP_END, OP_CONSTANT, OP_VARIABLE, OP_SELF, OP_PARAMETER, OP_ADD, OP_SUB, OP_MUL, OP_DIV,
    OP_MOD, OP_MIN, OP_MAX, OP_LT, OP_LE, OP_EQ, OP_NE, OP_GE, OP_GT, OP_NOT, OP_AND, OP_OR,
    OP_BOOL, OP_TEST_PARAMETER
};

enum {
    N_END, N_ASSIGN, N_TEST, N_ACCESS, N_ISSUE, N_COMMIT, N_QUEUE_WAIT, N_QUEUE_ARRIVE, N_INIT,
    N_INVALIDATE, N_ARRIVE, N_EXPECT, N_WAIT, N_TOKEN_WAIT, N_NAMED_SYNC, N_NAMED_ARRIVE,
    N_NAMED_WAIT, N_FENCE, N_TAKE, N_GIVE
};

enum { PROXY_GENERIC, PROXY_ASYNC, PROXY_TENSORMAP, PROXY_CONSTANT, PROXY_TEXTURE, PROXY_SURFACE };
enum { FENCE_ASYNC, FENCE_RELEASE, FENCE_ACQUIRE, FENCE_INIT, FENCE_CONSTANT, FENCE_TEXTURE,
       FENCE_SURFACE, FENCE_ASYNC_RELEASE, FENCE_ASYNC_ACQUIRE };
enum { FLAG_DROP = 1, FLAG_TOKEN = 2, FLAG_READ = 4 };
enum { STEP_AGENT, STEP_READS, STEP_FINISH, STEP_DECIDE };

/* One node of the control flow. `x` is a variable, a queue, a pool, a fence kind or the first
 * barrier of an array of `y`; a, b, c are expressions (-1: absent). */
typedef struct {
    word kind, next, alt, a, b, c, x, y, effect, effects, completion, completions, chunks, flags;
    word live;    /* variables whose value still matters when an agent stands here */
    word restart; /* shift classes in which a variable may still be set from a constant */
    word reads;   /* windows of sizes that may still be read from here on */
    word rewinds; /* of these: windows whose outer variable may still be set from a constant */
} node_t;

typedef struct { word buffer, stage, part, write, tile, proxy; } effect_t;
typedef struct { word first, stages, index, bytes; } completion_t;
typedef struct { word stages, parts, cta, piece; } buffer_t;
typedef struct { word first, end; } piece_t;
typedef struct { word home, writers, readers, map, tile; } cell_t; /* home -1: no CTA's memory */
typedef struct { word cta, phase; } barrier_t; /* phase 0: only its lowest bit is kept */
typedef struct { word ordered, grouped, pipelined, split; } queue_t;
typedef struct { word role, member, threads, cta, entry; } agent_t;
typedef struct { word first, agents, variables, queues, symmetric; } role_t;
typedef struct { word cell, near; } cover_t;
typedef struct { word cached, async; } domains_t; /* of a cell: domains by number */

/* `per`: 0 a single number, 1 a number for every value of an outer variable. `base` is its place
 * among the fixed words: single [level, decided]; per [first instance, window x (level, decided)].
 * `length` numbers are given from `table` on; `fixed`: one given number for all. */
typedef struct { word per, base, minimum, table, length, limit, fixed, outer_class; } parameter_t;

/* A class of numbers that shift together by `period` once all are at or above `threshold`. */
/* `companion`: a class whose members are stepped whenever those of this one are (or the class
 * itself); the tiles that it counts tell operations in flight apart. */
typedef struct { word period, threshold, parameter, companion; } class_t;

typedef struct {
    int32_t agents, roles, barriers, named, cells, pools, parameters, queues, classes;
    int32_t variables, flight_words, window, fixed_words, live_words, mask_words;
    int32_t off_barriers, off_named, off_cells, off_pools, off_known;
    int32_t off_marks, mark_fields, domain_ctas; /* marks.c; no fields: no such marks */
    int32_t terminates; /* whether every run with given sizes ends (endings.py) */
    int32_t nodes_total, closure_operations;
    int32_t follows; /* whether it is followed who knows of which accesses (visible.c) */
    int32_t refuse_exit, path_rule, war_fence, assume_init, allow_unobserved;
    const word *code, *nodes, *effects, *completions, *buffers, *pieces, *cell, *barrier, *queue;
    const word *agent, *role, *covers, *parameter, *classes_table, *initial, *per_sizes;
    const word *live, *masks;          /* fixed words to store; fixed words that are agent masks */
    const word *variable_class;        /* roles x variables: class or -1 */
    const word *outer;                 /* roles x parameters: the outer variable or -1 */
    const word *role_queue;            /* roles x queues: whether the role uses the queue */
    const word *parameter_class;       /* per parameter: class or -1 */
    const word *cell_shift;            /* classes x cells: tile shift in one period */
    const word *cell_ancient;          /* classes x cells: tiles below are never expected again */
    const word *barrier_shift;         /* classes x barriers: phase shift in one period */
    const word *first_values;          /* roles x variables */
    const word *tagged;                /* cells: whether some class shifts the tiles of the cell */
    const word *write_events;          /* cells: event or -1 */
    const word *read_events;           /* cells x agents: event or -1 */
    const word *cell_domains;          /* cells: domains_t */
    const word *domain;                /* proxies x CTAs: number of the domain or -1 */
    const word *issuers;               /* one: agents that issue asynchronous accesses */
    const word *concerned;             /* agents: events that an access of theirs may rest on */
} titan_program;

/* Words of one mbarrier, named barrier and cell among the fixed words. */
enum { B_STATUS, B_OWNER, B_EXPECTED, B_PENDING, B_BYTES, B_PHASE, B_TOKENS, B_OBSERVED,
       B_TELLING, B_TOLD, B_WORDS };
enum { D_ARRIVED, D_EXPECTED, D_AGENTS, D_SYNCS, D_TELLING, D_TOLD, D_WORDS };
enum { C_TILE, C_WRITERS, C_READERS, C_MAP, C_WORDS };

/* Words of the marks of one cell, where the program has such (marks.c): by cached proxy the agents
 * whose reads, writes are inside; domains that reads, writes outside have yet to enter; and, where
 * there are one-way fences, by agent (the engines last) who has yet to acquire what it has read,
 * written. */
enum { M_READS, M_WRITES = 3, M_READS_OUTSIDE = 6, M_WRITES_OUTSIDE, M_RELEASED };

/* C_MAP: the agents that have yet to release what they wrote of a tensor map, or this. */
#define MAP_RELEASED ((word)-1)

/* Words of an agent's region before its variables, and of a flight before its values.
 * A flight's values: (piece, tile) of every effect, then (barrier, amount) of every completion. */
enum { A_NODE, A_ISSUED, A_FLIGHTS, A_VARIABLES };
enum { F_NODE, F_GROUP, F_READING, F_CHUNKS, F_ORDINAL, F_KNOWN, F_VALUES };
#define GROUP_OPEN (-1)

typedef struct { int32_t actor, agent, ordinal; } step_t;

#define ROOT_SPLITS_MAX 64
#define ROOTS_MAX 20000 /* choices of sizes tried for the first state */
#define DECISION_REACH 256
