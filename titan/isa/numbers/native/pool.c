/* The clusters of a launch on threads: each runs on a machine of its own, and all share global
   memory. What a cluster computes depends on its seed and its place, not on the thread. */

static uint64_t seed_of(uint64_t seed, int64_t place)
{
    uint64_t mixed = mix(mix(seed, (uint64_t)place), 0x7469);
    return seed ? mixed | 1 : 0;
}
static Machine *start_machine(Computation *shared, int32_t place)
{
    Numbers *numbers = zeroed(1, sizeof *numbers);
    numbers->shared = shared;
    numbers->launch = *shared->launch;
    numbers->launch.ctas = &shared->launch->ctas[place];
    numbers->launch.cta_count = 1;
    numbers->launch.seed = seed_of(shared->launch->seed, place);
    numbers->place = place;
    Machine *machine = titan_simt_new(shared->code, &numbers->launch);
    machine->numbers = numbers;
    return machine;
}
static void end_machine(Machine *machine)
{
    Numbers *numbers = machine->numbers;
    machine->pages = NULL;
    machine->page_slots = 0;
    titan_simt_free(machine);
    free(numbers);
}
/* Pages of memory without bounds go from machine to machine; there is one thread then. */
static void lend_pages(Computation *shared, Machine *machine, int back)
{
    if (shared->launch->bound_count) return;
    if (back) {
        shared->pages = machine->pages;
        shared->page_count = machine->page_count;
        shared->page_slots = machine->page_slots;
    } else {
        machine->pages = shared->pages;
        machine->page_count = shared->page_count;
        machine->page_slots = shared->page_slots;
    }
}
/* Of mixed clusters: the place among those that were put aside of the one that goes on, or their
   number for a fresh one. So many are under way at once, and now and then one more, as some may
   wait for one that has not begun. */
enum { MIXED = 32, MORE = 64 };
static int32_t drawn_machine(Computation *shared, int fresh)
{
    uint64_t number = mix(mix(shared->launch->seed, ++shared->turns), 0x6D69);
    int more = fresh && (shared->parked_count < MIXED || !((number >> 32) % MORE));
    return (int32_t)(number % (uint64_t)(shared->parked_count + more));
}
/* The next machine to run: a cluster that has not begun, or one that was put aside. A cluster may
   wait for one that has not begun, so both take turns. */
static Machine *next_machine(Computation *shared, int *turn)
{
    Machine *found = NULL;
    int32_t place = -1;
    pthread_mutex_lock(&shared->lock);
    int fresh = shared->next < shared->launch->cta_count && shared->next < shared->failed;
    int mixed = shared->given->schedule == CLUSTERS_MIXED;
    int32_t chosen = mixed && shared->parked_count ? drawn_machine(shared, fresh) : 0;
    if (shared->parked_count && (mixed ? chosen < shared->parked_count : !fresh || *turn > 0)) {
        found = shared->parked[chosen];
        memmove(shared->parked + chosen, shared->parked + chosen + 1,
                (size_t)(--shared->parked_count - chosen) * sizeof *shared->parked);
        --*turn;
    } else if (fresh) {
        place = shared->next++;
        *turn = shared->parked_count;
    }
    pthread_mutex_unlock(&shared->lock);
    return place >= 0 ? start_machine(shared, place) : found;
}
/* What a machine says when it stops for now. */
static void take_back(Computation *shared, Machine *machine, int64_t ran, int ending)
{
    Machine *gone = NULL;
    pthread_mutex_lock(&shared->lock);
    shared->count += ran;
    int stalled = machine->numbers->stalled;
    if (stalled && shared->count >= shared->launch->steps_max) {
        stalled = 0;
        ending = machine->ending = BUDGET;
        snprintf(machine->reason, sizeof machine->reason, "the budget of %lld steps is used",
                 (long long)shared->launch->steps_max);
    }
    if (stalled && machine->numbers->place < shared->failed) {
        if (shared->parked_count == shared->parked_room) {
            shared->parked_room = shared->parked_room ? 2 * shared->parked_room : 8;
            shared->parked =
                room(shared->parked, (size_t)shared->parked_room * sizeof *shared->parked);
        }
        shared->parked[shared->parked_count++] = machine;
    } else if (!stalled && ending != FINISHED && machine->numbers->place < shared->failed) {
        gone = shared->result;
        shared->result = machine;
        shared->failed = machine->numbers->place;
    } else {
        gone = machine;
    }
    pthread_mutex_unlock(&shared->lock);
    if (gone) end_machine(gone);
}
static void *work(void *given)
{
    Computation *shared = given;
    Machine *machine;
    int turn = 0;
    while ((machine = next_machine(shared, &turn))) {
        int64_t before = machine->count;
        machine->numbers->stalled = 0;
        lend_pages(shared, machine, 0);
        int ending = titan_simt_run(machine);
        lend_pages(shared, machine, 1);
        if (machine->numbers->stalled && ending == HUNG) {
            machine->waiters.count = 0;
            machine->ending = ending = FINISHED;
            machine->reason[0] = 0;
        } else if (ending != FINISHED) {
            machine->numbers->stalled = 0;
        }
        take_back(shared, machine, machine->count - before, ending);
    }
    return NULL;
}

