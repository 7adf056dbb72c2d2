/* Accesses of a warp's lanes, and which lanes come after them (lane_uses.py). */

enum { LAYERS_MAX = 32 };
enum { LANE_WRITE, LANE_READ, LANE_STRONG_WRITE, LANE_STRONG_READ, LANE_ACCESSES };
struct Located { uint32_t lanes; Spot spot; };

typedef struct {
    uint64_t key; /* memory and word */
    int64_t epoch;
    uint32_t lanes[4][LANE_ACCESSES]; /* of each byte */
    int32_t at[4][LANE_ACCESSES]; /* instructions */
    uint8_t some[4]; /* bits of accesses that not all of these lanes may have made */
} LaneUse;

typedef struct { LaneUse *slots; int64_t count, room, epoch; } UseTable;

/* Accesses between two events that order lanes: the lanes that access; known[n]: those that come
   after the accesses of lane n; those before a fence; those handed over. */
typedef struct { UseTable table; uint32_t users, known[32], fenced, released; } Layer;

/* A branch on unknown data: the accesses before it, and of its arms that have ended; whether data
   may divide the lanes. */
typedef struct Arms { UseTable before, ended; int divided; struct Arms *next; } Arms;

struct LaneUses {
    UseTable now;
    Arms *outer; /* innermost first */
    Layer past[LAYERS_MAX + 1];
    int32_t past_count;
    uint32_t users, strong_readers;
};
enum { MEET, TAKE_OVER, FENCED, HAND_OVER }; /* events that order lanes */

/* A key of a word is the number of the word, and which CTA's it is in shared memory. */
static uint64_t memory_key(int space, int32_t cta)
{
    return space == GLOBAL ? 0 : 1ull << 63 | (uint64_t)cta << 24;
}
static uint64_t memory_of(uint64_t key) { return key >> 63 ? key >> 24 << 24 : 0; }
static void drop_layers(LaneUses *uses)
{
    for (int32_t n = 0; n < uses->past_count; n++) free(uses->past[n].table.slots);
    uses->past_count = 0;
}
static void free_uses(LaneUses *uses)
{
    if (!uses) return;
    drop_layers(uses);
    for (Arms *arms = uses->outer, *next; arms; arms = next) {
        next = arms->next;
        free(arms->before.slots);
        free(arms->ended.slots);
        free(arms);
    }
    free(uses->now.slots);
    free(uses);
}
static void lanes_meet(Fragment *fragment)
{
    LaneUses *uses = fragment->warp->uses;
    if (!uses) return;
    uses->now.epoch++;
    uses->now.count = 0;
    uses->users = uses->strong_readers = 0;
    drop_layers(uses);
}
static void empty_table(UseTable *table)
{
    *table = (UseTable){.room = 256, .epoch = 1};
    table->slots = zeroed((size_t)table->room, sizeof(LaneUse));
}
static LaneUse *lane_slot(const UseTable *uses, uint64_t key)
{
    uint64_t at = key * 0x9E3779B97F4A7C15ull;
    for (at >>= 20;; at++) {
        LaneUse *slot = &uses->slots[at & (uint64_t)(uses->room - 1)];
        if (slot->epoch != uses->epoch) return slot;
        if (slot->key == key) return slot;
    }
}
/* The entry of a word, made where there is none. */
static LaneUse *lane_use(UseTable *uses, uint64_t key)
{
    if (uses->count * 2 >= uses->room) {
        UseTable old = *uses;
        uses->room *= 2;
        uses->slots = zeroed((size_t)uses->room, sizeof(LaneUse));
        for (int64_t n = 0; n < old.room; n++)
            if (old.slots[n].epoch == old.epoch)
                *lane_slot(uses, old.slots[n].key) = old.slots[n];
        free(old.slots);
    }
    LaneUse *slot = lane_slot(uses, key);
    if (slot->epoch == uses->epoch) return slot;
    memset(slot, 0, sizeof *slot);
    slot->key = key;
    slot->epoch = uses->epoch;
    uses->count++;
    return slot;
}
static void merge_uses(UseTable *older, UseTable *newer)
{
    for (int64_t n = 0; n < newer->room; n++) {
        const LaneUse *from = &newer->slots[n];
        if (from->epoch != newer->epoch) continue;
        LaneUse *to = lane_use(older, from->key);
        for (int byte = 0; byte < 4; byte++) to->some[byte] |= from->some[byte];
        for (int byte = 0; byte < 4; byte++)
            for (int access = 0; access < LANE_ACCESSES; access++) {
                if (from->lanes[byte][access]) to->at[byte][access] = from->at[byte][access];
                to->lanes[byte][access] |= from->lanes[byte][access];
            }
    }
    free(newer->slots);
}
/* The arms of a branch on unknown data follow. */
static void enter_arms(LaneUses *uses, int divided)
{
    Arms *arms = zeroed(1, sizeof *arms);
    *arms = (Arms){.before = uses->now, .divided = divided, .next = uses->outer};
    empty_table(&arms->ended);
    empty_table(&uses->now);
    uses->outer = arms;
}
/* An arm has ended, and another may begin. */
static void end_arm(LaneUses *uses)
{
    for (int64_t n = 0; uses->outer->divided && n < uses->now.room; n++)
        memset(uses->now.slots[n].some, 0xFF, sizeof uses->now.slots[n].some);
    merge_uses(&uses->outer->ended, &uses->now);
    empty_table(&uses->now);
}
/* The last arm has ended. */
static void leave_arms(LaneUses *uses)
{
    Arms *arms = uses->outer;
    free(uses->now.slots);
    uses->now = arms->before;
    merge_uses(&uses->now, &arms->ended);
    uses->outer = arms->next;
    free(arms);
}
/* The lanes whose accesses some of `lanes` come after. */
static uint32_t known_to(const Layer *layer, uint32_t lanes)
{
    uint32_t found = 0;
    for (int lane = 0; lane < 32; lane++)
        if (layer->known[lane] & lanes) found |= 1u << lane;
    return found;
}
/* What the event of `lanes` does to a layer before it; `releases`: the lanes hand over all that
   they know, and what they have fenced in any case. */
