/*
 * The plugin for ZooKeeper: a struct zk_election on libzookeeper-mt.
 *
 *     our thread: zk_next() ─▶ zoo_a…() ─▶ the library's threads ─▶ completion, watcher
 *                     ▲                                                   │ struct zk_event
 *                     └───────────── events, wake ◀───────────────────────┘
 *
 * The library's two threads only copy what they receive into an event and wake our thread. A handle
 * cannot be used after its session has expired: our thread closes it and opens another one. (A
 * callback cannot: zookeeper_close() would wait for the thread that runs the callback.) Events of
 * an earlier handle are recognized by its number, and dropped.
 *
 * Debian's library (3.8.0) has neither TLS nor SASL: the servers must be in a private network.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Its header declares prototypes without parameters. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <zookeeper/zookeeper.h>
#include <zookeeper/zookeeper_version.h>
#pragma GCC diagnostic pop

#include "base/list.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/time_us.h"
#include "member/member_thread.h"
#include "member/member_url.h"
#include "member/zk_election.h"

enum {
    PORT = 2181,
    REOPEN_US = 1000 * 1000, /* after servers that cannot be used at all */
};

enum zk_event_kind { ZK_EVENT_STATE, ZK_EVENT_WATCH, ZK_EVENT_ANSWER };

/* An answer or a state change from the library; on the heap. */
struct zk_event {
    struct queue_node place;
    enum zk_event_kind kind;
    unsigned number; /* of the handle */
    int state;       /* STATE */
    struct zk_answer answer;
    char *bytes; /* what the answer points into; owned */
};

struct zookeeper {
    struct member_thread *thread;
    struct member_url url;
    struct zk_election election;
    zhandle_t *handle; /* NULL: there is none */
    int64_t reopen_us;
    char why[MEMBER_WHY_MAX];
    pthread_mutex_t mutex; /* of what follows, which the library's threads write */
    struct queue events;
    unsigned number; /* of the handle that there is */
};

/* The context of an operation in the library. */
struct zk_request {
    struct zookeeper *zookeeper;
    unsigned number;
};

/* ---- called by the library's threads ---- */

static void post(struct zookeeper *zookeeper, struct zk_event *event)
{
    (void)pthread_mutex_lock(&zookeeper->mutex);
    queue_add(&zookeeper->events, &event->place);
    (void)pthread_mutex_unlock(&zookeeper->mutex);
    member_wake(zookeeper->thread);
}

static void watched(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    const struct zk_request *open = zoo_get_context(handle);
    struct zk_event *event = mem_zalloc(sizeof(*event));
    (void)path;
    (void)context;
    event->kind = type == ZOO_SESSION_EVENT ? ZK_EVENT_STATE : ZK_EVENT_WATCH;
    event->number = open->number;
    event->state = state;
    if (type == ZOO_SESSION_EVENT || type == ZOO_DELETED_EVENT)
        post(open->zookeeper, event);
    else
        mem_free(event); /* its data changed: that is no news */
}

/* A node's own watcher is called for session states, too, which watched() has handled already. */
static void node_watched(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    if (type != ZOO_SESSION_EVENT)
        watched(handle, type, state, path, context);
}

static enum zk_result result_of(int code)
{
    switch (code) {
    case ZOK: return ZK_DONE;
    case ZNONODE: return ZK_NO_NODE;
    case ZNODEEXISTS: return ZK_EXISTS_ALREADY;
    case ZBADVERSION: return ZK_BAD_VERSION;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZCLOSING:
    case ZINVALIDSTATE: return ZK_LOST;
    default: return ZK_REFUSED;
    }
}

static struct zk_event *begin_answer(const struct zk_request *op, int code)
{
    struct zk_event *event = mem_zalloc(sizeof(*event));
    event->kind = ZK_EVENT_ANSWER;
    event->number = op->number;
    event->state = code;
    event->answer.result = result_of(code);
    return event;
}

static void end_answer(const void *data, struct zk_event *event)
{
    struct zk_request *op = (struct zk_request *)(uintptr_t)data; /* made by send(), freed here */
    post(op->zookeeper, event);
    mem_free(op);
}

static void changed(int code, const struct Stat *stat, const void *data)
{
    (void)stat;
    end_answer(data, begin_answer(data, code));
}

static void created(int code, const char *path, const void *data)
{
    (void)path; /* LIST finds the name, as it does if this answer is lost */
    end_answer(data, begin_answer(data, code));
}

static void removed(int code, const void *data)
{
    end_answer(data, begin_answer(data, code));
}

static void got(int code, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct zk_event *event = begin_answer(data, code);
    if (code == ZOK && len > 0) {
        event->bytes = mem_alloc((size_t)len);
        memcpy(event->bytes, value, (size_t)len);
        event->answer.data = bytes_of(event->bytes, (size_t)len);
    }
    if (code == ZOK)
        event->answer.version = stat->version;
    end_answer(data, event);
}

/* One block: the pointers, then the names. All of them: our own node, or the one before it, may
 * stand anywhere. ZooKeeper bounds the answer (jute.maxbuffer). */
