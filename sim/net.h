/*
 * port/net.h in memory: clients are `sim_peer`s of the test. Bytes reach the server whole or cut
 * anywhere, a peer may take few bytes at a time, shut its side, or vanish.
 *
 * sleep() does nothing: the world moves the clock (see sim/world).
 */
#ifndef LATERD_SIM_NET_H
#define LATERD_SIM_NET_H

#include "port/net.h"
#include "sim/random.h"

struct sim_net;
struct sim_peer;

struct sim_net *sim_net_new(uint64_t seed);
void sim_net_free(struct sim_net *net); /* and all peers */
struct net *sim_net_port(struct sim_net *net);

/* Cut what peers send at random places and show it piece by piece, one piece a gather. */
void sim_net_split(struct sim_net *net, bool split);

/* A server begins to listen. Connections of one before it are no more, connected or about to be. */
void sim_net_listen(struct sim_net *net);

struct sim_peer *sim_net_connect(struct sim_net *net, unsigned listener);
void sim_peer_free(struct sim_peer *peer); /* resets it, if the server still has it */

void sim_peer_send(struct sim_peer *peer, struct bytes bytes);
void sim_peer_shut(struct sim_peer *peer);  /* after what was sent: end of input */
void sim_peer_reset(struct sim_peer *peer); /* gone at once, bytes on the way are lost */
/* The peer takes at most so many further bytes; SIZE_MAX (at first) = all. */
void sim_peer_window(struct sim_peer *peer, size_t bytes);

struct bytes sim_peer_received(const struct sim_peer *peer);
void sim_peer_take(struct sim_peer *peer, size_t count); /* forgets that many received bytes */
bool sim_peer_closed(const struct sim_peer *peer);       /* by the server */

/* Is there anything a gather would tell the server? */
bool sim_net_pending(const struct sim_net *net);

#endif
