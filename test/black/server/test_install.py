"""Installing: what `make install` puts where, what the service does, what bootstrap leaves running."""

import os
import re
import shutil
import stat
import subprocess

import pytest

from process import LATERD, ROOT, Laterd

pytestmark = pytest.mark.embedded("installing is the same whatever the engine")


def make(*words):
    # Not as a part of the make that runs the tests.
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
    return subprocess.run(["make", "-s", "-C", ROOT, *words], capture_output=True, text=True,
                          check=False, timeout=300, env=environment)


def files_below(folder):
    return {os.path.relpath(os.path.join(where, name), folder)
            for where, _, names in os.walk(folder) for name in names}


def test_without_scdoc_all_but_the_manual_pages_is_installed_and_that_is_said(tmp_path):
    done = make("install", f"DESTDIR={tmp_path}", "SCDOC=")
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stdout and "scdoc" in done.stdout
    found = files_below(tmp_path)
    assert {"usr/local/bin/laterd", "usr/local/bin/later", "usr/local/etc/laterd/laterd.conf",
            "usr/local/lib/systemd/system/laterd.service",
            "usr/local/share/bash-completion/completions/later"} <= found
    assert not [name for name in found if "/man/" in name]


def test_with_any_umask_all_users_can_read_what_is_installed(tmp_path):
    """systemd warns of units that they cannot read; root's umask is 027 or 077 on many machines."""
    before = os.umask(0o077)
    try:
        done = make("install", f"DESTDIR={tmp_path}/inst")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    for where, folders, names in os.walk(tmp_path / "inst"):
        for name in folders + [name for name in names if not os.path.islink(os.path.join(where, name))]:
            mode = stat.S_IMODE(os.stat(os.path.join(where, name)).st_mode)
            assert mode & 0o044 == 0o044, (name, oct(mode))


def test_a_manual_page_that_failed_is_not_there_for_the_next_run(tmp_path):
    for _ in range(2):
        done = make("man", f"BUILD={tmp_path}", "SCDOC=echo half a page; false")
        assert done.returncode != 0
        assert not files_below(tmp_path)


def installed_service(folder):
    done = make("install", f"DESTDIR={folder}", "SCDOC=")
    assert done.returncode == 0, done.stderr
    with open(folder / "usr/local/lib/systemd/system/laterd.service", encoding="utf-8") as file:
        return file.read()


def test_the_service_keeps_jobs_where_its_configuration_says(tmp_path):
    """With the arguments of the unit, and the programs and the configuration installed elsewhere."""
    unit = installed_service(tmp_path)
    words = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1).split()
    config, data = tmp_path / "usr/local/etc/laterd/laterd.conf", tmp_path / "elsewhere"
    config.write_text(f"[server]\nhttp = 127.0.0.1:0\nbeanstalk = none\n"
                      f"[store]\ndata_dir = {data}\n", encoding="utf-8")
    command = [f"{tmp_path}{word}" if word.startswith("/usr/local/") else word for word in words]
    server = Laterd(tmp_path)
    server.command = lambda: command
    with server:
        assert f"dir={data} " in server.events("store_opened")[0][1]
        reload = re.search(r"^ExecReload=(.*)$", unit, re.M).group(1)
        subprocess.run(reload.replace("$MAINPID", str(server.pid)).split(), check=True)
        assert server.wait_log("reloaded")


def test_an_installed_laterd_finds_its_plugins_whatever_the_prefix(tmp_path):
    """The one of the installation, which may be another one than that of the build."""
    done = make("install", f"DESTDIR={tmp_path}", "PREFIX=/opt/later", "SCDOC=")
    assert done.returncode == 0, done.stderr
    if not (tmp_path / "opt/later/lib/laterd/laterd-nats.so").exists():
        pytest.skip("this laterd was built without NATS")
    config = tmp_path / "laterd.conf"
    config.write_text(f"[server]\nhttp = 127.0.0.1:0\nbeanstalk = none\n[store]\ndata_dir = {tmp_path}/data\n"
                      "[broker.b]\ntype = nats\nurl = nats://127.0.0.1:1\n", encoding="utf-8")
    server = Laterd(tmp_path)
    server.command = lambda: [tmp_path / "opt/later/bin/laterd", "--config", config]
    with server:
        assert server.events("store_opened")


