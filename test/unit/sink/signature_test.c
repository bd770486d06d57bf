/* sink/webhook/signature: what Standard Webhooks' verifiers accept, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink/webhook/signature.h"

/* The specification's own. */
#define SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static const struct signed_message vector = {
    .id = {"msg_p5jXN8AQM9LWM0D4loKWxJek", 28},
    .time_s = 1614265330,
    .body = {"{\"test\": 2432232314}", 20},
};

static struct signing_key key_of(const char *text)
{
    struct signing_key key;
    const char *problem = "";
    enum err err = signing_key_read(bytes_str(text), &key, &problem);
    if (err)
        fail_msg("%s", problem);
    return key;
}

/* What a receiver does: it makes the signature itself, and compares. */
static bool verifies(const struct signing_key *key, const struct signed_message *message,
                     struct bytes signature)
{
    struct buf own = {0};
    assert_int_equal(signature_add(&own, key, message), OK);
    bool equal = bytes_eq(buf_bytes(&own), signature);
    buf_fini(&own);
    return equal;
}

static void the_vector_of_the_specification_is_met(void **state)
{
    (void)state;
    struct signing_key key = key_of(SECRET);
    struct buf out = {0};
    assert_int_equal(key.len, 24);
    assert_int_equal(signature_add(&out, &key, &vector), OK);
    assert_int_equal(out.len, SIGNATURE_TEXT_BYTES);
    assert_true(bytes_eq(buf_bytes(&out), BYTES(SIGNATURE)));
    buf_fini(&out);
}

static void any_bit_that_is_flipped_is_seen(void **state)
{
    (void)state;
    struct signing_key key = key_of(SECRET);
    struct bytes signature = BYTES(SIGNATURE);
    char room[64];
    assert_true(verifies(&key, &vector, signature));
    for (size_t bit = 0; bit < 8 * vector.body.len; bit++) {
        struct signed_message message = vector;
        memcpy(room, vector.body.at, vector.body.len);
        room[bit / 8] = (char)(room[bit / 8] ^ 1 << bit % 8);
        message.body.at = room;
        assert_false(verifies(&key, &message, signature));
    }
    for (size_t bit = 0; bit < 8 * vector.id.len; bit++) {
        struct signed_message message = vector;
        memcpy(room, vector.id.at, vector.id.len);
        room[bit / 8] = (char)(room[bit / 8] ^ 1 << bit % 8);
        message.id.at = room;
        assert_false(verifies(&key, &message, signature));
    }
    for (unsigned bit = 0; bit < 62; bit++) {
        struct signed_message message = vector;
        message.time_s ^= INT64_C(1) << bit;
        assert_false(verifies(&key, &message, signature));
    }
    for (size_t bit = 0; bit < 8 * (size_t)key.len; bit++) {
        struct signing_key other = key;
        other.at[bit / 8] = (uint8_t)(other.at[bit / 8] ^ 1 << bit % 8);
        assert_false(verifies(&other, &vector, signature));
    }
}

static void bodies_of_no_bytes_and_of_many_are_signed(void **state)
{
    (void)state;
    static char megabyte[1 << 20];
    struct signing_key key = key_of(SECRET);
    struct signed_message message = {.id = BYTES("msg_1"), .time_s = 1};
    struct buf out = {0};
    assert_int_equal(signature_add(&out, &key, &message), OK);
    message.body = bytes_of(megabyte, sizeof(megabyte));
    assert_int_equal(signature_add(&out, &key, &message), OK);
    assert_int_equal(out.len, 2 * SIGNATURE_TEXT_BYTES);
    assert_memory_not_equal(out.at, out.at + SIGNATURE_TEXT_BYTES, SIGNATURE_TEXT_BYTES);
    buf_fini(&out);
}

static void secrets_have_24_to_64_bytes(void **state)
{
    (void)state;
    /* 24 and 64 bytes; with blanks around; without its prefix; padded. */
    static const char *const good[] = {
        SECRET, " " SECRET "\r\n", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA==", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAA="};
    static const char *const bad[] = {
        "",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==", /* 22 bytes, and a length of 31 */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLQ==", /* 22 */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaL_-w",
        "whsec_MfKQ9r8GKYqrTwjUPD8I=PZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwA===",
        "secret"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(key_of(good[i]).len >= SIGNING_KEY_MIN);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct signing_key key;
        const char *problem = NULL;
        assert_int_equal(signing_key_read(bytes_str(bad[i]), &key, &problem), ERR_INVALID);
        assert_true(problem && !strstr(problem, "MfKQ")); /* nothing of the secret is told */
    }
}

static void a_secret_of_64_bytes_is_the_longest(void **state)
{
    (void)state;
    char text[6 + 88 + 1] = "whsec_";
    struct signing_key key;
    const char *problem = NULL;
    memset(text + 6, 'A', 88);
    memcpy(text + 6 + 86, "==", 2);
    assert_int_equal(key_of(text).len, 64);
    text[6 + 86] = 'A'; /* 65 bytes */
    assert_int_equal(signing_key_read(bytes_str(text), &key, &problem), ERR_INVALID);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_of_the_specification_is_met),
        cmocka_unit_test(any_bit_that_is_flipped_is_seen),
        cmocka_unit_test(bodies_of_no_bytes_and_of_many_are_signed),
        cmocka_unit_test(secrets_have_24_to_64_bytes),
        cmocka_unit_test(a_secret_of_64_bytes_is_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
