"""What the documents say of the program is so: keys, metrics, options, manual pages."""

import glob
import json
import os
import re
import shutil
import socket
import subprocess

import pytest

from ports import free_port
from process import LATER, LATERD, ROOT
from wire import eventually

pytestmark = pytest.mark.embedded("the examples show the embedded engine")


def sources(folder, pattern):
    """Paths of all files below the folder that have such a name."""
    found = sorted(glob.glob(os.path.join(ROOT, folder, "**", pattern), recursive=True))
    assert found, f"no {pattern} in {folder}"
    return found


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def long_lines(path):
    """Those over 100 columns that could be broken: not of tables, nor of code."""
    text = re.sub(r"^ *```.*?^ *```", "", text_of(path), flags=re.M | re.S)
    return [line for line in text.splitlines() if len(line) > 100 and not line.startswith(("|", "    "))]


@pytest.mark.parametrize("path", ["README.md", *(f"docs/{name}" for name in sorted(os.listdir(os.path.join(ROOT, "docs")))
                                                 if name.endswith(".md") and "performance" not in name and "figures" not in name)])
def test_lines_of_documents_are_not_long(path):
    assert long_lines(path) == []


def files_below(*folder):
    """The paths of the C and Python files of a folder and of the folders in it."""
    return [os.path.join(place, name) for place, _, names in os.walk(os.path.join(ROOT, *folder))
            for name in names if name.endswith((".c", ".h", ".py"))]


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def keys_of(sample):
    """{(section, key): default} of a sample configuration, in which all keys are commented out."""
    section, keys = None, {}
    for line in sample.splitlines():
        if match := re.match(r";?\[([\w.]+)\]$", line):
            section = match.group(1)
        elif match := re.match(r";(\w+) =(?: (.*))?$", line):
            keys[section, match.group(1)] = match.group(2) or ""
    return keys


def documented_keys(document):
    """The same of the tables of docs/config.md."""
    section, keys = None, {}
    for line in document.splitlines():
        if line.startswith("## "):
            match = re.match(r"## \[([\w.]+)\]$", line)
            section = match and match.group(1)
        elif section and (match := re.match(r"\| ((?:`\w+`(?:, )?)+) \| (.*?) ?\|", line)):
            for key in re.findall(r"`(\w+)`", match.group(1)):
                keys[section, key] = match.group(2).strip().strip("`")
    return keys


def test_the_sample_configuration_is_the_one_that_is_installed():
    assert text_of("conf", "laterd.conf") == said_by(LATERD, "--print-config"), \
        "run: build/laterd --print-config > conf/laterd.conf"


def test_every_key_is_documented_with_its_default_and_every_documented_key_is():
    keys, documented = keys_of(said_by(LATERD, "--print-config")), documented_keys(text_of("docs", "config.md"))
    assert len(keys) > 20
    for key, default in documented.items():
        if default == "none: must be given":
            keys[key] = default  # the sample has an example
    assert keys == documented


