/*
 * The longest single step of the embedded engine on a disk, in stores that are large in one way
 * each (PLAYS). longest.h says what is shown. `begin` and `end` are those of a turn, `turn` is both
 * of one turn; what the disk's threads do is not counted.
 *
 *     longest_store_bench [--play NAME] [--jobs N] [--topics N] [DIRECTORY]
 *
 * The store is in a new directory, made within DIRECTORY (/var/tmp) and removed at the end. Nothing
 * else in DIRECTORY is read, written or removed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "bench/lone_core.h"
#include "bench/longest.h"
#include "bench/new_directory.h"
#include "engine/embedded/embedded.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/heap_return.h"
#include "store/follower.h"

enum {
    BODY_MAX = 4096,
    PER_TURN = 100, /* commands */
    DAY_US_IN_SECONDS = 86400,
    FILES = 512,
    SEGMENTS_KEPT = 8,
    NEAR_JOBS = 200, /* of `rewrite`: pushed and deleted in each turn */
    FOLLOWER_STEP = 64 * 1024,
};

/* What a store is made of, and what is done to it besides asking and cancelling. */
struct play {
    const char *name;
    uint64_t jobs;
    uint64_t segment_bytes, checkpoint_bytes;
    size_t body_len;
    bool far;        /* jobs leave the log for slices */
    bool history;    /* is kept, and asked for */
    bool rewrite;    /* some jobs of each slice are cancelled, and the log is gone round */
    bool draws_near; /* the clock goes on until all jobs have come back */
    bool follows;    /* somebody reads the log from its beginning */
    bool backup;     /* all files are linked into another directory meanwhile, again and again */
    bool lists;      /* it is closed and opened again, and all jobs are listed, in pages */
    bool comes;      /* while they are listed jobs come, and others leave the log */
};

static const struct play plays[] = {
    {"slices", 1000000, 256 * 1024, 1024 * 1024, 64, .far = true},
    {"history", 1000000, 16 * 1024 * 1024, 64 * 1024 * 1024, 64, .far = true, .history = true},
    {"many-slices", 500000, 256 * 1024, 1024 * 1024, 1000, .far = true, .history = true,
     .rewrite = true},
    {"draws-near", 500000, 256 * 1024, 1024 * 1024, 1000, .far = true, .draws_near = true},
    {"large-slices", 700000, 8 * 1024 * 1024, 16 * 1024 * 1024, 4000, .far = true, .rewrite = true},
    {"segments", 300000, 64 * 1024, 0, 1000, .follows = true},
    {"backup", 250000, 256 * 1024, 1024 * 1024, 1000, .far = true, .backup = true},
    {"lists", 1000000, 256 * 1024, 1024 * 1024, 256, .far = true, .lists = true},
    {"lists-while-cleaning", 400000, 256 * 1024, 1024 * 1024, 256, .lists = true, .far = true,
     .comes = true},
    {"lists-in-memory", 1000000, 16 * 1024 * 1024, 0, 100, .lists = true},
};

struct bed {
    const struct play *play;
    const char *directory;
    int64_t ahead_us; /* of the clock */
    struct os_clock clock;
    struct loop loop;
    struct os_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    struct ticket ticket;
    bool answered;
    uint64_t jobs, topics;
    uint64_t listed, pushed;
    char cursor[CURSOR_BYTES];
    size_t cursor_len;
    struct heap_return heap;
    struct longest begins, ends, turns, heaps;
};

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct bed *bed = (struct bed *)((char *)ticket - offsetof(struct bed, ticket));
    CHECK(reply->err == OK);
    bed->answered = true;
}

/* Of a command that may have failed. */
static void ended(struct ticket *ticket, const struct reply *reply)
{
    struct bed *bed = (struct bed *)((char *)ticket - offsetof(struct bed, ticket));
    (void)reply;
    bed->answered = true;
}

/* Of a listing. */
static void listed(struct ticket *ticket, const struct reply *reply)
{
    struct bed *bed = (struct bed *)((char *)ticket - offsetof(struct bed, ticket));
    CHECK(reply->err == OK && reply->cursor.len <= CURSOR_BYTES);
    memcpy(bed->cursor, reply->cursor.at, reply->cursor.len);
    bed->cursor_len = reply->cursor.len;
    bed->listed += reply->count;
    bed->answered = true;
}

