/*
 * Answers: words, jobs and the YAML of statistics. The hot ones (INSERTED, RESERVED, the bare
 * words) make room once and write in place.
 */
#include "base/decimal.h"
#include "proto/beanstalk/beanstalk.h"
#include "proto/http/http1.h"

enum { DIGITS_MAX = 20, SECOND_US = 1000000 };

/* ---- words and jobs ---- */

static const struct bytes words[BEANSTALK_WORDS] = {
#define WORD(word, text) [BEANSTALK_##word] = {text "\r\n", sizeof(text "\r\n") - 1}
    WORD(OUT_OF_MEMORY, "OUT_OF_MEMORY"),
    WORD(INTERNAL_ERROR, "INTERNAL_ERROR"),
    WORD(BAD_FORMAT, "BAD_FORMAT"),
    WORD(UNKNOWN_COMMAND, "UNKNOWN_COMMAND"),
    WORD(EXPECTED_CRLF, "EXPECTED_CRLF"),
    WORD(JOB_TOO_BIG, "JOB_TOO_BIG"),
    WORD(DRAINING, "DRAINING"),
    WORD(TIMED_OUT, "TIMED_OUT"),
    WORD(DEADLINE_SOON, "DEADLINE_SOON"),
    WORD(DELETED, "DELETED"),
    WORD(RELEASED, "RELEASED"),
    WORD(BURIED, "BURIED"),
    WORD(TOUCHED, "TOUCHED"),
    WORD(KICKED_JOB, "KICKED"),
    WORD(NOT_IGNORED, "NOT_IGNORED"),
    WORD(NOT_FOUND, "NOT_FOUND"),
    WORD(PAUSED, "PAUSED"),
#undef WORD
};

/* clang-format off */
static const uint64_t powers_of_ten[DIGITS_MAX] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
    10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000,
    1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
    10000000000000000000u,
};
/* clang-format on */

/* 1233/4096 is log10(2), near enough for 64 bits: the guess is right or one too small. */
static inline unsigned digits_of(uint64_t number)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
    unsigned guess = bits * 1233 >> 12;
    return guess + ((number | 1) >= powers_of_ten[guess]);
}

/* Writes where the digits belong, from the last. Returns where the next byte goes. */
static inline char *write_number(char *at, uint64_t number)
{
    char *end = at + digits_of(number);
    char *digit = end;
    for (; number >= 100; number /= 100) {
        digit -= 2;
        (void)decimal_put_two(digit, (unsigned)(number % 100));
    }
    if (number >= 10)
        (void)decimal_put_two(at, (unsigned)number);
    else
        *at = (char)('0' + number);
    return end;
}

