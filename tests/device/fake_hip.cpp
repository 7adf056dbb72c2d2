// The functions of the HIP runtime and of hipRTC that the runner calls, as one library. Where
// hip/hip_runtime_api.h and hip/hiprtc.h are installed their declarations are included, so that
// what does not fit them does not compile. Memory of the device is memory of this process. hipRTC
// is g++ with `fake_hip_device.h` before the source, and a launch runs the code: each thread is a
// coroutine that gives way at atomics and barriers, all work-groups at once, under a seed. For
// tests only; the memory that this shows is sequentially consistent.
#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
// The numbers of titan/device/hip_driver.py and of `gpu`, whose attributes HIP shares.
static_assert(hipDeviceAttributeClockRate == 5 && hipDeviceAttributeL2CacheSize == 19, "");
static_assert(hipDeviceAttributeMaxThreadsPerMultiProcessor == 57, "");
static_assert(hipDeviceAttributeMemoryClockRate == 60, "");
static_assert(hipDeviceAttributeMultiprocessorCount == 63, "");
static_assert(hipDeviceAttributeMaxSharedMemoryPerBlock == 74, "");
static_assert(hipDeviceMallocFinegrained == 1 && hipHostRegisterMapped == 2, "");
static_assert(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES == 1 && HIP_FUNC_ATTRIBUTE_NUM_REGS == 4, "");
static_assert(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES == 3, "");
#else
#include <stddef.h>
extern "C" {
typedef enum { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorNotFound = 500 } hipError_t;
typedef int hipFunction_attribute, hipDeviceAttribute_t, hipDevice_t, hiprtcResult;
typedef void *hipModule_t, *hipFunction_t, *hipStream_t, *hipEvent_t, *hipDeviceptr_t;
typedef struct { char name[256]; char rest[536]; } hipDeviceProp_t;
typedef void *hiprtcProgram;
}
#define HIPRTC_SUCCESS 0
#define HIPRTC_ERROR_COMPILATION 6
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {
std::string written;  // of the last calls, for tests
void note(const std::string &text) { written += text + "\n"; }

struct Program {
  std::string source, name, code, log;
};

std::string contents(const std::string &path) {
  std::string all;
  if (FILE *file = fopen(path.c_str(), "rb")) {
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) all.append(part, n);
    fclose(file);
  }
  return all;
}

void store(const std::string &path, const std::string &text) {
  FILE *file = fopen(path.c_str(), "wb");
  fwrite(text.data(), 1, text.size(), file);
  fclose(file);
}

// A folder that is removed with the files in it.
struct Scratch {
  std::string name;
  Scratch() {
    const char *place = getenv("TMPDIR");
    name = std::string(place && *place ? place : "/tmp") + "/titan-fake-hip-XXXXXX";
    if (!mkdtemp(name.data())) perror(name.c_str()), abort();
  }
  ~Scratch() {
    for (const char *file : {"/kernel.cpp", "/code.so", "/log"}) unlink((name + file).c_str());
    rmdir(name.c_str());
  }
};

void replace(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// One launch: what the device code asks for by `Titan*` functions.
constexpr size_t STACK = 32 << 10;
struct Thread {
  ucontext_t context;
  char *stack = (char *)malloc(STACK);
  unsigned group, index;
  bool over = false, waiting = false;
};
struct Launch {
  unsigned groups, threads;
  void (*kernel)(void **);
  void **arguments;
  std::vector<Thread *> all;
  std::vector<std::map<unsigned, std::vector<char>>> shared;  // of a work-group, by line
  Thread *now = nullptr;
  ucontext_t back;
  unsigned long long state = 88172645463325252ull;
};
Launch *running;

void body() {
  running->kernel(running->arguments);
  running->now->over = true;
  swapcontext(&running->now->context, &running->back);
}

void nothing(void **) {}

void give_way() { swapcontext(&running->now->context, &running->back); }
}  // namespace

