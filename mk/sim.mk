# Simulated lives of a whole server: make sim SEEDS=2000, or make sim-life SEED=7 for one alone.

SEEDS     ?= 2000
SEED      ?=
SIM_SEEDS ?= $(SEEDS)

.PHONY: sim-life
sim: sim-life
sim-life: $(BUILD)/test/server/life_test ## whole lives from SEEDS seeds (2000), or from one SEED
	@SIM_SEEDS=$(SEEDS) SIM_SEED=$(SEED) $<
