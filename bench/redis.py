#!/usr/bin/python3
"""laterd on Redis beside a bare Lua queue in Redis: `make bench-redis`.

How to run it:

    make bench-redis                  all of it, under 6 minutes, on an otherwise idle machine
    bench/redis.py --only put,cycle --repeats 5
    bench/redis.py --only due,idle,pair,takeover
    bench/redis.py --only shapes --repeats 1      (or partitions, daemons, masters, crowd, server-ids)
    bench/redis.py --only server-ids --repeats 3
    bench/redis.py --only put --fsync always

What it does: `later bench` gives laterd the same load over HTTP and over beanstalkd's protocol,
and `redis_floor` gives it, with the same load engine, to three small scripts in Redis itself: the
floor. They take turns within one run, three times over, each with a Redis and a laterd of its
own, started again for it; the figures are medians. Redis appends to its file, synced every second
(--fsync), and does not rewrite it meanwhile, which would be somebody else's work within the
measured time.

CPU per operation is that of laterd and Redis together, all threads, user and system, with servers
and generator pinned to one core; of it, what Redis took. Operations a second are unpinned. "64x1"
is 64 connections with one command under way, "16x16" is 16 connections with 16. A cycle is push,
reserve and finish. Bodies have 256 bytes.

The bar in µs was set on another machine, where such a queue needed what FLOOR_THERE says. So it
is also held against the measured figure times (the floor there / the floor here): "scaled".

- due: jobs fall due at a steady rate, consumers wait in laterd. Lateness is when a consumer has
  the job minus its due time, both on the generator's clock.
- idle: 100 polls are parked and nothing is due, once a new daemon has looked, after five seconds,
  for what dead ones left. Counted are the commands that reach Redis
  (MONITOR, without those that scripts call), and the packets they come in, as gaps of more than
  50 ms.
- pair: the same two generators of 32 connections cycle jobs of one topic, first both through one
  daemon, then each through one of two. What one pushes, the other may take. Doubled is a finish
  that was refused because another holder had the job; lost is what was pushed, is not there, and
  was not finished.
- shapes: two generators of 32 connections cycle 20,000 jobs of one topic with 1 and 16 partitions,
  with 1, 2 and 4 daemons (four generators), and on one Redis or a cluster of three masters; some of it
  with 512 connections each ("crowd"). Told
  are the CPU of all Redis processes and the scripts that they were asked to run, for each cycle:
  these hardly depend on what else the machine does. Ids are the clients', but for server-ids: there
  laterd makes them (--id-bytes 0), and redis.order says whether the jobs of the topic are spread.
  Beside one and two daemons, and in turn with them, `redis_turns` does as many visits of partitions
  as they do, with one process and with two: a bare queue with the duty of laterd's. What two
  processes are dearer there, two daemons are at least.
- takeover: two daemons, which share the timers of all partitions; one is killed while 1,000 jobs
  a second fall due and consumers wait at the other. The largest lateness is how long nobody watched the time.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import report
from servers import Server, free_port
from suite import Suite, parser_of

LUA, HTTP, BEANSTALK = "Lua queue", "laterd, HTTP", "laterd, beanstalkd's protocol"
SERVERS = [LUA, HTTP, BEANSTALK]

LONE = ["--connections", 64, "--depth", 1]
DEEP = ["--connections", 16, "--depth", 16]

# Name, group, words, jobs. The puts come last, because they leave their jobs behind.
SCENARIOS = [
    ("cycle 64x1", "cycle", ["cycle", *LONE], 12000),
    ("cycle 16x16", "cycle", ["cycle", *DEEP], 15000),
    ("put 64x1", "put", ["put", *LONE], 40000),
    ("put 16x16", "put", ["put", *DEEP], 40000),
]
NO_IDS = "put 64x1, ids by the server"  # over HTTP only: beanstalkd's protocol has no others

PUSH_CPU_MAX_US = 25
FLOOR_THERE = {"put 64x1": 13.8, "put 16x16": 9.2}
PUSHES_MIN = 40000
LATENESS_MAX_US = 5000
DUE_RATE = 5000
IDLE_COMMANDS_MAX = 1
PAIR_RATIO_MIN = 0.85  # two daemons on the cores of one: see SHAPE_BARS
SHAPE_JOBS = 10000
# Name, group, what it is made of.
SHAPES = [
    ("1 partition", "partitions", {"partitions": 1}),
    ("16 partitions", "partitions", {}),
    ("2 daemons", "daemons", {"daemons": 2}),
    ("4 daemons", "daemons", {"daemons": 4}),
    ("3 masters", "masters", {"masters": 3}),
    ("1 partition, 1,024 clients", "crowd", {"partitions": 1, "connections": 512}),
    ("16 partitions, 1,024 clients", "crowd", {"connections": 512}),
    ("3 masters, 1,024 clients", "crowd", {"masters": 3, "connections": 512}),
    ("1 partition, ids by laterd", "server-ids", {"partitions": 1, "ids": False}),
    ("16 partitions, ids by laterd, topic", "server-ids", {"order": "topic", "ids": False}),
    ("16 partitions, ids by laterd, spread", "server-ids", {"order": "spread", "ids": False}),
    ("3 masters, ids by laterd, topic", "server-ids", {"masters": 3, "order": "topic", "ids": False}),
    ("3 masters, ids by laterd, spread", "server-ids", {"masters": 3, "order": "spread", "ids": False}),
]
# Title, the bar, of which shape, by which, of what: 0 CPU of Redis a cycle, 2 cycles a second.
# Two daemons are dearer than one because fewer requests share a visit of a partition, and by what
# they look for and tell each other; a bare queue is dearer by the former, 2 % (docs/decisions/0075).
# Since several jobs of a partition are taken in one visit it is hardly more (docs/decisions/0106).
# With 64 clients and their own ids hardly two requests go to one partition at once, and what a
# partition costs is not shared: the commands alone, without any work of ours, cost 2.2 times as much
# in 16 partitions as in one. So these bars say that it gets no worse (docs/decisions/0075, 0086);
# those of 1,024 clients, and of ids by laterd, that it is shared where it can be.
SHAPE_BARS = [
    ("16 partitions / 1, Redis' CPU a cycle", 2.0, "16 partitions", "1 partition", 0),
    ("2 daemons / 1, Redis' CPU a cycle", 1.15, "2 daemons", "16 partitions", 0),
    ("2 daemons / 1, cycles a second", 0.85, "2 daemons", "16 partitions", 2),
    ("4 daemons / 2, cycles a second", 1.0, "4 daemons", "2 daemons", 2),
    ("3 masters / 1, Redis' CPU a cycle", 1.7, "3 masters", "16 partitions", 0),
    ("16 partitions / 1, 1,024 clients, Redis' CPU a cycle", 1.4,
     "16 partitions, 1,024 clients", "1 partition, 1,024 clients", 0),
    ("3 masters / 1, 1,024 clients, Redis' CPU a cycle", 1.4,
     "3 masters, 1,024 clients", "16 partitions, 1,024 clients", 0),
    ("16 partitions / 1, ids by laterd, spread, Redis' CPU a cycle", 1.1,
     "16 partitions, ids by laterd, spread", "1 partition, ids by laterd", 0),
    ("3 masters / 1, ids by laterd, spread, Redis' CPU a cycle", 1.2,
     "3 masters, ids by laterd, spread", "16 partitions, ids by laterd, spread", 0),
]
# A bare queue: processes, trains of each, clients of a train. As many requests in a call as one
# daemon's have, and as those of each of two.
TURNS = [("1 process", 1, 5, 13), ("2 processes", 2, 4, 8)]
TURNS_JOBS = 60000
TAKEOVER_MAX_US = 2000000


def cpu_us(pid):
    """What all threads of the process have used, ended ones too."""
    return time.clock_gettime((~pid << 3) | 2) * 1e6  # as clock_getcpuclockid() makes it


class Place:
    """A Redis, empty, or a cluster of several masters, and the daemons that serve its queue."""

    def __init__(self, bench, pinned, daemons=1, masters=1, partitions=16, order="auto"):
        self.bench, self.daemons, self.masters = bench, [], []
        self.partitions, self.order = partitions, order
        folder = bench.directory()
        try:
            for _ in range(masters):
                self.masters.append(self._redis(folder, pinned, cluster=masters > 1))
            self.redis = self.masters[0]
            if masters > 1:
                self._make_cluster()
            for _ in range(daemons):
                self.daemons.append(self._daemon(folder, pinned))
        except RuntimeError:
            self.stop()
            raise

    def _redis(self, folder, pinned, cluster):
        port = free_port()
        settings = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": "",
                    "appendonly": "yes", "appendfsync": self.bench.fsync,
                    "auto-aof-rewrite-percentage": 0}
        if cluster:
            settings |= {"cluster-enabled": "yes", "cluster-port": free_port(),
                         "cluster-config-file": f"nodes{port}.conf",
                         "appenddirname": f"appendonly{port}"}
        words = [word for key, value in settings.items() for word in (f"--{key}", value)]
        return Server("redis-server", ["redis-server", *words], pinned,
                      address=f"127.0.0.1:{port}")

    def _make_cluster(self):
        addresses = [server.address for server in self.masters]
        self._cli(addresses[0], "--cluster", "create", *addresses, "--cluster-yes")
        for address in addresses:
            until = time.monotonic() + 60
            while "cluster_state:ok" not in self._cli(address, "CLUSTER", "INFO"):
                if time.monotonic() > until:
                    raise RuntimeError(f"{address}: the cluster is not ready")
                time.sleep(0.1)

    @staticmethod
    def _cli(address, *words):
        done = subprocess.run(["redis-cli", "-p", address.split(":")[1], *words],
                              capture_output=True, text=True, check=False, timeout=60)
        return done.stdout

    def redis_cpu_us(self):
        return sum(cpu_us(server.pid) for server in self.masters)

    def scripts(self):
        """How many scripts were called so far."""
        calls = 0
        for server in self.masters:
            found = re.search(r"cmdstat_evalsha:calls=(\d+)",
                              self._cli(server.address, "INFO", "commandstats"))
            calls += int(found.group(1)) if found else 0
        return calls

    def _daemon(self, folder, pinned):
        number, port = len(self.daemons), free_port()
        config = folder / f"laterd{number}.conf"
        addresses = ",".join(server.address for server in self.masters)
        scheme = "redis+cluster" if len(self.masters) > 1 else "redis"
        config.write_text(f"[server]\nhttp = 127.0.0.1:0\nbeanstalk = 127.0.0.1:{port}\n"
                          "[engine]\nengine = redis\n"
                          f"[redis]\nurl = {scheme}://{addresses}\n"
                          f"partitions = {self.partitions}\norder = {self.order}\n")
        daemon = Server("laterd", [self.bench.build / "laterd", "-c", config, "--data-dir",
                                   folder / f"data{number}"], pinned)
        daemon.beanstalk = f"127.0.0.1:{port}"
        return daemon

    def stop(self):
        for server in [*self.daemons, *self.masters]:
            server.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Bench(Suite):
    SERVERS = SERVERS

    def __init__(self, arguments):
        super().__init__(arguments)
        self.fsync = arguments.fsync

    # -- load ----------------------------------------------------------------------------

    def floor(self, place, words):
        return [self.build / "bench/redis_floor", *words, "--server", place.redis.address,
                "--pid", place.redis.pid]

    def later(self, place, words, daemon=0, beanstalk=False):
        daemons = [server.pid for server in place.daemons]
        pids = [word for pid in [*daemons, place.redis.pid] for word in ("--server-pid", pid)]
        server = place.daemons[daemon]
        where = (["--beanstalk", server.beanstalk] if beanstalk
                 else ["--server", f"http://{server.address}"])
        return [self.build / "later", "bench", *words, "--json", "--keep", *where, *pids]

    def measure(self, name, pinned, steps):
        """Runs (scenario, words) one after the other on one fresh Redis."""
        with Place(self, pinned, daemons=0 if name == LUA else 1) as place:
            for scenario, words in steps:
                before = cpu_us(place.redis.pid)
                command = (self.floor(place, words) if name == LUA
                           else self.later(place, words, beanstalk=name == BEANSTALK))
                result = self.generate(command, pinned)
                if result:
                    used = cpu_us(place.redis.pid) - before
                    result["redis_us"] = used / result["operations"]
                    self.results.setdefault((scenario, pinned, name), []).append(result)

    # -- operations ----------------------------------------------------------------------

    def operations(self):
        chosen = [row for row in SCENARIOS if self.wanted(row[1])]
        if not chosen:
            return
        for pinned, name in self.rounds():
            steps = [(scenario, [*words, "--jobs", jobs]) for scenario, _, words, jobs in chosen]
            if name == HTTP and self.wanted("put"):
                steps.append((NO_IDS, ["put", *LONE, "--id-bytes", 0, "--jobs", 40000]))
            self.measure(name, pinned, steps)
        for scenario, group in [row[:2] for row in chosen] + [(NO_IDS, "ids")] * self.wanted("put"):
            cpu = self.figure(f"{scenario}, pinned, µs of CPU", scenario, True,
                              lambda r: r["server_us_per_operation"])
            redis = self.figure(f"{scenario}, pinned, µs of it Redis'", scenario, True,
                                lambda r: r["redis_us"])
            rate = self.figure(f"{scenario}, unpinned, a second", scenario, False,
                               lambda r: r["per_second"])
            if group == "put":
                self.push_bars(scenario, cpu, redis, rate)

    def push_bars(self, scenario, cpu, redis, rate):
        for name in (HTTP, BEANSTALK):
            if cpu[name] is None or cpu[LUA] is None:
                continue
            scaled = cpu[name] * FLOOR_THERE[scenario] / cpu[LUA]
            self.bar(f"{scenario}, {name}, µs of CPU", f"≤ {PUSH_CPU_MAX_US}", report.shown(cpu[name]),
                     cpu[name] <= PUSH_CPU_MAX_US,
                     f"laterd {report.shown(cpu[name] - redis[name])}, Redis {report.shown(redis[name])}; "
                     f"scaled {scaled:.2f} {'✓' if scaled <= PUSH_CPU_MAX_US else '✗'} (floor "
                     f"{FLOOR_THERE[scenario]} there, {cpu[LUA]:.2f} here)")
            self.bar(f"{scenario}, {name}, a second", f"≥ {PUSHES_MIN:,}", report.shown(rate[name]),
                     rate[name] >= PUSHES_MIN, f"the floor {report.shown(rate[LUA])}")

    # -- due times -----------------------------------------------------------------------

    def due(self):
        for _ in range(self.repeats):
            for name in (HTTP, BEANSTALK):
                self.measure(name, False, [("due", ["due", "--rate", DUE_RATE, "--jobs",
                                                    2 * DUE_RATE])])
        print("  due jobs", file=sys.stderr, flush=True)
        title = f"{DUE_RATE:,} due/s"
        self.figure(f"{title}, CPU per job, µs", "due", False,
                    lambda r: r["server_us_per_operation"])
        for quantile in ("p50", "p99", "max"):
            values = self.figure(f"{title}, lateness {quantile}, ms", "due", False,
                                 lambda r, q=quantile: r["lateness_us"][q] / 1000)
            for name in (HTTP, BEANSTALK) if quantile == "p99" else ():
                if values[name] is not None:
                    self.bar(f"{title}, {name}, lateness p99, ms", f"≤ {LATENESS_MAX_US / 1000:g}",
                             report.shown(values[name]), values[name] * 1000 <= LATENESS_MAX_US)
        for name in (HTTP, BEANSTALK):
            self.promises(title, name, self.results.get(("due", False, name), []))

    def promises(self, title, name, results):
        counts = [sum(r[key] for r in results) for key in ("early", "lost", "twice")]
        self.bar(f"{title}, {name}: early, lost, twice", "0, 0, 0", ", ".join(map(str, counts)),
                 not any(counts))

    # -- idle ----------------------------------------------------------------------------

    def idle(self):
        seconds = 10
        with Place(self, False) as place:
            command = self.later(place, ["idle", "--connections", 100, "--seconds", seconds + 8])
            load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
            time.sleep(7)
            before = cpu_us(place.daemons[0].pid), cpu_us(place.redis.pid)
            commands, bursts = self.listen(place.redis.address, seconds)
            after = cpu_us(place.daemons[0].pid), cpu_us(place.redis.pid)
            load.communicate(timeout=60)
        daemon, redis = ((b - a) / (seconds * 1e4) for a, b in zip(before, after))
        self.figures.append(("idle, 100 polls: commands a second", {HTTP: commands / seconds}))
        self.figures.append(("idle, 100 polls: packets a second", {HTTP: bursts / seconds}))
        self.figures.append(("idle, 100 polls: CPU of laterd, %", {HTTP: daemon}))
        self.figures.append(("idle, 100 polls: CPU of Redis, %", {HTTP: redis}))
        self.bar("idle: commands a second", f"≤ {IDLE_COMMANDS_MAX}", report.shown(commands / seconds),
                 commands / seconds <= IDLE_COMMANDS_MAX, f"{report.shown(bursts / seconds)} packets")

    @staticmethod
    def listen(address, seconds):
        """(commands, bursts of them) that a Redis was sent, by its own account."""
        times = []
        port = address.split(":")[1]
        with subprocess.Popen(["redis-cli", "-p", port, "MONITOR"], stdout=subprocess.PIPE,
                              text=True) as monitor:
            timer = threading.Timer(seconds, monitor.terminate)
            timer.start()
            for line in monitor.stdout:
                words = line.split(" ", 3)
                if line[:1].isdigit() and words[2] != "lua]":
                    times.append(float(words[0]))
            timer.cancel()
        bursts = sum(b - a > 0.05 for a, b in zip([0.0, *times], times))
        return len(times), bursts

    # -- two daemons ---------------------------------------------------------------------

    def pair(self):
        rates, doubled, lost = {1: [], 2: []}, 0, 0
        for _ in range(self.repeats):
            for count in (1, 2):
                with Place(self, False, daemons=count) as place:
                    rate, twice, gone = self.cycle_through(place)
                rates[count].append(rate)
                doubled, lost = doubled + twice, lost + gone
        print("  two daemons", file=sys.stderr, flush=True)
        one, two = (statistics.median(rates[count]) for count in (1, 2))
        self.figures.append(("cycles a second through one daemon", {HTTP: one}))
        self.figures.append(("cycles a second through two daemons", {HTTP: two}))
        self.bar("two daemons / one, cycles a second", f"≥ {PAIR_RATIO_MIN}", report.shown(two / one),
                 two / one >= PAIR_RATIO_MIN)
        self.bar("one topic through one and two daemons: doubled, lost", "0, 0",
                 f"{doubled}, {lost}", doubled == 0 and lost == 0)

    def cycle_through(self, place):
        """(cycles a second, doubled, lost) of two generators at once."""
        results = self.two_generators(place, ["--jobs", 10**7, "--seconds", 3])
        with urllib.request.urlopen(f"http://{place.daemons[0].address}/v1/topics/t") as answer:
            topic = json.load(answer)
        live = sum(topic[state] for state in ("delayed", "ready", "reserved", "buried"))
        lost = topic["totals"]["pushed"] - topic["totals"]["finished"] - live
        return (sum(r["per_second"] for r in results), sum(r["refused"] for r in results), lost)

    # -- shapes --------------------------------------------------------------------------

    def shapes(self):
        """What a cycle costs Redis by the number of partitions, daemons and masters."""
        chosen = [row for row in SHAPES if self.wanted(row[1]) or self.wanted("shapes")]
        costs = {row[0]: [] for row in chosen}
        bare = {row[0]: [] for row in TURNS if self.wanted("daemons") or self.wanted("shapes")}
        for _ in range(self.repeats):
            for name, _, shape in chosen:
                costs[name].append(self.shape_cost(shape))
            for name, *shape in TURNS:
                if name in bare:
                    bare[name].append(self.turns_cost(*shape))
        for name, values in bare.items():
            self.figures.append((f"cycle, {name}: µs of Redis' CPU", {LUA: statistics.median(values)}))
        cpu = {}
        for name, _, _ in chosen:
            for place, title in enumerate(("µs of Redis' CPU", "scripts", "cycles a second")):
                value = statistics.median(cost[place] for cost in costs[name])
                self.figures.append((f"cycle, {name}: {title}", {HTTP: value}))
                cpu[name, place] = value
        for title, most, over, under, place in SHAPE_BARS:
            if (over, place) in cpu and (under, place) in cpu:
                ratio = cpu[over, place] / cpu[under, place]
                held = ratio <= most if place == 0 else ratio >= most
                sign = "≤" if place == 0 else "≥"
                self.bar(title, f"{sign} {most}", report.shown(ratio), held)

    def shape_cost(self, shape):
        shape = dict(shape)
        connections = shape.pop("connections", 32)
        words = ["--jobs", SHAPE_JOBS] + ([] if shape.pop("ids", True) else ["--id-bytes", 0])
        with Place(self, False, **shape) as place:
            before = place.redis_cpu_us(), place.scripts()
            results = self.two_generators(place, words, connections)
            used = place.redis_cpu_us() - before[0], place.scripts() - before[1]
        cycles = sum(result["operations"] for result in results)
        return used[0] / cycles, used[1] / cycles, sum(r["per_second"] for r in results)

    def turns_cost(self, processes, trains, clients):
        """What Redis takes for a cycle of the bare queue whose requests go together."""
        with Place(self, False, daemons=0) as place:
            before = place.redis_cpu_us()
            command = [self.build / "bench/redis_turns", place.redis.address.split(":")[1]]
            running = [subprocess.Popen([str(word) for word in [
                *command, number + 1, place.partitions, trains, clients, TURNS_JOBS // processes]],
                stdout=subprocess.PIPE) for number in range(processes)]
            cycles = sum(json.loads(process.communicate(timeout=60)[0])["cycles"]
                         for process in running)
            return (place.redis_cpu_us() - before) / cycles

    def two_generators(self, place, words, connections=32):
        """What two generators say that cycle jobs of one topic, each through its daemon."""
        results = []

        def generate(number):
            daemon = number % len(place.daemons)
            load = ["cycle", "--connections", connections, "--topic", "t", "--shared", *words]
            results.append(self.generate(self.later(place, load, daemon=daemon)))

        threads = [threading.Thread(target=generate, args=(number,))
                   for number in range(max(2, len(place.daemons)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [result for result in results if result]

    def takeover(self):
        largest, results = [], []
        for repeat in range(self.repeats):
            with Place(self, False, daemons=2) as place:
                words = ["due", "--rate", 1000, "--jobs", 5000, "--lead", "3s"]
                load = subprocess.Popen([str(w) for w in self.later(place, words, daemon=1)[:-4]],
                                        stdout=subprocess.PIPE, text=True)
                # It says that it lives each second: killed at another moment of that each time.
                time.sleep(4 + repeat / self.repeats)
                place.daemons[0].process.kill()
                text, _ = load.communicate(timeout=60)
            results.append(json.loads(text))
            largest.append(results[-1]["lateness_us"]["max"])
        print("  takeover", file=sys.stderr, flush=True)
        self.bar("one of two daemons killed: largest lateness, s", f"≤ {TAKEOVER_MAX_US / 1e6:g}",
                 ", ".join(f"{us / 1e6:.2f}" for us in largest), max(largest) <= TAKEOVER_MAX_US)
        self.promises("one of two daemons killed", HTTP, results)

    # -- the whole -----------------------------------------------------------------------

    def run(self):
        self.operations()
        for word in ("due", "idle", "pair", "takeover"):
            if self.wanted(word):
                getattr(self, word)()
        self.shapes()

    def table(self):
        redis = report.said("redis-server", "--version").split(" sha")[0]
        self.print_table(f"{self.program()} on {redis}, appendonly, appendfsync {self.fsync}, "
                         "256-byte bodies", SERVERS)


def main():
    parser = parser_of(__doc__, "put,cycle,due,idle,pair,takeover,shapes (partitions,daemons,masters,crowd,server-ids)")
    parser.add_argument("--fsync", default="everysec", choices=("everysec", "always", "no"))
    arguments = parser.parse_args()
    if not shutil.which("redis-server"):
        print("redis-server is not installed: nothing to run on", file=sys.stderr)
        return 2
    return report.run(Bench(arguments))


if __name__ == "__main__":
    sys.exit(main())