extern "C" {
unsigned TitanThread() { return running->now->index; }
unsigned TitanGroup() { return running->now->group; }
unsigned TitanThreads() { return running->threads; }
unsigned TitanGroups() { return running->groups; }
void TitanYield() {
  running->state ^= running->state << 13, running->state ^= running->state >> 7;
  running->state ^= running->state << 17;
  if (running->state % 4 != 0) give_way();
}
unsigned long long TitanCycle() {
  static unsigned long long cycles;
  return cycles += 16;
}
void TitanBarrier() {
  running->now->waiting = true;
  give_way();
}
void *TitanShared(unsigned line, unsigned size) {
  auto &found = running->shared[running->now->group][line];
  if (found.empty()) found.resize(size + 128);
  return (void *)(((size_t)found.data() + 127) & ~(size_t)127);
}

const char *fake_log(void) { return written.c_str(); }
void fake_clear(void) { written.clear(); }
/* Which kinds the arguments of launches are, to note them: p a pointer, n a number. */
static std::string kinds;
void fake_kinds(const char *given) { kinds = given; }

const char *hipGetErrorName(hipError_t error) {
  return error == hipErrorInvalidValue ? "hipErrorInvalidValue" : "hipErrorNotFound";
}
hipError_t hipGetDeviceCount(int *count) { return *count = 1, hipSuccess; }
hipError_t hipDriverGetVersion(int *version) { return *version = 60300000, hipSuccess; }
hipError_t hipRuntimeGetVersion(int *version) { return *version = 60300000, hipSuccess; }
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int number) {
  const char *const architecture = getenv("FAKE_HIP_ARCHITECTURE");
  strcpy(properties->name, "Fake MI300X");
  strcpy((char *)properties + 396, architecture ? architecture : "gfx942:sramecc+:xnack-");
  return number ? hipErrorInvalidValue : hipSuccess;
}
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device) {
  static const std::map<int, int> known = {{5, 2100000}, {19, 4 << 20}, {57, 2048},
                                           {60, 1300000}, {63, 304}, {74, 65536}};
  const auto found = known.find((int)attribute);
  if (found == known.end() || device) return hipErrorInvalidValue;
  return *value = found->second, hipSuccess;
}
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t) {
  return *bytes = (size_t)192 << 30, hipSuccess;
}
hipError_t hipDeviceSynchronize(void) { return note("synchronize"), hipSuccess; }

hipError_t hipMalloc(void **place, size_t bytes) {
  return *place = aligned_alloc(256, (bytes + 255) / 256 * 256), hipSuccess;
}
hipError_t hipExtMallocWithFlags(void **place, size_t bytes, unsigned flags) {
  note("fine-grained " + std::to_string(flags));
  return hipMalloc(place, bytes);
}
hipError_t hipFree(void *place) { return free(place), hipSuccess; }
hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t bytes) {
  return memset((void *)to, value, bytes), hipSuccess;
}
hipError_t hipMemcpyHtoD(hipDeviceptr_t to, void *from, size_t bytes) {
  return memcpy((void *)to, from, bytes), hipSuccess;
}
hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes) {
  return memcpy(to, (void *)from, bytes), hipSuccess;
}
hipError_t hipHostRegister(void *, size_t, unsigned) { return hipSuccess; }
hipError_t hipHostGetDevicePointer(void **place, void *host, unsigned) {
  return *place = host, hipSuccess;
}
hipError_t hipEventCreate(hipEvent_t *event) { return *event = (hipEvent_t)1, hipSuccess; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t, hipEvent_t) {
  return *milliseconds = 1.0f, hipSuccess;
}

// A code object is a shared library behind its size: 8 bytes that say how long the rest is.
hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  const size_t size = *(const size_t *)image;
  const Scratch folder;
  const std::string path = folder.name + "/code.so";
  store(path, std::string((const char *)image + 8, size));
  *module = (hipModule_t)dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!*module) note(dlerror());
  return *module ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  *function = (hipFunction_t)dlsym((void *)module, (std::string("titan_call_") + name).c_str());
  if (!*function) *function = (hipFunction_t)nothing;  // of a kernel that is not computed
  return hipSuccess;
}
hipError_t hipModuleGetGlobal(hipDeviceptr_t *place, size_t *, hipModule_t module, const char *name) {
  *place = (hipDeviceptr_t)dlsym((void *)module, name);
  return *place ? hipSuccess : hipErrorNotFound;
}
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute, hipFunction_t) {
  return *value = 64, hipSuccess;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t, int, size_t) {
  return *blocks = 2, hipSuccess;
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z,
                                 unsigned threads, unsigned y2, unsigned z2, unsigned shared,
                                 hipStream_t stream, void **arguments, void **) {
  note("launch " + std::to_string(x) + " " + std::to_string(threads));
  if (!kinds.empty())
    note("shared " + std::to_string(shared) + " stream " + std::to_string((size_t)stream));
  for (size_t n = 0; n < kinds.size(); ++n)
    note(kinds[n] == 'p' ? "pointer " + std::to_string(*(size_t *)arguments[n])
                         : "number " + std::to_string(*(int *)arguments[n]));
  if (y != 1 || z != 1 || y2 != 1 || z2 != 1 || threads > 1024) return hipErrorInvalidValue;
  Launch launch{x, threads, (void (*)(void **))function, arguments};
  running = &launch;
  launch.shared.resize(x);
  const unsigned window = 24;  // work-groups that are there at once
  for (unsigned first = 0; first < x; first += window) {
    const unsigned end = first + window < x ? first + window : x;
    static std::vector<std::unique_ptr<Thread>> pool;  // stacks are used again
    while (pool.size() < (size_t)(end - first) * threads) pool.push_back(std::make_unique<Thread>());
    launch.all.clear();
    for (unsigned n = first * threads; n < end * threads; ++n) {
      Thread *const thread = pool[n - first * threads].get();
      thread->group = n / threads, thread->index = n % threads;
      thread->over = thread->waiting = false;
      getcontext(&thread->context);
      thread->context.uc_stack.ss_sp = thread->stack;
      thread->context.uc_stack.ss_size = STACK;
      thread->context.uc_link = &launch.back;
      makecontext(&thread->context, body, 0);
      launch.all.push_back(thread);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Thread *thread : launch.all) {
        if (thread->over || thread->waiting) continue;
        launch.now = thread;
        swapcontext(&launch.back, &thread->context);
        moved = true;
      }
      if (moved) continue;
      for (unsigned group = 0; group < end - first; ++group) {  // barriers that all have come to
        bool all = true, some = false;
        for (unsigned n = group * threads; n < (group + 1) * threads; ++n) {
          all = all && (launch.all[n]->over || launch.all[n]->waiting);
          some = some || launch.all[n]->waiting;
        }
        if (!all || !some) continue;
        for (unsigned n = group * threads; n < (group + 1) * threads; ++n)
          launch.all[n]->waiting = false;
        moved = true;
      }
    }
  }
  running = nullptr;
  return hipSuccess;
}

