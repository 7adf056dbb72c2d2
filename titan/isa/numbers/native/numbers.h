/* The domain of numbers on the native machine (titan/isa/simt/native): what it adds to each part.
   The Python machine (machine.py here, and what it calls) is the definition. */
#include <pthread.h>

/* BEGIN SHARED WITH PYTHON */
typedef struct { /* what the text of an instruction says beyond its decoded step (forms.py) */
    int32_t function, format, source, mode, packed, flush, saturate, relu, nan, bits, is_signed;
    int32_t word, rows, columns, depth, a, b, negate_a, negate_b;
} titan_form;
typedef struct { /* global memory; `state` NULL: every byte is known */
    int64_t start, bytes;
    uint8_t *data, *state;
    int32_t made; /* the core made `state` */
} titan_allocation;
typedef struct {
    const titan_form *forms; /* one for each step */
    titan_allocation *allocations; int32_t allocation_count; /* in the order of their starts */
    int32_t exact, threads, schedule, engines, polls_max;
} titan_numbers;
/* END SHARED WITH PYTHON */

enum {
    FORM_NONE, FORM_ADD, FORM_SUB, FORM_MUL, FORM_FMA, FORM_DIV, FORM_MIN, FORM_MAX, FORM_NEG,
    FORM_ABS, FORM_COPYSIGN, FORM_EX2, FORM_LG2, FORM_RCP, FORM_SQRT, FORM_RSQRT, FORM_SIN,
    FORM_COS, FORM_TANH,
    FORM_CLOCK,
    FORM_CONVERT = 20, FORM_TO_INTEGER, FORM_FROM_INTEGER, FORM_PACK, FORM_UNPACK, FORM_COMPARE,
    FORM_INTEGER, FORM_TEST, FORM_DOT, FORM_PACK_INTEGERS,
    FORM_MATRIX = 30, FORM_MOVE_MATRIX, FORM_LOAD_MATRIX, FORM_ATOMIC, FORM_SUM, FORM_REDUX,
    FORM_TENSOR_ACCESS, FORM_TENSOR_MULTIPLY, FORM_TENSOR_COPY
};
/* The last: two in a byte of shared memory, where E2M1 stands in eight bytes of every 16. */
enum { F16, BF16, F32, F64, E4M3, E5M2, TF32, E2M1, E2M3, E3M2, UE8M0, S8, U8, S32, E2M1_PAIRS,
       FORMATS };
enum { IN_TURN, ONE_STARVES, ONE_AHEAD, CLUSTERS_MIXED }; /* schedules of warps */
enum { ENGINES_SOON, ENGINES_EARLY, ENGINES_LATE, ENGINES_RANDOM };
enum { TO_NEAREST, TO_ZERO, DOWN, UP, TO_AWAY }; /* roundings; the last: nearest, ties away */
enum { NO_SATURATION, TO_UNIT, TO_FINITE };

/* Results of matrix instructions on their way to registers: 16 rows of binary32 numbers, or bits
   of binary16 in exact sums; `unknown` NULL: all elements are known. */
typedef struct {
    int32_t references, columns;
    float *values;
    uint8_t *unknown;
} Tile;

typedef void (*Kernel)(uint64_t *, const uint64_t *, const uint64_t *, const uint64_t *,
                       const int64_t *);
typedef struct Quick Quick;
typedef void (*Runner)(Machine *, Fragment *, const Quick *, uint32_t);
struct Quick { /* a step that the fast path executes; `run` NULL: it does not */
    Runner run;
    Kernel kernel;
    const titan_step *step;
    const int64_t *flags;
    int32_t out, other, args[3], arg_count, guard, negated;
};

/* One run of a launch, shared by the machines of its clusters. */
typedef struct {
    const titan_code *code;
    const titan_launch *launch;
    const titan_numbers *given;
    Quick *quick;
    pthread_mutex_t lock;
    int32_t next, ended, failed; /* clusters; the first one that failed, or their number */
    int64_t count;
    uint64_t turns;
    Machine **parked; int32_t parked_count, parked_room;
    Machine *result;
    int64_t *own; /* a flag for each step that is a form */
    Page *pages; int64_t page_count, page_slots;
} Computation;

struct Numbers { /* of one machine */
    Computation *shared;
    titan_launch launch;
    titan_allocation *last;
    uint32_t stamp;
    int32_t place; /* which cluster of the launch */
    int64_t favourite, chosen; /* warps that a schedule treats in its own way; or -1 */
    int64_t rounds; /* that are left of its turn */
    int64_t gave_up; /* how often waits gave false as nothing else could run */
    int stalled;
};
typedef struct Operand Operand;
struct CtaNumbers {
    uint32_t *stamps; /* when each 1024 bytes of shared memory were last written */
    Operand *operands; int32_t operand_next;
    uint32_t *tensor; uint8_t *tensor_known; /* 128 lanes of 512 columns, once allocated */
};
enum { OPERANDS = 32, STAMP_BITS = 10, COLUMNS = 512, TENSOR_LANES = 128 };

static titan_allocation *allocation_at(Machine *machine, int64_t at, int64_t count);
static int read_allocation(Machine *machine, int64_t at, int64_t count, uint64_t *value);
static int write_allocation(Machine *machine, int64_t at, int64_t count, uint64_t value,
                            int opaque);
static void forget_allocations(Machine *machine, int64_t low, int64_t high);
static void touch(Machine *machine, Cta *cta, int64_t at, int64_t count);
static int transfer(Machine *machine, Operation *o);
static void free_transfer(Operation *o);
static int compute_form(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask);
static int float_atomic(Machine *machine, const titan_step *s, int operation, uint64_t old,
                        uint64_t given, uint64_t *result);
static int redux_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask);
static int matrix_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask,
                          int mode);
static int collective_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                              uint32_t mask);
static int copy_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask);
static void bulk_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                         const uint64_t *given, int many, Operation *o);
static void tensor_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                           const titan_map *map, const int64_t *at, const int64_t *offsets,
                           uint64_t shared, int has_mask, uint64_t mask, Operation *o);
static void store_async_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                uint32_t lanes, Operation *o);
static void forget_tensor(Cta *cta, int64_t low, int64_t high);
static int tensor_access_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                 uint32_t mask, uint64_t address);
static void multiply_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                             const uint64_t *v, Operation *o);
static void memory_copy_numbers(Machine *machine, Fragment *fragment, const titan_step *s,
                                uint64_t address, uint64_t descriptor, Operation *o);
static int wgmma_numbers(Machine *machine, Fragment *fragment, const titan_step *s, uint32_t mask);
static void start_cta_numbers(Machine *machine, Cta *cta);
static void free_cta_numbers(Cta *cta);
static int quick_step(Machine *machine, Fragment *fragment);
static int run_chosen(Machine *machine, int64_t total);
static int run_starved(Machine *machine, int64_t quantum);
static int turn_is_over(Machine *machine);
static int64_t quantum_of(const Machine *machine, int64_t quantum);
static int give_up(Machine *machine);
static void resume(Machine *machine, Fragment *fragment);
static int64_t delay_of(Machine *machine, int64_t delay);
static int run_warp(Machine *machine, Warp *warp, int64_t quantum);
static uint64_t draw(Machine *machine);
