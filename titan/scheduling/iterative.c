/* Inner loops of Rau's iterative modulo scheduling and of the recurrence bound.

   Untrusted: what comes out is checked by titan/scheduling/check.py. The Python module
   titan/scheduling/iterative.py is the same algorithm and gives the same answers; tests compare
   them. Rows of the reservation table count uses; a pool with a window of one cycle is a further
   unit. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* BEGIN SHARED WITH PYTHON */
typedef struct {
    int n, m, units, teams;
    const int *source, *sink, *distance;
    const int64_t *delay;
    const int *use_begin;               /* n + 1 offsets into the use arrays */
    const int *use_unit, *use_first, *use_cycles, *use_amount;
    const int *capacity;                /* a unit */
    const int *team, *window, *waits;   /* an operation: group or -1, issue window, waits */
} problem;

int64_t titan_recurrence(const problem *p, int *cycle, int *cycle_length);
int titan_heights(const problem *p, int ii, int64_t *height);
int64_t titan_iterative(const problem *p, int ii, int64_t budget, const int64_t *priority,
                        int64_t *start, int64_t *seats);
/* END SHARED */

typedef struct {
    int *out_begin, *out_arc, *in_begin, *in_arc;
} adjacency;

/* Room for `count` integers and one more, so that none is of size 0. */
static int *integers(int count) { return malloc(sizeof(int) * ((size_t)count + 1)); }

static void index_arcs(const problem *p, adjacency *a) {
    a->out_begin = calloc((size_t)p->n + 2, sizeof(int));
    a->in_begin = calloc((size_t)p->n + 2, sizeof(int));
    a->out_arc = integers(p->m);
    a->in_arc = integers(p->m);
    for (int e = 0; e < p->m; e++) {
        a->out_begin[p->source[e] + 2]++;
        a->in_begin[p->sink[e] + 2]++;
    }
    for (int v = 0; v < p->n; v++) {
        a->out_begin[v + 2] += a->out_begin[v + 1];
        a->in_begin[v + 2] += a->in_begin[v + 1];
    }
    for (int e = 0; e < p->m; e++) {
        a->out_arc[a->out_begin[p->source[e] + 1]++] = e;
        a->in_arc[a->in_begin[p->sink[e] + 1]++] = e;
    }
}

static void free_index(adjacency *a) {
    free(a->out_begin);
    free(a->in_begin);
    free(a->out_arc);
    free(a->in_arc);
}

/* Component number of every operation (Tarjan, iterative). */
static void strong_components(const problem *p, const adjacency *a, int *component) {
    int n = p->n, counter = 0, found = 0, top = 0, depth = 0;
    int *order = integers(n), *low = integers(n);
    int *stack = integers(n), *work = integers(n);
    int *next = integers(n);
    for (int v = 0; v < n; v++) {
        order[v] = -1;
        component[v] = -1;
        next[v] = a->out_begin[v];
    }
    for (int root = 0; root < n; root++) {
        if (order[root] != -1) continue;
        work[depth++] = root;
        order[root] = low[root] = counter++;
        stack[top++] = root;
        while (depth) {
            int v = work[depth - 1];
            if (next[v] < a->out_begin[v + 1]) {
                int w = p->sink[a->out_arc[next[v]++]];
                if (order[w] == -1) {
                    order[w] = low[w] = counter++;
                    stack[top++] = w;
                    work[depth++] = w;
                } else if (component[w] == -1 && order[w] < low[v]) {
                    low[v] = order[w];
                }
                continue;
            }
            depth--;
            if (low[v] == order[v]) {
                int w;
                do {
                    w = stack[--top];
                    component[w] = found;
                } while (w != v);
                found++;
            }
            if (depth && low[v] < low[work[depth - 1]]) low[work[depth - 1]] = low[v];
        }
    }
    free(order);
    free(low);
    free(stack);
    free(work);
    free(next);
}

/* A cycle among parent arcs: its arcs into `cycle`, its length returned, 0 when there is none. */
static int parent_cycle(const problem *p, const int *nodes, int count, const int *parent, int *mark,
                        int *cycle) {
    for (int i = 0; i < count; i++) mark[nodes[i]] = -1;
    for (int i = 0; i < count; i++) {
        int v = nodes[i];
        while (parent[v] >= 0 && mark[v] == -1) {
            mark[v] = i;
            v = p->source[parent[v]];
        }
        if (parent[v] >= 0 && mark[v] == i) {
            int length = 0, w = v;
            do {
                cycle[length++] = parent[w];
                w = p->source[parent[w]];
            } while (w != v);
            return length;
        }
    }
    return 0;
}

