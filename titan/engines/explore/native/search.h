/* The state of one search; included after core.h. */

enum { SHIFT_NONE, SHIFT_UNFAIR, SHIFT_FAIR };

#define CHUNK_BYTES ((size_t)1 << 20)

typedef struct {
    const titan_program *program;
    int error;                 /* ERROR_* after BROKEN */
    int incomplete;            /* a limit that kept some state from being expanded */
    int roots;                 /* choices of sizes that were tried for the first state */
    word fault;                /* rule number after FAULT */
    word need_parameter, need_record, need_level; /* after NEED */
    word scratch_size[2];
    int region_words, state_words;
    size_t pack_room;
    int symmetry, partial_order;
    word *base, *next, *root;  /* working states */
    word *shadow;              /* the root, shifted where the search shifted (trace.c) */
    uint8_t *packed, *segments;
    int32_t *segment_end, *segment_body, *order;
    word shifted;              /* SHIFT_*: what the last canonical form moved */
    /* the store of states */
    uint8_t **chunks;
    size_t chunk_count, chunk_room, chunk_used, chunk_bytes, bytes, bytes_max;
    uint64_t *offset;
    uint32_t *parent, *hash;
    uint64_t *slots;           /* open addressing: hash and number + 1, or 0 */
    uint32_t count, room, slot_mask, cursor;
    int64_t transitions, states_max;
    /* outcome */
    word found;                /* rule number of the fault that ended the search */
    uint32_t fault_state;
    step_t fault_step;         /* actor -1: the state itself is faulty */
    /* partial order reduction (closure.c) */
    struct closure *closure;
    int64_t reduced, full;
    /* sizes that left a window while a trace was followed */
    word *log;
    int64_t logged;
} search_t;

static inline word *agent_region(const search_t *s, const word *w, int agent)
{
    return (word *)w + s->program->fixed_words + (size_t)agent * s->region_words;
}

static inline const agent_t *agent_info(const search_t *s, int agent)
{
    return (const agent_t *)s->program->agent + agent;
}

static inline const node_t *node_at(const search_t *s, word node)
{
    return (const node_t *)s->program->nodes + node;
}

static inline const barrier_t *barrier_info(const search_t *s, word barrier)
{
    return (const barrier_t *)s->program->barrier + barrier;
}

static inline const queue_t *queue_info(const search_t *s, word queue)
{
    return (const queue_t *)s->program->queue + queue;
}

static inline word *barrier_at(const search_t *s, const word *w, word barrier)
{
    return (word *)w + s->program->off_barriers + B_WORDS * barrier;
}

static inline word *named_at(const search_t *s, const word *w, word named)
{
    return (word *)w + s->program->off_named + D_WORDS * named;
}

static inline word *cell_at(const search_t *s, const word *w, word cell)
{
    return (word *)w + s->program->off_cells + C_WORDS * cell;
}

static inline word *closed_at(const search_t *s, word *region, word queue)
{
    return region + A_VARIABLES + s->program->variables + queue;
}

static inline word *flight_at(const search_t *s, const word *region, int number)
{
    return (word *)region + A_VARIABLES + s->program->variables + s->program->queues
           + (size_t)number * s->program->flight_words;
}

/* Only the part of an agent's region that is in use is copied. */
static void copy_state(const search_t *s, word *to, const word *from)
{
    const titan_program *p = s->program;
    memcpy(to, from, sizeof(word) * (size_t)p->fixed_words);
    for (int a = 0; a < p->agents; a++) {
        const word *region = agent_region(s, from, a);
        size_t used = A_VARIABLES + p->variables + p->queues
                      + (size_t)region[A_FLIGHTS] * p->flight_words;
        memcpy(agent_region(s, to, a), region, used * sizeof(word));
    }
}
