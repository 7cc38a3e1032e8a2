// libssl's macros as functions, without any logic unless a comment says so.
#pragma once
#include <string.h>
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
// Initialises the contexts of OpenSSL's ticket callback. Each key has 32 bytes, `iv` 16.
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
// Whether a list of the CA that issued `anchor` holds now and does not name it. The list is verified if that CA is configured too.
static inline int tls_anchor_passes(X509_STORE_CTX *context, X509 *anchor, STACK_OF(X509_CRL) *lists) {
    X509 *issuer = NULL;
    int passes = 0, is_revoked = 0;
    X509_STORE_CTX_get1_issuer(&issuer, context, anchor);
    for (int index = 0; index < sk_X509_CRL_num(lists); index++) {
        X509_CRL *list = sk_X509_CRL_value(lists, index);
        X509_REVOKED *entry = NULL;
        const ASN1_TIME *end = X509_CRL_get0_nextUpdate(list);
        if (X509_cmp_current_time(X509_CRL_get0_lastUpdate(list)) >= 0 || (end && X509_cmp_current_time(end) <= 0)) continue;
        if (issuer && X509_CRL_verify(list, X509_get0_pubkey(issuer)) != 1) continue;
        passes = 1;
        if (X509_CRL_get0_by_cert(list, &entry, anchor) == 1) is_revoked = 1;
    }
    X509_free(issuer);
    return passes && !is_revoked;
}
// A certificate whose issuer has no list of revoked ones passes. One with a list that cannot be used, as after its end, does not. The
// chain may end at an intermediate certificate, which is trusted as it is configured: OpenSSL cannot verify a list of its issuer.
static inline int tls_verified(int passes, X509_STORE_CTX *context) {
    if (passes) return passes;
    int error = X509_STORE_CTX_get_error(context);
    X509 *certificate = X509_STORE_CTX_get_current_cert(context);
    int is_last = X509_STORE_CTX_get_error_depth(context) == sk_X509_num(X509_STORE_CTX_get0_chain(context)) - 1;
    int is_anchor = is_last && certificate && !(X509_get_extension_flags(certificate) & EXFLAG_SI);
    int lacks_signer = error == X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER || error == X509_V_ERR_CRL_SIGNATURE_FAILURE ||
                       error == X509_V_ERR_KEYUSAGE_NO_CRL_SIGN || error == X509_V_ERR_CRL_PATH_VALIDATION_ERROR;
    if (!certificate || (error != X509_V_ERR_UNABLE_TO_GET_CRL && !(is_anchor && lacks_signer))) return 0;
    STACK_OF(X509_CRL) *lists = X509_STORE_CTX_get1_crls(context, X509_get_issuer_name(certificate));
    int has_none = !lists || sk_X509_CRL_num(lists) == 0;
    passes = has_none || (is_anchor && tls_anchor_passes(context, certificate, lists));
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    if (!passes) return 0;
    // Failed verifications leave errors behind, which would count as those of the session.
    ERR_clear_error();
    X509_STORE_CTX_set_error(context, X509_V_OK);
    return 1;
}
// Requests client certificates, which are optional but must chain to a certificate of `authorities`.
static inline int tls_ask_clients(SSL_CTX *context, X509_STORE *authorities) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, tls_verified);
    return (int)SSL_CTX_set1_verify_cert_store(context, authorities);
}
// Has each certificate of a chain looked up in the list of revoked ones of its issuer.
static inline void tls_check_lists(X509_STORE *authorities) {
    X509_STORE_set_flags(authorities, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
}
// Whether a list of revoked certificates has the peer's, or one above it.
static inline int tls_revokes(X509_CRL *list, SSL *session) {
    X509_REVOKED *entry = NULL;
    X509 *leaf = SSL_get0_peer_certificate(session);
    if (leaf && X509_CRL_get0_by_cert(list, &entry, leaf) == 1) return 1;
    STACK_OF(X509) *chain = SSL_get0_verified_chain(session);
    for (int index = 1; index < sk_X509_num(chain); index++)
        if (X509_CRL_get0_by_cert(list, &entry, sk_X509_value(chain, index)) == 1) return 1;
    return 0;
}
// A resumed session reuses the client's certificate without verifying it again. Forces a full handshake, which refuses it, if
// it has expired, and with `context` always: it may have been revoked.
static inline SSL_TICKET_RETURN tls_judge_ticket(SSL *session, SSL_SESSION *resumed, const unsigned char *name,
                                                 size_t name_count, SSL_TICKET_STATUS status, void *context) {
    (void)session, (void)name, (void)name_count;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) return SSL_TICKET_RETURN_IGNORE_RENEW;
    X509 *certificate = SSL_SESSION_get0_peer(resumed);
    if (certificate && (context || X509_cmp_time(X509_get0_notAfter(certificate), NULL) != 1 ||
                        X509_cmp_time(X509_get0_notBefore(certificate), NULL) != -1))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}
