/* Relative numbers: shift classes and windows of sizes.
 *
 * titan/engines/explore/quotient.py decides which numbers may be shifted, by how much, and why the
 * shifted state behaves like the state itself. Here the shift is executed. */

static word outer_of(const search_t *s, int agent, int parameter)
{
    return s->program->outer[agent_info(s, agent)->role * s->program->parameters + parameter];
}

static word instance_of(const search_t *s, const word *region, int agent, int parameter)
{
    word outer = outer_of(s, agent, parameter);
    word instance = outer < 0 ? 0 : region[A_VARIABLES + outer];
    return instance < 0 ? 0 : instance;
}

/* The least instance of a size that some agent may still read, or -1. */
static word first_instance(const search_t *s, const word *w, int parameter)
{
    word least = -1;
    for (int a = 0; a < s->program->agents; a++) {
        const word *region = agent_region(s, w, a);
        const node_t *node = node_at(s, region[A_NODE]);
        if (!(node->reads >> parameter & 1))
            continue;
        word instance =
            node->rewinds >> parameter & 1 ? 0 : instance_of(s, region, a, parameter);
        if (least < 0 || instance < least)
            least = instance;
    }
    return least;
}

/* Remember what a record held before it leaves the window (only while a trace is followed). */
static void log_record(search_t *s, int parameter, word instance, const word *record)
{
    const parameter_t *p = (const parameter_t *)s->program->parameter + parameter;
    if (record[0] == p->minimum && !record[1])
        return;
    if (s->logged % 64 == 0) {
        word *log = realloc(s->log, sizeof(word) * 4 * (size_t)(s->logged + 64));
        if (!log)
            return;
        s->log = log;
    }
    word *entry = s->log + 4 * s->logged++;
    entry[0] = parameter;
    entry[1] = instance;
    entry[2] = record[0];
    entry[3] = record[1];
}

/* Drop sizes of instances that all agents have left. `logging` 1: log them; 2: log all. */
static void slide_windows(search_t *s, word *w, int logging)
{
    const titan_program *program = s->program;
    for (int n = 0; n < program->parameters; n++) {
        const parameter_t *p = (const parameter_t *)program->parameter + n;
        if (!p->per || p->length)
            continue;
        word *base = w + p->base, *records = base + 1, first = first_instance(s, w, n);
        word many = first < 0 || logging == 2 ? program->window : first - *base;
        if (many > program->window)
            many = program->window;
        for (word r = 0; r < many; r++)
            if (logging)
                log_record(s, n, *base + r, records + 2 * r);
        if (first < 0)
            *base = 0;
        else
            *base = first > *base ? first : *base;
        for (word r = 0; r < program->window && many > 0; r++) {
            int kept = r + many < program->window;
            records[2 * r] = kept ? records[2 * (r + many)] : p->minimum;
            records[2 * r + 1] = kept ? records[2 * (r + many) + 1] : 0;
        }
    }
}

static word class_of(const search_t *s, int agent, int variable)
{
    return s->program->variable_class[agent_info(s, agent)->role * s->program->variables
                                      + variable];
}

/* Live variables of an agent in a class: shift them, and return the least one before the shift. */
static word agent_members(const search_t *s, word *region, int agent, int class, word amount,
                          word least)
{
    word live = node_at(s, region[A_NODE])->live;
    for (int v = 0; v < s->program->variables; v++) {
        if (!(live >> v & 1) || class_of(s, agent, v) != class)
            continue;
        word *value = region + A_VARIABLES + v;
        if (*value < least)
            least = *value;
        *value -= amount;
    }
    return least;
}

/* Sizes of a class: shift them, and return the least one before the shift. */
static word size_members(const search_t *s, word *w, int class, word amount, word least)
{
    for (int n = 0; n < s->program->parameters; n++) {
        const parameter_t *p = (const parameter_t *)s->program->parameter + n;
        if (!p->per && !p->fixed && s->program->parameter_class[n] == class) {
            if (w[p->base] < least)
                least = w[p->base];
            w[p->base] -= amount;
        }
        /* A window moves with the variable whose values it is indexed by. */
        if (p->per && !p->length && p->outer_class == class && first_instance(s, w, n) >= 0)
            w[p->base] -= amount;
    }
    return least;
}

static word shifted_tile(word tile, word amount, word ancient)
{
    if (tile >= TILE_UNDEFINED && tile <= TILE_ANCIENT)
        return tile;
    tile -= amount;
    return tile < ancient ? TILE_ANCIENT : tile;
}

/* Contents, held or on their way; those that nobody can expect any more become one value. */
static void shift_tiles(const search_t *s, word *w, int class, word periods)
{
    const titan_program *p = s->program;
    const word *shift = p->cell_shift + class * p->cells;
    const word *ancient = p->cell_ancient + class * p->cells;
    for (int c = 0; c < p->cells; c++)
        if (shift[c]) {
            word *tile = cell_at(s, w, c) + C_TILE;
            *tile = shifted_tile(*tile, shift[c] * periods, ancient[c]);
        }
    for (int a = 0; a < p->agents; a++) {
        word *region = agent_region(s, w, a);
        for (int f = 0; f < region[A_FLIGHTS]; f++) {
            word *flight = flight_at(s, region, f);
            const node_t *node = node_at(s, flight[F_NODE]);
            for (int e = 0; e < node->effects; e++) {
                word first, end, *tile = flight + F_VALUES + 2 * e + 1;
                flight_place(s, flight, e, &first, &end);
                if (shift[first])
                    *tile = shifted_tile(*tile, shift[first] * periods, ancient[first]);
            }
        }
    }
    for (int b = 0; b < p->barriers; b++)
        if (((const barrier_t *)p->barrier)[b].phase)
            barrier_at(s, w, b)[B_PHASE] -= p->barrier_shift[class * p->barriers + b] * periods;
}

