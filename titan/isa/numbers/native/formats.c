/* Floating-point formats by their bits (formats.py): exact decoding, correctly rounded encoding. */
typedef struct { int exponent_bits, fraction_bits, finite, bits; } Format;
static const Format formats[FORMATS] = {
    {5, 10, 0, 16}, {8, 7, 0, 16}, {8, 23, 0, 32}, {11, 52, 0, 64}, {4, 3, 1, 8}, {5, 2, 0, 8},
    {8, 10, 0, 19}, {2, 1, 2, 4}, {2, 3, 2, 6}, {3, 2, 2, 6}, {8, 0, 1, 8},
    {0, 0, 0, 8}, {0, 0, 0, 8}, {0, 0, 0, 32}, /* integers, of matrix products */
    {2, 1, 2, 4},
}; /* finite 1: all ones is NaN, and there is no infinity; 2: neither of them */

INLINE uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, 8);
    return bits;
}
INLINE double power_of_two(int exponent) { return to_f64((uint64_t)(exponent + 1023) << 52); }
INLINE double decode_number(uint64_t bits, int which)
{
    if (which == F32 || which == TF32) return (double)to_f32(bits, 0);
    if (which == F64) return to_f64(bits);
    if (which == BF16) return (double)to_f32(bits << 16, 0);
    if (which == UE8M0)
        return bits == 255 ? NAN : bits ? power_of_two((int)bits - 127) : ldexp(1.0, -127);
    if (which == S8) return (double)(int8_t)bits;
    if (which == U8) return (double)bits;
    Format form = formats[which];
    int bias = (1 << (form.exponent_bits - 1)) - 1, top = (1 << form.exponent_bits) - 1;
    int exponent = (int)(bits >> form.fraction_bits) & top;
    uint64_t fraction = bits & mask_of(form.fraction_bits);
    double size;
    if (exponent == top && !form.finite) size = fraction ? NAN : INFINITY;
    else if (exponent == top && form.finite == 1 && fraction == mask_of(form.fraction_bits))
        size = NAN;
    else if (!exponent) size = (double)fraction * power_of_two(1 - bias - form.fraction_bits);
    else
        size = (double)(fraction | 1ull << form.fraction_bits) *
               power_of_two(exponent - bias - form.fraction_bits);
    return bits >> (form.bits - 1) & 1 ? -size : size;
}
INLINE uint64_t nan_of(int which)
{
    return which == UE8M0 ? 255 : mask_of(formats[which].bits - 1);
}
INLINE uint64_t largest_of(int which)
{
    Format form = formats[which];
    uint64_t top = mask_of(form.exponent_bits) << form.fraction_bits;
    if (which == UE8M0) return 254;
    if (form.finite == 2) return top | mask_of(form.fraction_bits);
    return form.finite ? top | (mask_of(form.fraction_bits) - 1) : top - 1;
}
INLINE uint64_t overflow_of(int which, uint64_t sign_bit, int finite)
{
    Format form = formats[which];
    if (finite || form.finite == 2) return sign_bit | largest_of(which);
    if (form.finite) return sign_bit | nan_of(which);
    return sign_bit | mask_of(form.exponent_bits) << form.fraction_bits;
}
/* The bits of a number, rounded once. */
static uint64_t encode_number(double value, int which, int mode, int finite)
{
    Format form = formats[which];
    uint64_t bits = bits_of(value), negative = bits >> 63;
    uint64_t sign_bit = which == UE8M0 ? 0 : negative << (form.bits - 1);
    int bias = (1 << (form.exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    uint64_t whole = bits & mask_of(52), rest = 0, half = 0;
    if (value != value)
        return form.finite == 2 ? largest_of(which) : nan_of(which);
    if (which == F64) return bits;
    if (exponent == 1024) return overflow_of(which, sign_bit, finite);
    if (value == 0) return sign_bit;
    if (exponent == -1023) exponent = -1022;
    else whole |= 1ull << 52;
    int least = 1 - bias, shown = exponent > least ? exponent : least;
    int shift = 52 - form.fraction_bits + (shown - exponent);
    if (shift > 63) {
        rest = 1;
        half = 2;
        whole = 0;
    } else {
        rest = whole & mask_of(shift);
        half = 1ull << (shift - 1);
        whole >>= shift;
    }
    int up = 0;
    switch (mode) {
    case TO_NEAREST: up = rest > half || (rest == half && whole & 1); break;
    case TO_AWAY: up = rest >= half; break;
    case DOWN: up = negative && rest; break;
    case UP: up = !negative && rest; break;
    default: break;
    }
    whole += (uint64_t)up;
    uint64_t stored = ((uint64_t)(shown + bias - 1) << form.fraction_bits) + whole;
    if (which == UE8M0) stored = (uint64_t)(shown + bias) + (whole >> 1 ? 1 : 0);
    if (stored > largest_of(which)) {
        int towards_zero = mode == TO_ZERO || (mode == DOWN && !negative) ||
                           (mode == UP && negative);
        return towards_zero ? sign_bit | largest_of(which)
                            : overflow_of(which, sign_bit, finite);
    }
    return sign_bit | stored;
}
INLINE uint64_t flushed(uint64_t bits, int which)
{
    Format form = formats[which];
    if (!(bits >> form.fraction_bits & mask_of(form.exponent_bits)))
        return bits & 1ull << (form.bits - 1);
    return bits;
}
/* A rounded sum made odd where it was not exact: then rounding it again to a shorter format is
   rounding once. */
static double made_odd(double rounded, double error)
{
    uint64_t bits = bits_of(rounded);
    if (error == 0 || bits & 1 || !isfinite(rounded)) return rounded;
    if (rounded == 0) return error;
    return to_f64((error > 0) == (rounded > 0) ? bits + 1 : bits - 1);
}
static double odd_sum(double a, double b)
{
    double sum = a + b;
    if (!isfinite(sum)) return sum;
    double back = sum - a;
    return made_odd(sum, (a - (sum - back)) + (b - back));
}
static double odd_quotient(double a, double b)
{
    double quotient = a / b;
    if (!isfinite(quotient) || b == 0 || isinf(b)) return quotient;
    double error = fma(-quotient, b, a);
    return made_odd(quotient, b < 0 ? -error : error);
}
