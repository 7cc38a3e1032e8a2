// OpenSSL 3, and inline functions for macros that Swift does not import.
#pragma once
// Without _GNU_SOURCE, so that the system's types are those of the Glibc module, which is built without it.
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

// The flags to print a name on one line (RFC 2253), with everything but printable ASCII escaped.
static inline unsigned long copenssl_name_flags(void) { return XN_FLAG_RFC2253; }
