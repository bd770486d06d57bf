#include "member/zk_election.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum {
    AGAIN_US = 100 * 1000,
    LEADER_RETRY_US = 500 * 1000, /* while no leader is known: between two reads */
    DIGITS = 10,                  /* of a sequence number, behind the name's last '-' */
};

static void go(struct zk_election *election, enum zk_state state, int64_t at_us)
{
    election->state = state;
    election->next_us = at_us;
}

static void begin_session(struct zk_election *election)
{
    election->sessions++;
    election->own[0] = '\0';
    (void)snprintf(election->guid, sizeof(election->guid), "%016llx.%u-",
                   (unsigned long long)election->instance, election->sessions);
}

enum err zk_election_init(struct zk_election *election, const char *space,
                          const struct member_options *options, int64_t now_us)
{
    *election = (struct zk_election){.instance = options->instance, .rest_until_us = INT64_MIN};
    int len =
        snprintf(election->root, sizeof(election->root), "%s/laterd/%s", space, options->name);
    if (len < 0 || (size_t)len >= sizeof(election->root))
        return ERR_INVALID;
    (void)snprintf(election->url, sizeof(election->url), "%s", options->advertise);
    tenure_init(&election->tenure, options->timeout_us, now_us);
    begin_session(election);
    go(election, ZK_STATE_MAKE, now_us);
    return OK;
}

int64_t zk_next_us(const struct zk_election *election)
{
    return election->pending || !election->connected ? INT64_MAX : election->next_us;
}

static bool is_resting(const struct zk_election *election, int64_t now_us)
{
    return now_us < election->rest_until_us;
}

/* ---- operations ---- */

/* The path up to and with its part number `made`; false: there are no more parts. */
static bool parent_path(const struct zk_election *election, char path[ZK_PATH_MAX])
{
    unsigned slashes = 0;
    for (size_t i = 0; election->root[i]; i++) {
        if (election->root[i] == '/' && slashes++ > election->made) {
            (void)snprintf(path, ZK_PATH_MAX, "%.*s", (int)i, election->root);
            return true;
        }
    }
    static const char *const last[] = {"", "/elect", "/epoch", "/leader"};
    unsigned behind = election->made + 1 - slashes;
    if (behind >= sizeof(last) / sizeof(last[0]))
        return false;
    (void)snprintf(path, ZK_PATH_MAX, "%s%s", election->root, last[behind]);
    return true;
}

static void set_path(struct zk_election *election, const char *folder, const char *name)
{
    (void)snprintf(election->op.path, sizeof(election->op.path), "%s%s%s", election->root, folder,
                   name);
}

/* A name of the folder `elect`, without its end: the path needs a slash before it. */
static void set_node_path(struct zk_election *election, const char *name)
{
    set_path(election, "/elect/", name);
}

static void make_op(struct zk_election *election)
{
    struct zk_op *op = &election->op;
    bool more;
    switch (election->state) {
    case ZK_STATE_MAKE:
        op->verb = ZK_CREATE;
        more = parent_path(election, op->path);
        CHECK(more);
        break;
    case ZK_STATE_LIST:
        op->verb = ZK_CHILDREN;
        set_path(election, "/elect", "");
        break;
    case ZK_STATE_JOIN:
        op->verb = ZK_CREATE;
        op->joining = true;
        set_node_path(election, election->guid);
        memcpy(op->data, election->url, sizeof(election->url));
        break;
    case ZK_STATE_WATCH:
        op->verb = ZK_EXISTS;
        election->fired = false;
        set_node_path(election, election->before);
        break;
    case ZK_STATE_READ_LEADER:
        op->verb = ZK_GET;
        set_path(election, "/leader", "");
        break;
    case ZK_STATE_READ_EPOCH:
        op->verb = ZK_GET;
        set_path(election, "/epoch", "");
        break;
    case ZK_STATE_WRITE_EPOCH:
        op->verb = ZK_SET;
        op->version = election->epoch_version;
        set_path(election, "/epoch", "");
        (void)snprintf(op->data, sizeof(op->data), "%llu",
                       (unsigned long long)election->epoch_next);
        break;
    case ZK_STATE_RENEW:
        op->verb = ZK_SET;
        op->version = -1;
        election->renewed_us = election->sent_us;
        set_path(election, "/leader", "");
        (void)snprintf(op->data, sizeof(op->data), "%llu %s", (unsigned long long)election->epoch,
                       election->url);
        break;
    case ZK_STATE_GUARD:
        op->verb = ZK_EXISTS;
        election->fired = false;
        set_node_path(election, election->own);
        break;
    case ZK_STATE_LEAVE:
        op->verb = ZK_DELETE_NODE;
        set_node_path(election, election->own);
        break;
    case ZK_STATE_WAIT:
    case ZK_STATE_LEAD:
    case ZK_STATE_REST: CHECK(!"a state without an operation"); break;
    }
}

