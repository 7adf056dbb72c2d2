/* What an instruction computes from known numbers (arithmetic.py, floats.py). Inlined with
   constants for its operation it is the body of a loop over the lanes of a warp
   (titan/isa/numbers/native/kernels.c). */
#define INLINE static inline __attribute__((always_inline))
INLINE uint64_t mask_of(int bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }
INLINE int64_t sign(uint64_t value, int bits)
{
    if (bits >= 64) return (int64_t)value;
    uint64_t top = 1ull << (bits - 1);
    value &= mask_of(bits);
    return (int64_t)((value ^ top) - top);
}

/* -------------------------------------------------------------------------------- floats */

INLINE float to_f32(uint64_t value, int flush)
{
    uint32_t bits = (uint32_t)value;
    if (flush && !(bits & 0x7F800000u)) bits &= 0x80000000u;
    float number;
    memcpy(&number, &bits, 4);
    return number;
}
INLINE uint64_t of_f32(float number, int flush)
{
    uint32_t bits;
    if (number != number) return 0x7FFFFFFF;
    memcpy(&bits, &number, 4);
    if (flush && !(bits & 0x7F800000u)) bits &= 0x80000000u;
    return bits;
}
INLINE double to_f64(uint64_t value)
{
    double number;
    memcpy(&number, &value, 8);
    return number;
}
INLINE uint64_t of_f64(double number)
{
    uint64_t bits;
    if (number != number) return 0x7FF8000000000000ull;
    memcpy(&bits, &number, 8);
    return bits;
}
/* An integer of `bits`, clamped; `wide`: one of both has 64 bits, which decides what NaN gives. */
INLINE uint64_t to_integer_of(double number, int mode, int is_signed, int bits, int wide)
{
    uint64_t top = 1ull << (bits - 1), all = mask_of(bits);
    double half = bits == 64 ? 0x1p63 : 0x1p31, low = is_signed ? -half : 0;
    if (number != number) return wide ? top : 0;
    switch (mode) {
    case 0: number = nearbyint(number); break;
    case 1: number = trunc(number); break;
    case 2: number = floor(number); break;
    default: number = ceil(number); break;
    }
    if (number >= (is_signed ? half : 2 * half)) return is_signed ? top - 1 : all;
    if (number <= low) return is_signed ? top : 0;
    return (number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number) & all;
}
INLINE double least(double a, double b)
{
    if (a != a || b != b) return a != a ? b : a;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}
INLINE uint64_t float_operation(int op, int bits, int flush, const uint64_t *v)
{
    if (op == NEG) return v[0] ^ (1ull << (bits - 1));
    if (op == ABS) return v[0] & ~(1ull << (bits - 1));
    if (bits == 32) {
        float a = to_f32(v[0], flush), b = to_f32(v[1], flush), c = 0;
        if (op == FMA) c = to_f32(v[2], flush);
        switch (op) {
        case ADD: return of_f32(a + b, flush);
        case SUB: return of_f32(a - b, flush);
        case MUL_LOW: return of_f32(a * b, flush);
        case MIN: return of_f32((float)least(a, b), flush);
        case MAX: return of_f32((float)-least(-a, -b), flush);
        default: return of_f32(fmaf(a, b, c), flush);
        }
    }
    double a = to_f64(v[0]), b = to_f64(v[1]);
    switch (op) {
    case ADD: return of_f64(a + b);
    case SUB: return of_f64(a - b);
    case MUL_LOW: return of_f64(a * b);
    case MIN: return of_f64(least(a, b));
    case MAX: return of_f64(-least(-a, -b));
    default: return of_f64(fma(a, b, to_f64(v[2])));
    }
}

/* --------------------------------------------------------------------------- comparisons */

enum { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_LO, C_LS, C_HI, C_HS,
       C_EQU, C_NEU, C_LTU, C_LEU, C_GTU, C_GEU, C_NUM, C_NAN };

