#include "czlib.h"

#include <stdlib.h>
#include <zlib.h>

struct czlib_stream {
    z_stream zlib;
    int is_gzip;
    int is_open;
    int has_ended;
    // The first byte of a deflate stream, kept until the second one arrives.
    int first;
};

czlib_stream *czlib_new(int is_gzip) {
    czlib_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->is_gzip = is_gzip;
    stream->first = -1;
    return stream;
}

void czlib_free(czlib_stream *stream) {
    if (!stream) return;
    if (stream->is_open) inflateEnd(&stream->zlib);
    free(stream);
}

static int run(czlib_stream *stream, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    stream->zlib.next_in = (Bytef *)input;
    stream->zlib.avail_in = (uInt)count;
    stream->zlib.next_out = room;
    stream->zlib.avail_out = (uInt)size;
    int result = inflate(&stream->zlib, Z_NO_FLUSH);
    *taken = count - stream->zlib.avail_in;
    *filled = size - stream->zlib.avail_out;
    if (result == Z_STREAM_END) {
        stream->has_ended = 1;
        return CZLIB_END;
    }
    return result == Z_OK || result == Z_BUF_ERROR ? CZLIB_MORE : CZLIB_BROKEN;
}

int czlib_inflate(
    czlib_stream *stream, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    *taken = 0;
    *filled = 0;
    if (count > 1u << 30) count = 1u << 30;
    if (size > 1u << 30) size = 1u << 30;
    if (stream->has_ended) {
        if (count == 0) return CZLIB_END;
        if (!stream->is_gzip || inflateReset(&stream->zlib) != Z_OK) return CZLIB_BROKEN;
        stream->has_ended = 0;
    }
    if (stream->is_open) return run(stream, input, count, taken, room, size, filled);
    if (count == 0) return CZLIB_MORE;
    const unsigned char *bytes = input;
    if (stream->is_gzip) {
        if (inflateInit2(&stream->zlib, 15 + 16) != Z_OK) return CZLIB_BROKEN;
        stream->is_open = 1;
        return run(stream, input, count, taken, room, size, filled);
    }
    if (stream->first < 0) {
        stream->first = bytes[0];
        *taken = 1;
        return CZLIB_MORE;
    }
    // A zlib header is method 8 and a multiple of 31 (RFC 1950 §2.2); anything else is raw deflate.
    int is_framed = (stream->first & 0x0f) == 8 && (stream->first * 256 + bytes[0]) % 31 == 0;
    if (inflateInit2(&stream->zlib, is_framed ? 15 : -15) != Z_OK) return CZLIB_BROKEN;
    stream->is_open = 1;
    unsigned char first = (unsigned char)stream->first;
    size_t one = 0, none = 0;
    if (run(stream, &first, 1, &one, room, size, &none) != CZLIB_MORE || one != 1 || none != 0) return CZLIB_BROKEN;
    return run(stream, input, count, taken, room, size, filled);
}
