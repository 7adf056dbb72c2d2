/* The functions of the CUDA driver library that the runner calls, with the types of cuda.h itself:
 * what does not fit them does not compile, and what the runner passes is written to a log. Device
 * memory is host memory; a launch computes nothing. For tests only. */
#include <cuda.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 20];
static size_t used;
static char globals[1 << 17];
static int attribute_of_function[32];
static int failing;

static void note(const char *format, ...) {
  va_list list;
  va_start(list, format);
  used += (size_t)vsnprintf(text + used, sizeof text - used - 1, format, list);
  va_end(list);
}

const char *fake_log(void) { return text; }
void fake_clear(void) { used = 0, text[0] = 0, memset(globals, 0, sizeof globals); }
void fake_fail(int code) { failing = code; }
char *fake_globals(void) { return globals; }

const char *fake_layout(void) {
  static char out[2048];
  snprintf(out, sizeof out,
           "LaunchConfiguration %zu shared_bytes %zu stream %zu attributes %zu "
           "attribute_count %zu\n"
           "LaunchAttribute %zu value %zu\n"
           "AllocationProperties %zu handle_types %zu location_type %zu location_id %zu "
           "metadata %zu flags %zu\n"
           "AccessDescription %zu flags %zu\n",
           sizeof(CUlaunchConfig), offsetof(CUlaunchConfig, sharedMemBytes),
           offsetof(CUlaunchConfig, hStream), offsetof(CUlaunchConfig, attrs),
           offsetof(CUlaunchConfig, numAttrs), sizeof(CUlaunchAttribute),
           offsetof(CUlaunchAttribute, value), sizeof(CUmemAllocationProp),
           offsetof(CUmemAllocationProp, requestedHandleTypes),
           offsetof(CUmemAllocationProp, location.type),
           offsetof(CUmemAllocationProp, location.id),
           offsetof(CUmemAllocationProp, win32HandleMetaData),
           offsetof(CUmemAllocationProp, allocFlags), sizeof(CUmemAccessDesc),
           offsetof(CUmemAccessDesc, flags));
  return out;
}

