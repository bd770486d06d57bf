#include "laterd/listeners.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "os/listen.h"
#include "server/config/beanstalkd_options.h"

static void add(struct listeners *listeners, int fd, struct server_listener what)
{
    char name[LISTEN_ADDR_MAX];
    listen_name(fd, name, sizeof(name));
    what.any_host = strncmp(name, "unix:", 5) == 0; /* no browser connects to a file */
    listeners->fds[listeners->count] = fd;
    listeners->what[listeners->count++] = what;
}

/* The protocol of a socket that the service manager opened, by the socket's name. */
static enum protocol_kind protocol_named(const struct config *config, const char *name)
{
    enum protocol_kind kind;
    for (kind = PROTOCOL_HTTP + 1; kind < PROTOCOL_KINDS; kind++) {
        if (strncmp(name, protocols[kind].option, strlen(protocols[kind].option)) == 0)
            return kind;
    }
    for (kind = PROTOCOL_HTTP; config->listeners[kind].count == 0; kind++)
        ; /* config_check: one has a listener */
    return kind;
}

/*
 * Sockets that the service manager opened replace the configured listeners of their protocol. One
 * whose name begins with a protocol's option is for that protocol; the others are for HTTP, or, if
 * no HTTP is configured, for the configured protocol. They get the configured dialects in order.
 * Returns 0, or the exit status.
 */
static int take_passed(const struct command_line *line, struct listeners *listeners,
                       unsigned taken[PROTOCOL_KINDS])
{
    enum { PASSED_MAX = LOOP_LISTENERS_MAX - PROTOCOL_KINDS * CONFIG_LISTENERS_MAX };
    const struct config *config = &line->config;
    struct listen_passed passed[PASSED_MAX];
    unsigned count = listen_passed(passed, PASSED_MAX);
    if (count > PASSED_MAX) { /* clients of the others would wait forever */
        complain("the service manager passes %u sockets in (LISTEN_FDS), and laterd takes %d: name "
                 "fewer in its socket units",
                 count, PASSED_MAX);
        return command_line_failed(line, BEANSTALKD_EXIT_LISTEN);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!passed[i].listens) {
            complain("descriptor %d%s%s, which the service manager passes in (LISTEN_FDS), is no "
                     "socket that listens: its socket unit needs ListenStream=, and Accept=no",
                     passed[i].fd, passed[i].name[0] ? ", " : "", passed[i].name);
            return command_line_failed(line, BEANSTALKD_EXIT_LISTEN);
        }
        enum protocol_kind kind = protocol_named(config, passed[i].name);
        const struct config_listeners *like = &config->listeners[kind];
        struct server_listener what = {.protocol = kind, .dialect = protocols[kind].dialect};
        if (like->count)
            what.dialect =
                like->at[taken[kind] < like->count ? taken[kind] : like->count - 1].dialect;
        taken[kind]++;
        add(listeners, passed[i].fd, what);
    }
    return 0;
}

static void complain_taken(const struct command_line *line, const struct protocol *protocol)
{
    const char *option = protocol->option;
    if (line->as_beanstalkd)
        complain("is %s running? Stop it, or give another port with -p", protocol->rival);
    else
        complain("is %s running? Stop it, or give another address with --%s 127.0.0.1:PORT, or in "
                 "the configuration (%s, under [server]), or do without with --%s none",
                 protocol->rival, option, option, option);
}

/* The protocol for which laterd itself listens on the address already; NULL: for none. */
static const struct protocol *own_protocol(const struct listeners *listeners, const char *address)
{
    for (unsigned i = 0; i < listeners->count; i++) {
        char name[LISTEN_ADDR_MAX];
        listen_name(listeners->fds[i], name, sizeof(name));
        if (strcmp(name, address) == 0)
            return &protocols[listeners->what[i].protocol];
    }
    return NULL;
}

