/* One step of one agent: the meaning of every operation, fault by fault in the order in which
 * titan/sync/interpreter.py looks for them. Engine steps and faults of states are in engine.c. */

static int agent_value(search_t *s, word *w, int agent, word expression, word *out)
{
    return evaluate(s, w, agent_region(s, w, agent) + A_VARIABLES, agent_info(s, agent)->member,
                    expression, out);
}

/* Whether the memory of the CTA is gone. A CTA without agents never ends. */
static int cta_gone(const search_t *s, const word *w, word cta)
{
    int agents = 0;
    if (!s->program->refuse_exit)
        return 0;
    for (int a = 0; a < s->program->agents; a++) {
        if (agent_info(s, a)->cta != cta)
            continue;
        if (node_at(s, agent_region(s, w, a)[A_NODE])->kind != N_END)
            return 0;
        agents += 1;
    }
    return agents > 0;
}

static int advance(search_t *s, word *w, int agent)
{
    word *region = agent_region(s, w, agent);
    region[A_NODE] = node_at(s, region[A_NODE])->next;
    return settle(s, w, region + A_VARIABLES, agent_info(s, agent)->member, region + A_NODE);
}

/* ------------------------------------------------------------------------------ memory */

typedef struct { word region, first, end, tile; } place_t;

/* Cells and tile of one effect; leaves FAULT for a stage that does not exist. */
static int resolve(search_t *s, word *w, int agent, const effect_t *effect, int exits,
                   place_t *out)
{
    const buffer_t *buffer = (const buffer_t *)s->program->buffers + effect->buffer;
    const region_t *regions = (const region_t *)s->program->regions;
    word stage = 0, part = 0, tile = TILE_ANY;
    int result = agent_value(s, w, agent, effect->stage, &stage);
    if (result == DONE && effect->part >= 0)
        result = agent_value(s, w, agent, effect->part, &part);
    if (result != DONE)
        return result;
    if (stage < 0 || stage >= buffer->stages || part < 0 || part >= buffer->parts)
        return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    if (exits && buffer->cta != agent_info(s, agent)->cta && cta_gone(s, w, buffer->cta))
        return fault(s, FAULT_LEAK_AT_EXIT);
    if (effect->tile >= 0) {
        result = agent_value(s, w, agent, effect->tile, &tile);
        if (result != DONE)
            return result;
        if (tile < TILE_MIN)
            return broken(s, ERROR_NUMBER);
    }
    out->region = buffer->region + stage * buffer->parts + part;
    out->first = regions[out->region].first;
    out->end = regions[effect->part >= 0 ? out->region : out->region + buffer->parts - 1].end;
    out->tile = tile;
    return DONE;
}

/* Whether two effects are reductions of one kind (titan/sync/reductions.py): they need no order. */
static int commute(const effect_t *first, const effect_t *second)
{
    return first->reduction > 0 && first->reduction == second->reduction;
}

/* Whether the data path orders the flight before a new operation of `queue` of the same agent. */
static int piped(const search_t *s, const word *flight, int owner, int agent, word queue)
{
    return owner == agent && queue >= 0 && queue < s->program->queues
           && queue_info(s, queue)->pipelined && node_at(s, flight[F_NODE])->x == queue;
}

static void flight_place(const search_t *s, const word *flight, int number, word *first, word *end)
{
    const node_t *node = node_at(s, flight[F_NODE]);
    const effect_t *effect = (const effect_t *)s->program->effects + node->effect + number;
    const buffer_t *buffer = (const buffer_t *)s->program->buffers + effect->buffer;
    const region_t *regions = (const region_t *)s->program->regions;
    word region = flight[F_VALUES + 2 * number];
    *first = regions[region].first;
    *end = regions[effect->part >= 0 ? region : region + buffer->parts - 1].end;
}

/* What an effect does in a pipe: it reads (0), writes (1), or writes an accumulator (2). */
static int pipe_use(const effect_t *effect)
{
    return effect->write ? 1 + !!effect->accumulates : 0;
}

/* Whether the pipe keeps an earlier effect before a new one, by the pairs of the queue
 * (titan/sync/pipe_order.py); `same`: they are of one region. */
static int pipe_keeps(word pairs, const effect_t *earlier, const effect_t *later, int same)
{
    int bit = 3 * pipe_use(earlier) + pipe_use(later);
    return (int)(pairs >> bit & 1) || (same && (pairs >> (9 + bit) & 1));
}

