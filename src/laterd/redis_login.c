#include "laterd/redis_login.h"

#ifndef LATERD_NO_REDIS

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/thread.h"
#include "sink/reference.h"

enum {
    LOOK_US = 5 * 1000,        /* a link waits longer before it connects again */
    LOOK_MAX_US = 1000 * 1000, /* of a file that cannot be read for long (NFS, a pipe) */
};

/* What the thread reads. It may outlive the login: the last one that has it frees it. */
struct redis_reading {
    atomic_uint users;
    atomic_bool done; /* `secrets` or `error` is set; `err` says which */
    enum err err;
    struct redis_secrets secrets;
    struct redis_error error;
    const char *sentinel_password; /* in `text` */
    size_t bytes;
    char text[]; /* the URL, and that password, in the configuration */
};

/* ---- what the texts stand for ---- */

static void set_error(struct redis_error *out_error, const char *key, const char *why)
{
    bool named = strncmp(why, key, strlen(key)) == 0; /* redis_url_read() does so */
    (void)snprintf(out_error->text, sizeof(out_error->text), "%s%s%.300s", named ? "" : key,
                   named ? "" : ": ", why);
}

static void forget(struct buf *plain)
{
    if (plain->at)
        explicit_bzero(plain->at, plain->len);
    buf_fini(plain);
}

static enum err read_url(const char *text, struct redis_url *out_url, struct redis_error *out_error)
{
    struct buf plain = {0};
    struct redis_error error = {.text = ""};
    enum err err = reference_read(text, &plain, error.text, sizeof(error.text));
    if (!err)
        err = redis_url_read(bytes_str(plain.at), out_url, &error);
    forget(&plain);
    if (err)
        set_error(out_error, "redis.url", error.text);
    return err;
}

static enum err read_sentinel_password(const char *text, struct redis_secrets *secrets,
                                       struct redis_error *out_error)
{
    struct buf plain = {0};
    char why[REDIS_ERROR_MAX] = "";
    secrets->sentinel_password[0] = '\0';
    enum err err = reference_read(text, &plain, why, sizeof(why));
    if (!err && plain.len > sizeof(secrets->sentinel_password)) {
        (void)snprintf(why, sizeof(why), "longer than %zu bytes",
                       sizeof(secrets->sentinel_password) - 1);
        err = ERR_INVALID;
    }
    if (err)
        set_error(out_error, "redis.sentinel_password", why);
    else
        memcpy(secrets->sentinel_password, plain.at, plain.len); /* with its NUL */
    forget(&plain);
    return err;
}

static enum err read_secrets(const char *url, const char *sentinel_password,
                             struct redis_secrets *out_secrets, struct redis_error *out_error)
{
    enum err err = read_url(url, &out_secrets->url, out_error);
    return err ? err : read_sentinel_password(sentinel_password, out_secrets, out_error);
}

static void set_default(char password[REDIS_WORD_MAX], const char *value)
{
    if (value && !password[0])
        (void)snprintf(password, REDIS_WORD_MAX, "%s", value);
}

static void set_defaults(const struct redis_login *login, struct redis_secrets *secrets)
{
    set_default(secrets->url.password, login->default_password);
    set_default(secrets->sentinel_password, login->default_sentinel_password);
}

static bool is_too_long(const char *password, const char *value)
{
    return value && !password[0] && strlen(value) >= REDIS_WORD_MAX;
}

/* Of the environment: those of files were checked when they were read. */
static enum err check_defaults(const struct redis_login *login, const struct redis_secrets *secrets,
                               struct redis_error *out_error)
{
    bool of_servers = is_too_long(secrets->url.password, login->default_password);
    if (!of_servers && !is_too_long(secrets->sentinel_password, login->default_sentinel_password))
        return OK;
    set_error(out_error, of_servers ? "redis.url" : "redis.sentinel_password",
              "the environment's password is longer than 255 bytes");
    return ERR_INVALID;
}

