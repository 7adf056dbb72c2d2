/* The connection to the process that emulates the device, and what both libraries do with it. */
#define _GNU_SOURCE
#include "client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENDED 20 /* exit code of a process whose launch is wrong: the device reports why */

typedef struct {
    uint32_t operation, words;
    uint64_t bytes;
} Header;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -2; /* not looked for */

static void end(void)
{
    fflush(NULL);
    _exit(ENDED);
}
static void put(const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t done = send(connection, at, bytes, MSG_NOSIGNAL);
        if (done <= 0) end();
        at += done;
        bytes -= (size_t)done;
    }
}
static void get(void *data, size_t bytes)
{
    char *at = data;
    while (bytes) {
        ssize_t done = recv(connection, at, bytes, 0);
        if (done <= 0) end();
        at += done;
        bytes -= (size_t)done;
    }
}
static int connected(void)
{
    if (connection == -2) {
        const char *text = getenv("TITAN_EMULATED_SOCKET");
        connection = text ? atoi(text) : -1;
        if (connection < 0)
            fprintf(stderr, "titan: no emulated device: start the program by `titan run`\n");
    }
    return connection >= 0;
}

int ask(int operation, const uint64_t *words, int count, const void *data, size_t bytes,
        Answer *answer)
{
    Header header = {(uint32_t)operation, (uint32_t)count, bytes};
    uint64_t rest[8];
    char thrown[4096];
    pthread_mutex_lock(&lock);
    if (!connected()) {
        pthread_mutex_unlock(&lock);
        return NO_DEVICE;
    }
    put(&header, sizeof header);
    put(words, (size_t)count * sizeof *words);
    put(data, bytes);
    get(&header, sizeof header);
    if (header.words > 8) end();
    get(rest, header.words * sizeof *rest);
    size_t taken = answer && answer->room < header.bytes ? answer->room : header.bytes;
    if (answer) {
        memcpy(answer->words, rest, header.words * sizeof *rest);
        answer->word_count = (int)header.words;
        answer->bytes = taken;
        get(answer->data, taken);
    } else {
        taken = 0;
    }
    for (size_t left = header.bytes - taken; left;) {
        size_t part = left < sizeof thrown ? left : sizeof thrown;
        get(thrown, part);
        left -= part;
    }
    pthread_mutex_unlock(&lock);
    return (int)header.operation;
}

/* ------------------------------------------------------------------------------- modules */

#define WRAPPER 0x466243b1u
#define FATBIN 0xba55ed50u
#define ELF 0x464c457fu

int load_image(const void *image, uint64_t *module)
{
    uint32_t mark;
    uint64_t bytes;
    memcpy(&mark, image, sizeof mark);
    if (mark == WRAPPER) {
        memcpy(&image, (const char *)image + 8, sizeof image);
        memcpy(&mark, image, sizeof mark);
    }
    if (mark == FATBIN) {
        memcpy(&bytes, (const char *)image + 8, sizeof bytes);
        bytes += 16;
    } else {
        bytes = mark == ELF ? 4 : strlen(image);
    }
    Answer answer = {.room = 0};
    int error = ask(OP_LOAD, NULL, 0, image, bytes, &answer);
    *module = answer.words[0];
    return error;
}
Kernel *find_kernel(uint64_t module, const char *name)
{
    Kernel *found = calloc(1, sizeof *found);
    if (!found) return NULL;
    Answer answer = {.data = found->sizes, .room = sizeof found->sizes};
    if (ASK(OP_KERNEL, name, strlen(name), &answer, module)) {
        free(found);
        return NULL;
    }
    found->number = answer.words[0];
    found->count = (int)(answer.bytes / sizeof *found->sizes);
    return found;
}
int find_variable(uint64_t module, const char *name, void **address, size_t *bytes)
{
    Answer answer = {.room = 0};
    int error = ASK(OP_VARIABLE, name, strlen(name), &answer, module);
    if (error) return error;
    if (address) *address = (void *)(uintptr_t)answer.words[0];
    if (bytes) *bytes = answer.words[1];
    return 0;
}
const uint32_t *cluster_of(const LaunchAttribute *attributes, uint32_t count)
{
    const uint32_t *found = NULL;
    for (uint32_t n = 0; n < count; n++)
        if (attributes[n].id == 4) found = attributes[n].value.cluster;
    return found;
}
int launch(const Kernel *kernel, const uint32_t *grid, const uint32_t *block, size_t shared,
           const uint32_t *cluster, void **arguments)
{
    static const uint32_t alone[3] = {1, 1, 1};
    size_t bytes = 0, at = 0;
    if (!kernel) return NO_DEVICE;
    for (int n = 0; n < kernel->count; n++) bytes += kernel->sizes[n];
    char *packed = malloc(bytes + 1);
    if (!packed) return OUT_OF_MEMORY;
    for (int n = 0; n < kernel->count; n++) {
        memcpy(packed + at, arguments[n], kernel->sizes[n]);
        at += kernel->sizes[n];
    }
    if (!cluster) cluster = alone;
    const uint64_t words[] = {kernel->number, grid[0], grid[1], grid[2], block[0], block[1],
                              block[2], shared, cluster[0], cluster[1], cluster[2]};
    int error = 0;
    if (is_recording()) record(OP_LAUNCH, words, 11, packed, bytes, NULL, NULL);
    else error = launch_packed(words, packed, bytes);
    free(packed);
    return error;
}

