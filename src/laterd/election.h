/*
 * [member]: which election this laterd takes part in. Loads the plugin that the URL's scheme needs,
 * and opens it.
 */
#ifndef LATERD_LATERD_ELECTION_H
#define LATERD_LATERD_ELECTION_H

#include "port/member.h"
#include "server/config/config.h"

struct election {
    const struct member_plugin *plugin; /* NULL: there is none, we are the only one */
    char url[CONFIG_TEXT_MAX];          /* what member.url stands for; may hold a password */
    char advertise[MEMBER_URL_MAX];     /* where our clients reach us */
    struct member *member;              /* NULL: not open */
};

/*
 * Loads what member.url needs and asks it whether the options are right; opens nothing. 0, or the
 * exit status: the reason is on standard error, with the package to install if a library is
 * missing.
 */
int election_load(const struct config *config, struct election *out_election) MUST_USE;

/* Begins to take part. `http`: an address that we listen on, for where member.advertise is empty;
   "" is none. 0, or the exit status. */
int election_open(struct election *election, const struct config *config, struct loop *loop,
                  uint64_t instance, const char *http) MUST_USE;

/* Gives back what we hold, if it is open. */
void election_close(struct election *election);

#endif
