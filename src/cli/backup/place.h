/*
 * A place of backups: a directory that has a directory for each backup, named by its time, and
 * nothing else that matters:
 *
 *     LOCK                    held while a backup is being made
 *     20261123T150000Z/       a whole backup: MANIFEST, segments, and BACKUP, which lists them
 *     incomplete/             one that is being made, or was when something broke
 *
 * A backup gets its name by one rename, when its files and their list are on disk: a directory with
 * such a name is complete. An incomplete one is removed when the next backup begins. Files with
 * other names are ignored.
 */
#ifndef LATERD_CLI_BACKUP_PLACE_H
#define LATERD_CLI_BACKUP_PLACE_H

#include "cli/cli.h"

enum { PLACE_NAME_ROOM = 32 };

#define BACKUP_INDEX   "BACKUP"
#define BACKUP_STARTED "incomplete"

struct backup_place {
    struct cli *cli;
    const char *path;
    int fd;                         /* of the directory */
    int lock_fd;                    /* holds the lock */
    int started_fd;                 /* of the incomplete one; -1: none */
    char newest[PLACE_NAME_ROOM];   /* of the whole ones; empty: there is none */
    char finished[PLACE_NAME_ROOM]; /* the new backup's name, once it is complete */
};

/* All return exit codes; errors have been printed. */

/* Makes the directory if it is not there, locks it, and removes what was left incomplete. */
int backup_place_open(struct backup_place *place, struct cli *cli, const char *path);
void backup_place_close(struct backup_place *place); /* an incomplete one is removed */
/* Begins a backup: place->started_fd. */
int backup_place_start(struct backup_place *place);
/* A file of it; its bytes are synced. */
int backup_place_write(struct backup_place *place, const char *name, const void *data, size_t len);
/* All of it is there: syncs it and gives it the name of this time, in microseconds. */
int backup_place_finish(struct backup_place *place, int64_t at_us);
/* Removes the one that was finished. */
int backup_place_drop(struct backup_place *place);
/* Removes the oldest until `keep` are left; never the one that was finished. */
int backup_place_prune(struct backup_place *place, uint64_t keep);

/*
 * The newest backup in a place, or `path` itself if it is one: as a path, to be mem_free-ed.
 * ERR_NOT_FOUND: it is neither, and NULL is given. ERR_IO: the directory that is given may not be
 * looked into, errno says why, so it is not known which is the newest.
 */
enum err backup_place_find(const char *path, char **out_path);

/* The list of a backup's files, to be json_decref-ed; NULL: it has none that can be read. */
json_t *backup_index_load(const char *path);

#endif
