/* Tensor maps that a kernel edits (map_bytes.py, copies.py). */
enum { F_ADDRESS, F_RANK, F_BOX, F_DIMENSION, F_STRIDE, F_STEP, F_TYPE, F_INTERLEAVE, F_SWIZZLE,
       F_ATOMICITY, F_FILL };
struct EditedMap {
    uint8_t bytes[128];
    titan_map map;
    EditedMap *next;
};

static uint64_t stored_number(const uint8_t *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}
static void pack_map(const titan_map *map, uint8_t *bytes)
{
    memset(bytes, 0, 128);
    memcpy(bytes, "TITANMAP", 8);
    store_number(bytes + 8, (uint64_t)map->base, 8);
    for (int d = 0; d < 5; d++) {
        store_number(bytes + 16 + 8 * d, (uint64_t)map->dimensions[d], 8);
        if (d < 4) store_number(bytes + 56 + 8 * d, (uint64_t)map->stride_bytes[d], 8);
        store_number(bytes + 88 + 2 * d, (uint64_t)map->box[d], 2);
        store_number(bytes + 98 + d, (uint64_t)map->element_strides[d], 1);
    }
    int32_t modes[] = {map->data_type, map->rank, map->interleave, map->swizzle, map->fill};
    for (int n = 0; n < 5; n++) bytes[103 + n] = (uint8_t)modes[n];
}
/* The fields of an edited map; 0: the bytes hold none. */
static int fields_of(const uint8_t *bytes, titan_map *map)
{
    if (memcmp(bytes, "TITANMAP", 8)) return 0;
    memset(map, 0, sizeof *map);
    map->base = (int64_t)stored_number(bytes + 8, 8);
    for (int d = 0; d < 5; d++) {
        map->dimensions[d] = (int64_t)stored_number(bytes + 16 + 8 * d, 8);
        if (d < 4) map->stride_bytes[d] = (int64_t)stored_number(bytes + 56 + 8 * d, 8);
        map->box[d] = (int64_t)stored_number(bytes + 88 + 2 * d, 2);
        map->element_strides[d] = (int64_t)stored_number(bytes + 98 + d, 1);
    }
    map->data_type = bytes[103];
    map->rank = bytes[104];
    map->interleave = bytes[105];
    map->swizzle = bytes[106];
    map->fill = bytes[107];
    return 1;
}
enum { UNSET = -1 }; /* of an address, a dimension or a stride; of a box or a step: 0 */
/* The map that the bytes hold; 0: none, or a field of it was never set. */
static int unpack_map(const uint8_t *bytes, titan_map *map)
{
    if (!fields_of(bytes, map) || map->base == UNSET) return 0;
    for (int d = 0; d < map->rank; d++)
        if (map->dimensions[d] == UNSET || !map->box[d] || !map->element_strides[d] ||
            (d && map->stride_bytes[d - 1] == UNSET))
            return 0;
    return 1;
}
/* A map that begins as zeros (map_bytes.py). */
static void blank_map(titan_map *map)
{
    memset(map, 0, sizeof *map);
    map->base = UNSET;
    map->rank = 1;
    for (int d = 0; d < 5; d++) {
        map->dimensions[d] = UNSET;
        if (d < 4) map->stride_bytes[d] = UNSET;
    }
}
/* What lies behind these bytes of a map that was not edited says nothing (map_bytes.py). */
enum { NAME_BYTES = 64 };
/* Whether a map is named by its first bytes alone. */
static int names_only(const uint8_t *bytes)
{
    for (int i = NAME_BYTES; i < 128; i++)
        if (bytes[i]) return 0;
    return 1;
}
/* Whether a byte of a map need not be known: behind the name. */
static int says_nothing(const uint8_t *bytes, int at)
{
    return at >= NAME_BYTES && memcmp(bytes, "TITANMAP", 8);
}
/* The map that 128 bytes name or hold; NULL: none is known. */
static const titan_map *map_of(Machine *machine, const uint8_t *bytes)
{
    const titan_launch *l = machine->launch;
    titan_map map;
    for (int32_t n = 0; n < l->map_count; n++)
        if (!memcmp(l->maps[n].bytes, bytes, 128)) return &l->maps[n];
    for (int32_t n = 0; n < l->map_count && memcmp(bytes, "TITANMAP", 8); n++)
        if (names_only(l->maps[n].bytes) && !memcmp(l->maps[n].bytes, bytes, NAME_BYTES))
            return &l->maps[n];
    for (EditedMap *one = machine->edited; one; one = one->next)
        if (!memcmp(one->bytes, bytes, 128)) return &one->map;
    if (!unpack_map(bytes, &map)) return NULL;
    EditedMap *made = zeroed(1, sizeof *made);
    memcpy(made->bytes, bytes, 128);
    made->map = map;
    made->next = machine->edited;
    machine->edited = made;
    return &made->map;
}
/* start + count * stride, as addresses of 64 bits: they wrap around (tensor_maps.py). */
static int64_t sum_of(int64_t start, int64_t count, int64_t stride)
{
    return (int64_t)((uint64_t)start + (uint64_t)count * (uint64_t)stride);
}
/* Whether the tensor covers all addresses. */
static int wraps(const titan_map *map)
{
    double end = (double)map->base;
    for (int d = 1; d < map->rank; d++)
        end += (double)(map->dimensions[d] - 1) * (double)map->stride_bytes[d - 1];
    return end >= 0x1p60;
}
static int is_edited(const Machine *machine, const titan_map *map)
{
    for (int32_t n = 0; n < machine->launch->map_count; n++)
        if (map == &machine->launch->maps[n]) return 0;
    return 1;
}
static void free_edited_maps(Machine *machine)
{
    while (machine->edited) {
        EditedMap *next = machine->edited->next;
        free(machine->edited);
        machine->edited = next;
    }
}

