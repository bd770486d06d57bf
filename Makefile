# laterd: GNU make, no configure step. `make help` lists what there is.

# Without the built-in rules, which make would try for each file that it reads: it would take four times as long.
MAKEFLAGS += --no-builtin-rules

VERSION  := 0.1.0
BUILD    ?= build
ifeq ($(origin CC),default)
CC       := gcc
endif
PREFIX   ?= /usr/local
DESTDIR  ?=
PYTHON   ?= /usr/bin/python3

WARN     := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wswitch-enum -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Werror
HARDEN   := -fstack-protector-strong -fstack-clash-protection -fcf-protection=full \
            -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fPIE
OPT      ?= -O2 -g
# To clear and copy structs GCC takes `rep stos` and `rep movs` on x86-64, which take longer to begin than
# a few vector instructions take for all of it. Empty where the compiler does not know these options.
STRUCTS  := -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign \
            -mmemcpy-strategy=vector_loop:512:noalign,libcall:-1:noalign
STRUCTS  := $(shell $(CC) $(STRUCTS) -fsyntax-only -x c /dev/null 2>/dev/null && echo "$(STRUCTS)")
SAN      ?=
# Else undefined behaviour is told, and the program goes on and ends with 0: its test has passed.
RECOVER  := $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)
# With the sanitizers' tables each test takes 0.23 s to link, else 0.06 to 0.15 s; gold, where it is there,
# takes a third of that, and about half.
GOLD     := $(shell command -v ld.gold >/dev/null && echo -fuse-ld=gold)
LLHTTP   := /usr/share/llhttp
override CPPFLAGS += -Isrc -I. -isystem /usr/share/include/llhttp -D_GNU_SOURCE \
            -DLATERD_VERSION='"$(VERSION)"'
# Each function in a section of its own, for mk/hot-path.ld: it says which ones the linker puts side by side in
# laterd. Not with a linker that does not take such a script (gold).
PARTS    := $(if $(SAN),,-ffunction-sections)
HOT_PATH  = $(if $(SAN),,$(shell echo 'int main(void) { return 0; }' | $(CC) $(LDFLAGS) -fPIE -x c - \
            -o /dev/null -Wl,-T,mk/hot-path.ld 2>/dev/null && echo -Wl,-T,mk/hot-path.ld))
override CFLAGS   += -std=c17 -pipe $(OPT) $(STRUCTS) $(PARTS) $(WARN) $(if $(SAN),-fsanitize=$(SAN) $(RECOVER) -fno-omit-frame-pointer,$(HARDEN))
override LDFLAGS  += $(if $(SAN),-fsanitize=$(SAN) $(GOLD),-pie -Wl,-z,relro,-z,now)
# laterd is compiled once more, by the linker, which sees all files at once (decision 143). `make LTO=` leaves this
# out, and an empty LTO of the environment, which reaches each make that a script or a test runs; so do sanitizers, and
# a compiler that is not GCC. Its objects hold code of the usual kind, too, which all others link: so they are compiled
# once.
ifneq ($(origin LTO)-$(LTO),environment-)
LTO      := $(if $(SAN),,$(shell $(CC) -flto=auto -flto-partition=balanced -fsyntax-only -x c /dev/null 2>/dev/null && \
            echo -flto=auto -flto-partition=balanced -ffat-lto-objects))
endif
override LDFLAGS  += $(if $(LTO),-fno-lto)
# REDIS=0 leaves out the Redis engine, and with it the need for hiredis.
REDIS    ?= 1
override CPPFLAGS += $(if $(filter 0,$(REDIS)),-DLATERD_NO_REDIS)
# TLS=0 leaves out TLS to Redis, and with it the need for OpenSSL.
TLS      ?= 1
override CPPFLAGS += $(if $(filter 0,$(TLS)),-DLATERD_NO_TLS)
LIBS     := -lxxhash -lpthread \
            $(if $(filter 0,$(REDIS)),,-lhiredis) $(if $(filter 0,$(TLS)),,-lssl -lcrypto)

