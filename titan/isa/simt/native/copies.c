/* Asynchronous copies (copies.py, tensor_maps.py). */
enum { WORD_BYTES = 4 }; /* of what cp.async copies; each is known or not */
enum { K_LOAD, K_STORE, K_REDUCE, K_PREFETCH };
enum { M_TILE, M_IM2COL, M_GATHER, M_SCATTER, M_IM2COL_W };
enum { P_GENERIC, P_ASYNC, P_TENSORMAP, P_CONSTANT, P_TENSOR };

typedef struct { int32_t footprint, mode, proxy; } Effect;
typedef struct { Effect list[80]; int count; uint64_t operands[8]; int operand_count; } Effects;
typedef struct { Place places[16]; int64_t bytes[16]; int count; } Completions;

static void add_effect(Effects *effects, int32_t footprint, int mode, int proxy)
{
    if (effects->count < 80) effects->list[effects->count++] = (Effect){footprint, mode, proxy};
}
static void record_asynchronous(Machine *machine, Fragment *fragment, uint32_t lanes,
                                const Operation *o, const Effects *effects,
                                const Completions *completes, int64_t map, int group, int clipped,
                                int accumulates, const titan_step *registers, int sources)
{
    int64_t at = open_record(machine, EV_ASYNCHRONOUS, fragment, lanes);
    word head[] = {o->number, o->kind, o->queue, map, group, clipped, accumulates, effects->count};
    for (int n = 0; n < 8; n++) push(&machine->events, head[n]);
    for (int n = 0; n < effects->count; n++) {
        push(&machine->events, effects->list[n].footprint);
        push(&machine->events, effects->list[n].mode);
        push(&machine->events, effects->list[n].proxy);
    }
    push(&machine->events, completes ? completes->count : 0);
    for (int n = 0; completes && n < completes->count; n++) {
        push(&machine->events, completes->places[n].cta);
        push(&machine->events, completes->places[n].offset);
        push(&machine->events, completes->bytes[n]);
    }
    int outs = registers ? registers->out_count : 0;
    int ins = sources ? registers->arg_count - sources : 0;
    push(&machine->events, outs);
    for (int n = 0; n < outs; n++) push(&machine->events, OUT(registers, n));
    push(&machine->events, ins);
    for (int n = 0; n < ins; n++) push(&machine->events, ARG(registers, n + sources));
    push(&machine->events, effects->operand_count);
    for (int n = 0; n < effects->operand_count; n++)
        push(&machine->events, (word)effects->operands[n]);
    close_record(machine, at);
}
/* A copy onto live mbarriers. */
static void check_barriers(Machine *machine, Fragment *fragment, uint32_t lanes, int32_t number)
{
    Footprint footprint = machine->footprints[number];
    if (footprint.space != SHARED) return;
    Cta *cta = machine->by_number[footprint.cta];
    if (!cta || !cta->barrier_count) return;
    Runs *runs = runs_of(machine, number);
    for (int64_t n = 0; n < runs->count; n++) {
        int64_t low = runs->data[n].low, high = runs->data[n].high, after = -1;
        if (!has_state(&cta->shared, low, high - low, LIVE_BARRIER)) continue;
        for (;;) { /* in the order of their offsets */
            int64_t next = -1;
            for (int32_t b = 0; b < cta->barrier_count; b++) {
                int64_t offset = cta->barriers[b].offset;
                if (offset >= low && offset < high && offset > after &&
                    (next < 0 || offset < next))
                    next = offset;
            }
            if (next < 0) break;
            misuse(machine, fragment, lanes, (Place){cta->number, next}, MISUSE_OVERWRITTEN);
            after = next;
        }
    }
}
static Operation *start(Machine *machine, Fragment *fragment, uint32_t lanes, int kind,
                        const Effects *effects, const Completions *completes, int queue,
                        int64_t map, int group, int clipped)
{
    Operation *o = new_operation(machine, fragment, kind, lanes, queue);
    record_asynchronous(machine, fragment, lanes, o, effects, completes, map, group, clipped, 0,
                        NULL, 0);
    for (int n = 0; n < effects->count; n++)
        if (effects->list[n].mode != READ) {
            check_barriers(machine, fragment, lanes, effects->list[n].footprint);
            if (o->write_count < 20) o->writes[o->write_count++] = effects->list[n].footprint;
        }
    for (int n = 0; completes && n < completes->count; n++) {
        o->completes[n] = completes->places[n];
        o->complete_bytes[n] = completes->bytes[n];
        o->complete_count++;
    }
    for (int n = 0; kind != OP_COPY && n < effects->count; n++)
        order_footprint(machine, fragment, lanes, effects->list[n].footprint,
                        effects->list[n].mode != READ);
    enqueue(fragment->warp, o);
    issue(machine, o);
    return o;
}
static int shared_range(Machine *machine, Fragment *fragment, uint32_t lanes, uint64_t address,
                        int64_t count, int64_t alignment, Spot *spot)
{
    spot->space = SHARED;
    spot->cta = shared_of(fragment->warp, address & 0xFFFFFFFFu, &spot->at);
    if (spot->at % alignment)
        memory_fault(machine, fragment, lanes, FAULT_MISALIGNED, *spot, alignment);
    if (outside(machine, spot->cta, SHARED, spot->at, count)) {
        memory_fault(machine, fragment, lanes, FAULT_OUTSIDE, *spot, count);
        return 0;
    }
    return 1;
}
static void whole_warp(Machine *machine, Fragment *fragment, uint32_t lanes)
{
    if (lanes & (lanes - 1)) assume(machine, fragment, lanes, POLICY_WHOLE_WARP_BULK);
}

