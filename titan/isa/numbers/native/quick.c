/* The fast path: arithmetic, loads, stores and branches of known values, by the loops of kernels.c.
   What is unusual (something unknown, outside, misaligned) is left to the machine's own path. */

/* The lanes of a mask where a predicate holds; `known` 0 where some lane does not know it. */
static uint32_t truths(const Value *value, uint32_t mask, int negated, int *known)
{
    uint32_t found = 0;
    *known = !value->opaque;
    if (value->uniform) return (int)(value->v[0] & 1) != negated ? mask : 0;
    for (int lane = 0; lane < 32; lane++) found |= (uint32_t)(value->v[lane] & 1) << lane;
    return (negated ? ~found : found) & mask;
}
static const uint64_t *lanes_of(const Value *value, uint64_t *spread)
{
    if (!value->uniform) return value->v;
    for (int lane = 0; lane < 32; lane++) spread[lane] = value->v[0];
    return spread;
}
/* Write 32 lanes into a register under a mask. */
static void put_lanes(Warp *warp, int32_t reg, const uint64_t *lanes, uint32_t mask)
{
    if (reg < 0) return;
    Value *target = &warp->registers[reg];
    if ((mask & warp->live) == warp->live) {
        memcpy(target->v, lanes, sizeof target->v);
        target->uniform = 0;
        target->opaque = 0;
        return;
    }
    if (target->uniform) {
        for (int lane = 1; lane < 32; lane++) target->v[lane] = target->v[0];
        target->opaque = target->opaque & 1 ? ALL_LANES : 0;
        target->uniform = 0;
    }
    for (int lane = 0; lane < 32; lane++)
        target->v[lane] = mask >> lane & 1 ? lanes[lane] : target->v[lane];
    target->opaque &= ~mask;
}
static void quick_compute(Machine *machine, Fragment *fragment, const Quick *q, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *in[3];
    uint32_t opaque = 0;
    int all = 1;
    for (int i = 0; i < q->arg_count; i++) {
        in[i] = &warp->registers[q->args[i]];
        opaque |= in[i]->opaque;
        all &= in[i]->uniform;
    }
    if (opaque || all || q->other >= 0) {
        compute(machine, fragment, q->step, mask);
        return;
    }
    uint64_t spread[3][32], made[32];
    const uint64_t *v[3] = {NULL, NULL, NULL};
    for (int i = 0; i < q->arg_count; i++) v[i] = lanes_of(in[i], spread[i]);
    if ((mask & warp->live) == warp->live && q->out >= 0) {
        Value *target = &warp->registers[q->out];
        target->uniform = 0;
        target->opaque = 0;
        q->kernel(target->v, v[0], v[1], v[2], q->flags);
        return;
    }
    q->kernel(made, v[0], v[1], v[2], q->flags);
    put_lanes(warp, q->out, made, mask);
}
/* mov of a register into parts. */
static void quick_unpack(Machine *machine, Fragment *fragment, const Quick *q, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[q->args[0]];
    if (value->opaque || value->uniform) {
        compute(machine, fragment, q->step, mask);
        return;
    }
    uint64_t made[32];
    int64_t flags[2] = {q->flags[0], 0};
    Value given = *value; /* a part may go where the whole is */
    for (int i = 0; i < q->step->out_count; i++, flags[1] += flags[0]) {
        machine_level->part(made, given.v, NULL, NULL, flags);
        put_lanes(warp, OUT(q->step, i), made, mask);
    }
}

/* ------------------------------------------------------------------------------ memory */

typedef struct { uint8_t *data, *state; Cta *cta; int64_t at; } Cell;

