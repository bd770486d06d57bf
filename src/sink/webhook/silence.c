#include "sink/webhook/silence.h"

#include <stdio.h>
#include <string.h>

/* Longer than a connection is kept that nobody uses. */
#define NEW_US ((SILENCE_AGE_S + 2) * INT64_C(1000000))

void silence_heard(struct silence *silence, long port, struct bytes line, int64_t now_us)
{
    unsigned place = (unsigned long)port % SILENCE_CONNECTIONS;
    silence->heard[place].port = (uint16_t)port;
    silence->heard[place].shared = !bytes_starts(line, BYTES("HTTP/1"));
    silence->heard[place].us = now_us;
}

static bool is_marked(const struct silence *silence, unsigned i, const char *host, int64_t now_us)
{
    return silence->hosts[i].until_us > now_us && strcmp(silence->hosts[i].name, host) == 0;
}

void silence_timed_out(struct silence *silence, long port, const char *host, int64_t begun_us,
                       int64_t now_us)
{
    unsigned place = (unsigned long)port % SILENCE_CONNECTIONS, i = 0;
    bool same = port > 0 && silence->heard[place].port == port;
    /* Of HTTP/1 libcurl has closed it. */
    if (!same || !silence->heard[place].shared || silence->heard[place].us >= begun_us)
        return;
    while (i < SILENCE_HOSTS && !is_marked(silence, i, host, now_us))
        i++;
    if (i == SILENCE_HOSTS)
        i = silence->next++ % SILENCE_HOSTS;
    (void)snprintf(silence->hosts[i].name, sizeof(silence->hosts[i].name), "%s", host);
    silence->hosts[i].until_us = now_us + NEW_US;
}

bool silence_wants_new(const struct silence *silence, const char *host, int64_t now_us)
{
    for (unsigned i = 0; i < SILENCE_HOSTS; i++) {
        if (is_marked(silence, i, host, now_us))
            return true;
    }
    return false;
}
