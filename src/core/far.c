/*
 * Far jobs: delayed, ready and buried jobs that are not in memory. For each of them the core keeps
 * two entries of some eleven bytes in an index (by number and by the client's id), a count in its
 * topic, and for a ready job an entry in topic::far_ready. Everything else is in its record, in a
 * slice of the store.
 *
 *     in memory ─core_spill─▶ `leaving` ─core_depart─▶ far ─core_arrive─▶ in memory, `leaving`
 *
 * While a job is `leaving`, its record in the slice describes it completely. Every change of a job
 * unlinks it (core_unlink) or gives it a new record (core_emit_job); both clear the mark. So a job
 * that was only read departs again to the place it came from, and a job that changes while its
 * slice is being written does not depart.
 *
 * A delayed job that was loaded from its slice and becomes due while enough ready jobs are in
 * memory is far again at once, at the same place. It is ready then, though its record has the state
 * delayed. The index has this in one bit of the place, so the offset in a file has one bit less.
 */
#include "core/far.h"

#include "base/check.h"
#include "base/far_hash.h"
#include "base/mem.h"
#include "base/prefetch.h"
#include "core/far_parts.h"

enum { KEEP_US = 10 * 1000000 }; /* memory of jobs that have departed, for the next ones */

static bool add_places(struct core *core, const struct far_job *job)
{
    uint64_t place = far_place_of(job);
    if (job->where & FAR_IS_READY ||
        !far_index_add(&core->far.places, far_hash_seq(job->seq), place))
        return false;
    /* The index has just accepted this place, so it fails only if the pair exists already. */
    if (job->id_hash && !far_index_add(&core->far.places, job->id_hash, place)) {
        (void)far_index_remove(&core->far.places, far_hash_seq(job->seq), place);
        return false;
    }
    return true;
}

void core_count_far(struct core *core, struct topic *topic, const struct far_count *by)
{
    topic->far[by->state] += by->jobs;
    topic->jobs[by->state] += by->jobs;
    topic->urgent += by->urgent;
    core->totals.jobs[by->state] += by->jobs;
    core->totals.urgent += by->urgent;
    core->far.count += by->jobs;
    core->far.in_state[by->state] += by->jobs;
    core->far.with_id += by->with_id;
    topics_relist(&core->topics, topic);
}

/* Adds `by` to the counts of far jobs; UINT64_MAX subtracts one. */
static void count_one(struct core *core, struct topic *topic, const struct far_job *job,
                      uint64_t by)
{
    bool urgent = job->state == JOB_READY && job->priority < PRIORITY_URGENT;
    core_count_far(core, topic,
                   &(struct far_count){.state = job->state,
                                       .jobs = by,
                                       .with_id = job->id_hash ? by : 0,
                                       .urgent = urgent ? by : 0});
}

/* Removes the job from the index and the counts. False: it is not far. */
static bool take_away(struct core *core, struct topic *topic, const struct far_job *job)
{
    struct far_index *places = &core->far.places;
    uint64_t place = far_place_of(job);
    if (topic->far[job->state] == 0 || !far_index_remove(places, far_hash_seq(job->seq), place))
        return false;
    if (job->id_hash && !far_index_remove(places, job->id_hash, place)) {
        bool kept = far_index_add(places, far_hash_seq(job->seq), place);
        CHECK(kept); /* it was there just before */
        return false;
    }
    count_one(core, topic, job, UINT64_MAX);
    return true;
}

void core_use_far_key(struct core *core, uint64_t key)
{
    core->far.key = key;
    core->far.soon_count = 0;
}

void core_use_far_due(struct core *core, int64_t (*due_by)(void *ctx, uint64_t where), void *ctx)
{
    core->far.due_by = due_by;
    core->far.due_ctx = ctx;
}

static uint64_t in_memory(const struct core *core, enum job_state state)
{
    return core->totals.jobs[state] - core->far.in_state[state];
}

/*
 * If a topic's heap was filled in order, the first jobs in order are at its first places. Otherwise
 * the place is only an estimate, and a wrong choice costs a read later.
 */
bool core_is_behind_front(const struct core *core, const struct job *job)
{
    uint64_t all = in_memory(core, JOB_READY), stay = core->limits.ready_in_memory;
    const struct topic *topic = topics_at(&core->topics, job->topic);
    return stay < all && job->prev >= stay * topic->ready.count / all;
}

