# The OpenAPI document is part of the program (src/proto/api/openapi.c), and llhttp is built strict.

$(BUILD)/src/proto/api/openapi.o: docs/openapi.json

$(BUILD)/llhttp/%.o: override CPPFLAGS += -DLLHTTP_STRICT_MODE=1
