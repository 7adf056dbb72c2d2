/* Loops over 32 lanes, compiled once for each level of instruction sets: LEVEL names it. The body
   of a loop is `arithmetic_of` or a form, inlined with constants. */
#define KERNEL_(name, level) name##level
#define KERNEL__(name, level) KERNEL_(name, level)
#define KERNEL(name) KERNEL__(name, LEVEL)

/* (name, operation, kind, bits, flag 0, whether flag 0 matters, sources) */
#define INTEGER_KERNELS(X)                                                                       \
    X(add16, ADD, KIND_UNSIGNED, 16, 0, 0, 2) X(add32, ADD, KIND_UNSIGNED, 32, 0, 0, 2)           \
    X(add64, ADD, KIND_UNSIGNED, 64, 0, 0, 2) X(sub32, SUB, KIND_UNSIGNED, 32, 0, 0, 2)           \
    X(sub64, SUB, KIND_UNSIGNED, 64, 0, 0, 2) X(mul32, MUL_LOW, KIND_UNSIGNED, 32, 0, 0, 2)       \
    X(mul64, MUL_LOW, KIND_UNSIGNED, 64, 0, 0, 2)                                                 \
    X(mad32, MAD_LOW, KIND_UNSIGNED, 32, 0, 0, 3) X(mad64, MAD_LOW, KIND_UNSIGNED, 64, 0, 0, 3)   \
    X(mulwu, MUL_WIDE, KIND_UNSIGNED, 32, 0, 0, 2) X(mulws, MUL_WIDE, KIND_SIGNED, 32, 0, 0, 2)   \
    X(madwu, MAD_WIDE, KIND_UNSIGNED, 32, 0, 0, 3) X(madws, MAD_WIDE, KIND_SIGNED, 32, 0, 0, 3)   \
    X(and1, AND, KIND_UNSIGNED, 1, 0, 0, 2) X(and16, AND, KIND_UNSIGNED, 16, 0, 0, 2)             \
    X(and32, AND, KIND_UNSIGNED, 32, 0, 0, 2) X(and64, AND, KIND_UNSIGNED, 64, 0, 0, 2)           \
    X(or1, OR, KIND_UNSIGNED, 1, 0, 0, 2) X(or16, OR, KIND_UNSIGNED, 16, 0, 0, 2)                 \
    X(or32, OR, KIND_UNSIGNED, 32, 0, 0, 2) X(or64, OR, KIND_UNSIGNED, 64, 0, 0, 2)               \
    X(xor1, XOR, KIND_UNSIGNED, 1, 0, 0, 2) X(xor32, XOR, KIND_UNSIGNED, 32, 0, 0, 2)             \
    X(xor64, XOR, KIND_UNSIGNED, 64, 0, 0, 2) X(not1, NOT, KIND_UNSIGNED, 1, 0, 0, 1)             \
    X(not32, NOT, KIND_UNSIGNED, 32, 0, 0, 1) X(not64, NOT, KIND_UNSIGNED, 64, 0, 0, 1)           \
    X(neg32, NEG, KIND_UNSIGNED, 32, 0, 0, 1) X(shl32, SHL, KIND_UNSIGNED, 32, 0, 0, 2)           \
    X(shl64, SHL, KIND_UNSIGNED, 64, 0, 0, 2) X(shru32, SHR, KIND_UNSIGNED, 32, 0, 0, 2)          \
    X(shrs32, SHR, KIND_SIGNED, 32, 0, 0, 2) X(shru64, SHR, KIND_UNSIGNED, 64, 0, 0, 2)           \
    X(shrs64, SHR, KIND_SIGNED, 64, 0, 0, 2) X(minu32, MIN, KIND_UNSIGNED, 32, 0, 0, 2)           \
    X(mins32, MIN, KIND_SIGNED, 32, 0, 0, 2) X(maxu32, MAX, KIND_UNSIGNED, 32, 0, 0, 2)           \
    X(maxs32, MAX, KIND_SIGNED, 32, 0, 0, 2) X(bfeu32, BFE, KIND_UNSIGNED, 32, 0, 0, 3)           \
    X(mov16, MOV, KIND_UNSIGNED, 16, 0, 0, 1) X(mov32, MOV, KIND_UNSIGNED, 32, 0, 0, 1)           \
    X(mov64, MOV, KIND_UNSIGNED, 64, 0, 0, 1) X(mov1, MOV, KIND_UNSIGNED, 1, 0, 0, 1)             \
    X(selp16, SELP, KIND_UNSIGNED, 16, 0, 0, 3) X(selp32, SELP, KIND_UNSIGNED, 32, 0, 0, 3)       \
    X(selp64, SELP, KIND_UNSIGNED, 64, 0, 0, 3) X(lop32, LOP3, KIND_UNSIGNED, 32, 0, 0, 3)        \
    X(prmt, PRMT, KIND_UNSIGNED, 32, 0, 1, 3) X(funnel, FUNNEL, KIND_UNSIGNED, 32, 0, 0, 3)       \
    X(sad32, SAD, KIND_UNSIGNED, 32, 0, 0, 3) X(popc32, POPC, KIND_UNSIGNED, 32, 0, 0, 1)         \
    X(cvtu16, CVT, KIND_UNSIGNED, 16, 0, 0, 1) X(cvtu32, CVT, KIND_UNSIGNED, 32, 0, 0, 1)         \
    X(cvts32, CVT, KIND_SIGNED, 32, 0, 0, 1) X(cvtu64, CVT, KIND_UNSIGNED, 64, 0, 0, 1)           \
    X(cvts64, CVT, KIND_SIGNED, 64, 0, 0, 1)                                                      \
    X(mulhu32, MUL_HIGH, KIND_UNSIGNED, 32, 0, 0, 2) X(mulhs32, MUL_HIGH, KIND_SIGNED, 32, 0, 0, 2)
