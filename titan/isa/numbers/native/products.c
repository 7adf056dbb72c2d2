/* Products of matrices: operands in shared memory, fragments in registers (matrices.py). */
struct Operand { /* an operand of shared memory as binary32, kept while its bytes stay */
    Descriptor d;
    int extent, depth, mn_major, format;
    int64_t stride, low, high; /* of `values` from k to k + 1; the bytes that it was made of */
    uint32_t stamp;
    float *values;
    uint8_t *unknown; /* of each row; NULL: all are known */
};
static float small_numbers[FORMATS][256]; /* of the 8-bit formats and narrower ones */

static void fill_tables(void)
{
    for (int which = 0; which < FORMATS; which++)
        for (uint64_t bits = 0; formats[which].bits <= 8 && bits < 256; bits++)
            small_numbers[which][bits] =
                (float)decode_number(bits & mask_of(formats[which].bits), which);
}
static int stored_bytes(int which)
{
    return which == TF32 || which == F32 ? 4 : formats[which].bits > 8 ? 2 : 1;
}
static float element_at(const uint8_t *bytes, int which)
{
    uint32_t word_ = 0;
    switch (which) {
    case BF16: memcpy((uint8_t *)&word_ + 2, bytes, 2); return to_f32(word_, 0);
    case F16: memcpy(&word_, bytes, 2); return (float)decode_number(word_, F16);
    case TF32: memcpy(&word_, bytes, 4); return to_f32(word_ & 0xFFFFE000u, 0);
    case F32: memcpy(&word_, bytes, 4); return to_f32(word_, 0);
    default: return small_numbers[which][*bytes];
    }
}
/* Elements in 16 bytes of shared memory, and the bits from one to the next. Those of 4 and 6 bits
   are packed at the start of the 16 bytes (PTX, "Packing formats of shared memory"). */
static int unit_elements(int which) { return which == E2M1_PAIRS ? 32 : 16 / stored_bytes(which); }
static int unit_step(int which)
{
    return formats[which].bits < 8 ? formats[which].bits : 8 * stored_bytes(which);
}
static float unit_element(const uint8_t *unit, int which, int e)
{
    int step = unit_step(which), at = e * step;
    if (step >= 8) return element_at(unit + at / 8, which);
    uint32_t word_ = unit[at / 8];
    if (at % 8 + step > 8) word_ |= (uint32_t)unit[at / 8 + 1] << 8;
    return small_numbers[which][word_ >> at % 8 & mask_of(step)];
}
static void convert_unit(const uint8_t *bytes, int which, float *out, int64_t step)
{
    int count = unit_elements(which);
    if (which == BF16)
        for (int e = 0; e < 8; e++) {
            uint32_t word_ = (uint32_t)bytes[2 * e] << 16 | (uint32_t)bytes[2 * e + 1] << 24;
            memcpy(&out[e * step], &word_, 4);
        }
    else
        for (int e = 0; e < count; e++) out[e * step] = unit_element(bytes, which, e);
}
static int64_t unit_address(const Descriptor *d, int mn_major, int64_t unit, int64_t other)
{
    int64_t at, per = d->width / 16, mask = per - 1;
    if (!mn_major)
        at = d->start + other % 8 * d->width + other / 8 * d->stride +
             unit * (d->width == 16 ? d->leading : 16);
    else if (d->width == 16)
        at = d->start + unit * d->stride + other % 8 * 16 + other / 8 * d->leading;
    else
        at = d->start + unit % per * 16 + unit / per * d->leading + other % 8 * d->width +
             other / 8 * d->stride;
    return at ^ ((at >> 7 & mask) << 4);
}
static void convert_operand(const Cta *cta, Operand *o)
{
    int per = unit_elements(o->format), step = unit_step(o->format), used = per * step / 8;
    int64_t units = (o->mn_major ? o->extent : o->depth) / per;
    int64_t others = o->mn_major ? o->depth : o->extent;
    o->low = INT64_MAX;
    o->high = 0;
    for (int64_t other = 0; other < others; other++)
        for (int64_t unit = 0; unit < units; unit++) {
            int64_t at = unit_address(&o->d, o->mn_major, unit, other);
            int known = at >= 0 && at + 16 <= cta->shared.size &&
                        all_known(cta->shared.state + at, used);
            int64_t row = o->mn_major ? unit * per : other, k = o->mn_major ? other : unit * per;
            if (at < o->low) o->low = at;
            if (at + 16 > o->high) o->high = at + 16;
            if (known) {
                convert_unit(cta->shared.data + at, o->format,
                             &o->values[k * o->stride + row], o->mn_major ? 1 : o->stride);
                continue;
            }
            if (!o->unknown) o->unknown = zeroed((size_t)o->extent, 1);
            for (int e = 0; e < per; e++) {
                int64_t place = at + e * step / 8, size = (e * step % 8 + step + 7) / 8;
                int64_t r = o->mn_major ? row + e : row, c = o->mn_major ? k : k + e;
                float *out = &o->values[c * o->stride + r];
                *out = 0;
                if (place >= 0 && place + size <= cta->shared.size &&
                    all_known(cta->shared.state + place, size))
                    *out = unit_element(cta->shared.data + at, o->format, e);
                else
                    o->unknown[r] = 1;
            }
        }
}
static int is_fresh(const Cta *cta, const Operand *o)
{
    if (o->low < 0 || o->high > cta->shared.size) return 0;
    for (int64_t n = o->low >> STAMP_BITS; n <= (o->high - 1) >> STAMP_BITS; n++)
        if (cta->numbers->stamps[n] > o->stamp) return 0;
    return 1;
}
/* An operand, converted unless it was before and its bytes are the same. `other` is the second
   operand of the product: what replaces an old one leaves it alone. */
