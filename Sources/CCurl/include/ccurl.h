#pragma once
// Documents and mail by libcurl: its setters are variadic, which Swift cannot call.
// No header of libcurl or of the system is included here: their types would be declared a second time beside those of
// the Glibc module.
#include <stddef.h>

// Takes `count` more bytes of an answer; any other result than `count` ends the transfer.
typedef size_t (*ccurl_receive)(const void *bytes, size_t count, void *context);

typedef struct {
    ccurl_receive receive;
    void *context;
} ccurl_receiver;

// Texts and bytes are copied.
typedef struct {
    const char *url;
    const char *agent;
    // The schemes that a redirect may lead to, separated by commas.
    const char *redirect_schemes;
    long redirects;
    long connect_milliseconds;
    long total_milliseconds;
    long largest_body;
    // What is sent by POST, and the header line with its media type; NULL for a GET.
    const void *body;
    size_t body_count;
    const char *body_type;
    // Whether it is never sent a second time: libcurl sends again what a kept connection lost, though it may have arrived.
    int is_sent_once;
} ccurl_request;

typedef struct {
    // smtp: or smtps: with host and port.
    const char *url;
    // NULL for none.
    const char *user;
    const char *password;
    // Whether mail goes by TLS or not at all; else by TLS where the server offers it.
    int demands_tls;
    // A PEM file with the authorities to trust; NULL for the system's.
    const char *authority_file;
    // Of the envelope.
    const char *from;
    const char *to;
    // Whole header lines without their ends, the last one followed by NULL. The parts bring what speaks of the body.
    const char *const *headers;
    // Two forms of the same body, their lines ended by CR LF.
    const char *text;
    const char *html;
    long connect_milliseconds;
    long answer_milliseconds;
    long total_milliseconds;
} ccurl_mail;

// Several transfers at a time, all on one thread. NULL without memory.
void *ccurl_group_new(void);
// All transfers must have been freed.
void ccurl_group_free(void *group);
// Ends the wait of the group; the one call allowed from another thread.
void ccurl_group_wake(void *group);
// Moves the transfers on as far as they go without waiting.
void ccurl_group_advance(void *group);
// Waits until one can be moved on, until woken, or for at most so long.
void ccurl_group_wait(void *group, int milliseconds);
// The next transfer that has ended and its outcome (0 for good), or NULL.
void *ccurl_group_next_ended(void *group, int *outcome);

// Begins a request by http or https, straight to the server and never through a proxy. NULL when libcurl refuses it.
void *ccurl_transfer_new(void *group, const ccurl_request *request, ccurl_receiver receiver);
// Begins to send a mail as multipart/alternative, straight to the server. NULL when libcurl refuses it.
void *ccurl_mail_new(void *group, const ccurl_mail *mail, ccurl_receiver receiver);
void ccurl_transfer_free(void *group, void *transfer);
// Of the last answer: its status, or 0.
long ccurl_transfer_status(void *transfer);
// The value of its first field of this name, or NULL; valid until the transfer is freed.
const char *ccurl_transfer_field(void *transfer, const char *name);
// What an outcome means, in words.
const char *ccurl_outcome_text(int outcome);
// Whether it means that user or password were not accepted.
int ccurl_outcome_is_login_denied(int outcome);