static bool may_leave(const struct core *core, const struct job *job, int64_t due_after_us)
{
    switch ((enum job_state)job->state) {
    case JOB_DELAYED: return job->due_us > due_after_us;
    case JOB_READY: return core_is_behind_front(core, job);
    case JOB_BURIED: return in_memory(core, JOB_BURIED) > core->limits.buried_in_memory;
    case JOB_GONE:
    case JOB_RESERVED:
    case JOB_STATES: break;
    }
    return false;
}

bool core_spill(struct core *core, const struct event *event, uint64_t where, int64_t due_after_us,
                struct event *out_job)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (event->kind != EVENT_JOB || number == POOL_NONE)
        return false;
    struct job *job = core_job(core, number);
    if (job->where != where || job->has_notes || !may_leave(core, job, due_after_us))
        return false;
    job->leaving = true;
    if (out_job != event) {
        *out_job = *event;
        out_job->topic = topics_at(&core->topics, job->topic)->name;
    }
    out_job->job = core_job_now(core, job);
    out_job->delay_s = job->delay_s;
    out_job->record = (struct stored){0};
    return true;
}

static void fetch_job(const struct core *core, uint32_t number)
{
    enum { LINE = 64 };
    const char *job = pool_at(&core->jobs, number);
    size_t size_bytes = pool_bytes_of(&core->jobs, number);
    for (size_t at = 0; at < size_bytes; at += LINE)
        prefetch_write(job + at);
    prefetch_write(job + size_bytes - 1); /* jobs are not aligned to cache lines */
}

static struct far_soon soon_of(const struct core *core, uint32_t number)
{
    const struct job *job = core_job(core, number);
    struct bytes id = job_id(job);
    return (struct far_soon){
        .seq = job->seq,
        .number = number,
        .id_hash = far_hash_id(core->far.key, id),
        .in_memory = id.len ? index_hash_id(&core->index, id) : 0,
    };
}

/* Prefetches what core_depart() changes besides the job itself. */
static void fetch_around(struct core *core, uint32_t number, uint64_t seq)
{
    const struct job *job = pool_at(&core->jobs, number);
    if (job->seq != seq || !far_state_possible((enum job_state)job->state))
        return;
    if (job->state == JOB_DELAYED)
        wheel_prefetch(&core->delays, number);
    far_index_prefetch(&core->far.places, far_hash_seq(seq));
    struct far_soon *soon = &core->far.soon[core->far.soon_count++];
    *soon = soon_of(core, number);
    if (!job->id_len)
        return;
    index_prefetch_removal(&core->index, seq, soon->in_memory);
    far_index_prefetch(&core->far.places, soon->id_hash);
}

/* Is it still the same job? Its number may be another one's since, or nobody's. */
static bool is_there(const struct core *core, const struct far_soon *soon)
{
    const struct job *job =
        pool_has(&core->jobs, soon->number) ? core_job(core, soon->number) : NULL;
    return job && job->seq == soon->seq && job->state != JOB_GONE;
}

/* The job, if it is in memory, and the hashes of its id, which never change: from core_fetch(), or
   looked up and computed now. */
static bool take_soon(struct core *core, uint64_t seq, struct far_soon *out_soon)
{
    struct far_jobs *far = &core->far;
    for (uint32_t i = far->soon_next; i < far->soon_count; i++) {
        if (far->soon[i].seq == seq && is_there(core, &far->soon[i])) {
            far->soon_next = i + 1;
            *out_soon = far->soon[i];
            return true;
        }
    }
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = seq});
    if (number != POOL_NONE)
        *out_soon = soon_of(core, number);
    return number != POOL_NONE;
}

/* In steps, each for all jobs: each step loads the addresses that the next step prefetches. */
void core_fetch(struct core *core, const uint64_t *seqs, uint32_t count, bool departs)
{
    uint32_t numbers[CORE_SOON_MAX];
    CHECK(count <= CORE_SOON_MAX);
    core->far.soon_count = core->far.soon_next = 0;
    for (uint32_t i = 0; i < count; i++)
        index_prefetch(&core->index, seqs[i]);
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = index_guess(&core->index, seqs[i]);
        if (numbers[i] != POOL_NONE)
            fetch_job(core, numbers[i]);
    }
    for (uint32_t i = 0; departs && i < count; i++)
        if (numbers[i] != POOL_NONE)
            fetch_around(core, numbers[i], seqs[i]);
}