static const Operand *shared_matrix(Machine *machine, Cta *cta, const Descriptor *d, int extent,
                                    int depth, int mn_major, int format, const Operand *other)
{
    CtaNumbers *own = cta->numbers;
    if (!own->operands) own->operands = zeroed(OPERANDS, sizeof(Operand));
    for (int n = 0; n < OPERANDS; n++) {
        const Operand *o = &own->operands[n];
        if (o->values && o->extent == extent && o->depth == depth && o->mn_major == mn_major &&
            o->format == format && o->d.start == d->start && o->d.leading == d->leading &&
            o->d.stride == d->stride && o->d.width == d->width && is_fresh(cta, o))
            return o;
    }
    if (&own->operands[own->operand_next % OPERANDS] == other) own->operand_next++;
    Operand *o = &own->operands[own->operand_next++ % OPERANDS];
    int64_t stride = (extent + 15) / 16 * 16;
    free(o->unknown);
    if (!o->values || o->depth != depth || o->stride != stride) {
        free(o->values);
        o->values = zeroed((size_t)(stride * depth), sizeof(float));
    }
    *o = (Operand){*d, extent, depth, mn_major, format, stride, 0, 0, machine->numbers->stamp,
                   o->values, NULL};
    if (extent < stride) memset(o->values, 0, (size_t)(stride * depth) * sizeof(float));
    convert_operand(cta, o);
    return o;
}

static void free_cta_numbers(Cta *cta)
{
    CtaNumbers *own = cta->numbers;
    if (!own) return;
    for (int n = 0; own->operands && n < OPERANDS; n++) {
        free(own->operands[n].values);
        free(own->operands[n].unknown);
    }
    free(own->operands);
    free(own->stamps);
    free(own->tensor);
    free(own->tensor_known);
    free(own);
}

/* ------------------------------------------------------------------------------ exact sums */

typedef struct { int64_t whole; int exponent, special; } Split; /* special: 1 infinite, 2 NaN */