/* ----------------------------------------------------------------------- managed memory */

#define PAGE_BYTES 4096

typedef struct Block {
    char *start;
    size_t bytes;
    struct Block *next;
} Block;
static Block *blocks; /* that host and device share */

int is_managed(const void *address)
{
    const char *at = address;
    for (const Block *block = blocks; block; block = block->next)
        if (at >= block->start && at < block->start + block->bytes) return 1;
    return 0;
}
int allocate(void **address, size_t bytes)
{
    Answer answer = {.room = 0};
    int error = ASK(OP_ALLOCATE, NULL, 0, &answer, bytes);
    *address = error ? NULL : (void *)(uintptr_t)answer.words[0];
    return error;
}
/* At the same address in both; the host's pages are made where the device says. */
int allocate_managed(void **address, size_t bytes)
{
    Answer answer = {.room = 0};
    int error = ASK(OP_ALLOCATE, NULL, 0, &answer, bytes, PAGE_BYTES);
    *address = NULL;
    if (error) return error;
    void *start = (void *)(uintptr_t)answer.words[0];
    Block *made = malloc(sizeof *made);
    void *found = mmap(start, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (!made || found != start) {
        if (found != MAP_FAILED) munmap(found, bytes ? bytes : 1);
        free(made);
        ASK(OP_FREE, NULL, 0, NULL, (uint64_t)(uintptr_t)start);
        return OUT_OF_MEMORY;
    }
    *made = (Block){start, bytes, blocks};
    blocks = made;
    *address = start;
    return 0;
}
int free_memory(void *address)
{
    for (Block **at = &blocks; *at; at = &(*at)->next) {
        Block *block = *at;
        if (block->start != address) continue;
        *at = block->next;
        munmap(block->start, block->bytes ? block->bytes : 1);
        free(block);
        break;
    }
    return ASK(OP_FREE, NULL, 0, NULL, (uint64_t)(uintptr_t)address);
}
int launch_packed(const uint64_t *words, const void *packed, size_t bytes)
{
    int error = 0;
    for (const Block *block = blocks; block && !error; block = block->next)
        error = ASK(OP_WRITE, block->start, block->bytes, NULL, (uint64_t)(uintptr_t)block->start);
    if (!error) error = ask(OP_LAUNCH, words, 11, packed, bytes, NULL);
    for (const Block *block = blocks; block && !error; block = block->next) {
        Answer answer = {.data = block->start, .room = block->bytes};
        error = ASK(OP_READ, NULL, 0, &answer, (uint64_t)(uintptr_t)block->start, block->bytes);
    }
    return error;
}

/* -------------------------------------------------------------------------------- memory */

/* Addresses of the device lie below all of a process that is not at a fixed place. */
int on_device(const void *address)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    return at >= 0x700000000ull && at < 0x400000000000ull && !is_managed(address);
}
int copy_memory(void *to, const void *from, size_t bytes)
{
    if (!bytes) return 0;
    if (is_recording()) {
        record(OP_COPY, NULL, 0, NULL, bytes, to, from);
        return 0;
    }
    uint64_t target = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    if (on_device(to) && on_device(from)) return ASK(OP_COPY, NULL, 0, NULL, target, source, bytes);
    if (on_device(to)) return ASK(OP_WRITE, from, bytes, NULL, target);
    if (on_device(from)) {
        Answer answer = {.data = to, .room = bytes};
        return ASK(OP_READ, NULL, 0, &answer, source, bytes);
    }
    memmove(to, from, bytes);
    return 0;
}
int set_memory(void *at, uint64_t value, size_t count, int width)
{
    const uint64_t words[] = {(uint64_t)(uintptr_t)at, value, count, (uint64_t)width};
    if (is_recording()) {
        record(OP_SET, words, 4, NULL, 0, NULL, NULL);
        return 0;
    }
    if (!is_managed(at)) return ask(OP_SET, words, 4, NULL, 0, NULL);
    for (size_t n = 0; n < count; n++)
        memcpy((char *)at + n * (size_t)width, &value, (size_t)width);
    return 0;
}

/* A function of these libraries by its name, that of the newest version first. */
void *entry_point(const char *name)
{
    char versioned[256];
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    void *found = dlsym(RTLD_DEFAULT, versioned);
    if (!found) found = dlsym(RTLD_DEFAULT, name);
    if (!found) ask(OP_UNSUPPORTED, NULL, 0, name, strlen(name), NULL);
    return found;
}
