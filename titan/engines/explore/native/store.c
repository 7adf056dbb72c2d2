/* Canonical form, packing, and the table of stored states.
 *
 * Whole states are stored and compared: two states are one only when all their bytes agree. Agents
 * that the program cannot distinguish are sorted by everything the state says of them, which is a
 * normal form of the orbit: what belongs to an agent is its region and its bit in every mask. */

static uint8_t *put(uint8_t *to, word value)
{
    if (value >= -4 && value < 236) {
        *to++ = (uint8_t)(value + 4);
    } else if (value >= TILE_UNDEFINED && value <= TILE_ANCIENT) {
        *to++ = (uint8_t)(240 + value - TILE_UNDEFINED);
    } else if (value == (int16_t)value) {
        int16_t narrow = (int16_t)value;
        *to++ = 243;
        memcpy(to, &narrow, sizeof narrow);
        to += sizeof narrow;
    } else {
        *to++ = 244;
        memcpy(to, &value, sizeof value);
        to += sizeof value;
    }
    return to;
}

static const uint8_t *get(const uint8_t *from, word *value)
{
    uint8_t head = *from++;
    int16_t narrow;
    if (head < 240) {
        *value = (word)head - 4;
    } else if (head < 243) {
        *value = TILE_UNDEFINED + head - 240;
    } else if (head == 243) {
        memcpy(&narrow, from, sizeof narrow);
        *value = narrow;
        from += sizeof narrow;
    } else {
        memcpy(value, from, sizeof *value);
        from += sizeof *value;
    }
    return from;
}

static uint8_t *put_agent(const search_t *s, uint8_t *to, const word *region, int agent)
{
    const titan_program *p = s->program;
    word role = agent_info(s, agent)->role;
    const role_t *info = (const role_t *)p->role + role;
    for (int v = 0; v < info->variables; v++)
        to = put(to, region[A_VARIABLES + v]);
    to = put(to, region[A_NODE]);
    for (int q = 0; q < p->queues; q++)
        if (p->role_queue[role * p->queues + q])
            to = put(to, region[A_VARIABLES + p->variables + q]);
    to = put(to, region[A_FLIGHTS]);
    for (int f = 0; f < region[A_FLIGHTS]; f++) {
        const word *flight = flight_at(s, region, f);
        const node_t *node = node_at(s, flight[F_NODE]);
        to = put(to, flight[F_NODE]);
        to = put(to, flight[F_GROUP]);
        to = put(to, flight[F_CHUNKS] * 2 + flight[F_READING]);
        if (p->follows)
            to = put(to, flight[F_KNOWN]);
        for (int v = 0; v < 2 * (node->effects + node->completions); v++)
            to = put(to, flight[F_VALUES + v]);
    }
    return to;
}

static const uint8_t *get_agent(const search_t *s, const uint8_t *from, word *region, int agent)
{
    const titan_program *p = s->program;
    word role = agent_info(s, agent)->role, both;
    const role_t *info = (const role_t *)p->role + role;
    region[A_ISSUED] = 0;
    for (int v = 0; v < info->variables; v++)
        from = get(from, region + A_VARIABLES + v);
    from = get(from, region + A_NODE);
    for (int q = 0; q < p->queues; q++)
        if (p->role_queue[role * p->queues + q])
            from = get(from, region + A_VARIABLES + p->variables + q);
    from = get(from, region + A_FLIGHTS);
    for (int f = 0; f < region[A_FLIGHTS]; f++) {
        word *flight = flight_at(s, region, f);
        from = get(from, flight + F_NODE);
        from = get(from, flight + F_GROUP);
        from = get(from, &both);
        flight[F_CHUNKS] = both >> 1;
        flight[F_READING] = both & 1;
        flight[F_ORDINAL] = flight[F_KNOWN] = 0;
        if (p->follows)
            from = get(from, flight + F_KNOWN);
        const node_t *node = node_at(s, flight[F_NODE]);
        for (int v = 0; v < 2 * (node->effects + node->completions); v++)
            from = get(from, flight + F_VALUES + v);
    }
    return from;
}

static int flight_order(const search_t *s, const word *left, const word *right)
{
    word counts = 2;
    const node_t *node = node_at(s, left[F_NODE]);
    if (left[F_NODE] != right[F_NODE])
        return left[F_NODE] < right[F_NODE] ? -1 : 1;
    if (left[F_CHUNKS] != right[F_CHUNKS])
        return left[F_CHUNKS] < right[F_CHUNKS] ? -1 : 1;
    counts *= node->effects + node->completions;
    for (int v = 0; v < counts; v++)
        if (left[F_VALUES + v] != right[F_VALUES + v])
            return left[F_VALUES + v] < right[F_VALUES + v] ? -1 : 1;
    return 0;
}

