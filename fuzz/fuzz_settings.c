/*
 * The codecs of proto/settings against any bytes. The first byte chooses which. What one takes it
 * writes in a form that it takes again, and then writes the same; a refusal says what and where.
 */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/settings/attempt_note.h"
#include "proto/settings/job_properties.h"
#include "proto/settings/topic_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A codec: reads `text` and appends what it has read; false: it refuses. */
typedef bool codec(struct bytes text, struct arena *scratch, struct buf *out);

static bool is_sentence(const struct settings_problem *problem)
{
    return problem->code && problem->detail[0] &&
           bytes_is_utf8(bytes_of(problem->field, strnlen(problem->field, sizeof(problem->field))));
}

static bool settings(struct bytes text, struct arena *scratch, struct buf *out)
{
    struct topic_settings settings;
    struct settings_problem problem;
    if (topic_settings_read(text, scratch, &settings, &problem) != OK) {
        CHECK(is_sentence(&problem));
        return false;
    }
    struct schedule none = {0};
    struct schedule schedule = topic_settings_schedule(&settings, &none);
    CHECK(schedule.count <= RETRY_STEPS_MAX);
    for (unsigned i = 0; i < schedule.count; i++)
        CHECK(schedule.waits_us[i] >= 0);
    topic_settings_write(&settings, out);
    return true;
}

static bool properties(struct bytes text, struct arena *scratch, struct buf *out)
{
    struct job_properties properties;
    struct settings_problem problem;
    if (job_properties_read(text, scratch, &properties, &problem) != OK) {
        CHECK(is_sentence(&problem));
        return false;
    }
    if (job_properties_write(&properties, out, &problem) == OK)
        return out->len <= JOB_PROPERTIES_MAX;
    CHECK(problem.field[0] && out->len == 0);
    return false;
}

static bool note(struct bytes text, struct arena *scratch, struct buf *out)
{
    struct attempt_note note;
    if (attempt_note_read(text, scratch, &note) != OK)
        return false;
    attempt_note_write(&note, out);
    CHECK(out->len <= JOB_NOTE_MAX);
    return true;
}

/* Any bytes as an answer: a note of them is never too long, and can be read. */
static bool response(struct bytes text, struct arena *scratch, struct buf *out)
{
    struct attempt_note note = {
        .reason = text, .address = text, .took_us = (int64_t)text.len, .response = text};
    struct attempt_note again;
    attempt_note_write(&note, out);
    CHECK(out->len <= JOB_NOTE_MAX && bytes_is_utf8(buf_bytes(out)));
    CHECK(attempt_note_read(buf_bytes(out), scratch, &again) == OK);
    CHECK(bytes_starts(text, again.response));
    return false; /* what was cut may be cut further: the two need not be the same */
}

static codec *const codecs[] = {settings, properties, note, response};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena scratch = {0};
    struct buf first = {0}, second = {0};
    if (size == 0)
        return 0;
    codec *codec = codecs[data[0] % (sizeof(codecs) / sizeof(codecs[0]))];
    char *exact = mem_alloc(size); /* so that one byte too far is seen */
    memcpy(exact, data + 1, size - 1);
    if (codec(bytes_of(exact, size - 1), &scratch, &first)) {
        CHECK(codec(buf_bytes(&first), &scratch, &second));
        CHECK(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
    }
    buf_fini(&first);
    buf_fini(&second);
    arena_fini(&scratch);
    mem_free(exact);
    return 0;
}
