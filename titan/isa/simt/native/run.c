/* Execution of one instruction, scheduling, and what Python calls (machine.py). */
static void breach(Machine *machine, Fragment *fragment, int32_t reg, int write)
{
    Warp *warp = fragment->warp;
    Operation *o = machine->operations[warp->owned[reg] - 1];
    warp->owned[reg] = 0;
    warp->owned_count--;
    if (o->breached >> write & 1) return;
    o->breached |= 1 << write;
    RECORD(EV_REGISTER_BREACH, fragment, fragment->mask, reg, o->number, write);
}
/* Registers that an asynchronous operation still writes or reads. */
static void check_owned(Machine *machine, Fragment *fragment, const titan_step *s)
{
    Warp *warp = fragment->warp;
    if (s->op == MOV) {
        int32_t source = ARG(s, 0), target = OUT(s, 0);
        if (target < 0) return;
        if (warp->owned[source] && warp->owned_kind[source] == 1) {
            warp->owned_count += !warp->owned[target];
            warp->owned[target] = warp->owned[source];
            warp->owned_kind[target] = 1;
        } else if (warp->owned[target]) {
            breach(machine, fragment, target, 1);
        }
        return;
    }
    /* in the order of the registers, as the Python machine sorts them */
    int only_sources = s->op == WGMMA || s->op == NOP;
    for (;;) {
        int32_t best = -1;
        int best_write = 0;
        for (int i = 0; i < s->arg_count + (only_sources ? 0 : s->out_count + 1); i++) {
            int32_t reg = i < s->arg_count ? ARG(s, i)
                          : i < s->arg_count + s->out_count ? OUT(s, i - s->arg_count)
                                                            : s->guard;
            if (reg < 0 || !warp->owned[reg] || (best >= 0 && reg >= best)) continue;
            int write = 0;
            for (int k = 0; k < s->out_count; k++) write |= OUT(s, k) == reg;
            if (!write && warp->owned_kind[reg] != 1) continue;
            best = reg;
            best_write = write;
        }
        if (best < 0) return;
        breach(machine, fragment, best, best_write);
    }
}
static int is_pure(int op) { return op < BRANCH; }
static int is_aligned(int op)
{
    switch (op) {
    case COLLECTIVE: case LOAD_MATRIX: case STORE_MATRIX: case WGMMA_FENCE: case WGMMA:
    case WGMMA_COMMIT: case WGMMA_WAIT: case TENSOR_ALLOCATE: case TENSOR_DEALLOCATE:
    case TENSOR_RELINQUISH: case TENSOR_LOAD: case TENSOR_STORE: case TENSOR_WAIT:
    case REGISTER_COUNT: return 1;
    default: return 0;
    }
}
static int has_members(int op) { return op >= SHUFFLE && op <= WARP_SYNC && op != ACTIVE_MASK; }

static void check_guard(Machine *machine, Fragment *fragment, const titan_step *s)
{
    Warp *warp = fragment->warp;
    int marks = mark_of(warp, s->guard);
    if (!marks || is_pure(s->op)) return;
    if (s->op == BRANCH) {
        const titan_region *region = &machine->code->regions[s->region];
        if (marks & MARK_POLL && region->waits) {
            marks &= ~MARK_POLL;
            for (int32_t n = 0; n < region->written_count; n++)
                warp->sticky[machine->code->pool[region->written + n]] = MARK_POLL;
        }
        if (marks) steered(machine, fragment, marks, USE_BRANCH, ALL_LANES);
    } else if (s->op != BARRIER_WAIT || marks & ~MARK_POLL) {
        steered(machine, fragment, marks, USE_GUARD, ALL_LANES);
    }
}