/* The recurrence bound; -1 for a positive cycle of distance 0, whose arcs are then the cycle. */
int64_t titan_recurrence(const problem *p, int *cycle, int *cycle_length) {
    adjacency a;
    int64_t ii = 1;
    index_arcs(p, &a);
    int n = p->n;
    int *component = integers(n);
    int *arcs = integers(p->m), *begin = calloc((size_t)n + 2, sizeof(int));
    int *nodes = integers(n), *parent = integers(n);
    int *mark = integers(n);
    int64_t *value = malloc(sizeof(int64_t) * (size_t)(n + 1));
    *cycle_length = 0;
    strong_components(p, &a, component);
    for (int e = 0; e < p->m; e++)
        if (component[p->source[e]] == component[p->sink[e]]) begin[component[p->source[e]] + 1]++;
    for (int c = 0; c < n; c++) begin[c + 1] += begin[c];
    int *fill = integers(n);
    memcpy(fill, begin, sizeof(int) * (size_t)(n + 1));
    for (int e = 0; e < p->m; e++)
        if (component[p->source[e]] == component[p->sink[e]])
            arcs[fill[component[p->source[e]]]++] = e;
    for (int c = 0; c < n && ii > 0; c++) {
        int count = 0, first = begin[c], last = begin[c + 1];
        if (first == last) continue;
        for (int i = first; i < last; i++) mark[p->source[arcs[i]]] = -2;
        for (int i = first; i < last; i++)
            if (mark[p->source[arcs[i]]] == -2) {
                mark[p->source[arcs[i]]] = -1;
                nodes[count++] = p->source[arcs[i]];
            }
    again:
        for (int i = 0; i < count; i++) {
            value[nodes[i]] = 0;
            parent[nodes[i]] = -1;
        }
        for (int round = 0;; round++) {
            int changed = 0;
            for (int i = first; i < last; i++) {
                int e = arcs[i], u = p->source[e], v = p->sink[e];
                int64_t weight = value[u] + p->delay[e] - ii * p->distance[e];
                if (weight > value[v]) {
                    value[v] = weight;
                    parent[v] = e;
                    changed = 1;
                }
            }
            if (!changed) break;
            if (round & (round - 1)) continue; /* look at powers of two: the search costs a pass */
            int length = parent_cycle(p, nodes, count, parent, mark, cycle);
            if (!length) continue;
            int64_t delay = 0, distance = 0;
            for (int i = 0; i < length; i++) {
                delay += p->delay[cycle[i]];
                distance += p->distance[cycle[i]];
            }
            for (int i = 0; i < length / 2; i++) {
                int t = cycle[i];
                cycle[i] = cycle[length - 1 - i];
                cycle[length - 1 - i] = t;
            }
            *cycle_length = length;
            if (distance == 0) {
                ii = -1;
                break;
            }
            ii = (delay + distance - 1) / distance;
            goto again;
        }
    }
    free(fill);
    free(value);
    free(mark);
    free(parent);
    free(nodes);
    free(begin);
    free(arcs);
    free(component);
    free_index(&a);
    return ii;
}

typedef struct {
    const problem *p;
    int ii;
    int *table;          /* units rows of ii counts */
    int *issuing;        /* teams rows of ii: operations being issued */
    int *waiting;        /* teams rows of ii: operations that wait at their start */
} state;

/* 0 when v fits at t; otherwise by how much t can be raised at least before v can fit. */
static int conflict(const state *s, int v, int64_t t) {
    const problem *p = s->p;
    int ii = s->ii;
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        const int *row = s->table + (size_t)p->use_unit[i] * ii;
        int free_amount = p->capacity[p->use_unit[i]] - p->use_amount[i];
        int cycles = p->use_cycles[i];
        int whole = cycles / ii, rest = cycles % ii;
        if (whole) {
            for (int r = 0; r < ii; r++)
                if (row[r] + whole * p->use_amount[i] > p->capacity[p->use_unit[i]]) return ii;
            free_amount -= whole * p->use_amount[i];
        }
        int base = (int)((t + p->use_first[i]) % ii);
        for (int k = rest - 1; k >= 0; k--) {
            int r = base + k;
            if (r >= ii) r -= ii;
            if (row[r] > free_amount) return k + 1;
        }
    }
    int team = p->team[v];
    if (team >= 0) {
        const int *waiting = s->waiting + (size_t)team * ii;
        const int *issuing = s->issuing + (size_t)team * ii;
        int base = (int)(t % ii), window = p->window[v];
        if (p->waits[v] && issuing[base]) return 1;
        if (window > ii) window = ii;
        for (int k = window - 1; k >= 0; k--) {
            int r = base + k;
            if (r >= ii) r -= ii;
            if (waiting[r]) return k + 1;
        }
    }
    return 0;
}

