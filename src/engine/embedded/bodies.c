/*
 * Owns the replies that wait for bodies, and the jobs that were reserved and are not delivered. If
 * all bodies are in memory the reply is sent at once. Otherwise it waits, as a copy, until the
 * disk's threads have read them; later replies may be sent before it.
 *
 * A job is reserved when the reply is made, so that no other client gets it. Its consumer still has
 * the whole ttr: while the body is being read the lease does not expire, and the ttr counts from
 * the sending of the reply. A job that is deleted or replaced meanwhile is removed from the reply
 * (P5); a RESERVE that has none left reserves again, and waits for the rest of its time.
 *
 * Invariant: the jobs of a waiting RESERVE are reserved under the lease that its reply shows, but
 * for those that a client has deleted, replaced or moved since.
 */
#include <stdatomic.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/embedded/parts.h"

enum {
    READ_NS = 1000,        /* work for reading a body, and */
    READ_MIN = 64,         /* bodies of a reserve that are read even if the budget is spent */
    READ_BYTES_PER_NS = 4, /* for checking and copying it */
    FETCH_NS = 500,        /* for asking the disk for one */
    SETTLE_NS = 1500,      /* for giving back one job */
    STEPS_MIN = 16,        /* replies or jobs handled even if the budget is spent */
    UNREAD_WAIT_US = 1000 * 1000, /* before a job that could not be read is tried again */
    RENEW_US = 10 * 1000 * 1000,  /* leases in waiting replies are renewed for at least this time */
    RENEW_AHEAD_US = 500 * 1000,  /* … so long before their end, if the budget allows it */
    RENEW_NS = 150,               /* work for renewing one */
    HELD_BYTES = 16 * 1024 * 1024, /* above this a reply that must wait gets one job only */
    AHEAD_JOBS = 32,               /* jobs of a topic whose bodies are read ahead */
};

/* A job that was reserved, and then its body could not be read, or its client has gone. */
struct unread {
    uint64_t seq;
    uint64_t lease;
    enum err err; /* ERR_AGAIN: reading was not tried */
};

/* A body or a note that is being read, for one job of a reply. */
struct wanted_body {
    struct body_fetch fetch;
    uint32_t job;          /* its place in the reply */
    struct job_note *note; /* NULL: it is the body */
};

/* Notes that a GET shows, and those of them that are to be read. */
struct shown_notes {
    struct job_note *notes; /* in the scratch arena; NULL: none */
    struct body_place places[JOB_NOTES_MAX];
    bool cold[JOB_NOTES_MAX];
    uint32_t count, cold_count;
};

/* Allocated in one block with its jobs, copies of what they borrowed from the core, and
   `wanted`. */
struct body_waiter {
    struct waiting_reply head;
    struct list link;
    struct heap_node renewal; /* in bodies::renewals, if its jobs have leases */
    struct embedded *embedded;
    struct reply reply;
    struct cmd_reserve reserve; /* RESERVE: what for, … */
    int64_t reserve_until_us;   /* … and how long it waits */
    uint32_t left;              /* bodies that have not come yet */
    uint32_t wanted_count;
    struct wanted_body *wanted;
    size_t size_bytes;
    struct arena bodies;    /* those that were in memory */
    struct reply_hold hold; /* taken: the receiver of the answer owns the whole block */
    atomic_uint users;      /* while it is answered: answer(), and the receiver, on any thread */
};

/* ---- jobs that are not handed out ---- */

static void note_unread(struct bodies *bodies, const struct job_view *job, enum err err)
{
    buf_add(&bodies->unread, &(struct unread){.seq = job->ref.seq, .lease = job->lease, .err = err},
            sizeof(struct unread));
}

/*
 * A failed read may be temporary; the delay lets other jobs of the topic go first. A job whose read
 * was not tried keeps its place.
 */
static void give_back(struct embedded *embedded, const struct unread *unread)
{
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job = {.ref.seq = unread->seq,
                .lease = unread->lease,
                .why = RELEASE_UNDELIVERED,
                .has_delay = unread->err != ERR_AGAIN,
                .due_us = embedded->loop->now_us + UNREAD_WAIT_US},
    };
    /* The job may have gone meanwhile: then there is nothing to give back. */
    (void)core_apply(embedded->core, embedded->loop->now_us, &cmd, NULL);
}

