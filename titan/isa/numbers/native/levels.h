/* The loops of one level of instruction sets (kernels.c), and which level this processor has. */
typedef struct { int op, kind, bits, flag, matters; Kernel run; } KernelRow;
typedef struct {
    const KernelRow *rows;
    Kernel exponential, pack_bf16, pack_f16, widen_f16, widen_bf16, divide, reciprocal, pair, part;
    void (*multiply_rows)(float *, const float *, const float *, int64_t, int);
} Level;
