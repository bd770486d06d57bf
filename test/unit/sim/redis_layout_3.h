/* Makes a partition what layout 3 had, while a daemon of it is there: a script. KEYS: its hash. */
#ifndef LATERD_TEST_REDIS_LAYOUT_3_H
#define LATERD_TEST_REDIS_LAYOUT_3_H

static const char GIVE_LAYOUT_3[] =
    "local h, tag = KEYS[1], string.sub(KEYS[1], 1, -2)\n"
    "redis.call('HSET', h, 's', redis.call('HGET', h, 'p'), 'v', '3', 'u', 'old-name',\n"
    "    'mold-name', 'y\\0\\0\\0\\0\\0\\0\\0\\0')\n"
    "redis.call('HDEL', h, 'p', 'l', 'd')\n"
    "redis.call('ZREM', tag .. 'o', 'd')\n"
    "local journal = redis.call('HGET', h, 'j')\n"
    "if journal then redis.call('HSET', h, 'j', string.sub(journal, 1, 33)) end\n"
    "for i = 0, 255 do\n"
    "    local to = tag .. 'b' .. i\n"
    "    redis.call('RENAME', tag .. 'j' .. i, to)\n"
    "    local all = redis.call('HSCAN', to, '0', 'COUNT', 10000)[2]\n"
    "    for n = 1, #all, 2 do\n"
    "        local name, record = all[n], all[n + 1]\n"
    "        if #name == 8 and math.floor(string.byte(record) / 32) % 2 == 1 then\n"
    "            local made = struct.unpack('>I8', name) + 1024 -\n"
    "                struct.unpack('<H', record, 19)\n"
    "            redis.call('HSET', to, name, string.char(string.byte(record) - 32) ..\n"
    "                string.sub(record, 2, 18) .. struct.pack('<I7', made) ..\n"
    "                string.sub(record, 21))\n"
    "        end\n"
    "    end\n"
    "end\n";

#endif