/* Gives back jobs, and buries those with damaged bodies, so that an operator sees them. False:
 * there is more to do. */
static bool settle_unread(struct embedded *embedded)
{
    struct bodies *bodies = &embedded->bodies;
    for (unsigned step = 0; bodies->settled_bytes < bodies->unread.len; step++) {
        if (step >= STEPS_MIN && budget_spent(embedded->budget))
            return false;
        budget_spend(embedded->budget, SETTLE_NS);
        struct unread unread;
        memcpy(&unread, bodies->unread.at + bodies->settled_bytes, sizeof(unread));
        bodies->settled_bytes += sizeof(unread);
        if (unread.err == ERR_DAMAGED)
            core_bury_damaged(embedded->core, embedded->loop->now_us, unread.seq, unread.lease);
        else
            give_back(embedded, &unread);
    }
    bodies->unread.len = 0;
    bodies->settled_bytes = 0;
    return true;
}

/* Removes the job from the reply, because its body cannot be read. */
static void remove_job(struct embedded *embedded, struct reply *reply, const struct job_view *job,
                       enum err err)
{
    bool damaged = err == ERR_DAMAGED;
    log_event(LOG_ERROR, damaged ? "body_damaged" : "body_unread", "job=%llu error=%s hint=\"%s\"",
              (unsigned long long)job->ref.seq, err_name(err),
              damaged ? "the stored body does not match its checksum, and is not handed out: look "
                        "at the disk; see Damage in operations.md"
                      : "it is tried again: look at the disk if this goes on");
    if (cmd_traits(reply->kind)->takes_jobs)
        note_unread(&embedded->bodies, job, err);
    reply->err = err;
}

/* Gives back all its jobs, without counting an attempt. */
static void give_back_all(struct embedded *embedded, const struct reply *reply)
{
    for (uint32_t i = 0; i < reply->count && cmd_traits(reply->kind)->takes_jobs; i++)
        note_unread(&embedded->bodies, &reply->jobs[i], ERR_AGAIN);
}

/* ---- bodies that are in memory ---- */

struct body_place bodies_place(const struct job_view *job)
{
    return (struct body_place){
        .seq = job->ref.seq,
        .where = job->where,
        .content_type_len = job->content_type_len,
        .body_len = job->body_len,
        .record_bytes = job->record_bytes,
    };
}

static void show(struct job_view *job, const struct body_content *content)
{
    job->content_type = content->content_type;
    job->body = content->body;
    job->properties = content->properties;
}

/* See store_read(). */
static enum err read_content(struct embedded *embedded, const struct body_place *place,
                             struct body_content *out_content)
{
    struct bodies *bodies = &embedded->bodies;
    if (embedded->store)
        return store_read(embedded->store, place, &bodies->scratch, out_content);
    memory_records_read(&bodies->memory, place, out_content);
    return OK;
}

enum err bodies_read(struct embedded *embedded, struct job_view *job)
{
    struct body_place place = bodies_place(job);
    struct body_content content;
    budget_spend(embedded->budget, READ_NS + job->body_len / READ_BYTES_PER_NS);
    enum err err = read_content(embedded, &place, &content);
    if (!err)
        show(job, &content);
    return err;
}

/*
 * Fills in what is in memory, or in the page cache. Jobs whose bodies are damaged leave the reply,
 * and so do those of a RESERVE for which there is no time because reading took longer than
 * estimated: a later one gets them. Those whose bodies are to be read have no .body.at afterwards.
 * Returns how many they are.
 */
