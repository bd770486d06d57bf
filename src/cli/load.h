/*
 * The engine of the load generator: many non-blocking connections, one thread, one epoll. Cheap,
 * because for CPU figures server and generator share a core: requests are prebuilt text, all
 * that a connection wants to say leaves in one write, all answers that came are taken with one
 * read, and of an answer only the status and Content-Length are looked at.
 *
 * A scenario (bench_*.c) gives `begin` and `answer`; they append requests to conn->out and note
 * each with load_asked(). Answers come in the order asked, as HTTP/1.1 says.
 */
#ifndef LATERD_CLI_LOAD_H
#define LATERD_CLI_LOAD_H

#include "cli/client.h"
#include "cli/histogram.h"

enum load_kind { LOAD_PUSH, LOAD_RESERVE, LOAD_FINISH, LOAD_KINDS };

struct load_asked {
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
    struct load_asked *asked; /* a ring of load->ring places */
    uint32_t first, waiting;  /* answers not yet come: asked[first … first + waiting) */
};

struct load_answer {
    enum load_kind kind;
    int status;
    int64_t now_us;
    struct bytes body;
};

struct load;

struct load_script {
    void (*begin)(struct load_script *script, struct load *load, struct load_conn *conn);
    void (*answer)(struct load_script *script, struct load *load, struct load_conn *conn,
                   const struct load_answer *answer);
    /* Now and then, at least four times a second. */
    void (*tick)(struct load_script *script, struct load *load);
};

struct load {
    struct load_conn *conns;
    uint32_t conn_count;
    uint32_t ring; /* power of two */
    int epoll;
    struct load_script *script;
    bool done;         /* the script sets it: the run ends */
    bool failed;       /* a connection broke, or nothing came for too long: see trouble */
    int64_t now_us;    /* wall time that never goes back; read once for each read */
    int64_t offset_us; /* wall time minus monotonic, at the start */
    int64_t quiet_us;  /* no answer for so long is a failure; 0 = wait for ever */
    uint64_t answers;
    struct histogram *latency; /* LOAD_KINDS of them */
    char trouble[160];
};

/* Connects. `deep`: requests under way on a connection at most. ERR_IO: client->trouble. */
enum err load_open(struct load *load, struct client *client, uint32_t connections,
                   uint32_t deep) MUST_USE;
void load_close(struct load *load);

/* Reads the clock, into now_us too. */
int64_t load_clock(struct load *load);

/* Runs the script until it is done or the time has come. */
void load_run(struct load *load, struct load_script *script, int64_t until_us);

/* The request just appended to conn->out is on its way. */
void load_asked(struct load *load, struct load_conn *conn, enum load_kind kind);

/* Looks at the head of an answer: how long it is with its body. False: not whole, or *out_bad. */
bool load_scan(struct bytes in, struct load_answer *out_answer, size_t *out_len, bool *out_bad);

#endif
