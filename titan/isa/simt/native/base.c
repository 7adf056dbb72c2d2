/* Memory of the machine itself, vectors, records, footprints. */
static void *room(void *old, size_t bytes)
{
    void *made = realloc(old, bytes ? bytes : 1);
    if (!made) abort();
    return made;
}
static void *zeroed(size_t count, size_t size)
{
    void *made = calloc(count ? count : 1, size);
    if (!made) abort();
    return made;
}
static void push(Words *words, word value)
{
    if (words->count == words->room) {
        words->room = words->room ? 2 * words->room : 16;
        words->data = room(words->data, (size_t)words->room * sizeof(word));
    }
    words->data[words->count++] = value;
}
static void push_run(Runs *runs, int64_t low, int64_t high)
{
    if (runs->count == runs->room) {
        runs->room = runs->room ? 2 * runs->room : 64;
        runs->data = room(runs->data, (size_t)runs->room * sizeof(Run));
    }
    runs->data[runs->count].low = low;
    runs->data[runs->count++].high = high;
}

/* ------------------------------------------------------------------------------- values */

static int lane_opaque(const Value *value, int lane)
{
    return (value->uniform ? value->opaque : value->opaque >> lane) & 1;
}
static uint64_t lane_value(const Value *value, int lane)
{
    return value->v[value->uniform ? 0 : lane];
}
static int first_lane(uint32_t mask) { return __builtin_ctz(mask); }

/* The value that all lanes of a mask have: 1, and `found`, `opaque`; 0 if they differ. */
static void store_number(uint8_t *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++) at[i] = (uint8_t)(value >> 8 * i);
}
static int uniform(const Value *value, uint32_t mask, uint64_t *found, int *opaque)
{
    int first = first_lane(mask);
    *found = lane_value(value, first);
    *opaque = lane_opaque(value, first);
    if (value->uniform) return 1;
    for (int lane = first + 1; lane < 32; lane++)
        if (mask >> lane & 1 &&
            (value->v[lane] != *found || (int)(value->opaque >> lane & 1) != *opaque))
            return 0;
    return 1;
}
static void constant(Value *value, uint64_t number)
{
    value->uniform = 1;
    value->opaque = 0;
    value->v[0] = number;
}
static void unknown(Value *value, int64_t site)
{
    value->uniform = 1;
    value->opaque = 1;
    value->v[0] = (uint64_t)site;
}

/* Write a register in the lanes of a mask. */
static void put(Warp *warp, int32_t reg, const Value *value, uint32_t mask, Marks marks)
{
    if (reg < 0 || !mask) return;
    Value *target = &warp->registers[reg];
    if ((mask & warp->live) == warp->live) {
        uint64_t same;
        int opaque;
        if (uniform(value, mask, &same, &opaque)) {
            target->uniform = 1;
            target->opaque = (uint32_t)opaque;
            target->v[0] = same;
        } else {
            *target = *value;
        }
        warp->marks[reg] = marks;
        return;
    }
    if (target->uniform) {
        for (int lane = 1; lane < 32; lane++) target->v[lane] = target->v[0];
        target->opaque = target->opaque & 1 ? ALL_LANES : 0;
        target->uniform = 0;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        target->v[lane] = lane_value(value, lane);
        target->opaque = (target->opaque & ~(1u << lane)) |
                         ((uint32_t)lane_opaque(value, lane) << lane);
    }
    warp->marks[reg] |= marks;
}
static void put_number(Warp *warp, int32_t reg, uint64_t number, uint32_t mask, Marks marks)
{
    Value value;
    constant(&value, number);
    put(warp, reg, &value, mask, marks);
}
static void put_unknown(Warp *warp, int32_t reg, int64_t site, uint32_t mask, Marks marks)
{
    Value value;
    unknown(&value, site);
    put(warp, reg, &value, mask, marks);
}

/* ----------------------------------------------------------------------- ending the run */

static _Noreturn void end_run(Machine *machine, const Fragment *fragment, int ending)
{
    machine->ending = ending;
    machine->site = fragment->pc;
    machine->end_cta = fragment->warp->cta->number;
    machine->end_warp = fragment->warp->index;
    longjmp(machine->stop, 1);
}
static _Noreturn void refuse(Machine *machine, const Fragment *fragment, const char *reason)
{
    snprintf(machine->reason, sizeof machine->reason, "%s", reason);
    end_run(machine, fragment, REFUSED);
}
static _Noreturn void refuse_unknown(Machine *machine, const Fragment *fragment, const char *what,
                                     int64_t site)
{
    machine->origin = site;
    snprintf(machine->reason, sizeof machine->reason,
             "%s is a value that is not known (made at instruction %lld)", what, (long long)site);
    end_run(machine, fragment, REFUSED);
}
static _Noreturn void fault_run(Machine *machine, const Fragment *fragment, const char *reason)
{
    snprintf(machine->reason, sizeof machine->reason, "%s", reason);
    end_run(machine, fragment, FAULT);
}

