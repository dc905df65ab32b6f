// The sources, the sink and the recorder of the comparisons, one program.
//
//   traffic steady ADDRESS PORT SIZE PERIOD_NS START_NS END_NS   UDP packets of SIZE bytes, IP header included
//   traffic replay ADDRESS FILE START_NS MAJOR                   UDP packets as the file says, one a line: nanoseconds after the
//                                                                start, bytes with the IP header, flow, traffic class; to port 5002.
//                                                                Flow n asks for class MAJOR:n+1 of the qdisc; with 0, for none
//   traffic bulk   ADDRESS PORT CONGESTION START_NS END_NS       TCP that always has something to send
//   traffic sink   END_NS                                        takes TCP on port 5001, UDP on 5002 and 5003
//   traffic record DEVICE FILE END_NS                            every packet of ports 5001 and 5002, see struct record
//
// Times are of CLOCK_MONOTONIC, which counts from the guest's boot, so that they mean the same in every process.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TCP_PORT = 5001, STAMPED_PORT = 5002, IGNORED_PORT = 5003, SECOND = 1000000000 };

// What `steady` writes into its packets.
struct stamp {
    uint64_t sequence;
    int64_t sent_ns;
} __attribute__((packed));

// What `record` writes; little endian as the machine is. For UDP, sequence and sent_ns are the stamp's, and acknowledged is the
// traffic class.
struct record {
    int64_t time_ns;
    int64_t sent_ns;
    uint32_t sequence, acknowledged;
    uint16_t bytes, payload, identification;
    uint8_t outgoing, protocol;
} __attribute__((packed));

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * (int64_t)SECOND + now.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec until = {ns / SECOND, ns % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

static struct sockaddr_in address(const char *host, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1) errx(2, "%s is no address", host);
    return at;
}

static int bound(int kind, int port) {
    struct sockaddr_in at = address("0.0.0.0", port);
    int fd = socket(AF_INET, kind, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0) err(1, "port %d", port);
    return fd;
}

static void steady(char **word) {
    struct sockaddr_in to = address(word[0], atoi(word[1]));
    size_t payload = atoi(word[2]) - sizeof(struct iphdr) - sizeof(struct udphdr);
    int64_t period = atoll(word[3]), at = atoll(word[4]), end = atoll(word[5]);
    char packet[2048] = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (payload < sizeof(struct stamp) || payload > sizeof packet) errx(2, "size %s", word[2]);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) err(1, "connect");
    for (struct stamp stamp = {0}; at < end; at += period, stamp.sequence++) {
        sleep_until(at);
        stamp.sent_ns = read_clock(CLOCK_MONOTONIC);
        memcpy(packet, &stamp, sizeof stamp);
        if (send(fd, packet, payload, 0) < 0) err(1, "send");
    }
}

// A socket for each flow, with a port of its own. The guest's clock moves on by 256 ns when it is read and else only between events, and a
// sleeper wakes some steps late: it sleeps a little less, and then asks.
static void replay(char **word) {
    enum { FLOWS = 64, MOST = 1 << 18, FIRST_PORT = 20000, EARLY_NS = 2048 };
    static struct row {
        int64_t after_ns;
        int bytes, flow, class;
    } rows[MOST];
    struct sockaddr_in to = address(word[0], STAMPED_PORT);
    int64_t start = atoll(word[2]);
    uint32_t major = atoi(word[3]);
    int count = 0, sockets[FLOWS] = {0}, classes[FLOWS] = {0}, room = 256 << 20;
    static char packet[2048];
    FILE *file = fopen(word[1], "r");
    if (!file) err(1, "%s", word[1]);
    for (struct row row; fscanf(file, "%ld %d %d %d", &row.after_ns, &row.bytes, &row.flow, &row.class) == 4;) {
        if (count == MOST || row.flow < 0 || row.flow >= FLOWS || row.bytes < 44 || row.bytes > 1500)
            errx(2, "%s: row %d", word[1], count);
        rows[count++] = row;
    }
    for (int i = 0; i < count; i++) {
        int *fd = &sockets[rows[i].flow];
        if (*fd == 0) {
            struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(FIRST_PORT + rows[i].flow)};
            *fd = socket(AF_INET, SOCK_DGRAM, 0);
            if (*fd < 0 || bind(*fd, (struct sockaddr *)&from, sizeof from) < 0) err(1, "flow %d", rows[i].flow);
            if (connect(*fd, (struct sockaddr *)&to, sizeof to) < 0) err(1, "connect");
            // What waits in a queue is charged to its socket.
            setsockopt(*fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
            classes[rows[i].flow] = -1;
        }
        int64_t at = start + rows[i].after_ns, now;
        sleep_until(at - EARLY_NS);
        while ((now = read_clock(CLOCK_MONOTONIC)) < at) {}
        if (now > at + EARLY_NS) errx(1, "row %d is %ld ns late", i, now - at);
        if (classes[rows[i].flow] != rows[i].class) {
            classes[rows[i].flow] = rows[i].class;
            setsockopt(*fd, IPPROTO_IP, IP_TOS, &rows[i].class, sizeof rows[i].class);
            // The kernel has set the priority by the class.
            uint32_t priority = major << 16 | (rows[i].flow + 1);
            if (major && setsockopt(*fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority) < 0) err(1, "priority");
        }
        struct stamp stamp = {.sequence = i, .sent_ns = at};
        memcpy(packet, &stamp, sizeof stamp);
        if (send(*fd, packet, rows[i].bytes - sizeof(struct iphdr) - sizeof(struct udphdr), 0) < 0) err(1, "send");
    }
}

