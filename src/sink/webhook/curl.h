/*
 * libcurl, loaded when the first webhook is sent. Linked, it would cost each laterd 4 MB of
 * resident memory and 3.4 ms at the start, even without webhooks (measured with Debian's 7.88,
 * which loads 25 other libraries). Used only by the code of the sink's thread.
 */
#ifndef LATERD_SINK_WEBHOOK_CURL_H
#define LATERD_SINK_WEBHOOK_CURL_H

#include <curl/curl.h>

#include "base/bytes.h"

/* libcurl's functions, without the type checks of its macros. */
struct curl_api {
    __typeof__(curl_global_init_mem) *global_init_mem;
    __typeof__(curl_version_info) *version_info;
    __typeof__(curl_getdate) *getdate;
    __typeof__(curl_free) *free;
    __typeof__(curl_url) *url;
    __typeof__(curl_url_cleanup) *url_cleanup;
    __typeof__(curl_url_set) *url_set;
    __typeof__(curl_url_get) *url_get;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_setopt) *easy_setopt;
    __typeof__(curl_easy_getinfo) *easy_getinfo;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_easy_strerror) *easy_strerror;
    __typeof__(curl_multi_init) *multi_init;
    __typeof__(curl_multi_setopt) *multi_setopt;
    __typeof__(curl_multi_cleanup) *multi_cleanup;
    __typeof__(curl_multi_add_handle) *multi_add_handle;
    __typeof__(curl_multi_remove_handle) *multi_remove_handle;
    __typeof__(curl_multi_socket_action) *multi_socket_action;
    __typeof__(curl_multi_assign) *multi_assign;
    __typeof__(curl_multi_info_read) *multi_info_read;
};

/*
 * Loads libcurl; its memory counts in mem_used(). NULL: *out_problem, valid forever, says why and
 * what to install. It stays loaded for the life of the process. Takes milliseconds. One thread
 * only.
 */
const struct curl_api *curl_api_load(const char **out_problem);

#endif
