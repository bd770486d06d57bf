/*
 * The record decoder against any bytes: it stays in bounds, and an event that it accepts is encoded
 * back to the same bytes, but for those that no field covers.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record record;
    struct record again;
    char *exact = mem_alloc(size ? size : 1); /* so that one byte too far is seen */
    if (size)
        memcpy(exact, data, size);
    if (record_decode(exact, size, &record) == OK && record.is_event) {
        CHECK(record.len <= size && record.len == record_bytes(&record.event));
        char *back = mem_alloc(record.len);
        record_encode(&record.event, record.len, back);
        CHECK(record_decode(back, record.len, &again) == OK);
        CHECK(again.event.job.seq == record.event.job.seq);
        CHECK(bytes_eq(again.event.body, record.event.body));
        CHECK(bytes_eq(again.event.topic, record.event.topic));
        CHECK(record.event.kind != EVENT_JOB || record_body_good(&again));
        (void)record_body(exact, size, record.event.job.seq, record.event.content_type.len,
                          record.event.body.len); /* only in bounds: the sum may be anything */
        mem_free(back);
    }
    mem_free(exact);
    return 0;
}