# Plugins (mk/plugins.mk): AMQP=0, KAFKA=0, NATS=0, ZOOKEEPER=0, MYSQL=0 leave one out, and so does a missing
# library.
has       = $(shell $(CC) -include $(1) -fsyntax-only -x c /dev/null 2>/dev/null && echo 1)
AMQP     ?= $(call has,amqp.h)
LIBS_amqp := -lrabbitmq -lxxhash
KAFKA    ?= $(call has,librdkafka/rdkafka.h)
LIBS_kafka := -lrdkafka
NATS     ?= $(call has,nats/nats.h)
LIBS_nats := -lnats
JOURNAL  ?= $(call has,mariadb/mysql.h)
LIBS_journal-mysql := -lmariadb -lxxhash
ZOOKEEPER ?= $(call has,zookeeper/zookeeper.h)
LIBS_zookeeper := -lzookeeper_mt
MYSQL    ?= $(call has,mariadb/mysql.h)
LIBS_member-mysql := -lmariadb
ALL_PLUGINS := amqp kafka nats
# Those of src/member: [member] loads them.
ALL_MEMBER_PLUGINS := zookeeper member-mysql
MEMBER_PLUGINS := $(if $(filter 1,$(ZOOKEEPER)),zookeeper) $(if $(filter 1,$(MYSQL)),member-mysql)
PLUGINS  := $(if $(filter 1,$(AMQP)),amqp) \
            $(if $(filter 1,$(KAFKA)),kafka) $(if $(filter 1,$(NATS)),$(if $(wildcard src/sink/nats),nats))
JOURNALS := $(if $(filter 1,$(JOURNAL)),journal-mysql)
# Where an installed laterd looks for them, after its own folder.
LIBDIR   ?= $(PREFIX)/lib/laterd
override CPPFLAGS += -DLATERD_LIBDIR='"$(LIBDIR)"'
# What plugins call in laterd, and nothing else.
EXPORTS  := -Wl,--dynamic-list=tools/plugin-symbols.txt

# The objects of a folder and of the folders in it.
folder    = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard $(1)/*.c $(1)/*/*.c)))
BASE     := $(call folder,src/base)
CORE     := $(call folder,src/core)
PROTO    := $(call folder,src/proto) $(BUILD)/llhttp/api.o $(BUILD)/llhttp/http.o $(BUILD)/llhttp/llhttp.o
STORE    := $(call folder,src/store)
OS       := $(call folder,src/os)
# What is not loaded as a plugin: plugins are made of folders of their own.
SINK     := $(filter-out $(ALL_PLUGINS:%=$(BUILD)/src/sink/%/%),$(call folder,src/sink))
SINK     := $(filter-out $(if $(filter 0,$(REDIS)),$(BUILD)/src/sink/redis_sink.o),$(SINK))
# The same of src/member: its folders are plugins.
MEMBER   := $(filter-out $(BUILD)/src/member/zookeeper/% $(BUILD)/src/member/mysql/%,$(call folder,src/member))
MEMBER   := $(filter-out $(if $(filter 0,$(REDIS)),$(BUILD)/src/member/redis_member.o),$(MEMBER))
DISPATCH := $(call folder,src/dispatch)
SERVER   := $(DISPATCH) $(call folder,src/server) $(call folder,src/engine/embedded) $(call folder,src/engine/waiting) $(BUILD)/src/engine/resync_rows.o
REDIS_C  := $(if $(filter 0,$(REDIS)),,$(call folder,src/engine/redis) $(call folder,src/client/redis))
LATERD   := $(BUILD)/src/main.o $(call folder,src/laterd)
CLI      := $(call folder,src/cli)
# The simulated Redis runs the engine's scripts, so it needs Lua: only the tests in test/unit/sim have it.
SIM_REDIS := $(if $(filter 0,$(REDIS)),,$(call folder,sim/redis))
SIM      := $(filter-out $(BUILD)/sim/redis/%,$(call folder,sim))
ALL_LIB  := $(BASE) $(CORE) $(PROTO) $(STORE) $(OS) $(SINK) $(MEMBER) $(SERVER) $(REDIS_C)

