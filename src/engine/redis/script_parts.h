/*
 * What the files of the scripts share, and nobody else: script.c and script_ask.c ask,
 * script_read.c reads answers, fanout.c makes one answer out of many, server_info.c judges servers,
 * notice_codec.c reads what daemons tell each other, script_text.c holds the texts, sha1.c makes
 * their digests.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_PARTS_H
#define LATERD_ENGINE_REDIS_SCRIPT_PARTS_H

#include "engine/redis/job_head.h"
#include "engine/redis/script.h"

enum {
    SCRIPT_LAYOUT = 4,     /* raise it when what lies in Redis changes */
    SCRIPT_BUCKETS = 256,  /* of a partition: scripts/common.lua has it, too */
    SCRIPT_MADE_BYTES = 7, /* of the time of making in a record, which only the script knows */
    /* A head's flags, as scripts/common.lua has them: the lease is a connection's; */
    SCRIPT_BOUND = 1,
    SCRIPT_ARRIVAL = 2, /* in order of arrival */
    SCRIPT_ANSWER_BYTES = 32,
    SCRIPT_MEMBER_BYTES = 17, /* of an answer to a heartbeat */
    SCRIPT_FIGURES = 18,      /* of a topic */
    SCRIPT_HEADS_MAX = 1000,  /* jobs, and jobs kicked or cleared, in one call */
    SCRIPT_TOPICS_PAGE = 60,  /* each takes some twenty microseconds */
    SCRIPT_DUE_PAGE = 1000,   /* topics times times: each takes about one */
};

/* A job as an answer has it; its times are Redis'. */
struct script_head {
    struct job_view view; /* times by our clock */
    struct bytes content; /* content type and body, if the answer has these: not checked yet */
    uint64_t content_sum; /* XXH3 of content type and body */
    bool has_properties;
    struct bytes properties; /* the same: their sum, and they; empty if the answer has them not */
    struct bytes last_note, notes; /* as scripts/record.lua has them; or empty */
    enum ready_order order;
    int64_t rank_us;  /* place among the ready, Redis' clock */
    int64_t since_us; /* BURIED: since when, RESERVED: until when; Redis' clock */
};

void script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST]);
void script_write(struct buf *out, enum script_kind kind);

/* Of a line of Lua, without its end: what is neither indentation nor comment. Borrowed. No string
   and no comment of a script goes over lines. */
struct bytes script_code(struct bytes line);

/* From our clock to that of the partition's server, and back. */
int64_t script_time_in(const struct script_space *space, uint32_t partition, int64_t us);
int64_t script_time_out(const struct script_space *space, uint32_t partition, int64_t us);

/* A span of time, no longer than Redis' "never". */
int64_t script_span_in(int64_t us);

/* Appends a string in RESP. */
void script_add(struct buf *out, struct bytes argument);
void script_add_i64(struct buf *out, int64_t number);
/* Appends a request up to ARGV[1]; `arguments` more must follow. */
void script_begin(struct buf *out, const struct script_space *space, const struct script_call *call,
                  enum script_kind kind, uint32_t arguments);
void script_ask_configure(struct buf *out, const struct script_space *space,
                          const struct script_call *call, const struct cmd_topic *topic);
/* ARGV[index] of such a request: borrowed. */
struct bytes script_argument(struct bytes request, uint32_t index);

/* `now_us` is the answer's, by our clock: what is due by then is shown as ready. `whole`: the job
 * has its content behind it. */
enum err script_read_head(const struct script_space *space, struct bytes part, bool whole,
                          int64_t now_us, struct arena *arena,
                          struct script_head *out_head) MUST_USE;
/* Puts content type, body and properties into the view. ERR_DAMAGED: a checksum does not match. */
enum err script_read_content(struct script_head *head) MUST_USE;

/* The number at the beginning of `text`, at most what fits 64 bits; *text then begins behind it. */
bool script_take_number(struct bytes *text, uint64_t *out_number);

#endif
