/* Schedules that are adversarial to a program that lacks synchronisation: one warp starves while
   others can run, or one runs ahead as far as it can; clusters take short turns;
   engines finish at once, as late as possible,
   or at random. The warp is drawn again from the seed now and then. */
enum { AHEAD = 1 << 16, PERIOD = 256, TURN_ROUNDS = 8, SHORT = 4 };

static Warp *warp_at(const Machine *machine, int64_t place)
{
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++, place -= machine->warps_each)
            if (place < machine->warps_each) return &machine->clusters[c]->ctas[r].warps[place];
    return NULL;
}
/* Choose the warp of this round; the one that runs ahead does so now. */
static int run_chosen(Machine *machine, int64_t total)
{
    Numbers *numbers = machine->numbers;
    int32_t schedule = numbers->shared->given->schedule;
    if (schedule == IN_TURN || schedule == CLUSTERS_MIXED || !total) return 0;
    if (machine->tick % PERIOD == 0 || numbers->favourite >= total)
        numbers->favourite = (int64_t)(draw(machine) % (uint64_t)total);
    numbers->chosen = numbers->favourite;
    return schedule == ONE_AHEAD ? run_warp(machine, warp_at(machine, numbers->chosen), AHEAD) : 0;
}
/* The starved warp runs where no other could. */
static int run_starved(Machine *machine, int64_t quantum)
{
    const Numbers *numbers = machine->numbers;
    if (numbers->shared->given->schedule != ONE_STARVES || numbers->chosen < 0) return 0;
    Warp *warp = warp_at(machine, numbers->chosen);
    return warp ? run_warp(machine, warp, quantum) : 0;
}
/* Instructions of a warp in a row: mixed clusters take turns within a few. */
static int64_t quantum_of(const Machine *machine, int64_t quantum)
{
    int mixed = machine->numbers->shared->given->schedule == CLUSTERS_MIXED;
    return mixed ? 1 + quantum % SHORT : quantum;
}
/* Whether another cluster runs now; after a random number of rounds. */
static int turn_is_over(Machine *machine)
{
    Numbers *numbers = machine->numbers;
    if (numbers->shared->given->schedule != CLUSTERS_MIXED || numbers->rounds-- > 0) return 0;
    numbers->rounds = (int64_t)(draw(machine) % TURN_ROUNDS);
    numbers->stalled = 1;
    return 1;
}
/* Nothing can proceed: waits on mbarriers give false, as they may after a time. 0: too often. */
static int give_up(Machine *machine)
{
    Numbers *numbers = machine->numbers;
    int found = 0;
    if (numbers->gave_up++ >= numbers->shared->given->polls_max) return 0;
    for (int32_t c = 0; c < machine->cluster_count; c++)
        for (int32_t r = 0; r < machine->clusters[c]->cta_count; r++)
            for (int32_t n = 0; n < machine->warps_each; n++) {
                Warp *warp = &machine->clusters[c]->ctas[r].warps[n];
                for (int32_t k = 0; k < warp->fragment_count; k++) {
                    if (warp->fragments[k]->blocked != WAIT_MBARRIER) continue;
                    resume(machine, warp->fragments[k]);
                    found = 1;
                }
            }
    return found;
}
/* Rounds from the issue of an operation to its end; late ones end when nothing else can run, or
   when they are waited for. */
static int64_t delay_of(Machine *machine, int64_t delay)
{
    switch (machine->numbers->shared->given->engines) {
    case ENGINES_EARLY: return 1;
    case ENGINES_LATE: return 1ll << 40;
    case ENGINES_RANDOM: return 1 + (int64_t)(draw(machine) % 64);
    default: return delay;
    }
}
