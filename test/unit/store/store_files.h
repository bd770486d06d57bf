/* The files of a model's disk, and the same files on another disk: damage is made in copies. */
#ifndef LATERD_TEST_STORE_FILES_H
#define LATERD_TEST_STORE_FILES_H

#include "store_model.h"

enum { FILES_MAX = 64 };

struct file_list {
    char names[FILES_MAX][DISK_NAME_MAX];
    size_t count;
};

static inline void file_list_add(void *ctx, const char *name)
{
    struct file_list *list = ctx;
    assert_true(list->count < FILES_MAX);
    memcpy(list->names[list->count++], name, strlen(name) + 1);
}

static inline void list_files(const struct model *model, struct file_list *out_list)
{
    struct disk *disk = model->options.disk;
    out_list->count = 0;
    assert_int_equal(disk->verbs->list(disk, file_list_add, out_list), OK);
}

static inline void copy_files(struct model *to, const struct model *from,
                              const struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(from->disk, list->names[i], &len);
        sim_disk_put(to->disk, list->names[i], at, len);
    }
}

/* Gives a model that has done nothing yet the same files, and all that the other one knows. */
static inline void copy_life(struct model *to, const struct model *from)
{
    struct file_list list;
    list_files(from, &list);
    copy_files(to, from, &list);
    to->body_bytes = from->body_bytes;
    to->delay_us = from->delay_us;
    to->now_us = from->now_us;
    to->acknowledged = from->acknowledged;
    to->seq_highest = from->seq_highest;
    to->seq_next = from->seq_next;
    to->lease_highest = from->lease_highest;
    to->journal = grown_copy(from->journal, from->entry_count, sizeof(*to->journal));
    to->entry_count = from->entry_count;
}

#endif
