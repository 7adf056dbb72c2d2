/* What runs next (execution.py), and what Python calls. */

/* ---------------------------------------------------------------------------- scheduling */

static int ready(Machine *machine, const Fragment *fragment)
{
    Cta *cta = fragment->warp->cta;
    const MBarrier *barrier;
    switch (fragment->blocked) {
    case WAIT_MBARRIER:
        barrier = barrier_at(machine, fragment->place);
        return barrier && (barrier->phase != fragment->generation ||
                           barrier->id != fragment->object);
    case WAIT_NAMED: return cta->named[fragment->number].generation > fragment->generation;
    case WAIT_CLUSTER: return cta->cluster->generation > fragment->generation;
    case WAIT_TENSOR: 
        return free_columns(cta, fragment->number, machine->launch->highest_columns) >= 0;
    case WAIT_WGMMA: return warpgroup_committed(fragment->warp, fragment->number);
    case WAIT_PEER: return peer_allocated(cta, fragment->number);
    default: return 0;
    }
}
static void resume(Machine *machine, Fragment *fragment)
{
    int why = fragment->blocked;
    fragment->blocked = WAIT_NONE;
    if (why == WAIT_MBARRIER) fragment->polled = 0;
    else if (why == WAIT_NAMED) resume_named(machine, fragment);
    else if (why == WAIT_CLUSTER) resume_cluster(machine, fragment);
    else if (why == WAIT_PEER) fragment->pc++;
}
static int run_warp(Machine *machine, Warp *warp, int64_t quantum)
{
    int ran = 0;
    int32_t count = warp->fragment_count;
    if (!count) return 0;
    Fragment *few[8], **snapshot = few;
    if (count > 8) snapshot = zeroed((size_t)count, sizeof *snapshot);
    memcpy(snapshot, warp->fragments, (size_t)count * sizeof *snapshot);
    for (int32_t n = 0; n < count; n++) {
        Fragment *fragment = snapshot[n];
        if (fragment->dead) continue;
        if (fragment->blocked) {
            if (!ready(machine, fragment)) continue;
            resume(machine, fragment);
        }
        ran = 1;
        run_fragment(machine, fragment, quantum);
    }
    if (snapshot != few) free(snapshot);
    return ran;
}
static int break_join(Machine *machine, Warp *warp)
{
    for (int32_t n = 0; n < warp->join_count; n++) {
        Join *join = warp->joins[n];
        if (!join->arrived) continue;
        uint32_t mask = join->arrived;
        const Fragment *like = NULL;
        join->arrived = 0;
        join->expected &= ~mask;
        for (int32_t k = 0; k < warp->fragment_count && !like; k++)
            if (warp->fragments[k]->depth >= join->depth) like = warp->fragments[k];
        new_fragment(machine, warp, mask, join->pc, join->parent, like, like ? join->depth : 0);
        if (!join->expected) remove_join(warp, join);
        return 1;
    }
    return 0;
}
static int unstick(Machine *machine)
{
    if (machine->flight.count) {
        finish(machine, machine->operations[machine->flight.data[0]]);
        return 1;
    }
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
            for (int32_t n = 0; n < machine->clusters[c]->ctas[r].warp_count; n++)
                if (break_join(machine, &machine->clusters[c]->ctas[r].warps[n])) return 1;
    if (machine->next_cluster < machine->launch->cta_count) {
        start_cluster(machine);
        return 1;
    }
    return 0;
}
static int one_round(Machine *machine)
{
    int64_t before = machine->count, quantum = QUANTUM, total = 0, first = 0, place = 0;
    int ran = 0;
#if NUMBERS
    machine->numbers->chosen = -1;
#endif
    for (int32_t c = 0; c < machine->cluster_count; c++)
        total += (int64_t)machine->clusters[c]->cta_count * machine->warps_each;
    if (machine->launch->seed && total) {
        first = (int64_t)(draw(machine) % (uint64_t)total);
        quantum = 1 + (int64_t)(draw(machine) % QUANTUM);
    }
#if NUMBERS
    ran |= run_chosen(machine, total);
    quantum = quantum_of(machine, quantum);
#endif
    for (int half = 0; half < 2; half++) { /* from `first` to the end, then from the start */
        place = 0;
        for (int32_t c = 0; c < machine->cluster_count; c++)
            for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
                for (int32_t n = 0; n < machine->warps_each; n++, place++)
#if NUMBERS
                    if ((place >= first) == !half && place == machine->numbers->chosen)
                        continue;
                    else
#endif
                    if ((place >= first) == !half)
                        ran |= run_warp(machine, &machine->clusters[c]->ctas[r].warps[n], quantum);
    }
#if NUMBERS
    if (!ran) ran = run_starved(machine, quantum);
#endif
    int32_t kept = 0;
    for (int32_t c = 0; c < machine->cluster_count; c++) {
        Cluster *cluster = machine->clusters[c];
        if (live_threads(cluster)) machine->clusters[kept++] = cluster;
        else shrink_cluster(cluster);
    }
    machine->cluster_count = kept;
    machine->tick++;
    Words due = {0};
    for (int64_t n = 0; n < machine->flight.count; n++)
        if (machine->operations[machine->flight.data[n]]->due <= machine->tick)
            push(&due, machine->flight.data[n]);
    for (int64_t n = 0; n < due.count; n++) finish(machine, machine->operations[due.data[n]]);
    ran |= due.count > 0;
    free(due.data);
    if (ran && machine->count != before) {
#if NUMBERS
        if (machine->count - machine->progress > STALL) {
            machine->progress = machine->count;
            machine->numbers->stalled = 1; /* another cluster may have to run first */
            return 0;
        }
#endif
        if (machine->count - machine->progress > STALL &&
            machine->next_cluster < machine->launch->cta_count) {
            machine->progress = machine->count;
            start_cluster(machine);
        }
        return 1;
    }
#if NUMBERS
    return ran || unstick(machine) || give_up(machine);
#else
    return ran || unstick(machine);
#endif
}
/* (cta, warp, lanes, instruction, why, barrier cta, offset, number, phase, pending, bytes) */
static void report_waiter(Machine *machine, const Fragment *fragment)
{
    const Warp *warp = fragment->warp;
    const Cta *cta = warp->cta;
    word bcta = -1, offset = -1, number = -1, phase = -1, pending = 0, bytes = 0;
    word lanes = fragment->blocked_mask;
    const MBarrier *barrier;
    switch (fragment->blocked) {
    case WAIT_MBARRIER:
        barrier = barrier_at(machine, fragment->place);
        bcta = fragment->place.cta;
        offset = fragment->place.offset;
        phase = fragment->generation;
        pending = barrier ? barrier->pending : 0;
        bytes = barrier ? barrier->bytes : 0;
        break;
    case WAIT_NAMED:
        number = fragment->number;
        phase = fragment->generation;
        pending = needed(cta, &cta->named[number]) - cta->named[number].arrived;
        break;
    case WAIT_CLUSTER:
        phase = fragment->generation;
        pending = live_threads(cta->cluster) - cta->cluster->arrived;
        break;
    case WAIT_PEER: pending = 1; break;
    case WAIT_TENSOR: case WAIT_WGMMA: pending = fragment->number; break;
    default:
        lanes = fragment->mask;
        number = fragment->required;
        pending = __builtin_popcount(fragment->required & ~fragment->mask);
        break;
    }
    word row[] = {cta->number, warp->index, lanes, fragment->pc, fragment->blocked, bcta, offset,
                  number, phase, pending, bytes};
    for (int n = 0; n < 11; n++) push(&machine->waiters, row[n]);
}

