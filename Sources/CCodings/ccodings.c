#include "ccodings.h"

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

// The memory of one stream, counted. What is freed is kept for the next stream, which asks for the same, where there is a place for it.
enum { MAX_KEPT = 24 };

typedef struct {
    size_t bytes;
    size_t *kept[MAX_KEPT];
} memory;

static void *take(void *context, size_t count) {
    memory *memory = context;
    for (int index = 0; index < MAX_KEPT; index++) {
        size_t *block = memory->kept[index];
        if (!block || *block < count || *block / 2 > count) continue;
        memory->kept[index] = NULL;
        return block + 2;
    }
    // Two words in front, so that blocks stay aligned; the first is the size.
    size_t *block = count < (size_t)1 << 40 ? malloc(count + 2 * sizeof *block) : NULL;
    if (!block) return NULL;
    *block = count;
    memory->bytes += count;
    return block + 2;
}

static void drop(memory *memory, size_t *block) {
    memory->bytes -= *block;
    free(block);
}

static void give(void *context, void *bytes) {
    memory *memory = context;
    if (!bytes) return;
    size_t *block = (size_t *)bytes - 2;
    for (int index = 0; index < MAX_KEPT; index++) {
        if (memory->kept[index]) continue;
        memory->kept[index] = block;
        return;
    }
    drop(memory, block);
}

static void drop_kept(memory *memory) {
    for (int index = 0; index < MAX_KEPT; index++) {
        if (memory->kept[index]) drop(memory, memory->kept[index]);
        memory->kept[index] = NULL;
    }
}

static voidpf take_for_zlib(voidpf context, uInt count, uInt size) { return take(context, (size_t)count * size); }

static void allocate_from(memory *memory, z_stream *zlib) {
    zlib->zalloc = take_for_zlib;
    zlib->zfree = give;
    zlib->opaque = memory;
}

static size_t at_most(size_t count) { return count < 1u << 30 ? count : 1u << 30; }

// MARK: decoding

struct ccodings_decoder {
    int coding;
    int is_open;
    int has_ended;
    // The first byte of a deflate stream, kept until the second one arrives.
    int first;
    z_stream zlib;
    BrotliDecoderState *brotli;
    ZSTD_DCtx *zstd;
    memory memory;
};

ccodings_decoder *ccodings_decoder_new(int coding) {
    ccodings_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return NULL;
    decoder->coding = coding;
    decoder->first = -1;
    allocate_from(&decoder->memory, &decoder->zlib);
    if (coding == CCODINGS_BROTLI) decoder->brotli = BrotliDecoderCreateInstance(take, give, &decoder->memory);
    if (coding == CCODINGS_ZSTD) {
        decoder->zstd = ZSTD_createDCtx();
        // No larger window than clients of the web need to know (RFC 9659).
        if (decoder->zstd) ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, 23);
    }
    if ((coding == CCODINGS_BROTLI && !decoder->brotli) || (coding == CCODINGS_ZSTD && !decoder->zstd)) {
        ccodings_decoder_free(decoder);
        return NULL;
    }
    return decoder;
}

void ccodings_decoder_free(ccodings_decoder *decoder) {
    if (!decoder) return;
    if (decoder->is_open) inflateEnd(&decoder->zlib);
    if (decoder->brotli) BrotliDecoderDestroyInstance(decoder->brotli);
    ZSTD_freeDCtx(decoder->zstd);
    drop_kept(&decoder->memory);
    free(decoder);
}

size_t ccodings_decoder_size(const ccodings_decoder *decoder) {
    return decoder->memory.bytes + (decoder->zstd ? ZSTD_sizeof_DCtx(decoder->zstd) : 0);
}

static int run_inflate(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    z_stream *zlib = &decoder->zlib;
    zlib->next_in = (Bytef *)input;
    zlib->avail_in = (uInt)count;
    zlib->next_out = room;
    zlib->avail_out = (uInt)size;
    int result = inflate(zlib, Z_NO_FLUSH);
    *taken = count - zlib->avail_in;
    *filled = size - zlib->avail_out;
    if (result == Z_STREAM_END) return CCODINGS_END;
    return result == Z_OK || result == Z_BUF_ERROR ? CCODINGS_MORE : CCODINGS_BROKEN;
}

