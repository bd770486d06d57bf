# Figures. Need taskset; strace for the system calls, beanstalkd and valgrind for the comparison.

BENCH_PROGRAMS := $(BUILD)/laterd $(BUILD)/later $(BUILD)/bench/echo

.PHONY: bench bench-full bench-instructions hot-path bench-against bench-timeline bench-beanstalkd bench-beanstalkd-exact bench-redis
bench: $(BENCH_PROGRAMS) $(BUILD)/bench/crowd_bench ## measure laterd beside an empty echo server, about 3 minutes
	$(PYTHON) bench/run.py --build $(BUILD)
bench-full: $(BENCH_PROGRAMS) $(BUILD)/bench/crowd_bench ## the same with four times the jobs
	$(PYTHON) bench/run.py --build $(BUILD) --full
# AGAINST: the build folders of older commits, to compare with. BENCH_ARGS: --profile, --only …
AGAINST    ?=
BENCH_ARGS ?=
bench-instructions: $(BENCH_PROGRAMS) ## user instructions of put, cycle, cancel, beside those of AGAINST
	$(PYTHON) bench/instructions.py --build $(BUILD) $(AGAINST:%=--against %) $(BENCH_ARGS)
hot-path: $(BENCH_PROGRAMS) ## count which functions are to lie side by side in laterd: mk/hot-path.ld, about 3 minutes
	$(PYTHON) bench/hot_path.py --build $(BUILD) >$(BUILD)/hot-path.ld
	mv $(BUILD)/hot-path.ld mk/hot-path.ld
bench-against: $(BENCH_PROGRAMS) ## CPU of put, cycle, cancel and memory, beside those of AGAINST in one run, about 4 minutes
	@test -n "$(AGAINST)" || { echo 'bench-against: say AGAINST=BUILD, the build folder of an older commit' >&2; exit 2; }
	$(PYTHON) bench/against.py --build $(BUILD) --against $(firstword $(AGAINST)) $(BENCH_ARGS)
bench-timeline: $(BENCH_PROGRAMS) ## how cost grows with the jobs that wait, up to a million, about 10 minutes
	$(PYTHON) bench/timeline.py --build $(BUILD)
bench-beanstalkd: $(BENCH_PROGRAMS) ## laterd beside Debian's beanstalkd, with the bars, under 5 minutes
	$(PYTHON) bench/beanstalk.py --build $(BUILD)
bench-beanstalkd-exact: $(BENCH_PROGRAMS) ## system calls and user instructions per put of both
	$(PYTHON) bench/beanstalk.py --build $(BUILD) --only exact

# The bare queue in Redis is driven by the load engine of `later bench`.
$(BUILD)/bench/redis_floor: $(patsubst %,$(BUILD)/src/cli/%.o,bench/dial bench/histogram bench/load bench/cpu_usage)
bench-redis: $(BENCH_PROGRAMS) $(BUILD)/bench/redis_floor $(BUILD)/bench/redis_turns ## laterd on Redis beside a bare Lua queue, with the bars, under 5 minutes
	$(PYTHON) bench/redis.py --build $(BUILD)

.PHONY: bench-journal
bench-journal: all ## the journal in MySQL beside a bare loop of INSERTs, and what it costs the main thread, about 2 minutes (JOURNAL_ENGINE=redis: 5)
	$(PYTHON) bench/journal.py --build $(BUILD) --engine $(JOURNAL_ENGINE)
