/* Plain accesses of a warp's lanes, and which lanes come after them (lane_uses.py). */

enum { LAYERS_MAX = 32 };
typedef struct { uint32_t lanes; Spot spot; } Located;

typedef struct {
    uint64_t key; /* memory and word */
    int64_t epoch;
    uint32_t writes[4], reads[4]; /* lanes, of each byte */
    int32_t writer[4], reader[4]; /* instructions */
} LaneUse;

typedef struct { LaneUse *slots; int64_t count, room, epoch; } UseTable;

/* Accesses between two events that order lanes: the lanes that access; known[n]: those that come
   after the accesses of lane n; those before a fence; those handed over. */
typedef struct { UseTable table; uint32_t users, known[32], fenced, released; } Layer;

struct LaneUses {
    UseTable now;
    Layer past[LAYERS_MAX + 1];
    int32_t past_count;
    uint32_t users, strong_readers;
};
enum { MEET, TAKE_OVER, FENCED, HAND_OVER }; /* events that order lanes */

static void drop_layers(LaneUses *uses)
{
    for (int32_t n = 0; n < uses->past_count; n++) free(uses->past[n].table.slots);
    uses->past_count = 0;
}
static void free_uses(LaneUses *uses)
{
    if (!uses) return;
    drop_layers(uses);
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
        for (int byte = 0; byte < 4; byte++) {
            if (from->writes[byte]) to->writer[byte] = from->writer[byte];
            if (from->reads[byte]) to->reader[byte] = from->reader[byte];
            to->writes[byte] |= from->writes[byte];
            to->reads[byte] |= from->reads[byte];
        }
    }
    free(newer->slots);
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
/* Whether some access of `earlier` is not before what `lanes` do. */
static int not_known(uint32_t earlier, uint32_t lanes, const uint32_t *known)
{
    for (; earlier; earlier &= earlier - 1)
        if (lanes & ~known[first_lane(earlier)]) return 1;
    return 0;
}
/* The instruction of an access in a layer that this one is not ordered with, or -1. */
static int32_t clash_before(const Layer *layer, uint64_t key, int byte, uint32_t lanes, int mode)
{
    const LaneUse *use = lane_slot(&layer->table, key);
    if (use->epoch != layer->table.epoch) return -1;
    uint32_t writes = use->writes[byte], reads = use->reads[byte];
    if (mode == READ)
        return not_known(writes, lanes & ~writes, layer->known) ? use->writer[byte] : -1;
    if (writes != lanes && not_known(writes, lanes, layer->known)) return use->writer[byte];
    return not_known(reads & ~lanes, lanes, layer->known) ? use->reader[byte] : -1;
}
/* Notes a plain read or write of each place by its lanes; records the first clash of the
   instruction with what other lanes did since the lanes met. */
static void order_lanes(Machine *machine, Fragment *fragment, const Located *located, int total,
                        int64_t count, int mode)
{
    int32_t other = -1;
    int which = -1;
    if (NUMBERS || machine->maybe) return;
    LaneUses *uses = uses_of(fragment->warp);
    for (int n = 0; n < total; n++) {
        Spot spot = located[n].spot;
        uint32_t lanes = located[n].lanes;
        if (spot.space != SHARED && spot.space != GLOBAL) continue;
        uses->users |= lanes;
        uint64_t memory = spot.space == GLOBAL ? 0 : 1 + (uint64_t)spot.cta->number;
        LaneUse *use = NULL; /* of a word */
        for (int64_t at = spot.at; at < spot.at + count; at++) {
            uint64_t key = memory << 44 ^ (uint64_t)at >> 2;
            if (!use || !(at & 3)) use = lane_use(&uses->now, key);
            uint32_t *writes = &use->writes[at & 3], *reads = &use->reads[at & 3];
            if (which < 0 && mode == READ && *writes && lanes & ~*writes) {
                which = n;
                other = use->writer[at & 3];
            }
            if (which < 0 && mode == WRITE && *writes && *writes != lanes) {
                which = n;
                other = use->writer[at & 3];
            }
            if (which < 0 && mode == WRITE && *reads & ~lanes) {
                which = n;
                other = use->reader[at & 3];
            }
            for (int32_t past = 0; which < 0 && past < uses->past_count; past++) {
                other = clash_before(&uses->past[past], key, (int)(at & 3), lanes, mode);
                if (other >= 0) which = n;
            }
            if (mode == READ) {
                *reads |= lanes;
                use->reader[at & 3] = fragment->pc;
            } else {
                *writes |= lanes;
                use->writer[at & 3] = fragment->pc;
            }
        }
    }
    if (which < 0 || machine->clashed[fragment->pc]) return;
    machine->clashed[fragment->pc] = 1;
    Spot spot = located[which].spot;
    int32_t footprint = of_range(machine, spot.space, spot.cta ? spot.cta->number : NO_CTA,
                                 spot.at, spot.at + count);
    RECORD(EV_LANE_CLASH, fragment, located[which].lanes, footprint, mode, other);
}
