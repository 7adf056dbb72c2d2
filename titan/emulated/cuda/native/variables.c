/* Variables on the device (`__device__`, `__constant__`), found by the address of the host's. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

typedef struct Variable {
    const void *host;
    char *name;
    Image *image;
    struct Variable *next;
} Variable;
static Variable *variables;

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                           size_t bytes, int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    Variable *made = calloc(1, sizeof *made);
    *made = (Variable){host, strdup(name), (Image *)handle, variables};
    variables = made;
}
static int symbol(const void *host, void **address, size_t *bytes)
{
    for (const Variable *found = variables; found; found = found->next) {
        if (found->host != host) continue;
        uint64_t module;
        int error = module_of(found->image, &module);
        return error ? error : find_variable(module, found->name, address, bytes);
    }
    return INVALID_SYMBOL;
}
API int cudaGetSymbolAddress(void **address, const void *host)
{
    return kept(symbol(host, address, NULL));
}
API int cudaGetSymbolSize(size_t *bytes, const void *host)
{
    return kept(symbol(host, NULL, bytes));
}
/* The place in a variable, or the error of one that does not have so many bytes there. */
static int part(const void *host, size_t offset, size_t count, void **at)
{
    size_t bytes;
    int error = symbol(host, at, &bytes);
    if (!error && (offset > bytes || count > bytes - offset)) error = INVALID_VALUE;
    if (!error) *at = (char *)*at + offset;
    return error;
}
API int cudaMemcpyToSymbol(const void *host, const void *from, size_t count, size_t offset,
                           int kind)
{
    void *at;
    (void)kind;
    int error = part(host, offset, count, &at);
    return kept(error ? error : copy_memory(at, from, count));
}
API int cudaMemcpyFromSymbol(void *to, const void *host, size_t count, size_t offset, int kind)
{
    void *at;
    (void)kind;
    int error = part(host, offset, count, &at);
    return kept(error ? error : copy_memory(to, at, count));
}
API int cudaMemcpyToSymbolAsync(const void *host, const void *from, size_t count, size_t offset,
                                int kind, void *stream)
{
    (void)stream;
    return cudaMemcpyToSymbol(host, from, count, offset, kind);
}
API int cudaMemcpyFromSymbolAsync(void *to, const void *host, size_t count, size_t offset,
                                  int kind, void *stream)
{
    (void)stream;
    return cudaMemcpyFromSymbol(to, host, count, offset, kind);
}
