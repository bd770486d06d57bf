/*
 * What is known of commands without a queue.
 */
#include "core/cmd.h"

bool cmd_changes(enum cmd_kind kind)
{
    switch (kind) {
    case CMD_RESERVE:
    case CMD_RESERVE_JOB:
    case CMD_GET:
    case CMD_PEEK:
    case CMD_TOPICS:
    case CMD_TOPIC:
    case CMD_LIST: return false;
    case CMD_PUSH:
    case CMD_FINISH:
    case CMD_RELEASE:
    case CMD_TOUCH:
    case CMD_BURY:
    case CMD_KICK:
    case CMD_RUN:
    case CMD_RESCHEDULE:
    case CMD_DELETE:
    case CMD_KICK_TOPIC:
    case CMD_CLEAR_TOPIC:
    case CMD_PAUSE:
    case CMD_RESUME:
    case CMD_REMOVE_TOPIC: return true;
    }
    return true;
}
