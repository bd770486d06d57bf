/* Tells the service manager how we are (the sd_notify(3) protocol: one datagram). */
#ifndef LATERD_OS_NOTIFY_H
#define LATERD_OS_NOTIFY_H

/* `state` is e.g. "READY=1\nSTATUS=serving". Does nothing when there is no service manager (no
   NOTIFY_SOCKET in the environment) or it does not listen: that is no error of ours. */
void notify_manager(const char *state);

#endif
