#include "journal/url_find.h"

#include <stdio.h>
#include <string.h>

#include "sink/reference.h"

enum { REASON_MAX = JOURNAL_FIND_WHY_MAX - 16 };

static enum err find_url(const char *text, struct journal_url *out_url,
                         char why[static JOURNAL_FIND_WHY_MAX])
{
    struct buf plain = {0};
    char room[REASON_MAX] = "";
    const char *reason = room;
    enum err err = reference_read(text, &plain, room, sizeof(room));
    if (!err)
        err = journal_url_read(bytes_str(plain.at), out_url, &reason);
    if (err)
        (void)snprintf(why, JOURNAL_FIND_WHY_MAX, "url: %.*s", REASON_MAX - 1, reason);
    buf_fini(&plain);
    return err;
}

static enum err find_password(const char *text, struct journal_url *url,
                              char why[static JOURNAL_FIND_WHY_MAX])
{
    struct buf plain = {0};
    char reason[REASON_MAX] = "";
    enum err err = reference_read(text, &plain, reason, sizeof(reason));
    if (!err && plain.len > JOURNAL_WORD_MAX) {
        err = ERR_INVALID;
        (void)snprintf(reason, sizeof(reason), "longer than %d bytes", JOURNAL_WORD_MAX - 1);
    }
    if (err)
        (void)snprintf(why, JOURNAL_FIND_WHY_MAX, "password: %s", reason);
    else
        memcpy(url->password, plain.at, plain.len); /* with its NUL */
    buf_fini(&plain);
    return err;
}

enum err journal_url_find(const char *url, const char *password, struct journal_url *out_url,
                          char out_why[static JOURNAL_FIND_WHY_MAX])
{
    struct journal_url found;
    enum err err = find_url(url, &found, out_why);
    if (!err && password[0])
        err = find_password(password, &found, out_why);
    if (!err)
        *out_url = found;
    return err;
}

enum err journal_url_find_user(const char *url, const char *password,
                               const struct journal_url *at_start, struct journal_url *out_url,
                               char out_why[static JOURNAL_FIND_WHY_MAX])
{
    struct journal_url now;
    enum err err = journal_url_find(url, password, &now, out_why);
    if (err)
        return err;
    *out_url = *at_start;
    memcpy(out_url->user, now.user, sizeof(now.user));
    memcpy(out_url->password, now.password, sizeof(now.password));
    return OK;
}
