/*
 * What happened to jobs becomes the bytes of entries, records and files and comes back, and no
 * bytes make the decoders believe what no version writes, also where the checksums are right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/history/history_format.h"
#include "store/varint.h"

enum { HEAD_SUM_AT = BLOCK - 8 };

static char long_text[HISTORY_ENTRY_MAX];

static void assert_same(const struct happening *a, const struct happening *b)
{
    assert_true(a->what == b->what && a->state == b->state && a->seq == b->seq);
    assert_true(a->at_us == b->at_us && a->time_us == b->time_us && a->lease == b->lease);
    assert_true(a->code == b->code && bytes_eq(a->id, b->id) && bytes_eq(a->topic, b->topic));
    assert_true(bytes_eq(a->note, b->note));
}

/* Encodes into memory that is just as long, so that the sanitizer sees a byte too many. */
static void round_trip(const struct happening *happening)
{
    char room[HISTORY_ENTRY_MAX];
    struct happening found;
    struct bytes entry;
    size_t len = history_entry_encode(happening, room), found_len;
    char *at = mem_alloc(len);
    memcpy(at, room, len);
    assert_int_equal(history_entry_decode(at, len, &found, &found_len), OK);
    assert_int_equal(found_len, len);
    assert_same(happening, &found);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(history_entry_decode(at, cut, &found, &found_len), ERR_CORRUPT);
    size_t bytes = history_record_bytes(len);
    char *record = mem_alloc(bytes);
    memset(record, 0xff, bytes);
    history_record_encode(bytes_of(at, len), record);
    assert_true(bytes % 8 == 0 && bytes >= 16 && get_u32(record) == bytes);
    assert_true(bytes_all_zero(record + HISTORY_RECORD_HEAD + len,
                               bytes - HISTORY_RECORD_HEAD - len)); /* the padding */
    assert_true(history_record_decode(record, bytes, &entry));
    assert_true(bytes_eq(entry, bytes_of(at, len)));
    mem_free(record);
    mem_free(at);
}

static void each_happening_comes_back_in_each_state(void **state)
{
    (void)state;
    for (enum happening_kind what = HAPPENED_PUSHED; what <= HAPPENED_DELETED; what++) {
        for (enum job_state of = JOB_GONE; of < JOB_STATES; of++) {
            bool has_time = of != JOB_GONE && of != JOB_BURIED;
            round_trip(&(struct happening){.what = what,
                                           .state = of,
                                           .seq = 7,
                                           .at_us = 1700000000000000,
                                           .time_us = has_time ? 1700000030000000 : 0,
                                           .lease = of == JOB_RESERVED ? 77 : 0,
                                           .id = BYTES("an id"),
                                           .topic = BYTES("mail"),
                                           .note = BYTES("out of tea"),
                                           .code = 404});
        }
    }
}

