/* Placement with eviction at one interval: the inner loop of Rau's iterative modulo scheduling.

   Untrusted, as iterative.c. The seats, and the order in which they are taken, are those of
   titan/scheduling/iterative.py; what differs is how they are found. Operations that wait for
   their placement are a set of bits by rank. Where no operation has a warp group, what stands in
   the way of one is found through the rows that it covers, not among all users of its units. */

typedef struct {
    int unit, amount, cycles;
    int first, whole, rest; /* modulo the interval */
    int next, prior;        /* in place: others that begin in this row of the unit, -1 for none */
} placed_use;

#define LEVELS_MAX 6

typedef struct {
    const problem *p;
    int ii;
    int *table;               /* units rows of ii counts */
    int *issuing;             /* teams rows of ii: operations being issued */
    int *waiting;             /* teams rows of ii: operations that wait at their start */
    int64_t *start;
    int *row;                 /* start modulo ii of what is placed */
    placed_use *use;
    int *widest;              /* most cycles of a use of a unit */
    int *head;                /* uses in place, by unit and row of their begin; -1 for none */
    int *owner;               /* the operation of a use */
    int *user_begin, *user;   /* operations by unit and group; `user` once it is asked for */
    int *seen, turn;          /* the last search for collisions that met an operation */
    int *rank, *by_rank;
    uint64_t *level[LEVELS_MAX];
    int levels;
} state;

static int modulo(int64_t value, int ii) {
    if (value >= 0 && value < ii) return (int)value;
    if (value >= 0 && value < UINT32_MAX) return (int)((uint32_t)value % (uint32_t)ii);
    int rest = (int)(value % ii);
    return rest < 0 ? rest + ii : rest;
}

/* 0 when v fits where its start has this row; otherwise by how much the start can be raised at
   least before v can fit. */
static int conflict(const state *s, int v, int start_row) {
    const problem *p = s->p;
    int ii = s->ii;
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        const placed_use *use = s->use + i;
        const int *row = s->table + (size_t)use->unit * ii;
        int free_amount = p->capacity[use->unit] - use->amount;
        if (use->whole) {
            int most = p->capacity[use->unit] - use->whole * use->amount;
            for (int r = 0; r < ii; r++)
                if (row[r] > most) return ii;
            free_amount -= use->whole * use->amount;
        }
        int base = start_row + use->first;
        if (base >= ii) base -= ii;
        for (int k = use->rest - 1; k >= 0; k--) {
            int r = base + k;
            if (r >= ii) r -= ii;
            if (row[r] > free_amount) return k + 1;
        }
    }
    int team = p->team[v];
    if (team >= 0) {
        const int *waiting = s->waiting + (size_t)team * ii;
        const int *issuing = s->issuing + (size_t)team * ii;
        int window = p->window[v];
        if (p->waits[v] && issuing[start_row]) return 1;
        if (window > ii) window = ii;
        for (int k = window - 1; k >= 0; k--) {
            int r = start_row + k;
            if (r >= ii) r -= ii;
            if (waiting[r]) return k + 1;
        }
    }
    return 0;
}

static void reserve(state *s, int v, int sign) {
    const problem *p = s->p;
    int ii = s->ii, start_row = s->row[v];
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        placed_use *use = s->use + i;
        int *row = s->table + (size_t)use->unit * ii;
        int base = start_row + use->first;
        if (base >= ii) base -= ii;
        int r = base;
        for (int k = 0; k < use->cycles; k++) {
            row[r] += sign * use->amount;
            if (++r == ii) r = 0;
        }
        if (!s->head) continue;
        int *head = s->head + (size_t)use->unit * ii + base;
        if (sign > 0) {
            use->next = *head;
            use->prior = -1;
            if (*head >= 0) s->use[*head].prior = i;
            *head = i;
        } else {
            if (use->prior < 0) *head = use->next;
            else s->use[use->prior].next = use->next;
            if (use->next >= 0) s->use[use->next].prior = use->prior;
        }
    }
    int team = p->team[v];
    if (team >= 0) {
        int r = start_row, window = p->window[v];
        if (p->waits[v]) s->waiting[(size_t)team * ii + r] += sign;
        if (window > ii) window = ii;
        for (int k = 0; k < window; k++) {
            s->issuing[(size_t)team * ii + r] += sign;
            if (++r == ii) r = 0;
        }
    }
}

