/* Partial order reduction: one step instead of all.
 *
 * A step t that is possible in state s is explored alone when everything that any sequence of other
 * steps from s (without t) can contain is independent of t. What the others can do is computed
 * per state as a closure U: an agent's control flow depends on nothing but its own variables and
 * the sizes, so its operations follow one another in one fixed order, and U is how far each agent
 * can get. U is an over-approximation by optimism: a wait passes as soon as the arrivals and bytes
 * in U could have completed the phase that it waits for, ignoring their order; what one agent does
 * only ever adds to that. A closure runs to its fixpoint; one that gets too long, or meets an
 * operation that is not understood here (initialisation, invalidation), fails and t is not taken.
 *
 * Independent of u in U means: t stays possible after u; u after t leads where t after u leads; and
 * if u is faulty where t is possible, it is faulty after t. Per kind of t:
 *  - memory: no cell is shared with one of the two writing. Marks of unfenced accesses are sets
 *    by agent: fences of other agents take nothing from them, except by the path rule, and except
 *    for the marks of engines.
 *  - wait: no completion of a phase of its barrier is in U.
 *  - arrival or completed bytes: with all of U the phase ends at most once, at the very end, so the
 *    order does not matter, and no wait in U passes on this barrier if it ends.
 *  - named barriers: with all of U the generation is not exceeded. Pools: no other take.
 *  - engine steps, and steps at other CTAs: no CTA reaches its end in U (it would be a leak).
 *  - commits and waits of queues, tokens: private to the agent and its engines, which commute.
 * A fault state that needs two agents to stand somewhere (a race, a lapped wait) is seen from the
 * agent that stands still: its operation is an access or a wait, and u would conflict with it.
 *
 * So (Godefroid's theorem for persistent sets) every fault and deadlock stays reachable after t,
 * unless t is preferred for ever. That would be a cycle of stored states. A cycle either contains a
 * shift, and a t whose successor was shifted is not taken; or it does not, and then its last
 * expanded state leads to one expanded before, and such a t is not taken either. Splitting cases of
 * an open size (which the closure asks for when it meets a test of it) is sound at any time, since
 * a size is fixed from the start; it never shifts, and is subject to the same rule. */

#define CLOSURE_OPERATIONS_MAX 3000
#define ENDLESS ((word)1 << 30)

struct closure {
    uint32_t stamp;
    uint32_t *reads, *writes, *fenced;  /* cells of t: stamped when t reads, writes, fences them */
    word *position, *variables;         /* agents; agents x variables */
    word *passed;                       /* agents x barriers: completions an agent has seen */
    word *arrivals, *expected, *finished, *announced; /* per barrier: totals of U */
    uint8_t *waited, *strange;          /* per barrier: a wait passes in U; totals mean nothing */
    word *threads, *wanted, *turns;     /* per named barrier; wanted; agents x named: arrivals */
    uint8_t *mixed, *in_sync;           /* per named: threads disagree; per agent: has arrived */
    uint8_t *taken;                     /* per pool */
    word *given;
    word *commits;                      /* agents x queues: groups closed in U */
    uint8_t *opened;                    /* agents x queues: the open group is not empty */
    int operations;
    step_t step;
    const node_t *node;                 /* operation of t, or of its flight */
    const word *flight;                 /* flight of t, if it is an engine's step */
    int generic;                        /* t makes generic accesses to cells with marks */
};

static void closure_free(struct closure *c)
{
    if (!c)
        return;
    free(c->reads);
    free(c->position);
    free(c->waited);
    free(c);
}

