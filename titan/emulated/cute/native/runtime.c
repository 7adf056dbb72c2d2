/* What the host code that CuTe DSL generates calls in its runtime library, answered by a function
   of this process (`titan/emulated/cute/calls.py`), which gets the name and the words of the call:
   in the Linux ABIs twelve words hold all that these functions take; those beyond say nothing. */

#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef int64_t (*Answer)(const char *name, const uint64_t *words);

enum { NOT_INITIALISED = 3 };
static Answer answer;

API void titan_cute_answers(Answer given) { answer = given; }

#define CALL(NAME)                                                                                 \
    API int64_t _##NAME(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,    \
                        uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l)    \
    {                                                                                              \
        const uint64_t words[] = {a, b, c, d, e, f, g, h, i, j, k, l};                             \
        return answer ? answer(#NAME, words) : NOT_INITIALISED;                                    \
    }

CALL(cuDeviceGet)
CALL(cuKernelGetAttribute)
CALL(cuLibraryGetGlobal)
CALL(cuLibraryGetKernel)
CALL(cuLibraryGetKernelCount)
CALL(cuLibraryGetManaged)
CALL(cuLibraryGetModule)
CALL(cuLibraryGetUnifiedFunction)
CALL(cuLibraryLoadData)
CALL(cuLibraryLoadFromFile)
CALL(cuLibraryUnload)
CALL(cuTensorMapEncodeTiled)
CALL(cudaDeviceGetAttribute)
CALL(cudaDeviceSynchronize)
CALL(cudaEventCreate)
CALL(cudaEventDestroy)
CALL(cudaEventElapsedTime)
CALL(cudaEventRecord)
CALL(cudaFree)
CALL(cudaFreeAsync)
CALL(cudaFreeHost)
CALL(cudaFuncSetAttribute)
CALL(cudaGetDevice)
CALL(cudaGetDeviceCount)
CALL(cudaGetDeviceProperties)
CALL(cudaGraphDestroy)
CALL(cudaGraphExecDestroy)
CALL(cudaGraphInstantiate)
CALL(cudaGraphLaunch)
CALL(cudaKernelSetAttributeForDevice)
CALL(cudaLaunchKernel)
CALL(cudaLaunchKernelEx)
CALL(cudaLibraryGetGlobal)
CALL(cudaLibraryGetKernel)
CALL(cudaLibraryGetKernelCount)
CALL(cudaLibraryGetManaged)
CALL(cudaLibraryGetUnifiedFunction)
CALL(cudaLibraryLoadData)
CALL(cudaLibraryLoadFromFile)
CALL(cudaLibraryUnload)
CALL(cudaMalloc)
CALL(cudaMallocAsync)
CALL(cudaMallocHost)
CALL(cudaMallocManaged)
CALL(cudaMemcpy)
CALL(cudaMemcpyAsync)
CALL(cudaMemset)
CALL(cudaMemsetAsync)
CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
CALL(cudaProfilerStart)
CALL(cudaProfilerStop)
CALL(cudaSetDevice)
CALL(cudaStreamAddCallback)
CALL(cudaStreamBeginCapture)
CALL(cudaStreamCreate)
CALL(cudaStreamDestroy)
CALL(cudaStreamEndCapture)
CALL(cudaStreamSynchronize)
CALL(cudaStreamWaitEvent)

/* A function compiled with TVM's interface loads its module when it is first called, by two
   functions of its own. */
typedef int (*Init)(void **library);
typedef int (*Load)(void **library, int device);
typedef void (*SetError)(const char *kind, const char *message);

API int cuda_dialect_init_library_once(void **state, Init init, Load load, SetError set_error)
{
    void *library = 0;
    if (*state) return 0;
    int error = init(&library);
    if (!error && load) error = load(&library, 0);
    if (error)
        set_error("RuntimeError", "the module cannot be loaded on the emulated device");
    else
        *state = library;
    return error;
}

API void cuda_dialect_unload_library_once(void **state) { (void)state; }
