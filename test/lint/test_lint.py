"""Each lint tool finds the violation planted for it, and lets the innocent neighbour pass."""

import contextlib
import io
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import textwrap
from unittest import mock

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, "tools")


def lint(tool, *arguments):
    """(exit code, what it says). Not in a process of its own: that takes longer to start than the tool takes here."""
    path, said = os.path.join(TOOLS, tool), io.StringIO()
    with contextlib.redirect_stderr(said), mock.patch.object(sys, "argv", [path, *map(str, arguments)]), \
         mock.patch.object(sys, "path", [*sys.path]), pytest.raises(SystemExit) as end:
        runpy.run_path(path, run_name="__main__")
    return end.value.code or 0, said.getvalue()


def plant(path, source):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


@pytest.mark.parametrize("folder, include, may", [
    ("src/core", '"base/list.h"', True),
    ("src/core", '"core/job.h"', True),
    ("src/core", '"store/store.h"', False),
    ("src/core", "<time.h>", False),
    ("src/core", "<unistd.h>", False),
    ("src/proto", '"core/cmd.h"', True),
    ("src/proto", '"core/core.h"', False),
    ("src/store", '"core/event.h"', True),
    ("src/store", '"core/core.h"', False),
    ("src/store", '"os/disk.h"', False),
    ("src/server", '"os/net.h"', False),
    ("src/server", '"server/assemble.h"', False),
    ("src/laterd", '"server/assemble.h"', True),
    ("src/os", '"port/net.h"', True),
    ("src/cli", '"server/config/config.h"', False),
    ("sim", '"server/turn.h"', True),
    ("sim", '"os/net.h"', False),
])
def test_an_include_goes_only_where_an_arrow_leads(tmp_path, folder, include, may):
    plant(tmp_path / folder / "x.c", f"#include {include}\n")
    code, said = lint("lint-includes", "--root", tmp_path, f"{folder}/x.c")
    assert code == (0 if may else 1)
    assert may or f"{folder}/x.c:1:" in said and include in said


@pytest.mark.parametrize("name, text, says", [
    ("src/core/x.c", '/* x */\n#include "core/x.h"\n\n#include <string.h>\n', None),
    ("src/core/x.c", '\n#include <string.h>\n#include "core/x.h"\n', 'x.c:2: its first #include is not'),
    ("src/core/x.c", "int x;\n", 'its own header, "core/x.h"'),
    ("src/core/y.c", "#include <string.h>\n", None),
    ("sim/x.c", '#include "sim/x.h"\n', None),
    ("sim/x.c", '#include "sim/y.h"\n', "its own header"),
    ("test/unit/core/x.c", "#include <string.h>\n", None),
    ("src/core/y.h", "/* y */\n#ifndef Y_H\n#define Y_H\nint y;\n#endif /* Y_H */\n", None),
    ("src/core/y.h", "/* y */\nint y;\n", "y.h:1: not all of it is inside #ifndef"),
    ("src/core/y.h", "#ifndef Y_H\n#define Z_H\n#endif\n", "not all of it"),
    ("src/core/y.h", "#ifndef Y_H\n#define Y_H\n#endif\nint y;\n", "not all of it"),
])
def test_a_header_can_be_included_alone_and_twice(tmp_path, name, text, says):
    for folder in ("src/core", "sim", "test/unit/core"):
        plant(tmp_path / folder / "x.h", "")
    plant(tmp_path / name, text)
    code, said = lint("lint-includes", "--root", tmp_path, name)
    assert code == (1 if says else 0), said
    assert not says or says in said


@pytest.mark.parametrize("name, text, says", [
    ("x.c", "/* As loop.c does; see os/loop.h and src/os/loop.[ch]. */\n", None),
    ("x.c", "int f(void); /* as in\n * store/gone.c */\n", "x.c:2: there is no file store/gone.c"),
    ("x.c", "/* sim/loop.c */\n", "there is no file sim/loop.c"),
    ("x.c", "/* loop.[ch], x.[ch] */\n", "there is no file x.h"),
    ("x.c", "#include \"gone.h\"\nchar *s = \"gone.c\"; /* *.c, async.c (hiredis) */\n", None),
    ("x.lua", "local s = 'gone.lua' -- as in loop.c\n", None),
    ("x.lua", "local x\nlocal s = '--' -- see gone.lua\n", "x.lua:2: there is no file gone.lua"),
    ("x.md", "The loop: `os/loop.c`; never gone.c, `-x.c.old`.\n", None),
    ("x.md", "\nThe loop: `net.c`.\n", "x.md:2: there is no file net.c"),
])
def test_a_file_that_is_named_is_there(tmp_path, name, text, says):
    plant(tmp_path / "src/os/loop.c", "")
    plant(tmp_path / "src/os/loop.h", "")
    plant(tmp_path / name, text)
    code, said = lint("lint-references", "--root", tmp_path, name)
    assert code == (1 if says else 0), said
    assert not says or says in said


