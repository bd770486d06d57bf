/*
 * A target (core/target.h) as JSON, in a topic's settings; and the target that a job has of its
 * own. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_CODEC_H
#define LATERD_PROTO_SETTINGS_TARGET_CODEC_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

/*
 * Reads a target from the reader's present value; missing fields get the defaults of core/target.h.
 * Texts are borrowed from the input or the reader's scratch. False: refused, reader->problem says
 * why, and out_target is not changed. O(length).
 */
bool target_read(struct settings_reader *reader, struct target *out_target);

/* Appends it, in one fixed form. */
void target_write(const struct target *target, struct buf *out);

/* Reads {"type":"http", "url":…, "headers":…}, all that a job's own target may have. As above. */
bool job_target_read(struct settings_reader *reader, struct target *out_target);

#endif
