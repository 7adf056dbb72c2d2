/* Synchronous accesses of memory: ld, st, atom, red, prefetch (accesses.py). */

/* ------------------------------------------------------------------------------- locating */

static void steered(Machine *machine, Fragment *fragment, Marks marks, int use, uint32_t mask)
{
    if (NUMBERS) return;
    if (marks & MARK_POLL) {
        push(&machine->polls, machine->event_count);
        RECORD(EV_POLL_STEERED, fragment, mask & fragment->mask, use);
    }
    if (marks & MARK_ATOMIC && !machine->atomic_sites[fragment->pc]) {
        machine->atomic_sites[fragment->pc] = 1;
        push(&machine->atomics, fragment->pc);
    }
}

/* Lanes by their address; bad ones are recorded and left out. -1: an address is opaque. */
static int locate_aligned(Machine *machine, Fragment *fragment, int32_t reg, int space,
                          int64_t offset, int64_t count, int64_t alignment, uint32_t mask,
                          Located *found)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[reg];
    Marks marks = mark_of(warp, reg);
    int total = 0, kept = 0;
    uint64_t addresses[32];
    uint32_t lanes[32];
    if (marks && space != LOCAL && space != PARAMETER)
        steered(machine, fragment, marks, USE_ADDRESS, mask);
    if (value->uniform) {
        if (value->opaque & 1) return -1;
        addresses[0] = value->v[0];
        lanes[total++] = mask;
    } else {
        if (value->opaque & mask) return -1;
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = first_lane(left), at = total;
            uint64_t address = value->v[lane];
            if (total && addresses[total - 1] != address)
                for (at = 0; at < total && addresses[at] != address; at++) {}
            else if (total) at = total - 1;
            if (at == total) {
                addresses[total] = address;
                lanes[total++] = 0;
            }
            lanes[at] |= 1u << lane;
        }
    }
    for (int i = 0; i < total; i++) {
        Spot spot = spot_of(warp, space, addresses[i] + (uint64_t)offset);
        if (spot.at % alignment)
            memory_fault(machine, fragment, lanes[i], FAULT_MISALIGNED, spot, alignment);
        if (outside(machine, spot.cta, spot.space, spot.at, count)) {
            memory_fault(machine, fragment, lanes[i], FAULT_OUTSIDE, spot, count);
            continue;
        }
        found[kept].lanes = lanes[i];
        found[kept++].spot = spot;
    }
    return kept;
}
static int locate(Machine *machine, Fragment *fragment, int32_t reg, int space, int64_t offset,
                  int64_t count, uint32_t mask, Located *found)
{
    return locate_aligned(machine, fragment, reg, space, offset, count, count, mask, found);
}
/* Of what was located, what lies in these windows; the rest is recorded. */
static int within(Machine *machine, Fragment *fragment, Located *found, int total, int64_t count,
                  int windows)
{
    int kept = 0;
    for (int i = 0; i < total; i++) {
        if (windows >> found[i].spot.space & 1) {
            found[kept++] = found[i];
            continue;
        }
        memory_fault(machine, fragment, found[i].lanes, FAULT_SPACE, found[i].spot, count);
    }
    return total < 0 ? total : kept;
}
static void record_access(Machine *machine, Fragment *fragment, uint32_t lanes, int32_t footprint,
                          int mode, int64_t semantics, int64_t scope, int known, int collides,
                          int returns)
{
    if (known || (machine->looping && semantics)) {
        push(&machine->steering, machine->event_count);
        push(&machine->steering, fragment->pc);
        push(&machine->steering, footprint);
    }
    if (semantics != WEAK && !machine->maybe) lanes_access(fragment, lanes, mode, semantics);
    int64_t at = open_record(machine, EV_ACCESS, fragment, lanes);
    word fields[] = {footprint, mode, semantics, scope, known, collides, returns,
                     machine->written_count};
    for (int n = 0; n < 8; n++) push(&machine->events, fields[n]);
    for (int64_t n = 0; n < machine->written_count; n += 8) {
        word packed;
        memcpy(&packed, machine->written + n, 8);
        push(&machine->events, packed);
    }
    close_record(machine, at);
}
/* Access events: one for each memory, and each CTA's shared memory. */
static void record_located(Machine *machine, Fragment *fragment, const Located *located, int total,
                           int64_t count, int mode, int64_t semantics, int64_t scope, int known,
                           int returns)
{
    uint32_t done = 0;
    if (NUMBERS) return;
    for (int i = 0; i < total; i++) {
        int space = located[i].spot.space;
        const Cta *cta = located[i].spot.cta;
        if (done >> i & 1 || (space != SHARED && space != GLOBAL)) continue;
        uint32_t lanes = 0;
        Runs *runs = &machine->scratch;
        runs->count = 0;
        for (int j = i; j < total; j++)
            if (located[j].spot.space == space && located[j].spot.cta == cta) {
                done |= 1u << j;
                lanes |= located[j].lanes;
                push_run(runs, located[j].spot.at, located[j].spot.at + count);
            }
        merge_runs(runs);
        int64_t size = 0;
        for (int64_t n = 0; n < runs->count; n++) size += runs->data[n].high - runs->data[n].low;
        int collides = mode == WRITE && size < __builtin_popcount(lanes) * count;
        int32_t footprint = of_runs(machine, space, cta ? cta->number : NO_CTA, runs);
        record_access(machine, fragment, lanes, footprint, mode, semantics, scope, known, collides,
                      returns);
    }
}
/* An access at an unknown address: any byte of the memory it may reach. */
static void anywhere(Machine *machine, Fragment *fragment, int space, uint32_t mask, int mode,
                     int64_t semantics, int64_t scope, int returns)
{
    const int64_t *reach = NULL;
    if (machine->launch->reaches && machine->launch->reaches[2 * fragment->pc + 1])
        reach = &machine->launch->reaches[2 * fragment->pc];
    Warp *warp = fragment->warp;
    if (space != LOCAL && space != PARAMETER && space != CONSTANT) {
        assume(machine, fragment, mask, reach ? POLICY_OPAQUE_INDEX : POLICY_OPAQUE_ADDRESS);
    } else {
        if (mode == READ) return;
        for (uint32_t left = mask; left; left &= left - 1) {
            Bytes *bytes = local_memory(machine, warp, first_lane(left));
            fill(bytes, 0, bytes->size, OPAQUE_BYTE);
        }
        return;
    }
    int32_t everywhere = -1, window = -1;
    if (space == GLOBAL || space == GENERIC) {
        Runs *runs = &machine->scratch;
        runs->count = 0;
        if (reach) push_run(runs, reach[0], reach[1]);
        for (int32_t n = 0; !reach && n < machine->launch->bound_count; n++)
            push_run(runs, machine->launch->bounds[2 * n], machine->launch->bounds[2 * n + 1]);
        if (!runs->count) push_run(runs, 0, 1ll << 56);
        everywhere = of_runs(machine, GLOBAL, NO_CTA, runs);
    }
    if (!reach && (space == SHARED || space == GENERIC))
        window = of_range(machine, SHARED, warp->cta->number, 0, warp->cta->shared.size);
    if (everywhere >= 0)
        record_access(machine, fragment, mask, everywhere, mode, semantics, scope, 0, 0, returns);
    if (window >= 0)
        record_access(machine, fragment, mask, window, mode, semantics, scope, 0, 0, returns);
    if (mode == READ) return;
#if NUMBERS
    if (everywhere >= 0) forget_allocations(machine, 0, INT64_MAX);
#endif
    if (everywhere >= 0)
        for (int64_t n = 0; n < machine->page_slots; n++)
            if (machine->pages[n].bytes.data)
                fill(&machine->pages[n].bytes, 0, PAGE, OPAQUE_BYTE);
    if (window >= 0) {
        Bytes *shared = &warp->cta->shared;
        for (int64_t n = 0; n < shared->size; n++)
            if (shared->state[n] != LIVE_BARRIER) shared->state[n] = OPAQUE_BYTE;
    }
}

