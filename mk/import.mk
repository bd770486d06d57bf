# `later` alone reads an older server's Redis, over hiredis, whether laterd has its Redis engine or not.

$(BUILD)/later: $(BUILD)/src/client/redis/url.o
$(BUILD)/later: LIBS += -lhiredis

$(BUILD)/test/cli/import_redis_test: $(BUILD)/src/cli/import/redis_layout.o
$(BUILD)/test/cli/import_ndjson_test: $(BUILD)/src/cli/import/ndjson_line.o
$(FUZZ_BUILD)/fuzz_import_ndjson: $(FUZZ_BUILD)/src/cli/import/ndjson_line.o
$(FUZZ_BUILD)/fuzz_import_redis: $(FUZZ_BUILD)/src/cli/import/redis_layout.o
