#include "cli/import/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"

enum { WINDOW_BYTES = 256 * 1024, FINGERPRINT_BYTES = 4096, PATH_ROOM = 4096 };

/* ---- the directory ---- */

static bool path_of(const struct import_log *log, const char *name, char *room)
{
    int len = snprintf(room, PATH_ROOM, "%s/%s", log->directory, name);
    if (len > 0 && len < PATH_ROOM)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

static int open_file(const struct import_log *log, uint32_t file)
{
    char name[40], path[PATH_ROOM];
    (void)snprintf(name, sizeof(name), "binlog.%llu",
                   (unsigned long long)log->files[file]); /* it fits */
    return path_of(log, name, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/*
 * beanstalkd holds a write lock on the whole file. A read lock conflicts with that just as well,
 * and needs no right to write.
 */
static enum err take_lock(struct import_log *log)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char path[PATH_ROOM];
    if (!path_of(log, "lock", path))
        return ERR_IO;
    log->lock = open(path, O_RDONLY | O_CLOEXEC);
    if (log->lock < 0)
        return errno == ENOENT ? OK : ERR_IO; /* a copy may have been made without it */
    if (fcntl(log->lock, F_SETLK, &lock) == 0)
        return OK;
    return errno == EAGAIN || errno == EACCES ? ERR_LOCKED : ERR_IO;
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static enum err list_files(struct import_log *log)
{
    DIR *directory = opendir(log->directory);
    if (!directory)
        return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct bytes name = bytes_str(entry->d_name), start = BYTES("binlog.");
        uint64_t number;
        if (!bytes_starts(name, start) ||
            !bytes_to_u64(bytes_of(name.at + start.len, name.len - start.len), &number))
            continue;
        log->files = mem_realloc(log->files, (log->file_count + 1) * sizeof(*log->files));
        log->files[log->file_count++] = number;
    }
    (void)closedir(directory); /* only read from */
    if (log->file_count == 0)
        return ERR_NOT_FOUND;
    qsort(log->files, log->file_count, sizeof(*log->files), by_number);
    return OK;
}

static bool is_job(const void *ctx, uint32_t number, const void *key)
{
    const struct import_job *job = pool_at(ctx, number);
    return job->id == *(const uint64_t *)key;
}

static bool is_tube(const void *ctx, uint32_t number, const void *key)
{
    const struct import_tube *tube = pool_at(ctx, number);
    return bytes_eq(bytes_str(tube->name), *(const struct bytes *)key);
}

enum err import_log_open(struct import_log *log, const char *directory)
{
    log->directory = directory;
    log->lock = log->body_fd = -1;
    log->body_file = UINT32_MAX;
    pool_init(&log->pool, sizeof(struct import_job));
    pool_init(&log->tubes, sizeof(struct import_tube));
    map_init(&log->by_id, is_job, &log->pool);
    map_init(&log->by_name, is_tube, &log->tubes);
    enum err err = list_files(log);
    return err ? err : take_lock(log);
}

void import_log_close(struct import_log *log)
{
    for (uint32_t i = pool_next(&log->tubes, 0); i != POOL_NONE; i = pool_next(&log->tubes, i + 1))
        mem_free(((struct import_tube *)pool_at(&log->tubes, i))->name);
    map_fini(&log->by_id);
    map_fini(&log->by_name);
    pool_fini(&log->pool);
    pool_fini(&log->tubes);
    mem_free(log->jobs);
    mem_free(log->files);
    if (log->body_fd >= 0)
        (void)close(log->body_fd); /* only read from */
    if (log->lock >= 0)
        (void)close(log->lock); /* which ends the lock */
}

/* ---- a file ---- */

/* A file under way: `window` holds its bytes from `start` on. */
struct reader {
    struct import_log *log;
    uint32_t file;
    uint32_t version;
    int fd;
    uint64_t size_bytes;
    uint64_t at; /* where the next record begins */
    uint64_t start;
    struct buf window;
};

/* The rest of the file from this place on cannot be used. `why` is a clause. */
static void skip_rest(struct reader *reader, const char *why)
{
    struct import_log *log = reader->log;
    char line[200];
    log->bad++;
    log->bad_bytes += reader->size_bytes - reader->at;
    (void)snprintf(line, sizeof(line),
                   "binlog.%llu: %s at byte %llu; the %llu bytes from there on "
                   "are skipped",
                   (unsigned long long)log->files[reader->file], why,
                   (unsigned long long)reader->at,
                   (unsigned long long)(reader->size_bytes - reader->at)); /* it fits */
    log->print_line(log->ctx, line);
    reader->at = reader->size_bytes;
}

static enum err read_at(int fd, uint64_t at, char *room, size_t len, size_t *out_len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t count = pread(fd, room + done, len - done, (off_t)(at + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return ERR_IO;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    *out_len = done;
    return OK;
}

/* The bytes from reader->at on: at least a record's head, unless the file ends before. */
static enum err look(struct reader *reader, struct bytes *out_bytes)
{
    uint64_t end = reader->start + reader->window.len;
    if (reader->at < reader->start || reader->at + BINLOG_HEAD_MAX > end) {
        reader->window.len = 0;
        buf_reserve(&reader->window, WINDOW_BYTES);
        reader->start = reader->at;
        enum err err =
            read_at(reader->fd, reader->at, reader->window.at, WINDOW_BYTES, &reader->window.len);
        if (err)
            return err;
    }
    size_t skip = (size_t)(reader->at - reader->start);
    *out_bytes = bytes_of(reader->window.at + skip, reader->window.len - skip);
    return OK;
}

static bool only_zeros(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.at[i] != '\0')
            return false;
    }
    return true;
}

/* ---- jobs ---- */

static uint32_t tube_named(struct import_log *log, struct bytes name)
{
    uint64_t hash = XXH3_64bits(name.at, name.len);
    uint32_t number = map_find(&log->by_name, hash, &name);
    if (number != MAP_NONE)
        return number;
    number = pool_take(&log->tubes);
    struct import_tube *tube = pool_at(&log->tubes, number);
    tube->name = mem_zalloc(name.len + 1);
    memcpy(tube->name, name.at, name.len);
    map_add(&log->by_name, hash, number);
    return number;
}

static void take_state(struct import_job *job, const struct binlog_record *record)
{
    /* Its consumer's connection has ended, so it is ready. */
    job->state = record->state == BINLOG_RESERVED ? BINLOG_READY : record->state;
    job->priority = record->priority;
    job->ttr_us = record->ttr_us;
    job->created_us = record->created_us;
    job->due_us = record->state == BINLOG_DELAYED ? record->due_us : record->created_us;
}

/* Applies one record. False: it contradicts earlier ones, so it is not a record. */
static bool apply(struct reader *reader, const struct binlog_record *record)
{
    struct import_log *log = reader->log;
    uint64_t hash = XXH3_64bits(&record->id, sizeof(record->id));
    uint32_t number = map_find(&log->by_id, hash, &record->id);
    bool whole = record->tube.len > 0;
    if (number == MAP_NONE && !whole)
        return true; /* a job that is long gone */
    if (number != MAP_NONE) {
        const struct import_job *known = pool_at(&log->pool, number);
        if (known->body_len != record->body_len)
            return false;
    }
    if (record->state == BINLOG_GONE) {
        map_remove(&log->by_id, hash, number);
        pool_give(&log->pool, number);
        return true;
    }
    if (number == MAP_NONE) {
        number = pool_take(&log->pool);
        struct import_job *fresh = pool_at(&log->pool, number);
        fresh->id = record->id;
        fresh->body_len = record->body_len;
        map_add(&log->by_id, hash, number);
    }
    struct import_job *job = pool_at(&log->pool, number);
    take_state(job, record);
    if (whole) {
        job->tube = tube_named(log, record->tube);
        job->file = reader->file;
        job->body_at = reader->at + record->head_len;
    }
    return true;
}

/* One record, or the file's end (then reader->at is its size). */
static enum err read_record(struct reader *reader)
{
    struct binlog_record record;
    struct bytes bytes;
    enum err err = look(reader, &bytes);
    if (err)
        return err;
    err = binlog_decode(reader->version, bytes, &record);
    if (err == ERR_EMPTY || (err == ERR_AGAIN && only_zeros(bytes))) {
        reader->at = reader->size_bytes;
        return OK;
    }
    if (err) {
        skip_rest(reader, err == ERR_AGAIN ? "the file ends within a record" : "no record");
        return OK;
    }
    uint64_t len = record.head_len;
    if (record.tube.len > 0)
        len += (uint64_t)record.body_len + BINLOG_END_BYTES;
    if (len > reader->size_bytes - reader->at)
        skip_rest(reader, "the file ends within a job's body");
    else if (!apply(reader, &record))
        skip_rest(reader, "a record that contradicts an earlier one");
    else
        reader->at += len;
    return OK;
}

static enum err read_records(struct reader *reader)
{
    struct bytes bytes;
    enum err err = look(reader, &bytes);
    if (err)
        return err;
    if (reader->file == 0) {
        size_t len = bytes.len < FINGERPRINT_BYTES ? bytes.len : FINGERPRINT_BYTES;
        reader->log->fingerprint = (uint32_t)XXH3_64bits(bytes.at, len);
    }
    err = binlog_version(bytes, &reader->version);
    if (err == ERR_EMPTY || bytes.len == 0)
        return OK; /* made, and never written to */
    if (err) {
        skip_rest(reader, "not a binlog of version 5 or 7");
        return OK;
    }
    reader->at = BINLOG_VERSION_BYTES;
    err = OK;
    while (!err && reader->at < reader->size_bytes)
        err = read_record(reader);
    return err;
}

static enum err read_file(struct import_log *log, uint32_t file, struct buf *window)
{
    struct reader reader = {.log = log, .file = file, .window = *window};
    struct stat stat;
    reader.fd = open_file(log, file);
    if (reader.fd < 0)
        return ERR_IO;
    reader.window.len = 0;
    enum err err = ERR_IO;
    if (fstat(reader.fd, &stat) == 0) {
        reader.size_bytes = (uint64_t)stat.st_size;
        err = read_records(&reader);
    }
    *window = reader.window;
    (void)close(reader.fd); /* only read from */
    return err;
}

/* beanstalkd takes files away only at the front. */
static void report_gap(struct import_log *log, uint32_t file)
{
    char line[100];
    log->bad++;
    (void)snprintf(line, sizeof(line), "the files between binlog.%llu and binlog.%llu are missing",
                   (unsigned long long)log->files[file - 1],
                   (unsigned long long)log->files[file]); /* it fits */
    log->print_line(log->ctx, line);
}

static int by_id(const void *a, const void *b)
{
    const struct import_job *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Collects the jobs that are left at the end, in order of id. */
static void gather(struct import_log *log)
{
    log->jobs = mem_alloc((log->pool.count ? log->pool.count : 1) * sizeof(*log->jobs));
    for (uint32_t i = pool_next(&log->pool, 0); i != POOL_NONE; i = pool_next(&log->pool, i + 1)) {
        const struct import_job *job = pool_at(&log->pool, i);
        uint32_t number = map_find(&log->by_id, XXH3_64bits(&job->id, sizeof(job->id)), &job->id);
        if (number != i)
            continue; /* a free one; its link to the next may look like an id */
        struct import_tube *tube = pool_at(&log->tubes, job->tube);
        tube->jobs[job->state]++;
        log->jobs[log->job_count++] = *job;
    }
    qsort(log->jobs, log->job_count, sizeof(*log->jobs), by_id);
    map_fini(&log->by_id);
    pool_fini(&log->pool);
    pool_init(&log->pool, sizeof(struct import_job));
    map_init(&log->by_id, is_job, &log->pool);
}

enum err import_log_read(struct import_log *log)
{
    struct buf window = {0};
    enum err err = OK;
    for (uint32_t i = 0; !err && i < log->file_count; i++) {
        if (i > 0 && log->files[i] != log->files[i - 1] + 1)
            report_gap(log, i);
        err = read_file(log, i, &window);
    }
    buf_fini(&window);
    if (!err)
        gather(log);
    return err;
}

const struct import_tube *import_log_tube(const struct import_log *log, uint32_t number)
{
    return pool_at(&log->tubes, number);
}

enum err import_log_body(struct import_log *log, const struct import_job *job, struct buf *out)
{
    size_t len = (size_t)job->body_len + BINLOG_END_BYTES;
    if (log->body_fd < 0 || log->body_file != job->file) {
        if (log->body_fd >= 0)
            (void)close(log->body_fd); /* only read from */
        log->body_fd = open_file(log, job->file);
        log->body_file = job->file;
        if (log->body_fd < 0)
            return ERR_IO;
    }
    out->len = 0;
    buf_reserve(out, len);
    enum err err = read_at(log->body_fd, job->body_at, out->at, len, &out->len);
    if (err)
        return err;
    if (out->len < len || !binlog_body_whole(buf_bytes(out)))
        return ERR_CORRUPT;
    out->len = job->body_len;
    return OK;
}