/* ------------------------------------------------------------------------------ records */

static void lanes_acquire(Fragment *fragment, uint32_t lanes);
static void lanes_release(Fragment *fragment, uint32_t lanes, int64_t semantics);

/* Begin a record; fields follow by push, then `close_record`. */
static int64_t open_record(Machine *machine, int kind, Fragment *fragment, uint32_t mask)
{
    if (kind != EV_ACCESS && kind != EV_POLL) machine->progress = machine->count;
    if (kind != EV_POLL) fragment->polled = 0;
    if (kind == EV_WAIT) lanes_acquire(fragment, mask);
    /* operations that signal for their lanes */
    if (kind == EV_COPY_ARRIVE || kind == EV_TENSOR_COMMIT) lanes_release(fragment, mask, RELEASE);
    if (NUMBERS) machine->events.count = 0;
    if (NUMBERS && kind == EV_MEMORY_FAULT) /* nobody will read the record */
        fault_run(machine, fragment, "it accesses memory that it must not");
    if (NUMBERS && kind == EV_BARRIER_MISUSE)
        fault_run(machine, fragment, "it misuses an mbarrier");
    int64_t at = machine->events.count;
    int same = machine->event_count && machine->recorded_count == machine->count
               && machine->recorded_warp == fragment->warp && machine->recorded_pc == fragment->pc;
    machine->recorded_count = machine->count;
    machine->recorded_warp = fragment->warp;
    machine->recorded_pc = fragment->pc;
    push(&machine->events, same ? kind | SAME_STEP : kind);
    push(&machine->events, 0);
    push(&machine->events, fragment->warp->cta->number);
    push(&machine->events, fragment->warp->index);
    push(&machine->events, mask);
    push(&machine->events, fragment->pc);
    return at;
}
static void close_record(Machine *machine, int64_t at)
{
    machine->events.data[at + 1] = machine->events.count - at;
    machine->event_count++;
}
#define RECORD(kind, fragment, mask, ...)                                                        \
    do {                                                                                         \
        int64_t at_ = open_record(machine, kind, fragment, mask);                                \
        const word fields_[] = {__VA_ARGS__};                                                    \
        for (size_t n_ = 0; n_ < sizeof fields_ / sizeof *fields_; n_++)                         \
            push(&machine->events, fields_[n_]);                                                 \
        close_record(machine, at_);                                                              \
    } while (0)

/* Those of some lanes that name these members. */
static uint32_t lanes_naming(const Value *masks, uint32_t lanes, uint32_t members)
{
    uint32_t found = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = first_lane(left);
        if ((uint32_t)lane_value(masks, lane) == members) found |= 1u << lane;
    }
    return found;
}
static void assume(Machine *machine, Fragment *fragment, uint32_t mask, int policy)
{
    uint16_t *seen = &machine->assumed[fragment->pc];
    if (*seen >> policy & 1) return;
    *seen |= (uint16_t)(1 << policy);
    RECORD(EV_ASSUMPTION, fragment, mask, policy);
}
static void misuse(Machine *machine, Fragment *fragment, uint32_t lanes, Place place, int what)
{
    RECORD(EV_BARRIER_MISUSE, fragment, lanes, place.cta, place.offset, what);
}

/* --------------------------------------------------------------------------- footprints */

