#include "os/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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

#include "base/bytes.h"

enum { BACKLOG = 4096 };

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

static enum err parse_inet(const char *text, struct address *out_address)
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
    out_address->in.sin_family = AF_INET;
    out_address->in.sin_port = htons((uint16_t)port);
    out_address->len = (socklen_t)sizeof(struct sockaddr_in);
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                     &out_address->in.sin_addr) == 1
               ? OK
               : ERR_INVALID;
}

/* A socket file that a dead server left behind would keep us from binding for ever. */
static void remove_stale(const struct address *address)
{
    struct stat st;
    if (stat(address->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &address->any, address->len) != 0 && errno == ECONNREFUSED)
        (void)unlink(address->un.sun_path); /* if this fails, bind says so */
    (void)close(fd);
}

static enum err parse(const char *text, struct address *out_address)
{
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out_address);
    return parse_inet(text, out_address);
}

enum err listen_check(const char *address_text)
{
    struct address address = {0};
    return parse(address_text, &address);
}

enum err listen_open(const char *address_text, int *out_fd)
{
    struct address address = {0};
    enum err err = parse(address_text, &address);
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

unsigned listen_passed(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    uint64_t for_pid = 0, fds = 0;
    bool ours = pid && count && bytes_to_u64(bytes_str(pid), &for_pid) &&
                bytes_to_u64(bytes_str(count), &fds) && for_pid == (uint64_t)getpid() && fds < 1024;
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    if (!ours)
        return 0;
    for (int fd = LISTEN_PASSED_FIRST; fd < LISTEN_PASSED_FIRST + (int)fds; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return (unsigned)fds;
}
