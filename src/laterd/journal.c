#include "laterd/journal.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "laterd/plugin_file.h"
#include "server/assemble.h"
#include "sink/reference.h"

enum { CLOSE_GRACE_US = 2 * 1000 * 1000 };

static const char *place_of(const struct config *config)
{
    static struct config_place_text text;
    text = config_place_text(config_place(config, "journal", "url"));
    return text.text;
}

static struct journal_options options_of(const struct config *config, struct loop *loop)
{
    return (struct journal_options){
        .url = config->journal_url,
        .password = config->journal_password,
        .ca = config->journal_ca,
        .log_all = config->journal_log == JOURNAL_LOG_ALL,
        .at_once = config->journal_mode == JOURNAL_MODE_BEFORE,
        .east_s = (int32_t)config->journal_east_s,
        .timeout_us = config->journal_timeout_us,
        .loop = loop,
    };
}

_Static_assert(offsetof(struct journal_plugin, version) == offsetof(struct plugin_head, version),
               "a plugin begins with a plugin_head");

int laterd_journal_load(const struct config *config, struct laterd_journal *out_journal)
{
    struct journal_options options = options_of(config, NULL);
    struct journal_error error = {.text = ""};
    *out_journal = (struct laterd_journal){.journal = NULL};
    if (!config->journal_url[0])
        return 0;
    const struct journal_plugin *plugin =
        plugin_file_load(&(struct plugin_wanted){.name = "journal-mysql",
                                                 .symbol = JOURNAL_PLUGIN_SYMBOL,
                                                 .abi = JOURNAL_PLUGIN_ABI,
                                                 .package = "libmariadb3",
                                                 .place = place_of(config),
                                                 .key = "[journal]"});
    if (!plugin)
        return EXIT_FAILURE;
    enum err err = plugin->check(&options, &error);
    if (err) {
        complain("%s[journal] %s", place_of(config), error.text);
        return exit_status_of(err);
    }
    out_journal->plugin = plugin;
    return 0;
}

enum err laterd_journal_check(const struct laterd_journal *loaded, const struct config *config)
{
    struct journal_options options = options_of(config, NULL);
    struct journal_error error = {.text = ""};
    if (!config->journal_url[0] || reference_is(config->journal_url))
        return OK;
    if (reference_is(options.password))
        options.password = "";
    if (!loaded->plugin && strncmp(config->journal_url, "mysql://", strlen("mysql://")) != 0)
        (void)snprintf(error.text, sizeof(error.text), "url: it must begin with mysql://");
    else if (!loaded->plugin || loaded->plugin->check(&options, &error) != ERR_INVALID)
        return OK;
    complain("%s[journal] %s", place_of(config), error.text);
    return ERR_INVALID;
}

static struct journal *make(struct journal_maker *maker)
{
    struct laterd_journal *self = LIST_ENTRY(maker, struct laterd_journal, maker);
    struct journal_options options = options_of(self->config, self->loop);
    struct journal_error error = {.text = ""};
    struct journal *journal;
    if (self->plugin->open(&options, &journal, &error)) {
        log_event(LOG_ERROR, "journal_not_opened", "error=\"%s\" hint=\"%s\"", error.text,
                  "laterd serves, its changes wait in Redis, and it is tried again each second");
        return NULL;
    }
    log_event(LOG_INFO, "journal_opened", "mode=after library=\"%s\"", self->plugin->library);
    return journal;
}

struct journal_maker *laterd_journal_maker(struct laterd_journal *journal,
                                           const struct config *config, struct loop *loop)
{
    if (!journal->plugin || config->engine != ENGINE_REDIS)
        return NULL;
    journal->maker.make = make;
    journal->config = config;
    journal->loop = loop;
    return &journal->maker;
}

/* Protects `member`: it may be closed while the journal's thread, which uses it, still ends. */
static pthread_mutex_t led_mutex = PTHREAD_MUTEX_INITIALIZER;

void laterd_journal_set_leader(struct laterd_journal *journal, const struct member *member,
                               uint64_t epoch)
{
    (void)pthread_mutex_lock(&led_mutex); /* cannot fail: it is ours and not recursive */
    journal->elected |= member != NULL;
    journal->member = member;
    journal->epoch = epoch;
    (void)pthread_mutex_unlock(&led_mutex);
}

/* journal_options::lead. */
static enum journal_lead lead_of(void *owner)
{
    struct laterd_journal *journal = owner;
    (void)pthread_mutex_lock(&led_mutex);
    const struct member *member = journal->member;
    bool leads = member && member->verbs->holds(member, journal->epoch);
    bool elected = journal->elected;
    (void)pthread_mutex_unlock(&led_mutex);
    return leads ? JOURNAL_LEAD_OURS : elected ? JOURNAL_LEAD_NOT_OURS : JOURNAL_LEAD_NONE;
}

int laterd_journal_open(struct laterd_journal *journal, const struct config *config,
                        struct embedded *embedded, struct loop *loop)
{
    struct journal_options options = options_of(config, loop);
    options.lead = lead_of;
    options.owner = journal;
    struct embedded_journal follow = assemble_journal(config);
    struct journal_error error = {.text = ""};
    if (!journal->plugin || config->engine == ENGINE_REDIS)
        return 0;
    if (!embedded || !embedded_store(embedded)) {
        complain("%s[journal] needs a log on disk: give laterd a data directory", place_of(config));
        return EXIT_FAILURE;
    }
    if (journal->plugin->open(&options, &journal->journal, &error)) {
        complain("%s[journal] %s", place_of(config), error.text);
        return EXIT_FAILURE;
    }
    follow.journal = journal->journal;
    enum err err = embedded_follow(embedded, &follow);
    if (err) {
        complain("%s[journal] the log cannot be followed: %s", place_of(config), err_text(err));
        return EXIT_FAILURE;
    }
    log_event(LOG_INFO, "journal_opened", "mode=%s library=\"%s\"",
              follow.before ? "before" : "after", journal->plugin->library);
    return 0;
}

struct restore *laterd_journal_restore(const struct laterd_journal *journal)
{
    return journal->journal ? journal->journal->verbs->restore(journal->journal) : NULL;
}

bool laterd_journal_leave(struct laterd_journal *journal, int64_t waited_us)
{
    if (journal->journal &&
        !journal->journal->verbs->leave(journal->journal, waited_us >= CLOSE_GRACE_US))
        return false;
    laterd_journal_close(journal);
    return true;
}

void laterd_journal_close(struct laterd_journal *journal)
{
    if (journal->journal)
        journal->journal->verbs->close(journal->journal, CLOSE_GRACE_US);
    journal->journal = NULL;
}
