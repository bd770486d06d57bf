/*
 * Checks by the text of INFO whether a server can be used. A missing field counts as the worst
 * value.
 */
#include "engine/redis/server_info.h"

#include "client/redis/info.h"
#include "engine/redis/script_parts.h"

static bool is_at_least(struct bytes version, uint64_t least_major, uint64_t least_minor)
{
    uint64_t major = 0, minor = 0;
    if (!script_take_number(&version, &major) || version.len == 0 || version.at[0] != '.')
        return false;
    version = bytes_of(version.at + 1, version.len - 1);
    if (!script_take_number(&version, &minor))
        return false;
    return major > least_major || (major == least_major && minor >= least_minor);
}

static bool has(struct bytes text, struct bytes name, struct bytes value)
{
    return bytes_eq(redis_info_field(text, name), value);
}

/* Is the server's mode "standalone", "cluster" or "sentinel", as `mode` says? */
static bool is_mode(struct bytes info, struct bytes mode)
{
    return has(info, BYTES("redis_mode"), mode) ||
           has(info, BYTES("server_mode"), mode); /* Valkey's name of the field */
}

struct bytes server_info_evicting_policy(struct bytes info)
{
    bool evicts = !has(info, BYTES("maxmemory"), BYTES("0")) &&
                  !has(info, BYTES("maxmemory_policy"), BYTES("noeviction"));
    return evicts ? redis_info_field(info, BYTES("maxmemory_policy")) : (struct bytes){0};
}

enum err server_info_judge(struct bytes info, struct bytes cluster, const char **out_reason)
{
    const char *reason = NULL;
    bool member = server_info_is_cluster(info);
    /* It has not joined the cluster yet, or was removed from it: another node may know more. */
    bool alone = member && has(cluster, BYTES("cluster_slots_assigned"), BYTES("0"));
    if (!is_at_least(redis_info_field(info, BYTES("redis_version")), 6, 2))
        reason = "the server is older than Redis 6.2";
    else if (is_mode(info, BYTES("sentinel")))
        reason = "the server is a Sentinel: use a redis+sentinel:// address";
    else if (!has(info, BYTES("maxmemory"), BYTES("0")) &&
             !has(info, BYTES("maxmemory_policy"), BYTES("noeviction")))
        reason = "its maxmemory-policy may evict jobs: set it to noeviction";
    else if (member && !alone && !has(cluster, BYTES("cluster_slots_assigned"), BYTES("16384")))
        reason = "not all slots of the cluster are assigned";
    if (reason) {
        *out_reason = reason;
        return ERR_UNSUPPORTED;
    }
    if (member && (alone || !has(cluster, BYTES("cluster_state"), BYTES("ok")))) {
        *out_reason = alone ? "it knows of no slots" : "its cluster_state is not ok";
        return ERR_AGAIN;
    }
    return OK;
}

bool server_info_has_sharded_channels(struct bytes info)
{
    return is_at_least(redis_info_field(info, BYTES("redis_version")), 7, 0);
}

bool server_info_is_cluster(struct bytes info)
{
    return is_mode(info, BYTES("cluster"));
}
