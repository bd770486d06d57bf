/*
 * Wire transcripts: test/wire/transcripts/NAME.txt are stories of clients and one server on a
 * virtual clock. Each is told with the clients' bytes whole, and then cut at random places: the
 * story must be the same. A line is one of
 *
 *   NAME > METHOD PATH BODY    a request; >+ keeps it back until the next one, so that both come
 *   NAME >> BYTES              at once; >> sends bytes as they are, with \r and \n
 *   NAME < STATUS (HEAD) BODY  the next answer is this; (HEAD) must be in its head; … is anything;
 *                              $word keeps a word, or is the one that was kept, here and in >
 *   NAME << BYTES              the next bytes are these, with \r and \n, … and $word as above
 *   NAME < nothing | closed    no byte has come; the server has closed the connection
 *   NAME shut | gone           it ends its sending; it is gone at once
 *   NAME takes COUNT           it takes so many more bytes from the server
 *   NAME joins java|beanstalk|sdmq it connects to that listener, not to the first one
 *   @ +TIME | -TIME            time passes; back it goes only while the server is down
 *   disk held | free | fails   no disk operation ends; they do again; the next one fails
 *   crash | power | restart    kill -9; a power cut; the server starts
 *   drain | stop | down        it begins to end; it ends; it has ended by itself
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/config/config.h"
#include "sim/world.h"
#include "wire.h"

enum { CLIENTS_MAX = 16, WORDS_MAX = 16, SEGMENT_BYTES = 64 * 1024, SPLIT_SEEDS = 6 };

struct client {
    struct bytes name;
    struct sim_peer *peer;
    struct buf kept_back;
};

struct word {
    char name[16];
    size_t name_len;
    char value[64];
    size_t len;
};

struct story {
    const char *path;
    unsigned line;
    uint64_t seed; /* 0: bytes come whole */
    struct world *world;
    struct client clients[CLIENTS_MAX];
    unsigned client_count;
    struct word words[WORDS_MAX];
    unsigned word_count;
};

static _Noreturn void complain(const struct story *story, const char *what, struct bytes want,
                               struct bytes have)
{
    fail_msg("%s:%u (seed %llu): %s\n  want: %.*s\n  have: %.*s", story->path, story->line,
             (unsigned long long)story->seed, what, (int)want.len, want.at, (int)have.len, have.at);
    abort();
}

/* ---- text ---- */

static struct bytes trim(struct bytes text)
{
    while (text.len && *text.at == ' ')
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len && text.at[text.len - 1] == ' ')
        text.len--;
    return text;
}

/* Cuts the first word off. */
static struct bytes take_word(struct bytes *text)
{
    *text = trim(*text);
    const char *space = text->len ? memchr(text->at, ' ', text->len) : NULL;
    struct bytes word = bytes_of(text->at, space ? (size_t)(space - text->at) : text->len);
    *text = trim(bytes_of(text->at + word.len, text->len - word.len));
    return word;
}

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '~' ||
           c == '@';
}

static size_t word_len(struct bytes text)
{
    size_t len = 0;
    while (len < text.len && is_word_char(text.at[len]))
        len++;
    return len;
}

static struct word *find_word(struct story *story, struct bytes name)
{
    for (unsigned i = 0; i < story->word_count; i++)
        if (bytes_eq(bytes_of(story->words[i].name, story->words[i].name_len), name))
            return &story->words[i];
    return NULL;
}

/* \r and \n become what they mean. */
static void expand_escapes(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '\\' && i + 1 < text.len) {
            c = text.at[++i];
            c = c == 'r' ? '\r' : c == 'n' ? '\n' : c;
        }
        buf_add_char(out, c);
    }
}

/* $word becomes what was kept; with `escapes` \r and \n what they mean. */
static void expand(struct story *story, struct bytes text, bool escapes, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        struct bytes rest = bytes_of(text.at + i + 1, text.len - i - 1);
        if (text.at[i] == '$') {
            struct bytes name = bytes_of(rest.at, word_len(rest));
            const struct word *word = find_word(story, name);
            if (!word)
                complain(story, "nothing was kept under this name", name, BYTES(""));
            buf_add(out, word->value, word->len);
            i += name.len;
        } else if (escapes && text.at[i] == '\\' && rest.len) {
            buf_add_char(out, *rest.at == 'r' ? '\r' : *rest.at == 'n' ? '\n' : *rest.at);
            i++;
        } else {
            buf_add_char(out, text.at[i]);
        }
    }
}

