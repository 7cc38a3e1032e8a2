// libssl's macros as functions. Each is the macro and nothing more, but where a comment says what.
#pragma once
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

typedef int (*tls_server_name_callback)(SSL *, int *, void *);

static inline void tls_on_server_name(SSL_CTX *context, tls_server_name_callback callback) {
    SSL_CTX_set_tlsext_servername_callback(context, callback);
}

static inline int tls_set_versions(SSL_CTX *context, int lowest, int highest) {
    return SSL_CTX_set_min_proto_version(context, lowest) && SSL_CTX_set_max_proto_version(context, highest);
}

static inline void tls_set_mode(SSL_CTX *context) {
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
static inline void tls_set_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
}
static inline void tls_prefer_own_ciphers(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
}
static inline void tls_set_session_cache_off(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}
static inline void tls_set_read_ahead(SSL_CTX *context) { SSL_CTX_set_read_ahead(context, 1); }
static inline int tls_set_groups(SSL_CTX *context, const char *list) {
    return (int)SSL_CTX_set1_groups_list(context, list);
}
static inline int tls_add_chain(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}
static inline int tls_set_server_name(SSL *session, const char *name) {
    return (int)SSL_set_tlsext_host_name(session, name);
}
// What OpenSSL's callback for tickets must do with both contexts; each key is 32 bytes long, `iv` 16.
static inline int tls_use_ticket_key(EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const unsigned char *cipher_key,
                                     const unsigned char *mac_key, const unsigned char *iv, int seals) {
    OSSL_PARAM parameters[3] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)mac_key, 32),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, cipher_key, iv, seals) == 1 &&
           EVP_MAC_CTX_set_params(mac, parameters) == 1;
}
static inline int tls_host_flags(void) { return X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS; }
static inline int tls_host_flag_exact(void) { return X509_CHECK_FLAG_NO_WILDCARDS; }
// Whether an error only says that no further PEM block follows.
static inline int tls_error_is_pem_end(unsigned long code) {
    return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}
