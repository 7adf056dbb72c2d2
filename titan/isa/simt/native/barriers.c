/* mbarriers, hardware barriers, fences (mbarriers.py, rendezvous.py). */
typedef struct { uint32_t lanes; uint64_t values[20]; } Group;

static uint64_t known_value(Machine *machine, Fragment *fragment, int32_t reg, uint32_t mask,
                            const char *what)
{
    const Value *value = &fragment->warp->registers[reg];
    uint64_t found;
    int opaque;
    if (!uniform(value, mask, &found, &opaque)) {
        snprintf(machine->reason, sizeof machine->reason, "%s differs between the lanes", what);
        end_run(machine, fragment, REFUSED);
    }
    if (opaque) refuse_unknown(machine, fragment, what, (int64_t)found);
    return found;
}
/* Lanes with equal known values of some registers, in the order of their first lane. */
static int grouped(Machine *machine, Fragment *fragment, const int32_t *registers, int count,
                   uint32_t mask, const char *what, Group *groups)
{
    Warp *warp = fragment->warp;
    int all = 1, total = 0;
    for (int i = 0; i < count; i++) all = all && warp->registers[registers[i]].uniform;
    for (uint32_t left = all ? 1u << first_lane(mask) : mask; left; left &= left - 1) {
        int lane = first_lane(left), at;
        uint64_t values[20];
        for (int i = 0; i < count; i++) {
            const Value *value = &warp->registers[registers[i]];
            values[i] = lane_value(value, lane);
            if (lane_opaque(value, lane))
                refuse_unknown(machine, fragment, what, (int64_t)values[i]);
        }
        for (at = 0; at < total; at++)
            if (!memcmp(groups[at].values, values, (size_t)count * sizeof(uint64_t))) break;
        if (at == total) {
            groups[total].lanes = 0;
            memcpy(groups[total++].values, values, (size_t)count * sizeof(uint64_t));
        }
        groups[at].lanes |= all ? mask : 1u << lane;
    }
    return total;
}
static Place barrier_place(Machine *machine, Fragment *fragment, int space, uint64_t address)
{
    int64_t offset;
    if (space == GENERIC && resolve(&address) != SHARED)
        fault_run(machine, fragment, "an mbarrier outside of shared memory");
    Cta *cta = shared_of(fragment->warp, address & 0xFFFFFFFFu, &offset);
    if (!cta) fault_run(machine, fragment, "an mbarrier of a CTA that the cluster does not have");
    return (Place){cta->number, offset};
}
static MBarrier *barrier_at(Machine *machine, Place place)
{
    Cta *cta = machine->by_number[place.cta];
    for (int32_t n = 0; cta && n < cta->barrier_count; n++)
        if (cta->barriers[n].offset == place.offset) return &cta->barriers[n];
    return NULL;
}
static void add_fault(MBarrier *barrier, int what)
{
    if (barrier->fault_count < 8) barrier->faults[barrier->fault_count++] = what;
}
static void expect_bytes(MBarrier *barrier, int64_t count)
{
    barrier->bytes += count;
    if (barrier->bytes < -LIMIT || barrier->bytes > LIMIT) add_fault(barrier, MISUSE_BYTES_RANGE);
}
static void arrive_count(MBarrier *barrier, int64_t count, int drop)
{
    if (drop) barrier->expected -= count;
    if (count > barrier->pending) {
        add_fault(barrier, MISUSE_COUNT_UNDERFLOW);
        count = barrier->pending;
    }
    barrier->pending -= count;
}
static int settle(MBarrier *barrier)
{
    if (barrier->pending || barrier->bytes) return 0;
    barrier->phase++;
    barrier->pending = barrier->expected > 0 ? barrier->expected : 0;
    return 1;
}
static void record_faults(Machine *machine, Fragment *fragment, uint32_t lanes, Place place)
{
    MBarrier *barrier = barrier_at(machine, place);
    for (int n = 0; n < barrier->fault_count; n++)
        misuse(machine, fragment, lanes, place, barrier->faults[n]);
    barrier->fault_count = 0;
}
static int barrier_groups(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                          Group *groups)
{
    int32_t registers[2] = {ARG(s, 0), s->arg_count > 1 ? ARG(s, 1) : 0};
    Marks marks = mark_of(fragment->warp, registers[0]);
    if (marks) steered(machine, fragment, marks, USE_ADDRESS, mask);
    return grouped(machine, fragment, registers, s->arg_count, mask, "the operand of an mbarrier",
                   groups);
}
static Place group_place(Machine *machine, Fragment *fragment, const titan_step *s, const Group *g)
{
    return barrier_place(machine, fragment, (int)FLAG(s, 0), g->values[0] + (uint64_t)FLAG(s, 1));
}
static void barrier_init(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Group groups[32];
    Place places[32];
    int total = barrier_groups(machine, fragment, s, mask, groups);
    for (int i = 0; i < total; i++) places[i] = group_place(machine, fragment, s, &groups[i]);
    for (int i = 0; i < total; i++) {
        Place place = places[i];
        Cta *cta = machine->by_number[place.cta];
        uint32_t lanes = groups[i].lanes;
        int64_t count = (int64_t)groups[i].values[1];
        if (place.offset % 8) misuse(machine, fragment, lanes, place, MISUSE_MISALIGNED);
        if (place.offset < 0 || place.offset > cta->shared.size - 8 ||
            in_hole(machine, SHARED, place.offset, 8)) {
            misuse(machine, fragment, lanes, place, MISUSE_OUTSIDE);
            continue;
        }
        if (count < 1 || count > LIMIT) misuse(machine, fragment, lanes, place, MISUSE_COUNT_RANGE);
        MBarrier *barrier = barrier_at(machine, place);
        RECORD(EV_BARRIER_INIT, fragment, lanes, place.cta, place.offset, count, barrier != NULL);
        if (!barrier) {
            if (cta->barrier_count == cta->barrier_room) {
                cta->barrier_room = cta->barrier_room ? 2 * cta->barrier_room : 16;
                cta->barriers = room(cta->barriers,
                                     (size_t)cta->barrier_room * sizeof *cta->barriers);
            }
            barrier = &cta->barriers[cta->barrier_count++];
        }
        memset(barrier, 0, sizeof *barrier);
        barrier->offset = place.offset;
        barrier->expected = barrier->pending = count;
        barrier->id = ++machine->barrier_ids;
        fill(&cta->shared, place.offset, 8, LIVE_BARRIER);
    }
}
static void barrier_invalidate(Machine *machine, Fragment *fragment, const titan_step *s,
                               uint32_t mask)
{
    Group groups[32];
    int total = barrier_groups(machine, fragment, s, mask, groups);
    for (int i = 0; i < total; i++) {
        Place place = group_place(machine, fragment, s, &groups[i]);
        Cta *cta = machine->by_number[place.cta];
        MBarrier *barrier = barrier_at(machine, place);
        if (!barrier) {
            misuse(machine, fragment, groups[i].lanes, place, MISUSE_NOT_INITIALISED);
            continue;
        }
        RECORD(EV_BARRIER_INVALIDATE, fragment, groups[i].lanes, place.cta, place.offset);
        int64_t n = barrier - cta->barriers;
        memmove(barrier, barrier + 1, (size_t)(cta->barrier_count - n - 1) * sizeof *barrier);
        cta->barrier_count--;
        fill(&cta->shared, place.offset, 8, OPAQUE_BYTE);
    }
}
/* A loop that polls several barriers neither arrives nor expects bytes: behind that, old polls that
 * were false on purpose may be so again, but for the last. */
