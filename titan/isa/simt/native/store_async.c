/* st.async and red.async to shared memory of the cluster. Twin: copies.py. */

#if !NUMBERS
/* The numbers of `size` bytes that are known of those that lanes store. */
static void note_stored(const Machine *machine, const Fragment *fragment, const titan_step *s,
                        const Located *located, int total, int64_t size, Operation *o)
{
    int values = s->arg_count - 2;
    o->stored = zeroed((size_t)(total * values), sizeof(Stored));
    for (int n = 0; n < total; n++)
        for (int k = 0; k < values && located[n].spot.cta; k++) {
            uint64_t value;
            int opaque;
            const Value *given = &fragment->warp->registers[ARG(s, 2 + k)];
            if (!uniform(given, located[n].lanes, &value, &opaque) || opaque) continue;
            o->stored[o->stored_count++] = (Stored){
                located[n].spot.cta->number, located[n].spot.at + k * size, size, value};
        }
}
#endif
static void store_async(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t barrier = ARG(s, 1);
    int64_t count = FLAG(s, 3);
    Group groups[32];
    int total = grouped(machine, fragment, &barrier, 1, mask, "an mbarrier", groups);
    for (int i = 0; i < total; i++) {
        uint32_t lanes = groups[i].lanes;
        Place place = barrier_place(machine, fragment, SHARED,
                                    groups[i].values[0] + (uint64_t)FLAG(s, 2));
        Located located[32];
        int found = locate(machine, fragment, ARG(s, 0), (int)FLAG(s, 0), FLAG(s, 1), count, lanes,
                           located);
        if (found < 0)
            refuse(machine, fragment, "the destination of an asynchronous store is not known");
        if (!FLAG(s, 4))
            clash_of_stores(machine, fragment, located, found, s, 2, count / (s->arg_count - 2));
        Effects effects = {.count = 0};
        uint32_t done = 0;
        for (int n = 0; n < found; n++) {
            Cta *cta = located[n].spot.cta;
            if (!cta || done >> n & 1) continue;
            Runs *runs = &machine->scratch;
            runs->count = 0;
            for (int k = n; k < found; k++)
                if (located[k].spot.cta == cta) {
                    done |= 1u << k;
                    push_run(runs, located[k].spot.at, located[k].spot.at + count);
                }
            merge_runs(runs);
            add_effect(&effects, of_runs(machine, SHARED, cta->number, runs),
                       FLAG(s, 4) ? ATOMIC_MODE : WRITE, P_GENERIC);
        }
        Completions completes = {.places = {place}, .count = 1};
        completes.bytes[0] = count * __builtin_popcount(lanes);
        Operation *o = start(machine, fragment, lanes, FLAG(s, 4) ? OP_REDUCE : OP_STORE, &effects,
                             &completes, -1, -1, 0, 0);
#if NUMBERS
        store_async_numbers(machine, fragment, s, lanes, o);
#else
        if (!FLAG(s, 4) && !machine->maybe)
            note_stored(machine, fragment, s, located, found, count / (s->arg_count - 2), o);
#endif
    }
}
