/* Named barriers, fences, pools; steps of the engines; faults of states; enabled steps. */

/* ----------------------------------------------------------------------- named barriers */

static int reach_named(search_t *s, word *w, int agent, const node_t *node, word *out)
{
    word index;
    int result = agent_value(s, w, agent, node->a, &index);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return fault(s, FAULT_INDEX_OUT_OF_RANGE);
    *out = node->x + index;
    return DONE;
}

/* The last arrival releases all who wait in a sync; STAYS: the agent has to wait itself. */
static int do_named_arrive(search_t *s, word *w, int agent, const node_t *node)
{
    word number, threads, bit = (word)1 << agent;
    int sync = node->kind == N_NAMED_SYNC;
    int result = agent_value(s, w, agent, node->b, &threads);
    if (result == DONE)
        result = reach_named(s, w, agent, node, &number);
    if (result != DONE)
        return result;
    word *named = named_at(s, w, number);
    if ((named[D_AGENTS] | named[D_SYNCS]) & bit)
        return fault(s, FAULT_NAMED_BARRIER_MISUSE);
    word arrived = named[D_ARRIVED] + agent_info(s, agent)->threads;
    if ((named[D_EXPECTED] != 0 && named[D_EXPECTED] != threads) || arrived > threads)
        return fault(s, FAULT_NAMED_BARRIER_MISUSE);
    if (s->program->follows && !(node->flags & FLAG_QUIET))
        named[D_CARRYING] |= *known_by(s, w, agent);
    named[D_ARMED] &= ~bit;
    if (node->flags & FLAG_TOKEN) /* somebody waits at the barrier: the agent may, once */
        named[D_ARMED] |= bit;
    if (arrived < threads) {
        named[D_ARRIVED] = arrived;
        named[D_EXPECTED] = threads;
        named[sync ? D_SYNCS : D_AGENTS] |= bit;
        return sync ? STAYS : DONE;
    }
    word released = named[D_SYNCS], carried = named[D_CARRYING], armed = named[D_ARMED];
    memset(named, 0, sizeof(word) * D_WORDS);
    named[D_CARRIED] = carried;
    named[D_ARMED] = armed;
    if (s->program->follows && sync && !(node->flags & FLAG_QUIET))
        *known_by(s, w, agent) |= carried;
    for (int other = 0; other < s->program->agents; other++)
        if (released >> other & 1) {
            const node_t *theirs = node_at(s, agent_region(s, w, other)[A_NODE]);
            if (s->program->follows && !(theirs->flags & FLAG_QUIET))
                *known_by(s, w, other) |= carried;
            result = advance(s, w, other);
            if (result != DONE)
                return result;
        }
    return DONE;
}

static int blocked_in_sync(const search_t *s, const word *w, int agent)
{
    for (int n = 0; n < s->program->named; n++)
        if (named_at(s, w, n)[D_SYNCS] >> agent & 1)
            return 1;
    return 0;
}

/* ------------------------------------------------------------------- fences and pools */

/* Whoever rests on the fence of an access has to know of it; `whose` accesses it fences. */
static void fence_known(search_t *s, word *w, int agent, word kind, word cell, word whose)
{
    const word *held = cell_at(s, w, cell);
    word events = 0;
    if (kind == FENCE_ACQUIRE ? held[C_MAP] == MAP_RELEASED
        : kind == FENCE_RELEASE ? held[C_MAP] != MAP_RELEASED && (held[C_MAP] & whose)
                                : (held[C_WRITERS] & whose & ~ENGINE_BIT) != 0)
        events |= write_event(s, cell) | overwrite_event(s, cell);
    for (int a = 0; kind == FENCE_ASYNC && a < s->program->agents; a++)
        if (held[C_READERS] & whose & (word)1 << a)
            events |= read_event(s, cell, a);
    fenced(s, w, events, agent);
}