static uint32_t read_bodies(struct embedded *embedded, struct reply *reply)
{
    uint32_t good = 0, cold = 0;
    bool full = embedded->bodies.held_bytes >= HELD_BYTES;
    bool takes = cmd_traits(reply->kind)->takes_jobs;
    for (uint32_t i = 0; i < reply->count; i++) {
        struct job_view *job = &reply->jobs[i];
        bool late = i >= READ_MIN && good > 0 && takes && budget_spent(embedded->budget);
        enum err err = late ? ERR_AGAIN : bodies_read(embedded, job);
        if (late || (err == ERR_AGAIN && full && good > 0)) {
            note_unread(&embedded->bodies, job, err); /* for a later reserve */
            continue;
        }
        if (err == ERR_AGAIN) {
            job->body.at = NULL;
            cold++;
        } else if (err) {
            remove_job(embedded, reply, job, err);
            continue;
        }
        if (good < i) /* one before it has left */
            reply->jobs[good] = *job;
        good++;
    }
    if (good)
        reply->err = OK;
    reply->count = good;
    return cold;
}

/* ---- notes ---- */

static void show_note(struct job_note *note, const struct note_head *head, struct bytes text)
{
    *note = (struct job_note){.at_us = head->at_us, .code = head->code, .text = text};
}

/* OK; ERR_AGAIN: it must be read from the disk; another error: the note is lost, and not shown. */
static enum err read_note(struct embedded *embedded, const struct body_place *place,
                          struct job_note *note)
{
    struct body_content content;
    if (place->where == 0)
        return ERR_DAMAGED;
    enum err err = read_content(embedded, place, &content);
    if (!err)
        show_note(note, &content.note, content.body);
    return err;
}

/* Fills in the notes of the job that a GET shows, as far as they are in memory. */
static void read_notes(struct embedded *embedded, struct reply *reply,
                       struct shown_notes *out_shown)
{
    struct note_place found[JOB_NOTES_MAX];
    out_shown->notes = NULL;
    out_shown->cold_count = out_shown->count = 0;
    if (reply->kind != CMD_GET || reply->count == 0 || reply->jobs->last_note_us == 0)
        return;
    uint64_t seq = reply->jobs->ref.seq;
    uint32_t count = core_note_places(embedded->core, seq, found);
    struct job_note *notes =
        arena_alloc(&embedded->bodies.scratch, JOB_NOTES_MAX * sizeof(struct job_note));
    for (uint32_t i = 0; i < count; i++) {
        out_shown->places[i] = (struct body_place){.seq = seq,
                                                   .where = found[i].stored.where,
                                                   .record_bytes = found[i].stored.bytes,
                                                   .is_note = true};
        notes[i] = (struct job_note){0};
        budget_spend(embedded->budget, READ_NS);
        out_shown->cold[i] = read_note(embedded, &out_shown->places[i], &notes[i]) == ERR_AGAIN;
        out_shown->cold_count += out_shown->cold[i];
    }
    out_shown->notes = notes;
    out_shown->count = count;
    reply->jobs->notes = notes;
    reply->jobs->note_count = (uint8_t)count;
}

/* ---- bodies that are to be read ---- */

static void fetched(struct body_fetch *fetch)
{
    struct body_waiter *waiter = fetch->owner;
    CHECK(waiter->left > 0);
    if (--waiter->left > 0)
        return;
    list_remove(&waiter->link);
    list_add_tail(&waiter->embedded->bodies.whole, &waiter->link);
}

static size_t retry_bytes(const struct job_view *job)
{
    return job->retry_count * sizeof(job->retry_us[0]);
}

static size_t reserve_bytes(const struct reply *reply)
{
    size_t size = 0;
    for (uint32_t i = 0; reply->reserve && i < reply->reserve->topic_count; i++)
        size += sizeof(struct bytes) + reply->reserve->topics[i].len;
    return size;
}

/* Copies what a RESERVE asked for: the topics into `topics`, their names into `room`. */
static char *copy_reserve(struct body_waiter *waiter, struct bytes *topics, char *room)
{
    if (!waiter->reply.reserve)
        return room;
    waiter->reserve = *waiter->reply.reserve;
    for (uint32_t i = 0; i < waiter->reserve.topic_count; i++) {
        topics[i] = waiter->reserve.topics[i];
        room = bytes_move_to(room, &topics[i]);
    }
    waiter->reserve.topics = topics;
    waiter->reply.reserve = &waiter->reserve;
    return room;
}

