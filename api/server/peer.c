#include "api/server/peer.h"

#include <netinet/in.h>
#include <sys/socket.h>

static uint32_t peer_uid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? UINT32_MAX : cred.uid;
}

static void read_address(const struct sockaddr *from, struct ip_addr *out)
{
	if (from && from->sa_family == AF_INET)
		*out = ip_addr_v4(&((const struct sockaddr_in *)from)->sin_addr);
	else if (from && from->sa_family == AF_INET6)
		memcpy(out->b, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(out->b));
}

void peer_read(const struct listener *l, struct MHD_Connection *c, struct api_peer *out)
{
	*out = (struct api_peer){.unix_socket = l->is_unix,
				 .loopback = l->loopback,
				 .tls = l->tls,
				 .read_only = l->read_only,
				 .uid = UINT32_MAX};
	if (l->is_unix)
		out->uid = peer_uid(
			MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
	else
		read_address(
			MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr,
			&out->address);
}
