/*
 * The election in ZooKeeper, by the recipe of its documentation. Pure: the owner does the
 * operations, one at a time, and passes the answers and the time (CLOCK_BOOTTIME, microseconds).
 *
 *     /NAMESPACE/laterd/NAME/elect/GUID-0000000007    one ephemeral, sequential node each
 *     /NAMESPACE/laterd/NAME/epoch                    the newest epoch, a decimal number
 *     /NAMESPACE/laterd/NAME/leader                   the leader's epoch and URL, for the others
 *
 *     MAKE the parents ─▶ LIST
 *     LIST ─┬─ no node is ours ────▶ JOIN ─▶ LIST
 *           ├─ one is before ours ─▶ WATCH it ─▶ READ_LEADER ─▶ WAIT ─it has gone─▶ LIST
 *           ├─ ours is the lowest ─▶ READ_EPOCH ─▶ WRITE_EPOCH ─▶ RENEW ─▶ GUARD ─▶ LEAD
 *           │                                                       ▲──────T / 3──────┘
 *           └─ we have resigned ───▶ LEAVE ─▶ LIST ─▶ REST ─its time is over─▶ LIST
 *     WRITE_EPOCH ─somebody else has written─▶ READ_EPOCH
 *     GUARD ─our node has gone─▶ LIST
 *
 * - Each watches only the node before its own, so the end of one wakes one.
 * - GUID is different in each session. If the answer to JOIN was lost, LIST finds our node by it. A
 *   node of an earlier session of ours that has not expired yet counts as another candidate's: it
 *   is waited for, because it can disappear at any time.
 * - The epoch is written by version: two candidates that both think they are first get different
 *   epochs.
 * - RENEW is a write (of `leader`), each third of the session's time-out T. A read is answered by
 *   the server that we are connected to, even if that is cut off from the others, which let our
 *   session expire meanwhile; a write is answered only if the majority knows the session.
 * - GUARD checks that our own node exists, and sets a watch: it may be deleted by hand.
 */
#ifndef LATERD_MEMBER_ZK_ELECTION_H
#define LATERD_MEMBER_ZK_ELECTION_H

#include "base/bytes.h"
#include "member/tenure.h"
#include "port/member.h"

enum { ZK_PATH_MAX = 512, ZK_NODE_MAX = 64 };

enum zk_verb {
    ZK_CREATE,     /* make `path` with `data`; if `joining`: ephemeral and sequential */
    ZK_CHILDREN,   /* the names below `path` */
    ZK_EXISTS,     /* check that `path` exists, and set a watch */
    ZK_GET,        /* `data` and `version` of `path` */
    ZK_SET,        /* `data` of `path`, if it has `version`; -1: any */
    ZK_DELETE_NODE /* `path`, of any version */
};

struct zk_op {
    enum zk_verb verb;
    bool joining;
    int version;
    char path[ZK_PATH_MAX];
    char data[MEMBER_URL_MAX + 24];
};

enum zk_result {
    ZK_DONE,
    ZK_NO_NODE,
    ZK_EXISTS_ALREADY,
    ZK_BAD_VERSION,
    ZK_LOST,    /* the connection ended: it may have been done or not */
    ZK_REFUSED, /* another error: tried again after a while */
};

/* Bytes and names are borrowed until zk_answered() returns. */
struct zk_answer {
    enum zk_result result;
    int version;              /* GET */
    struct bytes data;        /* GET */
    const char *const *names; /* CHILDREN */
    unsigned name_count;
};

enum zk_state {
    ZK_STATE_MAKE,
    ZK_STATE_LIST,
    ZK_STATE_JOIN,
    ZK_STATE_WATCH,
    ZK_STATE_READ_LEADER,
    ZK_STATE_WAIT,
    ZK_STATE_READ_EPOCH,
    ZK_STATE_WRITE_EPOCH,
    ZK_STATE_RENEW,
    ZK_STATE_GUARD,
    ZK_STATE_LEAD,
    ZK_STATE_LEAVE,
    ZK_STATE_REST,
};

struct zk_election {
    struct tenure tenure;
    enum zk_state state;
    char root[ZK_PATH_MAX - 2 * ZK_NODE_MAX]; /* without a slash at its end */
    char url[MEMBER_URL_MAX];
    char leader[MEMBER_URL_MAX]; /* as READ_LEADER has read it; "" while we lead */
    uint64_t instance;
    unsigned sessions; /* how many there have been */
    char guid[ZK_NODE_MAX / 2];
    char own[ZK_NODE_MAX];    /* our node's name; "": not known, or none */
    char before[ZK_NODE_MAX]; /* of the node before ours */
    unsigned made;            /* parents that exist */
    uint64_t epoch;           /* ours: the last that WRITE_EPOCH has written */
    uint64_t epoch_next;      /* that WRITE_EPOCH writes */
    int epoch_version;        /* that READ_EPOCH has read */
    int64_t renewed_us;       /* when the last RENEW was sent */
    bool fired;               /* a watch has fired since it was set */
    uint64_t above;           /* our epochs must be higher than this */
    bool connected;
    bool pending;    /* an operation is under way … */
    struct zk_op op; /* … this one */
    int64_t sent_us; /* when it was sent */
    int64_t next_us;
    int64_t rest_until_us;
};

/* `space`: the namespace, "/a/b" or "". Strings are copied; a path that is too long is
   ERR_INVALID. */
enum err zk_election_init(struct zk_election *election, const char *space,
                          const struct member_options *options, int64_t now_us) MUST_USE;

/* When to call zk_next(); INT64_MAX: an operation is under way, or there is no connection. */
int64_t zk_next_us(const struct zk_election *election);
/* The next operation, to be sent now. Then zk_answered() must be called once, unless the session
   expires. */
const struct zk_op *zk_next(struct zk_election *election, int64_t now_us);
void zk_answered(struct zk_election *election, const struct zk_answer *answer, int64_t now_us);

/* The session is connected; `timeout_us` is the time-out that the server has agreed to. */
void zk_connected(struct zk_election *election, int64_t timeout_us, int64_t now_us);
/* The connection ended; the session may continue. The operation under way is still answered. */
void zk_connecting(struct zk_election *election);
/* The session has expired, and with it our node. No more answers come; the owner opens a new
   session. */
void zk_expired(struct zk_election *election, int64_t now_us);
/* A watch has fired: a node was deleted. */
void zk_fired(struct zk_election *election, int64_t now_us);

/* As claim_…() */
bool zk_expire(struct zk_election *election, int64_t now_us);
void zk_raise(struct zk_election *election, uint64_t above, int64_t now_us);
void zk_resign(struct zk_election *election, int64_t rest_us, int64_t now_us);

#endif
