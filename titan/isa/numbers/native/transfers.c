/* What asynchronous copies move when they complete (transfers.py, copies.py). */
typedef struct { int space; Cta *cta; int64_t at; } Target;
typedef struct { Target to, from; int64_t count, zeros; } Move;
typedef struct { /* a product of a wgmma: what is known of it at its issue */
    Tile *tile;
    uint64_t a, b;
    float *fragments; /* A in registers: 16 rows of its depth, and a flag for each row */
    int adds;
} Product;
enum { MOVES, BOX_IN, BOX_OUT, PRODUCT, TENSOR_WORK };
struct Transfer {
    int kind, count;
    const titan_form *form; /* of sums, or NULL */
    titan_form sum;
    const titan_map *map;
    int mode;
    int64_t at[5], offsets[3]; /* of an im2col box: of the filter, in pixels */
    Target places[16]; /* of a box, or of a bulk copy with its source in `move` */
    Move *moves;
    Product product;
    uint64_t values[8];
};

static Transfer *new_transfer(Operation *o, int kind)
{
    o->transfer = zeroed(1, sizeof *o->transfer);
    o->transfer->kind = kind;
    return o->transfer;
}
static int is_global(int space) { return space == GLOBAL; }
/* Memory and offset of an address; 0 for other windows and CTAs that are not there. */
static int target_of(const Warp *warp, int space, uint64_t address, Target *target)
{
    Spot spot = spot_of(warp, space, address);
    target->space = spot.space;
    target->cta = spot.cta;
    target->at = spot.at;
    return spot.space == SHARED ? spot.cta != NULL : is_global(spot.space);
}

/* ------------------------------------------------------------------------------- cp.async */

static int copy_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    int64_t count = FLAG(s, 2);
    Move *moves = zeroed(32, sizeof *moves);
    int total = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left), opaque = 0;
        uint64_t v[3] = {0, 0, 0};
        for (int i = 0; i < s->arg_count && i < 3; i++) {
            const Value *value = &warp->registers[ARG(s, i)];
            v[i] = lane_value(value, lane);
            opaque |= lane_opaque(value, lane);
            if (opaque && !i)
                refuse(machine, fragment, "the destination of a copy is not known");
        }
        if (opaque) continue;
        Move *move = &moves[total];
        int64_t reads = count;
        if (s->arg_count > 2) {
            if (FLAG(s, 3)) reads = v[2] & 1 ? 0 : count;
            else if ((int64_t)(v[2] & 0xFFFFFFFFu) < count) reads = (int64_t)v[2];
        }
        int ok = target_of(warp, SHARED, v[0] + (uint64_t)FLAG(s, 0), &move->to);
        if (reads) ok = target_of(warp, GLOBAL, v[1] + (uint64_t)FLAG(s, 1), &move->from) && ok;
        move->count = reads;
        move->zeros = count - reads;
        total += ok && !outside(machine, move->to.cta, SHARED, move->to.at, count);
    }
    Operation *o = new_operation(machine, fragment, OP_COPY, mask, COPY_QUEUE);
    Transfer *made = new_transfer(o, MOVES);
    made->moves = moves;
    made->count = total;
    machine->progress = machine->count;
    enqueue(warp, o);
    issue(machine, o);
    return 1;
}

/* ---------------------------------------------------------------------------- sums of numbers */

/* Element for element onto what is there; integers where the form has no format. */
static void add_elements(const titan_form *m, const uint8_t *old, const uint8_t *old_state,
                         uint8_t *data, uint8_t *state, int64_t count)
{
    int64_t size = m->bits / 8;
    titan_form one = *m;
    one.function = m->word == A_MIN ? FORM_MIN : m->word == A_MAX ? FORM_MAX : FORM_ADD;
    one.word = 0;
    for (int64_t n = 0; n + size <= count; n += size) {
        uint64_t v[2] = {0, 0}, result = 0;
        int known = all_known(old_state + n, size) && all_known(state + n, size);
        memcpy(&v[0], old + n, (size_t)size);
        memcpy(&v[1], data + n, (size_t)size);
        int64_t a = sign(v[0], m->bits), b = sign(v[1], m->bits);
        int less = m->is_signed ? b < a : v[1] < v[0];
        if (m->format >= 0) result = float_function(&one, v, 2);
        else switch (m->word) {
            case A_ADD: result = v[0] + v[1]; break;
            case A_MIN: result = less ? v[1] : v[0]; break;
            case A_MAX: result = less ? v[0] : v[1]; break;
            case A_AND: result = v[0] & v[1]; break;
            case A_OR: result = v[0] | v[1]; break;
            case A_XOR: result = v[0] ^ v[1]; break;
            case A_INC: result = v[0] >= v[1] ? 0 : v[0] + 1; break;
            default: result = v[0] == 0 || v[0] > v[1] ? v[1] : v[0] - 1; break;
        }
        memcpy(data + n, &result, (size_t)size);
        memset(state + n, known ? KNOWN : OPAQUE_BYTE, (size_t)size);
    }
}

/* -------------------------------------------------------------------------------- bulk copies */