static void occupy(state *s, int v, int64_t t, int sign) {
    const problem *p = s->p;
    int ii = s->ii;
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++) {
        int *row = s->table + (size_t)p->use_unit[i] * ii;
        int r = (int)((t + p->use_first[i]) % ii);
        for (int k = 0; k < p->use_cycles[i]; k++) {
            row[r] += sign * p->use_amount[i];
            if (++r == ii) r = 0;
        }
    }
    int team = p->team[v];
    if (team >= 0) {
        int r = (int)(t % ii), window = p->window[v];
        if (p->waits[v]) s->waiting[(size_t)team * ii + r] += sign;
        if (window > ii) window = ii;
        for (int k = 0; k < window; k++) {
            s->issuing[(size_t)team * ii + r] += sign;
            if (++r == ii) r = 0;
        }
    }
}

/* Does w share a row of a unit or a waiting start with v, both at given starts? */
static int collides(const problem *p, int ii, int v, int64_t tv, int w, int64_t tw) {
    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
        for (int j = p->use_begin[w]; j < p->use_begin[w + 1]; j++) {
            if (p->use_unit[i] != p->use_unit[j]) continue;
            int64_t a = (tv + p->use_first[i]) % ii, b = (tw + p->use_first[j]) % ii;
            int64_t ab = (b - a + ii) % ii, ba = (a - b + ii) % ii;
            if (ab < p->use_cycles[i] || ba < p->use_cycles[j]) return 1;
        }
    if (p->team[v] >= 0 && p->team[v] == p->team[w]) {
        int64_t vw = ((tv - tw) % ii + ii) % ii, wv = ((tw - tv) % ii + ii) % ii;
        if (p->waits[v] && vw < p->window[w]) return 1;
        if (p->waits[w] && wv < p->window[v]) return 1;
    }
    return 0;
}

/* Heights: longest delay - ii * distance to any operation; 0 when they do not settle. */
int titan_heights(const problem *p, int ii, int64_t *height) {
    adjacency a;
    index_arcs(p, &a);
    int n = p->n, settled = 1, head = 0, count = n;
    int *queue = integers(n), *rounds = calloc((size_t)n + 1, sizeof(int));
    char *queued = malloc((size_t)n + 1);
    /* Reverse topological order of the distance-0 arcs first makes one pass nearly enough. */
    int *left = calloc((size_t)n + 1, sizeof(int)), filled = 0;
    for (int e = 0; e < p->m; e++)
        if (p->distance[e] == 0) left[p->source[e]]++;
    for (int v = 0; v < n; v++)
        if (!left[v]) queue[filled++] = v;
    for (int i = 0; i < filled; i++)
        for (int k = a.in_begin[queue[i]]; k < a.in_begin[queue[i] + 1]; k++) {
            int e = a.in_arc[k];
            if (p->distance[e] == 0 && --left[p->source[e]] == 0) queue[filled++] = p->source[e];
        }
    if (filled < n) settled = 0;
    for (int v = 0; v < n; v++) {
        height[v] = 0;
        queued[v] = 1;
    }
    while (settled && count) {
        int v = queue[head];
        head = head + 1 == n ? 0 : head + 1;
        count--;
        queued[v] = 0;
        if (++rounds[v] > n + 1) settled = 0;
        for (int k = a.in_begin[v]; k < a.in_begin[v + 1]; k++) {
            int e = a.in_arc[k], u = p->source[e];
            int64_t h = height[v] + p->delay[e] - (int64_t)ii * p->distance[e];
            if (h > height[u]) {
                height[u] = h;
                if (!queued[u]) {
                    int tail = head + count;
                    queue[tail >= n ? tail - n : tail] = u;
                    count++;
                    queued[u] = 1;
                }
            }
        }
    }
    free(left);
    free(queue);
    free(rounds);
    free(queued);
    free_index(&a);
    return settled;
}

/* Heap of unscheduled operations: higher priority first, then lower position. */
static int before(const int64_t *priority, int a, int b) {
    return priority[a] != priority[b] ? priority[a] > priority[b] : a < b;
}