static void order_layer(Layer *layer, int event, uint32_t lanes, int releases)
{
    uint32_t earlier = event == MEET ? known_to(layer, lanes) : layer->released;
    if (event == MEET || event == TAKE_OVER)
        for (; earlier; earlier &= earlier - 1) layer->known[first_lane(earlier)] |= lanes;
    if (event == FENCED) layer->fenced |= known_to(layer, lanes);
    if (event == HAND_OVER) layer->released |= layer->fenced;
    if (event == HAND_OVER && releases) layer->released |= known_to(layer, lanes);
}
/* Whether all lanes that run come after the accesses of a layer. */
static int is_over(const Layer *layer, uint32_t live)
{
    for (uint32_t left = layer->users; left; left &= left - 1)
        if (live & ~layer->known[first_lane(left)]) return 0;
    return 1;
}
static int alike(const Layer *one, const Layer *other)
{
    return one->fenced == other->fenced && one->released == other->released &&
           !memcmp(one->known, other->known, sizeof one->known);
}
static void merge_layer(Layer *into, Layer *other)
{
    for (int lane = 0; lane < 32; lane++) into->known[lane] |= other->known[lane];
    into->users |= other->users;
    into->fenced |= other->fenced;
    into->released |= other->released;
    merge_uses(&into->table, &other->table);
}
/* Begins a new layer with what happens to the ones before; layers alike become one. */
static void lanes_ordered(Fragment *fragment, int event, uint32_t lanes, int releases)
{
    LaneUses *uses = fragment->warp->uses;
    if (uses->now.count) {
        Layer *layer = &uses->past[uses->past_count++];
        *layer = (Layer){.table = uses->now, .users = uses->users};
        for (int lane = 0; lane < 32; lane++) layer->known[lane] = 1u << lane;
        empty_table(&uses->now);
        uses->users = 0;
    }
    int32_t kept = 0;
    for (int32_t n = 0; n < uses->past_count; n++) {
        Layer layer = uses->past[n];
        order_layer(&layer, event, lanes, releases);
        if (is_over(&layer, fragment->warp->live)) {
            free(layer.table.slots);
            continue;
        }
        int32_t same = 0;
        while (same < kept && !alike(&uses->past[same], &layer)) same++;
        if (same == LAYERS_MAX) same--; /* one layer more than there are: a race may be missed */
        if (same == kept) uses->past[kept++] = layer;
        else merge_layer(&uses->past[same], &layer);
    }
    uses->past_count = kept;
}
static void lanes_acquire(Fragment *fragment, uint32_t lanes)
{
    const LaneUses *uses = fragment->warp->uses;
    uint32_t released = 0;
    for (int32_t n = 0; uses && n < uses->past_count; n++) released |= uses->past[n].released;
    if (released) lanes_ordered(fragment, TAKE_OVER, lanes, 0);
}
static void lanes_release(Fragment *fragment, uint32_t lanes, int64_t semantics)
{
    const LaneUses *uses = fragment->warp->uses;
    int releases = semantics >= RELEASE && semantics <= SEQUENTIAL;
    uint32_t fenced = 0;
    for (int32_t n = 0; uses && n < uses->past_count; n++)
        fenced |= uses->past[n].fenced & ~uses->past[n].released;
    if (uses && (releases || fenced)) lanes_ordered(fragment, HAND_OVER, lanes, releases);
}
/* Some lanes of a warp meet, and perhaps no others. */
static void some_lanes_meet(Fragment *fragment, uint32_t members)
{
    if ((members & fragment->warp->live) == fragment->warp->live) lanes_meet(fragment);
    else if (fragment->warp->uses) lanes_ordered(fragment, MEET, members, 0);
}
static LaneUses *uses_of(Warp *warp)
{
    if (!warp->uses) {
        warp->uses = zeroed(1, sizeof(LaneUses));
        empty_table(&warp->uses->now);
    }
    return warp->uses;
}
/* A strong access by lanes; an atomic is a read and then a write. */
static void lanes_access(Fragment *fragment, uint32_t lanes, int mode, int64_t semantics)
{
    if (NUMBERS) return;
    if (mode != WRITE) {
        uses_of(fragment->warp)->strong_readers |= lanes;
        if (semantics == ACQUIRE || semantics == ACQUIRE_RELEASE || semantics == SEQUENTIAL)
            lanes_acquire(fragment, lanes);
    }
    if (mode != READ) lanes_release(fragment, lanes, semantics);
}
/* A fence of lanes; that of wgmma is executed by all lanes together. */
static void lanes_fence(Fragment *fragment, uint32_t lanes, int64_t kind)
{
    const LaneUses *uses = fragment->warp->uses;
    int memory = kind == 0 || kind == 3 || kind == 4 || kind == 5 || kind == 9 || kind == 10;
    if (!uses) return;
    if (kind == 6) lanes_meet(fragment);
    if (!memory) return;
    if (uses->strong_readers & lanes) lanes_acquire(fragment, uses->strong_readers & lanes);
    lanes_ordered(fragment, FENCED, lanes, 0);
}
/* The instruction of an access to a byte that this one by lanes, or some of them, is not ordered
   with, or -1; those in known[n] come after the accesses of lane n, of itself alone without
   `known`. */
