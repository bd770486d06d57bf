# The scripts are taken into this object as they are (.incbin), which no compiler's -MMD sees.
$(BUILD)/src/engine/redis/script_text.o: $(wildcard src/engine/redis/scripts/*.lua)
