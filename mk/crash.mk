# kill -9 where the queue lives in Redis; the embedded engine's is in mk/test.mk.

.PHONY: crash-redis crash-push crash-journal crash-member
CRASH_REDIS_ARGS ?= --daemons 100 --redis 20 --failovers 10 --cluster 20
crash-redis: all ## kill -9 of daemons, of Redis, of masters; a cluster rebuilt; then an oracle
	$(PYTHON) test/crash/crash_redis.py $(CRASH_REDIS_ARGS)

# PUSH_ROUNDS of laterd; the others have their own numbers. A part without its server: CRASH_PUSH_ARGS.
PUSH_ROUNDS     ?= 100
CRASH_PUSH_ARGS ?= --redis 5 --nats 20 --stream 20 --rabbit 20
crash-push: all ## kill -9 while laterd delivers, of it and of brokers, about 6 minutes; then an oracle
	$(PYTHON) test/crash/crash_push.py --laterd $(PUSH_ROUNDS) $(CRASH_PUSH_ARGS)

# JOURNAL_ROUNDS of each: of MySQL and of laterd.
JOURNAL_ROUNDS ?= 50
JOURNAL_ENGINE ?= embedded
crash-journal: all ## kill -9 of MySQL and of laterd under load, about 3 minutes (JOURNAL_ENGINE=redis: 20); then journal and queue compared
	$(PYTHON) test/crash/crash_journal.py --engine $(JOURNAL_ENGINE) --mysql $(JOURNAL_ROUNDS) --laterd $(JOURNAL_ROUNDS)

# MEMBER_ROUNDS with each: an election in ZooKeeper, on the embedded engine and on Redis.
MEMBER_ROUNDS ?= 100
crash-member: all ## kill -9, SIGSTOP and SIGTERM of who leads, ZooKeeper away, about 10 minutes; then an oracle
	$(PYTHON) test/crash/crash_member.py --service zookeeper --engine embedded --rounds $(MEMBER_ROUNDS)
	$(PYTHON) test/crash/crash_member.py --service zookeeper --engine redis --rounds $(MEMBER_ROUNDS)

# SOAK_MINUTES of load with a horizon, killed each minute; SOAK_ARGS: --rate, --horizon, --checkpoint.
.PHONY: soak
SOAK_MINUTES ?= 60
soak: all ## a long load with far jobs, killed every minute: nothing lost, memory and disk flat, turns short
	$(PYTHON) test/crash/soak.py --minutes $(SOAK_MINUTES) $(SOAK_ARGS)
