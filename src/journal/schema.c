#include "journal/schema.h"

#include <stdio.h>

#include "base/check.h"

enum text_need { NO_TEXT, ANY_TEXT /* utf8mb4 */, KEY_TEXT /* and binary, NO PAD */ };

struct need {
    unsigned table;
    const char *name;
    const char *type;  /* in the statement that creates the table */
    const char *types; /* what may be there instead, between spaces */
    enum text_need text;
    uint64_t characters;
    uint64_t fraction;
    bool primary;
};

static const char *const tables[SCHEMA_TABLES] = {
    "t_delay_queue_job",       "t_delay_queue_job_log", "laterd_journal_cursor",
    "laterd_journal_rejected", "laterd_journal_stream", "laterd_journal_resync"};

#define NUMBERS " int bigint "
#define TEXTS   " text mediumtext longtext "

static const struct need needs[] = {
    {0, "id", "varchar(255)", " varchar varbinary ", KEY_TEXT, 255, 0, true},
    {0, "bizkey", "varchar(128)", " varchar" TEXTS, ANY_TEXT, 128, 0, false},
    {0, "topic", "varchar(200)", " varchar" TEXTS, ANY_TEXT, 200, 0, false},
    {0, "subtopic", "varchar(250)", " varchar" TEXTS, ANY_TEXT, 250, 0, false},
    {0, "delay", "bigint", " bigint ", NO_TEXT, 0, 0, false},
    {0, "create_time", "bigint", " bigint ", NO_TEXT, 0, 0, false},
    {0, "body", "mediumtext", " mediumtext longtext ", ANY_TEXT, 0, 0, false},
    {0, "status", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {0, "ttl", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {0, "update_time", "datetime(3)", " datetime timestamp ", NO_TEXT, 0, 3, false},
    {0, "extend_data", "text", TEXTS, ANY_TEXT, 0, 0, false},
    {1, "id", "varchar(255)", " varchar varbinary ", KEY_TEXT, 255, 0, false},
    {1, "status", "int", NUMBERS, NO_TEXT, 0, 0, false},
    {1, "thread", "varchar(60)", " varchar" TEXTS, ANY_TEXT, 60, 0, false},
    {1, "update_time", "datetime(3)", " datetime timestamp ", NO_TEXT, 0, 3, false},
    {1, "host", "varchar(128)", " varchar" TEXTS, ANY_TEXT, 128, 0, false},
    {2, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {2, "epoch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {2, "batch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {2, "updated", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {3, "batch", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {3, "id", "varbinary(255)", " varbinary ", NO_TEXT, 255, 0, false},
    {3, "error", "text", TEXTS, ANY_TEXT, 0, 0, false},
    {3, "event", "mediumblob", " mediumblob longblob ", NO_TEXT, 0, 0, false},
    {3, "at", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {4, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {4, "stream", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, true},
    {4, "entry", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {4, "mark", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {5, "store_id", "binary(16)", " binary varbinary ", NO_TEXT, 0, 0, true},
    {5, "run", "bigint unsigned", " bigint ", NO_TEXT, 0, 0, false},
    {5, "begun", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
    {5, "ended", "datetime(3)", " datetime ", NO_TEXT, 0, 3, false},
};
enum { NEEDS = sizeof(needs) / sizeof(needs[0]) };

/* The keys that are created with a table. */
static const char *const keys[SCHEMA_TABLES] = {
    "PRIMARY KEY(id),KEY T_DELAY_QUEUE_JOB_STATUS(status)",
    "KEY T_DELAY_QUEUE_JOB_LOG_ID_STATUS(id,status)",
    "PRIMARY KEY(store_id)",
    "KEY laterd_journal_rejected_at(at)",
    "PRIMARY KEY(store_id,stream)",
    "PRIMARY KEY(store_id)",
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
