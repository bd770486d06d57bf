/* What the plugin's files share. */
#ifndef LATERD_JOURNAL_MYSQL_PLUGIN_H
#define LATERD_JOURNAL_MYSQL_PLUGIN_H

#include "journal/mysql/link.h"
#include "port/journal.h"

/* `host` is what the log table has in its column, name/address; copied. Free by its close(). */
struct journal *writer_new(const struct journal_options *options,
                           const struct link_options *link_options, const char *host);

#endif
