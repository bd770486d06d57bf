"""later and labels: pushed by options or lines, shown by get, listed beside the jobs."""

import json
import subprocess

import pytest
from process import LATER, Laterd


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Laterd(tmp_path_factory.mktemp("laterd")) as one:
        yield one


@pytest.fixture
def later(server):
    def run(*arguments, stdin="", code=0):
        done = subprocess.run([LATER, "--server", f"http://127.0.0.1:{server.port}", *arguments], input=stdin,
                              capture_output=True, text=True, check=False)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr
    return run


def test_options_of_push_are_shown_by_get(later, topic):
    job_id = later("push", topic, "hello", "--delay", "1h", "--biz-key", "order 17", "--subtopic", "eu", "--tag", "a",
                   "--tag", "中文", "--extend-data", "{\"n\":1}").strip()
    job = json.loads(later("get", job_id, "--json"))
    assert (job["biz_key"], job["subtopic"], job["tags"], job["extend_data"]) == ("order 17", "eu", ["a", "中文"],
                                                                                 "{\"n\":1}")
    text = later("get", job_id)
    for line in ("biz key   order 17", "subtopic  eu", "tags      [\"a\",\"中文\"]", "extend    {\"n\":1}"):
        assert line in text.splitlines(), text


def test_lines_bring_their_own(later, topic):
    lines = "".join(json.dumps({"id": f"{topic}{i}", "delay": "1h", "body": "", "biz_key": f"k{i}",
                                "create_time": 1700000000000, "rank": i}) + "\n" for i in range(3))
    assert later("push", topic, "--ndjson", "-", stdin=lines) == "3 pushed, 0 refused\n"
    assert "made      2023-11-1" in later("get", topic + "2")


def test_a_list_shows_them_if_it_is_asked(later, topic):
    for i in range(3):
        later("push", topic, "x", "--delay", f"{i + 1}h", "--biz-key", f"k{i}", "--subtopic", "s", "--tag", "t")
    assert "k0" not in later("list", topic)
    lines = later("list", topic, "--labels").splitlines()
    assert lines[0].split()[-4:] == ["BIZ", "KEY", "SUBTOPIC", "TAGS"]
    assert [line.split()[-3:] for line in lines[1:]] == [[f"k{i}", "s", "[\"t\"]"] for i in range(3)]
    found = [json.loads(line) for line in later("list", topic, "-L", "--json").splitlines()]
    assert [job["biz_key"] for job in found] == ["k0", "k1", "k2"]
    found = [json.loads(line) for line in later("list", topic, "-L", "--json", "--order", "desc").splitlines()]
    assert [job["biz_key"] for job in found] == ["k2", "k1", "k0"]


@pytest.mark.parametrize("option, value", [("--tag", "a,b"), ("--biz-key", ""), ("--subtopic", "a\nb")])
def test_a_label_that_is_none_is_refused_by_name(later, topic, option, value):
    assert f"later push: {option}" in later("push", topic, "x", option, value, code=2)
