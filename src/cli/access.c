#include "cli/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/argv_secret.h"
#include "cli/cli.h"

enum { SECRET_MAX = 16 * 1024 /* bytes: a proxy takes no longer header */ };

const char access_help[] =
    "      --cacert FILE      https: trust the authorities of this file (LATER_CACERT)\n"
    "      --cert FILE, --key FILE   https: our own certificate (LATER_CERT, LATER_KEY)\n"
    "      --insecure         https: do not check the server's certificate\n"
    "      --token-file FILE  a bearer token goes with each request (LATER_TOKEN)\n"
    "      --user-file FILE   NAME:PASSWORD goes with each request (LATER_USER)\n";

/* A variable that is set and not empty, or NULL. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void access_init(struct access *access)
{
    const char *server = variable("LATER_SERVER");
    *access = (struct access){.client.url = server ? server : "http://127.0.0.1:9277"};
}

void access_fini(struct access *access)
{
    buf_fini(&access->server);
    buf_fini(&access->token);
    buf_fini(&access->user);
}

void access_server(struct access *access, char *url)
{
    argv_take_url(url, &access->server);
    access->client.url = access->server.at;
}

void access_option(struct access *access, int option, const char *value)
{
    switch (option) {
    case ACCESS_CACERT: access->client.cacert = value; break;
    case ACCESS_CERT: access->client.cert = value; break;
    case ACCESS_KEY: access->client.key = value; break;
    case ACCESS_INSECURE: access->client.insecure = true; break;
    case ACCESS_TOKEN_FILE: access->token_file = value; break;
    case ACCESS_USER_FILE: access->user_file = value; break;
    default: break;
    }
}

/*
 * Takes the line's end away from the secret, and ends it with a NUL. It becomes a header, so it is
 * one line of printable text. `name`: of the option or the variable; `path`: of its file, or NULL.
 */
static const char *use_secret(const struct cli *cli, const char *name, const char *path,
                              struct buf *secret)
{
    while (secret->len > 0 &&
           (secret->at[secret->len - 1] == '\n' || secret->at[secret->len - 1] == '\r'))
        secret->len--;
    bool printable = secret->len > 0;
    for (size_t i = 0; i < secret->len; i++)
        printable = printable && (unsigned char)secret->at[i] >= ' ' && secret->at[i] != 127;
    if (!printable)
        cli_bad_value(cli, "%s%s%s is not one line of text", name, path ? ": " : "",
                      path ? path : "");
    buf_add_char(secret, '\0');
    return secret->at;
}

const char *access_secret_variable(const struct cli *cli, const char *name, struct buf *out)
{
    const char *value = variable(name);
    if (!value)
        return NULL;
    buf_add_str(out, value);
    return use_secret(cli, name, NULL, out);
}

const char *access_secret_file(const struct cli *cli, const char *option, const char *path,
                               struct buf *out)
{
    size_t len = 0;
    FILE *file = fopen(path, "re");
    int failed = file ? 0 : errno;
    buf_reserve(out, SECRET_MAX + 1);
    if (file) {
        len = fread(out->at, 1, SECRET_MAX, file);
        failed = ferror(file) ? errno : len == SECRET_MAX ? EFBIG : 0;
        (void)fclose(file); /* only read from */
    }
    if (failed)
        cli_bad_value(cli, "%s: cannot read %s: %s", option, path, strerror(failed));
    out->len = len;
    return use_secret(cli, option, path, out);
}

/* Has the URL a user before its host? */
static bool url_has_user(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return strncmp(url, "unix:", 5) != 0 && memchr(host, '@', strcspn(host, "/"));
}

/* libcurl would only say of a missing file that it is of no use, as if the server were at fault. */
static void check_file(const struct cli *cli, const char *option, const char *path)
{
    if (path && access(path, R_OK) != 0)
        cli_bad_value(cli, "%s: cannot read %s: %s", option, path, strerror(errno));
}

static void check_files(const struct cli *cli, const struct client_options *client)
{
    if (strncmp(client->url, "https:", 6) != 0)
        return;
    check_file(cli, "--cacert (LATER_CACERT)", client->cacert);
    check_file(cli, "--cert (LATER_CERT)", client->cert);
    check_file(cli, "--key (LATER_KEY)", client->key);
}

void access_resolve(struct access *access, const struct cli *cli)
{
    struct client_options *client = &access->client;
    if (access->token_file && access->user_file)
        cli_usage(cli, "--token-file or --user-file, not both");
    if (access->token_file)
        client->token = access_secret_file(cli, "--token-file", access->token_file, &access->token);
    else if (access->user_file)
        client->user = access_secret_file(cli, "--user-file", access->user_file, &access->user);
    else if (!url_has_user(client->url) &&
             !(client->token = access_secret_variable(cli, "LATER_TOKEN", &access->token)))
        client->user = access_secret_variable(cli, "LATER_USER", &access->user);
    client->cacert = client->cacert ? client->cacert : variable("LATER_CACERT");
    if (!client->cert) {
        client->cert = variable("LATER_CERT");
        client->key = client->key ? client->key : variable("LATER_KEY");
    }
    if (client->key && !client->cert)
        cli_usage(cli, "--key belongs to a --cert");
    check_files(cli, client);
    if (client->insecure && !access->warned && strncmp(client->url, "https:", 6) == 0)
        cli_warn(cli,
                 "--insecure: the server's certificate is not checked, so anybody could be it");
}

bool access_has_secret(const struct access *access)
{
    return access->token_file || access->user_file || url_has_user(access->client.url) ||
           variable("LATER_TOKEN") || variable("LATER_USER");
}
