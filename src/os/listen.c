#include "os/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/bytes.h"

enum { BACKLOG = 4096, PASSED_FIRST = 3 /* as sd_listen_fds(3) has it */ };

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage room;
    };
    socklen_t len;
};

static enum err parse_unix(const char *path, struct address *out_address)
{
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(out_address->un.sun_path))
        return ERR_INVALID;
    out_address->un.sun_family = AF_UNIX;
    memcpy(out_address->un.sun_path, path, len + 1);
    out_address->len = (socklen_t)sizeof(struct sockaddr_un);
    return OK;
}

/* True: a host name, with at least one letter (else it is a mistyped address) and no character that
 * host names cannot have. */
static bool is_host_name(const char *host)
{
    bool letter = false;
    for (const char *at = host; *at; at++) {
        letter = letter || ascii_is_letter(*at);
        if (!ascii_is_letter(*at) && !ascii_is_digit(*at) && *at != '.' && *at != '-' && *at != '_')
            return false;
    }
    return letter;
}

/* The first address of a host that has a name. ERR_NOT_FOUND. */
static enum err look_up(const char *host, uint16_t port, struct address *out_address)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return ERR_NOT_FOUND;
    memcpy(&out_address->room, found->ai_addr, found->ai_addrlen);
    out_address->len = found->ai_addrlen;
    freeaddrinfo(found);
    if (out_address->any.sa_family == AF_INET6)
        out_address->in6.sin6_port = htons(port);
    else
        out_address->in.sin_port = htons(port);
    return OK;
}

/* Is a name looked up, or is only its form checked, so that out_address may stay empty? */
enum names { LOOKED_UP, FORM_CHECKED };

static enum err parse_inet(const char *text, enum names names, struct address *out_address)
{
    char host[LISTEN_ADDR_MAX];
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon || (size_t)(colon - text) >= sizeof(host) ||
        !bytes_to_u64(bytes_str(colon + 1), &port) || port > 65535)
        return ERR_INVALID;
    size_t len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        memcpy(host, text + 1, len - 2);
        host[len - 2] = 0;
        out_address->in6.sin6_family = AF_INET6;
        out_address->in6.sin6_port = htons((uint16_t)port);
        out_address->len = (socklen_t)sizeof(struct sockaddr_in6);
        return inet_pton(AF_INET6, host, &out_address->in6.sin6_addr) == 1 ? OK : ERR_INVALID;
    }
    memcpy(host, text, len);
    host[len] = 0;
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof("127.0.0.1")); /* and never ::1, wherever that is first */
    if (is_host_name(host))
        return names == LOOKED_UP ? look_up(host, (uint16_t)port, out_address) : OK;
    out_address->in.sin_family = AF_INET;
    out_address->in.sin_port = htons((uint16_t)port);
    out_address->len = (socklen_t)sizeof(struct sockaddr_in);
    return inet_pton(AF_INET, host, &out_address->in.sin_addr) == 1 ? OK : ERR_INVALID;
}

/* Removes a socket file that an ended server left behind: with it bind() would fail. Does not wait
 * for a server that accepts nobody. */
static void remove_stale(const struct address *address)
{
    struct stat st;
    if (stat(address->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &address->any, address->len) != 0 && errno == ECONNREFUSED)
        (void)unlink(address->un.sun_path); /* if this fails, bind() fails, too */
    (void)close(fd);
}

static enum err parse(const char *text, enum names names, struct address *out_address)
{
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out_address);
    return parse_inet(text, names, out_address);
}

enum err listen_check(const char *address_text)
{
    struct address address = {0};
    return parse(address_text, FORM_CHECKED, &address);
}

enum err listen_open(const char *address_text, int *out_fd)
{
    struct address address = {0};
    enum err err = parse(address_text, LOOKED_UP, &address);
    if (err)
        return err;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ERR_IO;
    int on = 1;
    if (address.any.sa_family == AF_UNIX)
        remove_stale(&address);
    else
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* quick restarts */
    if (bind(fd, &address.any, address.len) != 0 || listen(fd, BACKLOG) != 0) {
        int why = errno;
        (void)close(fd);
        errno = why;
        return ERR_IO;
    }
    *out_fd = fd;
    return OK;
}

void listen_name(int fd, char *room, size_t room_bytes)
{
    struct address address = {.len = (socklen_t)sizeof(address.room)};
    char host[INET6_ADDRSTRLEN] = "?";
    (void)snprintf(room, room_bytes, "?");
    if (getsockname(fd, &address.any, &address.len) != 0)
        return;
    if (address.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &address.in.sin_addr, host, sizeof(host));
        (void)snprintf(room, room_bytes, "%s:%u", host, ntohs(address.in.sin_port));
    } else if (address.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &address.in6.sin6_addr, host, sizeof(host));
        (void)snprintf(room, room_bytes, "[%s]:%u", host, ntohs(address.in6.sin6_port));
    } else if (address.any.sa_family == AF_UNIX) {
        (void)snprintf(room, room_bytes, "unix:%s", address.un.sun_path);
    }
}

/* Takes the next name off a list such as "http:beanstalk". */
static void next_name(const char **names, char *room)
{
    size_t len = strcspn(*names, ":");
    size_t kept = len < LISTEN_NAME_MAX ? len : LISTEN_NAME_MAX - 1;
    memcpy(room, *names, kept);
    room[kept] = 0;
    *names += len + ((*names)[len] == ':');
}

/* Not one that accept() has returned (Accept=yes), nor a pipe, nor one for datagrams. */
static bool listens(int fd)
{
    int type = 0, accepts = 0;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts;
}

unsigned listen_passed(struct listen_passed *out_passed, unsigned max)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    uint64_t for_pid, count = 0;
    bool ours = pid && fds && bytes_to_u64(bytes_str(pid), &for_pid) &&
                bytes_to_u64(bytes_str(fds), &count) && for_pid == (uint64_t)getpid();
    if (!ours)
        count = 0;
    if (!names)
        names = "";
    for (unsigned i = 0; i < count && i < max; i++) {
        int fd = PASSED_FIRST + (int)i;
        out_passed[i].fd = fd;
        out_passed[i].listens = listens(fd);
        next_name(&names, out_passed[i].name);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return count < UINT32_MAX ? (unsigned)count : UINT32_MAX;
}

void listen_first_address(char *room, size_t room_bytes)
{
    struct ifaddrs *all = NULL;
    (void)snprintf(room, room_bytes, "127.0.0.1");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        struct sockaddr_in address;
        char text[INET_ADDRSTRLEN];
        bool usable = at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
                      (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK);
        if (!usable)
            continue;
        memcpy(&address, at->ifa_addr, sizeof(address));
        if (inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text))) {
            (void)snprintf(room, room_bytes, "%s", text);
            break;
        }
    }
    freeifaddrs(all);
}
