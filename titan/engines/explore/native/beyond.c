/* U where an agent's way depends on what is not decided: anything its control flow can reach.
 *
 * The closure (closure.c) follows agents by their numbers. Where it would have to know a size that
 * is still open, or has gone far enough, it continues without numbers: every operation that control
 * flow leads to from there is in U, with every value its expressions can have, any number of times,
 * and every wait passes. The one wait that is kept is that of an agent for the flight of t itself
 * on a queue: U is what happens before t, so it is never passed. Sets only grow by that, so U stays
 * an over-approximation, and no size has to be decided for the sake of a reduction. */

/* Whether the expression has one value for the agent, wherever it stands. */
static int steady(const search_t *s, word expression)
{
    if (expression < 0)
        return 0;
    for (const word *c = s->program->code + expression; *c != OP_END;) {
        switch (*c) {
        case OP_VARIABLE:
        case OP_PARAMETER:
        case OP_TEST_PARAMETER: return 0;
        case OP_CONSTANT:
        case OP_AND:
        case OP_OR: c += 2; break;
        default: c += 1;
        }
    }
    return 1;
}

/* The values of an index below `limit`, as [*first, *end): one if it is steady, or all. */
static int spread(search_t *s, word *w, int agent, word expression, word limit, word *first,
                  word *end)
{
    *first = 0;
    *end = limit;
    if (!steady(s, expression))
        return DONE;
    int result = value_of(s, w, agent, expression, first);
    if (result == DONE)
        *end = *first >= 0 && *first < limit ? *first + 1 : *first; /* beyond: a fault of its own */
    return result;
}

static int widened_memory(search_t *s, word *w, int agent, const node_t *node)
{
    const titan_program *p = s->program;
    const effect_t *effect = (const effect_t *)p->effects + node->effect;
    const region_t *regions = (const region_t *)p->regions;
    for (int e = 0; e < node->effects && s->closure->touches; e++, effect++) {
        const buffer_t *buffer = (const buffer_t *)p->buffers + effect->buffer;
        word low, high, left, right;
        int result = spread(s, w, agent, effect->stage, buffer->stages, &low, &high);
        if (result == DONE)
            result = spread(s, w, agent, effect->part, buffer->parts, &left, &right);
        if (result != DONE)
            return result;
        for (word stage = low; stage < high; stage++)
            for (word part = left; part < right; part++) {
                const region_t *region = regions + buffer->region + stage * buffer->parts + part;
                if (follows_in_pipe(s, agent, node, effect, region->first, region->end))
                    continue;
                if (meets(s, region->first, region->end, (int)effect->write)
                    || meets_publishing(s, w, region->first, region->end)
                    || (node->kind == N_ISSUE
                        && meets_fence(s, w, region->first, region->end, effect->proxy)))
                    return STAYS;
            }
    }
    return DONE;
}

static int widened_completions(search_t *s, word *w, int agent, const node_t *node)
{
    const completion_t *done = (const completion_t *)s->program->completions + node->completion;
    word first, end;
    if (held_back(s, agent, node->x))
        return DONE;
    for (int i = 0; i < (node->kind == N_ISSUE ? node->completions : 0); i++, done++) {
        int result = spread(s, w, agent, done->index, done->stages, &first, &end);
        if (result != DONE)
            return result;
        for (word b = first; b < end; b++)
            s->closure->touched[done->first + b] = s->closure->strange[done->first + b] = 1;
    }
    if (node->kind != N_QUEUE_ARRIVE)
        return DONE;
    int result = spread(s, w, agent, node->a, node->y, &first, &end);
    for (word b = first; result == DONE && b < end; b++)
        s->closure->touched[node->chunks + b] = s->closure->strange[node->chunks + b] = 1;
    return result;
}

/* A generation of a named barrier needs threads of agents that differ: where those who may arrive
 * are too few, nobody gets past. BLOCKED: none of the barriers can be passed. */
static int widened_named(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word first, end, threads = 1, passed = 0;
    int result = spread(s, w, agent, node->a, node->y, &first, &end);
    if (result == DONE && node->kind != N_NAMED_WAIT && steady(s, node->b))
        result = value_of(s, w, agent, node->b, &threads);
    for (word number = node->x + first; result == DONE && number < node->x + end; number++) {
        if (node->kind != N_NAMED_WAIT) {
            c->turns[agent * s->program->named + number] += 1;
            c->loose[number] = 1;
            if (threads < c->wanted[number])
                c->wanted[number] = threads;
        }
        if (node->kind != N_NAMED_WAIT || s->program->follows)
            c->mixed[number] = 1;
        passed |= generations(s, w, number) > 0;
    }
    if (result == DONE && node->kind == N_NAMED_SYNC && !passed)
        return BLOCKED;
    return result;
}

