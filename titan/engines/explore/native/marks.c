/* Marks of accesses that cached proxies may not see yet, and of one-way fences of the async proxy.
 *
 * The meaning is that of titan/sync/proxy_marks.py. A cached proxy (constant, texture, surface) in
 * a CTA is a domain. An access is inside its domain until a fence of that proxy in that CTA; then,
 * or at once if it is generic or a completed asynchronous one, it is outside and has yet to enter
 * the other domains. Domains are numbered; the async proxy has some where cached accesses leave for
 * it. A release half hands the marks of unfenced generic accesses on to each issuing agent, which
 * acquires for itself. Programs without these have no such words. */

static int fault(search_t *s, int rule)
{
    s->fault = rule;
    return FAULT;
}

static word *marks_at(const search_t *s, const word *w, word cell)
{
    return (word *)w + s->program->off_marks + s->program->mark_fields * cell;
}

static const domains_t *domains_of(const search_t *s, word cell)
{
    return (const domains_t *)s->program->cell_domains + cell;
}

/* The domain of a proxy in a CTA as a bit; 0 where it has none. */
static word domain_bit(const search_t *s, word proxy, word cta)
{
    word row = proxy == PROXY_ASYNC ? 3 : proxy - PROXY_CONSTANT;
    if (proxy != PROXY_ASYNC && proxy < PROXY_CONSTANT)
        return 0;
    word number = s->program->domain[row * s->program->domain_ctas + cta];
    return number < 0 ? 0 : (word)1 << number;
}

static word agents_in(const search_t *s, word cta)
{
    word agents = 0;
    for (int a = 0; a < s->program->agents; a++)
        if (agent_info(s, a)->cta == cta)
            agents |= (word)1 << a;
    return agents;
}

static void went_inside(const search_t *s, word *w, word cell, const effect_t *effect, int agent)
{
    word place = (effect->write ? M_WRITES : M_READS) + effect->proxy - PROXY_CONSTANT;
    marks_at(s, w, cell)[place] |= (word)1 << agent;
}

static void went_outside(const search_t *s, word *w, word cell, int write)
{
    if (s->program->mark_fields)
        marks_at(s, w, cell)[write ? M_WRITES_OUTSIDE : M_READS_OUTSIDE]
            |= domains_of(s, cell)->cached;
}

/* Whether an access made through a proxy from a CTA does not see all that it conflicts with. */
static int unseen(const search_t *s, const word *w, word cell, int write, word proxy, word cta)
{
    const word *marks = marks_at(s, w, cell);
    word bit = domain_bit(s, proxy, cta);
    for (word other = PROXY_CONSTANT; other <= PROXY_SURFACE; other++) {
        word elsewhere = other == proxy ? ~agents_in(s, cta) : ~(word)0;
        if ((marks[M_WRITES + other - PROXY_CONSTANT] & elsewhere)
            || (write && (marks[M_READS + other - PROXY_CONSTANT] & elsewhere)))
            return 1;
    }
    return (marks[M_WRITES_OUTSIDE] & bit) || (write && (marks[M_READS_OUTSIDE] & bit));
}

static int check_cached(search_t *s, const word *w, int agent, word cell, int write, word proxy)
{
    if (!s->program->mark_fields || !domains_of(s, cell)->cached)
        return DONE;
    word own = agent_info(s, agent)->cta, home = ((const cell_t *)s->program->cell)[cell].home;
    if (s->program->follows)
        s->incomplete = ERROR_RELAY; /* who knows of a fence of these is not followed */
    if (!unseen(s, w, cell, write, proxy, own))
        return DONE;
    if (proxy == PROXY_ASYNC && home >= 0 && !unseen(s, w, cell, write, PROXY_ASYNC, home))
        return DONE;
    return fault(s, FAULT_MISSING_CACHED_FENCE);
}

/* ------------------------------------------------------------------------- one-way fences */

static int one_way(const search_t *s)
{
    return s->program->mark_fields > M_RELEASED;
}

