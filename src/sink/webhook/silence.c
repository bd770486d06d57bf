#include "sink/webhook/silence.h"

#include <string.h>
#include <xxhash.h>

/* Longer than a connection is kept that nobody uses. */
#define NEW_US ((SILENCE_AGE_S + 2) * INT64_C(1000000))

/* Of HTTP/1 nothing is noted: libcurl closes the connection of a request that times out. */
void silence_heard(struct silence *silence, long port, struct bytes line, int64_t now_us)
{
    if (port > 0 && port < SILENCE_PORTS && !bytes_starts(line, BYTES("HTTP/1")))
        silence->heard_us[port] = now_us;
}

static unsigned place_of(const char *host)
{
    return (unsigned)(XXH3_64bits(host, strlen(host)) % SILENCE_HOSTS);
}

void silence_timed_out(struct silence *silence, long port, const char *host, int64_t begun_us,
                       int64_t now_us)
{
    bool known = port > 0 && port < SILENCE_PORTS && silence->heard_us[port];
    /* Heard longer before: by another connection, which had this port then. Between may lie an
       answer's body, NEW_US of rest, and the time in which others waited here as long as this. */
    known = known && begun_us - silence->heard_us[port] <= 2 * (NEW_US + now_us - begun_us);
    if (known && silence->heard_us[port] < begun_us)
        silence->until_us[place_of(host)] = now_us + NEW_US;
}

bool silence_wants_new(const struct silence *silence, const char *host, int64_t now_us)
{
    return silence->until_us[place_of(host)] > now_us;
}
