/* laterd-amqp.so: jobs to RabbitMQ, and messages from it. */
#include <amqp.h>
#include <stdio.h>
#include <string.h>

#include "os/ca_file.h"
#include "sink/amqp/link.h"
#include "sink/amqp/parts.h"

static enum err check(const struct broker_options *options, struct broker_error *out_error)
{
    const char *path;
    char why[CA_FILE_WHY_MAX];
    enum err err = rabbit_url_check(options->url, out_error);
    if (err || strncmp(options->url, "amqps:", 6) != 0)
        return err;
    err = ca_file_find(options->ca, &path, why);
    if (err)
        (void)snprintf(out_error->text, sizeof(out_error->text), "ca: %s", why);
    return err;
}

__attribute__((visibility("default"))) const struct plugin laterd_plugin = {
    .abi = PLUGIN_ABI,
    .version = LATERD_VERSION,
    .type = TARGET_AMQP,
    .library = "librabbitmq " AMQP_VERSION_STRING,
    .check = check,
    .open = rabbit_publisher_open,
    .open_intake = rabbit_consumer_open,
};
