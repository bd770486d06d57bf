/*
 * What the scripts publish to daemons: names of channels, and messages (docs/redis-layout.md). A
 * notice is a hint: it may be lost or come twice. Pure.
 */
#ifndef LATERD_ENGINE_REDIS_NOTICE_CODEC_H
#define LATERD_ENGINE_REDIS_NOTICE_CODEC_H

#include "engine/redis/script.h"

/* To whom a partition publishes on a channel. */
enum notice_readers {
    NOTICE_TO_ALL, /* `{PREFIX:p}:notice`: to all daemons */
    NOTICE_TO_US,  /* `{PREFIX:p}:notice:NAME`: to this daemon */
};

/* The name of a partition's channel, in room[SCRIPT_CHANNEL_MAX]. In a database other than 0, `:DB`
 * follows `notice`, because databases share the channels. */
struct bytes notice_channel(const struct script_space *space, uint32_t partition,
                            enum notice_readers readers, char *room);

/* Decodes the name of a channel. False: this daemon does not subscribe to it. */
bool notice_channel_is(const struct script_space *space, struct bytes channel,
                       uint32_t *out_partition, enum notice_readers *out_readers);

enum notice_kind {
    NOTICE_READY = 'r',     /* a job became ready in `topic`, where a mark had been left */
    NOTICE_HINT = 'h',      /* the same, but another daemon was notified to take it */
    NOTICE_DUE = 'w',       /* something is due at `due_us`, earlier than the owner knew */
    NOTICE_MADE = 'n',      /* the partition was created (`by_us`: by us); its data was lost */
    NOTICE_CLOCK_SET = 'o', /* its clock was set (`by_us`: by us) */
    NOTICE_MEMBER = 'b',    /* the state of a daemon: `member` */
};

struct notice {
    enum notice_kind kind;
    uint32_t partition; /* not for MEMBER */
    struct bytes topic; /* borrowed */
    bool only_we_wait;  /* READY: no other daemon waited for it, so it need not be passed on */
    bool by_us;
    int64_t due_us;
    struct script_member member;
};

/* ERR_CORRUPT: not a notice of ours. */
enum err notice_decode(const struct script_space *space, struct bytes message,
                       struct notice *out_notice) MUST_USE;

#endif