static void bulk_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                         const uint64_t *given, int many, Operation *o)
{
    Warp *warp = fragment->warp;
    const titan_form *m = form_at(machine, fragment->pc);
    int reduces = FLAG(s, 0) == K_REDUCE;
    Target source, targets[16];
    int total = 0;
    if (reduces && m->function != FORM_SUM) return;
    if (!target_of(warp, (int)FLAG(s, 2), given[1] + (uint64_t)FLAG(s, 4), &source)) return;
    if (many) {
        Cluster *cluster = warp->cta->cluster;
        int64_t offset = (int64_t)((given[0] + (uint64_t)FLAG(s, 3)) & OFFSET_MASK);
        for (int r = 0; r < cluster->cta_count; r++)
            if (given[4] >> r & 1) targets[total++] = (Target){SHARED, &cluster->ctas[r], offset};
    } else {
        total = target_of(warp, (int)FLAG(s, 1), given[0] + (uint64_t)FLAG(s, 3), targets);
    }
    Transfer *made = new_transfer(o, MOVES);
    made->moves = zeroed((size_t)total, sizeof(Move));
    made->count = total;
    made->form = reduces ? m : NULL;
    for (int n = 0; n < total; n++)
        made->moves[n] = (Move){targets[n], source, (int64_t)given[2], 0};
}
static void run_moves(Machine *machine, const Transfer *given)
{
    int64_t most = 0;
    for (int n = 0; n < given->count; n++) {
        int64_t count = given->moves[n].count + given->moves[n].zeros;
        if (count > most) most = count;
    }
    uint8_t *data = room(NULL, (size_t)(4 * most)), *state = data + most;
    for (int n = 0; n < given->count; n++) {
        const Move *move = &given->moves[n];
        int64_t count = move->count + move->zeros;
        memset(data + move->count, 0, (size_t)move->zeros);
        memset(state + move->count, KNOWN, (size_t)move->zeros);
        read_many(machine, move->from.space, move->from.cta, move->from.at, move->count, data,
                  state);
        if (given->form) {
            uint8_t *old = state + most;
            read_many(machine, move->to.space, move->to.cta, move->to.at, count, old, old + most);
            add_elements(given->form, old, old + most, data, state, count);
        }
        write_many(machine, move->to.space, move->to.cta, move->to.at, count, data, state);
    }
    free(data);
}

/* ---------------------------------------------------------------------------- store_async */

static void store_async_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                uint32_t lanes, Operation *o)
{
    Warp *warp = fragment->warp;
    int values = s->arg_count - 2;
    if (FLAG(s, 4) || !values) return;
    int64_t size = FLAG(s, 3) / values;
    Transfer *made = new_transfer(o, MOVES);
    made->moves = zeroed(1, (size_t)(32 * values) * (sizeof(Move) + 16));
    uint8_t *bytes = (uint8_t *)&made->moves[32 * values];
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = first_lane(left);
        const Value *address = &warp->registers[ARG(s, 0)];
        Target to;
        if (lane_opaque(address, lane) ||
            !target_of(warp, (int)FLAG(s, 0), lane_value(address, lane) + (uint64_t)FLAG(s, 1),
                       &to))
            continue;
        for (int n = 0; n < values; n++) {
            const Value *value = &warp->registers[ARG(s, 2 + n)];
            uint64_t item = lane_value(value, lane);
            Move *move = &made->moves[made->count];
            uint8_t *kept = bytes + 16 * made->count++;
            memcpy(kept, &item, 8);
            kept[8] = lane_opaque(value, lane) ? OPAQUE_BYTE : KNOWN;
            *move = (Move){{to.space, to.cta, to.at + n * size}, {-1, NULL, 0}, size, 0};
        }
    }
}
static void run_stores(Machine *machine, const Transfer *given, int slots)
{
    const uint8_t *bytes = (const uint8_t *)&given->moves[slots];
    for (int n = 0; n < given->count; n++) {
        const Move *move = &given->moves[n];
        uint8_t state[8];
        memset(state, bytes[16 * n + 8], 8);
        write_many(machine, move->to.space, move->to.cta, move->to.at, move->count, bytes + 16 * n,
                   state);
    }
}

static void run_box(Machine *machine, const Transfer *given);
static void run_product(Machine *machine, Operation *o);
static void run_tensor_work(Machine *machine, Operation *o);

static void free_transfer(Operation *o)
{
    Transfer *given = o->transfer;
    if (!given) return;
    Tile *tile = given->product.tile;
    if (tile && !--tile->references) {
        free(tile->values);
        free(tile->unknown);
        free(tile);
    }
    free(given->product.fragments);
    free(given->moves);
    free(given);
    o->transfer = NULL;
}
/* Move what a complete operation moves. 0: the domain does not compute it. */
static int transfer(Machine *machine, Operation *o)
{
    if (!o->transfer) return 0;
    switch (o->transfer->kind) {
    case MOVES:
        if (o->kind == OP_STORE)
            run_stores(machine, o->transfer,
                       32 * (machine->code->steps[o->instruction].arg_count - 2));
        else
            run_moves(machine, o->transfer);
        break;
    case BOX_IN: case BOX_OUT: run_box(machine, o->transfer); break;
    case PRODUCT: run_product(machine, o); break;
    default: run_tensor_work(machine, o); break;
    }
    free_transfer(o);
    return 1;
}