/* ------------------------------------------------------------------------------- handlers */

static int any_known(Machine *machine, Spot spot, int64_t count)
{
    if (spot.space == SHARED) return has_state(&spot.cta->shared, spot.at, count, KNOWN);
    return spot.space == GLOBAL && global_has_known(machine, spot.at, count);
}
/* Put the next answer where a strong access of one word reads (accesses.py). */
static int ask(Machine *machine, Fragment *fragment, const Located *located, int total,
               int64_t count, int64_t semantics)
{
    const titan_launch *l = machine->launch;
    if (!l->answers || machine->maybe || !semantics || total != 1) return 0;
    if (located[0].spot.space != GLOBAL || (count != 4 && count != 8)) return 0;
    if (machine->asked == l->answer_count) {
        machine->map_offset = located[0].spot.at;
        refuse(machine, fragment, "a word of global memory is asked for");
    }
    int64_t at = 2 * machine->asked++;
    if (!l->answers[at]) return 0;
    write_global(machine, located[0].spot.at, count, (uint64_t)l->answers[at + 1], 0);
    return 1;
}
static void load(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int space = (int)FLAG(s, 0), bits = (int)FLAG(s, 4), wide = (int)FLAG(s, 6), known = 0;
    int64_t size = bits / 8, count = size * s->out_count;
    int extends = FLAG(s, 5) == KIND_SIGNED && wide > bits;
    Located located[32];
    int total = locate(machine, fragment, ARG(s, 0), space, FLAG(s, 1), count, mask, located);
    if (total < 0) {
        anywhere(machine, fragment, space, mask, READ, FLAG(s, 2), FLAG(s, 3), 0);
        for (int i = 0; i < s->out_count; i++)
            put_unknown(warp, OUT(s, i), fragment->pc, mask, 0);
        return;
    }
    int asked = ask(machine, fragment, located, total, count, FLAG(s, 2));
    Value results[8];
    int single = total == 1 && located[0].lanes == mask && located[0].spot.space != LOCAL;
    for (int i = 0; i < s->out_count; i++) {
        unknown(&results[i], fragment->pc);
        if (!single) {
            results[i].uniform = 0;
            results[i].opaque = ALL_LANES;
            for (int lane = 1; lane < 32; lane++) results[i].v[lane] = results[i].v[0];
        }
    }
    for (int n = 0; n < total; n++) {
        known = known || any_known(machine, located[n].spot, count);
        for (int i = 0; i < s->out_count; i++) {
            Spot part = located[n].spot;
            part.at += i * size;
            int private = part.space == LOCAL, first = 1, got = 0;
            uint64_t value = 0;
            for (uint32_t left = single ? 1 : located[n].lanes; left; left &= left - 1) {
                int lane = first_lane(left);
                if (first || private) {
                    got = read_value(machine, warp, lane, part, size, &value);
                    if (got && extends) value = (uint64_t)sign(value, bits) & mask_of(wide);
                }
                first = 0;
                if (got) {
                    results[i].v[lane] = value;
                    results[i].opaque &= ~(1u << lane);
                }
            }
        }
    }
    record_located(machine, fragment, located, total, count, READ, FLAG(s, 2), FLAG(s, 3), known,
                   0);
    if (asked) write_global(machine, located[0].spot.at, count, 0, 1);
    order_lanes(machine, fragment, located, total, count, lane_access(machine, READ, FLAG(s, 2), 0),
                fragment->pc);
    for (int i = 0; i < s->out_count; i++) put(warp, OUT(s, i), &results[i], mask, 0);
}
/* The places by address; 0: they are of several memories, or `count` bytes of two of them meet. */
static int by_address(const Located *located, int total, int64_t count, int *order)
{
    for (int n = 0; n < total; n++) {
        int at = n;
        if (located[n].spot.space != located[0].spot.space ||
            located[n].spot.cta != located[0].spot.cta)
            return 0;
        for (; at && located[order[at - 1]].spot.at > located[n].spot.at; at--)
            order[at] = order[at - 1];
        order[at] = n;
    }
    for (int n = 1; n < total; n++)
        if (located[order[n]].spot.at < located[order[n - 1]].spot.at + count) return 0;
    return total > 0;
}
/* The bytes of a write by address, where all are known and one event writes none of them twice. */
static void note_value(Machine *machine, const Warp *warp, const titan_step *s,
                       const Located *located, int total, int64_t size)
{
    int64_t count = size * (s->arg_count - 1);
    int order[32];
    if (machine->maybe || total * count > (int64_t)sizeof machine->written) return;
    if (!by_address(located, total, count, order)) return;
    memset(machine->written, 0, (size_t)(total * count + 7) & ~(size_t)7);
    for (int n = 0; n < total; n++)
        for (int i = 1; i < s->arg_count; i++) {
            uint64_t value;
            int opaque;
            const Value *given = &warp->registers[ARG(s, i)];
            if (!uniform(given, located[order[n]].lanes, &value, &opaque) || opaque) return;
            memcpy(machine->written + n * count + (i - 1) * size, &value,
                   size < 8 ? (size_t)size : 8);
        }
    machine->written_count = total * count;
}
static void store(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int space = (int)FLAG(s, 0), values = s->arg_count - 1;
    Marks marks = 0;
    int64_t size = FLAG(s, 4) / 8, count = size * values;
    Located located[32];
    for (int i = 1; i <= values; i++) marks |= mark_of(warp, ARG(s, i));
    if (marks) steered(machine, fragment, marks, USE_STORE, mask);
    int total = locate(machine, fragment, ARG(s, 0), space, FLAG(s, 1), count, mask, located);
    total = within(machine, fragment, located, total, count, WRITTEN_WINDOWS);
    if (total < 0) {
        anywhere(machine, fragment, space, mask, WRITE, FLAG(s, 2), FLAG(s, 3), 0);
        return;
    }
    int access = lane_access(machine, WRITE, FLAG(s, 2), 0);
    order_lanes(machine, fragment, located, total, count, access, fragment->pc);
    if (access == LANE_WRITE && total < __builtin_popcount(mask))
        clash_of_stores(machine, fragment, located, total, s, 1, size);
    note_value(machine, warp, s, located, total, size);
    record_located(machine, fragment, located, total, count, WRITE, FLAG(s, 2), FLAG(s, 3), 0, 0);
    machine->written_count = 0;
    for (int n = 0; n < total; n++)
        for (int i = 0; i < values; i++) {
            const Value *value = &warp->registers[ARG(s, i + 1)];
            Spot part = located[n].spot;
            uint64_t same;
            int opaque;
            part.at += i * size;
            if (part.space == LOCAL) {
                for (uint32_t left = located[n].lanes; left; left &= left - 1) {
                    int lane = first_lane(left);
                    write_value(machine, fragment, lane, part, size, lane_value(value, lane),
                                lane_opaque(value, lane));
                }
                continue;
            }
            if (!uniform(value, located[n].lanes, &same, &opaque)) {
#if NUMBERS /* one of the lanes wins: which one is open */
                int lane = 31 - __builtin_clz(located[n].lanes);
                same = lane_value(value, lane);
                opaque = lane_opaque(value, lane);
#else
                opaque = 1;
#endif
            }
            write_value(machine, fragment, first_lane(located[n].lanes), part, size, same, opaque);
        }
}
enum { A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC, A_LOAD, A_STORE };

