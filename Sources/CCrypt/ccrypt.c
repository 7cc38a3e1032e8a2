#include "ccrypt.h"
#include <crypt.h>
#include <stdlib.h>
#include <string.h>

int ccrypt_bcrypt(const char *phrase, const char *setting, char out[CCRYPT_BCRYPT_SIZE]) {
    // 32 KiB, too much for a thread's stack to be sure of.
    struct crypt_data *data = calloc(1, sizeof *data);
    if (data == NULL) return 0;
    const char *made = crypt_rn(phrase, setting, data, sizeof *data);
    int is_made = made != NULL && strlen(made) == CCRYPT_BCRYPT_SIZE - 1;
    if (is_made) memcpy(out, made, CCRYPT_BCRYPT_SIZE);
    explicit_bzero(data, sizeof *data);
    free(data);
    return is_made;
}
