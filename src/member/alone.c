#include "member/alone.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"

struct alone {
    struct member member;
    struct loop *loop;
    struct timer notify; /* calls `changed`: it leads, or has another epoch */
    uint64_t epoch;      /* 0: it rests after resign(), or has not begun */
    uint64_t last, terms;
    int64_t since_us;
};

static struct alone *self(const struct member *member)
{
    return LIST_ENTRY(member, struct alone, member);
}

static void begin_or_notify(struct timer *timer)
{
    struct alone *alone = LIST_ENTRY(timer, struct alone, notify);
    if (!alone->epoch) {
        alone->epoch = ++alone->last;
        alone->terms++;
        alone->since_us = alone->loop->now_us;
    }
    if (alone->member.changed)
        alone->member.changed(&alone->member);
}

static void look(const struct member *member, struct member_view *out_view)
{
    const struct alone *alone = self(member);
    *out_view = (struct member_view){.role = alone->epoch ? MEMBER_LEADING : MEMBER_WAITING,
                                     .connected = true,
                                     .epoch = alone->last,
                                     .terms = alone->terms,
                                     .role_us = alone->loop->now_us - alone->since_us};
}

static bool holds(const struct member *member, uint64_t epoch)
{
    return epoch && self(member)->epoch == epoch;
}

static void raise_above(struct member *member, uint64_t above)
{
    struct alone *alone = self(member);
    if (!alone->epoch || alone->last > above)
        return;
    alone->epoch = alone->last = above + 1;
    loop_arm(alone->loop, &alone->notify, alone->loop->now_us);
}

static void resign(struct member *member, int64_t rest_us)
{
    struct alone *alone = self(member);
    alone->epoch = 0;
    alone->since_us = alone->loop->now_us;
    loop_arm(alone->loop, &alone->notify, alone->loop->now_us + rest_us);
}

static void close_alone(struct member *member)
{
    struct alone *alone = self(member);
    loop_cancel(alone->loop, &alone->notify);
    mem_free(alone);
}

static const struct member_verbs verbs = {
    .look = look,
    .holds = holds,
    .raise = raise_above,
    .resign = resign,
    .close = close_alone,
};

static enum err check(const struct member_options *options, struct member_error *out_error)
{
    if (strcmp(options->url, "alone") == 0)
        return OK;
    (void)snprintf(out_error->text, sizeof(out_error->text), "url: nothing comes behind \"alone\"");
    return ERR_INVALID;
}

static enum err open_alone(const struct member_options *options, struct member **out_member,
                           struct member_error *out_error)
{
    (void)out_error;
    struct alone *alone = mem_zalloc(sizeof(*alone));
    alone->member.verbs = &verbs;
    alone->loop = options->loop;
    alone->notify.expired = begin_or_notify;
    alone->since_us = loop_update_time(options->loop);
    loop_arm(alone->loop, &alone->notify, alone->loop->now_us);
    *out_member = &alone->member;
    return OK;
}

const struct member_plugin alone_member = {
    .abi = MEMBER_PLUGIN_ABI,
    .version = LATERD_VERSION,
    .scheme = "alone",
    .library = "none",
    .check = check,
    .open = open_alone,
};
