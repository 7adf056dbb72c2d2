/* Tensor memory itself: 128 lanes of 512 columns of 32 bits for each CTA, once something is in it.
   Source: PTX, "Tensor Memory Addressing". */
static CtaNumbers *tensor_memory(Cta *cta)
{
    CtaNumbers *own = cta->numbers;
    if (!own->tensor) {
        own->tensor = zeroed(TENSOR_LANES * COLUMNS, sizeof(uint32_t));
        own->tensor_known = zeroed(TENSOR_LANES * COLUMNS, 1);
    }
    return own;
}
static int64_t cell_at(int64_t lane, int64_t column)
{
    if (lane < 0 || lane >= TENSOR_LANES || column < 0 || column >= COLUMNS) return -1;
    return lane * COLUMNS + column;
}
static void forget_tensor(Cta *cta, int64_t low, int64_t high)
{
    if (!cta->numbers->tensor) return;
    if (low < 0) low = 0;
    if (high > 4 * TENSOR_LANES * COLUMNS) high = 4 * TENSOR_LANES * COLUMNS;
    if (low < high) memset(cta->numbers->tensor_known + low / 4, 0, (size_t)((high - low) / 4));
}