def configurations_in(document):
    """The texts in it that are laterd's, or a part: all sections are, and the keys in them. Others are of
    systemd, stunnel, DRBD."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", document, re.M | re.S)
    indented = re.sub(r"^ *```.*?^ *```", "", document, flags=re.M | re.S)
    blocks += re.findall(r"(?:^ {4,}\S.*\n)+(?:\n(?: {4,}\S.*\n)+)*", indented, re.M)
    blocks = [re.sub(r"^ +", "", block, flags=re.M) for block in blocks]
    blocks = [part for block in blocks for part in re.findall(r"<<END\n(.*?)^END$", block, re.M | re.S) or [block]]
    ours = {section for section, _ in keys_of(said_by(LATERD, "--print-config"))} | {"broker", "amqp_in"}
    for block in blocks:
        sections = re.findall(r"^\[([^\]]*)\]$", block, re.M)
        if sections and {name.partition(".")[0] for name in sections} <= ours and "accept =" not in block:
            yield block


@pytest.mark.parametrize("path", [os.path.relpath(path, ROOT) for path in
                                  sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))])
def test_configurations_in_documents_are_good(path, tmp_path):
    """Copied as they are, without a warning. Recipes for Redis say in front which engine they are for."""
    for text in configurations_in(text_of(path)):
        file = tmp_path / "laterd.conf"
        begin = "[engine]\nengine = redis\n" if "[redis]" in text and "[engine]" not in text else ""
        file.write_text(begin + text, encoding="utf-8")
        done = subprocess.run([LATERD, "-c", file, "--check-config"], capture_output=True, text=True, check=False)
        lacks_file = "/etc/laterd/" in done.stderr and "No such file or directory" in done.stderr
        assert lacks_file or (done.returncode == 0 and done.stderr == ""), (text, done)


def test_documents_show_configurations():
    shown = [text for path in glob.glob(os.path.join(ROOT, "docs", "*.md")) for text in configurations_in(text_of(path))]
    assert len(shown) >= 10 and any("data_dir = try" in text for text in shown)


def test_every_metric_is_documented(client):
    document = text_of("docs", "metrics.md")
    families = re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.M)
    assert len(families) > 20
    missing = [name for name in families
               if name not in document and name.removeprefix("laterd_") not in document]
    assert not missing


def test_every_documented_metric_is_there():
    """Those of brokers, Redis, MySQL and an election are not shown by each server."""
    document = text_of("docs", "metrics.md")
    names = {name for cell in re.findall(r"^\| (`.*?) \|", document, re.M) for name in re.findall(r"`(\w+)(?:\{[^}]*\})?`", cell)}
    assert len(names) > 100
    source = "".join(text_of(path) for path in sources("src", "*.[ch]"))
    assert not names - set(re.findall(r'"(?:laterd_)?(\w+)"', source)) - set(re.findall(r"\blaterd_(\w+)", source))
    told = "".join(text_of(path) for path in documents() if not path.endswith("/metrics.md"))
    families = {name for name in re.findall(r"`laterd_(\w+?_(?:total|seconds|bytes|jobs|topics|segments|connected))\b", told)}
    assert len(families) > 15 and not families - names


def test_help_and_manual_of_laterd_know_unix_sockets():
    assert said_by(LATERD, "--help").count("unix:/path") == 3, "--http, --beanstalk and --sdmq"
    assert text_of("man", "laterd.8.scd").count("unix:/path") == 3


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_a_first_example_pushes_json_as_json_and_ends_with_a_live_view(name):
    pushes = re.findall(r"^\$ build/later push .*$", text_of(name), re.M)
    assert pushes and all(" -J '{" in push for push in pushes)
    assert re.search(r"^\$ build/later top ", text_of(name), re.M)


FILES = (".c", ".h", ".conf", ".lua", ".so", ".py", ".md", ".service", ".socket", ".log", ".dump", ".json")
OPTION = r"(?<![\w-])--[a-z][a-z-]+"


def options_of(told):
    """The long options that a help describes: in lines that begin with one."""
    return {option for line in re.findall(r"^ +(?:Also: )?-.*", told, re.M) for option in re.findall(OPTION, line)}


def commands_of_later():
    return re.findall(r"^  ([a-z-]+) +[A-Z]", said_by(LATER, "--help"), re.M)


def test_every_command_and_option_of_later_is_in_the_manual():
    paragraphs = text_of("man", "later.1.scd").split("\n\n")
    general = options_of(said_by(LATER, "--help")) | {"--help"}
    for option in general:
        assert any(re.match(rf"\*.*{option}\b", paragraph) for paragraph in paragraphs), option
    for command in commands_of_later():
        mine = [paragraph for paragraph in paragraphs if f"*{command}*" in paragraph.split("\n")[0]]
        assert mine, command
        options = options_of(said_by(LATER, command, "--help")) - general
        if command == "push":
            options.add("--key")  # of a job; the general one is of TLS
        if command == "bench":
            continue  # the manual points to its help
        missing = [option for option in options if not any(option in paragraph for paragraph in mine)]
        assert not missing, f"{command}: {missing}"


def test_the_manual_of_later_has_no_option_that_is_not_there():
    told = "".join(said_by(LATER, *command, "--help") for command in [(), *([name] for name in commands_of_later())])
    assert set(re.findall(OPTION, text_of("man", "later.1.scd"))) <= set(re.findall(OPTION, told))


def code_of(document):
    """What stands in code: spans, blocks, and indented lines, each on one line."""
    document = re.sub(r"\\\n\s*", " ", document)
    blocks = re.findall(r"^```\w*\n(.*?)^```", document, re.M | re.S)
    spans = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", document, flags=re.M | re.S))
    lines = [line for text in blocks for line in text.splitlines()]
    return [" ".join(text.split()) for text in spans + lines + re.findall(r"^(?:    |\t).*", document, re.M)]


def documents():
    return [path for path in sources("docs", "*.md") if "/decisions/" not in path] + \
        [os.path.join(ROOT, name) for name in ("README.md", "README.zh.md", "man/later.1.scd", "man/laterd.8.scd")]


def test_documents_call_later_with_commands_and_options_that_it_has():
    letters = r"(?<![\w-])-[A-Za-z]\b"
    general = said_by(LATER, "--help")
    known = {command: set(re.findall(rf"{OPTION}|{letters}", general + said_by(LATER, command, "--help")))
             for command in commands_of_later()}
    calls = [(path, *call) for path in documents() for code in code_of(text_of(path))
             for call in re.findall(r"(?:^|[\s|/;(])later (?:-[sjt] \S+ |--[a-z-]+ \S+ )*([a-z][a-z-]+)((?: [^|;&]*)?)", code)]
    assert len(calls) > 100
    for path, command, words in calls:
        assert command in known, (path, command, words)
        words = re.sub(r"'[^']*'|\"[^\"]*\"", "", words)
        assert set(re.findall(rf"{OPTION}|{letters}", words)) <= known[command], (path, command, words)


def test_keys_that_documents_name_are_there_with_the_default_that_they_give():
    """Written as `section.key`, perhaps with the default behind it in brackets."""
    keys = {".".join(name): value for name, value in keys_of(said_by(LATERD, "--print-config")).items()}
    theirs = {"server.port", "redis.db"}  # of the programs that people come from
    section = "|".join({name.partition(".")[0] for name in keys if name[0] != "b"} | {"beanstalk"})
    named = [(path, *key) for path in documents() for key in re.findall(
        rf"`((?:{section})\.[a-z_]+)`(?: \((?:default )?(\d[\d,]* ?(?:[a-zA-Z]+)?)\))?", text_of(path))]
    assert len(named) > 150
    for path, key, default in named:
        if key in theirs or key.endswith(FILES):
            continue
        assert key in keys, (path, key)
        short = re.sub(r"(\d+) ?([a-zA-Z]).*", r"\1\2", default.replace(",", ""))
        assert short in ("", re.sub(r"(\d+)([a-zA-Z]).*", r"\1\2", keys[key])), (path, key, default)


def test_options_of_laterd_are_the_same_in_help_manual_and_table():
    manual = text_of("man", "laterd.8.scd")
    begin, end = manual.index("# REPLACING BEANSTALKD"), manual.index("# SIGNALS")
    own = {option for line in re.findall(r"^\*-.*", manual[:begin], re.M) for option in re.findall(OPTION, line)}
    assert own == options_of(said_by(LATERD, "--help"))
    letters = set(re.findall(r"^ (-\w)|, (-\w) ", said_by(LATERD, "--beanstalkd", "-h"), re.M))
    letters = {letter for pair in letters for letter in pair if letter}
    assert len(letters) > 10
    table = text_of("docs", "config.md").split("## beanstalkd's command line")[1]
    for letter in letters:
        assert f"*{letter}*" in manual[begin:end], letter
        assert letter in ("-v", "-h") or re.search(rf"`{letter}\b", table), letter


@pytest.mark.skipif(not shutil.which("scdoc"), reason="no scdoc")
def test_the_manual_pages_are_well_formed():
    for name in os.listdir(os.path.join(ROOT, "man")):
        done = subprocess.run(["scdoc"], input=text_of("man", name), capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_make_help_lists_every_target_meant_for_people():
    told = said_by("make", "-s", "-C", ROOT, "help")
    for target in ("all", "run", "test", "check", "lint", "fmt", "sim", "crash", "fuzz", "bench",
                   "cover", "install", "mutate", "sanitize", "clean"):
        assert re.search(rf"^{target}\s", told, re.M), f"make help does not know {target}"


def test_every_target_that_make_help_lists_can_be_made():
    targets = re.findall(r"^([a-z-]+) ", said_by("make", "-s", "-C", ROOT, "help"), re.M)
    assert len(targets) > 25
    subprocess.run(["make", "-n", "-C", ROOT, *targets], check=True, capture_output=True,
                   timeout=120)


def test_every_command_of_later_has_an_example_in_its_help():
    commands = re.findall(r"^  ([a-z-]+) +[A-Z]", said_by(LATER, "--help"), re.M)
    assert len(commands) > 20
    for command in commands:
        told = said_by(LATER, command, "--help")
        assert re.search(rf"Examples?:\n  .*later {command}\b", told), command


@pytest.mark.parametrize("name", ["bootstrap", "test"])
def test_a_script_that_is_asked_for_help_does_nothing_else(name):
    """script/test would run for a quarter of an hour; script/server builds, and its help is laterd's."""
    told = said_by(os.path.join(ROOT, "script", name), "--help")
    assert 2 <= len(told.splitlines()) <= 5 and "#" not in told


