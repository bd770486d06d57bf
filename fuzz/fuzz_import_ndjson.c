/*
 * A job of an export against any bytes: what is accepted becomes one line that is whole JSON, has
 * the id that was told, and keeps what is there.
 */
#include "base/check.h"
#include "cli/import/ndjson_line.h"
#include "proto/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && memchr(data, '\n', size)) /* it is given lines */
        return 0;
    struct arena arena = {0};
    struct buf line = {0};
    struct ndjson_job job;
    const char *why = NULL;
    enum err err = ndjson_push_line(bytes_of(data, size), "p-", &arena, &line, &job, &why);
    CHECK((err == ERR_INVALID) == (why != NULL));
    if (err) {
        CHECK(line.len == 0);
    } else {
        struct json json;
        struct json_value name, value;
        json_init(&json, buf_bytes(&line), JSON_DEPTH_MAX);
        CHECK(line.at[line.len - 1] == '\n' && memchr(line.at, '\n', line.len - 1) == NULL);
        CHECK(json_open(&json, JSON_KIND_OBJECT) && json_member(&json, &name, &value));
        CHECK(bytes_eq(name.text, BYTES("id")) && bytes_eq(json_text(&value, &arena), job.id));
        while (json_member(&json, &name, &value))
            continue;
        CHECK(json_end(&json));
        CHECK(job.renamed == !bytes_eq(job.id, job.old_id));
    }
    buf_fini(&line);
    arena_fini(&arena);
    return 0;
}