def function(lines=1, parameters="void", body="    (void)0;\n"):
    return f"static int f({parameters})\n{{\n" + body * lines + "    return 0;\n}\n"


@pytest.mark.parametrize("source, says", [
    (function(lines=66), None),
    (function(lines=67), "71 lines"),
    ("/* lint: long because a table of\n * cases reads better whole. */\n" + function(lines=99),
     None),
    (function(parameters="int a, int b, int c, int d, int e, int f"), None),
    (function(parameters="int a, int b, int c, int d, int e, int f, int g"), "7 parameters"),
    (function(parameters="int (*f)(int, int), int b, int c, int d, int e, int g"), None),
    (function(body="    if (1) { while (0) { for (;;) { if (2) { break; } } } }\n"), None),
    (function(body="    if (1) { while (0) { for (;;) { if (2) { do { } while (0); } } } }\n"),
     "5 nested blocks"),
    (function(body="    if (1)\n while (0)\n for (;;)\n if (2)\n if (3)\n break;\n"),
     "5 nested blocks"),
    (function(body="    struct x x = {.a = {1, {2, {3, {4, {5}}}}}};\n"), None),
    (function(body="    g((struct x){.a = 1}, \"{{{{{{\", '{');\n"), None),
    ("int x;\n" * 801, "801 lines"),
    ("/* lint: long because generated. */\n" + "int x;\n" * 801, None),
])
def test_what_is_too_long_is_named(tmp_path, source, says):
    code, said = lint("lint-length", plant(tmp_path / "x.c", source))
    assert code == (1 if says else 0), said
    assert not says or says in said


@pytest.mark.parametrize("folder, checks, enough", [
    ("src/store", 15, True),
    ("src/store", 14, False),
    ("src/store/log", 14, False),
    ("src/cli", 0, True),
])
def test_a_folder_with_few_checks_is_named(tmp_path, folder, checks, enough):
    text = "/* CHECK(no) */\n" + "    CHECK(x);\n" * checks + "\n" * (999 - checks)
    plant(tmp_path / folder / "x.c", text)
    code, said = lint("lint-checks", "--root", tmp_path, f"{folder}/x.c")
    assert code == (0 if enough else 1)
    assert enough or f"src/store: {checks} CHECKs in 1000 lines" in said


@pytest.mark.parametrize("line, banned", [
    ("strcpy(a, b);", "strcpy"),
    ("x = atoi (text);", "atoi"),
    ("gmtime(&t);", "gmtime"),
    ("gmtime_r(&t, &parts);", None),
    ("/* strcpy(a, b) */", None),
    ('puts("strcpy(a, b)");', None),
    ("int rand;", None),
])
def test_a_banned_call_is_named_with_what_to_do_instead(tmp_path, line, banned):
    code, said = lint("lint-banned", plant(tmp_path / "x.c", f"int x;\n{line}\n"))
    assert code == (1 if banned else 0)
    assert not banned or f"x.c:2: {banned}() is banned: " in said


@pytest.mark.parametrize("line, name", [
    ("slab_init(&x);", "slab_init"),
    ("enum err trouble = OK;", "trouble"),
    ("struct parser_ear ear2;", "parser_ear"),
    ("int doubted;", "doubted"),
    ("int gear, slabs_of_stone, early;", None),
    ("/* slab */", None),
])
def test_an_identifier_that_was_renamed_is_named_with_todays(tmp_path, line, name):
    code, said = lint("lint-banned", plant(tmp_path / "x.c", f"int x;\n{line}\n"))
    assert code == (1 if name else 0)
    assert not name or f"x.c:2: {name} was renamed: " in said


@pytest.mark.parametrize("line, name", [
    ("local slab_init = 1", "slab_init"),
    ("return trouble -- OK", "trouble"),
    ("local function journaled() end", "journaled"),
    ("-- slab", None),
    ("local gear, early = 'slab', \"doubt '\"", None),
])
def test_an_identifier_of_a_script_that_was_renamed_is_named_with_todays(tmp_path, line, name):
    code, said = lint("lint-banned", plant(tmp_path / "x.lua", f"local x\n{line}\n"))
    assert code == (1 if name else 0)
    assert not name or f"x.lua:2: {name} was renamed: " in said