const struct zk_op *zk_next(struct zk_election *election, int64_t now_us)
{
    CHECK(!election->pending && election->connected);
    (void)zk_expire(election, now_us);
    if (election->state == ZK_STATE_WAIT || election->state == ZK_STATE_REST)
        election->state = ZK_STATE_LIST; /* waited long enough: list again */
    if (election->state == ZK_STATE_LEAD)
        election->state = ZK_STATE_RENEW;
    election->op = (struct zk_op){.verb = ZK_GET};
    election->pending = true;
    election->sent_us = now_us;
    make_op(election);
    return &election->op;
}

/* ---- answers ---- */

/* The sequence number at the end of a node's name, by which nodes are ordered; -1: not a node of an
 * election. */
static int64_t sequence_of(const char *name)
{
    uint64_t number;
    const char *dash = strrchr(name, '-');
    bool good = dash && strlen(name) < ZK_NODE_MAX && strlen(dash + 1) == DIGITS &&
                bytes_to_u64(bytes_str(dash + 1), &number);
    return good ? (int64_t)number : -1;
}

static void copy_name(char to[ZK_NODE_MAX], const char *name)
{
    (void)snprintf(to, ZK_NODE_MAX, "%s", name);
}

static void find_own(struct zk_election *election, const struct zk_answer *answer)
{
    election->own[0] = '\0';
    for (unsigned i = 0; i < answer->name_count; i++) {
        const char *name = answer->names[i];
        if (strncmp(name, election->guid, strlen(election->guid)) == 0 && sequence_of(name) >= 0)
            copy_name(election->own, name);
    }
}

/* The node just before ours. False: ours is the lowest. */
static bool find_before(struct zk_election *election, const struct zk_answer *answer)
{
    int64_t own = sequence_of(election->own), before = -1;
    for (unsigned i = 0; i < answer->name_count; i++) {
        int64_t number = sequence_of(answer->names[i]);
        if (number > before && number < own) {
            before = number;
            copy_name(election->before, answer->names[i]);
        }
    }
    return before >= 0;
}

static void listed(struct zk_election *election, const struct zk_answer *answer, int64_t now_us)
{
    find_own(election, answer);
    if (is_resting(election, now_us) && election->own[0])
        go(election, ZK_STATE_LEAVE, now_us);
    else if (is_resting(election, now_us))
        go(election, ZK_STATE_REST, election->rest_until_us);
    else if (!election->own[0])
        go(election, ZK_STATE_JOIN, now_us);
    else if (find_before(election, answer))
        go(election, ZK_STATE_WATCH, now_us);
    else
        go(election, ZK_STATE_READ_EPOCH, now_us);
}

/* A text that is not a number counts as 0; if that is too low, the store asks for a higher
   epoch. */
static void read_epoch(struct zk_election *election, const struct zk_answer *answer, int64_t now_us)
{
    uint64_t epoch;
    if (!bytes_to_u64(answer->data, &epoch))
        epoch = 0;
    if (epoch < election->tenure.epoch)
        epoch = election->tenure.epoch;
    if (epoch < election->above)
        epoch = election->above;
    election->epoch_next = epoch + 1;
    election->epoch_version = answer->version;
    go(election, ZK_STATE_WRITE_EPOCH, now_us);
}

