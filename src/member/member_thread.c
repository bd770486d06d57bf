/*
 * Owns the thread and the state that both threads share under a mutex; only holds() reads two
 * atomic numbers instead. Invariant: `led_epoch` is 0 from the call of resign() on, even if the
 * thread, which has not seen that request yet, publishes once more.
 */
#include "member/member_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/thread.h"

enum { TEXT_MAX = 1024, CLOSE_US = 1000 * 1000 /* longer than a healthy run() takes to resign */ };

struct member_thread {
    struct member member; /* first, so that the verbs find the rest */
    struct member_thread_options options;
    struct member_options copied;
    char url[TEXT_MAX], url_text[TEXT_MAX], ca[TEXT_MAX], name[MEMBER_NAME_MAX],
        advertise[MEMBER_URL_MAX];
    pthread_t thread;
    int event_fd;
    _Atomic uint64_t led_epoch; /* 0: we do not lead */
    _Atomic int64_t deadline_us;
    struct message note;
    pthread_mutex_t mutex; /* of what follows */
    bool noted;            /* the note was posted to the loop and has not arrived */
    bool closed;           /* close() was called: the arrival of the note frees this */
    struct member_view view;
    int64_t since_us;
    struct member_requests requests;
};

static struct member_thread *self(const struct member *member)
{
    return (struct member_thread *)(void *)(uintptr_t)member; /* its first member */
}

static void lock(struct member_thread *thread)
{
    (void)pthread_mutex_lock(&thread->mutex); /* cannot fail: it is ours and not recursive */
}

static void unlock(struct member_thread *thread)
{
    (void)pthread_mutex_unlock(&thread->mutex);
}

int64_t member_now_us(void)
{
    return os_boot_us();
}

/* ---- the loop's side ---- */

static void free_thread(struct member_thread *thread)
{
    (void)close(thread->event_fd); /* nothing is lost with it */
    (void)pthread_mutex_destroy(&thread->mutex);
    mem_free(thread);
}

static void note_arrived(struct message *message)
{
    struct member_thread *thread = LIST_ENTRY(message, struct member_thread, note);
    lock(thread);
    thread->noted = false;
    bool closed = thread->closed;
    unlock(thread);
    if (closed)
        free_thread(thread);
    else if (thread->member.changed)
        thread->member.changed(&thread->member);
}

static void look(const struct member *member, struct member_view *out_view)
{
    struct member_thread *thread = self(member);
    lock(thread);
    *out_view = thread->view;
    out_view->role_us = member_now_us() - thread->since_us;
    unlock(thread);
}

static bool holds(const struct member *member, uint64_t epoch)
{
    struct member_thread *thread = self(member);
    return epoch && atomic_load(&thread->led_epoch) == epoch &&
           member_now_us() < atomic_load(&thread->deadline_us);
}

static void raise_above(struct member *member, uint64_t above)
{
    struct member_thread *thread = self(member);
    lock(thread);
    if (above > thread->requests.above)
        thread->requests.above = above;
    unlock(thread);
    member_wake(thread);
}

static void resign(struct member *member, int64_t rest_us)
{
    struct member_thread *thread = self(member);
    lock(thread);
    atomic_store(&thread->led_epoch, 0);
    thread->view.role = MEMBER_WAITING;
    thread->requests.resign = true;
    thread->requests.rest_us = rest_us;
    unlock(thread);
    member_wake(thread);
}

static void close_thread(struct member *member)
{
    struct member_thread *thread = self(member);
    lock(thread);
    atomic_store(&thread->led_epoch, 0);
    thread->requests.close = true;
    unlock(thread);
    member_wake(thread);
    if (!thread->options.interrupt || !thread_join_within(thread->thread, CLOSE_US)) {
        if (thread->options.interrupt)
            thread->options.interrupt(thread->options.user);
        (void)pthread_join(thread->thread, NULL); /* it was started, and is joined only here */
    }
    thread->options.ended(thread->options.user);
    lock(thread);
    bool noted = thread->noted;
    thread->closed = true;
    unlock(thread);
    if (!noted)
        free_thread(thread);
}

static const struct member_verbs verbs = {
    .look = look,
    .holds = holds,
    .raise = raise_above,
    .resign = resign,
    .close = close_thread,
};

static void *run(void *arg)
{
    struct member_thread *thread = arg;
    thread->options.run(thread, thread->options.user);
    return NULL;
}

