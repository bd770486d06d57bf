/* The plugin's entry points: checks the options, and opens a journal. */
#include "journal/mysql/plugin.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <unistd.h>

#include "journal/url_find.h"
#include "os/ca_file.h"

/* Not for the loop's thread once turns run: it may read files. */
static enum err read_options(const struct journal_options *options, struct link_options *out_link,
                             struct journal_error *out_error)
{
    struct link_options link = {.url_text = options->url,
                                .password_text = options->password,
                                .timeout_s = (unsigned)((options->timeout_us + 999999) / 1000000)};
    char why[JOURNAL_FIND_WHY_MAX];
    enum err err = journal_url_find(options->url, options->password, &link.url, why);
    if (err)
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", why);
    (void)snprintf(link.ca, sizeof(link.ca), "%s", options->ca);
    if (!err)
        *out_link = link;
    return err;
}

static enum err check(const struct journal_options *options, struct journal_error *out_error)
{
    struct link_options link;
    const char *path;
    char why[CA_FILE_WHY_MAX];
    enum err err = read_options(options, &link, out_error);
    if (err || link.url.tls != JOURNAL_TLS_VERIFY) /* `ca` has no effect: config_warn.c says so */
        return err;
    err = ca_file_find(options->ca, &path, why);
    if (err)
        (void)snprintf(out_error->text, sizeof(out_error->text), "ca: %s", why);
    return err;
}

/* The format of sdmq: the machine's name, a slash, its first address that is not loopback. */
static void name_host(char *room, size_t room_bytes)
{
    char name[64] = "", address[INET_ADDRSTRLEN] = "127.0.0.1";
    struct ifaddrs *all = NULL;
    (void)gethostname(name, sizeof(name) - 1);
    if (getifaddrs(&all) == 0) {
        for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
            if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
                (at->ifa_flags & IFF_LOOPBACK) || !(at->ifa_flags & IFF_UP))
                continue;
            const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)at->ifa_addr;
            (void)inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address)); /* there is room */
            break;
        }
        freeifaddrs(all);
    }
    (void)snprintf(room, room_bytes, "%s/%s", name, address);
}

static enum err open_journal(const struct journal_options *options, struct journal **out_journal,
                             struct journal_error *out_error)
{
    struct link_options link;
    char host[128];
    enum err err = read_options(options, &link, out_error);
    if (err)
        return err;
    if (mysql_library_init(0, NULL, NULL)) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "libmariadb cannot begin");
        return ERR_IO;
    }
    name_host(host, sizeof(host));
    *out_journal = writer_new(options, &link, host);
    return OK;
}

const struct journal_plugin laterd_journal_plugin = {
    .abi = JOURNAL_PLUGIN_ABI,
    .version = LATERD_VERSION,
    .library = "libmariadb " MARIADB_PACKAGE_VERSION,
    .check = check,
    .open = open_journal,
};