static void copy_names(struct zk_event *event, const struct String_vector *names)
{
    size_t count = names->count > 0 ? (size_t)names->count : 0;
    size_t bytes = count * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(names->data[i]) + 1;
    event->bytes = mem_alloc(bytes + 1);
    const char **pointers = (const char **)(void *)event->bytes;
    char *at = event->bytes + count * sizeof(char *);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names->data[i]) + 1;
        memcpy(at, names->data[i], len);
        pointers[i] = at;
        at += len;
    }
    event->answer.names = pointers;
    event->answer.name_count = (unsigned)count;
}

static void listed(int code, const struct String_vector *names, const void *data)
{
    struct zk_event *event = begin_answer(data, code);
    if (code == ZOK)
        copy_names(event, names);
    end_answer(data, event);
}

static void drop_log_line(const char *message)
{
    (void)message; /* errors come as codes, and laterd writes its own log */
}

/* ---- our thread ---- */

static void set_why(struct zookeeper *zookeeper, const char *text)
{
    (void)snprintf(zookeeper->why, sizeof(zookeeper->why), "%.200s", text);
}

static void open_handle(struct zookeeper *zookeeper)
{
    const struct member_options *options = member_thread_options(zookeeper->thread);
    struct zk_request *context = mem_alloc(sizeof(*context));
    (void)pthread_mutex_lock(&zookeeper->mutex);
    *context = (struct zk_request){zookeeper, ++zookeeper->number};
    (void)pthread_mutex_unlock(&zookeeper->mutex);
    zookeeper->handle =
        zookeeper_init2(zookeeper->url.hosts, watched, (int)(options->timeout_us / 1000), NULL,
                        context, 0, drop_log_line);
    char text[MEMBER_WHY_MAX];
    if (zookeeper->handle) {
        /* Else it looks the servers up each time that it wakes, on the thread that keeps the
           session alive: a name server that hangs would end our term. -1: only to connect again. */
        (void)zoo_set_servers_resolution_delay(zookeeper->handle, -1); /* it is a good value */
        (void)snprintf(text, sizeof(text), "ZooKeeper at %.160s has not answered yet",
                       zookeeper->url.hosts);
        set_why(zookeeper, text);
        return;
    }
    (void)snprintf(text, sizeof(text), "ZooKeeper at %.120s cannot be used: %s",
                   zookeeper->url.hosts, errno == EINVAL ? "is the name right?" : strerror(errno));
    set_why(zookeeper, text);
    zookeeper->reopen_us = member_now_us() + REOPEN_US;
    mem_free(context);
}

/* Ends the library's threads, and the session if there is a connection. Their last events are
 * dropped. */
static void close_handle(struct zookeeper *zookeeper)
{
    if (!zookeeper->handle)
        return;
    void *context = (void *)(uintptr_t)zoo_get_context(zookeeper->handle);
    (void)zookeeper_close(zookeeper->handle); /* it is gone, whatever it says */
    zookeeper->handle = NULL;
    mem_free(context);
    (void)pthread_mutex_lock(&zookeeper->mutex);
    zookeeper->number++;
    (void)pthread_mutex_unlock(&zookeeper->mutex);
}

static int send_op(struct zookeeper *zookeeper, const struct zk_op *op, struct zk_request *data)
{
    zhandle_t *handle = zookeeper->handle;
    int data_len = (int)strlen(op->data);
    switch (op->verb) {
    case ZK_CREATE:
        return zoo_acreate(handle, op->path, op->data, data_len, &ZOO_OPEN_ACL_UNSAFE,
                           op->joining ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_PERSISTENT, created, data);
    case ZK_CHILDREN: return zoo_aget_children(handle, op->path, 0, listed, data);
    case ZK_EXISTS: return zoo_awexists(handle, op->path, node_watched, NULL, changed, data);
    case ZK_GET: return zoo_aget(handle, op->path, 0, got, data);
    case ZK_SET: return zoo_aset(handle, op->path, op->data, data_len, op->version, changed, data);
    case ZK_DELETE_NODE: return zoo_adelete(handle, op->path, -1, removed, data);
    }
    return ZBADARGUMENTS;
}

static void send_next(struct zookeeper *zookeeper)
{
    const struct zk_op *op = zk_next(&zookeeper->election, member_now_us());
    struct zk_request *data = mem_alloc(sizeof(*data));
    *data = (struct zk_request){zookeeper, zookeeper->number};
    int code = send_op(zookeeper, op, data);
    if (code == ZOK)
        return;
    mem_free(data); /* the library has not taken it */
    zk_answered(&zookeeper->election, &(struct zk_answer){.result = result_of(code)},
                member_now_us());
}

static void take_state(struct zookeeper *zookeeper, int state)
{
    struct zk_election *election = &zookeeper->election;
    if (state == ZOO_CONNECTED_STATE) {
        zookeeper->why[0] = '\0';
        zk_connected(election, (int64_t)zoo_recv_timeout(zookeeper->handle) * 1000,
                     member_now_us());
    } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        zk_expired(election, member_now_us());
        close_handle(zookeeper);
        open_handle(zookeeper);
    } else {
        char text[MEMBER_WHY_MAX];
        (void)snprintf(text, sizeof(text), "ZooKeeper at %.160s does not answer",
                       zookeeper->url.hosts);
        set_why(zookeeper, text);
        zk_connecting(election);
    }
}

