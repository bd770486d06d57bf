# Plugins: a shared object for each broker whose client library is here. laterd loads one if its configuration
# names a broker of that type (src/laterd/brokers.c); src/laterd/plugin_file.h says from where. AMQP=0 leaves
# one out, as a missing header does.

# The objects of plugin NAME, which are of src/sink/NAME alone: what it shares with laterd it takes from laterd.
plugin_objects = $(patsubst %.c,$(BUILD)/plugin/%.o,$(sort $(wildcard src/sink/$(1)/*.c)))

$(BUILD)/plugin/%.o: %.c Makefile mk/plugins.mk $(FLAGS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(filter-out -fPIE,$(CFLAGS)) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

define PLUGIN_RULE
$(BUILD)/laterd-$(1).so: $$(call plugin_objects,$(1))
	$$(CC) $$(filter-out -pie,$$(LDFLAGS)) -shared -o $$@ $$^ $(LIBS_$(1))
endef
$(foreach plugin,$(ALL_PLUGINS),$(eval $(call PLUGIN_RULE,$(plugin))))

# What two plugins have of libmariadb.
CLIENT_MYSQL := $(patsubst %.c,$(BUILD)/plugin/%.o,$(sort $(wildcard src/client/mysql/*.c)))

# The journal's: what is pure of it is in src/journal, what has libmariadb in src/journal/mysql.
JOURNAL_PURE := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard src/journal/*.c)))
$(BUILD)/laterd-journal-mysql.so: $(patsubst %.c,$(BUILD)/plugin/%.o,$(sort $(wildcard src/journal/*.c src/journal/mysql/*.c))) $(CLIENT_MYSQL)
	$(CC) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ $(LIBS_journal-mysql)

# Those that elect, of src/member/NAME.
$(BUILD)/laterd-zookeeper.so: $(patsubst %.c,$(BUILD)/plugin/%.o,$(sort $(wildcard src/member/zookeeper/*.c)))
	$(CC) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ $(LIBS_zookeeper)
$(BUILD)/laterd-member-mysql.so: $(patsubst %.c,$(BUILD)/plugin/%.o,$(sort $(wildcard src/member/mysql/*.c))) $(CLIENT_MYSQL)
	$(CC) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ $(LIBS_member-mysql)

$(BUILD)/test/member/fence_test: $(BUILD)/src/laterd/fence.o
$(BUILD)/test/member/member_log_test: $(BUILD)/src/laterd/member_log.o

# For tests: takes part in an election without a queue.
$(BUILD)/member_drive: $(BUILD)/test/harness/member_drive.o $(BUILD)/src/laterd/election.o \
                       $(BUILD)/src/laterd/plugin_file.o $(BUILD)/src/laterd/complain.o $(ALL_LIB)
	$(CC) $(LDFLAGS) $(EXPORTS) -o $@ $^ $(LIBS)
$(if $(SAN),,unit) black: $(BUILD)/member_drive

# The unit test of a plugin has it inside.
$(BUILD)/test/sink/kafka_test: $(BUILD)/src/sink/kafka/kafka.o
$(BUILD)/test/sink/kafka_test: LIBS += $(LIBS_kafka)
$(BUILD)/test/sink/nats_test: $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/sink/nats/*.c))
$(BUILD)/test/sink/nats_test: LIBS += $(LIBS_nats)
$(BUILD)/test/sink/nats_names_test: $(BUILD)/src/sink/nats/names.o

$(BUILD)/test/sink/amqp_test: $(patsubst %,$(BUILD)/src/sink/amqp/%.o,channel delay link message)
$(BUILD)/test/sink/amqp_test: LIBS += $(LIBS_amqp)

$(filter $(BUILD)/test/journal/%,$(UNIT)): $(JOURNAL_PURE)
$(BUILD)/test/journal/mysql_link_test: $(patsubst %,$(BUILD)/src/%.o,journal/mysql/link journal/mysql/session client/mysql/interrupt)
$(BUILD)/test/journal/mysql_link_test: LIBS += $(LIBS_journal-mysql)

# For tests: drives a plugin's sink without a queue behind it.
$(BUILD)/sink_drive: $(BUILD)/test/harness/sink_drive.o $(ALL_LIB)
	$(CC) $(LDFLAGS) $(EXPORTS) -o $@ $^ $(LIBS)
$(if $(SAN),,unit) black: $(BUILD)/sink_drive

# Figures of the sinks beside bare publishers; rabbitmq-server and nats-server must be installed.
ifneq ($(and $(filter amqp,$(PLUGINS)),$(filter kafka,$(PLUGINS)),$(filter nats,$(PLUGINS))),)
$(BUILD)/bench/brokers_bench: override LDFLAGS += $(EXPORTS)
$(BUILD)/bench/brokers_bench: LIBS += $(LIBS_amqp) $(LIBS_kafka) $(LIBS_nats)
.PHONY: bench-brokers
bench-brokers: $(BUILD)/bench/brokers_bench $(ALL_PLUGINS:%=$(BUILD)/laterd-%.so) ## the sinks for RabbitMQ, Kafka and NATS beside bare publishers, about two minutes
	$(PYTHON) bench/brokers.py --build $(BUILD)
endif