/* The number is whole * 2 ** (exponent - fraction bits), the exponent that of its format. */
static Split split_number(float value, int which)
{
    Format form = formats[which];
    uint32_t bits;
    memcpy(&bits, &value, 4);
    int stored = (int)(bits >> 23 & 255), least = 2 - (1 << (form.exponent_bits - 1));
    int64_t fraction = bits & 0x7FFFFF;
    Split found = {0, -126, 0};
    if (stored == 255) {
        found.special = fraction ? 2 : bits >> 31 ? -1 : 1;
        fraction = 0;
        stored = 127;
    }
    if (stored || fraction) {
        int64_t whole = stored ? fraction | 1 << 23 : fraction;
        int exponent = (stored ? stored : 1) - 127, drop = 23 - form.fraction_bits;
        if (exponent < least) {
            drop += least - exponent;
            exponent = least;
        }
        whole = drop > 40 ? 0 : whole >> drop;
        found.whole = bits >> 31 ? -whole : whole;
        if (whole) found.exponent = exponent;
    }
    return found;
}
static int64_t aligned(int64_t value, int shift)
{
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size = shift >= 0 ? size << (shift > 40 ? 40 : shift) : size >> (-shift > 63 ? 63 : -shift);
    return value < 0 ? -(int64_t)size : (int64_t)size;
}
/* total * 2 ** scale as binary32, truncated toward zero to so many fraction bits. */
static uint32_t truncated(int64_t total, int scale, int fraction_bits)
{
    uint64_t size = total < 0 ? 0 - (uint64_t)total : (uint64_t)total;
    if (!size) return 0;
    int length = 64 - __builtin_clzll(size), exponent = scale + length - 1;
    int drop = length - 1 - fraction_bits;
    if (-126 - fraction_bits - scale > drop) drop = -126 - fraction_bits - scale;
    if (drop > 0) size = drop > 63 ? 0 : size >> drop << drop;
    int normal = exponent >= -126, place = (normal ? exponent - 23 : -149) - scale;
    size = place >= 0 ? (place > 63 ? 0 : size >> place) : size << (-place > 40 ? 40 : -place);
    uint32_t bits = normal ? ((uint32_t)(exponent + 126) << 23) + (uint32_t)size : (uint32_t)size;
    if (exponent > 127) bits = 0x7F800000;
    return bits | (total < 0 ? 1u << 31 : 0);
}
static float exact_element(const Split *a, const Split *b, int64_t b_step, int depth, float before,
                           const titan_form *m)
{
    int source = m->format == F16 ? F16 : F32, narrow = m->a == E4M3 || m->a == E5M2;
    int kept = narrow && !m->word ? 13 : 25, result = narrow && !m->word ? 13 : 23;
    Split c = split_number(before, source);
    int largest = c.exponent, nan = c.special == 2, positive = c.special == 1;
    int negative = c.special == -1;
    int fraction = formats[m->a].fraction_bits + formats[m->b].fraction_bits;
    for (int k = 0; k < depth; k++) {
        Split x = a[k], y = b[k * b_step];
        int exponent = x.exponent + y.exponent;
        if (!x.whole || !y.whole) exponent = -126;
        if (exponent > largest) largest = exponent;
        if (x.special || y.special) {
            int sign_of = (x.special < 0 || x.whole < 0) != (y.special < 0 || y.whole < 0);
            if (x.special == 2 || y.special == 2 || (!x.special && !x.whole) ||
                (!y.special && !y.whole))
                nan = 1;
            else if (sign_of) negative = 1;
            else positive = 1;
        }
    }
    uint32_t bits = 0x7FFFFFFF;
    if (nan || (positive && negative)) {
    } else if (positive || negative) {
        bits = negative ? 0xFF800000 : 0x7F800000;
    } else {
        int64_t total =
            aligned(c.whole, c.exponent - largest + kept - formats[source].fraction_bits);
        for (int k = 0; k < depth; k++) {
            int64_t product = a[k].whole * b[k * b_step].whole;
            int exponent = product ? a[k].exponent + b[k * b_step].exponent : -126;
            total += aligned(product, exponent - largest + kept - fraction);
        }
        if (m->format == F16)
            return (float)decode_number(
                encode_number(ldexp((double)total, largest - kept), F16, TO_NEAREST, 0), F16);
        bits = truncated(total, largest - kept, result);
    }
    return to_f32(bits, 0);
}

/* --------------------------------------------------------------------------------- products */