@pytest.mark.parametrize("folder, looked_for", [("bin", True), ("x", False), ("sbin", False)])
def test_plugins_are_looked_for_beside_a_folder_named_bin_only(tmp_path, folder, looked_for):
    """Beside another one anybody may write: of /tmp/x/laterd that would be /tmp/lib."""
    beside = tmp_path / "lib" / "laterd" / "laterd-nats.so"
    beside.parent.mkdir(parents=True)
    beside.write_text("no shared object", encoding="utf-8")
    (tmp_path / folder).mkdir()
    program = shutil.copy(LATERD, tmp_path / folder / "laterd")
    config = tmp_path / "laterd.conf"
    config.write_text(f"[server]\nhttp = 127.0.0.1:0\nbeanstalk = none\n[store]\ndata_dir = {tmp_path}/data\n"
                      "[broker.b]\ntype = nats\nurl = nats://127.0.0.1:1\n", encoding="utf-8")
    done = subprocess.run([program, "-c", config, "--check-config"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert ("/lib/laterd/laterd-nats.so: file too short" in done.stderr) == looked_for, done
    assert done.returncode != 0 or not looked_for  # one that is installed on this machine may be found last


@pytest.mark.parametrize("name", ["src/base/arena.o", "llhttp/api.o"])
def test_objects_are_built_again_with_other_flags(tmp_path, name):
    """Else `make TLS=0` in a tree that was built with TLS would build nothing."""
    target = tmp_path / name

    def built(*words):
        before = target.stat().st_mtime_ns if target.exists() else 0
        done = make(f"BUILD={tmp_path}", *words, str(target))
        assert done.returncode == 0, done.stderr
        return target.stat().st_mtime_ns != before
    assert built() and not built()
    for flag in ("TLS=0", "REDIS=0", "OPT=-O1", "LDFLAGS=-s"):
        assert built(flag) and not built(flag), flag
    assert not built("LDFLAGS=-s", "PREFIX=/usr")  # it is for the last place where plugins are looked for
    assert built() and not built()
    assert built("clean")  # before the target, in one call: the file of flags is made again


def test_an_option_that_overrides_the_configured_directory_is_logged(laterd, tmp_path):
    configured = tmp_path / "configured"
    server = laterd({"store": {"data_dir": configured}})
    (level, facts), = server.events("data_dir_overridden")
    assert level == "warn"
    assert facts == f"dir={server.data} by=--data-dir store.data_dir={configured}"
    assert not configured.exists()
    assert not laterd().events("data_dir_overridden")


def fake(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


OTHERS = {"nats-server.service", "rabbitmq-server.service", "nginx.service", "haproxy.service",
          "mariadb.service"}


@pytest.mark.parametrize("words, installed, disabled", [
    ([], "", {*OTHERS, "beanstalkd.service", "redis-server.service", "stunnel4.service"}),
    ([], "redis-server", {*OTHERS, "beanstalkd.service", "stunnel4.service"}),
    (["--build-only"], "", set()),
])
def test_bootstrap_leaves_no_service_running_that_it_brought(tmp_path, words, installed, disabled):
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    fake(programs, "dpkg-query", f'printf "not-installed=gcc installed={installed}:amd64 "')
    fake(programs, "systemctl", f'echo systemctl "$@" >> {log}')
    fake(programs, "apt-get", f'test "$DEBIAN_FRONTEND" = noninteractive || exit 1\necho apt-get "$@" >> {log}')
    fake(programs, "id", "echo 1000")
    fake(programs, "sudo", 'exec env -i PATH="$PATH" "$@"')  # it passes no variables on
    done = subprocess.run([os.path.join(ROOT, "script", "bootstrap"), *words], capture_output=True,
                          text=True, check=False, timeout=60,
                          env=dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}"))
    assert done.returncode == 0, done.stderr
    lines = log.read_text(encoding="utf-8").splitlines()
    packages = {word for line in lines if " install " in line for word in line.split()}
    assert {"gcc", "scdoc"} <= packages and installed not in packages
    assert ("clang" in packages) == (not words)
    assert {word for line in lines if line.startswith("systemctl disable") for word in line.split()
            if word.endswith(".service")} == disabled
