# The client's own tests: unit tests are linked with all but src/cli, so they say what they need.

$(BUILD)/test/cli/histogram_test: $(BUILD)/src/cli/bench/histogram.o
$(BUILD)/test/cli/salvage_target_test: $(BUILD)/src/cli/salvage_target.o
$(BUILD)/test/cli/text_test: $(BUILD)/src/cli/text.o
$(BUILD)/test/cli/argv_secret_test: $(BUILD)/src/cli/argv_secret.o
$(BUILD)/test/cli/pace_test: $(BUILD)/src/cli/pace.o
$(BUILD)/test/cli/raw_json_test: $(BUILD)/src/cli/raw_json.o
$(BUILD)/test/cli/load_test: $(BUILD)/src/cli/bench/load.o $(BUILD)/src/cli/bench/load_scan.o $(BUILD)/src/cli/bench/dial.o $(BUILD)/src/cli/bench/histogram.o
$(BUILD)/test/cli/bench_test: $(BUILD)/src/cli/bench/request.o $(BUILD)/src/cli/bench/bench_beanstalk.o
$(BUILD)/test/cli/top_test: $(patsubst %,$(BUILD)/src/cli/%.o,access answer argv_secret call cli client commands/stats limits raw_json screen show text top_view values)
$(BUILD)/test/cli/top_test: LIBS += -lcurl
