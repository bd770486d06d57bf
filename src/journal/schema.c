#include "journal/schema.h"

#include <stdio.h>

#include "base/check.h"

enum text_need { NO_TEXT, ANY_TEXT /* utf8mb4 */, KEY_TEXT /* and binary, NO PAD */ };

struct need {
    enum schema_table table;
    const char *name;
    const char *type;  /* in the statement that creates the table */
    const char *types; /* what may be there instead, between spaces */
    enum text_need text;
    uint64_t characters;
    uint64_t fraction;
    bool primary;
};

static const char *const tables[SCHEMA_TABLES] = {
    [SCHEMA_JOBS] = JOURNAL_JOBS,       [SCHEMA_LOGS] = JOURNAL_LOGS,
    [SCHEMA_CURSORS] = JOURNAL_CURSORS, [SCHEMA_REJECTED] = JOURNAL_REJECTED,
    [SCHEMA_STREAMS] = JOURNAL_STREAMS, [SCHEMA_RESYNCS] = JOURNAL_RESYNCS,
};

#define NUMBERS " int bigint "
#define TEXTS   " text mediumtext longtext "

static const struct need needs[] = {
    {SCHEMA_JOBS, "id", "varchar(255)", " varchar varbinary ", KEY_TEXT, 255, 0, true},
    {SCHEMA_JOBS, "bizkey", "varchar(128)", " varchar" TEXTS, ANY_TEXT, 128, 0, false},
    {SCHEMA_JOBS, "topic", "varchar(200)", " varchar" TEXTS, ANY_TEXT, 200, 0, false},
    {SCHEMA_JOBS, "subtopic", "varchar(250)", " varchar" TEXTS, ANY_TEXT, 250, 0, false},
    {SCHEMA_JOBS, "delay", "bigint", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_JOBS, "create_time", "bigint", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_JOBS, "body", "mediumtext", " mediumtext longtext ", ANY_TEXT, 0, 0, false},
    {SCHEMA_JOBS, "status", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {SCHEMA_JOBS, "ttl", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {SCHEMA_JOBS, "update_time", "datetime(3)", " datetime timestamp ", NO_TEXT, 0, 3, false},
    {SCHEMA_JOBS, "extend_data", "text", TEXTS, ANY_TEXT, 0, 0, false},
    {SCHEMA_LOGS, "id", "varchar(255)", " varchar varbinary ", KEY_TEXT, 255, 0, false},
    {SCHEMA_LOGS, "status", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {SCHEMA_LOGS, "thread", "varchar(60)", " varchar" TEXTS, ANY_TEXT, 60, 0, false},
    {SCHEMA_LOGS, "update_time", "datetime(3)", " datetime timestamp ", NO_TEXT, 0, 3, false},
    {SCHEMA_LOGS, "host", "varchar(128)", " varchar" TEXTS, ANY_TEXT, 128, 0, false},
    {SCHEMA_CURSORS, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {SCHEMA_CURSORS, "epoch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_CURSORS, "batch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_CURSORS, "updated", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {SCHEMA_REJECTED, "batch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_REJECTED, "id", "varbinary(255)", " varbinary ", NO_TEXT, 255, 0, false},
    {SCHEMA_REJECTED, "error", "text", TEXTS, ANY_TEXT, 0, 0, false},
    {SCHEMA_REJECTED, "event", "mediumblob", " mediumblob longblob ", NO_TEXT, 0, 0, false},
    {SCHEMA_REJECTED, "at", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {SCHEMA_STREAMS, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {SCHEMA_STREAMS, "stream", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, true},
    {SCHEMA_STREAMS, "entry", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_STREAMS, "mark", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_RESYNCS, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {SCHEMA_RESYNCS, "run", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {SCHEMA_RESYNCS, "begun", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {SCHEMA_RESYNCS, "ended", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
};
enum { NEEDS = sizeof(needs) / sizeof(needs[0]) };

/* The keys that are created with a table. */
static const char *const keys[SCHEMA_TABLES] = {
    [SCHEMA_JOBS] = "PRIMARY KEY(id),KEY T_DELAY_QUEUE_JOB_STATUS(status)",
    [SCHEMA_LOGS] = "KEY T_DELAY_QUEUE_JOB_LOG_ID_STATUS(id,status)",
    [SCHEMA_CURSORS] = "PRIMARY KEY(store_id)",
    [SCHEMA_REJECTED] = "KEY laterd_journal_rejected_at(at)",
    [SCHEMA_STREAMS] = "PRIMARY KEY(store_id,stream)",
    [SCHEMA_RESYNCS] = "PRIMARY KEY(store_id)",
};

const char *schema_collation(bool mariadb)
{
    return mariadb ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin";
}

static void add_column(struct buf *out, const struct need *need, bool mariadb)
{
    buf_addf(out, "`%s` %s", need->name, need->type);
    if (need->text)
        buf_addf(out, " CHARACTER SET utf8mb4 COLLATE %s", schema_collation(mariadb));
    buf_add_str(out, need->primary || need->text == KEY_TEXT ? " NOT NULL" : " NULL");
}

void schema_create(struct buf *out, unsigned table, bool mariadb)
{
    CHECK(table < SCHEMA_TABLES);
    buf_addf(out, "CREATE TABLE IF NOT EXISTS %s(", tables[table]);
    for (unsigned i = 0; i < NEEDS; i++) {
        if (needs[i].table != table)
            continue;
        add_column(out, &needs[i], mariadb);
        buf_add_char(out, ',');
    }
    buf_addf(out, "%s) ENGINE=InnoDB", keys[table]);
}

static bool is_of(const struct schema_column *column, unsigned table)
{
    return bytes_eq_nocase(column->table, bytes_str(tables[table]));
}

bool schema_has(const struct schema_column *columns, size_t count, unsigned table)
{
    for (size_t i = 0; i < count; i++) {
        if (is_of(&columns[i], table))
            return true;
    }
    return false;
}

static const struct schema_column *find(const struct schema_column *columns, size_t count,
                                        const struct need *need)
{
    for (size_t i = 0; i < count; i++) {
        if (is_of(&columns[i], need->table) &&
            bytes_eq_nocase(columns[i].name, bytes_str(need->name)))
            return &columns[i];
    }
    return NULL;
}

static bool has_word(const char *words, struct bytes word)
{
    char text[32];
    int len = snprintf(text, sizeof(text), " %.*s ", (int)(word.len < 24 ? word.len : 24), word.at);
    return len > 2 && strstr(words, text);
}

static bool text_fits(const struct need *need, const struct schema_column *column)
{
    static const char *const binary[] = {"utf8mb4_nopad_bin", "utf8mb4_0900_bin"};
    bool bytes = bytes_eq(column->type, BYTES("varbinary"));
    bool exact = bytes;
    for (unsigned i = 0; i < 2; i++)
        exact = exact || bytes_eq(column->collation, bytes_str(binary[i]));
    if (need->text == NO_TEXT)
        return true;
    if (!bytes && !bytes_eq(column->charset, BYTES("utf8mb4")))
        return false;
    return need->text == ANY_TEXT || exact;
}

static bool fits(const struct need *need, const struct schema_column *column)
{
    return has_word(need->types, column->type) && column->characters >= need->characters &&
           column->fraction >= need->fraction && (!need->primary || column->primary) &&
           text_fits(need, column);
}

/* One change of a table: "ALTER TABLE t MODIFY …" or ", MODIFY …". */
static void add_change(struct buf *out, unsigned table, bool *begun)
{
    if (*begun)
        buf_add_str(out, ", ");
    else
        buf_addf(out, "ALTER TABLE %s ", tables[table]);
    *begun = true;
}

static void alter(struct buf *out, const struct schema_column *columns, size_t count,
                  unsigned table, bool mariadb)
{
    bool begun = false;
    for (unsigned i = 0; i < NEEDS; i++) {
        const struct schema_column *column = find(columns, count, &needs[i]);
        if (needs[i].table != table || (column && fits(&needs[i], column)))
            continue;
        add_change(out, table, &begun);
        buf_add_str(out, column ? "MODIFY " : "ADD ");
        add_column(out, &needs[i], mariadb);
        if (needs[i].primary && !(column && column->primary))
            buf_addf(out, ", ADD PRIMARY KEY(`%s`)", needs[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_of(&columns[i], table))
            continue;
        if (!bytes_eq_nocase(columns[i].engine, BYTES("InnoDB"))) {
            add_change(out, table, &begun);
            buf_add_str(out, "ENGINE=InnoDB");
        }
        break;
    }
    if (begun)
        buf_add_str(out, "; ");
}

void schema_alter(struct buf *out, const struct schema_column *columns, size_t count, bool mariadb)
{
    for (unsigned table = 0; table < SCHEMA_TABLES; table++) {
        if (schema_has(columns, count, table))
            alter(out, columns, count, table, mariadb);
    }
    if (out->len && out->at[out->len - 1] == ' ')
        out->len--;
}
