/* Boxes of tensors between global and shared memory, when a tensor copy completes (transfers.py).

   Sources: CUDA Driver API, "Tensor Map Object Management"; PTX, "Tensors". Rows of a box lie one
   after the other in shared memory, each 16-byte unit at its swizzled place. */
static int format_of_map(int type)
{
    static const int found[] = {-1, -1, -1, -1, -1, -1, F16, F32, F64, BF16, F32, F32, F32};
    return type < 13 ? found[type] : -1;
}
/* What is copied as one: its elements, their bytes in global memory, and those in shared memory,
   where what pads them is unknown. */
typedef struct { int64_t elements, outer, inner; } Grain;
static Grain grain_of(int type)
{
    int64_t bits = element_bits[type];
    if (bits % 8 == 0) return (Grain){1, bits / 8, bits / 8};
    return type == 13 ? (Grain){2, 1, 1} : (Grain){16, 2 * bits, 16};
}
static int64_t row_elements(const Transfer *given)
{
    return given->mode == M_IM2COL ? given->map->channels : given->map->box[0];
}
static int computable(const titan_map *map, int kind, const Transfer *given)
{
    Grain grain = grain_of(map->data_type);
    if (map->interleave || map->swizzle < 0 || map->swizzle > 3 || given->mode == M_IM2COL_W)
        return 0;
    if ((map->pixels != 0) != (given->mode == M_IM2COL)) return 0;
    if (kind != K_LOAD && grain.inner != grain.outer) return 0;
    return given->at[0] % grain.elements == 0 && row_elements(given) % grain.elements == 0;
}
static void tensor_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                           const titan_map *map, const int64_t *at, const int64_t *offsets,
                           uint64_t shared, int has_mask, uint64_t mask, Operation *o)
{
    int kind = (int)FLAG(s, 0), adds = kind == K_REDUCE;
    const titan_form *m = form_at(machine, fragment->pc);
    Transfer asked = {.map = map, .mode = (int)FLAG(s, 2)};
    memcpy(asked.at, at, sizeof asked.at);
    int count = s->arg_count - 4 - (int)FLAG(s, 7);
    for (int n = 0; n < count && n < 3; n++) asked.offsets[n] = offsets[n];
    if (!computable(map, kind, &asked)) return;
    if (adds && (m->function != FORM_SUM || element_bits[map->data_type] % 8)) return;
    Transfer *made = new_transfer(o, kind == K_LOAD ? BOX_IN : BOX_OUT);
    made->map = map;
    made->mode = asked.mode;
    memcpy(made->at, asked.at, sizeof made->at);
    memcpy(made->offsets, asked.offsets, sizeof made->offsets);
    if (adds) { /* elements are those of the map */
        made->sum = *m;
        made->sum.format = made->sum.source = format_of_map(map->data_type);
        made->sum.bits = element_bits[map->data_type];
        made->sum.is_signed = map->data_type == 3 || map->data_type == 5;
        made->form = &made->sum;
    }
    if (has_mask) {
        Cluster *cluster = fragment->warp->cta->cluster;
        for (int r = 0; r < cluster->cta_count; r++)
            if (mask >> r & 1)
                made->places[made->count++] =
                    (Target){SHARED, &cluster->ctas[r], (int64_t)(shared & OFFSET_MASK)};
    } else {
        made->count = target_of(fragment->warp, SHARED, shared, made->places);
    }
}
/* A run of grains out of global memory, each with what pads it. */
static void read_grains(Machine *machine, Grain grain, int64_t at, int64_t count, uint8_t *data,
                        uint8_t *state)
{
    if (grain.outer == grain.inner) {
        read_many(machine, GLOBAL, NULL, at, count, data, state);
        return;
    }
    memset(data, 0, (size_t)count);
    memset(state, OPAQUE_BYTE, (size_t)count);
    for (int64_t n = 0; n < count / grain.inner; n++)
        read_many(machine, GLOBAL, NULL, at + n * grain.outer, grain.outer, data + n * grain.inner,
                  state + n * grain.inner);
}
/* Words as a load brings them: rounded to tf32, or subnormals as zeros, where the type says so. */
static void round_words(int type, uint8_t *data, uint8_t *state, int64_t count)
{
    int flushes = type == 10 || type == 12, rounds = type == 11 || type == 12;
    if (!flushes && !rounds) return;
    for (int64_t n = 0; n + 4 <= count; n += 4) {
        uint32_t bits, exponent = 0x7F800000;
        memcpy(&bits, data + n, 4);
        if (!all_known(state + n, 4)) memset(state + n, OPAQUE_BYTE, 4);
        if (flushes && !(bits & exponent)) bits &= 0x80000000;
        if (rounds && (bits & exponent) != exponent)
            bits = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000;
        memcpy(data + n, &bits, 4);
    }
}
/* Bytes that stay together: `at` in global memory, or outside of the tensor. */
static void move_run(Machine *machine, const Transfer *given, int64_t shared, int64_t at,
                     int64_t count, int inside)
{
    static const int widths[] = {16, 32, 64, 128};
    int64_t pattern = widths[given->map->swizzle] / 16 - 1;
    uint8_t data[2048], state[2048], old[32], old_state[32];
    if (given->kind == BOX_IN) {
        int format = format_of_map(given->map->data_type);
        int64_t size = element_bits[given->map->data_type] / 8;
        if (!size) size = 1;
        uint64_t fill_value = given->map->fill && format >= 0 ? nan_of(format)
                                                              : 0;
        if (inside) {
            read_grains(machine, grain_of(given->map->data_type), at, count, data, state);
            round_words(given->map->data_type, data, state, count);
        } else {
            for (int64_t n = 0; n < count; n += size) memcpy(data + n, &fill_value, (size_t)size);
            memset(state, KNOWN, (size_t)count);
        }
    } else if (!inside) {
        return;
    }
    for (int k = 0; k < given->count; k++) {
        const Target *place = &given->places[k];
        for (int64_t done = 0; done < count;) {
            int64_t to = place->at + shared + done, piece = 16 - to % 16;
            if (piece > count - done) piece = count - done;
            to ^= (to >> 7 & pattern) << 4;
            if (given->kind == BOX_IN) {
                if (place->cta && to >= 0 && to + piece <= place->cta->shared.size) {
                    memcpy(place->cta->shared.data + to, data + done, (size_t)piece);
                    memcpy(place->cta->shared.state + to, state + done, (size_t)piece);
                }
            } else {
                read_many(machine, SHARED, place->cta, to, piece, data, state);
                if (given->form) {
                    read_many(machine, GLOBAL, NULL, at + done, piece, old, old_state);
                    add_elements(given->form, old, old_state, data, state, piece);
                }
                write_many(machine, GLOBAL, NULL, at + done, piece, data, state);
            }
            done += piece;
        }
    }
}
/* The rows of a box, one after the other. */
typedef struct { int64_t row, place[3], batch; } Walk;