def test_lines_of_the_help_fit_a_window():
    for command in [(), *([name] for name in commands_of_later())]:
        long = [line for line in said_by(LATER, *command, "--help").splitlines() if len(line) > 95]
        assert not long, (command, long)


def test_later_names_every_command_in_its_help():
    told = said_by(LATER, "--help")
    for command in ("push", "pop", "get", "rm", "finish", "release", "touch", "bury", "kick", "run",
                    "reschedule", "topics", "list", "clear", "delete-topic", "pause", "resume",
                    "stats", "verify", "salvage", "bench", "top"):
        assert re.search(rf"\b{command}\b", told), command


def anchors_of(path):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere():
    folders = [ROOT, os.path.join(ROOT, "docs"), os.path.join(ROOT, "docs", "decisions")]
    for folder in folders:
        for name in os.listdir(folder):
            if not name.endswith(".md"):
                continue
            for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text_of(folder, name)):
                if "://" in link or link.startswith("mailto:"):
                    continue
                path = os.path.join(folder, link or name)
                assert os.path.exists(path), f"{name} links to {link}"
                if anchor and path.endswith(".md"):
                    assert anchor in anchors_of(path), f"{name} links to {link}#{anchor}"


# The examples of docs/http-api.md: "$ command # status", then the reply, in any layout.

