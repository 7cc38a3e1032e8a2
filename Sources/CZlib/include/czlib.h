#ifndef CZLIB_H
#define CZLIB_H

#include <stddef.h>

// An inflate stream. zlib's own is a struct that must not move, behind macros that Swift cannot import.
typedef struct czlib_stream czlib_stream;

// NULL without memory.
czlib_stream *czlib_new(int is_gzip);
void czlib_free(czlib_stream *stream);

enum { CZLIB_MORE = 0, CZLIB_END = 1, CZLIB_BROKEN = -1 };

// Inflates as much as fits; returns how much of the input was read and how much of the output was written. After CZLIB_END,
// further input begins another gzip member. A deflate stream may have a zlib header or not.
int czlib_inflate(
    czlib_stream *stream, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled);

#endif
