/* Fragments, joins, branches, calls, exits (control.py). */
static int step_once(Machine *machine, Fragment *fragment);
static void settle_barriers(Machine *machine, Cta *cta);
static void forget_arrivals(const Warp *warp, uint32_t mask);
static Groups *queue_of(Warp *warp, int queue, int lane);

static Fragment *new_fragment(Machine *machine, Warp *warp, uint32_t mask, int32_t pc, Join *join,
                              const Fragment *like, int32_t depth)
{
    Fragment *made = zeroed(1, sizeof *made);
    made->warp = warp;
    made->mask = mask;
    made->pc = pc;
    made->join = join;
    if (like) {
        made->depth = depth;
        memcpy(made->stack, like->stack, (size_t)depth * sizeof(int32_t));
    }
    if (warp->fragment_count == warp->fragment_room) {
        warp->fragment_room = warp->fragment_room ? 2 * warp->fragment_room : 4;
        warp->fragments =
            room(warp->fragments, (size_t)warp->fragment_room * sizeof *warp->fragments);
    }
    warp->fragments[warp->fragment_count++] = made;
    if (machine->grave_count == machine->grave_room) {
        machine->grave_room = machine->grave_room ? 2 * machine->grave_room : 64;
        machine->graves = room(machine->graves, (size_t)machine->grave_room * sizeof(Fragment *));
    }
    machine->graves[machine->grave_count++] = made; /* every fragment, to be freed at the end */
    return made;
}
static void remove_fragment(Fragment *fragment)
{
    Warp *warp = fragment->warp;
    fragment->dead = 1;
    for (int32_t n = 0; n < warp->fragment_count; n++)
        if (warp->fragments[n] == fragment) {
            memmove(&warp->fragments[n], &warp->fragments[n + 1],
                    (size_t)(warp->fragment_count - n - 1) * sizeof *warp->fragments);
            warp->fragment_count--;
            return;
        }
}
static Join *new_join(Machine *machine, Warp *warp, int32_t pc, int32_t depth, uint32_t expected,
                      Join *parent)
{
    Join *made = zeroed(1, sizeof *made);
    *made = (Join){pc, depth, expected, 0, parent, 1};
    if (warp->join_count == warp->join_room) {
        warp->join_room = warp->join_room ? 2 * warp->join_room : 4;
        warp->joins = room(warp->joins, (size_t)warp->join_room * sizeof *warp->joins);
    }
    warp->joins[warp->join_count++] = made;
    if (machine->all_join_count == machine->all_join_room) {
        machine->all_join_room = machine->all_join_room ? 2 * machine->all_join_room : 64;
        machine->all_joins =
            room(machine->all_joins, (size_t)machine->all_join_room * sizeof(Join *));
    }
    machine->all_joins[machine->all_join_count++] = made;
    return made;
}
static void remove_join(Warp *warp, Join *join)
{
    join->active = 0;
    for (int32_t n = 0; n < warp->join_count; n++)
        if (warp->joins[n] == join) {
            memmove(&warp->joins[n], &warp->joins[n + 1],
                    (size_t)(warp->join_count - n - 1) * sizeof *warp->joins);
            warp->join_count--;
            return;
        }
}
static void arrive_at_join(Fragment *fragment)
{
    for (Join *join = fragment->join; join; join = fragment->join) {
        if (fragment->pc != join->pc || fragment->depth != join->depth) return;
        join->arrived |= fragment->mask;
        if (join->arrived != join->expected) {
            remove_fragment(fragment);
            return;
        }
        fragment->mask = join->arrived;
        fragment->join = join->parent;
        remove_join(fragment->warp, join);
    }
}
/* The lanes will not come to one join. */
static void leave(Machine *machine, Fragment *fragment, Join *join, uint32_t mask)
{
    join->expected &= ~mask;
    if (join->active && join->arrived == join->expected) {
        remove_join(fragment->warp, join);
        if (join->expected) {
            int32_t depth = join->depth < fragment->depth ? join->depth : fragment->depth;
            new_fragment(machine, fragment->warp, join->arrived, join->pc, join->parent, fragment,
                         depth);
        }
    }
}
static void leave_joins(Machine *machine, Fragment *fragment, Join *join, uint32_t mask)
{
    for (; join; join = join->parent) leave(machine, fragment, join, mask);
}
/* Divide a fragment into parts; the first one stays this fragment. */
static void split(Machine *machine, Fragment *fragment, const uint32_t *masks, const int32_t *pcs,
                  int parts, int32_t meet_at)
{
    Join *join = fragment->join;
    if (meet_at >= 0 && !(join && join->pc == meet_at && join->depth == fragment->depth))
        join = new_join(machine, fragment->warp, meet_at, fragment->depth, fragment->mask, join);
    fragment->mask = masks[0];
    fragment->pc = pcs[0];
    fragment->join = join;
    for (int i = 1; i < parts; i++)
        new_fragment(machine, fragment->warp, masks[i], pcs[i], join, fragment, fragment->depth);
}

/* ------------------------------------------------------------------------------- branches */

