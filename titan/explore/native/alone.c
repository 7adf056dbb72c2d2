/* Whether a step may be explored alone: t against the closure of the others (closure.c). */

/* ----------------------------------------------------------------------- what t touches */

static void stamp_cells(search_t *s, word first, word end, int write, int generic)
{
    struct closure *c = s->closure;
    for (word cell = first; cell < end; cell++) {
        const cell_t *info = (const cell_t *)s->program->cell + cell;
        (write ? c->writes : c->reads)[cell] = c->stamp;
        if (generic && (info->writers || info->readers || info->map))
            c->generic = 1;
    }
}

/* STAYS: t is of a kind that is never explored alone. */
static int enter_agent_step(search_t *s, word *w)
{
    struct closure *c = s->closure;
    const effect_t *effects = (const effect_t *)s->program->effects + c->node->effect;
    switch (c->node->kind) {
    case N_INIT:
    case N_INVALIDATE: return STAYS;
    case N_ARRIVE: return c->node->flags & FLAG_DROP ? STAYS : DONE;
    case N_FENCE:
        if (c->node->x == FENCE_INIT)
            return STAYS;
        if (c->node->effects && (c->node->x != FENCE_ASYNC || s->program->path_rule))
            return STAYS;
        for (int i = 0; i < c->node->effects; i++)
            c->fenced[((const cover_t *)s->program->covers)[c->node->effect + i].cell] = c->stamp;
        return DONE;
    case N_ACCESS:
    case N_ISSUE:
        for (int e = 0; e < c->node->effects; e++) {
            place_t place;
            int result = resolve(s, w, c->step.agent, effects + e, 1, &place);
            if (result != DONE)
                return result == NEED ? NEED : STAYS;
            stamp_cells(s, place.first, place.end, (int)effects[e].write,
                        c->node->kind == N_ACCESS);
        }
        return DONE;
    default: return DONE;
    }
}

static int enter_engine_step(search_t *s)
{
    struct closure *c = s->closure;
    const effect_t *effect = (const effect_t *)s->program->effects + c->node->effect;
    for (int e = 0; e < c->node->effects; e++, effect++) {
        word first, end;
        if (read_is_over(effect, c->flight))
            continue;
        flight_place(s, c->flight, e, &first, &end);
        stamp_cells(s, first, end, (int)effect->write, effect->proxy == PROXY_GENERIC);
    }
    return DONE;
}

/* ---------------------------------------------------------------------------- fixpoint */

static void begin(search_t *s, const word *w)
{
    struct closure *c = s->closure;
    const titan_program *p = s->program;
    size_t agents = (size_t)p->agents, barriers = (size_t)p->barriers, named = (size_t)p->named;
    c->stamp += 1;
    c->generic = c->operations = 0;
    memset(c->passed, 0,
           sizeof(word) * (agents * (barriers + named + (size_t)p->queues) + 4 * barriers));
    memset(c->threads, 0, sizeof(word) * named);
    memset(c->given, 0, sizeof(word) * (size_t)p->pools);
    memset(c->waited, 0, 2 * barriers + named + agents + (size_t)p->pools);
    for (int n = 0; n < p->named; n++) {
        const word *held = named_at(s, w, n);
        c->wanted[n] = held[D_EXPECTED] ? held[D_EXPECTED] : ENDLESS;
        for (int a = 0; a < p->agents; a++) {
            c->turns[a * p->named + n] = (held[D_AGENTS] | held[D_SYNCS]) >> a & 1;
            c->in_sync[a] |= held[D_SYNCS] >> a & 1;
        }
    }
    for (int a = 0; a < p->agents; a++) {
        const word *region = agent_region(s, w, a);
        c->position[a] = region[A_NODE];
        memcpy(c->variables + a * p->variables, region + A_VARIABLES,
               sizeof(word) * (size_t)p->variables);
    }
}

