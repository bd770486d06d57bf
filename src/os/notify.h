/* Reports our state to the service manager, by the protocol of sd_notify(3): one datagram. */
#ifndef LATERD_OS_NOTIFY_H
#define LATERD_OS_NOTIFY_H

/* `state` is e.g. "READY=1\nSTATUS=serving". Does nothing if there is no service manager
   (NOTIFY_SOCKET in the environment), or if it does not listen. Any thread. */
void notify_manager(const char *state);

#endif
