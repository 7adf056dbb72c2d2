/* What floating-point forms compute, on bits (functions.py). `.approx` and `.full` forms are
   computed in binary64 and rounded once. */

/* 2 ** x to within 2 ** -50 of itself: a polynomial in [-1/2, 1/2], then the exponent. */
INLINE double power(double x)
{
    double clipped = x > 1025 ? 1025 : x < -1000 ? -1000 : x;
    double shifted = clipped + 0x1.8p52, whole = shifted - 0x1.8p52, f = clipped - whole;
    double r = 1.7849142862302073e-12; /* ln(2) ** k / k!, k from 13 down */
    r = r * f + 2.5678435993488206e-11;
    r = r * f + 4.4455382718708116e-10;
    r = r * f + 7.054911620801123e-09;
    r = r * f + 1.0178086009239699e-07;
    r = r * f + 1.3215486790144309e-06;
    r = r * f + 1.5252733804059841e-05;
    r = r * f + 0.00015403530393381608;
    r = r * f + 0.0013333558146428443;
    r = r * f + 0.009618129107628477;
    r = r * f + 0.05550410866482158;
    r = r * f + 0.24022650695910072;
    r = r * f + 0.6931471805599453;
    r = r * f + 1.0;
    int64_t exponent = (int64_t)bits_of(shifted) - (int64_t)bits_of(0x1.8p52);
    double half = to_f64((uint64_t)((exponent >> 1) + 1023) << 52);
    double rest = to_f64((uint64_t)(exponent - (exponent >> 1) + 1023) << 52);
    return x != x ? x : r * half * rest;
}
/* binary32 as bfloat16 or binary16, to nearest even. */
INLINE uint32_t nearest_bf16(uint32_t bits)
{
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded;
}
INLINE uint32_t nearest_f16(uint32_t bits)
{
    uint32_t sign_bit = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    uint32_t normal = (size - (112u << 23) + 0xFFF + (size >> 13 & 1)) >> 13;
    float small_number; /* below 2 ** -14: the sum has its last place at 2 ** -24 */
    memcpy(&small_number, &size, 4);
    small_number += 0.5f;
    uint32_t small_bits;
    memcpy(&small_bits, &small_number, 4);
    uint32_t found = size < (113u << 23) ? small_bits - 0x3F000000 : normal;
    found = size >= 0x477FF000 ? 0x7C00 : found;
    return size > 0x7F800000 ? 0x7FFF : sign_bit | found;
}
static double unary(int function, double x)
{
    switch (function) {
    case FORM_EX2: return x >= 1024 ? INFINITY : x < -1100 ? 0 : power(x);
    case FORM_LG2: return x == 0 ? -INFINITY : x < 0 ? NAN : log2(x);
    case FORM_RCP: return x == 0 ? copysign(INFINITY, x) : odd_quotient(1.0, x);
    case FORM_SQRT: {
        double root = x == 0 ? x : x < 0 ? NAN : sqrt(x);
        return x > 0 && isfinite(x) ? made_odd(root, fma(-root, root, x)) : root;
    }
    case FORM_RSQRT: return x == 0 ? copysign(INFINITY, x) : x < 0 ? NAN : 1.0 / sqrt(x);
    case FORM_SIN: return isinf(x) ? NAN : sin(x);
    case FORM_COS: return isinf(x) ? NAN : cos(x);
    default: return tanh(x);
    }
}
INLINE double operand_of(uint64_t bits, int which, int flush)
{
    return decode_number(flush ? flushed(bits, which) : bits, which);
}
static uint64_t extremum(const titan_form *m, const uint64_t *v, int count)
{
    int which = m->format, largest = m->function == FORM_MAX;
    uint64_t best = m->flush ? flushed(v[0], which) : v[0];
    for (int n = 1; n < count; n++) {
        uint64_t next = m->flush ? flushed(v[n], which) : v[n];
        double a = decode_number(best, which), b = decode_number(next, which);
        if (a != a || b != b) best = m->nan || (a != a && b != b) ? nan_of(which)
                                     : a != a ? next : best;
        else if (a == b) best = (largest ? !signbit(a) || signbit(b) : signbit(a) || !signbit(b))
                                    ? best : next;
        else best = (largest ? a > b : a < b) ? best : next;
    }
    return best;
}
enum { MAGNITUDES = 1, SIGNS_MULTIPLIED };
/* .abs, and .xorsign.abs */
static uint64_t of_magnitudes(const titan_form *m, const uint64_t *v, int count)
{
    uint64_t top = 1ull << (formats[m->format].bits - 1), sizes[3], signs = 0;
    for (int n = 0; n < count; n++) { sizes[n] = v[n] & ~top; signs ^= v[n] & top; }
    uint64_t best = extremum(m, sizes, count);
    double number = decode_number(best, m->format);
    return m->word == SIGNS_MULTIPLIED && number == number ? best | signs : best;
}
static uint64_t finished(const titan_form *m, double value, int which)
{
    uint64_t bits = encode_number(value, which, m->mode, m->saturate == TO_FINITE);
    if (m->flush) bits = flushed(bits, which);
    if (m->saturate == TO_UNIT) {
        double number = decode_number(bits, which);
        double clamped = !(number > 0) ? 0.0 : number > 1 ? 1.0 : number;
        bits = encode_number(clamped, which, TO_NEAREST, 0);
    }
    if (m->relu && bits >> (formats[which].bits - 1)) {
        double number = decode_number(bits, which);
        bits = number != number ? bits : 0;
    }
    return bits;
}
/* An operation on numbers of one format; `source` is that of the first operands in mixed forms. */
static uint64_t float_function(const titan_form *m, const uint64_t *v, int count)
{
    int which = m->format, flush = m->flush;
    uint64_t top = 1ull << (formats[which].bits - 1);
    switch (m->function) {
    case FORM_NEG: return (flush ? flushed(v[0], which) : v[0]) ^ top;
    case FORM_ABS: return (flush ? flushed(v[0], which) : v[0]) & ~top;
    case FORM_COPYSIGN: return (v[0] & top) | (v[1] & ~top);
    case FORM_MIN: case FORM_MAX:
        return m->word ? of_magnitudes(m, v, count) : extremum(m, v, count);
    default: break;
    }
    double a = operand_of(v[0], m->source, flush && m->source == which);
    if (m->function >= FORM_EX2) return finished(m, unary(m->function, a), which);
    int mixed = m->source != which, fused = m->function == FORM_FMA;
    double b = mixed && !fused ? operand_of(v[1], which, flush)
                               : operand_of(v[1], m->source, flush && !mixed);
    double c = fused ? operand_of(v[2], which, flush) : 0;
    if (which == F64) {
        switch (m->function) {
        case FORM_ADD: return of_f64(a + b);
        case FORM_SUB: return of_f64(a - b);
        case FORM_MUL: return of_f64(a * b);
        case FORM_DIV: return of_f64(a / b);
        default: return of_f64(fma(a, b, c));
        }
    }
    switch (m->function) {
    case FORM_ADD: return finished(m, odd_sum(a, b), which);
    case FORM_SUB: return finished(m, odd_sum(a, -b), which);
    case FORM_MUL: return finished(m, a * b, which); /* exact in binary64 */
    case FORM_DIV: return finished(m, odd_quotient(a, b), which);
    default: return finished(m, odd_sum(a * b, c), which);
    }
}
static uint64_t to_integer(const titan_form *m, uint64_t bits)
{
    double number = operand_of(bits, m->source, m->flush);
    double low = m->is_signed ? -ldexp(1.0, m->bits - 1) : 0;
    double high = ldexp(1.0, m->is_signed ? m->bits - 1 : m->bits); /* one more than the largest */
    if (number != number) return 0;
    switch (m->mode) {
    case TO_NEAREST: number = nearbyint(number); break;
    case DOWN: number = floor(number); break;
    case UP: number = ceil(number); break;
    default: number = trunc(number); break;
    }
    if (number >= high) return mask_of(m->is_signed ? m->bits - 1 : m->bits);
    if (number <= low) return m->is_signed ? 1ull << (m->bits - 1) : 0;
    return (number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number) & mask_of(m->bits);
}
static uint64_t from_integer(const titan_form *m, uint64_t bits)
{
    uint64_t value = bits & mask_of(m->bits);
    int negative = m->is_signed && sign(value, m->bits) < 0;
    uint64_t size = negative ? (0 - (uint64_t)sign(value, m->bits)) : value;
    uint64_t high = size >> 32 << 32, low = size & 0xFFFFFFFFu;
    double number = odd_sum((double)high, (double)low); /* each is exact */
    if (m->format == F64) number = (double)size;
    return encode_number(negative ? -number : number, m->format, m->mode, 0);
}
static uint64_t between(const titan_form *m, uint64_t bits)
{
    double number = operand_of(bits, m->source, m->flush);
    if (m->word && isfinite(number)) { /* rounded to an integer first */
        static double (*const rounded[])(double) = {nearbyint, trunc, floor, ceil};
        number = copysign(rounded[m->word - 1](number), number);
    }
    uint64_t found = encode_number(number, m->format, m->mode, m->saturate == TO_FINITE);
    if (m->saturate == TO_UNIT) {
        double made = decode_number(found, m->format);
        found = encode_number(!(made > 0) ? 0.0 : made > 1 ? 1.0 : made, m->format, 0, 0);
    }
    if (m->relu && found >> (formats[m->format].bits - 1) && number == number) found = 0;
    if (m->format == TF32) return found << 13;
    return m->flush && m->format == F32 ? flushed(found, F32) : found;
}
static uint64_t compared(const titan_form *m, uint64_t a, uint64_t b)
{
    uint64_t half = mask_of(formats[m->format].bits);
    double left = decode_number(a & half, m->format), right = decode_number(b & half, m->format);
    int holds = float_compare(m->word, bits_of(left), bits_of(right), 64, 0);
    if (m->packed) { /* p of the lower half, q of the upper one */
        left = decode_number(a >> 16, m->format), right = decode_number(b >> 16, m->format);
        int upper = float_compare(m->word, bits_of(left), bits_of(right), 64, 0);
        return (uint64_t)holds | (uint64_t)upper << 1;
    }
    return (uint64_t)holds | (uint64_t)!holds << 1;
}
/* add, min or max of integers of some bits; with `relu` not below zero. */
static uint64_t integer_of(const titan_form *m, uint64_t a, uint64_t b)
{
    int64_t left = m->is_signed ? sign(a, m->bits) : (int64_t)(a & mask_of(m->bits));
    int64_t right = m->is_signed ? sign(b, m->bits) : (int64_t)(b & mask_of(m->bits));
    int64_t found = !m->word ? left + right : (left < right) == (m->word == 1) ? left : right;
    if (m->relu && found < 0) found = 0;
    return (uint64_t)found & mask_of(m->bits);
}
/* testp: whether a number is of a class; a zero is neither normal nor subnormal. */
static uint64_t tested(const titan_form *m, uint64_t bits)
{
    int exponent_bits = m->format == F64 ? 11 : 8, mantissa_bits = m->format == F64 ? 52 : 23;
    uint64_t mantissa = bits & mask_of(mantissa_bits);
    uint64_t exponent = bits >> mantissa_bits & mask_of(exponent_bits);
    int whole = exponent == mask_of(exponent_bits);
    switch (m->word) {
    case 0: return !whole;
    case 1: return whole && !mantissa;
    case 2: return !whole || !mantissa;
    case 3: return whole && mantissa;
    case 4: return exponent && !whole;
    default: return !exponent && mantissa;
    }
}
/* dp4a and dp2a: `rows` products, the second factors bytes from bit `bits` on. */
static uint64_t dot_of(const titan_form *m, const uint64_t *v)
{
    int bits = 32 / m->rows;
    uint64_t total = v[2];
    for (int n = 0; n < m->rows; n++) {
        uint64_t left = v[0] >> bits * n & mask_of(bits), right = v[1] >> (m->bits + 8 * n) & 0xFF;
        total += (m->a ? (uint64_t)sign(left, bits) : left) *
                 (m->b ? (uint64_t)sign(right, 8) : right);
    }
    return total & mask_of(32);
}
/* cvt.pack: two integers clamped to fewer bits, above them the lower bits of a third. */
static uint64_t packed_integers(const titan_form *m, const uint64_t *v)
{
    int64_t low = m->is_signed ? -(1ll << (m->bits - 1)) : 0, high = low + (1ll << m->bits) - 1;
    uint64_t found = m->bits < 16 ? v[2] << 2 * m->bits : 0;
    for (int n = 0; n < 2; n++) {
        int64_t value = sign(v[n] & mask_of(32), 32);
        value = value < low ? low : value > high ? high : value;
        found |= ((uint64_t)value & mask_of(m->bits)) << (n ? 0 : m->bits);
    }
    return found & mask_of(32);
}
/* One lane of a form: as many values as the instruction has sources. */
static uint64_t form_of(const titan_form *m, const uint64_t *v, int count)
{
    int bits = formats[m->format].bits;
    titan_form one = *m;
    switch (m->function) {
    case FORM_CONVERT: return between(m, v[0]);
    case FORM_TO_INTEGER: return to_integer(m, v[0]);
    case FORM_FROM_INTEGER: return from_integer(m, v[0]);
    case FORM_COMPARE: return compared(m, v[0], v[1]);
    case FORM_TEST: return tested(m, v[0]);
    case FORM_DOT: return dot_of(m, v);
    case FORM_PACK_INTEGERS: return packed_integers(m, v);
    case FORM_INTEGER: {
        uint64_t low = integer_of(m, v[0], v[1]);
        return m->packed ? low | integer_of(m, v[0] >> 16, v[1] >> 16) << 16 : low;
    }
    case FORM_PACK: { /* the first goes to the upper half */
        uint64_t upper = between(m, v[0]), lower = between(m, v[1]);
        return upper << (bits < 8 ? 4 : bits) | lower;
    }
    case FORM_UNPACK: {
        int wide = formats[m->source].bits, half = wide < 8 && m->source == E2M1 ? 4 : 8;
        uint64_t lower = between(m, v[0] & mask_of(wide));
        return lower | between(m, v[0] >> half & mask_of(wide)) << bits;
    }
    default: break;
    }
    if (!m->packed) return float_function(m, v, count);
    uint64_t low[3] = {0}, high[3] = {0};
    one.packed = 0;
    for (int n = 0; n < count && n < 3; n++) {
        low[n] = v[n] & mask_of(bits);
        high[n] = v[n] >> bits & mask_of(bits);
    }
    return float_function(&one, low, count) | float_function(&one, high, count) << bits;
}
static const titan_form *form_at(const Machine *machine, int32_t pc)
{
    return &machine->numbers->shared->given->forms[pc];
}
/* An instruction with a form. 1 where it has one; unknown sources give an unknown result. */
static int compute_form(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    const titan_form *m = form_at(machine, fragment->pc);
    Warp *warp = fragment->warp;
    Value result = {.uniform = 1, .opaque = 0};
    int count = s->arg_count < 3 ? s->arg_count : 3;
    if (m->function == FORM_CLOCK) { /* warp instructions of the cluster; `word`: bits to drop */
        uint64_t count = (uint64_t)machine->count >> m->word & mask_of(m->bits);
        put_number(warp, OUT(s, 0), count, mask, 0);
        return 1;
    }
    if (!m->function || m->function >= FORM_MATRIX) return 0;
    for (int i = 0; i < count; i++) result.uniform &= warp->registers[ARG(s, i)].uniform;
    for (uint32_t left = result.uniform ? 1 : mask; left; left &= left - 1) {
        int lane = first_lane(left);
        uint64_t v[3] = {0, 0, 0}, site = 0;
        for (int i = count - 1; i >= 0; i--) {
            const Value *value = &warp->registers[ARG(s, i)];
            v[i] = lane_value(value, lane);
            if (!lane_opaque(value, lane)) continue;
            result.opaque |= 1u << lane;
            site = v[i];
        }
        result.v[lane] = result.opaque >> lane & 1 ? site : form_of(m, v, count);
    }
    if (!result.uniform)
        for (int lane = 0; lane < 32; lane++)
            if (!(mask >> lane & 1)) result.v[lane] = 0;
    for (int i = 0; i < s->out_count; i++) {
        Value part = result;
        if (m->function == FORM_COMPARE)
            for (int lane = 0; lane < (part.uniform ? 1 : 32); lane++)
                if (!(part.opaque >> lane & 1)) part.v[lane] = part.v[lane] >> i & 1;
        put(warp, OUT(s, i), &part, mask, 0);
    }
    return 1;
}
static int float_atomic(Machine *machine, const titan_step *s, int operation, uint64_t old,
                        uint64_t given, uint64_t *result)
{
    const titan_form *m = form_at(machine, (int32_t)(s - machine->code->steps));
    uint64_t v[2] = {old, given};
    if (m->function != FORM_ATOMIC) return 0;
    titan_form one = *m;
    one.word = 0;
    if (operation == A_ADD) one.function = FORM_ADD;
    else if (operation == A_MIN) one.function = FORM_MIN;
    else if (operation == A_MAX) one.function = FORM_MAX;
    else return 0;
    *result = form_of(&one, v, 2);
    return 1;
}
static int redux_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[ARG(s, 0)];
    titan_form one = *form_at(machine, fragment->pc);
    uint64_t v[2] = {0, 0};
    int first = 1, absolute = one.word;
    if (one.function != FORM_REDUX) return 0;
    one.function = FLAG(s, 0) == A_MIN ? FORM_MIN : FORM_MAX;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        if (lane_opaque(value, lane)) return 0;
        v[first ? 0 : 1] = lane_value(value, lane) & (absolute ? 0x7FFFFFFFu : 0xFFFFFFFFu);
        if (!first) v[0] = extremum(&one, v, 2);
        first = 0;
    }
    put_number(warp, OUT(s, 0), v[0], mask, 0);
    return 1;
}