static int32_t clash_of(const LaneUse *use, int byte, uint32_t lanes, int access,
                        const uint32_t *known, int some)
{
    int writes = access == LANE_WRITE || access == LANE_STRONG_WRITE;
    int strong = access >= LANE_STRONG_WRITE;
    for (int earlier = 0; earlier < LANE_ACCESSES; earlier++) {
        uint32_t by = use->lanes[byte][earlier], later = lanes;
        int wrote = earlier == LANE_WRITE || earlier == LANE_STRONG_WRITE;
        if (!by || !(wrote || writes) || (strong && earlier >= LANE_STRONG_WRITE)) continue;
        int all = !some && !(use->some[byte] >> earlier & 1);
        if (!strong && earlier < LANE_STRONG_WRITE && all) {
            if (access == LANE_READ) later = lanes & ~by;
            else if (wrote && by == lanes) by = 0;
        }
        for (; by && later; by &= by - 1) {
            int lane = first_lane(by);
            if (later & ~(known ? known[lane] : 1u << lane)) return use->at[byte][earlier];
        }
    }
    return -1;
}
/* The same for a byte of a table, which may have none of it. */
static int32_t clash_in(const UseTable *table, uint64_t key, int byte, uint32_t lanes, int access,
                        const uint32_t *known, int some)
{
    const LaneUse *use = lane_slot(table, key);
    return use->epoch == table->epoch ? clash_of(use, byte, lanes, access, known, some) : -1;
}
/* The same for accesses that are not of the arm that is being executed. */
static int32_t clash_before(const LaneUses *uses, uint64_t key, int byte, uint32_t lanes,
                            int access, int some)
{
    int32_t other = -1;
    for (const Arms *arms = uses->outer; other < 0 && arms; arms = arms->next) {
        some |= arms->divided;
        if (arms->divided) other = clash_in(&arms->ended, key, byte, lanes, access, NULL, 1);
        if (other < 0) other = clash_in(&arms->before, key, byte, lanes, access, NULL, some);
    }
    for (int32_t past = 0; other < 0 && past < uses->past_count; past++) {
        const Layer *layer = &uses->past[past];
        other = clash_in(&layer->table, key, byte, lanes, access, layer->known, some);
    }
    return other;
}
/* Notes an access to `count` bytes at each place by its lanes; records the first clash of the
   fragment's instruction with what other lanes did since the lanes met. */
