/* The URL of a [broker.NAME]: any text is refused with a reason or read whole. */
#include <stdlib.h>

#include "sink/broker_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct broker_url_kind kind = {.plain = "kafka", .tls = "kafkas", .port = 9092};
    struct broker_url url;
    struct broker_url_error error = {.text = ""};
    char room[BROKER_HOSTS_MAX * BROKER_HOST_BYTES];
    if (broker_url_read(bytes_of(data, size), &kind, &url, &error)) {
        if (!error.text[0])
            abort();
        return 0;
    }
    broker_url_hosts(&url, room, sizeof(room));
    if (url.host_count == 0 || url.host_count > BROKER_HOSTS_MAX || !room[0])
        abort();
    (void)broker_url_option(&url, BYTES("mechanism"));
    return 0;
}
