/* Breadth-first search over canonical states. States are expanded in the order of their numbers,
 * so that "expanded" is "number not above the cursor". */

static int expand_fully(search_t *s, uint32_t state, const step_t *steps, int count)
{
    s->full += 1;
    for (int i = 0; i < count; i++) {
        int result = try_step(s, steps + i);
        if (result == NEED)
            return decide(s, state);
        if (result == FAULT)
            return found(s, state, steps + i);
        if (result == DONE)
            result = insert(s, canonical(s, s->next), state);
        if (result != DONE)
            return result;
    }
    return DONE;
}

static int expand(search_t *s, uint32_t state)
{
    step_t steps[AGENTS_MAX * (FLIGHTS_MAX + 1)];
    unpack(s, s->base, stored(s, state));
    int result = check_race(s, s->base);
    if (result == NEED)
        return decide(s, state);
    if (result != DONE)
        return result == FAULT ? found(s, state, NULL) : result;
    int count = list_steps(s, s->base, steps, &result);
    if (result == NEED)
        return decide(s, state);
    if (count < 0)
        return result;
    if (count == 0 && !all_ended(s, s->base)) {
        s->fault = FAULT_DEADLOCK;
        return found(s, state, NULL);
    }
    if (s->partial_order && count > 1) {
        result = expand_one(s, state, steps, count);
        if (result != STAYS)
            return result;
    }
    return expand_fully(s, state, steps, count);
}

/* All agents at their first operation; sizes as far as `w` has decided them. */
static int first_state(search_t *s, word *w)
{
    const titan_program *p = s->program;
    for (int a = 0; a < p->agents; a++) {
        word *region = agent_region(s, w, a);
        const agent_t *agent = agent_info(s, a);
        memset(region, 0, sizeof(word) * (size_t)(A_VARIABLES + p->variables + p->queues));
        memcpy(region + A_VARIABLES, p->first_values + agent->role * p->variables,
               sizeof(word) * (size_t)p->variables);
        region[A_NODE] = agent->entry;
        int result = settle(s, w, region + A_VARIABLES, agent->member, region + A_NODE);
        if (result != DONE)
            return result;
    }
    return DONE;
}

/* Whether the search can continue past what broke: a limit, met in one state. The verdict is then
 * never "verified", but a fault that other states lead to is still found. */
static int passes_over(search_t *s, int result)
{
    int limit = s->error == ERROR_FLIGHTS || s->error == ERROR_WINDOW || s->error == ERROR_LEVEL;
    if (result != BROKEN || !limit)
        return 0;
    s->incomplete = s->error;
    s->error = 0;
    return 1;
}

/* A stored root is a choice of sizes; it is settled when it is expanded. A role that passes turns
 * without an operation chooses once for every turn, so choices are counted. */
static int add_roots(search_t *s, word *w, int depth)
{
    if (++s->roots > ROOTS_MAX)
        return broken(s, ERROR_WINDOW);
    int result = first_state(s, w);
    if (result == DONE) {
        copy_state(s, s->next, w);
        return insert(s, canonical(s, s->next), NO_STATE);
    }
    if (result == BROKEN && passes_over(s, result))
        return DONE;
    if (result != NEED || depth > ROOT_SPLITS_MAX)
        return result == NEED ? broken(s, ERROR_LEVEL) : result;
    const parameter_t *p = (const parameter_t *)s->program->parameter + s->need_parameter;
    word place = p->base + (p->per ? 1 + 2 * s->need_record : 0), level = s->need_level;
    word before[2] = {w[place], w[place + 1]};
    for (word value = before[0]; value <= level; value++) {
        w[place] = value;
        w[place + 1] = value < level;
        result = add_roots(s, w, depth + 1);
        if (result != DONE && !passes_over(s, result))
            return result;
    }
    w[place] = before[0];
    w[place + 1] = before[1];
    return DONE;
}

/* Expand up to `slice` states; RUN_CONTINUES where more are left. */
int titan_run(search_t *s, int64_t slice)
{
    if (s->count == 0) {
        memcpy(s->base, s->program->initial, sizeof(word) * (size_t)s->program->fixed_words);
        if (add_roots(s, s->base, 0) != DONE)
            return RUN_BROKEN;
    }
    for (; s->cursor < s->count; s->cursor++) {
        if (s->count > s->states_max)
            return RUN_STATES;
        if (slice-- <= 0)
            return RUN_CONTINUES;
        int result = expand(s, s->cursor);
        if (result != DONE && !passes_over(s, result))
            return result == FAULT ? RUN_FAULT : RUN_BROKEN;
    }
    s->error = s->incomplete;
    return s->incomplete ? RUN_BROKEN : RUN_DONE;
}

void titan_free(search_t *s)
{
    if (!s)
        return;
    for (size_t c = 0; c < s->chunk_count; c++)
        free(s->chunks[c]);
    closure_free(s->closure);
    free(s->chunks);
    free(s->offset);
    free(s->parent);
    free(s->hash);
    free(s->slots);
    free(s->base);
    free(s->next);
    free(s->root);
    free(s->shadow);
    free(s->packed);
    free(s->segments);
    free(s->segment_end);
    free(s->segment_body);
    free(s->order);
    free(s->log);
    free(s);
}

search_t *titan_new(const titan_program *p, int symmetry, int partial_order, int64_t states_max,
                    int64_t bytes_max)
{
    search_t *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->program = p;
    s->symmetry = symmetry && !p->follows;
    s->partial_order = partial_order;
    s->states_max = states_max;
    s->bytes_max = (size_t)bytes_max;
    s->region_words = A_VARIABLES + p->variables + p->queues + FLIGHTS_MAX * p->flight_words;
    s->state_words = p->fixed_words + p->agents * s->region_words;
    size_t words = (size_t)s->state_words;
    s->pack_room = 9 * words + (size_t)p->agents * (size_t)(p->mask_words + p->barriers + 8);
    s->base = calloc(words, sizeof(word));
    s->next = calloc(words, sizeof(word));
    s->root = calloc(words, sizeof(word));
    s->shadow = calloc(words, sizeof(word));
    s->packed = malloc(s->pack_room);
    s->segments = malloc(s->pack_room);
    s->segment_end = calloc((size_t)p->agents + 1, sizeof *s->segment_end);
    s->segment_body = calloc((size_t)p->agents + 1, sizeof *s->segment_body);
    s->order = calloc((size_t)p->agents + 1, sizeof *s->order);
    s->closure = closure_new(s);
    if (!s->base || !s->next || !s->root || !s->shadow || !s->packed || !s->segments
        || !s->segment_end || !s->segment_body || !s->order || !s->closure || grow(s) != DONE) {
        titan_free(s);
        return NULL;
    }
    return s;
}

/* Numbers of the search, NUMBER_COUNT of them. */
void titan_numbers(const search_t *s, int64_t *out)
{
    out[NUMBER_STATES] = s->count;
    out[NUMBER_TRANSITIONS] = s->transitions;
    out[NUMBER_BYTES] = (int64_t)(s->bytes + s->chunk_bytes);
    out[NUMBER_FAULT] = s->found;
    out[NUMBER_ERROR] = s->error;
    out[NUMBER_REDUCED] = s->reduced;
    out[NUMBER_FULL] = s->full;
    out[NUMBER_EXPANDED] = s->cursor;
}
