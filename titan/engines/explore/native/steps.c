/* Steps of a state, decisions about sizes, and where a fault was found. */

static int decide(search_t *s, uint32_t parent)
{
    const parameter_t *p = (const parameter_t *)s->program->parameter + s->need_parameter;
    word place = p->base + (p->per ? 1 + 2 * s->need_record : 0), level = s->need_level;
    for (word value = s->base[place]; value <= level; value++) {
        copy_state(s, s->next, s->base);
        s->next[place] = value;
        s->next[place + 1] = value < level;
        if (insert(s, pack(s, s->next), parent) != DONE)
            return BROKEN;
    }
    return DONE;
}

static int found(search_t *s, uint32_t state, const step_t *step)
{
    static const step_t none = {-1, -1, -1};
    s->found = s->fault;
    s->fault_state = state;
    s->fault_step = step ? *step : none;
    return FAULT;
}

/* Take the step from `base` and leave the new state in `next`. */
static int try_step(search_t *s, const step_t *step)
{
    copy_state(s, s->next, s->base);
    s->transitions += 1;
    return take_step(s, s->next, step);
}

/* Steps of `base` in a fixed order; returns their number, or -1 with `*result` not DONE. */
static int list_steps(search_t *s, word *w, step_t *steps, int *result)
{
    int count = 0;
    for (int a = 0; a < s->program->agents; a++) {
        int answer;
        *result = enabled(s, w, a, &answer);
        if (*result != DONE)
            return -1;
        if (answer)
            steps[count++] = (step_t){STEP_AGENT, a, -1};
        const word *region = agent_region(s, w, a);
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            int actor = engine_step(s, region, f);
            if (actor >= 0)
                steps[count++] = (step_t){actor, a, f};
        }
    }
    *result = DONE;
    return count;
}

static int all_ended(const search_t *s, const word *w)
{
    for (int a = 0; a < s->program->agents; a++)
        if (node_at(s, agent_region(s, w, a)[A_NODE])->kind != N_END)
            return 0;
    return 1;
}
