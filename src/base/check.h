/*
 * CHECK states what only a bug can break. It stays on in production: a queue that stops is
 * better than a queue that lies. Never CHECK what a client, a disk or a peer sent; that is an
 * `enum err`.
 */
#ifndef LATERD_BASE_CHECK_H
#define LATERD_BASE_CHECK_H

_Noreturn void check_failed(const char *file, int line, const char *claim);

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!(claim), 0))                                                         \
            check_failed(__FILE__, __LINE__, #claim);                                              \
    } while (0)

#endif
