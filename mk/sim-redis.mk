# The simulated Redis (sim/redis) and the tests that live on it: the scripts under Lua 5.1.

LUA_FLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags lua5.1 2>/dev/null))
LUA_LIBS  := $(shell pkg-config --libs lua5.1 2>/dev/null)
override CPPFLAGS += $(LUA_FLAGS)

SIM_REDIS_TESTS := $(filter $(BUILD)/test/sim/redis_%,$(UNIT))
$(SIM_REDIS_TESTS): $(filter-out $(BUILD)/sim/redis/sockets.o,$(SIM_REDIS))
$(SIM_REDIS_TESTS): LIBS += $(LUA_LIBS)

# The whole engine on simulated sockets: the system calls that it makes go to sim/redis/sockets.c.
WRAPPED := socket connect getsockopt setsockopt send recv close epoll_create1 epoll_ctl epoll_wait getrandom
WRAPPED_TESTS := $(BUILD)/test/sim/redis_life_test $(BUILD)/test/sim/redis_start_test
$(WRAPPED_TESTS): $(BUILD)/sim/redis/sockets.o
$(WRAPPED_TESTS): override LDFLAGS += $(WRAPPED:%=-Wl,--wrap=%)

.PHONY: sim-redis
sim: sim-redis
sim-redis: $(BUILD)/test/sim/redis_life_test ## lives of daemons on a simulated Redis from SEEDS seeds (2000), or from one SEED
	@SIM_SEEDS=$(SEEDS) SIM_SEED=$(SEED) $<
