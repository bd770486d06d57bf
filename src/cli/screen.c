#include "cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "port/clock.h"

enum { COLUMNS_LEAST = 20 };

static const char screen_on[] = "\x1b[?1049h\x1b[?25l", screen_off[] = "\x1b[?25h\x1b[?1049l";

static struct {
    struct termios before; /* how the terminal was */
    struct termios raw;
    bool has_keys;
    sigset_t usual; /* signals that are blocked outside of screen_wait() */
} screen;

static void on(void)
{
    if (screen.has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.raw);       /* else keys need a return key */
    (void)!write(STDOUT_FILENO, screen_on, sizeof(screen_on) - 1); /* a terminal takes it */
}

static void off(void)
{
    (void)!write(STDOUT_FILENO, screen_off, sizeof(screen_off) - 1); /* a terminal takes it */
    if (screen.has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before); /* it was so before */
}

/*
 * Ends the program from wherever it is, because a server that does not answer must not keep the
 * user from leaving. Only calls that are safe in a signal handler.
 */
static void on_end(int number)
{
    off();
    _exit(number == SIGINT ? EXIT_DONE : 128 + number);
}

/* Ctrl-Z: the shell gets its terminal back, until we go on behind raise(). */
static void on_stop(int number)
{
    int kept = errno;
    (void)number;
    off();
    (void)raise(SIGSTOP); /* cannot fail for ourselves */
    on();
    errno = kept;
}

static void on_resize(int number)
{
    (void)number; /* it ends screen_wait() */
}

struct screen_size screen_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < COLUMNS_LEAST ||
        size.ws_row == 0)
        return (struct screen_size){.columns = 80, .lines = 24};
    return (struct screen_size){.columns = size.ws_col, .lines = size.ws_row};
}

/* None of these calls can fail for these signals. */
void screen_begin(void)
{
    const struct sigaction end = {.sa_handler = on_end}, stop = {.sa_handler = on_stop},
                           resize = {.sa_handler = on_resize};
    sigset_t held;
    screen.has_keys = tcgetattr(STDIN_FILENO, &screen.before) == 0;
    screen.raw = screen.before;
    screen.raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C stays a signal */
    screen.raw.c_cc[VMIN] = 1;
    screen.raw.c_cc[VTIME] = 0;
    /* A resize is noticed in screen_wait() alone: one that came before it is not missed there. */
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGWINCH);
    (void)sigaddset(&held, SIGTSTP);
    (void)sigprocmask(SIG_BLOCK, &held, &screen.usual);
    (void)sigdelset(&screen.usual, SIGWINCH);
    (void)sigdelset(&screen.usual, SIGTSTP);
    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGTERM, &end, NULL);
    (void)sigaction(SIGHUP, &end, NULL);
    (void)sigaction(SIGTSTP, &stop, NULL);
    (void)sigaction(SIGWINCH, &resize, NULL);
    on();
}

void screen_end(void)
{
    off();
}

int screen_keys(void)
{
    return screen.has_keys ? STDIN_FILENO : -1;
}

bool screen_quits(void)
{
    char keys[64];
    struct pollfd one = {.fd = screen_keys(), .events = POLLIN};
    if (one.fd < 0 || poll(&one, 1, 0) <= 0)
        return false;
    ssize_t count = read(one.fd, keys, sizeof(keys));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
        return true; /* the terminal is gone */
    for (ssize_t i = 0; i < count; i++) {
        if (keys[i] == 'q' || keys[i] == 'Q')
            return true;
    }
    return false;
}

enum screen_event screen_wait(int64_t us)
{
    int64_t until_us = clock_monotonic_us() + us;
    for (;;) {
        int64_t left_us = until_us - clock_monotonic_us();
        if (left_us <= 0)
            return SCREEN_TIME;
        struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
        struct pollfd one = {.fd = screen_keys(), .events = POLLIN};
        int count = ppoll(&one, 1, &left, &screen.usual);
        if (count > 0 && screen_quits())
            return SCREEN_QUIT;
        if (count < 0)
            return errno == EINTR ? SCREEN_RESIZED : SCREEN_QUIT;
    }
}

void screen_frame(struct bytes page, struct screen_size size, struct buf *out)
{
    size_t column = 0, line = 1, width;
    bool cut = false; /* the rest of the line */
    buf_add_str(out, "\x1b[H");
    while (page.len > 0 && line <= size.lines) {
        size_t len = text_first(page, &width);
        if (page.at[0] == '\n') {
            /* No line end behind the last line: the screen would roll. */
            buf_add_str(out, column < size.columns ? "\x1b[K" : "");
            buf_add_str(out, line < size.lines ? "\r\n" : "");
            line++;
            column = 0;
            cut = false;
        } else if (!cut && column + width <= size.columns) {
            buf_add(out, page.at, len);
            column += width;
        } else {
            cut = true;
        }
        page = bytes_of(page.at + len, page.len - len);
    }
    buf_add_str(out, line <= size.lines ? "\x1b[J" : "");
}
