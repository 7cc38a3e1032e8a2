// Linux calls that the Glibc module does not import. Each is the system call and nothing more.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

static inline int clinux_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

static inline int clinux_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token) {
    struct epoll_event event = {.events = events, .data = {.u64 = token}};
    return epoll_ctl(epoll, operation, fd, &event);
}

// epoll_event is packed; these two read it without Swift having to know its layout.
typedef struct epoll_event clinux_epoll_event;
static inline int clinux_epoll_wait(int epoll, clinux_epoll_event *events, int capacity, int timeout_ms) {
    return epoll_wait(epoll, events, capacity, timeout_ms);
}
static inline uint32_t clinux_epoll_event_events(const clinux_epoll_event *event) { return event->events; }
static inline uint64_t clinux_epoll_event_token(const clinux_epoll_event *event) { return event->data.u64; }

static inline int clinux_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

static inline int clinux_accept(int fd, struct sockaddr *address, socklen_t *length) {
    return accept4(fd, address, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static inline int clinux_socket(int family) {
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static inline ssize_t clinux_splice(int from, int to, size_t count) {
    return splice(from, NULL, to, NULL, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

static inline int clinux_pipe(int fds[2]) { return pipe2(fds, O_CLOEXEC | O_NONBLOCK); }

static inline int clinux_set_pipe_size(int fd, int bytes) { return fcntl(fd, F_SETPIPE_SZ, bytes); }
