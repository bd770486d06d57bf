#include "cli/top_view.h"

#include "base/mem.h"
#include "cli/show.h"
#include "cli/text.h"

enum { ROWS_USUAL = 20, NAME_LEAST = 8, COLUMNS_WIDE = 100, COLUMNS = 8 };

/* ---- the busiest topics ---- */

/* A topic's activity, by the server's figures of the last ten seconds. */
static double activity_of(const json_t *topic)
{
    const json_t *rates = json_object_get(topic, "rates");
    return json_number_value(json_object_get(rates, "pushed")) +
           json_number_value(json_object_get(rates, "reserved")) +
           json_number_value(json_object_get(rates, "finished"));
}

/* The busier, then the one with more jobs, then by name. */
static bool goes_before(const json_t *a, const json_t *b)
{
    double busy_a = activity_of(a), busy_b = activity_of(b);
    uint64_t jobs_a = show_count(a, "delayed") + show_count(a, "ready");
    uint64_t jobs_b = show_count(b, "delayed") + show_count(b, "ready");
    if (busy_a > busy_b || busy_b > busy_a)
        return busy_a > busy_b;
    if (jobs_a != jobs_b)
        return jobs_a > jobs_b;
    return strcmp(show_string(a, "name"), show_string(b, "name")) < 0;
}

void busiest_add(struct busiest *busiest, json_t *topic)
{
    size_t low = 0, high = busiest->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (goes_before(topic, busiest->topics[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    if (low == BUSIEST_MAX)
        return;
    if (busiest->count == BUSIEST_MAX)
        json_decref(busiest->topics[--busiest->count]);
    if (busiest->count == busiest->room) {
        busiest->room = busiest->room > 0 ? busiest->room * 2 : 64;
        busiest->topics = mem_realloc(busiest->topics, busiest->room * sizeof(*busiest->topics));
    }
    memmove(busiest->topics + low + 1, busiest->topics + low,
            (busiest->count - low) * sizeof(*busiest->topics));
    busiest->topics[low] = json_incref(topic);
    busiest->count++;
}

void busiest_clear(struct busiest *busiest)
{
    for (size_t i = 0; i < busiest->count; i++)
        json_decref(busiest->topics[i]);
    busiest->count = 0;
}

void busiest_fini(struct busiest *busiest)
{
    busiest_clear(busiest);
    mem_free(busiest->topics);
    *busiest = (struct busiest){0};
}

/* ---- the table ---- */

struct row {
    char cells[COLUMNS][TEXT_ROOM]; /* the first, the name's, is not used */
};

static void row_of(const json_t *topic, struct row *row)
{
    static const char *const rates[] = {"pushed", "finished"};
    static const char *const counts[] = {"delayed", "ready", "reserved", "buried", "waiters"};
    char room[TEXT_ROOM];
    size_t at = 1;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        double rate = json_number_value(json_object_get(json_object_get(topic, "rates"), rates[i]));
        (void)snprintf(row->cells[at++], TEXT_ROOM, "%.1f", rate); /* cut short if absurd */
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        (void)snprintf(row->cells[at++], TEXT_ROOM, "%s",
                       count_text(show_count(topic, counts[i]), room)); /* it fits */
}

/* How many columns are left for names beside all the other cells. */
static size_t name_columns(const struct busiest *busiest, size_t rows, const char *const *heads,
                           unsigned columns)
{
    size_t widths[COLUMNS], sum = 0;
    for (size_t i = 1; i < COLUMNS; i++)
        widths[i] = strlen(heads[i]);
    for (size_t at = 0; at < rows; at++) {
        struct row row;
        row_of(busiest->topics[at], &row);
        for (size_t i = 1; i < COLUMNS; i++)
            widths[i] = strlen(row.cells[i]) > widths[i] ? strlen(row.cells[i]) : widths[i];
    }
    for (size_t i = 1; i < COLUMNS; i++)
        sum += widths[i] + 2; /* as the table keeps them apart */
    return columns > sum + NAME_LEAST ? columns - sum : NAME_LEAST;
}

static void add_topics(struct buf *out, const struct top_view *view, size_t rows_max,
                       unsigned columns)
{
    static const char *const wide[] = {"TOPIC", "PUSHED/S", "FINISHED/S", "DELAYED",
                                       "READY", "RESERVED", "BURIED",     "WAITING"};
    static const char *const narrow[] = {"TOPIC", "PUSH/S",   "FIN/S",  "DELAYED",
                                         "READY", "RESERVED", "BURIED", "WAITING"};
    const struct busiest *busiest = view->busiest;
    size_t rows = busiest->count < rows_max ? busiest->count : rows_max;
    const char *const *heads = columns == 0 || columns >= COLUMNS_WIDE ? wide : narrow;
    struct table table = {.columns = COLUMNS,
                          .right = {false, true, true, true, true, true, true, true}};
    if (columns > 0)
        table.most[0] = name_columns(busiest, rows, heads, columns);
    for (size_t i = 0; i < COLUMNS; i++)
        table_cell_str(&table, heads[i]);
    for (size_t at = 0; at < rows; at++) {
        struct row row;
        row_of(busiest->topics[at], &row);
        table_cell_str(&table, show_string(busiest->topics[at], "name"));
        for (size_t i = 1; i < COLUMNS; i++)
            table_cell_str(&table, row.cells[i]);
    }
    table_write(&table, out);
    table_fini(&table);
}

void top_view_add(struct buf *out, const struct top_view *view, unsigned columns, unsigned lines)
{
    char seen[TEXT_ROOM], all[TEXT_ROOM];
    uint64_t topics = show_count(view->stats, "topics");
    size_t used = 4; /* below: a title, an empty line, the heading, how many more there are */
    stats_add(out, view->stats, &view->before, columns);
    for (size_t i = 0; i < out->len; i++)
        used += out->at[i] == '\n';
    size_t rows_max = lines == 0 ? ROWS_USUAL : lines > used ? lines - used : 0;
    buf_addf(out, "%-10s  ", "topics");
    if (view->seen < topics)
        buf_addf(out, "the busiest of %s; looking at all %s\n\n", count_text(view->seen, seen),
                 count_text(topics, all));
    else
        buf_add_str(out, "rates of the last 10 s, those above since the last look\n\n");
    add_topics(out, view, rows_max, columns);
    uint64_t shown = view->busiest->count < rows_max ? view->busiest->count : rows_max;
    if (topics > shown)
        buf_addf(out, "… and %s more: later topics\n", count_text(topics - shown, all));
}
