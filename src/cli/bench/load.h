/*
 * The engine of the load generator: many non-blocking connections, one thread, one epoll. It must
 * be cheap, because it shares a core with the server when CPU time is measured. So requests are
 * prebuilt text, a connection sends all it has in one write and takes all answers in one read, and
 * only the first line and the length of an answer are parsed.
 *
 * A scenario (bench_*.c) gives `begin` and `answer`; they append requests to conn->out and note
 * each with load_expect(). Answers come in the order asked, as HTTP/1.1 and beanstalkd's protocol
 * have it. What an answer looks like is the scanner's business, one for each of the two.
 */
#ifndef LATERD_CLI_BENCH_LOAD_H
#define LATERD_CLI_BENCH_LOAD_H

#include <signal.h>

#include "cli/bench/dial.h"
#include "cli/bench/histogram.h"

/* LOAD_SETUP is what prepares or cleans up: its latency is not reported. */
enum load_kind { LOAD_PUSH, LOAD_RESERVE, LOAD_FINISH, LOAD_CANCEL, LOAD_SETUP, LOAD_KINDS };

struct load_expected {
    int64_t at_us;
    enum load_kind kind;
};

struct load_conn {
    int fd;
    bool writable_wanted; /* the socket was full: epoll tells when it is not */
    bool dirty;           /* has something to send */
    struct buf out;
    size_t sent; /* of out */
    struct buf in;
    struct load_expected *expected; /* a ring of load->ring places */
    uint32_t first, waiting;        /* answers not yet come: expected[first … first + waiting) */
};

struct load_answer {
    enum load_kind kind;
    int status; /* as in HTTP: 2xx is a success, 204 one that brings nothing */
    int64_t now_us;
    struct bytes line; /* the first, without its end: it says why when refused */
    struct bytes id;   /* beanstalkd: the job's, or empty */
    struct bytes body;
};

/*
 * Looks at the first answer of `in`: fills all but kind and now_us, and says how long it is. False:
 * it is not whole, or *out_bad, not an answer at all.
 */
typedef bool load_scan(struct bytes in, struct load_answer *out_answer, size_t *out_len,
                       bool *out_bad);
load_scan load_scan_http, load_scan_beanstalk;

struct load;

struct load_script {
    void (*begin)(struct load_script *script, struct load *load, struct load_conn *conn);
    void (*answer)(struct load_script *script, struct load *load, struct load_conn *conn,
                   const struct load_answer *answer);
    /* Now and then, at least four times a second. */
    void (*tick)(struct load_script *script, struct load *load);
    /* When load->wake_us has come, which is reset before; may be NULL if that is never set.
     */
    void (*wake)(struct load_script *script, struct load *load);
};

struct load {
    struct load_conn *conns;
    uint32_t conn_count;
    uint32_t ring; /* power of two */
    int epoll;
    load_scan *scan;
    struct load_script *script;
    bool done;         /* the script sets it: the run ends */
    bool failed;       /* a connection broke, or nothing came for too long: see error */
    int64_t now_us;    /* wall time that never goes back; read once for each read */
    int64_t offset_us; /* wall time minus monotonic, at the start */
    int64_t quiet_us;  /* no answer for so long is a failure; 0 = wait forever */
    int64_t wake_us;   /* the script's alarm; INT64_MAX = none, as each run begins */
    uint64_t answers;  /* of all runs, refusals too */
    /* Not 0: a run ends as if its time had come. NULL, as load_open() sets it: there is none. */
    const volatile sig_atomic_t *interrupted;
    struct histogram *latency; /* LOAD_KINDS of them */
    char error[160];
};

/*
 * Connects, to a server that answers as `scan` understands. `deep`: requests under way on a
 * connection at most. ERR_IO: dial->error.
 */
enum err load_open(struct load *load, struct dial *dial, load_scan *scan, uint32_t connections,
                   uint32_t deep) MUST_USE;
void load_close(struct load *load);

/* Reads the clock, into now_us too. */
int64_t load_clock(struct load *load);

/* Runs the script until it is done or the time has come. */
void load_run(struct load *load, struct load_script *script, int64_t until_us);

/* The request just appended to conn->out is on its way. */
void load_expect(struct load *load, struct load_conn *conn, enum load_kind kind);
/* May one more be? */
bool load_has_room(const struct load *load, const struct load_conn *conn);
/* Sends now what the engine would send after begin() or answer(): for wake(), which has no conn. */
void load_flush(struct load *load, struct load_conn *conn);

#endif
