#include "server/protocol.h"

#include "server/beanstalk/session.h"
#include "server/http/session.h"

const struct protocol protocols[PROTOCOL_KINDS] = {
    [PROTOCOL_HTTP] = {.name = "http",
                       .option = "http",
                       .port = "9277",
                       .clients = "HTTP clients",
                       .rival = "another laterd",
                       .http = true,
                       .dialects = true,
                       .session = &http_session_kind.session,
                       .session_bytes = sizeof(struct http_session)},
    [PROTOCOL_BEANSTALK] = {.name = "beanstalk",
                            .option = "beanstalk",
                            .port = "11300",
                            .clients = "clients of beanstalkd",
                            .rival = "a beanstalkd",
                            .session = &beanstalk_session_kind.session,
                            .session_bytes = sizeof(struct beanstalk_session)},
    [PROTOCOL_SDMQ] = {.name = "sdmq",
                       .option = "sdmq",
                       .port = "6355",
                       .clients = "clients of sdmq",
                       .rival = "an sdmq",
                       .http = true,
                       .dialect = DIALECT_SDMQ,
                       .session = &http_session_kind.session,
                       .session_bytes = sizeof(struct http_session)},
};
