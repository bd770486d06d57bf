# kill -9 where the queue lives in Redis; the embedded engine's is in mk/test.mk.

.PHONY: crash-redis
CRASH_REDIS_ARGS ?= --daemons 100 --redis 20 --failovers 10 --cluster 20
crash-redis: all ## kill -9 of daemons, of Redis, of masters; a cluster rebuilt; then an oracle
	$(PYTHON) test/crash/crash_redis.py $(CRASH_REDIS_ARGS)