static void order_lanes(Machine *machine, Fragment *fragment, const Located *located, int total,
                        int64_t count, int access, int32_t instruction)
{
    int32_t other = -1;
    int which = -1, some = machine->uncertain || machine->parted;
    if (NUMBERS) return;
    LaneUses *uses = uses_of(fragment->warp);
    for (int n = 0; n < total; n++) {
        Spot spot = located[n].spot;
        uint32_t lanes = located[n].lanes;
        if (spot.space != SHARED && spot.space != GLOBAL) continue;
        uses->users |= lanes;
        uint64_t memory = memory_key(spot.space, spot.cta ? spot.cta->number : NO_CTA);
        LaneUse *use = NULL; /* of a word */
        for (int64_t at = spot.at; at < spot.at + count; at++) {
            uint64_t key = memory | (uint64_t)at >> 2;
            int byte = (int)(at & 3);
            if (!use || !byte) use = lane_use(&uses->now, key);
            if (which < 0) other = clash_of(use, byte, lanes, access, NULL, some);
            if (which < 0 && other < 0) other = clash_before(uses, key, byte, lanes, access, some);
            /* Lanes may be in different rounds of a loop. */
            if (machine->parted && access == LANE_WRITE && which < 0 && other < 0 &&
                (lanes & (lanes - 1)))
                other = instruction;
            if (which < 0 && other >= 0) which = n;
            use->lanes[byte][access] |= lanes;
            use->some[byte] |= (uint8_t)(some << access);
            use->at[byte][access] = instruction;
        }
    }
    if (which < 0 || machine->clashed[fragment->pc] & CLASHED) return;
    machine->clashed[fragment->pc] |= CLASHED;
    Spot spot = located[which].spot;
    int32_t footprint = of_range(machine, spot.space, spot.cta ? spot.cta->number : NO_CTA,
                                 spot.at, spot.at + count);
    int mode = access == LANE_WRITE || access == LANE_STRONG_WRITE ? WRITE : READ;
    RECORD(EV_LANE_CLASH, fragment, located[which].lanes, footprint, mode, other, 0);
}
/* Lanes write different bytes to one place with the fragment's instruction: recorded once, and once
   where the numbers differ as by rounding (`how`). */
