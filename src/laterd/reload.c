#include "laterd/reload.h"

#include <unistd.h>

#include "base/log.h"
#include "server/config/laterd_options.h"

/* The text stands between quotation marks in the log, and quotes lines of the file. */
static void log_failure(struct config_error *error)
{
    for (char *at = error->text; *at; at++) {
        if (*at == '"' || (unsigned char)*at < ' ')
            *at = '\'';
    }
    log_event(LOG_ERROR, "reload_failed", "error=\"%s\" hint=\"nothing was changed\"", error->text);
}

/* Names what was changed in the file, but goes on as it was at the start. */
static void log_what_needs_a_restart(const struct config *running, const struct config *read)
{
    struct buf keys = {0};
    config_add_differences(running, read, &keys);
    if (keys.len)
        log_event(LOG_WARN, "reload_needs_restart",
                  "keys=\"%.*s\" hint=\"laterd goes on with the values that these keys had at its "
                  "start: restart it to apply them; --check-config says whether it will start\"",
                  (int)keys.len, keys.at);
    buf_fini(&keys);
}

void reload(struct command_line *line)
{
    struct config config;
    struct laterd_options options;
    struct config_error error = {.text = ""};
    if (line->as_beanstalkd) {
        log_event(LOG_WARN, "reload_ignored",
                  "signal=SIGHUP hint=\"as a replacement of beanstalkd it reads no file\"");
        return;
    }
    config_init(&config);
    config.again = true; /* this thread must not wait for a pipe */
    optind = 0;          /* getopt starts over */
    if (laterd_options_read(line->argc, line->argv, &config, &options, &error)) {
        log_failure(&error);
        return;
    }
    if (command_line_check(line, &config)) {
        log_event(LOG_ERROR, "reload_failed",
                  "error=\"see the line before\" hint=\"nothing was changed\"");
        return;
    }
    line->config.log_level = config.log_level;
    line->config.drain_us = config.drain_us;
    log_level_set(LOG_INFO); /* so that the next line, the answer to the signal, is always shown */
    log_event(LOG_INFO, "reloaded",
              "log_level=%s drain_ms=%lld hint=\"all other keys need a restart\"",
              log_level_name(config.log_level), (long long)(config.drain_us / 1000));
    log_what_needs_a_restart(&line->config, &config);
    log_level_set(config.log_level);
}
