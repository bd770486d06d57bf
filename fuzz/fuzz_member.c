/*
 * The election's input: URLs of the configuration, and ZooKeeper's answers, which anyone with
 * access to it can write. Whatever the answers are, an election goes on, with one request at a
 * time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "member/member_url.h"
#include "member/zk_election.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t take(const uint8_t **data, size_t *size)
{
    if (*size == 0)
        return 0;
    --*size;
    return *(*data)++;
}

static void read_url(const uint8_t *data, size_t size)
{
    struct member_url url;
    struct member_error error;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (!member_url_read(text, "zookeeper", 2181, &url, &error))
        CHECK(url.host_count && url.port && url.host[0]);
    free(text);
}

/* Names and data are pieces of the input; a piece may be the node of our own. */
static void elect(const uint8_t *data, size_t size)
{
    enum { NAMES_MAX = 8, NAME_MAX = 80, OWN = 250 };
    static struct zk_election election;
    char names[NAMES_MAX][NAME_MAX];
    const char *list[NAMES_MAX];
    struct member_options options = {
        .url = "", .name = "q", .advertise = "http://a", .timeout_us = 6000000, .instance = 7};
    int64_t now_us = 0;
    CHECK(zk_election_init(&election, "/ns", &options, now_us) == OK);
    zk_connected(&election, 6000000, now_us);
    while (size) {
        struct zk_answer answer = {.result = (enum zk_result)(take(&data, &size) % 6)};
        now_us += take(&data, &size) * INT64_C(10000);
        (void)zk_expire(&election, now_us);
        if (!election.pending && zk_next_us(&election) <= now_us)
            (void)zk_next(&election, now_us);
        answer.name_count = take(&data, &size) % NAMES_MAX;
        for (unsigned i = 0; i < answer.name_count; i++) {
            size_t len = take(&data, &size);
            list[i] = names[i];
            memset(names[i], 0, NAME_MAX);
            if (len >= OWN)
                (void)memcpy(names[i], election.guid, strlen(election.guid)),
                    memcpy(names[i] + strlen(election.guid), "0000000007", 10);
            len = len < NAME_MAX - 1 ? len : NAME_MAX - 1;
            for (size_t j = 0; names[i][0] == '\0' && j < len && size; j++)
                names[i][j] = (char)take(&data, &size);
        }
        answer.names = list;
        size_t data_len = take(&data, &size);
        data_len = data_len < size ? data_len : size;
        answer.data = bytes_of(data, data_len);
        answer.version = (int)size;
        if (election.pending)
            zk_answered(&election, &answer, now_us);
        data += data_len;
        size -= data_len;
        if (size % 11 == 0)
            zk_fired(&election, now_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 2)
        read_url(data + 1, size - 1);
    else
        elect(data + 1, size - 1);
    return 0;
}