/* Three blocks: stamps, words, bytes. */
static struct closure *closure_new(const search_t *s)
{
    const titan_program *p = s->program;
    struct closure *c = calloc(1, sizeof *c);
    size_t agents = (size_t)p->agents, cells = (size_t)p->cells, barriers = (size_t)p->barriers;
    size_t named = (size_t)p->named, queues = (size_t)p->queues, pools = (size_t)p->pools;
    if (!c)
        return NULL;
    c->reads = calloc(3 * cells + 1, sizeof *c->reads);
    size_t words = agents * (1 + (size_t)p->variables + barriers + named + queues) + 4 * barriers
                   + 2 * named + pools + 1;
    c->position = calloc(words, sizeof(word));
    c->waited = calloc(2 * barriers + named + agents + pools + agents * queues + 1, 1);
    if (!c->reads || !c->position || !c->waited) {
        closure_free(c);
        return NULL;
    }
    c->writes = c->reads + cells;
    c->fenced = c->writes + cells;
    c->variables = c->position + agents;
    c->passed = c->variables + agents * (size_t)p->variables;
    c->turns = c->passed + agents * barriers;
    c->commits = c->turns + agents * named;
    c->arrivals = c->commits + agents * queues;
    c->expected = c->arrivals + barriers;
    c->finished = c->expected + barriers;
    c->announced = c->finished + barriers;
    c->threads = c->announced + barriers;
    c->wanted = c->threads + named;
    c->given = c->wanted + named;
    c->strange = c->waited + barriers;
    c->mixed = c->strange + barriers;
    c->in_sync = c->mixed + named;
    c->taken = c->in_sync + agents;
    c->opened = c->taken + pools;
    return c;
}

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
        flight_place(s, c->flight, e, &first, &end);
        stamp_cells(s, first, end, (int)effect->write, effect->proxy == PROXY_GENERIC);
    }
    return DONE;
}

/* --------------------------------------------------------------------- what others touch */

static int meets(const search_t *s, word first, word end, int write)
{
    const struct closure *c = s->closure;
    for (word cell = first; cell < end; cell++)
        if (c->writes[cell] == c->stamp || (write && c->reads[cell] == c->stamp))
            return 1;
    return 0;
}

/* Marks of engines appear when a generic asynchronous access finishes: a fence takes them away. */
static int meets_fence(const search_t *s, const word *w, word first, word end, word proxy)
{
    const struct closure *c = s->closure;
    word own = (word)1 << c->step.agent | ENGINE_BIT;
    for (word cell = first; cell < end; cell++) {
        const word *held = cell_at(s, w, cell);
        if (c->fenced[cell] != c->stamp)
            continue;
        if (proxy == PROXY_GENERIC || ((held[C_WRITERS] | held[C_READERS]) & own))
            return 1;
    }
    return 0;
}