/* --------------------------------------------------------------------- for Python to call */

Machine *titan_simt_new(const titan_code *code, const titan_launch *launch)
{
    Machine *machine = zeroed(1, sizeof *machine);
    const int32_t *b = launch->block;
    int64_t ctas = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    machine->code = code;
    machine->launch = launch;
    machine->warps_each = (b[0] * b[1] * b[2] + 31) / 32;
    machine->random = launch->seed;
    machine->by_number = zeroed((size_t)ctas, sizeof(Cta *));
    machine->assumed = zeroed((size_t)code->step_count, sizeof *machine->assumed);
    machine->atomic_sites = zeroed((size_t)code->step_count, 1);
    machine->undefined_sites = zeroed((size_t)code->step_count, 1);
    machine->clashed = zeroed((size_t)code->step_count, 1);
    return machine;
}
void titan_simt_store(Machine *machine, int64_t at, const uint8_t *data, int64_t count)
{
    for (int64_t n = 0; n < count;) {
        Page *page = find_page(machine, (at + n) >> 12, 1);
        int64_t place = (at + n) & (PAGE - 1), piece = PAGE - place;
        if (piece > count - n) piece = count - n;
        memcpy(page->bytes.data + place, data + n, (size_t)piece);
        memset(page->bytes.state + place, KNOWN, (size_t)piece);
        n += piece;
    }
}
int titan_simt_read(Machine *machine, int64_t at, int64_t count, uint8_t *data)
{
    for (int64_t n = 0; n < count; n++) {
        uint64_t value;
        if (!read_global(machine, at + n, 1, &value)) return 0;
        data[n] = (uint8_t)value;
    }
    return 1;
}
int titan_simt_run(Machine *machine)
{
    machine->site = machine->end_cta = machine->end_warp = -1;
    machine->origin = machine->map_offset = -1;
    if (setjmp(machine->stop)) return machine->ending;
    while (one_round(machine)) {
#if NUMBERS
        if (turn_is_over(machine)) return FINISHED;
#endif
    }
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
            for (int32_t n = 0; n < machine->warps_each; n++) {
                const Warp *warp = &machine->clusters[c]->ctas[r].warps[n];
                for (int32_t k = 0; k < warp->fragment_count; k++)
                    if (warp->fragments[k]->blocked) report_waiter(machine, warp->fragments[k]);
            }
    if (machine->waiters.count) {
        snprintf(machine->reason, sizeof machine->reason, "no warp can proceed");
        machine->ending = HUNG;
    }
    return machine->ending;
}
/* site, cta, warp, instructions, events, words of events, footprints, steering words,
   polls, atomics, waiters' words, origin, map offset, undefined results */
