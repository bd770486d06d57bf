/* sink/address_rule: no address that is not public is allowed, unless a list says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <curl/curl.h>
#include <stdio.h>

#include "sink/address_rule.h"

static struct address_rule rule_of(const char *allow, const char *ports)
{
    struct address_rule rule = {0};
    const char *problem = NULL;
    assert_int_equal(address_rule_add_allow(&rule, bytes_str(allow), &problem), OK);
    assert_int_equal(address_rule_set_ports(&rule, bytes_str(ports), &problem), OK);
    return rule;
}

static bool allows(const struct address_rule *rule, const char *text)
{
    uint8_t address[ADDRESS_BYTES];
    assert_true(address_read(bytes_str(text), address));
    return address_rule_allows_address(rule, address);
}

/* The first and the last address of each range, and what stands before and behind it; NULL: that
   is of another range, or there is none. */
static const struct {
    const char *before, *first, *last, *behind;
} ranges[] = {
    {NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0"},
    {"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
    {"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
    {"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
    {"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
    {"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
    {"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
    {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
    {"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
    {"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
    {"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
    {"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
    {"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
    {"223.255.255.255", "224.0.0.0", "255.255.255.255", NULL},
    {NULL, "::", "::1", NULL},
    {NULL, "::2", "::fffe:ffff:ffff", NULL}, /* all below ::ffff:0:0/96, which is IPv4 */
    {NULL, "::1:0:0:0", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"},
    {"2000:ffff::", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
    {"2001:db7:ffff::", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
    {"2001:ffff::", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"},
    {"3ffe:ffff::", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
    {"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     NULL},
    {NULL, "64:ff9b::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", NULL}, /* NAT64 */
    {NULL, "100::", "100:0:0:1:ffff:ffff:ffff:ffff", NULL},          /* discard */
    {NULL, "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
    {NULL, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
    {NULL, "fe80::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
    {NULL, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
};

static void each_range_that_is_not_public_is_refused_to_its_ends(void **state)
{
    (void)state;
    struct address_rule rule = rule_of("", "80");
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        assert_false(allows(&rule, ranges[i].first));
        assert_false(allows(&rule, ranges[i].last));
        assert_true(!ranges[i].before || allows(&rule, ranges[i].before));
        assert_true(!ranges[i].behind || allows(&rule, ranges[i].behind));
    }
}

static void addresses_of_ipv4_are_judged_in_the_clothes_of_ipv6_too(void **state)
{
    (void)state;
    struct address_rule rule = rule_of("10.1.0.0/16", "80");
    assert_false(allows(&rule, "::ffff:127.0.0.1"));
    assert_false(allows(&rule, "::ffff:a9fe:a9fe")); /* 169.254.169.254 */
    assert_true(allows(&rule, "::ffff:93.184.216.34"));
    assert_true(allows(&rule, "::ffff:10.1.255.255"));
    assert_false(allows(&rule, "::ffff:10.2.0.0"));
    assert_false(allows(&rule, "64:ff9b::7f00:1"));
    assert_false(allows(&rule, "2002:7f00:1::"));
    assert_false(allows(&rule, "::127.0.0.1"));
    assert_false(allows(&rule, "::ffff:0:127.0.0.1"));
}

static void what_is_listed_is_allowed_and_nothing_beside_it(void **state)
{
    (void)state;
    struct address_rule rule = rule_of("127.0.0.2, 10.32.0.0/11\tfd00:1::/32,::1", "80");
    assert_int_equal(rule.allow_count, 4);
    assert_true(allows(&rule, "127.0.0.2"));
    assert_false(allows(&rule, "127.0.0.1"));
    assert_false(allows(&rule, "127.0.0.3"));
    assert_false(allows(&rule, "10.31.255.255"));
    assert_true(allows(&rule, "10.32.0.0"));
    assert_true(allows(&rule, "10.63.255.255"));
    assert_false(allows(&rule, "10.64.0.0"));
    assert_true(allows(&rule, "fd00:1:ffff::1"));
    assert_false(allows(&rule, "fd00:2::"));
    assert_true(allows(&rule, "::1"));
    assert_false(allows(&rule, "::"));
}

static void all_of_ipv6_is_nothing_of_ipv4(void **state)
{
    (void)state;
    struct address_rule rule = rule_of("::/0", "80");
    assert_true(allows(&rule, "fe80::1"));
    assert_false(allows(&rule, "127.0.0.1"));
    rule = rule_of("0.0.0.0/0", "80");
    assert_true(allows(&rule, "127.0.0.1"));
    assert_true(allows(&rule, "::ffff:10.0.0.1"));
    assert_false(allows(&rule, "fe80::1"));
    rule = rule_of("::ffff:10.0.0.0/104", "80");
    assert_true(allows(&rule, "10.9.9.9"));
    assert_false(allows(&rule, "11.0.0.1") && allows(&rule, "127.0.0.1"));
}

static void ports_are_those_of_the_list(void **state)
{
    (void)state;
    struct address_rule rule = rule_of("", "80,443, 1024+");
    static const struct {
        uint16_t port;
        bool allowed;
    } rows[] = {{0, false},  {22, false},   {79, false},  {80, true},   {81, false},
                {443, true}, {1023, false}, {1024, true}, {65535, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(address_rule_allows_port(&rule, rows[i].port), rows[i].allowed);
    rule = rule_of("", "8000-8099");
    assert_true(address_rule_allows_port(&rule, 8099));
    assert_false(address_rule_allows_port(&rule, 8100));
    assert_false(address_rule_allows_port(&rule, 80));
}

static void a_list_that_is_none_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    static const char *const bad_allow[] = {
        "10.0.0.0/33", "10.0.0.1/8", "127.1",       "0x7f000001", "::/129", "localhost",
        "10.0.0.0/",   "/8",         "10.0.0.0/-1", "1.2.3.4;",   "[::1]",  "fe80::1%eth0"};
    static const char *const bad_ports[] = {"",    "0",   "65536", "http", "90-80",
                                            "80-", "-80", "80++",  "+",    "1-2-3"};
    struct address_rule rule = rule_of("10.0.0.0/8", "80");
    for (size_t i = 0; i < sizeof(bad_allow) / sizeof(bad_allow[0]); i++) {
        const char *problem = NULL;
        assert_int_equal(address_rule_add_allow(&rule, bytes_str(bad_allow[i]), &problem),
                         ERR_INVALID);
        assert_non_null(problem);
    }
    for (size_t i = 0; i < sizeof(bad_ports) / sizeof(bad_ports[0]); i++) {
        const char *problem = NULL;
        assert_int_equal(address_rule_set_ports(&rule, bytes_str(bad_ports[i]), &problem),
                         ERR_INVALID);
        assert_non_null(problem);
    }
    assert_int_equal(rule.allow_count, 1);
    assert_int_equal(rule.port_count, 1);
    assert_true(address_rule_allows_port(&rule, 80));
}

static void lists_have_an_end(void **state)
{
    (void)state;
    struct buf text = {0};
    struct address_rule rule = rule_of("", "80");
    const char *problem = NULL;
    for (int i = 0; i < ADDRESS_ALLOW_MAX; i++)
        buf_addf(&text, "10.0.0.%d ", i);
    assert_int_equal(address_rule_add_allow(&rule, buf_bytes(&text), &problem), OK);
    assert_int_equal(address_rule_add_allow(&rule, BYTES("10.9.9.9"), &problem), ERR_INVALID);
    assert_non_null(strstr(problem, "64"));
    buf_fini(&text);
}

/* libcurl alone makes an address of a host; what it makes is what the rule is asked about. */
static void hosts_that_libcurl_takes_for_numbers_are_judged_by_the_address(void **state)
{
    (void)state;
    static const struct {
        const char *host, *address;
    } rows[] = {
        {"127.1", "127.0.0.1"},
        {"0x7f000001", "127.0.0.1"},
        {"2130706433", "127.0.0.1"},
        {"0177.0.0.1", "127.0.0.1"},
        {"0", "0.0.0.0"},
        {"127.0.0.1.", "127.0.0.1"},
        {"0xa9.0xfe.43518", "169.254.169.254"},
        {"[::ffff:127.0.0.1]", "::ffff:127.0.0.1"},
        {"[::FFFF:7F00:1]", "::ffff:127.0.0.1"},
    };
    struct address_rule rule = rule_of("", "80");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char url[64], *host = NULL;
        uint8_t address[ADDRESS_BYTES], meant[ADDRESS_BYTES];
        CURLU *parsed = curl_url();
        (void)snprintf(url, sizeof(url), "http://%s/", rows[i].host);
        assert_int_equal(curl_url_set(parsed, CURLUPART_URL, url, 0), CURLUE_OK);
        assert_int_equal(curl_url_get(parsed, CURLUPART_HOST, &host, 0), CURLUE_OK);
        struct bytes text = bytes_str(host);
        if (text.at[0] == '[')
            text = bytes_of(text.at + 1, text.len - 2);
        if (text.at[text.len - 1] == '.')
            text.len--; /* the resolver does the same */
        assert_true(address_read(text, address));
        assert_true(address_read(bytes_str(rows[i].address), meant));
        assert_memory_equal(address, meant, ADDRESS_BYTES);
        assert_false(address_rule_allows_address(&rule, address));
        curl_free(host);
        curl_url_cleanup(parsed);
    }
}

static void so_many_ports_are_taken_and_no_more(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        struct address_rule rule = {.port_count = 0};
        const char *problem = NULL;
        struct buf text = {0};
        for (unsigned i = 0; i < ADDRESS_PORTS_MAX + more; i++)
            buf_addf(&text, "%u ", 1000 + i);
        assert_int_equal(address_rule_set_ports(&rule, buf_bytes(&text), &problem),
                         more ? ERR_INVALID : OK);
        assert_int_equal(rule.port_count, more ? 0 : ADDRESS_PORTS_MAX);
        assert_int_equal(address_rule_allows_port(&rule, 1000 + ADDRESS_PORTS_MAX - 1), !more);
        buf_fini(&text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_ports_are_taken_and_no_more),
        cmocka_unit_test(each_range_that_is_not_public_is_refused_to_its_ends),
        cmocka_unit_test(addresses_of_ipv4_are_judged_in_the_clothes_of_ipv6_too),
        cmocka_unit_test(what_is_listed_is_allowed_and_nothing_beside_it),
        cmocka_unit_test(all_of_ipv6_is_nothing_of_ipv4),
        cmocka_unit_test(ports_are_those_of_the_list),
        cmocka_unit_test(a_list_that_is_none_is_refused_and_changes_nothing),
        cmocka_unit_test(lists_have_an_end),
        cmocka_unit_test(hosts_that_libcurl_takes_for_numbers_are_judged_by_the_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