/* Execute an operation that is not arithmetic. 1: the instruction pointer is set. */
static int execute(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    switch (s->op) {
    case TO_GENERIC: case FROM_GENERIC: case IS_SPACE: case MAPA: case GET_RANK:
        mapped(machine, fragment, s, mask); return 0;
    case BRANCH: branch(machine, fragment, s, mask); return 1;
    case BRANCH_INDEXED: branch_indexed(machine, fragment, s, mask); return 1;
    case CALL: call(machine, fragment, s, mask); return 1;
    case RETURN: return_lanes(machine, fragment, mask); return 1;
    case EXIT: exit_lanes(machine, fragment, mask); return 1;
    case TRAP: fault_run(machine, fragment, "the program executes `trap`");
    case SHUFFLE: shuffle(machine, fragment, s, mask); return 0;
    case VOTE: vote(machine, fragment, s, mask); return 0;
    case MATCH: match(machine, fragment, s, mask); return 0;
    case REDUX: redux(machine, fragment, s, mask); return 0;
    case ELECT: elect(machine, fragment, s, mask); return 0;
    case ACTIVE_MASK: put_number(fragment->warp, OUT(s, 0), fragment->mask, mask, 0); return 0;
    case WARP_SYNC: warp_sync(machine, fragment, s, mask); return 0;
    case COLLECTIVE: case BARRIER_PENDING:
        for (int i = 0; i < s->out_count; i++)
            put_unknown(fragment->warp, OUT(s, i), fragment->pc, mask, 0);
        return 0;
    case LOAD: load(machine, fragment, s, mask); return 0;
    case STORE: store(machine, fragment, s, mask); return 0;
    case ATOMIC: atomic(machine, fragment, s, mask); return 0;
    case LOAD_MATRIX: matrix(machine, fragment, s, mask, READ); return 0;
    case STORE_MATRIX: matrix(machine, fragment, s, mask, WRITE); return 0;
    case PREFETCH: prefetch(machine, fragment, s, mask); return 0;
    case TENSORMAP_REPLACE: tensormap_replace(machine, fragment, s, mask); return 0;
    case BARRIER_INIT: barrier_init(machine, fragment, s, mask); return 0;
    case BARRIER_INVALIDATE: barrier_invalidate(machine, fragment, s, mask); return 0;
    case BARRIER_ARRIVE: barrier_arrive(machine, fragment, s, mask); return 0;
    case BARRIER_EXPECT: barrier_expect(machine, fragment, s, mask); return 0;
    case BARRIER_WAIT: barrier_wait(machine, fragment, s, mask); return 1;
    case COPY: copy(machine, fragment, s, mask); return 0;
    case COPY_COMMIT: case BULK_COMMIT: case WGMMA_COMMIT:
        commit(machine, fragment, s, mask); return 0;
    case COPY_WAIT: case BULK_WAIT: case WGMMA_WAIT:
        wait_groups(machine, fragment, s, mask); return 0;
    case COPY_WAIT_ALL: wait_all(machine, fragment, mask); return 0;
    case COPY_ARRIVE: copy_arrive(machine, fragment, s, mask); return 0;
    case BULK_COPY: bulk_copy(machine, fragment, s, mask); return 0;
    case TENSOR_COPY: tensor_copy(machine, fragment, s, mask); return 0;
    case STORE_ASYNC: store_async(machine, fragment, s, mask); return 0;
    case WGMMA_FENCE: RECORD(EV_FENCE, fragment, mask, 6, 0, 0, 0, -1); return 0;
    case WGMMA: wgmma(machine, fragment, s, mask); return 0;
    case TENSOR_ALLOCATE: allocate(machine, fragment, s, mask); return 1;
    case TENSOR_DEALLOCATE: deallocate(machine, fragment, s, mask); return 0;
    case TENSOR_RELINQUISH: RECORD(EV_TENSOR_RELINQUISH, fragment, mask, FLAG(s, 0)); return 0;
    case TENSOR_MULTIPLY: multiply(machine, fragment, s, mask); return 0;
    case TENSOR_MEMORY_COPY: memory_copy(machine, fragment, s, mask); return 0;
    case TENSOR_SHIFT: shift(machine, fragment, s, mask); return 0;
    case TENSOR_LOAD: case TENSOR_STORE: tensor_access(machine, fragment, s, mask); return 0;
    case TENSOR_WAIT: tensor_wait(machine, fragment, s, mask); return 0;
    case TENSOR_COMMIT: tensor_commit(machine, fragment, s, mask); return 0;
    case BARRIER_NAMED: named(machine, fragment, s, mask); return 1;
    case CLUSTER_ARRIVE: cluster_arrive(machine, fragment, s, mask); return 0;
    case CLUSTER_WAIT: cluster_wait(machine, fragment, mask); return 1;
    case FENCE: fence(machine, fragment, s, mask); return 0;
    case GRID_CONTROL: RECORD(EV_GRID_CONTROL, fragment, mask, FLAG(s, 0)); return 0;
    case REGISTER_COUNT:
        RECORD(EV_REGISTER_COUNT, fragment, mask, FLAG(s, 1), FLAG(s, 0)); return 0;
    case TRY_CANCEL: try_cancel(machine, fragment, s, mask); return 0;
    case QUERY_CANCEL: query_cancel(machine, fragment, s, mask); return 0;
    default: compute(machine, fragment, s, mask); return 0;
    }
}
/* An instruction that some lanes may execute or not. */
static int uncertain(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                     uint32_t maybe)
{
    int32_t pc = fragment->pc;
    if (s->op == BRANCH || s->op == BRANCH_INDEXED) {
        skip_branch(machine, fragment, s);
        return 0;
    }
    if (is_pure(s->op) || s->op == LOAD || s->op == STORE || s->op == PREFETCH) {
        assume(machine, fragment, maybe, POLICY_OPAQUE_GUARD);
        int before = machine->maybe;
        machine->maybe = before || s->op == STORE;
        execute(machine, fragment, s, mask | maybe);
        machine->maybe = before;
        for (int i = 0; i < s->out_count; i++)
            put_unknown(fragment->warp, OUT(s, i), pc, maybe, 0);
        fragment->pc = pc + 1;
        return 0;
    }
    machine->origin = site_of(&fragment->warp->registers[s->guard], maybe);
    snprintf(machine->reason, sizeof machine->reason,
             "an instruction that synchronises is guarded by a value that is not known (made at "
             "instruction %lld)",
             (long long)machine->origin);
    end_run(machine, fragment, REFUSED);
}
/* 1: the fragment's turn is over. */
static int step_once(Machine *machine, Fragment *fragment)
{
    int32_t pc = fragment->pc;
    const titan_step *s = &machine->code->steps[pc];
    Warp *warp = fragment->warp;
    int aligned = is_aligned(s->op);
    if ((aligned || has_members(s->op)) && !meet(machine, fragment, s, aligned)) return 1;
    uint32_t mask = fragment->mask, maybe = 0;
    if (warp->owned_count) check_owned(machine, fragment, s);
    if (s->guard >= 0) {
        check_guard(machine, fragment, s);
        guarded(warp, s, mask, &mask, &maybe);
        if (maybe) return uncertain(machine, fragment, s, mask, maybe);
        if (!mask) {
            fragment->pc = pc + 1;
            return 0;
        }
    }
    if (execute(machine, fragment, s, mask))
        return fragment->pc == pc || fragment->dead || fragment->blocked;
    fragment->pc = pc + 1;
    return 0;
}
static void run_fragment(Machine *machine, Fragment *fragment, int64_t quantum)
{
    for (int64_t n = 0; n < quantum; n++) {
        const Join *join = fragment->join;
        if (join && fragment->pc == join->pc && fragment->depth == join->depth)
            arrive_at_join(fragment);
        if (fragment->dead || fragment->blocked) return;
        if (machine->count >= machine->launch->steps_max) {
            snprintf(machine->reason, sizeof machine->reason,
                     "the budget of %lld steps is used", (long long)machine->launch->steps_max);
            end_run(machine, fragment, BUDGET);
        }
        machine->count++;
        if (step_once(machine, fragment)) return;
    }
}