#define FLOAT_KERNELS(X)                                                                         \
    X(fadd, ADD, KIND_FLOAT, 32, 0, 1, 2) X(faddz, ADD, KIND_FLOAT, 32, 1, 1, 2)                  \
    X(fsub, SUB, KIND_FLOAT, 32, 0, 1, 2) X(fsubz, SUB, KIND_FLOAT, 32, 1, 1, 2)                  \
    X(fmul, MUL_LOW, KIND_FLOAT, 32, 0, 1, 2) X(fmulz, MUL_LOW, KIND_FLOAT, 32, 1, 1, 2)          \
    X(ffma, FMA, KIND_FLOAT, 32, 0, 1, 3) X(ffmaz, FMA, KIND_FLOAT, 32, 1, 1, 3)                  \
    X(fmin, MIN, KIND_FLOAT, 32, 0, 1, 2) X(fminz, MIN, KIND_FLOAT, 32, 1, 1, 2)                  \
    X(fmax, MAX, KIND_FLOAT, 32, 0, 1, 2) X(fmaxz, MAX, KIND_FLOAT, 32, 1, 1, 2)                  \
    X(fneg, NEG, KIND_FLOAT, 32, 0, 1, 1) X(fabs_, ABS, KIND_FLOAT, 32, 0, 1, 1)                  \
    X(dadd, ADD, KIND_FLOAT, 64, 0, 1, 2)                  \
    X(dmul, MUL_LOW, KIND_FLOAT, 64, 0, 1, 2) X(dfma, FMA, KIND_FLOAT, 64, 0, 1, 3)
