/* Bytes with what is known of them (memory.py), and where an address lies (accesses.py). */
static void make_bytes(Bytes *bytes, int64_t size)
{
    bytes->size = size;
    bytes->data = zeroed((size_t)size, 1);
    bytes->state = zeroed((size_t)size, 1);
}
static void fill(Bytes *bytes, int64_t at, int64_t count, int state)
{
    int64_t end = at + count;
    if (at < 0) at = 0;
    if (end > bytes->size) end = bytes->size;
    if (at < end) memset(bytes->state + at, state, (size_t)(end - at));
}
static int has_state(const Bytes *bytes, int64_t at, int64_t count, int state)
{
    if (at < 0) at = 0;
    if (at + count > bytes->size) count = bytes->size - at;
    return count > 0 && memchr(bytes->state + at, state, (size_t)count) != NULL;
}
/* 1 and the number, or 0: some byte is not known. */
static int read_bytes(const Bytes *bytes, int64_t at, int64_t count, uint64_t *value)
{
    uint64_t result = 0;
    for (int64_t i = 0; i < count; i++) {
        if (bytes->state[at + i] != KNOWN) return 0;
        if (i < 8) result |= (uint64_t)bytes->data[at + i] << 8 * i;
        else if (bytes->data[at + i]) return 0;
    }
    *value = result;
    return 1;
}
static void write_bytes(Bytes *bytes, int64_t at, int64_t count, uint64_t value, int opaque)
{
    memset(bytes->state + at, opaque ? OPAQUE_BYTE : KNOWN, (size_t)count);
    if (opaque) return;
    for (int64_t i = 0; i < count; i++)
        bytes->data[at + i] = i < 8 ? (uint8_t)(value >> 8 * i) : 0;
}

/* --------------------------------------------------------------------------- global memory */

enum { PAGE = 4096 };

static Page *find_page(Machine *machine, int64_t number, int make)
{
    if (make && 2 * (machine->page_count + 1) > machine->page_slots) {
        int64_t wide = machine->page_slots ? 2 * machine->page_slots : 64;
        Page *old = machine->pages, *made = zeroed((size_t)wide, sizeof(Page));
        for (int64_t n = 0; n < machine->page_slots; n++)
            if (old[n].bytes.data) {
                int64_t slot = (int64_t)(mix(1, (uint64_t)old[n].number) & (uint64_t)(wide - 1));
                while (made[slot].bytes.data) slot = (slot + 1) & (wide - 1);
                made[slot] = old[n];
            }
        free(old);
        machine->pages = made;
        machine->page_slots = wide;
    }
    if (!machine->page_slots) return NULL;
    int64_t slot = (int64_t)(mix(1, (uint64_t)number) & (uint64_t)(machine->page_slots - 1));
    for (; machine->pages[slot].bytes.data; slot = (slot + 1) & (machine->page_slots - 1))
        if (machine->pages[slot].number == number) return &machine->pages[slot];
    if (!make) return NULL;
    machine->pages[slot].number = number;
    make_bytes(&machine->pages[slot].bytes, PAGE);
    machine->page_count++;
    return &machine->pages[slot];
}
static int read_global(Machine *machine, int64_t at, int64_t count, uint64_t *value)
{
    uint64_t result = 0;
#if NUMBERS
    int found = read_allocation(machine, at, count, value);
    if (found >= 0) return found;
#endif
    for (int64_t i = 0; i < count;) {
        const Page *page = find_page(machine, (at + i) >> 12, 0);
        if (!page) return 0;
        int64_t place = (at + i) & (PAGE - 1);
        for (; i < count && place < PAGE; i++, place++) {
            if (page->bytes.state[place] != KNOWN) return 0;
            if (i < 8) result |= (uint64_t)page->bytes.data[place] << 8 * i;
            else if (page->bytes.data[place]) return 0;
        }
    }
    *value = result;
    return 1;
}
/* Whether some byte is known. */
static int global_has_known(Machine *machine, int64_t at, int64_t count)
{
#if NUMBERS
    uint64_t value;
    if (allocation_at(machine, at, count)) return read_global(machine, at, count, &value);
#endif
    while (count > 0) {
        int64_t place = at & (PAGE - 1), size = count < PAGE - place ? count : PAGE - place;
        const Page *page = find_page(machine, at >> 12, 0);
        if (page && has_state(&page->bytes, place, size, KNOWN)) return 1;
        at += size;
        count -= size;
    }
    return 0;
}
static void write_global(Machine *machine, int64_t at, int64_t count, uint64_t value, int opaque)
{
#if NUMBERS
    if (write_allocation(machine, at, count, value, opaque)) return;
#endif
    for (int64_t i = 0; i < count; i++) {
        Page *page = find_page(machine, (at + i) >> 12, !opaque);
        if (!page) continue;
        int64_t place = (at + i) & (PAGE - 1);
        write_bytes(&page->bytes, place, 1, i < 8 ? value >> 8 * i & 255 : 0, opaque);
    }
}
static void forget_global(Machine *machine, int64_t low, int64_t high)
{
#if NUMBERS
    forget_allocations(machine, low, high);
#endif
    for (int64_t n = 0; n < machine->page_slots; n++) {
        Page *page = &machine->pages[n];
        if (!page->bytes.data) continue;
        int64_t start = page->number << 12;
        if (start < high && low < start + PAGE) {
            int64_t from = low > start ? low - start : 0;
            int64_t to = high < start + PAGE ? high - start : PAGE;
            fill(&page->bytes, from, to - from, OPAQUE_BYTE);
        }
    }
}
/* The bytes hold something unknown from now on (recorder.havoc). */
static void havoc(Machine *machine, int32_t number, const uint64_t *answer)
{
    Footprint footprint = machine->footprints[number];
    if (footprint.space == SHARED) {
        Cta *cta = machine->by_number[footprint.cta];
        if (!cta) return;
        Runs *runs = runs_of(machine, number);
        for (int64_t n = 0; n < runs->count; n++) {
            int64_t low = runs->data[n].low, high = runs->data[n].high;
            fill(&cta->shared, low, high - low, OPAQUE_BYTE);
#if NUMBERS
            touch(machine, cta, low, high - low);
#endif
            if (answer) write_bytes(&cta->shared, low, high - low, *answer, 0);
        }
#if NUMBERS
    } else if (footprint.space == TENSOR) {
        Runs *runs = runs_of(machine, number);
        for (int64_t n = 0; n < runs->count; n++)
            forget_tensor(machine->by_number[footprint.cta], runs->data[n].low,
                          runs->data[n].high);
#endif
    } else if (footprint.space == GLOBAL && (machine->page_count || NUMBERS)) {
        Runs *runs = runs_of(machine, number);
        for (int64_t n = 0; n < runs->count; n++)
            forget_global(machine, runs->data[n].low, runs->data[n].high);
    }
}