/* Where each lane accesses `count` bytes. 0: the machine's own path has to look. */
static int cells_of(Machine *machine, Fragment *fragment, const Quick *q, uint32_t mask,
                    int64_t count, Cell *cells)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[q->args[0]];
    int space = (int)q->flags[0];
    uint64_t offset = (uint64_t)q->flags[1];
    if (value->opaque) return 0;
    for (uint32_t left = value->uniform ? 1u << first_lane(mask) : mask; left; left &= left - 1) {
        int lane = first_lane(left);
        Spot spot = spot_of(warp, space, lane_value(value, lane) + offset);
        Cell *cell = &cells[lane];
        if (spot.at & (count - 1)) return 0;
        if (spot.space == SHARED) {
            if (!spot.cta || spot.at < 0 || spot.at + count > spot.cta->shared.size) return 0;
            cell->data = spot.cta->shared.data + spot.at;
            cell->state = spot.cta->shared.state + spot.at;
        } else if (spot.space == GLOBAL) {
            titan_allocation *found = allocation_at(machine, spot.at, count);
            if (!found) return 0;
            cell->data = found->data + (spot.at - found->start);
            cell->state = state_of(found);
            if (cell->state) cell->state += spot.at - found->start;
        } else {
            return 0;
        }
        cell->cta = spot.cta;
        cell->at = spot.at;
    }
    return 1;
}
static int size_known(const uint8_t *state, int64_t count)
{
    uint64_t bytes = 0, all = 0x0101010101010101ull * KNOWN;
    if (count > 8) return all_known(state, count);
    memcpy(&bytes, state, (size_t)count);
    return bytes == (all & mask_of((int)count * 8));
}
static uint64_t loaded(const uint8_t *data, int64_t size)
{
    uint64_t found = 0;
    switch (size) {
    case 1: return *data;
    case 2: memcpy(&found, data, 2); return found;
    case 4: memcpy(&found, data, 4); return found;
    default: memcpy(&found, data, 8); return found;
    }
}
static void quick_load(Machine *machine, Fragment *fragment, const Quick *q, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const titan_step *s = q->step;
    int bits = (int)q->flags[4], wide = (int)q->flags[6];
    int64_t size = bits / 8, count = size * s->out_count;
    int extends = q->flags[5] == KIND_SIGNED && wide > bits;
    int same = warp->registers[q->args[0]].uniform;
    Cell cells[32];
    if (!cells_of(machine, fragment, q, mask, count, cells)) goto slow;
    for (uint32_t left = same ? 1u << first_lane(mask) : mask; left; left &= left - 1) {
        const Cell *cell = &cells[first_lane(left)];
        if (cell->state && !size_known(cell->state, count)) goto slow;
    }
    if (same) {
        const uint8_t *data = cells[first_lane(mask)].data;
        for (int i = 0; i < s->out_count; i++) {
            uint64_t value = loaded(data + i * size, size);
            if (extends) value = (uint64_t)sign(value, bits) & mask_of(wide);
            put_number(warp, OUT(s, i), value, mask, 0);
        }
        return;
    }
    for (int i = 0; i < s->out_count; i++) {
        uint64_t made[32] = {0};
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = first_lane(left);
            made[lane] = loaded(cells[lane].data + i * size, size);
            if (extends) made[lane] = (uint64_t)sign(made[lane], bits) & mask_of(wide);
        }
        put_lanes(warp, OUT(s, i), made, mask);
    }
    return;
slow:
    load(machine, fragment, s, mask);
}
static void quick_store(Machine *machine, Fragment *fragment, const Quick *q, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const titan_step *s = q->step;
    int values = s->arg_count - 1;
    int64_t size = q->flags[4] / 8, count = size * values;
    uint64_t seen[16] = {0};
    Cell cells[32];
    if (warp->registers[q->args[0]].uniform && mask & (mask - 1)) goto slow;
    for (int i = 1; i <= values; i++)
        if (warp->registers[ARG(s, i)].opaque) goto slow;
    if (!cells_of(machine, fragment, q, mask, count, cells)) goto slow;
    for (uint32_t left = mask; left; left &= left - 1) {
        const Cell *cell = &cells[first_lane(left)];
        uint64_t slot = (uint64_t)(cell->at / count) & 1023; /* the same place twice? */
        if (seen[slot >> 6] >> (slot & 63) & 1) goto slow;
        seen[slot >> 6] |= 1ull << (slot & 63);
        if (cell->cta && cell->cta->barrier_count &&
            memchr(cell->state, LIVE_BARRIER, (size_t)count))
            goto slow;
    }
    machine->progress = machine->count;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        const Cell *cell = &cells[lane];
        for (int i = 0; i < values; i++) {
            uint64_t value = lane_value(&warp->registers[ARG(s, i + 1)], lane);
            memcpy(cell->data + i * size, &value, (size_t)size);
        }
        if (cell->state) memset(cell->state, KNOWN, (size_t)count);
        if (cell->cta)
            cell->cta->numbers->stamps[cell->at >> STAMP_BITS] = ++machine->numbers->stamp;
    }
    return;
slow:
    store(machine, fragment, s, mask);
}

/* ------------------------------------------------------------------------------ choosing */