static void open_bed(struct bed *bed)
{
    const struct play *play = bed->play;
    struct store_error error;
    os_clock_init(&bed->clock);
    bed->loop = (struct loop){.clock = &bed->clock.clock};
    bed->loop.now_us = bed->clock.clock.now_us(&bed->clock.clock);
    CHECK(os_disk_new(bed->directory, &bed->disk) == OK);
    struct embedded_options options = {
        .limits = {.jobs = UINT32_MAX,
                   .topics = UINT32_MAX,
                   .waiters = 16,
                   .memory_bytes = UINT64_MAX},
        .store = {.disk = os_disk_port(bed->disk),
                  .segment_bytes = play->segment_bytes,
                  .recent_bytes = 1024 * 1024,
                  .body_max = 1024 * 1024,
                  .files_max = FILES,
                  .horizon_us = play->far ? 1000000 : 0,
                  .checkpoint_bytes = play->checkpoint_bytes,
                  .slices_few = UINT32_MAX,
                  .history_us = play->history ? INT64_C(86400000000) : 0,
                  .now_us = bed->loop.now_us},
        .durability = DURABILITY_OS,
        .hash_key = 42,
        .now_us = bed->loop.now_us,
        .loop = &bed->loop,
    };
    options.store.buffered = true;
    if (embedded_open(&options, &bed->embedded, &error)) {
        (void)fprintf(stderr, "%s: %s\n", error.file, error.text);
        exit(1);
    }
    bed->engine = embedded_engine(bed->embedded);
    bed->ticket.answered = answered;
}

static void close_bed(struct bed *bed)
{
    embedded_close(bed->embedded);
    os_disk_free(bed->disk);
}

/* All of a turn but commands. The disk has some time. */
static void turn(struct bed *bed)
{
    bed->loop.now_us = bed->clock.clock.now_us(&bed->clock.clock) + bed->ahead_us;
    skip(&bed->begins);
    skip(&bed->turns);
    bed->engine->verbs->begin(bed->engine);
    step(&bed->begins);
    skip(&bed->ends);
    (void)bed->engine->verbs->end(bed->engine);
    step(&bed->ends);
    step(&bed->turns);
    skip(&bed->heaps);
    (void)heap_return_turn(&bed->heap, bed->loop.now_us, mem_used());
    step(&bed->heaps);
}

static void begin_stage(struct bed *bed, const char *stage)
{
    static char names[4][40];
    static const char *const parts[] = {"begin", "end", "turn", "heap"};
    struct longest *const all[] = {&bed->begins, &bed->ends, &bed->turns, &bed->heaps};
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s: %s", stage, parts[i]);
        *all[i] = begin(names[i]);
    }
}

static void end_stage(const struct bed *bed)
{
    show(&bed->begins);
    show(&bed->ends);
    show(&bed->turns);
    show(&bed->heaps);
}

static struct store_stats stats_of(const struct bed *bed)
{
    struct store_stats stats;
    store_stats(embedded_store(bed->embedded), &stats);
    return stats;
}

/* Until the log is as small as cleaning makes it. */
static void settle(struct bed *bed, const char *stage)
{
    uint64_t segments = UINT64_MAX;
    begin_stage(bed, stage);
    for (unsigned i = 0; i % 10000 || segments > stats_of(bed).segments; i++) {
        if (i % 10000 == 0)
            segments = stats_of(bed).segments;
        turn(bed);
        (void)usleep(100);
    }
    end_stage(bed);
}

/* The cleaner goes no faster than jobs come, and the disk's thread builds slices meanwhile. */
static void let_clean(struct bed *bed)
{
    for (unsigned i = 0; i < 50 && bed->play->far && stats_of(bed).segments > SEGMENTS_KEPT; i++) {
        turn(bed);
        (void)usleep(50);
    }
}