static int decode_zlib(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    if (decoder->is_open) return run_inflate(decoder, input, count, taken, room, size, filled);
    if (count == 0) return CCODINGS_MORE;
    const unsigned char *bytes = input;
    if (decoder->coding == CCODINGS_GZIP) {
        if (inflateInit2(&decoder->zlib, 15 + 16) != Z_OK) return CCODINGS_BROKEN;
        decoder->is_open = 1;
        return run_inflate(decoder, input, count, taken, room, size, filled);
    }
    if (decoder->first < 0) {
        decoder->first = bytes[0];
        *taken = 1;
        return CCODINGS_MORE;
    }
    // A zlib header is method 8 and a multiple of 31 (RFC 1950 §2.2); anything else is raw deflate.
    int is_framed = (decoder->first & 0x0f) == 8 && (decoder->first * 256 + bytes[0]) % 31 == 0;
    if (inflateInit2(&decoder->zlib, is_framed ? 15 : -15) != Z_OK) return CCODINGS_BROKEN;
    decoder->is_open = 1;
    unsigned char first = (unsigned char)decoder->first;
    size_t one = 0, none = 0;
    if (run_inflate(decoder, &first, 1, &one, room, size, &none) != CCODINGS_MORE || one != 1 || none != 0) return CCODINGS_BROKEN;
    return run_inflate(decoder, input, count, taken, room, size, filled);
}

static int decode_brotli(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    const uint8_t *next_in = input;
    uint8_t *next_out = room;
    size_t in = count, out = size;
    BrotliDecoderResult result = BrotliDecoderDecompressStream(decoder->brotli, &in, &next_in, &out, &next_out, NULL);
    *taken = count - in;
    *filled = size - out;
    if (result == BROTLI_DECODER_RESULT_SUCCESS) return CCODINGS_END;
    return result == BROTLI_DECODER_RESULT_ERROR ? CCODINGS_BROKEN : CCODINGS_MORE;
}

static int decode_zstd(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    ZSTD_inBuffer in = {input, count, 0};
    ZSTD_outBuffer out = {room, size, 0};
    size_t left = ZSTD_decompressStream(decoder->zstd, &out, &in);
    *taken = in.pos;
    *filled = out.pos;
    if (ZSTD_isError(left)) return CCODINGS_BROKEN;
    return left == 0 ? CCODINGS_END : CCODINGS_MORE;
}

int ccodings_decode(
    ccodings_decoder *decoder, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    *taken = 0;
    *filled = 0;
    count = at_most(count);
    size = at_most(size);
    if (decoder->has_ended) {
        if (count == 0) return CCODINGS_END;
        if (decoder->coding == CCODINGS_GZIP ? inflateReset(&decoder->zlib) != Z_OK : decoder->coding != CCODINGS_ZSTD) {
            return CCODINGS_BROKEN;
        }
        decoder->has_ended = 0;
    }
    int result;
    switch (decoder->coding) {
        case CCODINGS_BROTLI: result = decode_brotli(decoder, input, count, taken, room, size, filled); break;
        case CCODINGS_ZSTD: result = decode_zstd(decoder, input, count, taken, room, size, filled); break;
        default: result = decode_zlib(decoder, input, count, taken, room, size, filled);
    }
    decoder->has_ended = result == CCODINGS_END;
    return result;
}

// MARK: encoding

// Levels and windows that were measured with lists of JSON of 20 and 220 KB: zlib's level 2 and Brotli's quality 4 take half as much time
// again for some per cent, and larger windows cost a multiple of the memory.
enum { GZIP_LEVEL = 1, GZIP_MEMORY = 7, BROTLI_QUALITY = 2, BROTLI_WINDOW = 16, ZSTD_LEVEL = 1, ZSTD_WINDOW = 15 };

struct ccodings_encoder {
    int coding;
    z_stream zlib;
    gz_header header;
    char name[256];
    BrotliEncoderState *brotli;
    ZSTD_CCtx *zstd;
    memory memory;
};

ccodings_encoder *ccodings_encoder_new(int coding) {
    ccodings_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) return NULL;
    encoder->coding = coding;
    memset(encoder->name, 'a', sizeof encoder->name - 1);
    int is_made = 0;
    if (coding == CCODINGS_GZIP) {
        allocate_from(&encoder->memory, &encoder->zlib);
        is_made = deflateInit2(&encoder->zlib, GZIP_LEVEL, Z_DEFLATED, 15 + 16, GZIP_MEMORY, Z_DEFAULT_STRATEGY) == Z_OK;
    } else if (coding == CCODINGS_ZSTD) {
        encoder->zstd = ZSTD_createCCtx();
        is_made = encoder->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL))
            && !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_windowLog, ZSTD_WINDOW));
    } else {
        is_made = coding == CCODINGS_BROTLI;
    }
    if (is_made) return encoder;
    ccodings_encoder_free(encoder);
    return NULL;
}

void ccodings_encoder_free(ccodings_encoder *encoder) {
    if (!encoder) return;
    if (encoder->coding == CCODINGS_GZIP) deflateEnd(&encoder->zlib);
    if (encoder->brotli) BrotliEncoderDestroyInstance(encoder->brotli);
    ZSTD_freeCCtx(encoder->zstd);
    drop_kept(&encoder->memory);
    free(encoder);
}