/* ----------------------------------------------------------------------------- bulk copies */

/* The operands that are there: their registers, and for each its place among the arguments. */
static int given_of(const Machine *machine, const titan_step *s, int32_t *registers, int *names)
{
    int count = 0;
    for (int n = 0; n < s->arg_count && count < 20; n++)
        if (ARG(s, n) >= 0) {
            names[count] = n;
            registers[count++] = ARG(s, n);
        }
    return count;
}
static int32_t bulk_side(Machine *machine, Fragment *fragment, uint32_t lanes, int space,
                         uint64_t address, int64_t count)
{
    Spot spot = {GLOBAL, NULL, 0};
    if (space == GLOBAL) space = resolve(&address);
    if (space != SHARED) {
        spot.at = (int64_t)address;
        if (spot.at % 16) memory_fault(machine, fragment, lanes, FAULT_MISALIGNED, spot, 16);
        if (outside(machine, NULL, GLOBAL, spot.at, count))
            memory_fault(machine, fragment, lanes, FAULT_OUTSIDE, spot, count);
        return of_range(machine, GLOBAL, NO_CTA, spot.at, spot.at + count);
    }
    if (!shared_range(machine, fragment, lanes, address, count, 16, &spot)) return -1;
    return of_range(machine, SHARED, spot.cta->number, spot.at, spot.at + count);
}
static void bulk_copy(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t registers[20];
    int names[20], count = given_of(machine, s, registers, names);
    Group groups[32];
    int total = grouped(machine, fragment, registers, count, mask, "an operand of a bulk copy",
                        groups);
    Warp *warp = fragment->warp;
    for (int i = 0; i < total; i++) {
        uint32_t lanes = groups[i].lanes;
        uint64_t given[5] = {0};
        int many = 0, reduces = FLAG(s, 0) == K_REDUCE;
        for (int n = 0; n < count; n++) {
            given[names[n]] = groups[i].values[n];
            many |= names[n] == 4;
        }
        whole_warp(machine, fragment, lanes);
        int64_t bytes = (int64_t)given[2];
        if (bytes % 16)
            memory_fault(machine, fragment, lanes, FAULT_MISALIGNED,
                         (Spot){SHARED, warp->cta, bytes}, 16);
        Effects effects = {.count = 0};
        Completions completes = {.count = 0};
        Place place = {-1, 0};
        int32_t side = bulk_side(machine, fragment, lanes, (int)FLAG(s, 2),
                                 given[1] + (uint64_t)FLAG(s, 4), bytes);
        if (side >= 0) add_effect(&effects, side, READ, P_ASYNC);
        if (FLAG(s, 6))
            place = barrier_place(machine, fragment, SHARED, given[3] + (uint64_t)FLAG(s, 5));
        if (many) {
            int64_t offset = (int64_t)((given[0] + (uint64_t)FLAG(s, 3)) & OFFSET_MASK);
            Cluster *cluster = warp->cta->cluster;
            check_multicast(machine, fragment, lanes, given[4], offset, bytes);
            for (int r = 0; r < cluster->cta_count; r++) {
                if (!(given[4] >> r & 1)) continue;
                Cta *cta = &cluster->ctas[r];
                if (!outside(machine, cta, SHARED, offset, bytes))
                    add_effect(&effects,
                               of_range(machine, SHARED, cta->number, offset, offset + bytes),
                               reduces ? ATOMIC_MODE : WRITE, P_ASYNC);
                if (place.cta >= 0) {
                    completes.places[completes.count] = (Place){cta->number, place.offset};
                    completes.bytes[completes.count++] = bytes * __builtin_popcount(lanes);
                }
            }
        } else {
            side = bulk_side(machine, fragment, lanes, (int)FLAG(s, 1),
                             given[0] + (uint64_t)FLAG(s, 3), bytes);
            if (side >= 0) add_effect(&effects, side, reduces ? ATOMIC_MODE : WRITE, P_ASYNC);
            if (place.cta >= 0) {
                completes.places[0] = place;
                completes.bytes[0] = bytes * __builtin_popcount(lanes);
                completes.count = 1;
            }
        }
        Operation *o = start(machine, fragment, lanes, reduces ? OP_BULK_REDUCE : OP_BULK_COPY,
                             &effects, &completes, FLAG(s, 6) ? -1 : BULK, -1, 0, 0);
        (void)o;
#if NUMBERS
        bulk_numbers(machine, fragment, s, given, many, o);
#endif
    }
}

