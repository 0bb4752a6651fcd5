// Callers of a gateway: one raw request, sent over and over on keep-alive connections.
//
//   load PORT CONNECTIONS RATE WARM_S SECONDS CHUNKS < request
//
// RATE 0: each connection asks again as soon as it is answered. Else RATE calls a second start on
// time, whoever is still waiting, and latency counts from the time a call should have started.
// CHUNKS above 0: answers are streams of so many stamped events (see upstream.c). After WARM_S
// everything is counted for SECONDS; figures are printed as JSON, times in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, SAMPLES_MAX = 1 << 24, STAMP_DIGITS = 19 };

typedef struct {
    int fd, is_busy, head_size, events, tail; // tail: last bytes of a chunked answer seen, 0 to 5
    long missing;                             // bytes of body still to come; -1: chunked
    uint64_t began, stamp;
    int digits, is_good;
    char head[HEAD_MAX];
} Conn;

typedef struct { uint32_t *us; size_t count; } Samples;

static Conn *conns;
static int *idle, idle_count, poller, chunks;
static struct sockaddr_in at = {.sin_family = AF_INET};
static char request[1 << 20];
static size_t request_size;
static uint64_t counted_from, ends;
static Samples latency, relay;
static long answered, failed, received;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int is_counted(uint64_t t) { return t > counted_from && t <= ends; }

static void sample(Samples *s, uint64_t ns) {
    if (s->count < SAMPLES_MAX) s->us[s->count++] = ns / 1000 > UINT32_MAX ? UINT32_MAX : ns / 1000;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double quantile(const Samples *s, double q) {
    return s->count ? (double)s->us[(size_t)(q * (s->count - 1))] : -1.0;
}

static void dial(Conn *c) {
    int one = 1;
    if (c->fd > 0) close(c->fd);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (void *)&at, sizeof at)) usleep(1000);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
}

static void ask(Conn *c, uint64_t began) {
    c->is_busy = 1, c->head_size = c->events = c->tail = c->digits = c->is_good = 0;
    c->began = began;
    if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) {
        dial(c);
        if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) failed++;
    }
}

static void finish(Conn *c, int is_whole, double rate) {
    uint64_t t = now();
    int is_good = is_whole && c->is_good && c->events == chunks;
    if (is_counted(t)) {
        if (is_good) answered++, sample(&latency, t - c->began); else failed++;
    }
    c->is_busy = 0;
    if (!is_whole || strcasestr(c->head, "\r\nconnection: close")) dial(c);
    if (rate <= 0) ask(c, now()); else idle[idle_count++] = c - conns;
}

static void read_stamps(Conn *c, const char *data, ssize_t size) { // "@", 19 digits, "@"
    uint64_t t = now();
    for (ssize_t i = 0; i < size; i++) {
        char x = data[i];
        if (c->digits && x >= '0' && x <= '9') c->stamp = c->stamp * 10 + (x - '0'), c->digits++;
        else if (x == '@' && c->digits == STAMP_DIGITS + 1) {
            c->events++, c->digits = 0;
            if (is_counted(t)) received++, sample(&relay, t > c->stamp ? t - c->stamp : 0);
        } else c->digits = x == '@', c->stamp = 0;
    }
}

static int read_body(Conn *c, const char *data, ssize_t size) { // answers 1 at the end
    if (chunks) read_stamps(c, data, size);
    if (c->missing >= 0) return (c->missing -= size) <= 0;
    static const char last[] = "0\r\n\r\n"; // of a chunked body; JSON and SSE never hold it
    for (ssize_t i = 0; i < size; i++) c->tail = data[i] == last[c->tail] ? c->tail + 1 : data[i] == '0';
    return c->tail == 5;
}

static int take(Conn *c, const char *data, ssize_t size) { // answers 1 at the end of the answer
    if (c->head_size < 0) return read_body(c, data, size);
    int room = HEAD_MAX - 1 - c->head_size, before = c->head_size;
    int part = size < room ? size : room;
    memcpy(c->head + before, data, part);
    c->head[c->head_size += part] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return 0;
    end[2] = 0;
    int used = end + 4 - c->head - before;
    c->is_good = atoi(c->head + 9) == 200;
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->missing = length ? atol(length + 17) : -1;
    c->head_size = -1;
    return c->missing == 0 || (size > used && read_body(c, data + used, size - used));
}

int main(int count, char **words) {
    if (count != 7) return fprintf(stderr, "usage: load PORT CONNECTIONS RATE WARM_S SECONDS CHUNKS < request\n"), 2;
    int number = atoi(words[2]);
    double rate = atof(words[3]), seconds = atof(words[5]);
    at.sin_port = htons(atoi(words[1])), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    chunks = atoi(words[6]);
    request_size = fread(request, 1, sizeof request, stdin);
    latency.us = malloc(SAMPLES_MAX * sizeof(uint32_t)), relay.us = malloc(SAMPLES_MAX * sizeof(uint32_t));
    conns = calloc(number, sizeof *conns), idle = calloc(number, sizeof *idle);
    poller = epoll_create1(0);
    for (int i = 0; i < number; i++) dial(&conns[i]);
    uint64_t start = now(), begun = 0, every = rate > 0 ? 1e9 / rate : 0;
    counted_from = start + atof(words[4]) * 1e9, ends = counted_from + seconds * 1e9;
    for (int i = number - 1; i >= 0; i--) if (rate > 0) idle[idle_count++] = i; else ask(&conns[i], now());
    static struct epoll_event found[1024];
    static char buffer[1 << 18];
    for (uint64_t t; (t = now()) < ends;) {
        uint64_t next = ends;
        while (every && idle_count && start + begun * every <= t) ask(&conns[idle[--idle_count]], start + begun++ * every);
        if (every && idle_count && start + begun * every < next) next = start + begun * every;
        struct timespec wait = {(next - t) / 1000000000, (next - t) % 1000000000};
        int n = epoll_pwait2(poller, found, 1024, &wait, NULL);
        for (int i = 0; i < n; i++) {
            Conn *c = found[i].data.ptr;
            ssize_t size = recv(c->fd, buffer, sizeof buffer, 0);
            if (size > 0 && c->is_busy && take(c, buffer, size)) finish(c, 1, rate);
            else if (size == 0 || (size < 0 && errno != EAGAIN)) { if (c->is_busy) finish(c, 0, rate); else dial(c); }
        }
    }
    qsort(latency.us, latency.count, sizeof(uint32_t), by_size);
    qsort(relay.us, relay.count, sizeof(uint32_t), by_size);
    printf("{\"answered\":%ld,\"failed\":%ld,\"per_s\":%.1f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"chunks_per_s\":%.1f,\"relay_p50_us\":%.0f,\"relay_p99_us\":%.0f}\n",
           answered, failed, answered / seconds, quantile(&latency, .5), quantile(&latency, .99), received / seconds, quantile(&relay, .5), quantile(&relay, .99));
}
