/* Execution of one instruction, and of some in a row by one fragment (machine.py, execution.py). */
static void breach(Machine *machine, Fragment *fragment, int32_t reg, int write)
{
    Warp *warp = fragment->warp;
    Operation *o = machine->operations[warp->owned[reg] - 1];
#if NUMBERS
    if (o->queue == TENSOR_LOAD_QUEUE && !write) finish(machine, o); /* as the hardware waits */
#endif
    warp->owned[reg] = 0;
    warp->owned_count--;
    if (o->kind == OP_TENSOR_LOAD && !write) {
        const Words *loads = &queue_of(warp, TENSOR_LOAD_QUEUE, -1)->open;
        int64_t ended = -1;
        for (int64_t n = 0; n < loads->count; n++)
            if (machine->operations[loads->data[n]]->breached & 1) ended = loads->data[n];
        check_arm(machine, fragment, loads, ended);
    }
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
#if NUMBERS
            warp->owned_element[target] = warp->owned_element[source];
            machine->operations[warp->owned[source] - 1]->copied = 1;
#endif
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
    case TENSORMAP_COPY:
    case COLLECTIVE: case LOAD_MATRIX: case STORE_MATRIX: case WGMMA_FENCE: case WGMMA:
    case WGMMA_COMMIT: case WGMMA_WAIT: case TENSOR_ALLOCATE: case TENSOR_DEALLOCATE:
    case TENSOR_RELINQUISH: case TENSOR_LOAD: case TENSOR_STORE: case TENSOR_WAIT:
    case REGISTER_COUNT: return 1;
    default: return 0;
    }
}
static int has_members(int op) { return op >= SHUFFLE && op <= WARP_SYNC && op != ACTIVE_MASK; }
static int is_meeting(int op)
{
    return op == BARRIER_NAMED || op == CLUSTER_ARRIVE || op == CLUSTER_WAIT;
}
/* A collective instruction that the lanes of a mask may not execute (joins.py). */
static void check_members(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                          int aligned)
{
    Warp *warp = fragment->warp;
    if (aligned) {
        if (mask != warp->launched)
            RECORD(EV_PARTIAL_COLLECTIVE, fragment, mask, warp->launched);
        return;
    }
    if (is_meeting(s->op)) {
        if (FLAG(s, 1) && mask != fragment->mask)
            RECORD(EV_PARTIAL_COLLECTIVE, fragment, mask, warp->live);
        return;
    }
    int strangers = s->op != WARP_SYNC;
    const Value *masks = &warp->registers[ARG(s, s->arg_count - 1)];
    for (uint32_t left = mask, lanes; left; left &= ~lanes) {
        uint32_t members = (uint32_t)lane_value(masks, first_lane(left));
        lanes = masks->uniform ? left : lanes_naming(masks, left, members);
        if ((strangers && lanes & ~members) || members & fragment->mask & ~lanes)
            RECORD(EV_PARTIAL_COLLECTIVE, fragment, lanes, members);
    }
}

