/* Graphs: work of a stream that is captured, and done in order when its graph is launched. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

typedef struct Node {
    int operation, count;
    uint64_t words[16];
    void *data, *to; /* of a launch; of a copy */
    const void *from;
    size_t bytes;
    struct Node *next;
} Node;
struct Graph {
    Node *first, *last;
    size_t references;
};

static Graph *recorded; /* NULL: nothing is */
static int replaying;

int is_recording(void) { return recorded && !replaying; }
int begin_recording(void)
{
    if (recorded) return INVALID_VALUE;
    recorded = calloc(1, sizeof *recorded);
    if (recorded) recorded->references = 1;
    return recorded ? 0 : OUT_OF_MEMORY;
}
Graph *end_recording(void)
{
    Graph *found = recorded;
    recorded = NULL;
    return found;
}
void record(int operation, const uint64_t *words, int count, const void *data, size_t bytes,
            void *to, const void *from)
{
    Node *made = calloc(1, sizeof *made);
    void *kept = data ? malloc(bytes + 1) : NULL;
    if (!made || (data && !kept)) abort();
    if (data) memcpy(kept, data, bytes);
    *made = (Node){.operation = operation, .count = count, .data = kept, .to = to, .from = from,
                   .bytes = bytes};
    if (count) memcpy(made->words, words, (size_t)count * sizeof *words);
    if (recorded->last) recorded->last->next = made;
    else recorded->first = made;
    recorded->last = made;
}
int run_graph(const Graph *graph)
{
    int error = 0;
    replaying = 1;
    for (const Node *node = graph->first; node && !error; node = node->next)
        switch (node->operation) {
        case OP_LAUNCH: error = launch_packed(node->words, node->data, node->bytes); break;
        case OP_COPY: error = copy_memory(node->to, node->from, node->bytes); break;
        default:
            error = set_memory((void *)(uintptr_t)node->words[0], node->words[1],
                               (size_t)node->words[2], (int)node->words[3]);
        }
    replaying = 0;
    return error;
}
static void release(Graph *graph)
{
    if (!graph || --graph->references) return;
    while (graph->first) {
        Node *node = graph->first;
        graph->first = node->next;
        free(node->data);
        free(node);
    }
    free(graph);
}

/* --------------------------------------------------------------- of the runtime library */

API int cudaStreamBeginCapture(void *stream, int mode)
{
    (void)stream, (void)mode;
    return begin_recording();
}
API int cudaStreamEndCapture(void *stream, Graph **graph)
{
    (void)stream;
    *graph = end_recording();
    return *graph ? 0 : INVALID_VALUE;
}
API int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = is_recording();
    return 0;
}
API int cudaGraphInstantiate(Graph **made, Graph *graph, unsigned long long flags)
{
    (void)flags;
    graph->references++;
    *made = graph;
    return 0;
}
API int cudaGraphInstantiateWithFlags(Graph **made, Graph *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(made, graph, flags);
}
API int cudaGraphLaunch(Graph *graph, void *stream)
{
    (void)stream;
    return run_graph(graph);
}
API int cudaGraphDestroy(Graph *graph)
{
    release(graph);
    return 0;
}
API int cudaGraphExecDestroy(Graph *graph)
{
    release(graph);
    return 0;
}