/* Does w share a row of a unit or a waiting start with v, which starts in row_v? */
static int collides(const state *s, int v, int row_v, int w) {
    const problem *p = s->p;
    int ii = s->ii, row_w = s->row[w];
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
        for (int j = p->use_begin[w]; j < p->use_begin[w + 1]; j++) {
            const placed_use *one = s->use + i, *other = s->use + j;
            if (one->unit != other->unit) continue;
            int apart = row_w + other->first - row_v - one->first;
            while (apart < 0) apart += ii;
            while (apart >= ii) apart -= ii;
            int back = apart ? ii - apart : 0;
            if (apart < one->cycles || back < other->cycles) return 1;
        }
    if (p->team[v] >= 0 && p->team[v] == p->team[w]) {
        int vw = row_v - row_w, wv = row_w - row_v;
        if (vw < 0) vw += ii;
        if (wv < 0) wv += ii;
        if (p->waits[v] && vw < p->window[w]) return 1;
        if (p->waits[w] && wv < p->window[v]) return 1;
    }
    return 0;
}

/* The set of what is to be placed: bits by rank, and above them bits of the words in use. */
static void push(state *s, int v) {
    int place = s->rank[v];
    for (int l = 0; l < s->levels; l++, place >>= 6)
        s->level[l][place >> 6] |= (uint64_t)1 << (place & 63);
}

static int lowest(uint64_t word) { return __builtin_ctzll(word); }

static int pop(state *s) {
    int place = 0;
    for (int l = s->levels - 1; l >= 0; l--) place = place << 6 | lowest(s->level[l][place]);
    int found = place;
    for (int l = 0; l < s->levels; l++, place >>= 6) {
        s->level[l][place >> 6] &= ~((uint64_t)1 << (place & 63));
        if (s->level[l][place >> 6]) break;
    }
    return s->by_rank[found];
}

/* Ranks: the highest priority first, then the lower position; digits of 11 bits, lowest first. */
static void rank_all(state *s, const int64_t *priority) {
    int n = s->p->n;
    int *from = s->by_rank, *to = s->rank;
    int64_t most = n ? priority[0] : 0, least = most;
    for (int v = 0; v < n; v++) {
        from[v] = v;
        if (priority[v] > most) most = priority[v];
        if (priority[v] < least) least = priority[v];
    }
    uint64_t span = (uint64_t)most - (uint64_t)least;
    for (int shift = 0; shift < 64 && span >> shift; shift += 11) {
        int count[2049] = {0};
        for (int i = 0; i < n; i++)
            count[(((uint64_t)most - (uint64_t)priority[from[i]]) >> shift & 2047) + 1]++;
        for (int d = 0; d < 2048; d++) count[d + 1] += count[d];
        for (int i = 0; i < n; i++)
            to[count[((uint64_t)most - (uint64_t)priority[from[i]]) >> shift & 2047]++] = from[i];
        int *turned = from;
        from = to;
        to = turned;
    }
    if (from != s->by_rank) memcpy(s->by_rank, from, sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++) s->rank[s->by_rank[i]] = i;
}

static void evict(state *s, int w) {
    reserve(s, w, -1);
    s->start[w] = -1;
    push(s, w);
}

static int uses_unit(const problem *p, int v, int unit) {
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
        if (p->use_unit[i] == unit) return 1;
    return 0;
}

/* Rows of a unit from which a use can reach one that use i of v covers, at most all. */
static int64_t reach(const state *s, int i) {
    int64_t rows = (int64_t)s->widest[s->p->use_unit[i]] - 1 + s->p->use_cycles[i];
    return rows > s->ii ? s->ii : rows;
}