/* By author: who has yet to acquire its reads (even words) or writes; the engines come last. */
static word *released_by(word *marks, int author, int write)
{
    return marks + M_RELEASED + 2 * author + write;
}

static int unacquired(const search_t *s, const word *w, word cell, int agent, int write)
{
    word *marks = marks_at(s, w, cell);
    for (int a = 0; one_way(s) && a <= s->program->agents; a++)
        if (*released_by(marks, a, write) >> agent & 1)
            return 1;
    return 0;
}

static word author_bit(const search_t *s, int author)
{
    return author == s->program->agents ? ENGINE_BIT : (word)1 << author;
}

static void release_marks(const search_t *s, word *w, word cell, word gone)
{
    word *marks = marks_at(s, w, cell), *held = cell_at(s, w, cell);
    for (int a = 0; a <= s->program->agents; a++) {
        word bit = author_bit(s, a) & gone;
        if (held[C_WRITERS] & bit)
            *released_by(marks, a, 1) |= *s->program->issuers;
        if (held[C_READERS] & bit)
            *released_by(marks, a, 0) |= *s->program->issuers;
    }
    held[C_WRITERS] &= ~gone;
    held[C_READERS] &= ~gone;
}

/* -------------------------------------------------------------------------------- fences */

/* Whoever has written a tensor map has to release it. */
static void map_written(const search_t *s, word *w, word cell, word bit)
{
    word *held = cell_at(s, w, cell);
    if (((const cell_t *)s->program->cell)[cell].map)
        held[C_MAP] = (held[C_MAP] == MAP_RELEASED ? 0 : held[C_MAP]) | bit;
}

/* What is outside enters the domain, what is inside leaves it. */
static void fence_domain(const search_t *s, word *w, word proxy, word cta, word cell)
{
    word *marks = marks_at(s, w, cell);
    const domains_t *domains = domains_of(s, cell);
    word bit = domain_bit(s, proxy, cta), local = agents_in(s, cta);
    word others = (domains->cached | domains->async) & ~bit;
    marks[M_READS_OUTSIDE] &= ~bit;
    marks[M_WRITES_OUTSIDE] &= ~bit;
    if (proxy == PROXY_ASYNC)
        return;
    word *reads = marks + M_READS + proxy - PROXY_CONSTANT;
    word *writes = marks + M_WRITES + proxy - PROXY_CONSTANT, left = *writes & local;
    if (*reads & local)
        marks[M_READS_OUTSIDE] |= others;
    if (left)
        marks[M_WRITES_OUTSIDE] |= others;
    /* A write that has left its cache is one to be released for the tensormap proxy. */
    if (left)
        map_written(s, w, cell, left);
    *reads &= ~local;
    *writes &= ~local;
}

/* A fence by an agent, for the accesses of the agents `gone`. */
static void fence_marks(search_t *s, word *w, int agent, word kind, word cell, word gone)
{
    word cta = agent_info(s, agent)->cta;
    if (s->program->follows && kind >= FENCE_CONSTANT)
        s->incomplete = ERROR_RELAY;
    if (kind == FENCE_ASYNC) {
        fence_domain(s, w, PROXY_ASYNC, cta, cell);
        for (int a = 0; one_way(s) && a <= s->program->agents; a++)
            if (author_bit(s, a) & gone)
                *released_by(marks_at(s, w, cell), a, 0) =
                    *released_by(marks_at(s, w, cell), a, 1) = 0;
    } else if (kind == FENCE_ASYNC_RELEASE) {
        release_marks(s, w, cell, gone);
    } else if (kind == FENCE_ASYNC_ACQUIRE) {
        for (int a = 0; one_way(s) && a <= s->program->agents; a++) {
            *released_by(marks_at(s, w, cell), a, 0) &= ~((word)1 << agent);
            *released_by(marks_at(s, w, cell), a, 1) &= ~((word)1 << agent);
        }
    } else if (kind >= FENCE_CONSTANT && kind <= FENCE_SURFACE) {
        fence_domain(s, w, kind - FENCE_CONSTANT + PROXY_CONSTANT, cta, cell);
    }
}