/* Waits in `state`, but not if a watch fired while another operation was under way. */
static void rest_in(struct zk_election *election, enum zk_state state, int64_t until_us,
                    int64_t now_us)
{
    go(election, state, election->fired ? now_us : until_us);
}

/* Our own node is there, and the session lives for T from the last RENEW on. */
static void own_is_there(struct zk_election *election, int64_t now_us)
{
    struct tenure *tenure = &election->tenure;
    bool leads = tenure->leading
                     ? tenure_extend(tenure, election->epoch, election->renewed_us, now_us)
                     : tenure_begin(tenure, election->epoch, election->renewed_us, now_us);
    if (!leads)
        go(election, ZK_STATE_LIST, now_us + AGAIN_US); /* a new epoch, then */
    else if (election->above >= election->epoch)
        go(election, ZK_STATE_READ_EPOCH, now_us);
    else
        rest_in(election, ZK_STATE_LEAD, election->renewed_us + tenure->timeout_us / TENURE_PARTS,
                now_us);
    if (leads)
        election->leader[0] = '\0';
}

static void own_has_gone(struct zk_election *election, int64_t now_us)
{
    tenure_end(&election->tenure, LOSS_DELETED, now_us);
    election->own[0] = '\0';
    go(election, ZK_STATE_LIST, now_us);
}

/* Reads "EPOCH URL"; another text, which no laterd writes, is ignored. */
static void leader_read(struct zk_election *election, const struct zk_answer *answer,
                        int64_t now_us)
{
    const char *space = answer->data.len ? memchr(answer->data.at, ' ', answer->data.len) : NULL;
    size_t digits = space ? (size_t)(space - answer->data.at) : 0;
    size_t len = space ? answer->data.len - digits - 1 : 0;
    uint64_t epoch;
    election->leader[0] = '\0';
    if (bytes_to_u64(bytes_of(answer->data.at, digits), &epoch) && len < sizeof(election->leader)) {
        (void)snprintf(election->leader, sizeof(election->leader), "%.*s", (int)len, space + 1);
        tenure_note_epoch(&election->tenure, epoch);
    }
    /* The leader may change while the node before ours stays: read it again from time to time. */
    int64_t wait_us = election->leader[0] ? election->tenure.timeout_us : LEADER_RETRY_US;
    rest_in(election, ZK_STATE_WAIT, now_us + wait_us, now_us);
}

static void made(struct zk_election *election, int64_t now_us)
{
    char path[ZK_PATH_MAX];
    enum zk_state then = election->tenure.leading ? ZK_STATE_RENEW : ZK_STATE_LIST;
    election->made++;
    go(election, parent_path(election, path) ? ZK_STATE_MAKE : then, now_us);
}

static void done(struct zk_election *election, const struct zk_answer *answer, int64_t now_us)
{
    switch (election->state) {
    case ZK_STATE_MAKE: made(election, now_us); break;
    case ZK_STATE_LIST: listed(election, answer, now_us); break;
    case ZK_STATE_JOIN: go(election, ZK_STATE_LIST, now_us); break;
    case ZK_STATE_WATCH: go(election, ZK_STATE_READ_LEADER, now_us); break;
    case ZK_STATE_READ_LEADER: leader_read(election, answer, now_us); break;
    case ZK_STATE_READ_EPOCH: read_epoch(election, answer, now_us); break;
    case ZK_STATE_WRITE_EPOCH:
        election->epoch = election->epoch_next;
        go(election, ZK_STATE_RENEW, now_us);
        break;
    case ZK_STATE_RENEW: go(election, ZK_STATE_GUARD, now_us); break;
    case ZK_STATE_GUARD: own_is_there(election, now_us); break;
    case ZK_STATE_LEAVE:
        election->own[0] = '\0';
        go(election, ZK_STATE_LIST, now_us);
        break;
    case ZK_STATE_WAIT:
    case ZK_STATE_LEAD:
    case ZK_STATE_REST: break;
    }
}