INLINE int float_compare(int word_, uint64_t x, uint64_t y, int bits, int flush)
{
    double a = bits == 32 ? to_f32(x, flush) : to_f64(x);
    double b = bits == 32 ? to_f32(y, flush) : to_f64(y);
    int unordered = a != a || b != b;
    if (word_ == C_NUM) return !unordered;
    if (word_ == C_NAN) return unordered;
    if (unordered) return word_ >= C_EQU;
    switch (word_) {
    case C_EQ: case C_EQU: return a == b;
    case C_NE: case C_NEU: return a != b;
    case C_LT: case C_LTU: return a < b;
    case C_LE: case C_LEU: return a <= b;
    case C_GT: case C_GTU: return a > b;
    default: return a >= b;
    }
}
INLINE int integer_compare(int word_, uint64_t x, uint64_t y, int bits, int is_signed)
{
    int less, equal = x == y;
    if (is_signed && (word_ < C_LO || word_ > C_HS)) less = sign(x, bits) < sign(y, bits);
    else less = x < y;
    switch (word_) {
    case C_EQ: case C_EQU: return equal;
    case C_NE: case C_NEU: return !equal;
    case C_LT: case C_LO: case C_LTU: return less;
    case C_LE: case C_LS: case C_LEU: return less || equal;
    case C_GT: case C_HI: case C_GTU: return !less && !equal;
    default: return !less;
    }
}
INLINE uint64_t comparison(int op, int kind, int bits, const int64_t *f, const uint64_t *v,
                           int count)
{
    int word_ = (int)f[0], flush = (int)f[4], p, q;
    if (kind == KIND_FLOAT) p = float_compare(word_, v[0], v[1], bits, flush);
    else p = integer_compare(word_, v[0], v[1], bits, kind == KIND_SIGNED);
    int third = (count > 2 ? v[2] != 0 : 1) != (f[2] != 0);
    switch (f[1]) {
    case 0: q = !p; break;
    case 1: q = !p && third; p = p && third; break;
    case 2: q = !p || third; p = p || third; break;
    default: q = (!p) != third; p = p != third; break;
    }
    if (op == SET) return p ? (f[3] ? 0x3F800000u : 0xFFFFFFFFu) : 0;
    return (uint64_t)p | (uint64_t)q << 1;
}

/* ------------------------------------------------------------------------------ integers */