static void push(int *heap, int *size, const int64_t *priority, int v) {
    int i = (*size)++;
    while (i && before(priority, v, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = v;
}

static int pop(int *heap, int *size, const int64_t *priority) {
    int top = heap[0], v = heap[--*size], i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= *size) break;
        if (child + 1 < *size && before(priority, heap[child + 1], heap[child])) child++;
        if (!before(priority, heap[child], v)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = v;
    return top;
}

/* Iterative modulo scheduling (Rau 1994). Returns placements made, or -placements when the budget
   ran out; `start` holds the issue cycles, -1 for an operation that was not placed last, `seats`
   how many cycles were examined. */
int64_t titan_iterative(const problem *p, int ii, int64_t budget, const int64_t *priority,
                        int64_t *start, int64_t *seats) {
    adjacency a;
    index_arcs(p, &a);
    int n = p->n, size = 0;
    int64_t steps = 0, looked = 0;
    state s = {p, ii, NULL, NULL, NULL};
    s.table = calloc((size_t)p->units * ii + 1, sizeof(int));
    s.issuing = calloc((size_t)p->teams * ii + 1, sizeof(int));
    s.waiting = calloc((size_t)p->teams * ii + 1, sizeof(int));
    int *heap = integers(n);
    int64_t *last = malloc(sizeof(int64_t) * (size_t)(n + 1));
    /* Operations by unit or group, for eviction: chained through every unit they use. */
    int *user_begin = calloc((size_t)p->units + p->teams + 2, sizeof(int));
    int lists = p->units + p->teams, total = 0;
    for (int v = 0; v < n; v++) {
        for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
            user_begin[p->use_unit[i] + 1]++;
        if (p->team[v] >= 0) user_begin[p->units + p->team[v] + 1]++;
    }
    for (int u = 0; u < lists; u++) user_begin[u + 1] += user_begin[u];
    total = user_begin[lists];
    int *user = integers(total), *fill = integers(lists);
    memcpy(fill, user_begin, sizeof(int) * (size_t)(lists + 1));
    for (int v = 0; v < n; v++) {
        for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
            user[fill[p->use_unit[i]]++] = v;
        if (p->team[v] >= 0) user[fill[p->units + p->team[v]]++] = v;
    }
    for (int v = 0; v < n; v++) {
        start[v] = -1;
        last[v] = -1;
        push(heap, &size, priority, v);
    }
    while (size && steps < budget) {
        int v = pop(heap, &size, priority);
        int64_t earliest = 0, t;
        steps++;
        for (int k = a.in_begin[v]; k < a.in_begin[v + 1]; k++) {
            int e = a.in_arc[k], u = p->source[e];
            if (start[u] < 0 || u == v) continue;
            int64_t ready = start[u] + p->delay[e] - (int64_t)ii * p->distance[e];
            if (ready > earliest) earliest = ready;
        }
        for (t = earliest; t < earliest + ii;) {
            int skip = conflict(&s, v, t);
            looked++;
            if (!skip) break;
            t += skip;
        }
        if (t >= earliest + ii) {
            t = last[v] < 0 || earliest > last[v] ? earliest : last[v] + 1;
            for (int list = 0; list < lists && conflict(&s, v, t); list++) {
                int concerned = 0;
                if (list < p->units) {
                    for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
                        concerned |= p->use_unit[i] == list;
                } else {
                    concerned = p->team[v] == list - p->units;
                }
                for (int k = user_begin[list]; concerned && k < user_begin[list + 1]; k++) {
                    int w = user[k];
                    if (start[w] < 0 || w == v || !collides(p, ii, v, t, w, start[w])) continue;
                    occupy(&s, w, start[w], -1);
                    start[w] = -1;
                    push(heap, &size, priority, w);
                }
            }
            if (conflict(&s, v, t)) { /* it overlaps itself: no placement at this interval */
                steps = budget;
                break;
            }
        }
        occupy(&s, v, t, 1);
        start[v] = last[v] = t;
        for (int k = a.out_begin[v]; k < a.out_begin[v + 1]; k++) {
            int e = a.out_arc[k], w = p->sink[e];
            if (start[w] < 0 || w == v) continue;
            if (start[w] + (int64_t)ii * p->distance[e] - t < p->delay[e]) {
                occupy(&s, w, start[w], -1);
                start[w] = -1;
                push(heap, &size, priority, w);
            }
        }
        for (int k = a.in_begin[v]; k < a.in_begin[v + 1]; k++) {
            int e = a.in_arc[k], u = p->source[e];
            if (start[u] < 0 || u == v) continue;
            if (t + (int64_t)ii * p->distance[e] - start[u] < p->delay[e]) {
                occupy(&s, u, start[u], -1);
                start[u] = -1;
                push(heap, &size, priority, u);
            }
        }
    }
    *seats = looked;
    int done = size == 0;
    for (int v = 0; v < n && done; v++) done = start[v] >= 0;
    free(s.table);
    free(s.issuing);
    free(s.waiting);
    free(heap);
    free(last);
    free(user_begin);
    free(user);
    free(fill);
    free_index(&a);
    return done ? steps : -steps - 1;
}
