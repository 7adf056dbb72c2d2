/* Operations over the lanes of a warp, and address windows (collectives.py). */
static void shuffle(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *a = &warp->registers[ARG(s, 0)], *b = &warp->registers[ARG(s, 1)];
    const Value *c = &warp->registers[ARG(s, 2)];
    Value value = {.uniform = 0, .opaque = 0}, inside = {.uniform = 0, .opaque = 0};
    memset(value.v, 0, sizeof value.v);
    memset(inside.v, 0, sizeof inside.v);
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left), source, valid;
        uint64_t site = (uint64_t)(int64_t)fragment->pc;
        if (lane_opaque(b, lane) || lane_opaque(c, lane)) {
            value.v[lane] = inside.v[lane] = site;
            value.opaque |= 1u << lane;
            inside.opaque |= 1u << lane;
            continue;
        }
        int distance = (int)(lane_value(b, lane) & 31), clamp = (int)(lane_value(c, lane) & 31);
        int segment = (int)(lane_value(c, lane) >> 8 & 31);
        int last = (lane & segment) | (clamp & ~segment & 31);
        switch (FLAG(s, 0)) {
        case 0: source = lane - distance; valid = source >= last; break;
        case 1: source = lane + distance; valid = source <= last; break;
        case 2: source = lane ^ distance; valid = source <= last; break;
        default:
            source = (lane & segment) | (distance & ~segment & 31);
            valid = source <= last;
            break;
        }
        inside.v[lane] = (uint64_t)valid;
        if (!valid) source = lane;
        if (mask >> source & 1) {
            value.v[lane] = lane_value(a, source);
            value.opaque |= (uint32_t)lane_opaque(a, source) << lane;
        } else {
            value.v[lane] = site;
            value.opaque |= 1u << lane;
            note_undefined(machine, fragment->pc);
        }
    }
    Marks marks = marks_of(machine, warp, s);
    put(warp, OUT(s, 0), &value, mask, marks);
    put(warp, OUT(s, 1), &inside, mask, marks);
}
static void vote(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[ARG(s, 0)];
    int zeros = 0, ones = 0, opaque = 0, known = 0;
    uint64_t result = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        if (lane_opaque(value, lane)) { opaque++; continue; }
        int truth = (int)(lane_value(value, lane) & 1) ^ (int)FLAG(s, 1);
        zeros += !truth;
        ones += truth;
        if (FLAG(s, 0) == 3) result |= (uint64_t)truth << lane;
    }
    switch (FLAG(s, 0)) {
    case 0: known = zeros || !opaque; result = !zeros; break;
    case 1: known = ones || !opaque; result = ones != 0; break;
    case 2: known = (zeros && ones) || !opaque; result = !(zeros && ones); break;
    default: known = !opaque; break;
    }
    Marks marks = marks_of(machine, warp, s);
    if (known) put_number(warp, OUT(s, 0), result, mask, marks);
    else put_unknown(warp, OUT(s, 0), fragment->pc, mask, marks);
}
static void match(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[ARG(s, 0)];
    Value result = {.uniform = 0, .opaque = 0};
    Marks marks = marks_of(machine, warp, s);
    int same = 1;
    memset(result.v, 0, sizeof result.v);
    for (uint32_t left = mask; left; left &= left - 1)
        if (lane_opaque(value, first_lane(left))) {
            for (int i = 0; i < s->out_count; i++)
                put_unknown(warp, OUT(s, i), fragment->pc, mask, marks);
            return;
        }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            int other = first_lane(rest);
            if (lane_value(value, other) == lane_value(value, lane))
                result.v[lane] |= 1ull << other;
        }
        same = same && result.v[lane] == mask;
    }
    if (FLAG(s, 0)) {
        put_number(warp, OUT(s, 0), same ? mask : 0, mask, marks);
        put_number(warp, OUT(s, 1), (uint64_t)same, mask, marks);
    } else {
        put(warp, OUT(s, 0), &result, mask, marks);
    }
}
static void redux(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *value = &warp->registers[ARG(s, 0)];
    Marks marks = marks_of(machine, warp, s);
    int first = 1, is_signed = s->kind == KIND_SIGNED;
    uint64_t result = 0;
#if NUMBERS
    if (s->kind == KIND_FLOAT && redux_numbers(machine, fragment, s, mask)) return;
#endif
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = first_lane(left);
        if (lane_opaque(value, lane) || s->kind == KIND_FLOAT) {
            put_unknown(warp, OUT(s, 0), fragment->pc, mask, marks);
            return;
        }
        uint64_t item = lane_value(value, lane);
        int less = is_signed ? sign(item, 32) < sign(result, 32) : item < result;
        int more = is_signed ? sign(item, 32) > sign(result, 32) : item > result;
        if (first) { result = item; first = 0; continue; }
        switch (FLAG(s, 0)) {
        case A_ADD: result = (result + item) & 0xFFFFFFFFu; break;
        case A_MIN: result = less ? item : result; break;
        case A_MAX: result = more ? item : result; break;
        case A_AND: result &= item; break;
        case A_OR: result |= item; break;
        default: result ^= item; break;
        }
    }
    if (FLAG(s, 0) == A_ADD) result &= 0xFFFFFFFFu;
    put_number(warp, OUT(s, 0), result, mask, marks);
}
static void elect(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    uint32_t members = (uint32_t)lane_value(&warp->registers[ARG(s, 0)], first_lane(mask));
    int leader = first_lane(mask & members ? mask & members : mask);
    RECORD(EV_ELECT, fragment, mask, members, leader);
    assume(machine, fragment, mask, POLICY_ELECTED_LANE);
    put_number(warp, OUT(s, 0), (uint64_t)leader, mask, 0);
    Value chosen = {.uniform = 0, .opaque = 0};
    for (int lane = 0; lane < 32; lane++) chosen.v[lane] = lane == leader;
    put(warp, OUT(s, 1), &chosen, mask, 0);
}
/* Lanes may name different masks, as those of halves and tiles do: a meeting for each. */
static void warp_sync(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    const Value *masks = &warp->registers[ARG(s, 0)];
    for (uint32_t left = mask; left; left &= left - 1)
        if (lane_opaque(masks, first_lane(left)))
            refuse(machine, fragment, "the mask of members is not known");
    for (uint32_t left = mask, lanes; left; left &= ~lanes) {
        uint32_t members = (uint32_t)lane_value(masks, first_lane(left));
        lanes = lanes_naming(masks, left, members);
        some_lanes_meet(fragment, members);
        int64_t at = 0;
        while (at < warp->meetings.count && warp->meetings.data[at] != members) at += 2;
        if (at == warp->meetings.count) {
            push(&warp->meetings, members);
            push(&warp->meetings, 0);
        }
        int64_t generation = warp->meetings.data[at + 1]++;
        RECORD(EV_RENDEZVOUS, fragment, lanes, 2, 2, members,
               __builtin_popcount(members & warp->live), generation, 4, 1);
    }
}
/* cvta, isspacep, mapa, getctarank: a result of each lane. */
static void mapped(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Warp *warp = fragment->warp;
    Value result = {.uniform = 0, .opaque = 0};
    memset(result.v, 0, sizeof result.v);
    int all = 1;
    for (int i = 0; i < s->arg_count; i++) all = all && warp->registers[ARG(s, i)].uniform;
    for (uint32_t left = all ? 1 : mask; left; left &= left - 1) {
        int lane = first_lane(left), opaque = 0;
        uint64_t v[2] = {0, 0};
        for (int i = s->arg_count - 1; i >= 0; i--) {
            const Value *value = &warp->registers[ARG(s, i)];
            v[i] = lane_value(value, lane);
            if (lane_opaque(value, lane)) opaque = i + 1;
        }
        uint64_t a = v[0], found;
        switch (s->op) {
        case TO_GENERIC: found = to_generic((int)FLAG(s, 0), a); break;
        case FROM_GENERIC: resolve(&a); found = a; break;
        case IS_SPACE:
            found = resolve(&a) == FLAG(s, 0);
            if (FLAG(s, 1) && fragment->warp->cta->cluster->cta_count > 1)
                found = found && a >> RANK_SHIFT == (uint64_t)fragment->warp->cta->rank;
            break;
        case MAPA:
            if (FLAG(s, 0)) resolve(&a);
            found = v[1] << RANK_SHIFT | (a & OFFSET_MASK);
            if (FLAG(s, 0)) found = to_generic(SHARED, found);
            break;
        default:
            if (FLAG(s, 0)) resolve(&a);
            found = a >> RANK_SHIFT;
            break;
        }
        result.v[lane] = opaque ? v[opaque - 1] : found;
        result.opaque |= (uint32_t)(opaque != 0) << lane;
    }
    if (all) result.uniform = 1;
    put(warp, OUT(s, 0), &result, mask, marks_of(machine, warp, s));
}
