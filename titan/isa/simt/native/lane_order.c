/* Plain accesses of a warp's lanes since its lanes last met (lane_order.py). */

typedef struct { uint32_t lanes; Spot spot; } Located;

typedef struct {
    uint64_t key; /* memory and word */
    int64_t epoch;
    uint32_t writes[4], reads[4]; /* lanes, of each byte */
    int32_t writer[4], reader[4]; /* instructions */
} LaneUse;

struct LaneUses { LaneUse *slots; int64_t count, room, epoch; };

static void lanes_meet(Fragment *fragment)
{
    LaneUses *uses = fragment->warp->uses;
    if (!uses) return;
    uses->epoch++;
    uses->count = 0;
}
static LaneUse *lane_slot(LaneUses *uses, uint64_t key)
{
    uint64_t at = key * 0x9E3779B97F4A7C15ull;
    for (at >>= 20;; at++) {
        LaneUse *slot = &uses->slots[at & (uint64_t)(uses->room - 1)];
        if (slot->epoch != uses->epoch) return slot;
        if (slot->key == key) return slot;
    }
}
static LaneUse *lane_use(Warp *warp, uint64_t key)
{
    LaneUses *uses = warp->uses;
    if (!uses) {
        uses = warp->uses = zeroed(1, sizeof(LaneUses));
        uses->room = 256;
        uses->epoch = 1;
        uses->slots = zeroed((size_t)uses->room, sizeof(LaneUse));
    }
    if (uses->count * 2 >= uses->room) {
        LaneUses old = *uses;
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
/* Notes a plain read or write of each place by its lanes; records the first clash of the
   instruction with what other lanes did since the lanes met. */
static void order_lanes(Machine *machine, Fragment *fragment, const Located *located, int total,
                        int64_t count, int mode)
{
    int32_t other = -1;
    int which = -1;
    if (NUMBERS || machine->maybe) return;
    for (int n = 0; n < total; n++) {
        Spot spot = located[n].spot;
        uint32_t lanes = located[n].lanes;
        if (spot.space != SHARED && spot.space != GLOBAL) continue;
        uint64_t memory = spot.space == GLOBAL ? 0 : 1 + (uint64_t)spot.cta->number;
        LaneUse *use = NULL; /* of a word */
        for (int64_t at = spot.at; at < spot.at + count; at++) {
            if (!use || !(at & 3))
                use = lane_use(fragment->warp, memory << 44 ^ (uint64_t)at >> 2);
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
