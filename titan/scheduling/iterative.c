/* The recurrence bound and the heights of Rau's iterative modulo scheduling; placement.c places.

   Untrusted: what comes out is checked by titan/scheduling/check.py. The Python module
   titan/scheduling/iterative.py is the same algorithm and gives the same answers; tests compare
   them. Rows of the reservation table count uses; a pool with a window of one cycle is a further
   unit. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* BEGIN SHARED WITH PYTHON */
typedef struct {
    int other, delay, distance;
} arc;

typedef struct {
    int n, m, units, teams;
    const int *source, *sink, *delay, *distance;
    int *out_begin, *in_begin;          /* n + 2 offsets into the arcs by their ends */
    arc *out, *in;
    int *order;                         /* along dependences of distance 0, as far as that goes */
    int ordered;                        /* how far: n where they are not cyclic */
    const int *use_begin;               /* n + 1 offsets into the use arrays */
    const int *use_unit, *use_first, *use_cycles, *use_amount;
    const int *capacity;                /* a unit */
    const int *team, *window, *waits;   /* an operation: group or -1, issue window, waits */
} problem;

void titan_index(problem *p);
int64_t titan_recurrence(const problem *p, int *cycle, int *cycle_length);
int titan_heights(const problem *p, int ii, int64_t *height);
int64_t titan_iterative(const problem *p, int ii, int64_t budget, const int64_t *priority,
                        int64_t *start, int64_t *seats);
/* END SHARED */

/* Room for `count` integers and one more, so that none is of size 0. */
static int *integers(int count) { return malloc(sizeof(int) * ((size_t)count + 1)); }

/* Arcs by the operation at one of their ends: its offsets and the arcs. */
static void by_end(const problem *p, const int *here, const int *there, int *begin, arc *found) {
    memset(begin, 0, sizeof(int) * ((size_t)p->n + 2));
    for (int e = 0; e < p->m; e++) begin[here[e] + 2]++;
    for (int v = 0; v < p->n; v++) begin[v + 2] += begin[v + 1];
    for (int e = 0; e < p->m; e++) {
        arc one = {there[e], p->delay[e], p->distance[e]};
        found[begin[here[e] + 1]++] = one;
    }
}

/* What the functions below read instead of columns; once for a problem. */
void titan_index(problem *p) {
    int n = p->n, filled = 0;
    int *left = calloc((size_t)n + 1, sizeof(int));
    by_end(p, p->source, p->sink, p->out_begin, p->out);
    by_end(p, p->sink, p->source, p->in_begin, p->in);
    for (int e = 0; e < p->m; e++)
        if (p->distance[e] == 0) left[p->sink[e]]++;
    for (int v = 0; v < n; v++)
        if (!left[v]) p->order[filled++] = v;
    for (int i = 0; i < filled; i++) {
        int u = p->order[i];
        for (int k = p->out_begin[u]; k < p->out_begin[u + 1]; k++)
            if (p->out[k].distance == 0 && --left[p->out[k].other] == 0)
                p->order[filled++] = p->out[k].other;
    }
    p->ordered = filled;
    free(left);
}

/* Component number of every operation (Tarjan, iterative). */
static void strong_components(const problem *p, int *component) {
    int n = p->n, counter = 0, found = 0, top = 0, depth = 0;
    int *order = integers(n), *low = integers(n);
    int *stack = integers(n), *work = integers(n);
    int *next = integers(n);
    for (int v = 0; v < n; v++) {
        order[v] = -1;
        component[v] = -1;
        next[v] = p->out_begin[v];
    }
    for (int root = 0; root < n; root++) {
        if (order[root] != -1) continue;
        work[depth++] = root;
        order[root] = low[root] = counter++;
        stack[top++] = root;
        while (depth) {
            int v = work[depth - 1];
            if (next[v] < p->out_begin[v + 1]) {
                int w = p->out[next[v]++].other;
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
    int64_t ii = 1;
    int n = p->n;
    int *component = integers(n);
    int *arcs = integers(p->m), *begin = calloc((size_t)n + 2, sizeof(int));
    int *nodes = integers(n), *parent = integers(n);
    int *mark = integers(n);
    int64_t *value = malloc(sizeof(int64_t) * (size_t)(n + 1));
    *cycle_length = 0;
    strong_components(p, component);
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
    return ii;
}

/* Heights: longest delay - ii * distance to any operation; 0 when they do not settle. One pass
   against the order does but for arcs of other distances; what these raise is in the queue. */
int titan_heights(const problem *p, int ii, int64_t *height) {
    int n = p->n, settled = p->ordered == n, head = 0, count = 0;
    int *queue = integers(n), *rounds = calloc((size_t)n + 1, sizeof(int));
    char *queued = calloc((size_t)n + 1, 1);
    memset(height, 0, sizeof(int64_t) * (size_t)n);
    for (int i = p->ordered - 1; i >= 0; i--) {
        int u = p->order[i];
        int64_t most = 0;
        for (int k = p->out_begin[u]; k < p->out_begin[u + 1]; k++) {
            const arc *one = p->out + k;
            int64_t h = height[one->other] + one->delay - (int64_t)ii * one->distance;
            if (h > most) most = h;
        }
        height[u] = most;
    }
    for (int e = 0; e < p->m; e++) {
        int u = p->source[e];
        if (p->distance[e] == 0) continue;
        int64_t h = height[p->sink[e]] + p->delay[e] - (int64_t)ii * p->distance[e];
        if (h <= height[u]) continue;
        height[u] = h;
        if (queued[u]) continue;
        queue[count++] = u;
        queued[u] = 1;
    }
    while (settled && count) {
        int v = queue[head];
        head = head + 1 == n ? 0 : head + 1;
        count--;
        queued[v] = 0;
        if (++rounds[v] > n + 1) settled = 0;
        for (int k = p->in_begin[v]; k < p->in_begin[v + 1]; k++) {
            const arc *one = p->in + k;
            int u = one->other;
            int64_t h = height[v] + one->delay - (int64_t)ii * one->distance;
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
    free(queue);
    free(rounds);
    free(queued);
    return settled;
}
