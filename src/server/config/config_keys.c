/*
 * The table of keys: name, kind, range, default and help of each. Nothing else knows a default:
 * config_init(), `laterd --print-config` and docs/config.md come from here.
 */
#include <assert.h>
#include <stddef.h>

#include "proto/sdmq/job_id.h"
#include "server/config/config_parts.h"

#define NUMBER(field) CONFIG_NUMBER(struct config, field)
#define WORD(field)   CONFIG_WORD(struct config, field)
#define DAY           ((int64_t)86400 * 1000000)
#define GIB           ((int64_t)1 << 30)

const struct config_key config_keys[] = {
    {"server", "http", KIND_LISTENER, PROTOCOL_HTTP, 0, 0, "127.0.0.1:9277,delay-queue",
     "Where to listen, and which dialect owns / there: delay-queue, delayqueue-java, sdmq or none "
     "(only /v1). May be given several times. unix:/path is an address, too; none is no HTTP."},
    {"server", "beanstalk", KIND_LISTENER, PROTOCOL_BEANSTALK, 0, 0, "127.0.0.1:11300",
     "Where to listen for clients of beanstalkd. May be given several times; none is nowhere."},
    {"server", "sdmq", KIND_LISTENER, PROTOCOL_SDMQ, 0, 0, "none",
     "Where to listen for clients of sdmq, such as 127.0.0.1:6355. May be given several times; "
     "none is nowhere."},
    {"server", "hosts", KIND_HOSTS, 0, 0, 0, "",
     "Names that HTTP clients call this server by, without ports, between commas; may be given "
     "several times. A request that names another host is refused (403), unless it is an IP "
     "address, localhost, or a name in server.http or member.advertise. *: any name, which lets "
     "web pages in."},
    {"server", "log_level", KIND_LEVEL, 0, 0, 0, "info", "debug, info, warn or error."},
    {"server", "drain_seconds", KIND_SECONDS, NUMBER(drain_us), 0, DAY, "10",
     "After SIGTERM, how long clients have to take their answers."},
    {"server", "metrics_topics", KIND_COUNT, NUMBER(metrics_topics), 0, 10000, "100",
     "Topics shown one by one in /metrics; totals are always over all."},
    {"server", "turn_cpu", KIND_COUNT, NUMBER(turn_cpu), 0, 1, "0",
     "1: turn_seconds in /metrics is processor time, and a turn of more than 5 ms is logged as "
     "long_turn, for some system calls more a turn; 0: turn_seconds goes by the clock."},
    {"server", "time_zone", KIND_WORD, WORD(time_zone), 0, 0, "",
     "Zone of the dates that clients of the dialect delayqueue-java send without one, such as "
     "Asia/Shanghai. If this is empty it is the machine's."},
    {"store", "data_dir", KIND_DIR, 0, 0, 0, "/var/lib/laterd", "Where jobs are kept."},
    {"store", "durability", KIND_DURABILITY, 0, 0, 0, "sync",
     "When a change is answered: sync (it is on disk), interval:50ms (the system has it, and it is "
     "on disk 50 ms later) or os (the system has it)."},
    {"store", "segment_bytes", KIND_BYTES, NUMBER(segment_bytes), 262144, GIB, "16M",
     "Size of one log file."},
    {"store", "max_bytes", KIND_BYTES, NUMBER(max_bytes), 0, INT64_MAX, "0",
     "All log files together; pushes are refused beyond it. 0: as much as the disk has."},
    {"store", "recent_bytes", KIND_BYTES, NUMBER(recent_bytes), 0, 64 * GIB, "16M",
     "Memory for the newest bodies, so that young jobs are handed out without a disk read."},
    {"store", "horizon", KIND_LONG_TIME, NUMBER(horizon_us), 0, 366 * DAY, "1h",
     "Jobs that are due later than this from now leave memory for files sorted by due time while "
     "the log has more than checkpoint_bytes, and come back half of it before they are due. 0: "
     "none leaves."},
    {"store", "checkpoint_bytes", KIND_BYTES, NUMBER(checkpoint_bytes), 262144, INT64_MAX, "256M",
     "With a horizon: when the log has more than this, far jobs leave it and memory."},
    {"store", "ready_in_memory", KIND_COUNT, NUMBER(ready_in_memory), 0, 2000000000, "100000",
     "With a horizon: while the log has more than checkpoint_bytes and more ready jobs than so "
     "many are in memory, others leave it and memory, too, but not the first ones of a topic."},
    {"store", "buried_in_memory", KIND_COUNT, NUMBER(buried_in_memory), 0, 2000000000, "100000",
     "With a horizon: while the log has more than checkpoint_bytes and more buried jobs than so "
     "many are in memory, those that the log has had longest leave it and memory, too. As long as "
     "the log has less, all stay, whatever this says: lower checkpoint_bytes for them to leave."},
    {"store", "history", KIND_LONG_TIME, NUMBER(history_us), 0, 36600 * DAY, "0",
     "How long to keep what happened to each job (30d), shown by 'later history ID'. 0: not kept."},
    {"limits", "jobs", KIND_COUNT, NUMBER(jobs), 1, 2000000000, "100000000",
     "Live jobs. The embedded engine holds up to 268435455."},
    {"limits", "topics", KIND_COUNT, NUMBER(topics), 1, 10000000, "100000",
     "Topics. Idle ones make room for new ones."},
    {"limits", "waiters", KIND_COUNT, NUMBER(waiters), 1, 10000000, "100000",
     "Reserves that wait for a job at the same time."},
    {"limits", "memory_bytes", KIND_BYTES, NUMBER(memory_bytes), 0, INT64_MAX, "0",
     "Heap in use beyond which pushes are refused, 4M or more. 0: three quarters of what the "
     "machine, or our control group, has."},
    {"limits", "buffer_bytes", KIND_BYTES, NUMBER(buffer_bytes), 0, INT64_MAX, "0",
     "Memory of all connections' buffers together: beyond it connections are closed, the largest "
     "first. 0: a quarter of memory_bytes."},
    {"limits", "body_bytes", KIND_BYTES, NUMBER(body_bytes), 0, CONFIG_BODY_MAX, "1M",
     "Body of a job."},
    {"limits", "json_depth", KIND_COUNT, NUMBER(json_depth), 2, 128, "32",
     "Nesting of JSON in a request."},
    {"limits", "batch_jobs", KIND_COUNT, NUMBER(batch_jobs), 1, 100000, "1000",
     "Jobs in one push, one finish or one reserve."},
    {"limits", "reserve_topics", KIND_COUNT, NUMBER(reserve_topics), 1, 10000, "64",
     "Topics in one reserve."},
    {"limits", "connections", KIND_COUNT, NUMBER(connections), 1, 1000000, "10000",
     "Open connections; further ones get 503."},
    {"limits", "line_bytes", KIND_BYTES, NUMBER(line_bytes), 64, 1 << 20, "8K",
     "HTTP request line."},
    {"limits", "headers", KIND_COUNT, NUMBER(headers), 16, 1000, "64",
     "Headers of a request; later, curl and what proxies add take up to 16."},
    {"limits", "header_bytes", KIND_BYTES, NUMBER(header_bytes), 256, 1 << 20, "16K",
     "Headers of a request together."},
    {"limits", "request_bytes", KIND_BYTES, NUMBER(request_bytes), 256, GIB, "8M",
     "Body of a request, for instance of a batch of pushes."},
    {"limits", "idle_seconds", KIND_SECONDS, NUMBER(idle_us), 1000, 7 * DAY, "300",
     "A connection that asks nothing is closed after this."},
    {"limits", "request_seconds", KIND_SECONDS, NUMBER(request_us), 1000, DAY, "30",
     "A request must be whole within this, and a second more for each 64K of it; an answer must be "
     "taken, or at least 64K of it each time."},
    {"limits", "wait_seconds", KIND_SECONDS, NUMBER(wait_us), 0, DAY, "600",
     "Longest wait of a reserve in /v1."},
    {"limits", "ttr_seconds", KIND_SECONDS, NUMBER(ttr_max_us), 1000000, TTR_MAX_US, "365d",
     "Longest ttr that a push over HTTP may ask for; clients of beanstalkd may ask for any."},
    {"defaults", "ttr", KIND_SECONDS, NUMBER(ttr_us), 1000, TTR_MAX_US, "60s",
     "Time to run of jobs that are pushed without one, through /v1 or by clients of sdmq, in "
     "topics "
     "whose settings have none."},
    {"defaults", "retry", KIND_RETRY, WORD(retry), 0, 0, "",
     "Waits between the attempts of jobs that are pushed without a schedule, by any protocol, in "
     "topics without one: 1m 10m 1h, or the name of a schedule (alipay, alipay-4m, zing, notify, "
     "standard, rocketmq). After the last attempt the job is buried. Empty: again at once, without "
     "a limit but attempts."},
    {"defaults", "attempts", KIND_COUNT, NUMBER(attempts), 0, RETRY_STEPS_MAX + 1, "0",
     "How many attempts they have: defaults.retry is cut, or its last wait repeated; without retry "
     "they follow each other at once. 0: as many as it has."},
    {"defaults", "block_timeout", KIND_SECONDS, NUMBER(block_us), 0, DAY, "178s",
     "How long /pop of the delay-queue dialect, and /get of sdmq, wait for a job."},
    {"sdmq", "host", KIND_HOST, WORD(sdmq_host), 0, 0, "",
     "Names this server in the ids that it makes for clients of sdmq, topic:bizKey:HOST:number. If "
     "this is empty it is the first address of the machine."},
    {"sdmq", "machine", KIND_COUNT, NUMBER(sdmq_machine), 0, SNOWFLAKE_MACHINES - 1, "0",
     "The machine in the numbers of those ids: another one for each laterd. 0: one is chosen at "
     "random at each start."},
    {"sdmq", "clear_all", KIND_COUNT, NUMBER(sdmq_clear_all), 0, 1, "0",
     "1: GET /clearAll deletes all jobs of this server, whoever asks. 0: it is refused."},
    {"beanstalk", "job_bytes", KIND_BYTES, NUMBER(job_bytes), 0, CONFIG_BODY_MAX, "65535",
     "Body of a job that a client of beanstalkd puts; limits.body_bytes is for all others."},
    {"push", "concurrency", KIND_COUNT, NUMBER(push_concurrency), 1, 65535, "256",
     "Deliveries under way at the same time, to all receivers together."},
    {"push", "host_concurrency", KIND_COUNT, NUMBER(push_host_concurrency), 1, 65535, "20",
     "Webhooks under way at the same time to one receiver: scheme, host and port."},
    {"push", "host_rate", KIND_RATE, 0, 0, 0, "0",
     "At most this many webhooks in a time to one receiver, whatever topics they are of: 100/s, "
     "5/m, 1/10s. 0: no limit."},
    {"push", "breaker_failures", KIND_COUNT, NUMBER(push_breaker_failures), 1, 1000000, "10",
     "After this many connect errors, time-outs, 429 or 5xx in a row a receiver gets nothing for "
     "10 s, then one attempt; if that fails for twice as long, up to 5 minutes."},
    {"push", "retry_after_max", KIND_LONG_TIME, NUMBER(push_retry_after_max_us), 0, 30 * DAY, "1h",
     "A receiver that asks for a longer wait (Retry-After) gets this one."},
    {"push", "ordered", KIND_CHOICE, NUMBER(push_ordered), 0, 0, "auto",
     "Are topics with order by key sent by this laterd? auto: of several that share a Redis one "
     "sends each, and another one if that is gone. on: all, off: none; then exactly one of them "
     "must have on, and all others off."},
    {"push", "disable_after", KIND_LONG_TIME, NUMBER(push_disable_after_us), 0, 365 * DAY, "5d",
     "A target that has only failed for this long is paused. 0: never."},
    {"push", "timeout", KIND_SECONDS, NUMBER(push_timeout_us), 1000, 3600000000, "15s",
     "A webhook that is not answered completely within this has failed. A topic may set its own."},
    {"push", "connect_timeout", KIND_SECONDS, NUMBER(push_connect_us), 1000, 300000000, "5s",
     "Within this a connection to the receiver must be made, name look-up and TLS included."},
    {"push", "response_bytes", KIND_BYTES, NUMBER(push_response_bytes), 1024, 64 << 20, "64K",
     "At most this much of an answer is read; then its connection is closed."},
    {"push", "job_targets", KIND_JOB_TARGETS, 0, 0, 0, "topic",
     "Which jobs may bring a URL of their own: topic (in topics whose target is of type http), any "
     "(also in a topic without settings, which gets such a target by it) or off (none)."},
    {"push", "allow", KIND_ALLOW, 0, 0, 0, "",
     "Addresses that webhooks may be sent to although they are not public (10.1.0.0/16, ::1), "
     "between commas; may be given several times."},
    {"push", "ports", KIND_PORTS, 0, 0, 0, "80,443,1024+", "Ports that webhooks may be sent to."},
    {"push", "proxy", KIND_PROXY, WORD(push_proxy), 0, 0, "",
     "http://host:port of a proxy for all webhooks. It must refuse by itself what is not to be "
     "reached: push.allow cannot see behind it. The environment's http_proxy has no effect."},
    {"push", "unix_sockets", KIND_PATHS, 0, 0, 0, "",
     "Paths of the Unix sockets that webhooks may be sent to, between commas; may be given several "
     "times."},
    {"engine", "engine", KIND_ENGINE, 0, 0, 0, "embedded",
     "Where the queue lives: embedded (here, in store.data_dir) or redis (in a Redis that any "
     "number of laterds share)."},
    {"redis", "url", KIND_URL, 0, 0, 0, "redis://127.0.0.1:6379",
     "redis://[user:password@]host:port/db, unix:///path, redis+sentinel://h1,h2,h3/name/db or "
     "redis+cluster://h1,h2,h3; with rediss over TLS. $NAME is the environment's variable, "
     "file:/PATH the first line of a file. The environment's LATERD_REDIS_PASSWORD is the password "
     "if this has none."},
    {"redis", "prefix", KIND_PREFIX, 0, 0, 0, "laterd",
     "Begins the names of all keys: one for each queue that shares a Redis."},
    {"redis", "partitions", KIND_COUNT, NUMBER(redis_partitions), 0, 1024, "0",
     "Parts of the queue that a cluster can spread. Set once: the queue remembers it. 0: as many "
     "as the queue has; a new one gets 16 in a cluster, else 1."},
    {"redis", "order", KIND_CHOICE, NUMBER(redis_order), 0, 0, "auto",
     "Jobs whose ids laterd makes: those of a topic in one partition, in exact order (topic), or "
     "in all partitions, in turns of 250 ms (spread). auto: spread in a cluster, where the topic "
     "has no settings, else topic."},
    {"redis", "timeout", KIND_SECONDS, NUMBER(redis_timeout_us), 50000, 60000000, "2s",
     "A command that Redis has not answered by then is answered 503."},
    {"redis", "wait_replicas", KIND_COUNT, NUMBER(redis_wait_replicas), 0, 100, "0",
     "A change is acknowledged when this many replicas have it, too (Redis' WAIT)."},
    {"redis", "tls_ca", KIND_WORD, WORD(tls_ca), 0, 0, "",
     "With rediss://: the file of the authorities that Redis' certificate may come from. If this "
     "is empty they are those of the system."},
    {"redis", "tls_certificate", KIND_WORD, WORD(tls_certificate), 0, 0, "",
     "The file of the certificate by which laterd proves who it is, if Redis asks."},
    {"redis", "tls_key", KIND_WORD, WORD(tls_key), 0, 0, "",
     "The file of its key, not encrypted. If this is empty it is in the file of the certificate."},
    {"redis", "sentinel_user", KIND_WORD, WORD(sentinel_user), 0, 0, "",
     "Who laterd is to the sentinels, if they ask; user and password in the url are the servers'."},
    {"redis", "sentinel_password", KIND_SECRET, WORD(sentinel_password), 0, 0, "",
     "The sentinels' password; $NAME and file:/PATH as in url. If this is empty it is the "
     "environment's LATERD_REDIS_SENTINEL_PASSWORD."},
    {"journal", "url", KIND_SECRET, WORD(journal_url), 0, 0, "",
     "mysql://user[:password]@host[:port]/database of a MySQL or MariaDB that every change is "
     "written to; behind it ?tls=on or ?tls=verify, ?socket=/path. $NAME is the environment's "
     "variable, file:/PATH the first line of a file. Empty: there is no journal."},
    {"journal", "password", KIND_SECRET, WORD(journal_password), 0, 0, "",
     "The password, in place of one in the url; $NAME and file:/PATH as there. Files are read "
     "again at each connection."},
    {"journal", "ca", KIND_WORD, WORD(journal_ca), 0, 0, "",
     "With tls=verify: the file of the authorities that its certificate may come from. If this is "
     "empty they are those of the system."},
    {"journal", "mode", KIND_CHOICE, NUMBER(journal_mode), 0, 0, "after",
     "after: replies do not wait for it. before: replies to changes wait until it has committed "
     "them, and are 503 while it is away (not with engine = redis)."},
    {"journal", "max_lag", KIND_BYTES, NUMBER(journal_lag_bytes), 1 << 20, INT64_MAX, "4G",
     "At most this much of the log is kept for it while it is away; with engine = redis, bytes of "
     "changes in Redis' memory."},
    {"journal", "max_lag_time", KIND_LONG_TIME, NUMBER(journal_lag_us), 1000000, 365 * DAY, "24h",
     "… and for this long: the age of the oldest change that MySQL lacks."},
    {"journal", "on_lag", KIND_CHOICE, NUMBER(journal_on_lag), 0, 0, "refuse",
     "Beyond that: refuse (pushes are 503) or detach (it is given up)."},
    {"journal", "log", KIND_CHOICE, NUMBER(journal_log), 0, 0, "all",
     "Which changes have a row in t_delay_queue_job_log: all, or the ends of jobs."},
    {"journal", "time_zone", KIND_OFFSET, NUMBER(journal_east_s), 0, 0, "+00:00",
     "Of the times in its tables. sdmq used that of its machine."},
    {"journal", "timeout", KIND_SECONDS, NUMBER(journal_timeout_us), 1000000, 600000000, "5s",
     "To connect; twice as long for a statement."},
    {"member", "url", KIND_SECRET, WORD(member_url), 0, 0, "",
     "Several laterds, of which one leads and serves and the others wait: where they elect it. "
     "zookeeper://h1:2181,h2:2181/namespace, mysql://user:password@host/database or a URL of Redis "
     "as redis.url has it; $NAME is the environment's variable, file:/PATH the first line of a "
     "file. alone: it leads without an election. Empty: there is none."},
    {"member", "ca", KIND_WORD, WORD(member_ca), 0, 0, "",
     "With rediss://, or tls=verify behind mysql://: the file of the authorities that its "
     "certificate may come from. If this is empty they are those of the system."},
    {"member", "name", KIND_WORD, WORD(member_name), 0, 0, "laterd",
     "Of what is led: all who share a queue give the same name, others another. Letters, digits, "
     "., - and _."},
    {"member", "advertise", KIND_WORD, WORD(member_advertise), 0, 0, "",
     "The URL by which clients reach this laterd, as http://host:port. While it leads, the laterds "
     "that wait give this URL to their clients. If this is empty it is the first HTTP listener's "
     "address; if that is all interfaces, the machine's name and its port."},
    {"member", "timeout", KIND_SECONDS, NUMBER(member_timeout_us), 1000000, 60000000, "6s",
     "Of the session: a leader that is silent for this long is replaced, and it stops by itself "
     "after two thirds of that. ZooKeeper allows 2 to 20 of its ticks."},
};
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);
static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= CONFIG_KEYS_MAX, "room for places");