EXAMPLE = re.compile(r"^\$ (?P<command>.*?)\s+# (?P<status>\d{3})\n(?P<reply>(?:[^$].*\n)*)", re.M)


def examples_of(document):
    for block in re.findall(r"^```console\n(.*?)^```", document, re.M | re.S):
        found = list(EXAMPLE.finditer(block))
        assert sum(len(match.group(0)) for match in found) == len(block), \
            f"not all of this is an example with a status:\n{block}"
        yield from (match.group("command", "status", "reply") for match in found)


def without_the_hour(text):
    """What differs between runs is replaced: times, and cursors, which hold one."""
    text = re.sub(r'"\d{4}-\d\d-\d\dT[^"]*Z"', '"TIME"', text)
    text = re.sub(r'_ms":\d{13}\b', '_ms":"MS"', text)
    text = re.sub(r'"rates":\{[^}]*\}', '"rates":"OF TEN SECONDS"', text)
    return re.sub(r'"cursor":"[\w-]{48}"', '"cursor":"CURSOR"', text)


def comparable(text):
    text = without_the_hour(text)
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_the_examples_of_the_http_api_are_what_happens(laterd):
    server = laterd(listeners=("127.0.0.1:0", "127.0.0.1:0,delayqueue-java"))
    examples = list(examples_of(text_of("docs", "http-api.md")))
    assert len(examples) > 30
    for command, status, reply in examples:
        real = command.replace("127.0.0.1:9277", f"127.0.0.1:{server.ports[0]}")
        real = real.replace("127.0.0.1:8080", f"127.0.0.1:{server.ports[1]}")
        real = re.sub(r"\bcurl ", "curl -s -m 30 -w '\\n%{http_code}' ", real, count=1)
        body, _, got = said_by("bash", "-c", real).rpartition("\n")
        assert got == status, f"{command}\n{body}"
        assert comparable(body) == comparable(reply), f"{command}\n{body}"


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_the_examples_of_the_sdmq_page_are_what_happens(laterd):
    """But for the delay, the server's address and number in the id, and when it was."""
    server = laterd(sdmq=("127.0.0.1:0",))
    block, = re.findall(r"^```console\n(.*?)^```", text_of("docs", "sdmq.md"), re.M | re.S)
    steps = re.findall(r"^\$ (.*?)(?: +# .*)?\n((?:[^$].*\n)*)", block, re.M)
    shown_id = re.search(r'"data":"(close:17:[^"]+)"', block).group(1)
    assert len(steps) == 3
    job_id = shown_id
    for command, reply in steps:
        real = command.replace("1800000", "900").replace("127.0.0.1:6355", f"127.0.0.1:{server.ports_of('sdmq')[0]}")
        told = json.loads(said_by("bash", "-c", real.replace(shown_id, job_id).replace("curl ", "curl -s -S -m 30 ", 1)))
        wanted = json.loads(reply.replace("1800000", "900"))
        if isinstance(told["data"], str):
            job_id = told["data"]
            assert re.fullmatch(r"close:17:[\d.]+:\d{19}", job_id) and re.fullmatch(r"close:17:[\d.]+:\d{19}", shown_id)
        if isinstance(told["data"], dict):
            told["data"]["createTime"] = wanted["data"]["createTime"]
        assert told == json.loads(json.dumps(wanted).replace(shown_id, job_id)), command


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_first_commands_a_reader_types_work(laterd, name):
    server = laterd()
    address = f"127.0.0.1:{server.port}"
    block = "".join(re.findall(r"^```console\n(.*?)^```", text_of(name), re.M | re.S))
    steps = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)
    assert len(steps) >= 3
    for command, reply in steps:
        real = command.replace("127.0.0.1:9277", address).replace("build/later ", f"{LATER} ")
        real = re.sub(r"\bcurl ", "curl -s -S -f -m 30 ", real)
        real = real.replace("--delay 5s", "--delay 1s").replace('"delay":"5s"', '"delay":"1s"')
        done = subprocess.run(["bash", "-c", real.replace('"delay":5', '"delay":1')],
                              capture_output=True, text=True, check=False, timeout=40,
                              stdin=subprocess.DEVNULL,
                              env=dict(os.environ, LATER_SERVER=f"http://{address}"))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert not reply or comparable(done.stdout) == comparable(reply), command
        assert '"code":1' not in done.stdout, command


