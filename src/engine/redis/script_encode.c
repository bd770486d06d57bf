/*
 * Encodes requests that are not a command on one job: reserves, and the engine's own calls.
 * script.c describes the form of a request.
 */
#include <stdio.h>

#include "base/codec.h"
#include "engine/redis/notice_codec.h"
#include "engine/redis/script_parts.h"

enum {
    BODIES_AT_ONCE = 256 * 1024,       /* of a reserve: no more jobs follow then */
    PLACES_MAX = 4000,                 /* looked at by a reserve in all its topics */
    REBUILD_FIELDS = 60,               /* looked at by one call: each job has two and more */
    MEMBER_KEPT_US = 20 * 1000 * 1000, /* the record of a daemon that says nothing more */
    OPTIONS_ROOM = 5 + 24,             /* letters, and a ttr in digits */
};

/* In front of a number that is shared with others: where jobs stand that none brings beyond it. */
static void add_most(struct buf *out, const struct script_space *space,
                     const struct script_call *call, const struct script_share *share, uint32_t max)
{
    const struct script_rank *until = share->shares_until;
    char room[12 + 11];
    size_t len = 0;
    if (until) {
        put_u32(room, __builtin_bswap32(until->priority));
        put_u64(room + 4,
                __builtin_bswap64((uint64_t)script_time_in(space, call->partition, until->us)));
        len = 12;
    }
    len += (size_t)snprintf(room + len, sizeof(room) - len, "%u", max);
    script_add(out, bytes_of(room, len));
}

void script_encode_reserve(struct buf *out, const struct script_space *space,
                           const struct script_call *call, const struct cmd_reserve *reserve,
                           const struct script_share *share)
{
    static const char marks[] = {
        [SCRIPT_MARK_HINT] = 'h', [SCRIPT_MARK_WAIT] = 'w', [SCRIPT_PASS_ON] = 'p'};
    char options[OPTIONS_ROOM];
    size_t count = 0;
    if (share->shares_until)
        options[count++] = 's';
    if (reserve->listed_order)
        options[count++] = 'l';
    if (reserve->bound)
        options[count++] = 'b';
    if (share->mark != SCRIPT_NO_MARK)
        options[count++] = marks[share->mark];
    if (share->max > 1 && reserve->max > share->max)
        options[count++] = 'n';
    if (reserve->ttr_us > 0)
        count += (size_t)snprintf(options + count, sizeof(options) - count, "%lld",
                                  (long long)script_span_in(reserve->ttr_us));
    uint32_t at_once = 1 + PLACES_MAX / reserve->topic_count;
    if (at_once > SCRIPT_HEADS_MAX)
        at_once = SCRIPT_HEADS_MAX;
    script_begin(out, space, call, SCRIPT_RESERVE, 3 + reserve->topic_count);
    script_add(out, bytes_of(options, count));
    add_most(out, space, call, share, share->max < at_once ? share->max : at_once);
    script_add_i64(out, BODIES_AT_ONCE);
    for (uint32_t i = 0; i < reserve->topic_count; i++)
        script_add(out, reserve->topics[i]);
}

void script_encode_promote(struct buf *out, const struct script_space *space,
                           const struct script_call *call, uint32_t max, bool all_buckets)
{
    script_begin(out, space, call, SCRIPT_PROMOTE, 2);
    script_add_i64(out, max);
    script_add(out, all_buckets ? BYTES("a") : BYTES(""));
}

void script_encode_open(struct buf *out, const struct script_space *space,
                        const struct script_call *call, uint32_t places, uint64_t set_count)
{
    char room[SCRIPT_CHANNEL_MAX];
    script_begin(out, space, call, SCRIPT_OPEN, 13);
    script_add_i64(out, call->partition);
    script_add_i64(out, space->partitions);
    script_add(out, notice_channel(space, call->partition, NOTICE_TO_ALL, room));
    script_add_i64(out, SCRIPT_LAYOUT);
    script_add_i64(out, places);
    script_add_i64(out, (int64_t)set_count);
    script_add_i64(out, (int64_t)space->newest[call->partition]);
    if (space->journal_bytes)
        script_add_i64(out, (int64_t)script_journal_share(space) + 1);
    else
        script_add(out, (struct bytes){0});
    script_add(out, space->journal_detaches ? BYTES("d") : BYTES("r"));
    script_add_i64(out, script_span_in(space->journal_lag_us));
    script_add(out, space->leaves_older ? BYTES("k") : BYTES(""));
    script_add_i64(out, call->late_us);
    script_add(out, space->one_server ? BYTES("s") : BYTES(""));
}

void script_encode_journal_lease(struct buf *out, const struct script_space *space,
                                 const struct script_call *call, const struct script_lease *lease)
{
    script_begin(out, space, call, SCRIPT_JOURNAL, 5);
    script_add(out, BYTES("l"));
    script_add_i64(out, lease->span_us);
    script_add(out, lease->identity);
    script_add(out, lease->label);
    script_add(out, lease->refuses ? BYTES("r") : (struct bytes){0});
}

