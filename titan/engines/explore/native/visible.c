/* What agents know of the accesses of others, beyond the order in which these were executed.
 *
 * Followed only in programs where an engine's completion may have to represent what its issuer did
 * before (titan/sync/relays.py): completed bytes publish their own copy, an arrival of an engine
 * what its queue has finished, and nothing else. An event is the last write of a cell, or the
 * last synchronous read of a cell by one agent; a proxy fence of either takes its place. A write
 * that engines read is two events, one for who reads it and one for who overwrites it: an engine
 * that has read the cell publishes the latter, and reads, as far as its issuer knew of them.
 *
 * Masks of events are what each agent knows, what arrivals have carried to a barrier in the phase
 * that is open, what those of the last phase carried, and what of an agent's queue is over. An
 * access that rests on an event which its agent does not know makes the search incomplete: whether
 * it is a fault is for the happens-before engine to decide. Events that everybody knows who may
 * need to are forgotten. */

static word *live_events(const search_t *s, const word *w)
{
    return (word *)w + s->program->off_known;
}

static word *known_by(const search_t *s, const word *w, int agent)
{
    return (word *)w + s->program->off_known + 1 + agent;
}

/* What of a queue of an agent is over. */
static word *over_in(const search_t *s, const word *w, int agent, word queue)
{
    return known_by(s, w, s->program->agents) + agent * s->program->queues + queue;
}

static word write_event(const search_t *s, word cell)
{
    word event = s->program->write_events[cell];
    return event < 0 ? 0 : (word)1 << event;
}

/* The last write of a cell, for who overwrites it. */
static word overwrite_event(const search_t *s, word cell)
{
    word event = s->program->overwrite_events[cell];
    return event < 0 ? 0 : (word)1 << event;
}

static word read_event(const search_t *s, word cell, int agent)
{
    word event = s->program->read_events[cell * s->program->agents + agent];
    return event < 0 ? 0 : (word)1 << event;
}

static word other_reads(const search_t *s, word cell, int agent)
{
    word events = 0;
    for (int a = 0; a < s->program->agents; a++)
        events |= a == agent ? 0 : read_event(s, cell, a);
    return events;
}

/* Nobody knows of the events any more. */
static void forget(const search_t *s, word *w, word events)
{
    const titan_program *p = s->program;
    if (!events)
        return;
    *live_events(s, w) &= ~events;
    for (int i = 0; i < p->agents * (1 + p->queues); i++)
        *known_by(s, w, i) &= ~events;
    for (int b = 0; b < p->barriers; b++) {
        barrier_at(s, w, b)[B_CARRYING] &= ~events;
        barrier_at(s, w, b)[B_CARRIED] &= ~events;
    }
    for (int n = 0; n < p->named; n++) {
        named_at(s, w, n)[D_CARRYING] &= ~events;
        named_at(s, w, n)[D_CARRIED] &= ~events;
    }
    for (int a = 0; a < p->agents; a++) {
        word *region = agent_region(s, w, a);
        for (int f = 0; f < region[A_FLIGHTS]; f++)
            flight_at(s, region, f)[F_KNOWN] &= ~events;
    }
}

/* The events happen (again); `agent` -1: an engine, and no agent knows yet. */
static void happen(const search_t *s, word *w, word events, int agent)
{
    forget(s, w, events);
    *live_events(s, w) |= events;
    if (agent >= 0)
        *known_by(s, w, agent) |= events;
}

static void written(const search_t *s, word *w, word cell, int agent)
{
    forget(s, w, other_reads(s, cell, -1));
    happen(s, w, write_event(s, cell) | overwrite_event(s, cell), agent);
}

/* A fence takes the place of the event that it fences, for who knows of that. */
static void fenced(const search_t *s, word *w, word events, int agent)
{
    word known = ~*live_events(s, w) | *known_by(s, w, agent);
    happen(s, w, events & known, agent);
    happen(s, w, events & ~known, -1);
}

/* An access of an agent that knows `more` than others see it know.
 *
 * An event represents one last write. Of a cell that reductions write without an order between them
 * there are several, so whoever knows of one is not known to know of all. */
static void rests_on(search_t *s, const word *w, int agent, word cell, const effect_t *effect,
                     word more)
{
    word events = effect->write ? overwrite_event(s, cell) | other_reads(s, cell, agent)
                        : write_event(s, cell);
    word followed = write_event(s, cell) | overwrite_event(s, cell) | other_reads(s, cell, -1);
    if (effect->reduction && followed)
        s->incomplete = ERROR_RELAY;
    if (events & *live_events(s, w) & ~(*known_by(s, w, agent) | more))
        s->incomplete = ERROR_RELAY;
}

/* After every step: events that nobody has to learn any more. */
static void forget_common(const search_t *s, word *w)
{
    word needed = 0, live = *live_events(s, w);
    for (int a = 0; live && a < s->program->agents; a++)
        if (node_at(s, agent_region(s, w, a)[A_NODE])->kind != N_END)
            needed |= s->program->concerned[a] & ~*known_by(s, w, a);
    forget(s, w, live & ~needed);
}
