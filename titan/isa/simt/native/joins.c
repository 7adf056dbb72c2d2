/* Fragments and where they meet again (joins.py). */
static int step_once(Machine *machine, Fragment *fragment);
static void settle_barriers(Machine *machine, Cta *cta);
static void forget_arrivals(const Warp *warp, uint32_t mask);
static Groups *queue_of(Warp *warp, int queue, int lane);

static Fragment *new_fragment(Machine *machine, Warp *warp, uint32_t mask, int32_t pc, Join *join,
                              const Fragment *like, int32_t depth)
{
    Fragment *made = zeroed(1, sizeof *made);
    made->warp = warp;
    made->mask = mask;
    made->pc = pc;
    made->join = join;
    if (like) {
        made->depth = depth;
        memcpy(made->stack, like->stack, (size_t)depth * sizeof(int32_t));
    }
    if (warp->fragment_count == warp->fragment_room) {
        warp->fragment_room = warp->fragment_room ? 2 * warp->fragment_room : 4;
        warp->fragments =
            room(warp->fragments, (size_t)warp->fragment_room * sizeof *warp->fragments);
    }
    warp->fragments[warp->fragment_count++] = made;
    if (machine->grave_count == machine->grave_room) {
        machine->grave_room = machine->grave_room ? 2 * machine->grave_room : 64;
        machine->graves = room(machine->graves, (size_t)machine->grave_room * sizeof(Fragment *));
    }
    machine->graves[machine->grave_count++] = made; /* every fragment, to be freed at the end */
    return made;
}
static void remove_fragment(Fragment *fragment)
{
    Warp *warp = fragment->warp;
    fragment->dead = 1;
    for (int32_t n = 0; n < warp->fragment_count; n++)
        if (warp->fragments[n] == fragment) {
            memmove(&warp->fragments[n], &warp->fragments[n + 1],
                    (size_t)(warp->fragment_count - n - 1) * sizeof *warp->fragments);
            warp->fragment_count--;
            return;
        }
}
static Join *new_join(Machine *machine, Warp *warp, int32_t pc, int32_t depth, uint32_t expected,
                      Join *parent)
{
    Join *made = zeroed(1, sizeof *made);
    *made = (Join){pc, depth, expected, 0, parent, 1};
    if (warp->join_count == warp->join_room) {
        warp->join_room = warp->join_room ? 2 * warp->join_room : 4;
        warp->joins = room(warp->joins, (size_t)warp->join_room * sizeof *warp->joins);
    }
    warp->joins[warp->join_count++] = made;
    if (machine->all_join_count == machine->all_join_room) {
        machine->all_join_room = machine->all_join_room ? 2 * machine->all_join_room : 64;
        machine->all_joins =
            room(machine->all_joins, (size_t)machine->all_join_room * sizeof(Join *));
    }
    machine->all_joins[machine->all_join_count++] = made;
    return made;
}
static void remove_join(Warp *warp, Join *join)
{
    join->active = 0;
    for (int32_t n = 0; n < warp->join_count; n++)
        if (warp->joins[n] == join) {
            memmove(&warp->joins[n], &warp->joins[n + 1],
                    (size_t)(warp->join_count - n - 1) * sizeof *warp->joins);
            warp->join_count--;
            return;
        }
}
static void arrive_at_join(Fragment *fragment)
{
    for (Join *join = fragment->join; join; join = fragment->join) {
        if (fragment->pc != join->pc || fragment->depth != join->depth) return;
        join->arrived |= fragment->mask;
        if (join->arrived != join->expected) {
            remove_fragment(fragment);
            return;
        }
        fragment->mask = join->arrived;
        fragment->join = join->parent;
        remove_join(fragment->warp, join);
    }
}
/* The lanes will not come to one join. */
static void leave(Machine *machine, Fragment *fragment, Join *join, uint32_t mask)
{
    join->expected &= ~mask;
    if (join->active && join->arrived == join->expected) {
        remove_join(fragment->warp, join);
        if (join->expected) {
            int32_t depth = join->depth < fragment->depth ? join->depth : fragment->depth;
            new_fragment(machine, fragment->warp, join->arrived, join->pc, join->parent, fragment,
                         depth);
        }
    }
}
static void leave_joins(Machine *machine, Fragment *fragment, Join *join, uint32_t mask)
{
    for (; join; join = join->parent) leave(machine, fragment, join, mask);
}
/* Divide a fragment into parts; the first one stays this fragment. */
static void split(Machine *machine, Fragment *fragment, const uint32_t *masks, const int32_t *pcs,
                  int parts, int32_t meet_at)
{
    Join *join = fragment->join;
    if (meet_at >= 0 && !(join && join->pc == meet_at && join->depth == fragment->depth))
        join = new_join(machine, fragment->warp, meet_at, fragment->depth, fragment->mask, join);
    Marks spared = fragment->spared;
    fragment->mask = masks[0];
    fragment->pc = pcs[0];
    fragment->join = join;
    fragment->spared = pcs[0] == meet_at ? 0 : spared;
    for (int i = 1; i < parts; i++) {
        Fragment *part = new_fragment(machine, fragment->warp, masks[i], pcs[i], join, fragment,
                                      fragment->depth);
        part->spared = pcs[i] == meet_at ? 0 : spared;
        part->spared_at = fragment->spared_at;
    }
}