/* What flights hold of a cell: faults of a new access of it, and the tile a piped read meets. */
static int check_flights(search_t *s, word *w, int agent, word queue, word cell,
                         const effect_t *made, const place_t *place, word *held)
{
    int write = (int)made->write;
    for (int owner = 0; owner < s->program->agents; owner++) {
        const word *region = agent_region(s, w, owner);
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            const word *flight = flight_at(s, region, f);
            const node_t *node = node_at(s, flight[F_NODE]);
            int ordered = piped(s, flight, owner, agent, queue);
            for (int e = 0; e < node->effects; e++) {
                const effect_t *effect = (const effect_t *)s->program->effects + node->effect + e;
                word first, end;
                flight_place(s, flight, e, &first, &end);
                if (cell < first || cell >= end || commute(made, effect))
                    continue;
                int same = place && place->first == first && place->end == end;
                if (ordered && pipe_keeps(queue_info(s, queue)->pairs, effect, made, same)) {
                    if (!write)
                        *held = flight[F_VALUES + 2 * e + 1];
                } else if (write && (effect->write || flight[F_READING])) {
                    return fault(s, FAULT_OVERWRITE_IN_FLIGHT);
                } else if (!write && effect->write) {
                    return fault(s, FAULT_READ_BEFORE_ARRIVAL);
                }
            }
        }
    }
    return DONE;
}

/* `place` is that of the effect made, in a queue or (-1) at once. */
static int check_cell(search_t *s, word *w, int agent, word queue, word cell, const effect_t *made,
                      const place_t *place)
{
    word held = cell_at(s, w, cell)[C_TILE], tile = place->tile;
    const place_t *accumulator = made->accumulates ? place : NULL;
    int result = check_flights(s, w, agent, queue, cell, made, accumulator, &held);
    if (result != DONE || (made->write && !made->reduction))
        return result;
    return tile != TILE_ANY && tile != held ? fault(s, FAULT_STALE_READ) : DONE;
}

static void mark_cell(search_t *s, word *w, word cell, int write, word bit)
{
    const cell_t *info = (const cell_t *)s->program->cell + cell;
    word *held = cell_at(s, w, cell);
    if (write) {
        if (info->writers)
            held[C_WRITERS] |= bit;
        map_written(s, w, cell, bit);
    } else if (info->readers) {
        held[C_READERS] |= bit;
    }
    went_outside(s, w, cell, write);
}

static word kept_tile(const search_t *s, word cell, word tile)
{
    return ((const cell_t *)s->program->cell)[cell].tile ? tile : TILE_ANY;
}

static int do_access(search_t *s, word *w, int agent, const node_t *node)
{
    const effect_t *effects = (const effect_t *)s->program->effects + node->effect;
    place_t places[EFFECTS_MAX];
    for (int e = 0; e < node->effects; e++) {
        int result = resolve(s, w, agent, effects + e, 1, places + e);
        if (result != DONE)
            return result;
    }
    for (int e = 0; e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end; cell++) {
            int write = (int)effects[e].write, generic = effects[e].proxy < PROXY_CONSTANT;
            word proxy = generic ? PROXY_GENERIC : effects[e].proxy;
            int result = check_cached(s, w, agent, cell, write, proxy);
            if (result == DONE)
                result = check_cell(s, w, agent, -1, cell, effects + e, places + e);
            if (result != DONE)
                return result;
        }
    for (int e = 0; s->program->follows && e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end; cell++)
            rests_on(s, w, agent, cell, effects + e, 0);
    for (int e = 0; e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end; cell++) {
            if (s->program->follows && effects[e].write)
                written(s, w, cell, agent);
            else if (s->program->follows)
                happen(s, w, read_event(s, cell, agent), agent);
            if (effects[e].write && !effects[e].reduction)
                cell_at(s, w, cell)[C_TILE] = kept_tile(s, cell, places[e].tile);
            if (effects[e].proxy >= PROXY_CONSTANT)
                went_inside(s, w, cell, effects + e, agent);
            else
                mark_cell(s, w, cell, (int)effects[e].write, (word)1 << agent);
        }
    return DONE;
}

static int check_proxy(search_t *s, word *w, int agent, word cell, int write, word proxy)
{
    const word *held = cell_at(s, w, cell);
    if (proxy == PROXY_ASYNC) {
        if (held[C_WRITERS] || unacquired(s, w, cell, agent, 1))
            return fault(s, FAULT_MISSING_FENCE);
        if (write && s->program->war_fence
            && (held[C_READERS] || unacquired(s, w, cell, agent, 0)))
            return fault(s, FAULT_MISSING_FENCE_WAR);
    } else if (proxy == PROXY_TENSORMAP && held[C_MAP]) {
        return fault(s, FAULT_MISSING_TENSORMAP_FENCE);
    }
    return DONE;
}