/* A copy of the reply that borrows nothing from the core. */
static struct body_waiter *waiter_new(const struct reply *reply, uint32_t wanted)
{
    size_t size = sizeof(struct body_waiter) + reply->count * sizeof(struct job_view) +
                  wanted * sizeof(struct wanted_body) + reserve_bytes(reply);
    for (uint32_t i = 0; i < reply->count; i++)
        size += reply->jobs[i].ref.id.len + reply->jobs[i].topic.len + retry_bytes(&reply->jobs[i]);
    struct body_waiter *waiter = mem_zalloc(size);
    waiter->size_bytes = size;
    waiter->reply = *reply;
    waiter->wanted = (struct wanted_body *)(void *)(waiter + 1);
    struct job_view *jobs = (struct job_view *)(void *)(waiter->wanted + wanted);
    struct bytes *topics = (struct bytes *)(void *)(jobs + reply->count);
    uint32_t topic_count = reply->reserve ? reply->reserve->topic_count : 0;
    int64_t *retry_us = (int64_t *)(void *)(topics + topic_count);
    for (uint32_t i = 0; i < reply->count; i++) {
        jobs[i] = reply->jobs[i];
        if (jobs[i].retry_count)
            memcpy(retry_us, jobs[i].retry_us, retry_bytes(&jobs[i]));
        jobs[i].retry_us = retry_us;
        retry_us += jobs[i].retry_count;
    }
    char *room = (char *)retry_us;
    for (uint32_t i = 0; i < reply->count; i++) {
        room = bytes_move_to(room, &jobs[i].ref.id);
        room = bytes_move_to(room, &jobs[i].topic);
    }
    room = copy_reserve(waiter, topics, room);
    CHECK(room == (char *)waiter + size);
    waiter->reply.jobs = jobs;
    return waiter;
}

static int64_t first_until_us(const struct reply *reply)
{
    int64_t first_us = INT64_MAX;
    for (uint32_t i = 0; i < reply->count && cmd_traits(reply->kind)->takes_jobs; i++)
        if (reply->jobs[i].until_us < first_us)
            first_us = reply->jobs[i].until_us;
    return first_us;
}

static void plan_renewal(struct bodies *bodies, struct body_waiter *waiter)
{
    int64_t until_us = first_until_us(&waiter->reply);
    if (until_us < INT64_MAX)
        heap_put(&bodies->renewals, &waiter->renewal, until_us);
    else
        heap_remove(&bodies->renewals, &waiter->renewal);
}

static void add_fetch(struct body_waiter *waiter, const struct body_place *place, uint32_t job,
                      struct job_note *note)
{
    struct wanted_body *wanted = &waiter->wanted[waiter->wanted_count++];
    wanted->job = job;
    wanted->note = note;
    wanted->fetch.place = *place;
    wanted->fetch.done = fetched;
    wanted->fetch.owner = waiter;
    store_fetch(waiter->embedded->store, &wanted->fetch);
    budget_spend(waiter->embedded->budget, FETCH_NS);
}

static void wait_for_bodies(struct embedded *embedded, struct ticket *ticket,
                            const struct reply *reply, uint32_t cold,
                            const struct shown_notes *shown)
{
    struct bodies *bodies = &embedded->bodies;
    struct body_waiter *waiter = waiter_new(reply, cold + shown->cold_count);
    waiter->head = (struct waiting_reply){
        .ticket = ticket, .why = WAITS_FOR_BODIES, .may_park = waiter->reserve.wait_us > 0};
    waiter->embedded = embedded;
    waiter->reserve_until_us = time_add(embedded->loop->now_us, waiter->reserve.wait_us);
    if (cold < reply->count || shown->notes) { /* the others' bodies lie there, and notes */
        waiter->bodies = bodies->scratch;
        waiter->size_bytes += bodies->scratch.held;
        bodies->scratch = (struct arena){0};
    }
    waiter->left = cold + shown->cold_count;
    for (uint32_t i = 0; i < reply->count; i++) {
        struct body_place place = bodies_place(&reply->jobs[i]);
        if (!reply->jobs[i].body.at)
            add_fetch(waiter, &place, i, NULL);
    }
    for (uint32_t i = 0; i < shown->count; i++)
        if (shown->cold[i])
            add_fetch(waiter, &shown->places[i], 0, &shown->notes[i]);
    CHECK(waiter->wanted_count == waiter->left);
    ticket->held = &waiter->head;
    list_add_tail(&bodies->reading, &waiter->link);
    embedded->read_waiter_count++;
    bodies->held_bytes += waiter->size_bytes;
    plan_renewal(bodies, waiter);
}

