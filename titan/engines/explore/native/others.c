/* The closure U: operations of others, as far as they can happen before t (closure.c). */

/* --------------------------------------------------------------------- what others touch */

static int meets(const search_t *s, word first, word end, int write)
{
    const struct closure *c = s->closure;
    for (word cell = first; cell < end; cell++)
        if (c->writes[cell] == c->stamp || (write && c->reads[cell] == c->stamp))
            return 1;
    return 0;
}

/* Where it is followed who knows of which accesses (visible.c): a fence of an agent takes the place
 * of the accesses that it fences, so it is not independent of others that rest on these. */
static int fence_publishes(const search_t *s, const word *w, word cell, int agent)
{
    const word *held = cell_at(s, w, cell);
    return s->program->follows
           && (s->program->path_rule || held[C_MAP]
               || ((held[C_WRITERS] | held[C_READERS]) >> agent & 1));
}

/* An access of others, where t is a fence whose marks publish something. */
static int meets_publishing(const search_t *s, const word *w, word first, word end)
{
    const struct closure *c = s->closure;
    for (word cell = first; cell < end; cell++)
        if (c->fenced[cell] == c->stamp && fence_publishes(s, w, cell, c->step.agent))
            return 1;
    return 0;
}

/* An issue that is faulty before a fence and not behind it. That a generic one finishes, and leaves
 * its mark, may come behind the fence: then the mark stays, which is worse (closure.c). */
static int meets_fence(const search_t *s, const word *w, word first, word end, word proxy)
{
    const struct closure *c = s->closure;
    word own = (word)1 << c->step.agent | ENGINE_BIT;
    for (word cell = first; cell < end && proxy != PROXY_GENERIC; cell++) {
        const word *held = cell_at(s, w, cell);
        if (c->fenced[cell] == c->stamp && ((held[C_WRITERS] | held[C_READERS]) & own))
            return 1;
    }
    return 0;
}

/* Whether an access leaves marks there that another proxy, or a fence, may meet, or who knows of
 * it is followed. */
static int leaves_marks(const search_t *s, word first, word end, word proxy)
{
    for (word cell = first; cell < end; cell++) {
        const cell_t *info = (const cell_t *)s->program->cell + cell;
        if (info->map || (s->program->follows && (write_event(s, cell) | overwrite_event(s, cell)))
            || (proxy == PROXY_GENERIC && (info->writers || info->readers)))
            return 1;
    }
    return 0;
}

/* Whether it makes no difference if the earlier of two uses of one ordered pipe is over when the
 * later one begins: they share no cell, both read, or the pipe keeps the pair (closure.c). */
static int kept_apart(const search_t *s, word queue, const effect_t *earlier, const place_t *before,
                      const effect_t *later, const place_t *behind)
{
    if (before->end <= behind->first || behind->end <= before->first)
        return 1;
    if (!earlier->write && !later->write)
        return 1;
    if (earlier->reduction || later->reduction)
        return 0;
    int same = later->accumulates && before->first == behind->first && before->end == behind->end;
    return pipe_keeps(queue_info(s, queue)->pairs, earlier, later, same);
}

/* Whether what the agent issues here follows the flight of t through the same pipe: it does not
 * finish before t, and the pipe keeps the order of this effect and those of t. */
static int follows_in_pipe(const search_t *s, int agent, const node_t *node,
                           const effect_t *effect, word first, word end)
{
    const struct closure *c = s->closure;
    if (!c->flight || agent != c->step.agent || node->kind != N_ISSUE || node->x != c->node->x
        || node->x >= s->program->queues)
        return 0;
    const queue_t *queue = queue_info(s, node->x);
    if (!queue->pipelined || !queue->ordered || queue->split)
        return 0;
    const effect_t *mine = (const effect_t *)s->program->effects + c->node->effect;
    place_t place = {-1, first, end, TILE_ANY};
    for (int e = 0; e < c->node->effects; e++)
        if (!kept_apart(s, node->x, mine + e, c->places + e, effect, &place))
            return 0;
    return !leaves_marks(s, first, end, effect->proxy);
}

