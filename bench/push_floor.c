/*
 * The baseline of webhooks: only libcurl's multi interface, with the same socket API and epoll as
 * the sink, and the same number of requests in flight. Easy handles are set up once and reused;
 * each request has the headers of a delivery, without a signature.
 *
 * usage: push_floor URL COUNT IN_FLIGHT BODY_BYTES; prints posts a second and the processor's
 * time for each, as JSON.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"

static CURLM *multi;
static int epoll;
static int64_t timer_ms = -1;
static long left, done;

static double seconds(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int watch(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct epoll_event event = {.data.fd = fd};
    (void)easy, (void)user;
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (what == CURL_POLL_REMOVE)
        return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL), 0;
    (void)epoll_ctl(epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (!known)
        (void)curl_multi_assign(multi, fd, &multi);
    return 0;
}

static int set_timer(CURLM *of, long after_ms, void *user)
{
    (void)of, (void)user;
    timer_ms = after_ms;
    return 0;
}

static size_t take(char *at, size_t size, size_t items, void *user)
{
    (void)at, (void)user;
    return size * items;
}

static CURL *make(const char *url, const char *body, long body_bytes, struct curl_slist *headers)
{
    CURL *easy = curl_easy_init();
    CHECK(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, body_bytes);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 15000L);
    return easy;
}

static void finish(void)
{
    CURLMsg *message;
    int queued;
    while ((message = curl_multi_info_read(multi, &queued))) {
        CURL *easy = message->easy_handle;
        CHECK(message->data.result == CURLE_OK);
        (void)curl_multi_remove_handle(multi, easy);
        done++;
        if (left-- > 0)
            (void)curl_multi_add_handle(multi, easy);
        else
            curl_easy_cleanup(easy);
    }
}

int main(int argc, char **argv)
{
    enum { EVENTS = 64 };
    struct epoll_event events[EVENTS];
    struct curl_slist *headers = NULL;
    static const char *const lines[] = {
        "Expect:",
        "content-type: application/octet-stream",
        "webhook-id: msg_0123456789abcdef",
        "idempotency-key: msg_0123456789abcdef",
        "webhook-timestamp: 1614265330",
        "laterd-job-id: @123456",
        "laterd-topic: bench",
        "laterd-attempt: 1",
        "laterd-due: 2026-11-21T05:00:00.123456Z",
        "user-agent: laterd/0.1.0",
        "traceparent: 00-29efab3308b16504fc48c3971f03af07-18ef8f5a7f655fd9-01"};
    CHECK(argc == 5);
    long count = strtol(argv[2], NULL, 10), in_flight = strtol(argv[3], NULL, 10);
    long body_bytes = strtol(argv[4], NULL, 10);
    char *body = malloc((size_t)body_bytes + 1);
    CHECK(body);
    memset(body, 'x', (size_t)body_bytes);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        headers = curl_slist_append(headers, lines[i]);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    epoll = epoll_create1(0);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, in_flight);
    double begun = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    left = count - in_flight;
    for (long i = 0; i < in_flight; i++)
        (void)curl_multi_add_handle(multi, make(argv[1], body, body_bytes, headers));
    while (done < count) {
        int running, ready = epoll_wait(epoll, events, EVENTS, (int)timer_ms);
        if (timer_ms == 0 || ready == 0)
            (void)curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        for (int i = 0; i < ready; i++)
            (void)curl_multi_socket_action(multi, events[i].data.fd,
                                           (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                               (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0),
                                           &running);
        finish();
    }
    double took = seconds(CLOCK_MONOTONIC) - begun;
    (void)printf("{\"posts_s\":%.0f,\"cpu_us\":%.2f}\n", (double)count / took,
                 (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / (double)count);
    return 0;
}
