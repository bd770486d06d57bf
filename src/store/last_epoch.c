/* The epoch of a store's latest opening, read without opening it. */
#include "store/recovery/directory.h"
#include "store/store.h"

enum err store_last_epoch(struct disk *disk, uint64_t *out_epoch)
{
    struct directory directory;
    struct store_error error = {.text = ""};
    enum err err = directory_read(disk, &directory, &error);
    if (err)
        return err;
    *out_epoch = directory.manifest_there ? directory.manifest.epoch : 0;
    directory_fini(&directory);
    return OK;
}