size_t ccodings_encoder_size(const ccodings_encoder *encoder) {
    return encoder->memory.bytes + (encoder->zstd ? ZSTD_sizeof_CCtx(encoder->zstd) : 0);
}

static int begin_brotli(ccodings_encoder *encoder) {
    // Brotli cannot reset an encoder, so a new one is made. Its memory is reused.
    if (encoder->brotli) BrotliEncoderDestroyInstance(encoder->brotli);
    encoder->brotli = BrotliEncoderCreateInstance(take, give, &encoder->memory);
    if (!encoder->brotli) return CCODINGS_BROKEN;
    BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
    BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
    return CCODINGS_END;
}

int ccodings_encoder_begin(ccodings_encoder *encoder, size_t name) {
    if (encoder->coding == CCODINGS_BROTLI) return begin_brotli(encoder);
    if (encoder->coding == CCODINGS_ZSTD) {
        return ZSTD_isError(ZSTD_CCtx_reset(encoder->zstd, ZSTD_reset_session_only)) ? CCODINGS_BROKEN : CCODINGS_END;
    }
    if (deflateReset(&encoder->zlib) != Z_OK) return CCODINGS_BROKEN;
    size_t longest = sizeof encoder->name - 1;
    memset(&encoder->header, 0, sizeof encoder->header);
    encoder->header.os = 255;
    if (name > 0) encoder->header.name = (Bytef *)encoder->name + (longest - (name < longest ? name : longest));
    return deflateSetHeader(&encoder->zlib, &encoder->header) == Z_OK ? CCODINGS_END : CCODINGS_BROKEN;
}

static int encode_gzip(
    ccodings_encoder *encoder, int step, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    static const int flushes[] = {Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH};
    z_stream *zlib = &encoder->zlib;
    zlib->next_in = (Bytef *)input;
    zlib->avail_in = (uInt)count;
    zlib->next_out = room;
    zlib->avail_out = (uInt)size;
    int result = deflate(zlib, flushes[step]);
    *taken = count - zlib->avail_in;
    *filled = size - zlib->avail_out;
    if (result != Z_OK && result != Z_BUF_ERROR && result != Z_STREAM_END) return CCODINGS_BROKEN;
    int is_done = step == CCODINGS_FINISH ? result == Z_STREAM_END : zlib->avail_out > 0;
    return is_done && zlib->avail_in == 0 ? CCODINGS_END : CCODINGS_MORE;
}

static int encode_brotli(
    ccodings_encoder *encoder, int step, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    static const BrotliEncoderOperation operations[] = {
        BROTLI_OPERATION_PROCESS, BROTLI_OPERATION_FLUSH, BROTLI_OPERATION_FINISH};
    const uint8_t *next_in = input;
    uint8_t *next_out = room;
    size_t in = count, out = size;
    if (!BrotliEncoderCompressStream(encoder->brotli, operations[step], &in, &next_in, &out, &next_out, NULL)) return CCODINGS_BROKEN;
    *taken = count - in;
    *filled = size - out;
    int is_done = step == CCODINGS_FINISH ? BrotliEncoderIsFinished(encoder->brotli) : !BrotliEncoderHasMoreOutput(encoder->brotli);
    return is_done && in == 0 ? CCODINGS_END : CCODINGS_MORE;
}

static int encode_zstd(
    ccodings_encoder *encoder, int step, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    static const ZSTD_EndDirective directives[] = {ZSTD_e_continue, ZSTD_e_flush, ZSTD_e_end};
    ZSTD_inBuffer in = {input, count, 0};
    ZSTD_outBuffer out = {room, size, 0};
    size_t left = ZSTD_compressStream2(encoder->zstd, &out, &in, directives[step]);
    *taken = in.pos;
    *filled = out.pos;
    if (ZSTD_isError(left)) return CCODINGS_BROKEN;
    return (step == CCODINGS_RUN || left == 0) && in.pos == count ? CCODINGS_END : CCODINGS_MORE;
}

int ccodings_encode(
    ccodings_encoder *encoder, int step, const void *input, size_t count, size_t *taken, void *room, size_t size, size_t *filled) {
    *taken = 0;
    *filled = 0;
    count = at_most(count);
    size = at_most(size);
    switch (encoder->coding) {
        case CCODINGS_BROTLI: return encode_brotli(encoder, step, input, count, taken, room, size, filled);
        case CCODINGS_ZSTD: return encode_zstd(encoder, step, input, count, taken, room, size, filled);
        default: return encode_gzip(encoder, step, input, count, taken, room, size, filled);
    }
}
