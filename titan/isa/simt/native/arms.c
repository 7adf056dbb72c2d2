/* Branches on data: arms, executed one after the other, and loops, block by block (control.py). */

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
                         int32_t budget, int outer);
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
/* Arguments and results of a call are not known. */
static void forget_copied(Machine *machine, Fragment *fragment, const titan_step *s)
{
    for (int64_t n = 2; n < s->flag_count; n += 3)
        for (uint32_t left = fragment->mask; left; left &= left - 1)
            fill(local_memory(machine, fragment->warp, first_lane(left)), FLAG(s, n + 1),
                 FLAG(s, n + 2), OPAQUE_BYTE);
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
        if (s->op == RETURN) return;
        if (s->op == CALL) {
            forget_copied(machine, fragment, s);
            push_way(ways, (int32_t)FLAG(s, 0), fragment->mask);
            fragment->pc++;
            continue;
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
/* What arms that are not executed may store to the memory of the lanes is unknown. */
static void forget_stored(Machine *machine, Fragment *fragment, const titan_region *region)
{
    const int64_t *part = machine->code->pool + region->stores;
    for (int32_t n = 0; n < region->store_count; n += 3, part += 3)
        for (uint32_t left = fragment->mask; left; left &= left - 1) {
            int lane = first_lane(left);
            const Value *value = part[0] < 0 ? NULL : &fragment->warp->registers[part[0]];
            Bytes *bytes = local_memory(machine, fragment->warp, lane);
            if (!value || lane_opaque(value, lane)) fill(bytes, 0, bytes->size, OPAQUE_BYTE);
            else fill(bytes, (int64_t)(lane_value(value, lane) + (uint64_t)part[1]), part[2],
                      OPAQUE_BYTE);
        }
}
/* Whether the launch decides a branch of a whole warp on unknown data; goes that way. */
static int decided(Machine *machine, Fragment *fragment, const titan_step *s)
{
    const titan_launch *l = machine->launch;
    Warp *warp = fragment->warp;
    uint32_t holds, maybe;
    if (s->op != BRANCH || fragment->mask != warp->live) return 0;
    guarded(warp, s, fragment->mask, &holds, &maybe);
    if (holds || maybe != fragment->mask) return 0;
    for (; warp->decided < l->decision_count; warp->decided++) {
        const int32_t *decision = l->decisions + 3 * warp->decided;
        if (decision[0] != warp->cta->number || decision[1] != warp->index) continue;
        warp->decided++;
        fragment->pc = decision[2] ? (int32_t)FLAG(s, 0) : fragment->pc + 1;
        return 1;
    }
    return 0;
}
static void skip_branch(Machine *machine, Fragment *fragment, const titan_step *s)
{
    int32_t pc = fragment->pc, join = s->join;
    const titan_region *region = &machine->code->regions[s->region];
    if ((join < 0 || region->refused >= 0) && decided(machine, fragment, s)) return;
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
    if (!region->block_count && !region->accesses) forget_stored(machine, fragment, region);
    if (!region->block_count && region->accesses) both_arms(machine, fragment, s, join, 100000, 1);
    else forget_written(machine, fragment, region, pc);
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
        if (s->op == FENCE && FLAG(s, 0) == 0) { /* RecordedFence.MEMORY */
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
            budget = both_arms(machine, fragment, s, s->join, budget, 0);
            fragment->pc = s->join;
        } else {
            fragment->pc = taken ? (int32_t)FLAG(s, 0) : fragment->pc + 1;
        }
    }
    return budget;
}
/* What the registers that arms write hold behind each arm, and their marks, arm by arm; in which
   arms an attempt to wait has passed. */
typedef struct { Value *values; Marks *marks; uint8_t *passed; int count; } ArmEnds;

/* Whether lanes of two values are known and the same. */
static int same_lanes(const Value *one, const Value *other, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        if (lane_opaque(one, lane) || lane_opaque(other, lane) ||
            lane_value(one, lane) != lane_value(other, lane))
            return 0;
    }
    return 1;
}
/* Put the registers that rest on attempts to wait, where they are known behind the arms: those that
   every arm leaves the same, or what the one arm leaves in which an attempt has passed. */