@pytest.mark.parametrize("path, code, found", [
    ("src/server/http/x.c", "engine->verbs->submit(engine, cmd, ticket);", "verbs->submit"),
    ("src/server/x.c", "server->engine->verbs\n    ->cancel(server->engine, ticket);", "verbs"),
    ("src/server/x.c", "port->verbs->submit(port, cmd, NULL);", "verbs->submit"),
    ("src/server/door.c", "engine->verbs->submit(engine, cmd, ticket);", None),
    ("src/server/x.c", "server->worker->verbs->submit(server->worker, &work);", None),
    ("src/server/x.c", "engine->verbs->describe(engine, sink); /* verbs->submit */", None),
    ("src/store/x.c", "disk->verbs->submit(disk, &op);", None),
])
def test_only_the_door_submits_commands(tmp_path, path, code, found):
    plant(tmp_path / path, f"int x;\n{code}\n")
    code, said = lint("lint-banned", "--root", tmp_path, path)
    assert code == (1 if found else 0), said
    assert not found or (f"{path}:2: {found}" in said and "server_submit()" in said)


@pytest.mark.parametrize("path, text, line, words", [
    ("docs/x.md", "\nIt waits for\never.\n", 2, "for ever"),
    ("docs/x.md", "One\n\nSTART it Anew.\n", 3, "Anew"),
    ("src/core/x.c", "int x;\n/* It can\n * be had. */\n", 2, "can * be had"),
    ("src/core/x.c", "const char *x = \"lest\";\n", 1, "lest"),
    ("src/core/x.c", "int lest; /* the latest, forever */\n", 0, None),
    ("docs/x.md", "The slabstone, a renewal; forever.\n", 0, None),
    ("elsewhere/x.md", "It waits for ever.\n", 0, None),
])
def test_archaic_words_are_refused_where_texts_have_been_read(tmp_path, path, text, line, words):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    code, said = lint("lint-banned", "--root", tmp_path, path)
    assert code == (1 if words else 0)
    assert not words or f"{path}:{line}: '{words}' is not a plain word: " in said


@pytest.mark.parametrize("source, says", [
    ("int f(const char *s) { return (int)__builtin_strlen(s); }", None),
    ("const int table[] = {1, 2};", None),
    ("const char *const names[] = {\"a\", \"b\"};", None),
    ("long time(long *); long f(void) { return time(0); }", "may not use time"),
    ("void *malloc(unsigned long); void *f(void) { return malloc(7); }", "may not use malloc"),
    ("void log_event(int); void f(void) { log_event(1); }", "may not use log_event"),
    ("void mem_free(void *); void f(void *x) { mem_free(x); }", None),
    ("int f(void) { static int calls; return ++calls; }", "may not have the variable calls"),
    ("int setting = 3;", "may not have the variable setting"),
])
@pytest.mark.parametrize("options", [[], ["-flto", "-ffat-lto-objects"]])
def test_a_pure_object_that_reaches_out_is_named(tmp_path, options, source, says):
    objects = []
    for name, text in (("core/x", source), ("base/log", "void log_event(int x) { (void)x; }"),
                       ("base/mem", "void mem_free(void *x) { (void)x; }")):
        c_file = plant(tmp_path / f"{name}.c", text)
        objects.append(c_file.with_suffix(".o"))
        subprocess.run(["gcc", "-fPIE", "-fstack-protector-strong", *options, "-c", "-o", objects[-1],
                        c_file], check=True)
    code, said = lint("lint-purity", *objects)
    assert code == (1 if says else 0), said
    assert not says or says in said


@pytest.mark.parametrize("source, fits", [
    ("return OK;\n", True),
    ("return 0;\n", False),
    ("return OK;\nreturn OK;\n", False),
])
def test_a_planted_bug_whose_lines_are_not_there_once_is_named(tmp_path, source, fits):
    tool = plant(tmp_path / "tools/mutate", "")
    shutil.copy(os.path.join(ROOT, "tools/mutate"), tool)
    plant(tmp_path / "src/x.c", source)
    plant(tmp_path / "test/mutants/x.mutant",
          "What: it fails.\nSuite: true\nFile: src/x.c\n-return OK;\n+return 1;\n")
    code, said = lint(tool, "--fits")
    assert code == (0 if fits else 1), said
    assert fits or "x.mutant: src/x.c has its lines" in said


