/* wgmma and tcgen05 (descriptors.py, tensor_cores.py). */
typedef struct { int64_t start, leading, stride; int width; } Descriptor;

static int decode_descriptor(uint64_t value, int tensor, Descriptor *d)
{
    static const int wgmma_width[] = {16, 128, 64, 32};
    static const int tensor_width[] = {16, 128, 128, 0, 64, 0, 32, 0};
    d->start = (int64_t)(value & 0x3FFF) << 4;
    d->leading = (int64_t)(value >> 16 & 0x3FFF) << 4;
    d->stride = (int64_t)(value >> 32 & 0x3FFF) << 4;
    d->width = tensor ? tensor_width[value >> 61 & 7] : wgmma_width[value >> 62 & 3];
    return d->width != 0;
}
static void push_unit(Runs *runs, const Descriptor *d, int64_t address)
{
    int64_t mask = d->width / 16 - 1, at = address ^ ((address >> 7 & mask) << 4);
    push_run(runs, at, at + 16);
}
/* The footprint of an operand (descriptors.operand) in one CTA. */
static int32_t operand(Machine *machine, int32_t cta, const Descriptor *d, int extent, int k_bytes,
                       int mn_major, int element)
{
    Runs *runs = &machine->scratch;
    runs->count = 0;
    if (mn_major) {
        int chunks = (extent * element + 127) / 128, depth = k_bytes * 8 / element;
        int per = d->width / 16;
        for (int k = 0; k < depth; k++)
            for (int chunk = 0; chunk < chunks; chunk++) {
                int64_t at;
                if (d->width == 16)
                    at = d->start + chunk * d->stride + k % 8 * 16 + k / 8 * d->leading;
                else
                    at = d->start + chunk % per * 16 + chunk / per * d->leading +
                         k % 8 * d->width + k / 8 * d->stride;
                push_unit(runs, d, at);
            }
    } else {
        for (int row = 0; row < extent; row++)
            for (int unit = 0; unit < k_bytes / 16; unit++)
                push_unit(runs, d, d->start + row % 8 * d->width + row / 8 * d->stride +
                                       unit * (d->width == 16 ? d->leading : 16));
    }
    /* units joined within lines of 128 bytes, so that the pattern of the swizzle stays visible */
    qsort(runs->data, (size_t)runs->count, sizeof(Run), compare_runs);
    int64_t kept = 0;
    for (int64_t n = 0; n < runs->count; n++) {
        Run run = runs->data[n];
        if (kept && run.low < runs->data[kept - 1].high) continue; /* the same unit again */
        if (kept && run.low == runs->data[kept - 1].high && run.low % 128)
            runs->data[kept - 1].high = run.high;
        else
            runs->data[kept++] = run;
    }
    runs->count = kept;
    int64_t first = machine->box_count, count = runs->count;
    for (int64_t period = 1; period <= 8; period *= 2) {
        if (count % period || count / period < 3) continue;
        int64_t distance = runs->data[period].low - runs->data[0].low;
        int same = 1;
        for (int64_t i = period; i < count && same; i++)
            same = runs->data[i].low - runs->data[i - period].low == distance &&
                   runs->data[i].high - runs->data[i].low ==
                       runs->data[i - period].high - runs->data[i - period].low;
        if (!same) continue;
        for (int64_t i = 0; i < period; i++) {
            Box *box = new_box(machine, runs->data[i].low, runs->data[i].high - runs->data[i].low);
            box->steps = 1;
            box->count[0] = count / period;
            box->distance[0] = distance;
        }
        return intern(machine, SHARED, cta, first);
    }
    for (int64_t i = 0; i < count; i++)
        new_box(machine, runs->data[i].low, runs->data[i].high - runs->data[i].low);
    return intern(machine, SHARED, cta, first);
}
static int enters_hole(Machine *machine, int32_t footprint)
{
    if (!machine->launch->hole_count) return 0;
    const Runs *runs = runs_of(machine, footprint);
    for (int64_t n = 0; n < runs->count; n++)
        if (in_hole(machine, SHARED, runs->data[n].low, runs->data[n].high - runs->data[n].low))
            return 1;
    return 0;
}
static void shared_operand(Machine *machine, Fragment *fragment, uint32_t lanes, uint64_t value,
                           int extent, int k_bytes, int mn_major, int element, int tensor,
                           Cta **ctas, int cta_count, Effects *effects)
{
    Descriptor d;
    if (NUMBERS) return; /* what is read is checked when it is */
    if (!decode_descriptor(value, tensor, &d)) {
        int32_t none = of_range(machine, SHARED, fragment->warp->cta->number, 0, 0);
        RECORD(EV_MEMORY_FAULT, fragment, lanes, FAULT_DESCRIPTOR, none, 0);
        return;
    }
    for (int i = 0; i < cta_count; i++) {
        int64_t low, high;
        int32_t footprint = operand(machine, ctas[i]->number, &d, extent, k_bytes, mn_major,
                                    element);
        bounds_of(machine, footprint, &low, &high);
        if (low < 0 || high > ctas[i]->shared.size || enters_hole(machine, footprint))
            RECORD(EV_MEMORY_FAULT, fragment, lanes, FAULT_OUTSIDE, footprint, 0);
        add_effect(effects, footprint, READ, P_ASYNC);
    }
}
/* The registers of the operation must not be touched until it is waited for. */
static void own(Machine *machine, Fragment *fragment, const Operation *o, const titan_step *s,
                int sources, uint32_t mask) /* the first argument that is one, or 0 */
{
    Warp *warp = fragment->warp;
    for (int i = 0; i < s->out_count; i++) {
        int32_t reg = OUT(s, i);
        put_unknown(warp, reg, fragment->pc, mask, 0);
        if (reg < 0) continue;
        warp->owned_count += !warp->owned[reg];
        warp->owned[reg] = o->number + 1;
        warp->owned_kind[reg] = 1;
    }
    for (int i = sources; sources && i < s->arg_count; i++) {
        int32_t reg = ARG(s, i);
        if (reg < 0 || warp->owned[reg]) continue;
        warp->owned_count++;
        warp->owned[reg] = o->number + 1;
        warp->owned_kind[reg] = 2;
    }
}
static void wgmma(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    Effects effects = {.count = 0};
#if NUMBERS
    if (wgmma_numbers(machine, fragment, s, mask)) return;
#endif
    int k_bytes = (int)FLAG(s, 1), bits = (int)FLAG(s, 5), in_registers = (int)FLAG(s, 4);
    int sources = in_registers ? 2 : 3; /* A, or behind its descriptor the metadata */
    uint64_t b = known_value(machine, fragment, ARG(s, 1), mask, "a matrix descriptor"), scale;
    int opaque;
    if (!in_registers) {
        uint64_t a = known_value(machine, fragment, ARG(s, 2), mask, "a matrix descriptor");
        shared_operand(machine, fragment, mask, a, 64, k_bytes / (int)FLAG(s, 6),
                       FLAG(s, 2) != 0, bits, 0, &warp->cta, 1, &effects);
    }
    shared_operand(machine, fragment, mask, b, (int)FLAG(s, 0), k_bytes, FLAG(s, 3) != 0, bits, 0,
                   &warp->cta, 1, &effects);
    int same = uniform(&warp->registers[ARG(s, 0)], mask, &scale, &opaque);
    Operation *o = new_operation(machine, fragment, OP_WGMMA, mask, WGMMA_QUEUE);
    record_asynchronous(machine, fragment, mask, o, &effects, NULL, -1, 0, 0,
                        !(same && !opaque && scale == 0), s, sources);
    own(machine, fragment, o, s, sources, mask);
    enqueue(warp, o);
    issue(machine, o);
}

