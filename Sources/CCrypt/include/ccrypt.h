// bcrypt by libcrypt, in the one form that is used here.
//
// No header of libcrypt or of the system is included here: their types would be declared a second time beside those of the
// Glibc module.
#pragma once

// Bytes of a bcrypt hash and the NUL behind it.
#define CCRYPT_BCRYPT_SIZE 61

// Hashes `phrase`, of which at most 72 bytes count, with the cost and salt of the bcrypt hash `setting`; both end with a NUL.
// False where there is no memory, or libcrypt knows no such setting.
int ccrypt_bcrypt(const char *phrase, const char *setting, char out[CCRYPT_BCRYPT_SIZE]);
