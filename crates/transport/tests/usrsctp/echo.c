/* The peer of main.rs: takes one association over UDP and echoes each message on its stream, ordered or not as
 * it came. Arguments: our UDP port, the peer's. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usrsctp.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct socket *listen_on(uint16_t sctp_port, uint16_t peer_udp_port)
{
	struct socket *listener = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!listener)
		fail("socket");
	struct sctp_udpencaps encapsulation;
	memset(&encapsulation, 0, sizeof encapsulation);
	encapsulation.sue_address.ss_family = AF_INET;
	encapsulation.sue_port = htons(peer_udp_port);
	if (usrsctp_setsockopt(listener, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation,
			       sizeof encapsulation) < 0)
		fail("encapsulation");
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(sctp_port) };
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (usrsctp_bind(listener, (struct sockaddr *)&here, sizeof here) < 0)
		fail("bind");
	if (usrsctp_listen(listener, 1) < 0)
		fail("listen");
	return listener;
}

/* Until the peer shuts down; returns how many. */
static long echo_all(struct socket *peer)
{
	static char message[65536];
	long count = 0;
	for (;;) {
		struct sctp_rcvinfo info;
		struct sockaddr_in from;
		socklen_t info_length = sizeof info, from_length = sizeof from;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t length = usrsctp_recvv(peer, message, sizeof message, (struct sockaddr *)&from, &from_length, &info,
					       &info_length, &info_type, &flags);
		if (length <= 0)
			return count;
		if (flags & MSG_NOTIFICATION)
			continue;
		struct sctp_sndinfo out;
		memset(&out, 0, sizeof out);
		out.snd_sid = info.rcv_sid;
		out.snd_flags = info.rcv_flags & SCTP_UNORDERED;
		out.snd_ppid = info.rcv_ppid;
		if (usrsctp_sendv(peer, message, (size_t)length, NULL, 0, &out, sizeof out, SCTP_SENDV_SNDINFO, 0) < 0)
			fail("send");
		count++;
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	usrsctp_init((uint16_t)atoi(argv[1]), NULL, NULL);
	/* Checksums count on loopback too; partial reliability is on. */
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	usrsctp_sysctl_set_sctp_pr_enable(1);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	struct socket *listener = listen_on(5000, (uint16_t)atoi(argv[2]));
	puts("listening");
	fflush(stdout);
	struct socket *peer = usrsctp_accept(listener, NULL, NULL);
	if (!peer)
		fail("accept");
	int on = 1;
	usrsctp_setsockopt(peer, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
	usrsctp_setsockopt(peer, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
	printf("echoed %ld\n", echo_all(peer));
	return 0;
}
