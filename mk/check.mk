# What a commit must pass: format, lint, tests, and the unit tests under sanitizers. Each check of
# a file leaves a stamp under $(BUILD)/lint, so only what changed is looked at again.

C_FILES   := $(sort $(foreach type,c h,$(wildcard src/*.$(type) src/*/*.$(type) src/*/*/*.$(type) \
               sim/*.$(type) sim/*/*.$(type) test/unit/*/*.$(type) bench/*.$(type) fuzz/*.$(type))))
OUR_C     := $(filter src/%.c sim/%.c,$(C_FILES))
OUR_H     := $(filter src/%.h sim/%.h,$(C_FILES))
STAMPS    := $(BUILD)/lint

# How far clang's analyzer follows the paths of one function, in nodes. Measured over all files: 346 of
# 10,950 blocks are not reached with its default of 225,000 (362 s of CPU), 349 with 75,000 (154 s), 388
# with 20,000 (56 s). Later, over each eighth file: 94 of 3,091 are not reached with 20,000 (13.2 s), 107 of 3,151
# with 8,000 (7.9 s), 134 of 3,274 with 5,000. `make lint-deep` goes as far as the default.
ANALYZER_NODES ?= 8000

TIDY_OK   := $(OUR_C:%=$(STAMPS)/tidy-$(ANALYZER_NODES)/%.ok)
CPP_OK    := $(OUR_C:%=$(STAMPS)/cppcheck/%.ok)
# Those without a .c file of their own, which would include its header first (tools/lint-includes).
HEADER_OK := $(patsubst %,$(STAMPS)/header/%.ok,$(filter-out $(OUR_C:.c=.h),$(OUR_H)))

# Documents and what operators read: checked for words only.
TEXTS     := $(wildcard *.md docs/*.md docs/decisions/*.md man/*.scd conf/* src/*/README.md src/*/*/README.md \
               src/engine/redis/scripts/*.lua test/*.md test/*/*.md test/black/*/*.py test/black/*.py \
               test/clients/*.py test/crash/*.py test/harness/*.py bench/*.py)

LINT_TOOLS := $(wildcard tools/lint-* tools/*.txt tools/csource.py)

.PHONY: check fmt fmt-check lint lint-deep lint-fast lint-mutants lint-purity lint-self sanitize

check: fmt-check lint test sanitize ## what a commit must pass: format, lint, tests, sanitizers

fmt: ## let clang-format decide
	clang-format -i $(C_FILES)

fmt-check: $(STAMPS)/format.ok ## is everything formatted?

lint: lint-fast $(TIDY_OK) $(CPP_OK) ## arrows, purity, lengths, banned words, headers, clang-tidy
	@echo "lint: clean"

lint-deep: ## lint with all the paths that clang's analyzer follows by default, about 4 minutes
	$(MAKE) ANALYZER_NODES=225000 lint

lint-fast: lint-self $(STAMPS)/format.ok $(STAMPS)/text.ok $(HEADER_OK) lint-purity lint-mutants ## lint without clang-tidy and cppcheck

# Every lint tool must find the violation planted for it; otherwise its silence means nothing.
lint-self: $(STAMPS)/self.ok
$(STAMPS)/self.ok: $(LINT_TOOLS) tools/confine tools/mutate tools/run-units $(wildcard test/lint/*)
	@mkdir -p $(@D)
	$(PYTHON) -m pytest -q -p no:cacheprovider test/lint
	@touch $@

lint-purity: $(BASE) $(CORE) $(PROTO)
	$(PYTHON) tools/lint-purity $(filter $(BUILD)/src/%,$^)

# A planted bug whose lines are not there any more proves nothing.
lint-mutants:
	@$(PYTHON) tools/mutate --fits

# One process for all files: to start it costs more than to read a file. The folders are named so that
# a file that was moved is read again: which headers it may include depends on where it is.
$(STAMPS)/text.ok: $(C_FILES) $(TEXTS) $(LINT_TOOLS) $(filter-out ./,$(sort $(dir $(C_FILES) $(TEXTS))))
	@mkdir -p $(@D)
	@$(PYTHON) tools/lint-includes $(C_FILES)
	@$(PYTHON) tools/lint-length $(C_FILES)
	@$(PYTHON) tools/lint-checks $(C_FILES)
	@$(PYTHON) tools/lint-banned $(C_FILES) $(TEXTS)
	@$(PYTHON) tools/lint-references $(C_FILES) $(filter %.md %.lua,$(TEXTS))
	@touch $@

# Only what has changed, but everything when the style has.
$(STAMPS)/format.ok: $(C_FILES) .clang-format
	@mkdir -p $(@D)
	@clang-format --dry-run -Werror $(if $(filter .clang-format,$?),$(C_FILES),$?) || \
	    { echo "not as clang-format has it (make fmt)"; false; }
	@touch $@

# A header must compile alone, twice, with both compilers: it brings what it needs. One that a .c file includes
# before anything else is compiled alone with that file, by the build and by clang-tidy.
$(STAMPS)/header/%.ok: %
	@mkdir -p $(@D)
	@printf '#include "%s"\n#include "%s"\n' $(<:src/%=%) $(<:src/%=%) > $(@:.ok=.c)
	@$(CC) $(CPPFLAGS) -std=c17 $(WARN) -MMD -MP -MT $@ -MF $(@:.ok=.d) -fsyntax-only $(@:.ok=.c)
	@clang $(CPPFLAGS) -std=c17 $(WARN) -fsyntax-only $(@:.ok=.c)
	@touch $@

# The object stands for the headers that a file includes: it is made again when one of them changes.
$(TIDY_OK): $(STAMPS)/tidy-$(ANALYZER_NODES)/%.c.ok: %.c $(BUILD)/%.o .clang-tidy
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(CPPFLAGS) -std=c17 $(WARN) -Xclang -analyzer-config \
	    -Xclang max-nodes=$(ANALYZER_NODES) 2>/dev/null
	@touch $@

$(CPP_OK): $(STAMPS)/cppcheck/%.c.ok: %.c $(BUILD)/%.o tools/cppcheck.txt
	@mkdir -p $(@D)
	@cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability \
	    --inline-suppr --suppressions-list=tools/cppcheck.txt --error-exitcode=1 \
	    -Isrc -I. -D_GNU_SOURCE -DLATERD_VERSION='"lint"' -D__BYTE_ORDER__=1 \
	    -D__ORDER_LITTLE_ENDIAN__=1 $<
	@touch $@

# The unit tests once more, under the sanitizers. A build of its own. Lives are slow there:
# fewer seeds, and of tests that go from point to point every 41st (test/unit/support/every.h). Of each
# allocation eight callers are kept: all of them are a quarter of the time of tests that allocate much. Freed memory
# is kept from use until 16 MiB more were freed (256 MiB by default): a third of the kernel's time less. The address of
# a local that outlives its function is found by the compiler and by clang-tidy; to find it while running takes a fifth
# of the time (SANITIZE_RETURNS=1).
# The program's code is built with -Og: -O1 takes a third longer to compile, and the tests run no sooner. Their
# own code is not optimized: that takes longer still to compile. Nor are its pointers checked for being null, not
# aligned or out of their object, which takes a third longer: of these the address sanitizer sees what reads or
# writes memory that is not there; what is not aligned is seen in the program's own code alone.
SANITIZE_RETURNS ?= 0
SANITIZE_SEEDS ?= 12
SANITIZE_EVERY ?= 41
sanitize: ## unit tests under the address and undefined-behaviour sanitizers
	ASAN_OPTIONS=detect_stack_use_after_return=$(SANITIZE_RETURNS):malloc_context_size=8:quarantine_size_mb=16 SIM_SEEDS=$(SANITIZE_SEEDS) DAY_SEEDS=1 \
	    SIM_EVERY=$(SANITIZE_EVERY) $(MAKE) BUILD=$(BUILD)/asan SAN=address,undefined OPT='-Og -g1' \
	    TEST_OPT='-O0 -Wno-format-truncation -fno-sanitize=null,alignment,object-size,pointer-overflow' unit-run