@pytest.mark.skipif(not shutil.which("ruby"), reason="no ruby")
@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_client_of_beanstalkd_that_a_reader_copies_works(laterd, name):
    if subprocess.run(["ruby", "-rbeaneater", "-e", ""], capture_output=True, check=False).returncode:
        pytest.skip("no ruby-beaneater")
    server = laterd(beanstalk=("127.0.0.1:0",))
    program, = re.findall(r"^```ruby\n(.*?)^```", text_of(name), re.M | re.S)
    assert "127.0.0.1:11300" in program and "delay: 5" in program
    real = program.replace(":11300", f":{server.beanstalk_port}").replace("delay: 5", "delay: 1")
    assert said_by("ruby", "-e", real) == "close invoice 1004\n"


def test_what_the_examples_write_in_a_clone_is_not_seen_by_git():
    documents = [text_of(path) for path in sources("docs", "*.md") + ["README.md", "README.zh.md"]]
    written = set(re.findall(r"(?:\s> ?|--map )([a-z][\w-]*\.\w+)(?![\w/])", "\n".join(documents))) | {"data"}
    assert {"later.conf", "laterd.conf", "queue.ndjson", "ids.tsv"} <= written
    ignored = set(text_of(".gitignore").replace("/", "").split())
    assert written <= ignored, written - ignored


