/*
 * The record decoder against any bytes: it stays in bounds, and an event that it accepts is encoded
 * back to the same bytes, but for those that no field covers.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/body.h"
#include "store/slices/far_record.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record record;
    struct record again;
    struct job_ref ref;
    size_t seen;
    char *exact = mem_alloc(size ? size : 1); /* so that one byte too far is seen */
    if (size)
        memcpy(exact, data, size);
    bool glanced = record_peek(exact, size, &seen, &ref) == OK;
    CHECK(!glanced || (seen <= size && (!ref.id.len || ref.id.at + ref.id.len <= exact + seen)));
    if (record_decode(exact, size, &record) == OK && record.is_event) {
        CHECK(glanced && seen == record.len);
        CHECK(record.event.kind != EVENT_JOB || record.is_far || bytes_eq(ref.id, record.event.id));
        bool far = record.is_far;
        CHECK(record.len <= size && !(far && !far_record_fits(&record.event)));
        CHECK(record.len == (far ? far_record_bytes(&record.event) : record_bytes(&record.event)));
        char *back = mem_alloc(record.len);
        if (far)
            far_record_encode(&record.event, record.len, back);
        else
            record_encode(&record.event, record.len, back);
        CHECK(record_decode(back, record.len, &again) == OK);
        CHECK(again.event.job.seq == record.event.job.seq);
        CHECK(bytes_eq(again.event.body, record.event.body));
        CHECK(bytes_eq(again.event.topic, record.event.topic));
        CHECK(record.event.kind != EVENT_JOB || record_body_good(&again));
        CHECK(bytes_eq(again.event.properties, record.event.properties));
        struct body_place place = {.seq = record.event.job.seq,
                                   .content_type_len = record.event.content_type.len,
                                   .body_len = record.event.body.len,
                                   .record_bytes = (uint32_t)record.len};
        struct body_content content;
        (void)!record_open(exact, size, &place, &content); /* only in bounds: any sum may be */
        place.record_bytes = 0;
        (void)!record_open(exact, size, &place, &content); /* the same */
        mem_free(back);
    }
    mem_free(exact);
    return 0;
}
