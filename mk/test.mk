# Tests in C, in Python, against the real process, and against kill -9.

.PHONY: test unit-run sim black crash mutate cover run

PYTEST := $(PYTHON) -m pytest -p no:cacheprovider

test: all unit-run black ## unit tests and black-box tests

# Every binary runs, but those of UNIT_SKIP (FOLDER/NAME_test), even after one has failed; the exit
# code says whether any did.
UNIT_SKIP ?=
unit-run: unit
	@$(PYTHON) tools/run-units $(filter-out $(UNIT_SKIP:%=$(BUILD)/test/%),$(UNIT))

# Simulated lives: what runs on the simulated clock, disk and network, with as many seeds as asked for.
SIM_SEEDS ?= 2000
SIM_TESTS := $(filter $(BUILD)/test/%/crash_test $(BUILD)/test/%/fault_test \
               $(BUILD)/test/%/model_test,$(UNIT))
sim: $(SIM_TESTS) ## simulated lives, SIM_SEEDS of them: crashes, faults, models
	@SIM_SEEDS=$(SIM_SEEDS) $(PYTHON) tools/run-units --seconds 3600 $(SIM_TESTS)

# Tests wait more than they work: several files at a time. What measures runs alone afterwards.
BLACK_WORKERS ?= 4
BLACK_ARGS    ?=
black: all ## the real process, over the wire, in Python
	$(PYTEST) -q -m "not serial and not deadline" -n $(BLACK_WORKERS) --dist loadgroup $(BLACK_ARGS) test/black
	$(PYTEST) -q -m deadline -n $(BLACK_WORKERS) --dist loadgroup $(BLACK_ARGS) test/black
	$(PYTEST) -q -m "serial and not deadline" $(BLACK_ARGS) test/black

CRASH_ROUNDS ?= 500
crash: all ## kill -9 at random moments, CRASH_ROUNDS times, then an oracle
	$(PYTHON) test/crash/crash.py --rounds $(CRASH_ROUNDS) $(CRASH_ARGS)

# MUTANTS: names or patterns, 'redis-*'. What is known of suites that have not changed is not tried again.
MUTANTS        ?=
MUTATE_SECONDS ?= 3600
mutate: ## plant each known bug (or MUTANTS) in a copy: the named suite must catch it
	$(PYTHON) tools/mutate --seconds $(MUTATE_SECONDS) $(MUTANTS)

run: all ## a server on 127.0.0.1:9277 with its data in ./data; RUN_ARGS are more options
	@mkdir -p data
	$(BUILD)/laterd --data-dir data $(RUN_ARGS)

COVER := $(BUILD)/cover
cover: ## line and branch coverage of the unit tests, as text and HTML
	$(MAKE) BUILD=$(COVER) OPT='-O0 -g --coverage' TEST_OPT= HARDEN= LDFLAGS=--coverage LTO= unit-run
	gcovr --root . --object-directory $(COVER) --exclude-throw-branches \
	    --exclude-unreachable-branches --filter src/base --filter src/core --filter src/proto \
	    --filter src/store --filter src/server --filter src/engine $(COVER) \
	    --html-details $(COVER)/index.html --txt --print-summary
