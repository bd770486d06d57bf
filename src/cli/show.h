/*
 * Shows jobs as text for people. A field that is missing in the server's JSON is left out, so that
 * older and newer servers can be shown.
 */
#ifndef LATERD_CLI_SHOW_H
#define LATERD_CLI_SHOW_H

#include "cli/cli.h"

struct table;

/* A string member, or "". */
const char *show_string(const json_t *object, const char *key);
/* A member as short text: strings as they are, numbers in decimal; "" if not there. */
void show_value(const json_t *object, const char *key, struct buf *out);
/* The same, in `room`, whose content it replaces: valid until that is changed. For a line of
   printf: a server's texts, such as MySQL's in them, must not reach the terminal as they are. */
const char *show_safe(const json_t *object, const char *key, struct buf *room);
/* The same as a cell of a table. */
void show_cell(struct table *table, const json_t *object, const char *key);
/* A count, 0 if not there. */
uint64_t show_count(const json_t *object, const char *key);

/*
 * The error of a line of a batch, without the server's "line 3: " before it, because that is the
 * number in the batch, not in the user's file.
 */
void show_line_problem(const json_t *problem, struct buf *out);

/* "2026-11-21 05:00:00.123 +0100 (in 3m 5s)", local time; the member is in epoch ms or RFC 3339. */
void show_time(const json_t *object, const char *key, struct buf *out);
/* The same without what stands in brackets. */
void show_time_alone(const json_t *object, const char *key, struct buf *out);
/* The same as a cell of a table, which is empty if the member is not there. */
void show_time_cell(struct table *table, const json_t *object, const char *key);

/*
 * The member "lateness_ms": percentiles of the last minute and of all time, a line each. The label
 * is as wide as the labels around it.
 */
void show_lateness(const json_t *object, int label_width, struct buf *out);

/* "2026-11-21 05:00:00.123 +0100 (3m ago) code 503: reason" of a job's "last_failure". */
void show_failure(const json_t *failure, struct buf *out);

/*
 * The settings of a topic, which has "name" and perhaps "settings": its target and whether that is
 * paused, its schedule and limits, a line each. Leaves out the target's headers, secrets and files:
 * `later topic show` has all.
 */
void show_settings(const json_t *topic, struct buf *out);
/* The member "response" of an attempt, without the ends of lines behind it. */
void show_response(const json_t *attempt, struct buf *out);

/* A job in full: its fields a line each, an empty line, its body. */
void show_job(const json_t *job, struct buf *out);
/* The body's own bytes, as they were pushed. */
void show_body(const json_t *job, struct buf *out);

#endif