/* -------------------------------------------------------------------------- tensor memory */

static int free_columns(const Cta *cta, int count, int highest)
{
    int at = 0;
    if (highest) { /* below the allocations so far, which are at the end */
        while (at < 512 && !cta->columns[at]) at++;
        return at - count;
    }
    while (at + count <= 512) {
        int column = at;
        while (column < at + count && column < 512 && !cta->columns[column]) column++;
        if (column == at + count) return at;
        at = column + cta->columns[column];
    }
    return -1;
}
/* Whether the other CTA of the pair has come to its allocation of this number, or there is none. */
static int peer_allocated(const Cta *cta, int32_t number)
{
    int32_t peer = cta->rank ^ 1;
    return peer >= cta->cluster->cta_count || cta->cluster->ctas[peer].pair_allocations >= number;
}
static void allocate(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Cta *cta = fragment->warp->cta;
    uint64_t address = known_value(machine, fragment, ARG(s, 0), mask,
                                   "the address for an allocation");
    uint64_t columns = known_value(machine, fragment, ARG(s, 1), mask, "the number of columns");
    if (columns < 32 || columns > 512 || columns & (columns - 1)) {
        snprintf(machine->reason, sizeof machine->reason,
                 "%llu columns of tensor memory cannot be allocated", (unsigned long long)columns);
        end_run(machine, fragment, FAULT);
    }
    int column = free_columns(cta, (int)columns, machine->launch->highest_columns);
    if (column < 0) {
        fragment->blocked = WAIT_TENSOR;
        fragment->blocked_mask = mask;
        fragment->number = (int32_t)columns;
        return;
    }
    cta->columns[column] = (int32_t)columns;
    cta->in_pair = FLAG(s, 0) == 2;
    RECORD(EV_TENSOR_ALLOCATE, fragment, mask, column, (word)columns, FLAG(s, 0));
    Spot spot = spot_of(fragment->warp, (int)FLAG(s, 1), address + (uint64_t)FLAG(s, 2));
    Located located = {mask, spot};
    if (spot.space != SHARED) {
        memory_fault(machine, fragment, mask, FAULT_SPACE, spot, 4);
        fragment->pc++;
        return;
    }
    record_located(machine, fragment, &located, 1, 4, WRITE, 0, 0, 0, 0);
    write_value(machine, fragment, first_lane(mask), spot, 4, (uint64_t)column, 0);
    if (cta->in_pair && !peer_allocated(cta, ++cta->pair_allocations)) {
        fragment->blocked = WAIT_PEER;
        fragment->blocked_mask = mask;
        fragment->number = cta->pair_allocations;
    } else {
        fragment->pc++;
    }
}
static void deallocate(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Cta *cta = fragment->warp->cta;
    uint64_t address = known_value(machine, fragment, ARG(s, 0), mask,
                                   "the address of tensor memory");
    uint64_t columns = known_value(machine, fragment, ARG(s, 1), mask, "the number of columns");
    int64_t column = (int64_t)(address & 0xFFFF);
    int known = column < 512 && columns && cta->columns[column] == (int64_t)columns;
    RECORD(EV_TENSOR_DEALLOCATE, fragment, mask, column, (word)columns, FLAG(s, 0), known);
    if (known) cta->columns[column] = 0;
#if NUMBERS
    for (int64_t lane = 0; known && lane < TENSOR_LANES; lane++)
        forget_tensor(cta, 4 * (lane * COLUMNS + column),
                      4 * (lane * COLUMNS + column + (int64_t)columns));
#endif
}
static int allocated(const Cta *cta, int64_t column, int64_t columns)
{
    uint8_t held[512] = {0};
    if (column < 0 || columns > 512 || column + columns > 512) return 0;
    for (int at = 0; at < 512; at++)
        for (int n = 0; n < cta->columns[at] && at + n < 512; n++) held[at + n] = 1;
    for (int64_t n = 0; n < columns; n++)
        if (!held[column + n]) return 0;
    return 1;
}
/* A rectangle of tensor memory; a fault is recorded if it is not allocated. */
static int32_t tensor_range(Machine *machine, Fragment *fragment, uint32_t mask, const Cta *cta,
                            int64_t lane, int64_t lanes, int64_t column, int64_t columns)
{
    int64_t first = machine->box_count;
    Box *box = new_box(machine, lane * 2048 + column * 4, columns * 4);
    box->steps = 1;
    box->count[0] = lanes;
    box->distance[0] = 2048;
    int32_t footprint = intern(machine, TENSOR, cta->number, first);
    if (!allocated(cta, column, columns))
        RECORD(EV_MEMORY_FAULT, fragment, mask, FAULT_NOT_ALLOCATED, footprint, 0);
    else if (lane + lanes > 128)
        RECORD(EV_MEMORY_FAULT, fragment, mask, FAULT_OUTSIDE, footprint, 0);
    return footprint;
}
enum { QUARTER_LANES = 32 }; /* of tensor memory, which one warp of a warpgroup reaches */
/* The address with the lanes of the warp's own quarter (tensor_cores.py). */
static uint64_t own_lanes(Machine *machine, Fragment *fragment, uint32_t mask, uint64_t address)
{
    const Cta *cta = fragment->warp->cta;
    uint64_t quarter = (uint64_t)(fragment->warp->index % WARPGROUP_WARPS);
    if (cta->in_pair && cta->rank & 1 && address >> 23 == 1) {
        assume(machine, fragment, mask, POLICY_PAIR_LANES);
        address -= 128ull << 16;
    }
    if (address >> 16 < QUARTER_LANES && quarter) {
        assume(machine, fragment, mask, POLICY_QUARTER_LANES);
        address += quarter * QUARTER_LANES << 16;
    }
    return address;
}
static int reaches_lanes(const Warp *warp, int64_t lane, int64_t lanes)
{
    return lane / QUARTER_LANES == warp->index % WARPGROUP_WARPS
           && lane % QUARTER_LANES + lanes <= QUARTER_LANES;
}
static void tensor_access(Machine *machine, Fragment *fragment, const titan_step *s,
                          uint32_t mask)
{
    Warp *warp = fragment->warp;
    int64_t lanes = FLAG(s, 0), columns = FLAG(s, 1), half = FLAG(s, 2);
    uint64_t address = known_value(machine, fragment, ARG(s, 0), mask,
                                   "an address of tensor memory") + (uint64_t)FLAG(s, 3);
    address = own_lanes(machine, fragment, mask, address);
    int64_t lane = (int64_t)(address >> 16), column = (int64_t)(address & 0xFFFF);
#if NUMBERS
    if (lane < 128 && !reaches_lanes(warp, lane, lanes))
        fault_run(machine, fragment, "lanes of tensor memory that the warp does not reach");
    if (tensor_access_numbers(machine, fragment, s, mask, address)) return;
#endif
    int reads = s->op == TENSOR_LOAD, mode = reads ? READ : WRITE;
    Effects effects = {.count = 0};
    int32_t whole = tensor_range(machine, fragment, mask, warp->cta, lane, lanes, column, columns);
    if (lane < 128 && !reaches_lanes(warp, lane, lanes))
        RECORD(EV_MEMORY_FAULT, fragment, mask, FAULT_SPACE, whole, 0);
    add_effect(&effects, whole, mode, P_TENSOR);
    if (half >= 0)
        add_effect(&effects, tensor_range(machine, fragment, mask, warp->cta, lane, lanes,
                                          column + half, columns), mode, P_TENSOR);
    Operation *o = new_operation(machine, fragment, reads ? OP_TENSOR_LOAD : OP_TENSOR_STORE, mask,
                                 reads ? TENSOR_LOAD_QUEUE : TENSOR_STORE_QUEUE);
    record_asynchronous(machine, fragment, mask, o, &effects, NULL, -1, 0, 0, 0, s, 0);
    own(machine, fragment, o, s, 0, mask);
    enqueue(warp, o);
    issue(machine, o);
}