static void clash_within(Machine *machine, Fragment *fragment, const Located *one, int64_t count,
                         uint8_t how)
{
    Spot spot = one->spot;
    if ((spot.space != SHARED && spot.space != GLOBAL) ||
        machine->clashed[fragment->pc] & (CLASHED | how))
        return;
    if (machine->uncertain || machine->maybe) return; /* perhaps one of them alone */
    machine->clashed[fragment->pc] |= how;
    int32_t footprint = of_range(machine, spot.space, spot.cta ? spot.cta->number : NO_CTA,
                                 spot.at, spot.at + count);
    RECORD(EV_LANE_CLASH, fragment, one->lanes, footprint, WRITE, fragment->pc, how == ROUNDED);
}
/* Whether two patterns of `bits` bits are normal numbers of a format with this exponent that are at
   most `steps` of its last place apart. */
static int close_as(uint64_t one, uint64_t other, int bits, uint64_t exponent, uint64_t steps)
{
    uint64_t apart = one > other ? one - other : other - one;
    if ((one ^ other) >> (bits - 1) || apart > steps) return 0;
    uint64_t e = one & exponent, f = other & exponent;
    return e && f && e != exponent && f != exponent;
}
/* Whether two values of `size` bytes are close as one number, or as two of half of the size
   (`nearly_equal` in lane_order.py). */
static int nearly_equal(uint64_t one, uint64_t other, int64_t size)
{
    if (size == 2)
        return close_as(one, other, 16, 0x7c00, 4) || close_as(one, other, 16, 0x7f80, 4);
    if (size == 4 && close_as(one, other, 32, 0x7f800000, 1 << 13)) return 1;
    if (size == 8 && close_as(one, other, 64, 0x7ff0000000000000ull, 1ull << 42)) return 1;
    if (size != 4 && size != 8) return 0;
    int half = 4 * (int)size;
    uint64_t low = (1ull << half) - 1;
    return nearly_equal(one & low, other & low, size / 2) &&
           nearly_equal(one >> half, other >> half, size / 2);
}
/* Looks for lanes that store different known values of `size` bytes to one place; `values`: the
   first register of a value. */
