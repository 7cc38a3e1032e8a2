#ifndef CZLIB_H
#define CZLIB_H

#include <stddef.h>

// One inflating stream: zlib keeps it behind macros and a struct that must not move.
typedef struct czlib_stream czlib_stream;

// NULL without memory.
czlib_stream *czlib_new(int is_gzip);
void czlib_free(czlib_stream *stream);

enum { CZLIB_MORE = 0, CZLIB_END = 1, CZLIB_BROKEN = -1 };

// Inflates as much as fits; says how much of the input was taken and how much of the room was filled. After CZLIB_END,
// more input begins another gzip member. A deflate stream may come with zlib's frame or without one.
int czlib_inflate(
    czlib_stream *stream, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled);

#endif
