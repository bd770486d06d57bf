#include "laterd/election.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "laterd/plugin_file.h"
#include "member/alone.h"
#include "sink/reference.h"
#ifndef LATERD_NO_REDIS
#include "member/redis_member.h"
#endif

/* Found by the beginning of the URL. */
static const struct scheme {
    const char *start;
    const char *plugin;  /* its file is laterd-PLUGIN.so; NULL: it is in laterd */
    const char *package; /* Debian's, of its library */
    const struct member_plugin *built_in;
} schemes[] = {
    {"zookeeper://", "zookeeper", "libzookeeper-mt2", NULL},
    {"mysql://", "member-mysql", "libmariadb3", NULL},
#ifndef LATERD_NO_REDIS
    {"redis", NULL, "", &redis_member},
    {"unix://", NULL, "", &redis_member},
#endif
    {"alone", NULL, "", &alone_member},
};

static const char *place_of(const struct config *config)
{
    static struct config_place_text text;
    text = config_place_text(config_place(config, "member", "url"));
    return text.text;
}

static const struct scheme *scheme_of(const char *url)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (bytes_starts(bytes_str(url), bytes_str(schemes[i].start)))
            return &schemes[i];
    }
    return NULL;
}

_Static_assert(offsetof(struct member_plugin, version) == offsetof(struct plugin_head, version),
               "a plugin begins with a plugin_head");

static int load(const struct config *config, const struct scheme *scheme, struct election *election)
{
    election->plugin = scheme->built_in;
    if (!election->plugin)
        election->plugin = plugin_file_load(&(struct plugin_wanted){.name = scheme->plugin,
                                                                    .symbol = MEMBER_PLUGIN_SYMBOL,
                                                                    .abi = MEMBER_PLUGIN_ABI,
                                                                    .package = scheme->package,
                                                                    .place = place_of(config),
                                                                    .key = "member.url"});
    return election->plugin ? 0 : EXIT_FAILURE;
}

static struct member_options options_of(const struct election *election,
                                        const struct config *config)
{
    return (struct member_options){
        .url = election->url,
        .url_text = config->member_url,
        .ca = config->member_ca,
        .name = config->member_name,
        .advertise = election->advertise,
        .timeout_us = config->member_timeout_us,
    };
}

/* Of $NAME and file:PATH; the member reads them again for the password of a later connection. */
static int read_url(const struct config *config, struct election *election)
{
    struct buf text = {0};
    char why[MEMBER_WHY_MAX];
    enum err err = reference_read(config->member_url, &text, why, sizeof(why));
    if (!err && text.len > sizeof(election->url)) {
        (void)snprintf(why, sizeof(why), "longer than %zu bytes", sizeof(election->url) - 1);
        err = ERR_INVALID;
    }
    if (err)
        complain("%smember.url: %s", place_of(config), why);
    else
        memcpy(election->url, text.at, text.len); /* with its NUL */
    buf_fini(&text);
    return exit_status_of(err);
}

/* NULL: there is none, and the reason is on standard error. */
static const struct scheme *find_scheme(const struct config *config, const char *url)
{
    const struct scheme *scheme = scheme_of(url);
    if (!scheme)
        complain("%smember.url must begin with zookeeper://, mysql:// or redis://, or be alone",
                 place_of(config));
    return scheme;
}

/* `election` has the plugin and the URL. */
static enum err check(const struct election *election, const struct config *config)
{
    struct member_error error = {.text = ""};
    struct member_options options = options_of(election, config);
    enum err err = election->plugin->check(&options, &error);
    if (err)
        complain("%smember.%s", place_of(config), error.text);
    return err;
}

int election_load(const struct config *config, struct election *out_election)
{
    *out_election = (struct election){.plugin = NULL};
    if (!config->member_url[0])
        return 0;
    int status = read_url(config, out_election);
    if (status)
        return status;
    const struct scheme *scheme = find_scheme(config, out_election->url);
    if (!scheme)
        return EXIT_WRONG_CONFIG;
    status = load(config, scheme, out_election);
    return status ? status : exit_status_of(check(out_election, config));
}

enum err election_check(const struct election *loaded, const struct config *config)
{
    struct election read = {.plugin = NULL};
    if (!config->member_url[0] || reference_is(config->member_url))
        return OK;
    const struct scheme *scheme = find_scheme(config, config->member_url);
    if (!scheme)
        return ERR_INVALID;
    read.plugin = scheme->built_in;
    if (!read.plugin && loaded->plugin && scheme_of(loaded->url) == scheme)
        read.plugin = loaded->plugin;
    (void)snprintf(read.url, sizeof(read.url), "%s", config->member_url); /* it fits */
    return read.plugin && check(&read, config) == ERR_INVALID ? ERR_INVALID : OK;
}

/* Sets the URL where clients reach us, from an address that we listen on: for "all interfaces" the
 * machine's address. */
static void find_advertise(struct election *election, const struct config *config, const char *http)
{
    char host[128];
    const char *colon = strrchr(http, ':');
    bool any = strncmp(http, "0.0.0.0:", 8) == 0 || strncmp(http, "[::]:", 5) == 0;
    size_t room = sizeof(election->advertise);
    if (config->member_advertise[0])
        (void)snprintf(election->advertise, room, "%s", config->member_advertise);
    else if (any && colon && gethostname(host, sizeof(host)) == 0)
        (void)snprintf(election->advertise, room, "http://%.120s%s", host, colon);
    else if (http[0] && strncmp(http, "unix:", 5) != 0)
        (void)snprintf(election->advertise, room, "http://%s", http);
}

int election_open(struct election *election, const struct config *config, struct loop *loop,
                  uint64_t instance, const char *http)
{
    struct member_error error = {.text = ""};
    find_advertise(election, config, http);
    struct member_options options = options_of(election, config);
    options.loop = loop;
    options.instance = instance;
    if (election->plugin->open(&options, &election->member, &error)) {
        complain("%smember.%s", place_of(config), error.text);
        return EXIT_FAILURE;
    }
    log_event(LOG_INFO, "member_opened", "name=%s advertise=%s timeout_s=%lld library=\"%s\"",
              config->member_name, election->advertise,
              (long long)(config->member_timeout_us / 1000000), election->plugin->library);
    return 0;
}

void election_close(struct election *election)
{
    if (election->member)
        election->member->verbs->close(election->member);
    election->member = NULL;
}