/* Let every agent but that of t go as far as U allows. */
static int run_closure(search_t *s, word *w)
{
    struct closure *c = s->closure;
    const titan_program *p = s->program;
    for (int progress = 1; progress;) {
        progress = 0;
        for (int a = 0; a < p->agents; a++) {
            if (!c->flight && a == c->step.agent)
                continue;
            for (;;) {
                const node_t *node = node_at(s, c->position[a]);
                int result = others_operation(s, w, a, node);
                if (result == BLOCKED)
                    break;
                if (result != DONE)
                    return result;
                if (++c->operations > CLOSURE_OPERATIONS_MAX)
                    return STAYS;
                c->position[a] = node->next;
                result = settle(s, w, c->variables + a * p->variables, agent_info(s, a)->member,
                                c->position + a);
                if (result != DONE)
                    return result;
                progress = 1;
            }
        }
    }
    return DONE;
}

/* A CTA that ends in U while it has not ended: work in flight in it would be a leak. */
static int ends_a_cta(const search_t *s, const word *w)
{
    const titan_program *p = s->program;
    for (int a = 0; a < p->agents; a++) {
        word cta = agent_info(s, a)->cta;
        int ended = 1, before = 1;
        for (int b = 0; b < p->agents; b++) {
            if (agent_info(s, b)->cta != cta)
                continue;
            ended &= node_at(s, s->closure->position[b])->kind == N_END;
            before &= node_at(s, agent_region(s, w, b)[A_NODE])->kind == N_END;
        }
        if (ended && !before)
            return 1;
    }
    return 0;
}

/* Whether the engine's step takes away what a CTA that ends would leak. */
static int may_leak(const search_t *s)
{
    const struct closure *c = s->closure;
    const effect_t *effect = (const effect_t *)s->program->effects + c->node->effect;
    for (int e = 0; e < c->node->effects; e++, effect++) {
        word first, end;
        flight_place(s, c->flight, e, &first, &end);
        if ((effect->write || c->flight[F_READING])
            && ((const cell_t *)s->program->cell)[first].home >= 0)
            return 1;
    }
    return c->node->completions > 0;
}

static int several_ctas(const search_t *s)
{
    for (int a = 1; a < s->program->agents; a++)
        if (agent_info(s, a)->cta != agent_info(s, 0)->cta)
            return 1;
    return 0;
}

/* ---------------------------------------------------------------- t against the totals of U */

static int arrival_commutes(search_t *s, const word *w, word number, word count, word expected,
                            word finished, word announced)
{
    const struct closure *c = s->closure;
    const word *barrier = barrier_at(s, w, number);
    word plus = expected + c->expected[number] + announced + c->announced[number];
    word minus = finished + c->finished[number], pending = barrier[B_PENDING];
    pending -= count + c->arrivals[number];
    if (barrier[B_STATUS] != 2 || c->strange[number] || pending < 0)
        return STAYS;
    if (barrier[B_BYTES] + plus > TRANSACTION_MAX || barrier[B_BYTES] - minus < -TRANSACTION_MAX)
        return STAYS;
    if (pending > 0)
        return DONE;
    word bytes = barrier[B_BYTES] + plus - minus;
    if (announced || c->announced[number] || bytes < 0)
        return STAYS;
    return bytes == 0 && c->waited[number] ? STAYS : DONE;
}

static int engine_commutes(search_t *s, const word *w)
{
    const struct closure *c = s->closure;
    const word *value = c->flight + F_VALUES + 2 * c->node->effects;
    if (c->step.actor == STEP_READS)
        return DONE;
    for (int i = 0; i < c->node->completions; i++) {
        word amount = value[2 * i + 1], number = value[2 * i];
        int arrive = c->node->kind == N_QUEUE_ARRIVE;
        if (!arrive) {
            word share = floor_div(amount, c->node->chunks);
            amount = c->flight[F_CHUNKS] == 1 ? amount - share * (c->node->chunks - 1) : share;
        }
        /* Two completions of one operation on one barrier are not counted together here. */
        for (int j = 0; j < i; j++)
            if (value[2 * j] == number)
                return STAYS;
        if (amount <= 0
            || arrival_commutes(s, w, number, arrive ? amount : 0, 0, arrive ? 0 : amount, 0)
                   != DONE)
            return STAYS;
    }
    return DONE;
}

