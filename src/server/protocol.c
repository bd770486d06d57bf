#include "server/protocol.h"

#include "server/beanstalk/session.h"
#include "server/http/session.h"

const struct protocol protocols[PROTOCOL_KINDS] = {
    [PROTOCOL_HTTP] = {.name = "http",
                       .option = "http",
                       .session = &http_session_kind.session,
                       .session_bytes = sizeof(struct http_session)},
    [PROTOCOL_BEANSTALK] = {.name = "beanstalk",
                            .option = "beanstalk",
                            .session = &beanstalk_session_kind.session,
                            .session_bytes = sizeof(struct beanstalk_session)},
};