/* Whether t is issued behind the flight into the same pipe, which keeps the order of this effect of
 * the flight and those of t. Marks it does not keep. */
static int leads_in_pipe(const search_t *s, int owner, const word *flight, const effect_t *effect,
                         word first, word end)
{
    const struct closure *c = s->closure;
    word queue = c->node->x;
    if (c->flight || c->node->kind != N_ISSUE || !piped(s, flight, owner, c->step.agent, queue)
        || !queue_info(s, queue)->ordered)
        return 0;
    const effect_t *mine = (const effect_t *)s->program->effects + c->node->effect;
    place_t place = {-1, first, end, TILE_ANY};
    for (int e = 0; e < c->node->effects; e++)
        if (!kept_apart(s, queue, effect, &place, mine + e, c->places + e))
            return 0;
    return !leaves_marks(s, first, end, effect->proxy);
}

static void add_completion(struct closure *c, const node_t *node, word barrier, word amount)
{
    c->touched[barrier] = 1;
    if (amount <= 0)
        c->strange[barrier] = 1;
    else if (node->kind == N_QUEUE_ARRIVE)
        c->arrivals[barrier] += amount;
    else
        c->finished[barrier] += amount;
}

/* Whether the flight of t keeps what `queue` of `agent` gets now from finishing. */
static int held_back(const search_t *s, int agent, word queue)
{
    const struct closure *c = s->closure;
    return c->flight && agent == c->step.agent && queue == c->node->x
           && queue < s->program->queues && queue_info(s, queue)->ordered;
}

/* Flights of the state itself, but t, and what an ordered queue keeps behind t. */
static int add_flights(search_t *s, word *w)
{
    struct closure *c = s->closure;
    for (int a = 0; a < s->program->agents; a++) {
        const word *region = agent_region(s, w, a);
        int behind = 0;
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            const word *flight = flight_at(s, region, f);
            const node_t *node = node_at(s, flight[F_NODE]);
            if (flight == c->flight) {
                behind = 1;
                continue;
            }
            if (flight[F_GROUP] == GROUP_OPEN && node->x < s->program->queues && !c->flight
                && a == c->step.agent && !released(s, region, f))
                continue; /* its agent does not move: the group stays open */
            int held = behind && held_back(s, a, node->x);
            if (held && !queue_info(s, node->x)->split)
                continue; /* not before t */
            const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
            for (int e = 0; e < node->effects; e++, effect++) {
                word first, end;
                flight_place(s, flight, e, &first, &end);
                if (read_is_over(effect, flight)
                    || leads_in_pipe(s, a, flight, effect, first, end))
                    continue;
                if (meets(s, first, end, (int)effect->write) || meets_publishing(s, w, first, end))
                    return STAYS;
            }
            if (held)
                continue;
            for (int i = 0; i < node->completions; i++) {
                const word *value = flight + F_VALUES + 2 * (node->effects + i);
                /* Chunks that have been completed are off the count already. */
                word share = node->kind == N_ISSUE ? floor_div(value[1], node->chunks) : 0;
                word done = share * (node->chunks - flight[F_CHUNKS]);
                add_completion(c, node, value[0], value[1] - done);
            }
        }
    }
    return DONE;
}

/* Completions of phases of a barrier that U can bring about, at most. */
static word completions(const search_t *s, const word *w, word number)
{
    const struct closure *c = s->closure;
    const word *barrier = barrier_at(s, w, number);
    word arrivals = c->arrivals[number];
    if (c->strange[number] || barrier[B_EXPECTED] <= 0)
        return ENDLESS;
    if (arrivals < barrier[B_PENDING])
        return 0;
    if (arrivals == barrier[B_PENDING])
        return barrier[B_BYTES] + c->expected[number] <= c->finished[number];
    if (barrier[B_BYTES] > c->finished[number])
        return 0;
    return 1 + (arrivals - barrier[B_PENDING]) / barrier[B_EXPECTED];
}

