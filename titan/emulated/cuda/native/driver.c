/* The functions of the CUDA driver library that programs call, or ask the runtime library for. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t grid[3], block[3], shared;
    void *stream;
    LaunchAttribute *attributes;
    uint32_t count;
} Configuration;

/* ------------------------------------------------------------------------------- the device */

API int cuInit(unsigned flags)
{
    Answer answer = {.room = 0};
    (void)flags;
    return ASK(OP_ATTRIBUTE, NULL, 0, &answer, 75);
}
API int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
API int cuGetErrorString(int error, const char **text)
{
    *text = named(error, 1);
    return 0;
}
API int cuGetErrorName(int error, const char **text)
{
    *text = named(error, 0);
    return 0;
}
API int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}
API int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? 101 : 0;
}
API int cuDeviceGetName(char *name, int room, int device)
{
    (void)device;
    snprintf(name, (size_t)room, "TITAN emulated device");
    return 0;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return 0;
}
API int cuDeviceGetAttribute(int *value, int number, int device)
{
    Answer answer = {.room = 0};
    (void)device;
    int error = ASK(OP_ATTRIBUTE, NULL, 0, &answer, (uint64_t)number);
    *value = error ? 0 : (int)answer.words[0];
    return error;
}
static char context;
API int cuDevicePrimaryCtxRetain(void **made, int device)
{
    (void)device;
    *made = &context;
    return 0;
}
API int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return 0;
}
API int cuCtxCreate_v2(void **made, unsigned flags, int device)
{
    (void)flags;
    return cuDevicePrimaryCtxRetain(made, device);
}
API int cuCtxDestroy_v2(void *given)
{
    (void)given;
    return 0;
}
API int cuCtxGetCurrent(void **current) { return cuDevicePrimaryCtxRetain(current, 0); }
API int cuCtxSetCurrent(void *given)
{
    (void)given;
    return 0;
}
API int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}
API int cuCtxSynchronize(void) { return 0; }
API int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}
API int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags,
                            int *status)
{
    (void)version, (void)flags;
    *found = entry_point(name);
    if (status) *status = *found ? 0 : 1;
    return *found ? 0 : NOT_FOUND;
}

/* ------------------------------------------------------------------------ modules, launches */

API int cuModuleLoadData(void **module, const void *image)
{
    uint64_t number;
    int error = load_image(image, &number);
    *module = error ? NULL : (void *)(uintptr_t)number;
    return error;
}
API int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                           void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}
API int cuModuleUnload(void *module)
{
    (void)module;
    return 0;
}
API int cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = find_kernel((uint64_t)(uintptr_t)module, name);
    return *function ? 0 : NOT_FOUND;
}
API int cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, void *module, const char *name)
{
    void *found = NULL;
    int error = find_variable((uint64_t)(uintptr_t)module, name, &found, bytes);
    if (address) *address = (uint64_t)(uintptr_t)found;
    return error;
}
API int cuFuncSetAttribute(void *function, int number, int value)
{
    (void)function, (void)number, (void)value;
    return 0;
}
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
                       void **extra)
{
    (void)stream;
    if (extra) return UNSUPPORTED;
    return launch(function, (const uint32_t[]){gx, gy, gz}, (const uint32_t[]){bx, by, bz}, shared,
                  NULL, arguments);
}
API int cuLaunchKernelEx(const Configuration *given, void *function, void **arguments, void **extra)
{
    if (extra) return UNSUPPORTED;
    return launch(function, given->grid, given->block, given->shared,
                  cluster_of(given->attributes, given->count), arguments);
}

/* -------------------------------------------------------------------------------- memory */

API int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    void *made;
    int error = allocate(&made, bytes);
    *address = (uint64_t)(uintptr_t)made;
    return error;
}
API int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags)
{
    void *made;
    (void)flags;
    int error = allocate_managed(&made, bytes);
    *address = (uint64_t)(uintptr_t)made;
    return error;
}
API int cuMemFree_v2(uint64_t address) { return free_memory((void *)(uintptr_t)address); }
API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    return on_device((void *)(uintptr_t)to) ? copy_memory((void *)(uintptr_t)to, from, bytes)
                                            : INVALID_VALUE;
}
API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    const void *source = (const void *)(uintptr_t)from;
    return on_device(source) ? copy_memory(to, source, bytes) : INVALID_VALUE;
}
API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
    return copy_memory((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}
API int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t count)
{
    return set_memory((void *)(uintptr_t)at, value, count, 1);
}
API int cuMemsetD16_v2(uint64_t at, unsigned short value, size_t count)
{
    return set_memory((void *)(uintptr_t)at, value, count, 2);
}
API int cuMemsetD32_v2(uint64_t at, unsigned value, size_t count)
{
    return set_memory((void *)(uintptr_t)at, value, count, 4);
}

/* ----------------------------------------------------------------------------- tensor maps */

API int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *base,
                               const uint64_t *extents, const uint64_t *strides,
                               const uint32_t *box, const uint32_t *steps, int interleave,
                               int swizzle, int promotion, int fill)
{
    uint64_t words[32] = {(uint64_t)type, (uint64_t)(uintptr_t)base, (uint64_t)interleave,
                          (uint64_t)swizzle, (uint64_t)fill, rank};
    int count = 6;
    (void)promotion;
    if (rank < 1 || rank > 5) return INVALID_VALUE;
    for (uint32_t n = 0; n < rank; n++) words[count++] = extents[n];
    for (uint32_t n = 0; n + 1 < rank; n++) words[count++] = strides[n];
    for (uint32_t n = 0; n < rank; n++) words[count++] = box[n];
    for (uint32_t n = 0; n < rank; n++) words[count++] = steps[n];
    Answer answer = {.data = map, .room = 128};
    return ask(OP_TENSOR_MAP, words, count, NULL, 0, &answer);
}