static inline int tls_judge_tickets(SSL_CTX *context, int has_lists) {
    return SSL_CTX_set_session_ticket_cb(context, NULL, tls_judge_ticket, has_lists ? context : NULL);
}
typedef void (*tls_name_receiver)(const unsigned char *bytes, int count, int is_uri, void *context);
// Calls back with the DNS names and URIs of a certificate's subject alternative name.
static inline void tls_each_name(X509 *certificate, tls_name_receiver receive, void *context) {
    GENERAL_NAMES *names = (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int index = 0; index < sk_GENERAL_NAME_num(names); index++) {
        GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
        if (name->type != GEN_DNS && name->type != GEN_URI) continue;
        ASN1_IA5STRING *text = name->type == GEN_DNS ? name->d.dNSName : name->d.uniformResourceIdentifier;
        receive(ASN1_STRING_get0_data(text), ASN1_STRING_length(text), name->type == GEN_URI, context);
    }
    GENERAL_NAMES_free(names);
}
static inline int tls_host_flags(void) { return X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS; }
static inline int tls_host_flag_exact(void) { return X509_CHECK_FLAG_NO_WILDCARDS; }
// Whether an error means only that there is no further PEM block.
static inline int tls_error_is_pem_end(unsigned long code) {
    return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}
static inline STACK_OF(X509) *tls_stack_new(void) { return sk_X509_new_null(); }
static inline int tls_stack_push(STACK_OF(X509) *stack, X509 *certificate) { return sk_X509_push(stack, certificate); }
// Frees the stack, not its certificates.
static inline void tls_stack_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
// ALPN's list of the one protocol in which a challenge is asked for (RFC 8737 §3).
#define TLS_CHALLENGE_PROTOCOL "\012acme-tls/1"
// Whether the client offers that protocol alone. In the callback for the client's hello: later its extensions have been read.
static inline int tls_offers_only_challenge(SSL *session) {
    const unsigned char *bytes = NULL;
    size_t count = 0;
    static const unsigned char wanted[] = "\000\013" TLS_CHALLENGE_PROTOCOL;
    return SSL_client_hello_get0_ext(session, TLSEXT_TYPE_application_layer_protocol_negotiation, &bytes, &count) == 1 &&
           count == sizeof wanted - 1 && memcmp(bytes, wanted, count) == 0;
}
static inline int tls_chose_challenge(SSL *session, const unsigned char **chosen, unsigned char *count,
                                      const unsigned char *offered, unsigned offered_count, void *context) {
    (void)session, (void)context;
    static const unsigned char own[] = TLS_CHALLENGE_PROTOCOL;
    int result = SSL_select_next_proto((unsigned char **)chosen, count, own, sizeof own - 1, offered, offered_count);
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}
// Sessions that continue in this context speak the protocol of challenges.
static inline void tls_select_challenge(SSL_CTX *context) { SSL_CTX_set_alpn_select_cb(context, tls_chose_challenge, NULL); }
// Whether the session speaks it: it has been answered by its certificate, and nothing else follows.
static inline int tls_is_challenge(SSL *session) {
    const unsigned char *name = NULL;
    unsigned count = 0;
    SSL_get0_alpn_selected(session, &name, &count);
    return count == 10 && memcmp(name, &TLS_CHALLENGE_PROTOCOL[1], count) == 0;
}
