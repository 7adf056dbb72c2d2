/* wgmma (products.py): a product reads shared memory and adds to its accumulator when it completes.
   The accumulator of products in flight is a tile; registers get it when the last one completes. */

/* The operation in flight that has exactly these registers as its results, or NULL. */
static Operation *chained(const Machine *machine, const Warp *warp, const titan_step *s)
{
    if (!s->out_count || OUT(s, 0) < 0 || !warp->owned[OUT(s, 0)]) return NULL;
    Operation *o = machine->operations[warp->owned[OUT(s, 0)] - 1];
    if (o->done || !o->transfer || o->transfer->kind != PRODUCT) return NULL;
    for (int i = 0; i < s->out_count; i++) {
        int32_t reg = OUT(s, i);
        if (reg < 0 || warp->owned[reg] != o->number + 1 || warp->owned_kind[reg] != 1 ||
            warp->owned_element[reg] != i)
            return NULL;
    }
    return o;
}
static void take_registers(Machine *machine, Warp *warp, const titan_step *s, const Operation *o)
{
    for (int i = 0; i < s->out_count; i++) {
        int32_t reg = OUT(s, i);
        if (reg < 0) continue;
        unknown(&warp->registers[reg], o->instruction);
        warp->owned_count += !warp->owned[reg];
        warp->owned[reg] = o->number + 1;
        warp->owned_kind[reg] = 1;
        warp->owned_element[reg] = (int16_t)i;
    }
}
/* The accumulator of a product that follows no other one in flight: the registers as they are. */
static Tile *accumulator(Machine *machine, Warp *warp, const titan_step *s, const titan_form *m,
                         int adds)
{
    Tile *tile = new_tile(m->columns);
    for (int i = 0; adds && i < s->out_count; i++) {
        int32_t reg = OUT(s, i);
        if (reg >= 0 && warp->owned[reg] && warp->owned_kind[reg] == 1)
            finish(machine, machine->operations[warp->owned[reg] - 1]);
    }
    for (int i = 0; adds && i < s->out_count; i++)
        if (OUT(s, i) >= 0)
            gather_register(tile, m->format, i, &warp->registers[OUT(s, i)]);
    return tile;
}
static int wgmma_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const titan_form *m = form_at(machine, fragment->pc);
    int in_registers = (int)FLAG(s, 4), opaque;
    uint64_t scale;
    if (m->function != FORM_MATRIX) return 0;
    if (!uniform(&warp->registers[ARG(s, 0)], mask, &scale, &opaque) || opaque) return 0;
    int adds = scale & 1;
    uint64_t b = known_value(machine, fragment, ARG(s, 1), mask, "a matrix descriptor"), a = 0;
    if (!in_registers)
        a = known_value(machine, fragment, ARG(s, 2), mask, "a matrix descriptor");
    Operation *earlier = chained(machine, warp, s);
    Tile *tile = earlier ? earlier->transfer->product.tile : accumulator(machine, warp, s, m, adds);
    tile->references += earlier != NULL;
    Operation *o = new_operation(machine, fragment, OP_WGMMA, mask, WGMMA_QUEUE);
    Transfer *made = new_transfer(o, PRODUCT);
    made->form = m;
    made->product = (Product){tile, a, b, NULL, adds};
    if (in_registers) {
        made->product.fragments = zeroed((size_t)(16 * m->depth + 4), sizeof(float));
        gather_rows(warp, s, machine, 2, s->arg_count - 2, m->a, m->depth, made->product.fragments,
                    (uint8_t *)&made->product.fragments[16 * m->depth]);
    }
    if (earlier) {
        o->after = zeroed(1, sizeof(int32_t));
        o->after[0] = earlier->number;
        o->after_count = 1;
    }
    take_registers(machine, warp, s, o);
    machine->progress = machine->count;
    enqueue(warp, o);
    issue(machine, o);
    return 1;
}
static void deliver(Machine *machine, const Operation *o, const Tile *tile, int which)
{
    Warp *warp = o->warp;
    const titan_step *s = &machine->code->steps[o->instruction];
    if (!warp->registers) return;
    int32_t count = o->copied ? machine->code->registers : s->out_count;
    for (int32_t i = 0; i < count; i++) {
        int32_t reg = o->copied ? i : OUT(s, i);
        if (reg >= 0 && warp->owned[reg] == o->number + 1 && warp->owned_kind[reg] == 1)
            result_register(tile, which, warp->owned_element[reg], &warp->registers[reg],
                            o->instruction);
    }
}
static void run_product(Machine *machine, Operation *o)
{
    const Transfer *given = o->transfer;
    const titan_form *m = given->form;
    const titan_step *s = &machine->code->steps[o->instruction];
    Cta *cta = o->warp->cta;
    Tile *tile = given->product.tile;
    Descriptor left, right;
    float a[16 * 64];
    uint8_t flags[16] = {0};
    if (!given->product.adds) {
        memset(tile->values, 0, (size_t)(16 * tile->columns) * sizeof(float));
        free(tile->unknown);
        tile->unknown = NULL;
    }
    int ok = decode_descriptor(given->product.b, 0, &right) && m->depth <= 64;
    const Operand *b = !ok ? NULL : shared_matrix(machine, cta, &right, m->columns, m->depth,
                                                  FLAG(s, 3) != 0, m->b, NULL);
    if (given->product.fragments) {
        memcpy(a, given->product.fragments, (size_t)(16 * m->depth) * sizeof(float));
        memcpy(flags, &given->product.fragments[16 * m->depth], 16);
    } else if (ok && decode_descriptor(given->product.a, 0, &left)) {
        int first = o->warp->index % 4 * 16;
        const Operand *rows = shared_matrix(machine, cta, &left, 64, m->depth, FLAG(s, 2) != 0,
                                            m->a, b);
        for (int row = 0; row < 16; row++) {
            for (int k = 0; k < m->depth; k++)
                a[row * m->depth + k] = rows->values[k * rows->stride + first + row];
            flags[row] = rows->unknown ? rows->unknown[first + row] : 0;
        }
    } else {
        ok = 0;
    }
    if (ok) {
        multiply_tile(machine, m, tile, a, any_of(flags, 16) ? flags : NULL, b->values, b->unknown);
    } else {
        for (int n = 0; n < 16 * tile->columns; n++)
            mark_unknown(tile, n / tile->columns, n % tile->columns);
    }
    deliver(machine, o, tile, m->format);
}