static void keep_last_peek(Fragment *fragment)
{
    if (fragment->peeks < 2) return;
    fragment->peeked[0] = fragment->peeked[(fragment->peeks - 1) % PEEKS];
    fragment->peeks = 1;
}
/* What the states of an object have in common: a mark, and which object it is. */
static uint64_t object_mark(const MBarrier *barrier)
{
    return TOKEN | ((uint64_t)barrier->id % (1ull << OBJECT_BITS)) << OBJECT_AT;
}
static void barrier_arrive(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    keep_last_peek(fragment);
    Group groups[32];
    Value state = {.uniform = 0, .opaque = 0};
    int total = barrier_groups(machine, fragment, s, mask, groups);
    int64_t expects = FLAG(s, 4), drop = FLAG(s, 5), incomplete = FLAG(s, 6);
    memset(state.v, 0, sizeof state.v);
    for (int i = 0; i < total; i++) {
        uint32_t lanes = groups[i].lanes;
        Place place = group_place(machine, fragment, s, &groups[i]);
        MBarrier *barrier = barrier_at(machine, place);
        if (!barrier) {
            misuse(machine, fragment, lanes, place, MISUSE_NOT_INITIALISED);
            continue;
        }
        int64_t value = (int64_t)groups[i].values[1], number = __builtin_popcount(lanes);
        int64_t count = expects ? 1 : value, bytes = expects ? value : 0;
        int64_t phase = barrier->phase;
        if (bytes > LIMIT) add_fault(barrier, MISUSE_BYTES_RANGE);
        expect_bytes(barrier, bytes * number);
        arrive_count(barrier, count * number, drop != 0);
        int completed = settle(barrier);
        if (completed && incomplete) add_fault(barrier, MISUSE_NO_COMPLETE_COMPLETED);
        lanes_release(fragment, lanes, FLAG(s, 2));
        RECORD(EV_ARRIVE, fragment, lanes, place.cta, place.offset, count, bytes, FLAG(s, 2),
               FLAG(s, 3), phase, completed, drop, incomplete, FLAG(s, 7));
        record_faults(machine, fragment, lanes, place);
        for (int lane = 0; lane < 32; lane++)
            if (lanes >> lane & 1) state.v[lane] = object_mark(barrier) | (uint64_t)phase;
    }
    put(fragment->warp, OUT(s, 0), &state, mask, 0);
}
static void barrier_expect(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    keep_last_peek(fragment);
    Group groups[32];
    int total = barrier_groups(machine, fragment, s, mask, groups);
    for (int i = 0; i < total; i++) {
        uint32_t lanes = groups[i].lanes;
        Place place = group_place(machine, fragment, s, &groups[i]);
        MBarrier *barrier = barrier_at(machine, place);
        if (!barrier) {
            misuse(machine, fragment, lanes, place, MISUSE_NOT_INITIALISED);
            continue;
        }
        int64_t phase = barrier->phase, bytes = FLAG(s, 4) * (int64_t)groups[i].values[1];
        expect_bytes(barrier, bytes * __builtin_popcount(lanes));
        int completed = settle(barrier);
        lanes_release(fragment, lanes, RELAXED);
        RECORD(EV_EXPECT_BYTES, fragment, lanes, place.cta, place.offset, bytes, FLAG(s, 2), phase,
               completed);
        record_faults(machine, fragment, lanes, place);
    }
}
/* Whether the last false result was of this barrier at this instruction. */
static int polls_at(const Fragment *fragment, Place place)
{
    return fragment->polled && fragment->polled_pc == fragment->pc &&
           fragment->polled_place.cta == place.cta &&
           fragment->polled_place.offset == place.offset;
}
/* Whether this poll was false on purpose, for the same phase, among the last ones. */
static int has_peeked(const Fragment *fragment, Peek peek)
{
    for (int n = 0; n < fragment->peeks && n < PEEKS; n++)
        if (fragment->peeked[n].pc == peek.pc && fragment->peeked[n].place.cta == peek.place.cta &&
            fragment->peeked[n].place.offset == peek.place.offset &&
            fragment->peeked[n].phase == peek.phase)
            return 1;
    return 0;
}
/* Whether the phase is complete that a parity or a token asks for, and its number. */
static int is_complete(const MBarrier *barrier, uint64_t value, int by_parity, int64_t *phase)
{
    *phase = barrier->phase - 1;
    if (by_parity) return (barrier->phase & 1) != (int64_t)(value & 1);
    *phase = value & TOKEN ? (int64_t)(value % (1ull << OBJECT_AT)) : barrier->phase;
    return barrier->phase > *phase;
}
/* Whether a state that is waited for is the result of an arrival at another object, or of none. */
static int is_foreign(const MBarrier *barrier, uint64_t value, int by_parity)
{
    return !by_parity && value >> OBJECT_AT != object_mark(barrier) >> OBJECT_AT;
}
/* A parity as it is written. */
static word as_written(uint64_t value)
{
    return value >> 31 ? (word)value - (1ll << 32) : (word)value;
}
/* The mark of what is made from a poll of a barrier. */
static Marks poll_mark(Warp *warp, Place place)
{
    int32_t n = 0, room = LAST_BARRIER - FIRST_BARRIER;
    while (n < warp->polled_count && (warp->polled[n].cta != place.cta ||
                                      warp->polled[n].offset != place.offset)) n++;
    if (n == warp->polled_count && n < room) warp->polled[warp->polled_count++] = place;
    return MARK_POLL | 1ull << (FIRST_BARRIER + (n < room ? n : room));
}
/* The marks of what an attempt gives. One that a branch on other attempts might have spared has to
   be at a barrier of theirs: otherwise they have decided more than when this one passes. */