/* The word in `have` must be the one kept, or is kept now. Its length; SIZE_MAX: another one. */
static size_t match_word(struct story *story, struct bytes name, struct bytes have)
{
    struct word *word = find_word(story, name);
    size_t len = word_len(have);
    if (word)
        return bytes_eq(bytes_of(have.at, len), bytes_of(word->value, word->len)) ? len : SIZE_MAX;
    assert_true(story->word_count < WORDS_MAX && len < sizeof(word->value));
    assert_true(name.len <= sizeof(word->name));
    word = &story->words[story->word_count++];
    word->name_len = name.len;
    memcpy(word->name, name.at, name.len);
    word->len = len;
    memcpy(word->value, have.at, len);
    return len;
}

/* Do they agree? At a difference the last … takes one byte more. */
static bool matches(struct story *story, struct bytes want, struct bytes have)
{
    static const struct bytes any = {"…", sizeof("…") - 1};
    size_t w = 0, h = 0, after_any = SIZE_MAX, any_ends = 0;
    while (h < have.len || w < want.len) {
        struct bytes rest = bytes_of(want.at + w, want.len - w);
        if (bytes_starts(rest, any)) {
            w += any.len;
            after_any = w;
            any_ends = h;
            continue;
        }
        if (rest.len && *rest.at == '$') {
            struct bytes name = bytes_of(rest.at + 1, rest.len - 1);
            name.len = word_len(name);
            size_t len = match_word(story, name, bytes_of(have.at + h, have.len - h));
            if (len != SIZE_MAX) {
                w += 1 + name.len;
                h += len;
                continue;
            }
        } else if (rest.len && h < have.len && *rest.at == have.at[h]) {
            w++;
            h++;
            continue;
        }
        if (after_any == SIZE_MAX || any_ends >= have.len)
            return false;
        w = after_any;
        h = ++any_ends;
    }
    return true;
}

/* ---- what clients do and expect ---- */

static struct client *find_client(struct story *story, struct bytes name)
{
    for (unsigned i = 0; i < story->client_count; i++)
        if (bytes_eq(story->clients[i].name, name))
            return &story->clients[i];
    assert_true(story->client_count < CLIENTS_MAX);
    struct client *client = &story->clients[story->client_count++];
    *client = (struct client){.name = name};
    return client;
}

static void connect_client(struct story *story, struct client *client, unsigned listener)
{
    if (!client->peer)
        client->peer = sim_loop_client(world_loop(story->world), listener);
}

static void settle(struct story *story)
{
    world_run(story->world, world_now_us(story->world));
}

static void tell_request(struct story *story, struct client *client, struct bytes rest)
{
    struct bytes method = take_word(&rest);
    struct bytes path = take_word(&rest);
    bool ours = bytes_starts(path, BYTES("/v1"));
    struct buf expanded_path = {0}, body = {0};
    expand(story, path, false, &expanded_path);
    expand(story, rest, false, &body);
    wire_request(&client->kept_back, method, buf_bytes(&expanded_path),
                 ours ? "application/json" : NULL, buf_bytes(&body));
    buf_fini(&expanded_path);
    buf_fini(&body);
}

static void send_all(struct story *story, struct client *client)
{
    sim_peer_send(client->peer, buf_bytes(&client->kept_back));
    client->kept_back.len = 0;
    settle(story);
}

/* What is between the parentheses that the text begins with, if it does. */
static struct bytes take_head(struct bytes *text)
{
    const char *end = text->len && *text->at == '(' ? memchr(text->at, ')', text->len) : NULL;
    if (!end)
        return (struct bytes){0};
    struct bytes head = bytes_of(text->at + 1, (size_t)(end - text->at) - 1);
    *text = trim(bytes_of(end + 1, text->len - head.len - 2));
    return head;
}