/* The new value of memory; 0: it is opaque. */
static int combined(const titan_step *s, int operation, uint64_t old, int old_known,
                    const uint64_t *v, uint32_t opaque, int count, uint64_t *result)
{
    int first_known = count && !(opaque & 1);
    if (operation == A_EXCH || operation == A_STORE) { *result = v[0]; return first_known; }
    if (operation == A_LOAD) { *result = old; return old_known; }
    if (!old_known || !first_known) return 0;
    if (operation == A_CAS) {
        *result = old == v[0] ? v[1] : old;
        return old == v[0] ? !(opaque >> 1 & 1) : 1;
    }
    if (s->kind == KIND_FLOAT || s->kind == KIND_BFLOAT) return 0;
    int less = s->kind == KIND_SIGNED ? sign(v[0], s->bits) < sign(old, s->bits) : v[0] < old;
    int more = s->kind == KIND_SIGNED ? sign(v[0], s->bits) > sign(old, s->bits) : v[0] > old;
    switch (operation) {
    case A_MIN: *result = less ? v[0] : old; break;
    case A_MAX: *result = more ? v[0] : old; break;
    case A_INC: *result = old >= v[0] ? 0 : old + 1; break;
    case A_DEC: *result = old == 0 || old > v[0] ? v[0] : old - 1; break;
    case A_ADD: *result = (old + v[0]) & mask_of(s->bits); break;
    case A_AND: *result = old & v[0]; break;
    case A_OR: *result = old | v[0]; break;
    default: *result = old ^ v[0]; break;
    }
    return 1;
}
/* The linear index of the cluster of a warp (launch.py). */
static int64_t cluster_number(const Machine *machine, const Warp *warp)
{
    const titan_launch *l = machine->launch;
    int64_t x = l->grid[0], y = l->grid[1], cta = warp->cta->cluster->ctas[0].number;
    int64_t at[3] = {cta % x, cta / x % y, cta / (x * y)}, number = 0, factor = 1;
    for (int axis = 0; axis < 3; axis++) {
        number += at[axis] / l->cluster[axis] * factor;
        factor *= l->grid[axis] / l->cluster[axis];
    }
    return number;
}
/* What the launch says of the draws from a counter. */
static const int64_t *draws_of(const titan_launch *l, int64_t at, int64_t *count)
{
    for (int64_t n = 0; n < l->draw_count; n += 2 + l->draws[n + 1]) {
        *count = l->draws[n + 1];
        if (l->draws[n] == at) return l->draws + n + 2;
    }
    *count = 0;
    return 0;
}
/* The old and the new value of a counter that all clusters raise, in turn or as the launch says
   (accesses.py). Counters are kept as pairs: address, how often it was raised. */