static Tile *new_tile(int columns)
{
    Tile *made = zeroed(1, sizeof *made);
    made->references = 1;
    made->columns = (columns + 15) / 16 * 16;
    made->values = zeroed((size_t)(16 * made->columns), sizeof(float));
    return made;
}
static void mark_unknown(Tile *tile, int row, int column)
{
    if (!tile->unknown) tile->unknown = zeroed((size_t)(16 * tile->columns), 1);
    tile->unknown[row * tile->columns + column] = 1;
}
/* Sums of integers: the tile holds their bits. */
static void multiply_integers(const titan_form *m, Tile *tile, const float *a, const float *b)
{
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < m->columns; column++) {
            float *place = &tile->values[row * tile->columns + column];
            int32_t before;
            memcpy(&before, place, 4);
            int64_t total = before;
            for (int k = 0; k < m->depth; k++)
                total += (int64_t)a[row * m->depth + k] * (int64_t)b[k * tile->columns + column];
            if (m->saturate && total > INT32_MAX) total = INT32_MAX;
            if (m->saturate && total < INT32_MIN) total = INT32_MIN;
            uint32_t after = (uint32_t)total;
            memcpy(place, &after, 4);
        }
}
/* tile += a of (16, depth), negated where the form says so, times b of depth rows. */
static void multiply_tile(Machine *machine, const titan_form *m, Tile *tile, float *a,
                          const uint8_t *a_unknown, const float *b, const uint8_t *b_unknown)
{
    int64_t stride = tile->columns;
    for (int n = 0; (m->negate_a != m->negate_b) && n < 16 * m->depth; n++) a[n] = -a[n];
    if (m->format == S32) {
        multiply_integers(m, tile, a, b);
    } else if (!machine->numbers->shared->given->exact) {
        machine_level->multiply_rows(tile->values, a, b, stride, m->depth);
        for (int64_t n = 0; m->format == F16 && n < 16 * stride; n++)
            tile->values[n] = (float)decode_number(
                encode_number((double)tile->values[n], F16, TO_NEAREST, 0), F16);
    } else {
        Split *left = room(NULL, (size_t)(16 * m->depth) * sizeof(Split));
        Split *right = room(NULL, (size_t)(stride * m->depth) * sizeof(Split));
        for (int n = 0; n < 16 * m->depth; n++) left[n] = split_number(a[n], m->a);
        for (int64_t n = 0; n < stride * m->depth; n++) right[n] = split_number(b[n], m->b);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < m->columns; column++) {
                float *c = &tile->values[row * stride + column];
                *c = exact_element(&left[row * m->depth], &right[column], stride, m->depth, *c, m);
            }
        free(left);
        free(right);
    }
    for (int row = 0; (a_unknown || b_unknown) && row < 16; row++)
        for (int column = 0; column < m->columns; column++)
            if ((a_unknown && a_unknown[row]) || (b_unknown && b_unknown[column]))
                mark_unknown(tile, row, column);
}
/* Row and column of an element of C or D: pairs of columns, then rows of 8. */
static void place_of_result(int lane, int number, int *row, int *column)
{
    *row = lane / 4 + 8 * (number >> 1 & 1);
    *column = (number >> 2) << 3 | (lane % 4) << 1 | (number & 1);
}
/* An element of a result of 32 bits: a float, NaN being the one of PTX, or an integer. */
static uint32_t word_of(float value, int which)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return which == S32 ? bits : (uint32_t)of_f32(value, 0);
}
static void result_register(const Tile *tile, int which, int32_t number, Value *value, int64_t site)
{
    value->uniform = 0;
    value->opaque = 0;
    for (int lane = 0; lane < 32; lane++) {
        int row, column, parts = which == F16 ? 2 : 1;
        uint64_t bits = 0;
        for (int e = 0; e < parts; e++) {
            place_of_result(lane, number * parts + e, &row, &column);
            int64_t at = row * tile->columns + column;
            if (tile->unknown && tile->unknown[at]) value->opaque |= 1u << lane;
            if (which == F16)
                bits |= encode_number((double)tile->values[at], F16, TO_NEAREST, 0) << 16 * e;
            else
                bits = word_of(tile->values[at], which);
        }
        value->v[lane] = value->opaque >> lane & 1 ? (uint64_t)site : bits;
    }
}
static void gather_register(Tile *tile, int which, int32_t number, const Value *value)
{
    for (int lane = 0; lane < 32; lane++) {
        int row, column, parts = which == F16 ? 2 : 1;
        uint64_t bits = lane_value(value, lane);
        for (int e = 0; e < parts; e++) {
            place_of_result(lane, number * parts + e, &row, &column);
            if (lane_opaque(value, lane)) mark_unknown(tile, row, column);
            else
                tile->values[row * tile->columns + column] =
                    which == F16 ? (float)decode_number(bits >> 16 * e & 0xFFFF, F16)
                                 : to_f32(bits, 0);
        }
    }
}
/* A of 16 rows from registers: rows of 8, then halves of K; `unknown` has a flag for each row. */
static void gather_rows(const Warp *warp, const titan_step *s, const Machine *machine, int first,
                        int registers, int which, int depth, float *a, uint8_t *unknown)
{
    int size = stored_bytes(which), per = 4 / size;
    for (int n = 0; n < registers; n++) {
        const Value *value = &warp->registers[ARG(s, first + n)];
        for (int lane = 0; lane < 32; lane++) {
            int row = lane / 4 + 8 * (n & 1);
            uint32_t bits = (uint32_t)lane_value(value, lane);
            if (lane_opaque(value, lane)) unknown[row] = 1;
            for (int e = 0; e < per; e++) {
                int k = lane % 4 * per + e + 4 * per * (n >> 1);
                if (k < depth)
                    a[row * depth + k] = element_at((const uint8_t *)&bits + e * size, which);
            }
        }
    }
}
/* B of 8 columns from registers, as depth rows of 16. */
static void gather_columns(const Warp *warp, const titan_step *s, const Machine *machine, int first,
                           int registers, int which, float *b, uint8_t *unknown)
{
    int size = stored_bytes(which), per = 4 / size;
    for (int n = 0; n < registers; n++) {
        const Value *value = &warp->registers[ARG(s, first + n)];
        for (int lane = 0; lane < 32; lane++) {
            uint32_t bits = (uint32_t)lane_value(value, lane);
            if (lane_opaque(value, lane)) unknown[lane / 4] = 1;
            for (int e = 0; e < per; e++)
                b[(lane % 4 * per + e + 4 * per * n) * 16 + lane / 4] =
                    element_at((const uint8_t *)&bits + e * size, which);
        }
    }
}
static int any_of(const uint8_t *flags, int count)
{
    return memchr(flags, 1, (size_t)count) != NULL;
}