static const char *hint_of(int error, const char *address)
{
    if (error == EADDRNOTAVAIL)
        return "; this machine has no such address (see: ip address)";
    bool is_path = strncmp(address, "unix:", strlen("unix:")) == 0;
    if (error == ENOENT && is_path)
        return "; laterd makes the socket, not the directory that it is in";
    if (error == EACCES && is_path)
        return "; laterd's user must be able to make a file in that directory";
    if (error == EACCES)
        return "; ports below 1024 are for root, or for a socket unit of systemd";
    return "";
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
    const char *hint = err == ERR_IO ? hint_of(errno, address) : "";
    const struct protocol *protocol = &protocols[what.protocol];
    const char *why =
        err == ERR_IO ? strerror(errno)
        : err == ERR_NOT_FOUND
            ? "no host has this name; give an address of this machine, or 0.0.0.0 for all"
            : "this is not an address to listen on";
    complain("cannot listen on %s for %s: %s%s", address, protocol->clients, why, hint);
    const struct protocol *own = taken ? own_protocol(listeners, address) : NULL;
    if (own)
        complain("laterd itself listens there already, for %s: give one of the two another port",
                 own->clients);
    else if (taken)
        complain_taken(line, protocol);
    return command_line_failed(line, BEANSTALKD_EXIT_LISTEN);
}

int listeners_open(const struct command_line *line, struct listeners *out_listeners)
{
    const struct config *config = &line->config;
    unsigned taken[PROTOCOL_KINDS] = {0};
    *out_listeners = (struct listeners){0};
    int status = take_passed(line, out_listeners, taken);
    for (enum protocol_kind kind = 0; kind < PROTOCOL_KINDS; kind++) {
        const struct config_listeners *listeners = &config->listeners[kind];
        for (unsigned i = 0; i < listeners->count && !taken[kind] && !status; i++) {
            struct server_listener what = {.protocol = kind, .dialect = listeners->at[i].dialect};
            status = open_one(line, listeners->at[i].address, what, out_listeners);
        }
    }
    return status;
}

void listeners_http(const struct listeners *listeners, char out_address[LISTEN_ADDR_MAX])
{
    out_address[0] = '\0';
    for (unsigned i = 0; i < listeners->count && !out_address[0]; i++) {
        if (listeners->what[i].protocol == PROTOCOL_HTTP && !listeners->what[i].any_host)
            listen_name(listeners->fds[i], out_address, LISTEN_ADDR_MAX);
    }
}

void listeners_watch(struct listeners *listeners, struct os_loop *loop, bool http_only)
{
    for (unsigned i = 0; i < listeners->count; i++) {
        if (listeners->watched[i] || (http_only && !protocols[listeners->what[i].protocol].http))
            continue;
        listeners->watched[i] = true;
        os_loop_listen(loop, listeners->fds[i], i);
    }
}

/* Of a name that listen_name() gave. */
static bool is_for_this_machine(const char *name)
{
    return strncmp(name, "127.", 4) == 0 || strncmp(name, "[::1]", 5) == 0 ||
           strncmp(name, "unix:", 5) == 0;
}

void listeners_log(const struct listeners *listeners)
{
    for (unsigned i = 0; i < listeners->count; i++) {
        const struct server_listener *what = &listeners->what[i];
        char name[LISTEN_ADDR_MAX];
        listen_name(listeners->fds[i], name, sizeof(name));
        const char *protocol = protocols[what->protocol].name;
        if (protocols[what->protocol].http)
            log_event(LOG_INFO, "listening", "addr=%s protocol=%s dialect=%s", name, protocol,
                      api_dialect_name(what->dialect));
        else
            log_event(LOG_INFO, "listening", "addr=%s protocol=%s", name, protocol);
        if (!is_for_this_machine(name))
            log_event(
                LOG_WARN, "listening_open",
                "addr=%s protocol=%s hint=\"anyone who can reach this address can push, take "
                "and delete jobs: laterd asks for no password; see Security in operations.md\"",
                name, protocol);
    }
}