/* Operations that collide with v in this row, through the rows that they and v cover. */
static int colliding(state *s, int v, int start_row, int *found) {
    const problem *p = s->p;
    int ii = s->ii, count = 0;
    s->turn++;
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        int unit = p->use_unit[i], before = s->widest[unit] - 1;
        int64_t span = reach(s, i);
        int r = start_row + s->use[i].first;
        if (r >= ii) r -= ii;
        r -= before % ii;
        if (r < 0) r += ii;
        if (span == ii) r = 0;
        for (int64_t k = 0; k < span; k++) {
            for (int j = s->head[(size_t)unit * ii + r]; j >= 0; j = s->use[j].next) {
                int w = s->owner[j];
                if (w == v || s->seen[w] == s->turn || !collides(s, v, start_row, w)) continue;
                s->seen[w] = s->turn;
                found[count++] = w;
            }
            if (++r == ii) r = 0;
        }
    }
    return count;
}

/* How many operations there are by unit, then by group, as sums of those before. */
static int *count_users(const problem *p) {
    int lists = p->units + p->teams;
    int *begin = calloc((size_t)lists + 2, sizeof(int));
    for (int i = 0; i < p->use_begin[p->n]; i++) begin[p->use_unit[i] + 1]++;
    for (int v = 0; p->teams && v < p->n; v++)
        if (p->team[v] >= 0) begin[p->units + p->team[v] + 1]++;
    for (int u = 0; u < lists; u++) begin[u + 1] += begin[u];
    return begin;
}

/* Those operations, for eviction where rows do not say who is in the way. */
static int *users(const problem *p, const int *begin) {
    int lists = p->units + p->teams;
    int *user = integers(begin[lists]), *fill = integers(lists);
    memcpy(fill, begin, sizeof(int) * (size_t)(lists + 1));
    for (int v = 0; v < p->n; v++) {
        for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
            user[fill[p->use_unit[i]]++] = v;
        if (p->team[v] >= 0) user[fill[p->units + p->team[v]]++] = v;
    }
    free(fill);
    return user;
}

/* Take away, unit by unit and then in the group, what collides with v until it fits. */
static void clear_seat(state *s, int v, int start_row, int *found) {
    const problem *p = s->p;
    int64_t rows = 0, others = 0;
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        rows += reach(s, i);
        others += s->user_begin[p->use_unit[i] + 1] - s->user_begin[p->use_unit[i]];
    }
    if (s->head && rows <= others) {
        int count = colliding(s, v, start_row, found);
        for (int unit = 0; unit < p->units && conflict(s, v, start_row); unit++) {
            if (!uses_unit(p, v, unit)) continue;
            for (int k = 0; k < count; k++)
                if (s->start[found[k]] >= 0 && uses_unit(p, found[k], unit)) evict(s, found[k]);
        }
        return;
    }
    if (!s->user) s->user = users(p, s->user_begin);
    for (int list = 0; list < p->units + p->teams && conflict(s, v, start_row); list++) {
        if (list < p->units ? !uses_unit(p, v, list) : p->team[v] != list - p->units) continue;
        for (int k = s->user_begin[list]; k < s->user_begin[list + 1]; k++) {
            int w = s->user[k];
            if (s->start[w] >= 0 && w != v && collides(s, v, start_row, w)) evict(s, w);
        }
    }
}

