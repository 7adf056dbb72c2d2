/* Branches, calls, exits, collectives (control.py, joins.py). */

static void branch(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t target = (int32_t)FLAG(s, 0);
    if (mask == fragment->mask) {
        fragment->pc = target;
        return;
    }
    uint32_t masks[2] = {fragment->mask & ~mask, mask};
    int32_t pcs[2] = {fragment->pc + 1, target};
    split(machine, fragment, masks, pcs, 2, s->join);
}
static void branch_indexed(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    const Value *value = &fragment->warp->registers[ARG(s, 0)];
    uint32_t masks[33], rest = fragment->mask & ~mask;
    int32_t pcs[33];
    int parts = rest ? 1 : 0;
    Marks marks = mark_of(fragment->warp, ARG(s, 0));
    if (marks) steered(machine, fragment, marks, USE_BRANCH, ALL_LANES);
    masks[0] = rest;
    pcs[0] = fragment->pc + 1;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left), at;
        if (lane_opaque(value, lane)) {
            skip_branch(machine, fragment, s);
            return;
        }
        uint64_t index = lane_value(value, lane);
        if (index >= (uint64_t)s->flag_count) {
            snprintf(machine->reason, sizeof machine->reason,
                     "index %llu is outside of the table of the branch",
                     (unsigned long long)index);
            end_run(machine, fragment, FAULT);
        }
        int32_t target = (int32_t)FLAG(s, index);
        for (at = rest ? 1 : 0; at < parts && pcs[at] != target; at++) {}
        if (at == parts) {
            pcs[parts] = target;
            masks[parts++] = 0;
        }
        masks[at] |= 1u << lane;
    }
    if (parts == 1) fragment->pc = pcs[0];
    else split(machine, fragment, masks, pcs, parts, s->join);
}

/* -------------------------------------------------------------------------- calls and exits */

static void copy_local(Machine *machine, Fragment *fragment, const titan_step *s, int64_t from,
                       int64_t to)
{
    for (int64_t n = from; n < to; n += 3)
        for (uint32_t left = fragment->mask; left; left &= left - 1) {
            Bytes *bytes = local_memory(machine, fragment->warp, first_lane(left));
            int64_t source = FLAG(s, n), target = FLAG(s, n + 1), size = FLAG(s, n + 2);
            memmove(bytes->data + target, bytes->data + source, (size_t)size);
            memmove(bytes->state + target, bytes->state + source, (size_t)size);
        }
}
static void call(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    if (mask != fragment->mask) {
        uint32_t masks[2] = {mask, fragment->mask & ~mask};
        int32_t pcs[2] = {fragment->pc, fragment->pc + 1};
        split(machine, fragment, masks, pcs, 2, fragment->pc + 1);
    }
    if (fragment->depth >= 64) refuse(machine, fragment, "calls are nested more than 64 deep");
    for (int n = 0; n < fragment->depth; n++)
        if (fragment->stack[n] == fragment->pc)
            refuse(machine, fragment, "a function calls itself");
    copy_local(machine, fragment, s, 2, 2 + 3 * FLAG(s, 1));
    fragment->stack[fragment->depth++] = fragment->pc;
    fragment->pc = (int32_t)FLAG(s, 0);
}
static void in_flight(Machine *machine, const Warp *warp, uint32_t mask)
{
    int64_t at = machine->events.count, found = 0;
    push(&machine->events, 0);
    for (int64_t n = 0; n < warp->issued.count; n++) {
        const Operation *o = machine->operations[warp->issued.data[n]];
        uint32_t seen = o->seen | o->reads_seen;
        if (o->done) {
            seen |= o->arrived;
            if (o->queue < 0 || o->complete_count) continue;
        }
        if (o->lanes & mask & ~seen) {
            push(&machine->events, o->number);
            found++;
        }
    }
    machine->events.data[at] = found;
}
static void exit_lanes(Machine *machine, Fragment *fragment, uint32_t mask)
{
    Warp *warp = fragment->warp;
    uint32_t rest = fragment->mask & ~mask;
    int64_t at = open_record(machine, EV_EXIT, fragment, mask);
    in_flight(machine, warp, mask);
    close_record(machine, at);
    forget_arrivals(warp, mask);
    warp->live &= ~mask;
    if (rest) {
        fragment->mask = rest;
        fragment->pc++;
    } else {
        remove_fragment(fragment);
    }
    leave_joins(machine, fragment, fragment->join, mask);
    for (int32_t n = 0; n < warp->fragment_count; n++)
        if (warp->fragments[n]->blocked == WAIT_MEET) warp->fragments[n]->blocked = WAIT_NONE;
    settle_barriers(machine, warp->cta);
}
static void return_lanes(Machine *machine, Fragment *fragment, uint32_t mask)
{
    if (!fragment->depth) {
        exit_lanes(machine, fragment, mask);
        return;
    }
    if (mask != fragment->mask) {
        uint32_t masks[2] = {mask, fragment->mask & ~mask};
        int32_t pcs[2] = {fragment->pc, fragment->pc + 1};
        split(machine, fragment, masks, pcs, 2, -1);
    }
    int32_t back = fragment->stack[fragment->depth - 1];
    const titan_step *s = &machine->code->steps[back];
    copy_local(machine, fragment, s, 2 + 3 * FLAG(s, 1), s->flag_count);
    while (fragment->join && fragment->join->depth >= fragment->depth) {
        Join *leaving = fragment->join;
        fragment->join = leaving->parent;
        leave(machine, fragment, leaving, fragment->mask);
    }
    fragment->depth--;
    fragment->pc = back + 1;
}

