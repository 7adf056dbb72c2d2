/* Partial order reduction: one step instead of all.
 *
 * A step t that is possible in state s is explored alone when everything that any sequence of other
 * steps from s (without t) can contain is independent of t. What the others can do is computed
 * per state as a closure U: an agent's control flow depends on nothing but its own variables and
 * the sizes, so its operations follow one another in one fixed order, and U is how far each agent
 * can get. U is an over-approximation by optimism: a wait passes as soon as the arrivals and bytes
 * in U could have completed the phase that it waits for, ignoring their order; what one agent does
 * only ever adds to that. A closure runs to its fixpoint; where it gets too long, or would have to
 * know a size that is open, it continues without numbers (beyond.c). Behind an initialisation or an
 * invalidation in U nothing is known of that barrier: every wait on it passes.
 *
 * Independent of u in U means: t stays possible after u; u after t leads where t after u leads; and
 * if u is faulty where t is possible, it is faulty after t. Per kind of t:
 *  - memory: no cell is shared with one of the two writing, but by operations of one pipe that
 *    finish in order, where the pipe keeps that pair of uses (titan/sync/pipe_order.py): the later
 *    one is no fault while the earlier one is in flight, a read finds what that will have written,
 *    and what both write is written in the order of issue, so it makes no difference whether the
 *    earlier one is over when the later one is issued. Pairs that it does not keep are faults until
 *    the earlier one is over, and reductions leave the tile to what was there: neither is taken.
 *    Marks of unfenced accesses are sets by agent: fences of other agents take nothing from them,
 *    except by the path rule, and except for the marks of engines.
 *  - wait: no completion of a phase of its barrier is in U, and no arrival as long as no wait has
 *    passed in its phase. A token wait: the same, since its token gets too old.
 *  - arrival or completed bytes: with all of U the phase ends at most once, at the very end, so the
 *    order does not matter, and no wait in U passes on this barrier if it ends.
 *  - initialisation and invalidation: nobody in U comes to an operation on the barrier, or has one
 *    in flight. As u they change one barrier, and their faults depend on it, on who stands at a
 *    wait on it, and on who is to complete it. So they are independent of every t that neither
 *    waits on it, arrives at it nor completes it; an issue with completions is not t while U has
 *    any. Where t leads its agent to a wait on the barrier, an invalidation after t may be faulty
 *    that was not: that is a fault of the program, and found. What the barrier carries (visible.c)
 *    ends with it; such a t adds nothing to that.
 *  - named barriers: with all of U the generation is not exceeded. Pools: no other take, or enough
 *    for all of U without what it gives.
 *  - engine steps, and steps at other CTAs: no CTA reaches its end in U (it would be a leak).
 *    What an agent does in its own CTA is not concerned: that ends after the agent itself.
 *  - commits and waits of queues, tokens: private to the agent and its engines, which commute.
 *  - where it is followed who knows of which accesses (visible.c), that has to commute as well, as
 *    has whether an access rests on something unknown. Masks are only united, and what happens
 *    again is forgotten everywhere, in either order. What depends on the order is left out: an
 *    operation in flight that finishes, where a wait for its queue in U learns of it by chance;
 *    what a token publishes while its phase may end, and a cluster barrier while
 *    its next generation may end before somebody has learned of this one; and fences with marks,
 *    which take the place of accesses, against whoever rests on these.
 * Two kinds of t need not lead where u before t leads: it is enough that after t and u it is no
 * better. A state is no better than another one that differs in nothing but marks, of which it has
 * all, and in what is known, of which it has no more: marks and unknown accesses only ever cause
 * faults, no step waits for them, and every step unites them or clears the same of both. So what
 * is faulty after the other one is faulty after it, by the same sequence. These are a fence of the
 * async proxy before a generic copy finishes (the mark of the copy stays), and a wait for a queue
 * before more of it is over (its agent does not learn of that). The other way round they are not
 * taken.
 * A fault state that needs two agents to stand somewhere (a race, a lapped wait) is seen from the
 * agent that stands still: its operation is an access or a wait, and u would conflict with it.
 *
 * So (Godefroid's theorem for persistent sets) a fault that a sequence of steps leads to from s is
 * also reached after t, by the same sequence without t.
 *
 * Why no step is put off forever. Where control flow counts off its passes (endings.py), every
 * run with given sizes ends: from a state s with given sizes no run is longer than some L(s),
 * and after t it is less. By induction on L, whichever t is taken at each state, the fault is
 * found; shifted states are bisimilar, so they have the same L for the sizes shifted with them.
 * A path through stored states may run in a circle, but no run of given sizes follows it for
 * ever.
 * docs/explanation/any_number.md says this at length.
 *
 * Where some loop does not count off its passes, consider an infinite path of such choices; at a
 * state that is expanded fully the sequence continues, so let there be none. If shifts stop, the
 * path runs into a cycle of stored states without shift, where sizes are not split either (their
 * bounds would rise): the state of the cycle that was expanded last leads to one expanded before,
 * and such
 * a t is not taken. If shifts continue, they are fair ones, since a t whose successor is shifted
 * unfairly is not taken: by fair() in quotient.c every agent that has not ended has members in the
 * class, so it goes on forever, and every operation in flight has a tile that gets older with the
 * class; one that never finished would become `ancient`, and the shift unfair. So each agent and
 * engine takes its next step some time, which is then the first of its steps in the sequence, and
 * the sequence gets shorter.
 *
 * Splitting cases of an open size (which the closure asks for where that may spare all other steps)
 * is sound at any time, since a size is fixed from the start. */

