// Linux system calls that the Glibc module does not import, without any logic.
//
// Includes no system header, whose types would be declared a second time beside those of the Glibc module.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    CLINUX_READABLE = 0x001,
    CLINUX_WRITABLE = 0x004,
    CLINUX_ERROR = 0x008,
    CLINUX_HANGUP = 0x010,
};
enum { CLINUX_ADD = 1, CLINUX_REMOVE = 2, CLINUX_MODIFY = 3 };

typedef struct {
    uint64_t token;
    uint32_t events;
} clinux_ready;

int clinux_epoll_create(void);
int clinux_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token);
// epoll_wait, recv and send have none of glibc's cancellation points here, which cost time on every call in a process with threads.
// Returns at most 512 events.
int clinux_epoll_wait(int epoll, clinux_ready *ready, int capacity, int timeout_ms);
int clinux_eventfd(void);
ptrdiff_t clinux_receive(int fd, void *bytes, size_t count);
ptrdiff_t clinux_send(int fd, const void *bytes, size_t count);
int clinux_accept(int fd, void *address, unsigned int *length);
int clinux_socket(int family);
int clinux_pipe(int *read_end, int *write_end, int size);
// Splices between a socket and a pipe, non-blocking.
ptrdiff_t clinux_splice(int from, int to, size_t count);
// Two connected ends that keep the boundaries of messages (SOCK_SEQPACKET).
int clinux_channel(int ends[2]);
// Whether the process that made the other end runs as this user.
int clinux_is_peer_same_user(int channel);
// Sends a message with descriptors (SCM_RIGHTS), at most CLINUX_MOST_DESCRIPTORS. Never blocks.
enum { CLINUX_MOST_DESCRIPTORS = 253 };
ptrdiff_t clinux_send_descriptors(int channel, const void *bytes, size_t count, const int *fds, int fd_count);
// Receives a message, and into `fds` up to CLINUX_MOST_DESCRIPTORS descriptors, their number into `fd_count`. 0: the other end is closed.
ptrdiff_t clinux_receive_descriptors(int channel, void *bytes, size_t capacity, int *fds, int *fd_count);
// The number of cores that the process may use; 0 if unknown.
int clinux_core_count(void);
// The calling thread alone.
int clinux_pin_to_cpu(int cpu);
// Lowers the priority of the calling thread: sets its nice value and the length of its time slices in ns. Threads with shorter
// slices preempt it as soon as they wake (Linux 6.12 and newer).
void clinux_give_way(int nice, uint64_t turn);
// Sets the length of the calling thread's time slices in ns and keeps its priority. Refused or ignored before Linux 6.12.
void clinux_set_turn(uint64_t turn);
// Names the calling thread; the kernel keeps 15 bytes.
int clinux_name_thread(const char *name);
// Adds to `actions`, a posix_spawn_file_actions_t, that the program has no descriptor from `fd` on.
int clinux_spawn_closing_from(void *actions, int fd);
int clinux_temporary_file(char *template_path);
// Looks up SRV records by the system's resolver (resolv.conf(5) with its search list). Blocks. With a `port` other than 0 the query
// goes to `server` alone, an IPv4 address; both in host order. Returns the length of the answer, or the negated h_errno (netdb.h).
int clinux_query_srv(const char *name, uint32_t server, uint16_t port, uint8_t *answer, int capacity);
// Raises the soft limit on descriptors to the hard one; returns the limit in force, at most 2^30, or -1.
long clinux_raise_descriptor_limit(void);
