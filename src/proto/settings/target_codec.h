/*
 * A target (core/target.h) as JSON, in a topic's settings; and the parts of it that a job may bring
 * itself: url and headers. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_CODEC_H
#define LATERD_PROTO_SETTINGS_TARGET_CODEC_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

enum {
    HEADER_NAME_MAX = 128, /* bytes */
    HEADER_VALUE_MAX = 2048,
    JOB_KEY_MAX = 255,
};

/* Reads the target that is being read. What is not given has the values of core/target.h. */
bool target_read(struct settings_reader *reader, struct target *out_target);
/* Appends it, in one fixed form. */
void target_write(const struct target *target, struct buf *out);

/* NULL if a job may be sent there, as far as its text says; else why not, a sentence. */
const char *url_flaw(struct bytes url);

/* Reads {"url":…, "headers":…}, the target that one job has. */
bool job_target_read(struct settings_reader *reader, struct target *out_target);

bool url_read(struct settings_reader *reader, struct bytes *out_url);
/* Reads the headers that are being read, an object of strings, behind those that are there. */
bool headers_read(struct settings_reader *reader, struct target_header *headers,
                  uint8_t *header_count);
void headers_write(const struct target_header *headers, uint8_t header_count, struct buf *out);

#endif
