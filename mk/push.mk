# What delivers jobs: sinks, their tests and their figures.

# They ask libcurl what it makes of a host, and of a date.
$(BUILD)/test/sink/address_rule_test $(BUILD)/test/sink/webhook_answer_test: LIBS += -lcurl

# Drives the webhook sink without a server, for test/black/push.
$(BUILD)/webhook_drive: $(BUILD)/test/harness/webhook_drive.o $(ALL_LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -ljansson
$(if $(SAN),,unit) black: $(BUILD)/webhook_drive

.PHONY: bench-push bench-push-fairness
$(BUILD)/bench/push_floor: LIBS += -lcurl
bench-push: $(BUILD)/laterd $(BUILD)/bench/push_floor $(BUILD)/bench/push_receiver ## webhooks beside a bare libcurl multi loop, with the bars, about 1 minute
	$(PYTHON) bench/push.py --build $(BUILD)
bench-push-fairness: $(BUILD)/laterd $(BUILD)/bench/push_receiver ## a fast receiver beside bad ones, 100,000 due at once, about 4 minutes
	$(PYTHON) bench/push_fairness.py --build $(BUILD)
