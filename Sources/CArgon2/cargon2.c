#include "cargon2.h"
#include <argon2.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

// A thread that hashes keeps its memory for the next hash: allocated anew each time, it would either cost its page faults or stay in the
// C library's arenas. The library wipes it after each hash.
typedef struct {
    uint8_t *bytes;
    size_t count;
} memory;

// More than hashes of the gateway's own cost take is given back at once.
static const size_t most_kept = 32 << 20;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void give_back(memory *kept) {
    if (kept->bytes) munmap(kept->bytes, kept->count);
    *kept = (memory){0};
}

static void end(void *kept) {
    give_back(kept);
    free(kept);
}

static void make_key(void) {
    if (pthread_key_create(&key, end)) abort();
}

static int allocate(uint8_t **bytes, size_t count) {
    pthread_once(&once, make_key);
    memory *kept = pthread_getspecific(key);
    if (!kept) {
        kept = calloc(1, sizeof *kept);
        if (!kept || pthread_setspecific(key, kept)) return free(kept), ARGON2_MEMORY_ALLOCATION_ERROR;
    }
    if (kept->count < count) {
        give_back(kept);
        void *found = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED) return ARGON2_MEMORY_ALLOCATION_ERROR;
        *kept = (memory){found, count};
    }
    *bytes = kept->bytes;
    return ARGON2_OK;
}

static void release(uint8_t *bytes, size_t count) {
    (void)bytes;
    if (count > most_kept) give_back(pthread_getspecific(key));
}

int cargon2_hash(
    cargon2_cost cost, const void *password, size_t password_count, const void *salt, size_t salt_count, void *tag,
    size_t tag_count) {
    argon2_context context = {
        .out = tag, .outlen = (uint32_t)tag_count, .pwd = (uint8_t *)password, .pwdlen = (uint32_t)password_count,
        .salt = (uint8_t *)salt, .saltlen = (uint32_t)salt_count, .t_cost = cost.passes, .m_cost = cost.kibibytes,
        .lanes = cost.lanes, .threads = cost.lanes, .version = ARGON2_VERSION_NUMBER, .allocate_cbk = allocate, .free_cbk = release,
        .flags = ARGON2_DEFAULT_FLAGS};
    return argon2id_ctx(&context) == ARGON2_OK;
}
