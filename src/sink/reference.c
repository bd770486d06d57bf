#include "sink/reference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_BYTES = 4095 };

static enum err read_variable(const char *name, struct buf *out, char *why, size_t why_bytes)
{
    const char *value = getenv(name);
    if (!value || !value[0]) {
        (void)snprintf(why, why_bytes, "the environment has no variable %.100s", name);
        return ERR_NOT_FOUND;
    }
    buf_add(out, value, strlen(value) + 1);
    return OK;
}

static enum err read_file(const char *path, struct buf *out, char *why, size_t why_bytes)
{
    char line[LINE_MAX_BYTES + 2] = ""; /* its end, and a NUL */
    FILE *file = fopen(path, "re");
    if (!file) {
        (void)snprintf(why, why_bytes, "%.100s: %s", path, strerror(errno));
        return ERR_NOT_FOUND;
    }
    const char *got = fgets(line, sizeof(line), file);
    (void)fclose(file); /* only read from */
    size_t len = strcspn(line, "\r\n");
    line[len] = '\0';
    if (len > LINE_MAX_BYTES) {
        (void)snprintf(why, why_bytes, "%.100s: its first line is longer than %d bytes", path,
                       LINE_MAX_BYTES);
        return ERR_INVALID;
    }
    if (!got || !line[0]) {
        (void)snprintf(why, why_bytes, "%.100s: its first line is empty", path);
        return ERR_NOT_FOUND;
    }
    buf_add(out, line, strlen(line) + 1);
    return OK;
}

bool reference_is(const char *text)
{
    return text[0] == '$' || strncmp(text, "file:", 5) == 0;
}

enum err reference_read(const char *text, struct buf *out, char *why, size_t why_bytes)
{
    if (text[0] == '$')
        return read_variable(text + 1, out, why, why_bytes);
    if (strncmp(text, "file:", 5) == 0)
        return read_file(text + 5, out, why, why_bytes);
    buf_add(out, text, strlen(text) + 1);
    return OK;
}