static void values_at_their_ends_come_back(void **state)
{
    static const int64_t times_us[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    (void)state;
    for (unsigned i = 0; i < 25; i++)
        round_trip(&(struct happening){.what = HAPPENED_RESERVED,
                                       .state = JOB_RESERVED,
                                       .seq = UINT64_MAX,
                                       .at_us = times_us[i % 5],
                                       .time_us = times_us[i / 5],
                                       .lease = UINT64_MAX,
                                       .id = bytes_of(long_text, JOB_ID_MAX),
                                       .topic = bytes_of(long_text, TOPIC_NAME_MAX),
                                       .note = bytes_of(long_text, JOB_NOTE_MAX),
                                       .code = UINT16_MAX});
    round_trip(&(struct happening){.what = HAPPENED_DELETED, .state = JOB_GONE, .seq = 1});
}

/* The fields of an entry of a job that is gone, which has no time and no lease. */
struct fields {
    uint8_t what, state;
    uint64_t seq, code;
    size_t id_len, topic_len, note_len;
};

static enum err decode(const struct fields *fields)
{
    static char room[4 * HISTORY_ENTRY_MAX];
    const size_t lens[] = {fields->id_len, fields->topic_len, fields->note_len};
    struct happening happening;
    size_t len;
    char *at = room;
    *at++ = (char)fields->what;
    *at++ = (char)fields->state;
    at = varint_put(at, fields->seq);
    at = varint_put(at, 0);
    for (unsigned i = 0; i < 3; i++) {
        if (i == 2)
            at = varint_put(at, fields->code);
        at = varint_put(at, lens[i]);
        memset(at, 'x', lens[i]);
        at += lens[i];
    }
    return history_entry_decode(room, (size_t)(at - room), &happening, &len);
}

static void an_entry_that_no_version_writes_is_refused(void **state)
{
    (void)state;
    const struct fields good = {HAPPENED_DELETED, JOB_GONE,       1,           UINT16_MAX,
                                JOB_ID_MAX,       TOPIC_NAME_MAX, JOB_NOTE_MAX};
    struct fields bad[7];
    for (unsigned i = 0; i < 7; i++)
        bad[i] = good;
    bad[0].what = 0;
    bad[1].what = HAPPENINGS;
    bad[2].state = JOB_STATES;
    bad[3].seq = 0;
    bad[4].code = UINT16_MAX + 1;
    bad[5].id_len = JOB_ID_MAX + 1;
    bad[6].note_len = JOB_NOTE_MAX + 1;
    assert_int_equal(decode(&good), OK);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(decode(&bad[i]), ERR_CORRUPT);
}

/* The server's numbers are told apart, and from ids. */
static void each_job_has_a_key_of_its_own(void **state)
{
    const struct bytes none = {0};
    (void)state;
    assert_true(history_key(9, 1, none) != history_key(9, 2, none));
    assert_true(history_key(9, 1, none) != history_key(8, 1, none));
    assert_true(history_key(9, 1, BYTES("a")) != history_key(9, 1, BYTES("b")));
    assert_true(history_key(9, 1, BYTES("a")) == history_key(9, 2, BYTES("a")));
}

static void a_record_is_as_long_as_its_entry_says(void **state)
{
    char room[HISTORY_ENTRY_MAX], record[HISTORY_ENTRY_MAX + 32] = {0};
    struct bytes entry;
    (void)state;
    size_t len = history_entry_encode(
        &(struct happening){.what = HAPPENED_PUSHED, .state = JOB_READY, .seq = 1}, room);
    size_t bytes = history_record_bytes(len);
    history_record_encode(bytes_of(room, len), record);
    assert_true(history_record_decode(record, bytes, &entry));
    assert_false(history_record_decode(record, bytes + 8, &entry));
    assert_false(history_record_decode(record, HISTORY_RECORD_HEAD - 1, &entry));
    put_u16(record + 6, (uint16_t)(len + 1)); /* a byte behind the entry */
    assert_false(history_record_decode(record, bytes, &entry));
    put_u16(record + 6, (uint16_t)(bytes - HISTORY_RECORD_HEAD + 1));
    assert_false(history_record_decode(record, bytes, &entry));
}

/* ---- files ---- */

/* An entry of so many bytes. */
static struct bytes entry_of(size_t len, char *room)
{
    struct happening happening = {
        .what = HAPPENED_BURIED, .state = JOB_BURIED, .seq = 1, .note = BYTES("")};
    size_t bare = history_entry_encode(&happening, room);
    happening.note = bytes_of(long_text, len - bare - (len - bare > 128));
    assert_int_equal(history_entry_encode(&happening, room), len);
    return bytes_of(room, len);
}

/* Three blocks: the first has no byte to spare. */
static void make_file(struct history_image *image)
{
    enum { ENTRY = 292, FULL = (HISTORY_BLOCK_BYTES - HISTORY_BLOCK_HEAD) / ENTRY };
    char room[HISTORY_ENTRY_MAX];
    size_t left = HISTORY_BLOCK_BYTES - HISTORY_BLOCK_HEAD;
    uint64_t key = 0;
    *image = (struct history_image){.head = {.id = {{1, 2, 3}}, .batch_first = 5, .batch_last = 9}};
    history_image_begin(image);
    for (; left >= 2 * ENTRY; left -= ENTRY) {
        key++;
        history_image_add(image, key, entry_of(ENTRY, room), 1000 + (int64_t)(key * 7 % 100));
    }
    history_image_add(image, ++key, entry_of(left, room), 1000); /* 292 to 583 bytes */
    for (unsigned i = 0; i < 2 * FULL - 10; i++)
        history_image_add(image, ++key, entry_of(ENTRY, room), 1000);
    history_image_end(image);
    assert_int_equal(image->head.entries, key);
}

static void a_file_has_all_its_entries_in_full_blocks(void **state)
{
    static struct history_image image;
    struct history_head head;
    struct history_fence fences[3];
    struct history_walk walk;
    struct happening happening;
    struct bytes entry;
    uint64_t entries = 0;
    (void)state;
    make_file(&image);
    assert_int_equal(history_head_decode(image.bytes.at, &head), FORMAT_GOOD);
    assert_true(head.blocks == 3 && head.size_bytes == image.bytes.len);
    assert_true(head.batch_first == 5 && head.batch_last == 9);
    assert_true(head.at_first_us == 1000 && head.at_last_us == 1099);
    assert_int_equal(history_fences_decode(&head, image.bytes.at + head.data_end, fences), OK);
    assert_int_equal(fences[1].offset, BLOCK + HISTORY_BLOCK_BYTES);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t end = i < 2 ? fences[i + 1].offset : head.data_end;
        const char *block = image.bytes.at + fences[i].offset;
        size_t len = (size_t)(end - fences[i].offset);
        assert_int_equal(fences[i].key, entries + 1);
        assert_int_equal(history_walk_init(&walk, block, len - 1), ERR_CORRUPT);
        assert_int_equal(history_walk_init(&walk, block, HISTORY_BLOCK_HEAD - 1), ERR_CORRUPT);
        assert_int_equal(history_walk_init(&walk, block, len), OK);
        enum err err;
        while ((err = history_walk_next(&walk, &happening, &entry)) == OK)
            entries++;
        assert_int_equal(err, ERR_NOT_FOUND);
    }
    assert_int_equal(entries, head.entries);
    history_image_fini(&image);
}

