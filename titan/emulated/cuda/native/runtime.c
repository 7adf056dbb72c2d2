/* The functions of the CUDA runtime library that programs of nvcc call, on the emulated device.
 *
 * Written against the documented functions and what nvcc emits calls of. Work is done in order on
 * the calling thread, which is a legal device: streams and events have nothing to wait for. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    uint32_t x, y, z;
} Extent;
typedef struct Function {
    const void *host;
    char *name;
    Image *image;
    Kernel *kernel;
    struct Function *next;
} Function;

static Function *functions;
static __thread int last;
int kept(int error)
{
    if (error) last = error;
    return error;
}

/* ------------------------------------------------------------------ what nvcc emits calls of */

API void **__cudaRegisterFatBinary(void *wrapper)
{
    Image *made = calloc(1, sizeof *made);
    made->image = wrapper;
    return (void **)made;
}
API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}
API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                int limit, void *a, void *b, void *c, void *d, int *e)
{
    (void)device, (void)limit, (void)a, (void)b, (void)c, (void)d, (void)e;
    Function *made = calloc(1, sizeof *made);
    *made = (Function){host, strdup(name), (Image *)handle, NULL, functions};
    functions = made;
}
int module_of(Image *image, uint64_t *module)
{
    if (!image->loaded) {
        image->error = load_image(image->image, &image->module);
        image->loaded = 1;
    }
    *module = image->module;
    return image->error;
}
static Kernel *kernel_of(const void *host)
{
    for (Function *found = functions; found; found = found->next) {
        if (found->host != host) continue;
        uint64_t module;
        if (!module_of(found->image, &module) && !found->kernel)
            found->kernel = find_kernel(module, found->name);
        return found->kernel;
    }
    return NULL;
}
static __thread struct {
    Extent grid, block;
    size_t shared;
    void *stream;
} calls[64];
static __thread int depth;
API unsigned __cudaPushCallConfiguration(Extent grid, Extent block, size_t shared, void *stream)
{
    if (depth == 64) return INVALID_VALUE;
    calls[depth].grid = grid;
    calls[depth].block = block;
    calls[depth].shared = shared;
    calls[depth++].stream = stream;
    return 0;
}
API int __cudaPopCallConfiguration(Extent *grid, Extent *block, size_t *shared, void **stream)
{
    if (!depth) return INVALID_VALUE;
    *grid = calls[--depth].grid;
    *block = calls[depth].block;
    *shared = calls[depth].shared;
    *stream = calls[depth].stream;
    return 0;
}
API int __cudaGetKernel(void **kernel, const void *host)
{
    *kernel = kernel_of(host);
    return *kernel ? 0 : kept(98);
}
API int cudaGetKernel(void **kernel, const void *host) { return __cudaGetKernel(kernel, host); }
API int __cudaLaunchKernel(void *kernel, Extent grid, Extent block, void **arguments, size_t shared,
                           void *stream)
{
    (void)stream;
    return kept(launch(kernel, &grid.x, &block.x, shared, NULL, arguments));
}
API int __cudaLaunchKernel_ptsz(void *kernel, Extent grid, Extent block, void **arguments,
                                size_t shared, void *stream)
{
    return __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
API int cudaLaunchKernel(const void *host, Extent grid, Extent block, void **arguments,
                         size_t shared, void *stream)
{
    Kernel *kernel = kernel_of(host);
    return kernel ? __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream) : kept(98);
}
API int cudaLaunchCooperativeKernel(const void *host, Extent grid, Extent block, void **arguments,
                                    size_t shared, void *stream)
{
    return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}
typedef struct {
    Extent grid, block;
    size_t shared;
    void *stream;
    LaunchAttribute *attributes;
    uint32_t count;
} Configuration;
API int cudaLaunchKernelExC(const Configuration *given, const void *host, void **arguments)
{
    Kernel *kernel = kernel_of(host);
    if (!kernel) return kept(98);
    return kept(launch(kernel, &given->grid.x, &given->block.x, given->shared,
                       cluster_of(given->attributes, given->count), arguments));
}

/* -------------------------------------------------------------------------------- memory */

API int cudaMalloc(void **address, size_t bytes)
{
    return kept(allocate(address, bytes));
}
API int cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return kept(allocate_managed(address, bytes));
}
API int cudaMallocAsync(void **address, size_t bytes, void *stream)
{
    (void)stream;
    return cudaMalloc(address, bytes);
}
API int cudaFree(void *address)
{
    if (!address) return 0;
    return kept(free_memory(address));
}
API int cudaFreeAsync(void *address, void *stream)
{
    (void)stream;
    return cudaFree(address);
}
API int cudaMallocHost(void **address, size_t bytes)
{
    *address = malloc(bytes ? bytes : 1);
    return *address ? 0 : kept(OUT_OF_MEMORY);
}
API int cudaHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMallocHost(address, bytes);
}
API int cudaFreeHost(void *address)
{
    free(address);
    return 0;
}
API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    int into = kind == 1 || kind == 3, out = kind == 2 || kind == 3; /* of the device */
    if (into && !on_device(to) && !is_managed(to)) return kept(INVALID_VALUE);
    if (out && !on_device(from) && !is_managed(from)) return kept(INVALID_VALUE);
    return kept(copy_memory(to, from, bytes));
}
API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}
API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t height, int kind)
{
    for (size_t row = 0; row < height; row++) {
        int error = cudaMemcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
                               width, kind);
        if (error) return error;
    }
    return 0;
}
API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, int kind, void *stream)
{
    (void)stream;
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
API int cudaMemset(void *at, int value, size_t bytes)
{
    return kept(set_memory(at, (uint64_t)value & 255, bytes, 1));
}
API int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream)
{
    (void)stream;
    return cudaMemset(at, value, bytes);
}
API int cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = *all = (size_t)80 << 30;
    return 0;
}