/* -------------------------------------------------------------------------------- issue */

static word *new_flight(search_t *s, word *region, word node, word queue)
{
    if (region[A_FLIGHTS] >= FLIGHTS_MAX) {
        s->error = ERROR_FLIGHTS;
        return NULL;
    }
    word *flight = flight_at(s, region, (int)region[A_FLIGHTS]++);
    memset(flight, 0, sizeof(word) * (size_t)s->program->flight_words);
    flight[F_NODE] = node;
    flight[F_ORDINAL] = region[A_ISSUED]++;
    flight[F_GROUP] = GROUP_OPEN;
    if (queue < s->program->queues && !queue_info(s, queue)->grouped)
        flight[F_GROUP] = (*closed_at(s, region, queue))++;
    return flight;
}

static int do_completions(search_t *s, word *w, int agent, const node_t *node, word *values)
{
    const completion_t *c = (const completion_t *)s->program->completions + node->completion;
    for (int i = 0; i < node->completions; i++, c++) {
        word index, bytes;
        int result = agent_value(s, w, agent, c->index, &index);
        if (result == DONE)
            result = agent_value(s, w, agent, c->bytes, &bytes);
        if (result != DONE)
            return result;
        values[2 * i] = index < 0 || index >= c->stages ? -1 : c->first + index;
        values[2 * i + 1] = bytes;
    }
    for (int i = 0; i < node->completions; i++)
        if (values[2 * i] < 0)
            return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    return DONE;
}

/* The data path itself makes known what is over in a pipelined queue. */
static void issue_rests_on(search_t *s, const word *w, int agent, const node_t *node,
                           const place_t *places)
{
    const effect_t *effects = (const effect_t *)s->program->effects + node->effect;
    int pipe = node->x < s->program->queues && queue_info(s, node->x)->pipelined;
    word more = pipe ? *over_in(s, w, agent, node->x) : 0;
    for (int e = 0; e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end; cell++)
            rests_on(s, w, agent, cell, effects + e, more);
}

static int do_issue(search_t *s, word *w, int agent, const node_t *node)
{
    const effect_t *effects = (const effect_t *)s->program->effects + node->effect;
    word *region = agent_region(s, w, agent);
    place_t places[EFFECTS_MAX];
    word ends[2 * EFFECTS_MAX];
    for (int e = 0; e < node->effects; e++) {
        int result = resolve(s, w, agent, effects + e, 1, places + e);
        if (result != DONE)
            return result;
    }
    for (int e = 0; e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end; cell++) {
            int write = (int)effects[e].write;
            int result = check_cached(s, w, agent, cell, write, effects[e].proxy);
            if (result == DONE)
                result = check_proxy(s, w, agent, cell, write, effects[e].proxy);
            if (result == DONE)
                result = check_cell(s, w, agent, node->x, cell, effects + e, places + e);
            if (result != DONE)
                return result;
        }
    int result = do_completions(s, w, agent, node, ends);
    if (result != DONE)
        return result;
    if (s->program->follows)
        issue_rests_on(s, w, agent, node, places);
    word *flight = new_flight(s, region, region[A_NODE], node->x);
    if (!flight)
        return BROKEN;
    for (int e = 0; s->program->follows && e < node->effects; e++)
        for (word cell = places[e].first; cell < places[e].end && !effects[e].write; cell++)
            flight[F_KNOWN] |= overwrite_event(s, cell) | other_reads(s, cell, -1);
    flight[F_KNOWN] &= s->program->follows ? *known_by(s, w, agent) : 0;
    flight[F_READING] = 1;
    flight[F_CHUNKS] = node->chunks;
    for (int e = 0; e < node->effects; e++) {
        flight[F_VALUES + 2 * e] = places[e].region;
        /* What a read meant has been checked; it is kept where it shows the age of the flight. */
        int kept = (effects[e].write && !effects[e].reduction)
                   || s->program->tagged[places[e].first];
        flight[F_VALUES + 2 * e + 1] =
            kept ? kept_tile(s, places[e].first, places[e].tile) : TILE_ANY;
    }
    memcpy(flight + F_VALUES + 2 * node->effects, ends, sizeof(word) * 2 * node->completions);
    return DONE;
}