/* What is found of a header with that number at that place, and the checksum of that. */
static enum format_verdict verdict_of(const struct history_image *image, size_t at, uint64_t number,
                                      bool is_long, struct history_head *out_head)
{
    char block[BLOCK];
    memcpy(block, image->bytes.at, BLOCK);
    if (is_long)
        put_u64(block + at, number);
    else
        put_u32(block + at, (uint32_t)number);
    put_u64(block + HEAD_SUM_AT, hash_of(block, HEAD_SUM_AT));
    return history_head_decode(block, out_head);
}

static void a_header_that_no_version_writes_is_refused(void **state)
{
    enum { VERSION = 8, BLOCKS = 12, SIZE = 32, DATA_END = 40, LAST = 64 };
    static struct history_image image;
    struct history_head head;
    (void)state;
    make_file(&image);
    uint64_t size = image.head.size_bytes, data_end = image.head.data_end;
    assert_int_equal(verdict_of(&image, VERSION, 1, false, &head), FORMAT_GOOD);
    assert_int_equal(verdict_of(&image, VERSION, 0, false, &head), FORMAT_BAD);
    assert_int_equal(verdict_of(&image, BLOCKS, 2, false, &head), FORMAT_BAD);
    assert_int_equal(verdict_of(&image, SIZE, size + 1, true, &head), FORMAT_BAD);
    assert_int_equal(verdict_of(&image, SIZE, data_end - 1, true, &head), FORMAT_BAD);
    assert_int_equal(verdict_of(&image, DATA_END, data_end - 1, true, &head), FORMAT_BAD);
    assert_int_equal(verdict_of(&image, LAST, 5, true, &head), FORMAT_GOOD);
    assert_int_equal(verdict_of(&image, LAST, 4, true, &head), FORMAT_BAD);
    history_image_fini(&image);
}