/* Operations without a queue may finish in any order: the order of issue is forgotten. */
static void sort_free_flights(const search_t *s, word *region)
{
    size_t size = (size_t)s->program->flight_words * sizeof(word);
    word held[FLIGHT_WORDS_MAX];
    for (int f = 1; f < region[A_FLIGHTS]; f++) {
        word *flight = flight_at(s, region, f);
        if (node_at(s, flight[F_NODE])->x < s->program->queues)
            continue;
        memcpy(held, flight, size);
        int to = f, probe = f - 1;
        /* Flights with a queue keep their places among themselves; the free ones bubble up. */
        while (probe >= 0) {
            const word *other = flight_at(s, region, probe);
            if (node_at(s, other[F_NODE])->x >= s->program->queues
                && flight_order(s, other, held) <= 0)
                break;
            memcpy(flight_at(s, region, to), other, size);
            to = probe--;
        }
        memcpy(flight_at(s, region, to), held, size);
    }
}

static void forget_dead(const search_t *s, word *region)
{
    word live = node_at(s, region[A_NODE])->live;
    for (int v = 0; v < s->program->variables; v++)
        if (!(live >> v & 1))
            region[A_VARIABLES + v] = 0;
}

static int segment_compare(const search_t *s, int left, int right)
{
    const uint8_t *a = s->segments + (left ? s->segment_end[left - 1] : 0);
    const uint8_t *b = s->segments + (right ? s->segment_end[right - 1] : 0);
    long more = s->segments + s->segment_end[left] - a;
    long other = s->segments + s->segment_end[right] - b;
    int order = memcmp(a, b, (size_t)(more < other ? more : other));
    return order ? order : (more > other) - (more < other);
}

/* Bits of one role's agents in new places: `order[k]` is the agent that becomes agent k. */
static word permute(const search_t *s, word mask, int first, int count)
{
    word moved = mask & ~((((word)1 << count) - 1) << first);
    for (int k = 0; k < count; k++)
        moved |= (mask >> s->order[first + k] & 1) << (first + k);
    return moved;
}

static void sort_role(search_t *s, word *w, int first, int count)
{
    const titan_program *p = s->program;
    int changed = 0;
    for (int k = first + 1; k < first + count; k++) {
        int32_t agent = s->order[k];
        int to = k;
        for (; to > first && segment_compare(s, s->order[to - 1], agent) > 0; to--, changed = 1)
            s->order[to] = s->order[to - 1];
        s->order[to] = agent;
    }
    if (!changed)
        return;
    for (int m = 0; m < p->mask_words; m++)
        w[p->masks[m]] = permute(s, w[p->masks[m]], first, count);
    for (int b = 0; b < p->barriers; b++) {
        word *owner = barrier_at(s, w, b) + B_OWNER;
        for (int k = 0; k < count; k++)
            if (*owner == s->order[first + k]) {
                *owner = first + k;
                break;
            }
    }
}

/* The packed canonical form of `w` in `s->packed`; `w` itself is changed. Returns its length. */
static size_t pack(search_t *s, word *w)
{
    const titan_program *p = s->program;
    uint8_t *to = s->segments;
    for (int a = 0; a < p->agents; a++) {
        int symmetric = s->symmetry && ((const role_t *)p->role)[agent_info(s, a)->role].symmetric;
        uint8_t *begin = to;
        to = put_agent(s, to, agent_region(s, w, a), a);
        s->segment_body[a] = (int32_t)(to - begin);
        s->order[a] = a;
        /* The agent's bits in all masks are part of what it is sorted by. */
        for (int m = 0; symmetric && m < p->mask_words; m++)
            *to++ = (uint8_t)(w[p->masks[m]] >> a & 1);
        for (int b = 0; symmetric && b < p->barriers; b++)
            *to++ = barrier_at(s, w, b)[B_OWNER] == a;
        s->segment_end[a] = (int32_t)(to - s->segments);
    }
    for (int r = 0; s->symmetry && r < p->roles; r++) {
        const role_t *role = (const role_t *)p->role + r;
        if (role->symmetric)
            sort_role(s, w, (int)role->first, (int)role->agents);
    }
    to = s->packed;
    for (int i = 0; i < p->live_words; i++)
        to = put(to, w[p->live[i]]);
    for (int a = 0; a < p->agents; a++) {
        int from = s->order[a];
        size_t length = (size_t)s->segment_body[from];
        memcpy(to, s->segments + (from ? s->segment_end[from - 1] : 0), length);
        to += length;
    }
    return (size_t)(to - s->packed);
}

static void unpack(const search_t *s, word *w, const uint8_t *from)
{
    const titan_program *p = s->program;
    memcpy(w, p->initial, sizeof(word) * (size_t)p->fixed_words);
    for (int i = 0; i < p->live_words; i++)
        from = get(from, w + p->live[i]);
    for (int a = 0; a < p->agents; a++)
        from = get_agent(s, from, agent_region(s, w, a), a);
}

/* Forget what no step can meet any more, and shift; agents keep their places. */
static void normalise(search_t *s, word *w)
{
    for (int a = 0; a < s->program->agents; a++) {
        forget_dead(s, agent_region(s, w, a));
        sort_free_flights(s, agent_region(s, w, a));
    }
    s->shifted = shift_classes(s, w);
}

static size_t canonical(search_t *s, word *w)
{
    normalise(s, w);
    return pack(s, w);
}

/* --------------------------------------------------------------------------------- table */