static void raise_in_turn(Machine *machine, const Warp *warp, int64_t at, uint64_t mask,
                          uint64_t *old, uint64_t *value)
{
    const titan_launch *l = machine->launch;
    uint64_t raised = *value - *old, apart = 1;
    int64_t n = 0, count;
    const int64_t *numbers = draws_of(l, at, &count);
    while (n < machine->counters.count && machine->counters.data[n] != at) n += 2;
    if (n == machine->counters.count) {
        push(&machine->counters, at);
        push(&machine->counters, 0);
        int64_t first = count ? numbers[0] : cluster_number(machine, warp);
        *old = (*old + raised * (uint64_t)first) & mask;
    }
    int64_t made = machine->counters.data[n + 1]++;
    if (made + 1 < count)
        apart = (uint64_t)(numbers[made + 1] - numbers[made]);
    else
        for (int axis = 0; axis < 3; axis++)
            apart *= (uint64_t)(l->grid[axis] / l->cluster[axis]);
    *value = (*old + raised * apart) & mask;
}
static void atomic(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int space = (int)FLAG(s, 0), operation = (int)FLAG(s, 6), count = (int)FLAG(s, 7);
    int64_t size = FLAG(s, 4) / 8;
    int returns = 0;
    for (int i = 0; i < s->out_count; i++) returns |= OUT(s, i) >= 0;
    Located located[32];
    int total = locate(machine, fragment, ARG(s, 0), space, FLAG(s, 1), size * count, mask,
                       located);
    total = within(machine, fragment, located, total, size * count, ATOMIC_WINDOWS);
    if (total < 0) {
        anywhere(machine, fragment, space, mask, ATOMIC_MODE, FLAG(s, 2), FLAG(s, 3), returns);
        for (int i = 0; i < s->out_count; i++)
            put_unknown(warp, OUT(s, i), fragment->pc, mask, 0);
        return;
    }
    int asked = returns && ask(machine, fragment, located, total, size * count, FLAG(s, 2));
    int commutes = !returns && operation <= A_XOR;
    int access = lane_access(machine, ATOMIC_MODE, FLAG(s, 2), commutes);
    order_lanes(machine, fragment, located, total, size * count, access, fragment->pc);
    for (int n = 0; n < total && access == LANE_WRITE; n++)
        if (located[n].lanes & (located[n].lanes - 1))
            clash_within(machine, fragment, &located[n], size * count, CLASHED);
    if (machine->launch->answers && count == 1 && total)
        note_value(machine, warp, s, located, 1, size);
    record_located(machine, fragment, located, total, size * count, ATOMIC_MODE, FLAG(s, 2),
                   FLAG(s, 3), 0, returns);
    machine->written_count = 0;
    Value olds[8];
    for (int i = 0; i < count && i < 8; i++) {
        olds[i].uniform = 0;
        olds[i].opaque = ALL_LANES;
        for (int lane = 0; lane < 32; lane++) olds[i].v[lane] = (uint64_t)(int64_t)fragment->pc;
    }
    for (int lane = 0; lane < 32; lane++)
        for (int n = 0; n < total; n++) {
            if (!(located[n].lanes >> lane & 1)) continue;
            for (int i = 0; i < count && i < 8; i++) {
                Spot part = located[n].spot;
                part.at += i * size;
                uint64_t old = 0, v[2] = {0, 0}, result = 0;
                uint32_t opaque = 0;
                int known = read_value(machine, warp, lane, part, size, &old);
                if (known && !machine->maybe) {
                    olds[i].v[lane] = old;
                    olds[i].opaque &= ~(1u << lane);
                }
                int first = count > 1 ? 1 + i : 1, given = s->arg_count - first;
                for (int k = 0; k < given && k < 2; k++) {
                    const Value *value = &warp->registers[ARG(s, first + k)];
                    v[k] = lane_value(value, lane);
                    opaque |= (uint32_t)lane_opaque(value, lane) << k;
                }
#if NUMBERS
                if (known && !opaque &&
                    float_atomic(machine, s, operation, old, v[0], &result)) {
                    write_value(machine, fragment, lane, part, size, result, 0);
                    continue;
                }
#endif
                known = combined(s, operation, old, known, v, opaque, given, &result);
                if (known && returns && count == 1 && operation == A_ADD && part.space == GLOBAL &&
                    s->kind != KIND_FLOAT && s->kind != KIND_BFLOAT && machine->launch->in_turn) {
                    raise_in_turn(machine, warp, part.at, mask_of(s->bits), &old, &result);
                    if (!machine->maybe) olds[i].v[lane] = old;
                }
                write_value(machine, fragment, lane, part, size, result, !known);
            }
        }
    if (asked) write_global(machine, located[0].spot.at, size * count, 0, 1);
    for (int i = 0; i < s->out_count && i < count; i++)
        put(warp, OUT(s, i), &olds[i], mask, mask & ~olds[i].opaque ? MARK_ATOMIC : 0);
}
/* The known numbers of lanes are multiples of the alignment that a prefetch asks for. */
static void check_multiples(Machine *machine, Fragment *fragment, const titan_step *s,
                            uint32_t mask, int arg, uint64_t offset)
{
    const Value *value = &fragment->warp->registers[ARG(s, arg)];
    for (uint32_t left = mask; left;) {
        int first = first_lane(left);
        uint64_t number = lane_value(value, first);
        uint32_t lanes = 0;
        if (lane_opaque(value, first)) {
            left &= left - 1;
            continue;
        }
        for (uint32_t rest = left; rest; rest &= rest - 1) {
            int lane = first_lane(rest);
            if (!lane_opaque(value, lane) && lane_value(value, lane) == number)
                lanes |= 1u << lane;
        }
        left &= ~lanes;
        Spot spot = spot_of(fragment->warp, (int)FLAG(s, 0), number + offset);
        if (spot.at % FLAG(s, 2))
            memory_fault(machine, fragment, lanes, FAULT_MISALIGNED, spot, FLAG(s, 2));
    }
}
static void prefetch(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    uint64_t address;
    int opaque;
    int32_t footprint = -1;
    for (int arg = 0; FLAG(s, 2) && arg < s->arg_count; arg++)
        check_multiples(machine, fragment, s, mask, arg, arg ? 0 : (uint64_t)FLAG(s, 1));
    if (uniform(&fragment->warp->registers[ARG(s, 0)], mask, &address, &opaque) && !opaque) {
        Spot spot = spot_of(fragment->warp, (int)FLAG(s, 0), address + (uint64_t)FLAG(s, 1));
        if (spot.space == GLOBAL)
            footprint = of_range(machine, GLOBAL, NO_CTA, spot.at,
                                 spot.at + (FLAG(s, s->flag_count - 1) ? 128 : 1));
    }
    RECORD(EV_PREFETCH, fragment, mask, footprint);
}
