/* Block-scaled products: a scale for each block along K of a row of A and of a column of B.

   Sources: PTX, "Block Scaling", "Instruction descriptor"; the exact sums: MMA-Sim,
   arXiv:2511.10909. The scale of row r for block j is byte `first + j` of the 32-bit column r / 32
   in lane r % 32 of each quarter of tensor memory, as tcgen05.cp.32x128b.warpx4 leaves it. One
   that a quarter lacks, or holds differently, is unknown. */
typedef struct { int format, blocks, each, first[2]; } Scales; /* blocks of `each` along K */

static int scale_at(Cta *cta, const Scales *s, uint64_t address, int side, int row, int block,
                    uint8_t *found)
{
    CtaNumbers *own = tensor_memory(cta);
    for (int quarter = 0; quarter < 4; quarter++) {
        int64_t at = cell_at(32 * quarter + row % 32, (int64_t)(address & 0xFFFF) + row / 32);
        if (at < 0 || !own->tensor_known[at]) return 0;
        uint8_t byte = (uint8_t)(own->tensor[at] >> 8 * (s->first[side] + block));
        if (quarter && byte != *found) return 0;
        *found = byte;
    }
    return 1;
}
/* The scales of `count` rows or columns from `first` on; flags of those with an unknown one. */
static Split *scales_of(Cta *cta, const Scales *s, uint64_t address, int side, int first, int count,
                        uint8_t *unknown)
{
    Split *made = zeroed((size_t)(count * s->blocks), sizeof(Split));
    for (int row = 0; row < count; row++)
        for (int block = 0; block < s->blocks; block++) {
            uint8_t bits = 0;
            Split *split = &made[row * s->blocks + block];
            if (!scale_at(cta, s, address, side, first + row, block, &bits)) unknown[row] = 1;
            else if (s->format == UE8M0) *split = (Split){1, bits - 127, bits == 255 ? 2 : 0};
            else *split = split_number((float)decode_number(bits & 0x7F, E4M3), E4M3);
        }
    return made;
}
static float scale_value(Split scale, int format)
{
    if (scale.special) return NAN;
    return (float)ldexp((double)scale.whole, scale.exponent - formats[format].fraction_bits);
}
/* Products of 32: each is a term. Of 64: sixteen are summed first, in units of a quarter. */
static float exact_scaled_element(const Split *a, const Split *b, int64_t b_step, int depth,
                                  float before, const titan_form *m, const Scales *s,
                                  const Split *left, const Split *right)
{
    int single = depth == 32, kept = single ? 25 : 35, terms = 0, nan, positive, negative;
    int fraction = 2 * formats[s->format].fraction_bits +
                   (single ? formats[m->a].fraction_bits + formats[m->b].fraction_bits : 2);
    int64_t wholes[32], total;
    int exponents[32];
    Split c = split_number(before, F32);
    int largest = c.exponent;
    nan = c.special == 2;
    positive = c.special == 1;
    negative = c.special == -1;
    for (int k = 0; k < depth; k += single ? 1 : 16, terms++) {
        Split l = left[k / s->each], r = right[k / s->each];
        int64_t sum = 0;
        int exponent = l.exponent + r.exponent;
        for (int n = k; n < k + (single ? 1 : 16); n++) {
            Split x = a[n], y = b[n * b_step];
            int minus = (x.special < 0 || x.whole < 0) != (y.special < 0 || y.whole < 0);
            if (x.special || y.special) {
                if (x.special == 2 || y.special == 2 || (!x.special && !x.whole) ||
                    (!y.special && !y.whole))
                    nan = 1;
                else if (minus) negative = 1;
                else positive = 1;
            }
            if (single) exponent += x.exponent + y.exponent;
            sum += x.whole * y.whole * (single || !x.whole || !y.whole
                                            ? 1 : (int64_t)1 << (x.exponent + y.exponent));
        }
        nan |= l.special || r.special;
        wholes[terms] = sum * l.whole * r.whole;
        exponents[terms] = exponent;
        if (exponent > largest) largest = exponent;
    }
    uint32_t bits = 0x7FFFFFFF;
    if (nan || (positive && negative)) return to_f32(bits, 0);
    if (positive || negative) return to_f32(negative ? 0xFF800000 : 0x7F800000, 0);
    total = aligned(c.whole, c.exponent - largest + kept - formats[F32].fraction_bits);
    for (int n = 0; n < terms; n++)
        total += aligned(wholes[n], exponents[n] - largest + kept - fraction);
    bits = truncated(total, largest - kept, formats[F32].fraction_bits);
    return to_f32(bits, 0);
}
/* tile += a times b, each with its scales; otherwise as multiply_tile. */
static void multiply_scaled(Machine *machine, const titan_form *m, const Scales *s, Tile *tile,
                            float *a, const uint8_t *a_unknown, const float *b,
                            const uint8_t *b_unknown, const Split *left, const Split *right)
{
    int64_t stride = tile->columns, depth = m->depth;
    for (int n = 0; (m->negate_a != m->negate_b) && n < 16 * depth; n++) a[n] = -a[n];
    if (!machine->numbers->shared->given->exact) {
        float *scaled = zeroed((size_t)(stride * depth), sizeof(float));
        for (int64_t k = 0; k < depth; k++) {
            for (int row = 0; row < 16; row++)
                a[row * depth + k] *= scale_value(left[row * s->blocks + k / s->each], s->format);
            for (int column = 0; column < m->columns; column++)
                scaled[k * stride + column] =
                    b[k * stride + column] *
                    scale_value(right[column * s->blocks + k / s->each], s->format);
        }
        machine_level->multiply_rows(tile->values, a, scaled, stride, (int)depth);
        free(scaled);
    } else {
        Split *rows = room(NULL, (size_t)(16 * depth) * sizeof(Split));
        Split *columns = room(NULL, (size_t)(stride * depth) * sizeof(Split));
        for (int n = 0; n < 16 * depth; n++) rows[n] = split_number(a[n], m->a);
        for (int64_t n = 0; n < stride * depth; n++) columns[n] = split_number(b[n], m->b);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < m->columns; column++) {
                float *c = &tile->values[row * stride + column];
                *c = exact_scaled_element(&rows[row * depth], &columns[column], stride, (int)depth,
                                          *c, m, s, &left[row * s->blocks],
                                          &right[column * s->blocks]);
            }
        free(rows);
        free(columns);
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < m->columns; column++)
            if (a_unknown[row] || b_unknown[column]) mark_unknown(tile, row, column);
}