static inline char *write_bytes(char *at, struct bytes bytes)
{
    memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

/* Inlined, so that the word's length is known where it is copied. */
static inline void add_number_line(struct buf *out, struct bytes word, uint64_t number)
{
    buf_reserve(out, word.len + DIGITS_MAX + 2);
    char *at = write_bytes(out->at + out->len, word);
    at = write_number(at, number);
    at = write_bytes(at, BYTES("\r\n"));
    out->len = (size_t)(at - out->at);
}

static inline void add_job_line(struct buf *out, struct bytes word, uint64_t id, struct bytes body)
{
    buf_reserve(out, word.len + DIGITS_MAX + 1 + DIGITS_MAX + 2 + body.len + 2);
    char *at = write_bytes(out->at + out->len, word);
    at = write_number(at, id);
    *at++ = ' ';
    at = write_number(at, body.len);
    at = write_bytes(at, BYTES("\r\n"));
    if (body.len)
        at = write_bytes(at, body);
    at = write_bytes(at, BYTES("\r\n"));
    out->len = (size_t)(at - out->at);
}

void beanstalk_encode_http(struct buf *out)
{
    struct http_response response = {
        .status = 400, .content_type = "text/plain; charset=utf-8", .close = true};
    http_respond(
        out, &response,
        BYTES("This is laterd's port for clients of beanstalkd (server.beanstalk). HTTP is "
              "spoken on another one (server.http), 9277 by default.\n"));
}

void beanstalk_encode(struct buf *out, enum beanstalk_word word)
{
    buf_add_bytes(out, words[word]);
}

void beanstalk_encode_inserted(struct buf *out, uint64_t id)
{
    add_number_line(out, BYTES("INSERTED "), id);
}

void beanstalk_encode_reserved(struct buf *out, uint64_t id, struct bytes body)
{
    add_job_line(out, BYTES("RESERVED "), id, body);
}

void beanstalk_encode_found(struct buf *out, uint64_t id, struct bytes body)
{
    add_job_line(out, BYTES("FOUND "), id, body);
}

void beanstalk_encode_kicked(struct buf *out, uint32_t count)
{
    add_number_line(out, BYTES("KICKED "), count);
}

void beanstalk_encode_watching(struct buf *out, uint32_t count)
{
    add_number_line(out, BYTES("WATCHING "), count);
}

void beanstalk_encode_using(struct buf *out, struct bytes tube)
{
    buf_add_bytes(out, BYTES("USING "));
    buf_add_bytes(out, tube);
    buf_add_bytes(out, BYTES("\r\n"));
}

void beanstalk_encode_ok(struct buf *out, struct bytes yaml)
{
    add_number_line(out, BYTES("OK "), yaml.len);
    buf_add_bytes(out, yaml);
    buf_add_bytes(out, BYTES("\r\n"));
}

/* ---- YAML ---- */

static void yaml_key(struct buf *out, const char *key)
{
    buf_add_str(out, key);
    buf_add(out, ": ", 2);
}

static void yaml_number(struct buf *out, const char *key, uint64_t number)
{
    yaml_key(out, key);
    buf_add_u64(out, number);
    buf_add_char(out, '\n');
}

static void yaml_plain(struct buf *out, const char *key, struct bytes text)
{
    yaml_key(out, key);
    buf_add_bytes(out, text);
    buf_add_char(out, '\n');
}

/* Takes one code point of well-formed UTF-8, or one byte. */
static uint32_t take_code(struct bytes *text, bool is_utf8)
{
    unsigned char first = (unsigned char)text->at[0];
    size_t len = 1;
    uint32_t code = first;
    if (is_utf8 && first >= 0xc0) {
        len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
        code = first & (0x7fu >> len);
        for (size_t i = 1; i < len; i++)
            code = code << 6 | ((unsigned char)text->at[i] & 0x3fu);
    }
    *text = bytes_of(text->at + len, text->len - len);
    return code;
}

/*
 * In double quotes; all but printable ASCII is escaped, because readers disagree on what else may
 * stand there and in which encoding. (A tube's name has nothing to escape.)
 */
static void add_quoted(struct buf *out, struct bytes text)
{
    bool is_utf8 = bytes_is_utf8(text);
    buf_add_char(out, '"');
    while (text.len) {
        uint32_t code = take_code(&text, is_utf8);
        if (code == '"' || code == '\\')
            buf_add_char(out, '\\');
        if (code >= 0x20 && code < 0x7f)
            buf_add_char(out, (char)code);
        else if (code <= 0xff)
            buf_addf(out, "\\x%02x", code);
        else if (code <= 0xffff)
            buf_addf(out, "\\u%04x", code);
        else
            buf_addf(out, "\\U%08x", code);
    }
    buf_add_char(out, '"');
}

static void yaml_quoted(struct buf *out, const char *key, struct bytes text)
{
    yaml_key(out, key);
    add_quoted(out, text);
    buf_add_char(out, '\n');
}

static void yaml_seconds(struct buf *out, const char *key, int64_t span_us)
{
    yaml_number(out, key, span_us > 0 ? (uint64_t)span_us / SECOND_US : 0);
}

/* Seconds and six digits behind the point. */
static void yaml_rusage(struct buf *out, const char *key, int64_t span_us)
{
    uint64_t span = span_us > 0 ? (uint64_t)span_us : 0;
    yaml_key(out, key);
    buf_addf(out, "%llu.%06u\n", (unsigned long long)(span / SECOND_US),
             (unsigned)(span % SECOND_US));
}

static void yaml_begin(struct buf *out)
{
    buf_add(out, "---\n", 4);
}

void beanstalk_yaml_job(struct buf *out, const struct job_view *job, int64_t now_us)
{
    int64_t until_us = now_us; /* nothing is waited for */
    if (job->state == JOB_RESERVED)
        until_us = job->until_us;
    else if (job->state == JOB_DELAYED)
        until_us = job->due_us;
    yaml_begin(out);
    yaml_number(out, "id", job->ref.seq);
    yaml_quoted(out, "tube", job->topic);
    yaml_plain(out, "state", bytes_str(job_state_name(job->state)));
    yaml_number(out, "pri", job->priority);
    yaml_seconds(out, "age", now_us - job->created_us);
    yaml_number(out, "delay", job->delay_s);
    yaml_seconds(out, "ttr", job->ttr_us);
    yaml_seconds(out, "time-left", until_us - now_us);
    yaml_number(out, "file", 0);
    yaml_number(out, "reserves", job->counts.reserves);
    yaml_number(out, "timeouts", job->counts.timeouts);
    yaml_number(out, "releases", job->counts.releases);
    yaml_number(out, "buries", job->counts.buries);
    yaml_number(out, "kicks", job->counts.kicks);
}

static void yaml_current_jobs(struct buf *out, const uint64_t jobs[JOB_STATES], uint64_t urgent)
{
    yaml_number(out, "current-jobs-urgent", urgent);
    yaml_number(out, "current-jobs-ready", jobs[JOB_READY]);
    yaml_number(out, "current-jobs-reserved", jobs[JOB_RESERVED]);
    yaml_number(out, "current-jobs-delayed", jobs[JOB_DELAYED]);
    yaml_number(out, "current-jobs-buried", jobs[JOB_BURIED]);
}

void beanstalk_yaml_tube(struct buf *out, const struct beanstalk_tube_stats *tube, int64_t now_us)
{
    static const struct topic_view empty;
    const struct topic_view *topic = tube->topic ? tube->topic : &empty;
    int64_t pause_left_us = topic->pause_until_us ? topic->pause_until_us - now_us : 0;
    yaml_begin(out);
    yaml_quoted(out, "name", tube->name);
    yaml_current_jobs(out, topic->jobs, topic->urgent);
    yaml_number(out, "total-jobs", topic->pushed);
    yaml_number(out, "current-using", tube->using);
    yaml_number(out, "current-watching", tube->watching);
    yaml_number(out, "current-waiting", topic->waiters);
    /* In this protocol clients finish jobs by deleting them. */
    yaml_number(out, "cmd-delete", topic->deleted + topic->finished);
    yaml_number(out, "cmd-pause-tube", topic->pauses);
    yaml_seconds(out, "pause", topic->pause_us);
    yaml_seconds(out, "pause-time-left", pause_left_us);
}

const char *beanstalk_cmd_name(enum beanstalk_cmd cmd)
{
    static const char *const names[BEANSTALK_CMDS] = {
        [BEANSTALK_PUT] = "put",
        [BEANSTALK_PEEK] = "peek",
        [BEANSTALK_PEEK_READY] = "peek-ready",
        [BEANSTALK_PEEK_DELAYED] = "peek-delayed",
        [BEANSTALK_PEEK_BURIED] = "peek-buried",
        [BEANSTALK_RESERVE] = "reserve",
        [BEANSTALK_RESERVE_WITH_TIMEOUT] = "reserve-with-timeout",
        [BEANSTALK_DELETE] = "delete",
        [BEANSTALK_RELEASE] = "release",
        [BEANSTALK_USE] = "use",
        [BEANSTALK_WATCH] = "watch",
        [BEANSTALK_IGNORE] = "ignore",
        [BEANSTALK_BURY] = "bury",
        [BEANSTALK_KICK] = "kick",
        [BEANSTALK_TOUCH] = "touch",
        [BEANSTALK_STATS] = "stats",
        [BEANSTALK_STATS_JOB] = "stats-job",
        [BEANSTALK_STATS_TUBE] = "stats-tube",
        [BEANSTALK_LIST_TUBES] = "list-tubes",
        [BEANSTALK_LIST_TUBE_USED] = "list-tube-used",
        [BEANSTALK_LIST_TUBES_WATCHED] = "list-tubes-watched",
        [BEANSTALK_PAUSE_TUBE] = "pause-tube",
        [BEANSTALK_RESERVE_JOB] = "reserve-job",
        [BEANSTALK_KICK_JOB] = "kick-job",
        [BEANSTALK_QUIT] = "quit",
    };
    return names[cmd];
}

static void yaml_cmd(struct buf *out, enum beanstalk_cmd cmd, uint64_t count)
{
    buf_add_str(out, "cmd-");
    yaml_number(out, beanstalk_cmd_name(cmd), count);
}

void beanstalk_yaml_stats(struct buf *out, const struct beanstalk_stats *stats)
{
    yaml_begin(out);
    yaml_current_jobs(out, stats->jobs, stats->urgent);
    for (unsigned cmd = 0; cmd < BEANSTALK_COUNTED; cmd++)
        yaml_cmd(out, (enum beanstalk_cmd)cmd, stats->cmds[cmd]);
    yaml_number(out, "job-timeouts", stats->timeouts);
    yaml_number(out, "total-jobs", stats->total_jobs);
    yaml_number(out, "max-job-size", stats->max_job_size);
    yaml_number(out, "current-tubes", stats->tubes);
    yaml_number(out, "current-connections", stats->connections);
    yaml_number(out, "current-producers", stats->producers);
    yaml_number(out, "current-workers", stats->workers);
    yaml_number(out, "current-waiting", stats->waiting);
    yaml_number(out, "total-connections", stats->total_connections);
    yaml_number(out, "pid", stats->pid);
    yaml_quoted(out, "version", stats->version);
    yaml_rusage(out, "rusage-utime", stats->user_us);
    yaml_rusage(out, "rusage-stime", stats->system_us);
    yaml_number(out, "uptime", stats->uptime_s > 0 ? (uint64_t)stats->uptime_s : 0);
    yaml_number(out, "binlog-oldest-index", stats->binlog_oldest);
    yaml_number(out, "binlog-current-index", stats->binlog_current);
    yaml_number(out, "binlog-records-migrated", stats->binlog_migrated);
    yaml_number(out, "binlog-records-written", stats->binlog_written);
    yaml_number(out, "binlog-max-size", stats->binlog_max_bytes);
    yaml_plain(out, "draining", stats->draining ? BYTES("true") : BYTES("false"));
    yaml_plain(out, "id", stats->id);
    yaml_quoted(out, "hostname", stats->hostname);
    yaml_quoted(out, "os", stats->os);
    yaml_quoted(out, "platform", stats->platform);
}

void beanstalk_yaml_list(struct buf *out)
{
    yaml_begin(out);
}

void beanstalk_yaml_list_add(struct buf *out, struct bytes name)
{
    buf_add(out, "- ", 2);
    if (beanstalk_name_valid(name))
        buf_add_bytes(out, name);
    else
        add_quoted(out, name);
    buf_add_char(out, '\n');
}
