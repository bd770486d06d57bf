#include "sink/webhook/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1024, FILE_NAME_MAX = 4096 };

static const struct bytes file_prefix = {.at = "file:", .len = 5};

static enum err refuse(struct secret_problem *problem, struct bytes reference, const char *why)
{
    int shown = reference.len > 100 ? 100 : (int)reference.len;
    (void)snprintf(problem->text, sizeof(problem->text), "the secret %.*s %s", shown, reference.at,
                   why);
    return ERR_INVALID;
}

static enum err read_key(struct secret *secret, struct bytes text, struct secret_problem *problem)
{
    const char *why = "";
    if (signing_key_read(text, &secret->key, &why))
        return refuse(problem, bytes_str(secret->reference), why);
    return OK;
}

/* ---- files ---- */

static bool is_same_file(const struct secret *secret, const struct stat *status)
{
    return secret->key.len && secret->inode == status->st_ino &&
           secret->size == (uint64_t)status->st_size &&
           secret->changed.tv_sec == status->st_mtim.tv_sec &&
           secret->changed.tv_nsec == status->st_mtim.tv_nsec;
}

static enum err read_file(struct secret *secret, int fd, struct secret_problem *problem)
{
    char room[FILE_MAX];
    struct stat status;
    struct bytes reference = bytes_str(secret->reference);
    if (fstat(fd, &status))
        return refuse(problem, reference, strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_size >= FILE_MAX)
        return refuse(problem, reference, "is not a file of less than 1 KiB");
    ssize_t len = read(fd, room, sizeof(room));
    enum err err = len < 0 ? refuse(problem, reference, strerror(errno))
                           : read_key(secret, bytes_of(room, (size_t)len), problem);
    explicit_bzero(room, sizeof(room));
    if (err)
        return err;
    secret->changed = status.st_mtim;
    secret->inode = status.st_ino;
    secret->size = (uint64_t)status.st_size;
    return OK;
}

static enum err find_file(struct secret *secret, struct secret_problem *problem)
{
    struct bytes reference = bytes_str(secret->reference);
    const char *path = secret->reference + file_prefix.len;
    struct stat status;
    if (path[0] != '/')
        return refuse(problem, reference, "must be an absolute path");
    if (stat(path, &status) == 0 && is_same_file(secret, &status))
        return OK;
    signing_key_forget(&secret->key);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* it may be a pipe */
    if (fd < 0) {
        char why[64];
        (void)snprintf(why, sizeof(why), "cannot be read: %.40s", strerror(errno));
        return refuse(problem, reference, why);
    }
    enum err err = read_file(secret, fd, problem);
    (void)close(fd); /* only read from */
    return err;
}

/* ---- all ---- */

static enum err find_variable(struct secret *secret, struct secret_problem *problem)
{
    const char *value = getenv(secret->reference + 1);
    if (!value)
        return refuse(problem, bytes_str(secret->reference), "is not in the environment of laterd");
    return secret->key.len ? OK : read_key(secret, bytes_str(value), problem);
}

static struct secret *get_or_create(struct secrets *secrets, struct bytes reference)
{
    for (unsigned i = 0; i < SECRETS_KEPT; i++) {
        if (bytes_eq(bytes_str(secrets->kept[i].reference), reference))
            return &secrets->kept[i];
    }
    struct secret *secret = &secrets->kept[secrets->next++ % SECRETS_KEPT];
    signing_key_forget(&secret->key);
    *secret = (struct secret){0};
    memcpy(secret->reference, reference.at, reference.len);
    return secret;
}

static enum err check_reference(struct bytes reference, struct secret_problem *problem)
{
    bool is_file = bytes_starts(reference, file_prefix);
    bool is_variable = reference.len > 1 && reference.at[0] == '$';
    if ((is_file || is_variable) && reference.len <= TARGET_PATH_MAX &&
        !memchr(reference.at, '\0', reference.len))
        return OK;
    /* It may be the secret itself. */
    (void)snprintf(problem->text, sizeof(problem->text),
                   "a secret must be named as $NAME or file:/PATH");
    return ERR_INVALID;
}

static enum err find_in(struct secret *secret, struct secret_problem *problem)
{
    return secret->reference[0] == '$' ? find_variable(secret, problem)
                                       : find_file(secret, problem);
}

enum err secrets_find(struct secrets *secrets, struct bytes reference,
                      const struct signing_key **out_key, struct secret_problem *out_problem)
{
    enum err err = check_reference(reference, out_problem);
    if (err)
        return err;
    struct secret *secret = get_or_create(secrets, reference);
    err = find_in(secret, out_problem);
    if (!err)
        *out_key = &secret->key;
    return err;
}

void secrets_forget(struct secrets *secrets)
{
    explicit_bzero(secrets, sizeof(*secrets));
}

/* ---- the probe ---- */

static enum err probe_file(struct bytes path, char *why, size_t why_bytes)
{
    char name[FILE_NAME_MAX];
    struct stat status;
    int shown = path.len > 100 ? 100 : (int)path.len;
    if (path.len >= sizeof(name) || memchr(path.at, '\0', path.len)) {
        (void)snprintf(why, why_bytes, "the name of the file is too long");
        return ERR_INVALID;
    }
    memcpy(name, path.at, path.len);
    name[path.len] = '\0';
    bool there = stat(name, &status) == 0;
    if (there && !S_ISREG(status.st_mode)) { /* opening a device may have side effects */
        (void)snprintf(why, why_bytes, "%.*s is %s, not a file", shown, path.at,
                       S_ISDIR(status.st_mode) ? "a directory" : "a pipe or a device");
        return ERR_INVALID;
    }
    int fd = there ? open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd < 0) {
        (void)snprintf(why, why_bytes, "the file %.*s cannot be read: %.40s", shown, path.at,
                       strerror(errno));
        return ERR_INVALID;
    }
    (void)close(fd); /* nothing was written */
    return OK;
}

enum err secrets_probe(enum reference_kind kind, struct bytes reference, char *why,
                       size_t why_bytes)
{
    if (kind == REFERENCE_FILE)
        return probe_file(reference, why, why_bytes);
    struct secret secret = {0};
    struct secret_problem problem;
    enum err err = check_reference(reference, &problem);
    if (!err) {
        memcpy(secret.reference, reference.at, reference.len);
        err = find_in(&secret, &problem);
        explicit_bzero(&secret, sizeof(secret));
    }
    if (err)
        (void)snprintf(why, why_bytes, "%s", problem.text);
    return err;
}
