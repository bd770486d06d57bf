#include "laterd/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "laterd/fence.h"
#include "os/tls.h"
#include "server/config/beanstalkd_options.h"
#include "store/format.h"
#include "store/history/history_format.h"
#include "store/slices/far_image.h"
#include "store/slices/slice_format.h"
#include "store/stats.h"

/* After a commit that took half of this, 1 ms, the disk's thread makes the next four: see
 * store_options::inline_us. */
enum { INLINE_COMMIT_US = 2000 };

enum err engine_check(const struct config *config)
{
    return config->engine == ENGINE_REDIS ? engine_redis_check(config) : OK;
}

enum err engine_read_files(const struct config *config, struct redis_login *out_login)
{
    return config->engine == ENGINE_REDIS ? engine_redis_read_files(config, out_login) : OK;
}

int engine_refuse_binlog(const struct command_line *line)
{
    char name[64];
    const char *dir = line->config.data_dir;
    if (!line->persist || !beanstalkd_binlog_find(dir, name, sizeof(name)))
        return 0;
    complain("%s holds a log of beanstalkd (%s), which laterd cannot use: start with "
             "another directory%s, then copy the jobs with: later import beanstalkd %s",
             dir, name,
             line->config.listeners[PROTOCOL_HTTP].count ? "" : " and --http 127.0.0.1:9277", dir);
    return command_line_failed(line, BEANSTALKD_EXIT_DIRECTORY);
}

/* ---- the embedded engine ---- */

/* Only a warning: in containers it is often the only directory there is. */
static void warn_if_exposed(struct os_disk *disk, const char *dir)
{
    struct os_disk_owner owner;
    if (os_disk_exposed(disk, &owner))
        log_event(LOG_WARN, "data_dir_exposed",
                  "dir=%s owner=%ld mode=%04o hint=\"others can replace files of the store: "
                  "chown it to laterd's user, chmod 0700\"",
                  dir, (long)owner.uid, (unsigned)owner.mode);
}

struct foreign {
    unsigned count;
    char first[DISK_NAME_MAX];
};

/* Of a store, or of a file system's own directory. */
static bool is_known_file(const char *name)
{
    static const char *const names[] = {MANIFEST_NAME,  (MANIFEST_NAME ".tmp"),
                                        FAR_IMAGE_NAME, FAR_IMAGE_TMP_NAME,
                                        "LOCK",         "lost+found"};
    uint32_t number;
    bool half_made;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return segment_name_parse(name, &number) || aside_name_parse(name, &number) ||
           slice_name_parse(name, &number) || slice_tmp_name_parse(name, &number) ||
           history_name_parse(name, &number, &half_made);
}

static void count_foreign_file(void *ctx, const char *name)
{
    struct foreign *foreign = ctx;
    if (is_known_file(name))
        return;
    if (foreign->count++)
        return;
    for (size_t i = 0; name[i] && i + 1 < sizeof(foreign->first); i++)
        foreign->first[i] = (unsigned char)name[i] < ' ' || name[i] == '"' ? '?' : name[i];
}

/* The path may be mistyped. The directory is used; other programs' files are not touched. */
static void warn_if_shared(struct disk *disk, const char *dir)
{
    struct foreign foreign = {.count = 0};
    enum err err = disk->verbs->list(disk, count_foreign_file, &foreign);
    if (!err && foreign.count)
        log_event(LOG_WARN, "data_dir_shared",
                  "dir=%s files=%u first=\"%s\" hint=\"these files are not laterd's, and are left "
                  "alone: check store.data_dir, and give laterd a directory of its own\"",
                  dir, foreign.count, foreign.first);
}

static void complain_owner(const struct os_disk_owner *owner)
{
    if (owner->uid == geteuid())
        complain("it, or what is in it, has the mode %04o: chmod -R u+rwX it, or choose another "
                 "(store.data_dir, --data-dir)",
                 (unsigned)owner->mode);
    else
        complain("it, or what is in it, belongs to user %ld, and laterd runs as user %ld: "
                 "chown -R it to laterd's user, or choose another (store.data_dir, --data-dir)",
                 (long)owner->uid, (long)geteuid());
}

struct unusable {
    const struct os_disk *disk;
    const char *dir;
    bool found;
};

static void find_unusable(void *ctx, const char *name)
{
    struct unusable *unusable = ctx;
    struct os_disk_owner owner;
    bool is_ours = is_known_file(name) && strcmp(name, "lost+found") != 0; /* that is root's */
    int failed = !unusable->found && is_ours ? os_disk_may_use(unusable->disk, name, &owner) : 0;
    if (!failed)
        return;
    unusable->found = true;
    complain("cannot use %s in \"%s\", the data directory: %s", name, unusable->dir,
             strerror(failed));
    complain_owner(&owner);
}