/* Remembers the topic, because the bodies of its next jobs will probably be needed and be read from
 * disk. */
static void note_ahead(struct bodies *bodies, struct bytes topic)
{
    for (uint32_t i = 0; i < bodies->ahead_count; i++)
        if (bytes_eq(bytes_of(bodies->ahead[i].name, bodies->ahead[i].len), topic))
            return;
    if (bodies->ahead_count == AHEAD_TOPICS)
        return;
    CHECK(topic.len <= sizeof(bodies->ahead[0].name));
    bodies->ahead[bodies->ahead_count].len = topic.len;
    memcpy(bodies->ahead[bodies->ahead_count].name, topic.at, topic.len);
    bodies->ahead_count++;
}

void bodies_reply(struct embedded *embedded, struct ticket *ticket, const struct reply *reply)
{
    struct bodies *bodies = &embedded->bodies;
    struct reply full = *reply;
    bool takes = cmd_traits(reply->kind)->takes_jobs;
    if (takes && embedded->store && store_failed(embedded->store)) { /* a wait that just ended */
        give_back_all(embedded, reply);
        ticket->answered(ticket, &(struct reply){.err = ERR_STORE_FAILED, .kind = reply->kind});
        return;
    }
    struct shown_notes shown;
    uint32_t cold = read_bodies(embedded, &full);
    read_notes(embedded, &full, &shown);
    if (cold || shown.cold_count)
        wait_for_bodies(embedded, ticket, &full, cold, &shown);
    else
        ticket->answered(ticket, &full);
    if (embedded->store && store_wants_read_ahead(embedded->store) && reply->kind == CMD_RESERVE)
        note_ahead(bodies, reply->jobs[0].topic);
    arena_reset(&bodies->scratch); /* not at the turn's end: a turn reads many bodies */
}

void bodies_read_ahead(struct embedded *embedded)
{
    struct bodies *bodies = &embedded->bodies;
    struct body_place places[AHEAD_JOBS];
    for (uint32_t i = 0; i < bodies->ahead_count; i++) {
        struct bytes topic = bytes_of(bodies->ahead[i].name, bodies->ahead[i].len);
        const struct job *jobs[AHEAD_JOBS];
        uint32_t count = core_next_ready(embedded->core, topic, jobs, AHEAD_JOBS);
        for (uint32_t j = 0; j < count; j++)
            places[j] = (struct body_place){
                .seq = jobs[j]->seq,
                .where = jobs[j]->where,
                .content_type_len = jobs[j]->content_type_len,
                .body_len = jobs[j]->body_len,
                .record_bytes = jobs[j]->has_properties ? jobs[j]->record_bytes : 0,
            };
        store_read_ahead(embedded->store, places, count);
    }
    bodies->ahead_count = 0;
}

/* ---- answering ---- */

/* Takes the waiter out of all lists: from now on it only owns memory. */
static void unlink_waiter(struct body_waiter *waiter)
{
    struct embedded *embedded = waiter->embedded;
    for (uint32_t i = 0; i < waiter->wanted_count; i++) {
        struct body_fetch *fetch = &waiter->wanted[i].fetch;
        char *bytes = waiter->hold.taken ? store_fetch_take(embedded->store, fetch) : NULL;
        store_fetch_end(embedded->store, fetch);
        fetch->bytes = bytes;
    }
    list_remove(&waiter->link);
    heap_remove(&embedded->bodies.renewals, &waiter->renewal);
    embedded->read_waiter_count--;
    embedded->bodies.held_bytes -= waiter->size_bytes;
}

static void free_memory(struct body_waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->wanted_count; i++)
        mem_free(waiter->wanted[i].fetch.bytes);
    arena_fini(&waiter->bodies);
    mem_free(waiter);
}