/* ---------------------------------------------------------------------------- collectives */

/* Whether all required lanes are here; those that wait at this instruction join in. */
static int gather(Machine *machine, Fragment *fragment, uint32_t required)
{
    Warp *warp = fragment->warp;
    if (!(required & ~fragment->mask)) return 1;
    uint32_t together = fragment->mask;
    Fragment *others[32];
    int count = 0;
    for (int32_t n = 0; n < warp->fragment_count && count < 32; n++) {
        Fragment *other = warp->fragments[n];
        if (other == fragment || other->pc != fragment->pc || other->blocked != WAIT_MEET ||
            other->depth != fragment->depth ||
            memcmp(other->stack, fragment->stack, (size_t)other->depth * sizeof(int32_t)))
            continue;
        others[count++] = other;
        together |= other->mask;
    }
    if (required & ~together) {
        fragment->blocked = WAIT_MEET;
        fragment->required = required;
        return 0;
    }
    for (int i = 0; i < count; i++) {
        Fragment *other = others[i];
        if (other->join != fragment->join) {
            leave_joins(machine, other, other->join, other->mask);
            for (Join *join = fragment->join; join; join = join->parent)
                join->expected |= other->mask;
        }
        remove_fragment(other);
    }
    fragment->mask = together;
    return 1;
}
/* As `gather`, for the members that the lanes name: lanes that name others execute the instruction
   in groups, one after the other. */
static int meet(Machine *machine, Fragment *fragment, const titan_step *s, int aligned)
{
    uint32_t required = fragment->warp->live, masks[32], lanes[32];
    if (aligned) return gather(machine, fragment, required);
    const Value *members = &fragment->warp->registers[ARG(s, s->arg_count - 1)];
    int32_t pcs[32];
    int groups = 0, apart = 1;
    for (uint32_t left = members->uniform ? 1u << first_lane(fragment->mask) : fragment->mask; left;
         left &= left - 1) {
        int lane = first_lane(left), group = 0;
        if (lane_opaque(members, lane))
            refuse(machine, fragment, "the mask of members is not known");
        uint32_t mask = (uint32_t)lane_value(members, lane);
        while (group < groups && masks[group] != mask) group++;
        if (group == groups) {
            masks[groups] = mask;
            pcs[groups] = fragment->pc;
            lanes[groups++] = 0;
        }
        lanes[group] |= 1u << lane;
    }
    for (int n = 0; n < groups; n++) apart = apart && (masks[n] & fragment->mask) == lanes[n];
    if (groups > 1 && apart) split(machine, fragment, lanes, pcs, groups, fragment->pc + 1);
    return gather(machine, fragment, required & masks[0]);
}