/* ------------------------------------------------------------------------------ clusters */

enum {
    S_TID_X, S_TID_Y, S_TID_Z, S_NTID_X, S_NTID_Y, S_NTID_Z, S_CTAID_X, S_CTAID_Y, S_CTAID_Z,
    S_NCTAID_X, S_NCTAID_Y, S_NCTAID_Z, S_CLUSTERID_X, S_CLUSTERID_Y, S_CLUSTERID_Z,
    S_NCLUSTERID_X, S_NCLUSTERID_Y, S_NCLUSTERID_Z, S_CLUSTER_CTAID_X, S_CLUSTER_CTAID_Y,
    S_CLUSTER_CTAID_Z, S_CLUSTER_NCTAID_X, S_CLUSTER_NCTAID_Y, S_CLUSTER_NCTAID_Z, S_LANEID,
    S_WARPID, S_NWARPID, S_CLUSTER_CTARANK, S_CLUSTER_NCTARANK, S_IS_EXPLICIT_CLUSTER,
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
    case S_WARPID: found = warp->index; break;
    case S_NWARPID: found = machine->warps_each; break;
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
    cta->warp_count = machine->warps_each;
    cta->warps = zeroed((size_t)cta->warp_count, sizeof(Warp));
    machine->by_number[cta->number] = cta;
    for (int32_t n = 0; n < cta->warp_count; n++) {
        Warp *warp = &cta->warps[n];
        int32_t left = threads - 32 * n;
        warp->cta = cta;
        warp->index = n;
        warp->live = left >= 32 ? ALL_LANES : (1u << left) - 1;
        warp->registers = zeroed((size_t)code->registers, sizeof(Value));
        warp->marks = zeroed((size_t)code->registers, 1);
        warp->sticky = zeroed((size_t)code->registers, 1);
        warp->owned_kind = zeroed((size_t)code->registers, 1);
        warp->owned = zeroed((size_t)code->registers, sizeof(int32_t));
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

/* ---------------------------------------------------------------------------- scheduling */

static int ready(Machine *machine, const Fragment *fragment)
{
    Cta *cta = fragment->warp->cta;
    const MBarrier *barrier;
    switch (fragment->blocked) {
    case WAIT_MBARRIER:
        barrier = barrier_at(machine, fragment->place);
        return barrier && (barrier->phase != fragment->generation ||
                           barrier->id != fragment->object);
    case WAIT_NAMED: return cta->named[fragment->number].generation > fragment->generation;
    case WAIT_CLUSTER: return cta->cluster->generation > fragment->generation;
    case WAIT_TENSOR: return free_columns(cta, fragment->number) >= 0;
    default: return 0;
    }
}
static void resume(Machine *machine, Fragment *fragment)
{
    int why = fragment->blocked;
    fragment->blocked = WAIT_NONE;
    if (why == WAIT_MBARRIER) fragment->polled = 0;
    else if (why == WAIT_NAMED) resume_named(machine, fragment);
    else if (why == WAIT_CLUSTER) resume_cluster(machine, fragment);
}
static int run_warp(Machine *machine, Warp *warp, int64_t quantum)
{
    int ran = 0;
    int32_t count = warp->fragment_count;
    if (!count) return 0;
    Fragment *few[8], **snapshot = few;
    if (count > 8) snapshot = zeroed((size_t)count, sizeof *snapshot);
    memcpy(snapshot, warp->fragments, (size_t)count * sizeof *snapshot);
    for (int32_t n = 0; n < count; n++) {
        Fragment *fragment = snapshot[n];
        if (fragment->dead) continue;
        if (fragment->blocked) {
            if (!ready(machine, fragment)) continue;
            resume(machine, fragment);
        }
        ran = 1;
        run_fragment(machine, fragment, quantum);
    }
    if (snapshot != few) free(snapshot);
    return ran;
}
static int break_join(Machine *machine, Warp *warp)
{
    for (int32_t n = 0; n < warp->join_count; n++) {
        Join *join = warp->joins[n];
        if (!join->arrived) continue;
        uint32_t mask = join->arrived;
        const Fragment *like = NULL;
        join->arrived = 0;
        join->expected &= ~mask;
        for (int32_t k = 0; k < warp->fragment_count && !like; k++)
            if (warp->fragments[k]->depth >= join->depth) like = warp->fragments[k];
        new_fragment(machine, warp, mask, join->pc, join->parent, like, like ? join->depth : 0);
        if (!join->expected) remove_join(warp, join);
        return 1;
    }
    return 0;
}
static int unstick(Machine *machine)
{
    if (machine->flight.count) {
        finish(machine, machine->operations[machine->flight.data[0]]);
        return 1;
    }
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
            for (int32_t n = 0; n < machine->clusters[c]->ctas[r].warp_count; n++)
                if (break_join(machine, &machine->clusters[c]->ctas[r].warps[n])) return 1;
    if (machine->next_cluster < machine->launch->cta_count) {
        start_cluster(machine);
        return 1;
    }
    return 0;
}
static int one_round(Machine *machine)
{
    int64_t before = machine->count, quantum = QUANTUM, total = 0, first = 0, place = 0;
    int ran = 0;
    for (int32_t c = 0; c < machine->cluster_count; c++)
        total += (int64_t)machine->clusters[c]->cta_count * machine->warps_each;
    if (machine->launch->seed && total) {
        first = (int64_t)(draw(machine) % (uint64_t)total);
        quantum = 1 + (int64_t)(draw(machine) % QUANTUM);
    }
    for (int half = 0; half < 2; half++) { /* from `first` to the end, then from the start */
        place = 0;
        for (int32_t c = 0; c < machine->cluster_count; c++)
            for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
                for (int32_t n = 0; n < machine->warps_each; n++, place++)
                    if ((place >= first) == !half)
                        ran |= run_warp(machine, &machine->clusters[c]->ctas[r].warps[n], quantum);
    }
    int32_t kept = 0;
    for (int32_t c = 0; c < machine->cluster_count; c++) {
        Cluster *cluster = machine->clusters[c];
        if (live_threads(cluster)) machine->clusters[kept++] = cluster;
        else shrink_cluster(cluster);
    }
    machine->cluster_count = kept;
    machine->tick++;
    Words due = {0};
    for (int64_t n = 0; n < machine->flight.count; n++)
        if (machine->operations[machine->flight.data[n]]->due <= machine->tick)
            push(&due, machine->flight.data[n]);
    for (int64_t n = 0; n < due.count; n++) finish(machine, machine->operations[due.data[n]]);
    ran |= due.count > 0;
    free(due.data);
    if (ran && machine->count != before) {
        if (machine->count - machine->progress > STALL &&
            machine->next_cluster < machine->launch->cta_count) {
            machine->progress = machine->count;
            start_cluster(machine);
        }
        return 1;
    }
    return ran || unstick(machine);
}
/* (cta, warp, lanes, instruction, why, barrier cta, offset, number, phase, pending, bytes) */
static void tell_waiter(Machine *machine, const Fragment *fragment)
{
    const Warp *warp = fragment->warp;
    const Cta *cta = warp->cta;
    word bcta = -1, offset = -1, number = -1, phase = -1, pending = 0, bytes = 0;
    word lanes = fragment->blocked_mask;
    const MBarrier *barrier;
    switch (fragment->blocked) {
    case WAIT_MBARRIER:
        barrier = barrier_at(machine, fragment->place);
        bcta = fragment->place.cta;
        offset = fragment->place.offset;
        phase = fragment->generation;
        pending = barrier ? barrier->pending : 0;
        bytes = barrier ? barrier->bytes : 0;
        break;
    case WAIT_NAMED:
        number = fragment->number;
        phase = fragment->generation;
        pending = needed(cta, &cta->named[number]) - cta->named[number].arrived;
        break;
    case WAIT_CLUSTER:
        phase = fragment->generation;
        pending = live_threads(cta->cluster) - cta->cluster->arrived;
        break;
    case WAIT_TENSOR: pending = fragment->number; break;
    default:
        lanes = fragment->mask;
        number = fragment->required;
        pending = __builtin_popcount(fragment->required & ~fragment->mask);
        break;
    }
    word row[] = {cta->number, warp->index, lanes, fragment->pc, fragment->blocked, bcta, offset,
                  number, phase, pending, bytes};
    for (int n = 0; n < 11; n++) push(&machine->waiters, row[n]);
}

/* --------------------------------------------------------------------- for Python to call */

Machine *titan_simt_new(const titan_code *code, const titan_launch *launch)
{
    Machine *machine = zeroed(1, sizeof *machine);
    const int32_t *b = launch->block;
    int64_t ctas = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    machine->code = code;
    machine->launch = launch;
    machine->warps_each = (b[0] * b[1] * b[2] + 31) / 32;
    machine->random = launch->seed;
    machine->by_number = zeroed((size_t)ctas, sizeof(Cta *));
    machine->assumed = zeroed((size_t)code->step_count, 1);
    machine->atomic_sites = zeroed((size_t)code->step_count, 1);
    return machine;
}
void titan_simt_store(Machine *machine, int64_t at, const uint8_t *data, int64_t count)
{
    for (int64_t n = 0; n < count;) {
        Page *page = find_page(machine, (at + n) >> 12, 1);
        int64_t place = (at + n) & (PAGE - 1), piece = PAGE - place;
        if (piece > count - n) piece = count - n;
        memcpy(page->bytes.data + place, data + n, (size_t)piece);
        memset(page->bytes.state + place, KNOWN, (size_t)piece);
        n += piece;
    }
}
int titan_simt_read(Machine *machine, int64_t at, int64_t count, uint8_t *data)
{
    for (int64_t n = 0; n < count; n++) {
        uint64_t value;
        if (!read_global(machine, at + n, 1, &value)) return 0;
        data[n] = (uint8_t)value;
    }
    return 1;
}
int titan_simt_run(Machine *machine)
{
    machine->site = machine->end_cta = machine->end_warp = -1;
    machine->origin = machine->map_offset = -1;
    if (setjmp(machine->stop)) return machine->ending;
    while (one_round(machine)) {}
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
            for (int32_t n = 0; n < machine->warps_each; n++) {
                const Warp *warp = &machine->clusters[c]->ctas[r].warps[n];
                for (int32_t k = 0; k < warp->fragment_count; k++)
                    if (warp->fragments[k]->blocked) tell_waiter(machine, warp->fragments[k]);
            }
    if (machine->waiters.count) {
        snprintf(machine->reason, sizeof machine->reason, "nothing can go on");
        machine->ending = HUNG;
    }
    return machine->ending;
}
/* site, cta, warp, instructions, events, words of events, footprints, steering words,
   polls, atomics, waiters' words, origin, map offset */
void titan_simt_numbers(const Machine *machine, int64_t *out)
{
    int64_t numbers[] = {machine->site, machine->end_cta, machine->end_warp, machine->count,
                         machine->event_count, machine->events.count, machine->footprint_count,
                         machine->steering.count, machine->polls.count, machine->atomics.count,
                         machine->waiters.count, machine->origin, machine->map_offset};
    memcpy(out, numbers, sizeof numbers);
}
const char *titan_simt_reason(const Machine *machine) { return machine->reason; }
const int64_t *titan_simt_words(const Machine *machine, int which)
{
    const Words *all[] = {&machine->events, &machine->steering, &machine->polls, &machine->atomics,
                          &machine->waiters};
    return all[which]->data;
}
/* For each footprint: space, cta, boxes, then (start, length, steps, (count, distance)...) of each.
   Gives the words that it takes; with `out` NULL nothing is written. */
int64_t titan_simt_footprints(const Machine *machine, int64_t *out)
{
    int64_t count = 0;
    for (int64_t number = 0; number < machine->footprint_count; number++) {
        const Footprint *footprint = &machine->footprints[number];
        if (out) {
            out[count] = footprint->space;
            out[count + 1] = footprint->cta;
            out[count + 2] = footprint->boxes;
        }
        count += 3;
        for (int64_t n = 0; n < footprint->boxes; n++) {
            const Box *box = &machine->boxes[footprint->first + n];
            if (out) {
                out[count] = box->start;
                out[count + 1] = box->length;
                out[count + 2] = box->steps;
                for (int k = 0; k < box->steps; k++) {
                    out[count + 3 + 2 * k] = box->count[k];
                    out[count + 4 + 2 * k] = box->distance[k];
                }
            }
            count += 3 + 2 * box->steps;
        }
    }
    return count;
}
void titan_simt_free(Machine *machine)
{
    for (int32_t c = 0; c < machine->all_count; c++) {
        for (int32_t r = 0; r < machine->all[c]->cta_count; r++)
            free_cta(machine, &machine->all[c]->ctas[r]);
        free(machine->all[c]->ctas);
        free(machine->all[c]);
    }
    for (int64_t n = 0; n < machine->grave_count; n++) free(machine->graves[n]);
    for (int64_t n = 0; n < machine->all_join_count; n++) free(machine->all_joins[n]);
    for (int64_t n = 0; n < machine->operation_count; n++) {
        free(machine->operations[n]->after);
        free(machine->operations[n]);
    }
    for (int64_t n = 0; n < machine->page_slots; n++) {
        free(machine->pages[n].bytes.data);
        free(machine->pages[n].bytes.state);
    }
    Words *all[] = {&machine->events, &machine->steering, &machine->polls, &machine->atomics,
                    &machine->waiters, &machine->flight};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) free(all[n]->data);
    free(machine->pages);
    free(machine->operations);
    free(machine->graves);
    free(machine->all_joins);
    free(machine->all);
    free(machine->clusters);
    free(machine->footprints);
    free(machine->boxes);
    free(machine->slots);
    free(machine->by_number);
    free(machine->assumed);
    free(machine->atomic_sites);
    free(machine->scratch.data);
    free(machine);
}
