"""What happens in time, one or two seconds at a time, as stories for both servers.

A row is a connection and what it sends; `waits` reads no answer until there is one; a beat is
0.75 s. Jobs are {0}, {1} … in the order of their puts. Every connection uses and watches only the
story's own tube `a`. All stories run side by side.
"""

STORIES = {
    "a delayed job becomes ready in its time": """
        0 put 0 1 60
        0 put 0 2 60
        0 peek-delayed
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        0 peek-delayed
        0 peek-ready
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        0 stats-tube a
        beat
        0 reserve-with-timeout 0
        0 stats-tube a
    """,
    "a waiting client is woken by what falls due": """
        0 put 0 1 60
        1 waits reserve
        beat
        0 stats-tube a
        0 stats-job {0}
        beat
        0 stats-tube a
        1 delete {0}
    """,
    "a wait ends": """
        0 waits reserve-with-timeout 1
        1 waits reserve-with-timeout 2
        beat
        2 stats-tube a
        beat
        2 stats-tube a
        beat
        2 stats-tube a
    """,
    "a job comes back when its time to run is over": """
        0 put 5 0 1
        0 reserve-with-timeout 0
        1 reserve-with-timeout 0
        1 delete {0}
        beat
        1 stats-job {0}
        1 touch {0}
        beat
        1 stats-job {0}
        0 delete 999
        0 touch {0}
        0 release {0} 0 0
        0 bury {0} 0
        1 reserve-with-timeout 0
        1 stats-job {0}
        1 delete {0}
    """,
    "ttr 0 is ttr 1": """
        0 put 0 0 0
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        beat
        0 stats-job {0}
    """,
    "a touch begins the time to run anew": """
        0 put 0 0 2
        0 reserve-with-timeout 0
        beat
        0 touch {0}
        beat
        0 touch {0}
        beat
        0 stats-job {0}
        0 touch {0}
        beat
        0 stats-job {0}
        0 delete {0}
    """,
    "the safety margin ends a wait that has begun": """
        0 put 0 0 2
        0 reserve-with-timeout 0
        0 waits reserve
        beat
        1 stats-job {0}
        beat
        1 stats-job {0}
        0 stats-job {0}
        0 release {0} 7 0
        0 reserve-with-timeout 0
    """,
    "in the safety margin nobody is made to wait": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        0 reserve-with-timeout 100
        0 put 9 0 60
        0 reserve-with-timeout 0
        0 stats-job {1}
    """,
    "a job that comes back serves a waiting client": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        1 waits reserve
        beat
        2 stats-tube a
        beat
        2 stats-job {0}
        1 release {0} 0 0
    """,
    "release with a delay": """
        0 put 0 0 60
        0 reserve-with-timeout 0
        0 release {0} 3 1
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        0 stats-job {0}
    """,
    "a pause ends": """
        0 put 0 0 60
        0 pause-tube a 1
        0 stats-tube a
        0 peek-ready
        0 reserve-with-timeout 0
        0 waits reserve
        beat
        1 reserve-job {0}
        1 release {0} 0 0
        beat
        1 stats-job {0}
    """,
    "a job falls due in a paused tube": """
        0 put 0 1 60
        0 pause-tube a 2
        beat
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 reserve-with-timeout 0
        0 stats-tube a
    """,
    "a pause is over at once when it is set to nothing": """
        0 pause-tube a 100
        0 put 0 0 60
        1 waits reserve
        0 pause-tube a 0
        beat
        1 delete {0}
        0 stats-tube a
    """,
    "a buried job has no time to run": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        0 bury {0} 4
        beat
        beat
        0 stats-job {0}
        0 peek-buried
        0 kick 1
        0 stats-job {0}
        0 reserve-with-timeout 0
    """,
    "kicked before it is due": """
        0 put 0 2 60
        0 put 0 1 60
        0 kick 1
        0 peek-ready
        0 kick-job {0}
        0 kick 1
        beat
        0 stats-job {0}
        0 stats-job {1}
        beat
        0 stats-tube a
    """,
    "what a client held is back when it leaves": """
        0 put 0 0 60
        0 put 1 0 60
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        1 waits reserve
        0 close
        beat
        1 stats-job {0}
        1 stats-job {1}
    """,
    "a wait is given up": """
        0 waits reserve
        0 close
        0 put 0 0 60
        beat
        0 stats-tube a
        0 reserve-with-timeout 0
    """,
    "reserve-job takes what is not due, and its delay is over": """
        0 put 0 1 60
        0 reserve-job {0}
        beat
        beat
        0 stats-job {0}
        0 release {0} 0 0
        0 reserve-with-timeout 0
    """,
}
