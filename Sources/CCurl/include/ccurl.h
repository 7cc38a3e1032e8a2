#pragma once
// HTTP and SMTP transfers by libcurl, whose setters are variadic functions that Swift cannot call.
// Includes no header of libcurl or the system, whose types would be declared a second time beside those of the Glibc module.
#include <stddef.h>

// Receives `count` more bytes of a response; any result other than `count` aborts the transfer.
typedef size_t (*ccurl_receive)(const void *bytes, size_t count, void *context);

typedef struct {
    ccurl_receive receive;
    void *context;
} ccurl_receiver;

// Whether a connection to this address (4 or 16 bytes) may be opened.
typedef int (*ccurl_admit)(const void *address, size_t count);

// An HTTP request. Texts and bytes are copied.
typedef struct {
    const char *url;
    const char *agent;
    // The schemes that redirects may lead to, separated by commas.
    const char *redirect_schemes;
    long redirects;
    long connect_milliseconds;
    long total_milliseconds;
    long largest_body;
    // The body of a POST and its Content-Type header line; NULL for a GET.
    const void *body;
    size_t body_count;
    const char *body_type;
    // NULL-terminated further header lines.
    const char *const *fields;
    // Whether it must not be sent twice: libcurl otherwise resends it if a reused connection breaks.
    int is_sent_once;
    // The unix socket to connect to in place of the URL's host: a path, or an abstract name; both NULL for none.
    const char *unix_socket;
    const char *abstract_socket;
    // PEM file of the CAs for the server's certificate, in place of the system's; NULL for those.
    const char *authority_file;
    // PEM files of a client certificate and its key; both NULL for none.
    const char *client_certificate;
    const char *client_key;
    // Asked before each connection, so that a name cannot lead elsewhere; NULL: all addresses will do.
    ccurl_admit admit;
} ccurl_request;

typedef struct {
    // smtp: or smtps: with host and port.
    const char *url;
    // NULL for none.
    const char *user;
    const char *password;
    // Whether TLS is required; otherwise it is used if the server offers it.
    int demands_tls;
    // PEM file of the CAs for the server's certificate, in place of the system's; NULL for those.
    const char *authority_file;
    // The envelope's addresses.
    const char *from;
    const char *to;
    // NULL-terminated header lines without line ends; libcurl adds those of the MIME body.
    const char *const *headers;
    // The body as plain text and as HTML; lines end with CR LF. Without a text nothing is sent after the login.
    const char *text;
    const char *html;
    long connect_milliseconds;
    long answer_milliseconds;
    long total_milliseconds;
} ccurl_mail;

// A group of concurrent transfers (a multi handle) on one thread. NULL if memory runs out.
void *ccurl_group_new(void);
// Frees a group; all its transfers must have been freed.
void ccurl_group_free(void *group);
// Ends the group's wait; the only call that is allowed from other threads.
void ccurl_group_wake(void *group);
// Drives the transfers without waiting.
void ccurl_group_advance(void *group);
// Waits until a transfer can proceed, the group is woken, or the time is over.
void ccurl_group_wait(void *group, int milliseconds);
// The next transfer that has ended, and its outcome (0 for success); NULL for none.
void *ccurl_group_next_ended(void *group, int *outcome);

// Starts an HTTP request, never through a proxy. NULL if libcurl refuses it.
void *ccurl_transfer_new(void *group, const ccurl_request *request, ccurl_receiver receiver);
// Starts to send a mail as multipart/alternative, never through a proxy. NULL if libcurl refuses it.
void *ccurl_mail_new(void *group, const ccurl_mail *mail, ccurl_receiver receiver);
void ccurl_transfer_free(void *group, void *transfer);
// Frees a transfer that has not ended, without waiting for its server.
void ccurl_transfer_abandon(void *group, void *transfer);
// The status of the last response, or 0.
long ccurl_transfer_status(void *transfer);
// The value of the response's field of this name at the index, or NULL; valid until the transfer is freed.
const char *ccurl_transfer_field(void *transfer, const char *name, size_t index);
// The text of an outcome, which for TLS says what is wrong, as with the certificate; valid until the transfer is freed.
const char *ccurl_transfer_error(void *transfer, int outcome);
// Whether the outcome is that the server refused user or password.
int ccurl_outcome_is_login_denied(int outcome);
