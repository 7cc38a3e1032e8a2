// Linux calls that the Glibc module does not import. Each is the system call and nothing more.
//
// No system header is included here: their types would be declared a second time beside those of the Glibc module.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    CLINUX_READABLE = 0x001,
    CLINUX_WRITABLE = 0x004,
    CLINUX_ERROR = 0x008,
    CLINUX_HANGUP = 0x010,
};
enum { CLINUX_ADD = 1, CLINUX_MODIFY = 3 };

typedef struct {
    uint64_t token;
    uint32_t events;
} clinux_ready;

int clinux_epoll_create(void);
int clinux_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token);
// At most 512 reports at a time.
int clinux_epoll_wait(int epoll, clinux_ready *ready, int capacity, int timeout_ms);
int clinux_eventfd(void);
// In a process with threads, the library's recv and send are points of cancellation, which costs on every call.
ptrdiff_t clinux_receive(int fd, void *bytes, size_t count);
ptrdiff_t clinux_send(int fd, const void *bytes, size_t count);
int clinux_accept(int fd, void *address, unsigned int *length);
int clinux_socket(int family);
int clinux_pipe(int *read_end, int *write_end, int size);
// Between a socket and a pipe, without waiting for either.
ptrdiff_t clinux_splice(int from, int to, size_t count);
// The cores that the process may run on; 0 if the kernel does not say.
int clinux_core_count(void);
// The calling thread alone.
int clinux_pin_to_cpu(int cpu);
// The calling thread alone gives way to others: it gets less of a core that others want (`nice`), and asks for turns of so
// many nanoseconds, which lets whoever asks for shorter ones interrupt it as soon as they wake (Linux 6.12 and newer).
void clinux_give_way(int nice, uint64_t turn);
// The calling thread's; the system keeps 15 bytes.
int clinux_name_thread(const char *name);
int clinux_temporary_file(char *template_path);