/* mma.sync of 16 rows by 8 columns, and movmatrix. */
static void put_results(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                        const Tile *tile, int which)
{
    for (int i = 0; i < s->out_count; i++) {
        Value value;
        result_register(tile, which, i, &value, fragment->pc);
        put(fragment->warp, OUT(s, i), &value, mask, 0);
    }
}
static int move_matrix(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Value given = fragment->warp->registers[ARG(s, 0)], made = {.uniform = 0, .opaque = 0};
    for (int lane = 0; lane < 32; lane++) {
        made.v[lane] = 0;
        for (int e = 0; e < 2; e++) { /* element (row, column) is at lane 4 row + column / 2 */
            int row = lane % 4 * 2 + e, column = lane / 4, from = 4 * row + column / 2;
            made.v[lane] |= (lane_value(&given, from) >> 16 * (column & 1) & 0xFFFF) << 16 * e;
            made.opaque |= (uint32_t)lane_opaque(&given, from) << lane;
        }
    }
    put(fragment->warp, OUT(s, 0), &made, mask, 0);
    return 1;
}
static int collective_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                              uint32_t mask)
{
    const titan_form *m = form_at(machine, fragment->pc);
    Warp *warp = fragment->warp;
    if (m->function == FORM_MOVE_MATRIX) return move_matrix(machine, fragment, s, mask);
    if (m->function != FORM_MATRIX) return 0;
    int bits = 8 * stored_bytes(m->a), a_count = 16 * m->depth * bits / 1024;
    int b_count = 8 * m->depth * bits / 1024;
    if (s->arg_count != a_count + b_count + s->out_count || m->depth > 64) return 0;
    float a[16 * 64], b[64 * 16] = {0};
    uint8_t a_unknown[16] = {0}, b_unknown[8] = {0};
    Tile *tile = new_tile(8);
    gather_rows(warp, s, machine, 0, a_count, m->a, m->depth, a, a_unknown);
    gather_columns(warp, s, machine, a_count, b_count, m->b, b, b_unknown);
    for (int i = 0; i < s->out_count; i++)
        gather_register(tile, m->format, i, &warp->registers[ARG(s, a_count + b_count + i)]);
    multiply_tile(machine, m, tile, a, any_of(a_unknown, 16) ? a_unknown : NULL, b,
                  any_of(b_unknown, 8) ? b_unknown : NULL);
    put_results(machine, fragment, s, mask, tile, m->format);
    free(tile->values);
    free(tile->unknown);
    free(tile);
    return 1;
}
