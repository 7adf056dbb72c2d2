/* A loop of the model (titan/scheduling/loop/model.py) as columns of numbers.

   Untrusted, as iterative.c. Operations and dependences are read where their dataclasses keep the
   fields, in slots. What is not exactly of the type or the size that is expected here is left to
   Python: the answer is then 0. */

#include <structmember.h>

#define WHOLE_MAX (1 << 30)

/* BEGIN SHARED WITH PYTHON */
typedef struct {
    int n, m, uses;
    int *source, *sink, *delay, *distance;
    int *use_begin, *use_unit, *use_first, *use_cycles, *use_amount;
    int *finish;                        /* an operation: latency or end of its uses, the later */
    int64_t sequential;                 /* an interval at which nothing overlaps */
    int stored;                         /* whether anything takes registers, memory or a ring */
} loop_columns;

int titan_count_uses(uintptr_t operations, uintptr_t operation_type);
int titan_read(uintptr_t operations, uintptr_t dependences, uintptr_t types, uintptr_t units,
               loop_columns *c);
int64_t titan_depth(const problem *p);
int64_t titan_alone(const problem *p, int64_t *demand);
void titan_wide_first(const problem *p, const int64_t *height, int64_t *priority);
int64_t titan_rows(const problem *p, int ii);
int64_t titan_latest(const loop_columns *c, const int64_t *start);
/* END SHARED */

#if defined(PYPY_VERSION) || defined(Py_GIL_DISABLED) || defined(Py_LIMITED_API)

int titan_count_uses(uintptr_t operations, uintptr_t operation_type) {
    (void)operations;
    (void)operation_type;
    return -1;
}

int titan_read(uintptr_t operations, uintptr_t dependences, uintptr_t types, uintptr_t units,
               loop_columns *c) {
    (void)operations;
    (void)dependences;
    (void)types;
    (void)units;
    (void)c;
    return 0;
}

#else

/* Where a dataclass with slots keeps a field; -1 where it does not. */
static Py_ssize_t slot(PyObject *type, const char *name) {
    PyObject *found = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (found == NULL) {
        PyErr_Clear();
        return -1;
    }
    if (Py_TYPE(found) == &PyMemberDescr_Type) {
        const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX) offset = member->offset;
    }
    Py_DECREF(found);
    return offset;
}

static int slots(PyObject *type, const char *const *names, Py_ssize_t *offsets, int count) {
    for (int i = 0; i < count; i++)
        if ((offsets[i] = slot(type, names[i])) < 0) return 0;
    return 1;
}

static PyObject *at(PyObject *object, Py_ssize_t offset) {
    return *(PyObject **)((char *)object + offset);
}

/* A whole number of small size; anything else, also a missing one, is no answer. */
static int whole(PyObject *object, int *value) {
    if (object == NULL || !PyLong_CheckExact(object)) return 0;
#if PY_VERSION_HEX >= 0x030C0000
    if (PyUnstable_Long_IsCompact((PyLongObject *)object)) {
        Py_ssize_t compact = PyUnstable_Long_CompactValue((PyLongObject *)object);
        *value = (int)compact;
        return compact > -WHOLE_MAX && compact < WHOLE_MAX;
    }
#else
    if (Py_SIZE(object) == 0 || Py_SIZE(object) == 1) { /* one digit of 30 bits */
        *value = Py_SIZE(object) ? (int)((PyLongObject *)object)->ob_digit[0] : 0;
        return 1;
    }
#endif
    int overflow = 0;
    long found = PyLong_AsLongAndOverflow(object, &overflow);
    if (overflow || found <= -WHOLE_MAX || found >= WHOLE_MAX) return 0;
    *value = (int)found;
    return 1;
}

static int is_tuple(PyObject *object) { return object != NULL && PyTuple_CheckExact(object); }

