/* clusterlaunchcontrol: asking for another cluster, and the answer. Twin: launch_control.py. */

/* The answer of a try_cancel: the cluster that follows in the grid, or nothing. */
static uint64_t answer_of(Machine *machine, Fragment *fragment, uint32_t lanes)
{
    const titan_launch *l = machine->launch;
    Cluster *cluster = fragment->warp->cta->cluster;
    if (cluster->cancelled >= l->cancelled) {
        assume(machine, fragment, lanes, POLICY_NO_CANCEL);
        return 0;
    }
    int64_t across[3], found = cluster_number(machine, fragment->warp) + ++cluster->cancelled;
    for (int axis = 0; axis < 3; axis++) across[axis] = l->grid[axis] / l->cluster[axis];
    found %= across[0] * across[1] * across[2];
    uint64_t first[3] = {(uint64_t)(found % across[0] * l->cluster[0]),
                         (uint64_t)(found / across[0] % across[1] * l->cluster[1]),
                         (uint64_t)(found / across[0] / across[1] * l->cluster[2])};
    return 1 | first[0] << 1 | first[1] << 32 | first[2] << 48;
}
static void try_cancel(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    int32_t registers[2] = {ARG(s, 0), ARG(s, 1)};
    for (int lane = 0; lane < 32; lane++) {
        uint32_t lanes = 1u << lane;
        if (!(mask & lanes)) continue;
        Group group[32];
        grouped(machine, fragment, registers, 2, lanes, "an address", group);
        Spot spot;
        int ok = shared_range(machine, fragment, lanes, group->values[0] + (uint64_t)FLAG(s, 0),
                              16, 16, &spot);
        Place place = barrier_place(machine, fragment, SHARED,
                                    group->values[1] + (uint64_t)FLAG(s, 1));
        if (!ok) continue;
        Effects effects = {.count = 0};
        Completions completes = {.count = 0};
        Cluster *cluster = fragment->warp->cta->cluster;
        for (int r = 0; r < (FLAG(s, 2) ? cluster->cta_count : 1); r++) {
            const Cta *cta = FLAG(s, 2) ? &cluster->ctas[r] : spot.cta;
            add_effect(&effects, of_range(machine, SHARED, cta->number, spot.at, spot.at + 16),
                       WRITE, P_ASYNC);
            completes.places[completes.count] =
                (Place){FLAG(s, 2) ? cta->number : place.cta, place.offset};
            completes.bytes[completes.count++] = 16;
        }
        uint64_t answer = answer_of(machine, fragment, lanes);
        Operation *o =
            start(machine, fragment, lanes, OP_TRY_CANCEL, &effects, &completes, -1, -1, 0, 0);
        o->answers = 1;
        o->answer = answer;
    }
}
static void query_cancel(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    const Value *value = &fragment->warp->registers[ARG(s, 0)];
    int lane = first_lane(mask), opaque = lane_opaque(value, lane);
    uint64_t common = lane_value(value, lane);
    static const int low[] = {0, 1, 32, 48, 0}, bits[] = {1, 31, 16, 16, 0};
    for (int i = 0; i < s->out_count; i++) {
        int which = (int)FLAG(s, 0) + i;
        uint64_t found = common >> low[which] & ((1ull << bits[which]) - 1);
        int open = !bits[which] || (which && !(common & 1));
        if (opaque) put_unknown(fragment->warp, OUT(s, i), (int64_t)common, mask, 0);
        else if (open) put_unknown(fragment->warp, OUT(s, i), fragment->pc, mask, 0);
        else put_number(fragment->warp, OUT(s, i), found, mask, 0);
    }
}