static int compare_runs(const void *left, const void *right)
{
    const Run *a = left, *b = right;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return a->high < b->high ? -1 : a->high > b->high;
}
/* Sort and join runs that touch; empty ones are dropped. */
static void merge_runs(Runs *runs)
{
    int sorted = 1;
    for (int64_t n = 1; n < runs->count && sorted; n++)
        sorted = compare_runs(&runs->data[n - 1], &runs->data[n]) <= 0;
    if (!sorted) qsort(runs->data, (size_t)runs->count, sizeof(Run), compare_runs);
    int64_t kept = 0;
    for (int64_t n = 0; n < runs->count; n++) {
        Run run = runs->data[n];
        if (run.low >= run.high) continue;
        if (kept && run.low <= runs->data[kept - 1].high) {
            if (run.high > runs->data[kept - 1].high) runs->data[kept - 1].high = run.high;
        } else {
            runs->data[kept++] = run;
        }
    }
    runs->count = kept;
}
static Box *new_box(Machine *machine, int64_t start, int64_t length)
{
    if (machine->box_count == machine->box_room) {
        machine->box_room = machine->box_room ? 2 * machine->box_room : 256;
        machine->boxes = room(machine->boxes, (size_t)machine->box_room * sizeof(Box));
    }
    Box *box = &machine->boxes[machine->box_count++];
    memset(box, 0, sizeof *box);
    box->start = start;
    box->length = length;
    return box;
}
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
    return hash * 0xFF51AFD7ED558CCDull;
}
/* The footprint of the boxes from `first` on: an older equal one, or a new one. */
static int32_t intern(Machine *machine, int space, int32_t cta, int64_t first)
{
    int64_t boxes = machine->box_count - first;
    uint64_t hash = mix(mix((uint64_t)space, (uint64_t)cta), (uint64_t)boxes);
    for (int64_t n = first; n < machine->box_count; n++) {
        const Box *box = &machine->boxes[n];
        hash = mix(mix(mix(hash, (uint64_t)box->start), (uint64_t)box->length),
                   (uint64_t)box->steps);
        for (int k = 0; k < box->steps; k++)
            hash = mix(mix(hash, (uint64_t)box->count[k]), (uint64_t)box->distance[k]);
    }
    if (2 * (machine->footprint_count + 1) > machine->slot_count) {
        int64_t wide = machine->slot_count ? 2 * machine->slot_count : 1024;
        free(machine->slots);
        machine->slots = zeroed((size_t)wide, sizeof(int64_t));
        machine->slot_count = wide;
        for (int64_t n = 0; n < machine->footprint_count; n++) {
            int64_t slot = (int64_t)(machine->footprints[n].hash & (uint64_t)(wide - 1));
            while (machine->slots[slot]) slot = (slot + 1) & (wide - 1);
            machine->slots[slot] = n + 1;
        }
    }
    int64_t slot = (int64_t)(hash & (uint64_t)(machine->slot_count - 1));
    for (; machine->slots[slot]; slot = (slot + 1) & (machine->slot_count - 1)) {
        const Footprint *old = &machine->footprints[machine->slots[slot] - 1];
        if (old->hash == hash && old->space == space && old->cta == cta && old->boxes == boxes &&
            !memcmp(&machine->boxes[old->first], &machine->boxes[first],
                    (size_t)boxes * sizeof(Box))) {
            machine->box_count = first;
            return (int32_t)(machine->slots[slot] - 1);
        }
    }
    if (machine->footprint_count == machine->footprint_room) {
        machine->footprint_room = machine->footprint_room ? 2 * machine->footprint_room : 256;
        machine->footprints =
            room(machine->footprints, (size_t)machine->footprint_room * sizeof(Footprint));
    }
    Footprint made = {space, cta, first, boxes, hash};
    machine->footprints[machine->footprint_count] = made;
    machine->slots[slot] = ++machine->footprint_count;
    return (int32_t)(machine->footprint_count - 1);
}
/* The footprint of merged runs (footprints.of_ranges). */
static int32_t of_runs(Machine *machine, int space, int32_t cta, const Runs *runs)
{
    int64_t first = machine->box_count, index = 0;
    while (index < runs->count) {
        int64_t low = runs->data[index].low, length = runs->data[index].high - low;
        int64_t count = 1, distance = 0;
        while (index + count < runs->count) {
            const Run *next = &runs->data[index + count];
            int64_t step = next->low - runs->data[index + count - 1].low;
            if (next->high - next->low != length || (count > 1 && step != distance)) break;
            distance = step;
            count++;
        }
        if (count == 2) count = 1;
        Box *box = new_box(machine, low, length);
        if (count > 1) {
            box->steps = 1;
            box->count[0] = count;
            box->distance[0] = distance;
        }
        index += count;
    }
    return intern(machine, space, cta, first);
}
static int32_t of_range(Machine *machine, int space, int32_t cta, int64_t low, int64_t high)
{
    int64_t first = machine->box_count;
    if (low < high) new_box(machine, low, high - low);
    return intern(machine, space, cta, first);
}
/* All runs of a footprint, merged, into the machine's scratch. */
static Runs *runs_of(Machine *machine, int32_t number)
{
    Runs *runs = &machine->scratch;
    runs->count = 0;
    Footprint footprint = machine->footprints[number];
    for (int64_t n = footprint.first; n < footprint.first + footprint.boxes; n++) {
        Box box = machine->boxes[n];
        int64_t total = 1;
        for (int k = 0; k < box.steps; k++) total *= box.count[k];
        for (int64_t i = 0; i < total; i++) {
            int64_t at = box.start, left = i;
            for (int k = box.steps - 1; k >= 0; k--) {
                at += left % box.count[k] * box.distance[k];
                left /= box.count[k];
            }
            push_run(runs, at, at + box.length);
        }
    }
    merge_runs(runs);
    return runs;
}
static void bounds_of(Machine *machine, int32_t number, int64_t *lowest, int64_t *highest)
{
    Footprint footprint = machine->footprints[number];
    *lowest = *highest = 0;
    for (int64_t n = 0; n < footprint.boxes; n++) {
        const Box *box = &machine->boxes[footprint.first + n];
        int64_t low = box->start, high = box->start + box->length;
        for (int k = 0; k < box->steps; k++) {
            int64_t span = (box->count[k] - 1) * box->distance[k];
            low += span < 0 ? span : 0;
            high += span > 0 ? span : 0;
        }
        if (!n || low < *lowest) *lowest = low;
        if (!n || high > *highest) *highest = high;
    }
}
