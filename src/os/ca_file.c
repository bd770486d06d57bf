#include "os/ca_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of Debian, Ubuntu, Arch; Fedora, RHEL; SUSE; RHEL 7; Alpine. */
static const char *const places[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

static enum err readable(const char *path, const char *wrong, const char **out_path, char *out_why)
{
    if (access(path, R_OK)) {
        (void)snprintf(out_why, CA_FILE_WHY_MAX, "%s: %s", wrong, strerror(errno)); /* it fits */
        return ERR_NOT_FOUND;
    }
    *out_path = path;
    return OK;
}

enum err ca_file_find(const char *ca, const char **out_path, char *out_why)
{
    static const char none[] = "the system has no file of authorities (ca-certificates) that can "
                               "be read: name one";
    const char *named = getenv("SSL_CERT_FILE");
    if (ca[0])
        return readable(ca, "it cannot be read", out_path, out_why);
    if (named && named[0])
        return readable(named, "the file that SSL_CERT_FILE names cannot be read", out_path,
                        out_why);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (readable(places[i], "", out_path, out_why) == OK)
            return OK;
    }
    (void)snprintf(out_why, CA_FILE_WHY_MAX, "%s", none);
    return ERR_NOT_FOUND;
}