/* An older version keeps such a file, and knows which batches are in it. */
static void a_header_of_a_newer_version_says_which_batches_it_has(void **state)
{
    static struct history_image image;
    struct history_head head;
    (void)state;
    make_file(&image);
    assert_int_equal(verdict_of(&image, 8, 2, false, &head), FORMAT_NEWER);
    assert_true(head.batch_first == 5 && head.batch_last == 9 && head.at_last_us == 1099);
    history_image_fini(&image);
}

/* What is made of the fences with that number at that place; the header has their checksum. */
static enum err decode_fences(const struct history_image *image, size_t at, uint64_t number)
{
    char section[3 * HISTORY_FENCE_BYTES];
    struct history_fence fences[3];
    struct history_head head = image->head;
    memcpy(section, image->fences.at, sizeof(section));
    put_u64(section + at, number);
    head.fences_sum = hash_of(section, sizeof(section));
    return history_fences_decode(&head, section, fences);
}

static void fences_that_do_not_fit_the_file_are_refused(void **state)
{
    enum { KEY = 0, OFFSET = 8, NEXT = HISTORY_FENCE_BYTES };
    static struct history_image image;
    struct history_fence fences[3];
    (void)state;
    make_file(&image);
    const char *section = image.fences.at;
    uint64_t second = get_u64(section + NEXT + OFFSET),
             third = get_u64(section + 2 * NEXT + OFFSET);
    assert_int_equal(decode_fences(&image, OFFSET, BLOCK), OK);
    assert_int_equal(decode_fences(&image, OFFSET, BLOCK + 8), ERR_CORRUPT);
    assert_int_equal(decode_fences(&image, NEXT + OFFSET, BLOCK), ERR_CORRUPT);      /* empty */
    assert_int_equal(decode_fences(&image, NEXT + OFFSET, second + 1), ERR_CORRUPT); /* too long */
    assert_int_equal(decode_fences(&image, 2 * NEXT + OFFSET, image.head.data_end), ERR_CORRUPT);
    assert_int_equal(decode_fences(&image, 2 * NEXT + KEY, get_u64(section + NEXT)), OK);
    assert_int_equal(decode_fences(&image, 2 * NEXT + KEY, get_u64(section + NEXT) - 1),
                     ERR_CORRUPT);
    image.head.data_end = third + HISTORY_BLOCK_BYTES;
    assert_int_equal(history_fences_decode(&image.head, section, fences), OK);
    image.head.data_end++; /* the last block would be too long */
    assert_int_equal(history_fences_decode(&image.head, section, fences), ERR_CORRUPT);
    image.head.data_end--;
    image.head.fences_sum++;
    assert_int_equal(history_fences_decode(&image.head, section, fences), ERR_CORRUPT);
    history_image_fini(&image);
}

static void names_are_told_apart(void **state)
{
    static const char *const none[] = {"",
                                       "hist-0000002",
                                       "hist-0000002A",
                                       "hist-0000002a.tm",
                                       "hist-0000002a.tmp2",
                                       "hits-0000002a",
                                       "slice-0000002a"};
    char name[DISK_NAME_MAX];
    uint32_t number;
    bool half_made;
    (void)state;
    history_name(0x2a, name);
    assert_true(history_name_parse(name, &number, &half_made) && number == 0x2a && !half_made);
    history_tmp_name(0x2a, name);
    assert_true(history_name_parse(name, &number, &half_made) && number == 0x2a && half_made);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_false(history_name_parse(none[i], &number, &half_made));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_happening_comes_back_in_each_state),
        cmocka_unit_test(values_at_their_ends_come_back),
        cmocka_unit_test(an_entry_that_no_version_writes_is_refused),
        cmocka_unit_test(each_job_has_a_key_of_its_own),
        cmocka_unit_test(a_record_is_as_long_as_its_entry_says),
        cmocka_unit_test(a_file_has_all_its_entries_in_full_blocks),
        cmocka_unit_test(a_header_that_no_version_writes_is_refused),
        cmocka_unit_test(a_header_of_a_newer_version_says_which_batches_it_has),
        cmocka_unit_test(fences_that_do_not_fit_the_file_are_refused),
        cmocka_unit_test(names_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
