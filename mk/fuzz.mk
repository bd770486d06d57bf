# Every fuzz/fuzz_NAME.c, a libFuzzer target of its own with its seeds in fuzz/corpus/NAME, built by
# clang with all of the program under the sanitizers, in a build directory of its own. What is
# found on the way is kept beside it, in found/NAME; inputs that fail are left in crash-NAME-…

FUZZ_SECONDS ?= 20
FUZZ_BUILD   := $(BUILD)/fuzz
FUZZ_NAMES   := $(filter-out $(if $(REDIS_C),,redis_answer redis_topology) $(if $(filter amqp,$(PLUGINS)),,amqp_kept),\
                $(patsubst fuzz/fuzz_%.c,%,$(sort $(wildcard fuzz/fuzz_*.c))))
FUZZ_FLAGS   := -std=c17 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -Werror=incompatible-pointer-types \
                -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# What fuzzers reach, and no more: all of the program takes twice the time to build. One that reaches further
# does not link, and its objects are named here.
FUZZ_REDIS   := $(patsubst %,$(BUILD)/src/engine/redis/%.o,fanout fanout_jobs fanout_topics notice_codec script script_encode script_read script_route script_text \
                server_info sha1) $(filter $(BUILD)/src/client/redis/%,$(REDIS_C))
FUZZ_OBJECTS := $(patsubst $(BUILD)/%,$(FUZZ_BUILD)/%,$(BASE) $(CORE) $(PROTO) $(STORE) \
                $(patsubst %,$(BUILD)/src/sink/%.o,address_rule broker_url fill headers reference) \
                $(patsubst %,$(BUILD)/src/member/%.o,member_url tenure zk_election) \
                $(patsubst %,$(BUILD)/sim/%.o,disk disk_faults disk_medium loop net) $(if $(REDIS_C),$(FUZZ_REDIS)))
$(FUZZ_BUILD)/fuzz_journal: $(patsubst %.c,$(FUZZ_BUILD)/%.o,$(sort $(wildcard src/journal/*.c)))

.PHONY: fuzz fuzz-smoke
fuzz: $(FUZZ_NAMES:%=fuzz-run-%) ## each fuzzer for FUZZ_SECONDS (20)

fuzz-smoke: ## each fuzzer through its corpus, then for a second
	$(MAKE) FUZZ_SECONDS=1 fuzz

.PHONY: $(FUZZ_NAMES:%=fuzz-run-%)
$(FUZZ_NAMES:%=fuzz-run-%): fuzz-run-%: $(FUZZ_BUILD)/fuzz_%
	@mkdir -p $(FUZZ_BUILD)/found/$* fuzz/corpus/$*
	$< -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
	    -print_final_stats=1 -verbosity=0 -artifact_prefix=$(FUZZ_BUILD)/crash-$*- \
	    $(FUZZ_BUILD)/found/$* fuzz/corpus/$*

# A fuzzer takes what it needs of the archive, which holds names of objects only.
$(FUZZ_BUILD)/fuzzed.a: $(FUZZ_OBJECTS)
	@rm -f $@
	@ar rcsT $@ $^

$(FUZZ_BUILD)/fuzz_%: $(FUZZ_BUILD)/fuzz/fuzz_%.o $(FUZZ_BUILD)/fuzzed.a
	clang $(GOLD) -fsanitize=fuzzer,address,undefined -o $@ $(filter-out %.a,$^) $(filter %.a,$^) $(LIBS) \
	    -ljansson -lm

$(FUZZ_BUILD)/llhttp/%.o: $(LLHTTP)/%.c $(FLAGS)
	@mkdir -p $(@D)
	clang $(CPPFLAGS) -DLLHTTP_STRICT_MODE=1 $(FUZZ_FLAGS) -w -c -o $@ $<

$(FUZZ_BUILD)/%.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<

# What is kept of messages of AMQP is the plugin's.
$(FUZZ_BUILD)/fuzz_amqp_kept: $(FUZZ_BUILD)/src/sink/amqp/message.o $(FUZZ_BUILD)/src/sink/headers.o
$(FUZZ_BUILD)/fuzz_amqp_kept: LIBS += $(LIBS_amqp)