/* Threads of all who may arrive at the named barrier in U: each counts once in a generation. */
static word arriving(const search_t *s, word number)
{
    word threads = 0;
    for (int a = 0; a < s->program->agents; a++)
        if (s->closure->turns[a * s->program->named + number])
            threads += agent_info(s, a)->threads;
    return threads;
}

static word generations(const search_t *s, const word *w, word number)
{
    const struct closure *c = s->closure;
    if (c->wanted[number] <= 0)
        return ENDLESS;
    if (c->loose[number])
        return arriving(s, number) >= c->wanted[number] ? ENDLESS : 0;
    return (named_at(s, w, number)[D_ARRIVED] + c->threads[number]) / c->wanted[number];
}

/* ------------------------------------------------------------------- one agent's operation */

static int value_of(search_t *s, word *w, int agent, word expression, word *out)
{
    return evaluate(s, w, s->closure->variables + agent * s->program->variables,
                    agent_info(s, agent)->member, expression, out);
}

static int others_memory(search_t *s, word *w, int agent, const node_t *node)
{
    const titan_program *p = s->program;
    const effect_t *effect = (const effect_t *)p->effects + node->effect;
    const region_t *regions = (const region_t *)p->regions;
    for (int e = 0; e < node->effects && s->closure->touches; e++, effect++) {
        const buffer_t *buffer = (const buffer_t *)p->buffers + effect->buffer;
        word stage = 0, part = 0;
        int result = value_of(s, w, agent, effect->stage, &stage);
        if (result == DONE && effect->part >= 0)
            result = value_of(s, w, agent, effect->part, &part);
        if (result != DONE)
            return result;
        if (stage < 0 || stage >= buffer->stages || part < 0 || part >= buffer->parts)
            continue; /* a fault, whatever t does */
        word region = buffer->region + stage * buffer->parts + part;
        word end = regions[effect->part >= 0 ? region : region + buffer->parts - 1].end;
        int engine = node->kind == N_ISSUE;
        if (follows_in_pipe(s, agent, node, effect, regions[region].first, end))
            continue;
        if (meets(s, regions[region].first, end, (int)effect->write)
            || meets_publishing(s, w, regions[region].first, end)
            || (engine && meets_fence(s, w, regions[region].first, end, effect->proxy)))
            return STAYS;
    }
    return DONE;
}

static int others_issue(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    const completion_t *done = (const completion_t *)s->program->completions + node->completion;
    word queues = s->program->queues, index, amount;
    int result = node->kind == N_ISSUE ? others_memory(s, w, agent, node) : DONE;
    if (result != DONE)
        return result;
    if (node->x < queues && !queue_info(s, node->x)->grouped)
        c->commits[agent * queues + node->x] += 1;
    if (held_back(s, agent, node->x))
        return DONE;
    if (node->kind == N_QUEUE_ARRIVE) {
        result = value_of(s, w, agent, node->a, &index);
        if (result == DONE)
            result = value_of(s, w, agent, node->b, &amount);
        if (result == DONE && index >= 0 && index < node->y)
            add_completion(c, node, node->chunks + index, amount);
        return result;
    }
    for (int i = 0; i < node->completions; i++, done++) {
        result = value_of(s, w, agent, done->index, &index);
        if (result == DONE)
            result = value_of(s, w, agent, done->bytes, &amount);
        if (result != DONE)
            return result;
        if (index >= 0 && index < done->stages)
            add_completion(c, node, done->first + index, amount);
    }
    return DONE;
}

static int others_arrive(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word index, count = 0, bytes = 0;
    int result = value_of(s, w, agent, node->a, &index);
    if (result == DONE)
        result = value_of(s, w, agent, node->b, node->kind == N_EXPECT ? &bytes : &count);
    if (result == DONE && node->kind == N_ARRIVE)
        result = value_of(s, w, agent, node->c, &bytes);
    if (result != DONE || index < 0 || index >= node->y)
        return result;
    word number = node->x + index;
    c->touched[number] = 1;
    if (bytes < 0 || node->flags & FLAG_DROP || (node->kind == N_ARRIVE && count <= 0))
        c->strange[number] = 1;
    c->arrivals[number] += count;
    (node->kind == N_EXPECT ? c->announced : c->expected)[number] += bytes;
    return DONE;
}