/* Arrivals and waits: counts mean nothing any more. */
static int widened_barrier(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word first, end;
    int result = spread(s, w, agent, node->a, node->y, &first, &end);
    for (word i = first; result == DONE && i < end; i++) {
        word number = node->x + i;
        int waits = node->kind == N_WAIT || node->kind == N_TOKEN_WAIT;
        c->touched[number] = (waits ? c->waited : c->strange)[number] = 1;
    }
    return result;
}

static int widened_lifecycle(search_t *s, word *w, int agent, const node_t *node)
{
    word first, end;
    int result = spread(s, w, agent, node->a, node->y, &first, &end);
    if (result == DONE)
        renew(s, node->x + first, node->x + end);
    return result;
}

static int widened_queue_wait(const search_t *s, int agent, const node_t *node)
{
    const struct closure *c = s->closure;
    int own = c->flight && agent == c->step.agent && c->node->x == node->x;
    return own && waits_to_know(s, node) && lands(s, c->flight) ? STAYS : DONE;
}

/* One operation that the agent may come to. BLOCKED: it never gets past it in U. */
static int widened_operation(search_t *s, word *w, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word pending;
    int result;
    switch (node->kind) {
    case N_END:
    case N_ASSIGN:
    case N_TEST:
    case N_COMMIT: return DONE;
    case N_ACCESS: return widened_memory(s, w, agent, node);
    case N_ISSUE:
    case N_QUEUE_ARRIVE:
        result = node->kind == N_ISSUE ? widened_memory(s, w, agent, node) : DONE;
        return result == DONE ? widened_completions(s, w, agent, node) : result;
    case N_QUEUE_WAIT:
        /* The flight of t is in a group that is closed, and is never over: one group at least. */
        if (!c->flight || agent != c->step.agent || c->node->x != node->x
            || c->flight[F_GROUP] == GROUP_OPEN || !steady(s, node->a)
            || ((node->flags & FLAG_READ) && !c->flight[F_READING]))
            return widened_queue_wait(s, agent, node);
        result = value_of(s, w, agent, node->a, &pending);
        if (result == DONE && pending < 1)
            return BLOCKED;
        return result == DONE ? widened_queue_wait(s, agent, node) : result;
    case N_ARRIVE:
    case N_EXPECT:
    case N_WAIT:
    case N_TOKEN_WAIT: return widened_barrier(s, w, agent, node);
    case N_NAMED_SYNC:
    case N_NAMED_ARRIVE:
    case N_NAMED_WAIT: return widened_named(s, w, agent, node);
    case N_FENCE: return others_fence(s, w, agent, node);
    case N_INIT:
    case N_INVALIDATE: return widened_lifecycle(s, w, agent, node);
    case N_TAKE: c->taken[node->x] = ENDLESS; return DONE;
    case N_GIVE: c->given[node->x] = ENDLESS; return DONE;
    default: return STAYS;
    }
}

static void widen_to(struct closure *c, word node, int *top)
{
    if (node < 0 || c->reached[node] == c->widenings)
        return;
    c->reached[node] = c->widenings;
    c->stack[(*top)++] = node;
}

/* From where it stands in U, the agent does all that its control flow leads to. */
static int widen(search_t *s, word *w, int agent)
{
    struct closure *c = s->closure;
    int top = 0;
    c->widenings += 1;
    c->widened[agent] = WIDENED;
    c->extent += 1;
    widen_to(c, c->position[agent], &top);
    while (top > 0) {
        word number = c->stack[--top];
        c->extent += 1;
        const node_t *node = node_at(s, number);
        int result = widened_operation(s, w, agent, node);
        if (result == BLOCKED)
            continue;
        if (result != DONE)
            return result;
        if (node->kind == N_END)
            c->ends[agent] = 1;
        widen_to(c, node->next, &top);
        if (node->kind == N_TEST)
            widen_to(c, node->alt, &top);
    }
    return DONE;
}
