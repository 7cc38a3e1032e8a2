// argon2id (RFC 9106) by libargon2, in the one form that is used here.
//
// No header of libargon2 or of the system is included here: their types would be declared a second time beside those of
// the Glibc module.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t passes;
    uint32_t kibibytes;
    uint32_t lanes;
} cargon2_cost;

// Fills `tag`; false when a bound of the RFC is broken or there is no memory. One thread for each lane beyond the first.
int cargon2_hash(
    cargon2_cost cost, const void *password, size_t password_count, const void *salt, size_t salt_count, void *tag,
    size_t tag_count);