/* ----------------------------------------------------------------------- for Python to call */

Computation *titan_numbers_new(const titan_code *code, const titan_launch *launch,
                               const titan_numbers *given)
{
    Computation *made = zeroed(1, sizeof *made);
    made->code = code;
    made->launch = launch;
    made->given = given;
    made->failed = launch->cta_count;
    made->quick = zeroed((size_t)code->step_count, sizeof(Quick));
    pthread_mutex_init(&made->lock, NULL);
    choose_level();
    fill_tables();
    made->own = zeroed((size_t)code->step_count, sizeof(int64_t));
    for (int32_t n = 0; n < code->step_count; n++)
        choose(code, &given->forms[n], &code->steps[n], &made->quick[n], &made->own[n]);
    return made;
}
int titan_numbers_run(Computation *shared)
{
    int32_t threads = shared->given->threads;
    pthread_t others[64];
    if (threads > 64) threads = 64;
    int32_t started = 0;
    for (; started < threads - 1; started++)
        if (pthread_create(&others[started], NULL, work, shared)) break;
    work(shared);
    for (int32_t n = 0; n < started; n++) pthread_join(others[n], NULL);
    return shared->result ? shared->result->ending : FINISHED;
}
/* As titan_simt_numbers, of the machine that failed; zeros and the instructions if none did. */
void titan_numbers_outcome(const Computation *shared, int64_t *out)
{
    memset(out, 0, RESULT_NUMBERS * sizeof *out);
    if (shared->result) titan_simt_numbers(shared->result, out);
    else out[0] = out[1] = out[2] = out[11] = out[12] = -1;
    out[3] = shared->count;
}
const char *titan_numbers_reason(const Computation *shared)
{
    return shared->result ? shared->result->reason : "";
}
const int64_t *titan_numbers_waiters(const Computation *shared)
{
    return shared->result ? titan_simt_words(shared->result, 4) : NULL;
}
/* The numbers of the pages of memory without bounds; gives how many. */
int64_t titan_numbers_pages(const Computation *shared, int64_t *out)
{
    int64_t count = 0;
    for (int64_t n = 0; n < shared->page_slots; n++)
        if (shared->pages[n].bytes.data) {
            if (out) out[count] = shared->pages[n].number;
            count++;
        }
    return count;
}
/* Bytes of memory without bounds, outside of allocations; states are 0 where nothing is known. */
void titan_numbers_read(const Computation *shared, int64_t at, int64_t count, uint8_t *data,
                        uint8_t *state)
{
    Machine machine = {.pages = shared->pages, .page_count = shared->page_count,
                       .page_slots = shared->page_slots};
    for (int64_t n = 0; n < count; n++) {
        const Page *page = find_page(&machine, (at + n) >> 12, 0);
        data[n] = page ? page->bytes.data[(at + n) & (PAGE - 1)] : 0;
        state[n] = page ? page->bytes.state[(at + n) & (PAGE - 1)] : UNWRITTEN;
    }
}
void titan_numbers_free(Computation *shared)
{
    Machine pages = {.pages = shared->pages, .page_slots = shared->page_slots};
    for (int64_t n = 0; n < pages.page_slots; n++) {
        free(pages.pages[n].bytes.data);
        free(pages.pages[n].bytes.state);
    }
    free(pages.pages);
    if (shared->result) end_machine(shared->result);
    for (int32_t n = 0; n < shared->parked_count; n++) end_machine(shared->parked[n]);
    for (int32_t n = 0; n < shared->given->allocation_count; n++) {
        titan_allocation *allocation = &shared->given->allocations[n];
        if (allocation->made) free(allocation->state);
    }
    pthread_mutex_destroy(&shared->lock);
    free(shared->parked);
    free(shared->quick);
    free(shared->own);
    free(shared);
}