static struct far_job far_job_of(const struct job *job, uint64_t id_hash, uint64_t where)
{
    return (struct far_job){
        .seq = job->seq,
        .id_hash = id_hash,
        .where = where,
        .state = (enum job_state)job->state,
        .priority = job->priority,
        .rank_us = job_rank_us(job),
    };
}

/* The job as a far job in this state, at the place of its record. */
static struct far_job far_job_as(const struct core *core, const struct job *job,
                                 enum job_state state)
{
    struct far_job far = far_job_of(job, far_hash_id(core->far.key, job_id(job)), job->where);
    far.state = state;
    return far;
}

bool core_add_far(struct core *core, const struct job *job, enum job_state state)
{
    struct topic *topic = topics_at(&core->topics, job->topic);
    struct far_job far = far_job_as(core, job, state);
    bool visits = job->state == JOB_READY && job->leaving; /* its entry was kept */
    if (!add_places(core, &far))
        return false;
    if (state == JOB_READY && !visits)
        far_add_entry(topic, &far);
    count_one(core, topic, &far, 1);
    return true;
}

void core_take_far(struct core *core, const struct job *job, enum job_state state)
{
    struct far_job far = far_job_as(core, job, state);
    (void)take_away(core, topics_at(&core->topics, job->topic), &far); /* false: it was not far */
}

bool core_depart(struct core *core, uint64_t seq, struct stored record)
{
    struct far_soon soon;
    if (!take_soon(core, seq, &soon))
        return false;
    struct job *job = core_job(core, soon.number);
    if (!job->leaving || !far_state_possible((enum job_state)job->state))
        return false;
    struct far_job far = far_job_of(job, soon.id_hash, record.where);
    if (!add_places(core, &far))
        return false;
    struct topic *topic = topics_at(&core->topics, job->topic);
    if (far.state == JOB_READY && job->where != record.where)
        far_add_entry(topic, &far);       /* else it has an entry already */
    (void)core_unlink(core, soon.number); /* it is `job` */
    count_one(core, topic, &far, 1);
    index_remove_hashed(&core->index, soon.number, soon.in_memory);
    job_move(job, JOB_GONE); /* from memory */
    core_forget(core, soon.number);
    core->far.spare_until_us = time_add(core->now_us, KEEP_US);
    return true;
}

bool core_depart_due(struct core *core, uint32_t number)
{
    struct job *job = core_job(core, number);
    struct topic *topic = topics_at(&core->topics, job->topic);
    bool waits = topic->waiters > 0 && topic->pause_until_us == 0;
    if (!job->leaving || !job->in_slice || waits ||
        in_memory(core, JOB_READY) < core->limits.ready_in_memory)
        return false;
    struct far_job far = far_job_as(core, job, JOB_READY);
    if (!add_places(core, &far))
        return false;
    far_add_entry(topic, &far);
    count_one(core, topic, &far, 1);
    index_remove(&core->index, number);
    job_move(job, JOB_GONE); /* from memory */
    core_forget(core, number);
    return true;
}

bool core_return(struct core *core, uint64_t seq, struct stored record)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = seq});
    return number != POOL_NONE && core_job(core, number)->where == record.where &&
           core_depart(core, seq, record);
}

/* The job may be in memory already, for a visit: now it must stay. */
static void stay(struct core *core, const struct event *event)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (number != POOL_NONE && core_job(core, number)->where == event->record.where)
        core_job(core, number)->leaving = false;
}

static struct far_job far_job_in(const struct core *core, const struct event *event,
                                 enum job_state state)
{
    return (struct far_job){
        .seq = event->job.seq,
        .id_hash = far_hash_id(core->far.key, event->id),
        .where = event->record.where,
        .state = state,
        .priority = event->job.priority,
        .rank_us = event_rank_us(event),
    };
}

static struct far_job far_job_at(const struct core *core, const struct event *event)
{
    bool is_ready = core_is_far_ready(core, event->job.seq, event->record.where);
    return far_job_in(core, event, is_ready ? JOB_READY : event->job.state);
}

