/*
 * A target (core/target.h) as JSON, in a topic's settings, and the target that a job brings itself.
 * Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_CODEC_H
#define LATERD_PROTO_SETTINGS_TARGET_CODEC_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

/*
 * Reads the target that is being read; what is not given has the values of core/target.h. Texts are
 * borrowed from what is read, or lie in the reader's scratch. False: refused, reader->problem says
 * why, and out_target is untouched. O(length).
 */
bool target_read(struct settings_reader *reader, struct target *out_target);

/* Appends it, in one fixed form. */
void target_write(const struct target *target, struct buf *out);

/* Reads {"type":"http", "url":…, "headers":…}, all that a job's own target may have. As above. */
bool job_target_read(struct settings_reader *reader, struct target *out_target);

#endif