/* ------------------------------------------------------------------------ device, kernels */

static int attribute(int *value, int number)
{
    Answer answer = {.room = 0};
    int error = ASK(OP_ATTRIBUTE, NULL, 0, &answer, (uint64_t)number);
    *value = error ? 0 : (int)answer.words[0];
    return error;
}
API int cudaDeviceGetAttribute(int *value, int number, int device)
{
    return device ? kept(101) : kept(attribute(value, number));
}
API int cudaGetDeviceCount(int *count)
{
    int value, error = attribute(&value, 75);
    *count = !error;
    return kept(error);
}
API int cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}
API int cudaSetDevice(int device) { return device ? kept(101) : 0; }
API int cudaDeviceSynchronize(void) { return 0; }
API int cudaDeviceReset(void) { return 0; }
API int cudaDeviceSetLimit(int limit, size_t value)
{
    (void)limit, (void)value;
    return 0;
}
API int cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
API int cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
API int cudaFuncSetAttribute(const void *host, int number, int value)
{
    (void)number, (void)value;
    return kernel_of(host) ? 0 : kept(98);
}
API int cudaFuncSetCacheConfig(const void *host, int value)
{
    return cudaFuncSetAttribute(host, 0, value);
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *host, int threads,
                                                      size_t shared)
{
    (void)threads, (void)shared;
    *count = 1;
    return kernel_of(host) ? 0 : kept(98);
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *host,
                                                               int threads, size_t shared,
                                                               unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, host, threads, shared);
}
API int cudaOccupancyMaxActiveClusters(int *count, const void *host, const Configuration *given)
{
    int processors, ctas = 1, error = attribute(&processors, 16);
    const uint32_t *size = cluster_of(given->attributes, given->count);
    (void)host;
    if (size) ctas = (int)(size[0] * size[1] * size[2]);
    *count = processors / (ctas ? ctas : 1);
    return kept(error);
}
API int cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version,
                                         unsigned long long flags, int *status)
{
    (void)version, (void)flags;
    *found = entry_point(name);
    if (status) *status = *found ? 0 : 1;
    return 0;
}
API int cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags,
                                int *status)
{
    return cudaGetDriverEntryPointByVersion(name, found, 13000, flags, status);
}

/* ------------------------------------------------------------------------------ addresses */

typedef struct {
    int type, device;  /* types: 0 of no allocation that is known, 2 on the device, 3 managed */
    void *on_device, *on_host;
} PointerAttributes;
enum { UNREGISTERED, DEVICE = 2, MANAGED, ANY_DEVICE = -2 };
API int cudaPointerGetAttributes(PointerAttributes *found, const void *address)
{
    int type = is_managed(address) ? MANAGED : on_device(address) ? DEVICE : UNREGISTERED;
    found->type = type;
    found->device = type == UNREGISTERED ? ANY_DEVICE : 0;
    found->on_device = type == UNREGISTERED ? NULL : (void *)(uintptr_t)address;
    found->on_host = type == DEVICE ? NULL : (void *)(uintptr_t)address;
    return 0;
}

/* -------------------------------------------------------------------------------- errors */

API int cudaGetLastError(void)
{
    int error = last;
    last = 0;
    return error;
}
API int cudaPeekAtLastError(void) { return last; }
const char *named(int error, int words)
{
    static __thread char text[128];
    Answer answer = {.data = text, .room = sizeof text - 1};
    memset(text, 0, sizeof text);
    if (ASK(OP_NAME, NULL, 0, &answer, (uint64_t)error, (uint64_t)words)) return "unknown error";
    return text;
}
API const char *cudaGetErrorString(int error) { return named(error, 1); }
API const char *cudaGetErrorName(int error) { return named(error, 0); }

/* ------------------------------------------------------------------------- streams, events */

static int handle(void **made)
{
    *made = calloc(1, sizeof(struct timespec));
    return *made ? 0 : kept(OUT_OF_MEMORY);
}
API int cudaStreamCreate(void **stream) { return handle(stream); }
API int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    (void)flags;
    return handle(stream);
}
API int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    return handle(stream);
}
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return 0;
}
API int cudaStreamQuery(void *stream)
{
    (void)stream;
    return 0;
}
API int cudaStreamDestroy(void *stream)
{
    free(stream);
    return 0;
}
API int cudaStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}
API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return 0;
}
API int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    (void)stream;
    if (is_recording()) return kept(UNSUPPORTED);
    function(data);
    return 0;
}
API int cudaEventCreate(void **event) { return handle(event); }
API int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    return handle(event);
}
API int cudaEventDestroy(void *event)
{
    free(event);
    return 0;
}
API int cudaEventRecord(void *event, void *stream)
{
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event) ? kept(INVALID_VALUE) : 0;
}
API int cudaEventQuery(void *event)
{
    (void)event;
    return 0;
}
API int cudaEventSynchronize(void *event)
{
    (void)event;
    return 0;
}
API int cudaEventElapsedTime(float *milliseconds, void *from, void *to)
{
    const struct timespec *a = from, *b = to;
    *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 +
                            (double)(b->tv_nsec - a->tv_nsec) / 1e6);
    return 0;
}
