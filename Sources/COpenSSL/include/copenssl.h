// OpenSSL 3, and the macros that Swift does not import as inline functions.
#pragma once
// No _GNU_SOURCE: the system's types must be those of the Glibc module, which is made without it.
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include "tls.h"

// How a name is printed on one line by RFC 2253, with what is not printable ASCII escaped.
static inline unsigned long copenssl_name_flags(void) { return XN_FLAG_RFC2253; }