static void expect(struct story *story, struct client *client, struct bytes rest)
{
    struct bytes have = sim_peer_received(client->peer);
    struct wire_answer answer = {0};
    uint64_t status;
    if (bytes_eq(rest, BYTES("nothing"))) {
        if (have.len || sim_peer_closed(client->peer))
            complain(story, "silence was to be expected", rest, have);
        return;
    }
    if (bytes_eq(rest, BYTES("closed"))) {
        if (have.len || !sim_peer_closed(client->peer))
            complain(story, "the connection was to be closed", rest, have);
        return;
    }
    struct bytes line = rest;
    if (!bytes_to_u64(take_word(&rest), &status))
        complain(story, "this is not a status", line, BYTES(""));
    size_t len = wire_cut(have, &answer);
    struct bytes head = take_head(&rest);
    if (len == 0 || answer.status != (int)status || (head.len && !wire_find(answer.head, head)) ||
        !matches(story, rest, answer.body))
        complain(story, "another answer was to be expected", line, have);
    sim_peer_take(client->peer, len);
}

/* Bytes have no frame: without … they are as many as are told of, else all that have come. */
static void expect_bytes(struct story *story, struct client *client, struct bytes rest)
{
    struct bytes have = sim_peer_received(client->peer);
    struct buf want = {0};
    bool open_ended = wire_find(rest, BYTES("…")) || wire_find(rest, BYTES("$"));
    expand_escapes(rest, &want);
    if (!open_ended && have.len > want.len)
        have.len = want.len;
    if (!matches(story, buf_bytes(&want), have))
        complain(story, "other bytes were to be expected", rest, sim_peer_received(client->peer));
    sim_peer_take(client->peer, have.len);
    buf_fini(&want);
}

static unsigned listener_of(const struct story *story, struct bytes name)
{
    if (bytes_eq(name, BYTES("java")))
        return WORLD_DELAYQUEUE_JAVA;
    if (bytes_eq(name, BYTES("sdmq")))
        return WORLD_SDMQ;
    if (!bytes_eq(name, BYTES("beanstalk")))
        complain(story, "there is no such listener", name, BYTES(""));
    return WORLD_BEANSTALK;
}

static void tell_client(struct story *story, struct bytes name, struct bytes rest)
{
    struct client *client = find_client(story, name);
    struct bytes verb = take_word(&rest);
    uint64_t count;
    bool joins = bytes_eq(verb, BYTES("joins"));
    connect_client(story, client, joins ? listener_of(story, rest) : WORLD_DELAY_QUEUE);
    if (bytes_eq(verb, BYTES(">")) || bytes_eq(verb, BYTES(">+"))) {
        tell_request(story, client, rest);
        if (verb.len == 1)
            send_all(story, client);
    } else if (bytes_eq(verb, BYTES(">>"))) {
        expand(story, rest, true, &client->kept_back);
        send_all(story, client);
    } else if (bytes_eq(verb, BYTES("<<"))) {
        expect_bytes(story, client, rest);
    } else if (bytes_eq(verb, BYTES("<"))) {
        expect(story, client, rest);
    } else if (bytes_eq(verb, BYTES("gone"))) {
        sim_peer_free(client->peer);
        client->peer = NULL; /* should it speak again, it is over a new connection */
        settle(story);
    } else if (bytes_eq(verb, BYTES("shut"))) {
        sim_peer_shut(client->peer);
        settle(story);
    } else if (bytes_eq(verb, BYTES("takes")) && bytes_to_u64(take_word(&rest), &count)) {
        sim_peer_window(client->peer, (size_t)count);
        settle(story);
    } else if (!joins) {
        complain(story, "what is this?", verb, rest);
    }
}

/* ---- what happens to the server ---- */

static void boot(struct story *story)
{
    if (world_boot(story->world))
        complain(story, "the server did not start", BYTES(""),
                 bytes_str(world_error(story->world)));
}

static void pass_time(struct story *story, struct bytes rest)
{
    int64_t us;
    struct world *world = story->world;
    assert_true(rest.len > 1 && config_duration(bytes_of(rest.at + 1, rest.len - 1), 1, &us));
    if (*rest.at == '-')
        world_set_clock(world, world_now_us(world) - us);
    else
        world_run(world, world_now_us(world) + us);
}

