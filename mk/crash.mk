# kill -9 where the queue lives in Redis; the embedded engine's is in mk/test.mk.

.PHONY: crash-redis
CRASH_REDIS_ARGS ?= --daemons 100 --redis 20 --failovers 10
crash-redis: all ## kill -9 of daemons, of Redis and of a master with a replica, then an oracle
	$(PYTHON) test/crash/crash_redis.py $(CRASH_REDIS_ARGS)