static void clash_of_stores(Machine *machine, Fragment *fragment, const Located *located,
                            int total, const titan_step *s, int values, int64_t size)
{
    uint64_t every = size >= 8 ? ~0ull : (1ull << 8 * size) - 1;
    for (int n = 0; n < total && !NUMBERS; n++)
        for (int i = values; i < s->arg_count; i++) {
            const Value *value = &fragment->warp->registers[ARG(s, i)];
            int found = 0;
            uint8_t how = 0;
            uint64_t first = 0;
            for (uint32_t left = located[n].lanes; left; left &= left - 1) {
                int at = first_lane(left);
                if (lane_opaque(value, at)) continue;
                uint64_t now = lane_value(value, at) & every;
                if (found && now != first)
                    how |= nearly_equal(now, first, size) ? ROUNDED : CLASHED;
                if (!found) first = now;
                found = 1;
            }
            if (how)
                clash_within(machine, fragment, &located[n], size * (s->arg_count - values),
                             how & CLASHED ? CLASHED : ROUNDED);
        }
}
/* As clash_of, for an access that an engine makes for lanes, in no order with them. */
static int32_t clash_with_engine(const LaneUse *use, int byte, uint32_t lanes, int writes,
                                 const uint32_t *known)
{
    for (int earlier = 0; earlier < LANE_ACCESSES; earlier++) {
        if (!writes && earlier != LANE_WRITE && earlier != LANE_STRONG_WRITE) continue;
        for (uint32_t by = use->lanes[byte][earlier]; by; by &= by - 1) {
            int lane = first_lane(by);
            if (lanes & ~(known ? known[lane] : 1u << lane)) return use->at[byte][earlier];
        }
    }
    return -1;
}
/* The lowest byte in a table that an engine accesses for lanes without order, or -1. */
static int64_t first_clash(const UseTable *table, const uint32_t *known, uint64_t memory,
                           const Runs *runs, uint32_t lanes, int writes, int32_t *other)
{
    int64_t lowest = -1;
    for (int64_t n = 0; table->count && n < table->room; n++) {
        const LaneUse *use = &table->slots[n];
        if (use->epoch != table->epoch || memory_of(use->key) != memory) continue;
        for (int byte = 0; byte < 4; byte++) {
            int64_t at = (int64_t)((use->key - memory) << 2) + byte;
            if (lowest >= 0 && at >= lowest) break;
            int inside = 0;
            for (int64_t r = 0; r < runs->count && !inside; r++)
                inside = runs->data[r].low <= at && at < runs->data[r].high;
            int32_t found = inside ? clash_with_engine(use, byte, lanes, writes, known) : -1;
            if (found < 0) continue;
            lowest = at;
            *other = found;
        }
    }
    return lowest;
}
/* The same, if it is lower than the one at `at`, which is known. */
static void earlier_clash(const UseTable *table, const uint32_t *known, uint64_t memory,
                          const Runs *runs, uint32_t lanes, int writes, int64_t *at, int32_t *other)
{
    int32_t found = -1;
    int64_t here = first_clash(table, known, memory, runs, lanes, writes, &found);
    if (here < 0 || (*at >= 0 && here >= *at)) return;
    *at = here;
    *other = found;
}
/* An engine accesses memory for lanes: records the first clash with what others did. */
static void order_footprint(Machine *machine, Fragment *fragment, uint32_t lanes,
                            int32_t footprint, int writes)
{
    const LaneUses *uses = fragment->warp->uses;
    Footprint where = machine->footprints[footprint];
    if (NUMBERS || machine->clashed[fragment->pc] & CLASHED || !uses) return;
    if (where.space != SHARED && where.space != GLOBAL) return;
    if (!uses->now.count && !uses->outer && !uses->past_count) return;
    uint64_t memory = memory_key(where.space, where.cta);
    const Runs *runs = runs_of(machine, footprint);
    int32_t other = -1;
    int64_t at = first_clash(&uses->now, NULL, memory, runs, lanes, writes, &other);
    for (const Arms *arms = uses->outer; arms; arms = arms->next) {
        if (arms->divided)
            earlier_clash(&arms->ended, NULL, memory, runs, lanes, writes, &at, &other);
        earlier_clash(&arms->before, NULL, memory, runs, lanes, writes, &at, &other);
    }
    for (int32_t n = 0; n < uses->past_count; n++)
        earlier_clash(&uses->past[n].table, uses->past[n].known, memory, runs, lanes, writes, &at,
                      &other);
    if (at < 0) return;
    machine->clashed[fragment->pc] |= CLASHED;
    int32_t byte = of_range(machine, where.space, where.cta, at, at + 1);
    RECORD(EV_LANE_CLASH, fragment, lanes, byte, writes ? WRITE : READ, other, 0);
}
/* `commutes`: a reduction, which leaves the same in any order with others. */
static int lane_access(const Machine *machine, int mode, int64_t semantics, int commutes)
{
    int plain = semantics == WEAK || (machine->launch->strong_as_plain && !commutes);
    if (mode == READ) return plain ? LANE_READ : LANE_STRONG_READ;
    return plain ? LANE_WRITE : LANE_STRONG_WRITE;
}
/* Lanes have waited for what each of them has copied by cp.async, or arrive for it. */
static void order_copy(Machine *machine, Fragment *fragment, Operation *copy, uint32_t lanes)
{
    Located places[32];
    uint32_t now = lanes & copy->lanes & ~copy->landed;
    int total = 0;
    copy->landed |= now;
    for (int32_t n = 0; n < copy->place_count; n++)
        if (copy->places[n].lanes & now) {
            places[total] = copy->places[n];
            places[total++].lanes &= now;
        }
    if (total)
        order_lanes(machine, fragment, places, total, copy->place_bytes, LANE_WRITE,
                    copy->instruction);
}