static void push_one(struct bed *bed, struct longest *push)
{
    static char body[BODY_MAX];
    uint64_t i = bed->pushed++;
    char topic[24], id[24];
    (void)snprintf(topic, sizeof(topic), "t%" PRIu64, i % bed->topics);
    (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(i));
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(id),
                               .topic = bytes_str(topic),
                               .due_us = bed->loop.now_us +
                                         (int64_t)(mixed(i) % DAY_US_IN_SECONDS + 3600) * 1000000,
                               .ttr_us = 60000000,
                               .body = bytes_of(body, bed->play->body_len)}};
    skip(push);
    (void)bed->engine->verbs->submit(bed->engine, &cmd, NULL);
    step(push);
}

static void fill(struct bed *bed)
{
    begin_stage(bed, "fill");
    struct longest push = begin("fill: push");
    for (uint64_t i = 0; i < bed->jobs; i++) {
        push_one(bed, &push);
        while (i % PER_TURN == PER_TURN - 1) {
            turn(bed);
            if (bed->engine->verbs->health(bed->engine) == OK)
                break;
            os_disk_port(bed->disk)->verbs->wait(os_disk_port(bed->disk)); /* it is behind */
        }
        if (i % PER_TURN == PER_TURN - 1)
            let_clean(bed);
    }
    show(&push);
    end_stage(bed);
}

static void ask(struct bed *bed, const char *what, const struct cmd *cmd)
{
    struct longest submit = begin(what);
    for (unsigned i = 0; i < 200; i++) {
        bed->answered = false;
        skip(&submit);
        (void)bed->engine->verbs->submit(bed->engine, cmd, &bed->ticket);
        step(&submit);
        for (unsigned turns = 0; turns < 20000 && !bed->answered; turns++)
            turn(bed);
    }
    show(&submit);
}