static void prepare(state *s, const int64_t *priority) {
    const problem *p = s->p;
    int n = p->n, ii = s->ii, uses = p->use_begin[n];
    s->table = calloc((size_t)p->units * ii + 1, sizeof(int));
    s->issuing = calloc((size_t)p->teams * ii + 1, sizeof(int));
    s->waiting = calloc((size_t)p->teams * ii + 1, sizeof(int));
    s->row = integers(n);
    s->use = malloc(sizeof(placed_use) * ((size_t)uses + 1));
    s->owner = integers(uses);
    s->seen = calloc((size_t)n + 1, sizeof(int));
    s->widest = calloc((size_t)p->units + 1, sizeof(int));
    s->rank = integers(n);
    s->by_rank = integers(n);
    for (int v = 0; v < n; v++)
        for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
            int cycles = p->use_cycles[i], unit = p->use_unit[i];
            placed_use one = {unit, p->use_amount[i], cycles, modulo(p->use_first[i], ii),
                              cycles < ii ? 0 : cycles / ii, modulo(cycles, ii), -1, -1};
            s->use[i] = one;
            s->owner[i] = v;
            if (cycles > s->widest[unit]) s->widest[unit] = cycles;
        }
    if (!p->teams) {
        s->head = malloc(sizeof(int) * ((size_t)p->units * ii + 1));
        for (size_t i = 0; i < (size_t)p->units * ii; i++) s->head[i] = -1;
    }
    s->user_begin = count_users(p);
    rank_all(s, priority);
    for (int words = n, l = 0; l < LEVELS_MAX && (l == 0 || words > 1); l++) {
        words = words / 64 + 1;
        s->level[l] = calloc((size_t)words, sizeof(uint64_t));
        s->levels = l + 1;
    }
}

static void release(state *s) {
    int *all[] = {s->table, s->issuing, s->waiting, s->row,     s->seen,       s->owner,
                  s->widest, s->head,   s->rank,    s->by_rank, s->user_begin, s->user};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(s->use);
    for (int l = 0; l < s->levels; l++) free(s->level[l]);
}

static int64_t weight(const arc *one, int ii) {
    return one->delay - (int64_t)ii * one->distance;
}

/* Iterative modulo scheduling (Rau 1994). Returns placements made, or -placements - 1 when the
   budget ran out; `start` holds the issue cycles, -1 for an operation that was not placed last,
   `seats` how many cycles were examined. */
int64_t titan_iterative(const problem *p, int ii, int64_t budget, const int64_t *priority,
                        int64_t *start, int64_t *seats) {
    int n = p->n;
    int64_t steps = 0, looked = 0;
    state s = {.p = p, .ii = ii, .start = start};
    prepare(&s, priority);
    int *found = integers(n);
    int64_t *last = malloc(sizeof(int64_t) * (size_t)(n + 1));
    for (int v = 0; v < n; v++) {
        start[v] = -1;
        last[v] = -1;
        push(&s, v);
    }
    while (s.level[s.levels - 1][0] && steps < budget) {
        int v = pop(&s);
        int64_t earliest = 0, t;
        steps++;
        for (int k = p->in_begin[v]; k < p->in_begin[v + 1]; k++) {
            const arc *one = p->in + k;
            int64_t ready = start[one->other] + weight(one, ii);
            if (start[one->other] >= 0 && one->other != v && ready > earliest) earliest = ready;
        }
        int row = modulo(earliest, ii);
        for (t = earliest; t < earliest + ii;) {
            int skip = conflict(&s, v, row);
            looked++;
            if (!skip) break;
            t += skip;
            row += skip;
            if (row >= ii) row -= ii;
        }
        if (t >= earliest + ii) {
            t = last[v] < 0 || earliest > last[v] ? earliest : last[v] + 1;
            row = modulo(t, ii);
            clear_seat(&s, v, row, found);
            if (conflict(&s, v, row)) { /* it overlaps itself: no placement at this interval */
                steps = budget;
                break;
            }
        }
        start[v] = last[v] = t;
        s.row[v] = row;
        reserve(&s, v, 1);
        for (int k = p->out_begin[v]; k < p->out_begin[v + 1]; k++) {
            const arc *one = p->out + k;
            int w = one->other;
            if (start[w] >= 0 && w != v && start[w] - t < weight(one, ii)) evict(&s, w);
        }
        for (int k = p->in_begin[v]; k < p->in_begin[v + 1]; k++) {
            const arc *one = p->in + k;
            int u = one->other;
            if (start[u] >= 0 && u != v && t - start[u] < weight(one, ii)) evict(&s, u);
        }
    }
    *seats = looked;
    int done = 1;
    for (int v = 0; v < n && done; v++) done = start[v] >= 0;
    release(&s);
    free(last);
    free(found);
    return done ? steps : -steps - 1;
}