void titan_simt_numbers(const Machine *machine, int64_t *out)
{
    const int64_t numbers[RESULT_NUMBERS] = {
        machine->site, machine->end_cta, machine->end_warp, machine->count,
        machine->event_count, machine->events.count, machine->footprint_count,
        machine->steering.count, machine->polls.count, machine->atomics.count,
        machine->waiters.count, machine->origin, machine->map_offset, machine->undefined.count};
    memcpy(out, numbers, sizeof numbers);
}
const char *titan_simt_reason(const Machine *machine) { return machine->reason; }
const int64_t *titan_simt_words(const Machine *machine, int which)
{
    const Words *all[] = {&machine->events, &machine->steering, &machine->polls, &machine->atomics,
                          &machine->waiters, &machine->undefined};
    return all[which]->data;
}
/* For each footprint: space, cta, boxes, then (start, length, steps, (count, distance)...) of each.
   Gives the words that it takes; with `out` NULL nothing is written. */
int64_t titan_simt_footprints(const Machine *machine, int64_t *out)
{
    int64_t count = 0;
    for (int64_t number = 0; number < machine->footprint_count; number++) {
        const Footprint *footprint = &machine->footprints[number];
        if (out) {
            out[count] = footprint->space;
            out[count + 1] = footprint->cta;
            out[count + 2] = footprint->boxes;
        }
        count += 3;
        for (int64_t n = 0; n < footprint->boxes; n++) {
            const Box *box = &machine->boxes[footprint->first + n];
            if (out) {
                out[count] = box->start;
                out[count + 1] = box->length;
                out[count + 2] = box->steps;
                for (int k = 0; k < box->steps; k++) {
                    out[count + 3 + 2 * k] = box->count[k];
                    out[count + 4 + 2 * k] = box->distance[k];
                }
            }
            count += 3 + 2 * box->steps;
        }
    }
    return count;
}
void titan_simt_free(Machine *machine)
{
    for (int32_t c = 0; c < machine->all_count; c++) {
        for (int32_t r = 0; r < machine->all[c]->cta_count; r++)
            free_cta(machine, &machine->all[c]->ctas[r]);
        free(machine->all[c]->ctas);
        free(machine->all[c]);
    }
    for (int64_t n = 0; n < machine->grave_count; n++) free(machine->graves[n]);
    for (int64_t n = 0; n < machine->all_join_count; n++) free(machine->all_joins[n]);
    for (int64_t n = 0; n < machine->operation_count; n++) {
        free(machine->operations[n]->after);
        free(machine->operations[n]->places);
        free(machine->operations[n]->stored);
#if NUMBERS
        free_transfer(machine->operations[n]);
#endif
        free(machine->operations[n]);
    }
    for (int64_t n = 0; n < machine->page_slots; n++) {
        free(machine->pages[n].bytes.data);
        free(machine->pages[n].bytes.state);
    }
    Words *all[] = {&machine->events, &machine->steering, &machine->polls, &machine->atomics,
                    &machine->waiters, &machine->flight, &machine->counters, &machine->undefined};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) free(all[n]->data);
    free(machine->pages);
    free(machine->operations);
    free(machine->graves);
    free(machine->all_joins);
    free(machine->all);
    free(machine->clusters);
    free(machine->footprints);
    free(machine->boxes);
    free(machine->slots);
    free(machine->by_number);
    free(machine->assumed);
    free(machine->atomic_sites);
    free(machine->undefined_sites);
    free(machine->clashed);
    free(machine->scratch.data);
    free_edited_maps(machine);
    free(machine);
}
