/* cudaGetDeviceProperties: the structure is that of the installed header, as it moves. */
#include "client.h"

#include <string.h>
#if __has_include(<driver_types.h>)
#include <driver_types.h>
static int of(int number)
{
    Answer answer = {.room = 0};
    return ASK(OP_ATTRIBUTE, NULL, 0, &answer, (uint64_t)number) ? 0 : (int)answer.words[0];
}
API int cudaGetDeviceProperties(struct cudaDeviceProp *made, int device)
{
    if (device) return 101;
    memset(made, 0, sizeof *made);
    strcpy(made->name, "TITAN emulated device");
    made->major = of(75);
    made->minor = of(76);
    made->multiProcessorCount = of(16);
    made->warpSize = 32;
    made->maxThreadsPerBlock = 1024;
    made->maxThreadsPerMultiProcessor = 2048;
    made->maxThreadsDim[0] = made->maxThreadsDim[1] = 1024;
    made->maxThreadsDim[2] = 64;
    made->maxGridSize[0] = 2147483647;
    made->maxGridSize[1] = made->maxGridSize[2] = 65535;
    made->regsPerBlock = made->regsPerMultiprocessor = 65536;
    made->sharedMemPerBlock = (size_t)of(8);
    made->sharedMemPerBlockOptin = (size_t)of(97);
    made->sharedMemPerMultiprocessor = (size_t)of(81);
    made->totalGlobalMem = (size_t)80 << 30;
    made->unifiedAddressing = made->cooperativeLaunch = 1;
    return 0;
}
API int cudaGetDeviceProperties_v2(struct cudaDeviceProp *made, int device)
{
    return cudaGetDeviceProperties(made, device);
}
API int cudaFuncGetAttributes(struct cudaFuncAttributes *made, const void *host)
{
    (void)host;
    memset(made, 0, sizeof *made);
    made->maxThreadsPerBlock = 1024;
    made->numRegs = 64;
    made->ptxVersion = made->binaryVersion = of(75) * 10 + of(76);
    made->maxDynamicSharedSizeBytes = of(97);
    return 0;
}
#endif