#define NO_MEMBER INT64_MAX

static word shift_class(search_t *s, word *w, int number)
{
    const titan_program *p = s->program;
    const class_t *class = (const class_t *)p->classes_table + number;
    word least = NO_MEMBER;
    for (int a = 0; a < p->agents; a++)
        if (node_at(s, agent_region(s, w, a)[A_NODE])->restart >> number & 1)
            return 0;
    for (int a = 0; a < p->agents; a++)
        least = agent_members(s, agent_region(s, w, a), a, number, 0, least);
    least = size_members(s, w, number, 0, least);
    if (least == NO_MEMBER || least < class->threshold)
        return 0;
    word periods = (least - class->threshold) / class->period;
    word amount = periods * class->period;
    shift_tiles(s, w, number, periods);
    if (!periods)
        return 0;
    for (int a = 0; a < p->agents; a++)
        agent_members(s, agent_region(s, w, a), a, number, amount, least);
    size_members(s, w, number, amount, least);
    return periods;
}

/* One instance of a size that has a number for every value of an outer variable. */
static word shift_instance(search_t *s, word *w, int number, word instance, word *record)
{
    const titan_program *p = s->program;
    const class_t *class = (const class_t *)p->classes_table + number;
    int parameter = (int)class->parameter;
    word least = record[0];
    for (int a = 0; a < p->agents; a++) {
        word *region = agent_region(s, w, a);
        const node_t *node = node_at(s, region[A_NODE]);
        if (!(node->reads >> parameter & 1))
            continue;
        word here = node->rewinds >> parameter & 1 ? 0 : instance_of(s, region, a, parameter);
        if (here < instance || (here == instance && (node->restart >> number & 1)))
            return 0;
        if (here == instance)
            least = agent_members(s, region, a, number, 0, least);
    }
    if (least < class->threshold + class->period)
        return 0;
    word amount = (least - class->threshold) / class->period * class->period;
    for (int a = 0; a < p->agents; a++) {
        word *region = agent_region(s, w, a);
        if ((node_at(s, region[A_NODE])->reads >> parameter & 1)
            && instance_of(s, region, a, parameter) == instance)
            agent_members(s, region, a, number, amount, least);
    }
    record[0] -= amount;
    return 1;
}

/* Whether the tile of an operation in flight says how old it is, counted by the class. */
static int shows_age(const search_t *s, const word *flight, int class)
{
    const node_t *node = node_at(s, flight[F_NODE]);
    const word *shift = s->program->cell_shift + class * s->program->cells;
    for (int e = 0; e < node->effects; e++) {
        word first, end, tile = flight[F_VALUES + 2 * e + 1];
        flight_place(s, flight, e, &first, &end);
        if (shift[first] && !(tile >= TILE_UNDEFINED && tile <= TILE_ANCIENT))
            return 1;
    }
    return 0;
}

/* In an ordered queue one that shows its age speaks for all: none passes another. */
static int ages(const search_t *s, const word *region, int class)
{
    for (int f = 0; f < region[A_FLIGHTS]; f++) {
        const word *flight = flight_at(s, region, f);
        word queue = node_at(s, flight[F_NODE])->x;
        int aged = shows_age(s, flight, class);
        int ordered = queue < s->program->queues && queue_info(s, queue)->ordered;
        for (int e = 0; e < region[A_FLIGHTS] && !aged && ordered; e++) {
            const word *other = flight_at(s, region, e);
            aged = node_at(s, other[F_NODE])->x == queue && shows_age(s, other, class);
        }
        if (!aged)
            return 0;
    }
    return 1;
}

static int lives_in(const search_t *s, const word *region, int agent, int class)
{
    word live = node_at(s, region[A_NODE])->live;
    for (int v = 0; v < s->program->variables; v++)
        if ((live >> v & 1) && class_of(s, agent, v) == class)
            return 1;
    return 0;
}

/* Whether shifting the class again and again means that every agent goes on and every operation
 * in flight finishes: each running agent has members of the class, and each flight gets older by
 * the count of the class or of its companion. Then no step is put off forever (closure.c). */
static int fair(const search_t *s, const word *w, int number)
{
    const class_t *class = (const class_t *)s->program->classes_table + number;
    word instance = -1;
    for (int a = 0; a < s->program->agents; a++) {
        const word *region = agent_region(s, w, a);
        if (!ages(s, region, (int)class->companion))
            return 0;
        if (node_at(s, region[A_NODE])->kind == N_END)
            continue;
        if (!lives_in(s, region, a, number) || !lives_in(s, region, a, (int)class->companion))
            return 0;
        if (class->parameter < 0)
            continue;
        word here = instance_of(s, region, a, (int)class->parameter);
        if (instance >= 0 && here != instance)
            return 0;
        instance = here;
    }
    return 1;
}

/* Shift every class as far as it goes: whether something moved, and whether fairly. */
static word shift_classes(search_t *s, word *w)
{
    const titan_program *p = s->program;
    word moved = SHIFT_NONE;
    if (!p->classes)
        return moved;
    slide_windows(s, w, 0);
    for (int c = 0; c < p->classes; c++) {
        const class_t *class = (const class_t *)p->classes_table + c;
        word here = 0;
        if (class->parameter < 0) {
            here = shift_class(s, w, c);
        } else {
            const parameter_t *size = (const parameter_t *)p->parameter + class->parameter;
            for (word r = 0; r < p->window; r++)
                here |= shift_instance(s, w, c, w[size->base] + r, w + size->base + 1 + 2 * r);
        }
        if (here && moved != SHIFT_FAIR)
            moved = fair(s, w, c) ? SHIFT_FAIR : SHIFT_UNFAIR;
    }
    return moved;
}
