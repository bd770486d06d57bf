/* Internal declarations of the plugin. */
#ifndef LATERD_JOURNAL_MYSQL_PLUGIN_H
#define LATERD_JOURNAL_MYSQL_PLUGIN_H

#include "journal/mysql/link.h"
#include "port/journal.h"

/* `host`: the value of the log table's column host, "name/address"; copied. journal_verbs::close
   frees it. */
struct journal *writer_new(const struct journal_options *options,
                           const struct link_options *link_options, const char *host);

#endif
