// An open-loop client of HTTP/1.1: sends requests when they are due, whatever becomes of those before, and measures each from then.
// So a request that waits behind others, in the gateway or here, counts with its wait (no coordinated omission). Arrivals are random
// (Poisson), with the same seed for the same arguments.
//
//     openloop PORT RATE SECONDS CONNECTIONS [tls] <REQUEST
//
// The first tenth of the time is not counted. Prints, of what was due within SECONDS: the answers; how many were missing or not 200; the 50th, 99th and 99.9th percentile and the maximum of the time from
// due to answered, and the 99th of the time from due to sent, in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct connection {
    int fd;
    SSL *ssl;
    uint64_t due, sent;
    size_t left; // bytes of the answer's content that are missing; SIZE_MAX: its head is
    size_t head_bytes;
    char head[4096];
    struct connection *next;
};

static struct connection *idle;
static char request[16384];
static size_t request_bytes, answers, faults, records;
static uint64_t counts_from, stop;
static double *taken, *waited;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// Nanoseconds to the next arrival.
static uint64_t interval(double rate) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint64_t)(-log(((state >> 11) + 1) * 0x1p-53) / rate * 1e9);
}

static void begin(struct connection *c, uint64_t due) {
    c->due = due, c->sent = now(), c->left = SIZE_MAX, c->head_bytes = 0;
    long count = c->ssl ? SSL_write(c->ssl, request, (int)request_bytes) : write(c->fd, request, request_bytes);
    if (count != (long)request_bytes) fail("the gateway takes no request");
}

static void answered(struct connection *c) {
    if (c->due >= counts_from && c->due < stop) {
        if (strncmp(c->head, "HTTP/1.1 200", 12) != 0) faults++;
        taken[records] = (double)(now() - c->due) / 1000, waited[records++] = (double)(c->sent - c->due) / 1000;
        answers++;
    }
    c->next = idle, idle = c;
}

// Takes what has arrived of the answer.
static void receive(struct connection *c) {
    static char bytes[65536];
    for (;;) {
        long count = c->ssl ? SSL_read(c->ssl, bytes, sizeof bytes) : read(c->fd, bytes, sizeof bytes);
        if (count <= 0) {
            if (c->ssl ? SSL_get_error(c->ssl, (int)count) == SSL_ERROR_WANT_READ : count < 0) return;
            fail("the gateway closed a connection");
        }
        size_t content = count;
        if (c->left == SIZE_MAX) {
            size_t room = sizeof c->head - 1 - c->head_bytes, part = content < room ? content : room;
            memcpy(c->head + c->head_bytes, bytes, part);
            c->head[c->head_bytes + part] = 0;
            char *end = strstr(c->head, "\r\n\r\n"), *length = strcasestr(c->head, "\r\ncontent-length:");
            if (!end) {
                c->head_bytes += part;
                continue;
            }
            content -= end + 4 - c->head - c->head_bytes;
            c->left = length ? strtoul(length + 17, NULL, 10) : 0;
        }
        c->left -= content;
        if (c->left == 0) return answered(c);
        if (!c->ssl && count < (long)sizeof bytes) return;
    }
}

static struct connection *open_connection(int port, SSL_CTX *tls) {
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (tls) {
        c->ssl = SSL_new(tls);
        SSL_set_fd(c->ssl, c->fd);
        if (SSL_connect(c->ssl) != 1) fail("TLS");
    }
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->next = idle, idle = c;
    return c;
}

static int rising(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

static double percentile(double *values, double part) {
    if (records == 0) return 0;
    size_t at = (size_t)(part * (double)records);
    return values[at < records ? at : records - 1];
}

int main(int count, char **words) {
    if (count < 5) return 2;
    int port = atoi(words[1]), connections = atoi(words[4]);
    double rate = atof(words[2]), seconds = atof(words[3]);
    if (rate <= 0) return 2;
    request_bytes = fread(request, 1, sizeof request, stdin);
    size_t most = (size_t)(rate * 1.2 * seconds) + 1000;
    taken = calloc(most, sizeof *taken), waited = calloc(most, sizeof *waited);
    SSL_CTX *tls = count > 5 ? SSL_CTX_new(TLS_client_method()) : NULL;
    int loop = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        struct connection *c = open_connection(port, tls);
        epoll_ctl(loop, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
    }
    // Requests that are due and find no idle connection; they keep their time.
    uint64_t *queue = calloc(most, sizeof *queue);
    size_t first = 0, last = 0;
    // Timers are otherwise 50 us late.
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t start = now() + 1000000, due = start;
    stop = start + (uint64_t)(seconds * 1e9), counts_from = start + (stop - start) / 10;
    // Answers are awaited for two more seconds.
    int busy = 0;
    for (uint64_t time = now(); time < stop + 2000000000; time = now()) {
        for (; due <= time && due < stop && last < most; due += interval(rate)) queue[last++] = due;
        for (; first < last && idle; first++) {
            struct connection *c = idle;
            idle = c->next;
            begin(c, queue[first]);
        }
        time = now();
        uint64_t wait = time >= stop ? 100000000 : due > time ? due - time : 0;
        if (time >= stop) {
            busy = connections;
            for (struct connection *c = idle; c; c = c->next) busy--;
            if (busy == 0 && first == last) break;
        }
        struct epoll_event events[64];
        struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        int ready = epoll_pwait2(loop, events, 64, &timeout, NULL);
        for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
    }
    faults += (size_t)busy + last - first;
    qsort(taken, records, sizeof *taken, rising);
    qsort(waited, records, sizeof *waited, rising);
    printf("%zu %zu %.1f %.1f %.1f %.1f %.1f\n", answers, faults, percentile(taken, .5), percentile(taken, .99), percentile(taken, .999),
        percentile(taken, 1), percentile(waited, .99));
    return 0;
}
