#ifndef CCODINGS_H
#define CCODINGS_H

#include <stddef.h>

// Content codings of zlib, libbrotli and libzstd behind one interface. Their own have structs that must not move, and macros that Swift
// cannot import.
enum { CCODINGS_GZIP = 1, CCODINGS_DEFLATE = 2, CCODINGS_BROTLI = 3, CCODINGS_ZSTD = 4 };

// The results of a call: call again, finished, or failed (the content is malformed, or memory is exhausted).
enum { CCODINGS_MORE = 0, CCODINGS_END = 1, CCODINGS_BROKEN = -1 };

typedef struct ccodings_decoder ccodings_decoder;

// NULL without memory.
ccodings_decoder *ccodings_decoder_new(int coding);
void ccodings_decoder_free(ccodings_decoder *decoder);

// Decodes as much as fits; returns how much of the input was read and how much of the output was written. After CCODINGS_END, further
// input begins another gzip member or Zstandard frame. A deflate stream may have a zlib header or not.
int ccodings_decode(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled);

// Bytes that it holds.
size_t ccodings_decoder_size(const ccodings_decoder *decoder);

typedef struct ccodings_encoder ccodings_encoder;

// NULL without memory. Not for deflate.
ccodings_encoder *ccodings_encoder_new(int coding);
void ccodings_encoder_free(ccodings_encoder *encoder);

// Begins the next stream. That of gzip has a file name of so many letters, at most 255; 0 for none.
int ccodings_encoder_begin(ccodings_encoder *encoder, size_t name);

enum { CCODINGS_RUN = 0, CCODINGS_FLUSH = 1, CCODINGS_FINISH = 2 };

// Takes input, and with CCODINGS_FLUSH hands on all that it can be decoded to, with CCODINGS_FINISH ends the stream. CCODINGS_MORE: it is
// to be called again with the rest of the input and more room.
int ccodings_encode(
    ccodings_encoder *encoder, int step, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled);

// Bytes that it holds.
size_t ccodings_encoder_size(const ccodings_encoder *encoder);

#endif
