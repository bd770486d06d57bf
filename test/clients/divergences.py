"""Where laterd answers otherwise than Debian's beanstalkd 1.12, and why.

The one list for the differential test, the transcripts of the clients and docs/beanstalk.md, which
has a section for each name here (test_beanstalk_docs.py holds them together).
"""

import re

# name: the reason in a sentence. docs/beanstalk.md says more.
DIVERGENCES = {
    # What laterd does better.
    "durable-answers": "INSERTED, DELETED, RELEASED, BURIED and KICKED come when the change is on "
                       "disk; a write that failed is INTERNAL_ERROR, a full disk OUT_OF_MEMORY",
    "late-ttr": "a job whose ttr is over is ready at once; beanstalkd 1.12 often leaves it reserved "
                "for a second and more",
    "wall-clock": "a step of the machine's clock moves no job",
    "ids-survive": "ids go on after a restart without a gap to fear: none is given twice",
    "huge-numbers": "a time-out or a bound of kick is not cut to its low 32 bits: in beanstalkd "
                    "4294967296 is 0",
    "line-of-225": "a line of 225 bytes is BAD_FORMAT; beanstalkd throws away the next one, too",
    "stray-cr": "a CR without LF is a byte like others; in beanstalkd it hides the line's end, and "
                "the connection seems to hang",
    "http-hangs-up": "a line of HTTP ends the connection, so that no web page can give commands; "
                     "to beanstalkd it is an UNKNOWN_COMMAND, and the next line a command",
    # What is shown otherwise.
    "yaml-quotes": "tube, name, hostname, os and platform are quoted, as in 1.13",
    "stats-version": "version is 1.13, whose commands laterd has",
    "binlog-facts": "file is 0, and binlog-* speak of laterd's log segments",
    "resume-is-no-pause": "pause-tube with 0 is not counted in a tube's cmd-pause-tube",
    "list-tubes-order": "tubes are listed in no order that means anything, in both",
    # What lives on.
    "tube-counters": "a tube that was empty and unused for a moment may keep total-jobs and "
                     "cmd-delete; beanstalkd forgets them with its last user",
    "paused-tube-stays": "a paused tube is there until the pause is over, over restarts too; "
                         "beanstalkd forgets the pause with the tube's last user",
    # When things happen.
    "whole-turns": "commands that arrive together are all done before waiting clients are served, "
                   "and the best job of all goes first; beanstalkd serves them after each, and "
                   "after each job of a kick",
    "slow-clients": "a client that does not take its answers, or stops in the middle of a body, is "
                    "closed after request_seconds",
    "shared-limits": "limits.jobs, limits.topics and limits.connections of the server hold for "
                     "beanstalkd's clients too: OUT_OF_MEMORY",
}

# resume-is-no-pause, tube-counters
NOT_ALIKE = {"stats-tube": {"cmd-pause-tube"}}
FORGOTTEN = {"total-jobs", "cmd-delete"}

# Keys whose values are facts of the process, the moment or the machine: compared as present.
MASKED = {"pid", "version", "rusage-utime", "rusage-stime", "uptime", "hostname", "os", "platform",
          "binlog-oldest-index", "binlog-current-index", "binlog-records-migrated",
          "binlog-records-written", "binlog-max-size", "file", "age", "time-left",
          "pause-time-left"}

# Of `stats`: what depends on how often somebody had to look. Not compared.
LOOKS = {"total-connections", "cmd-stats"}

# What a client's program shows of statistics and beanstalkd was asked once more to see it is up.
CLIENTS_SEE_OTHERWISE = {"cmd-pause-tube", "total-connections"}

HEX_ID = re.compile(r"[0-9a-f]{16}")  # a server's; a job's has as many digits on Redis


def value_of(key, value):
    """A value of statistics as both would have to say it."""
    value = value.strip().strip('"')
    if key in MASKED or (key == "id" and HEX_ID.fullmatch(value)):
        return "*"
    return value


def normal(line, answer, tubes_kept=True):
    """What has to be the same of both answers, as text. `tubes_kept`: somebody watches all tubes,
    so that none was forgotten with its counters and made again."""
    word = line.split(" ")[0]
    if answer.word != "OK":
        return repr(answer)
    if word == "list-tubes":
        return "OK " + " ".join(sorted(row.strip('"') for row in answer.rows()))
    if word.startswith("list-"):
        return "OK " + " ".join(row.strip('"') for row in answer.rows())
    table = answer.table()
    skipped = NOT_ALIKE.get(word, set()) | LOOKS
    if word == "stats-tube" and not tubes_kept:
        skipped = skipped | FORGOTTEN
    jobs_id = table.get("id") if word == "stats-job" else None
    return "OK " + " ".join(f"{key}={value if value is jobs_id else value_of(key, value)}"
                            for key, value in table.items() if key not in skipped)


def left_behind(line, body):
    """The lines that beanstalkd reads as commands when a put's body is longer than was said."""
    words = line.split(" ")
    if body is None or words[0] != "put" or len(body) <= int(words[4]):
        return []
    return (body + b"\r\n")[int(words[4]) + 2:].split(b"\r\n")[:-1]
