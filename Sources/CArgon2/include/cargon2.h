// argon2id (RFC 9106) by libargon2.
//
// Includes no header of libargon2 or the system, whose types would be declared a second time beside those of the Glibc module.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t passes;
    uint32_t kibibytes;
    uint32_t lanes;
} cargon2_cost;

// Computes `tag`; 0 if a parameter is out of bounds or memory runs out. Starts a thread for each lane beyond the first.
int cargon2_hash(
    cargon2_cost cost, const void *password, size_t password_count, const void *salt, size_t salt_count, void *tag,
    size_t tag_count);