/* --------------------------------------------------------------------- tensor-core work */

static int pair_of(Fragment *fragment, int64_t group, Cta **ctas)
{
    Cta *cta = fragment->warp->cta;
    Cluster *cluster = cta->cluster;
    int count = 0;
    if (group == 1) {
        ctas[0] = cta;
        return 1;
    }
    ctas[count++] = &cluster->ctas[cta->rank & ~1];
    if ((cta->rank | 1) < cluster->cta_count) ctas[count++] = &cluster->ctas[cta->rank | 1];
    return count;
}
static Operation *launch_work(Machine *machine, Fragment *fragment, uint32_t mask, int kind,
                        const Effects *effects, int64_t group)
{
    Groups *groups = queue_of(fragment->warp, TENSOR_CORE, first_lane(mask));
    int64_t before = groups->open.count ? groups->open.data[groups->open.count - 1] : -1;
    Operation *o = start(machine, fragment, mask, kind, effects, NULL, TENSOR_CORE, -1, (int)group,
                         0);
    if (before >= 0) {
        o->after = zeroed(1, sizeof(int32_t));
        o->after[0] = (int32_t)before;
        o->after_count = 1;
    }
    return o;
}
static void multiply(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int64_t group = FLAG(s, 0), kind = FLAG(s, 1), in_tensor = FLAG(s, 2), ws = FLAG(s, 3);
    int32_t registers[8];
    Cta *ctas[2];
    int cta_count = pair_of(fragment, group, ctas), count = s->arg_count < 8 ? s->arg_count : 8;
    Group groups[32];
    for (int n = 0; n < count; n++) registers[n] = ARG(s, n);
    int total = grouped(machine, fragment, registers, count, mask, "an operand of tcgen05.mma",
                        groups);
    for (int i = 0; i < total; i++) {
        whole_warp(machine, fragment, groups[i].lanes);
        uint32_t lanes = groups[i].lanes;
        const uint64_t *v = groups[i].values;
        int element = kind == 0 ? 16 : kind == 1 ? 32 : 8;
        int rows = (int)(v[3] >> 24 & 31) << 4, columns = (int)(v[3] >> 17 & 63) << 3;
        if (!rows || !columns) {
            int32_t none = of_range(machine, TENSOR, fragment->warp->cta->number, 0, 0);
            RECORD(EV_MEMORY_FAULT, fragment, lanes, FAULT_DESCRIPTOR, none, 0);
            continue;
        }
        int sparse = FLAG(s, 5) != 0, mode = v[4] ? ATOMIC_MODE : WRITE;
        Effects effects = {.count = 0, .operand_count = count};
        memcpy(effects.operands, v, (size_t)count * sizeof *v);
        uint64_t d = v[0] + (uint64_t)FLAG(s, 6), a = v[1] + (uint64_t)FLAG(s, 7);
        for (int c = 0; c < cta_count; c++) {
            int64_t lane = (int64_t)(d >> 16), column = (int64_t)(d & 0xFFFF);
            int each = rows / (int)group, parts = 1;
            int64_t at = lane, height = 128, width = columns;
            if (ws) {
                at = 0;
                width = columns * each / 128;
            } else if (each != 128) {
                if (group == 2) {
                    width = columns / 2;
                } else {
                    parts = 4;
                    height = 16;
                }
            }
            for (int p = 0; p < parts; p++)
                add_effect(&effects, tensor_range(machine, fragment, lanes, ctas[c], at + 32 * p,
                                                  height, column, width), mode, P_TENSOR);
            parts = in_tensor && !ws && rows == 64 ? 4 : in_tensor ? 1 : 0; /* as D has its rows */
            height = !ws && rows == 64 ? 16 : rows < 128 ? rows : 128;
            for (int p = 0; p < parts; p++)
                add_effect(&effects, tensor_range(machine, fragment, lanes, ctas[c],
                                                  (int64_t)(a >> 16) + 32 * p, height,
                                                  (int64_t)(a & 0xFFFF), 8), READ, P_TENSOR);
            uint64_t kept = sparse ? v[count - 1] + (uint64_t)FLAG(s, 11) : 0;
            parts = !sparse ? 0 : !ws && rows == 64 ? 4 : 1;
            for (int p = 0; p < parts; p++)
                add_effect(&effects, tensor_range(machine, fragment, lanes, ctas[c],
                                                  (int64_t)(kept >> 16) + 32 * p, height,
                                                  (int64_t)(kept & 0xFFFF), kind < 2 ? 1 : 2), READ,
                           P_TENSOR);
        }
        if (!in_tensor)
            shared_operand(machine, fragment, lanes, v[1], rows / (int)group, 32,
                           v[3] >> 15 & 1, element, 1, ctas, cta_count, &effects);
        shared_operand(machine, fragment, lanes, v[2], columns / (int)group, 32 << sparse,
                       v[3] >> 16 & 1, element, 1, ctas, cta_count, &effects);
        for (int p = 0; FLAG(s, 4) && p < 2; p++) {
            uint64_t address = v[5 + p] + (uint64_t)FLAG(s, 8 + p);
            int64_t wide = ((p ? columns : rows / (int)group) + 31) / 32;
            for (int c = 0; c < cta_count; c++)
                add_effect(&effects, tensor_range(machine, fragment, lanes, ctas[c], 0, 128,
                                                  (int64_t)(address & 0xFFFF),
                                                  wide > 1 ? wide : 1), READ, P_TENSOR);
        }
        Operation *o = launch_work(machine, fragment, lanes, OP_TENSOR_MULTIPLY, &effects, group);
        (void)o;
#if NUMBERS
        multiply_numbers(machine, fragment, s, v, o);
#endif
    }
}
static void memory_copy(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t registers[2] = {ARG(s, 0), ARG(s, 1)};
    int64_t group = FLAG(s, 0), width = FLAG(s, 3), written = FLAG(s, 4);
    Cta *ctas[2];
    int cta_count = pair_of(fragment, group, ctas);
    Group groups[32];
    int total = grouped(machine, fragment, registers, 2, mask, "an operand", groups);
    for (int i = 0; i < total; i++) {
        whole_warp(machine, fragment, groups[i].lanes);
        uint64_t address = groups[i].values[0] + (uint64_t)FLAG(s, 1);
        Descriptor d;
        int ok = decode_descriptor(groups[i].values[1], 1, &d);
        Effects effects = {.count = 0};
        for (int c = 0; c < cta_count; c++) {
            if (ok)
                add_effect(&effects, operand(machine, ctas[c]->number, &d, (int)FLAG(s, 2),
                                             (int)width, 0, 8), READ, P_ASYNC);
            int64_t lane = written == 128 ? 0 : (int64_t)(address >> 16);
            add_effect(&effects, tensor_range(machine, fragment, groups[i].lanes, ctas[c], lane,
                                              written, (int64_t)(address & 0xFFFF), width / 4),
                       WRITE, P_TENSOR);
        }
        Operation *o = launch_work(machine, fragment, groups[i].lanes, OP_TENSOR_MEMORY_COPY,
                                   &effects, group);
        (void)o;
#if NUMBERS
        memory_copy_numbers(machine, fragment, s, address, groups[i].values[1], o);
#endif
    }
}
static void shift(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t reg = ARG(s, 0);
    Cta *ctas[2];
    int cta_count = pair_of(fragment, FLAG(s, 0), ctas);
    Group groups[32];
    int total = grouped(machine, fragment, &reg, 1, mask, "an address", groups);
    for (int i = 0; i < total; i++) {
        whole_warp(machine, fragment, groups[i].lanes);
        Effects effects = {.count = 0};
        uint64_t address = groups[i].values[0] + (uint64_t)FLAG(s, 1);
        for (int c = 0; c < cta_count; c++)
            add_effect(&effects, tensor_range(machine, fragment, groups[i].lanes, ctas[c], 0, 128,
                                              (int64_t)(address & 0xFFFF), 8), ATOMIC_MODE,
                       P_TENSOR);
        launch_work(machine, fragment, groups[i].lanes, OP_TENSOR_SHIFT, &effects, FLAG(s, 0));
    }
}
static void tensor_commit(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int32_t registers[2] = {ARG(s, 0), ARG(s, 1)};
    int count = registers[1] >= 0 ? 2 : 1;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        uint32_t lanes = 1u << lane;
        Group group[1];
        grouped(machine, fragment, registers, count, lanes, "an operand of a commit", group);
        Place place = barrier_place(machine, fragment, (int)FLAG(s, 1),
                                    group->values[0] + (uint64_t)FLAG(s, 2));
        Place places[16] = {place};
        int total = 1;
        if (count > 1) {
            const Cluster *cluster = warp->cta->cluster;
            total = 0;
            check_multicast(machine, fragment, lanes, group->values[1], place.offset, 8);
            for (int r = 0; r < cluster->cta_count; r++)
                if (group->values[1] >> r & 1)
                    places[total++] = (Place){cluster->ctas[r].number, place.offset};
        }
        Groups *groups = queue_of(warp, TENSOR_CORE, lane);
        for (int64_t n = 0; n < groups->open.count; n++) {
            Operation *earlier = machine->operations[groups->open.data[n]];
            earlier->seen |= earlier->lanes;
        }
        Operation *o = new_operation(machine, fragment, OP_TENSOR_MULTIPLY, lanes, -1);
        int64_t at = open_record(machine, EV_TENSOR_COMMIT, fragment, lanes);
        push(&machine->events, total);
        for (int n = 0; n < total; n++) {
            push(&machine->events, places[n].cta);
            push(&machine->events, places[n].offset);
            o->arrives[n] = places[n];
        }
        o->arrival_count = total;
        push(&machine->events, FLAG(s, 0));
        push_all(machine, &groups->open);
        push(&machine->events, o->number);
        close_record(machine, at);
        o->after = zeroed((size_t)groups->open.count + 1, sizeof(int32_t));
        if (groups->last >= 0) o->after[o->after_count++] = (int32_t)groups->last;
        for (int64_t n = 0; n < groups->open.count; n++)
            o->after[o->after_count++] = (int32_t)groups->open.data[n];
        groups->last = o->number;
        groups->open.count = 0;
        issue(machine, o);
    }
}