static void do_fence(search_t *s, word *w, int agent, const node_t *node)
{
    const titan_program *p = s->program;
    word own = (word)1 << agent | ENGINE_BIT;
    if (node->x == FENCE_INIT) {
        for (int b = 0; b < p->barriers; b++) {
            word *barrier = barrier_at(s, w, b);
            if (barrier[B_STATUS] == BARRIER_UNPUBLISHED && barrier[B_OWNER] == agent)
                barrier[B_STATUS] = BARRIER_USABLE;
        }
        return;
    }
    const cover_t *cover = (const cover_t *)p->covers + node->effect;
    for (int i = 0; i < node->effects; i++, cover++) {
        word *held = cell_at(s, w, cover->cell);
        int path = cover->near && p->path_rule;
        if (p->mark_fields)
            fence_marks(s, w, agent, node->x, cover->cell, path ? ~(word)0 : own);
        if (node->x >= FENCE_CONSTANT)
            continue; /* these act on nothing else */
        if (p->follows)
            fence_known(s, w, agent, node->x, cover->cell, path ? ~(word)0 : (word)1 << agent);
        if (node->x == FENCE_ASYNC) {
            held[C_WRITERS] = path ? 0 : held[C_WRITERS] & ~own;
            held[C_READERS] = path ? 0 : held[C_READERS] & ~own;
        } else if (held[C_MAP] == MAP_RELEASED) {
            held[C_MAP] = node->x == FENCE_RELEASE ? MAP_RELEASED : 0;
        } else if (node->x == FENCE_RELEASE && held[C_MAP]) {
            held[C_MAP] = path ? 0 : held[C_MAP] & ~own;
            held[C_MAP] = held[C_MAP] ? held[C_MAP] : MAP_RELEASED;
        }
    }
}

static int do_pool(search_t *s, word *w, int agent, const node_t *node)
{
    word amount;
    int result = agent_value(s, w, agent, node->a, &amount);
    if (result != DONE)
        return result;
    if (amount < 0)
        return fault(s, FAULT_POOL_MISUSE);
    w[s->program->off_pools + node->x] += node->kind == N_GIVE ? amount : -amount;
    return DONE;
}

static int do_token_wait(search_t *s, word *w, int agent, const node_t *node)
{
    word number;
    int result = reach_barrier(s, w, agent, node, &number);
    if (result != DONE)
        return result;
    if (!(barrier_at(s, w, number)[B_ARMED] >> agent & 1))
        return fault(s, FAULT_NAMED_BARRIER_MISUSE);
    barrier_at(s, w, number)[B_OBSERVED] = 1;
    if (s->program->follows && !(node->flags & FLAG_QUIET))
        *known_by(s, w, agent) |= barrier_at(s, w, number)[B_CARRIED];
    return DONE;
}

static int do_named_wait(search_t *s, word *w, int agent, const node_t *node)
{
    word number;
    int result = reach_named(s, w, agent, node, &number);
    if (result != DONE)
        return result;
    word *named = named_at(s, w, number), bit = (word)1 << agent;
    if (!(named[D_ARMED] & bit))
        return fault(s, FAULT_NAMED_BARRIER_MISUSE);
    named[D_ARMED] &= ~bit;
    if (s->program->follows && !(node->flags & FLAG_QUIET))
        *known_by(s, w, agent) |= named[D_CARRIED];
    return DONE;
}

static int execute(search_t *s, word *w, int agent)
{
    word *region = agent_region(s, w, agent);
    const node_t *node = node_at(s, region[A_NODE]);
    switch (node->kind) {
    case N_ACCESS: return do_access(s, w, agent, node);
    case N_ISSUE: return do_issue(s, w, agent, node);
    case N_COMMIT: do_commit(s, region, node->x); return DONE;
    case N_QUEUE_ARRIVE: return do_queue_arrive(s, w, agent, node);
    case N_INIT:
    case N_INVALIDATE: return do_lifecycle(s, w, agent, node);
    case N_ARRIVE: return do_arrive(s, w, agent, node);
    case N_EXPECT: return do_expect(s, w, agent, node);
    case N_WAIT: return do_wait(s, w, agent, node);
    case N_TOKEN_WAIT: return do_token_wait(s, w, agent, node);
    case N_NAMED_SYNC:
    case N_NAMED_ARRIVE: return do_named_arrive(s, w, agent, node);
    case N_NAMED_WAIT: return do_named_wait(s, w, agent, node);
    case N_QUEUE_WAIT:
        if (s->program->follows && !(node->flags & FLAG_READ))
            *known_by(s, w, agent) |= *over_in(s, w, agent, node->x);
        return DONE;
    case N_FENCE: do_fence(s, w, agent, node); return DONE;
    case N_TAKE:
    case N_GIVE: return do_pool(s, w, agent, node);
    default: return DONE;
    }
}

