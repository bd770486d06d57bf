/*
 * The traits of commands: one row for each kind.
 */
#include "core/cmd.h"

enum {
    DELAYED = 1 << JOB_DELAYED,
    READY = 1 << JOB_READY,
    RESERVED = 1 << JOB_RESERVED,
    BURIED = 1 << JOB_BURIED,
    ANY = DELAYED | READY | RESERVED | BURIED,
};

/* clang-format off */
const struct cmd_traits cmd_table[CMD_KINDS] = {
    [CMD_PUSH] = {"push", CMD_ON_NEW_JOB, .changes = true},
    [CMD_RESERVE] = {"reserve", CMD_ON_READY_JOBS,
                     .takes_jobs = true, .shows_bodies = true, .waits = true},
    [CMD_RESERVE_JOB] = {"reserve_job", CMD_ON_JOB,
                         .takes_jobs = true, .shows_bodies = true,
                         .states = ANY & ~RESERVED},
    [CMD_FINISH] = {"finish", CMD_ON_JOB,
                    .changes = true, .takes_lease = true, .states = RESERVED},
    [CMD_RELEASE] = {"release", CMD_ON_JOB,
                     .changes = true, .takes_lease = true, .states = RESERVED},
    [CMD_TOUCH] = {"touch", CMD_ON_JOB,
                   .changes = true, .takes_lease = true, .states = RESERVED},
    [CMD_BURY] = {"bury", CMD_ON_JOB,
                  .changes = true, .takes_lease = true, .states = RESERVED},
    [CMD_KICK] = {"kick", CMD_ON_JOB, .changes = true, .states = DELAYED | BURIED},
    [CMD_RUN] = {"run", CMD_ON_JOB, .changes = true, .states = DELAYED},
    [CMD_RESCHEDULE] = {"reschedule", CMD_ON_JOB, .changes = true, .states = DELAYED},
    [CMD_GET] = {"get", CMD_ON_JOB, .shows_bodies = true, .states = ANY},
    [CMD_DELETE] = {"delete", CMD_ON_JOB,
                    .changes = true, .takes_lease = true, .states = ANY},
    [CMD_PEEK] = {"peek", CMD_ON_TOPICS, .shows_bodies = true},
    [CMD_KICK_TOPIC] = {"kick_topic", CMD_ON_TOPICS, .changes = true},
    [CMD_CLEAR_TOPIC] = {"clear_topic", CMD_ON_TOPICS, .changes = true},
    [CMD_PAUSE] = {"pause", CMD_ON_TOPICS, .changes = true},
    [CMD_RESUME] = {"resume", CMD_ON_TOPICS, .changes = true},
    [CMD_REMOVE_TOPIC] = {"remove_topic", CMD_ON_TOPICS, .changes = true},
    [CMD_TOPICS] = {"topics", CMD_ON_TOPICS},
    [CMD_TOPIC] = {"topic", CMD_ON_TOPICS},
    [CMD_LIST] = {"list", CMD_ON_TOPICS},
    [CMD_CONFIGURE_TOPIC] = {"configure_topic", CMD_ON_TOPICS, .changes = true},
    [CMD_DUE] = {"due", CMD_ON_TOPICS},
};
/* clang-format on */
