// An OpenAI-compatible server that costs next to nothing: what stands in front of it is measured.
//
//   upstream PORT CHUNKS
//
// Any POST is answered. With "stream":true in its body it gets CHUNKS events, one every N ms where
// the body names a model "mock-<N>ms", else all at once; each event says when it was made, as
// "@<nanoseconds of CLOCK_MONOTONIC, 19 digits>@". Then usage and [DONE]. One thread, epoll.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
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

enum { READ_MAX = 1 << 16, EVENTS = 512, STAMP_DIGITS = 19 };

typedef struct Conn {
    int fd, held, left; // held: bytes of requests in `in`; left: events still to send
    uint64_t due, every;
    struct Conn *next; // in the queue of its period
    int is_queued, is_gone;
    char in[READ_MAX];
} Conn;

typedef struct { uint64_t every; Conn *first, *last; } Queue; // of one period: always in order

static Queue queues[16];
static int poller, chunks;
static char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
static char event[512], ending[1024], whole[1024];
static int event_size, stamp_at, ending_size, whole_size;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void say(Conn *c, const char *data, int size) {
    while (size > 0 && !c->is_gone) {
        ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { c->is_gone = 1; return; } // a reader this slow has no place in a benchmark
        data += n, size -= n;
    }
}

static void say_event(Conn *c) {
    char copy[sizeof event];
    uint64_t t = now();
    memcpy(copy, event, event_size);
    for (int i = STAMP_DIGITS - 1; i >= 0; i--, t /= 10) copy[stamp_at + i] = '0' + t % 10;
    say(c, copy, event_size);
    if (--c->left == 0) say(c, ending, ending_size);
}

static void enqueue(Conn *c) {
    Queue *q = queues;
    while (q->every && q->every != c->every) q++;
    q->every = c->every, c->next = NULL, c->is_queued = 1;
    if (q->last && q->first) q->last->next = c; else q->first = c;
    q->last = c;
}

static void answer(Conn *c, const char *body) {
    if (!strstr(body, "\"stream\":true")) { say(c, whole, whole_size); return; }
    const char *period = strstr(body, "mock-");
    c->every = period ? strtoull(period + 5, NULL, 10) * 1000000ull : 0;
    c->left = chunks;
    say(c, head, sizeof head - 1);
    if (c->every) { c->due = now() + c->every; enqueue(c); }
    else while (c->left) say_event(c);
}

static void read_requests(Conn *c) {
    for (;;) {
        c->in[c->held] = 0;
        char *end = strstr(c->in, "\r\n\r\n");
        if (!end) return;
        char *length = strcasestr(c->in, "content-length:");
        int size = end + 4 - c->in + (length && length < end ? atoi(length + 15) : 0);
        if (size > c->held) return;
        char kept = c->in[size];
        c->in[size] = 0;
        answer(c, end + 4);
        c->in[size] = kept;
        memmove(c->in, c->in + size, c->held -= size);
    }
}

static void drop(Conn *c) {
    c->is_gone = 1;
    if (c->fd >= 0) close(c->fd), c->fd = -1;
    if (!c->is_queued) free(c);
}

static int run_queues(void) { // answers in how many ms the next event is due, -1 for none
    uint64_t soonest = 0, t = now();
    for (Queue *q = queues; q->every; q++) {
        while (q->first && q->first->due <= t) {
            Conn *c = q->first;
            q->first = c->next, c->is_queued = 0;
            if (!q->first) q->last = NULL;
            if (!c->is_gone) say_event(c);
            if (c->is_gone) drop(c);
            else if (c->left) c->due += c->every, enqueue(c);
        }
        if (q->first && (!soonest || q->first->due < soonest)) soonest = q->first->due;
    }
    return !soonest ? -1 : soonest <= t ? 0 : (int)((soonest - t) / 1000000);
}

static int chunk(char *to, int room, const char *json) { // one event as a chunk of HTTP
    int size = strlen(json) + 8; // "data: " and two line ends
    return snprintf(to, room, "%x\r\ndata: %s\n\n\r\n", size, json);
}

static void prepare(void) {
    const char *base = "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",";
    char json[512];
    snprintf(json, sizeof json, "%s\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@0000000000000000000@ word\"},\"finish_reason\":null}]}", base);
    event_size = chunk(event, sizeof event, json);
    stamp_at = strchr(event, '@') + 1 - event;
    snprintf(json, sizeof json, "%s\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}", base);
    ending_size = chunk(ending, sizeof ending, json);
    snprintf(json, sizeof json, "%s\"choices\":[],\"usage\":{\"prompt_tokens\":57,\"completion_tokens\":%d,\"total_tokens\":%d}}", base, chunks, 57 + chunks);
    ending_size += chunk(ending + ending_size, sizeof ending - ending_size, json);
    ending_size += snprintf(ending + ending_size, sizeof ending - ending_size, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    int size = snprintf(json, sizeof json, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A parcel that arrives without one of its items is replaced or refunded within five days; write to us with your order number and we shall see to it.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":57,\"completion_tokens\":%d,\"total_tokens\":%d}}", chunks, 57 + chunks);
    whole_size = snprintf(whole, sizeof whole, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, json);
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: upstream PORT CHUNKS\n"), 2;
    chunks = atoi(words[2]);
    prepare();
    int one = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (void *)&at, sizeof at) || listen(door, 4096)) return perror("upstream"), 1;
    poller = epoll_create1(0);
    epoll_ctl(poller, EPOLL_CTL_ADD, door, &(struct epoll_event){.events = EPOLLIN});
    static struct epoll_event found[EVENTS];
    for (;;) {
        int n = epoll_wait(poller, found, EVENTS, run_queues());
        for (int i = 0; i < n; i++) {
            Conn *c = found[i].data.ptr;
            if (!c) {
                for (int fd; (fd = accept4(door, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    c = calloc(1, sizeof *c), c->fd = fd;
                    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
                }
                continue;
            }
            ssize_t size = recv(c->fd, c->in + c->held, READ_MAX - 1 - c->held, 0);
            if (size > 0) c->held += size, read_requests(c);
            if (size == 0 || (size < 0 && errno != EAGAIN) || c->is_gone) drop(c);
        }
    }
}