/* Whether the agent can execute its next operation; faulty ones count as enabled. */
static int enabled(search_t *s, word *w, int agent, int *answer)
{
    word *region = agent_region(s, w, agent), value, index;
    const node_t *node = node_at(s, region[A_NODE]);
    int result = DONE;
    *answer = node->kind != N_END;
    switch (node->kind) {
    case N_WAIT:
    case N_TOKEN_WAIT:
    case N_NAMED_WAIT:
        result = agent_value(s, w, agent, node->a, &index);
        if (result != DONE || index < 0 || index >= node->y)
            return result;
        if (node->kind == N_NAMED_WAIT) {
            *answer = !(named_at(s, w, node->x + index)[D_AGENTS] >> agent & 1);
            return DONE;
        }
        word *barrier = barrier_at(s, w, node->x + index);
        if (barrier[B_STATUS] == BARRIER_ABSENT)
            return DONE;
        if (node->kind == N_TOKEN_WAIT) {
            *answer = !(barrier[B_TOKENS] >> agent & 1);
            return DONE;
        }
        result = agent_value(s, w, agent, node->b, &value);
        *answer = (barrier[B_PHASE] & 1) != (value & 1);
        return result;
    case N_QUEUE_WAIT:
        result = agent_value(s, w, agent, node->a, &value);
        *answer = outstanding(s, region, node->x, (node->flags & FLAG_READ) != 0) <= value;
        return result;
    case N_NAMED_SYNC: *answer = !blocked_in_sync(s, w, agent); return DONE;
    case N_TAKE:
        result = agent_value(s, w, agent, node->a, &value);
        *answer = w[s->program->off_pools + node->x] >= value;
        return result;
    default: return DONE;
    }
}

/* ------------------------------------------------------------------------------ engines */

/* Whether a marker that is to arrive stands behind flight `f` of an open group: PTX needs no commit
 * for `cp.async.mbarrier.arrive`. */
static int released(const search_t *s, const word *region, int f)
{
    word queue = node_at(s, flight_at(s, region, f)[F_NODE])->x;
    for (; f < region[A_FLIGHTS]; f++) {
        const node_t *node = node_at(s, flight_at(s, region, f)[F_NODE]);
        if (node->x == queue && node->kind == N_QUEUE_ARRIVE)
            return 1;
    }
    return 0;
}

/* The step that an engine can take on flight number `f`: -1, STEP_READS or STEP_FINISH. */
static int engine_step(const search_t *s, const word *region, int f)
{
    const word *flight = flight_at(s, region, f);
    word queue = node_at(s, flight[F_NODE])->x;
    if (queue >= s->program->queues)
        return STEP_FINISH;
    if (flight[F_GROUP] == GROUP_OPEN && !released(s, region, f))
        return -1;
    const queue_t *info = queue_info(s, queue);
    int own = info->split && flight[F_READING] ? STEP_READS : STEP_FINISH;
    if (!info->ordered)
        return own;
    int head = 1;
    for (int e = 0; e < f; e++) {
        const word *earlier = flight_at(s, region, e);
        if (node_at(s, earlier[F_NODE])->x != queue)
            continue;
        head = 0;
        if (earlier[F_READING])
            return -1;
    }
    /* Reads of later groups may be over while the writes of the first are not. */
    return head || own == STEP_READS ? own : -1;
}