def connects(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_the_receiver_of_webhooks_that_a_reader_copies_works(laterd):
    """Only its port is another."""
    code = re.search(r"^python3 -c '$(.*?)'$", text_of("docs", "webhooks.md"), re.MULTILINE | re.DOTALL).group(1)
    server = laterd({"push": {"allow": "127.0.0.1"}})
    port = free_port()
    environment = dict(os.environ, LATER_SERVER=f"http://127.0.0.1:{server.port}")
    with subprocess.Popen(["/usr/bin/python3", "-c", code.replace("8000", str(port))], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as receiver:
        try:
            assert eventually(lambda: connects(port))
            for words in (["topic", "set", "try", "--url", f"http://127.0.0.1:{port}/", "--retry", "1s,10s"],
                          ["topic", "test", "try", "hello"], ["push", "try", "--id", "one", "hello"]):
                subprocess.run([LATER, *words], env=environment, check=True, capture_output=True, timeout=60)
            assert receiver.stdout.readline().endswith(" b'hello'\n")
            assert receiver.stdout.readline() == "one b'hello'\n"
        finally:
            receiver.kill()


def calls_told_in(document):
    """{(method, path)} of the calls that a text names, as in `GET /v1/jobs/{id}`."""
    pattern = r"`(GET|POST|PUT|PATCH|DELETE) (/(?:(?=`)|v1/|healthz|readyz|metrics)[^`?]*)"
    found = re.findall(pattern, document)
    return {(method, path.rstrip()) for method, path in found}


def test_the_http_api_and_openapi_know_the_same_calls():
    paths = json.loads(text_of("docs", "openapi.json"))["paths"]
    described = {(method.upper(), path) for path, item in paths.items() for method in item
                 if method in ("get", "post", "put", "patch", "delete")}
    assert calls_told_in(text_of("docs", "http-api.md")) == described


def test_every_word_for_an_error_is_in_the_http_api():
    told = text_of("docs", "http-api.md")
    words = set()
    for path in sources("src/proto/api", "v1*.c"):
        words |= set(re.findall(r'\b(?:4\d\d|5\d\d), "([a-z_]+)"', text_of(path)))
    for path in sources("src/server/http", "*.c"):
        words |= set(re.findall(r'problem\.code = "([a-z_]+)"', text_of(path)))
    assert len(words) > 10
    missing = [word for word in words if f"`{word}`" not in told]
    assert not missing


def test_every_event_of_the_log_is_in_a_document():
    """Those of level debug are of libraries."""
    source = "".join(text_of(path) for path in sources("src", "*.c"))
    events = set(re.findall(r'\bLOG_(?:INFO|WARN|ERROR),\s*"(\w+)"', source))
    chosen = re.findall(r'\b(?:LOG_\w+,|event =)([^;"]*\?[^;]*|\s*"\w+");', source)
    events |= {word for text in chosen for word in re.findall(r'"([a-z]+_[a-z_]+)"', text)}
    assert len(events) > 100 and {"redis_away", "body_unread", "segment_damaged", "journal_tables_unfit"} <= events
    told = set(re.findall(r"\w+", "".join(text_of(path) for path in sources("docs", "*.md"))))
    assert not events - told


def test_messages_that_the_documents_quote_are_those_of_the_programs():
    """Of what they are made of: 5s, 302 and the like stand for a place in a format."""
    source = re.sub(r'"\s*\n\s*"', "", "".join(text_of(path) for path in sources("src", "*.[ch]")))
    literals = "\n".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)).replace('\\"', '"')
    starts = text_of("docs", "operations.md").split("## It does not start\n")[1].split("\n## ")[0]
    quoted = re.findall(r'"([^"]+)"', starts)
    attempts = text_of("docs", "webhooks.md").split("## When something is wrong\n")[1].split("\n## ")[0]
    quoted += [text for cell in re.findall(r"^\| (`.*?) \|", attempts, re.M) for text in re.findall("`([^`]+)`", cell)]
    assert len(quoted) > 35
    varies = r"…|\bN\b|\b302\b|\b200\b|\b64 KiB\b| within \w+|127\.0\.0\.1:\d+|: (?:Permission|No such|Connection) .*"
    for text in quoted:
        for part in re.split(varies, text):
            assert part.strip() in literals, text


