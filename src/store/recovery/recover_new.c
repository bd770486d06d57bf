/*
 * What an opening creates if it is missing: a new store with its id, and the secret of reused
 * files.
 */
#include <sys/random.h>

#include "base/hash.h"
#include "store/recovery/recover_parts.h"

static enum err take_random(struct recovery *recovery, void *at, size_t len)
{
    if (getrandom(at, len, 0) == (ssize_t)len)
        return OK;
    store_error_set(recovery->error, MANIFEST_NAME, 0, "the system gives no random numbers");
    return ERR_IO;
}

enum err recover_new(struct recovery *recovery)
{
    struct store *store = recovery->store;
    struct manifest manifest = {
        .version = FORMAT_VERSION,
        .generation = 1,
        .boot = store->options.boot_first,
        .batch_first = 1,
        .seq_mark = 1,
        .number_next = 1,
    };
    uint64_t seed[2] = {store->options.id_seed, (uint64_t)store->now_us};
    if (!seed[0] && take_random(recovery, seed, sizeof(seed)))
        return ERR_IO;
    XXH128_hash_t id = XXH3_128bits(seed, sizeof(seed));
    memcpy(manifest.id.bytes, &id, sizeof(manifest.id.bytes));
    enum err err = manifest_create(store->disk, &manifest);
    if (err) {
        store_error_set(recovery->error, MANIFEST_NAME, 0,
                        err == ERR_DISK_FULL
                            ? "no room for a new store: free some on the file system"
                            : "the manifest of a new store cannot be written");
        return err;
    }
    recovery->directory.manifest = manifest;
    recovery->directory.manifest_there = true;
    return OK;
}

enum err recover_secret(struct recovery *recovery)
{
    const struct store *store = recovery->store;
    struct directory *directory = &recovery->directory;
    uint64_t *secret = &directory->manifest.secret;
    for (size_t i = 0; i < directory->used; i++)
        if (directory->found[i].head.key)
            directory->manifest.incompatible |= FEATURE_REUSE;
    if (*secret)
        return OK;
    if (!store->options.id_seed)
        return take_random(recovery, secret, sizeof(*secret));
    *secret = hash_seeded(store->id.bytes, sizeof(store->id.bytes), store->options.id_seed);
    return OK;
}
