/* A robot of one axis that follows its set points. Build: cc -O2 -o device device.c
 * Try: taut robot --listen 0.0.0.0:4433 --trust taut:OPERATOR… --robot exec:./device
 * The layouts are those of docs/devices.md, for a little-endian machine; the compiler puts no gaps into them. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { LIMITS = 3, ENABLE = 4, APPLY = 5, STOP = 7, DEVICE = 65, MEASURED = 66, STOPPED = 68 };
enum { LEASE = 1, LIMITS_FORCE = 2 }; /* of DEVICE; a real arm says REAL, 4, too */

struct header { uint8_t kind, what, channel, flags; uint32_t number; };
struct state { uint8_t flags, zero; uint16_t gripper; float position[3], wxyz[4], velocity[3], force[3]; };
struct apply { struct header header; uint64_t until_ns; struct state state; };
struct measured { struct header header; float controller_force[3]; struct state state; };
struct limits { struct header header; float least[3], largest[3], speed, force; };
struct device { struct header header; float stiffness; char name[8]; };
struct stopped { struct header header; char why[4]; };

static uint64_t now_ns(void) { /* the clock of leases */
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void) {
    const char *number = getenv("TAUT_DEVICE_FD");
    if (!number) return 2;
    const int fd = atoi(number);
    float position = 0, target = 0;
    uint64_t until_ns = 0; /* when it stops by itself; 0: it stands */
    int enabled = 0;
    struct limits own = {{LIMITS, 0, 0, 0, 0}, {-1, 0, 0}, {1, 0, 0}, 0.5f, 20}; /* m, m/s, N; `taut robot` may set tighter ones */
    send(fd, &own, sizeof own, MSG_NOSIGNAL);
    struct device hello = {{DEVICE, 0, 0, LEASE | LIMITS_FORCE, 1}, 0, "one axis"};
    send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
    for (;;) {
        union { struct header header; struct apply apply; char bytes[1536]; } told;
        struct pollfd ready = {fd, POLLIN, 0};
        poll(&ready, 1, 1);
        ssize_t length; /* all that came: a stop may be behind a set point */
        while ((length = recv(fd, &told, sizeof told, MSG_DONTWAIT)) > 0) {
            if (told.header.kind == ENABLE) {
                enabled = 1;
            } else if (told.header.kind == APPLY && enabled && told.apply.until_ns > now_ns()) {
                target = told.apply.state.position[0];
                until_ns = told.apply.until_ns;
            } else if (told.header.kind == STOP) {
                enabled = 0;
                until_ns = 0;
                target = position;
                struct stopped answer = {{STOPPED, 0, 0, 0, told.header.number}, "told"};
                send(fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL);
            }
        }
        if (length == 0) return 0; /* taut is gone: the axis stands, for nothing moves it any more */
        if (enabled && until_ns && now_ns() >= until_ns) { /* the lease is over */
            enabled = 0;
            until_ns = 0;
            target = position;
            struct stopped lease = {{STOPPED, 0, 0, 0, 0}, "over"};
            send(fd, &lease, sizeof lease, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        const float step = (target - position) * 0.05f; /* here a motor would be */
        position += step;
        struct measured report;
        memset(&report, 0, sizeof report);
        report.header.kind = MEASURED;
        report.state.position[0] = position;
        report.state.velocity[0] = step * 1000;
        report.state.wxyz[0] = 1;
        send(fd, &report, sizeof report, MSG_DONTWAIT | MSG_NOSIGNAL); /* who does not read in time misses one */
    }
}