static void check_guard(Machine *machine, Fragment *fragment, const titan_step *s)
{
    Warp *warp = fragment->warp;
    Marks marks = mark_of(warp, s->guard);
    if (is_pure(s->op)) return;
    if (s->op == BRANCH) {
        const titan_region *region = &machine->code->regions[s->region];
        if (region->waits) {
            uint32_t holds, maybe;
            guarded(warp, s, fragment->mask, &holds, &maybe);
            int32_t passes = holds == fragment->mask ? (int32_t)FLAG(s, 0) : fragment->pc + 1;
            int divided = holds && holds != fragment->mask;
            int rests = marks & MARK_POLL && (divided || passes != s->join);
            fragment->spared = rests ? marks : 0;
            fragment->spared_at = fragment->pc;
        }
        if (marks & MARK_POLL && region->waits) {
            for (int32_t n = 0; n < region->written_count; n++)
                warp->sticky[machine->code->pool[region->written + n]] =
                    marks & ~(Marks)MARK_ATOMIC;
            marks &= MARK_ATOMIC;
        }
        if (marks) steered(machine, fragment, marks, USE_BRANCH, ALL_LANES);
    } else if (marks && (s->op != BARRIER_WAIT || marks & MARK_ATOMIC)) {
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
#if NUMBERS
        if (s->op == COLLECTIVE && collective_numbers(machine, fragment, s, mask)) return 0;
#endif
        for (int i = 0; i < s->out_count; i++)
            put_unknown(fragment->warp, OUT(s, i), fragment->pc, mask, 0);
        return 0;
    case LOAD: load(machine, fragment, s, mask); return 0;
    case STORE: store(machine, fragment, s, mask); return 0;
    case ATOMIC: atomic(machine, fragment, s, mask); return 0;
    case LOAD_MATRIX: matrix(machine, fragment, s, mask, READ); return 0;
    case STORE_MATRIX: matrix(machine, fragment, s, mask, WRITE); return 0;
    case PREFETCH: prefetch(machine, fragment, s, mask); return 0;
    case TENSORMAP_REPLACE: replace_in_map(machine, fragment, s, mask); return 0;
    case TENSORMAP_COPY: copy_map(machine, fragment, s, mask); return 0;
    case BARRIER_INIT: barrier_init(machine, fragment, s, mask); return 0;
    case BARRIER_INVALIDATE: barrier_invalidate(machine, fragment, s, mask); return 0;
    case BARRIER_ARRIVE: barrier_arrive(machine, fragment, s, mask); return 0;
    case BARRIER_EXPECT: barrier_expect(machine, fragment, s, mask); return 0;
    case BARRIER_WAIT: barrier_wait(machine, fragment, s, mask); return 1;
    case COPY: copy(machine, fragment, s, mask); return 0;
    case COPY_COMMIT: case BULK_COMMIT: case WGMMA_COMMIT:
        commit(machine, fragment,
               s->op == BULK_COMMIT ? BULK : s->op == COPY_COMMIT ? COPY_QUEUE : WGMMA_QUEUE, mask);
        return 0;
    case WGMMA_WAIT:
        if (blocked_by_warpgroup(fragment, FLAG(s, 0), mask)) return 1;
        wait_groups(machine, fragment, s, mask); return 0;
    case COPY_WAIT: case BULK_WAIT: wait_groups(machine, fragment, s, mask); return 0;
    case COPY_WAIT_ALL: /* commit_group, and wait_group 0 */
        commit(machine, fragment, COPY_QUEUE, mask);
        wait_groups(machine, fragment, s, mask);
        return 0;
    case COPY_ARRIVE: copy_arrive(machine, fragment, s, mask); return 0;
    case BULK_COPY: bulk_copy(machine, fragment, s, mask); return 0;
    case TENSOR_COPY: tensor_copy(machine, fragment, s, mask); return 0;
    case STORE_ASYNC: store_async(machine, fragment, s, mask); return 0;
    case WGMMA_FENCE:
        lanes_fence(fragment, mask, 6);
        RECORD(EV_FENCE, fragment, mask, 6, 0, 0, 0, -1);
        return 0;
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
    int reaches = s->op == STORE || s->op == ATOMIC || s->op == LOAD || s->op == PREFETCH;
    if (is_pure(s->op) || reaches) {
        assume(machine, fragment, maybe, POLICY_OPAQUE_GUARD);
        int before = machine->maybe;
        machine->maybe = before || reaches;
        machine->uncertain = 1;
        execute(machine, fragment, s, mask | maybe);
        machine->maybe = before;
        machine->uncertain = 0;
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
    int aligned = is_aligned(s->op), members = has_members(s->op);
    if ((aligned || members) && !meet(machine, fragment, s, aligned)) return 1;
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
    if (aligned || members || is_meeting(s->op)) check_members(machine, fragment, s, mask, aligned);
    if (execute(machine, fragment, s, mask))
        return fragment->pc == pc || fragment->dead || fragment->blocked;
    fragment->pc = pc + 1;
    return 0;
}
#if NUMBERS
static int quick_step(Machine *machine, Fragment *fragment);
#endif
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
        if (!NUMBERS && machine->event_count >= machine->launch->events_max) {
            snprintf(machine->reason, sizeof machine->reason, "the budget of events is used");
            end_run(machine, fragment, BUDGET);
        }
        machine->count++;
#if NUMBERS
        if (quick_step(machine, fragment)) continue;
#endif
        if (step_once(machine, fragment)) return;
    }
}
