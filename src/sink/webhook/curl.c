/*
 * The table is a global, because libcurl has global state and is loaded once.
 */
#include "sink/webhook/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "base/mem.h"

#define SYMBOL(name)                                                                               \
    {                                                                                              \
        "curl_" #name, offsetof(struct curl_api, name)                                             \
    }

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    SYMBOL(global_init_mem),
    SYMBOL(version_info),
    SYMBOL(getdate),
    SYMBOL(free),
    SYMBOL(url),
    SYMBOL(url_cleanup),
    SYMBOL(url_set),
    SYMBOL(url_get),
    SYMBOL(easy_init),
    SYMBOL(easy_setopt),
    SYMBOL(easy_getinfo),
    SYMBOL(easy_cleanup),
    SYMBOL(easy_strerror),
    SYMBOL(multi_init),
    SYMBOL(multi_setopt),
    SYMBOL(multi_cleanup),
    SYMBOL(multi_add_handle),
    SYMBOL(multi_remove_handle),
    SYMBOL(multi_socket_action),
    SYMBOL(multi_info_read),
    SYMBOL(multi_assign),
};

static struct curl_api api;
static bool loaded;
static char problem[240];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static char *count_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(mem_alloc(bytes), text, bytes);
}

static void *count_calloc(size_t count, size_t size_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size_bytes, &bytes) ? NULL : mem_zalloc(bytes);
}

/* RTLD_LOCAL: symbols of libcurl and its libraries must not be visible to other libraries. */
static bool load(void)
{
    enum { VERSION_NEEDED = 0x075700 }; /* 7.87: CURLOPT_QUICK_EXIT */
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)snprintf(problem, sizeof(problem),
                       "libcurl cannot be loaded (%.120s); install libcurl4 and restart laterd",
                       dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            (void)snprintf(problem, sizeof(problem), "libcurl has no %s; 7.87 or newer is needed",
                           symbols[i].name);
            return false;
        }
        memcpy((char *)&api + symbols[i].at, &symbol, sizeof(symbol));
    }
    if (api.version_info(CURLVERSION_NOW)->version_num < VERSION_NEEDED) {
        (void)snprintf(problem, sizeof(problem), "libcurl is %s; 7.87 or newer is needed",
                       api.version_info(CURLVERSION_NOW)->version);
        return false;
    }
    if (api.global_init_mem(CURL_GLOBAL_DEFAULT, mem_alloc, mem_free, mem_realloc, count_strdup,
                            count_calloc)) {
        (void)snprintf(problem, sizeof(problem), "libcurl cannot be initialized");
        return false;
    }
    return true;
}

const struct curl_api *curl_api_load(const char **out_problem)
{
    (void)pthread_mutex_lock(&mutex);
    if (!loaded)
        loaded = load();
    (void)pthread_mutex_unlock(&mutex);
    if (!loaded)
        *out_problem = problem;
    return loaded ? &api : NULL;
}
