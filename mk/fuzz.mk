# Every fuzz/fuzz_NAME.c, a libFuzzer target of its own with its seeds in fuzz/corpus/NAME, built by
# clang with all of the program under the sanitizers, in a build directory of its own. What is
# found on the way is kept beside it, in found/NAME; inputs that fail are left in crash-NAME-…

FUZZ_SECONDS ?= 20
FUZZ_BUILD   := $(BUILD)/fuzz
FUZZ_NAMES   := $(filter-out $(if $(REDIS_C),,redis_answer redis_topology),\
                $(patsubst fuzz/fuzz_%.c,%,$(sort $(wildcard fuzz/fuzz_*.c))))
FUZZ_FLAGS   := -std=c17 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined \
                -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FUZZ_OBJECTS := $(patsubst $(BUILD)/%,$(FUZZ_BUILD)/%,$(BASE) $(CORE) $(PROTO) $(STORE) $(SERVER) \
                $(REDIS_C) $(SIM))

.PHONY: fuzz fuzz-smoke
fuzz: $(FUZZ_NAMES:%=fuzz-run-%) ## each fuzzer for FUZZ_SECONDS (20)

fuzz-smoke: ## each fuzzer for two seconds
	$(MAKE) FUZZ_SECONDS=2 fuzz

.PHONY: $(FUZZ_NAMES:%=fuzz-run-%)
$(FUZZ_NAMES:%=fuzz-run-%): fuzz-run-%: $(FUZZ_BUILD)/fuzz_%
	@mkdir -p $(FUZZ_BUILD)/found/$* fuzz/corpus/$*
	$< -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
	    -print_final_stats=1 -verbosity=0 -artifact_prefix=$(FUZZ_BUILD)/crash-$*- \
	    $(FUZZ_BUILD)/found/$* fuzz/corpus/$*

$(FUZZ_BUILD)/fuzz_%: $(FUZZ_BUILD)/fuzz/fuzz_%.o $(FUZZ_OBJECTS)
	clang -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS) -ljansson -lm

$(FUZZ_BUILD)/llhttp/%.o: $(LLHTTP)/%.c
	@mkdir -p $(@D)
	clang $(CPPFLAGS) -DLLHTTP_STRICT_MODE=1 $(FUZZ_FLAGS) -w -c -o $@ $<

$(FUZZ_BUILD)/%.o: %.c
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<
