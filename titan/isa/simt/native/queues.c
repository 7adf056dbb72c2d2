/* Operations in flight, groups, waits (recorder.py, queues.py). */
static Groups *queue_of(Warp *warp, int queue, int lane)
{
    Groups **place = &warp->groups[queue][lane + 1]; /* lane -1: of the warp */
    if (!*place) {
        *place = zeroed(1, sizeof **place);
        (*place)->last = -1;
    }
    return *place;
}
static int of_lanes(int queue)
{
    return queue == BULK || queue == COPY_QUEUE || queue == TENSOR_CORE;
}
static Operation *new_operation(Machine *machine, Fragment *fragment, int kind, uint32_t lanes,
                                int queue)
{
    if (machine->operation_count == machine->operation_room) {
        machine->operation_room = machine->operation_room ? 2 * machine->operation_room : 256;
        machine->operations =
            room(machine->operations, (size_t)machine->operation_room * sizeof(Operation *));
    }
    Operation *o = zeroed(1, sizeof *o);
    o->number = (int32_t)machine->operation_count;
    o->kind = kind;
    o->warp = fragment->warp;
    o->lanes = lanes;
    o->instruction = fragment->pc;
    o->queue = queue;
    o->arrive_count = 1;
    machine->operations[machine->operation_count++] = o;
    return o;
}
static uint64_t draw(Machine *machine)
{
    machine->random = machine->random * 6364136223846793005ull + 1442695040888963407ull;
    return machine->random >> 33;
}
static void enqueue(Warp *warp, Operation *o)
{
    if (o->queue < 0) return;
    if (!of_lanes(o->queue)) {
        push(&queue_of(warp, o->queue, -1)->open, o->number);
        return;
    }
    for (uint32_t left = o->lanes; left; left &= left - 1)
        push(&queue_of(warp, o->queue, first_lane(left))->open, o->number);
}
static void issue(Machine *machine, Operation *o)
{
    int64_t delay = DELAY;
    if (machine->launch->seed) delay = 1 + (int64_t)(draw(machine) % 8);
#if NUMBERS
    delay = delay_of(machine, delay);
#endif
    o->due = machine->tick + delay;
    push(&machine->flight, o->number);
    push(&o->warp->issued, o->number);
}
static int64_t complete(Machine *machine, Place place, int64_t bytes, int64_t count)
{
    MBarrier *barrier = barrier_at(machine, place);
    if (!barrier) return -1;
    int64_t phase = barrier->phase;
    expect_bytes(barrier, bytes);
    if (count) arrive_count(barrier, count, 0);
    settle(barrier);
    return phase;
}
static void finish(Machine *machine, Operation *o)
{
    if (o->done) return;
    o->done = 1;
    for (int32_t n = 0; n < o->after_count; n++) finish(machine, machine->operations[o->after[n]]);
    for (int64_t n = 0; n < machine->flight.count; n++)
        if (machine->flight.data[n] == o->number) {
            memmove(&machine->flight.data[n], &machine->flight.data[n + 1],
                    (size_t)(machine->flight.count - n - 1) * sizeof(word));
            machine->flight.count--;
            break;
        }
    const uint64_t *answer = o->answers ? &o->answer : 0;
#if NUMBERS
    machine->events.count = 0;
    if (!transfer(machine, o))
#endif
    for (int32_t n = 0; n < o->write_count; n++) havoc(machine, o->writes[n], answer);
    for (int32_t n = 0; n < o->stored_count; n++) {
        const Stored *one = &o->stored[n];
        Cta *cta = machine->by_number[one->cta];
        if (cta) write_bytes(&cta->shared, one->at, one->size, one->value, 0);
    }
    free(o->stored); /* there may be many of them */
    o->stored = NULL;
    o->stored_count = 0;
    int64_t at = machine->events.count;
    word head[] = {EV_FINISH, 0, o->warp->cta->number, o->warp->index, o->lanes, o->instruction,
                   o->number, o->complete_count + o->arrival_count};
    for (int n = 0; n < 8; n++) push(&machine->events, head[n]);
    for (int32_t n = 0; n < o->complete_count; n++)
        push(&machine->events, complete(machine, o->completes[n], -o->complete_bytes[n], 0));
    for (int32_t n = 0; n < o->arrival_count; n++)
        push(&machine->events, complete(machine, o->arrives[n], 0, o->arrive_count));
    close_record(machine, at);
    machine->progress = machine->count;
}
static int compare_words(const void *left, const void *right)
{
    word a = *(const word *)left, b = *(const word *)right;
    return a < b ? -1 : a > b;
}
/* Sort numbers and drop those that stand twice; push their count and them to the records. */
static void sort_unique(Words *numbers)
{
    int64_t kept = 0;
    if (!numbers->count) return;
    qsort(numbers->data, (size_t)numbers->count, sizeof(word), compare_words);
    for (int64_t n = 0; n < numbers->count; n++)
        if (!kept || numbers->data[kept - 1] != numbers->data[n])
            numbers->data[kept++] = numbers->data[n];
    numbers->count = kept;
}
static void push_all(Machine *machine, const Words *numbers)
{
    push(&machine->events, numbers->count);
    for (int64_t n = 0; n < numbers->count; n++) push(&machine->events, numbers->data[n]);
}
static void commit(Machine *machine, Fragment *fragment, int queue, uint32_t mask)
{
    Words found = {0};
    for (uint32_t left = of_lanes(queue) ? mask : 1; left; left &= left - 1) {
        Groups *groups = queue_of(fragment->warp, queue, of_lanes(queue) ? first_lane(left) : -1);
        for (int64_t n = 0; n < groups->open.count; n++) {
            push(&groups->closed, groups->open.data[n]);
            push(&found, groups->open.data[n]);
        }
        push(&groups->ends, groups->closed.count);
        groups->open.count = 0;
    }
    sort_unique(&found);
    int64_t at = open_record(machine, EV_COMMIT, fragment, mask);
    push(&machine->events, queue);
    push_all(machine, &found);
    close_record(machine, at);
    free(found.data);
}
static void see(Machine *machine, Words *found, const Words *numbers, int64_t from, int64_t to,
                uint32_t lanes, int reads)
{
    for (int64_t n = from; n < to; n++) {
        Operation *o = machine->operations[numbers->data[n]];
        uint32_t before = reads ? o->reads_seen | o->seen : o->seen;
        if (lanes & o->lanes & ~before) push(found, o->number);
        if (reads) o->reads_seen |= lanes;
        else o->seen |= lanes;
    }
}
static void release_registers(const Machine *machine, Warp *warp, const Operation *o)
{
    if (!warp->owned_count) return;
    for (int32_t reg = 0; reg < machine->code->registers; reg++)
        if (warp->owned[reg] == o->number + 1) {
            warp->owned[reg] = 0;
            warp->owned_count--;
        }
}
static void waited(Machine *machine, Fragment *fragment, uint32_t mask, int queue, int64_t pending,
                   int reads, Words *found)
{
    sort_unique(found);
    for (int64_t n = 0; queue == COPY_QUEUE && n < found->count; n++) {
        Operation *o = machine->operations[found->data[n]];
        order_copy(machine, fragment, o, o->seen & mask);
    }
    for (int64_t n = 0; n < found->count; n++) {
        Operation *o = machine->operations[found->data[n]];
        finish(machine, o);
        if (o->queue == WGMMA_QUEUE || o->queue == TENSOR_LOAD_QUEUE)
            release_registers(machine, fragment->warp, o);
    }
    int64_t at = open_record(machine, EV_QUEUE_WAIT, fragment, mask);
    push(&machine->events, queue);
    push(&machine->events, pending);
    push(&machine->events, reads);
    push_all(machine, found);
    close_record(machine, at);
    free(found->data);
}
/* Whether each warp of the warpgroup has committed so many groups: a wgmma is one operation of all
   four, and so is its group. */