UNIT     := $(patsubst test/unit/%.c,$(BUILD)/test/%,$(sort $(wildcard test/unit/*/*_test.c)))
UNIT     := $(filter-out $(if $(REDIS_C),,$(BUILD)/test/engine/redis_% $(BUILD)/test/client/redis_% $(BUILD)/test/laterd/redis_% $(BUILD)/test/sim/redis_% $(BUILD)/test/sink/redis_%),$(UNIT))
UNIT     := $(filter-out $(if $(JOURNALS),,$(BUILD)/test/journal/mysql_%),$(UNIT))
UNIT     := $(filter-out $(addsuffix %,$(addprefix $(BUILD)/test/sink/,$(filter-out $(PLUGINS),$(ALL_PLUGINS)))),$(UNIT))
BENCHES  := $(patsubst bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard bench/*.c)))

.PHONY: all
all: $(BUILD)/laterd $(BUILD)/later $(patsubst %,$(BUILD)/laterd-%.so,$(PLUGINS) $(JOURNALS) $(MEMBER_PLUGINS)) ## build laterd and later

# The linker compiles what most commands go through; not the Redis engine, pushes and brokers, nor a file whose symbols
# are in assembler text.
WHOLE    := $(BASE) $(CORE) $(filter-out %/openapi.o,$(PROTO)) $(STORE) $(OS) $(filter-out $(DISPATCH),$(SERVER)) $(LATERD)
WHOLE    := $(if $(LTO),$(WHOLE))
$(BUILD)/laterd: $(WHOLE) $(filter-out $(WHOLE),$(LATERD) $(ALL_LIB)) mk/hot-path.ld
	$(CC) $(filter-out -fno-lto,$(LDFLAGS)) $(if $(LTO),$(OPT) $(STRUCTS) $(PARTS) $(HARDEN) $(LTO)) $(HOT_PATH) $(EXPORTS) \
	    -o $@ $(filter %.o,$^) $(LIBS)

$(BUILD)/later: $(CLI) $(BASE) $(CORE) $(PROTO) $(STORE) $(OS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcurl -ljansson -lm

# Options for the tests' own code (mk/check.mk): -O1 takes half as long again to compile, -O2 longer still, and
# most tests run no sooner.
# HOT_TESTS do: much of their time is in their own models and worlds. Where TEST_OPT is given it is for them, too.
TEST_OPT  ?= -Og -g1
HOT_TESTS := $(if $(filter file,$(origin TEST_OPT)),sim/redis_life server/life store/crash store/slice store/slice_damage)
$(BUILD)/test/unit/%.o: override CFLAGS += $(if $(filter $(HOT_TESTS:%=%_test),$*),,$(TEST_OPT))

# The flags that all objects were built with: with others they are built again. Not LIBDIR, the last place where
# plugins are looked for: `make install PREFIX=/usr` behind `make` is to install what is there. Nor -g: script/test
# builds with less of it, and what script/server has built will do.
FLAGS     := $(BUILD)/flags
FLAGS_NOW := $(strip $(CC) $(filter-out -DLATERD_LIBDIR=% -g%,$(CPPFLAGS) $(CFLAGS) $(TEST_OPT) $(LDFLAGS) $(LTO)))
ifneq ($(strip $(file <$(FLAGS))),$(FLAGS_NOW))
.PHONY: flags-differ
$(FLAGS): flags-differ
endif
# There is always a rule: `make clean all` takes the file away after it was compared.
$(FLAGS): export FLAGS_TEXT := $(FLAGS_NOW)
$(FLAGS):
	@mkdir -p $(@D)
	@printf '%s\n' "$$FLAGS_TEXT" > $@

$(BUILD)/%.o: %.c Makefile $(FLAGS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(if $(filter $@,$(WHOLE)),$(LTO)) -MMD -MP -c -o $@ $<

# llhttp comes as C sources (Debian: node-llhttp); its code is not held to our warnings.
$(BUILD)/llhttp/%.o: $(LLHTTP)/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -std=c17 $(OPT) $(PARTS) $(if $(SAN),,-fPIE) $(LTO) -w -c -o $@ $<

# A test takes what it needs of the archive, which holds names of objects only. What a test has inside
# besides comes before it: then the archive's is not taken.
$(BUILD)/tested.a: $(SIM) $(ALL_LIB)
	@rm -f $@
	@ar rcsT $@ $^

$(BUILD)/test/%: $(BUILD)/test/unit/%.o $(BUILD)/tested.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(GOLD) -o $@ $(filter-out %.a,$^) $(filter %.a,$^) $(LIBS) -lcmocka -ljansson -lm

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(ALL_LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -ljansson -lm

.PHONY: unit
unit: $(UNIT) ## unit, model, contract and simulation tests in C

.PHONY: clean
clean: ## forget everything that was built
	rm -rf $(BUILD)

# What people want first; all others follow in the order in which they are read.
HELP_FIRST := all run test check install uninstall man clean help unit black clients lint lint-fast lint-deep \
              fmt fmt-check sanitize sim sim-life sim-redis crash soak crash-push fuzz fuzz-smoke mutate diff-beanstalkd \
              connections cover bench bench-full bench-instructions hot-path bench-against bench-timeline bench-beanstalkd bench-beanstalkd-exact bench-push \
              bench-push-fairness

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' -v first='$(HELP_FIRST)' ' \
	    function tell(name) { printf "%-24s%s\n", name, text[name]; delete text[name] } \
	    { text[$$1] = $$2; names[++count] = $$1 } \
	    END { n = split(first, head, " "); \
	          for (i = 1; i <= n; i++) if (head[i] in text) tell(head[i]); \
	          for (i = 1; i <= count; i++) if (names[i] in text) tell(names[i]) }'

include $(wildcard mk/*.mk)
# Not those of other builds below this one: to read them takes longer than all else that make does first.
-include $(shell find $(BUILD) -mindepth 1 \( -name asan -o -name cover -o -name mutants \) -prune -o -name '*.d' -print 2>/dev/null)
.SECONDARY:
