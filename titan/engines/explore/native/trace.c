/* The interleaving that leads to the fault, in the agents' own numbers.
 *
 * Only parents are stored. The path is found again with a state whose agents are not sorted and its
 * shadow, which is shifted wherever the search shifted: of the steps of the shadow, the one whose
 * canonical form is the next state stored is taken. The shadow is needed because a shift waits for
 * agents that restart a variable, so that what a state may be shifted by depends on its past. */

static int reaches(search_t *s, const word *w, uint32_t target, int shift)
{
    uint32_t slot;
    copy_state(s, s->next, w);
    size_t length = shift ? canonical(s, s->next) : pack(s, s->next);
    return find(s, length, hash_bytes(s->packed, length), &slot) == target;
}

/* Settle sizes of `w` and of its shadow so that the shadow's canonical form is `target`. */
static int match_decision(search_t *s, word *w, word *shadow, uint32_t target)
{
    const titan_program *p = s->program;
    for (int n = 0; n < p->parameters; n++) {
        const parameter_t *parameter = (const parameter_t *)p->parameter + n;
        for (int r = 0; r < (parameter->per ? p->window : 1); r++) {
            word place = parameter->base + (parameter->per ? 1 + 2 * r : 0);
            word *size = shadow + place, level = size[0];
            if (size[1])
                continue;
            for (word value = level; value <= level + DECISION_REACH; value++)
                for (int decided = 0; decided < 2; decided++) {
                    size[0] = value;
                    size[1] = decided;
                    if (reaches(s, shadow, target, 0)) {
                        w[place] += value - level;
                        w[place + 1] = decided;
                        return DONE;
                    }
                }
            size[0] = level;
            size[1] = 0;
        }
    }
    return broken(s, ERROR_TRACE);
}

/* A step of the shadow with the number that the flight has had from its issue on. */
static step_t external(const search_t *s, const word *shadow, step_t step)
{
    if (step.actor != STEP_AGENT)
        step.ordinal =
            (int32_t)flight_at(s, agent_region(s, shadow, step.agent), step.ordinal)[F_ORDINAL];
    return step;
}

/* Take in `w` the step that `external` names; the two hold their flights in different orders. */
static int take_external(search_t *s, word *w, step_t step)
{
    const word *region = agent_region(s, w, step.agent);
    if (step.actor == STEP_AGENT)
        return take_step(s, w, &step);
    for (int f = 0; f < region[A_FLIGHTS]; f++)
        if (flight_at(s, region, f)[F_ORDINAL] == step.ordinal) {
            step.ordinal = f;
            return take_step(s, w, &step);
        }
    return BROKEN;
}

/* One edge of the path: the step taken from `w` and its shadow, which become the next state. */
static int follow(search_t *s, word *w, word *shadow, uint32_t target, step_t *out)
{
    step_t steps[AGENTS_MAX * (FLIGHTS_MAX + 1)];
    int result, count = list_steps(s, shadow, steps, &result);
    for (int i = 0; i < count; i++) {
        copy_state(s, s->base, shadow);
        if (take_step(s, s->base, steps + i) != DONE || !reaches(s, s->base, target, 1))
            continue;
        *out = external(s, shadow, steps[i]);
        if (take_external(s, w, *out) != DONE)
            return broken(s, ERROR_TRACE);
        slide_windows(s, w, 1);
        copy_state(s, shadow, s->base);
        normalise(s, shadow);
        return DONE;
    }
    *out = (step_t){STEP_DECIDE, -1, -1};
    return match_decision(s, w, shadow, target);
}

static int last_step(search_t *s, word *shadow, step_t *out)
{
    step_t steps[AGENTS_MAX * (FLIGHTS_MAX + 1)];
    int result, count;
    if (s->fault_step.actor < 0)
        return 0;
    count = list_steps(s, shadow, steps, &result);
    for (int i = 0; i < count; i++) {
        copy_state(s, s->base, shadow);
        if (take_step(s, s->base, steps + i) == FAULT && s->fault == s->found) {
            *out = external(s, shadow, steps[i]);
            return 1;
        }
    }
    return -1;
}

/* Roots differ only in sizes: choose those of the root with number `target`. */
static int match_root(search_t *s, word *w, uint32_t target, int depth)
{
    int result = first_state(s, w);
    if (result == DONE)
        return reaches(s, w, target, 1) ? DONE : STAYS;
    if (result == BROKEN) {
        s->error = 0; /* beyond a limit: no state was stored for these sizes */
        return STAYS;
    }
    if (result != NEED)
        return broken(s, ERROR_TRACE);
    if (depth > ROOT_SPLITS_MAX) /* given up there too: no state was stored */
        return STAYS;
    const parameter_t *p = (const parameter_t *)s->program->parameter + s->need_parameter;
    word place = p->base + (p->per ? 1 + 2 * s->need_record : 0), level = s->need_level;
    word before[2] = {w[place], w[place + 1]};
    for (word value = before[0]; value <= level; value++) {
        w[place] = value;
        w[place + 1] = value < level;
        result = match_root(s, w, target, depth + 1);
        if (result != STAYS)
            return result;
    }
    w[place] = before[0];
    w[place + 1] = before[1];
    return STAYS;
}

/* Length of the path to the fault in stored states. */
int64_t titan_path_length(const search_t *s)
{
    int64_t length = 1;
    for (uint32_t state = s->fault_state; state != NO_STATE; state = s->parent[state])
        length += 1;
    return length;
}

/* Write the steps; returns their number or -1. `sizes` receives [level, decided] of every single
 * parameter; sizes of windows are logged in `s->log`. */
int64_t titan_trace(search_t *s, step_t *steps, word *sizes)
{
    int64_t length = titan_path_length(s) - 1, count = 0;
    uint32_t *path = calloc((size_t)length + 1, sizeof *path);
    word *w = s->root, *shadow = s->shadow;
    if (!path)
        return -1;
    uint32_t state = s->fault_state;
    for (int64_t i = length - 1; i >= 0; i--, state = s->parent[state])
        path[i] = state;
    memcpy(w, s->program->initial, sizeof(word) * (size_t)s->program->fixed_words);
    int result = match_root(s, w, path[0], 0);
    slide_windows(s, w, 1); /* as those of the shadow are: turns without an operation are over */
    copy_state(s, shadow, w);
    normalise(s, shadow);
    for (int64_t i = 1; i < length && result == DONE; i++) {
        result = follow(s, w, shadow, path[i], steps + count);
        count += steps[count].actor != STEP_DECIDE;
    }
    free(path);
    if (result != DONE)
        return -1;
    int last = last_step(s, shadow, steps + count);
    if (last < 0)
        return -1;
    slide_windows(s, w, 2);
    for (int n = 0; n < s->program->parameters; n++) {
        const parameter_t *p = (const parameter_t *)s->program->parameter + n;
        sizes[2 * n] = p->per ? 0 : w[p->base];
        sizes[2 * n + 1] = p->per ? 1 : w[p->base + 1];
    }
    return count + last;
}

int64_t titan_logged(const search_t *s) { return s->logged; }

/* Sizes seen in windows: (parameter, instance, level, decided) of entry `number`. */
void titan_log(const search_t *s, int64_t number, word *out)
{
    memcpy(out, s->log + 4 * number, 4 * sizeof(word));
}
