/*
 * Checks a complete head. The request line is parsed here, because its form decides between 400,
 * 501 and 505; the header lines are parsed by llhttp, which calls back for each; they are checked
 * together at the end.
 *
 * The head has proper line ends (http1.c has checked that), and nothing of its body follows, so
 * llhttp gets one piece of memory and every span it reports is complete.
 */
#include <llhttp.h>

#include "base/block16.h"
#include "proto/http/http1_parts.h"

/* A head under judgement. */
struct judge {
    struct http_head *head;
    struct bytes name, value; /* of the header line under way */
    struct bytes encoding;    /* Transfer-Encoding */
    struct bytes host, origin;
    uint32_t hosts, origins, lengths, encodings, expects, content_types, authorizations;
    uint32_t conditions; /* If-Match, If-None-Match */
    bool bad_host, bad_length;
    struct http_refusal refusal; /* status 0: none yet */
};

bool http_is_token(char c)
{
    char letter = (char)(c | 0x20);
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool refuse(struct judge *judge, int status, const char *reason)
{
    if (judge->refusal.status == 0)
        judge->refusal = (struct http_refusal){.status = status, .reason = reason};
    return false;
}

/* ---- the request line ---- */

static bool read_method(struct judge *judge, struct bytes text)
{
    static const struct {
        struct bytes name;
        enum http_method method;
    } methods[] = {
        {{"POST", 4}, HTTP_M_POST},       {{"GET", 3}, HTTP_M_GET}, {{"DELETE", 6}, HTTP_M_DELETE},
        {{"PATCH", 5}, HTTP_M_PATCH},     {{"PUT", 3}, HTTP_M_PUT}, {{"HEAD", 4}, HTTP_M_HEAD},
        {{"OPTIONS", 7}, HTTP_M_OPTIONS},
    };
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (bytes_eq(text, methods[i].name)) {
            judge->head->request.method = methods[i].method;
            return true;
        }
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!http_is_token(text.at[i]))
            return refuse(judge, 400, "the method is not a token");
    }
    if (text.len == 0)
        return refuse(judge, 400, "the request line begins with a space");
    if (bytes_eq(text, BYTES("CONNECT")) || bytes_eq(text, BYTES("TRACE")))
        return refuse(judge, 501, "CONNECT and TRACE are not implemented");
    judge->head->request.method = HTTP_M_OTHER; /* llhttp has checked that it is a known one */
    return true;
}

static bool read_version(struct judge *judge, struct bytes text)
{
    if (bytes_eq(text, BYTES("HTTP/1.1")))
        return true;
    judge->head->request.http10 = true;
    if (bytes_eq(text, BYTES("HTTP/1.0")))
        return true;
    if (text.len == 8 && bytes_starts(text, BYTES("HTTP/")) && text.at[6] == '.' &&
        text.at[5] >= '0' && text.at[5] <= '9' && text.at[7] >= '0' && text.at[7] <= '9')
        return refuse(judge, 505, "the HTTP version is neither 1.0 nor 1.1");
    return refuse(judge, 400, "the request line does not end in an HTTP version");
}

/* "http://host:port/path?query" → "/path?query"; its host replaces that of the Host header (RFC
 * 9112, 3.2.2). */
static bool read_absolute(struct judge *judge, struct bytes *target)
{
    size_t scheme = 0;
    if (target->len > 7 && bytes_eq_nocase(bytes_of(target->at, 7), BYTES("http://")))
        scheme = 7;
    else if (target->len > 8 && bytes_eq_nocase(bytes_of(target->at, 8), BYTES("https://")))
        scheme = 8;
    else
        return refuse(judge, 400, "the request target is neither a path nor an http URL");
    size_t at = scheme;
    while (at < target->len && target->at[at] != '/' && target->at[at] != '?') {
        if (target->at[at] == '@')
            return refuse(judge, 400, "the request target has user information");
        at++;
    }
    if (at == scheme)
        return refuse(judge, 400, "the request target has no host");
    judge->head->request.host = bytes_of(target->at + scheme, at - scheme);
    *target = bytes_of(target->at + at, target->len - at);
    return true;
}

static bool has_unescaped_in_block(const char *at)
{
    block16 bytes = block16_at(at);
    block16 marks = (block16)((bytes <= ' ') | (bytes >= 0x7f) | (bytes == '#'));
    return block16_unmarked(marks) < sizeof(marks);
}

/* Is there a byte that a request target has only in its escaped form? */
static bool has_unescaped(struct bytes target)
{
    const char *at = target.at, *end = at + target.len;
    if (target.len >= sizeof(block16)) {
        const char *last = end - sizeof(block16); /* it may lie across the one before */
        for (; at < last; at += sizeof(block16)) {
            if (has_unescaped_in_block(at))
                return true;
        }
        return has_unescaped_in_block(last);
    }
    for (; at < end; at++) {
        unsigned char c = (unsigned char)*at;
        if (c <= ' ' || c >= 0x7f || c == '#')
            return true;
    }
    return false;
}

