# The scripts are taken into this object as they are (.incbin), which no compiler's -MMD sees.
$(BUILD)/src/engine/redis/script_text.o: $(wildcard src/engine/redis/scripts/*.lua)

.PHONY: slow-redis
slow-redis: ## each script's median is at most 2 ms of Redis, with SLOW_JOBS (1000000) jobs in a partition
	@LATERD_SLOW_JOBS=$(or $(SLOW_JOBS),1000000) $(PYTHON) -m pytest -q -s -p no:cacheprovider test/black/redis/test_redis_slow.py

$(BUILD)/test/laterd/redis_login_test: $(BUILD)/src/laterd/redis_login.o