static void put_polled(const Machine *machine, Warp *warp, const titan_region *region,
                       const ArmEnds *ends, uint32_t mask)
{
    int passed = 0, where = 0;
    for (int k = 0; k < ends->count; k++)
        if (ends->passed[k]) {
            passed++;
            where = k;
        }
    for (int32_t i = 0; i < region->written_count; i++) {
        Marks polled = 0;
        int same = 1;
        for (int k = 0; k < ends->count; k++) {
            Marks marks = ends->marks[k * region->written_count + i];
            polled |= marks & MARK_POLL ? marks : 0;
            const Value *value = &ends->values[k * region->written_count + i];
            same &= same_lanes(&ends->values[i], value, mask);
        }
        int chosen = 0;
        if (!polled) continue;
        if (!same) {
            chosen = where * region->written_count;
            if (passed != 1 || !(ends->marks[chosen + i] & MARK_POLL)) continue;
            if (!same_lanes(&ends->values[chosen + i], &ends->values[chosen + i], mask)) continue;
        }
        put(warp, (int32_t)machine->code->pool[region->written + i], &ends->values[chosen + i],
            mask, polled);
    }
}
/* Execute every arm for its accesses; the registers are put back for each, not known behind them
   but for those that rest on attempts to wait, behind the branch that is no arm's. */
static int32_t both_arms(Machine *machine, Fragment *fragment, const titan_step *s, int32_t join,
                         int32_t budget, int outer)
{
    Warp *warp = fragment->warp;
    int32_t pc = fragment->pc;
    uint32_t mask = fragment->mask;
    int before = machine->maybe;
    int64_t start = machine->arm_start;
    const titan_region *region = &machine->code->regions[s->region];
    size_t count = (size_t)region->written_count;
    const int64_t *written = &machine->code->pool[region->written];
    Value *kept = zeroed(count, sizeof(Value));
    Marks *marks = zeroed(count, sizeof(Marks));
    Ways ways = {0};
    push_ways(machine, fragment, s, &ways);
    if (s->op == BRANCH) {
        Way target = ways.data[0];
        ways.data[0] = ways.data[1];
        ways.data[1] = target;
    }
    size_t arms = (size_t)ways.count;
    ArmEnds ends = {zeroed(arms * count, sizeof(Value)), zeroed(arms * count, sizeof(Marks)),
                    zeroed(arms, 1), 0};
    machine->maybe = 1;
    for (size_t i = 0; i < count; i++) {
        kept[i] = warp->registers[written[i]];
        marks[i] = warp->marks[written[i]];
    }
    if (!NUMBERS) enter_arms(uses_of(warp), !region->alike);
    for (int k = 0; k < ways.count; k++) {
        int repeated = 0;
        for (int n = 0; n < k; n++) repeated |= ways.data[n].pc == ways.data[k].pc;
        if (repeated && k + 1 < ways.count) continue;
        int64_t passed = machine->passed_in_arms;
        if (ways.data[k].lanes) {
            fragment->pc = ways.data[k].pc;
            fragment->mask = ways.data[k].lanes;
            machine->arm_start = machine->operation_count;
            budget = run_arm(machine, fragment, join, budget);
        }
        size_t first = (size_t)ends.count * count;
        ends.passed[ends.count++] = machine->passed_in_arms > passed;
        for (size_t i = 0; i < count; i++) {
            ends.values[first + i] = warp->registers[written[i]];
            ends.marks[first + i] = warp->marks[written[i]];
            warp->registers[written[i]] = kept[i];
            warp->marks[written[i]] = marks[i];
        }
        if (!NUMBERS) end_arm(uses_of(warp));
    }
    if (!NUMBERS) leave_arms(uses_of(warp));
    fragment->mask = mask;
    forget_written(machine, fragment, region, pc);
    if (outer) put_polled(machine, warp, region, &ends, mask);
    free(ends.values);
    free(ends.marks);
    free(ends.passed);
    free(kept);
    free(marks);
    free(ways.data);
    fragment->pc = pc;
    machine->maybe = before;
    machine->arm_start = start;
    return budget;
}
