/* Shared declarations of the native explorer: program tables, working state, results.
 *
 * Every number is a 64 bit word. A working state is one flat array: fixed words (sizes, barriers,
 * named barriers, cells, pools) followed by one region per agent (position, variables, queues and
 * operations in flight). Stored states are packed byte strings of exactly the words that matter.
 *
 * Numbers and records that Python shares (node kinds, faults, titan_program, ...) are generated
 * from titan/engines/explore/layout.py and stand before this file when it is compiled.
 */
#include <stdlib.h>
#include <string.h>

#define TILE_UNDEFINED (-((word)1 << 40))
#define TILE_ANY (TILE_UNDEFINED + 1)
#define TILE_ANCIENT (TILE_UNDEFINED + 2)
#define TILE_MIN (-((word)1 << 39)) /* of tiles that a program names */
#define ENGINE_BIT ((word)1 << 62)
#define TRANSACTION_MAX (((word)1 << 20) - 1)
#define LOCAL_STEPS_MAX 1000000
#define STACK_MAX 96

/* Results of executing or evaluating something. */
enum { DONE = 0, FAULT = 1, NEED = 2, BROKEN = 3, STAYS = 4, BLOCKED = 5 };

/* C_MAP: the agents that have yet to release what they wrote of a tensor map, or this. */
#define MAP_RELEASED ((word)-1)

/* Words of an agent's region before its variables, and of a flight before its values.
 * A flight's values: (region, tile) of every effect, then (barrier, amount) of every completion. */
enum { A_NODE, A_ISSUED, A_FLIGHTS, A_VARIABLES };
enum { F_NODE, F_GROUP, F_READING, F_CHUNKS, F_ORDINAL, F_KNOWN, F_VALUES };
#define GROUP_OPEN (-1)

typedef struct { int32_t actor, agent, ordinal; } step_t;

#define ROOT_SPLITS_MAX 64
#define ROOTS_MAX 20000 /* choices of sizes tried for the first state */
#define DECISION_REACH 256