/* Drops one user; the last one frees it. A worker may finish before answered() has returned. */
static void drop(struct body_waiter *waiter)
{
    if (atomic_fetch_sub(&waiter->users, 1) == 1)
        free_memory(waiter);
}

static void release(struct reply_hold *hold)
{
    drop(LIST_ENTRY(hold, struct body_waiter, hold));
}

static void waiter_free(struct body_waiter *waiter)
{
    unlink_waiter(waiter);
    free_memory(waiter);
}

/* The duration of the job's reservation, counted from its delivery. */
static int64_t run_us(const struct reply *reply, const struct job_view *job)
{
    return reply->reserve && reply->reserve->ttr_us > 0 ? reply->reserve->ttr_us : job->ttr_us;
}

/* False: the job was deleted or replaced meanwhile, and must be removed from the reply. */
static bool still_reserved(struct embedded *embedded, struct reply *reply, struct job_view *job)
{
    if (!cmd_traits(reply->kind)->takes_jobs ||
        core_restart_lease(embedded->core, embedded->loop->now_us, job->ref.seq, job->lease,
                           run_us(reply, job), &job->until_us))
        return true;
    if (!reply->err)
        reply->err = reply->kind == CMD_RESERVE ? ERR_EMPTY : ERR_NOT_FOUND;
    return false;
}

/* Puts the bodies that were read into the reply; jobs whose bodies could not be read are
   removed. */
static void fill_in(struct embedded *embedded, struct body_waiter *waiter)
{
    struct reply *reply = &waiter->reply;
    uint32_t good = 0, next = 0;
    for (uint32_t i = 0; i < reply->count; i++) {
        struct job_view *job = &reply->jobs[i];
        enum err err = OK;
        for (; next < waiter->wanted_count && waiter->wanted[next].job == i; next++) {
            const struct body_fetch *fetch = &waiter->wanted[next].fetch;
            struct job_note *note = waiter->wanted[next].note;
            if (!note)
                err = fetch->err;
            if (note && !fetch->err) /* else it is lost; the job is not */
                show_note(note, &fetch->content.note, fetch->content.body);
            else if (!note && !err)
                show(job, &fetch->content);
        }
        if (err) {
            remove_job(embedded, reply, job, err);
            continue;
        }
        if (!still_reserved(embedded, reply, job))
            continue;
        reply->jobs[good++] = *job;
    }
    if (good)
        reply->err = OK;
    reply->count = good;
}

/* All jobs of a RESERVE are gone: submits it again, as if it had found none. */
static void reserve_again(struct embedded *embedded, struct body_waiter *waiter,
                          struct ticket *ticket)
{
    struct cmd cmd = {.kind = CMD_RESERVE, .reserve = waiter->reserve};
    int64_t until_us = waiter->reserve_until_us;
    cmd.reserve.wait_us = until_us > embedded->loop->now_us ? until_us - embedded->loop->now_us : 0;
    uint64_t parked = core_apply(embedded->core, embedded->loop->now_us, &cmd, ticket);
    if (parked)
        ticket->parked = parked; /* not answered yet, so the ticket is valid */
}

static void answer(struct embedded *embedded, struct body_waiter *waiter)
{
    struct ticket *ticket = waiter->head.ticket;
    struct reply *reply = &waiter->reply;
    ticket->held = NULL;
    atomic_store(&waiter->users, 2);
    if (cmd_traits(reply->kind)->takes_jobs && store_failed(embedded->store)) {
        give_back_all(embedded, reply);
        ticket->answered(ticket, &(struct reply){.err = ERR_STORE_FAILED, .kind = reply->kind});
    } else {
        fill_in(embedded, waiter);
        waiter->hold.release = release;
        reply->hold = &waiter->hold;
        if (reply->err == ERR_EMPTY && !embedded->draining)
            reserve_again(embedded, waiter, ticket);
        else
            ticket->answered(ticket, reply);
    }
    unlink_waiter(waiter);
    if (!waiter->hold.taken)
        drop(waiter);
    drop(waiter);
}

