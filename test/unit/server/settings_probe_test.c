/*
 * What is checked of a target before settings are stored: what [push] can never allow, and what
 * cannot be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/arena.h"
#include "server/http/settings_probe.h"

static struct config config;
static struct call call;
static unsigned probed;

/* What is named "bad" cannot be used. */
static enum err probe(enum reference_kind kind, struct bytes reference, char *why, size_t why_bytes)
{
    (void)kind;
    probed++;
    if (!bytes_eq(reference, BYTES("$bad")) && !bytes_eq(reference, BYTES("/bad")))
        return OK;
    (void)snprintf(why, why_bytes, "it is bad");
    return ERR_INVALID;
}

/* The settings are of a target of this kind, with these fields. The field that is refused; "": they
 * are taken. */
static const char *refused(const char *fields)
{
    char text[400];
    struct arena scratch = {0};
    (void)snprintf(text, sizeof(text), "{\"target\":{\"type\":\"http\",%s}}", fields);
    call = (struct call){.kind = CALL_CMD,
                         .cmd = {.kind = CMD_CONFIGURE_TOPIC, .topic.settings = bytes_str(text)},
                         .probes = true};
    probed = 0;
    settings_probe(probe, &config, &scratch, &call);
    arena_fini(&scratch);
    assert_true(call.kind == CALL_CMD || call.problem.status == 400);
    return call.kind == CALL_PROBLEM ? call.problem.field : "";
}

static void allow(const char *blocks, const char *ports)
{
    const char *why;
    config_init(&config);
    assert_int_equal(address_rule_add_allow(&config.push_rule, bytes_str(blocks), &why), OK);
    assert_int_equal(address_rule_set_ports(&config.push_rule, bytes_str(ports), &why), OK);
}

static void an_address_that_is_never_allowed_is_refused(void **state)
{
    (void)state;
    allow("10.1.0.0/16", "1-65535");
    assert_string_equal(refused("\"url\":\"http://10.1.2.3/\""), "");
    assert_string_equal(refused("\"url\":\"http://9.9.9.9/\""), "");
    assert_string_equal(refused("\"url\":\"http://localhost/\""), ""); /* not looked up */
    assert_string_equal(refused("\"url\":\"http://10.2.0.1/\""), "target.url");
    assert_string_equal(call.problem.detail,
                        "the address 10.2.0.1 is not public, and push.allow does not list it");
    assert_string_equal(call.problem.config_key, "push.allow");
    assert_string_equal(refused("\"url\":\"http://[::1]:8000/\""), "target.url");
}

static void a_port_that_is_never_allowed_is_refused(void **state)
{
    (void)state;
    allow("", "443, 8000-8099");
    assert_string_equal(refused("\"url\":\"https://h/\""), "");
    assert_string_equal(refused("\"url\":\"https://h:8099/\""), "");
    assert_string_equal(refused("\"url\":\"http://h/\""), "target.url");
    assert_string_equal(call.problem.detail, "push.ports does not have port 80");
    assert_string_equal(call.problem.config_key, "push.ports");
    assert_string_equal(refused("\"url\":\"http://h:8100/\""), "target.url");
}

/* It is given the URL, and connects by itself. */
static void a_proxy_decides_of_addresses_but_not_of_ports(void **state)
{
    (void)state;
    allow("", "80");
    (void)snprintf(config.push_proxy, sizeof(config.push_proxy), "http://proxy:3128");
    assert_string_equal(refused("\"url\":\"http://10.2.0.1/\""), "");
    assert_string_equal(refused("\"url\":\"http://10.2.0.1:81/\""), "target.url");
    assert_string_equal(refused("\"url\":\"http://h:81/\""), "target.url");
}

/* Whatever address and port the URL has: no connection is made to them. */
static void any_socket_of_the_list_may_be_a_target_and_no_other(void **state)
{
    static const char *const sockets[] = {"/run/a", "/run/bb", "/c"};
    static const char *const others[] = {"/run/b", "/run/bbb", "/run", "/c/"};
    char fields[100];
    (void)state;
    allow("", "443");
    (void)snprintf(config.push_unix_sockets, sizeof(config.push_unix_sockets),
                   "/run/a\n/run/bb\n/c\n");
    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        (void)snprintf(fields, sizeof(fields),
                       "\"url\":\"http://127.0.0.1/\",\"unix_socket\":\"%s\"", sockets[i]);
        assert_string_equal(refused(fields), "");
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(fields, sizeof(fields), "\"url\":\"http://h/\",\"unix_socket\":\"%s\"",
                       others[i]);
        assert_string_equal(refused(fields), "target.unix_socket");
    }
}

static void a_reference_that_cannot_be_used_is_refused_with_its_field(void **state)
{
    (void)state;
    allow("", "443");
    assert_string_equal(refused("\"url\":\"https://h/\",\"sign\":[\"$a\",\"$bad\"]"),
                        "target.sign[1]");
    assert_string_equal(call.problem.detail, "it is bad");
    assert_string_equal(refused("\"url\":\"https://h/\",\"ca\":\"/a\",\"certificate\":\"/bad\","
                                "\"key\":\"/bad\""),
                        "target.certificate");
    assert_int_equal(probed, 2);
    assert_string_equal(refused("\"url\":\"https://h/\",\"sign\":[\"$a\"],\"ca\":\"/a\""), "");
    assert_int_equal(probed, 2);
}

static void settings_that_need_no_check_are_taken(void **state)
{
    (void)state;
    allow("", "443");
    call = (struct call){.kind = CALL_CMD,
                         .cmd = {.kind = CMD_CONFIGURE_TOPIC,
                                 .topic.settings = BYTES("{\"target\":{\"type\":\"http\","
                                                         "\"url\":\"http://127.0.0.1:22/\"}}")}};
    settings_probe(probe, &config, NULL, &call); /* such as of a paused target */
    assert_int_equal(call.kind, CALL_CMD);
    assert_string_equal(refused("\"timeout\":\"3s\""), ""); /* jobs bring their own URL */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_is_never_allowed_is_refused),
        cmocka_unit_test(a_port_that_is_never_allowed_is_refused),
        cmocka_unit_test(a_proxy_decides_of_addresses_but_not_of_ports),
        cmocka_unit_test(any_socket_of_the_list_may_be_a_target_and_no_other),
        cmocka_unit_test(a_reference_that_cannot_be_used_is_refused_with_its_field),
        cmocka_unit_test(settings_that_need_no_check_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