/* Replace a field; 0: it is not known what the map is then. */
static int replace_field(titan_map *map, int64_t field, int64_t at, uint64_t value)
{
    static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};
    int several = field == F_BOX || field == F_DIMENSION || field == F_STEP ? 5
                  : field == F_STRIDE ? 4 : 1;
    if (at < 0 || at >= several) return 0;
    if (field != F_ADDRESS && field != F_STRIDE) value &= 0xFFFFFFFFu;
    switch (field) {
    case F_ADDRESS: map->base = (int64_t)value; return value % 16 == 0;
    case F_RANK: map->rank = (int32_t)value + 1; return value < 5;
    case F_BOX: map->box[at] = (int64_t)value; return value >= 1 && value <= 256;
    case F_DIMENSION: map->dimensions[at] = (int64_t)value; return 1;
    case F_STRIDE:
        map->stride_bytes[at] = (int64_t)value;
        return value % 16 == 0 && value < 1ull << 40;
    case F_STEP: map->element_strides[at] = (int64_t)value; return value >= 1 && value <= 8;
    case F_TYPE: map->data_type = value < 16 ? types[value] : 0; return value < 16;
    case F_INTERLEAVE: map->interleave = (int32_t)value; return value <= 2;
    case F_SWIZZLE:
        if (value != 3 || map->swizzle < 3) map->swizzle = (int32_t)value;
        return value <= 3;
    case F_ATOMICITY: /* of the swizzle of 128 bytes */
        if (value > 3 || (map->swizzle < 3 && value)) return 0;
        if (map->swizzle >= 3) map->swizzle = 3 + (int32_t)value;
        return 1;
    case F_FILL: map->fill = (int32_t)value; return value <= 1;
    default: return 0;
    }
}
static int read_map(Machine *machine, Warp *warp, Spot spot, uint8_t *bytes)
{
    for (int i = 0; i < 128; i += 8) {
        uint64_t value = 0;
        if (!read_value(machine, warp, 0, spot, 8, &value)) {
            if (!says_nothing(bytes, i)) return 0;
            memset(bytes + NAME_BYTES, 0, 128 - NAME_BYTES);
            return 1;
        }
        store_number(bytes + i, value, 8);
        spot.at += 8;
    }
    return 1;
}
static void write_map(Machine *machine, Fragment *fragment, Spot spot, const uint8_t *bytes)
{
    for (int i = 0; i < 128; i += 8) {
        write_value(machine, fragment, 0, spot, 8, bytes ? stored_number(bytes + i, 8) : 0, !bytes);
        spot.at += 8;
    }
}
/* The bytes of a map with a field replaced; 0: not known. `zeros`: it was a map of zeros. */
static int edit(Machine *machine, const titan_step *s, const Value *given, uint32_t lanes,
                uint8_t *bytes, int *zeros)
{
    static const uint8_t nothing[128];
    uint64_t value;
    int opaque;
    titan_map map;
    if (!fields_of(bytes, &map)) {
        const titan_map *found = map_of(machine, bytes);
        *zeros = !found && !memcmp(bytes, nothing, 128);
        if (found && !found->pixels) {
            map = *found;
            for (int d = map.rank; d < 5; d++) {
                map.dimensions[d] = map.box[d] = map.element_strides[d] = 1;
                map.stride_bytes[d - 1] = 0;
            }
        } else if (*zeros) blank_map(&map);
        else return 0;
    }
    if (!uniform(given, lanes, &value, &opaque) || opaque) return 0;
    if (!replace_field(&map, FLAG(s, 2), FLAG(s, 3), value)) return 0;
    pack_map(&map, bytes);
    return 1;
}
static void replace_in_map(Machine *machine, Fragment *fragment, const titan_step *s,
                           uint32_t mask)
{
    Located located[32];
    uint8_t bytes[128];
    const Value *value = &fragment->warp->registers[ARG(s, 1)];
    Marks marks = mark_of(fragment->warp, ARG(s, 1));
    if (marks) steered(machine, fragment, marks, USE_STORE, mask);
    int total = locate(machine, fragment, ARG(s, 0), (int)FLAG(s, 0), FLAG(s, 1), 128, mask,
                       located);
    total = within(machine, fragment, located, total, 128, ATOMIC_WINDOWS);
    if (total < 0) refuse(machine, fragment, "the address of a tensor map is not known");
    record_located(machine, fragment, located, total, 128, WRITE, 0, 0, 0, 0);
    order_lanes(machine, fragment, located, total, 128, LANE_WRITE, fragment->pc);
    for (int n = 0; n < total; n++) {
        int zeros = 0;
        int known = read_map(machine, fragment->warp, located[n].spot, bytes) &&
                    edit(machine, s, value, located[n].lanes, bytes, &zeros);
        if (zeros) assume(machine, fragment, located[n].lanes, POLICY_ZEROED_MAP);
        write_map(machine, fragment, located[n].spot, known ? bytes : NULL);
    }
}
static void copy_map(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask)
{
    Located from[32], to[32];
    uint8_t bytes[128];
    int known = 0;
    int read = locate(machine, fragment, ARG(s, 1), (int)FLAG(s, 2), FLAG(s, 3), 128, mask, from);
    for (int n = 0; n < read; n++) known = known || any_known(machine, from[n].spot, 128);
    if (read > 0) record_located(machine, fragment, from, read, 128, READ, 0, 0, known, 0);
    order_lanes(machine, fragment, from, read, 128, LANE_READ, fragment->pc);
    int total = locate(machine, fragment, ARG(s, 0), (int)FLAG(s, 0), FLAG(s, 1), 128, mask, to);
    total = within(machine, fragment, to, total, 128, ATOMIC_WINDOWS);
    if (total < 0) refuse(machine, fragment, "the address of a tensor map is not known");
    record_located(machine, fragment, to, total, 128, WRITE, 0, 0, 0, 0);
    for (int n = 0; n < total; n++) {
        Spot at = to[n].spot;
        int32_t written = of_range(machine, at.space, at.cta ? at.cta->number : NO_CTA, at.at,
                                   at.at + 128);
        order_footprint(machine, fragment, mask, written, 1);
    }
    known = read == 1 && from[0].lanes == mask &&
            read_map(machine, fragment->warp, from[0].spot, bytes);
    for (int n = 0; n < total; n++)
        write_map(machine, fragment, to[n].spot, known ? bytes : NULL);
    lanes_fence(fragment, mask, 4);
    RECORD(EV_FENCE, fragment, mask, 4, FLAG(s, 4), FLAG(s, 5), 0, -1);
}
