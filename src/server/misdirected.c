#include "server/misdirected.h"

#include "base/log.h"
#include "server/session.h"

enum { SHOWN_MAX = 80, LOG_EVERY_US = 10 * 1000 * 1000 };

static const struct {
    const char *name;
    const char *hint;
} kinds[MISDIRECTED_KINDS] = {
    [MISDIRECTED_HOST] = {"unknown_host", "a name that clients call this server by goes to "
                                          "server.hosts; else a web page tried to get in"},
    [MISDIRECTED_HTTP] = {"http_on_beanstalk_port", "HTTP is spoken at server.http; a web page "
                                                    "may have tried to get in"},
    [MISDIRECTED_BEANSTALK] = {"beanstalk_on_http_port",
                               "clients of beanstalkd belong to server.beanstalk"},
    [MISDIRECTED_TLS] = {"tls_on_http_port", "HTTP is spoken without TLS here: clients ask by "
                                             "http://, or through a proxy that has TLS"},
};

const char *misdirected_name(enum misdirected_kind kind)
{
    return kinds[kind].name;
}

/* Copies the text; characters that cannot be printed within quotes become '?'. */
static void show(struct bytes text, char *room)
{
    size_t len = text.len < SHOWN_MAX ? text.len : SHOWN_MAX;
    for (size_t i = 0; i < len; i++) {
        char c = text.at[i];
        room[i] = (char)(c < ' ' || c >= 0x7f || c == '"' || c == '\\' ? '?' : c);
    }
    room[len] = '\0';
}

void misdirected_note(struct session *session, enum misdirected_kind kind, struct bytes what)
{
    struct server *server = session->server;
    struct misdirected *misdirected = &server->misdirected;
    char shown[SHOWN_MAX + 1], peer[STREAM_PEER_MAX];
    misdirected->counts[kind]++;
    if (server->loop->now_us < misdirected->next_log_us[kind]) {
        misdirected->silent[kind]++;
        return;
    }
    show(what, shown);
    stream_peer(session->stream, peer);
    log_event(LOG_WARN, kinds[kind].name, "from=%s said=\"%s\" more=%llu hint=\"%s\"", peer, shown,
              (unsigned long long)misdirected->silent[kind], kinds[kind].hint);
    misdirected->silent[kind] = 0;
    misdirected->next_log_us[kind] = server->loop->now_us + LOG_EVERY_US;
}
