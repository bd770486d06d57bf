/*
 * Internal declarations: script_route.c says where a command goes, script.c and script_encode.c
 * encode requests, script_read.c decodes answers, fanout.c combines answers of all partitions,
 * server_info.c checks servers, notice_codec.c decodes notices between daemons, script_text.c holds
 * the scripts' texts, sha1.c makes their digests.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_PARTS_H
#define LATERD_ENGINE_REDIS_SCRIPT_PARTS_H

#include "engine/redis/job_head.h"
#include "engine/redis/script_answer.h"

enum {
    SCRIPT_LAYOUT = 4,     /* increase it when the layout in Redis changes */
    SCRIPT_BUCKETS = 256,  /* of a partition; the same in scripts/common.lua */
    SCRIPT_MADE_BYTES = 7, /* of the creation time in a record, which the script adds */
    /* Flags of a head, as in scripts/common.lua. The lease belongs to a connection; … */
    SCRIPT_BOUND = 1,
    SCRIPT_ARRIVAL = 2, /* … the job is in order of arrival */
    SCRIPT_ANSWER_BYTES = 32,
    SCRIPT_MEMBER_BYTES = 17, /* of an answer to a heartbeat */
    SCRIPT_FIGURES = 18,      /* of a topic */
    SCRIPT_HEADS_MAX = 1000,  /* jobs shown, kicked or cleared by one call */
    SCRIPT_TOPICS_PAGE = 60,  /* topics in one call; each takes some twenty microseconds */
    SCRIPT_DUE_PAGE = 1000,   /* topics * times in one call; each takes about one microsecond */
};

/* A decoded job of an answer; without `view`, times are by Redis' clock. */
struct script_head {
    struct job_view view; /* times by our clock */
    struct bytes content; /* content type and body, if they are in the answer; not checked yet */
    uint64_t content_sum; /* XXH3 of content type and body */
    bool has_properties;
    struct bytes properties; /* the same: their checksum and themselves; empty if they are not in
                                the answer */
    struct bytes last_note, notes; /* in the format of scripts/record.lua; or empty */
    enum ready_order order;
    int64_t due_us;   /* view.due_us by Redis' clock */
    int64_t rank_us;  /* rank among the ready jobs */
    int64_t since_us; /* BURIED: since when; RESERVED: until when */
};

void script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST]);
void script_write(struct buf *out, enum script_kind kind);

/* The part of a line of Lua, without its end, that is neither indentation nor comment. Borrowed. In
 * the scripts, no string and no comment continues on the next line. */
struct bytes script_code(struct bytes line);

/* Convert a time from our clock to that of the partition's server, and back. */
int64_t script_time_in(const struct script_space *space, uint32_t partition, int64_t us);
int64_t script_time_out(const struct script_space *space, uint32_t partition, int64_t us);

/* A duration, limited to SCRIPT_FOREVER. */
int64_t script_span_in(int64_t us);

/* Appends a string in RESP. */
void script_add(struct buf *out, struct bytes argument);
void script_add_i64(struct buf *out, int64_t number);
/* Appends a request up to ARGV[1]; `arguments` more must follow. */
void script_begin(struct buf *out, const struct script_space *space, const struct script_call *call,
                  enum script_kind kind, uint32_t arguments);
void script_encode_configure(struct buf *out, const struct script_space *space,
                             const struct script_call *call, const struct cmd_topic *topic);
/* ARGV[index] of such a request: borrowed. */
struct bytes script_argument(struct bytes request, uint32_t index);

/* Decodes a job. `now_us`: the answer's time, by our clock; jobs due by then are shown as ready.
 * `whole`: the content follows the job. */
enum err script_read_head(const struct script_space *space, struct bytes part, bool whole,
                          int64_t now_us, struct arena *arena,
                          struct script_head *out_head) MUST_USE;
/* Checks content type, body and properties, and adds them to the view. ERR_DAMAGED: a checksum does
 * not match. */
enum err script_read_content(struct script_head *head) MUST_USE;

/* Removes a decimal number from the beginning of *text. False: there is none, or it exceeds 64
   bits. */
bool script_take_number(struct bytes *text, uint64_t *out_number);

#endif