/* ---------------------------------------------------------------------------- tensor maps */

static const int element_bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
static int shared_bits(int type) { return type == 14 || type == 15 ? 8 : element_bits[type]; }
/* What a copy completes on its barrier: the packed bits. */
static int64_t counted_bytes(const titan_map *map, int64_t shared_bytes)
{
    return shared_bytes * element_bits[map->data_type] / shared_bits(map->data_type);
}
static int64_t ceiling(int64_t value, int64_t divisor)
{
    if (divisor < 1) divisor = 1;
    return value >= 0 ? (value + divisor - 1) / divisor : -(-value / divisor);
}
typedef struct { int64_t bytes; int32_t footprint; int clipped, empty; } Tensor;

static Tensor tile(Machine *machine, const titan_map *map, const int64_t *at)
{
    Tensor found = {0, -1, 0, 0};
    int64_t counts[5], total = shared_bits(map->data_type), start = map->base, length = 0;
    int bits = element_bits[map->data_type], steps = 0;
    int64_t step_count[5], step_distance[5];
    for (int d = 0; d < map->rank; d++) counts[d] = ceiling(map->box[d], map->element_strides[d]);
    if (!map->interleave) counts[0] = map->box[0];
    for (int d = 0; d < map->rank; d++) total *= counts[d];
    found.bytes = total / 8;
    for (int d = 0; d < map->rank; d++) {
        int64_t step = d ? map->element_strides[d] : 1, stride = d ? map->stride_bytes[d - 1] : 0;
        int64_t skipped = at[d] < 0 ? ceiling(-at[d], step) : 0;
        int64_t limit = ceiling(map->dimensions[d] - at[d], step);
        int64_t last = counts[d] < limit ? counts[d] : limit;
        if (last <= skipped) {
            found.clipped = found.empty = 1;
            found.footprint = intern(machine, GLOBAL, NO_CTA, machine->box_count);
            return found;
        }
        found.clipped |= last - skipped != counts[d];
        if (!d) {
            start += (at[0] + skipped) * bits / 8;
            length = ceiling((last - skipped) * bits, 8);
        } else {
            start = sum_of(start, at[d] + skipped * step, stride);
            if (last - skipped > 1) {
                step_count[steps] = last - skipped;
                step_distance[steps++] = stride * step;
            }
        }
    }
    int first = 0;
    while (first < steps && step_distance[first] == length) length *= step_count[first++];
    int64_t place = machine->box_count;
    Box *box = new_box(machine, start, length);
    box->steps = steps - first;
    for (int k = first; k < steps; k++) {
        box->count[k - first] = step_count[k];
        box->distance[k - first] = step_distance[k];
    }
    found.footprint = intern(machine, GLOBAL, NO_CTA, place);
    return found;
}
static Tensor rows_of(Machine *machine, const titan_map *map, const int64_t *at, int count)
{
    Tensor found = {0, -1, 0, 0};
    int bits = element_bits[map->data_type];
    int64_t place = machine->box_count;
    for (int n = 1; n < count; n++) {
        int64_t wide = map->box[0], low = at[0] > 0 ? at[0] : 0;
        int64_t high = at[0] + wide < map->dimensions[0] ? at[0] + wide : map->dimensions[0];
        found.bytes += wide * shared_bits(map->data_type) / 8;
        if (low >= high || at[n] < 0 || at[n] >= map->dimensions[1]) {
            found.clipped = 1;
            continue;
        }
        found.clipped |= high - low != wide;
        new_box(machine, map->base + at[n] * map->stride_bytes[0] + low * bits / 8,
                ceiling((high - low) * bits, 8));
    }
    found.empty = machine->box_count == place;
    found.footprint = intern(machine, GLOBAL, NO_CTA, place);
    return found;
}
static Tensor im2col(Machine *machine, const titan_map *map, const int64_t *at,
                     const int64_t *offsets, int offset_count)
{
    int bits = element_bits[map->data_type], rank = map->rank, spatial = rank - 2;
    Tensor found = {(int64_t)map->channels * map->pixels * shared_bits(map->data_type) / 8, -1, 0,
                    0};
    int64_t place[5], batch = at[rank - 1], boxes = machine->box_count;
    int64_t first = at[0] > 0 ? at[0] : 0, last = at[0] + map->channels;
    if (last > map->dimensions[0]) last = map->dimensions[0];
    found.clipped = last - first != map->channels;
    for (int i = 0; i < spatial; i++) place[i] = at[i + 1];
    for (int32_t pixel = 0; pixel < map->pixels; pixel++) {
        int inside = batch >= 0 && batch < map->dimensions[rank - 1] && first < last;
        int64_t start = map->base + first * bits / 8;
        if (inside) start += batch * map->stride_bytes[rank - 2];
        for (int i = 0; i < spatial; i++) {
            int64_t here = place[i] + (i < offset_count ? offsets[i] : 0);
            inside = inside && here >= 0 && here < map->dimensions[i + 1];
            if (inside) start += here * map->stride_bytes[i];
        }
        if (inside) new_box(machine, start, ceiling((last - first) * bits, 8));
        else found.clipped = 1;
        int i = 0;
        for (; i < spatial; i++) {
            place[i] += map->element_strides[i + 1];
            if (place[i] < map->dimensions[i + 1] + map->upper[i]) break;
            place[i] = map->lower[i];
        }
        if (i == spatial) batch++;
    }
    found.empty = machine->box_count == boxes;
    found.footprint = intern(machine, GLOBAL, NO_CTA, boxes);
    return found;
}
static const titan_map *map_at(Machine *machine, Fragment *fragment, uint64_t address)
{
    const titan_launch *l = machine->launch;
    uint64_t at = address;
    int space = resolve(&at), known = 1;
    uint8_t bytes[128];
    for (int i = 0; i < 128 && known; i++) {
        uint64_t value = 0;
        int64_t place = (int64_t)at + i;
        if (space == GLOBAL) known = read_global(machine, place, 1, &value);
        else if (space == PARAMETER)
            known = place < l->parameter_bytes && l->parameter_state[place] == KNOWN &&
                    (value = l->parameters[place], 1);
        else if (space == CONSTANT)
            known = place < l->constant_bytes && l->constant_state[place] == KNOWN &&
                    (value = l->constants[place], 1);
        else known = 0;
        bytes[i] = (uint8_t)value;
        if (!known && space == GLOBAL && says_nothing(bytes, i)) {
            memset(bytes + NAME_BYTES, 0, 128 - NAME_BYTES);
            known = 1;
            break;
        }
    }
    const titan_map *found = known ? map_of(machine, bytes) : NULL;
    if (found) return found;
    static const char *names[] = {"generic", "shared", "", "local", "constant", "parameter"};
    if (space == PARAMETER) machine->map_offset = (int64_t)at;
    if (space == GLOBAL)
        snprintf(machine->reason, sizeof machine->reason, "the tensor map at 0x%llx is not known",
                 (unsigned long long)address);
    else
        snprintf(machine->reason, sizeof machine->reason,
                 "the tensor map at %s offset %llu is not known", names[space],
                 (unsigned long long)at);
    end_run(machine, fragment, REFUSED);
}
static int in_global(uint64_t address) { return resolve(&address) == GLOBAL; }
/* What a copy through an edited map, or one of all addresses, touches outside of memory. */
static void check_box(Machine *machine, Fragment *fragment, uint32_t lanes, int32_t footprint)
{
    const Footprint *found = &machine->footprints[footprint];
    for (int64_t n = 0; n < found->boxes; n++) {
        const Box *box = &machine->boxes[found->first + n];
        int64_t count = box->length;
        for (int d = 0; d < box->steps; d++) count += (box->count[d] - 1) * box->distance[d];
        if (outside(machine, NULL, GLOBAL, box->start, count))
            memory_fault(machine, fragment, lanes, FAULT_OUTSIDE,
                         (Spot){GLOBAL, NULL, box->start}, count);
    }
}
static void tensor_copy_group(Machine *machine, Fragment *fragment, const titan_step *s,
                              uint32_t lanes, const uint64_t *given, int has_mask)
{
    int kind = (int)FLAG(s, 0), mode = (int)FLAG(s, 2), group = (int)FLAG(s, 3);
    int count = (int)FLAG(s, 7), space = (int)FLAG(s, 8);
    uint64_t address = given[1] + (uint64_t)FLAG(s, 5);
    if (space == PARAMETER || space == CONSTANT) address = to_generic(space, address);
    const titan_map *map = map_at(machine, fragment, address);
    int64_t at[8], offsets[8];
    int offset_count = s->arg_count - 4 - count;
    for (int n = 0; n < count && n < 8; n++) at[n] = (int32_t)(uint32_t)given[4 + n];
    for (int n = 0; n < offset_count && n < 8; n++) offsets[n] = (int64_t)given[4 + count + n];
    Tensor tensor;
    int wanted = mode == M_GATHER || mode == M_SCATTER ? 2 : count;
    if (wanted != map->rank) {
        snprintf(machine->reason, sizeof machine->reason, "%d coordinates for %d dimensions",
                 wanted, map->rank);
        end_run(machine, fragment, FAULT);
    }
    if (mode == M_GATHER || mode == M_SCATTER) {
        tensor = rows_of(machine, map, at, count);
    } else if (mode == M_IM2COL || mode == M_IM2COL_W) {
        if (!map->pixels)
            refuse(machine, fragment, "an im2col copy through a map that is not im2col");
        tensor = im2col(machine, map, at, offsets, offset_count);
    } else {
        tensor = tile(machine, map, at);
    }
    if (kind == K_PREFETCH) {
        RECORD(EV_PREFETCH, fragment, lanes, tensor.footprint);
        return;
    }
    if (!tensor.empty && (is_edited(machine, map) || wraps(map)))
        check_box(machine, fragment, lanes, tensor.footprint);
    uint64_t shared = given[0] + (uint64_t)FLAG(s, 4);
    Spot spot;
    int ok = shared_range(machine, fragment, lanes, shared, tensor.bytes, 128, &spot);
    int32_t bytes = ok ? of_range(machine, SHARED, spot.cta->number, spot.at,
                                  spot.at + tensor.bytes) : -1;
    Effects effects = {.count = 0};
    Completions completes = {.count = 0};
    if (in_global(address)) /* where the kernel may edit it */
        add_effect(&effects, of_range(machine, GLOBAL, NO_CTA, (int64_t)address,
                                      (int64_t)address + 128), READ, P_TENSORMAP);
    if (kind != K_LOAD) {
        if (mode == M_TILE) check_start(machine, fragment, lanes, at, count, map->base);
        if (ok) add_effect(&effects, bytes, READ, P_ASYNC);
        if (!tensor.empty)
            add_effect(&effects, tensor.footprint, kind == K_REDUCE ? ATOMIC_MODE : WRITE,
                       P_ASYNC);
        Operation *o = start(machine, fragment, lanes,
                             kind == K_REDUCE ? OP_TENSOR_REDUCE : OP_TENSOR_COPY, &effects, NULL,
                             BULK, (int64_t)address, group, tensor.clipped);
        (void)o;
#if NUMBERS
        tensor_numbers(machine, fragment, s, map, at, offsets, shared, 0, 0, o);
#endif
        return;
    }
    if (!tensor.empty) add_effect(&effects, tensor.footprint, READ, P_ASYNC);
    int64_t counted = counted_bytes(map, tensor.bytes) * __builtin_popcount(lanes);
    Place place = barrier_place(machine, fragment, SHARED, given[2] + (uint64_t)FLAG(s, 6));
    Cluster *cluster = fragment->warp->cta->cluster;
    if (has_mask) {
        int64_t offset = (int64_t)(shared & OFFSET_MASK);
        check_multicast(machine, fragment, lanes, given[3], offset, tensor.bytes);
        for (int r = 0; r < cluster->cta_count; r++) {
            if (!(given[3] >> r & 1)) continue;
            Cta *cta = &cluster->ctas[r], *owner = cta;
            if (!outside(machine, cta, SHARED, offset, tensor.bytes))
                add_effect(&effects, of_range(machine, SHARED, cta->number, offset,
                                              offset + tensor.bytes), WRITE, P_ASYNC);
            if (group == 2) {
                int peer = (r & ~1) | (machine->by_number[place.cta]->rank & 1);
                if (peer < cluster->cta_count) owner = &cluster->ctas[peer];
            }
            completes.places[completes.count] = (Place){owner->number, place.offset};
            completes.bytes[completes.count++] = counted;
        }
    } else {
        if (ok) add_effect(&effects, bytes, WRITE, P_ASYNC);
        completes.places[0] = place;
        completes.bytes[0] = counted;
        completes.count = 1;
    }
    Operation *o = start(machine, fragment, lanes, OP_TENSOR_COPY, &effects, &completes, -1,
                         (int64_t)address, group, tensor.clipped);
    (void)o;
#if NUMBERS
    tensor_numbers(machine, fragment, s, map, at, offsets, shared, has_mask, given[3], o);
#endif
}
static void tensor_copy(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t registers[20];
    int names[20], count = given_of(machine, s, registers, names);
    Group groups[32];
    int total = grouped(machine, fragment, registers, count, mask, "an operand of a tensor copy",
                        groups);
    for (int i = 0; i < total; i++) {
        uint64_t given[20] = {0};
        int has_mask = 0;
        whole_warp(machine, fragment, groups[i].lanes);
        for (int n = 0; n < count; n++) {
            given[names[n]] = groups[i].values[n];
            has_mask |= names[n] == 3;
        }
        tensor_copy_group(machine, fragment, s, groups[i].lanes, given, has_mask);
    }
}
