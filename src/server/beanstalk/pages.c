#include "server/beanstalk/pages.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "server/config/beanstalkd_options.h"

bool beanstalk_is_tube(const struct topic_view *topic)
{
    uint64_t holds = topic->waiters + (topic->pause_until_us != 0);
    for (int state = JOB_DELAYED; state < JOB_STATES; state++)
        holds += topic->jobs[state];
    return holds > 0;
}

/* ---- one tube ---- */

bool beanstalk_tube_page(struct server *server, struct bytes name, const struct reply *reply,
                         struct buf *yaml)
{
    const struct beanstalk_tube *tube = beanstalk_tubes_find(&server->beanstalk.tubes, name);
    const struct topic_view *topic = reply->err ? NULL : reply->topics;
    if (!tube && (!topic || !beanstalk_is_tube(topic)))
        return false;
    struct beanstalk_tube_stats stats = {
        .topic = topic,
        .name = name,
        .using = tube ? tube->users : 0,
        .watching = tube ? tube->watchers : 0,
    };
    beanstalk_yaml_tube(yaml, &stats, server->loop->now_us);
    return true;
}

/* ---- the whole server ---- */

static int64_t microseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

static void add_process(struct beanstalk_stats *stats)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail for ourselves */
    stats->pid = (uint64_t)getpid();
    stats->user_us = microseconds(usage.ru_utime);
    stats->system_us = microseconds(usage.ru_stime);
}

static void add_counts(const struct server *server, const struct engine_stats *totals,
                       struct beanstalk_stats *stats)
{
    const struct beanstalk_shared *shared = &server->beanstalk;
    memcpy(stats->jobs, totals->jobs, sizeof(stats->jobs));
    memcpy(stats->cmds, shared->cmds, sizeof(stats->cmds));
    stats->urgent = totals->urgent;
    stats->timeouts = totals->timeouts;
    stats->total_jobs = totals->pushed;
    stats->waiting = totals->waiters;
    stats->max_job_size = (uint32_t)server->options.config->job_bytes;
    stats->connections = shared->connections;
    stats->producers = shared->producers;
    stats->workers = shared->workers;
    stats->total_connections = shared->accepted;
    stats->binlog_oldest = totals->log.file_first;
    stats->binlog_current = totals->log.file_last;
    stats->binlog_max_bytes = totals->log.file_bytes_max;
    stats->binlog_written = totals->log.records_written;
    stats->binlog_migrated = totals->log.jobs_relocated;
}

void beanstalk_stats_page(struct server *server, const struct engine_stats *totals, uint64_t tubes,
                          struct buf *yaml)
{
    char id[17];
    struct utsname host = {0};
    (void)uname(&host); /* cannot fail: the memory is ours */
    (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)server->options.instance);
    struct beanstalk_stats stats = {
        .tubes = tubes,
        .version = BYTES(BEANSTALKD_VERSION),
        .uptime_s = (server->loop->now_us - server->started_us) / 1000000,
        .draining = server->draining || server->refusing_pushes,
        .id = bytes_of(id, sizeof(id) - 1),
        .hostname = bytes_str(host.nodename),
        .os = bytes_str(host.version),
        .platform = bytes_str(host.machine),
    };
    add_process(&stats);
    add_counts(server, totals, &stats);
    beanstalk_yaml_stats(yaml, &stats);
}