enum err redis_login_read(struct redis_login *login, struct redis_error *out_error)
{
    struct redis_secrets secrets;
    enum err err = read_secrets(login->url, login->sentinel_password, &secrets, out_error);
    if (!err)
        err = check_defaults(login, &secrets, out_error);
    if (err)
        return err;
    set_defaults(login, &secrets);
    login->now = secrets;
    return OK;
}

/* ---- again ---- */

static void drop(struct redis_reading *reading)
{
    if (atomic_fetch_sub(&reading->users, 1) > 1)
        return;
    explicit_bzero(reading, reading->bytes);
    mem_free(reading);
}

static void *read_again(void *arg)
{
    struct redis_reading *reading = arg;
    reading->err =
        read_secrets(reading->text, reading->sentinel_password, &reading->secrets, &reading->error);
    atomic_store(&reading->done, true);
    drop(reading);
    return NULL;
}

static bool same(const struct redis_secrets *a, const struct redis_secrets *b)
{
    return strcmp(a->url.user, b->url.user) == 0 && strcmp(a->url.password, b->url.password) == 0 &&
           strcmp(a->sentinel_password, b->sentinel_password) == 0;
}

static void take(struct redis_login *login, struct redis_secrets *read)
{
    struct redis_secrets *now = &login->now;
    set_defaults(login, read);
    if (same(now, read))
        return;
    memcpy(now->url.user, read->url.user, sizeof(now->url.user));
    memcpy(now->url.password, read->url.password, sizeof(now->url.password));
    memcpy(now->sentinel_password, read->sentinel_password, sizeof(now->sentinel_password));
    login->changes++;
    login->changed(login);
}

static bool is_file(const char *text)
{
    return strncmp(text, "file:", 5) == 0;
}

static void complain_once(struct redis_login *login, const char *why)
{
    if (!login->complained)
        login->unread(login, why);
    login->complained = true;
}

static void look(struct timer *timer)
{
    struct redis_login *login = LIST_ENTRY(timer, struct redis_login, look);
    struct redis_reading *reading = login->reading;
    if (!atomic_load(&reading->done)) {
        if (login->look_us == LOOK_MAX_US)
            complain_once(login, is_file(login->url)
                                     ? "redis.url: its file takes long to be read"
                                     : "redis.sentinel_password: its file takes long to be read");
        login->look_us = backoff_after(login->look_us, LOOK_MAX_US);
        loop_arm(login->loop, &login->look, login->loop->now_us + login->look_us);
        return;
    }
    login->reading = NULL;
    if (reading->err) {
        complain_once(login, reading->error.text);
    } else {
        login->complained = false;
        take(login, &reading->secrets);
    }
    drop(reading);
}

void redis_login_again(struct redis_login *login)
{
    if (login->reading || !(is_file(login->url) || is_file(login->sentinel_password)))
        return;
    size_t url_bytes = strlen(login->url) + 1;
    size_t password_bytes = strlen(login->sentinel_password) + 1;
    struct redis_reading *reading = mem_zalloc(sizeof(*reading) + url_bytes + password_bytes);
    reading->bytes = sizeof(*reading) + url_bytes + password_bytes;
    reading->sentinel_password = reading->text + url_bytes;
    memcpy(reading->text, login->url, url_bytes);
    memcpy(reading->text + url_bytes, login->sentinel_password, password_bytes);
    atomic_init(&reading->users, 2);
    if (thread_start_detached(read_again, reading)) { /* the next that ends has it tried again */
        mem_free(reading);
        return;
    }
    login->reading = reading;
    login->look.expired = look;
    login->look_us = LOOK_US;
    loop_arm(login->loop, &login->look, login->loop->now_us + login->look_us);
}

void redis_login_stop(struct redis_login *login)
{
    if (!login->reading)
        return;
    loop_cancel(login->loop, &login->look);
    drop(login->reading);
    login->reading = NULL;
}

#endif
