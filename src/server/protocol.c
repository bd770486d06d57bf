#include "server/protocol.h"

#include "server/beanstalk/session.h"
#include "server/http/session.h"

const struct protocol protocols[PROTOCOL_KINDS] = {
    [PROTOCOL_HTTP] = {.name = "http",
                       .option = "http",
                       .port = "9277",
                       .clients = "HTTP clients",
                       .rival = "another laterd",
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
};