static void guarded(const Warp *warp, const titan_step *s, uint32_t mask, uint32_t *holds,
                    uint32_t *maybe)
{
    const Value *value = &warp->registers[s->guard];
    *holds = *maybe = 0;
    if (value->uniform) {
        if (value->opaque & 1) *maybe = mask;
        else if ((int)(value->v[0] & 1) != s->negated) *holds = mask;
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        if (value->opaque >> lane & 1) *maybe |= 1u << lane;
        else if ((int)(value->v[lane] & 1) != s->negated) *holds |= 1u << lane;
    }
}
/* Where the first opaque lane of a register comes from. */
static int64_t site_of(const Value *value, uint32_t mask)
{
    for (int lane = 0; lane < 32; lane++)
        if ((value->uniform || mask >> lane & 1) && lane_opaque(value, lane))
            return (int64_t)lane_value(value, lane);
    return -1;
}
static int32_t both_arms(Machine *machine, Fragment *fragment, const titan_step *s, int32_t join,
                         int32_t budget);
static void check_guard(Machine *machine, Fragment *fragment, const titan_step *s);

/* Refuse a wait in the arm of a branch on data for operations after `last` that are older than the
   arm: in a run that does not take it nothing waits for them there. */
static void check_arm(Machine *machine, Fragment *fragment, const Words *waited, int64_t last)
{
    for (int64_t n = 0; n < waited->count; n++)
        if (waited->data[n] > last && waited->data[n] < machine->arm_start)
            refuse(machine, fragment,
                   "an arm of a branch on opaque data waits for what was started before it");
}

static void forget_written(Machine *machine, Fragment *fragment, const titan_region *region,
                           int32_t pc)
{
    for (int32_t i = 0; i < region->written_count; i++)
        put_unknown(fragment->warp, (int32_t)machine->code->pool[region->written + i], pc,
                    fragment->mask, 0);
}
/* Where a branch may lead the lanes: the instruction and lanes of a way. */
typedef struct { int32_t pc; uint32_t lanes; } Way;
typedef struct { Way *data; int count, room; } Ways;

