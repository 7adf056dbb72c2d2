/* Global memory as allocations that Python shares, and stamps of writes to shared memory. */

static titan_allocation *allocation_at(Machine *machine, int64_t at, int64_t count)
{
    Numbers *numbers = machine->numbers;
    const titan_numbers *given = numbers->shared->given;
    titan_allocation *last = numbers->last;
    if (last && at >= last->start && at + count <= last->start + last->bytes) return last;
    int32_t low = 0, high = given->allocation_count;
    while (low < high) { /* the first one that starts behind `at` */
        int32_t middle = (low + high) / 2;
        if (given->allocations[middle].start <= at) low = middle + 1;
        else high = middle;
    }
    if (!low) return NULL;
    titan_allocation *found = &given->allocations[low - 1];
    if (at + count > found->start + found->bytes) return NULL;
    numbers->last = found;
    return found;
}
static uint8_t *state_of(titan_allocation *allocation)
{
    return __atomic_load_n(&allocation->state, __ATOMIC_ACQUIRE);
}
/* The states of an allocation, all known if it had none. */
static uint8_t *make_state(Machine *machine, titan_allocation *allocation)
{
    Computation *shared = machine->numbers->shared;
    pthread_mutex_lock(&shared->lock);
    if (!allocation->state) {
        uint8_t *made = room(NULL, (size_t)allocation->bytes);
        memset(made, KNOWN, (size_t)allocation->bytes);
        allocation->made = 1;
        __atomic_store_n(&allocation->state, made, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&shared->lock);
    return allocation->state;
}
static int all_known(const uint8_t *state, int64_t count)
{
    static const uint8_t known[16] = {KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN,
                                      KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN, KNOWN};
    for (; count >= 16; count -= 16, state += 16)
        if (memcmp(state, known, 16)) return 0;
    return !count || !memcmp(state, known, (size_t)count);
}
/* 1 known, 0 not known, -1 in no allocation. */
static int read_allocation(Machine *machine, int64_t at, int64_t count, uint64_t *value)
{
    titan_allocation *found = allocation_at(machine, at, count);
    if (!found) return -1;
    const uint8_t *state = state_of(found), *data = found->data + (at - found->start);
    if (state && !all_known(state + (at - found->start), count)) return 0;
    for (int64_t i = 8; i < count; i++)
        if (data[i]) return 0;
    *value = 0;
    memcpy(value, data, count < 8 ? (size_t)count : 8);
    return 1;
}
static int write_allocation(Machine *machine, int64_t at, int64_t count, uint64_t value,
                            int opaque)
{
    titan_allocation *found = allocation_at(machine, at, count);
    if (!found) return 0;
    int64_t place = at - found->start;
    uint8_t *state = state_of(found);
    machine->progress = machine->count;
    if (opaque && !state) state = make_state(machine, found);
    if (state) memset(state + place, opaque ? OPAQUE_BYTE : KNOWN, (size_t)count);
    if (opaque) return 1;
    memset(found->data + place, 0, (size_t)count);
    memcpy(found->data + place, &value, count < 8 ? (size_t)count : 8);
    return 1;
}
static void forget_allocations(Machine *machine, int64_t low, int64_t high)
{
    const titan_numbers *given = machine->numbers->shared->given;
    for (int32_t n = 0; n < given->allocation_count; n++) {
        titan_allocation *a = &given->allocations[n];
        int64_t from = low > a->start ? low - a->start : 0;
        int64_t to = high < a->start + a->bytes ? high - a->start : a->bytes;
        if (from < to) memset(make_state(machine, a) + from, OPAQUE_BYTE, (size_t)(to - from));
    }
}
static void touch(Machine *machine, Cta *cta, int64_t at, int64_t count)
{
    uint32_t stamp = ++machine->numbers->stamp;
    for (int64_t n = at >> STAMP_BITS; n <= (at + count - 1) >> STAMP_BITS; n++)
        if (n >= 0 && n <= cta->shared.size >> STAMP_BITS) cta->numbers->stamps[n] = stamp;
}
static void start_cta_numbers(Machine *machine, Cta *cta)
{
    (void)machine;
    cta->numbers = zeroed(1, sizeof *cta->numbers);
    cta->numbers->stamps = zeroed((size_t)(cta->shared.size >> STAMP_BITS) + 1, sizeof(uint32_t));
}

/* --------------------------------------------------------------------------- moving bytes */

typedef struct { uint8_t *data, *state; int64_t count; } Bytes_; /* `state` NULL: all known */

/* The bytes at a place, as many as lie together; none where nothing is. */
static Bytes_ bytes_at(Machine *machine, int space, Cta *cta, int64_t at, int64_t count, int make)
{
    Bytes_ found = {NULL, NULL, 0};
    if (space == SHARED) {
        if (!cta || at < 0 || at >= cta->shared.size) return found;
        found.data = cta->shared.data + at;
        found.state = cta->shared.state + at;
        found.count = cta->shared.size - at;
    } else {
        titan_allocation *allocation = allocation_at(machine, at, 1);
        if (allocation) {
            found.data = allocation->data + (at - allocation->start);
            found.state = state_of(allocation);
            if (found.state) found.state += at - allocation->start;
            found.count = allocation->start + allocation->bytes - at;
        } else if (!machine->launch->bound_count) {
            Page *page = find_page(machine, at >> 12, make);
            if (!page) return found;
            found.data = page->bytes.data + (at & (PAGE - 1));
            found.state = page->bytes.state + (at & (PAGE - 1));
            found.count = PAGE - (at & (PAGE - 1));
        }
    }
    if (found.count > count) found.count = count;
    return found;
}
/* Bytes with what is known of them, out of memory; a byte that is nowhere is opaque. */
static void read_many(Machine *machine, int space, Cta *cta, int64_t at, int64_t count,
                      uint8_t *data, uint8_t *state)
{
    for (int64_t done = 0; done < count;) {
        Bytes_ from = bytes_at(machine, space, cta, at + done, count - done, 0);
        if (from.count < 1) {
            data[done] = 0;
            state[done++] = OPAQUE_BYTE;
            continue;
        }
        memcpy(data + done, from.data, (size_t)from.count);
        if (!from.state) memset(state + done, KNOWN, (size_t)from.count);
        for (int64_t n = 0; from.state && n < from.count; n++)
            state[done + n] = from.state[n] == KNOWN ? KNOWN : OPAQUE_BYTE;
        done += from.count;
    }
}
static void write_many(Machine *machine, int space, Cta *cta, int64_t at, int64_t count,
                       const uint8_t *data, const uint8_t *state)
{
    int known = all_known(state, count);
    if (space == SHARED) {
        if (!cta || at < 0 || at + count > cta->shared.size) return;
        touch(machine, cta, at, count);
    }
    for (int64_t done = 0; done < count;) {
        Bytes_ to = bytes_at(machine, space, cta, at + done, count - done, known);
        if (to.count < 1) {
            done++;
            continue;
        }
        if (!to.state && !known) {
            titan_allocation *allocation = allocation_at(machine, at + done, 1);
            to.state = make_state(machine, allocation) + (at + done - allocation->start);
        }
        memcpy(to.data, data + done, (size_t)to.count);
        if (to.state) memcpy(to.state, state + done, (size_t)to.count);
        done += to.count;
    }
}