static void bulk(char **word) {
    struct sockaddr_in to = address(word[0], atoi(word[1]));
    int64_t end = atoll(word[4]);
    static char data[65536];
    int room = 1 << 20, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, word[2], strlen(word[2])) < 0) err(1, "%s", word[2]);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    sleep_until(atoll(word[3]));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) err(1, "connect");
    while (read_clock(CLOCK_MONOTONIC) < end)
        if (send(fd, data, sizeof data, 0) < 0) err(1, "send");
    struct tcp_info info;
    socklen_t length = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
    printf("segment %u retransmitted %u\n", info.tcpi_snd_mss, info.tcpi_total_retrans);
}

static void sink(char **word) {
    int64_t end = atoll(word[0]), left, received = 0;
    static char data[1 << 20];
    int listener = bound(SOCK_STREAM, TCP_PORT);
    // Nobody reads these two: without them the kernel would answer that the port is closed.
    bound(SOCK_DGRAM, STAMPED_PORT);
    bound(SOCK_DGRAM, IGNORED_PORT);
    listen(listener, 1);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    while ((left = end - read_clock(CLOCK_MONOTONIC)) > 0) {
        if (poll(&wait, 1, left / 1000000 + 1) < 1) continue;
        if (wait.fd == listener) wait.fd = accept(listener, NULL, NULL);
        else {
            ssize_t got = recv(wait.fd, data, sizeof data, 0);
            if (got <= 0) break;
            received += got;
        }
    }
    printf("received %lld\n", (long long)received);
}

static int parse(const unsigned char *packet, struct record *record) {
    const struct iphdr *ip = (const void *)packet;
    const unsigned char *inner = packet + ip->ihl * 4;
    record->bytes = ntohs(ip->tot_len);
    record->identification = ntohs(ip->id);
    record->protocol = ip->protocol;
    if (ip->protocol == IPPROTO_TCP) {
        const struct tcphdr *tcp = (const void *)inner;
        record->sequence = ntohl(tcp->seq);
        record->acknowledged = ntohl(tcp->ack_seq);
        record->payload = record->bytes - ip->ihl * 4 - tcp->doff * 4;
        return ntohs(tcp->dest) == TCP_PORT || ntohs(tcp->source) == TCP_PORT;
    }
    if (ip->protocol != IPPROTO_UDP || ntohs(((const struct udphdr *)inner)->dest) != STAMPED_PORT) return 0;
    struct stamp stamp;
    memcpy(&stamp, inner + sizeof(struct udphdr), sizeof stamp);
    record->sequence = stamp.sequence;
    record->sent_ns = stamp.sent_ns;
    record->acknowledged = ip->tos;
    return 1;
}

// Wakes now and then rather than for every packet: the kernel stamps them, and waking is what costs.
static void record(char **word) {
    enum { BATCH = 256 };
    static unsigned char packets[BATCH][128], control[BATCH][64];
    static struct sockaddr_ll from[BATCH];
    static struct iovec parts[BATCH];
    static struct mmsghdr batch[BATCH];
    // Packets that leave are shown to those alone who ask for every protocol.
    struct sockaddr_ll on = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(word[0])};
    int64_t end = atoll(word[2]), ahead = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);
    int room = 64 << 20, yes = 1, fd = socket(AF_PACKET, SOCK_DGRAM, 0);
    FILE *file = fopen(word[1], "w");
    if (fd < 0 || !file || bind(fd, (struct sockaddr *)&on, sizeof on) < 0) err(1, "record %s", word[0]);
    setvbuf(file, NULL, _IOFBF, 1 << 20);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
    for (int64_t at = read_clock(CLOCK_MONOTONIC); at < end; sleep_until(at += SECOND / 10)) {
        for (int got = BATCH; got == BATCH;) {
            for (int i = 0; i < BATCH; i++) {
                parts[i] = (struct iovec){packets[i], sizeof packets[i]};
                batch[i].msg_hdr = (struct msghdr){
                    &from[i], sizeof from[i], &parts[i], 1, control[i], sizeof control[i], 0};
            }
            got = recvmmsg(fd, batch, BATCH, MSG_DONTWAIT, NULL);
            for (int i = 0; i < got; i++) {
                struct record record = {.outgoing = from[i].sll_pkttype == PACKET_OUTGOING};
                struct timespec when;
                memcpy(&when, CMSG_DATA(CMSG_FIRSTHDR(&batch[i].msg_hdr)), sizeof when);
                record.time_ns = when.tv_sec * (int64_t)SECOND + when.tv_nsec - ahead;
                int is_ip = from[i].sll_protocol == htons(ETH_P_IP);
                if (is_ip && parse(packets[i], &record)) fwrite(&record, sizeof record, 1, file);
            }
        }
    }
    struct tpacket_stats lost;
    socklen_t length = sizeof lost;
    getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &lost, &length);
    if (fclose(file) != 0 || lost.tp_drops > 0) errx(1, "%s is incomplete, %u missed", word[1], lost.tp_drops);
}

int main(int count, char **word) {
    static const struct {
        const char *name;
        int words;
        void (*run)(char **);
    } verbs[] = {{"steady", 6, steady}, {"replay", 4, replay}, {"bulk", 5, bulk}, {"sink", 1, sink}, {"record", 3, record}};
    // The kernel would round a sleep up by as much as 50 µs to save power.
    prctl(PR_SET_TIMERSLACK, 1);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (count == verbs[i].words + 2 && strcmp(word[1], verbs[i].name) == 0) {
            verbs[i].run(word + 2);
            return 0;
        }
    errx(2, "see the head of traffic.c");
}