static int do_queue_arrive(search_t *s, word *w, int agent, const node_t *node)
{
    word index, count, *region = agent_region(s, w, agent);
    int result = agent_value(s, w, agent, node->a, &index);
    if (result == DONE)
        result = agent_value(s, w, agent, node->b, &count);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    word *flight = new_flight(s, region, region[A_NODE], node->x);
    if (!flight)
        return BROKEN;
    flight[F_CHUNKS] = 1;
    flight[F_VALUES] = node->chunks + index; /* `chunks` of such a node is its first barrier */
    flight[F_VALUES + 1] = count;
    return DONE;
}

static void do_commit(search_t *s, word *region, word queue)
{
    word *closed = closed_at(s, region, queue), opened = 0;
    for (int f = 0; f < region[A_FLIGHTS]; f++) {
        word *flight = flight_at(s, region, f);
        if (node_at(s, flight[F_NODE])->x == queue && flight[F_GROUP] == GROUP_OPEN) {
            flight[F_GROUP] = *closed;
            opened = 1;
        }
    }
    /* An empty group counts while an older one is unfinished; without order it never does. */
    if (opened || (*closed && queue_info(s, queue)->ordered))
        *closed += 1;
}

/* Groups that a wait on the queue counts as unfinished. */
static word outstanding(const search_t *s, word *region, word queue, int until_read)
{
    word busy = 0, oldest = -1, last = -1;
    for (int f = 0; f < region[A_FLIGHTS]; f++) {
        const word *flight = flight_at(s, region, f);
        if (node_at(s, flight[F_NODE])->x != queue || flight[F_GROUP] == GROUP_OPEN
            || (until_read && !flight[F_READING]))
            continue;
        busy += flight[F_GROUP] != last;
        last = flight[F_GROUP];
        if (oldest < 0)
            oldest = last;
    }
    if (!queue_info(s, queue)->ordered)
        return busy;
    return busy ? *closed_at(s, region, queue) - oldest : 0;
}

/* ---------------------------------------------------------------------------- mbarriers */

static int check_usable(search_t *s, const word *barrier, int far)
{
    if (barrier[B_STATUS] == BARRIER_ABSENT)
        return fault(s, FAULT_BARRIER_UNINITIALISED);
    int unpublished = far && barrier[B_STATUS] == BARRIER_UNPUBLISHED;
    return unpublished ? fault(s, FAULT_UNPUBLISHED_INIT) : DONE;
}

/* The barrier that an operation of an agent names; FAULT when it may not be used. */
static int reach_barrier(search_t *s, word *w, int agent, const node_t *node, word *out)
{
    word index;
    int result = agent_value(s, w, agent, node->a, &index);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    *out = node->x + index;
    word cta = ((const barrier_t *)s->program->barrier)[*out].cta;
    int far = cta != agent_info(s, agent)->cta;
    result = check_usable(s, barrier_at(s, w, *out), far);
    if (result == DONE && far && cta_gone(s, w, cta))
        result = fault(s, FAULT_LEAK_AT_EXIT);
    return result;
}

/* Complete the phase of the barrier when nothing is outstanding. */
static int close_phase(search_t *s, word number, word *barrier)
{
    if (barrier[B_BYTES] > TRANSACTION_MAX || barrier[B_BYTES] < -TRANSACTION_MAX)
        return fault(s, FAULT_TRANSACTION_MISMATCH);
    if (barrier[B_PENDING] != 0)
        return DONE;
    if (barrier[B_BYTES] < 0)
        return fault(s, FAULT_TRANSACTION_MISMATCH);
    if (barrier[B_BYTES] == 0) {
        barrier[B_PENDING] = barrier[B_EXPECTED];
        barrier[B_PHASE] += 1;
        if (!barrier_info(s, number)->phase)
            barrier[B_PHASE] &= 1;
        barrier[B_ARMED] = barrier[B_TOKENS]; /* PTX: a state of the phase before, no older one */
        barrier[B_TOKENS] = 0;
        barrier[B_OBSERVED] = s->program->allow_unobserved && !barrier_info(s, number)->watched;
        barrier[B_CARRIED] = barrier[B_CARRYING];
        barrier[B_CARRYING] = 0;
    }
    return DONE;
}

static int count_down(search_t *s, word number, word *barrier, word count, word bytes)
{
    if (count < 0 || count > barrier[B_PENDING] || barrier[B_EXPECTED] < 0)
        return fault(s, FAULT_OVER_ARRIVAL);
    if (count && !barrier[B_OBSERVED] && !s->program->allow_unobserved)
        return fault(s, FAULT_UNOBSERVED_PHASE);
    barrier[B_BYTES] += bytes;
    barrier[B_PENDING] -= count;
    return close_phase(s, number, barrier);
}

