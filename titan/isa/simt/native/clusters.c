/* Special registers, and clusters of CTAs from start to end (special.py, recorder.py). */

enum {
    S_TID_X, S_TID_Y, S_TID_Z, S_NTID_X, S_NTID_Y, S_NTID_Z, S_CTAID_X, S_CTAID_Y, S_CTAID_Z,
    S_NCTAID_X, S_NCTAID_Y, S_NCTAID_Z, S_CLUSTERID_X, S_CLUSTERID_Y, S_CLUSTERID_Z,
    S_NCLUSTERID_X, S_NCLUSTERID_Y, S_NCLUSTERID_Z, S_CLUSTER_CTAID_X, S_CLUSTER_CTAID_Y,
    S_CLUSTER_CTAID_Z, S_CLUSTER_NCTAID_X, S_CLUSTER_NCTAID_Y, S_CLUSTER_NCTAID_Z, S_LANEID,
    S_CLUSTER_CTARANK, S_CLUSTER_NCTARANK, S_IS_EXPLICIT_CLUSTER,
    S_LANEMASK_EQ, S_LANEMASK_LE, S_LANEMASK_LT, S_LANEMASK_GE, S_LANEMASK_GT,
    S_DYNAMIC_SMEM_SIZE, S_TOTAL_SMEM_SIZE, S_AGGR_SMEM_SIZE, S_RESERVED_BEGIN, S_RESERVED_END,
    S_RESERVED_CAP, S_SHARED, S_UNKNOWN
};
static void special(const Machine *machine, const Warp *warp, int which, uint64_t given,
                    Value *value)
{
    const titan_launch *l = machine->launch;
    const Cta *cta = warp->cta;
    int64_t number = cta->number, x = l->grid[0], y = l->grid[1];
    int64_t at[3] = {number % x, number / x % y, number / (x * y)};
    int axis = which % 3;
    int64_t dynamic = l->shared_bytes - l->dynamic_start;
    int per_lane = which <= S_TID_Z || which == S_LANEID ||
                   (which >= S_LANEMASK_EQ && which <= S_LANEMASK_GT);
    if (per_lane) {
        value->uniform = 0;
        value->opaque = 0;
        for (int lane = 0; lane < 32; lane++) {
            int64_t thread = warp->index * 32 + lane, bx = l->block[0], by = l->block[1];
            int64_t tid[3] = {thread % bx, thread / bx % by, thread / (bx * by)};
            uint64_t equal = 1ull << lane, less = equal - 1;
            uint64_t masks[] = {equal, less | equal, less, 0xFFFFFFFFull & ~less,
                                0xFFFFFFFFull & ~(less | equal)};
            value->v[lane] = which <= S_TID_Z ? (uint64_t)tid[axis]
                             : which == S_LANEID ? (uint64_t)lane : masks[which - S_LANEMASK_EQ];
        }
        return;
    }
    int64_t found = 0;
    switch (which) {
    case S_NTID_X: case S_NTID_Y: case S_NTID_Z: found = l->block[axis]; break;
    case S_CTAID_X: case S_CTAID_Y: case S_CTAID_Z: found = at[axis]; break;
    case S_NCTAID_X: case S_NCTAID_Y: case S_NCTAID_Z: found = l->grid[axis]; break;
    case S_CLUSTERID_X: case S_CLUSTERID_Y: case S_CLUSTERID_Z:
        found = at[axis] / l->cluster[axis]; break;
    case S_NCLUSTERID_X: case S_NCLUSTERID_Y: case S_NCLUSTERID_Z:
        found = l->grid[axis] / l->cluster[axis]; break;
    case S_CLUSTER_CTAID_X: case S_CLUSTER_CTAID_Y: case S_CLUSTER_CTAID_Z:
        found = at[axis] % l->cluster[axis]; break;
    case S_CLUSTER_NCTAID_X: case S_CLUSTER_NCTAID_Y: case S_CLUSTER_NCTAID_Z:
        found = l->cluster[axis]; break;
    case S_CLUSTER_CTARANK: found = cta->rank; break;
    case S_CLUSTER_NCTARANK: found = cta->cluster->cta_count; break;
    case S_IS_EXPLICIT_CLUSTER: found = cta->cluster->cta_count > 1; break;
    case S_DYNAMIC_SMEM_SIZE: found = dynamic; break;
    case S_TOTAL_SMEM_SIZE: found = l->static_bytes + dynamic; break;
    case S_AGGR_SMEM_SIZE: found = l->static_bytes + dynamic + 1024; break;
    case S_RESERVED_END: case S_RESERVED_CAP: found = 1024; break;
    case S_SHARED:
        found = (int64_t)given;
        if (cta->cluster->cta_count > 1) found += (int64_t)cta->rank << RANK_SHIFT;
        break;
    case S_RESERVED_BEGIN: break;
    default: unknown(value, -1); return;
    }
    constant(value, (uint64_t)found);
}
static void start_cta(Machine *machine, Cta *cta)
{
    const titan_code *code = machine->code;
    const int32_t *block = machine->launch->block;
    int32_t threads = block[0] * block[1] * block[2];
    make_bytes(&cta->shared, machine->launch->shared_bytes);
#if NUMBERS
    start_cta_numbers(machine, cta);
#endif
    cta->warp_count = machine->warps_each;
    cta->warps = zeroed((size_t)cta->warp_count, sizeof(Warp));
    machine->by_number[cta->number] = cta;
    for (int32_t n = 0; n < cta->warp_count; n++) {
        Warp *warp = &cta->warps[n];
        int32_t left = threads - 32 * n;
        warp->cta = cta;
        warp->index = n;
        warp->launched = warp->live = left >= 32 ? ALL_LANES : (1u << left) - 1;
        warp->registers = zeroed((size_t)code->registers, sizeof(Value));
        warp->marks = zeroed((size_t)code->registers, sizeof(Marks));
        warp->sticky = zeroed((size_t)code->registers, sizeof(Marks));
        warp->owned_kind = zeroed((size_t)code->registers, 1);
        warp->owned = zeroed((size_t)code->registers, sizeof(int32_t));
        if (NUMBERS) warp->owned_element = zeroed((size_t)code->registers, sizeof(int16_t));
        for (int lane = 0; lane < 32; lane++) warp->arrivals[lane] = -1;
        for (int32_t reg = 0; reg < code->registers; reg++) unknown(&warp->registers[reg], -1);
        for (int32_t k = 0; k < code->preset_count; k++) {
            const titan_preset *preset = &code->presets[k];
            Value *value = &warp->registers[preset->reg];
            if (preset->kind == 0) constant(value, preset->value);
            else if (preset->kind == 1)
                special(machine, warp, preset->special, preset->value, value);
        }
        new_fragment(machine, warp, warp->live, code->start, NULL, NULL, 0);
    }
}
static void free_cta(Machine *machine, Cta *cta)
{
    for (int32_t n = 0; n < cta->warp_count; n++) {
        Warp *warp = &cta->warps[n];
        free(warp->registers);
        free(warp->marks);
        free(warp->sticky);
        free(warp->owned_kind);
        free(warp->owned);
        free(warp->owned_element);
        free_uses(warp->uses);
        free(warp->fragments);
        free(warp->joins);
        free(warp->meetings.data);
        free(warp->issued.data);
        for (int lane = 0; warp->local && lane < 32; lane++) {
            free(warp->local[lane].data);
            free(warp->local[lane].state);
        }
        free(warp->local);
        for (int q = 0; q < QUEUES; q++)
            for (int lane = 0; lane < 33; lane++)
                if (warp->groups[q][lane]) {
                    free(warp->groups[q][lane]->open.data);
                    free(warp->groups[q][lane]->closed.data);
                    free(warp->groups[q][lane]->ends.data);
                    free(warp->groups[q][lane]);
                }
    }
    for (int n = 0; n < 16; n++) {
        free(cta->named[n].values.data);
        free(cta->named[n].last.data);
    }
    free(cta->barriers);
#if NUMBERS
    free_cta_numbers(cta);
#endif
    free(cta->shared.data);
    free(cta->shared.state);
    free(cta->warps);
    (void)machine;
}
/* Big things of warps that ended: what late completions need stays. */
static void shrink_cluster(Cluster *cluster)
{
    for (int32_t r = 0; r < cluster->cta_count; r++)
        for (int32_t n = 0; n < cluster->ctas[r].warp_count; n++) {
            Warp *warp = &cluster->ctas[r].warps[n];
            free(warp->registers);
            warp->registers = NULL;
        }
}
static void start_cluster(Machine *machine)
{
    const titan_launch *l = machine->launch;
    int64_t number = l->ctas[machine->next_cluster++];
    int64_t gx = l->grid[0], gy = l->grid[1];
    int64_t at[3] = {number % gx, number / gx % gy, number / (gx * gy)};
    Cluster *cluster = zeroed(1, sizeof *cluster);
    cluster->cta_count = l->cluster[0] * l->cluster[1] * l->cluster[2];
    cluster->ctas = zeroed((size_t)cluster->cta_count, sizeof(Cta));
    for (int32_t rank = 0; rank < cluster->cta_count; rank++) {
        int64_t x = at[0] - at[0] % l->cluster[0] + rank % l->cluster[0];
        int64_t y = at[1] - at[1] % l->cluster[1] + rank / l->cluster[0] % l->cluster[1];
        int64_t z = at[2] - at[2] % l->cluster[2] + rank / (l->cluster[0] * l->cluster[1]);
        Cta *cta = &cluster->ctas[rank];
        cta->number = (int32_t)(x + gx * (y + gy * z));
        cta->rank = rank;
        cta->cluster = cluster;
        start_cta(machine, cta);
    }
    if (machine->cluster_count == machine->cluster_room) {
        machine->cluster_room = machine->cluster_room ? 2 * machine->cluster_room : 8;
        machine->clusters =
            room(machine->clusters, (size_t)machine->cluster_room * sizeof(Cluster *));
    }
    machine->clusters[machine->cluster_count++] = cluster;
    if (machine->all_count == machine->all_room) {
        machine->all_room = machine->all_room ? 2 * machine->all_room : 8;
        machine->all = room(machine->all, (size_t)machine->all_room * sizeof(Cluster *));
    }
    machine->all[machine->all_count++] = cluster;
}