static void remove_flight(const search_t *s, word *region, int f)
{
    word queue = node_at(s, flight_at(s, region, f)[F_NODE])->x;
    size_t size = (size_t)s->program->flight_words;
    int rest = (int)region[A_FLIGHTS] - f - 1;
    word *gone = flight_at(s, region, f);
    memmove(gone, flight_at(s, region, f + 1), (size_t)rest * size * sizeof(word));
    region[A_FLIGHTS] -= 1;
    if (queue >= s->program->queues)
        return;
    /* Drop finished groups: the oldest ones, and without order all. */
    word *closed = closed_at(s, region, queue);
    int ordered = (int)queue_info(s, queue)->ordered;
    word kept = 0, last = GROUP_OPEN, oldest = *closed;
    for (int e = 0; e < region[A_FLIGHTS]; e++) {
        word *flight = flight_at(s, region, e);
        if (node_at(s, flight[F_NODE])->x != queue || flight[F_GROUP] == GROUP_OPEN)
            continue;
        if (flight[F_GROUP] < oldest)
            oldest = flight[F_GROUP];
        kept += flight[F_GROUP] != last;
        last = flight[F_GROUP];
        if (ordered)
            flight[F_GROUP] -= oldest;
        else
            flight[F_GROUP] = kept - 1;
    }
    *closed = ordered ? *closed - oldest : kept;
}

/* Returns what is written: events that whoever hears of the end learns. */
static word finish_effects(search_t *s, word *w, const node_t *node, const word *flight)
{
    const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
    word landed = 0;
    for (int e = 0; e < node->effects; e++, effect++) {
        word first, end;
        flight_place(s, flight, e, &first, &end);
        for (word cell = first; cell < end; cell++) {
            if (effect->write && !effect->reduction)
                cell_at(s, w, cell)[C_TILE] = kept_tile(s, cell, flight[F_VALUES + 2 * e + 1]);
            if (effect->proxy == PROXY_GENERIC)
                mark_cell(s, w, cell, (int)effect->write, ENGINE_BIT);
            else if (effect->write || flight[F_READING])
                went_outside(s, w, cell, (int)effect->write);
            if (effect->write)
                map_written(s, w, cell, ENGINE_BIT);
            if (s->program->follows && effect->write) {
                written(s, w, cell, -1);
                landed |= write_event(s, cell) | overwrite_event(s, cell);
            }
        }
    }
    return landed;
}

static int finish_completions(search_t *s, word *w, const node_t *node, const word *flight,
                              word carried)
{
    const word *values = flight + F_VALUES + 2 * node->effects;
    int last = flight[F_CHUNKS] == 1;
    for (int c = 0; c < node->completions; c++) {
        word number = values[2 * c], amount = values[2 * c + 1];
        word *barrier = barrier_at(s, w, number);
        int result = check_usable(s, barrier, 1);
        if (result != DONE)
            return result;
        if (cta_gone(s, w, ((const barrier_t *)s->program->barrier)[number].cta))
            return fault(s, FAULT_LEAK_AT_EXIT);
        barrier[B_CARRYING] |= carried;
        if (node->kind == N_QUEUE_ARRIVE) {
            result = count_down(s, number, barrier, amount, 0);
        } else {
            word share = floor_div(amount, node->chunks);
            barrier[B_BYTES] -= last ? amount - share * (node->chunks - 1) : share;
            result = close_phase(s, number, barrier);
        }
        if (result != DONE)
            return result;
    }
    return DONE;
}

/* A read that is over, and leaves no marks when its operation finishes, concerns nobody. */
static int read_is_over(const effect_t *effect, const word *flight)
{
    return !effect->write && !flight[F_READING] && effect->proxy != PROXY_GENERIC;
}

/* Whether nothing is left to do for the flight: it only reads, and has read. */
static int is_spent(const search_t *s, const word *flight)
{
    const node_t *node = node_at(s, flight[F_NODE]);
    const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
    if (flight[F_READING] || node->kind != N_ISSUE || node->completions > 0)
        return 0;
    for (int e = 0; e < node->effects; e++)
        if (!read_is_over(effect + e, flight))
            return 0;
    return 1;
}