bool core_far_is_due(const struct core *core, const struct event *event)
{
    const struct far_jobs *far = &core->far;
    return event->job.due_us <= core->now_us ||
           (far->due_by && event->job.due_us <= far->due_by(far->due_ctx, event->record.where));
}

/* The topic of a far job's record; NULL: there is none. */
static struct topic *topic_of(const struct core *core, const struct event *event)
{
    bool possible = event->kind == EVENT_JOB && far_state_possible(event->job.state) &&
                    core_check_job_event(event) == OK;
    return possible ? topics_find(&core->topics, event->topic) : NULL;
}

bool core_arrive(struct core *core, const struct event *event)
{
    struct far_job far = far_job_at(core, event);
    struct topic *topic = topic_of(core, event);
    if (!topic)
        return false;
    if (!take_away(core, topic, &far)) {
        stay(core, event);
        return false;
    }
    uint32_t number = core_restore_job(core, event, topic);
    struct job *job = core_job(core, number);
    job_restore(job, far.state);
    bool falls_due = far.state == JOB_DELAYED && core_far_is_due(core, event);
    enum job_state state = falls_due ? JOB_READY : far.state;
    job->was_due = state == JOB_READY;
    if (falls_due)
        core->unlogged_us = core->now_us;
    job->in_slice = true;
    job->leaving = state == far.state; /* before it is linked: see buried_add() */
    core_link(core, number, state);
    return true;
}

uint32_t core_take_apart(struct core *core, const struct event *event)
{
    struct topic *topic = topic_of(core, event);
    struct far_job far = far_job_in(core, event, event->job.state);
    if (!topic || far.state != JOB_DELAYED || !take_away(core, topic, &far))
        return POOL_NONE; /* if it is ready at this place, too: that is another entry */
    uint32_t number = core_restore_apart(core, event, topic);
    job_restore(core_job(core, number), far.state);
    return number;
}

bool core_near(struct core *core, const struct event *event)
{
    struct far_job far = far_job_at(core, event);
    struct topic *topic = topic_of(core, event);
    if (!topic || far.state != JOB_DELAYED || !core_far_is_due(core, event) ||
        (topic->waiters > 0 && topic->pause_until_us == 0) ||
        in_memory(core, JOB_READY) < core->limits.ready_in_memory)
        return topic && far.state == JOB_DELAYED && core_arrive(core, event);
    if (!take_away(core, topic, &far)) {
        stay(core, event);
        return false;
    }
    far.state = JOB_READY;
    core->unlogged_us = core->now_us;
    bool kept = add_places(core, &far);
    CHECK(kept); /* it was found just before */
    far_add_entry(topic, &far);
    count_one(core, topic, &far, 1);
    return true;
}

static uint32_t find_hashed(const struct core *core, uint64_t hash,
                            uint64_t out_where[static FAR_CANDIDATES_MAX])
{
    uint32_t count = far_index_find(&core->far.places, hash, out_where, FAR_CANDIDATES_MAX);
    for (uint32_t i = 0; i < count; i++)
        out_where[i] &= ~FAR_IS_READY;
    return count;
}

static uint64_t hash_name(const struct core *core, const struct job_ref *ref)
{
    return ref->id.len ? far_hash_id(core->far.key, ref->id) : far_hash_seq(ref->seq);
}

void core_fetch_far(const struct core *core, const struct job_ref *ref)
{
    far_index_prefetch(&core->far.places, hash_name(core, ref));
    if (ref->id.len)
        index_prefetch_id(&core->index, ref->id);
}

void core_fetch_new(const struct core *core, const struct bytes *ids, uint32_t count)
{
    uint64_t hashes[CORE_SOON_MAX];
    CHECK(count <= CORE_SOON_MAX);
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = far_hash_id(core->far.key, ids[i]);
    for (uint32_t i = 0; i < count; i++)
        far_index_prefetch(&core->far.places, hashes[i]);
    for (uint32_t i = 0; i < count; i++)
        index_prefetch_id(&core->index, ids[i]);
}

uint32_t core_far_find(const struct core *core, const struct job_ref *ref,
                       uint64_t out_where[static FAR_CANDIDATES_MAX])
{
    return core->far.count ? find_hashed(core, hash_name(core, ref), out_where) : 0;
}

