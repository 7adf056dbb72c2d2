/* tcgen05.ld, .st, .mma and .cp on tensor memory.

   Sources: PTX, "Matrix fragments for tcgen05.ld", "Data path layout organization", "Instruction
   descriptor", "Data type and packing". Not computed, so unknown: weight-stationary and sparse
   products, results of 16 bits, K of 96, operands of 4 and 6 bits in tensor memory but for packed
   ones, block-scaled products of 64 rows in each CTA of a pair, copies that decompress. */
enum { TENSOR_READ, TENSOR_WRITTEN, TENSOR_PRODUCT, TENSOR_COPIED };

/* ------------------------------------------------------------------------------ ld and st */

/* Lane and column, from the address on, of one register of a thread; `width` columns of a shape. */
static void place_of_cell(const titan_form *m, int64_t half, int thread, int number, int64_t *lane,
                          int64_t *column)
{
    int width = m->columns;
    if (m->rows == 32) {
        *lane = thread;
        *column = number;
    } else if (half >= 0) { /* two accesses: the upper threads have the second */
        *lane = thread % 16;
        *column = number + (thread / 16) * half;
    } else if (width == 2) {
        *lane = (thread >> 2) + 8 * (thread & 1);
        *column = 2 * number + (thread >> 1 & 1);
    } else if (width == 4) {
        *lane = (thread >> 2) + 8 * (number & 1);
        *column = 4 * (number >> 1) + (thread & 3);
    } else {
        *lane = (thread >> 2) + 8 * (number >> 1 & 1);
        *column = 8 * (number >> 2) + 2 * (thread & 3) + (number & 1);
    }
}
static int tensor_access_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                 uint32_t mask, uint64_t address)
{
    Warp *warp = fragment->warp;
    const titan_form *m = form_at(machine, fragment->pc);
    int reads = s->op == TENSOR_LOAD, values = s->arg_count - 1;
    if (m->function != FORM_TENSOR_ACCESS) return 0;
    for (int i = 0; reads && i < s->out_count; i++)
        if (OUT(s, i) >= 0 && warp->owned[OUT(s, i)])
            finish(machine, machine->operations[warp->owned[OUT(s, i)] - 1]);
    Operation *o = new_operation(machine, fragment, reads ? OP_TENSOR_LOAD : OP_TENSOR_STORE, mask,
                                 reads ? TENSOR_LOAD_QUEUE : TENSOR_STORE_QUEUE);
    Transfer *made = new_transfer(o, TENSOR_WORK);
    made->form = m;
    made->count = reads ? TENSOR_READ : TENSOR_WRITTEN;
    made->values[0] = address;
    if (!reads) { /* the values, then what is unknown of them */
        made->product.fragments = zeroed((size_t)(33 * values), sizeof(float));
        for (int n = 0; n < values; n++) {
            const Value *value = &warp->registers[ARG(s, 1 + n)];
            uint32_t *kept = (uint32_t *)made->product.fragments + 33 * n;
            for (int lane = 0; lane < 32; lane++) {
                kept[lane] = (uint32_t)lane_value(value, lane);
                kept[32] |= (uint32_t)lane_opaque(value, lane) << lane;
            }
        }
    } else {
        take_registers(machine, warp, s, o);
    }
    machine->progress = machine->count;
    enqueue(warp, o);
    issue(machine, o);
    return 1;
}
static void run_tensor_access(Machine *machine, Operation *o)
{
    const Transfer *given = o->transfer;
    const titan_step *s = &machine->code->steps[o->instruction];
    Warp *warp = o->warp;
    CtaNumbers *own = tensor_memory(warp->cta);
    int reads = given->count == TENSOR_READ, count = reads ? s->out_count : s->arg_count - 1;
    int64_t base_lane = (int64_t)(given->values[0] >> 16 & 0xFFFF);
    int64_t base_column = (int64_t)(given->values[0] & 0xFFFF), half = FLAG(s, 2);
    Value *made = reads ? zeroed((size_t)count, sizeof(Value)) : NULL;
    for (int n = 0; n < count; n++) {
        const uint32_t *kept = (const uint32_t *)given->product.fragments + 33 * n;
        for (int thread = 0; thread < 32; thread++) {
            int64_t lane, column;
            place_of_cell(given->form, half, thread, n, &lane, &column);
            int64_t at = cell_at(base_lane + lane, base_column + column);
            if (reads) {
                int known = at >= 0 && own->tensor_known[at];
                made[n].v[thread] = known ? own->tensor[at] : (uint64_t)(int64_t)o->instruction;
                made[n].opaque |= (uint32_t)!known << thread;
            } else if (at >= 0) {
                own->tensor[at] = kept[thread];
                own->tensor_known[at] = !(kept[32] >> thread & 1);
            }
        }
    }
    int32_t all = o->copied ? machine->code->registers : s->out_count;
    for (int32_t i = 0; reads && warp->registers && i < all; i++) {
        int32_t reg = o->copied ? i : OUT(s, i);
        if (reg >= 0 && warp->owned[reg] == o->number + 1 && warp->owned_kind[reg] == 1)
            warp->registers[reg] = made[warp->owned_element[reg]];
    }
    free(made);
}