INLINE uint64_t permuted(int mode, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t both = b << 32 | a, result = 0;
    int n = (int)(c & 3);
    for (int i = 0; i < 4; i++) {
        int s;
        switch (mode) {
        case 0: s = (int)(c >> 4 * i & 15); break;
        case 1: s = (n + i) & 7; break;
        case 2: s = (n - i) & 7; break;
        case 3: s = n; break;
        case 4: s = n > i ? n : i; break;
        case 5: s = n < i ? n : i; break;
        default: s = 2 * (n & 1) + (i & 1); break;
        }
        uint64_t byte = both >> 8 * (s & 7) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
INLINE uint64_t extracted(int bits, int is_signed, uint64_t a, uint64_t b, uint64_t c)
{
    int place = (int)(b & 255), length = (int)(c & 255), last = place + length - 1;
    if (!length) return 0;
    uint64_t field = (place < 64 ? a >> place : 0) & mask_of(length);
    if (last > bits - 1) last = bits - 1;
    if (is_signed && a >> last & 1) {
        int from = last - place + 1;
        if (from < 0) from = 0;
        field |= from < 64 ? mask_of(bits) << from : 0;
    }
    return field & mask_of(bits);
}
INLINE uint64_t inserted(int bits, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    int place = (int)(c & 255), length = (int)(d & 255);
    if (place > 63) return b;
    uint64_t field = (mask_of(length) & (length ? ~0ull : 0)) << place & mask_of(bits);
    return (b & ~field) | (a << place & field);
}
static uint64_t nth_set(uint64_t a, uint64_t base, uint64_t offset)
{
    int64_t distance = sign(offset, 32), place = (int64_t)(base & 31);
    if (!distance) return a >> place & 1 ? (uint64_t)place : 0xFFFFFFFFu;
    int64_t step = distance > 0 ? 1 : -1, left = distance > 0 ? distance : -distance;
    for (; place >= 0 && place < 32; place += step)
        if (a >> place & 1 && --left == 0) return (uint64_t)place;
    return 0xFFFFFFFFu;
}
INLINE uint64_t divided(int op, int bits, int is_signed, uint64_t a, uint64_t b)
{
    if (!b) return 0; /* left open (leave_open) */
    if (!is_signed) return op == REM ? a % b : a / b;
    int64_t x = sign(a, bits), y = sign(b, bits);
    if (y == -1) return op == REM ? 0 : (0 - a) & mask_of(bits);
    return (uint64_t)(op == REM ? x % y : x / y) & mask_of(bits);
}
INLINE uint64_t product_high(int bits, int is_signed, uint64_t a, uint64_t b)
{
    if (is_signed) {
        wide_t whole = (wide_t)sign(a, bits) * sign(b, bits);
        return (uint64_t)(whole >> bits) & mask_of(bits);
    }
    unsigned_wide_t whole = (unsigned_wide_t)a * b;
    return (uint64_t)(whole >> bits) & mask_of(bits);
}
INLINE uint64_t converted(int kind, int bits, const int64_t *f, uint64_t a)
{
    int from_kind = (int)f[0], from = (int)f[1], wide = (int)f[3];
    int negative = 0;
    uint64_t value = a & mask_of(from);
    if (from_kind == KIND_SIGNED) {
        negative = sign(value, from) < 0;
        value = (uint64_t)sign(value, from);
    }
    if (f[2]) {
        if (kind == KIND_SIGNED) {
            int64_t high = (int64_t)(mask_of(bits) >> 1), low = -high - 1;
            if (negative ? (int64_t)value < low : 0) value = (uint64_t)low;
            else if (!negative && value > (uint64_t)high) value = (uint64_t)high;
        } else if (negative) {
            value = 0;
        } else if (value > mask_of(bits)) {
            value = mask_of(bits);
        }
    }
    value &= mask_of(bits);
    if (kind == KIND_SIGNED) value = (uint64_t)sign(value, bits);
    return value & mask_of(bits > wide ? bits : wide);
}
static int width_of(uint64_t a) { return a ? 64 - __builtin_clzll(a) : 0; }

/* Of one of two integers of 16 bits in a register. */
INLINE uint64_t of_half(int op, int is_signed, int relu, uint64_t x, uint64_t y)
{
    int64_t a = is_signed ? (int16_t)x : (uint16_t)x, b = is_signed ? (int16_t)y : (uint16_t)y;
    int64_t found = op == ADD ? a + b : (op == MIN) == (a < b) ? a : b;
    return (uint64_t)(relu && found < 0 ? 0 : found) & 0xFFFF;
}

/* A sum of several words, or its carry (of a difference the borrow): `adds` says whether the last
   of the operands is a carry that is added. */
INLINE uint64_t carried(int op, int bits, int is_signed, int adds, const uint64_t *v, int count,
                        int wants_carry)
{
    uint64_t a = v[0], b = v[1];
    unsigned_wide_t carry = adds ? v[count - 1] & 1 : 0, whole;
    if (op == MAD_LOW || op == MAD_HIGH) {
        a = op == MAD_HIGH ? product_high(bits, is_signed, a, b) : a * b & mask_of(bits);
        b = v[2];
    }
    whole = op == SUB ? (unsigned_wide_t)a - b - carry : (unsigned_wide_t)a + b + carry;
    return (uint64_t)(whole >> (wants_carry ? bits : 0)) & (wants_carry ? 1 : mask_of(bits));
}

/* The result of an arithmetic step; SETP has p and q in its bits. */
INLINE uint64_t arithmetic_of(int op, int kind, int bits, const int64_t *f, int flag_count,
                              const uint64_t *v, int count)
{
    int is_signed = kind == KIND_SIGNED;
    uint64_t mask = mask_of(bits), a = v[0], b = v[1], c = v[2];
    if (kind == KIND_FLOAT && op != SETP && op != SET && op != MOV && op != SELP && op != SLCT)
        return float_operation(op, bits, flag_count ? (int)f[0] : 0, v);
    switch (op) {
    case MOV: case UNPACK: return a;
    case ADD: return (a + b) & mask;
    case SUB: return (a - b) & mask;
    case MUL_LOW: return (a * b) & mask;
    case MAD_LOW: return (a * b + c) & mask;
    case MUL_HIGH: return product_high(bits, is_signed, a, b);
    case MAD_HIGH: return (product_high(bits, is_signed, a, b) + c) & mask;
    case MUL_WIDE: case MAD_WIDE: {
        uint64_t whole = is_signed ? (uint64_t)(sign(a, bits) * sign(b, bits)) : a * b;
        return (whole + (op == MAD_WIDE ? c : 0)) & mask_of(2 * bits);
    }
    case DIV: case REM: return divided(op, bits, is_signed, a, b);
    case ABS: return (sign(a, bits) < 0 ? 0 - a : a) & mask;
    case NEG: return (0 - a) & mask;
    case MIN:
        a = is_signed ? (sign(b, bits) < sign(a, bits) ? b : a) : (b < a ? b : a);
        return flag_count && sign(a, bits) < 0 ? 0 : a; /* .relu */
    case MAX:
        a = is_signed ? (sign(b, bits) > sign(a, bits) ? b : a) : (b > a ? b : a);
        return flag_count && sign(a, bits) < 0 ? 0 : a;
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case NOT: return ~a & mask;
    case CNOT: return a == 0;
    case SHL: return b < (uint64_t)bits ? a << b & mask : 0;
    case SHR:
        if (is_signed)
            return (uint64_t)(sign(a, bits) >> (b < (uint64_t)bits - 1 ? b : (uint64_t)bits - 1)) &
                   mask;
        return b < (uint64_t)bits ? a >> b : 0;
    case FUNNEL: {
        int n = f[1] ? (c < 32 ? (int)c : 32) : (int)(c & 31);
        uint64_t both = b << 32 | a;
        return (f[0] ? both >> n : both << n >> 32) & 0xFFFFFFFFu;
    }
    case BFE: return extracted(bits, is_signed, a, b, c);
    case BFI: return inserted(bits, a, b, c, v[3]);
    case BREV: {
        uint64_t result = 0;
        for (int i = 0; i < bits; i++) result |= (a >> i & 1) << (bits - 1 - i);
        return result;
    }
    case CLZ: return (uint64_t)(bits - width_of(a));
    case POPC: return (uint64_t)__builtin_popcountll(a);
    case BFIND: {
        if (is_signed && a >> (bits - 1)) a = ~a & mask;
        int place = width_of(a) - 1;
        if (place < 0) return 0xFFFFFFFFu;
        return (uint64_t)(f[0] ? bits - 1 - place : place);
    }
    case PRMT: return permuted((int)f[0], a, b, c);
    case LOP3: {
        uint64_t result = 0;
        for (int i = 0; i < 8; i++)
            if (f[0] >> i & 1)
                result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
        return result & mask;
    }
    case SETP: case SET: return comparison(op, kind, bits, f, v, count);
    case SELP: return c & 1 ? a : b;
    case SLCT: return c >> 31 & 1 ? b : a;
    case CVT: return converted(kind, bits, f, a);
    case SAD: {
        uint64_t d = is_signed ? (uint64_t)(sign(a, bits) - sign(b, bits)) : a - b;
        int less = is_signed ? sign(a, bits) < sign(b, bits) : a < b;
        return ((less ? 0 - d : d) + c) & mask;
    }
    case PACK: {
        uint64_t result = 0;
        int part = (int)f[0];
        for (int i = 0; i < count; i++)
            if (part * i < 64) result |= (v[i] & mask_of(part)) << part * i;
        return result;
    }
    case BMSK: {
        if (f[0]) { a &= 31; b &= 31; }
        if (a >= 32) return 0;
        return (b ? mask_of(b < 32 ? (int)b : 32) : 0) << a & 0xFFFFFFFFu;
    }
    case SZEXT: {
        int length = f[0] ? (int)(b & 31) : (b < 32 ? (int)b : 32);
        uint64_t field = length ? a & mask_of(length) : 0;
        if (is_signed && length && field >> (length - 1))
            field |= 0xFFFFFFFFu & ~mask_of(length);
        return field;
    }
    case HALVES: return of_half((int)f[0], is_signed, (int)f[1], a, b) |
                        of_half((int)f[0], is_signed, (int)f[1], a >> 16, b >> 16) << 16;
    case TO_FLOAT: {
        uint64_t value = a & mask_of((int)f[1]);
        if (f[0] == KIND_SIGNED) {
            int64_t number = sign(value, (int)f[1]);
            return bits == 32 ? of_f32((float)number, 0) : of_f64((double)number);
        }
        return bits == 32 ? of_f32((float)value, 0) : of_f64((double)value);
    }
    case TO_INTEGER: {
        double number = f[0] == 32 ? to_f32(a, (int)f[2]) : to_f64(a);
        return to_integer_of(number, (int)f[1], is_signed, bits, f[0] == 64 || bits == 64);
    }
    default: return nth_set(a, b, c);
    }
}

/* `part`: which result, of a sum that gives a carry. */
static uint64_t arithmetic(const Machine *machine, const titan_step *s, const uint64_t *v, int part)
{
    if (s->op == CARRIED)
        return carried((int)FLAG(s, 0), s->bits, s->kind == KIND_SIGNED, (int)FLAG(s, 1), v,
                       s->arg_count, part);
    return arithmetic_of(s->op, s->kind, s->bits, &machine->code->pool[s->flags], s->flag_count, v,
                         s->arg_count);
}

/* Some operands decide a result alone (values._partly). 1 and the result, or 0. */
static int partly(const Machine *machine, const titan_step *s, const uint64_t *v, uint32_t opaque,
                  uint64_t *result, int *result_opaque)
{
    *result_opaque = 0;
    if (s->op == AND || s->op == OR) {
        uint64_t absorbing = s->op == AND ? 0 : mask_of(s->bits);
        for (int i = 0; i < s->arg_count; i++)
            if (!(opaque >> i & 1) && v[i] == absorbing) {
                *result = absorbing;
                return 1;
            }
    }
    if (s->op == SELP && !(opaque >> 2 & 1)) {
        int chosen = v[2] & 1 ? 0 : 1;
        *result = v[chosen];
        *result_opaque = opaque >> chosen & 1;
        return 1;
    }
    if (s->op == SETP && s->arg_count == 3 && !(opaque >> 2 & 1)) {
        int third = (v[2] != 0) != (FLAG(s, 2) != 0);
        if (FLAG(s, 1) == 1 && !third) { *result = 0; return 1; }
        if (FLAG(s, 1) == 2 && third) { *result = 3; return 1; }
    }
    if (s->op == SETP && s->arg_count == 3 && s->out_count == 1 && opaque == 4) {
        uint64_t with[3] = {v[0], v[1], 0};
        uint64_t without = arithmetic(machine, s, with, 0);
        with[2] = 1;
        if (!((arithmetic(machine, s, with, 0) ^ without) & 1)) { *result = without; return 1; }
    }
    return 0;
}
/* One lane: the result, opaque if it depends on something opaque (the first one's site). */
static uint64_t apply_lane(const Machine *machine, const titan_step *s, const uint64_t *v,
                           uint32_t opaque, int part, int *result_opaque)
{
    uint64_t result;
    *result_opaque = 0;
    if (!opaque) return arithmetic(machine, s, v, part);
    if (partly(machine, s, v, opaque, &result, result_opaque)) return result;
    *result_opaque = 1;
    return v[first_lane(opaque)];
}
static Marks marks_of(const Machine *machine, const Warp *warp, const titan_step *s)
{
    Marks marks = 0;
    for (int i = 0; i < s->arg_count; i++) {
        int32_t reg = ARG(s, i);
        if (reg >= 0) marks |= warp->marks[reg] | warp->sticky[reg];
    }
    if (s->guard >= 0) marks |= warp->marks[s->guard] | warp->sticky[s->guard];
    return marks;
}
static Marks mark_of(const Warp *warp, int32_t reg) { return warp->marks[reg] | warp->sticky[reg]; }

/* Several results in one value: p and q, the parts of a vector. */
static void put_parts(Machine *machine, Warp *warp, const titan_step *s, Value *whole,
                      uint32_t mask, Marks marks)
{
    int width = s->op == SETP ? 1 : (int)FLAG(s, 0);
    for (int i = 0; i < s->out_count; i++) {
        Value part = *whole;
        int lanes = whole->uniform ? 1 : 32;
        for (int lane = 0; lane < lanes; lane++)
            if (!(part.opaque >> lane & 1))
                part.v[lane] = width * i < 64 ? part.v[lane] >> width * i & mask_of(width) : 0;
        put(warp, OUT(s, i), &part, mask, marks);
    }
}
/* The result in each lane; `part` as for `arithmetic`. */
static void apply_lanes(const Machine *machine, const Warp *warp, const titan_step *s,
                        uint32_t mask, int part, Value *result)
{
    uint64_t v[8] = {0};
    uint32_t opaque = 0;
    int all = 1, count = s->arg_count < 8 ? s->arg_count : 8, found;
    for (int i = 0; i < count; i++) all = all && warp->registers[ARG(s, i)].uniform;
    if (all) {
        for (int i = 0; i < count; i++) {
            const Value *value = &warp->registers[ARG(s, i)];
            v[i] = value->v[0];
            opaque |= (value->opaque & 1) << i;
        }
        result->uniform = 1;
        result->v[0] = apply_lane(machine, s, v, opaque, part, &found);
        result->opaque = (uint32_t)found;
        return;
    }
    result->uniform = 0;
    result->opaque = 0;
    memset(result->v, 0, sizeof result->v);
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        opaque = 0;
        for (int i = 0; i < count; i++) {
            const Value *value = &warp->registers[ARG(s, i)];
            v[i] = lane_value(value, lane);
            opaque |= (uint32_t)lane_opaque(value, lane) << i;
        }
        result->v[lane] = apply_lane(machine, s, v, opaque, part, &found);
        result->opaque |= (uint32_t)found << lane;
    }
}
/* Whether PTX leaves the result of known operands open (undefined_results.py). */
static int is_open(const titan_step *s, uint64_t value)
{
    if (s->op == DIV || s->op == REM) return value == 0;
    if (s->op == FNS) return value >= 32;
    uint64_t from = s->kind == KIND_SIGNED ? value + (1u << 23) : value;
    return (from & 0xFFFFFFFFu) >> 24 != 0;
}
static void note_undefined(Machine *machine, int32_t pc)
{
    if (machine->undefined_sites[pc]) return;
    machine->undefined_sites[pc] = 1;
    push(&machine->undefined, pc);
}
static void leave_open(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                       Value *result)
{
    int narrow = (s->op == MUL_LOW || s->op == MAD_LOW) && s->flag_count;
    if (s->kind == KIND_FLOAT || !(narrow || s->op == DIV || s->op == REM || s->op == FNS)) return;
    uint32_t lanes = 0;
    for (int i = narrow ? 0 : 1; i < 2; i++) {
        const Value *value = &fragment->warp->registers[ARG(s, i)];
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = first_lane(left);
            if (!lane_opaque(value, lane) && is_open(s, lane_value(value, lane)))
                lanes |= 1u << lane;
        }
    }
    if (!lanes) return;
    note_undefined(machine, fragment->pc);
    result->opaque |= result->uniform ? 1 : lanes;
    for (int lane = 0; lane < (result->uniform ? 1 : 32); lane++)
        if (result->uniform || lanes >> lane & 1) result->v[lane] = (uint64_t)fragment->pc;
}
static void compute(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    Marks marks = marks_of(machine, warp, s);
    Value result, carry;
#if NUMBERS
    if (compute_form(machine, fragment, s, mask)) return;
#endif
    if (s->op == NOP || s->op == OPAQUE) {
        for (int i = 0; i < s->out_count; i++)
            put_unknown(warp, OUT(s, i), fragment->pc, mask, marks);
        return;
    }
    apply_lanes(machine, warp, s, mask, 0, &result);
    leave_open(machine, fragment, s, mask, &result);
    if (s->op == SETP || s->op == UNPACK) {
        put_parts(machine, warp, s, &result, mask, marks);
    } else if (s->op == CARRIED && s->out_count > 1) {
        apply_lanes(machine, warp, s, mask, 1, &carry); /* a result may be an operand, too */
        put(warp, OUT(s, 0), &result, mask, marks);
        put(warp, OUT(s, 1), &carry, mask, marks);
    } else {
        for (int i = 0; i < s->out_count; i++) put(warp, OUT(s, i), &result, mask, marks);
    }
}
