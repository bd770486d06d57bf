/*
 * The beanstalkd protocol: decodes one command at a time from a stream of bytes, and encodes
 * answers. Pure. It follows beanstalkd's protocol.txt and the running server (1.12, 1.13);
 * docs/beanstalk.md lists where laterd differs.
 *
 * However the stream is cut, the same commands and refusals result. A refused command never ends
 * the connection: its line, and the part of its body that beanstalkd skips, is skipped, and the
 * next line is a command again. But a line of HTTP does end it: a web page can make a browser send
 * us one, and commands in its body must not be executed.
 *
 * What beanstalkd accepts is accepted: several spaces before a number, leading zeros, any text
 * behind "quit", "kick N" and "reserve-with-timeout N", a negative time-out (no limit). What
 * beanstalkd finds malformed is malformed here. Two things differ, for safety:
 * - A CR without LF is an ordinary byte of the line. In beanstalkd it hides the end of the line.
 * - Of a line that is too long only that line is skipped. beanstalkd cuts it at 224 bytes, and if
 *   that is between CR and LF, it skips the next line, too.
 */
#ifndef LATERD_PROTO_BEANSTALK_BEANSTALK_H
#define LATERD_PROTO_BEANSTALK_BEANSTALK_H

#include "core/cmd.h"

enum {
    BEANSTALK_LINE_MAX = 224, /* bytes, with CR LF */
    BEANSTALK_NAME_MAX = 200, /* bytes of a tube's name */
};

/* In the order of the cmd-* lines of `stats`, as far as they have one. */
enum beanstalk_cmd {
    BEANSTALK_PUT,
    BEANSTALK_PEEK,
    BEANSTALK_PEEK_READY,
    BEANSTALK_PEEK_DELAYED,
    BEANSTALK_PEEK_BURIED,
    BEANSTALK_RESERVE,
    BEANSTALK_RESERVE_WITH_TIMEOUT,
    BEANSTALK_DELETE,
    BEANSTALK_RELEASE,
    BEANSTALK_USE,
    BEANSTALK_WATCH,
    BEANSTALK_IGNORE,
    BEANSTALK_BURY,
    BEANSTALK_KICK,
    BEANSTALK_TOUCH,
    BEANSTALK_STATS,
    BEANSTALK_STATS_JOB,
    BEANSTALK_STATS_TUBE,
    BEANSTALK_LIST_TUBES,
    BEANSTALK_LIST_TUBE_USED,
    BEANSTALK_LIST_TUBES_WATCHED,
    BEANSTALK_PAUSE_TUBE,
    BEANSTALK_COUNTED, /* those above have a cmd-* line */
    BEANSTALK_RESERVE_JOB = BEANSTALK_COUNTED,
    BEANSTALK_KICK_JOB,
    BEANSTALK_QUIT,
    BEANSTALK_CMDS
};

/* A complete command. Its bytes are valid until the next beanstalk_feed or beanstalk_next. */
struct beanstalk_request {
    enum beanstalk_cmd cmd;
    struct bytes tube;  /* USE WATCH IGNORE STATS_TUBE PAUSE_TUBE: checked */
    uint64_t id;        /* commands on one job */
    uint32_t priority;  /* PUT RELEASE BURY */
    uint32_t delay_s;   /* PUT RELEASE PAUSE_TUBE */
    uint32_t ttr_s;     /* PUT: as sent, 0 is for the session to raise */
    uint32_t timeout_s; /* RESERVE_WITH_TIMEOUT; UINT32_MAX = no limit, a negative one too */
    uint32_t bound;     /* KICK; UINT32_MAX = all, a negative one too */
    struct bytes body;  /* PUT: without its CR LF */
};

enum beanstalk_word {
    BEANSTALK_OUT_OF_MEMORY,
    BEANSTALK_INTERNAL_ERROR,
    BEANSTALK_BAD_FORMAT,
    BEANSTALK_UNKNOWN_COMMAND,
    BEANSTALK_EXPECTED_CRLF,
    BEANSTALK_JOB_TOO_BIG,
    BEANSTALK_DRAINING,
    BEANSTALK_TIMED_OUT,
    BEANSTALK_DEADLINE_SOON,
    BEANSTALK_DELETED,
    BEANSTALK_RELEASED,
    BEANSTALK_BURIED,
    BEANSTALK_TOUCHED,
    BEANSTALK_KICKED_JOB, /* "KICKED", without a count */
    BEANSTALK_NOT_IGNORED,
    BEANSTALK_NOT_FOUND,
    BEANSTALK_PAUSED,
    BEANSTALK_WORDS
};