/* ------------------------------------------------------------------------------- products */

/* The fields of an instruction descriptor, and its scales. 0: not computed. */
static int described(const titan_step *s, const Machine *machine, uint64_t value, titan_form *m,
                     Scales *scales, int *a_major, int *b_major)
{
    enum { WHOLE = 3, SCALED = 4, NARROW = 5 }; /* of the kinds in their order (decode_async.py) */
    static const int types[7][8] = {{F16, BF16, -1, -1, -1, -1, -1, -1},
                                    {-1, -1, TF32, -1, -1, -1, -1, -1},
                                    {E4M3, E5M2, -1, E2M3, E3M2, E2M1, -1, -1},
                                    {U8, S8, -1, -1, -1, -1, -1, -1},
                                    {E4M3, E5M2, -1, E2M3, E3M2, E2M1, -1, -1},
                                    {-1, E2M1_PAIRS, -1, -1, -1, -1, -1, -1},
                                    {-1, E2M1_PAIRS, -1, -1, -1, -1, -1, -1}};
    int64_t kind = FLAG(s, 1);
    int whole = kind == WHOLE, scaled = FLAG(s, 4) != 0;
    if (FLAG(s, 3) || FLAG(s, 5) || scaled != (kind >= SCALED) || value & 4) return 0;
    if (!scaled && (value >> 4 & 3) != (whole ? 2u : 1u)) return 0; /* sums of 32 bits */
    if (scaled && value >> 31 & 1) return 0;
    memset(m, 0, sizeof *m);
    m->function = FORM_MATRIX;
    m->format = whole ? S32 : F32;
    m->saturate = whole && value >> 3 & 1;
    m->a = types[kind][value >> 7 & 7];
    m->b = types[kind][value >> 10 & 7];
    m->negate_a = (int)(value >> 13 & 1);
    m->negate_b = (int)(value >> 14 & 1);
    *a_major = (int)(value >> 15 & 1);
    *b_major = (int)(value >> 16 & 1);
    m->columns = (int)(value >> 17 & 63) << 3;
    m->rows = (int)(value >> 24 & 31) << 4;
    m->word = 1; /* the wide sums of Blackwell */
    if (m->a < 0 || m->b < 0) return 0;
    if ((*a_major && formats[m->a].bits < 8) || (*b_major && formats[m->b].bits < 8)) return 0;
    m->depth = kind >= NARROW ? 64 : 32 / stored_bytes(m->a);
    scales->format = value >> 23 & 1 ? UE8M0 : E4M3;
    scales->blocks = scaled ? (int)FLAG(s, 10) : 0;
    if (!scaled) return 1;
    scales->each = m->depth / scales->blocks;
    scales->first[0] = (int)(value >> 29 & 3);
    scales->first[1] = (int)(value >> 4 & 3);
    return scales->first[0] + scales->blocks <= 4 && scales->first[1] + scales->blocks <= 4 &&
           m->rows == 128 * (int)FLAG(s, 0);
}
/* Products and copies of a thread are executed in the order of their issue, across commits, too. */
static void follow(Machine *machine, Operation *o)
{
    for (int64_t n = machine->flight.count - 1; n >= 0; n--) {
        const Operation *earlier = machine->operations[machine->flight.data[n]];
        if (earlier == o || earlier->warp != o->warp || !(earlier->lanes & o->lanes) ||
            earlier->queue != TENSOR_CORE)
            continue;
        free(o->after);
        o->after = zeroed(1, sizeof(int32_t));
        o->after[0] = earlier->number;
        o->after_count = 1;
        return;
    }
}
static void multiply_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                             const uint64_t *v, Operation *o)
{
    titan_form m;
    Scales scales;
    int a_major, b_major;
    int64_t group = FLAG(s, 0);
    const titan_form *given = form_at(machine, fragment->pc);
    follow(machine, o);
    const int32_t masks[] = {given->format, given->source, given->mode, given->packed,
                             given->flush, given->saturate, given->relu, given->nan};
    if (given->function != FORM_TENSOR_MULTIPLY) return;
    for (int n = 0; n < 8; n++) { /* registers that disable output lanes */
        if (masks[n] < 0) continue;
        const Value *value = &fragment->warp->registers[masks[n]];
        for (uint32_t left = fragment->mask; left; left &= left - 1)
            if (lane_opaque(value, first_lane(left)) || lane_value(value, first_lane(left)))
                return;
    }
    if (!described(s, machine, v[3], &m, &scales, &a_major, &b_major) || !m.columns) return;
    if (FLAG(s, 2) && formats[m.a].bits < 8 && m.a != E2M1_PAIRS) return;
    if (m.rows != 64 * group && m.rows != 128 * group) return;
    if (FLAG(s, 2) && group == 2 && m.rows != 256) return;
    if (group == 2 && fragment->warp->cta->cluster->cta_count < 2) return;
    Transfer *made = new_transfer(o, TENSOR_WORK);
    made->count = TENSOR_PRODUCT;
    for (int n = 0; n < (scales.blocks ? 7 : 5); n++) made->values[n] = v[n];
    made->values[0] += (uint64_t)FLAG(s, 6);
    made->values[1] += FLAG(s, 2) ? (uint64_t)FLAG(s, 7) : 0;
    made->values[5] += (uint64_t)FLAG(s, 8);
    made->values[6] += (uint64_t)FLAG(s, 9);
    made->values[7] = (uint64_t)given->bits; /* the accumulator is scaled by 2 ** -this */
    made->places[0].cta = fragment->warp->cta;
}
/* 16 rows of A, of shared memory or of tensor memory. */
static void rows_of_a(Cta *cta, const Operand *rows, uint64_t address, const titan_form *m,
                      int first, float *a, uint8_t *unknown_rows)
{
    int bits = unit_step(m->a);
    memset(unknown_rows, 0, 16);
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < m->depth; k++) {
            float *out = &a[row * m->depth + k];
            if (rows) {
                *out = rows->values[k * rows->stride + first + row];
                if (rows->unknown && rows->unknown[first + row]) unknown_rows[row] = 1;
                continue;
            }
            CtaNumbers *own = tensor_memory(cta);
            int lane = m->rows == 64 ? first / 16 * 32 + row : first + row; /* as those of D */
            int64_t at = cell_at((int64_t)(address >> 16) + lane,
                                 (int64_t)(address & 0xFFFF) + k * bits / 32);
            *out = 0;
            if (at < 0 || !own->tensor_known[at]) unknown_rows[row] = 1;
            else *out = unit_element((const uint8_t *)&own->tensor[at], m->a, k % (32 / bits));
        }
}
/* Where row `row` of a CTA's part of D lies, and column n. */
static int64_t place_of_sum(const titan_form *m, int64_t group, uint64_t d, int row, int n)
{
    int64_t lane = row, column = n;
    if (m->rows == 64) {
        lane = row / 16 * 32 + row % 16;
    } else if (group == 2 && m->rows == 128) {
        lane = row + (n >= m->columns / 2 ? 64 : 0);
        column = n % (m->columns / 2);
    }
    return cell_at((int64_t)(d >> 16) + lane, (int64_t)(d & 0xFFFF) + column);
}
/* 16 rows of D in one CTA, from `first` on, by the columns of B from `column` on. */
static void multiply_block(Machine *machine, Cta *cta, const Transfer *given, titan_form *m,
                           const Scales *scales, int64_t group, int first, int column, float *a,
                           uint8_t *flags, const Operand *b)
{
    CtaNumbers *own = tensor_memory(cta);
    uint64_t d = given->values[0];
    titan_form part = *m;
    part.columns = b->extent;
    Tile *tile = new_tile(part.columns);
    for (int row = 0; row < 16 && given->values[4] & 1; row++)
        for (int n = 0; n < part.columns; n++) {
            int64_t at = place_of_sum(m, group, d, first + row, column + n);
            float *value = &tile->values[row * tile->columns + n];
            if (at < 0 || !own->tensor_known[at]) mark_unknown(tile, row, n);
            else memcpy(value, &own->tensor[at], 4);
            if (given->values[7]) *value = ldexpf(*value, -(int)given->values[7]);
        }
    if (scales->blocks) {
        uint8_t unknown_columns[256] = {0};
        for (int n = 0; b->unknown && n < part.columns; n++) unknown_columns[n] = b->unknown[n];
        Split *left = scales_of(cta, scales, given->values[5], 0, first, 16, flags);
        Split *right = scales_of(cta, scales, given->values[6], 1, column, part.columns,
                                 unknown_columns);
        multiply_scaled(machine, &part, scales, tile, a, flags, b->values, unknown_columns, left,
                        right);
        free(left);
        free(right);
    } else {
        multiply_tile(machine, &part, tile, a, any_of(flags, 16) ? flags : NULL, b->values,
                      b->unknown);
    }
    for (int row = 0; row < 16; row++)
        for (int n = 0; n < part.columns; n++) {
            int64_t at = place_of_sum(m, group, d, first + row, column + n);
            if (at < 0) continue;
            own->tensor[at] = word_of(tile->values[row * tile->columns + n], m->format);
            own->tensor_known[at] =
                !(tile->unknown && tile->unknown[row * tile->columns + n]);
        }
    free(tile->values);
    free(tile->unknown);
    free(tile);
}
static void run_tensor_product(Machine *machine, Operation *o)
{
    const Transfer *given = o->transfer;
    const titan_step *s = &machine->code->steps[o->instruction];
    int64_t group = FLAG(s, 0);
    Cta *own = given->places[0].cta, *ctas[2] = {own, own};
    Cluster *cluster = own->cluster;
    int a_major, b_major, count = group == 2 ? 2 : 1;
    titan_form m;
    Scales scales;
    Descriptor left, right;
    float a[16 * 64];
    uint8_t flags[16];
    described(s, machine, given->values[3], &m, &scales, &a_major, &b_major);
    int ok = decode_descriptor(given->values[2], 1, &right) && (given->values[2] >> 61 & 7) != 1;
    int in_tensor = FLAG(s, 2) != 0;
    if (!in_tensor)
        ok = ok && decode_descriptor(given->values[1], 1, &left) &&
             (given->values[1] >> 61 & 7) != 1;
    if (count == 2) {
        ctas[0] = &cluster->ctas[own->rank & ~1];
        ctas[1] = &cluster->ctas[own->rank | 1];
    }
    int rows = m.rows / count, wide = m.columns / count;
    for (int c = 0; c < count; c++) {
        for (int half = 0; half < count; half++)
            for (int first = 0; first < rows; first += 16) {
                if (!ok) {
                    for (int row = 0; row < 16; row++)
                        for (int n = 0; n < wide; n++) {
                            int64_t at = place_of_sum(&m, group, given->values[0], first + row,
                                                      half * wide + n);
                            if (at >= 0) tensor_memory(ctas[c])->tensor_known[at] = 0;
                        }
                    continue;
                }
                const Operand *b = shared_matrix(machine, ctas[half], &right, wide, m.depth,
                                                 b_major, m.b, NULL);
                const Operand *rows_of = in_tensor ? NULL
                    : shared_matrix(machine, ctas[c], &left, rows, m.depth, a_major, m.a, b);
                rows_of_a(ctas[c], rows_of, given->values[1], &m, first, a, flags);
                multiply_block(machine, ctas[c], given, &m, &scales, group, first, half * wide, a,
                               flags, b);
            }
    }
}