void bodies_cancel(struct embedded *embedded, struct waiting_reply *reply)
{
    struct body_waiter *waiter = LIST_ENTRY(reply, struct body_waiter, head);
    for (uint32_t i = 0; i < waiter->wanted_count; i++)
        store_fetch_end(embedded->store, &waiter->wanted[i].fetch);
    list_remove(&waiter->link);
    list_add_tail(&embedded->bodies.given_up, &waiter->link);
}

static bool turn(struct embedded *embedded)
{
    struct bodies *bodies = &embedded->bodies;
    unsigned steps = 0;
    while (!list_empty(&bodies->whole) || !list_empty(&bodies->given_up)) {
        if (steps++ >= STEPS_MIN && budget_spent(embedded->budget))
            return false;
        bool given_up = !list_empty(&bodies->given_up);
        struct list *list = given_up ? &bodies->given_up : &bodies->whole;
        struct body_waiter *waiter = LIST_ENTRY(list->next, struct body_waiter, link);
        budget_spend(embedded->budget, (int64_t)waiter->reply.count * READ_NS);
        if (!given_up) {
            answer(embedded, waiter);
            continue;
        }
        give_back_all(embedded, &waiter->reply);
        waiter_free(waiter);
    }
    return true;
}

void bodies_turn(struct embedded *embedded)
{
    bool all = turn(embedded);
    if (!settle_unread(embedded) || !all)
        embedded->busy = true;
}

void bodies_fail_all(struct embedded *embedded)
{
    struct bodies *bodies = &embedded->bodies;
    struct budget *budget = embedded->budget;
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = &embedded->unlimited;
    while (!list_empty(&bodies->reading)) {
        struct body_waiter *waiter = LIST_ENTRY(bodies->reading.next, struct body_waiter, link);
        struct ticket *ticket = waiter->head.ticket;
        ticket->held = NULL;
        ticket->answered(ticket,
                         &(struct reply){.err = ERR_STORE_FAILED, .kind = waiter->reply.kind});
        bodies_cancel(embedded, &waiter->head);
    }
    bodies_turn(embedded);
    CHECK(list_empty(&bodies->reading) && bodies->unread.len == 0);
    embedded->budget = budget;
}

/* ---- leases of jobs that wait ---- */

/* Those that end by then. */
static void renew(struct embedded *embedded, struct body_waiter *waiter, int64_t until_us)
{
    struct reply *reply = &waiter->reply;
    budget_spend(embedded->budget, (int64_t)reply->count * RENEW_NS);
    for (uint32_t i = 0; i < reply->count; i++) {
        struct job_view *job = &reply->jobs[i];
        int64_t least_us = run_us(reply, job) > RENEW_US ? run_us(reply, job) : RENEW_US;
        if (job->until_us <= until_us &&
            !core_restart_lease(embedded->core, embedded->loop->now_us, job->ref.seq, job->lease,
                                least_us, &job->until_us))
            job->until_us = INT64_MAX; /* its lease is gone: no longer renewed here */
    }
    plan_renewal(&embedded->bodies, waiter);
}

/* Renews what ends soon, as far as the budget goes, but of one reply at least. */
bool bodies_renew_leases(struct embedded *embedded)
{
    int64_t now_us = embedded->loop->now_us, ahead_us = now_us + RENEW_AHEAD_US;
    struct heap_node *first;
    unsigned steps = 0;
    while ((first = heap_first(&embedded->bodies.renewals)) && first->key <= ahead_us) {
        if (steps++ > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return first->key > now_us;
        }
        renew(embedded, LIST_ENTRY(first, struct body_waiter, renewal), ahead_us);
    }
    return true;
}

int64_t bodies_renew_next_us(const struct embedded *embedded)
{
    const struct heap_node *first = heap_first(&embedded->bodies.renewals);
    return first ? first->key - RENEW_AHEAD_US : INT64_MAX;
}

/* ---- life ---- */

void bodies_init(struct bodies *bodies)
{
    list_init(&bodies->reading);
    list_init(&bodies->whole);
    list_init(&bodies->given_up);
    memory_records_init(&bodies->memory);
}

void bodies_fini(struct bodies *bodies)
{
    arena_fini(&bodies->scratch);
    buf_fini(&bodies->unread);
    heap_fini(&bodies->renewals);
    memory_records_fini(&bodies->memory);
}
