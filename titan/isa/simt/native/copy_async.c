/* cp.async. Twins: copies.py, copied_words.py. */

/* `bytes`: of each place. */
static int32_t of_located(Machine *machine, int space, int32_t cta, const Located *located,
                          int total, const int64_t *bytes)
{
    Runs *runs = &machine->scratch;
    runs->count = 0;
    for (int n = 0; n < total; n++)
        push_run(runs, located[n].spot.at, located[n].spot.at + bytes[n]);
    merge_runs(runs);
    return of_runs(machine, space, cta, runs);
}
/* What lanes read, and how many bytes at each place: all of them where a lane's number is not
   known. -1: an address is not known. */
static int sources_of(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                      const int64_t *read, Located *at, int64_t *bytes)
{
    int64_t count = FLAG(s, 2);
    int total = 0;
    for (uint32_t left = mask; left;) {
        int64_t size = read[first_lane(left)] < 0 ? count : read[first_lane(left)];
        uint32_t lanes = 0;
        for (uint32_t rest = left; rest; rest &= rest - 1) {
            int lane = first_lane(rest);
            if ((read[lane] < 0 ? count : read[lane]) == size) lanes |= 1u << lane;
        }
        left &= ~lanes;
        if (!size) continue;
        int found = locate_aligned(machine, fragment, ARG(s, 1), GLOBAL, FLAG(s, 1), size, count,
                                   lanes, at + total);
        if (found < 0) return -1;
        for (int n = 0; n < found; n++) bytes[total++] = size;
    }
    return total;
}
#if !NUMBERS
/* The words that are known of those that lanes copy. `read`: how many bytes each lane reads, and
   zeros for the others; negative where that is not known. */
static void note_copied(Machine *machine, const Located *to, int targets, const Located *at,
                        int sources, const int64_t *read, int64_t count, Operation *o)
{
    for (int n = 0; n < targets; n++) {
        int64_t source = 0, size = -2;
        for (uint32_t left = to[n].lanes; left && size != -1; left &= left - 1) {
            int lane = first_lane(left);
            int64_t from = -1, bytes = read[lane];
            for (int k = 0; k < sources; k++)
                if (at[k].lanes >> lane & 1) from = at[k].spot.at;
            if (from == -1 && bytes) bytes = -1;
            if (size == -2) source = from;
            else if (source != from || size != bytes) bytes = -1;
            size = bytes;
        }
        for (int64_t part = 0; part < count && size >= 0; part += WORD_BYTES) {
            int64_t known = size - part < WORD_BYTES ? size - part : WORD_BYTES;
            uint64_t value = 0;
            if (known > 0 && !read_global(machine, source + part, known, &value)) continue;
            if (!o->stored)
                o->stored = zeroed((size_t)(targets * count / WORD_BYTES), sizeof(Stored));
            o->stored[o->stored_count++] =
                (Stored){to[n].spot.cta->number, to[n].spot.at + part, WORD_BYTES, value};
        }
    }
}
#endif
static void copy(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int64_t count = FLAG(s, 2);
    Located to[32], at[32];
    int64_t written[32], bytes[32];
    Effects effects = {.count = 0};
#if NUMBERS
    if (copy_numbers(machine, fragment, s, mask)) return;
#endif
    int targets = locate(machine, fragment, ARG(s, 0), SHARED, FLAG(s, 0), count, mask, to);
    if (targets < 0) refuse(machine, fragment, "the destination of a copy is not known");
    for (int n = 0; n < targets; n++) written[n] = count;
    int64_t read[32]; /* by lane: the bytes, negative where they are not known */
    for (int lane = 0; lane < 32; lane++) read[lane] = count;
    if (s->arg_count > 2) {
        const Value *size = &warp->registers[ARG(s, 2)];
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = first_lane(left), opaque = lane_opaque(size, lane);
            uint64_t item = lane_value(size, lane);
            int none = !opaque && (FLAG(s, 3) ? (int)(item & 1) : item == 0);
            read[lane] = opaque ? -1 : none ? 0 : FLAG(s, 3) ? count : (int64_t)item;
            if (opaque || FLAG(s, 3) || item <= (uint64_t)count) continue;
            snprintf(machine->reason, sizeof machine->reason,
                     "a copy of %lld bytes cannot read %llu", (long long)count,
                     (unsigned long long)item);
            end_run(machine, fragment, FAULT);
        }
    }
    int sources = sources_of(machine, fragment, s, mask, read, at, bytes);
    if (sources < 0) {
        assume(machine, fragment, mask, POLICY_OPAQUE_ADDRESS);
        add_effect(&effects, of_range(machine, GLOBAL, NO_CTA, 0, 1ll << 56), READ, P_GENERIC);
    } else if (sources) {
        add_effect(&effects, of_located(machine, GLOBAL, NO_CTA, at, sources, bytes), READ,
                   P_GENERIC);
    }
    if (targets)
        add_effect(&effects, of_located(machine, SHARED, warp->cta->number, to, targets, written),
                   WRITE, P_GENERIC);
#if !NUMBERS
    int steers = 0;
    for (int n = 0; n < sources && !steers; n++)
        steers = global_has_known(machine, at[n].spot.at, bytes[n]);
    if (steers) {
        push(&machine->steering, machine->event_count);
        push(&machine->steering, fragment->pc);
        push(&machine->steering, effects.list[0].footprint);
    }
#endif
    Operation *o = start(machine, fragment, mask, OP_COPY, &effects, NULL, COPY_QUEUE, -1, 0, 0);
#if NUMBERS
    (void)o;
    (void)read;
#else
    if (!machine->maybe)
        note_copied(machine, to, targets, at, sources > 0 ? sources : 0, read, count, o);
    o->places = zeroed((size_t)targets, sizeof(Located));
    memcpy(o->places, to, (size_t)targets * sizeof(Located));
    o->place_count = targets;
    o->place_bytes = count;
    order_lanes(machine, fragment, to, targets, count, LANE_WRITE, fragment->pc);
    for (int n = 0; n < targets && sources >= 0; n++) {
        int first = -2, differs = 0; /* which source each lane copies from; -1: zeros */
        for (uint32_t left = to[n].lanes; left; left &= left - 1) {
            int from = -1;
            for (int k = 0; k < sources; k++)
                if (at[k].lanes >> first_lane(left) & 1) from = k;
            if (first != -2 && from != first) differs = 1;
            first = from;
        }
        if (differs) clash_within(machine, fragment, &to[n], count, CLASHED);
    }
#endif
}