int titan_count_uses(uintptr_t operations, uintptr_t operation_type) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *all = (PyObject *)operations, *type = (PyObject *)operation_type;
    Py_ssize_t uses = slot(type, "uses");
    int64_t count = uses < 0 || !is_tuple(all) || PyTuple_GET_SIZE(all) >= WHOLE_MAX ? -1 : 0;
    for (Py_ssize_t v = 0; count >= 0 && v < PyTuple_GET_SIZE(all); v++) {
        PyObject *one = PyTuple_GET_ITEM(all, v);
        if ((PyObject *)Py_TYPE(one) != type || !is_tuple(at(one, uses))) count = -1;
        else count += PyTuple_GET_SIZE(at(one, uses));
        if (count >= WHOLE_MAX) count = -1;
    }
    PyGILState_Release(held);
    return (int)count;
}

static const char *const OPERATION[] = {"uses",       "latency_cycles", "registers",
                                        "footprints", "slots",          "spill_cycles"};
static const char *const USE[] = {"unit", "cycles", "amount", "first_cycle"};
static const char *const DEPENDENCE[] = {"source", "sink", "delay_cycles", "distance"};

static int read_uses(PyObject *uses, PyObject *type, const Py_ssize_t *where, PyObject *units,
                     loop_columns *c, int *next, int *end) {
    *end = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(uses); i++) {
        PyObject *use = PyTuple_GET_ITEM(uses, i);
        int k = *next;
        if ((PyObject *)Py_TYPE(use) != type || k >= c->uses) return 0;
        PyObject *name = at(use, where[0]);
        if (name == NULL || !PyUnicode_CheckExact(name)) return 0;
        PyObject *number = PyDict_GetItemWithError(units, name);
        if (!whole(number, c->use_unit + k) || !whole(at(use, where[1]), c->use_cycles + k) ||
            !whole(at(use, where[2]), c->use_amount + k) ||
            !whole(at(use, where[3]), c->use_first + k))
            return 0;
        if (c->use_cycles[k] < 1 || c->use_first[k] < 0 || c->use_amount[k] < 1) return 0;
        if (c->use_first[k] + c->use_cycles[k] > *end) *end = c->use_first[k] + c->use_cycles[k];
        ++*next;
    }
    return 1;
}

static int read_operations(PyObject *all, PyObject *types, PyObject *units, loop_columns *c) {
    PyObject *type = PyTuple_GET_ITEM(types, 0), *use_type = PyTuple_GET_ITEM(types, 1);
    Py_ssize_t of[6], of_use[4];
    int next = 0;
    if (!slots(type, OPERATION, of, 6) || !slots(use_type, USE, of_use, 4)) return 0;
    for (int v = 0; v < c->n; v++) {
        PyObject *one = PyTuple_GET_ITEM(all, v);
        int latency, registers, spill, end;
        if ((PyObject *)Py_TYPE(one) != type || !is_tuple(at(one, of[0]))) return 0;
        c->use_begin[v] = next;
        if (!read_uses(at(one, of[0]), use_type, of_use, units, c, &next, &end)) return 0;
        if (!whole(at(one, of[1]), &latency) || !whole(at(one, of[2]), &registers) ||
            !is_tuple(at(one, of[3])) || at(one, of[4]) == NULL || !whole(at(one, of[5]), &spill))
            return 0;
        c->finish[v] = latency > end ? latency : end;
        c->sequential += spill + (int64_t)end;
        c->stored |= registers || PyTuple_GET_SIZE(at(one, of[3])) || at(one, of[4]) != Py_None;
    }
    c->use_begin[c->n] = next;
    return 1;
}

static int read_dependences(PyObject *all, PyObject *type, loop_columns *c) {
    Py_ssize_t of[4];
    int most = c->m ? -WHOLE_MAX : 0;
    if (!slots(type, DEPENDENCE, of, 4)) return 0;
    for (int e = 0; e < c->m; e++) {
        PyObject *one = PyTuple_GET_ITEM(all, e);
        if ((PyObject *)Py_TYPE(one) != type || !whole(at(one, of[0]), c->source + e) ||
            !whole(at(one, of[1]), c->sink + e) || !whole(at(one, of[2]), c->delay + e) ||
            !whole(at(one, of[3]), c->distance + e))
            return 0;
        if (c->source[e] < 0 || c->source[e] >= c->n || c->sink[e] < 0 || c->sink[e] >= c->n ||
            c->distance[e] < 0)
            return 0;
        if (c->delay[e] > most) most = c->delay[e];
        if (c->delay[e] > 0 && c->distance[e] == 0) c->sequential += c->delay[e];
    }
    c->sequential += most + 1;
    return 1;
}