def test_every_test_that_the_promises_name_is_there():
    named = re.findall(r"`(p\d+_\w+)`", text_of("docs", "promises.md"))
    words = set()
    for path in sources("test/unit", "*_test.c") + sources("test/black", "*.py"):
        words.update(re.findall(r"\bp\d+_\w+|\btest_p\w+", text_of(path)))
    assert {re.match(r"p\d+", name).group() for name in named} == {f"p{n}" for n in range(1, 11)}
    missing = [name for name in named if not {name, "test_" + name} & words]
    assert not missing


def test_every_member_that_a_document_names_is_there():
    """A member is written as `struct_name::member`."""
    source = "".join(text_of(path) for path in sources("src", "*.[ch]"))
    documents = sources("docs", "*.md") + [os.path.join(ROOT, "ARCHITECTURE.md")]
    named = [(path, *member) for path in documents
             for member in re.findall(r"`(\w+)::(\w+)`", text_of(path))]
    assert len(named) > 15
    for path, struct, member in named:
        bodies = re.findall(rf"struct {struct} {{(.*?)\n}}", source, re.DOTALL)
        assert any(re.search(rf"\b{member}\b", body) for body in bodies), (path, struct, member)


def test_every_file_that_the_architecture_names_is_there():
    for name in re.findall(r"`((?:\w+/)+\w+\.[ch])`", text_of("ARCHITECTURE.md")):
        places = [os.path.join(ROOT, *at, name) for at in ((), ("src",))]
        assert any(map(os.path.exists, places)), name


@pytest.mark.parametrize("folder", ["sim", "src/engine/redis", "src/server", "src/store"])
def test_every_file_that_a_folders_page_names_is_there(folder):
    named = re.findall(r"`([\w/]+)\.(c|h|\[ch\])`", text_of(folder, "README.md"))
    assert len(named) > 5
    for name, kinds in named:
        for kind in kinds.strip("[]"):
            file = f"{name}.{kind}"
            places = [os.path.join(ROOT, *at, file) for at in ((folder,), ("src",), ())]
            within = glob.glob(os.path.join(ROOT, folder, "*", file))
            assert within or any(map(os.path.exists, places)), file
