#pragma once
// The reply reader and the command formatter of hiredis.
// Includes no header of hiredis or the system, whose types would be declared a second time beside those of the Glibc module.
#include <stddef.h>

// The numbers are hiredis's own.
enum {
    CHIREDIS_BULK = 1,
    CHIREDIS_ARRAY = 2,
    CHIREDIS_INTEGER = 3,
    CHIREDIS_NIL = 4,
    CHIREDIS_STATUS = 5,
    CHIREDIS_ERROR = 6,
};

// Receives a node of a reply, an array before its elements. `number` is an integer's value or an array's count; `bytes` are
// valid during the call. Returning 0 aborts the reply.
typedef int (*chiredis_record)(void *context, int kind, long long number, const char *bytes, size_t count);

// NULL without memory.
void *chiredis_reader_new(chiredis_record record, void *context);
void chiredis_reader_free(void *reader);
// Feeds bytes, which are copied. 0 if the reader is broken or memory runs out.
int chiredis_reader_feed(void *reader, const void *bytes, size_t count);
// Reads one reply: 1 when it is complete, 0 when more bytes are needed, -1 when the stream is broken for good.
int chiredis_reader_next(void *reader);
// The number of bytes that were fed but not yet reported as a node.
size_t chiredis_reader_waiting(void *reader);
// The error of a broken stream.
const char *chiredis_reader_fault(void *reader);

// A command as bytes, which the caller frees; NULL if memory runs out.
char *chiredis_format(int argc, const char **argv, const size_t *counts, size_t *count);
void chiredis_format_free(char *command);
