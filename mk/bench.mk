# Figures. Needs taskset; strace for the system calls.

.PHONY: bench bench-full
bench: $(BUILD)/laterd $(BUILD)/later $(BUILD)/bench/echo ## measure laterd beside an empty echo server, about 3 minutes
	$(PYTHON) bench/run.py --build $(BUILD)
bench-full: $(BUILD)/laterd $(BUILD)/later $(BUILD)/bench/echo ## the same with four times the jobs
	$(PYTHON) bench/run.py --build $(BUILD) --full