static Marks note_attempt(Machine *machine, Fragment *fragment, const titan_step *s,
                          const Group *groups, int total)
{
    Marks marks = MARK_POLL, known = fragment->spared;
    for (int i = 0; i < total; i++)
        marks |= poll_mark(fragment->warp, group_place(machine, fragment, s, &groups[i]));
    fragment->spared = 0;
    if (!known || !(marks & ~known)) return marks;
    for (int32_t n = WAIT_FLAGS; n < s->flag_count; n++)
        if (FLAG(s, n) == fragment->spared_at) {
            steered(machine, fragment, MARK_POLL, USE_BRANCH, ALL_LANES);
            break;
        }
    return marks;
}
/* An attempt in the arm of a branch on data, by all lanes at one barrier: it does not block. */
static void attempt_in_arm(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    Group groups[32];
    int total = barrier_groups(machine, fragment, s, mask, groups);
    int by_parity = (int)FLAG(s, 4);
    Place place = group_place(machine, fragment, s, &groups[0]);
    Marks marks = note_attempt(machine, fragment, s, groups, total);
    MBarrier *barrier = barrier_at(machine, place);
    if (total > 1 || !barrier)
        refuse(machine, fragment, "an arm of a branch on opaque data waits for no single barrier");
    uint64_t value = groups[0].values[1];
    int64_t phase;
    int holds = is_complete(barrier, value, by_parity, &phase);
    if (is_foreign(barrier, value, by_parity))
        misuse(machine, fragment, groups[0].lanes, place, MISUSE_FOREIGN_STATE);
    int passes = holds && !machine->launch->first_poll_fails;
    if (passes) {
        machine->passed_in_arms++;
        RECORD(EV_WAIT, fragment, groups[0].lanes, place.cta, place.offset, by_parity,
               by_parity ? as_written(value) : 0, phase, barrier->phase, FLAG(s, 2), FLAG(s, 3), 0);
    } else {
        RECORD(EV_POLL, fragment, groups[0].lanes, place.cta, place.offset, by_parity,
               by_parity ? as_written(value) : 0, holds ? phase : barrier->phase);
    }
    put_number(fragment->warp, s->out_count ? OUT(s, 0) : -1, (uint64_t)passes, mask, marks);
    fragment->pc++;
}
static void barrier_wait(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    if (machine->maybe) {
        attempt_in_arm(machine, fragment, s, mask);
        return;
    }
    Warp *warp = fragment->warp;
    Group groups[32];
    Place places[32];
    int total = barrier_groups(machine, fragment, s, mask, groups), failing = 0;
    int by_parity = (int)FLAG(s, 4);
    Place failed = {0, 0};
    int64_t failed_phase = 0, failed_id = 0;
    uint32_t passed = 0;
    for (int i = 0; i < total; i++) places[i] = group_place(machine, fragment, s, &groups[i]);
    Marks marks = note_attempt(machine, fragment, s, groups, total);
    for (int i = 0; i < total; i++) {
        uint32_t lanes = groups[i].lanes;
        Place place = places[i];
        uint64_t value = groups[i].values[1];
        MBarrier *barrier = barrier_at(machine, place);
        if (!barrier) {
            if (!polls_at(fragment, place))
                misuse(machine, fragment, lanes, place, MISUSE_NOT_INITIALISED);
            failing = 1;
            failed = place;
            failed_phase = failed_id = 0;
            continue;
        }
        int64_t phase;
        int holds = is_complete(barrier, value, by_parity, &phase);
        word written = as_written(value);
        int first = !polls_at(fragment, place);
        if (first && is_foreign(barrier, value, by_parity))
            misuse(machine, fragment, lanes, place, MISUSE_FOREIGN_STATE);
        Peek peek = {fragment->pc, place, barrier->phase};
        int denied = first && total == 1 && machine->launch->first_poll_fails &&
                     !has_peeked(fragment, peek);
        if (!holds || denied) {
            if (first)
                RECORD(EV_POLL, fragment, lanes, place.cta, place.offset, by_parity,
                       by_parity ? written : 0, holds ? phase : barrier->phase);
            if (holds) {
                fragment->peeked[fragment->peeks++ % PEEKS] = peek;
                fragment->polled = 1;
                fragment->polled_pc = fragment->pc;
                fragment->polled_place = place;
                fragment->polled_phase = barrier->phase;
            } else {
                failing = 1;
                failed = place;
                failed_phase = barrier->phase;
                failed_id = barrier->id;
            }
            continue;
        }
        if (by_parity && value > 1) assume(machine, fragment, lanes, POLICY_PARITY_REDUCED);
        int64_t polls = fragment->polls;
        fragment->polls = 0;
        RECORD(EV_WAIT, fragment, lanes, place.cta, place.offset, by_parity,
               by_parity ? written : 0, phase, barrier->phase, FLAG(s, 2), FLAG(s, 3), polls);
        passed |= lanes;
    }
    if (failing) {
        if (polls_at(fragment, failed) && fragment->polled_phase == failed_phase) {
            fragment->blocked = WAIT_MBARRIER;
            fragment->blocked_mask = fragment->mask;
            fragment->place = failed;
            fragment->generation = failed_phase;
            fragment->object = failed_id;
            return;
        }
        fragment->polled = 1;
        fragment->polled_pc = fragment->pc;
        fragment->polled_place = failed;
        fragment->polled_phase = failed_phase;
        fragment->polls++;
    }
    Value found = {.uniform = 0, .opaque = 0};
    for (int lane = 0; lane < 32; lane++) found.v[lane] = passed >> lane & 1;
    put(warp, s->out_count ? OUT(s, 0) : -1, &found, mask, marks);
    fragment->pc++;
}