static int signless(const titan_step *s)
{
    switch (s->op) {
    case MUL_HIGH: case MAD_HIGH: case MUL_WIDE: case MAD_WIDE: case DIV: case REM: case MIN:
    case MAX: case SHR: case BFE: case SETP: case CVT: case SAD: return 0;
    default: return 1;
    }
}
static Kernel kernel_of(const titan_step *s, const int64_t *flags)
{
    int kind = s->kind;
    if (s->op == MOV || s->op == SELP || (signless(s) && kind != KIND_FLOAT)) kind = KIND_UNSIGNED;
    if (kind == KIND_BITS || kind == KIND_PREDICATE) kind = KIND_UNSIGNED;
    if ((s->op == MIN || s->op == MAX) && kind != KIND_FLOAT && s->flag_count) return NULL;
    if ((s->op == MUL_LOW || s->op == MAD_LOW) && kind != KIND_FLOAT && s->flag_count) return NULL;
    if (s->op == SETP && (s->arg_count != 2 || flags[1] || flags[4])) return NULL;
    for (const KernelRow *row = machine_level->rows; row->run; row++)
        if (row->op == s->op && row->kind == kind && row->bits == s->bits &&
            (!row->matters || row->flag == (s->flag_count ? flags[0] : 0)))
            return row->run;
    return NULL;
}
static Kernel kernel_of_form(const titan_form *m, int64_t *flags)
{
    const Level *level = machine_level;
    int plain = m->mode == TO_NEAREST && !m->saturate && !m->relu && !m->word && !m->packed;
    flags[0] = m->flush;
    if (!plain) return NULL;
    switch (m->function) {
    case FORM_EX2: return m->format == F32 ? level->exponential : NULL;
    case FORM_DIV: return m->format == F32 ? level->divide : NULL;
    case FORM_RCP: return m->format == F32 ? level->reciprocal : NULL;
    case FORM_PACK:
        if (m->flush) return NULL;
        return m->format == BF16 ? level->pack_bf16 : m->format == F16 ? level->pack_f16 : NULL;
    case FORM_CONVERT:
        if (m->format != F32 || m->flush) return NULL;
        return m->source == F16 ? level->widen_f16 : m->source == BF16 ? level->widen_bf16 : NULL;
    default: return NULL;
    }
}
static void choose(const titan_code *code, const titan_form *m, const titan_step *s, Quick *q,
                   int64_t *own)
{
    const int64_t *pool = code->pool, *flags = &pool[s->flags];
    memset(q, 0, sizeof *q);
    q->step = s;
    q->flags = flags;
    q->guard = s->guard;
    q->negated = s->negated;
    q->out = s->out_count > 0 ? (int32_t)pool[s->out] : -1;
    q->other = s->out_count > 1 ? (int32_t)pool[s->out + 1] : -1;
    q->arg_count = s->arg_count < 3 ? s->arg_count : 3;
    for (int i = 0; i < q->arg_count; i++) q->args[i] = (int32_t)pool[s->args + i];
    if (s->op == LOAD && s->out_count <= 8) q->run = quick_load;
    if (s->op == STORE) q->run = quick_store;
    int64_t bytes = s->op == LOAD ? flags[4] / 8 * s->out_count
                    : s->op == STORE ? flags[4] / 8 * (s->arg_count - 1) : 1;
    if (s->op == LOAD || s->op == STORE) {
        if (bytes < 1 || bytes & (bytes - 1) || flags[4] > 64) q->run = NULL;
        return;
    }
    if (s->op >= BRANCH || s->op == NOP) return;
    if (s->op == UNPACK) {
        q->run = s->arg_count == 1 ? quick_unpack : NULL;
    } else if (s->op == PACK && s->arg_count == 2) {
        q->kernel = machine_level->pair;
        q->run = quick_compute;
    } else if (s->arg_count <= 3 && s->arg_count > 0 && s->out_count >= 1) {
        q->kernel = m->function ? kernel_of_form(m, own) : kernel_of(s, flags);
        if (m->function) q->flags = own;
        q->run = q->kernel ? quick_compute : NULL;
    }
}
static int owns_none(const Warp *warp, const Quick *q)
{
    const titan_step *s = q->step;
    if (!warp->owned_count) return 1;
    if ((q->out >= 0 && warp->owned[q->out]) || (q->other >= 0 && warp->owned[q->other])) return 0;
    for (int i = 0; i < q->arg_count; i++)
        if (warp->owned[q->args[i]]) return 0;
    return s->arg_count <= 3 && s->out_count <= 2 && (q->guard < 0 || !warp->owned[q->guard]);
}
/* 1: the instruction is executed, and the fragment goes on behind it. */
static int quick_step(Machine *machine, Fragment *fragment)
{
    const Quick *q = &machine->numbers->shared->quick[fragment->pc];
    Warp *warp = fragment->warp;
    uint32_t mask = fragment->mask;
    if (q->step->op == BRANCH) {
        int known = 1;
        uint32_t taken = mask;
        if (q->guard >= 0) taken = truths(&warp->registers[q->guard], mask, q->negated, &known);
        if (!known || (taken && taken != mask)) return 0;
        fragment->pc = taken ? (int32_t)q->flags[0] : fragment->pc + 1;
        return 1;
    }
    if (!q->run || machine->maybe || !owns_none(warp, q)) return 0;
    if (q->guard >= 0) {
        int known;
        mask = truths(&warp->registers[q->guard], mask, q->negated, &known);
        if (!known) return 0;
    }
    if (mask) q->run(machine, fragment, q, mask);
    fragment->pc++;
    return 1;
}
