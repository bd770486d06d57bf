# The client's own tests: unit tests are linked with all but src/cli, so they say what they need.

$(BUILD)/test/cli_histogram_test: $(BUILD)/src/cli/histogram.o
$(BUILD)/test/cli_text_test: $(BUILD)/src/cli/text.o
$(BUILD)/test/cli_load_test: $(BUILD)/src/cli/load.o $(BUILD)/src/cli/load_scan.o $(BUILD)/src/cli/client.o $(BUILD)/src/cli/histogram.o
$(BUILD)/test/cli_bench_test: $(BUILD)/src/cli/bench_request.o $(BUILD)/src/cli/bench_beanstalk.o
$(BUILD)/test/cli_top_test: $(patsubst %,$(BUILD)/src/cli/%.o,cli client cmd_stats limits screen show text top_view)
