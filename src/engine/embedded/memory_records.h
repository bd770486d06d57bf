/*
 * The contents of jobs and notes of an engine without a store, which keeps nothing on a disk: a
 * record is a block of memory, and its place a handle (struct stored::where), as a record's place
 * in the log otherwise.
 */
#ifndef LATERD_ENGINE_EMBEDDED_MEMORY_RECORDS_H
#define LATERD_ENGINE_EMBEDDED_MEMORY_RECORDS_H

#include "base/blocks.h"
#include "store/body.h"

struct memory_records {
    struct blocks blocks;
};

void memory_records_init(struct memory_records *records);
/* Records of blocks over 4,096 bytes must have been forgotten. */
void memory_records_fini(struct memory_records *records);

/* Keeps what a job or a note has besides its head, and forgets the record that the event replaces
   or ends. Other events have no record: both numbers are 0. */
struct stored memory_records_keep(struct memory_records *records, const struct event *event);
void memory_records_forget(struct memory_records *records, uint64_t where);

/* Valid until the record is forgotten. */
void memory_records_read(const struct memory_records *records, const struct body_place *place,
                         struct body_content *out_content);

/* Gives free memory back to the system, as pool_trim(). */
bool memory_records_trim(struct memory_records *records);

#endif