@pytest.mark.parametrize("suite, missing", [
    ("build/test/os/x_test && SEEDS=2 build/test/os/x_test", None),
    ("build/test/os/y_test", "test/unit/os/y_test.c"),
    ("pytest -q test/black/test_x.py", None),
    ("pytest -q test/black/test_y.py -k good", "test/black/test_y.py"),
    ("pytest -q test/black/test_x.py -k is_good", None),
    ('pytest -q test/black/test_x.py -k "it_is or better"', "a test with 'better' in test/black/test_x.py"),
    ("pytest -q test/black/test_x.py -k bad", "a test with 'bad' in test/black/test_x.py"),
])
def test_a_planted_bug_whose_test_is_not_there_is_named(tmp_path, suite, missing):
    tool = plant(tmp_path / "tools/mutate", "")
    shutil.copy(os.path.join(ROOT, "tools/mutate"), tool)
    plant(tmp_path / "src/x.c", "good\n")
    plant(tmp_path / "test/unit/os/x_test.c", "")
    plant(tmp_path / "test/black/test_x.py", "def test_it_is_good():\n    pass\n")
    plant(tmp_path / "test/mutants/x.mutant", f"What: it fails.\nSuite: {suite}\nFile: src/x.c\n-good\n+bad\n")
    code, said = lint(tool, "--fits")
    assert code == (1 if missing else 0), said
    assert not missing or f"x.mutant: its suite names {missing}, which is not there" in said


@pytest.mark.parametrize("suite, word, told, code", [
    ("grep good x.o || { cat x.o; exit 1; }", "killed", "1 of 1 killed, 0 not", 0),
    ("grep -q good src/x.c || { sleep 10 & exit 1; }", "killed", "1 of 1 killed, 0 not", 0),
    ("grep -q good src/x.c || sleep 100", "timed out", "0 of 1 killed, 0 not, 1 timed out", 0),
    ("true", "SURVIVED", "0 of 1 killed, 1 not", 1),
    ("false", None, "0 of 1 killed, 0 not, 1 void", 2),
    ("sleep 100", None, "0 of 1 killed, 0 not, 1 void", 2),
])
def test_a_planted_bug_that_a_check_found_is_told_from_a_suite_that_hung(tmp_path, suite, word, told, code):
    tool = plant(tmp_path / "tools/mutate", "")
    shutil.copy(os.path.join(ROOT, "tools/mutate"), tool)
    plant(tmp_path / "Makefile", "all: x.o\nx.o: src/x.c\n\tcp $< $@\n")
    plant(tmp_path / "src/x.c", "good\n")
    plant(tmp_path / "test/mutants/x.mutant", f"What: it fails.\nSuite: {suite}\nFile: src/x.c\n-good\n+bad\n")
    # The second run knows it from the first, but for a time-out; the third finds no object with the bug in it.
    for again, known in (([], False), ([], word != "timed out"), (["--again"], False)):
        done = subprocess.run([tool, "--jobs", "1", "--limit", "1", *again], capture_output=True, text=True,
                              check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].endswith(told)
        assert not word or (tmp_path / "build/mutants/outputs/x").read_text() == ("bad\n" if "cat" in suite else "")
        assert not word or re.match(rf"x +{word} .*{'known' if known else ' s '} +it fails", done.stdout)


CMOCKA = """#!/bin/sh
echo '[ RUN      ] good'; echo '[       OK ] good'
echo '[ RUN      ] bad'; echo '[  FAILED  ] bad'
echo '[  PASSED  ] 1 test(s).'; echo '[  FAILED  ] 1 test(s), listed below:'; echo '[  FAILED  ] bad'
exit 1
"""


@pytest.mark.parametrize("binary, says", [
    (CMOCKA, "bad"),
    ("#!/bin/sh\necho '[ RUN      ] slow'\nkill -9 $$\n", "ended with -9 in or after slow"),
    ("#!/bin/sh\necho '[  PASSED  ] 2 test(s).'\necho 'SUMMARY: AddressSanitizer: 9 byte(s) leaked'\nexit 1\n",
     "AddressSanitizer: 9 byte(s) leaked"),
])
def test_the_last_line_of_the_units_names_what_failed(tmp_path, binary, says):
    path = plant(tmp_path / "folder/x_test", "")
    path.write_text(binary, encoding="ascii")
    path.chmod(0o755)
    done = subprocess.run([os.path.join(ROOT, "tools/run-units"), path], capture_output=True, text=True, check=False)
    *_, named, last = done.stdout.splitlines()
    assert done.returncode == 1
    assert named == f"failed: folder/x_test: {says}"
    assert last.startswith("units: ") and last.endswith(f" 1 failed, 0 skipped (folder/x_test: {says})")


def test_a_group_is_kept_off_the_first_processor_and_let_back_to_it():
    every = os.sched_getaffinity(0)
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE,
                          start_new_session=True) as shell:
        try:
            sleeps = int(shell.stdout.readline())
            for words, allowed in (([], every - {min(every)} or every), (["--end"], every)):
                subprocess.run([os.path.join(TOOLS, "confine"), *words, str(shell.pid)], check=True)
                assert [os.sched_getaffinity(one) for one in (shell.pid, sleeps)] == [allowed] * 2
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