uint32_t core_far_only(const struct core *core, const struct job_ref *ref, bool is_new,
                       uint64_t out_where[static FAR_CANDIDATES_MAX])
{
    if (core->far.count == 0)
        return 0;
    uint64_t hash = hash_name(core, ref);
    far_index_prefetch(&core->far.places, hash);
    if (!is_new)
        return core_holds(core, ref) ? 0 : find_hashed(core, hash, out_where);
    if (ref->id.len)
        index_prefetch_id(&core->index, ref->id);
    uint32_t count = find_hashed(core, hash, out_where);
    return count && core_holds(core, ref) ? 0 : count;
}

bool core_any_far(const struct core *core)
{
    return core->far.count > 0;
}

bool core_holds(const struct core *core, const struct job_ref *ref)
{
    return index_find(&core->index, ref) != POOL_NONE;
}

bool core_is_far(const struct core *core, uint64_t seq, uint64_t where)
{
    return far_index_has(&core->far.places, far_hash_seq(seq), where) ||
           core_is_far_ready(core, seq, where);
}

bool core_is_far_ready(const struct core *core, uint64_t seq, uint64_t where)
{
    return far_index_has(&core->far.places, far_hash_seq(seq), where | FAR_IS_READY);
}

bool core_has_far(const struct core *core, uint64_t seq, struct bytes id)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    return core_far_find(core, &(struct job_ref){.seq = seq}, places) > 0 ||
           (id.len && core_far_find(core, &(struct job_ref){.id = id}, places) > 0);
}

/* ---- memory, counts and walks ---- */

uint64_t core_memory_left(const struct core *core)
{
    uint64_t most = core->limits.memory_bytes, used = mem_used();
    return most == 0 ? UINT64_MAX : used < most ? most - used : 0;
}

bool core_has_memory(const struct core *core)
{
    return core->limits.memory_bytes == 0 || mem_used() <= core->limits.memory_bytes;
}

void core_far_waits(struct core *core, bool waits)
{
    core->far.waits = waits;
}

uint64_t core_far_count(const struct core *core, struct bytes topic, enum job_state state)
{
    const struct topic *of = core->far.count ? topics_find(&core->topics, topic) : NULL;
    return of ? of->far[state] : 0;
}

uint64_t core_state_count(const struct core *core, struct bytes topic, enum job_state state)
{
    const struct topic *of = topics_find(&core->topics, topic);
    return of ? of->jobs[state] : 0;
}

/* The state of the jobs that the command visits; JOB_GONE: none of these can be far. */
static enum job_state goes_through(const struct topic *topic, const struct cmd *cmd)
{
    enum job_state state = cmd->topic.state;
    if (cmd->kind == CMD_TOPIC)
        return cmd->topic.brief ? JOB_GONE : JOB_DELAYED;
    if (cmd->kind == CMD_KICK_TOPIC && state == JOB_GONE)
        return topic->jobs[JOB_BURIED] ? JOB_BURIED : JOB_DELAYED;
    bool looks = cmd->kind == CMD_LIST || cmd->kind == CMD_PEEK || cmd->kind == CMD_CLEAR_TOPIC ||
                 cmd->kind == CMD_KICK_TOPIC;
    return looks && far_state_possible(state) ? state : JOB_GONE;
}

bool core_wants_far(const struct core *core, const struct cmd *cmd, struct far_after *out_after)
{
    const struct topic *topic =
        core->far.count ? topics_find(&core->topics, cmd->topic.topic) : NULL;
    enum job_state state = topic ? goes_through(topic, cmd) : JOB_GONE;
    if (state == JOB_GONE || topic->far[state] == 0)
        return false;
    if (cmd->kind == CMD_PEEK && state == JOB_READY && !topic_first_far(topic, &core->jobs))
        return false;
    bool backwards = cmd->kind == CMD_LIST && cmd->topic.backwards;
    struct cursor after = cmd->kind == CMD_TOPIC ? core_all_due(core) : core_before_all(backwards);
    struct listing listing = core_listing(cmd->topic.topic, state, backwards);
    if (cmd->kind == CMD_LIST && cmd->topic.cursor.len &&
        cursor_read(&listing, cmd->topic.cursor, &after))
        return false; /* the core refuses it */
    *out_after = (struct far_after){.state = state,
                                    .due_us = after.first,
                                    .seq = after.seq,
                                    .backwards = backwards,
                                    .one = cmd->kind == CMD_PEEK || cmd->kind == CMD_TOPIC};
    return true;
}