static void tell_disk(struct story *story, struct bytes rest)
{
    struct sim_disk *disk = world_disk(story->world);
    if (bytes_eq(rest, BYTES("fails"))) {
        sim_disk_fail_at(disk, sim_disk_points(disk), EIO);
    } else {
        bool held = bytes_eq(rest, BYTES("held"));
        assert_true(held || bytes_eq(rest, BYTES("free")));
        world_hold_disk(story->world, held);
        settle(story);
    }
}

static bool tell_server(struct story *story, struct bytes verb, struct bytes rest)
{
    struct world *world = story->world;
    if (bytes_eq(verb, BYTES("@"))) {
        pass_time(story, rest);
    } else if (bytes_eq(verb, BYTES("disk"))) {
        tell_disk(story, rest);
    } else if (bytes_eq(verb, BYTES("crash"))) {
        world_crash(world, WORLD_KILL);
    } else if (bytes_eq(verb, BYTES("power"))) {
        world_crash(world, WORLD_POWER);
    } else if (bytes_eq(verb, BYTES("restart"))) {
        boot(story);
    } else if (bytes_eq(verb, BYTES("drain"))) {
        world_drain(world);
        settle(story);
    } else if (bytes_eq(verb, BYTES("stop"))) {
        assert_true(world_stop(world));
    } else if (bytes_eq(verb, BYTES("down"))) {
        if (world_is_up(world))
            complain(story, "the server was to have ended", verb, rest);
    } else {
        return false;
    }
    return true;
}

/* ---- stories ---- */

static void tell_line(struct story *story, struct bytes line)
{
    line = trim(line);
    if (line.len == 0 || *line.at == '#')
        return;
    struct bytes rest = line;
    struct bytes first = take_word(&rest);
    if (!tell_server(story, first, rest))
        tell_client(story, first, rest);
}

static void send_line(const char *path, struct bytes text, uint64_t seed)
{
    struct story story = {.path = path, .seed = seed};
    story.world = world_new(
        &(struct world_options){.seed = seed, .split = seed != 0, .segment_bytes = SEGMENT_BYTES});
    boot(&story);
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        story.line++;
        tell_line(&story, bytes_of(text.at, len));
        text = bytes_of(text.at + len + (end != NULL), text.len - len - (end != NULL));
    }
    for (unsigned i = 0; i < story.client_count; i++) {
        struct client *client = &story.clients[i];
        struct bytes left = client->peer ? sim_peer_received(client->peer) : BYTES("");
        if (left.len)
            complain(&story, "an answer that the story does not tell of", client->name, left);
        buf_fini(&client->kept_back);
    }
    world_free(story.world);
}

static void read_file(const char *path, struct buf *out)
{
    char room[4096];
    size_t len;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while ((len = fread(room, 1, sizeof(room), file)) > 0)
        buf_add(out, room, len);
    (void)fclose(file); /* it was only read */
}

static void transcript_is_what_happens(void **state)
{
    const char *path = *state;
    struct buf text = {0};
    read_file(path, &text);
    for (uint64_t seed = 0; seed <= SPLIT_SEEDS; seed++)
        send_line(path, buf_bytes(&text), seed);
    buf_fini(&text);
}

int main(void)
{
    glob_t found;
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* failing disks are not news here */
    if (glob("test/wire/transcripts/*.txt", 0, NULL, &found) != 0) {
        (void)fputs("no transcripts: run this in the root of the repository\n", stderr);
        return 1;
    }
    struct CMUnitTest *tests = mem_zalloc(found.gl_pathc * sizeof(*tests));
    for (size_t i = 0; i < found.gl_pathc; i++)
        tests[i] = (struct CMUnitTest){.name = found.gl_pathv[i],
                                       .test_func = transcript_is_what_happens,
                                       .initial_state = found.gl_pathv[i]};
    int failed = _cmocka_run_group_tests("transcripts", tests, found.gl_pathc, NULL, NULL);
    mem_free(tests);
    globfree(&found);
    return failed;
}