static void push_way(Ways *ways, int32_t pc, uint32_t lanes)
{
    if (ways->count == ways->room) {
        ways->room = ways->room ? 2 * ways->room : 16;
        ways->data = room(ways->data, (size_t)ways->room * sizeof(Way));
    }
    ways->data[ways->count++] = (Way){pc, lanes};
}
static void push_ways(Machine *machine, const Fragment *fragment, const titan_step *s, Ways *ways)
{
    uint32_t holds = fragment->mask, maybe = 0;
    if (s->guard >= 0) guarded(fragment->warp, s, fragment->mask, &holds, &maybe);
    for (int i = 0; i < (s->op == BRANCH ? 1 : s->flag_count); i++)
        push_way(ways, (int32_t)FLAG(s, i), holds | maybe);
    push_way(ways, fragment->pc + 1, fragment->mask & ~holds);
}
/* Execute a block of a loop on data, and note where its lanes go from there. */
static void loop_block(Machine *machine, Fragment *fragment, int32_t end, Ways *ways)
{
    while (fragment->pc < end) {
        int32_t at = fragment->pc;
        const titan_step *s = &machine->code->steps[at];
        machine->count++;
        if (s->op == BRANCH || s->op == BRANCH_INDEXED) {
            push_ways(machine, fragment, s, ways);
            return;
        }
        if (s->op == FENCE) {
            fragment->pc++;
            continue;
        }
        step_once(machine, fragment);
        for (int i = 0; s->op == LOAD && i < s->out_count; i++)
            put_unknown(fragment->warp, OUT(s, i), at, fragment->mask, 0);
    }
    push_way(ways, end, fragment->mask);
}
/* A loop on opaque data: each of its instructions once for each lane, for its accesses. */
static void each_block(Machine *machine, Fragment *fragment, const titan_step *s,
                       const titan_region *region)
{
    int before = machine->maybe, loop = machine->looping, parted = machine->parted;
    int total = region->block_count / 2;
    int64_t start = machine->arm_start;
    const int64_t *blocks = &machine->code->pool[region->blocks];
    int32_t pc = fragment->pc;
    uint32_t mask = fragment->mask, *reached = zeroed((size_t)total, sizeof(uint32_t));
    Ways ways = {0};
    machine->maybe = machine->looping = 1;
    machine->parted = parted || !region->alike;
    machine->arm_start = machine->operation_count;
    push_ways(machine, fragment, s, &ways);
    if (!NUMBERS) enter_arms(uses_of(fragment->warp), !region->alike);
    for (int next = 0; next < ways.count; next++) {
        Way way = ways.data[next];
        int n = 0;
        while (n < total && blocks[2 * n] != way.pc) n++;
        if (n == total || !(way.lanes & ~reached[n])) continue;
        fragment->mask = mask;
        forget_written(machine, fragment, region, pc);
        fragment->mask = way.lanes & ~reached[n];
        reached[n] |= way.lanes;
        fragment->pc = way.pc;
        loop_block(machine, fragment, (int32_t)blocks[2 * n + 1], &ways);
    }
    if (!NUMBERS) end_arm(uses_of(fragment->warp));
    if (!NUMBERS) leave_arms(uses_of(fragment->warp));
    free(reached);
    free(ways.data);
    fragment->pc = pc;
    fragment->mask = mask;
    machine->maybe = before;
    machine->looping = loop;
    machine->parted = parted;
    machine->arm_start = start;
}
static void skip_branch(Machine *machine, Fragment *fragment, const titan_step *s)
{
    int32_t pc = fragment->pc, join = s->join;
    const titan_region *region = &machine->code->regions[s->region];
    int32_t reg = s->guard >= 0 ? s->guard : ARG(s, 0);
    long long site = site_of(&fragment->warp->registers[reg], fragment->mask);
    machine->origin = site;
    char *reason = machine->reason;
    size_t size = sizeof machine->reason;
    const char *what = "a value that is not known (made at instruction";
    if (join < 0) {
        snprintf(reason, size, "a branch whose arms do not meet depends on %s %lld)", what, site);
        end_run(machine, fragment, REFUSED);
    }
    if (region->refused >= 0) {
        snprintf(reason, size,
                 "a branch depends on %s %lld), and instruction %d in its arms synchronises", what,
                 site, region->refused);
        end_run(machine, fragment, REFUSED);
    }
    if (NUMBERS && region->trapped) {
        snprintf(reason, size, "a value that is not known (made at instruction %lld) decides "
                 "whether a trap is reached", site);
        end_run(machine, fragment, REFUSED);
    }
    if (region->block_count) each_block(machine, fragment, s, region);
    else if (region->accesses) both_arms(machine, fragment, s, join, 100000);
    forget_written(machine, fragment, region, pc);
    RECORD(EV_SKIPPED, fragment, fragment->mask, join, region->written_count);
    fragment->pc = join;
}
static int32_t run_arm(Machine *machine, Fragment *fragment, int32_t stop, int32_t budget)
{
    while (fragment->pc != stop) {
        if (--budget < 0)
            refuse(machine, fragment, "the arms of a branch on opaque data are too long");
        machine->count++;
        const titan_step *s = &machine->code->steps[fragment->pc];
        if (s->op == FENCE) {
            fragment->pc++;
            continue;
        }
        if (s->op != BRANCH) {
            step_once(machine, fragment);
            continue;
        }
        uint32_t taken = fragment->mask, maybe = 0;
        if (s->guard >= 0) {
            check_guard(machine, fragment, s);
            guarded(fragment->warp, s, fragment->mask, &taken, &maybe);
        }
        if (maybe || (taken && taken != fragment->mask)) {
            const titan_region *inner = &machine->code->regions[s->region];
            if (s->join < 0)
                refuse(machine, fragment, "arms of a branch on opaque data do not meet");
            if (inner->refused >= 0 || inner->trapped)
                refuse(machine, fragment, "an arm of a branch on opaque data divides the warp");
            budget = both_arms(machine, fragment, s, s->join, budget);
            forget_written(machine, fragment, inner, fragment->pc);
            fragment->pc = s->join;
        } else {
            fragment->pc = taken ? (int32_t)FLAG(s, 0) : fragment->pc + 1;
        }
    }
    return budget;
}
/* Execute every arm for its accesses; the registers are put back for each. */
static int32_t both_arms(Machine *machine, Fragment *fragment, const titan_step *s, int32_t join,
                         int32_t budget)
{
    Warp *warp = fragment->warp;
    int32_t pc = fragment->pc;
    uint32_t mask = fragment->mask;
    int before = machine->maybe;
    int64_t start = machine->arm_start;
    const titan_region *region = &machine->code->regions[s->region];
    Value *kept = zeroed((size_t)region->written_count, sizeof(Value));
    Ways ways = {0};
    push_ways(machine, fragment, s, &ways);
    if (s->op == BRANCH) {
        Way target = ways.data[0];
        ways.data[0] = ways.data[1];
        ways.data[1] = target;
    }
    machine->maybe = 1;
    for (int32_t i = 0; i < region->written_count; i++)
        kept[i] = warp->registers[machine->code->pool[region->written + i]];
    if (!NUMBERS) enter_arms(uses_of(warp), !region->alike);
    for (int k = 0; k < ways.count; k++) {
        int repeated = 0;
        for (int n = 0; n < k; n++) repeated |= ways.data[n].pc == ways.data[k].pc;
        if (repeated && k + 1 < ways.count) continue;
        if (ways.data[k].lanes) {
            fragment->pc = ways.data[k].pc;
            fragment->mask = ways.data[k].lanes;
            machine->arm_start = machine->operation_count;
            budget = run_arm(machine, fragment, join, budget);
        }
        for (int32_t i = 0; i < region->written_count; i++)
            warp->registers[machine->code->pool[region->written + i]] = kept[i];
        if (!NUMBERS) end_arm(uses_of(warp));
    }
    if (!NUMBERS) leave_arms(uses_of(warp));
    fragment->mask = mask;
    free(kept);
    free(ways.data);
    fragment->pc = pc;
    machine->maybe = before;
    machine->arm_start = start;
    return budget;
}
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
    int parts = rest ? 1 : 0, marks = mark_of(fragment->warp, ARG(s, 0));
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
