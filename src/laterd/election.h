/*
 * [member]: which election this laterd takes part in. Loads the plugin that the URL's scheme needs,
 * and opens it.
 */
#ifndef LATERD_LATERD_ELECTION_H
#define LATERD_LATERD_ELECTION_H

#include "port/member.h"
#include "server/config/config.h"

struct election {
    const struct member_plugin *plugin; /* NULL: no election, this laterd always serves */
    char url[CONFIG_TEXT_MAX];      /* member.url with its reference read; may hold a password */
    char advertise[MEMBER_URL_MAX]; /* the URL where clients reach us */
    struct member *member;          /* NULL: not open */
};

/*
 * Loads the plugin that member.url needs and has it check the options; opens nothing. Returns 0, or
 * the exit status: the reason is on standard error, with the package to install if a library is
 * missing.
 */
int election_load(const struct config *config, struct election *out_election) MUST_USE;

/*
 * What election_load() would refuse as wrong of a configuration that was read again, as far as the
 * plugin that is loaded can tell; reads no reference. ERR_INVALID: the reason is on standard error.
 */
enum err election_check(const struct election *loaded, const struct config *config) MUST_USE;

/* Begins to take part. `http`: an address that we listen on, used if member.advertise is empty; "":
   none. Returns 0, or the exit status. */
int election_open(struct election *election, const struct config *config, struct loop *loop,
                  uint64_t instance, const char *http) MUST_USE;

/* Resigns, if it is open. Waits for the service, up to about a second. */
void election_close(struct election *election);

#endif