/* --------------------------------------------------------------------------- named barriers */

static int64_t needed(const Cta *cta, const Named *barrier)
{
    int64_t warps = 0;
    if (barrier->expected) return barrier->expected;
    for (int32_t n = 0; n < cta->warp_count; n++) warps += cta->warps[n].live != 0;
    return 32 * warps;
}
static int64_t live_threads(const Cluster *cluster)
{
    int64_t live = 0;
    for (int32_t r = 0; r < cluster->cta_count; r++)
        for (int32_t n = 0; n < cluster->ctas[r].warp_count; n++)
            live += __builtin_popcount(cluster->ctas[r].warps[n].live);
    return live;
}
/* The cluster barrier expects live threads only: one that arrived and exits counts no more. */
static void forget_arrivals(const Warp *warp, uint32_t mask)
{
    Cluster *cluster = warp->cta->cluster;
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && warp->arrivals[lane] == cluster->generation) cluster->arrived--;
}
static void settle_barriers(Machine *machine, Cta *cta)
{
    (void)machine;
    for (int32_t n = 0; n < cta->named_count; n++) {
        Named *barrier = &cta->named[cta->named_order[n]];
        if (barrier->arrived && barrier->arrived >= needed(cta, barrier)) {
            Words last = barrier->last;
            barrier->arrived = 0;
            barrier->generation++;
            barrier->last = barrier->values;
            barrier->values = last;
            barrier->values.count = 0;
        }
    }
    Cluster *cluster = cta->cluster;
    if (cluster->arrived && cluster->arrived >= live_threads(cluster)) {
        cluster->arrived = 0;
        cluster->generation++;
    }
}
static void named(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    Cta *cta = warp->cta;
    int64_t side = FLAG(s, 0), aligned = FLAG(s, 1), reduction = FLAG(s, 2);
    if (aligned && warp->live & ~fragment->mask) {
        if (!gather(machine, fragment, warp->live)) return;
        mask = fragment->mask;
    }
    uint64_t number = known_value(machine, fragment, ARG(s, 0), mask, "the number of a barrier");
    int64_t threads = 0;
    if (ARG(s, 1) >= 0)
        threads = (int64_t)known_value(machine, fragment, ARG(s, 1), mask,
                                       "the thread count of a barrier");
    if (number >= 16) {
        snprintf(machine->reason, sizeof machine->reason, "a CTA has no barrier %llu",
                 (unsigned long long)number);
        end_run(machine, fragment, FAULT);
    }
    Named *barrier = &cta->named[number];
    if (!barrier->used) {
        barrier->used = 1;
        cta->named_order[cta->named_count++] = (int32_t)number;
    }
    if (!barrier->arrived) barrier->expected = threads;
    barrier->arrived += mask == warp->live ? 32 : __builtin_popcount(mask);
    int64_t generation = barrier->generation;
    lanes_meet(fragment);
    RECORD(EV_RENDEZVOUS, fragment, mask, 0, side, (word)number, threads, generation, 4, aligned);
    if (reduction) {
        const Value *value = &warp->registers[ARG(s, 2)];
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = first_lane(left);
            push(&barrier->values, lane_opaque(value, lane)
                                       ? 2
                                       : (word)((lane_value(value, lane) & 1) ^
                                                (uint64_t)FLAG(s, 3)));
        }
    }
    if (side == 0) {
        settle_barriers(machine, cta);
        fragment->pc++;
        return;
    }
    fragment->blocked = WAIT_NAMED;
    fragment->blocked_mask = mask;
    fragment->number = (int32_t)number;
    fragment->threads = (int32_t)threads;
    fragment->aligned = (int32_t)aligned;
    fragment->generation = generation;
    settle_barriers(machine, cta);
}
static void resume_named(Machine *machine, Fragment *fragment)
{
    const titan_step *s = &machine->code->steps[fragment->pc];
    Warp *warp = fragment->warp;
    const Named *barrier = &warp->cta->named[fragment->number];
    uint32_t mask = fragment->blocked_mask;
    lanes_meet(fragment);
    RECORD(EV_RENDEZVOUS, fragment, mask, 0, 2, fragment->number, fragment->threads,
           fragment->generation, 4, fragment->aligned);
    int64_t reduction = FLAG(s, 2), zeros = 0, ones = 0, opaque = 0;
    for (int64_t n = 0; reduction && n < barrier->last.count; n++) {
        zeros += barrier->last.data[n] == 0;
        ones += barrier->last.data[n] == 1;
        opaque += barrier->last.data[n] == 2;
    }
    if (reduction == 1 && !opaque) put_number(warp, OUT(s, 0), (uint64_t)ones, mask, 0);
    else if (reduction == 2 && (zeros || !opaque)) put_number(warp, OUT(s, 0), !zeros, mask, 0);
    else if (reduction == 3 && (ones || !opaque)) put_number(warp, OUT(s, 0), ones != 0, mask, 0);
    else if (reduction) put_unknown(warp, OUT(s, 0), fragment->pc, mask, 0);
    fragment->pc++;
}
static int64_t cluster_threads(const Machine *machine, const Cluster *cluster)
{
    const int32_t *b = machine->launch->block;
    return (int64_t)b[0] * b[1] * b[2] * cluster->cta_count;
}
static void cluster_arrive(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    Warp *warp = fragment->warp;
    Cluster *cluster = warp->cta->cluster;
    lanes_meet(fragment);
    RECORD(EV_RENDEZVOUS, fragment, mask, 1, 0, 0, cluster_threads(machine, cluster),
           cluster->generation, FLAG(s, 0), FLAG(s, 1));
    cluster->arrived += __builtin_popcount(mask);
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) warp->arrivals[lane] = cluster->generation;
    settle_barriers(machine, warp->cta);
}
static void resume_cluster(Machine *machine, Fragment *fragment)
{
    const titan_step *s = &machine->code->steps[fragment->pc];
    lanes_meet(fragment);
    RECORD(EV_RENDEZVOUS, fragment, fragment->blocked_mask, 1, 2, 0,
           cluster_threads(machine, fragment->warp->cta->cluster), fragment->generation,
           FLAG(s, 0), FLAG(s, 1));
    fragment->pc++;
}
static void cluster_wait(Machine *machine, Fragment *fragment, uint32_t mask)
{
    Warp *warp = fragment->warp;
    fragment->generation = warp->arrivals[first_lane(mask)];
    fragment->blocked_mask = mask;
    if (warp->cta->cluster->generation > fragment->generation) resume_cluster(machine, fragment);
    else fragment->blocked = WAIT_CLUSTER;
}
static void fence(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t footprint = -1;
    if (FLAG(s, 0) == 3) { /* FenceKind.TENSORMAP_ACQUIRE */
        uint64_t address = known_value(machine, fragment, ARG(s, 0), mask,
                                       "the address of a tensor map") + (uint64_t)FLAG(s, 5);
        int space = FLAG(s, 4) == GENERIC ? resolve(&address) : (int)FLAG(s, 4);
        footprint = of_range(machine, space, NO_CTA, (int64_t)address, (int64_t)address + 128);
    }
    lanes_fence(fragment, mask, FLAG(s, 0));
    RECORD(EV_FENCE, fragment, mask, FLAG(s, 0), FLAG(s, 1), FLAG(s, 2), FLAG(s, 3), footprint);
}
