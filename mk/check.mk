# What a commit must pass: format, lint, tests, and the unit tests under sanitizers. Each check of
# a file leaves a stamp under $(BUILD)/lint, so only what changed is looked at again.

C_FILES   := $(sort $(foreach type,c h,$(wildcard src/*.$(type) src/*/*.$(type) src/*/*/*.$(type) \
               sim/*.$(type) sim/*/*.$(type) test/unit/*/*.$(type) bench/*.$(type) fuzz/*.$(type))))
OUR_C     := $(filter src/%.c sim/%.c,$(C_FILES))
OUR_H     := $(filter src/%.h sim/%.h,$(C_FILES))
STAMPS    := $(BUILD)/lint

TIDY_OK   := $(OUR_C:%=$(STAMPS)/tidy/%.ok)
CPP_OK    := $(OUR_C:%=$(STAMPS)/cppcheck/%.ok)
HEADER_OK := $(OUR_H:%=$(STAMPS)/header/%.ok)
FORMAT_OK := $(C_FILES:%=$(STAMPS)/format/%.ok)
TEXT_OK   := $(C_FILES:%=$(STAMPS)/text/%.ok)

# Documents and what operators read: checked for words only.
TEXTS     := $(wildcard *.md docs/*.md docs/decisions/*.md man/*.scd conf/* src/*/README.md src/*/*/README.md \
               src/engine/redis/scripts/*.lua test/*.md test/*/*.md test/black/*/*.py test/black/*.py \
               test/clients/*.py test/crash/*.py test/harness/*.py bench/*.py)
WORDS_OK  := $(TEXTS:%=$(STAMPS)/words/%.ok)

LINT_TOOLS := $(wildcard tools/lint-* tools/*.txt tools/csource.py)

.PHONY: check fmt fmt-check lint lint-fast lint-purity lint-self sanitize

check: fmt-check lint test sanitize ## what a commit must pass: format, lint, tests, sanitizers

fmt: ## let clang-format decide
	clang-format -i $(C_FILES)

fmt-check: $(FORMAT_OK) ## is everything formatted?

lint: lint-fast $(TIDY_OK) $(CPP_OK) ## arrows, purity, lengths, banned words, headers, clang-tidy
	@echo "lint: clean"

lint-fast: lint-self $(FORMAT_OK) $(TEXT_OK) $(WORDS_OK) $(HEADER_OK) lint-purity ## lint without clang-tidy and cppcheck

# Every lint tool must find the violation planted for it; otherwise its silence means nothing.
lint-self: $(STAMPS)/self.ok
$(STAMPS)/self.ok: $(LINT_TOOLS) $(wildcard test/lint/*)
	@mkdir -p $(@D)
	$(PYTHON) -m pytest -q -p no:cacheprovider test/lint
	@touch $@

lint-purity: $(BASE) $(CORE) $(PROTO)
	$(PYTHON) tools/lint-purity $(filter $(BUILD)/src/%,$^)

$(STAMPS)/text/%.ok: % $(LINT_TOOLS)
	@mkdir -p $(@D)
	@$(PYTHON) tools/lint-includes $<
	@$(PYTHON) tools/lint-length $<
	@$(PYTHON) tools/lint-banned $<
	@touch $@

$(STAMPS)/words/%.ok: % $(LINT_TOOLS)
	@mkdir -p $(@D)
	@$(PYTHON) tools/lint-banned $<
	@touch $@

$(STAMPS)/format/%.ok: % .clang-format
	@mkdir -p $(@D)
	@clang-format --dry-run -Werror $< 2>/dev/null || \
	    { echo "$<: not as clang-format has it (make fmt)"; false; }
	@touch $@

# A header must compile alone, twice, with both compilers: it brings what it needs.
$(STAMPS)/header/%.ok: %
	@mkdir -p $(@D)
	@printf '#include "%s"\n#include "%s"\n' $(<:src/%=%) $(<:src/%=%) > $(@:.ok=.c)
	@$(CC) $(CPPFLAGS) -std=c17 $(WARN) -MMD -MP -MT $@ -MF $(@:.ok=.d) -fsyntax-only $(@:.ok=.c)
	@clang $(CPPFLAGS) -std=c17 $(WARN) -fsyntax-only $(@:.ok=.c)
	@touch $@

$(STAMPS)/tidy/%.ok: % .clang-tidy
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) -std=c17 -MM -MP -MT $@ -MF $(@:.ok=.d) $<
	@clang-tidy --quiet $< -- $(CPPFLAGS) -std=c17 $(WARN) 2>/dev/null
	@touch $@

$(STAMPS)/cppcheck/%.ok: % tools/cppcheck.txt
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) -std=c17 -MM -MP -MT $@ -MF $(@:.ok=.d) $<
	@cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability \
	    --inline-suppr --suppressions-list=tools/cppcheck.txt --error-exitcode=1 \
	    -Isrc -I. -D_GNU_SOURCE -DLATERD_VERSION='"lint"' -D__BYTE_ORDER__=1 \
	    -D__ORDER_LITTLE_ENDIAN__=1 $<
	@touch $@

# The unit tests once more, with everything the sanitizers see. A build of its own. Lives are slow there.
SANITIZE_SEEDS ?= 100
sanitize: ## unit tests under the address and undefined-behaviour sanitizers
	SIM_SEEDS=$(SANITIZE_SEEDS) $(MAKE) BUILD=$(BUILD)/asan SAN=address,undefined OPT='-O1 -g' unit-run
