/* Tables that do not fit are named with what makes them fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/schema.h"

static struct schema_column column(const char *table, const char *name, const char *type,
                                   uint64_t characters, const char *collation)
{
    return (struct schema_column){
        .table = bytes_str(table),
        .name = bytes_str(name),
        .type = bytes_str(type),
        .characters = characters,
        .charset = bytes_str(collation[0] ? "utf8mb4" : ""),
        .collation = bytes_str(collation),
        .fraction = 3,
        .engine = BYTES("InnoDB"),
    };
}

/* The log table as it should be. */
static void make_log(struct schema_column columns[5], const char *collation)
{
    static const char table[] = "t_delay_queue_job_log";
    columns[0] = column(table, "id", "varchar", 255, collation);
    columns[1] = column(table, "status", "int", 0, "");
    columns[2] = column(table, "thread", "varchar", 60, collation);
    columns[3] = column(table, "update_time", "datetime", 0, "");
    columns[4] = column(table, "host", "varchar", 128, "utf8mb4_general_ci");
}

static void expect(const struct schema_column *columns, const char *text, bool mariadb)
{
    struct buf out = {0};
    schema_alter(&out, columns, 5, mariadb);
    buf_add_char(&out, '\0');
    assert_string_equal(out.at, text);
    buf_fini(&out);
}

static void test_what_fits_is_left_alone(void **state)
{
    struct schema_column columns[5];
    (void)state;
    make_log(columns, "utf8mb4_nopad_bin");
    expect(columns, "", true);
    make_log(columns, "utf8mb4_0900_bin");
    expect(columns, "", false);
    columns[0].type = BYTES("varbinary");
    columns[0].charset = columns[0].collation = BYTES("");
    expect(columns, "", false);
}

static void test_what_does_not_fit_is_altered(void **state)
{
    struct schema_column columns[5];
    (void)state;
    make_log(columns, "utf8mb4_general_ci"); /* 'A' would be 'a' */
    columns[3].fraction = 0;
    expect(columns,
           "ALTER TABLE t_delay_queue_job_log MODIFY `id` varchar(255) CHARACTER SET utf8mb4 "
           "COLLATE utf8mb4_nopad_bin NOT NULL, MODIFY `update_time` datetime(3) NULL;",
           true);
    make_log(columns, "utf8mb4_bin"); /* 'a' would be 'a ' */
    columns[4].engine = columns[0].engine = BYTES("MyISAM");
    expect(columns,
           "ALTER TABLE t_delay_queue_job_log MODIFY `id` varchar(255) CHARACTER SET utf8mb4 "
           "COLLATE utf8mb4_0900_bin NOT NULL, ENGINE=InnoDB;",
           false);
    make_log(columns, "utf8mb4_nopad_bin");
    columns[2].name = BYTES("other");
    columns[0].characters = 128;
    expect(columns,
           "ALTER TABLE t_delay_queue_job_log MODIFY `id` varchar(255) CHARACTER SET utf8mb4 "
           "COLLATE utf8mb4_nopad_bin NOT NULL, ADD `thread` varchar(60) CHARACTER SET utf8mb4 "
           "COLLATE utf8mb4_nopad_bin NULL;",
           true);
}

static void test_a_missing_table_is_made_whole(void **state)
{
    struct schema_column columns[5];
    struct buf out = {0};
    (void)state;
    make_log(columns, "utf8mb4_nopad_bin");
    assert_true(schema_has(columns, 5, 1));
    assert_false(schema_has(columns, 5, 0));
    schema_create(&out, 2, true);
    buf_add_char(&out, '\0');
    assert_string_equal(out.at,
                        "CREATE TABLE IF NOT EXISTS laterd_journal_cursor(`store_id` binary(16) "
                        "NOT NULL,`epoch` bigint unsigned NULL,`batch` bigint unsigned NULL,"
                        "`updated` datetime(3) NULL,PRIMARY KEY(store_id)) ENGINE=InnoDB");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_is_left_alone),
        cmocka_unit_test(test_what_does_not_fit_is_altered),
        cmocka_unit_test(test_a_missing_table_is_made_whole),
    };
    return cmocka_run_group_tests_name("journal/schema", tests, NULL, NULL);
}