void script_encode_restore(struct buf *out, const struct script_space *space,
                           const struct script_call *call, const struct script_restore *restore)
{
    char step = (char)restore->step, which[8], name[8];
    put_u64(which, restore->restore);
    put_u64(name, __builtin_bswap64(restore->seq)); /* big-endian, as jobs' names are */
    script_begin(out, space, call, SCRIPT_RESTORE, 4);
    script_add(out, bytes_of(&step, 1));
    script_add(out, bytes_of(which, restore->restore ? sizeof(which) : 0));
    if (restore->step == SCRIPT_RESTORE_LOOK)
        script_add(out, bytes_of(name, sizeof(name)));
    else
        script_add_i64(out, restore->span_us);
    script_add_i64(out, (int64_t)restore->most);
}

void script_encode_resync(struct buf *out, const struct script_space *space,
                          const struct script_call *call, const struct script_resync *resync)
{
    script_begin(out, space, call, SCRIPT_RESYNC, 4 + resync->id_count);
    script_add(out, resync->ids ? BYTES("r") : BYTES("j"));
    script_add(out, resync->from);
    script_add_i64(out, resync->fields);
    script_add_i64(out, (int64_t)resync->waiting_most);
    for (uint32_t i = 0; resync->ids && i < resync->id_count; i++)
        script_add(out, resync->ids[i]);
}

void script_encode_journal_read(struct buf *out, const struct script_space *space,
                                const struct script_call *call,
                                const struct script_entries *entries)
{
    script_begin(out, space, call, SCRIPT_JOURNAL, 5);
    script_add(out, BYTES("r"));
    script_add_i64(out, (int64_t)entries->from);
    script_add_i64(out, (int64_t)entries->below);
    script_add_i64(out, entries->max);
    script_add(out, entries->head);
}

void script_encode_set_clock(struct buf *out, const struct script_space *space,
                             const struct script_call *call, int64_t by_us, uint64_t set_count,
                             uint64_t new_count)
{
    script_begin(out, space, call, SCRIPT_SET_CLOCK, 3);
    script_add_i64(out, by_us);
    script_add_i64(out, (int64_t)set_count);
    script_add_i64(out, (int64_t)new_count);
}

void script_encode_rebuild(struct buf *out, const struct script_space *space,
                           const struct script_call *call, struct bytes from,
                           enum script_rebuild what)
{
    char letter = (char)what;
    script_begin(out, space, call, SCRIPT_REBUILD, 3);
    script_add(out, from);
    script_add_i64(out, REBUILD_FIELDS);
    script_add(out, bytes_of(&letter, 1));
}

void script_encode_heartbeat(struct buf *out, const struct script_space *space,
                             const struct script_call *call,
                             const struct script_heartbeat *heartbeat)
{
    char letter = (char)heartbeat->how, options[2];
    size_t count = 0;
    if (heartbeat->look)
        options[count++] = 'l';
    if (heartbeat->memory)
        options[count++] = 'm';
    script_begin(out, space, call, SCRIPT_HEARTBEAT, 4);
    script_add(out, bytes_of(&letter, 1));
    script_add_i64(out, MEMBER_KEPT_US);
    script_add(out, bytes_of(options, count));
    script_add_i64(out, SCRIPT_FRESH_US);
}

void script_encode_reap_dead(struct buf *out, const struct script_space *space,
                             const struct script_call *call, const struct script_reap *reap)
{
    char name[SCRIPT_NAME];
    put_u64(name, reap->from);
    script_begin(out, space, call, SCRIPT_REAP_DEAD, 4);
    script_add_i64(out, reap->max);
    script_add(out, reap->living);
    script_add_i64(out, reap->young_us);
    script_add(out, reap->from ? bytes_of(name, sizeof(name)) : (struct bytes){0});
}

/* ---- settings ---- */

static void ask_change_of_settings(struct buf *out, const struct script_space *space,
                                   const struct script_call *call, const struct cmd_topic *topic,
                                   bool removes)
{
    script_begin(out, space, call, SCRIPT_SETTINGS, 6);
    script_add(out, BYTES("c"));
    script_add(out, topic->topic);
    if (topic->if_version) /* larger versions were never given, but clients may send any */
        script_add_i64(out, topic->version <= (uint64_t)SCRIPT_FOREVER ? (int64_t)topic->version
                                                                       : SCRIPT_FOREVER);
    else
        script_add(out, (struct bytes){0});
    script_add(out, topic->settings);
    script_add_i64(out, space->topics_max);
    script_add(out, removes ? BYTES("x") : BYTES(""));
}

void script_encode_configure(struct buf *out, const struct script_space *space,
                             const struct script_call *call, const struct cmd_topic *topic)
{
    ask_change_of_settings(out, space, call, topic, false);
}

void script_encode_unconfigure(struct buf *out, const struct script_space *space,
                               const struct script_call *call, struct bytes topic)
{
    ask_change_of_settings(out, space, call, &(struct cmd_topic){.topic = topic}, true);
}

void script_encode_settings(struct buf *out, const struct script_space *space,
                            const struct script_call *call, uint64_t known, struct bytes from)
{
    script_begin(out, space, call, SCRIPT_SETTINGS, 2);
    script_add(out, from.len ? BYTES("l") : BYTES("f"));
    if (from.len)
        script_add(out, from);
    else
        script_add_i64(out, (int64_t)known);
}
