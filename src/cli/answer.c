#include "cli/answer.h"

#include <string.h>

enum shape { ANY_VALUE, NUMBER, OBJECT, OBJECTS /* an array of them */ };

/* The answer to a call. member NULL: no content (204); or_none: 204 is accepted, too. */
struct kind {
    const char *method;
    const char *path; /* '*': a part of it */
    const char *member;
    enum shape shape;
    bool or_none;
};

static const struct kind kinds[] = {
    {"POST", "/v1/topics/*/jobs", "id", ANY_VALUE, false},
    {"POST", "/v1/topics/*/jobs", "results", OBJECTS, false},
    {"GET", "/v1/topics/*/jobs", "jobs", OBJECTS, false},
    {"POST", "/v1/reserve", "jobs", OBJECTS, true},
    {"POST", "/v1/finish", "results", OBJECTS, false},
    {"POST", "/v1/get", "results", OBJECTS, false},
    {"POST", "/v1/restore", "created", ANY_VALUE, false},
    {"GET", "/v1/journal", "journal", ANY_VALUE, false},
    {"POST", "/v1/journal/resync", "journal", ANY_VALUE, false},
    {"GET", "/v1/jobs/*", "id", ANY_VALUE, false},
    {"PATCH", "/v1/jobs/*", "id", ANY_VALUE, false},
    {"DELETE", "/v1/jobs/*", NULL, ANY_VALUE, true},
    {"GET", "/v1/jobs/*/attempts", "attempts", OBJECTS, false},
    {"GET", "/v1/jobs/*/history", "events", OBJECTS, false},
    {"POST", "/v1/jobs/*/finish", NULL, ANY_VALUE, true},
    {"POST", "/v1/jobs/*/release", "id", ANY_VALUE, false},
    {"POST", "/v1/jobs/*/touch", "id", ANY_VALUE, false},
    {"POST", "/v1/jobs/*/bury", "id", ANY_VALUE, false},
    {"POST", "/v1/jobs/*/kick", "id", ANY_VALUE, false},
    {"POST", "/v1/jobs/*/run", "id", ANY_VALUE, false},
    {"GET", "/v1/topics", "topics", OBJECTS, false},
    {"GET", "/v1/topics/*", "name", ANY_VALUE, false},
    {"PUT", "/v1/topics/*", "version", ANY_VALUE, false},
    {"DELETE", "/v1/topics/*", "jobs", NUMBER, false},
    {"POST", "/v1/topics/*/pause", NULL, ANY_VALUE, true},
    {"POST", "/v1/topics/*/resume", NULL, ANY_VALUE, true},
    {"POST", "/v1/topics/*/kick", "jobs", NUMBER, false},
    {"POST", "/v1/topics/*/clear", "jobs", NUMBER, false},
    {"POST", "/v1/topics/*/replay", "kicked", ANY_VALUE, false},
    {"POST", "/v1/topics/*/test", "outcome", ANY_VALUE, false},
    {"GET", "/v1/stats", "jobs", OBJECT, false},
    {"GET", "/v1/due", "due", OBJECTS, false},
    {"GET", "/v1/cluster", "role", ANY_VALUE, false},
};

/* Names in a path are percent-encoded, so '*' never contains a '/'. */
static bool is_path(struct bytes path, const char *pattern)
{
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (path.len == 0 || *path.at != *pattern)
                return false;
            path = bytes_of(path.at + 1, path.len - 1);
            continue;
        }
        while (path.len > 0 && *path.at != '/')
            path = bytes_of(path.at + 1, path.len - 1);
    }
    return path.len == 0;
}

static bool has_shape(const json_t *value, enum shape shape)
{
    const json_t *element;
    size_t i;
    if (shape != OBJECTS)
        return shape == NUMBER   ? json_is_integer(value)
               : shape == OBJECT ? json_is_object(value)
                                 : value != NULL;
    json_array_foreach(value, i, element)
    {
        if (!json_is_object(element))
            return false;
    }
    return json_is_array(value);
}

bool answer_is_of_laterd(const char *method, struct bytes target, const json_t *answer)
{
    const char *query = target.len ? memchr(target.at, '?', target.len) : NULL;
    struct bytes path = query ? bytes_of(target.at, (size_t)(query - target.at)) : target;
    bool known = false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind *kind = &kinds[i];
        if (strcmp(kind->method, method) != 0 || !is_path(path, kind->path))
            continue;
        known = true;
        if (answer ? kind->member && has_shape(json_object_get(answer, kind->member), kind->shape)
                   : kind->or_none)
            return true;
    }
    return !known && json_is_object(answer);
}
