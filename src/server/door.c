#include "server/door.h"

#include "base/mem.h"
#include "server/server.h"

/* May it be done at all? The engine still has its own say: limits.jobs, a full disk. */
static enum err admit(const struct server *server, const struct cmd *cmd)
{
    return cmd->kind == CMD_PUSH && server->refusing_pushes ? ERR_DRAINING : OK;
}

enum submitted server_submit(struct server *server, const struct principal *principal,
                             const struct cmd *cmd, struct ticket *ticket)
{
    server->counts.commands[principal->protocol][cmd->kind]++;
    enum err err = admit(server, cmd);
    if (err) {
        if (ticket)
            ticket->answered(ticket, &(struct reply){.err = err, .kind = cmd->kind});
        return SUBMIT_ANSWERED;
    }
    return server->engine->verbs->submit(server->engine, cmd, ticket);
}

void server_cancel(struct server *server, struct ticket *ticket)
{
    server->engine->verbs->cancel(server->engine, ticket);
}

enum err server_health(const struct server *server)
{
    if (server->draining || server->refusing_pushes)
        return ERR_DRAINING;
    return server->engine->verbs->health(server->engine);
}

enum err server_admit_memory(const struct server *server)
{
    uint64_t max = server->options.limits.memory_bytes;
    return max && mem_used() > max ? ERR_MEMORY_LIMIT : OK;
}
