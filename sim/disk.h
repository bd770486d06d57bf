/*
 * port/disk.h in memory, with the faults of a real disk: power cuts at any point, torn and lost
 * writes, failing calls, syncs that fail once and then wrongly succeed, rot, full disks.
 * Deterministic: the same calls and seeds give the same bytes.
 *
 * A file has three contents: what the page cache shows (reads), what the device has taken (fresh
 * reads), and what certainly survives a power cut (synced). Each unsynced write survives a cut, is
 * lost, or is torn at 512 bytes, at random. Names survive up to a random point of their history
 * since the directory was last synced.
 *
 * Every primitive (open, read, create, write, sync, rename, unlink, directory sync …) is a numbered
 * point where a fault or a cut can be planted.
 */
#ifndef LATERD_SIM_DISK_H
#define LATERD_SIM_DISK_H

#include "port/disk.h"

struct sim_disk;

struct sim_disk *sim_disk_new(void);
void sim_disk_free(struct sim_disk *disk); /* all its files must be closed */
struct disk *sim_disk_port(struct sim_disk *disk);

/*
 * Submitted operations are done only by sim_disk_step(), unless the disk is eager: then poll() does
 * all that are waiting. Either way `done` is called by poll().
 */
void sim_disk_eager(struct sim_disk *disk, bool eager);
bool sim_disk_step(struct sim_disk *disk, enum disk_lane lane); /* false: none was waiting */
unsigned sim_disk_waiting(const struct sim_disk *disk, enum disk_lane lane);

/* Primitives so far. */
uint64_t sim_disk_points(const struct sim_disk *disk);

/*
 * Cuts the power before primitive number `number` (see sim_disk_points()): from then on everything
 * fails and nothing changes, until sim_disk_power() decides what survived.
 */
void sim_disk_cut_at(struct sim_disk *disk, uint64_t number);
bool sim_disk_cut(const struct sim_disk *disk);
void sim_disk_power(struct sim_disk *disk, uint64_t seed);
/* The same for a killed process: everything in the cache survives, synced or not. */
void sim_disk_kill(struct sim_disk *disk);

/*
 * Primitive number `number` fails with `sys_errno`; UINT64_MAX: none. A failing sync loses the
 * unsynced writes of its file: the cache still shows them, and the next sync succeeds.
 */
void sim_disk_fail_at(struct sim_disk *disk, uint64_t number, int sys_errno);

/* `starved`: no descriptor is free, so no file can be opened or made. */
void sim_disk_starve(struct sim_disk *disk, bool starved);
unsigned sim_disk_files_open(const struct sim_disk *disk);

/* Bytes [start, end) of one file cannot be read: each read that touches them is ERR_IO. */
void sim_disk_bad(struct sim_disk *disk, const char *name, uint64_t start, uint64_t end);

/* `cold`: nothing is in memory, so reads must wait for the disk. */
void sim_disk_cold(struct sim_disk *disk, bool cold);
/* While the disk is cold, each synchronous read adds `read_us` to *now_us; NULL: it does not. */
void sim_disk_read_waits(struct sim_disk *disk, int64_t *now_us, int64_t read_us);
/* disk_verbs.is_direct of all files; at first false. Reads past the page cache so far that an
   operation asked for (disk_op::direct). */
void sim_disk_direct(struct sim_disk *disk, bool direct);
uint64_t sim_disk_direct_reads(const struct sim_disk *disk);
/* sim_disk_step() ends the operations of LANE_READ in a random order; 0: as they were submitted. */
void sim_disk_shuffle_reads(struct sim_disk *disk, uint64_t seed);

/* Room for all files together; 0: no limit. */
void sim_disk_capacity(struct sim_disk *disk, uint64_t bytes);
uint64_t sim_disk_used(const struct sim_disk *disk);
/* Bytes so far that will be read soon, as the disk was told. */
uint64_t sim_disk_fetched(const struct sim_disk *disk);
/* Reads so far of the file that has this name, for which the system may have read ahead: neither
   fresh ones nor those after disk_verbs.exact. */
uint64_t sim_disk_loose_reads(const struct sim_disk *disk, const char *name);
/* Bytes of zeros written so far: behind commits, and of files that were made without `reserve`. */
uint64_t sim_disk_zeros(const struct sim_disk *disk);

/* From now on operations report that they took this long. No time passes. */
void sim_disk_takes(struct sim_disk *disk, int64_t us);
/* Files that were removed while they were open: see DISK_REMOVE. */
uint64_t sim_disk_removed_open(const struct sim_disk *disk);

/* Rot and damage by hand. False: there is no such file, or bit. */
bool sim_disk_flip(struct sim_disk *disk, const char *name, uint64_t bit);
bool sim_disk_delete(struct sim_disk *disk, const char *name);
/* Bytes of a file as the device has them; NULL: no such file. */
const char *sim_disk_file(const struct sim_disk *disk, const char *name, uint64_t *out_bytes);
/* Puts a file there, durably. */
void sim_disk_put(struct sim_disk *disk, const char *name, const void *data, size_t len);

#endif