/* ------------------------------------------------------------------------ ldmatrix, stmatrix */

static int matrix_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                          int mode)
{
    const titan_form *m = form_at(machine, fragment->pc);
    Warp *warp = fragment->warp;
    const Value *address = &warp->registers[ARG(s, 0)];
    Target rows[32];
    int count = (int)FLAG(s, 3), there[32] = {0}, matrices = count / 8;
    uint8_t data[32][16], state[32][16];
    if (m->function != FORM_LOAD_MATRIX) return 0;
    machine->progress = machine->count;
    for (int row = 0; row < count; row++) {
        if (lane_opaque(address, row)) return 0;
        there[row] = target_of(warp, (int)FLAG(s, 0),
                               lane_value(address, row) + (uint64_t)FLAG(s, 1), &rows[row]);
        memset(state[row], OPAQUE_BYTE, 16);
        if (there[row] && mode == READ)
            read_many(machine, rows[row].space, rows[row].cta, rows[row].at, 16, data[row],
                      state[row]);
    }
    for (int n = 0; n < matrices; n++) {
        Value made = {.uniform = 0, .opaque = 0};
        const Value *given = mode == WRITE ? &warp->registers[ARG(s, 1 + n)] : NULL;
        for (int lane = 0; lane < 32; lane++) {
            made.v[lane] = 0;
            for (int e = 0; e < 2; e++) {
                int row = lane / 4, column = lane % 4 * 2 + e;
                if (m->word) { row = column; column = lane / 4; } /* transposed */
                uint8_t *bytes = &data[8 * n + row][2 * column];
                uint8_t *known = &state[8 * n + row][2 * column];
                if (given) {
                    uint64_t item = lane_value(given, lane) >> 16 * e;
                    bytes[0] = (uint8_t)item;
                    bytes[1] = (uint8_t)(item >> 8);
                    known[0] = known[1] = lane_opaque(given, lane) ? OPAQUE_BYTE : KNOWN;
                } else {
                    made.v[lane] |= (uint64_t)(bytes[0] | bytes[1] << 8) << 16 * e;
                    if (known[0] != KNOWN || known[1] != KNOWN) made.opaque |= 1u << lane;
                }
            }
            if (made.opaque >> lane & 1) made.v[lane] = (uint64_t)(int64_t)fragment->pc;
        }
        if (!given) put(warp, OUT(s, n), &made, mask, 0);
    }
    for (int row = 0; mode == WRITE && row < count; row++) {
        if (!there[row]) continue;
        Cta *cta = rows[row].cta;
        if (rows[row].space == SHARED && cta->barrier_count &&
            has_state(&cta->shared, rows[row].at, 16, LIVE_BARRIER))
            overwrite(machine, fragment, cta, rows[row].at, 16);
        write_many(machine, rows[row].space, cta, rows[row].at, 16, data[row], state[row]);
    }
    return 1;
}