/* A folder, the epoch or a node is not there. */
static void is_missing(struct zk_election *election, int64_t now_us)
{
    switch (election->state) {
    case ZK_STATE_GUARD: own_has_gone(election, now_us); break;
    case ZK_STATE_LEAVE:
        election->own[0] = '\0';
        go(election, ZK_STATE_LIST, now_us);
        break;
    case ZK_STATE_WATCH: go(election, ZK_STATE_LIST, now_us); break;
    case ZK_STATE_MAKE:
    case ZK_STATE_LIST:
    case ZK_STATE_JOIN:
    case ZK_STATE_READ_EPOCH:
    case ZK_STATE_WRITE_EPOCH:
    case ZK_STATE_READ_LEADER:
    case ZK_STATE_RENEW:
    case ZK_STATE_WAIT:
    case ZK_STATE_LEAD:
    case ZK_STATE_REST:
        election->made = 0;
        go(election, ZK_STATE_MAKE, now_us + AGAIN_US);
        break;
    }
}

static void begin_again(struct zk_election *election, int64_t at_us)
{
    go(election, election->tenure.leading ? ZK_STATE_RENEW : ZK_STATE_LIST, at_us);
}

void zk_answered(struct zk_election *election, const struct zk_answer *answer, int64_t now_us)
{
    CHECK(election->pending);
    bool led = election->tenure.leading;
    election->pending = false;
    (void)tenure_expire_after_request(&election->tenure, now_us);
    bool stopped = led && !election->tenure.leading; /* now: whatever it is, begin again */
    if (is_resting(election, now_us) && election->state != ZK_STATE_LIST &&
        election->state != ZK_STATE_LEAVE)
        stopped = true;
    if (stopped && answer->result != ZK_NO_NODE)
        go(election, ZK_STATE_LIST, now_us);
    else if (answer->result == ZK_DONE ||
             (answer->result == ZK_EXISTS_ALREADY && election->state == ZK_STATE_MAKE))
        done(election, answer, now_us);
    else if (answer->result == ZK_NO_NODE)
        is_missing(election, now_us);
    else if (answer->result == ZK_BAD_VERSION)
        go(election, ZK_STATE_READ_EPOCH, now_us);
    else
        begin_again(election, now_us + AGAIN_US);
}

/* ---- the session ---- */

void zk_connected(struct zk_election *election, int64_t timeout_us, int64_t now_us)
{
    election->connected = true;
    tenure_set_timeout(&election->tenure, timeout_us, election->renewed_us, now_us);
    if (!election->pending) {
        if (election->made)
            begin_again(election, now_us);
        else
            go(election, ZK_STATE_MAKE, now_us);
    }
}

void zk_connecting(struct zk_election *election)
{
    election->connected = false;
}

void zk_expired(struct zk_election *election, int64_t now_us)
{
    (void)tenure_expire(&election->tenure, now_us);
    tenure_end(&election->tenure, LOSS_EXPIRED, now_us);
    election->connected = false;
    election->pending = false;
    begin_session(election);
    go(election, ZK_STATE_LIST, now_us);
}

void zk_fired(struct zk_election *election, int64_t now_us)
{
    election->fired = true;
    if (election->pending)
        return; /* rest_in() reads `fired` */
    if (election->state == ZK_STATE_WAIT)
        go(election, ZK_STATE_LIST, now_us);
    else if (election->state == ZK_STATE_LEAD)
        go(election, ZK_STATE_RENEW, now_us);
}

/* ---- calls of the owner ---- */

bool zk_expire(struct zk_election *election, int64_t now_us)
{
    if (!tenure_expire(&election->tenure, now_us))
        return false;
    if (!election->pending)
        go(election, ZK_STATE_LIST, now_us);
    return true;
}

void zk_raise(struct zk_election *election, uint64_t above, int64_t now_us)
{
    if (above > election->above)
        election->above = above;
    if (!election->pending && election->state == ZK_STATE_LEAD && above >= election->epoch)
        go(election, ZK_STATE_READ_EPOCH, now_us);
}

void zk_resign(struct zk_election *election, int64_t rest_us, int64_t now_us)
{
    tenure_end(&election->tenure, LOSS_RESIGNED, now_us);
    election->rest_until_us = now_us + rest_us;
    if (!election->pending)
        go(election, election->own[0] ? ZK_STATE_LEAVE : ZK_STATE_LIST, now_us);
}