/* ------------------------------------------------------------------------------------- cp */

static void memory_copy_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                uint64_t address, uint64_t descriptor, Operation *o)
{
    follow(machine, o);
    if (form_at(machine, fragment->pc)->function != FORM_TENSOR_COPY) return;
    Transfer *made = new_transfer(o, TENSOR_WORK);
    made->form = form_at(machine, fragment->pc);
    made->count = TENSOR_COPIED;
    made->values[0] = address;
    made->values[1] = descriptor;
    made->places[0].cta = fragment->warp->cta;
    (void)s;
}
static void copy_row(Cta *cta, const Descriptor *d, int row, int bytes, int64_t lane,
                     int64_t column)
{
    CtaNumbers *own = tensor_memory(cta);
    for (int byte = 0; byte < bytes; byte += 4) {
        int64_t at = cell_at(lane, column + byte / 4);
        int64_t from = unit_address(d, 0, byte / 16, row) + byte % 16;
        if (at < 0) continue;
        own->tensor_known[at] = from >= 0 && from + 4 <= cta->shared.size &&
                                all_known(cta->shared.state + from, 4);
        if (own->tensor_known[at]) memcpy(&own->tensor[at], cta->shared.data + from, 4);
    }
}
static void run_memory_copy(Machine *machine, Operation *o)
{
    const Transfer *given = o->transfer;
    const titan_step *s = &machine->code->steps[o->instruction];
    Cta *own = given->places[0].cta;
    Cluster *cluster = own->cluster;
    Descriptor d;
    if (!decode_descriptor(given->values[1], 1, &d)) return;
    int rows = (int)FLAG(s, 2), bytes = (int)FLAG(s, 3), count = FLAG(s, 0) == 2 ? 2 : 1;
    int64_t lane = (int64_t)(given->values[0] >> 16), column = (int64_t)(given->values[0] & 0xFFFF);
    for (int c = 0; c < count; c++) {
        Cta *cta = count == 1 ? own : &cluster->ctas[(own->rank & ~1) + c];
        for (int row = 0; row < rows; row++)
            switch (given->form->word) { /* multicast to warps */
            case 4:
                for (int warp = 0; warp < 4; warp++)
                    copy_row(cta, &d, row, bytes, 32 * warp + row, column);
                break;
            case 13: /* warpx2::02_13 */
                for (int warp = row / 32; warp < 4; warp += 2)
                    copy_row(cta, &d, row, bytes, 32 * warp + row % 32, column);
                break;
            case 23: /* warpx2::01_23 */
                for (int warp = row / 32 * 2; warp < row / 32 * 2 + 2; warp++)
                    copy_row(cta, &d, row, bytes, 32 * warp + row % 32, column);
                break;
            default: copy_row(cta, &d, row, bytes, lane + row, column); break;
            }
    }
}
static void run_tensor_work(Machine *machine, Operation *o)
{
    switch (o->transfer->count) {
    case TENSOR_PRODUCT: run_tensor_product(machine, o); break;
    case TENSOR_COPIED: run_memory_copy(machine, o); break;
    default: run_tensor_access(machine, o); break;
    }
}
