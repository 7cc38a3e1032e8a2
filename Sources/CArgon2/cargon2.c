#include "cargon2.h"
#include <argon2.h>

int cargon2_hash(
    cargon2_cost cost, const void *password, size_t password_count, const void *salt, size_t salt_count, void *tag,
    size_t tag_count) {
    return argon2id_hash_raw(
               cost.passes, cost.kibibytes, cost.lanes, password, password_count, salt, salt_count, tag, tag_count)
        == ARGON2_OK;
}