static int64_t rows_in(const Transfer *given)
{
    const titan_map *map = given->map;
    if (given->mode == M_IM2COL) return map->pixels;
    if (given->mode == M_GATHER || given->mode == M_SCATTER) return 4;
    int64_t rows = 1;
    for (int d = 1; d < map->rank; d++) rows *= ceiling(map->box[d], map->element_strides[d]);
    return rows;
}
/* Where the next row begins in global memory; 0 where it is outside of the tensor. */
static int next_row(const Transfer *given, Walk *walk, int64_t *at)
{
    const titan_map *map = given->map;
    int inside = 1, rank = map->rank;
    int64_t rest = walk->row++;
    *at = map->base;
    if (given->mode == M_GATHER || given->mode == M_SCATTER) {
        *at += given->at[1 + rest] * map->stride_bytes[0];
        return given->at[1 + rest] >= 0 && given->at[1 + rest] < map->dimensions[1];
    }
    if (given->mode != M_IM2COL) {
        for (int d = 1; d < rank; d++) {
            int64_t each = ceiling(map->box[d], map->element_strides[d]);
            int64_t index = given->at[d] + rest % each * map->element_strides[d];
            rest /= each;
            inside = inside && index >= 0 && index < map->dimensions[d];
            *at = (int64_t)((uint64_t)*at + (uint64_t)index * (uint64_t)map->stride_bytes[d - 1]);
        }
        return inside;
    }
    if (!rest) {
        for (int i = 0; i < rank - 2; i++) walk->place[i] = given->at[i + 1];
        walk->batch = given->at[rank - 1];
    }
    inside = walk->batch >= 0 && walk->batch < map->dimensions[rank - 1];
    *at += walk->batch * map->stride_bytes[rank - 2];
    for (int i = 0; i < rank - 2; i++) {
        int64_t index = walk->place[i] + given->offsets[i];
        inside = inside && index >= 0 && index < map->dimensions[i + 1];
        *at += index * map->stride_bytes[i];
    }
    int i = 0; /* pixels go through the bounding box of the filter's base, W first */
    for (; i < rank - 2; i++) {
        walk->place[i] += map->element_strides[i + 1];
        if (walk->place[i] < map->dimensions[i + 1] + map->upper[i]) break;
        walk->place[i] = map->lower[i];
    }
    walk->batch += i == rank - 2;
    return inside;
}
static void run_box(Machine *machine, const Transfer *given)
{
    const titan_map *map = given->map;
    Grain grain = grain_of(map->data_type);
    int64_t rows = rows_in(given), width = row_elements(given) / grain.elements;
    int64_t begin = given->at[0] / grain.elements, size = grain.inner;
    Walk walk = {0};
    for (int k = 0; given->kind == BOX_IN && k < given->count; k++)
        if (given->places[k].cta)
            touch(machine, given->places[k].cta, given->places[k].at, rows * width * size);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at, place = row * width * size;
        int inside = next_row(given, &walk, &at);
        int64_t low = begin < 0 ? -begin : 0;
        int64_t high = ceiling(map->dimensions[0], grain.elements) - begin;
        if (low > width) low = width;
        if (high < low) high = low;
        if (high > width) high = width;
        if (!inside) low = high = width;
        if (low) move_run(machine, given, place, 0, low * size, 0);
        if (high > low)
            move_run(machine, given, place + low * size, at + (begin + low) * grain.outer,
                     (high - low) * size, 1);
        if (high < width)
            move_run(machine, given, place + high * size, 0, (width - high) * size, 0);
    }
}
