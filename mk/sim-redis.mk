# The simulated Redis (sim/redis) and the tests that live on it: the scripts under Lua 5.1.

LUA_FLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags lua5.1 2>/dev/null))
LUA_LIBS  := $(shell pkg-config --libs lua5.1 2>/dev/null)
override CPPFLAGS += $(LUA_FLAGS)

SIM_REDIS_TESTS := $(filter $(BUILD)/test/sim/redis_%,$(UNIT))
$(SIM_REDIS_TESTS): $(SIM_REDIS)
$(SIM_REDIS_TESTS): LIBS += $(LUA_LIBS)
# Scripts are written and hashed once in a process (sim/redis/script_known.c).
$(SIM_REDIS_TESTS): override LDFLAGS += -Wl,--wrap=script_sha1,--wrap=script_write

# The whole engine on a simulated network: what it takes for random is sim/redis/network.c's.
WRAPPED_TESTS := $(patsubst %,$(BUILD)/test/sim/redis_%_test,bad_days clocks group heal holds leave life notice push resend start takeover)
$(WRAPPED_TESTS): override LDFLAGS += -Wl,--wrap=getrandom

.PHONY: sim-redis
sim: sim-redis
sim-redis: $(BUILD)/test/sim/redis_life_test ## lives of daemons on a simulated Redis from SEEDS seeds (2000), or from one SEED
	@SIM_SEEDS=$(SEEDS) SIM_SEED=$(SEED) $<
