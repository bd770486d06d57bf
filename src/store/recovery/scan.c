#include "store/recovery/scan.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

void scan_init(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
               size_t window_bytes)
{
    CHECK(window_bytes > 0 && window_bytes % BLOCK == 0);
    *scan = (struct scan){.disk = disk, .file = file, .size_bytes = size_bytes};
    uint64_t whole = (size_bytes + BLOCK - 1) / BLOCK * BLOCK;
    scan->cap = whole && whole < window_bytes ? (size_t)whole : window_bytes;
    scan->window = mem_aligned(BLOCK, scan->cap);
}

void scan_init_in(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
                  char *window, size_t window_bytes)
{
    CHECK(window && window_bytes > 0 && window_bytes % BLOCK == 0);
    *scan = (struct scan){.disk = disk,
                          .file = file,
                          .size_bytes = size_bytes,
                          .window = window,
                          .cap = window_bytes};
}

char *scan_take_window(struct scan *scan)
{
    char *window = scan->window;
    scan->window = NULL;
    return window;
}

void scan_fini(struct scan *scan)
{
    mem_free(scan->window);
    *scan = (struct scan){0};
}

void scan_renew_window(struct scan *scan, size_t window_bytes)
{
    scan->window = mem_aligned(BLOCK, window_bytes);
    scan->cap = window_bytes;
    scan_discard(scan);
}

/* Room for `len` bytes: the window is doubled so that growing costs little over a scan. */
static void grow(struct scan *scan, size_t len)
{
    size_t cap = scan->cap;
    while (cap < len)
        cap *= 2;
    mem_free(scan->window);
    scan->window = mem_aligned(BLOCK, cap);
    scan->cap = cap;
    scan_discard(scan);
}

void scan_read_ended(struct scan *scan, size_t len)
{
    CHECK(len <= scan->wanted && scan->wanted <= scan->cap);
    scan->len = len;
    scan->requested = scan->wanted;
}

void scan_discard(struct scan *scan)
{
    scan->len = scan->requested = 0;
}

static enum err read_window(struct scan *scan, size_t want, size_t *out_len)
{
    if (scan->read_window)
        return scan->read_window(scan, want, out_len);
    return scan->disk->verbs->read(scan->disk, scan->file, scan->start, scan->window, want,
                                   out_len);
}

enum err scan_bytes(struct scan *scan, uint64_t offset, size_t len, const char **out_at,
                    size_t *out_len)
{
    bool inside = offset >= scan->start && offset - scan->start <= scan->requested &&
                  scan->requested - (size_t)(offset - scan->start) >= len;
    if (!inside) {
        if (len > scan->cap)
            grow(scan, len);
        scan_discard(scan);
        scan->start = offset;
        scan->wanted = scan->narrow ? len : scan->cap;
        size_t got = 0;
        enum err err = read_window(scan, scan->wanted, &got);
        if (err)
            return err;
        scan_read_ended(scan, got);
    }
    size_t skipped = (size_t)(offset - scan->start);
    CHECK(skipped + len <= scan->cap);
    size_t have = scan->len > skipped ? scan->len - skipped : 0;
    *out_at = scan->window + skipped;
    *out_len = have < len ? have : len;
    return OK;
}

enum err scan_batch(struct scan *scan, uint64_t offset, enum format_verdict *out_verdict,
                    struct batch_head *out_head, const char **out_batch)
{
    struct batch_head head;
    const char *at;
    size_t len;
    enum err err = scan_bytes(scan, offset, BLOCK, &at, &len);
    if (err)
        return err;
    uint64_t room = len < BLOCK ? 0 : scan->size_bytes - offset;
    enum format_verdict verdict = batch_head_decode(at, room, &head);
    if (verdict == FORMAT_GOOD && (head.segment != scan->number || head.store_tag != scan->tag))
        verdict = FORMAT_BAD;
    if (verdict == FORMAT_GOOD) {
        size_t whole = batch_bytes(head.payload_bytes);
        CHECK(whole <= room);
        err = scan_bytes(scan, offset, whole, &at, &len);
        if (err)
            return err;
        if (len < whole || !batch_whole(&head, at, scan->key))
            verdict = FORMAT_BAD;
    }
    *out_verdict = verdict;
    if (verdict == FORMAT_GOOD) {
        *out_head = head;
        *out_batch = at;
    }
    return OK;
}
