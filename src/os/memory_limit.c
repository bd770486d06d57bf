/*
 * Control groups form a tree, and a process is bound by the limits of all groups above it: so the
 * files of every directory from our group up to the mount point are read. In a container the path
 * that /proc names may not exist under the mount point (the container sees its own group as the
 * root); missing directories are skipped, and the mount point itself, which is read last, is then
 * the container's group.
 */
#include "os/memory_limit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The next line of the text, without its end; false: none is left. */
static bool next_line(struct bytes *text, struct bytes *out_line)
{
    if (text->len == 0)
        return false;
    const char *end = memchr(text->at, '\n', text->len);
    size_t len = end ? (size_t)(end - text->at) : text->len;
    size_t step = end ? len + 1 : len;
    *out_line = bytes_of(text->at, len);
    *text = bytes_of(text->at + step, text->len - step);
    return true;
}

/* Cuts the part before the first `mark` off the text; false: there is no such mark. */
static bool cut(struct bytes *text, char mark, struct bytes *out_part)
{
    const char *end = memchr(text->at, mark, text->len);
    if (!end)
        return false;
    size_t len = (size_t)(end - text->at);
    *out_part = bytes_of(text->at, len);
    *text = bytes_of(end + 1, text->len - len - 1);
    return true;
}

/* Is `memory` one of the controllers ("cpu,memory")? */
static bool has_memory(struct bytes controllers)
{
    struct bytes one;
    while (cut(&controllers, ',', &one)) {
        if (bytes_eq(one, BYTES("memory")))
            return true;
    }
    return bytes_eq(controllers, BYTES("memory"));
}

bool cgroup_path(struct bytes proc_cgroup, enum cgroup_version version, struct bytes *out_path)
{
    struct bytes line, number, controllers;
    while (next_line(&proc_cgroup, &line)) { /* "4:memory:/a/b", of v2 "0::/a/b" */
        if (!cut(&line, ':', &number) || !cut(&line, ':', &controllers))
            continue;
        bool v2 = bytes_eq(number, BYTES("0")) && controllers.len == 0;
        bool fits = version == CGROUP_V2 ? v2 : has_memory(controllers);
        if (fits && line.len && line.at[0] == '/') {
            *out_path = line;
            return true;
        }
    }
    return false;
}

bool cgroup_limit(struct bytes file, uint64_t *out_bytes)
{
    struct bytes line;
    return next_line(&file, &line) && bytes_to_u64(line, out_bytes); /* "max" is no number */
}

/* Reads a small file whole; what does not fit is left out. */
static bool read_file(const char *path, char *room, size_t room_bytes, struct bytes *out_text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = -1;
    if (fd < 0)
        return false;
    while (len < room_bytes && (got = read(fd, room + len, room_bytes - len)) > 0)
        len += (size_t)got;
    (void)close(fd);
    *out_text = bytes_of(room, len);
    return got >= 0;
}

static void ask_file(const char *path, struct memory_limit *limit)
{
    char room[64];
    struct bytes text;
    uint64_t bytes;
    if (!read_file(path, room, sizeof(room), &text) || !cgroup_limit(text, &bytes))
        return;
    if (bytes >= limit->bytes) /* an unlimited v1 group says 2^63 - 4096 */
        return;
    limit->bytes = bytes;
    (void)snprintf(limit->source, sizeof(limit->source), "%s", path);
}

/* Asks the group and all above it, up to the mount point. */
static void ask_groups(const char *mount, struct bytes group, const char *const *files,
                       struct memory_limit *limit)
{
    for (;;) {
        while (group.len && group.at[group.len - 1] == '/')
            group.len--;
        for (size_t i = 0; files[i]; i++) {
            char path[PATH_MAX];
            int len = snprintf(path, sizeof(path), "%s%.*s/%s", mount, (int)group.len, group.at,
                               files[i]);
            if (len > 0 && (size_t)len < sizeof(path))
                ask_file(path, limit);
        }
        if (group.len == 0)
            return;
        while (group.len && group.at[group.len - 1] != '/')
            group.len--;
    }
}

void memory_limit_find(const char *root, uint64_t machine_bytes, struct memory_limit *out_limit)
{
    static const char *const v2_files[] = {"memory.max", "memory.high", NULL};
    static const char *const v1_files[] = {"memory.limit_in_bytes", NULL};
    static const struct {
        enum cgroup_version version;
        const char *mount;
        const char *const *files;
    } places[] = {
        {CGROUP_V2, "/sys/fs/cgroup", v2_files},
        {CGROUP_V2, "/sys/fs/cgroup/unified", v2_files}, /* v2 beside v1 */
        {CGROUP_V1, "/sys/fs/cgroup/memory", v1_files},
    };
    char path[PATH_MAX], room[8192];
    struct bytes text, group;
    *out_limit = (struct memory_limit){.bytes = UINT64_MAX, .source = "unknown"};
    if (machine_bytes)
        *out_limit = (struct memory_limit){.bytes = machine_bytes, .source = "machine"};
    (void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (!read_file(path, room, sizeof(room), &text))
        return;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", root, places[i].mount);
        if (cgroup_path(text, places[i].version, &group))
            ask_groups(path, group, places[i].files, out_limit);
    }
}

uint64_t memory_of_machine(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES);
    int64_t page_bytes = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}