/* STAYS: blocked. A parity wait passes at the first completion that fits, for all U knows. */
static int others_wait(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word index, parity, meant;
    int result = value_of(s, w, agent, node->a, &index);
    if (result == DONE)
        result = value_of(s, w, agent, node->b, &parity);
    if (result == DONE && node->c >= 0)
        result = value_of(s, w, agent, node->c, &meant);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return BLOCKED; /* a fault, whatever t does */
    word number = node->x + index, phase = barrier_at(s, w, number)[B_PHASE];
    c->touched[number] = 1;
    if (c->renewed[number])
        return DONE; /* in whichever phase */
    word *seen = c->passed + agent * s->program->barriers + number;
    word most = completions(s, w, number), first = *seen;
    if (((phase + first) & 1) == (parity & 1))
        first += 1;
    if (barrier_at(s, w, number)[B_STATUS] == BARRIER_ABSENT || first <= most)
        c->waited[number] = 1;
    if (first > most)
        return BLOCKED;
    /* Passing on another phase than the meant one is a fault and ends the sequence. */
    if (node->c >= 0) {
        if (meant + 1 - phase < *seen || meant + 1 - phase > most)
            return BLOCKED;
        first = meant + 1 - phase;
    }
    *seen = first;
    return DONE;
}

static int others_named(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word index, threads = 0;
    int result = value_of(s, w, agent, node->a, &index);
    if (result == DONE && node->kind != N_NAMED_WAIT)
        result = value_of(s, w, agent, node->b, &threads);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return BLOCKED;
    word number = node->x + index, *turns = c->turns + agent * s->program->named + number;
    if (node->kind != N_NAMED_WAIT && !c->in_sync[agent]) {
        c->threads[number] += agent_info(s, agent)->threads;
        if (c->wanted[number] != ENDLESS && c->wanted[number] != threads)
            c->mixed[number] = 1;
        if (threads < c->wanted[number])
            c->wanted[number] = threads;
        *turns += 1;
        c->in_sync[agent] = node->kind == N_NAMED_SYNC;
    }
    if (node->kind == N_NAMED_ARRIVE)
        return DONE;
    if (node->kind == N_NAMED_WAIT && s->program->follows)
        c->learns[number] |= (word)1 << agent;
    if (*turns && generations(s, w, number) < *turns)
        return BLOCKED;
    c->in_sync[agent] = 0;
    return DONE;
}

/* Whether the operation in flight will have written something that agents may rest on. */
static int lands(const search_t *s, const word *flight)
{
    const node_t *node = node_at(s, flight[F_NODE]);
    const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
    for (int e = 0; s->program->follows && e < node->effects; e++)
        if (effect[e].write)
            return 1;
    return 0;
}

/* Whether the agent learns what of its queue is over, as far as it is over when it passes. */
static int waits_to_know(const search_t *s, const node_t *node)
{
    return s->program->follows && node->kind == N_QUEUE_WAIT && !(node->flags & FLAG_READ);
}

static int others_queue_wait(search_t *s, word *w, int agent, const node_t *node)
{
    const struct closure *c = s->closure;
    word pending, least = 0, queues = s->program->queues;
    int result = value_of(s, w, agent, node->a, &pending);
    if (result != DONE)
        return result;
    int counted = c->flight && agent == c->step.agent && c->node->x == node->x
                  && (!(node->flags & FLAG_READ) || c->flight[F_READING]);
    if (counted) {
        const word *closed = closed_at(s, agent_region(s, w, agent), node->x);
        word commits = c->commits[agent * queues + node->x], group = c->flight[F_GROUP];
        least = group != GROUP_OPEN || commits > 0; /* what is still open is not waited for */
        if (least && queue_info(s, node->x)->ordered)
            least = *closed + commits - (group == GROUP_OPEN ? *closed : group);
    }
    if (least > pending)
        return BLOCKED;
    return counted && waits_to_know(s, node) && lands(s, c->flight) ? STAYS : DONE;
}