/* -------------------------------------------------------------------------------- places */

typedef struct { int space; Cta *cta; int64_t at; } Spot;

/* As in layout.py. */
enum { WINDOW_START = 0x58000000, LOWEST_GLOBAL = 1 << 16, RESERVED_BYTES = 1024 };
static int64_t window_of(int space)
{
    switch (space) {
    case SHARED: return 0xFE;
    case LOCAL: return 0xFC;
    case PARAMETER: return 0xFA;
    case CONSTANT: return 0xF8;
    default: return 0;
    }
}
static uint64_t to_generic(int space, uint64_t address)
{
    int64_t window = window_of(space);
    return window ? ((uint64_t)window << 48) + WINDOW_START + address : address;
}
static int resolve(uint64_t *address)
{
    int space = GLOBAL;
    switch (*address >> 48) {
    case 0xFE: space = SHARED; break;
    case 0xFC: space = LOCAL; break;
    case 0xFA: space = PARAMETER; break;
    case 0xF8: space = CONSTANT; break;
    default: return GLOBAL;
    }
    *address = (*address - WINDOW_START) & 0xFFFFFFFFFFFFull;
    return space;
}
static Cta *shared_of(const Warp *warp, uint64_t address, int64_t *offset)
{
    Cluster *cluster = warp->cta->cluster;
    if (cluster->cta_count == 1) {
        *offset = (int64_t)address;
        return warp->cta;
    }
    uint64_t rank = address >> RANK_SHIFT;
    *offset = (int64_t)(address & OFFSET_MASK);
    return rank < (uint64_t)cluster->cta_count ? &cluster->ctas[rank] : NULL;
}
static Spot spot_of(const Warp *warp, int space, uint64_t address)
{
    Spot spot = {space, NULL, 0};
    if (space == GENERIC) spot.space = resolve(&address);
    if (spot.space == SHARED) spot.cta = shared_of(warp, address & 0xFFFFFFFFu, &spot.at);
    else if (spot.space != GLOBAL && address >> 32 == 1) spot.at = (int64_t)(address & 0xFFFFFFFFu);
    else spot.at = (int64_t)address; /* of other memory registers of 32 bits wrap */
    return spot;
}
/* As MemoryLayout.in_hole. */
static int in_hole(const Machine *machine, int space, int64_t at, int64_t count)
{
    const int64_t *hole = machine->launch->holes;
    for (int32_t n = 0; n < machine->launch->hole_count; n++, hole += 3)
        if (hole[0] == space && at < hole[2] && hole[1] < at + count) return 1;
    return 0;
}
static int outside(const Machine *machine, const Cta *cta, int space, int64_t at, int64_t count)
{
    int64_t size = 0;
    if (in_hole(machine, space, at, count)) return 1;
    switch (space) {
    case SHARED:
        return !cta || at < RESERVED_BYTES || at > cta->shared.size - count;
    case GLOBAL:
        if (!machine->launch->bound_count)
            return at < LOWEST_GLOBAL || at >= window_of(CONSTANT) << 48;
        for (int32_t n = 0; n < machine->launch->bound_count; n++)
            if (machine->launch->bounds[2 * n] <= at &&
                at + count <= machine->launch->bounds[2 * n + 1])
                return 0;
        return 1;
    case LOCAL: size = machine->code->local_bytes; break;
    case PARAMETER: size = machine->launch->parameter_bytes; break;
    case CONSTANT: size = machine->launch->constant_bytes; break;
    default: break;
    }
    return at < 0 || at > size - count;
}
static void memory_fault(Machine *machine, Fragment *fragment, uint32_t mask, int kind, Spot spot,
                         int64_t count)
{
    int32_t footprint = of_range(machine, spot.space, spot.cta ? spot.cta->number : NO_CTA,
                                 spot.at, spot.at + count);
    RECORD(EV_MEMORY_FAULT, fragment, mask, kind, footprint, count);
}