/* What asks for all slices. */
static void ask_all(struct bed *bed)
{
    int64_t until_us[] = {bed->loop.now_us + 600000000, bed->loop.now_us + 40000000000};
    struct longest shown = begin("ask: metrics");
    begin_stage(bed, "ask");
    ask(bed, "ask: due",
        &(struct cmd){.kind = CMD_DUE, .topic = {.until_us = until_us, .until_count = 2}});
    ask(bed, "ask: topics, stats, due_within",
        &(struct cmd){.kind = CMD_TOPICS,
                      .topic = {.max = 100, .stats = true, .due_within = true}});
    ask(bed, "ask: list",
        &(struct cmd){.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t0"), .max = 100, .state = JOB_DELAYED}});
    char id[24];
    (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(0));
    if (bed->play->history)
        ask(bed, "ask: history",
            &(struct cmd){.kind = CMD_GET, .job = {.ref.id = bytes_str(id), .history = true}});
    end_stage(bed);
    for (unsigned i = 0; i < 200; i++) {
        skip(&shown);
        (void)stats_of(bed);
        step(&shown);
    }
    show(&shown);
}

/* Processor time of all threads. */
static double cpu_of_all(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* Of jobs that come between two pages. */
static void push_some(struct bed *bed)
{
    enum { TURNS = 10, JOBS = 200 };
    struct longest push = begin("list: push");
    for (unsigned i = 0; i < TURNS; i++) {
        for (unsigned k = 0; k < JOBS / TURNS; k++)
            push_one(bed, &push);
        turn(bed);
    }
}

/* Pages of one topic until there are no more. */
static void list(struct bed *bed, const char *stage, bool backwards)
{
    enum { PAGE = 1000, TURNS_MAX = 10000000 };
    double took = 0;
    uint64_t pages = 0;
    bed->ticket.answered = listed;
    bed->listed = bed->cursor_len = 0;
    begin_stage(bed, stage);
    do {
        char cursor[CURSOR_BYTES];
        memcpy(cursor, bed->cursor, sizeof(cursor));
        struct cmd cmd = {.kind = CMD_LIST,
                          .topic = {.topic = BYTES("t0"),
                                    .max = PAGE,
                                    .state = JOB_DELAYED,
                                    .backwards = backwards,
                                    .cursor = bytes_of(cursor, bed->cursor_len)}};
        double began = cpu_of_all();
        bed->answered = false;
        (void)bed->engine->verbs->submit(bed->engine, &cmd, &bed->ticket);
        for (unsigned turns = 0; turns < TURNS_MAX && !bed->answered; turns++)
            turn(bed);
        CHECK(bed->answered);
        took += cpu_of_all() - began;
        pages++;
        if (bed->play->comes)
            push_some(bed);
    } while (bed->cursor_len > 0);
    bed->ticket.answered = answered;
    end_stage(bed);
    printf("-- %s: %" PRIu64 " jobs, %" PRIu64 " pages, %.2f us of CPU a job, in all threads\n",
           stage, bed->listed, pages, took * 1e6 / (double)bed->listed);
}

static void close_and_open(struct bed *bed)
{
    enum { TURNS = 1000 };
    double began = cpu_of_all();
    close_bed(bed);
    printf("-- closed: %.2f s of CPU\n", cpu_of_all() - began);
    began = cpu_of_all();
    open_bed(bed);
    printf("-- opened: %.2f s of CPU\n", cpu_of_all() - began);
    begin_stage(bed, "first turns");
    for (unsigned i = 0; i < TURNS; i++)
        turn(bed);
    end_stage(bed);
}

/* As clients do, it waits for answers. */
static void cancel(struct bed *bed, const char *stage, uint64_t each)
{
    begin_stage(bed, stage);
    bed->ticket.answered = ended;
    for (uint64_t i = 0; i < bed->jobs; i += each) {
        char id[24];
        (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(i));
        struct cmd cmd = {.kind = CMD_DELETE, .job = {.ref.id = bytes_str(id)}};
        bool waits = i / each % PER_TURN == PER_TURN - 1;
        bed->answered = false;
        (void)bed->engine->verbs->submit(bed->engine, &cmd, waits ? &bed->ticket : NULL);
        for (unsigned turns = 0; waits && turns < 20000 && !bed->answered; turns++)
            turn(bed);
    }
    bed->ticket.answered = answered;
    end_stage(bed);
}

/* Near jobs come and go until all that the log has about slices was cleaned, and is in it again. */
static void rewrite(struct bed *bed)
{
    static char body[BODY_MAX];
    uint64_t last = stats_of(bed).segment_tail + 2;
    begin_stage(bed, "rewrite");
    while (stats_of(bed).segment_first <= last) {
        for (unsigned i = 0; i < NEAR_JOBS; i++) {
            char id[24];
            (void)snprintf(id, sizeof(id), "near%u", i);
            (void)bed->engine->verbs->submit(
                bed->engine,
                &(struct cmd){.kind = CMD_PUSH,
                              .push = {.id = bytes_str(id),
                                       .topic = BYTES("near"),
                                       .due_us = bed->loop.now_us + 500000,
                                       .ttr_us = 60000000,
                                       .body = bytes_of(body, 100)}},
                NULL);
            (void)bed->engine->verbs->submit(
                bed->engine, &(struct cmd){.kind = CMD_DELETE, .job = {.ref.id = bytes_str(id)}},
                NULL);
        }
        turn(bed);
        let_clean(bed);
    }
    end_stage(bed);
}

/* The clock goes on by a second in each of 100,000 turns, longer than any job's delay (25 hours);
   then the disk has the time that it needs. */
static void draw_near(struct bed *bed)
{
    begin_stage(bed, "draw near");
    for (unsigned i = 0; i < 100000 || (stats_of(bed).slices > 0 && i < 1000000); i++) {
        bed->ahead_us += i < 100000 ? 1000000 : 0;
        turn(bed);
    }
    end_stage(bed);
}

static void batch_read(struct follower_callbacks *callbacks, const struct batch_head *head,
                       const char *batch)
{
    (void)callbacks;
    (void)head;
    (void)batch;
}

static void follow(struct bed *bed, struct follower *follower)
{
    struct follower_callbacks callbacks = {.whole = batch_read};
    struct longest read = begin("follow: read");
    bool more = true;
    while (more) {
        skip(&read);
        enum err err = follower_read(follower, &callbacks, FOLLOWER_STEP, &more);
        step(&read);
        more = more || err == ERR_AGAIN;
        turn(bed);
    }
    show(&read);
    follower_remove(follower);
}

/* ---- a backup that is made again and again ---- */

struct backups {
    pthread_t thread;
    char from[NEW_DIRECTORY_BYTES], into[NEW_DIRECTORY_BYTES];
    atomic_bool ends;
    unsigned count;
};

static void link_one(void *ctx, const char *name)
{
    const struct backups *backups = ctx;
    char from[NEW_DIRECTORY_BYTES + NAME_MAX + 1], into[NEW_DIRECTORY_BYTES + NAME_MAX + 1];
    (void)snprintf(from, sizeof(from), "%s/%s", backups->from, name);
    (void)snprintf(into, sizeof(into), "%s/%s", backups->into, name);
    if (link(from, into) != 0)
        CHECK(errno == ENOENT); /* it has just been removed */
}

static void *make_backups(void *ctx)
{
    struct backups *backups = ctx;
    struct os_disk *disk;
    CHECK(os_disk_new(backups->from, &disk) == OK);
    for (; !atomic_load(&backups->ends); backups->count++) {
        (void)os_disk_port(disk)->verbs->list(os_disk_port(disk), link_one, backups);
        new_directory_clear(backups->into);
    }
    os_disk_free(disk);
    return NULL;
}

static void start_backups(struct backups *backups, const char *directory)
{
    char within[NEW_DIRECTORY_BYTES];
    (void)snprintf(within, sizeof(within), "%s/..", directory);
    (void)snprintf(backups->from, sizeof(backups->from), "%s", directory);
    CHECK(new_directory_make(within, backups->into));
    CHECK(pthread_create(&backups->thread, NULL, make_backups, backups) == 0);
}

static void end_backups(struct backups *backups)
{
    atomic_store(&backups->ends, true);
    (void)pthread_join(backups->thread, NULL);
    (void)rmdir(backups->into);
    printf("-- %u backups\n", backups->count);
}

static void say(const struct bed *bed, const char *when)
{
    struct store_stats stats = stats_of(bed);
    printf("-- %s: %" PRIu64 " slices, %" PRIu64 " jobs in them, %" PRIu64 " segments, %" PRIu64
           " files of history, %" PRIu64 " bytes\n",
           when, (uint64_t)stats.slices, stats.slice_jobs, (uint64_t)stats.segments,
           (uint64_t)stats.history_files, stats.history_bytes);
}

static void run(struct bed *bed)
{
    struct follower *follower = NULL;
    static struct backups backups;
    open_bed(bed);
    if (bed->play->backup)
        start_backups(&backups, bed->directory);
    if (bed->play->follows)
        CHECK(follower_open((struct store *)embedded_store(bed->embedded), BYTES("bench"),
                            &follower) == OK);
    fill(bed);
    say(bed, "filled");
    settle(bed, "settle");
    say(bed, "settled");
    if (follower)
        follow(bed, follower);
    if (bed->play->lists) {
        close_and_open(bed);
        list(bed, "list", false);
        list(bed, "list backwards", true);
        say(bed, "listed");
    }
    ask_all(bed);
    if (bed->play->rewrite) {
        cancel(bed, "cancel some", 50);
        rewrite(bed);
        say(bed, "rewritten");
    }
    if (bed->play->draws_near) {
        draw_near(bed);
        say(bed, "drawn near");
    }
    cancel(bed, "cancel", 1);
    settle(bed, "cancelled");
    say(bed, "cancelled");
    if (bed->play->backup)
        end_backups(&backups);
    close_bed(bed);
}

int main(int count, char **args)
{
    char directory[NEW_DIRECTORY_BYTES];
    static struct bed bed;
    const char *only = text_after(args, count, "--play");
    if (!new_directory_make(count % 2 == 0 ? args[count - 1] : NULL, directory))
        return 1;
    heap_return_begin(); /* as laterd has it */
    for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++) {
        if (only && strcmp(only, plays[i].name) != 0)
            continue;
        bed = (struct bed){.play = &plays[i], .directory = directory};
        bed.jobs = number_after(args, count, "--jobs", plays[i].jobs);
        bed.topics = number_after(args, count, "--topics", 10);
        printf("-- %s\n", plays[i].name);
        run(&bed);
        new_directory_clear(directory);
    }
    (void)rmdir(directory);
    return 0;
}