/* Operations of the queue that are over retire, in an ordered queue from the oldest on. */
static void retire(const search_t *s, word *region, word queue)
{
    for (int f = 0; f < region[A_FLIGHTS];) {
        const word *flight = flight_at(s, region, f);
        if (node_at(s, flight[F_NODE])->x != queue) {
            f++;
        } else if (is_spent(s, flight)) {
            remove_flight(s, region, f);
        } else if (queue_info(s, queue)->ordered) {
            return;
        } else {
            f++;
        }
    }
}

/* Reads through other proxies are over: their completion has its implicit fence. */
static void reads_outside(const search_t *s, word *w, const node_t *node, const word *flight)
{
    const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
    for (int e = 0; e < node->effects; e++, effect++) {
        word first, end;
        flight_place(s, flight, e, &first, &end);
        for (word cell = first; cell < end && !effect->write; cell++)
            if (effect->proxy != PROXY_GENERIC)
                went_outside(s, w, cell, 0);
    }
}

static int engine(search_t *s, word *w, int agent, int f, int actor)
{
    word *region = agent_region(s, w, agent), *flight = flight_at(s, region, f);
    const node_t *node = node_at(s, flight[F_NODE]);
    word queue = node->x;
    if (actor == STEP_READS) {
        if (s->program->mark_fields)
            reads_outside(s, w, node, flight);
        flight[F_READING] = 0;
        if (s->program->follows)
            *over_in(s, w, agent, queue) |= flight[F_KNOWN];
        retire(s, region, queue);
        return DONE;
    }
    word carried = flight[F_CHUNKS] == 1 ? finish_effects(s, w, node, flight) | flight[F_KNOWN] : 0;
    if (s->program->follows && queue < s->program->queues) {
        *over_in(s, w, agent, queue) |= carried;
        /* An arrival publishes what its queue has finished before it, not what its agent did. */
        if (node->kind == N_QUEUE_ARRIVE)
            carried = queue_info(s, queue)->ordered ? *over_in(s, w, agent, queue) : 0;
    }
    int result = finish_completions(s, w, node, flight, carried);
    if (flight[F_CHUNKS] > 1)
        flight[F_CHUNKS] -= 1;
    else
        remove_flight(s, region, f);
    if (queue < s->program->queues)
        retire(s, region, queue);
    return result;
}

/* --------------------------------------------------------------------- faults of states */

/* A CTA that ends has waited for the last phase of barriers at which a peer's engines arrive. */
static int check_watched(search_t *s, const word *w, word ended)
{
    for (int number = 0; number < s->program->barriers; number++) {
        const barrier_t *info = barrier_info(s, number);
        const word *barrier = barrier_at(s, (word *)w, number);
        if (!info->watched || !(ended >> info->cta & 1) || barrier[B_STATUS] == BARRIER_ABSENT)
            continue;
        if (!barrier[B_OBSERVED] || barrier[B_PENDING] != barrier[B_EXPECTED])
            return fault(s, FAULT_LEAK_AT_EXIT);
    }
    return DONE;
}

/* Nothing in flight may use the memory or a barrier of a CTA whose agents are at their end. */
static int check_exit(search_t *s, const word *w)
{
    const titan_program *p = s->program;
    word ended = 0;
    if (!p->refuse_exit)
        return DONE;
    for (int a = 0; a < p->agents; a++)
        ended |= (word)1 << agent_info(s, a)->cta;
    for (int a = 0; a < p->agents; a++)
        if (node_at(s, agent_region(s, w, a)[A_NODE])->kind != N_END)
            ended &= ~((word)1 << agent_info(s, a)->cta);
    if (!ended)
        return DONE;
    for (int a = 0; a < p->agents; a++) {
        const word *region = agent_region(s, w, a);
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            const word *flight = flight_at(s, region, f);
            const node_t *node = node_at(s, flight[F_NODE]);
            for (int e = 0; e < node->effects; e++) {
                const effect_t *effect = (const effect_t *)p->effects + node->effect + e;
                word first, end;
                flight_place(s, flight, e, &first, &end);
                word home = ((const cell_t *)p->cell)[first].home;
                if ((effect->write || flight[F_READING]) && home >= 0 && (ended >> home & 1))
                    return fault(s, FAULT_LEAK_AT_EXIT);
            }
            for (int c = 0; c < node->completions; c++) {
                word number = flight[F_VALUES + 2 * (node->effects + c)];
                if (ended >> barrier_info(s, number)->cta & 1)
                    return fault(s, FAULT_LEAK_AT_EXIT);
            }
        }
    }
    return check_watched(s, w, ended);
}