/* True: a file of the store is not ours to use, which was printed. A laterd that root once ran in
   the directory by hand leaves such files. */
static bool complain_unusable(const struct laterd_engine *engine, const char *dir)
{
    struct unusable unusable = {.disk = engine->disk, .dir = dir};
    if (!engine->disk)
        return false;
    struct disk *disk = os_disk_port(engine->disk);
    enum err err = disk->verbs->list(disk, find_unusable, &unusable);
    return !err && unusable.found;
}

static void complain_store(const char *dir, enum err err, const struct store_error *error)
{
    const char *colon = error->text[0] ? ": " : "";
    const char *what = err == ERR_UNSUPPORTED ? "this laterd may not open it"
                       : err == ERR_AGAIN /* the only thing that a disk may have no more of now */
                           ? "too few file descriptors: raise LimitNOFILE of the unit, or ulimit -n"
                           : err_text(err);
    if (!error->file[0]) {
        complain("cannot open the store in %s: %s%s%s", dir, what, colon, error->text);
        return;
    }
    complain("cannot open the store in %s: %s", dir, what);
    if (err == ERR_LOCKED)
        complain("%s%s%s: end that one, or use another directory (store.data_dir, --data-dir)",
                 error->file, colon, error->text);
    else if (error->offset == 0) /* of the file as a whole */
        complain("%s%s%s", error->file, colon, error->text);
    else
        complain("%s, byte %llu%s%s", error->file, (unsigned long long)error->offset, colon,
                 error->text);
}

/* False: the reason and what to do is on standard error. */
static bool is_writable(struct os_disk *disk, const char *dir)
{
    struct os_disk_owner owner;
    int closed = os_disk_may_write(disk, &owner);
    int failed = closed ? closed : os_disk_may_create(disk);
    if (!failed)
        return true;
    complain("cannot write in \"%s\", the data directory: %s", dir, strerror(failed));
    if (failed == EROFS)
        complain("its file system is mounted read-only: mount it read-write, or choose another "
                 "directory (store.data_dir, --data-dir)");
    else if (closed)
        complain_owner(&owner);
    else
        complain("no files can be made there: choose another directory (store.data_dir, "
                 "--data-dir)");
    return false;
}

static bool term_ended(const struct laterd_engine *engine, const struct platform *platform)
{
    return engine->member && !engine->member->verbs->holds(engine->member, platform->epoch);
}

static const char *directory_hint(int why)
{
    switch (why) {
    case ENOENT: return "; laterd makes the last folder of a path, not those above";
    case ENOTDIR: return "; it, or a folder above it, is a file";
    case EACCES:
    case EROFS: return "; choose another with --data-dir, or store.data_dir";
    default: return "";
    }
}

/* `why`: errno. A directory that is there, and not ours to enter, is mostly one that root once had
   laterd make. */
static void complain_directory(const char *dir, int why)
{
    struct stat status;
    bool is_there = why == EACCES && stat(dir, &status) == 0;
    complain("cannot use \"%s\" as the data directory: %s%s", dir, strerror(why),
             is_there ? "" : directory_hint(why));
    if (!is_there)
        return;
    struct os_disk_owner owner = {.uid = status.st_uid, .mode = status.st_mode & 07777};
    complain_owner(&owner);
}

/* Opens the data directory. Returns 0, or the exit status, with the reason on standard error. */
static int open_directory(const struct command_line *line, struct platform *platform,
                          struct laterd_engine *engine)
{
    const char *dir = line->config.data_dir;
    if (os_disk_new(dir, &engine->disk)) {
        complain_directory(dir, errno);
        return command_line_failed(line, BEANSTALKD_EXIT_DIRECTORY);
    }
    platform->disk = os_disk_port(engine->disk);
    engine->data_dir = realpath(dir, NULL);
    platform->data_dir = engine->data_dir;
    if (!is_writable(engine->disk, dir))
        return command_line_failed(line, BEANSTALKD_EXIT_DIRECTORY);
    warn_if_exposed(engine->disk, dir);
    warn_if_shared(platform->disk, dir);
    return 0;
}

/* In an election: lets only the leader write to the disk. False: the store was led with our epoch,
   or a higher one. */
static bool fence_disk(struct platform *platform, struct laterd_engine *engine)
{
    engine->fence = fence_new(platform->disk, engine->member, platform->epoch);
    platform->disk = fence_port(engine->fence);
    enum err err = store_last_epoch(platform->disk, &engine->store_epoch);
    return err || engine->store_epoch < platform->epoch; /* store_open() reports errors */
}