#define ASKED_MAX 256 /* what U asks for after more operations is not decided for it */
#define ENDLESS ((word)1 << 30)

enum { LOST = 1, WIDENED };

struct closure {
    uint32_t stamp;
    uint32_t *reads, *writes, *fenced;  /* cells of t: stamped when t reads, writes, fences them */
    place_t places[EFFECTS_MAX];        /* cells of each effect of t; none where it is over */
    word *position, *variables;         /* agents; agents x variables */
    word *passed;                       /* agents x barriers: completions an agent has seen */
    word *arrivals, *expected, *finished, *announced; /* per barrier: totals of U */
    uint8_t *waited, *strange;          /* per barrier: a wait passes in U; totals mean nothing */
    word *threads, *wanted, *turns;     /* per named barrier; wanted; agents x named: arrivals */
    uint8_t *mixed, *in_sync;           /* per named: threads disagree; per agent: has arrived */
    word *given, *taken;                /* per pool: all that U gives and takes */
    word *learns;                       /* per named barrier: agents that learn by a wait in U */
    word *commits;                      /* agents x queues: groups closed in U */
    uint8_t *renewed, *touched;         /* per barrier: initialised or invalidated; named in U */
    int renewals;                       /* whether any is */
    uint8_t *ends;                      /* per widened agent: it may come to its end */
    uint8_t *widened, *loose;           /* per agent: LOST; WIDENED. Per named barrier (beyond.c) */
    uint32_t widenings, *reached;           /* nodes that the agent widened now has come to */
    word *stack;
    int extent;                         /* of all that are widened: nodes that they reached */
    int operations;
    int asked;                          /* after how many operations a size was open; or -1 */
    word need[3];                       /* the size: parameter, record, level */
    step_t step;
    const node_t *node;                 /* operation of t, or of its flight */
    const word *flight;                 /* flight of t, if it is an engine's step */
    int touches;                        /* t stamps cells at all */
    int generic;                        /* t makes generic accesses to cells with marks */
};

static void closure_free(struct closure *c)
{
    if (!c)
        return;
    free(c->reads);
    free(c->position);
    free(c->waited);
    free(c->stack);
    free(c);
}

/* Three blocks: stamps, words, bytes. */
static struct closure *closure_new(const search_t *s)
{
    const titan_program *p = s->program;
    struct closure *c = calloc(1, sizeof *c);
    size_t agents = (size_t)p->agents, cells = (size_t)p->cells, barriers = (size_t)p->barriers;
    size_t named = (size_t)p->named, queues = (size_t)p->queues, pools = (size_t)p->pools;
    if (!c)
        return NULL;
    size_t nodes = (size_t)p->nodes_total;
    c->reads = calloc(3 * cells + nodes + 1, sizeof *c->reads);
    c->stack = calloc(nodes + 1, sizeof(word));
    size_t words = agents * (1 + (size_t)p->variables + barriers + named + queues) + 4 * barriers
                   + 3 * named + 2 * pools + 1;
    c->position = calloc(words, sizeof(word));
    c->waited = calloc(4 * barriers + 2 * named + 3 * agents + 1, 1);
    if (!c->reads || !c->position || !c->waited || !c->stack) {
        closure_free(c);
        return NULL;
    }
    c->writes = c->reads + cells;
    c->fenced = c->writes + cells;
    c->reached = c->fenced + cells;
    c->variables = c->position + agents;
    c->passed = c->variables + agents * (size_t)p->variables;
    c->turns = c->passed + agents * barriers;
    c->commits = c->turns + agents * named;
    c->arrivals = c->commits + agents * queues;
    c->expected = c->arrivals + barriers;
    c->finished = c->expected + barriers;
    c->announced = c->finished + barriers;
    c->threads = c->announced + barriers;
    c->wanted = c->threads + named;
    c->given = c->wanted + named;
    c->taken = c->given + pools;
    c->learns = c->taken + pools;
    c->strange = c->waited + barriers;
    c->mixed = c->strange + barriers;
    c->in_sync = c->mixed + named;
    c->widened = c->in_sync + agents;
    c->ends = c->widened + agents;
    c->loose = c->ends + agents;
    c->renewed = c->loose + named;
    c->touched = c->renewed + barriers;
    return c;
}