/* A multicast to a CTA that the cluster does not have (copies.py, multicast). */
static void check_multicast(Machine *machine, Fragment *fragment, uint32_t lanes, uint64_t mask,
                            int64_t offset, int64_t count)
{
    if (mask >> fragment->warp->cta->cluster->cta_count)
        memory_fault(machine, fragment, lanes, FAULT_NO_SUCH_CTA, (Spot){SHARED, NULL, offset},
                     count);
}
/* A box that is stored begins before its tensor (copies.py, _negative_start). */
static void check_start(Machine *machine, Fragment *fragment, uint32_t lanes, const int64_t *at,
                        int count, int64_t base)
{
    int64_t least = 0;
    for (int n = 0; n < count; n++) least = at[n] < least ? at[n] : least;
    if (least < 0)
        RECORD(EV_MEMORY_FAULT, fragment, lanes, FAULT_NEGATIVE_START,
               of_range(machine, GLOBAL, NO_CTA, base, base + 16), 0);
}
static Bytes *local_memory(const Machine *machine, Warp *warp, int lane)
{
    if (!warp->local) warp->local = zeroed(32, sizeof(Bytes));
    if (!warp->local[lane].data)
        make_bytes(&warp->local[lane],
                   machine->code->local_bytes ? machine->code->local_bytes : 1);
    return &warp->local[lane];
}
static int read_value(Machine *machine, Warp *warp, int lane, Spot spot, int64_t count,
                      uint64_t *value)
{
    switch (spot.space) {
    case SHARED: return read_bytes(&spot.cta->shared, spot.at, count, value);
    case GLOBAL: return read_global(machine, spot.at, count, value);
    case LOCAL: return read_bytes(local_memory(machine, warp, lane), spot.at, count, value);
    default: {
        const titan_launch *l = machine->launch;
        int parameter = spot.space == PARAMETER;
        Bytes bytes = {parameter ? l->parameter_bytes : l->constant_bytes,
                       (uint8_t *)(parameter ? l->parameters : l->constants),
                       (uint8_t *)(parameter ? l->parameter_state : l->constant_state)};
        return read_bytes(&bytes, spot.at, count, value);
    }
    }
}
static void overwrite(Machine *machine, Fragment *fragment, Cta *cta, int64_t at, int64_t count)
{
    for (int32_t n = 0; n < cta->barrier_count;) {
        int64_t offset = cta->barriers[n].offset;
        if (offset < at + count && at < offset + 8) {
            memmove(&cta->barriers[n], &cta->barriers[n + 1],
                    (size_t)(cta->barrier_count - n - 1) * sizeof(MBarrier));
            cta->barrier_count--;
            fill(&cta->shared, offset, 8, OPAQUE_BYTE);
            misuse(machine, fragment, fragment->mask, (Place){cta->number, offset},
                   MISUSE_OVERWRITTEN);
        } else {
            n++;
        }
    }
}
static void write_value(Machine *machine, Fragment *fragment, int lane, Spot spot, int64_t count,
                        uint64_t value, int opaque)
{
    opaque = opaque || machine->maybe;
    if (spot.space == SHARED) {
        if (spot.cta->barrier_count && has_state(&spot.cta->shared, spot.at, count, LIVE_BARRIER))
            overwrite(machine, fragment, spot.cta, spot.at, count);
#if NUMBERS
        touch(machine, spot.cta, spot.at, count);
#endif
        write_bytes(&spot.cta->shared, spot.at, count, value, opaque);
    } else if (spot.space == GLOBAL) {
        write_global(machine, spot.at, count, value, opaque);
    } else if (spot.space == LOCAL) {
        write_bytes(local_memory(machine, fragment->warp, lane), spot.at, count, value, opaque);
    }
}