static void add_completion(struct closure *c, const node_t *node, word barrier, word amount)
{
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
            if (flight[F_GROUP] == GROUP_OPEN && node->x < s->program->queues) {
                c->opened[a * s->program->queues + node->x] = 1;
                if (!c->flight && a == c->step.agent)
                    continue; /* its agent does not move: the group stays open */
            }
            /* The pipe itself keeps the order between t and the flight; marks it does not keep. */
            int ordered = !c->flight && c->node->kind == N_ISSUE
                          && piped(s, flight, a, c->step.agent, c->node->x);
            const effect_t *effect = (const effect_t *)s->program->effects + node->effect;
            for (int e = 0; e < node->effects; e++, effect++) {
                word first, end;
                flight_place(s, flight, e, &first, &end);
                if (ordered && effect->proxy != PROXY_GENERIC)
                    continue;
                if (meets(s, first, end, (int)effect->write)
                    || (effect->proxy == PROXY_GENERIC
                        && meets_fence(s, w, first, end, PROXY_GENERIC)))
                    return STAYS;
            }
            if (behind && held_back(s, a, node->x))
                continue;
            for (int i = 0; i < node->completions; i++) {
                const word *value = flight + F_VALUES + 2 * (node->effects + i);
                add_completion(c, node, value[0], value[1]);
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

static word generations(const search_t *s, const word *w, word number)
{
    const struct closure *c = s->closure;
    if (c->wanted[number] <= 0)
        return ENDLESS;
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
    const piece_t *pieces = (const piece_t *)p->pieces;
    for (int e = 0; e < node->effects; e++, effect++) {
        const buffer_t *buffer = (const buffer_t *)p->buffers + effect->buffer;
        word stage = 0, part = 0;
        int result = value_of(s, w, agent, effect->stage, &stage);
        if (result == DONE && effect->part >= 0)
            result = value_of(s, w, agent, effect->part, &part);
        if (result != DONE)
            return result;
        if (stage < 0 || stage >= buffer->stages || part < 0 || part >= buffer->parts)
            continue; /* a fault, whatever t does */
        word piece = buffer->piece + stage * buffer->parts + part;
        word end = pieces[effect->part >= 0 ? piece : piece + buffer->parts - 1].end;
        int engine = node->kind == N_ISSUE;
        if (meets(s, pieces[piece].first, end, (int)effect->write)
            || (engine && meets_fence(s, w, pieces[piece].first, end, effect->proxy)))
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
    if (node->x < queues) {
        if (queue_info(s, node->x)->grouped)
            c->opened[agent * queues + node->x] = 1;
        else
            c->commits[agent * queues + node->x] += 1;
    }
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
    word *seen = c->passed + agent * s->program->barriers + number;
    word most = completions(s, w, number), first = *seen;
    if (((phase + first) & 1) == (parity & 1))
        first += 1;
    if (barrier_at(s, w, number)[B_STATUS] == 0 || first <= most)
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
    if (*turns && generations(s, w, number) < *turns)
        return BLOCKED;
    c->in_sync[agent] = 0;
    return DONE;
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
        least = 1;
        if (queue_info(s, node->x)->ordered)
            least = *closed + c->commits[agent * queues + node->x] - c->flight[F_GROUP];
    }
    return least <= pending ? DONE : BLOCKED;
}

static int others_fence(search_t *s, word *w, const node_t *node)
{
    const struct closure *c = s->closure;
    if (node->x == FENCE_INIT) {
        for (int b = 0; b < s->program->barriers; b++)
            if (barrier_at(s, w, b)[B_STATUS] == 1)
                return STAYS;
        return DONE;
    }
    if (!node->effects || !c->generic)
        return DONE;
    /* A fence of another agent takes only the marks of engines, unless the path rule holds. */
    return node->x == FENCE_ASYNC && !s->program->path_rule && !c->flight ? DONE : STAYS;
}

static void others_commit(search_t *s, int agent, const node_t *node)
{
    struct closure *c = s->closure;
    word place = agent * s->program->queues + node->x;
    /* Empty groups count while an older one is unfinished, as far as U knows. */
    c->commits[place] += 1;
    c->opened[place] = 0;
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
    case N_FENCE: return others_fence(s, w, node);
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
        c->taken[node->x] = 1;
        return DONE;
    case N_TOKEN_WAIT: return DONE;
    default: return STAYS;
    }
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
    memset(c->waited, 0, 2 * barriers + named + agents + (size_t)p->pools
                             + agents * (size_t)p->queues);
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
    if (node->kind != N_WAIT && node->kind != N_ARRIVE && node->kind != N_EXPECT
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
    if (result == DONE && s->program->refuse_exit && (c->flight || several_ctas(s))
        && ends_a_cta(s, w))
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

/* Split cases of a size early, unless that leads to a state that has been expanded before. */
static int decide_early(search_t *s, uint32_t state)
{
    const parameter_t *p = (const parameter_t *)s->program->parameter + s->need_parameter;
    word place = p->base + (p->per ? 1 + 2 * s->need_record : 0), level = s->need_level;
    for (word value = s->base[place]; value <= level; value++) {
        copy_state(s, s->next, s->base);
        s->next[place] = value;
        s->next[place + 1] = value < level;
        if (is_old(s, pack(s, s->next)))
            return STAYS;
    }
    return decide(s, state);
}

/* Explore one step alone if some step allows it. STAYS: all steps have to be explored. */
static int expand_one(search_t *s, uint32_t state, const step_t *steps, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        int result = alone(s, s->base, steps + i);
        if (result == STAYS)
            continue;
        if (result == NEED)
            return decide_early(s, state);
        result = try_step(s, steps + i);
        if (result == NEED)
            return decide_early(s, state);
        if (result == FAULT)
            return found(s, state, steps + i);
        if (result != DONE)
            return result;
        size_t length = canonical(s, s->next);
        if (s->shifted || is_old(s, length))
            continue;
        s->reduced += 1;
        return insert(s, length, state);
    }
    return STAYS;
}