const char *fake_numbers(void) {
  static char out[1024];
  snprintf(out, sizeof out,
           "u8 %d u32 %d i32 %d f16 %d f32 %d bf16 %d none %d 32B %d 64B %d 128B %d promote %d "
           "cluster %d devicemap %d static_shared %d local %d registers %d dynamic %d pinned %d "
           "device %d readwrite %d map %zu dependent %d",
           CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT32,
           CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
           CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
           CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_MEMHOSTREGISTER_DEVICEMAP,
           CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
           CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
           CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
           CU_MEM_ACCESS_FLAGS_PROT_READWRITE, sizeof(CUtensorMap),
           CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  return out;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name) {
  *name = error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : NULL;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  note("load %.4s\n", (const char *)image);
  *module = (CUmodule)(size_t)0x123456789abcull;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleUnload(CUmodule module) { return (void)module, CUDA_SUCCESS; }

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  note("function %s of %zx\n", name, (size_t)module);
  *function = (CUfunction)(size_t)0x7fff12345678ull;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr *place, size_t *bytes, CUmodule module,
                                   const char *name) {
  static const char *const known[] = {"titan_disturbance", "titan_delay", "titan_progress",
                                      "titan_progress_ctas", "titan_waited", "titan_delayed",
                                      "titan_span", "titan_turns"};
  static char constant[1 << 16];
  (void)module;
  if (strcmp(name, "titan_constant") == 0) {
    *place = (CUdeviceptr)(size_t)constant;
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strcmp(name, known[i]) == 0) {
      *place = (CUdeviceptr)(size_t)(globals + 8192 * i);
      *bytes = 0;
      note("symbol %s\n", name);
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS           ? 168
           : attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES ? 16
                                                             : attribute_of_function[attribute];
  return (size_t)f == 0x7fff12345678ull ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  note("attribute %d = %d\n", attribute, value);
  return (size_t)f == 0x7fff12345678ull ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads,
                                                             size_t shared) {
  note("occupancy %d threads %zu bytes\n", threads, shared);
  *blocks = (size_t)f == 0x7fff12345678ull ? 2 : 0;
  return CUDA_SUCCESS;
}

/* Which kinds the parameters are: m a tensor map, p a pointer, n a number; set by the test. What
   follows a semicolon is for the next launch. */
static char kinds[64];
static size_t first_kind;
void fake_kinds(const char *given) {
  strncpy(kinds, given, sizeof kinds - 1);
  first_kind = 0;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters,
                                  void **extra) {
  if (failing) return (CUresult)failing;
  note("launch %u %u %u | %u %u %u | %u bytes, stream %zx, extra %d, function %zx", c->gridDimX,
       c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
       (size_t)c->hStream, extra != NULL, (size_t)f);
  for (unsigned i = 0; i < c->numAttrs; ++i)
    if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      note(", attribute %d: %d", c->attrs[i].id,
           c->attrs[i].value.programmaticStreamSerializationAllowed);
    else
      note(", attribute %d: %u %u %u", c->attrs[i].id, c->attrs[i].value.clusterDim.x,
           c->attrs[i].value.clusterDim.y, c->attrs[i].value.clusterDim.z);
  size_t i = 0;
  for (const char *kind = kinds + first_kind; *kind && *kind != ';'; ++kind, ++i) {
    if (*kind == 'm') note(", map of %zx", *(size_t *)parameters[i]);
    if (*kind == 'p') note(", pointer %zx", *(size_t *)parameters[i]);
    if (*kind == 'n') note(", number %d", *(int *)parameters[i]);
  }
  if (kinds[first_kind + i] == ';') first_kind += i + 1;
  note("\n");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  note("synchronize\n");
  return (CUresult)failing;
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  memcpy((void *)(size_t)to, from, bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  memcpy(to, (const void *)(size_t)from, bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  memset((void *)(size_t)to, value, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister(void *host, size_t bytes, unsigned int flags) {
  note("register %zu bytes, %s, flags %u\n", bytes, (size_t)host % 4096 ? "astray" : "aligned",
       flags);
  return (CUresult)failing;
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *place, void *host, unsigned int flags) {
  *place = (CUdeviceptr)(size_t)host;
  return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if ((size_t)map % 64 || (size_t)address % 16) return CUDA_ERROR_INVALID_VALUE;
  note("map type %d rank %u", type, rank);
  for (unsigned i = 0; i < rank; ++i)
    note(" (%llu of %u step %u)", (unsigned long long)extents[i], box[i], steps[i]);
  for (unsigned i = 0; i + 1 < rank; ++i) note(" stride %llu", (unsigned long long)strides[i]);
  note(" modes %d %d %d %d\n", interleave, swizzle, promotion, fill);
  *(size_t *)map = (size_t)address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p,
                                               CUmemAllocationGranularity_flags option) {
  if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      p->location.id != 0 || option != CU_MEM_ALLOC_GRANULARITY_MINIMUM)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = 2 << 20;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                             const CUmemAllocationProp *p, unsigned long long flags) {
  note("create %zu\n", bytes);
  *handle = (CUmemGenericAllocationHandle)(size_t)calloc(1, bytes);
  return p->type == CU_MEM_ALLOCATION_TYPE_PINNED && !flags ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}
static CUdeviceptr reserved;
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *place, size_t bytes, size_t alignment,
                                     CUdeviceptr wanted, unsigned long long flags) {
  *place = reserved = (CUdeviceptr)(size_t)calloc(1, bytes);
  return alignment || wanted || flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemMap(CUdeviceptr place, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  note("map %zu bytes\n", bytes);
  return place != reserved || offset || !handle || flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr place, size_t bytes, const CUmemAccessDesc *access,
                                size_t count) {
  (void)bytes;
  return place == reserved && count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                 access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && access->location.id == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
