/* Whether a step may be explored alone: t against the closure of the others (closure.c). */

/* ----------------------------------------------------------------------- what t touches */

static void stamp_cells(search_t *s, word first, word end, int write, int generic)
{
    struct closure *c = s->closure;
    c->touches = 1;
    for (word cell = first; cell < end; cell++) {
        const cell_t *info = (const cell_t *)s->program->cell + cell;
        (write ? c->writes : c->reads)[cell] = c->stamp;
        if ((generic && (info->writers || info->readers)) || ((generic || write) && info->map))
            c->generic = 1;
    }
}

/* STAYS: t is of a kind that is never explored alone. */
static int enter_agent_step(search_t *s, word *w)
{
    struct closure *c = s->closure;
    const effect_t *effects = (const effect_t *)s->program->effects + c->node->effect;
    switch (c->node->kind) {
    case N_ARRIVE: return c->node->flags & FLAG_DROP ? STAYS : DONE;
    case N_FENCE:
        if (c->node->x == FENCE_INIT)
            return STAYS;
        if (c->node->effects && (c->node->x != FENCE_ASYNC || s->program->path_rule))
            return STAYS;
        c->touches = c->node->effects > 0;
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
            c->places[e] = place;
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
        c->places[e] = (place_t){-1, 0, 0, 0};
        if (read_is_over(effect, c->flight))
            continue;
        flight_place(s, c->flight, e, &first, &end);
        c->places[e] = (place_t){c->flight[F_VALUES + 2 * e], first, end, TILE_ANY};
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
    c->generic = c->touches = c->operations = c->renewals = 0;
    c->asked = -1;
    memset(c->passed, 0,
           sizeof(word) * (agents * (barriers + named + (size_t)p->queues) + 4 * barriers));
    memset(c->threads, 0, sizeof(word) * named);
    memset(c->given, 0, sizeof(word) * (2 * (size_t)p->pools + named));
    memset(c->waited, 0, 4 * barriers + 2 * named + 3 * agents);
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

/* The next operation of the agent in U, and on to the one after it. */
static int closure_step(search_t *s, word *w, int agent)
{
    struct closure *c = s->closure;
    const titan_program *p = s->program;
    const node_t *node = node_at(s, c->position[agent]);
    int result = others_operation(s, w, agent, node);
    if (result != DONE)
        return result;
    c->position[agent] = node->next;
    return settle(s, w, c->variables + agent * p->variables, agent_info(s, agent)->member,
                  c->position + agent);
}

/* Whether numbers do not lead on: a size is open, or lies beyond what the state keeps. */
static int is_lost(search_t *s, int result)
{
    struct closure *c = s->closure;
    if (result == NEED && c->asked < 0) {
        c->asked = c->operations;
        c->need[0] = s->need_parameter;
        c->need[1] = s->need_record;
        c->need[2] = s->need_level;
    }
    if (result == BROKEN && (s->error == ERROR_WINDOW || s->error == ERROR_LEVEL)) {
        s->error = 0;
        return 1;
    }
    return result == NEED || (result == DONE && ++c->operations > s->program->closure_operations);
}

/* Let every agent but that of t go as far as U allows. */
static int run_closure(search_t *s, word *w)
{
    struct closure *c = s->closure;
    for (int progress = 1; progress;) {
        progress = 0;
        for (int a = 0; a < s->program->agents; a++) {
            if ((!c->flight && a == c->step.agent) || c->widened[a])
                continue;
            for (;;) {
                int result = closure_step(s, w, a);
                if (result == BLOCKED)
                    break;
                progress = 1;
                if (is_lost(s, result)) {
                    c->widened[a] = LOST;
                    break;
                }
                if (result != DONE)
                    return result;
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
            ended &= s->closure->ends[b]
                     || node_at(s, s->closure->position[b])->kind == N_END;
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

static int far_barriers(const search_t *s, word first, word end, word cta)
{
    for (word number = first; number < end; number++)
        if (barrier_info(s, number)->cta != cta)
            return 1;
    return 0;
}

/* Whether what the agent does next is done at another CTA, so that it matters whether that has
 * ended. Its own one has not. */
static int is_far(const search_t *s)
{
    const titan_program *p = s->program;
    const node_t *node = s->closure->node;
    word cta = agent_info(s, s->closure->step.agent)->cta;
    const effect_t *effect = (const effect_t *)p->effects + node->effect;
    const completion_t *done = (const completion_t *)p->completions + node->completion;
    switch (node->kind) {
    case N_ACCESS:
    case N_ISSUE:
        for (int e = 0; e < node->effects; e++, effect++) {
            const buffer_t *buffer = (const buffer_t *)p->buffers + effect->buffer;
            word cell = ((const region_t *)p->regions)[buffer->region].first;
            word home = ((const cell_t *)p->cell)[cell].home;
            if ((buffer->cta >= 0 && buffer->cta != cta) || (home >= 0 && home != cta))
                return 1;
        }
        for (int i = 0; node->kind == N_ISSUE && i < node->completions; i++, done++)
            if (far_barriers(s, done->first, done->first + done->stages, cta))
                return 1;
        return 0;
    case N_QUEUE_ARRIVE: return far_barriers(s, node->chunks, node->chunks + node->y, cta);
    case N_WAIT:
    case N_TOKEN_WAIT:
    case N_ARRIVE:
    case N_EXPECT:
    case N_INIT:
    case N_INVALIDATE: return far_barriers(s, node->x, node->x + node->y, cta);
    default: return 0;
    }
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
    if (barrier[B_STATUS] != BARRIER_USABLE || c->strange[number] || pending < 0)
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
    /* Of an open group only what is ahead of its last marker finishes, until it is closed. */
    if (c->node->x < s->program->queues && c->flight[F_GROUP] == GROUP_OPEN
        && !queue_info(s, c->node->x)->ordered)
        return STAYS;
    for (int i = 0; i < c->node->completions; i++)
        if (c->renewed[value[2 * i]])
            return STAYS;
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

/* Whatever U gives, its takes and that of t all have what they need. */
static int take_commutes(search_t *s, word *w)
{
    const struct closure *c = s->closure;
    word amount, taken = c->taken[c->node->x];
    int result = agent_value(s, w, c->step.agent, c->node->a, &amount);
    if (result != DONE)
        return result;
    word rest = w[s->program->off_pools + c->node->x] - amount;
    return taken && (amount < 0 || rest < taken) ? STAYS : DONE;
}

/* Nobody in U comes to anything that concerns the barrier. */
static int lifecycle_commutes(search_t *s, word *w)
{
    const struct closure *c = s->closure;
    word index;
    int result = agent_value(s, w, c->step.agent, c->node->a, &index);
    if (result != DONE)
        return result;
    if (index < 0 || index >= c->node->y || c->touched[c->node->x + index])
        return STAYS;
    return DONE;
}

/* Whether an agent that learns in U what a generation has carried may come to it when the next one,
 * which takes all of U, is over. One that arrives for that comes to it before. */
static int learns_late(const search_t *s, word number)
{
    const struct closure *c = s->closure;
    for (int a = 0; a < s->program->agents; a++)
        if (c->learns[number] >> a & 1 && !c->turns[a * s->program->named + number])
            return 1;
    return 0;
}

static int agent_commutes(search_t *s, word *w)
{
    struct closure *c = s->closure;
    const node_t *node = c->node;
    word index = 0, first = 0, second = 0;
    int result = DONE, agent = c->step.agent;
    /* What it completes is usable now, and may not be after U. */
    int completes = node->kind == N_QUEUE_ARRIVE || (node->kind == N_ISSUE && node->completions);
    if (c->renewals && completes)
        return STAYS;
    if (node->kind == N_TAKE)
        return take_commutes(s, w);
    if (node->kind == N_INIT || node->kind == N_INVALIDATE)
        return lifecycle_commutes(s, w);
    if (node->kind != N_WAIT && node->kind != N_TOKEN_WAIT && node->kind != N_ARRIVE
        && node->kind != N_EXPECT
        && node->kind != N_NAMED_SYNC && node->kind != N_NAMED_ARRIVE
        && (node->kind != N_NAMED_WAIT || !s->program->follows))
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
    int named = node->kind == N_NAMED_SYNC || node->kind == N_NAMED_ARRIVE
                || node->kind == N_NAMED_WAIT;
    if (!named && c->renewed[number])
        return STAYS;
    /* An arrival before the first wait of a phase is a fault, and behind it is none. */
    if ((node->kind == N_WAIT || node->kind == N_TOKEN_WAIT)
        && !barrier_at(s, w, number)[B_OBSERVED] && (c->arrivals[number] || c->strange[number]))
        return STAYS;
    if (node->kind == N_WAIT || node->kind == N_TOKEN_WAIT)
        return completions(s, w, number) ? STAYS : DONE;
    if (node->kind == N_ARRIVE)
        return first <= 0 || second < 0 ? STAYS
                                        : arrival_commutes(s, w, number, first, second, 0, 0);
    if (node->kind == N_EXPECT)
        return first < 0 ? STAYS : arrival_commutes(s, w, number, 0, 0, 0, first);
    if (node->kind == N_NAMED_WAIT) /* it learns what the generation before has carried */
        return c->mixed[number] || generations(s, w, number) ? STAYS : DONE;
    if (c->mixed[number] || (c->wanted[number] != ENDLESS && c->wanted[number] != first))
        return STAYS;
    word total = named_at(s, w, number)[D_ARRIVED] + c->threads[number]
                 + agent_info(s, agent)->threads;
    return total > first || (total == first && learns_late(s, number)) ? STAYS : DONE;
}

/* t against U as written. */
static int commutes(search_t *s, word *w)
{
    const struct closure *c = s->closure;
    if (s->program->refuse_exit && (c->flight ? may_leak(s) : is_far(s))
        && ends_a_cta(s, w))
        return STAYS;
    return c->flight ? engine_commutes(s, w) : agent_commutes(s, w);
}

/* Those who have lost their way continue without numbers, and the others as far as that lets them.
 * What depends on it may depend on a size: NEED instead of STAYS, if one is open. */
static int widen_all(search_t *s, word *w)
{
    struct closure *c = s->closure;
    int result = DONE, any = 0;
    for (int before = -1, extent = 0; before != extent + c->operations && result == DONE;) {
        before = extent + c->operations;
        c->extent = 0;
        for (int a = 0; a < s->program->agents && result == DONE; a++)
            if (c->widened[a]) {
                result = widen(s, w, a);
                any = 1;
            }
        extent = c->extent;
        if (result == DONE)
            result = run_closure(s, w);
    }
    if (any && result == DONE)
        result = commutes(s, w);
    return result == STAYS && c->asked >= 0 ? NEED : result;
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
    if (result == DONE)
        result = commutes(s, w);
    if (result == DONE)
        result = widen_all(s, w);
    if (result == NEED && c->asked < 0)
        (void)is_lost(s, result);
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

/* How far an agent has come, by the numbers that grow; those of inner loops count less. */
static word progress_of(const search_t *s, const word *w, int agent)
{
    const word *region = agent_region(s, w, agent);
    word live = node_at(s, region[A_NODE])->live, progress = 0;
    for (int v = 0; v < s->program->variables; v++) {
        word class = live >> v & 1 ? class_of(s, agent, v) : -1;
        if (class >= 0) {
            const class_t *info = (const class_t *)s->program->classes_table + class;
            progress += region[A_VARIABLES + v] * (info->parameter < 0 ? 1 << 16 : 1);
        }
    }
    return progress;
}

/* The order in which steps are tried: engines first, then who is behind the others. Any order is
 * sound; this one keeps agents together that do not wait for each other, so that the search for
 * every number closes. */
static void by_progress(const search_t *s, const step_t *steps, int count, int *order)
{
    word progress[AGENTS_MAX * (FLIGHTS_MAX + 1)];
    int agents = s->program->classes > 0;
    for (int i = 0; i < count; i++) {
        int agent = steps[i].actor == STEP_AGENT, to = i;
        progress[i] = agent ? (agents ? progress_of(s, s->base, steps[i].agent) : 0) : INT64_MIN;
        for (; to > 0 && progress[order[to - 1]] >= progress[i]; to--)
            order[to] = order[to - 1];
        order[to] = i;
    }
}

/* Explore one step alone if some step allows it. STAYS: all steps have to be explored.
 *
 * A size is decided only where no step can do without, and then the one that was met first. */
static int expand_one(search_t *s, uint32_t state, const step_t *steps, int count)
{
    const struct closure *c = s->closure;
    int asked = ASKED_MAX;
    int order[AGENTS_MAX * (FLIGHTS_MAX + 1)];
    word need[3];
    by_progress(s, steps, count, order);
    for (int turn = 0; turn < count; turn++) {
        int i = order[turn];
        int result = alone(s, s->base, steps + i);
        if (result == NEED && c->asked < asked) {
            asked = c->asked;
            memcpy(need, c->need, sizeof need);
        }
        if (result == STAYS || result == NEED)
            continue;
        result = try_step(s, steps + i);
        if (result == NEED)
            return decide(s, state);
        if (result == FAULT)
            return found(s, state, steps + i);
        if (result != DONE)
            return result;
        size_t length = canonical(s, s->next);
        if (!s->program->terminates
            && (s->shifted == SHIFT_UNFAIR || (s->shifted == SHIFT_NONE && is_old(s, length))))
            continue;
        s->reduced += 1;
        return insert(s, length, state);
    }
    if (asked == ASKED_MAX)
        return STAYS;
    s->need_parameter = need[0];
    s->need_record = need[1];
    s->need_level = need[2];
    return decide(s, state);
}
