#include "laterd/listeners.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "os/listen.h"
#include "server/config/beanstalkd_options.h"

/* Protocols whose sockets the service manager has opened: their addresses are not opened. */
struct passed {
    bool http, beanstalk;
};

static void add(struct listeners *listeners, int fd, struct server_listener what)
{
    char name[LISTEN_ADDR_MAX];
    listen_name(fd, name, sizeof(name));
    what.any_host = strncmp(name, "unix:", 5) == 0; /* no browser connects to a file */
    listeners->fds[listeners->count] = fd;
    listeners->what[listeners->count++] = what;
}

/*
 * Sockets that the service manager opened take the place of those that the configuration has of
 * their protocol. One whose name begins with "beanstalk" is for beanstalkd's protocol, and so are
 * all when there is no HTTP; the others speak HTTP, and take the configured dialects in order.
 */
static struct passed take_passed(struct listeners *listeners, const struct config *config)
{
    enum { PASSED_MAX = LOOP_LISTENERS_MAX - CONFIG_HTTP_MAX - CONFIG_BEANSTALK_MAX };
    struct listen_passed passed[PASSED_MAX];
    unsigned count = listen_passed(passed, PASSED_MAX);
    unsigned http = 0;
    for (unsigned i = 0; i < count; i++) {
        struct server_listener what = {.protocol = PROTOCOL_BEANSTALK};
        if (config->http_count && strncmp(passed[i].name, "beanstalk", 9) != 0) {
            unsigned like = http < config->http_count ? http : config->http_count - 1;
            what.protocol = PROTOCOL_HTTP;
            what.dialect = config->http[like].dialect;
            http++;
        }
        add(listeners, passed[i].fd, what);
    }
    return (struct passed){.http = http > 0, .beanstalk = count > http};
}

static void complain_taken(const struct command_line *line, enum protocol_kind protocol)
{
    const char *option = protocols[protocol].option;
    const char *who = protocol == PROTOCOL_BEANSTALK ? "a beanstalkd" : "another laterd";
    if (line->as_beanstalkd)
        complain("is %s running? Stop it, or give another port with -p", who);
    else if (protocol == PROTOCOL_BEANSTALK)
        complain("is %s running? Stop it, or give another address with --%s 127.0.0.1:PORT, or do "
                 "without with --%s none",
                 who, option, option);
    else
        complain("is %s running? Stop it, or give another address with --%s 127.0.0.1:PORT, or in "
                 "the configuration (%s, under [server])",
                 who, option, option);
}

static int open_one(const struct command_line *line, const char *address,
                    struct server_listener what, struct listeners *listeners)
{
    int fd;
    enum err err = listen_open(address, &fd);
    if (!err) {
        add(listeners, fd, what);
        return 0;
    }
    bool taken = err == ERR_IO && errno == EADDRINUSE;
    bool beanstalk = what.protocol == PROTOCOL_BEANSTALK;
    const char *why = err == ERR_IO          ? strerror(errno)
                      : err == ERR_NOT_FOUND ? "no host has this name"
                                             : "this is no address to listen on";
    complain("cannot listen on %s%s: %s", address, beanstalk ? " for clients of beanstalkd" : "",
             why);
    if (taken)
        complain_taken(line, what.protocol);
    return command_line_failed(line, BEANSTALKD_EXIT_LISTEN);
}

int listeners_open(const struct command_line *line, struct listeners *out_listeners)
{
    const struct config *config = &line->config;
    int status = 0;
    *out_listeners = (struct listeners){0};
    struct passed passed = take_passed(out_listeners, config);
    for (unsigned i = 0; i < config->http_count && !passed.http && !status; i++) {
        struct server_listener what = {.protocol = PROTOCOL_HTTP,
                                       .dialect = config->http[i].dialect};
        status = open_one(line, config->http[i].address, what, out_listeners);
    }
    for (unsigned i = 0; i < config->beanstalk_count && !passed.beanstalk && !status; i++) {
        struct server_listener what = {.protocol = PROTOCOL_BEANSTALK};
        status = open_one(line, config->beanstalk[i], what, out_listeners);
    }
    return status;
}

void listeners_log(const struct listeners *listeners)
{
    for (unsigned i = 0; i < listeners->count; i++) {
        const struct server_listener *what = &listeners->what[i];
        char name[LISTEN_ADDR_MAX];
        listen_name(listeners->fds[i], name, sizeof(name));
        const char *protocol = protocols[what->protocol].name;
        if (what->protocol == PROTOCOL_HTTP)
            log_event(LOG_INFO, "listening", "addr=%s protocol=%s dialect=%s", name, protocol,
                      api_dialect_name(what->dialect));
        else
            log_event(LOG_INFO, "listening", "addr=%s protocol=%s", name, protocol);
    }
}
