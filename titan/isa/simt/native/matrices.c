/* ldmatrix, stmatrix, and the loads and stores of wmma. Twin: matrices.py. */

/* What each lane reads or writes of rows of 8 by 8 matrices: `piece` is 4 bytes of a row, or 2 of a
   row of a transposed matrix (lane_order.py). */
static void order_rows(Machine *machine, Fragment *fragment, const Located *located, int total,
                       int piece, int mode)
{
    Located pieces[32 * 8];
    int count = 0;
    for (int n = 0; n < total; n++)
        for (int column = 0; column < 16 / piece; column++) {
            Located *one = &pieces[count++];
            *one = located[n];
            one->spot.at += column * piece;
            one->lanes = 0;
            for (int lane = 0; lane < 32; lane++)
                if (located[n].lanes >> lane & 1)
                    one->lanes |= 1u << (piece == 4 ? 4 * (lane % 8) + column
                                                    : 4 * column + lane % 8 / 2);
        }
    order_lanes(machine, fragment, pieces, count, piece, mode == WRITE ? LANE_WRITE : LANE_READ,
                fragment->pc);
}
enum { TRANSPOSED_PIECE = 2 };
/* What a lane gets of a matrix: two elements; 0: not known. `by`: which of `located` a row is. */
static int element_pair(Machine *machine, Warp *warp, const Located *located, const int *by,
                        int transposed, int lane, uint64_t *found)
{
    *found = 0;
    for (int e = 0; e < 2; e++) {
        int row = lane / 4, column = lane % 4 * 2 + e;
        if (transposed) { row = column; column = lane / 4; }
        if (by[row] < 0) return 0;
        Spot spot = located[by[row]].spot;
        uint64_t item = 0;
        spot.at += 2 * column;
        if (!read_value(machine, warp, 0, spot, 2, &item)) return 0;
        *found |= item << 16 * e;
    }
    return 1;
}
static void load_rows(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                      const Located *located, const int *by)
{
    for (int n = 0; n < s->out_count; n++) {
        Value made = {.uniform = 0, .opaque = 0};
        for (int lane = 0; lane < 32; lane++)
            if (!element_pair(machine, fragment->warp, located, &by[8 * n],
                              FLAG(s, 4) == TRANSPOSED_PIECE, lane, &made.v[lane])) {
                made.opaque |= 1u << lane;
                made.v[lane] = (uint64_t)(int64_t)fragment->pc;
            }
        put(fragment->warp, OUT(s, n), &made, mask, 0);
    }
}
/* What is stored in a column of the row at the address of a lane; 0: not known. */
static int stored_element(const Fragment *fragment, const Machine *machine, const titan_step *s,
                          int row, int column, uint64_t *found)
{
    int transposed = FLAG(s, 4) == TRANSPOSED_PIECE;
    int across = transposed ? row % 8 : column, down = transposed ? column : row % 8;
    const Value *given = &fragment->warp->registers[ARG(s, 1 + row / 8)];
    int lane = 4 * down + across / 2;
    *found = lane_value(given, lane) >> 16 * (across % 2) & 0xFFFF;
    return !lane_opaque(given, lane);
}
/* The same of rows at one address: all of them store the same. */
static int stored_by_all(const Fragment *fragment, const Machine *machine, const titan_step *s,
                         uint32_t rows, int column, uint64_t *found)
{
    uint64_t other;
    int same = stored_element(fragment, machine, s, first_lane(rows), column, found);
    for (rows &= rows - 1; rows && same; rows &= rows - 1)
        same = stored_element(fragment, machine, s, first_lane(rows), column, &other) &&
               other == *found;
    return same;
}
/* What is written, by address, where all of it is known (note_value). */
static void note_rows(Machine *machine, const Fragment *fragment, const titan_step *s,
                      const Located *located, int total)
{
    int order[32];
    if (machine->maybe || !FLAG(s, 4) || !by_address(located, total, 16, order)) return;
    for (int n = 0; n < total; n++)
        for (int column = 0; column < 8; column++) {
            uint64_t item;
            if (!stored_by_all(fragment, machine, s, located[order[n]].lanes, column, &item))
                return;
            store_number(machine->written + 16 * n + 2 * column, item, 2);
        }
    machine->written_count = 16 * total;
}
static void store_rows(Machine *machine, Fragment *fragment, const titan_step *s,
                       const Located *located, int total)
{
    for (int n = 0; n < total; n++) {
        Spot part = located[n].spot;
        write_value(machine, fragment, 0, part, FLAG(s, 2), 0, 1);
        for (int column = 0; FLAG(s, 4) && column < 8; column++, part.at += 2) {
            uint64_t item; /* else it is open which row stays */
            if (stored_by_all(fragment, machine, s, located[n].lanes, column, &item))
                write_value(machine, fragment, 0, part, 2, item, 0);
        }
    }
}
static void matrix(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                   int mode)
{
    int rows = (int)FLAG(s, 3);
    int64_t size = FLAG(s, 2);
    int known = 0, by[32];
    Located located[32];
    for (int n = 0; n < 32; n++) by[n] = -1;
#if NUMBERS
    if (matrix_numbers(machine, fragment, s, mask, mode)) return;
#endif
    int total = locate(machine, fragment, ARG(s, 0), (int)FLAG(s, 0), FLAG(s, 1), FLAG(s, 5),
                       mask & (uint32_t)mask_of(rows), located), kept = 0;
    int windows = FLAG(s, 4) ? SHARED_WINDOW : ATOMIC_WINDOWS; /* wmma has no pieces */
    total = within(machine, fragment, located, total, FLAG(s, 5), windows);
    for (int n = 0; n < total; n++) { /* rows of which the first bytes are there */
        Spot spot = located[n].spot;
        if (outside(machine, spot.cta, spot.space, spot.at, size))
            memory_fault(machine, fragment, located[n].lanes, FAULT_OUTSIDE, spot, size);
        else
            located[kept++] = located[n];
    }
    if (total > 0) total = kept;
    if (total < 0) {
        anywhere(machine, fragment, (int)FLAG(s, 0), mask, mode, 0, 0, 0);
    } else {
        uint32_t first = total ? located[0].lanes : 0;
        if (FLAG(s, 4)) order_rows(machine, fragment, located, total, (int)FLAG(s, 4), mode);
        if (mode == WRITE) note_rows(machine, fragment, s, located, total);
        if (total == 1) located[0].lanes = mask;
        for (int n = 0; mode == READ && n < total; n++)
            known = known || any_known(machine, located[n].spot, size);
        record_located(machine, fragment, located, total, size, mode, 0, 0, known, 0);
        machine->written_count = 0;
        if (total == 1) located[0].lanes = first;
        for (int n = 0; n < total; n++)
            for (int lane = 0; lane < rows; lane++)
                if (located[n].lanes >> lane & 1) by[lane] = n;
        if (mode == WRITE) store_rows(machine, fragment, s, located, total);
    }
    if (mode == READ && known && FLAG(s, 4)) {
        load_rows(machine, fragment, s, mask, located, by);
        return;
    }
    for (int i = 0; mode == READ && i < s->out_count; i++)
        put_unknown(fragment->warp, OUT(s, i), fragment->pc, mask, 0);
}
