/* What the libraries ask the process that emulates the device (titan/emulated/cuda/server.py).
 *
 * A request is a header (operation, words, bytes), its words and its bytes; so is the answer, whose
 * operation is an error of the CUDA driver, 0 for none. One at a time. */
#ifndef TITAN_CLIENT_H
#define TITAN_CLIENT_H
#include <stddef.h>
#include <stdint.h>

/* The order is that of `DriverRequest` in server.py. */
enum {
    OP_LOAD = 1, OP_KERNEL, OP_LAUNCH, OP_ALLOCATE, OP_FREE, OP_WRITE, OP_READ, OP_COPY, OP_SET,
    OP_ATTRIBUTE, OP_TENSOR_MAP, OP_FUNCTION, OP_NAME, OP_UNSUPPORTED, OP_VARIABLE
};
enum {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_SYMBOL = 13, NO_DEVICE = 100, NOT_FOUND = 500,
    UNSUPPORTED = 801
};

#define API __attribute__((visibility("default")))

typedef struct {
    uint64_t words[8];
    int word_count;
    void *data; /* where the bytes of the answer go, */
    size_t room; /* at most this many; */
    size_t bytes; /* the number received */
} Answer;

/* The error, and the answer where one is asked for. Ends the process where the device does. */
int ask(int operation, const uint64_t *words, int count, const void *data, size_t bytes,
        Answer *answer);
#define ASK(operation, data, bytes, answer, ...)                                                 \
    ask(operation, (const uint64_t[]){__VA_ARGS__},                                              \
        (int)(sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), data, bytes, answer)

/* A kernel that was found: its number, and the bytes of each parameter. */
typedef struct {
    uint64_t number;
    int count;
    uint32_t sizes[1024];
    int64_t shared_max;
} Kernel;
/* An attribute of a launch, in both libraries (CUlaunchAttribute, cudaLaunchAttribute). */
typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        uint32_t cluster[3];
    } value;
} LaunchAttribute;
const uint32_t *cluster_of(const LaunchAttribute *attributes, uint32_t count); /* NULL: none */

Kernel *find_kernel(uint64_t module, const char *name);
int load_image(const void *image, uint64_t *module);
int launch_packed(const uint64_t *words, const void *packed, size_t bytes);
int launch(const Kernel *kernel, const uint32_t *grid, const uint32_t *block, size_t shared,
           const uint32_t *cluster, void **arguments);
int find_variable(uint64_t module, const char *name, void **address, size_t *bytes);

/* Memory that host and device share: the host's copy is the device's before and after a launch. */
int allocate(void **address, size_t bytes);
int allocate_managed(void **address, size_t bytes);
int free_memory(void *address);
int is_managed(const void *address);

/* While a graph is recorded, work goes into it instead of to the device. */
typedef struct Graph Graph;
int is_recording(void);
int begin_recording(void);
Graph *end_recording(void);
int run_graph(const Graph *graph);
void record(int operation, const uint64_t *words, int count, const void *data, size_t bytes,
            void *to, const void *from);

/* An image that nvcc registers; it is loaded when something of it is first asked for. */
typedef struct {
    uint64_t module;
    int loaded, error;
    const void *image;
} Image;
int module_of(Image *image, uint64_t *module);
int kept(int error); /* for cudaGetLastError */

int copy_memory(void *to, const void *from, size_t bytes);
int set_memory(void *at, uint64_t value, size_t count, int width);
int on_device(const void *address);
const char *named(int error, int words); /* of an error: its name, or what it means in words */
void *entry_point(const char *name);
#endif
