#define _GNU_SOURCE
#include "clinux.h"
#include <arpa/nameser.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(CLINUX_READABLE == EPOLLIN && CLINUX_WRITABLE == EPOLLOUT, "as the kernel has them");
_Static_assert(CLINUX_ERROR == EPOLLERR && CLINUX_HANGUP == EPOLLHUP, "as the kernel has them");
_Static_assert(CLINUX_ADD == EPOLL_CTL_ADD && CLINUX_REMOVE == EPOLL_CTL_DEL && CLINUX_MODIFY == EPOLL_CTL_MOD, "as the kernel has them");

int clinux_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int clinux_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token) {
    struct epoll_event event = {.events = events, .data = {.u64 = token}};
    return epoll_ctl(epoll, operation, fd, &event);
}

// The kernel's epoll_event is packed on some architectures, which Swift cannot express.
int clinux_epoll_wait(int epoll, clinux_ready *ready, int capacity, int timeout_ms) {
    struct epoll_event events[512];
    int count = (int)syscall(SYS_epoll_pwait, epoll, events, capacity < 512 ? capacity : 512, timeout_ms, NULL, (size_t)0);
    for (int i = 0; i < count; i++) ready[i] = (clinux_ready){.token = events[i].data.u64, .events = events[i].events};
    return count;
}

int clinux_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

ptrdiff_t clinux_receive(int fd, void *bytes, size_t count) { return syscall(SYS_recvfrom, fd, bytes, count, 0, NULL, NULL); }

ptrdiff_t clinux_send(int fd, const void *bytes, size_t count) {
    return syscall(SYS_sendto, fd, bytes, count, MSG_NOSIGNAL, NULL, 0);
}

int clinux_accept(int fd, void *address, unsigned int *length) {
    return accept4(fd, address, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int clinux_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int clinux_pipe(int *read_end, int *write_end, int size) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
    // Fails for users with many pipes. A smaller pipe works, too, in more steps.
    fcntl(ends[1], F_SETPIPE_SZ, size);
    *read_end = ends[0];
    *write_end = ends[1];
    return 0;
}

ptrdiff_t clinux_splice(int from, int to, size_t count) {
    return syscall(SYS_splice, from, NULL, to, NULL, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

int clinux_channel(int ends[2]) { return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends); }

int clinux_is_peer_same_user(int channel) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

ptrdiff_t clinux_send_descriptors(int channel, const void *bytes, size_t count, const int *fds, int fd_count) {
    union {
        char bytes[CMSG_SPACE(CLINUX_MOST_DESCRIPTORS * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0 && fd_count <= CLINUX_MOST_DESCRIPTORS) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(fd_count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    return sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ptrdiff_t clinux_receive_descriptors(int channel, void *bytes, size_t capacity, int *fds, int *fd_count) {
    union {
        char bytes[CMSG_SPACE(CLINUX_MOST_DESCRIPTORS * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = capacity};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *fd_count = 0;
    ptrdiff_t count = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (count < 0) return count;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        *fd_count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
    }
    return count;
}

int clinux_core_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

int clinux_pin_to_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

int clinux_name_thread(const char *name) { return prctl(PR_SET_NAME, name, 0, 0, 0); }

int clinux_spawn_closing_from(void *actions, int fd) { return posix_spawn_file_actions_addclosefrom_np(actions, fd); }

int clinux_temporary_file(char *template_path) { return mkostemp(template_path, O_CLOEXEC); }

// The kernel's struct (sched_setattr(2)), which glibc does not declare yet.
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static int schedule(int nice, uint64_t turn) {
    struct scheduling wish = {.size = sizeof wish, .policy = SCHED_OTHER, .nice = nice, .runtime = turn};
    return (int)syscall(SYS_sched_setattr, 0, &wish, 0);
}

void clinux_give_way(int nice, uint64_t turn) {
    if (schedule(nice, turn) != 0) setpriority(PRIO_PROCESS, 0, nice);
}

void clinux_set_turn(uint64_t turn) {
    // An operator's choice of another class stays.
    if (sched_getscheduler(0) == SCHED_OTHER) schedule(getpriority(PRIO_PROCESS, 0), turn);
}

int clinux_query_srv(const char *name, uint32_t server, uint16_t port, uint8_t *answer, int capacity) {
    struct __res_state state;
    memset(&state, 0, sizeof state);
    if (res_ninit(&state) != 0) return -NO_RECOVERY;
    if (port != 0) {
        state.nscount = 1;
        state.nsaddr_list[0] = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(server)}};
    }
    int length = res_nsearch(&state, name, ns_c_in, ns_t_srv, answer, capacity);
    int fault = state.res_h_errno > 0 ? state.res_h_errno : NO_RECOVERY;
    res_nclose(&state);
    if (length < 0) return -fault;
    return length < capacity ? length : capacity;
}

long clinux_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > 1L << 30 ? 1L << 30 : (long)limit.rlim_cur;
}