static int agent_commutes(search_t *s, word *w)
{
    struct closure *c = s->closure;
    const node_t *node = c->node;
    word index = 0, first = 0, second = 0;
    int result = DONE, agent = c->step.agent;
    if (node->kind == N_TAKE)
        return c->taken[node->x] ? STAYS : DONE;
    if (node->kind != N_WAIT && node->kind != N_TOKEN_WAIT && node->kind != N_ARRIVE
        && node->kind != N_EXPECT
        && node->kind != N_NAMED_SYNC && node->kind != N_NAMED_ARRIVE)
        return DONE;
    result = agent_value(s, w, agent, node->a, &index);
    if (result == DONE && node->b >= 0)
        result = agent_value(s, w, agent, node->b, &first);
    if (result == DONE && node->kind == N_ARRIVE)
        result = agent_value(s, w, agent, node->c, &second);
    if (result != DONE)
        return result;
    if (index < 0 || index >= node->y)
        return STAYS;
    word number = node->x + index;
    /* An arrival before the first wait of a phase is a fault, and behind it is none. */
    if ((node->kind == N_WAIT || node->kind == N_TOKEN_WAIT)
        && !barrier_at(s, w, number)[B_OBSERVED] && (c->arrivals[number] || c->strange[number]))
        return STAYS;
    if (node->kind == N_TOKEN_WAIT)
        return DONE;
    if (node->kind == N_WAIT)
        return completions(s, w, number) ? STAYS : DONE;
    if (node->kind == N_ARRIVE)
        return first <= 0 || second < 0 ? STAYS
                                        : arrival_commutes(s, w, number, first, second, 0, 0);
    if (node->kind == N_EXPECT)
        return first < 0 ? STAYS : arrival_commutes(s, w, number, 0, 0, 0, first);
    if (c->mixed[number] || (c->wanted[number] != ENDLESS && c->wanted[number] != first))
        return STAYS;
    word total = named_at(s, w, number)[D_ARRIVED] + c->threads[number]
                 + agent_info(s, agent)->threads;
    return total > first ? STAYS : DONE;
}

/* DONE: the step may be explored alone; STAYS: not; NEED: a size decides. */
static int alone(search_t *s, word *w, const step_t *step)
{
    struct closure *c = s->closure;
    const word *region = agent_region(s, w, step->agent);
    c->step = *step;
    c->flight = step->actor == STEP_AGENT ? NULL : flight_at(s, region, step->ordinal);
    c->node = node_at(s, c->flight ? c->flight[F_NODE] : region[A_NODE]);
    begin(s, w);
    int result = c->flight ? enter_engine_step(s) : enter_agent_step(s, w);
    if (result == DONE)
        result = add_flights(s, w);
    if (result == DONE)
        result = run_closure(s, w);
    if (result == DONE && s->program->refuse_exit
        && (c->flight ? may_leak(s) : several_ctas(s)) && ends_a_cta(s, w))
        result = STAYS;
    if (result == DONE)
        result = c->flight ? engine_commutes(s, w) : agent_commutes(s, w);
    if (result == BROKEN) {
        /* U goes further than the program does: what is broken there may never happen. */
        s->error = 0;
        result = STAYS;
    }
    return result;
}

/* Whether the packed state in `s->packed` has been expanded, or is being expanded. */
static int is_old(const search_t *s, size_t length)
{
    uint32_t slot, state = find(s, length, hash_bytes(s->packed, length), &slot);
    return state != NO_STATE && state <= s->cursor;
}

/* Explore one step alone if some step allows it. STAYS: all steps have to be explored. */
static int expand_one(search_t *s, uint32_t state, const step_t *steps, int count)
{
    for (int turn = 2 * count - 1; turn >= 0; turn--) {
        int i = turn % count;
        if ((steps[i].actor == STEP_AGENT) == (turn >= count))
            continue;
        int result = alone(s, s->base, steps + i);
        if (result == STAYS)
            continue;
        if (result == NEED)
            return decide(s, state);
        result = try_step(s, steps + i);
        if (result == NEED)
            return decide(s, state);
        if (result == FAULT)
            return found(s, state, steps + i);
        if (result != DONE)
            return result;
        size_t length = canonical(s, s->next);
        if (s->shifted == SHIFT_UNFAIR || (s->shifted == SHIFT_NONE && is_old(s, length)))
            continue;
        s->reduced += 1;
        return insert(s, length, state);
    }
    return STAYS;
}