static bool read_target(struct judge *judge, struct bytes target)
{
    struct http_request *request = &judge->head->request;
    if (has_unescaped(target))
        return refuse(judge, 400, "the request target has a character that must be escaped");
    if (target.len == 0)
        return refuse(judge, 400, "the request target is empty");
    request->target = target;
    bool star = bytes_eq(target, BYTES("*")) && request->method == HTTP_M_OPTIONS;
    if (target.at[0] != '/' && !star && !read_absolute(judge, &target))
        return false;
    const char *mark = target.len ? memchr(target.at, '?', target.len) : NULL;
    size_t path_len = mark ? (size_t)(mark - target.at) : target.len;
    request->path = path_len ? bytes_of(target.at, path_len) : bytes_of(NULL, 0);
    if (mark)
        request->query = bytes_of(mark + 1, target.len - path_len - 1);
    return true;
}

static bool read_request_line(struct judge *judge, struct bytes line)
{
    const char *end = line.at + line.len;
    const char *first = memchr(line.at, ' ', line.len);
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return refuse(judge, 400, "the request line is not METHOD TARGET VERSION");
    return read_method(judge, bytes_of(line.at, (size_t)(first - line.at))) &&
           read_version(judge, bytes_of(second + 1, (size_t)(end - second - 1))) &&
           read_target(judge, bytes_of(first + 1, (size_t)(second - first - 1)));
}

/* ---- header lines ---- */

static struct bytes trim(struct bytes text)
{
    while (text.len && (text.at[0] == ' ' || text.at[0] == '\t'))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool is_host(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i], letter = (char)(c | 0x20);
        if (c >= '-' && c <= ':' && c != '/')
            continue; /* "-.0123456789:" */
        if ((letter < 'a' || letter > 'z') && (c == '\0' || !strchr("_~[]%!$&'()*+;=", c)))
            return false;
    }
    return true;
}

/* Does a Content-Encoding name a compression? Whatever else is put there, such as a character set,
   leaves the body as it is. */
static bool is_compression(struct bytes value)
{
    static const char *const names[] = {"gzip",     "x-gzip",     "deflate", "br",
                                        "compress", "x-compress", "zstd"};
    while (value.len) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.at) : value.len;
        struct bytes name = trim(bytes_of(value.at, len));
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (bytes_eq_nocase(name, bytes_str(names[i])))
                return true;
        len += comma != NULL;
        value = bytes_of(value.at + len, value.len - len);
    }
    return false;
}

/* Does a browser's Sec-Fetch-Site say that a page of this server, or its user, made the request? A
   page of the "same-site" is one of another origin, such as another port of the same host; with a
   GET it sends no Origin. */
static bool is_own_site(struct bytes value)
{
    return bytes_eq_nocase(value, BYTES("same-origin")) || bytes_eq_nocase(value, BYTES("none"));
}

/* Handles a complete header line. Compares names by their length first: most lines are of no
   interest. */
static void judge_line(struct judge *judge)
{
    struct http_head *head = judge->head;
    struct bytes name = judge->name, value = trim(judge->value);
    if (name.len == 0)                                    /* which llhttp lets through */
        (void)refuse(judge, 400, "a header has no name"); /* judge_all sees it */
    switch (name.len) {
    case 4:
        if (bytes_eq_nocase(name, BYTES("host"))) {
            judge->hosts++;
            judge->host = value;
            judge->bad_host |= !is_host(value);
        }
        break;
    case 6:
        if (bytes_eq_nocase(name, BYTES("expect"))) {
            judge->expects++;
            head->expects_continue = bytes_eq_nocase(value, BYTES("100-continue"));
        } else if (bytes_eq_nocase(name, BYTES("origin"))) {
            judge->origins++;
            judge->origin = value;
        }
        break;
    case 8:
        if (bytes_eq_nocase(name, BYTES("if-match"))) {
            judge->conditions++;
            head->request.if_match = value;
        }
        break;
    case 12:
        if (bytes_eq_nocase(name, BYTES("content-type"))) {
            judge->content_types++;
            head->request.content_type = value;
        }
        break;
    case 13:
        if (bytes_eq_nocase(name, BYTES("authorization"))) {
            judge->authorizations++;
            head->request.authorization = value;
        } else if (bytes_eq_nocase(name, BYTES("if-none-match"))) {
            judge->conditions++;
            head->request.if_none_match = value;
        }
        break;
    case 14:
        if (bytes_eq_nocase(name, BYTES("content-length"))) {
            judge->lengths++;
            judge->bad_length |= !bytes_to_u64(value, &head->body_bytes);
        } else if (bytes_eq_nocase(name, BYTES("sec-fetch-site"))) {
            head->request.cross_site |= !is_own_site(value);
        }
        break;
    case 16:
        if (bytes_eq_nocase(name, BYTES("content-encoding")))
            head->request.compressed |= is_compression(value);
        break;
    case 17:
        if (bytes_eq_nocase(name, BYTES("transfer-encoding"))) {
            judge->encodings++;
            judge->encoding = value;
        }
        break;
    default: break;
    }
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    struct judge *judge = parser->data;
    judge->name = bytes_of(at, len);
    judge->value = bytes_of(at, 0);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct judge *judge = parser->data;
    judge->value = bytes_of(at, len);
    return 0;
}