/* `types`: the classes of operations, uses and dependences; `units`: numbers by name. */
int titan_read(uintptr_t operations, uintptr_t dependences, uintptr_t types, uintptr_t units,
               loop_columns *c) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *all = (PyObject *)operations, *edges = (PyObject *)dependences;
    PyObject *classes = (PyObject *)types, *numbers = (PyObject *)units;
    int done = is_tuple(all) && is_tuple(edges) && PyTuple_GET_SIZE(all) == c->n &&
               PyTuple_GET_SIZE(edges) == c->m && is_tuple(classes) &&
               PyTuple_GET_SIZE(classes) == 3 && PyDict_CheckExact(numbers);
    c->sequential = c->stored = 0;
    done = done && read_operations(all, classes, numbers, c) &&
           read_dependences(edges, PyTuple_GET_ITEM(classes, 2), c);
    PyErr_Clear();
    PyGILState_Release(held);
    return done;
}

#endif

/* The longest path of distance-0 dependences with the uses at its end; -1 where they are cyclic. */
int64_t titan_depth(const problem *p) {
    int64_t *early = calloc((size_t)p->n + 1, sizeof(int64_t)), most = 0;
    for (int i = 0; i < p->ordered; i++) {
        int u = p->order[i], end = 1;
        for (int k = p->use_begin[u]; k < p->use_begin[u + 1]; k++)
            if (p->use_first[k] + p->use_cycles[k] > end) end = p->use_first[k] + p->use_cycles[k];
        if (early[u] + end > most) most = early[u] + end;
        for (int k = p->out_begin[u]; k < p->out_begin[u + 1]; k++) {
            const arc *one = p->out + k;
            int64_t ready = early[u] + one->delay;
            if (one->distance == 0 && ready > early[one->other]) early[one->other] = ready;
        }
    }
    free(early);
    return p->ordered == p->n ? most : -1;
}

/* Unit-cycles of an iteration by unit; the interval that one use alone asks for, -1 where it takes
   more than there is. */
int64_t titan_alone(const problem *p, int64_t *demand) {
    int64_t most = 1;
    for (int i = 0; i < p->use_begin[p->n]; i++) {
        int capacity = p->capacity[p->use_unit[i]];
        demand[p->use_unit[i]] += (int64_t)p->use_cycles[i] * p->use_amount[i];
        if (p->use_amount[i] > capacity) return -1;
        int64_t copies = capacity / p->use_amount[i];
        if ((p->use_cycles[i] + copies - 1) / copies > most)
            most = (p->use_cycles[i] + copies - 1) / copies;
    }
    return most;
}

/* Priorities by the widest reservation, then by height. */
void titan_wide_first(const problem *p, const int64_t *height, int64_t *priority) {
    int64_t scale = 1;
    for (int v = 0; v < p->n; v++)
        if (height[v] + 1 > scale) scale = height[v] + 1;
    for (int v = 0; v < p->n; v++) {
        int wide = 0;
        for (int i = p->use_begin[v]; i < p->use_begin[v + 1]; i++)
            if (p->use_cycles[i] > wide) wide = p->use_cycles[i];
        priority[v] = wide * scale + height[v];
    }
}

/* Rows of the table that placing every operation once writes. */
int64_t titan_rows(const problem *p, int ii) {
    int64_t rows = 0;
    for (int i = 0; i < p->use_begin[p->n]; i++)
        rows += p->use_cycles[i] < ii ? p->use_cycles[i] : ii;
    return rows;
}

/* The latest cycle at which a latency or the uses of an operation end. */
int64_t titan_latest(const loop_columns *c, const int64_t *start) {
    int64_t most = start[0] + c->finish[0];
    for (int v = 1; v < c->n; v++)
        if (start[v] + c->finish[v] > most) most = start[v] + c->finish[v];
    return most;
}
