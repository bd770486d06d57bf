/* The OpenAPI document, docs/openapi.json, as it is at build time: the assembler puts it here. */
#include "proto/api/api.h"

__asm__(".pushsection .rodata\n"
        "openapi_begin:\n"
        ".incbin \"docs/openapi.json\"\n"
        "openapi_end:\n"
        ".popsection\n");

extern const char openapi_begin[], openapi_end[];

struct bytes api_openapi(void)
{
    return bytes_of(openapi_begin, (size_t)(openapi_end - openapi_begin));
}
