/*
 * The bytes of a backup: files that are linked where they can be, else copied, at a rate. For
 * directories on any file systems.
 */
#ifndef LATERD_CLI_BACKUP_COPY_H
#define LATERD_CLI_BACKUP_COPY_H

#include "cli/cli.h"
#include "store/backup.h"

enum { COPY_RATE = 100 << 20 /* bytes a second, the default */ };

struct copier {
    struct cli *cli;
    int from_fd;     /* of the store's directory */
    int previous_fd; /* of the last backup's; -1: there is none */
    int to_fd;       /* of the one that is being made */
    uint64_t rate;   /* bytes a second; 0: as fast as the disks are */
    bool no_links;   /* a hard link to the store was refused, or is not wanted */
    bool progress;   /* on standard error */
    uint64_t all_bytes, done_bytes;
    uint64_t linked_bytes, kept_bytes, copied_bytes; /* kept: of the last backup */
    int64_t start_us;
    struct buf room;
};

/* Copies or links a captured file. Exit codes; errors have been printed. */
int copier_take(struct copier *copier, struct disk *disk, const struct backup_file *file);
/* Of a file of a backup, `bytes` long, with its name synced to from_fd's copy in to_fd. */
int copier_restore(struct copier *copier, const char *name, uint64_t bytes);
void copier_end_progress(const struct copier *copier);
void copier_fini(struct copier *copier);

/* All of the bytes. False: errno says why. */
bool copy_write(int fd, const void *data, size_t len, uint64_t offset);

#endif