#define COMPARISON(X, word, lower)                                                               \
    X(u32##lower, SETP, KIND_UNSIGNED, 32, word, 1, 2)                                           \
    X(s32##lower, SETP, KIND_SIGNED, 32, word, 1, 2)                                             \
    X(u64##lower, SETP, KIND_UNSIGNED, 64, word, 1, 2)                                           \
    X(s64##lower, SETP, KIND_SIGNED, 64, word, 1, 2)                                             \
    X(f32##lower, SETP, KIND_FLOAT, 32, word, 1, 2)
#define COMPARISON_KERNELS(X)                                                                    \
    COMPARISON(X, C_EQ, eq) COMPARISON(X, C_NE, ne) COMPARISON(X, C_LT, lt)                       \
    COMPARISON(X, C_LE, le) COMPARISON(X, C_GT, gt) COMPARISON(X, C_GE, ge)                       \
    X(f32neu, SETP, KIND_FLOAT, 32, C_NEU, 1, 2)

#define DEFINE(name, op, kind, bits, flag, matters, count)                                       \
    static void KERNEL(name)(uint64_t *d, const uint64_t *a, const uint64_t *b,                  \
                             const uint64_t *c, const int64_t *f)                                \
    {                                                                                            \
        const int64_t own[5] = {flag, 0, 0, 0, 0};                              \
        const int given = matters || ((op) != MIN && (op) != MAX); /* .relu has no kernel */     \
        const int64_t *flags = (op) == SETP || matters ? own : f;                                \
        (void)a, (void)b, (void)c, (void)f;                                                      \
        _Pragma("GCC ivdep")                                                                     \
        for (int n = 0; n < 32; n++) {                                                           \
            uint64_t v[4] = {a[n], count > 1 ? b[n] : 0, count > 2 ? c[n] : 0, 0};               \
            uint64_t result = arithmetic_of(op, kind, bits, flags, given, v, count);             \
            d[n] = (op) == SETP ? result & 1 : result;                                           \
        }                                                                                        \
    }
INTEGER_KERNELS(DEFINE)
FLOAT_KERNELS(DEFINE)
COMPARISON_KERNELS(DEFINE)
#undef DEFINE

/* ------------------------------------------------------------------------------------ forms */

static void KERNEL(exponential)(uint64_t *d, const uint64_t *a, const uint64_t *b,
                                const uint64_t *c, const int64_t *f)
{
    int flush = (int)f[0];
    (void)b, (void)c;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++)
        d[n] = of_f32((float)power((double)to_f32(a[n], flush)), flush);
}
static void KERNEL(pack_bf16)(uint64_t *d, const uint64_t *a, const uint64_t *b,
                              const uint64_t *c, const int64_t *f)
{
    (void)c, (void)f;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++)
        d[n] = nearest_bf16((uint32_t)a[n]) << 16 | nearest_bf16((uint32_t)b[n]);
}
static void KERNEL(pack_f16)(uint64_t *d, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                             const int64_t *f)
{
    (void)c, (void)f;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++)
        d[n] = nearest_f16((uint32_t)a[n]) << 16 | nearest_f16((uint32_t)b[n]);
}
static void KERNEL(widen_f16)(uint64_t *d, const uint64_t *a, const uint64_t *b,
                              const uint64_t *c, const int64_t *f)
{
    (void)b, (void)c, (void)f;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = of_f32((float)decode_number(a[n] & 0xFFFF, F16), 0);
}
static void KERNEL(widen_bf16)(uint64_t *d, const uint64_t *a, const uint64_t *b,
                               const uint64_t *c, const int64_t *f)
{
    (void)b, (void)c, (void)f;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = of_f32(to_f32(a[n] << 16, 0), 0);
}
static void KERNEL(divide)(uint64_t *d, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                           const int64_t *f)
{
    int flush = (int)f[0];
    (void)c;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = of_f32(to_f32(a[n], flush) / to_f32(b[n], flush), flush);
}
static void KERNEL(reciprocal)(uint64_t *d, const uint64_t *a, const uint64_t *b,
                               const uint64_t *c, const int64_t *f)
{
    int flush = (int)f[0];
    (void)b, (void)c;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = of_f32(1.0f / to_f32(a[n], flush), flush);
}
static void KERNEL(pair)(uint64_t *d, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                         const int64_t *f)
{
    uint64_t mask = mask_of((int)f[0]);
    int part = (int)f[0];
    (void)c;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = (a[n] & mask) | (b[n] & mask) << part;
}
static void KERNEL(part)(uint64_t *d, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                         const int64_t *f)
{
    uint64_t mask = mask_of((int)f[0]);
    int from = (int)f[1];
    (void)b, (void)c;
#pragma GCC ivdep
    for (int n = 0; n < 32; n++) d[n] = a[n] >> from & mask;
}
/* C of 16 rows += A, 16 rows of `depth`, times B, `depth` rows of `stride`; in order of k. */
typedef float KERNEL(Eight) __attribute__((vector_size(32), aligned(4), may_alias));
static void KERNEL(multiply_rows)(float *c, const float *a, const float *b, int64_t stride,
                                  int depth)
{
    for (int row = 0; row < 16; row += 4)
        for (int64_t column = 0; column < stride; column += 16) {
            KERNEL(Eight) sum[4][2];
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++)
                    sum[r][h] = *(KERNEL(Eight) *)&c[(row + r) * stride + column + 8 * h];
            for (int k = 0; k < depth; k++) {
                KERNEL(Eight) left = *(const KERNEL(Eight) *)&b[k * stride + column];
                KERNEL(Eight) right = *(const KERNEL(Eight) *)&b[k * stride + column + 8];
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    float scale = a[(row + r) * depth + k];
                    sum[r][0] += left * scale;
                    sum[r][1] += right * scale;
                }
            }
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++)
                    *(KERNEL(Eight) *)&c[(row + r) * stride + column + 8 * h] = sum[r][h];
        }
}

/* ----------------------------------------------------------------------------------- tables */

#define ROW(name, op, kind, bits, flag, matters, count)                                          \
    {op, kind, bits, flag, matters, KERNEL(name)},
static const KernelRow KERNEL(rows)[] = {
    INTEGER_KERNELS(ROW) FLOAT_KERNELS(ROW) COMPARISON_KERNELS(ROW){0, 0, 0, 0, 0, NULL}};
#undef ROW
static const Level KERNEL(level) = {
    KERNEL(rows), KERNEL(exponential), KERNEL(pack_bf16), KERNEL(pack_f16), KERNEL(widen_f16),
    KERNEL(widen_bf16), KERNEL(divide), KERNEL(reciprocal), KERNEL(pair), KERNEL(part),
    KERNEL(multiply_rows)};
#undef LEVEL
#undef INTEGER_KERNELS
#undef FLOAT_KERNELS
#undef COMPARISON
#undef COMPARISON_KERNELS
#undef KERNEL_
#undef KERNEL__
#undef KERNEL