static int do_arrive(search_t *s, word *w, int agent, const node_t *node)
{
    word number, count, bytes;
    int result = reach_barrier(s, w, agent, node, &number);
    if (result == DONE)
        result = agent_value(s, w, agent, node->b, &count);
    if (result == DONE)
        result = agent_value(s, w, agent, node->c, &bytes);
    if (result != DONE)
        return result;
    word *barrier = barrier_at(s, w, number);
    if (node->flags & FLAG_TOKEN) {
        barrier[B_TOKENS] |= (word)1 << agent;
        barrier[B_ARMED] |= (word)1 << agent;
    }
    if (node->flags & FLAG_DROP)
        barrier[B_EXPECTED] -= count;
    if (s->program->follows && count > 0 && !(node->flags & FLAG_QUIET))
        barrier[B_CARRYING] |= *known_by(s, w, agent);
    return count_down(s, number, barrier, count, bytes);
}

static int do_expect(search_t *s, word *w, int agent, const node_t *node)
{
    word number, bytes;
    int result = reach_barrier(s, w, agent, node, &number);
    if (result != DONE)
        return result;
    word *barrier = barrier_at(s, w, number);
    if (barrier[B_PENDING] == 0)
        return fault(s, FAULT_TRANSACTION_MISMATCH);
    result = agent_value(s, w, agent, node->b, &bytes);
    if (result != DONE)
        return result;
    barrier[B_BYTES] += bytes;
    return close_phase(s, number, barrier);
}

static int do_wait(search_t *s, word *w, int agent, const node_t *node)
{
    word number, meant;
    int result = reach_barrier(s, w, agent, node, &number);
    if (result == DONE && s->program->follows && !(node->flags & FLAG_QUIET))
        *known_by(s, w, agent) |= barrier_at(s, w, number)[B_CARRIED];
    if (result != DONE)
        return result;
    word *barrier = barrier_at(s, w, number);
    barrier[B_OBSERVED] = 1;
    if (node->c < 0)
        return DONE;
    result = agent_value(s, w, agent, node->c, &meant);
    if (result != DONE)
        return result;
    return barrier[B_PHASE] != meant + 1 ? fault(s, FAULT_LAPPED_WAIT) : DONE;
}

/* Whether an agent stands at a wait on the barrier. */
static int waited_for(search_t *s, word *w, word number, int *answer)
{
    *answer = 0;
    for (int a = 0; a < s->program->agents; a++) {
        const node_t *node = node_at(s, agent_region(s, w, a)[A_NODE]);
        word index;
        if (node->kind != N_WAIT && node->kind != N_TOKEN_WAIT)
            continue;
        int result = agent_value(s, w, a, node->a, &index);
        if (result != DONE)
            return result;
        if (index >= 0 && index < node->y && node->x + index == number)
            *answer = 1;
    }
    return DONE;
}

static int completed_by_flight(const search_t *s, const word *w, word number)
{
    for (int a = 0; a < s->program->agents; a++) {
        const word *region = agent_region(s, w, a);
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            const word *flight = flight_at(s, region, f);
            const node_t *node = node_at(s, flight[F_NODE]);
            for (int c = 0; c < node->completions; c++)
                if (flight[F_VALUES + 2 * (node->effects + c)] == number)
                    return 1;
        }
    }
    return 0;
}

static int do_lifecycle(search_t *s, word *w, int agent, const node_t *node)
{
    word index, count = 0;
    int waited, result = agent_value(s, w, agent, node->a, &index);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    word number = node->x + index, *barrier = barrier_at(s, w, number);
    if (node->kind == N_INIT) {
        if (barrier[B_STATUS] != BARRIER_ABSENT)
            return fault(s, FAULT_BARRIER_LIFECYCLE);
        result = agent_value(s, w, agent, node->b, &count);
        if (result != DONE)
            return result;
        memset(barrier, 0, sizeof(word) * B_WORDS);
        barrier[B_STATUS] = s->program->assume_init ? BARRIER_USABLE : BARRIER_UNPUBLISHED;
        barrier[B_OWNER] = agent;
        barrier[B_OBSERVED] = 1;
        barrier[B_EXPECTED] = barrier[B_PENDING] = count;
        return DONE;
    }
    if (barrier[B_STATUS] == BARRIER_ABSENT)
        return fault(s, FAULT_BARRIER_UNINITIALISED);
    result = waited_for(s, w, number, &waited);
    if (result != DONE)
        return result;
    if (waited || barrier[B_TOKENS] || completed_by_flight(s, w, number))
        return fault(s, FAULT_BARRIER_LIFECYCLE);
    barrier[B_STATUS] = BARRIER_ABSENT;
    return DONE;
}