/* A waiting agent whose phase is two behind sleeps through it (PTX test_wait). */
static int check_lapped(search_t *s, word *w)
{
    for (int a = 0; a < s->program->agents; a++) {
        const node_t *node = node_at(s, agent_region(s, w, a)[A_NODE]);
        word index, meant;
        if (node->kind != N_WAIT || node->c < 0)
            continue;
        int result = agent_value(s, w, a, node->a, &index);
        if (result == DONE)
            result = agent_value(s, w, a, node->c, &meant);
        if (result != DONE)
            return result;
        if (index < 0 || index >= node->y)
            continue;
        const word *barrier = barrier_at(s, w, node->x + index);
        if (barrier[B_STATUS] != BARRIER_ABSENT && barrier[B_PHASE] > meant + 1)
            return fault(s, FAULT_LAPPED_WAIT);
    }
    return DONE;
}

static int take_step(search_t *s, word *w, const step_t *step)
{
    int result;
    if (step->actor == STEP_AGENT) {
        result = execute(s, w, step->agent);
        if (result == DONE)
            result = advance(s, w, step->agent);
        if (result == STAYS)
            result = DONE;
    } else {
        result = engine(s, w, step->agent, step->ordinal, step->actor);
    }
    if (result == DONE && s->program->follows)
        forget_common(s, w);
    if (result == DONE)
        result = check_exit(s, w);
    return result == DONE ? check_lapped(s, w) : result;
}

/* Whether the accesses of two agents meet in a cell that one of them writes. */
static int clash(const place_t *left, const effect_t *writes, word many, const place_t *right,
                 const effect_t *others, word more)
{
    for (int i = 0; i < many; i++)
        for (int j = 0; j < more; j++)
            if ((writes[i].write || others[j].write) && !commute(writes + i, others + j)
                && left[i].first < right[j].end && right[j].first < left[i].end)
                return 1;
    return 0;
}

/* Two agents stand at conflicting synchronous accesses: nothing orders them. */
static int check_race(search_t *s, word *w)
{
    const titan_program *p = s->program;
    place_t places[AGENTS_MAX][EFFECTS_MAX];
    int standing[AGENTS_MAX], count = 0;
    for (int a = 0; a < p->agents; a++)
        if (node_at(s, agent_region(s, w, a)[A_NODE])->kind == N_ACCESS)
            standing[count++] = a;
    if (count < 2)
        return DONE;
    for (int i = 0; i < count; i++) {
        const node_t *node = node_at(s, agent_region(s, w, standing[i])[A_NODE]);
        const effect_t *effects = (const effect_t *)p->effects + node->effect;
        for (int e = 0; e < node->effects; e++) {
            int result = resolve(s, w, standing[i], effects + e, 1, &places[i][e]);
            if (result == FAULT)
                places[i][e].first = places[i][e].end = 0;
            else if (result != DONE)
                return result;
        }
        for (int j = 0; j < i; j++) {
            const node_t *other = node_at(s, agent_region(s, w, standing[j])[A_NODE]);
            if (clash(places[i], effects, node->effects, places[j],
                      (const effect_t *)p->effects + other->effect, other->effects))
                return fault(s, FAULT_DATA_RACE);
        }
    }
    return DONE;
}