hiprtcResult hiprtcVersion(int *major, int *minor) {
  return *major = 9, *minor = 0, HIPRTC_SUCCESS;
}
hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int,
                                 const char **, const char **) {
  *program = (hiprtcProgram) new Program{source, name, "", ""};
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcCompileProgram(hiprtcProgram given, int count, const char **options) {
  Program &program = *(Program *)given;
  std::string defines;
  for (int n = 0; n < count; ++n) {
    note(std::string("option ") + options[n]);
    if (strncmp(options[n], "-D", 2) == 0 || strncmp(options[n], "-I", 2) == 0)
      defines += std::string(" '") + options[n] + "'";
  }
  std::string text = program.source;
  if (text.find("FAKE_XCDS") == std::string::npos) text = "#define FAKE_XCDS 8\n" + text;
  replace(text, "asm volatile(\"; titan", "titan_nothing(\"; titan");
  replace(text, "\" ::: \"memory\");", "\");");
  replace(text, "asm volatile(\"\" : \"+v\"(number));", "");
  replace(text, "TITAN_SHARED unsigned char shared[COPIES * SHARED_STRIDE];",
          "unsigned char* const shared = (unsigned char*)TitanShared(1, COPIES * SHARED_STRIDE);");
  replace(text, "TITAN_SHARED unsigned counts[BUCKETS + 1u];",
          "unsigned* const counts = (unsigned*)TitanShared(2, 4 * (BUCKETS + 1u));");
  const bool litmus = text.find("titan_litmus_run") != std::string::npos;
  if (litmus)
    for (const char *name : {"prepare", "run", "collect"})
      text += std::string("\nTITAN_CALL(titan_litmus_") + name + ")\n";
  else if (text.find("#error") == std::string::npos)
    text.clear();  // matrix instructions are not computed: such a kernel does nothing
  const Scratch scratch;
  const std::string &folder = scratch.name;
  const std::string source = folder + "/kernel.cpp", made = folder + "/code.so";
  store(source, text);
  const std::string command = "g++ -std=c++17 -O1 -w -shared -fPIC" + defines + " -include '" +
                              FAKE_HIP_DEVICE "' '" + source + "' '" FAKE_HIP_LIBRARY "' -o '" + made + "' 2> '" + folder + "/log'";
  const int failed = system(command.c_str());
  program.log = contents(folder + "/log");
  const std::string code = contents(made);
  const size_t size = code.size();
  program.code = std::string((const char *)&size, 8) + code;
  return failed ? HIPRTC_ERROR_COMPILATION : HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size) {
  return *size = ((Program *)program)->log.size() + 1, HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log) {
  return strcpy(log, ((Program *)program)->log.c_str()), HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size) {
  return *size = ((Program *)program)->code.size(), HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code) {
  const std::string &found = ((Program *)program)->code;
  return memcpy(code, found.data(), found.size()), HIPRTC_SUCCESS;
}
hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program) {
  return delete (Program *)*program, HIPRTC_SUCCESS;
}
}