static void copy_options(struct member_thread *thread)
{
    const struct member_options *from = thread->options.member;
    (void)snprintf(thread->url, sizeof(thread->url), "%s", from->url);
    (void)snprintf(thread->url_text, sizeof(thread->url_text), "%s", from->url_text);
    (void)snprintf(thread->ca, sizeof(thread->ca), "%s", from->ca);
    (void)snprintf(thread->name, sizeof(thread->name), "%s", from->name);
    (void)snprintf(thread->advertise, sizeof(thread->advertise), "%s", from->advertise);
    thread->copied = *from;
    thread->copied.url = thread->url;
    thread->copied.url_text = thread->url_text;
    thread->copied.ca = thread->ca;
    thread->copied.name = thread->name;
    thread->copied.advertise = thread->advertise;
}

enum err member_thread_open(const struct member_thread_options *options, struct member **out_member,
                            struct member_error *out_error)
{
    struct member_thread *thread = mem_zalloc(sizeof(*thread));
    thread->member.verbs = &verbs;
    thread->options = *options;
    thread->note.arrived = note_arrived;
    thread->since_us = member_now_us();
    copy_options(thread);
    (void)snprintf(thread->view.why, sizeof(thread->view.why), "not connected yet");
    (void)pthread_mutex_init(&thread->mutex, NULL); /* cannot fail with default attributes */
    thread->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = thread->event_fd < 0 ? errno : 0;
    if (!error)
        error = thread_start(&thread->thread, run, thread);
    if (!error) {
        *out_member = &thread->member;
        return OK;
    }
    (void)snprintf(out_error->text, sizeof(out_error->text), "%s", strerror(error));
    free_thread(thread);
    options->ended(options->user);
    return ERR_IO;
}

/* ---- the thread's side ---- */

const struct member_options *member_thread_options(const struct member_thread *thread)
{
    return &thread->copied;
}

static bool is_same(const struct member_view *a, const struct member_view *b)
{
    return a->role == b->role && a->epoch == b->epoch && a->connected == b->connected &&
           strcmp(a->leader, b->leader) == 0 && strcmp(a->why, b->why) == 0;
}

/* A service's message may have any characters. */
static void copy_why(char room[MEMBER_WHY_MAX], const char *why)
{
    (void)snprintf(room, MEMBER_WHY_MAX, "%s", why);
    for (char *at = room; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == '"' || *at == '\\')
            *at = '\'';
    }
}

void member_publish(struct member_thread *thread, const struct tenure *tenure, const char *leader,
                    bool connected, const char *why)
{
    struct member_view view = {.role = MEMBER_WAITING,
                               .connected = connected,
                               .epoch = tenure->epoch,
                               .terms = tenure->terms,
                               .loss = tenure->loss};
    (void)snprintf(view.leader, sizeof(view.leader), "%s", leader);
    copy_why(view.why, why);
    lock(thread);
    bool leads = tenure->leading && !thread->requests.resign && !thread->requests.close;
    if (leads)
        view.role = MEMBER_LEADING;
    /* The deadline first: a reader of the epoch then sees its deadline, or an earlier one. */
    atomic_store(&thread->deadline_us, leads ? tenure->deadline_us : 0);
    atomic_store(&thread->led_epoch, leads ? tenure->epoch : 0);
    bool post = !thread->noted && !is_same(&view, &thread->view);
    thread->view = view;
    thread->since_us = tenure->since_us;
    thread->noted |= post;
    unlock(thread);
    if (post)
        thread->copied.loop->verbs->post(thread->copied.loop, &thread->note);
}

struct member_requests member_requests(struct member_thread *thread)
{
    lock(thread);
    struct member_requests requests = thread->requests;
    thread->requests = (struct member_requests){.close = requests.close};
    unlock(thread);
    return requests;
}

int member_wake_fd(const struct member_thread *thread)
{
    return thread->event_fd;
}

void member_wake(struct member_thread *thread)
{
    (void)eventfd_write(thread->event_fd, 1); /* it is never full */
}

void member_sleep(struct member_thread *thread, int64_t until_us)
{
    enum { SLEEP_MAX_MS = 60000 };
    int64_t left_ms =
        until_us == INT64_MAX ? SLEEP_MAX_MS : (until_us - member_now_us() + 999) / 1000;
    struct pollfd wait = {.fd = thread->event_fd, .events = POLLIN};
    eventfd_t ignored;
    if (left_ms < 0)
        left_ms = 0;
    if (poll(&wait, 1, left_ms < SLEEP_MAX_MS ? (int)left_ms : SLEEP_MAX_MS) > 0)
        (void)eventfd_read(thread->event_fd, &ignored); /* it was readable, and we alone read it */
}
