"""Where laterd answers otherwise than Debian's beanstalkd 1.12, and why.

The one list for the differential test, the transcripts of the clients and docs/beanstalk.md, which
has a section for each name here (test_beanstalk_docs.py holds them together).
"""

import re

# name: the reason in a sentence. docs/beanstalk.md says more.
DIVERGENCES = {
    "yaml-quotes": "tube names and what uname says are quoted, as 1.13 does: a tube named 123 "
                   "stays a string",
    "list-tubes-order": "tubes are listed in no order that means anything; neither are beanstalkd's",
    "process-facts": "pid, id, version, uptime, rusage and hostname are the server's own",
    "binlog-facts": "file and binlog-* speak of laterd's log segments",
}

# Of stats-job, but for a delayed job: see job-delay. Of stats-tube: see resume-is-no-pause.
NOT_ALIKE = {"stats-job": {"delay"}, "stats-tube": {"cmd-pause-tube"},
             "stats": {"current-producers", "current-workers"}}

# Keys whose values are facts of the process, the moment or the machine: compared as present.
MASKED = {"pid", "version", "rusage-utime", "rusage-stime", "uptime", "hostname", "os", "platform",
          "binlog-oldest-index", "binlog-current-index", "binlog-records-migrated",
          "binlog-records-written", "binlog-max-size", "file", "age", "time-left",
          "pause-time-left"}

# Of `stats`: what depends on how often somebody had to look. Not compared.
LOOKS = {"total-connections", "cmd-stats"}

# What a client's program shows of statistics without knowing a job's state or its own past.
CLIENTS_SEE_OTHERWISE = {"delay", "cmd-pause-tube", "current-producers", "current-workers",
                         "total-connections", "current-connections"}

HEX_ID = re.compile(r"[0-9a-f]{16}")


def value_of(key, value):
    """A value of statistics as both would have to say it."""
    value = value.strip().strip('"')
    if key in MASKED or (key == "id" and HEX_ID.fullmatch(value)):
        return "*"
    return value


def normal(line, answer):
    """What has to be the same of both answers, as text."""
    word = line.split(" ")[0]
    if answer.word != "OK":
        return repr(answer)
    if word == "list-tubes":
        return "OK " + " ".join(sorted(row.strip('"') for row in answer.rows()))
    if word.startswith("list-"):
        return "OK " + " ".join(row.strip('"') for row in answer.rows())
    table = answer.table()
    skipped = NOT_ALIKE[word] | LOOKS
    if table.get("state") == "delayed":
        skipped = ()
    return "OK " + " ".join(f"{key}={value_of(key, value)}"
                            for key, value in table.items() if key not in skipped)


def left_behind(line, body):
    """The lines that beanstalkd reads as commands when a put's body is longer than was said."""
    words = line.split(" ")
    if body is None or words[0] != "put" or len(body) <= int(words[4]):
        return []
    return (body + b"\r\n")[int(words[4]) + 2:].split(b"\r\n")[:-1]
