/*
 * What is kept of an AMQP message with its job: any bytes are refused, or read whole; what is read
 * is kept again, and that reads as the same.
 */
#include <stdint.h>

#include "base/check.h"
#include "sink/amqp/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(amqp_bytes_t a, amqp_bytes_t b)
{
    return bytes_eq(bytes_of(a.bytes, a.len), bytes_of(b.bytes, b.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    amqp_pool_t pool;
    amqp_bytes_t exchange, key, exchange_again, key_again;
    amqp_basic_properties_t properties, again;
    struct buf kept = {0}, twice = {0};
    init_amqp_pool(&pool, 4096);
    if (rabbit_kept_read(bytes_of(data, size), &pool, &exchange, &key, &properties) &&
        rabbit_keep(bytes_of(exchange.bytes, exchange.len), bytes_of(key.bytes, key.len),
                    &properties, &kept)) {
        CHECK(rabbit_kept_read(buf_bytes(&kept), &pool, &exchange_again, &key_again, &again));
        CHECK(same(exchange, exchange_again) && same(key, key_again));
        CHECK(rabbit_keep(bytes_of(exchange.bytes, exchange.len), bytes_of(key.bytes, key.len),
                          &again, &twice));
        CHECK(bytes_eq(buf_bytes(&kept), buf_bytes(&twice)));
    }
    buf_fini(&kept);
    buf_fini(&twice);
    empty_amqp_pool(&pool);
    return 0;
}