static int open_store(const struct command_line *line, struct platform *platform,
                      struct laterd_engine *engine)
{
    struct store_error error = {.text = ""};
    platform->inline_commit_us = INLINE_COMMIT_US;
    struct embedded_options options = assemble_embedded(&line->config, platform);
    options.opening = engine->progress;
    options.opening_owner = engine->progress_owner;
    enum err err = embedded_open(&options, &engine->embedded, &error);
    if (err == ERR_LOCKED && engine->member) {
        engine->opening = OPENING_LOCKED;
        return EXIT_FAILURE;
    }
    if (err && term_ended(engine, platform)) { /* then the fence refused a write, not the disk */
        engine->opening = OPENING_TERM_ENDED;
        return EXIT_FAILURE;
    }
    if (err) {
        if (err != ERR_IO || !complain_unusable(engine, line->config.data_dir))
            complain_store(line->config.data_dir, err, &error);
        return command_line_failed(line, BEANSTALKD_EXIT_DIRECTORY);
    }
    if (error.text[0])
        log_event(LOG_WARN, "store_notice", "file=%s offset=%llu text=\"%s\"", error.file,
                  (unsigned long long)error.offset, error.text);
    return 0;
}

static int open_embedded(const struct command_line *line, struct platform *platform,
                         struct laterd_engine *engine)
{
    int status = line->persist ? open_directory(line, platform, engine) : 0;
    if (status)
        return status;
    if (line->persist && engine->member && !fence_disk(platform, engine)) {
        engine->opening = OPENING_LOWER_EPOCH;
        return EXIT_FAILURE;
    }
    return open_store(line, platform, engine);
}

static void log_embedded(const struct laterd_engine *engine, const char *dir)
{
    struct core_totals totals;
    struct store_stats stats = {0};
    core_totals(embedded_core(engine->embedded), &totals);
    if (embedded_store(engine->embedded))
        store_stats(embedded_store(engine->embedded), &stats);
    log_event(LOG_INFO, "store_opened",
              "dir=%s delayed=%llu ready=%llu reserved=%llu buried=%llu segments=%llu ms=%lld "
              "dropped_tail_bytes=%llu",
              dir, (unsigned long long)totals.jobs[JOB_DELAYED],
              (unsigned long long)totals.jobs[JOB_READY],
              (unsigned long long)totals.jobs[JOB_RESERVED],
              (unsigned long long)totals.jobs[JOB_BURIED], (unsigned long long)stats.segments,
              (long long)(stats.recovery_us / 1000), (unsigned long long)stats.dropped_tail_bytes);
}

/* ---- both engines ---- */

int engine_open(const struct command_line *line, struct platform *platform,
                struct laterd_engine *out_engine)
{
    if (line->config.engine == ENGINE_REDIS)
        return engine_redis_open(line, platform, out_engine);
    return open_embedded(line, platform, out_engine);
}

int64_t engine_stand_by(const struct command_line *line, const struct platform *platform,
                        struct laterd_engine *engine)
{
    if (line->config.engine != ENGINE_REDIS)
        return INT64_MAX;
    return engine_redis_stand_by(line, platform, engine);
}

void engine_log(const struct laterd_engine *engine, const struct command_line *line)
{
    const struct config *config = &line->config;
    if (engine->redis)
        log_event(LOG_INFO, "redis_opened", "prefix=%s partitions=%u", config->redis_prefix,
                  engine_redis_partitions(engine->redis));
    else
        log_embedded(engine, !line->persist     ? "none"
                             : engine->data_dir ? engine->data_dir
                                                : config->data_dir);
}

void engine_offer(const struct laterd_engine *engine, struct server_options *options)
{
    options->engine =
        engine->redis ? engine_redis_port(engine->redis) : embedded_engine(engine->embedded);
}

unsigned engine_descriptors(const struct command_line *line, const struct platform *platform)
{
    bool stores = line->config.engine != ENGINE_REDIS && line->persist;
    return stores ? store_descriptors(platform->store_files_max) : 0;
}

void engine_watch(struct laterd_engine *engine, struct os_loop *loop)
{
    if (!engine->disk)
        return;
    engine->loop = loop;
    os_loop_wake_by(loop, os_disk_eventfd(engine->disk));
}

void engine_stop(struct laterd_engine *engine)
{
    if (engine->stopped)
        return;
    engine->stopped = true;
    embedded_stop(engine->embedded);
    engine_redis_stop(engine->redis);
}

void engine_close(struct laterd_engine *engine)
{
    engine_stop(engine);
    embedded_close(engine->embedded);
    engine_redis_close(engine);
    tls_free(engine->tls);
    if (engine->loop)
        os_loop_forget(engine->loop, os_disk_eventfd(engine->disk));
    fence_free(engine->fence);
    os_disk_free(engine->disk);
    free(engine->data_dir); /* realpath()'s */
    *engine = (struct laterd_engine){.member = engine->member,
                                     .journal = engine->journal,
                                     .login = engine->login,
                                     .progress = engine->progress,
                                     .progress_owner = engine->progress_owner};
}
