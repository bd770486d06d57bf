# The simulated Redis (sim/redis) and the tests that live on it: the scripts under Lua 5.1.

LUA_FLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags lua5.1 2>/dev/null))
LUA_LIBS  := $(shell pkg-config --libs lua5.1 2>/dev/null)
override CPPFLAGS += $(LUA_FLAGS)

SIM_REDIS_TESTS := $(filter $(BUILD)/test/sim/redis_%,$(UNIT))
$(SIM_REDIS_TESTS): $(SIM_REDIS)
$(SIM_REDIS_TESTS): LIBS += $(LUA_LIBS)