static int on_value_end(llhttp_t *parser)
{
    judge_line(parser->data);
    return 0;
}

static int on_headers_end(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED; /* bodies are not llhttp's business */
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_headers_end,
};

static bool refuse_lines(struct judge *judge, const llhttp_t *parser, llhttp_errno_t error)
{
    switch ((int)error) {
    case HPE_INVALID_CONSTANT: /* a method of RTSP or ICE */
    case HPE_INVALID_METHOD: return refuse(judge, 501, "the method is not known");
    case HPE_INVALID_CONTENT_LENGTH:
        return refuse(judge, 400, "Content-Length is not a number of bytes");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return refuse(judge, 400,
                      "there are two lengths: Content-Length twice or with "
                      "Transfer-Encoding");
    case HPE_INVALID_HEADER_TOKEN:
        return refuse(judge, 400, "a header's name or value has a character that is not allowed");
    case HPE_UNEXPECTED_SPACE: return refuse(judge, 400, "a space follows a header's name");
    default: break;
    }
    return refuse(judge, 400,
                  parser->reason && *parser->reason ? parser->reason : "the headers are malformed");
}

/* ---- checks of all lines together ---- */

static bool ends_in_chunked(struct bytes codings)
{
    struct bytes last = BYTES("chunked");
    if (codings.len < last.len)
        return false;
    size_t before = codings.len - last.len;
    return bytes_eq_nocase(bytes_of(codings.at + before, last.len), last) &&
           (before == 0 || !http_is_token(codings.at[before - 1]));
}

static bool judge_encoding(struct judge *judge)
{
    if (judge->encodings == 0)
        return true;
    if (judge->lengths)
        return refuse(judge, 400, "there is both a Content-Length and a Transfer-Encoding");
    if (judge->head->request.http10)
        return refuse(judge, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (judge->encodings > 1)
        return refuse(judge, 400, "there is more than one Transfer-Encoding");
    if (!bytes_eq_nocase(judge->encoding, BYTES("chunked")))
        return ends_in_chunked(judge->encoding)
                   ? refuse(judge, 501, "no transfer coding but chunked is implemented")
                   : refuse(judge, 400, "the last transfer coding is not chunked");
    judge->head->chunked = true;
    return true;
}

/*
 * Is the Origin the request's host? Its scheme may be https, because the browser may reach this
 * server through a proxy that ends TLS. The opaque origin, "null", matches no host.
 */
static bool is_own_origin(struct bytes origin, struct bytes host)
{
    size_t scheme = 0;
    if (bytes_starts(origin, BYTES("http://")))
        scheme = sizeof("http://") - 1;
    else if (bytes_starts(origin, BYTES("https://")))
        scheme = sizeof("https://") - 1;
    return scheme && bytes_eq_nocase(bytes_of(origin.at + scheme, origin.len - scheme), host);
}

static bool judge_all(struct judge *judge)
{
    struct http_head *head = judge->head;
    if (judge->refusal.status)
        return false;
    if (judge->hosts > 1)
        return refuse(judge, 400, "there is more than one Host");
    if (judge->hosts == 0 && !head->request.http10)
        return refuse(judge, 400, "the Host header is missing");
    if (judge->bad_host)
        return refuse(judge, 400, "the Host header is not a host");
    if (judge->lengths > 1)
        return refuse(judge, 400, "there is more than one Content-Length");
    if (judge->bad_length)
        return refuse(judge, 400, "Content-Length is not a number of bytes");
    if (!judge_encoding(judge))
        return false;
    if (head->request.host.len == 0)
        head->request.host = judge->host;
    if (judge->origins && !is_own_origin(judge->origin, head->request.host))
        head->request.cross_site = true;
    if (judge->content_types > 1 || judge->authorizations > 1 || judge->origins > 1 ||
        judge->conditions > 1)
        return refuse(judge, 400, "a header that may come once came twice");
    if (judge->expects && (!head->expects_continue || judge->expects > 1))
        return refuse(judge, 417, "no expectation but 100-continue is known");
    if (head->request.http10)
        head->expects_continue = false; /* RFC 9110, 10.1.1 */
    return true;
}

bool http_head_read(struct bytes head, struct http_head *out_head, struct http_refusal *out_refusal)
{
    struct judge judge = {.head = out_head};
    llhttp_t parser;
    *out_head = (struct http_head){0};
    const char *line_end = memchr(head.at, '\r', head.len);
    bool good = read_request_line(&judge, bytes_of(head.at, (size_t)(line_end - head.at)));
    if (good) {
        llhttp_init(&parser, HTTP_REQUEST, &settings);
        parser.data = &judge;
        llhttp_errno_t error = llhttp_execute(&parser, head.at, head.len);
        good = error == HPE_PAUSED ? judge_all(&judge) : refuse_lines(&judge, &parser, error);
    }
    if (good)
        out_head->request.keep_alive = llhttp_should_keep_alive(&parser);
    else
        *out_refusal = judge.refusal;
    return good;
}