enum beanstalk_progress {
    BEANSTALK_MORE,  /* nothing whole yet */
    BEANSTALK_READY, /* `request` is whole */
    BEANSTALK_BAD,   /* refused: answer `refusal` and continue */
    BEANSTALK_HTTP,  /* this is HTTP: answer beanstalk_encode_http and feed no more */
};

enum beanstalk_stage { BEANSTALK_LINE, BEANSTALK_BODY, BEANSTALK_SWALLOW, BEANSTALK_SKIP_LINE };

struct beanstalk {
    uint32_t body_max; /* bytes: a larger body is swallowed */
    struct beanstalk_request request;
    enum beanstalk_word refusal; /* BEANSTALK_BAD */
    /* The codec's own: */
    enum beanstalk_stage stage;
    uint32_t line_len; /* LINE: bytes of `line`, when a line came in pieces */
    char line[BEANSTALK_LINE_MAX];
    struct buf body; /* BODY: so far, when it came in pieces */
    uint64_t left;   /* BODY, SWALLOW: bytes to come, CR LF included */
};

void beanstalk_init(struct beanstalk *beanstalk, uint32_t body_max);
void beanstalk_fini(struct beanstalk *beanstalk);

/*
 * Parses from `in` up to the end of the first complete command or refusal; *out_used: how many
 * bytes were used. A line or body that is complete in `in` is not copied: request.tube and
 * request.body then point into it. Copies each byte at most once (a body over 64 KiB, while its
 * buffer grows, more).
 */
enum beanstalk_progress beanstalk_feed(struct beanstalk *beanstalk, struct bytes in,
                                       size_t *out_used);
/* Must be called when the command or refusal was handled, before feeding on: frees a large body. */
void beanstalk_next(struct beanstalk *beanstalk);
/* True: an incomplete command has begun. */
bool beanstalk_midway(const struct beanstalk *beanstalk);

const char *beanstalk_cmd_name(enum beanstalk_cmd cmd); /* "put" …: its word, without spaces */

/* ---- answers ---- */

void beanstalk_encode(struct buf *out, enum beanstalk_word word);
void beanstalk_encode_http(struct buf *out); /* a whole HTTP response: this is the wrong port */
void beanstalk_encode_inserted(struct buf *out, uint64_t id);
void beanstalk_encode_reserved(struct buf *out, uint64_t id, struct bytes body);
void beanstalk_encode_found(struct buf *out, uint64_t id, struct bytes body);
void beanstalk_encode_kicked(struct buf *out, uint32_t count);
void beanstalk_encode_watching(struct buf *out, uint32_t count);
void beanstalk_encode_using(struct buf *out, struct bytes tube);
void beanstalk_encode_ok(struct buf *out, struct bytes yaml); /* "OK <bytes>", the data, CR LF */

/*
 * Append the YAML of statistics: keys and their order are beanstalkd's, strings are quoted as in
 * 1.13. Durations are whole seconds, rounded down. Each appends only the document, for
 * beanstalk_encode_ok(). For a job, `delay` is that of its last put or release; `file` is 0.
 */
void beanstalk_yaml_job(struct buf *out, const struct job_view *job, int64_t now_us);

struct beanstalk_tube_stats {
    const struct topic_view *topic; /* NULL: a tube that is only referred to: all counts are 0 */
    struct bytes name;
    uint64_t using, watching;
};
void beanstalk_yaml_tube(struct buf *out, const struct beanstalk_tube_stats *tube, int64_t now_us);

struct beanstalk_stats {
    uint64_t jobs[JOB_STATES], urgent;
    uint64_t cmds[BEANSTALK_COUNTED];
    uint64_t timeouts, total_jobs, max_job_size;
    uint64_t tubes, connections, producers, workers, waiting, total_connections;
    uint64_t pid;
    struct bytes version;
    int64_t user_us, system_us, uptime_s;
    uint64_t binlog_oldest, binlog_current, binlog_migrated, binlog_written, binlog_max_bytes;
    bool draining;
    struct bytes id, hostname, os, platform;
};
void beanstalk_yaml_stats(struct buf *out, const struct beanstalk_stats *stats);

/*
 * A list of names: begin, then one call for each. A tube's name stands plain, as in beanstalkd,
 * even where YAML takes it for a number: clients that cut the lines at "- " are many (Go, PHP),
 * and quotes would become part of their names. A name that no tube may have (a topic of HTTP
 * clients) is quoted, so that it cannot break the list.
 */
void beanstalk_yaml_list(struct buf *out);
void beanstalk_yaml_list_add(struct buf *out, struct bytes name);

/* Is a line (without CR LF) one of this protocol, well-formed or not, and not one of HTTP? */
bool beanstalk_is_command(struct bytes line);

/* Is it a tube's name? (Up to 200 letters, digits, - + / ; . $ _ ( ), not beginning with '-'.) */
bool beanstalk_name_valid(struct bytes name);

#endif
