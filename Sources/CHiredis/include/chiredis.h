#pragma once
// The reader and the formatter of hiredis, and nothing else of it.
// No header of hiredis or of the system is included here: their types would be declared a second time beside those of
// the Glibc module.
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

// Takes one node of a reply, an array before its elements. `number` is an integer's value or an array's count; `bytes`
// are valid during the call. 0 gives the reply up.
typedef int (*chiredis_record)(void *context, int kind, long long number, const char *bytes, size_t count);

// NULL without memory.
void *chiredis_reader_new(chiredis_record record, void *context);
void chiredis_reader_free(void *reader);
// Copies the bytes. 0 if the reader is broken or without memory.
int chiredis_reader_feed(void *reader, const void *bytes, size_t count);
// Reads one reply: 1 when it is complete, 0 when more bytes are needed, -1 when the stream is broken for good.
int chiredis_reader_next(void *reader);
// Bytes that were fed and do not belong to a node that was recorded.
size_t chiredis_reader_waiting(void *reader);
// Why the stream is broken.
const char *chiredis_reader_fault(void *reader);

// A command as bytes, to be freed; NULL without memory.
char *chiredis_format(int argc, const char **argv, const size_t *counts, size_t *count);
void chiredis_format_free(char *command);