static uint32_t hash_bytes(const uint8_t *bytes, size_t length)
{
    uint64_t hash = 0x9E3779B97F4A7C15ULL ^ length, part;
    for (; length >= 8; length -= 8, bytes += 8) {
        memcpy(&part, bytes, 8);
        hash = (hash ^ part) * 0xD6E8FEB86659FD93ULL;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, bytes, length);
    hash = (hash ^ part) * 0xD6E8FEB86659FD93ULL;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93ULL;
    return (uint32_t)(hash ^ hash >> 32);
}

static const uint8_t *stored(const search_t *s, uint32_t state)
{
    return s->chunks[s->offset[state] / CHUNK_BYTES] + s->offset[state] % CHUNK_BYTES;
}

/* A slot holds the hash beside the number, so that a probe rarely examines a state in vain. */
static uint64_t slot_of(uint32_t hash, uint32_t state)
{
    return (uint64_t)hash << 32 | ((uint64_t)state + 1);
}

static int grow(search_t *s)
{
    uint32_t room = s->room ? 2 * s->room : 1024, slots = 2 * room;
    size_t wanted = (size_t)room * (sizeof *s->offset + sizeof *s->parent + sizeof *s->hash)
                    + (size_t)slots * sizeof *s->slots;
    if (s->chunk_bytes + wanted > s->bytes_max || room > UINT32_MAX / 8)
        return broken(s, ERROR_MEMORY);
    void *offset = realloc(s->offset, room * sizeof *s->offset);
    s->offset = offset ? offset : s->offset;
    void *parent = realloc(s->parent, room * sizeof *s->parent);
    s->parent = parent ? parent : s->parent;
    void *hash = realloc(s->hash, room * sizeof *s->hash);
    s->hash = hash ? hash : s->hash;
    uint64_t *table = calloc(slots, sizeof *table);
    if (!offset || !parent || !hash || !table) {
        free(table);
        return broken(s, ERROR_MEMORY);
    }
    free(s->slots);
    s->slots = table;
    s->slot_mask = slots - 1;
    s->room = room;
    s->bytes = wanted;
    for (uint32_t state = 0; state < s->count; state++) {
        uint32_t slot = s->hash[state] & s->slot_mask;
        while (table[slot])
            slot = (slot + 1) & s->slot_mask;
        table[slot] = slot_of(s->hash[state], state);
    }
    return DONE;
}

/* Room for `length` bytes that do not cross a chunk. */
static uint8_t *allocate(search_t *s, size_t length)
{
    if (!s->chunk_count || s->chunk_used + length > CHUNK_BYTES) {
        if (length > CHUNK_BYTES || s->bytes + s->chunk_bytes + CHUNK_BYTES > s->bytes_max)
            return NULL;
        if (s->chunk_count == s->chunk_room) {
            size_t room = s->chunk_room ? 2 * s->chunk_room : 64;
            uint8_t **chunks = realloc(s->chunks, room * sizeof *chunks);
            if (!chunks)
                return NULL;
            s->chunks = chunks;
            s->chunk_room = room;
        }
        s->chunks[s->chunk_count] = malloc(CHUNK_BYTES);
        if (!s->chunks[s->chunk_count])
            return NULL;
        s->chunk_count += 1;
        s->chunk_bytes += CHUNK_BYTES;
        s->chunk_used = 0;
    }
    uint8_t *place = s->chunks[s->chunk_count - 1] + s->chunk_used;
    s->chunk_used += length;
    return place;
}

#define NO_STATE UINT32_MAX

/* The number of the packed state, or NO_STATE. */
static uint32_t find(const search_t *s, size_t length, uint32_t hash, uint32_t *slot)
{
    *slot = hash & s->slot_mask;
    while (s->slots[*slot]) {
        uint32_t state = (uint32_t)s->slots[*slot] - 1;
        /* Packed states describe their own length, so equal prefixes are equal states; none
         * crosses the end of its chunk. */
        size_t most = CHUNK_BYTES - s->offset[state] % CHUNK_BYTES;
        if (s->slots[*slot] >> 32 == hash && length <= most
            && memcmp(stored(s, state), s->packed, length) == 0)
            return state;
        *slot = (*slot + 1) & s->slot_mask;
    }
    return NO_STATE;
}

/* Store the packed state unless it is there. */
static int insert(search_t *s, size_t length, uint32_t parent)
{
    uint32_t slot, hash;
    if (s->count >= s->room && grow(s) != DONE)
        return BROKEN;
    hash = hash_bytes(s->packed, length);
    if (find(s, length, hash, &slot) != NO_STATE)
        return DONE;
    uint8_t *place = allocate(s, length);
    if (!place)
        return broken(s, ERROR_MEMORY);
    memcpy(place, s->packed, length);
    s->offset[s->count] = (uint64_t)(s->chunk_count - 1) * CHUNK_BYTES
                          + (uint64_t)(place - s->chunks[s->chunk_count - 1]);
    s->parent[s->count] = parent;
    s->hash[s->count] = hash;
    s->slots[slot] = slot_of(hash, s->count++);
    return DONE;
}