static int warpgroup_committed(const Warp *warp, int64_t needed)
{
    const Cta *cta = warp->cta;
    int32_t first = warp->index - warp->index % WARPGROUP_WARPS;
    for (int32_t n = first; n < first + WARPGROUP_WARPS && n < cta->warp_count; n++)
        if (queue_of(&cta->warps[n], WGMMA_QUEUE, -1)->ends.count < needed) return 0;
    return 1;
}
/* 1: the fragment has to wait for other warps of its warpgroup. */
static int blocked_by_warpgroup(Fragment *fragment, int64_t pending, uint32_t mask)
{
    const Groups *groups = queue_of(fragment->warp, WGMMA_QUEUE, -1);
    int64_t closed = groups->ends.count - groups->head;
    int64_t needed = groups->ends.count - (closed < pending ? closed : pending);
    if (warpgroup_committed(fragment->warp, needed)) return 0;
    fragment->blocked = WAIT_WGMMA;
    fragment->blocked_mask = mask;
    fragment->number = (int32_t)needed;
    return 1;
}
static void wait_groups(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int queue = s->op == BULK_WAIT ? BULK : s->op == WGMMA_WAIT ? WGMMA_QUEUE : COPY_QUEUE;
    int64_t pending = s->op == COPY_WAIT_ALL ? 0 : FLAG(s, 0);
    int reads = s->op == BULK_WAIT && FLAG(s, 1);
    Words found = {0};
    for (uint32_t left = of_lanes(queue) ? mask : 1; left; left &= left - 1) {
        int lane = of_lanes(queue) ? first_lane(left) : -1;
        Groups *groups = queue_of(fragment->warp, queue, lane);
        int64_t closed = groups->ends.count - groups->head;
        int64_t covered = closed > pending ? closed - pending : 0;
        int64_t from = groups->head ? groups->ends.data[groups->head - 1] : 0;
        int64_t to = covered ? groups->ends.data[groups->head + covered - 1] : from;
        see(machine, &found, &groups->closed, from, to, lane < 0 ? mask : 1u << lane, reads);
        if (!reads) groups->head += covered;
    }
    waited(machine, fragment, mask, queue, pending, reads, &found);
}
static void tensor_wait(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int queue = (int)FLAG(s, 0);
    Groups *groups = queue_of(fragment->warp, queue, -1);
    Words found = {0};
    check_arm(machine, fragment, &groups->open, -1);
    see(machine, &found, &groups->open, 0, groups->open.count, mask, 0);
    groups->open.count = 0;
    waited(machine, fragment, mask, queue, 0, 0, &found);
}
static void take_arrivals(Machine *machine, Words *found, const Words *numbers, int64_t from,
                          int lane)
{
    for (int64_t n = from; n < numbers->count; n++) {
        Operation *o = machine->operations[numbers->data[n]];
        if (o->arrived >> lane & 1) continue;
        o->arrived |= 1u << lane;
        push(found, o->number);
    }
}
static void copy_arrive(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
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
        int32_t count = __builtin_popcount(lanes);
        if (!FLAG(s, 2)) barrier->pending += count;
        Words found = {0};
        for (uint32_t left = lanes; left; left &= left - 1) {
            int lane = first_lane(left);
            Groups *g = queue_of(warp, COPY_QUEUE, lane);
            int64_t from = g->head ? g->ends.data[g->head - 1] : 0, kept = 0;
            take_arrivals(machine, &found, &g->closed, from, lane);
            take_arrivals(machine, &found, &g->open, 0, lane);
            for (int64_t n = 0; n < g->open.count; n++)
                if (!machine->operations[g->open.data[n]]->done)
                    g->open.data[kept++] = g->open.data[n];
            g->open.count = kept;
        }
        sort_unique(&found);
        for (int64_t n = 0; n < found.count; n++) {
            Operation *copy = machine->operations[found.data[n]];
            order_copy(machine, fragment, copy, copy->arrived & lanes);
        }
        Operation *o = new_operation(machine, fragment, OP_COPY, lanes, -1);
        int64_t at = open_record(machine, EV_COPY_ARRIVE, fragment, lanes);
        push(&machine->events, place.cta);
        push(&machine->events, place.offset);
        push(&machine->events, FLAG(s, 2));
        push_all(machine, &found);
        push(&machine->events, o->number);
        close_record(machine, at);
        record_faults(machine, fragment, lanes, place);
        o->arrives[0] = place;
        o->arrival_count = 1;
        o->arrive_count = count;
        o->after = zeroed((size_t)found.count, sizeof(int32_t));
        for (int64_t n = 0; n < found.count; n++) o->after[n] = (int32_t)found.data[n];
        o->after_count = (int32_t)found.count;
        free(found.data);
        issue(machine, o);
    }
}