static int others_fence(search_t *s, word *w, int agent, const node_t *node)
{
    const struct closure *c = s->closure;
    const cover_t *cover = (const cover_t *)s->program->covers + node->effect;
    if (node->x == FENCE_INIT) {
        for (int b = 0; b < s->program->barriers; b++)
            if (barrier_at(s, w, b)[B_STATUS] == BARRIER_UNPUBLISHED)
                return STAYS;
        return DONE;
    }
    for (int i = 0; i < node->effects && c->touches && s->program->follows; i++) {
        word cell = cover[i].cell;
        if ((meets(s, cell, cell + 1, 1) || c->fenced[cell] == c->stamp)
            && fence_publishes(s, w, cell, agent))
            return STAYS;
    }
    if (!node->effects || !c->generic)
        return DONE;
    /* A fence of another agent takes only the marks of engines, unless the path rule holds. */
    return node->x == FENCE_ASYNC && !s->program->path_rule && !c->flight ? DONE : STAYS;
}

/* Initialised or invalidated in U: its phases begin again, and totals mean nothing. */
static void renew(search_t *s, word first, word end)
{
    struct closure *c = s->closure;
    for (word number = first; number < end; number++)
        c->renewed[number] = c->touched[number] = c->strange[number] = c->waited[number] = 1;
    c->renewals = 1;
}

static int others_lifecycle(search_t *s, word *w, int agent, const node_t *node)
{
    word index;
    int result = value_of(s, w, agent, node->a, &index);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return BLOCKED; /* a fault, whatever t does */
    renew(s, node->x + index, node->x + index + 1);
    return DONE;
}

static void others_commit(search_t *s, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word place = agent * s->program->queues + node->x;
    /* Empty groups count while an older one is unfinished, as far as U knows. */
    c->commits[place] += 1;
}

/* The next operation of an agent in U: DONE passed, BLOCKED, STAYS not independent of t. */
static int others_operation(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word amount;
    int result;
    switch (node->kind) {
    case N_END: return BLOCKED;
    case N_ACCESS: return others_memory(s, w, agent, node);
    case N_ISSUE:
    case N_QUEUE_ARRIVE: return others_issue(s, w, agent, node);
    case N_COMMIT: others_commit(s, agent, node); return DONE;
    case N_QUEUE_WAIT: return others_queue_wait(s, w, agent, node);
    case N_ARRIVE:
    case N_EXPECT: return others_arrive(s, w, agent, node);
    case N_WAIT: return others_wait(s, w, agent, node);
    case N_NAMED_SYNC:
    case N_NAMED_ARRIVE:
    case N_NAMED_WAIT: return others_named(s, w, agent, node);
    case N_FENCE: return others_fence(s, w, agent, node);
    case N_INIT:
    case N_INVALIDATE: return others_lifecycle(s, w, agent, node);
    case N_TAKE:
    case N_GIVE:
        result = value_of(s, w, agent, node->a, &amount);
        if (result != DONE)
            return result;
        if (node->kind == N_GIVE) {
            c->given[node->x] += amount;
            return DONE;
        }
        if (w[s->program->off_pools + node->x] + c->given[node->x] < amount)
            return BLOCKED;
        if (amount < 0 || c->taken[node->x] > ENDLESS)
            c->taken[node->x] = ENDLESS;
        else
            c->taken[node->x] += amount;
        return DONE;
    case N_TOKEN_WAIT:
        result = value_of(s, w, agent, node->a, &amount);
        if (result == DONE && amount >= 0 && amount < node->y) {
            c->touched[node->x + amount] = 1;
            if (s->program->follows)
                c->waited[node->x + amount] = 1;
        }
        return result;
    default: return STAYS;
    }
}