static void take(struct zookeeper *zookeeper, struct zk_event *event)
{
    if (event->number != zookeeper->number)
        return; /* of an earlier handle */
    switch (event->kind) {
    case ZK_EVENT_STATE: take_state(zookeeper, event->state); break;
    case ZK_EVENT_WATCH: zk_fired(&zookeeper->election, member_now_us()); break;
    case ZK_EVENT_ANSWER:
        if (event->answer.result == ZK_REFUSED)
            set_why(zookeeper, zerror(event->state));
        if (zookeeper->election.pending)
            zk_answered(&zookeeper->election, &event->answer, member_now_us());
        break;
    }
}

static void take_all(struct zookeeper *zookeeper)
{
    for (;;) {
        (void)pthread_mutex_lock(&zookeeper->mutex);
        struct queue_node *node = queue_take(&zookeeper->events);
        (void)pthread_mutex_unlock(&zookeeper->mutex);
        if (!node)
            return;
        struct zk_event *event = LIST_ENTRY(node, struct zk_event, place);
        take(zookeeper, event);
        mem_free(event->bytes);
        mem_free(event);
    }
}

static void publish(struct zookeeper *zookeeper)
{
    const struct zk_election *election = &zookeeper->election;
    member_publish(zookeeper->thread, &election->tenure, election->leader, election->connected,
                   zookeeper->why);
}

/* When there is something to do, if nothing wakes the thread before. */
static int64_t next_us(const struct zookeeper *zookeeper)
{
    const struct zk_election *election = &zookeeper->election;
    int64_t at_us = tenure_wake_us(&election->tenure, zk_next_us(election));
    return zookeeper->handle ? at_us : time_earlier(at_us, zookeeper->reopen_us);
}

static void run(struct member_thread *thread, void *user)
{
    struct zookeeper *zookeeper = user;
    struct zk_election *election = &zookeeper->election;
    zookeeper->thread = thread;
    open_handle(zookeeper);
    for (;;) {
        struct member_requests requests = member_requests(thread);
        if (requests.close)
            break;
        int64_t now_us = member_now_us();
        take_all(zookeeper);
        (void)zk_expire(election, now_us);
        if (requests.above)
            zk_raise(election, requests.above, now_us);
        if (requests.resign)
            zk_resign(election, requests.rest_us, now_us);
        if (!zookeeper->handle && zookeeper->reopen_us <= now_us)
            open_handle(zookeeper);
        while (zookeeper->handle && zk_next_us(election) <= member_now_us())
            send_next(zookeeper);
        publish(zookeeper);
        member_sleep(thread, next_us(zookeeper));
    }
    close_handle(zookeeper); /* ends the session: our node goes at once */
    take_all(zookeeper);
}

static void ended(void *user)
{
    struct zookeeper *zookeeper = user;
    (void)pthread_mutex_destroy(&zookeeper->mutex);
    mem_free(zookeeper);
}

/* ---- the plugin ---- */

static enum err read_options(const struct member_options *options, struct zookeeper *zookeeper,
                             struct member_error *out_error)
{
    enum err err = member_url_read(options->url, "zookeeper", PORT, &zookeeper->url, out_error);
    if (err)
        return err;
    const char *wrong = NULL;
    if (zookeeper->url.user[0])
        wrong = "url: ZooKeeper's user and password are not supported";
    else if (zookeeper->url.query[0])
        wrong = "url: there are no options behind a '?' for ZooKeeper";
    else if (zk_election_init(&zookeeper->election, zookeeper->url.path, options, member_now_us()))
        wrong = "url: namespace and name are too long together";
    if (!wrong)
        return OK;
    (void)snprintf(out_error->text, sizeof(out_error->text), "%s", wrong);
    return ERR_INVALID;
}

static enum err check(const struct member_options *options, struct member_error *out_error)
{
    struct zookeeper *zookeeper = mem_zalloc(sizeof(*zookeeper));
    enum err err = read_options(options, zookeeper, out_error);
    mem_free(zookeeper);
    return err;
}

static enum err open_member(const struct member_options *options, struct member **out_member,
                            struct member_error *out_error)
{
    struct zookeeper *zookeeper = mem_zalloc(sizeof(*zookeeper));
    enum err err = read_options(options, zookeeper, out_error);
    if (err) {
        mem_free(zookeeper);
        return err;
    }
    (void)pthread_mutex_init(&zookeeper->mutex, NULL); /* cannot fail with default attributes */
    return member_thread_open(
        &(struct member_thread_options){
            .member = options, .user = zookeeper, .run = run, .ended = ended},
        out_member, out_error);
}

extern const struct member_plugin laterd_member_plugin;
__attribute__((visibility("default"))) const struct member_plugin laterd_member_plugin = {
    .abi = MEMBER_PLUGIN_ABI,
    .version = LATERD_VERSION,
    .scheme = "zookeeper",
    .library = "libzookeeper-mt " ZOO_VERSION,
    .check = check,
    .open = open_member,
};
